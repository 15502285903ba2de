"""Corpora for the tests: logs that real brokers wrote, and what Kafka's own classes said of them.

A corpus is any folder with ``<case>/<log dir>/<topic>-<partition>/`` and ``<case>/expected/`` somewhere below it
(``tests/golden/MANIFEST.md`` describes the format). Its roots come from ``KAFKALOG_CORPUS``, several of them
separated as in ``PATH``; without it the tests walk ``tests/golden``.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parent / "golden"

TIMESTAMP_TYPES = {"CreateTime": 0, "LogAppendTime": 1, "NoTimestampType": -1}
LATE_MTIME = 4_102_444_800  # the year 2100, which the `late` answers assume

_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)(\.[0-9a-f]{32}-(?P<state>delete|future|stray))?")
_DELETED = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)\.[0-9a-f]{32}-(?P<state>delete|future|stray)")

RECORD_COLUMNS = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
    "segment",
    "batchPosition",
    "baseOffset",
    "batchSize",
    "magic",
    "compression",
    "crc",
    "partitionLeaderEpoch",
    "producerId",
    "producerEpoch",
    "sequence",
    "isTransactional",
    "isControl",
    "controlType",
    "deleteHorizonMs",
    "keySize",
    "valueSize",
)

BATCH_COLUMNS = (
    "topic",
    "partition",
    "segment",
    "position",
    "baseOffset",
    "lastOffset",
    "count",
    "baseSequence",
    "lastSequence",
    "producerId",
    "producerEpoch",
    "partitionLeaderEpoch",
    "isTransactional",
    "isControl",
    "deleteHorizonMs",
    "maxTimestamp",
    "timestampType",
    "size",
    "magic",
    "compression",
    "crc",
    "isValid",
)

Line = dict[str, Any]
Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Partition:
    """One partition folder of a corpus and the answers kept for it."""

    folder: Path
    answers: Path
    topic: str
    partition: int
    state: str

    @property
    def log_dir(self) -> Path:
        """The log dir around the folder."""
        return self.folder.parent

    @property
    def case(self) -> Path:
        """The case around the log dir."""
        return self.log_dir.parent

    @property
    def id(self) -> str:
        """A short name for reports."""
        return f"{self.case.name}/{self.log_dir.name}/{self.folder.name}"

    @property
    def clean(self) -> bool:
        """True if the broker had stopped cleanly."""
        return (self.log_dir / ".kafka_cleanshutdown").exists()

    def has(self, name: str) -> bool:
        """Tell whether there is an answer of this name."""
        return (self.answers / f"{name}.jsonl.gz").exists()

    def lines(self, name: str) -> list[Line]:
        """Read an answer: one object a line."""
        with gzip.open(self.answers / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]

    def copy(self, target: Path, mtime: int = 0) -> Path:
        """Copy the folder and its log dir's own files; every ``.log`` gets this modification time."""
        log_dir = target / self.log_dir.name
        folder = log_dir / self.folder.name
        folder.mkdir(parents=True)
        for file in self.log_dir.iterdir():
            if file.is_file():
                shutil.copyfile(file, log_dir / file.name)
        for file in self.folder.iterdir():
            copied = folder / file.name
            shutil.copyfile(file, copied)
            if file.suffix == ".log":
                os.utime(copied, (mtime, mtime))
        return folder


def roots() -> list[Path]:
    """Give the roots to walk."""
    named = os.environ.get("KAFKALOG_CORPUS", "")
    return [Path(root) for root in named.split(os.pathsep) if root] or [GOLDEN]


_OF_OTHER_CASES = ("tiered", "bucket", "expected/schemas.jsonl")


def cases() -> list[Path]:
    """Give every case below the roots, sorted; a root that holds none is an error.

    Left out is what is not read yet: segments in remote storage (a folder ``tiered`` or ``bucket``), and values with
    schemas, whose answers are a deserializer's (``expected/schemas.jsonl``).
    """
    found: list[Path] = []
    for root in roots():
        below = sorted(p.parent for p in root.rglob("expected") if (p / "case.json").is_file())
        if not below:
            msg = f"no case (a folder with expected/case.json) below {root}"
            raise FileNotFoundError(msg)
        found += [case for case in below if not any((case / name).exists() for name in _OF_OTHER_CASES)]
    return found


def log_dirs() -> list[Path]:
    """Give every log dir of every case."""
    return [p for case in cases() for p in sorted(case.iterdir()) if p.is_dir() and p.name != "expected"]


@cache
def partitions() -> tuple[Partition, ...]:
    """Give every partition folder of every case that has answers."""
    found = []
    for log_dir in log_dirs():
        kind = re.sub(r"-\d+$", "", log_dir.name)
        prefix = "" if kind == "data" else f"{kind}-"
        for folder in sorted(p for p in log_dir.iterdir() if p.is_dir()):
            match = _DELETED.fullmatch(folder.name) or _FOLDER.fullmatch(folder.name)
            answers = log_dir.parent / "expected" / (prefix + folder.name)
            if match is None or not answers.is_dir():
                msg = f"{folder}: no answers, or not a partition's name"
                raise FileNotFoundError(msg)
            state = match["state"] or "live"
            found.append(Partition(folder, answers, match["topic"], int(match["partition"]), state))
    return tuple(found)


def checkpoints(log_dir: Path) -> list[Line]:
    """Read the answers for a log dir's own files."""
    text = (log_dir.parent / "expected" / f"{log_dir.name}.checkpoints.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def binary(text: str | None) -> bytes | None:
    """Decode base64, null for null."""
    return None if text is None else base64.b64decode(text)


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def expected_records(partition: Partition, name: str = "records") -> Columns:
    """Give the columns of every record, control records among them, as the files lie.

    Lines that say where Kafka's iterator gave up or how many bytes were left stand for a torn or zero tail: no rows.
    """
    shapes = {(b["file"], b["position"]): (b["size"], b["crc"]) for b in partition.lines("batches") if "size" in b}
    columns: Columns = {column: [] for column in RECORD_COLUMNS}
    for line in partition.lines(name):
        if "offset" not in line:
            continue
        key, value = binary(line["key"]), binary(line["value"])
        size, crc = shapes[line["file"], line["batch_position"]]
        headers = [{"key": k, "value": binary(v)} for k, v in line["headers"]]
        row = (
            key,
            value,
            partition.topic,
            partition.partition,
            line["offset"],
            line["timestamp"],
            TIMESTAMP_TYPES[line["timestamp_type"]],
            headers or None,
            line["file"],
            line["batch_position"],
            line["batch_base_offset"],
            size,
            line["magic"],
            line["codec"],
            crc,
            line["partition_leader_epoch"],
            line["producer_id"],
            line["producer_epoch"],
            line["sequence"],
            line["is_transactional"],
            line["is_control"],
            line["control_type"],
            line["delete_horizon_ms"],
            _size(key),
            _size(value),
        )
        for column, cell in zip(columns.values(), row, strict=True):
            column.append(cell)
    return columns


def expected_batches(partition: Partition) -> Columns:
    """Give the columns of every batch, as the files lie."""
    columns: Columns = {column: [] for column in BATCH_COLUMNS}
    for line in partition.lines("batches"):
        if "size" not in line:
            continue
        row = (
            partition.topic,
            partition.partition,
            line["file"],
            line["position"],
            line["base_offset"],
            line["last_offset"],
            line["count"],
            line["base_sequence"],
            line["last_sequence"],
            line["producer_id"],
            line["producer_epoch"],
            line["partition_leader_epoch"],
            line["is_transactional"],
            line["is_control"],
            line["delete_horizon_ms"],
            line["max_timestamp"],
            TIMESTAMP_TYPES[line["timestamp_type"]],
            line["size"],
            line["magic"],
            line["codec"],
            line["crc"],
            line["valid"],
        )
        for column, cell in zip(columns.values(), row, strict=True):
            column.append(cell)
    return columns


def header_base_timestamp(folder: Path, segment: str, position: int) -> int:
    """Read the base timestamp field of a v2 batch from the file."""
    with (folder / segment).open("rb") as file:
        file.seek(position + 27)
        return int(struct.unpack(">q", file.read(8))[0])


def write_long(folder: Path, segment_bytes: int, segments: int) -> int:
    """Write a real batch over and over, whose base offset is not under its checksum; the number of records."""
    first = GOLDEN / "clean-restarts" / "data-1" / "orders-0" / f"{0:020}.log"
    data = first.read_bytes()
    size = struct.unpack_from(">i", data, 8)[0] + 12
    batch = data[8:size]
    count = struct.unpack_from(">i", data, 23)[0] + 1
    folder.mkdir(parents=True)
    offset = 0
    for _ in range(segments):
        with (folder / f"{offset:020}.log").open("wb") as log:
            for _ in range(segment_bytes // size):
                log.write(offset.to_bytes(8, "big") + batch)
                offset += count
    return offset
