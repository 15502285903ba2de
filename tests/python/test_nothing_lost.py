"""A model test: nothing beside a ``.log`` costs a record of it.

Random logs; one or two files other than a ``.log`` damaged, replaced by another partition's or by an older or younger
copy of themselves, leftovers added, lines of checkpoints changed; then a verb. Afterwards every whole batch is readable
from the result, or the verb refused and nothing is changed. Headers and checksums, read here, say what is whole.
"""

from __future__ import annotations

import random
import shutil
import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

import kafkalog
import naive
import tiers
from kafkalog import LogConfig, LogWriter, Record
from kafkalog.cli.main import main
from random_logs import NOW, Log, random_log

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SEEDS = range(tiers.SEED, tiers.SEED + tiers.pick(25, 100, 4000))
CONFIG = LogConfig(index_interval_bytes=100)
CHECKPOINTS = (
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
TOPIC = "orders"

Rows: TypeAlias = dict[int, tuple[bytes | None, bytes | None]]


def split(data: bytes) -> list[tuple[int, bytes, bool]]:
    """Walk from header to header: each batch's first eight bytes, all of it, and whether its checksum is right."""
    found, at = [], 0
    while at + 17 <= len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        batch = data[at : at + size]
        if size < 26 or len(batch) < size:
            break
        if batch[16] == 2:
            is_whole = naive.crc32c(batch[21:]) == int.from_bytes(batch[17:21], "big")
        else:
            is_whole = zlib.crc32(batch[16:]) == int.from_bytes(batch[12:16], "big")
        found.append((int.from_bytes(batch[:8], "big"), batch, is_whole))
        at += size
    return found


def last_offset(batch: bytes) -> int:
    base = int.from_bytes(batch[:8], "big")
    return base + int.from_bytes(batch[23:27], "big") if batch[16] == 2 else base


def whole_batches(folder: Path) -> set[bytes]:
    """Every whole batch in a live ``.log``."""
    logs = folder.glob("*.log")
    return {batch for log in logs for _, batch, is_whole in split(log.read_bytes()) if is_whole}


def tree(log_dir: Path) -> dict[str, bytes]:
    """Every file."""
    files = (path for path in log_dir.rglob("*") if path.is_file())
    return {str(path.relative_to(log_dir)): path.read_bytes() for path in files}


def rows(path: Path, **how: Any) -> Rows:
    how = {"starting_offsets": "oldest", "on_corrupt": "skip", **how}
    table = kafkalog.read_table(path, columns=["offset", "key", "value"], **how).to_pylist()
    return {row["offset"]: (row["key"], row["value"]) for row in table}


class Round:
    """A log dir of two partitions, what was done to it, and what must stay."""

    def __init__(self, seed: int, root: Path) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - to be repeated, not secret
        self.root, self.path = root, root / "logs"
        self.done: list[str] = []
        legacy = self.chance.random() < 0.2
        self.logs = [random_log(self.chance, legacy=legacy, damage=False) for _ in range(2)]
        self.older, self.younger = root / "older", root / "younger"
        self.write(self.older, [Log(log.segments[:-1]) for log in self.logs])
        self.write(self.path, self.logs)
        if self.chance.random() < 0.5:
            self.close(self.path, 0)
        shutil.copytree(self.path, self.younger)
        self.close(self.younger, 3)
        marker = self.path / ".kafka_cleanshutdown"
        if self.chance.random() < 0.3:
            marker.unlink(missing_ok=True)
        self.mutate()
        self.before = tree(self.path)
        self.batches = [whole_batches(self.folder(n)) for n in range(2)]
        self.rows: list[Rows] = [
            {each.offset: (each.key, each.value) for batch in log.batches for each in batch.records}
            for log in self.logs
        ]

    def folder(self, partition: int, log_dir: Path | None = None) -> Path:
        return (log_dir or self.path) / f"{TOPIC}-{partition}"

    def write(self, log_dir: Path, logs: list[Log]) -> None:
        """Write logs as a killed broker leaves them, and have everything beside them made."""
        for n, log in enumerate(logs):
            log.write(log_dir / "made", self.chance).rename(self.folder(n, log_dir))
        (log_dir / "made").rmdir()
        kafkalog.recover(log_dir, config=CONFIG, now=NOW)

    def close(self, log_dir: Path, appended: int) -> None:
        for n in range(2):
            with LogWriter(log_dir, TOPIC, n, config=CONFIG, clock=lambda: NOW) as writer:
                if appended:
                    writer.append([Record(b"%d" % each, b"k1") for each in range(appended)])

    def mutate(self) -> None:
        kinds = [self.damage, self.leave, self.leave, self.change_checkpoint, self.change_checkpoint]
        for _ in range(self.chance.choice([1, 1, 1, 2])):
            self.chance.choice(kinds)()

    def contents(self, path: Path) -> dict[str, bytes]:
        """List contents that a file might have instead."""
        chance, relative = self.chance, path.relative_to(self.path)
        data = path.read_bytes() if path.exists() else b""
        other = str(relative).replace("orders-0", "orders-9").replace("orders-1", "orders-0")
        copies = {
            "older": self.older / relative,
            "younger": self.younger / relative,
            "other": self.path / other.replace("orders-9", "orders-1"),
        }
        found = {name: copy.read_bytes() for name, copy in copies.items() if copy.is_file()}
        cut = chance.randrange(len(data) + 1)
        found |= {
            "empty": b"",
            "zeros": bytes(len(data)),
            "random": chance.randbytes(len(data) or 50),
            "torn": data[:cut],
            "longer": data + chance.randbytes(30),
            "text": b"0\n1\norders 0 5\n",
        }
        if data:
            at = chance.randrange(len(data))
            found["flipped"] = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        batches = [batch for _, batch, _ in split(data)] if path.name.endswith(".log") else []
        if batches:
            some = chance.randrange(len(batches))
            found |= {
                "same": data,
                "cut between batches": b"".join(batches[:some]),
                "without a batch": b"".join(batches[:some] + batches[some + 1 :]),
                "without the first": b"".join(batches[1:]),
                "last batch": batches[-1],
            }
        return found

    def pick(self, found: dict[str, bytes]) -> tuple[str, bytes]:
        name = self.chance.choice(sorted(found))
        return name, found[name]

    def damage(self) -> None:
        """Change a file other than a ``.log``."""
        files = sorted(path for path in self.path.rglob("*") if path.is_file() and path.suffix != ".log")
        path = self.chance.choice(files)
        if self.chance.random() < 0.2:
            how = "removed"
            path.unlink()
        else:
            how, data = self.pick(self.contents(path))
            path.write_bytes(data)
        self.done.append(f"{path.relative_to(self.path)}: {how}")

    def leave(self) -> None:
        """Add a leftover."""
        chance = self.chance
        folder = self.folder(chance.randrange(2))
        log = chance.choice(sorted(folder.glob("*.log")))
        kind = chance.choice([".log"] * 6 + [".index", ".timeindex", ".txnindex", ".snapshot"])
        of = log.with_suffix(kind)
        how, data = self.pick(self.contents(of))
        base = int(log.stem) + chance.choice([0] * 8 + [1, 3, 1000, 1 << 33])
        path = folder / f"{base:020}{kind}{chance.choice(['.swap', '.swap', '.swap', '.cleaned', '.deleted'])}"
        path.write_bytes(data)
        self.done.append(f"{path.relative_to(self.path)}: {how} of {of.name}")

    def change_checkpoint(self) -> None:
        chance, partition = self.chance, self.chance.randrange(2)
        path = self.path / chance.choice(CHECKPOINTS)
        end = self.logs[partition].end
        offset = chance.choice([0, chance.randrange(end + 1), end - 1, end, end + 1, end + 1000, 1 << 40, -1])
        lines = path.read_text().splitlines()[2:] if path.exists() else []
        lines = [line for line in lines if not line.startswith(f"{TOPIC} {partition} ")]
        if chance.random() < 0.9:
            lines.append(f"{TOPIC} {partition} {offset}")
        path.write_text("\n".join(["0", str(len(lines)), *lines, ""]))
        self.done.append(f"{path.name}: {TOPIC}-{partition} at {offset}")

    def log_start(self, partition: int) -> int:
        """Return the log start that the checkpoint gives; 0 if that is beyond its end."""
        path = self.path / CHECKPOINTS[0]
        words = [line.split() for line in path.read_bytes().splitlines()] if path.exists() else []
        name = [TOPIC.encode(), b"%d" % partition]
        starts = [int(line[2]) for line in words if line[:2] == name and len(line) == 3 and line[2].isdigit()]
        return max((start for start in starts if start <= self.end(partition)), default=0)

    def end(self, partition: int) -> int:
        """The offset after the last whole batch."""
        return max(last_offset(batch) for batch in self.batches[partition]) + 1

    def check(self, partition: int, log_dir: Path | None = None, *, start: int = 0, end: int = 1 << 62) -> None:
        """Every record and batch between two offsets is there."""
        folder = self.folder(partition, log_dir)
        expected = {offset: row for offset, row in self.rows[partition].items() if start <= offset < end}
        found = rows(folder)
        assert {offset: found.get(offset) for offset in expected} == expected, self.done
        wanted = {batch for batch in self.batches[partition] if start <= last_offset(batch) < end}
        assert wanted <= whole_batches(folder), self.done


Verb: TypeAlias = "Callable[[Round], None]"


def refuses_or(round_: Round, act: Callable[[], Any]) -> bool:
    """Return whether a function did its work; one that refused raises an error of ours, and has changed nothing."""
    refused = None
    try:
        act()
    except (kafkalog.KafkaLogError, ValueError, OSError) as error:
        refused = str(error)
    if refused is None:
        return True
    assert "internal error" not in refused, (round_.done, refused)
    assert tree(round_.path) == round_.before, (round_.done, refused)
    return False


def writing(round_: Round, act: Callable[[], Any]) -> None:
    if refuses_or(round_, act):
        for n in range(2):
            round_.check(n)


def recover(round_: Round) -> None:
    writing(round_, lambda: kafkalog.recover(round_.path, config=CONFIG, now=NOW))


def recover_partition(round_: Round) -> None:
    writing(round_, lambda: kafkalog.recover(round_.folder(0), config=CONFIG, now=NOW))


def salvage(round_: Round) -> None:
    writing(round_, lambda: kafkalog.recover(round_.path, salvage=True, config=CONFIG, now=NOW))


def append(round_: Round) -> None:
    def act() -> None:
        with LogWriter(round_.path, TOPIC, 0, config=CONFIG, clock=lambda: NOW) as writer:
            writer.append([Record(b"new", b"new")])

    if refuses_or(round_, act):
        for n in range(2):
            round_.check(n)
        last = max(rows(round_.folder(0)).items())
        assert last[1] == (b"new", b"new"), round_.done
        assert last[0] >= round_.end(0), round_.done


def into(round_: Round, act: Callable[[Path], Any], check: Callable[[Path], None]) -> None:
    """Run a verb that writes elsewhere: the source stays as it is, whatever happens."""
    out = round_.root / "out"
    if refuses_or(round_, lambda: act(out)):
        check(out)
    assert tree(round_.path) == round_.before, round_.done


def both(round_: Round) -> Callable[[Path], None]:
    def check(out: Path) -> None:
        for n in range(2):
            round_.check(n, out)

    return check


def recover_into(round_: Round) -> None:
    into(round_, lambda out: kafkalog.recover(round_.path, out=out, config=CONFIG, now=NOW), both(round_))


def retain(round_: Round) -> None:
    config = {"retention.ms": -1, "retention.bytes": -1}

    def check(out: Path) -> None:
        for n in range(2):
            round_.check(n, out, start=round_.log_start(n))

    into(round_, lambda out: kafkalog.retain(round_.path, out, config=config, now=NOW), check)


def compact_nothing(round_: Round) -> None:
    into(
        round_,
        lambda out: kafkalog.compact(round_.path, out, config={"cleanup.policy": "delete"}, now=NOW),
        both(round_),
    )


def compact(round_: Round) -> None:
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}

    def check(out: Path) -> None:
        for n, log in enumerate(round_.logs):
            left = {each.offset: (each.key, each.value) for each in log.cleaned(roll=False, lag_ms=0)}
            # A tombstone may be due; segments below the log start go (`UnifiedLog.deleteOldSegments`).
            start = round_.log_start(n)
            left = {offset: row for offset, row in left.items() if row[1] is not None and offset >= start}
            found = rows(round_.folder(n, out))
            assert {offset: found.get(offset) for offset in left} == left, round_.done

    into(round_, lambda out: kafkalog.compact(round_.path, out, config=config, now=NOW), check)


def truncate(round_: Round) -> None:
    offset = round_.chance.randrange(round_.end(0) + 1)
    into(
        round_,
        lambda out: kafkalog.truncate(round_.folder(0), out, offset, config=CONFIG),
        lambda out: round_.check(0, out, end=offset_of_batch(round_, offset)),
    )


def offset_of_batch(round_: Round, offset: int) -> int:
    """Find the batch into which a truncation to ``offset`` falls."""
    firsts = [
        batch.records[0].offset for batch in round_.logs[0].batches if batch.records and batch.last_offset >= offset
    ]
    return min([offset, *firsts])


def rewrite(round_: Round) -> None:
    into(round_, lambda out: kafkalog.rewrite(round_.path, out, drop_keys=[b"no such key"]), both(round_))


def import_into(round_: Round) -> None:
    source = round_.root / "more.jsonl"
    source.write_text('{"key": "new", "value": "new"}\n')
    words = ["import", str(source), str(round_.path), "-t", TOPIC, "-p", "0", "--text"]

    def act() -> None:
        if main(words):
            raise ValueError("refused")

    writing(round_, act)


def rebuild(round_: Round) -> None:
    writing(round_, lambda: kafkalog.rebuild_indexes(round_.folder(0), config=CONFIG))


def read(round_: Round) -> None:
    """Reading gives every record, or below the log start none, or says that this hides them."""
    for n in range(2):
        round_.check(n)
        folder, expected = round_.folder(n), round_.rows[n]
        for how in ({}, {"isolation_level": "read_uncommitted", "on_corrupt": "raise"}):
            found: Rows = {}
            hidden = ""
            try:
                found = rows(folder, starting_offsets="earliest", **how)
            except kafkalog.CorruptIndexError as error:
                hidden = str(error)
            if hidden:
                assert "oldest" in hidden, (round_.done, hidden)
                continue
            start = round_.log_start(n)
            wanted = {offset: row for offset, row in expected.items() if offset >= start}
            assert {offset: found.get(offset) for offset in wanted} == wanted, (round_.done, how)
    assert tree(round_.path) == round_.before


VERBS: dict[str, Verb] = {
    verb.__name__: verb
    for verb in (
        read,
        recover,
        recover_partition,
        recover_into,
        salvage,
        append,
        import_into,
        retain,
        compact,
        compact_nothing,
        truncate,
        rewrite,
        rebuild,
    )
}


def verb_of(seed: int) -> str:
    return sorted(VERBS)[seed % len(VERBS)]


# Found before: a swap whose base offset lies inside of a live log, so that what the log holds beyond it is not read any
# more; a swap that looks like the result of a compaction, with the last batch and not all before; a swap after the end
# of the log, one batch of which has a base offset that fits; a transaction index that is gone, so that an aborted
# record is the latest.
FOUND = {46, 100, 153, 221, 240, 382, 1317, 2939}


@pytest.mark.parametrize("seed", sorted({*SEEDS, *FOUND}))
@pytest.mark.sampled(6)
def test_nothing_is_lost(tmp_path: Path, seed: int) -> None:
    """4,000 rounds in the slow profile (``KAFKALOG_SLOW=1``)."""
    round_ = Round(seed, tmp_path)
    read(round_)
    VERBS[verb_of(seed)](round_)
