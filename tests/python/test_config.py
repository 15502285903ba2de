"""``LogConfig``: a value, within Kafka's bounds (names and defaults are held against Kafka in tests/interop)."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest

from kafkalog import LogConfig


def test_is_a_value() -> None:
    config = LogConfig(segment_bytes=1 << 20, compression_type="zstd", cleanup_policy="compact,delete")
    assert pickle.loads(pickle.dumps(config)) == copy.copy(config) == config  # noqa: S301 - our own
    assert hash(config) == hash(replace(config))
    assert config != LogConfig()
    with pytest.raises(FrozenInstanceError):
        config.segment_bytes = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("segment_bytes", 13, "Invalid value 13 for configuration segment_bytes: Value must be at least 14"),
        ("segment_bytes", 1 << 31, "Not a number of type INT"),
        ("segment_ms", 0, "at least 1"),
        ("segment_index_bytes", 3, "at least 4"),
        ("index_interval_bytes", -1, "at least 0"),
        ("flush_messages", 0, "at least 1"),
        ("retention_ms", -2, "at least -1"),
        ("max_message_bytes", -1, "at least 0"),
        ("cleanup_policy", "purge", "String must be one of: compact, delete"),
        ("compression_type", "none", "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"),
        ("compression_gzip_level", 0, "between 1 and 9"),
        ("compression_lz4_level", 18, "no more than 17"),
        ("compression_zstd_level", 23, "no more than 22"),
        ("message_timestamp_type", "AppendTime", "CreateTime, LogAppendTime"),
        ("min_cleanable_dirty_ratio", 1.5, "no more than 1"),
        ("min_compaction_lag_ms", (1 << 63) - 1, None),
    ],
)
def test_bounds(setting: str, value: Any, said: str | None) -> None:
    if said is None:
        LogConfig(**{setting: value})
        return
    with pytest.raises(ValueError, match=said):
        LogConfig(**{setting: value})


def test_settings_that_contradict_each_other() -> None:
    with pytest.raises(ValueError, match="conflict"):
        LogConfig(min_compaction_lag_ms=10, max_compaction_lag_ms=9)


def test_segments_below_kafkas_bound_are_taken() -> None:
    assert LogConfig(segment_bytes=14).segment_bytes == 14


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("segment_bytes", "1048576"),
        ("segment_bytes", 1048576.0),
        ("segment_ms", True),
        ("preallocate", 1),
        ("compression_type", None),
        ("min_cleanable_dirty_ratio", "0.5"),
    ],
)
def test_types(setting: str, value: Any) -> None:
    with pytest.raises(TypeError, match=setting):
        LogConfig(**{setting: value})


def test_kafkas_names_and_texts() -> None:
    config = LogConfig.from_kafka({"segment.bytes": "2097152", "preallocate": "true", "min.cleanable.dirty.ratio": "1"})
    assert (config.segment_bytes, config.preallocate, config.min_cleanable_dirty_ratio) == (2_097_152, True, 1.0)
    assert LogConfig.from_kafka(config.to_kafka()) == config
    assert LogConfig().to_kafka() == {}
    with pytest.raises(ValueError, match=r"did you mean 'segment\.bytes'"):
        LogConfig.from_kafka({"segment.byte": "1"})
    for name, text in (("segment.ms", "soon"), ("preallocate", "yes"), ("min.cleanable.dirty.ratio", "half")):
        with pytest.raises(ValueError, match=name):
            LogConfig.from_kafka({name: text})


def test_every_setting_is_documented() -> None:
    assert all(field.name in (LogConfig.__doc__ or "") for field in fields(LogConfig))
