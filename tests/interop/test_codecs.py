"""Kafka's own classes read what we compress: every codec and level, sizes around the codecs' blocks and varints."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog

if TYPE_CHECKING:
    from pathlib import Path

    from interop.broker import Witness

NOW = 1_700_000_000_000
LEVELS: dict[str, list[int | None]] = {
    "uncompressed": [None],
    "gzip": [None, -1, 1, 6, 9],
    "snappy": [None],
    "lz4": [None, *range(1, 18)],
    "zstd": [None, -131_072, -7, 0, 1, 3, 12, 19, 22],
}
SIZES = (0, 1, 62, 63, 64, 126, 127, 128, 8_191, 8_192, 32_767, 32_768, 65_535, 65_536, 200_000)

pytestmark = [pytest.mark.interop, pytest.mark.full]


def encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def records(seed: int) -> list[kafkalog.Record]:
    """Text and noise, nulls, repeated headers, timestamps out of order."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, not secret
    made = []
    for number, size in enumerate(chance.sample(SIZES, len(SIZES)) * 2):
        noise = chance.randbytes(size) if chance.random() < 0.5 else b"".join(b"%d," % n for n in range(size))[:size]
        made.append(
            kafkalog.Record(
                value=None if chance.random() < 0.1 else noise,
                key=None if chance.random() < 0.3 else chance.randbytes(chance.choice((0, 1, 63, 64, 300))),
                timestamp=NOW + chance.randrange(-100_000, 100_000),
                headers=[("h", None), ("h", b"x" * number), ("\u00e4", b"")][: chance.randrange(4)],
            )
        )
    return made


def pairs(record: kafkalog.Record) -> list[tuple[str, bytes | None]]:
    """Return the headers that :func:`records` made."""
    assert not isinstance(record.headers, Mapping)
    return [pair for pair in record.headers or () if isinstance(pair, tuple)]


def test_kafka_reads_every_codec_and_level(witness: Witness, tmp_path: Path) -> None:
    """Kafka finds the batches whole and valid, with the records that were appended, in order."""
    written = {}
    for partition, (codec, level) in enumerate((c, level) for c, levels in LEVELS.items() for level in levels):
        settings: dict[str, Any] = {"compression_type": codec}
        if level is not None:
            settings[f"compression_{codec}_level"] = level
        given = records(partition)
        config = kafkalog.LogConfig(**settings)
        with kafkalog.LogWriter(
            tmp_path, "t", partition, config=config, clock=lambda: NOW, batch_bytes=150_000
        ) as writer:
            writer.append(given)
            written[writer.path] = (codec, given)
    folder = ""
    read: dict[str, list[Any]] = {path: [] for path in written}
    batches: dict[str, list[Any]] = {path: [] for path in written}
    for line in witness.run("records", *written).splitlines():
        row = json.loads(line)
        if "folder" in row:
            folder = row["folder"]
        elif "offset" in row:
            read[folder].append(row)
        else:
            batches[folder].append(row)
    for path, (codec, given) in written.items():
        assert len(batches[path]) > 1
        assert all(b["valid"] and b["codec"] == codec.replace("uncompressed", "none") for b in batches[path])
        assert [(r["offset"], r["timestamp"], r["key"], r["value"], r["headers"]) for r in read[path]] == [
            (n, r.timestamp, encoded(r.key), encoded(r.value), [[k, encoded(v)] for k, v in pairs(r)])
            for n, r in enumerate(given)
        ], f"{path}: {codec}"
