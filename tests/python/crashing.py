"""Kills a writer at random moments, again and again, and looks at what it leaves.

Usage: ``crashing.py FOLDER ROUNDS SEED``. Each round forks a child that continues writing one log: appends, rolls,
flushes, truncations, clean closes. It says in a pipe what it is about to do and what was acknowledged; after a moment
it is killed (SIGKILL), which may hit it while it recovers what the round before left. Then

* every acknowledged record is there, as it was given, and at most what was being appended beyond it;
* after a recovery, which is run here in every other round, the files are whole to a reader that shares no code with
  ours, and every answer of the indexes is the scan's.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import struct
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa

import kafkalog
import naive
from kafkalog import LogConfig, LogWriter, Record

WORD = struct.Struct(">cqq")
NOW = 1_700_000_000_000
MOST_ROWS = 1500
OFTEN = 0.8
LARGE = 3
MOST_WORDS = 12
SYNC = ("config", "never", "append")


@dataclass
class Model:
    """Records that must be there, as values by offset, and those that may be."""

    values: list[bytes] = field(default_factory=list)
    pending: list[bytes] = field(default_factory=list)
    cut: int | None = None
    cuts: set[int] = field(default_factory=set)

    def hear(self, word: tuple[bytes, int, int], generation: int) -> None:
        """Take note of what the child says."""
        kind, first, count = word
        if kind == b"A":  # about to append
            self.pending = [value(generation, first + n) for n in range(count)]
        elif kind == b"a":  # appended
            assert first == len(self.values), (first, len(self.values))
            self.values += self.pending
            self.pending = []
        elif kind == b"T":
            self.cut = first
            self.cuts.add(first)
        elif kind == b"t":
            del self.values[first:]
            self.cut = None
        else:
            message = f"the child said {word}"
            raise AssertionError(message)

    def hold(self, found: list[bytes]) -> None:
        """Compare, and continue from the log as it is."""
        least = len(self.values) if self.cut is None else self.cut
        assert len(found) >= least, f"lost: {len(found)} of {least}"
        everything = self.values + self.pending
        assert found == everything[: len(found)], "other records than were given"
        self.values, self.pending, self.cut = found, [], None


def is_large(generation: int) -> bool:
    """Tell whether this round's appends are so large that writes end inside a batch."""
    return generation % 5 == LARGE


def value(generation: int, offset: int) -> bytes:
    """Give the value of a record; another one when an offset is written again."""
    size = offset * 7919 % 90 * (1000 if is_large(generation) else 1)
    return b"%d/%d/" % (generation, offset) + b"x" * size


def child(folder: Path, generation: int, seed: int, pipe: int) -> None:
    """Write until killed, or until the log was closed a few times."""
    chance = random.Random(seed)  # noqa: S311 - to be repeated, not secret
    large = is_large(generation)
    for _ in range(chance.randrange(1, 4)):
        config = LogConfig(
            segment_bytes=chance.choice([700_000, 3_000_000] if large else [1500, 4000, 20_000]),
            index_interval_bytes=chance.choice([0, 100, 1000]),
            segment_index_bytes=4800,  # always room: what recovery adds must fit, in Kafka too
            compression_type=chance.choice(["uncompressed", "uncompressed", "gzip"]),
        )
        sync = chance.choice(SYNC)
        log = LogWriter(folder, "t", config=config, sync=sync, clock=lambda: NOW, batch_bytes=chance.choice([1, 300]))  # type: ignore[arg-type]
        for _ in range(chance.randrange(1, 15 if large else 150)):
            step = chance.random()
            end = log.log_end_offset
            if step < 0.85:
                count = chance.randrange(1, 40 if large else 12)
                os.write(pipe, WORD.pack(b"A", end, count))
                log.append([Record(value(generation, end + n), b"k", NOW + (end + n) * 10) for n in range(count)])
                os.write(pipe, WORD.pack(b"a", end, count))
            elif step < 0.9:
                log.roll()
            elif step < 0.95:
                log.flush()
            elif end:
                to = chance.randrange(max(0, end - 30), end)
                # A batch that is cut goes whole: only its first offset is a place where a log may end.
                to = max(b.base_offset for b in naive.batches(folder / "t-0") if b.base_offset <= to)
                os.write(pipe, WORD.pack(b"T", to, 0))
                log.truncate(to)
                os.write(pipe, WORD.pack(b"t", to, 0))
        log.close()


def heard(pipe: int, words: int) -> bytes:
    """Wait for so many words, or for the end of the child."""
    said = b""
    while len(said) < words * WORD.size and (more := os.read(pipe, 1 << 16)):
        said += more
    return said


def values_of(folder: Path) -> list[bytes]:
    """Read the log, whatever state it is in."""
    if not folder.is_dir():
        return []
    table = kafkalog.read_table(folder, columns=["offset", "value"])
    assert table["offset"].to_pylist() == list(range(table.num_rows))
    return [each or b"" for each in table["value"].to_pylist()]


def has_lost_times(folder: Path, cuts: set[int]) -> bool:
    """Tell whether a closed segment has records and no time entry.

    Kafka leaves one so that is opened, cut, and rolled before anything is appended (``LogSegment.truncateTo`` scans for
    the greatest time only where an entry is left), and then finds no later time.
    """
    bases = sorted(int(path.stem) for path in folder.glob("*.log"))
    for base, following in itertools.pairwise(bases):
        name = folder / f"{base:020}"
        if name.with_suffix(".log").stat().st_size and not name.with_suffix(".timeindex").stat().st_size:
            assert following in cuts, f"{name} has lost its times"
            return True
    return False


def check_answers(folder: Path, cuts: set[int]) -> None:
    """Hold the recovered files against a naive reader, and the indexes against the scan."""
    batches = naive.batches(folder)
    naive.check_indexes(folder)
    log = kafkalog.PartitionLog(folder)
    exact = has_lost_times(folder, cuts)
    end = batches[-1].last_offset + 1 if batches else 0
    assert (log.log_start_offset, log.log_end_offset) == (0, end)
    for batch in batches:
        for row in batch.rows:
            found = log.lookup(row.offset)
            assert found is not None
            assert (found.segment_base_offset, found.position, found.offset) == (
                batch.segment,
                batch.position,
                row.offset,
            )
            moment = log.offset_for_timestamp(row.timestamp, exact=exact)
            assert moment is not None
            assert (moment.offset, moment.timestamp) == (row.offset, row.timestamp)
    assert log.lookup(end) is None
    assert log.offset_for_timestamp(NOW + end * 10 + 1) is None


def run(root: Path, rounds: int, seed: int) -> None:
    """Do so many rounds."""
    pa.array([b"loaded before the children come into being"])
    chance = random.Random(seed)  # noqa: S311 - the same
    folder, model, mid, acknowledged = root / "log", Model(), 0, 0
    for generation in range(rounds):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            try:
                child(folder, generation, chance.randrange(1 << 40), write)
            except BaseException as error:  # noqa: BLE001 - told by the exit code
                sys.stderr.write(f"round {generation}: {type(error).__name__}: {error}\n")
                sys.stderr.flush()
                os._exit(1)
            os._exit(0)
        os.close(write)
        # Mostly while it writes, after so many words, however slow the machine is; now and then while it opens.
        said = heard(read, chance.randrange(1, MOST_WORDS)) if chance.random() < OFTEN else b""
        time.sleep(chance.random() ** 2 * (0.003 if said else 0.03))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        mid += os.WIFSIGNALED(status)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"round {generation}: the child failed"
        with os.fdopen(read, "rb") as words:
            said += words.read()
        for word in struct.iter_unpack(WORD.format, said[: len(said) // WORD.size * WORD.size]):
            model.hear(word, generation)
            acknowledged += word[0] == b"a"
        try:
            model.hold(values_of(folder / "t-0"))
            if generation % 2 and (folder / "t-0").is_dir():
                kafkalog.recover(folder / "t-0")
                assert values_of(folder / "t-0") == model.values, "recovery changed what was there"
                check_answers(folder / "t-0", model.cuts)
        except BaseException:
            sys.stderr.write(f"round {generation} of seed {seed}: {folder}\n")
            raise
        if len(model.values) > MOST_ROWS:
            shutil.rmtree(folder)
            model = Model()
    print(f"{rounds} rounds, {mid} killed in the middle, {acknowledged} appends acknowledged")
    assert mid > rounds // 2
    assert acknowledged > rounds


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
