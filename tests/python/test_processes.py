"""Readers and errors across processes: forked with a reader open, and errors on their way back from a worker."""

from __future__ import annotations

import concurrent.futures
import itertools
import multiprocessing
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog

if TYPE_CHECKING:
    from pathlib import Path

CORRUPT = corpus.GOLDEN / "corrupt"
ORDERS = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"

# The child has a minute: one that waits for a thread it does not have ends by the alarm.
FORKED = """
import gc, os, signal, sys
import kafkalog
reader = kafkalog.scan(sys.argv[1], layout=sys.argv[2], threads=int(sys.argv[3]), columns=["offset", "value"])
taken = next(reader).num_rows
child = os.fork()
if child == 0:
    signal.alarm(60)
    how = sys.argv[4]
    if how == "close":
        reader.close()
    elif how == "drop":
        del reader
        gc.collect()
    elif how == "scan":
        print(kafkalog.read_table(sys.argv[1], threads=4, columns=["offset"]).num_rows)
    else:
        try:
            print(taken + sum(batch.num_rows for batch in reader))
        except ValueError as error:
            print(error)
    sys.stdout.flush()
    os._exit(0)
print("child", os.waitpid(child, 0)[1], flush=True)
print("parent", taken + sum(batch.num_rows for batch in reader))
"""


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Give a log that several threads have to read, and how many records it has."""
    folder = tmp_path_factory.mktemp("long") / "orders-0"
    return folder, corpus.write_long(folder, 16 << 20, 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("how", ["read", "close", "drop", "scan"])
@pytest.mark.parametrize(("threads", "layout"), list(itertools.product([4, 1], ["view", "binary"])))
@pytest.mark.sampled(2)
def test_a_process_forked_while_a_reader_is_open(
    long_log: tuple[Path, int], layout: str, threads: int, how: str
) -> None:
    folder, records = long_log
    command = [sys.executable, "-c", FORKED, str(folder), layout, str(threads), how]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    said = done.stdout.splitlines()
    assert said[-2:] == ["child 0", f"parent {records}"], done.stderr
    if how == "scan" or (how == "read" and threads == 1):
        assert said[0] == str(records)
    elif how == "read":
        assert said[0].startswith("this reader's threads are in the process that began to read")


def ask(name: str, *arguments: Any) -> Any:
    """Do what fails; a function of the module, so that a worker finds it."""
    if name == "read":
        return kafkalog.read_table(*arguments).num_rows
    if name == "lookup":
        return kafkalog.PartitionLog(arguments[0]).lookup(arguments[1])
    with kafkalog.OffsetIndex(*arguments) as index:
        return index.sanity_check()


def told(error: BaseException) -> tuple[Any, ...]:
    """Give all that an error says."""
    return type(error), str(error), vars(error), *(getattr(error, name, None) for name in ("errno", "filename"))


@pytest.mark.parametrize("start", multiprocessing.get_all_start_methods())
def test_errors_come_back_from_a_worker_as_they_were(tmp_path: Path, start: str) -> None:
    index = tmp_path / f"{100:020}.index"
    index.write_bytes(b"\x00\x00\x00\x05\x00\x00\x00\x00" + b"\xff\xff\xff\xff\x00\x00\x00\x09")
    questions: list[tuple[Any, ...]] = [
        ("read", str(CORRUPT / "flipped-bit" / "t-0")),
        ("read", str(CORRUPT / "unknown-magic" / "t-0")),
        ("read", str(CORRUPT / "huge-header-count" / "t-0")),
        ("read", str(tmp_path / "none-0")),
        ("read", str(index)),
        ("lookup", str(ORDERS), 881),
        ("index", str(index)),
    ]
    kinds = set()
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context(start)) as pool:
        for question in questions:
            with pytest.raises(Exception, match=r".") as here:
                ask(*question)
            with pytest.raises(Exception, match=r".") as there:
                pool.submit(ask, *question).result(timeout=120)
            assert told(there.value) == told(here.value)
            kinds.add(here.type)
    assert kinds == {
        kafkalog.CorruptRecordError,
        kafkalog.UnsupportedFormatError,
        kafkalog.InvalidRecordError,
        kafkalog.OffsetOutOfRangeError,
        kafkalog.CorruptIndexError,
        FileNotFoundError,
        ValueError,
    }
