"""``python -m kafkalog``: the command line."""

from kafkalog.cli.main import run

if __name__ == "__main__":
    run()
