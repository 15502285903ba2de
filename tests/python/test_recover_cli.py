"""``kafkalog recover`` where Kafka refuses a log or throws healthy batches away, and what becomes of the marker."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

import corpus
import kafkalog
import naive
from command import call, fails
from kafkalog import LogWriter, Record
from recover_cases import CASES, NAMES, digests, fails_in_kafka, laid_out, outcome

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.release

MARKER = ".kafka_cleanshutdown"
# Kafka loads these, and sound batches go.
LOSSY = {"flip-base-offset", "index-points-beyond", "index-points-into-batch", "name-short", "offset-backwards"}
# One whole batch says offsets that cannot be in order with the others.
OUT_OF_ORDER = {
    "flip-base-offset",
    "flip-base-offset-high",
    "offset-backwards",
    "offset-below-base",
    "valid-crc-huge-delta",
    "valid-crc-negative-delta",
}


REFUSED = [name for name in NAMES if name in LOSSY or fails_in_kafka(outcome(CASES / name))]


def laid_out_words(name: str, to: Path) -> list[str | Path]:
    """Lay out what was there before; give the words that recover it as the case says."""
    config = laid_out(CASES / name, to)
    state = "--clean" if config["clean"] else "--unclean"
    settings = [word for name, value in config.get("log", {}).items() for word in ("--config", f"{name}={value}")]
    return [state, "--recovery-point", str(config["recovery_point"]), *settings]


def whole_batches(folder: Path) -> set[bytes]:
    """Give the part under its checksum of every batch that begins at any byte of a ``.log``."""
    found = set()
    for log in folder.glob("*.log"):
        data, at = log.read_bytes(), 0
        while at + naive.HEADER.size <= len(data):
            _, length, _, magic, crc, *_ = naive.HEADER.unpack_from(data, at)
            end = at + 12 + length
            sound = magic == 2 and at + naive.HEADER.size <= end <= len(data)
            if sound and naive.crc32c(data[at + 21 : end]) == crc:
                found.add(data[at + 21 : end])
                at = end
            else:
                at += 1
    return found


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.sampled(2)
def test_a_refusal_changes_nothing_and_salvage_keeps_all(tmp_path: Path, name: str) -> None:
    root = tmp_path / "logs"
    words = laid_out_words(name, root)
    before = digests(tmp_path)
    for path in (root, root / "orders-0"):
        dry = fails(1, "recover", path, *words, "--dry-run")
        assert fails(1, "recover", path, *words) == dry, "a dry run says the same"
        assert fails(1, "recover", path, *words, "--out", tmp_path / "out") == dry
        assert "salvage keeps every batch that is whole" in dry
        assert digests(tmp_path) == before
        assert not (tmp_path / "out").exists()
    whole = whole_batches(root / "orders-0")
    dry = call("recover", root, *words, "--salvage", "--dry-run").stdout
    assert digests(tmp_path) == before
    saved = call("recover", root, *words, "--salvage", "--out", tmp_path / "saved")
    assert (saved.returncode, saved.stdout, saved.stderr) == (0, dry, "")
    assert digests(root) == {name.partition("/")[2]: digest for name, digest in before.items()}
    kept = whole_batches(tmp_path / "saved" / "orders-0")
    assert len(whole - kept) == (name in OUT_OF_ORDER)
    assert kept <= whole
    again = call("recover", tmp_path / "saved", "--unclean", *words[1:])
    assert again.returncode == 0, "what was saved is loaded as Kafka loads"
    assert whole_batches(tmp_path / "saved" / "orders-0") == kept


def test_all_that_are_refused_are_named(tmp_path: Path) -> None:
    """One line, one exit code; the sound partition among them is not touched either."""
    logs = tmp_path / "logs"
    words = laid_out_words("offset-backwards", logs)
    (logs / "orders-0").rename(logs / "zoo-0")
    alone = fails(1, "recover", logs / "zoo-0", *words).removeprefix("kafkalog: ")
    laid_out(CASES / "name-not-a-number", tmp_path / "other")
    (tmp_path / "other" / "orders-0").rename(logs / "orders-0")
    for name in ("a-0", "orders-1"):
        shutil.copytree(logs / "orders-0", logs / name)
    for path in (logs / "orders-1" / "foo.log", *(logs / "orders-1").glob("*.index")):
        path.unlink()
    before = digests(logs)
    for dry in ([], ["--dry-run"]):
        said = fails(1, "recover", logs, *words, *dry)
        first, _, more = said.partition("; 2 more: ")
        assert f"{logs / 'a-0'}" in first
        assert f"{logs / 'orders-0'}" in more
        assert alone.partition(" (nothing was changed")[0] in more
        assert f"{logs / 'orders-1'}" not in said
        assert said.count("salvage keeps") == 1
    assert digests(logs) == before
    assert call("recover", logs, *words, "--salvage").returncode == 0


@pytest.mark.parametrize("command", ["recover", "rebuild", "truncate"])
def test_an_output_that_holds_something_is_left_alone(tmp_path: Path, command: str) -> None:
    """With the same words and the same exit code everywhere."""
    folder = closed(tmp_path / "logs") / "orders-0"
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("mine")
    words: list[str | Path] = [out, "--offset", "1"] if command == "truncate" else ["--out", out]
    for dry in ([], ["--dry-run"]):
        said = "File exists: choose another path for the result, or remove the one that exists"
        assert fails(3, command, folder, *words, *dry) == f"kafkalog: {out}: {said}\n"
    assert digests(out).keys() == {"mine"}


def closed(logs: Path) -> Path:
    """Write a log dir and close it."""
    with LogWriter(logs, "orders") as log:
        log.append([Record(b"v%d" % n, b"k", 1_700_000_000_000 + n) for n in range(100)])
    (logs / MARKER).write_text('{"version":0,"brokerEpoch":42}')
    return logs


def test_a_marker_stays_where_nothing_was_cut(tmp_path: Path) -> None:
    """It names the broker's epoch, by which the controller takes the broker's copies for whole."""
    logs = closed(tmp_path / "logs")
    before = digests(logs)
    assert call("recover", logs).returncode == 0
    assert {name: digest for name, digest in digests(logs).items() if name != ".lock"} == before
    (logs / "orders-0" / f"{0:020}.index").unlink()
    assert call("recover", logs, "--out", tmp_path / "out").returncode == 0
    for place in (logs, tmp_path / "out"):
        assert call("recover", place).returncode == 0
        assert (place / MARKER).read_text() == '{"version":0,"brokerEpoch":42}'
        assert (place / "orders-0" / f"{0:020}.index").exists()
        assert kafkalog.PartitionLog(place / "orders-0").log_end_offset == 100


@pytest.mark.parametrize("why", ["it lies", "cut", "none was there"])
def test_a_marker_goes_that_would_lie(tmp_path: Path, why: str) -> None:
    logs = closed(tmp_path / "logs")
    words = ["--unclean"] if why == "it lies" else []
    if why == "none was there":
        (logs / MARKER).unlink()
    if why == "cut":
        log = logs / "orders-0" / f"{0:020}.log"
        log.write_bytes(log.read_bytes()[:-5])
        words = ["--salvage"]
    assert call("recover", logs, *words, "--out", tmp_path / "out").returncode == 0
    assert not (tmp_path / "out" / MARKER).exists()
    assert call("recover", logs, *words).returncode == 0
    assert not (logs / MARKER).exists()


def test_folders_that_are_left_alone_are_named(tmp_path: Path) -> None:
    logs = closed(tmp_path / "logs")
    gone = logs / f"orders-0.{'0' * 32}-delete"
    shutil.copytree(logs / "orders-0", gone)
    assert call("recover", logs).stdout.splitlines()[1:] == [
        f"{gone}: not changed: a broker does not recover it with the others"
    ]


def test_the_highest_producer_id_and_leader_epoch_are_told(tmp_path: Path) -> None:
    """Of the producers that a broker keeps in memory: those that wrote within producer.id.expiration.ms."""
    logs = corpus.GOLDEN / "clean-restarts" / "data-1"
    written = {log.topic: log.statistics()["producers"] for log in kafkalog.LogDir(logs)}
    assert max(written["ledger"]) > max(written["orders"]) > 0
    now = kafkalog.LogDir(logs)["orders", 0].statistics()["max_timestamp"]
    report = kafkalog.recover(logs, dry_run=True, now=now)
    found = {each.topic: (each.highest_producer_id, each.latest_leader_epoch) for each in report.partitions}
    assert found == {topic: (max(ids, default=None), 6) for topic, ids in written.items()}
    assert (report.highest_producer_id, report.latest_leader_epoch) == (max(written["ledger"]), 6)
    later = kafkalog.recover(logs / "orders-0", dry_run=True, now=now + 86_400_000)
    assert (later.highest_producer_id, later.latest_leader_epoch) == (None, 6)
    copied = tmp_path / "copied"
    with kafkalog.LogWriter(copied, "orders", clock=lambda: now) as writer:
        assert (writer.highest_producer_id, writer.latest_leader_epoch) == (None, None)
        writer.append_batches(logs / "orders-0")
        assert (writer.highest_producer_id, writer.latest_leader_epoch) == (max(written["orders"]), 6)
    done = call("import", logs, tmp_path / "imported", "-t", "orders")
    assert done.stderr.endswith(
        f"in {tmp_path / 'imported'}, highest producer id {max(written['orders'])}, leader epoch 6\n"
    )
    done = call("recover", logs / "orders-0", "--dry-run")
    assert done.stdout.splitlines()[0].endswith("file(s) changed, leader epoch 6")
    line = json.loads(call("recover", logs / "orders-0", "--dry-run", "-J").stdout)
    assert (line["highestProducerId"], line["latestLeaderEpoch"]) == (None, 6)


def test_a_restart_of_a_broker_raises_ids_and_epochs_as_the_guide_says() -> None:
    """In a log that a real broker wrote through four starts: blocks of 1000 ids, two leader epochs for each restart."""
    log = kafkalog.LogDir(corpus.GOLDEN / "clean-restarts" / "data-1")["events", 1].statistics()
    assert log["producers"] == [1, 1001, 2001, 3001]
    assert log["leader_epochs"] == [0, 2, 4, 6]
