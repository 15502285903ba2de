"""Rescues that share blocks with their sources: no byte of these changes, whatever is written to the result."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

import clusters
import kafkalog
from kafkalog import LogWriter, Record
from kafkalog.rescue import partition_copy

if TYPE_CHECKING:
    from pathlib import Path

fcntl = pytest.importorskip("fcntl")


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    return clusters.make_cluster(tmp_path / "disks")


def logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def errors(out: Path) -> list[str]:
    return [str(row) for row in kafkalog.verify(out).to_pylist() if row["severity"] == "error"]


def has_reflinks(folder: Path) -> bool:
    """Ask the file system."""
    old, new = folder / "old", folder / "new"
    old.write_bytes(b"x" * 4096)
    try:
        with old.open("rb") as source, new.open("xb") as target:
            fcntl.ioctl(target.fileno(), partition_copy._FICLONE, source.fileno())
    except OSError:
        return False
    finally:
        old.unlink()
        new.unlink()
    return True


@pytest.fixture
def without_reflinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on ext4, wherever the test runs."""

    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(fcntl, "ioctl", refuse)


@pytest.mark.usefixtures("without_reflinks")
def test_closed_segments_alone_are_linked(tmp_path: Path, disks: list[Path]) -> None:
    before = clusters.contents(tmp_path / "disks")
    out = tmp_path / "out"
    kafkalog.rescue(disks, out, link=True)
    sources = {path.stat().st_ino for path in (tmp_path / "disks").rglob("*.log")}
    for folder in (out / "orders-0", out / "payments-0"):
        shared = [log.stat().st_ino in sources for log in logs(folder)]
        assert len(shared) > 2
        assert shared == [True] * (len(shared) - 1) + [False]
        # Not what goes with them: a broker writes there.
        assert {path.stat().st_nlink for path in folder.iterdir() if path.suffix != ".log"} == {1}
    assert clusters.contents(tmp_path / "disks") == before
    assert errors(out) == []


@pytest.mark.usefixtures("without_reflinks")
def test_no_write_goes_through_a_link(tmp_path: Path, disks: list[Path]) -> None:
    """Appending, truncating inside a linked segment and appending there, and a recovery that cuts one."""
    before = clusters.contents(tmp_path / "disks")
    out = tmp_path / "out"
    kafkalog.rescue(disks, out, link=True)
    with LogWriter(out, "orders") as writer:
        writer.append([Record(value=b"after the rescue")])
        writer.truncate(23)
        writer.append([Record(value=b"other")])
    assert kafkalog.read_table(out / "orders-0", columns=["value"])["value"].to_pylist()[-1] == b"other"
    assert clusters.contents(tmp_path / "disks") == before
    # What was linked is damaged at its end, in the source too, and cut in the result alone.
    linked = logs(out / "payments-0")[1]
    assert linked.stat().st_nlink > 1
    with linked.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xa5")
    before = clusters.contents(tmp_path / "disks")
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (out / name).unlink()
    with pytest.raises(kafkalog.CorruptRecordError, match="--as-kafka"):
        LogWriter(out, "payments")
    kafkalog.recover(out / "payments-0", on_loss="as_kafka")
    with LogWriter(out, "payments") as writer:
        assert writer.log_end_offset < 80
    assert logs(out / "payments-0")[1].stat().st_size < len(before[f"node-1/payments-0/{linked.name}"])
    assert clusters.contents(tmp_path / "disks") == before
    assert errors(out) == []


def test_reflinks(tmp_path: Path, disks: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Their blocks are shared, and nothing else: writing to one changes one."""
    if not has_reflinks(tmp_path):
        pytest.skip("the file system has no reflinks")
    before = clusters.contents(tmp_path / "disks")
    out = tmp_path / "out"
    made, ioctl = [], fcntl.ioctl
    monkeypatch.setattr(fcntl, "ioctl", lambda *given: made.append(ioctl(*given)))
    kafkalog.rescue(disks, out, link=True)
    # All but the active segments.
    assert len(made) == len(list(out.rglob("*.log"))) - 2
    assert {log.stat().st_nlink for log in out.rglob("*.log")} == {1}
    for log in out.rglob("*.log"):
        with log.open("r+b") as file:
            file.write(b"other bytes")
    assert clusters.contents(tmp_path / "disks") == before


def test_a_disk_that_fails_while_linking_is_an_error(
    tmp_path: Path, disks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "ioctl", fail)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        kafkalog.rescue(disks, tmp_path / "out", link=True)
    monkeypatch.undo()
    kafkalog.rescue(disks, tmp_path / "out", link=True)
    assert errors(tmp_path / "out") == []
