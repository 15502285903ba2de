"""A topic's settings.

The names are Kafka's with underscores for dots; defaults and bounds are those of Kafka 4.3. The compiled module checks
them, with Kafka's messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LogConfig"]

_INT64_MAX = (1 << 63) - 1
# Since 4.1 Kafka refuses to create topics with smaller segments, but serves them; its own tests set another name.
LEAST_SEGMENT, _LEAST_EVER = 1 << 20, 14


@dataclass(frozen=True, kw_only=True)
class LogConfig:
    """A topic's settings: how its log is written, kept and compacted.

    Frozen, comparable and picklable. Settings that are not given have Kafka's defaults.

    Parameters
    ----------
    segment_bytes : int
        ``segment.bytes``: the size of a ``.log`` file before the next one is started. Kafka 4.3 refuses to create a
        topic with less than 1 MiB, but serves smaller segments; here the minimum is 14.
    segment_ms : int
        ``segment.ms``: age in milliseconds at which a segment is rolled.
    segment_jitter_ms : int
        ``segment.jitter.ms``: the largest random delay by which a segment is rolled earlier.
    segment_index_bytes : int
        ``segment.index.bytes``: length of the offset and time indexes of the active segment.
    index_interval_bytes : int
        ``index.interval.bytes``: bytes between two index entries.
    flush_messages : int
        ``flush.messages``: number of records after which the log is flushed to disk; 1 flushes after every append.
    flush_ms : int
        ``flush.ms``: milliseconds after which the log is flushed to disk.
    retention_bytes, retention_ms : int
        ``retention.bytes`` and ``retention.ms``: size and age above which old segments may be deleted; -1 for never.
    max_message_bytes : int
        ``max.message.bytes``: the largest batch that is accepted, after compression, with its header.
    cleanup_policy : str
        ``cleanup.policy``: ``delete``, ``compact``, both separated by a comma, or empty.
    delete_retention_ms : int
        ``delete.retention.ms``: how long tombstones are kept after a compaction.
    min_compaction_lag_ms, max_compaction_lag_ms : int
        ``min.compaction.lag.ms`` and ``max.compaction.lag.ms``.
    min_cleanable_dirty_ratio : float
        ``min.cleanable.dirty.ratio``: 0 to 1.
    file_delete_delay_ms : int
        ``file.delete.delay.ms``: how long deleted files are kept, renamed.
    compression_type : str
        ``compression.type``: ``producer`` (batches stay as they are; Arrow data is not compressed), ``uncompressed``,
        ``gzip``, ``snappy``, ``lz4`` or ``zstd``.
    compression_gzip_level, compression_lz4_level, compression_zstd_level : int
        ``compression.gzip.level`` (1 to 9, -1 for zlib's own), ``compression.lz4.level`` (1 to 17) and
        ``compression.zstd.level`` (-131072 to 22).
    preallocate : bool
        ``preallocate``: create a new ``.log`` with its full length.
    message_timestamp_type : str
        ``message.timestamp.type``: ``CreateTime`` or ``LogAppendTime``.
    message_timestamp_before_max_ms, message_timestamp_after_max_ms : int
        ``message.timestamp.before.max.ms`` and ``message.timestamp.after.max.ms``: how far a timestamp may
        be before and after the clock.
    unclean_leader_election_enable, min_insync_replicas : bool, int
        ``unclean.leader.election.enable`` and ``min.insync.replicas``: kept; they do not affect files.
    leader_replication_throttled_replicas, follower_replication_throttled_replicas : str
        Kept; they do not affect files.
    remote_storage_enable, remote_log_copy_disable, remote_log_delete_on_disable : bool
        Kept; nothing is written to tiered storage.
    local_retention_ms, local_retention_bytes : int
        Kept; -2 means the same as ``retention_ms`` and ``retention_bytes``.

    Raises
    ------
    ValueError
        When a value is outside Kafka's bounds, or two values contradict each other.

    Examples
    --------
    >>> kafkalog.LogConfig(compression_type="zstd", segment_bytes=64 << 20).segment_ms
    604800000
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    flush_messages: int = _INT64_MAX
    flush_ms: int = _INT64_MAX
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    max_message_bytes: int = 1_048_588
    cleanup_policy: str = "delete"
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _INT64_MAX
    min_cleanable_dirty_ratio: float = 0.5
    file_delete_delay_ms: int = 60_000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    preallocate: bool = False
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = _INT64_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    unclean_leader_election_enable: bool = False
    min_insync_replicas: int = 1
    leader_replication_throttled_replicas: str = ""
    follower_replication_throttled_replicas: str = ""
    remote_storage_enable: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    local_retention_ms: int = -2
    local_retention_bytes: int = -2

    def __post_init__(self) -> None:
        for field in fields(self):
            _require(field.name, str(field.type), getattr(self, field.name))
        _core.check_config(pairs(self))

    @classmethod
    def from_kafka(cls, settings: Mapping[str, object]) -> Self:
        """Create one from Kafka's own names and texts, as in a properties file or the output of ``kafka-configs``.

        For instance ``{"segment.bytes": "1048576"}``; numbers and booleans are accepted as well. An unknown name, or a
        value outside its bounds, is a ValueError.
        """
        types = {field.name: str(field.type) for field in fields(cls)}
        found: dict[str, Any] = {}
        for name, text in settings.items():
            if not isinstance(name, str):
                raise TypeError(f"config must have Kafka's names of settings, not {name!r}")
            known = name.replace(".", "_")
            if known in found:
                raise ValueError(f"topic setting {name!r} is given twice, in two spellings; remove one")
            if known not in types:
                dotted = [each.replace("_", ".") for each in types]
                raise ValueError(f"unknown topic setting {name!r}{_arguments.did_you_mean(name, dotted)}")
            found[known] = _PARSERS[types[known]](name, _text(text))
        return cls(**found)

    def to_kafka(self) -> dict[str, str]:
        """Return the settings that differ from the defaults, as :meth:`from_kafka` takes them."""
        changed = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                changed[field.name.replace("_", ".")] = _text(value)
        return changed


Config = LogConfig | Mapping[str, object] | None
"""Settings: an object, a mapping of Kafka's names to values, or those that are known or Kafka's defaults."""


def as_config(config: Config) -> LogConfig:
    """Return settings as a ``LogConfig``: from one, from a mapping of Kafka's names to values, or Kafka's defaults."""
    if config is None:
        return LogConfig()
    if isinstance(config, Mapping):
        return LogConfig.from_kafka(config)
    if not isinstance(config, LogConfig):
        raise TypeError(f"config must be a LogConfig or a mapping of Kafka's names to values, not {config!r}")
    return config


def pairs(config: Config) -> list[tuple[str, str]]:
    """Return every setting as the compiled module takes it."""
    config = as_config(config)
    given = {field.name: _text(getattr(config, field.name)) for field in fields(config)}
    if config.segment_bytes < _LEAST_EVER:
        # The compiled module would check Kafka's bound for new topics.
        text = f"Invalid value {config.segment_bytes} for configuration segment_bytes: Value must be at least"
        raise ValueError(f"{text} {_LEAST_EVER}")
    if config.segment_bytes < LEAST_SEGMENT:
        given["internal_segment_bytes"] = given.pop("segment_bytes")
    return list(given.items())


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _require(name: str, kind: str, value: Any) -> None:
    if kind == "int":
        _arguments.integer(name, value)
    elif kind == "float":
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{name} must be a number, not {value!r}")
    elif kind == "bool":
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, not {value!r}")
    elif not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {value!r}")


def _number(name: str, text: str) -> int:
    # int() would accept underscores as well.
    if not re.fullmatch(r"\s*[+-]?\d+\s*", text):
        raise ValueError(f"{name} must be a whole number, not {text!r}")
    return int(text)


def _ratio(name: str, text: str) -> float:
    # As Double.valueOf, except for hexadecimal numbers.
    if not re.fullmatch(r"\s*[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)\s*", text, re.ASCII):
        raise ValueError(f"{name} must be a number, not {text!r}")
    return float(text.strip().rstrip("fFdD"))


def _flag(name: str, text: str) -> bool:
    if text.strip().lower() not in {"true", "false"}:
        raise ValueError(f"{name} must be true or false, not {text!r}")
    return text.strip().lower() == "true"


_PARSERS: dict[str, Any] = {"int": _number, "float": _ratio, "bool": _flag, "str": lambda _, text: text}
