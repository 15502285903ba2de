"""Planned files that a broker has exchanged by the time their turn comes: every record once, none twice."""

from __future__ import annotations

import errno
import shutil
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pytest

import corpus
import kafkalog
from kafkalog import _core

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LEDGER = corpus.GOLDEN / "clean-restarts" / "data-1" / "ledger-0"
COLUMNS = ["offset", "key", "value"]
ways = pytest.mark.parametrize(("layout", "threads"), [("binary", 1), ("view", 1), ("binary", 4), ("view", 4)])


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.glob("*.log"))


def merge(folder: Path) -> None:
    """As the cleaner does: several segments become one under the first one's name, the old ones go at once."""
    logs = names(folder)
    for first in range(0, len(logs) - 1, 3):
        group = logs[first : min(first + 3, len(logs) - 1)]
        joined = b"".join((folder / name).read_bytes() for name in group)
        for name in group:
            (folder / name).unlink()
        (folder / group[0]).write_bytes(joined)


def mark_deleted(folder: Path) -> None:
    """As retention does: renamed, and unlinked a minute later."""
    for name in names(folder)[:4]:
        (folder / name).rename(folder / f"{name}.deleted")


def unlink(folder: Path) -> None:
    for name in names(folder)[:4]:
        (folder / name).unlink()


def delete_topic(folder: Path) -> None:
    folder.rename(folder.with_name(f"{folder.name}.{'0123456789abcdef' * 2}-delete"))


def read(ranges: Any, layout: Literal["binary", "view"], threads: int) -> pa.Table:
    stream = _core.scan_ranges(ranges, columns=COLUMNS, include_control=True, layout=layout, threads=threads)
    fields: list[pa.Field[Any]] = [
        pa.field("offset", pa.int64()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
    return pa.table(stream).cast(pa.schema(fields))


@ways
@pytest.mark.parametrize("change", [merge, mark_deleted, delete_topic], ids=lambda c: c.__name__)
def test_every_record_once(
    tmp_path: Path, change: Callable[[Path], None], layout: Literal["binary", "view"], threads: int
) -> None:
    folder = tmp_path / "ledger-0"
    shutil.copytree(LEDGER, folder)
    ranges = _core.plan([str(folder)])
    before = read(ranges, layout, threads)
    change(folder)
    assert read(ranges, layout, threads).equals(before)


@ways
def test_each_planned_segment_by_itself_after_a_merge(
    tmp_path: Path, layout: Literal["binary", "view"], threads: int
) -> None:
    """Splits of one plan that different tasks read: together every record once."""
    folder = tmp_path / "ledger-0"
    shutil.copytree(LEDGER, folder)
    (planned,) = _core.plan([str(folder)])
    before = read([planned], layout, threads)
    merge(folder)
    offsets = []
    for segment in planned.segments:
        offsets += read([planned.with_segments([segment])], layout, threads)["offset"].to_pylist()
    assert offsets == before["offset"].to_pylist()


@ways
def test_what_retention_unlinked_is_missing_at_the_front(
    tmp_path: Path, layout: Literal["binary", "view"], threads: int
) -> None:
    folder = tmp_path / "ledger-0"
    shutil.copytree(LEDGER, folder)
    ranges = _core.plan([str(folder)])
    unlink(folder)
    first = int(names(folder)[0].split(".")[0])
    assert read(ranges, layout, threads)["offset"].to_pylist() == list(range(first, 954))


changes = pytest.mark.parametrize("change", [merge, mark_deleted, delete_topic], ids=lambda c: c.__name__)


@changes
@pytest.mark.parametrize("check_crcs", [True, False])
def test_every_batch_once(tmp_path: Path, *, change: Callable[[Path], None], check_crcs: bool) -> None:
    folder = tmp_path / "ledger-0"
    shutil.copytree(LEDGER, folder)
    before = kafkalog.scan_batches(folder, check_crcs=check_crcs).read_all()
    reader = kafkalog.scan_batches(folder, check_crcs=check_crcs)
    change(folder)
    moved = ["segment", "position"] if change is merge else []
    assert reader.read_all().drop_columns(moved).equals(before.drop_columns(moved))
    assert reader.metrics["records"] == before.num_rows
    assert reader.metrics["segments_lost"] == 0


def test_batches_that_retention_unlinked_are_missing_at_the_front(tmp_path: Path) -> None:
    folder = tmp_path / "ledger-0"
    shutil.copytree(LEDGER, folder)
    before = kafkalog.scan_batches(folder).read_all()
    reader = kafkalog.scan_batches(folder)
    unlink(folder)
    first = int(names(folder)[0].split(".")[0])
    assert reader.read_all().equals(before.filter(pa.compute.field("baseOffset") >= first))
    assert reader.metrics["segments_lost"] == 4


@changes
def test_a_follower_gets_every_batch_once(tmp_path: Path, change: Callable[[Path], None]) -> None:
    folder = tmp_path / "source" / "ledger-0"
    shutil.copytree(LEDGER, folder)
    before = kafkalog.read_table(folder, include_control=True)
    reader = kafkalog.scan_batches(folder)
    change(folder)
    with kafkalog.LogWriter(tmp_path / "data", "ledger") as writer:
        writer.append_batches(reader)
    assert kafkalog.read_table(tmp_path / "data", include_control=True).equals(before)


def test_a_follower_is_told_of_what_retention_took(tmp_path: Path) -> None:
    folder = tmp_path / "source" / "ledger-0"
    shutil.copytree(LEDGER, folder)
    reader = kafkalog.scan_batches(folder)
    gone = folder / names(folder)[0]
    unlink(folder)
    with (
        kafkalog.LogWriter(tmp_path / "data", "ledger") as writer,
        pytest.raises(FileNotFoundError) as raised,
    ):
        writer.append_batches(reader)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOENT, str(gone))
