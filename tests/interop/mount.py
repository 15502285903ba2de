"""Puts a partition folder under a real broker and asks what the broker, its clients and its tools say of it."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from corpus import binary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from interop.broker import Broker, Witness

DUMP = "org.apache.kafka.tools.DumpLogSegments"
DUMPED = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
# What the tool prints about a file with errors, on either stream.
FAULT = re.compile(
    # To the tool, every file after the first follows offset -1.
    r"Mismatches in|timestamp mismatch|out of order|not found in|isvalid: false|(?<!-)\b\d+ is followed by|"
    r"invalid bytes|exception|corrupt|failed",
    re.IGNORECASE,
)
# An argument of a command has 128 KiB at most.
FILES_AT_A_TIME = 500
STAMP = 1_700_000_000_000
COMPLAINT = re.compile(r" (WARN|ERROR|FATAL) ")


@dataclass(frozen=True)
class Row:
    """A record as a client sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_type: str = "CreateTime"


@dataclass(frozen=True)
class Served:
    """Records of a topic that a broker must serve."""

    rows: list[Row]
    next_offset: int
    partition: int = 0
    isolation: str = "read_uncommitted"
    aside: tuple[str, ...] = ()


def rows_of(table: Any) -> list[Row]:
    """Return the rows of a table of records, which was read without control records."""
    kinds = {0: "CreateTime", 1: "LogAppendTime", -1: "NoTimestampType"}
    return [
        Row(
            r["offset"],
            round(r["timestamp"].timestamp() * 1000) if hasattr(r["timestamp"], "timestamp") else r["timestamp"],
            r["key"],
            r["value"],
            tuple((h["key"], h["value"]) for h in r["headers"] or ()),
            kinds[r["timestampType"]],
        )
        for r in table.to_pylist()
    ]


def consumed(broker: Broker, topic: str, partition: int = 0, isolation: str = "read_uncommitted") -> list[Row]:
    """Read a partition from its beginning with a consumer."""
    file = broker.work / f"consumed-{topic}-{partition}.jsonl"
    broker.driver.ask("consume", topic=topic, partition=partition, isolation=isolation, file=str(file))
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return [
        Row(
            r["offset"],
            r["timestamp"],
            binary(r["key"]),
            binary(r["value"]),
            tuple((k, binary(v)) for k, v in r["headers"]),
            r["timestamp_type"],
        )
        for r in rows
    ]


def insert(broker: Broker, source: Path, topic: str, partition: int = 0) -> Path:
    """Replace a partition of a stopped broker by the files of a folder; the topic keeps its id."""
    folder = broker.folder(topic, partition)
    for file in folder.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for file in source.iterdir():
        if file.name != "partition.metadata":
            shutil.copyfile(file, folder / file.name)
    return folder


def complaints(broker: Broker, topic: str) -> list[str]:
    """Return what the broker logged about a topic, at WARN and above."""
    said = (broker.work / "broker.log").read_text(encoding="utf-8", errors="replace")
    return [line for line in said.splitlines() if COMPLAINT.search(line) and topic in line]


def faults(witness: Witness, folders: Sequence[Path], scratch: Path) -> list[str]:
    """Return the errors that kafka-dump-log finds in folders; it works on copies, as it changes indexes."""
    found: list[str] = []
    for flags in (["--deep-iteration"], ["--index-sanity-check"], ["--verify-index-only"]):
        files: list[str] = []
        for folder in folders:
            copy = scratch / folder.name
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(folder, copy)
            files += sorted(str(file) for file in copy.iterdir() if file.suffix in DUMPED)
        for first in range(0, len(files), FILES_AT_A_TIME):
            found += _faults(witness, files[first : first + FILES_AT_A_TIME], flags)
    return found


def _faults(witness: Witness, files: Sequence[str], flags: list[str]) -> list[str]:
    """Return the errors that kafka-dump-log finds in files."""
    done = subprocess.run(
        witness.command(DUMP, "--files", ",".join(files), *flags),
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    said = "\n".join(line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("SLF4J"))
    found = [f"{' '.join(flags)}: {line}" for line in said.splitlines() if FAULT.search(line)]
    if done.returncode != 0:
        found.append(f"{' '.join(flags)}: exit {done.returncode}")
    assert said.count("Dumping ") == len(files), said[-2000:]
    return found


def serves(broker: Broker, expected: Mapping[str, Served]) -> None:
    """Show that a running broker serves topics and appends to them, before and after a clean restart.

    All without a complaint, but for those that hold the words set aside.
    """
    sent: dict[str, list[Row]] = {}
    for topic, served in expected.items():
        assert consumed(broker, topic, served.partition, served.isolation) == served.rows, topic
        more = [Row(served.next_offset + n, STAMP + n, b"k%d" % n, b"more", (("h", b"v"),)) for n in range(3)]
        records = [
            {
                "timestamp": row.timestamp,
                "key": _text(row.key),
                "value": _text(row.value),
                "headers": [[key, _text(value)] for key, value in row.headers],
            }
            for row in more
        ]
        offsets = broker.driver.ask("produce", topic=topic, partition=served.partition, records=records)
        assert offsets == [row.offset for row in more], topic
        sent[topic] = more
    broker.stop()
    broker.start()
    for topic, served in expected.items():
        found = consumed(broker, topic, served.partition, served.isolation)
        assert found[: len(served.rows)] == served.rows, topic
        # Under LogAppendTime the time is the broker's.
        kept = [(row.offset, row.key, row.value, row.headers) for row in found[len(served.rows) :]]
        assert kept == [(row.offset, row.key, row.value, row.headers) for row in sent[topic]], topic
        said = complaints(broker, topic)
        assert [line for line in said if not any(words in line for words in served.aside)] == [], topic


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()
