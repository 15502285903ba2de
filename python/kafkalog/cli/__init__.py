"""The commands: one file each, dispatched by :mod:`kafkalog.cli.main`."""
