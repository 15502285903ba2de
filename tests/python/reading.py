"""One who writes a log, and those who read it meanwhile, each a process of its own.

Usage: ``reading.py write FOLDER SECONDS`` or ``reading.py read FOLDER THREADS``. The writer notes in ``FOLDER/known``
how many records are there for certain, and in ``FOLDER/done`` that it has ended. A reader looks first what is certain,
then reads: nothing may be missing of that, everything must be whole and in its place, and each lookup must find it.
"""

from __future__ import annotations

import random
import struct
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa

import kafkalog
from kafkalog import LogConfig, LogWriter, Record

NOW = 1_700_000_000_000
COUNT = struct.Struct(">q")
FAR = 3000


def value(offset: int) -> bytes:
    """Give what the record holds."""
    return b"%d/" % offset + b"x" * (offset * 7919 % 60)


def write(folder: Path, seconds: float) -> None:
    """Append, roll and flush until the time is over."""
    chance = random.Random(5)  # noqa: S311 - to be repeated, not secret
    config = LogConfig(segment_bytes=30_000, index_interval_bytes=300, segment_index_bytes=9600)
    ends = time.monotonic() + seconds
    with (folder / "known").open("r+b", buffering=0) as known, LogWriter(
        folder, "t", config=config, clock=lambda: NOW, batch_bytes=400
    ) as log:  # fmt: skip
        while time.monotonic() < ends:
            end = log.log_end_offset
            count = chance.randrange(1, 30)
            log.append([Record(value(end + n), b"k", NOW + (end + n) * 2) for n in range(count)])
            known.seek(0)
            known.write(COUNT.pack(end + count))
            if chance.random() < 0.02:
                log.roll()
            if chance.random() < 0.05:
                log.flush()
            time.sleep(0.002)
    (folder / "done").touch()


def certain(folder: Path) -> int:
    """Give how many records are there."""
    (count,) = COUNT.unpack((folder / "known").read_bytes())
    return int(count)


def look(folder: Path, chance: random.Random) -> int:
    """Read a part of the log and ask for some of its records; give how many rows were read."""
    least = certain(folder)
    start = max(0, least - chance.choice([20, 300, FAR]))
    columns = ["offset", "key", "value", "timestamp"]
    table = kafkalog.read_table(folder / "t-0", columns=columns, starting_offsets=start, layout="view")
    offsets = table["offset"].to_pylist()
    assert offsets == list(range(start, start + len(offsets))), "a gap, or something twice"
    assert start + len(offsets) >= least, f"{start + len(offsets)} of {least}"
    assert table["value"].to_pylist() == [value(offset) for offset in offsets]
    assert table["key"].to_pylist() == [b"k"] * len(offsets)
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [NOW + offset * 2 for offset in offsets]
    log = kafkalog.PartitionLog(folder / "t-0")
    assert log.log_end_offset >= least
    for _ in range(5):
        offset = chance.randrange(least)
        found = log.lookup(offset)
        assert found is not None
        assert found.offset == offset
        moment = log.offset_for_timestamp(NOW + offset * 2)
        assert moment is not None
        assert (moment.offset, moment.timestamp) == (offset, NOW + offset * 2)
    return len(offsets)


def read(folder: Path, threads: int) -> None:
    """Read until the writer has ended, and once more; twice at least, however busy the machine is."""
    failed: list[BaseException] = []
    sums = [[0, 0] for _ in range(threads)]

    def one(number: int) -> None:
        chance = random.Random(number)  # noqa: S311 - the same
        try:
            while not failed:
                is_last = (folder / "done").exists()
                if certain(folder):
                    sums[number][1] += look(folder, chance)
                    sums[number][0] += 1
                if is_last and sums[number][0] > 1:
                    return
        except BaseException as error:  # noqa: BLE001 - told below
            failed.append(error)

    running = [threading.Thread(target=one, args=(number,)) for number in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    if failed:
        raise failed[0]
    print(sum(times for times, _ in sums), sum(rows for _, rows in sums))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), float(sys.argv[3]))
    else:
        read(Path(sys.argv[2]), int(sys.argv[3]))
