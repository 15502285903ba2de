"""Our settings have the names and defaults of Kafka's own class."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from kafkalog import LogConfig

if TYPE_CHECKING:
    from interop.broker import Witness

pytestmark = pytest.mark.interop

# Both sides of every bound, every type, and spellings that Python and Java parse differently.
TEXTS = [
    *("-131073", "-131072", "-3", "-2", "-1", "0", "1", "3", "4", "9", "10", "17", "18", "22", "23", "1048576"),
    *("2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *("", " 5 ", "+5", "1_000", "0x10", "abc", "0.5", "1.0", "1.1", "-0.1", "1e0", ".5", "0.5f", "1d", "5L"),
    *("NaN", "nan", "Infinity", "-0.0", "\u0661", "true", "TRUE", " true", "yes", "none", "gzip", " gzip ", "Gzip"),
    *("compact", "Compact", "delete,compact", "compact, delete", "compact,compact", "compact,,delete", ","),
    *("CreateTime", "LogAppendTime", "createtime", "NoTimestampType", "*", "0:0", "0:0,1:1", "0:0,", "a:b", "*,0:1"),
]


def test_names_and_defaults(witness: Witness) -> None:
    theirs = {
        name: ",".join(value) if isinstance(value, list) else value
        for name, value in json.loads(witness.run("settings")).items()
    }
    ours = {field.name.replace("_", "."): field.default for field in fields(LogConfig)}
    assert ours == theirs
    assert LogConfig.from_kafka({name: str(value) for name, value in theirs.items()}) == LogConfig()


def is_taken(setting: str) -> bool:
    name, _, text = setting.partition("=")
    try:
        LogConfig.from_kafka({name: text})
    except ValueError:
        return False
    return True


def test_bounds_and_spellings(witness: Witness) -> None:
    """Values that Kafka's own class accepts and refuses; only segments may be smaller here."""
    names = [field.name.replace("_", ".") for field in fields(LogConfig) if field.name != "segment_bytes"]
    settings = [f"{name}={text}" for name in names for text in TEXTS]
    theirs = [line == "true" for line in witness.run("take", *settings).splitlines()]
    assert 0 < sum(theirs) < len(settings)
    wrong = [setting for setting, is_theirs in zip(settings, theirs, strict=True) if is_taken(setting) != is_theirs]
    assert wrong == []
