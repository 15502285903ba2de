"""Memory while scanning: bounded by batches, whatever the length of the log."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Literal

import pytest

import kafkalog
from corpus import GOLDEN

SEGMENT = 100 << 20
SEGMENTS = 10
LIMIT_MIB = 64


def anonymous_mib() -> float:
    """Memory of this process that is its own; mapped files are the page cache's."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.split("RssAnon:")[1].split()[0]) / 1024


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give 1 GB of a real batch over and over: the base offset is not under its checksum."""
    source = GOLDEN / "clean-restarts" / "data-1" / "orders-0" / f"{0:020}.log"
    bytes_of = source.read_bytes()
    size = struct.unpack_from(">i", bytes_of, 8)[0] + 12
    batch = bytes_of[:size]
    count = struct.unpack_from(">i", batch, 23)[0] + 1
    folder = tmp_path_factory.mktemp("long") / "orders-0"
    folder.mkdir()
    offset = 0
    for _ in range(SEGMENTS):
        with (folder / f"{offset:020}.log").open("wb") as log:
            for _ in range(SEGMENT // size):
                log.write(offset.to_bytes(8, "big") + batch[8:])
                offset += count
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_scan_takes_no_more_than_its_batches(long_log: Path, layout: Literal["binary", "view"], threads: int) -> None:
    reader = kafkalog.scan(long_log, layout=layout, threads=threads)
    iter(reader)
    before = anonymous_mib()
    peak = 0.0
    for number, _ in enumerate(reader):
        if number % 8 == 0:
            peak = max(peak, anonymous_mib())
    assert reader.metrics["bytes"] > 0.95 * SEGMENTS * SEGMENT
    assert peak - before < LIMIT_MIB
