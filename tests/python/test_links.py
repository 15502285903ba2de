"""A log dir copied as hard links (``cp -al``): what is written to the copy changes no file of the original."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import clusters
import corpus
import kafkalog
from kafkalog import LogConfig, LogWriter, Record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the system does not say how many names a file has")

CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=1)
# Smaller indexes than the log was written with: the active segment's are cut.
SMALLER = LogConfig(segment_bytes=2000, index_interval_bytes=0, segment_index_bytes=24)
TXN = corpus.GOLDEN / "txn" / "data-0" / "txn-aborts-0"


@pytest.fixture
def original(tmp_path: Path) -> Path:
    with LogWriter(tmp_path / "original", "orders", config=CONFIG) as log:
        for n in range(60):
            log.append([Record(b"v%d" % n * 20, b"k%d" % n, 1_700_000_000_000 + n)])
    return tmp_path / "original"


def append(copy: Path, config: LogConfig) -> None:
    with LogWriter(copy, "orders", config=config) as log:
        for n in range(30):
            log.append([Record(b"new" * 20, timestamp=1_700_000_001_000 + n)])


def truncate(copy: Path) -> None:
    with LogWriter(copy, "orders", config=CONFIG) as log:
        log.truncate(50)
        log.truncate(17)
        log.append([Record(b"new")])


def recover(copy: Path) -> None:
    (copy / ".kafka_cleanshutdown").unlink()
    (copy / "recovery-point-offset-checkpoint").unlink()
    kafkalog.recover(copy, clean=False, config=CONFIG)


def rebuild(copy: Path) -> None:
    for index in copy.rglob("*.index"):
        index.unlink()
    kafkalog.rebuild_indexes(copy / "orders-0")


WAYS: dict[str, Callable[[Path], Any]] = {
    "append": lambda copy: append(copy, CONFIG),
    "append with smaller indexes": lambda copy: append(copy, SMALLER),
    "truncate": truncate,
    "recover": recover,
    "rebuild": rebuild,
}


@pytest.mark.parametrize("way", WAYS)
def test_no_write_reaches_the_original(tmp_path: Path, original: Path, way: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(original, copy, copy_function=os.link)
    before = clusters.contents(original)
    WAYS[way](copy)
    assert clusters.contents(original) == before
    assert not list(copy.rglob("*.tmp"))
    assert [row for row in kafkalog.verify(copy).to_pylist() if row["severity"] == "error"] == []
    with LogWriter(original, "orders", config=CONFIG) as log:
        assert log.log_end_offset == 60


def test_no_entry_of_an_index_reaches_the_original(tmp_path: Path) -> None:
    source = min(TXN.glob("*.txnindex"))
    base = int(source.stem)
    for kind in (".index", ".timeindex", ".txnindex"):
        shutil.copyfile(source.with_suffix(kind), tmp_path / f"original{kind}")
        os.link(tmp_path / f"original{kind}", tmp_path / f"{base:020}{kind}")
    before = {file.suffix: file.read_bytes() for file in tmp_path.glob("original*")}
    with kafkalog.TransactionIndex(tmp_path / f"{base:020}.txnindex", base, writable=True) as transactions:
        entries = len(transactions)
        transactions.append(7, 1_000_000, 1_000_001, 1_000_000)
        assert len(transactions) == entries + 1
        transactions.truncate_to(0)
    with kafkalog.OffsetIndex(tmp_path / f"{base:020}.index", base, 4096, writable=True) as offsets:
        offsets.resize(4096)
        offsets.append(1_000_000, 1 << 30)
    with kafkalog.TimeIndex(tmp_path / f"{base:020}.timeindex", base, 4096, writable=True) as times:
        times.resize(4096)
        times.maybe_append(1 << 60, 1_000_000)
    assert {file.suffix: file.read_bytes() for file in tmp_path.glob("original*")} == before
