"""The table of message definitions beside those in Kafka's jars."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interop import messages

if TYPE_CHECKING:
    from interop.broker import Witness

pytestmark = [pytest.mark.interop, pytest.mark.full]


def known() -> dict[tuple[str, str], messages.Message]:
    return messages.read(messages.TABLE.read_text(encoding="utf-8"))


def test_the_table_reads_all_that_kafka_writes(witness: Witness) -> None:
    """A newer Kafka with more messages, versions or fields fails here: then the table is written anew."""
    jars = [Path(each) for each in witness.class_path.split(":") if Path(each).name.startswith("kafka-")]
    theirs = messages.collect(jars)
    assert {family for family, _ in theirs} == {*messages.FAMILIES.values(), *messages.DATA.values()}
    assert len(theirs) > 80
    assert messages.lacks(known(), theirs) == []


def test_configurations_that_are_no_secrets(witness: Witness) -> None:
    """Those that Kafka knows, and no others."""
    said = subprocess.run(
        ["java", "-cp", witness.class_path, str(messages.ROOT / "tests" / "interop" / "Configs.java")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    lines = (messages.ROOT / "src" / "tables" / "configs.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#")] == said.stdout.splitlines()


def test_what_the_table_lacks_is_named(witness: Witness) -> None:
    jars = [Path(each) for each in witness.class_path.split(":") if Path(each).name.startswith("kafka-")]
    theirs = messages.collect(jars)
    text = messages.table(theirs)
    assert messages.lacks(messages.read(text), theirs) == []
    for line, without in (
        ("group 1 OffsetCommitValue 0-4 4+", "group 1 OffsetCommitValue 0-3 4+"),
        ("  topicId uuid 4+ @0\n", ""),
        ("  leaderEpoch int32 3+", "  leaderEpoch int64 3+"),
        ("  protocol string ?", "  protocol string"),
    ):
        assert line in text
        assert messages.lacks(messages.read(text.replace(line, without, 1)), theirs), line
