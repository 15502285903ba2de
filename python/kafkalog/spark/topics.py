"""Topics and partitions of a read: ``assign``, ``subscribe``, ``subscribePattern``, and those that are gone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog._patterns import compiled, matching
from kafkalog._reprs import short_list
from kafkalog.errors import OffsetOutOfRangeError

if TYPE_CHECKING:
    import re
    from collections.abc import Collection, Iterable, Sequence

    from kafkalog.spark.source_options import SourceOptions

_log = logging.getLogger("kafkalog.spark")

# Longer runs of partition numbers are abbreviated in messages.
_MAX_SHOWN = 3
_MATCHES_NO_TOPIC = "[^\\s\\S]"


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionBounds(NamedTuple):
    """The offsets that a partition folder holds: the end is exclusive."""

    folder: str
    topic: str
    partition: int
    start: int
    end: int


def partition_arguments(options: SourceOptions) -> dict[str, Any]:
    """Return the arguments of ``_core.plan`` and ``_core.bounds`` that select partitions."""
    topics, pattern = list(options.assign or options.topics or ()), options.read.topic_pattern
    if options.java_pattern is not None:
        topics = _matching_topics(options, compiled(options.java_pattern))
        pattern = None if topics else _MATCHES_NO_TOPIC
    return {
        "topics": topics or None,
        "topic_pattern": pattern,
        "partitions": options.assign,
        "include_inactive": options.read.include_inactive,
        "allow_missing": not options.fail_on_data_loss,
    }


def _matching_topics(options: SourceOptions, pattern: re.Pattern[str]) -> list[str]:
    from kafkalog import _core

    planned = _core.plan(list(options.paths), topic_pattern=".*", include_inactive=options.read.include_inactive)
    return matching(pattern, (each.topic for each in planned), whole=False)


def partition_bounds(options: SourceOptions, **given: Any) -> list[PartitionBounds]:
    """Look up the offsets of every selected partition; this reads the batch headers of active segments."""
    from kafkalog import _core

    arguments = {"isolation_level": options.read.isolation_level, **partition_arguments(options), **given}
    return [PartitionBounds(*each) for each in _core.bounds(list(options.paths), **arguments)]


def report_missing(options: SourceOptions, found: Iterable[tuple[str, int]]) -> None:
    """Report topics and partitions that the options name and the log dirs lack."""
    partitions = set(found)
    topics = {topic for topic, _ in partitions}
    missing = [topic for topic in options.topics or () if topic not in topics]
    for topic, numbers in (options.assign or {}).items():
        missing += [f"{topic}-{number}" for number in numbers if (topic, number) not in partitions]
    if missing:
        report_data_loss(f"not in the log dirs: {', '.join(missing[:10])}", fail=options.fail_on_data_loss)


def format_numbers(partitions: Collection[int]) -> str:
    """Format numbers of partitions for a message."""
    first, last, number = min(partitions), max(partitions), len(partitions)
    if number == 1:
        return f"partition {first}"
    if number > _MAX_SHOWN and last - first + 1 == number:
        return f"partitions {first} to {last}"
    *most, _ = map(str, sorted(partitions))
    return f"partitions {', '.join(most)} and {last}"


def format_partitions(partitions: Sequence[tuple[str, int]]) -> str:
    """Format partitions for a message."""
    return short_list([f"{topic}-{partition}" for topic, partition in partitions], 10)


def report_data_loss(text: str, *, fail: bool, path: str | None = None, offset: int | None = None) -> None:
    """Report missing records."""
    if fail:
        raise OffsetOutOfRangeError(
            f"{text}; set failOnDataLoss=false to continue without these records", path=path, offset=offset
        )
    # Where logging is not configured, a driver's log shows no logger names: the message carries ours.
    _log.warning("kafkalog: data loss: %s", text)
