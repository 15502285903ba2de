"""Apache Kafka's on-disk logs as Arrow, without a broker."""

from kafkalog._core import __version__

__all__ = ["__version__"]
