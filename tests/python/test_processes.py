"""Readers and errors across processes: forks and ends with a reader open, and errors on their way from a worker."""

from __future__ import annotations

import concurrent.futures
import importlib.util
import itertools
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import forked_read
import kafkalog
from s3_server import CLIENTS, S3Server

if TYPE_CHECKING:
    from collections.abc import Iterator
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


ALL_CLIENTS = (*CLIENTS, *(["fsspec"] if importlib.util.find_spec("s3fs") else []))
# Scans of which one batch was read, when the script ends: their windows are still on the way.
ENDING = """
import atexit, json, sys, threading, time
import kafkalog
from kafkalog.storage import _clients
_clients._has_obstore = lambda: sys.argv[1] == "obstore"
options, how, readers = json.loads(sys.argv[2]), sys.argv[3], []
url = ("fsspec::" if sys.argv[1] == "fsspec" else "") + "s3://bkt/orders-0"
def last():
    try:
        print(kafkalog.read_table(url, columns=["offset"], storage_options=options).num_rows)
    except OSError as error:
        print(error)
if how == "scan at exit":
    atexit.register(last)
for threads in (1, 2, 1, 2, 2):
    how_read = {"threads": threads, "layout": "view" if threads == 1 else "binary", "batch_bytes": 1 << 16}
    reader = kafkalog.scan(url, storage_options=options, **how_read)
    readers.append((reader, next(reader)))
    if how == "close":
        reader.close()
print(len(readers), flush=True)
if how == "stall":
    input()
    threading.Thread(target=last, daemon=True).start()
    time.sleep(1)
"""


@pytest.fixture(scope="module")
def server(long_log: tuple[Path, int]) -> Iterator[S3Server]:
    """Give a store with the long log."""
    store = S3Server()
    store.put_folder(long_log[0], "orders-0/")
    yield store
    store.close()


@pytest.mark.parametrize("how", ["leave", "close", "scan at exit", "stall"])
@pytest.mark.parametrize("client", ALL_CLIENTS)
def test_a_process_ends_while_requests_run(server: S3Server, client: str, how: str) -> None:
    server.reset()
    options = json.dumps({**server.storage_options, "timeout": "3s"})
    command = [sys.executable, "-c", ENDING, client, options, how]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "5\n"
        if how == "stall":
            server.fault = lambda kind, key, number: "stall"  # noqa: ARG005
        said, failure = child.communicate("\n", timeout=60)
    assert (child.returncode, failure) == (0, "")
    assert how != "scan at exit" or "the interpreter is ending" in said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize(("client", "how"), list(itertools.product(ALL_CLIENTS, ["read", "go on", "end"])))
@pytest.mark.sampled(4)
def test_a_process_is_forked_while_requests_run(
    server: S3Server, long_log: tuple[Path, int], client: str, how: str
) -> None:
    server.reset()

    def slow(kind: str, key: str, number: int) -> None:
        # All windows are on the way when the process is forked.
        time.sleep(0.2)

    server.fault = slow
    said, failure = forked_read.run("s3://bkt/orders-0", client, {**server.storage_options, "timeout": "10s"}, how)
    assert (said, failure) == (forked_read.expected(how, long_log[1]), "")


# A fork while another thread opens the store, as that of a pool that gets a new worker.
OPENING = """
import json, os, signal, sys, threading, time
import kafkalog
from kafkalog.storage import _clients
client, options = sys.argv[1], json.loads(sys.argv[2])
_clients._has_obstore = lambda: client == "obstore"
url, begun = ("fsspec::" if client == "fsspec" else "") + "s3://bkt/orders-0", threading.Event()
def read(who):
    print(who, kafkalog.read_table(url, columns=["offset"], storage_options=options).num_rows, flush=True)
def slow(location, options, make=_clients.client_for):
    begun.set()
    time.sleep(0.5)
    return make(location, options)
_clients.client_for = slow
thread = threading.Thread(target=read, args=("parent",))
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    read("child")
    sys.exit(3)
thread.join()
print("code", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("client", ALL_CLIENTS)
@pytest.mark.sampled(1)
def test_a_process_is_forked_while_another_thread_opens_a_store(
    server: S3Server, long_log: tuple[Path, int], client: str
) -> None:
    server.reset()
    options = json.dumps({**server.storage_options, "timeout": "10s"})
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", OPENING, client, options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    said = sorted(done.stdout.splitlines())
    assert (said, done.stderr) == ([f"child {long_log[1]}", "code 3", f"parent {long_log[1]}"], "")


COMMAND = """
import sys
from kafkalog.cli.main import run
from kafkalog.storage import _clients
client = sys.argv.pop(1)
_clients._has_obstore = lambda: client == "obstore"
run()
"""


@pytest.mark.parametrize("client", CLIENTS)
def test_a_command_ends_at_once_after_ctrl_c_although_a_store_is_silent(server: S3Server, client: str) -> None:
    server.reset()
    asked = threading.Event()

    def fault(kind: str, key: str, number: int) -> str | None:
        if kind != "GET":
            return None
        asked.set()
        return "stall"

    server.fault = fault
    options = [f"--storage-option={name}={value}" for name, value in server.storage_options.items()]
    command = [sys.executable, "-c", COMMAND, client, "cat", "s3://bkt/orders-0", *options]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert asked.wait(30)
        time.sleep(0.5)
        began = time.monotonic()
        child.send_signal(signal.SIGINT)
        said, failure = child.communicate(timeout=60)
    assert (child.returncode, said, failure) == (130, "", "")
    # The store keeps silent for 6 s.
    assert time.monotonic() - began < 4


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
