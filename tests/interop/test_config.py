"""Our settings are Kafka's: names and defaults, as its own class gives them."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from kafkalog import LogConfig

if TYPE_CHECKING:
    from interop.broker import Witness

pytestmark = pytest.mark.interop


def test_names_and_defaults(witness: Witness) -> None:
    theirs = {
        name: ",".join(value) if isinstance(value, list) else value
        for name, value in json.loads(witness.run("settings")).items()
    }
    ours = {field.name.replace("_", "."): field.default for field in fields(LogConfig)}
    assert ours == theirs
    assert LogConfig.from_kafka({name: str(value) for name, value in theirs.items()}) == LogConfig()
