"""Cases of tiered storage: a broker's log dir, its tier, and what the broker gave to consumers.

``tests/golden/tiered`` holds a few as archives; ``KAFKALOG_TIERED_CORPUS`` names a folder with the whole cases, in
``tiered`` and ``aiven``.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import tarfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from clone import SHARED_CORPUS

GOLDEN = Path(__file__).resolve().parent / "golden" / "tiered"
NAMES = sorted(path.name.removesuffix(".tar.gz") for path in GOLDEN.glob("*.tar.gz"))
INTERNAL = "__remote_log_metadata-*"
# Of the rows that are compared.
COLUMNS = ["offset", "timestamp", "partitionLeaderEpoch", "key", "value", "headers"]


@dataclass
class TieredCase:
    """One case."""

    name: str
    data: Path
    tier: Path
    expected: Path
    keyring: dict[str, Path]

    @cached_property
    def about(self) -> dict[str, Any]:
        """Answers that belong to a case, Aiven's or the broker's."""
        own = self.expected / "aiven.json"
        found: dict[str, Any] = json.loads((own if own.exists() else self.expected / "case.json").read_text())
        return found

    @property
    def remote(self) -> dict[str, Any]:
        """The arguments that name the tier."""
        return {"remote": self.tier, "keyring": self.keyring}

    def partitions(self) -> list[tuple[str, int]]:
        """Return the partitions that have an answer."""
        names = sorted(path.name for path in self.expected.iterdir() if path.is_dir())
        return [(name.rsplit("-", 1)[0], int(name.rsplit("-", 1)[1])) for name in names]

    def offsets(self, topic: str, partition: int) -> dict[str, Any]:
        """Return what the broker answered about offsets."""
        found: dict[str, Any] = json.loads((self.expected / f"{topic}-{partition}" / "offsets.json").read_text())
        return found

    def rows(self, topic: str, partition: int, kind: str) -> list[dict[str, Any]] | None:
        """Return what a consumer got."""
        path = self.expected / f"{topic}-{partition}" / f"{kind}.jsonl.gz"
        return lines(path) if path.exists() else None

    def segments(self) -> list[dict[str, Any]]:
        """Return what the broker knew of each remote segment of the partitions that have an answer."""
        kept = set(self.partitions())
        rows = lines(self.expected / "remote-segments.jsonl.gz")
        return [row for row in rows if "segment_id" in row and (row["topic"], row["partition"]) in kept]

    def withheld(self, to: Path) -> Path:
        """Return a copy of the log dir without the metadata topic."""
        shutil.copytree(self.data, to, ignore=shutil.ignore_patterns(INTERNAL))
        return to


def lines(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file."""
    with gzip.open(path) as file:
        return [json.loads(line) for line in file]


def unpack(name: str, to: Path) -> TieredCase:
    """Unpack a golden case."""
    with tarfile.open(GOLDEN / f"{name}.tar.gz") as archive:
        archive.extractall(to, filter="data")
    keys = {path.stem: path for path in (to / "keys").glob("*.pem")}
    return TieredCase(name, to / "data", to / "tier", to / "expected", keys)


def more_cases() -> list[TieredCase]:
    """Return the whole cases, if there are any."""
    root = Path(os.environ.get("KAFKALOG_TIERED_CORPUS") or SHARED_CORPUS)
    found = []
    for kind in ("tiered", "aiven"):
        for path in sorted((root / kind).glob("*/expected/case.json")):
            about = json.loads(path.read_text())
            source = (path.parents[1] / about["source"]).resolve() if kind == "aiven" else path.parents[1]
            logs = json.loads((source / "expected" / "case.json").read_text())["expected_from"]
            tier = path.parents[1] / ("bucket" if kind == "aiven" else "tiered")
            keys = {name: (path.parents[1] / key).resolve() for name, key in about.get("keyring", {}).items()}
            case = TieredCase(f"{kind}/{path.parents[1].name}", source / logs, tier, source / "expected", keys)
            if kind == "aiven":
                case.about = about
            found.append(case)
    return found


def text(data: bytes | None) -> str | None:
    """Return bytes in the form of the answers."""
    return None if data is None else base64.b64encode(data).decode()


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows of a table with the columns, in the form of the answers."""
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    return [
        {
            "offset": row["offset"],
            "timestamp": time,
            "leader_epoch": row["partitionLeaderEpoch"],
            "key": text(row["key"]),
            "value": text(row["value"]),
            "headers": [[each["key"], text(each["value"])] for each in row["headers"] or ()],
        }
        for row, time in zip(table.to_pylist(), times, strict=True)
    ]


def expected_rows(rows: list[dict[str, Any]], end: int | None = None) -> list[dict[str, Any]]:
    """Return the rows that a consumer got, up to an end."""

    def plain(header: Any) -> list[Any]:
        return [header["key"], header["value"]] if isinstance(header, dict) else list(header)

    return [
        {**{name: row[name] for name in ("offset", "timestamp", "leader_epoch", "key", "value")}}
        | {"headers": [plain(each) for each in row["headers"]]}
        for row in rows
        if end is None or row["offset"] < end
    ]
