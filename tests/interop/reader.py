"""A process that reads one topic of a live directory repeatedly, and reports what it saw.

Usage: ``reader.py LOG_DIR... -- TOPIC compacted|complete``. One JSON line a round on standard output; ends when
something stands on standard input. It runs by itself so that a crash of it is seen as one.

In every read offsets must rise, without a gap where nothing compacts; a record must be the one seen before at its
offset; the end never moves back. What retention removed may be missing at the front. Where compaction runs (without
transactions, and with tombstones kept) the last value of every key must still be there, or a later one.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import sys
from pathlib import Path
from typing import Literal

import kafkalog

WAYS: tuple[tuple[Literal["binary", "view"], int], ...] = (("binary", 1), ("view", 1), ("binary", 4), ("view", 4))
COLUMNS = ["offset", "partition", "timestamp", "key", "value", "headers", "isControl", "segment"]


def digest(*parts: object) -> bytes:
    """A short name for a record's content."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()


class Watcher:
    """Records seen of every partition."""

    def __init__(self, log_dirs: list[str], topic: str, *, compacted: bool) -> None:
        """Start with nothing seen."""
        self.log_dirs = log_dirs
        self.topic = topic
        self.compacted = compacted
        self.seen: dict[tuple[int, int], bytes] = {}
        self.ends: dict[int, int] = {}
        self.latest: dict[tuple[int, bytes], int] = {}
        self.rounds = 0

    def read(self) -> dict[str, object]:
        """Read everything once and compare."""
        layout, threads = WAYS[self.rounds % len(WAYS)]
        self.rounds += 1
        reader = kafkalog.scan(
            self.log_dirs,
            topics=self.topic,
            columns=COLUMNS,
            include_control=True,
            layout=layout,
            threads=threads,
            batch_rows=(65_536, 100)[self.rounds % 2],
        )
        last: dict[int, int] = {}
        first: dict[int, int] = {}
        newest: dict[tuple[int, bytes], int] = {}
        rows = 0
        for batch in reader:
            names = batch.schema.names
            for row in zip(*(batch.column(i).to_pylist() for i in range(len(names))), strict=True):
                offset, partition = row[0], row[1]
                before = last.get(partition)
                assert before is None or offset > before, f"{partition}: {offset} after {before}"
                if before is not None and not self.compacted:
                    assert offset == before + 1, f"{partition}: a gap from {before} to {offset}"
                first.setdefault(partition, offset)
                last[partition] = offset
                content = digest(*row[2:7])
                known = self.seen.setdefault((partition, offset), content)
                assert known == content, f"{partition}, {offset}: another record than before"
                newest[partition, row[3] or b""] = offset
                rows += 1
        if self.compacted:
            for (partition, key), offset in self.latest.items():
                now = newest.get((partition, key), -1)
                assert now >= offset, f"{partition}: key {key!r} at {offset} is lost, the last is at {now}"
            self.latest = newest
        for partition, end in last.items():
            # Without compaction every record below the end has existed, so the end never moves back.
            assert self.compacted or end >= self.ends.get(partition, -1), f"{partition}: the end moved back to {end}"
            self.ends[partition] = end
        return {"rows": rows, "first": first, "last": last}

    def look(self) -> int:
        """Ask the other questions: folders, segments, lookups by offset and time, statistics."""
        asked = 0
        for folder in (f for d in self.log_dirs for f in kafkalog.LogDir(d).folders):
            if folder.topic != self.topic or folder.state != "live":
                continue
            for attempt in range(5):
                try:
                    self.ask(folder.path)
                    asked += 1
                    break
                except (FileNotFoundError, kafkalog.CorruptRecordError, kafkalog.OffsetOutOfRangeError):
                    # The topic was deleted, the cleaner exchanged a segment, or retention deleted the one asked about:
                    # a PartitionLog shows the log as it was when it was opened, so open it again.
                    if not Path(folder.path).exists():
                        break
                    if attempt == 4:
                        raise
        return asked

    def ask(self, folder: str) -> None:
        """Ask one folder."""
        log = kafkalog.PartitionLog(folder)
        start, end = log.log_start_offset, log.log_end_offset
        assert start <= end
        for offset in (start, (start + end) // 2, end):
            found = log.lookup(offset)
            assert found is None or found.offset >= offset
        stamped = log.offset_of_max_timestamp()
        if stamped is not None:
            log.offset_for_timestamp(stamped.timestamp)
        log.statistics()


def held() -> list[str]:
    """Files that this process holds open for writing, and its locks."""
    found = []
    for entry in Path("/proc/self/fdinfo").iterdir():
        try:
            flags = next(line for line in entry.read_text().splitlines() if line.startswith("flags:"))
            target = str(Path(f"/proc/self/fd/{entry.name}").readlink())
        except (FileNotFoundError, StopIteration):
            continue
        if int(flags.split()[1], 8) & (os.O_WRONLY | os.O_RDWR) and target.startswith("/") and "/data-" in target:
            found.append(target)
    locks = Path("/proc/locks").read_text().splitlines()
    found += [lock for lock in locks if f" {os.getpid()} " in lock]
    return found


def main() -> int:
    """Read until standard input ends."""
    split = sys.argv.index("--")
    topic, kind = sys.argv[split + 1 : split + 3]
    watcher = Watcher(sys.argv[1:split], topic, compacted=kind == "compacted")
    gone = False
    while not select.select([sys.stdin], [], [], 0)[0]:
        try:
            answer = watcher.read()
            answer["asked"] = watcher.look()
            assert not gone, "the topic came back"
        except FileNotFoundError as error:
            # Only a deleted topic may be missing, and it stays missing.
            if any((Path(d) / f"{topic}-{p}").exists() for d in watcher.log_dirs for p in range(8)):
                raise
            gone = True
            answer = {"gone": str(error)}
        except ValueError as error:
            if "topic" not in str(error) or any(
                (Path(d) / f"{topic}-{p}").exists() for d in watcher.log_dirs for p in range(8)
            ):
                raise
            gone = True
            answer = {"gone": str(error)}
        answer["held"] = held()
        print(json.dumps(answer), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
