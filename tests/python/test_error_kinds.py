"""Errors about data say file and position in a class of kafkalog, and those that end a read how to continue."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import command
import corpus
import kafkalog
from byte_logs import Record, batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WAY_ON = 'on_corrupt="skip" continues after it'


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A log dir whose second batch of three does not begin where the first one ends."""
    folder = tmp_path / "data" / "t-0"
    folder.mkdir(parents=True)
    batches = [bytearray(batch([Record(offset, 5, b"k", b"v")])) for offset in range(3)]
    batches[1][11] = 1
    (folder / f"{0:020}.log").write_bytes(b"".join(batches))
    return folder.parent


READS: dict[str, Callable[[Path], object]] = {
    "read_table": kafkalog.read_table,
    "scan": lambda path: list(kafkalog.scan(path)),
    "scan_batches": lambda path: list(kafkalog.scan_batches(path)),
    "read_committed": lambda path: kafkalog.read_table(path, isolation_level="read_committed"),
    "from a timestamp": lambda path: kafkalog.read_table(path, starting_timestamp=7),
    "count_rows": lambda path: kafkalog.dataset(path).count_rows(),
    "to_table": lambda path: kafkalog.dataset(path).to_table(),
    "statistics": lambda path: kafkalog.PartitionLog(path / "t-0").statistics(),
}


@pytest.mark.parametrize("read", READS)
def test_a_read_that_damage_ends_says_how_to_go_on(read: str, damaged: Path) -> None:
    with pytest.raises(kafkalog.CorruptRecordError, match=WAY_ON) as caught:
        READS[read](damaged)
    assert caught.value.path == str(damaged / "t-0" / f"{0:020}.log")
    assert caught.value.position is not None


def test_the_shell_names_its_own_option(damaged: Path) -> None:
    calls: list[list[str | Path]] = [
        ["cat", damaged / "t-0"],
        ["stats", damaged],
        ["export", damaged, damaged.parent / "x.csv"],
    ]
    for words in calls:
        said = command.fails(1, *words)
        assert said.endswith("; --on-corrupt skip continues after it\n"), said
        done = command.call(*words, "--on-corrupt", "skip")
        assert "--on-corrupt" not in done.stderr


VERBS: dict[str, dict[str, Any]] = {
    "compact": {"config": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}},
    "retain": {"config": {"retention.ms": -1}},
    "rewrite": {"drop_keys": [b"k"]},
    "rewrite by settings": {"config": {"segment.bytes": 1000}},
    "truncate": {"offset": 8},
}
SKIP = 'on_corrupt="skip"'
SALVAGE = "kafkalog recover --salvage keeps every batch that is whole and in order"
DAMAGE: dict[str, tuple[int, bytes]] = {
    "a byte of a record": (70, b"!"),
    "a length": (8, b"\xff"),
    "a magic": (16, b"\x09"),
    "a base offset": (7, b"\x01"),
}


def segments(folder: Path) -> None:
    """Write three segments of plain batches with their indexes."""
    folder.mkdir(parents=True)
    for base in (0, 5, 10):
        batches = [batch([Record(offset, 5, b"k%d" % (offset % 3), b"v")]) for offset in range(base, base + 5)]
        (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    kafkalog.recover(folder.parent)


@pytest.mark.parametrize(
    ("place", "damage"),
    [*(("closed", damage) for damage in DAMAGE), ("active", "a length"), ("clean", "a magic"), ("epochs", "")],
)
@pytest.mark.sampled(3)
def test_a_verb_that_damage_ends_says_the_way_out(place: str, damage: str, tmp_path: Path) -> None:
    """And the way is one: with the option, or after a salvage, the verb does its work."""
    folder = tmp_path / "data" / "t-0"
    segments(folder)
    log = folder / f"{10 if place == 'active' else 5:020}.log"
    (folder.parent / ".kafka_cleanshutdown").touch() if place == "clean" else None
    if place == "epochs":
        (folder / "leader-epoch-checkpoint").write_text("0\n1\n-1 5\n", encoding="utf-8")
    else:
        at, to = DAMAGE[damage]
        content = bytearray(log.read_bytes())
        at += len(content) // 5
        content[at : at + len(to)] = to
        log.write_bytes(content)
    saved = tmp_path / "saved"
    kafkalog.recover(folder.parent, salvage=True, out=saved)
    refused = set()
    for name, options in VERBS.items():
        verb: Callable[..., object] = getattr(kafkalog, name.split()[0])
        told = ""
        try:
            verb(folder if name == "truncate" else folder.parent, tmp_path / "out" / name, **options)
        except kafkalog.KafkaLogError as error:
            told = str(error)
        if not told:
            continue
        refused.add(name)
        if name in {"retain", "truncate"}:
            assert "salvage keeps every batch" in told or SALVAGE in told, told
            verb(saved / "t-0" if name == "truncate" else saved, tmp_path / "after" / name, **options)
        else:
            assert SKIP in told, told
            verb(folder.parent, tmp_path / "skipped" / name, on_corrupt="skip", **options)
    assert refused >= {"rewrite"}


def test_the_shell_says_the_way_out_of_a_verb(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "t-0"
    segments(folder)
    log = folder / f"{5:020}.log"
    content = bytearray(log.read_bytes())
    content[8] = 0xFF
    log.write_bytes(content)
    # Earlier lines name the errors of the source.
    done = command.call("compact", folder.parent, tmp_path / "a", "--config", "cleanup.policy=compact")
    said = done.stderr
    assert said.endswith("; --on-corrupt skip leaves out what is damaged\n"), said
    said = command.fails(1, "truncate", folder, tmp_path / "b", "--offset", "8")
    assert said.endswith(f"; {SALVAGE}\n"), said


def test_what_cannot_be_skipped_does_not_say_so(damaged: Path) -> None:
    with pytest.raises(kafkalog.CorruptRecordError) as caught:
        kafkalog.PartitionLog(damaged / "t-0").log_end_offset  # noqa: B018 - asked for
    assert "on_corrupt" not in str(caught.value)


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_dump_of_an_index_under_another_name(suffix: str, tmp_path: Path) -> None:
    source = next((corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0").glob(f"*.{suffix}"))
    renamed = tmp_path / f"{77:020}.{suffix}"
    shutil.copy(source, renamed)
    said = command.fails(1, "dump", "--files", renamed)
    log = renamed.with_suffix(".log")
    assert said == f"kafkalog: {renamed}: byte 0: file name: expected {log} beside the index, found no such file\n"


@pytest.mark.parametrize("node", ["99999999999", "-1", "1e3", "\u0661"])
def test_ids_beyond_their_type(node: str, tmp_path: Path) -> None:
    log_dir = tmp_path / "data"
    shutil.copytree(corpus.GOLDEN / "metadata" / "data-0", log_dir)
    meta = log_dir / "meta.properties"
    kept = [line for line in meta.read_text().splitlines() if not line.startswith("node.id")]
    meta.write_text("\n".join([*kept, f"node.id={node}", ""]))
    report = kafkalog.rescue([log_dir], dry_run=True)
    assert report.plan.disks[0].node_id is None
    disks = [corpus.GOLDEN / "clean-restarts" / "data-1"]
    with pytest.raises(kafkalog.CorruptIndexError, match="expected 0 to 2147483647"):
        kafkalog.rescue(disks, into=log_dir, topics=["orders"], dry_run=True)
