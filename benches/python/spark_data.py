"""Logs for the Spark legs: a topic multiplied by links, and one with a partition ten times larger than the others."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import kafkalog

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa

# Rows of the large partition for each row of a small one; there are three small ones.
LARGER, SMALL_ONES = 10, 3
SKEWED = ("even", "skewed")


def folders(logs: Path, topic: str) -> list[Path]:
    """The partition folders of a topic, by number."""
    found = [each for each in logs.glob(f"{topic}-*") if each.name.removeprefix(f"{topic}-").isdigit()]
    return sorted(found, key=lambda each: int(each.name.rpartition("-")[2]))


def make_long(logs: Path, target: Path, topic: str, times: int) -> None:
    """Link every partition's files that many times, as further partitions."""
    wanted = [each for _ in range(times) for each in folders(logs, topic)]
    if not wanted:
        raise FileNotFoundError(f"{logs} has no topic {topic}")
    target.mkdir(parents=True, exist_ok=True)
    for each in folders(target, topic):
        shutil.rmtree(each)
    for number, folder in enumerate(wanted):
        made = target / f"{topic}-{number}"
        made.mkdir()
        for file in folder.iterdir():
            (made / file.name).symlink_to(file)


def make_skewed(logs: Path, scratch: Path, topic: str) -> None:
    """Write ``skewed`` and ``even``: the same rows in four partitions, one of them ten times larger or all alike."""
    done = scratch / "skew" / f"{topic}.done"
    if done.exists():
        return
    for name in SKEWED:
        shutil.rmtree(scratch / "skew" / name, ignore_errors=True)
    table = kafkalog.read_table(folders(logs, topic)[0], columns=["key", "value", "timestamp"])
    units = LARGER + SMALL_ONES
    parts = SMALL_ONES + 1
    for number in range(parts):
        large = LARGER if number == 0 else 1
        write(scratch / "skew" / "skewed", topic, number, [table] * large)
        whole, rest = divmod(units * table.num_rows // parts, table.num_rows)
        write(scratch / "skew" / "even", topic, number, [*[table] * whole, table.slice(0, rest)])
    done.touch()


def write(log_dir: Path, topic: str, partition: int, tables: Iterable[pa.Table]) -> None:
    """Write one partition."""
    config = kafkalog.LogConfig(segment_bytes=128 << 20)
    with kafkalog.LogWriter(log_dir, topic, partition, config=config) as writer:
        for table in tables:
            writer.append(table)
