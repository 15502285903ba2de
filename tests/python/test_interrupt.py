"""Signals while the core is at work: their handlers run meanwhile, and what they raise ends the call."""

from __future__ import annotations

import array
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog
from kafkalog import LogWriter, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="no timers that send signals"), pytest.mark.full]

# Two records a batch, years apart: no header says that there is nothing between them.
EARLY, BETWEEN, LATE = 1_000_000_000_000, 1_300_000_000_000, 1_600_000_000_000
BATCHES, SEGMENTS = 1_500_000, 2
TICK = 0.02
NOTHING: dict[str, Any] = {"min_timestamp": BETWEEN, "max_timestamp": BETWEEN, "columns": ["offset"]}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give some million batches without an index; base offsets are not under the checksums."""
    log_dir = tmp_path_factory.mktemp("long")
    with LogWriter(log_dir, "t", clock=lambda: LATE) as writer:
        writer.append([Record(b"a", timestamp=EARLY), Record(b"b", timestamp=LATE)])
    folder = log_dir / "t-0"
    batch = (folder / f"{0:020}.log").read_bytes()
    for file in folder.glob("0*"):
        file.unlink()
    for segment in range(SEGMENTS):
        first = segment * BATCHES * 2
        offsets = array.array("Q", range(first, first + BATCHES * 2, 2))
        if sys.byteorder == "little":
            offsets.byteswap()
        digits, data = offsets.tobytes(), bytearray(batch * BATCHES)
        for digit in range(8):
            data[digit :: len(batch)] = digits[digit::8]
        (folder / f"{first:020}.log").write_bytes(data)
    return folder


def first_batch(**options: Any) -> Callable[[Path], object]:
    return lambda log: next(kafkalog.scan(log, **options), None)


def dumped(log: Path) -> bool:
    with Path(os.devnull).open("wb") as nowhere:
        return kafkalog._core.dump([(log / f"{0:020}.log", "segment")], nowhere.fileno(), nowhere.fileno())


CALLS: dict[str, Callable[[Path], object]] = {
    "binary": first_batch(**NOTHING),
    "view": first_batch(**NOTHING, layout="view"),
    "threads": first_batch(**NOTHING, threads=3),
    "far": first_batch(min_offset=BATCHES * 2 - 1, max_offset=BATCHES * 2 - 1, columns=["offset"]),
    "pyarrow": lambda log: pa.table(kafkalog.scan(log, **NOTHING)),
    "statistics": lambda log: kafkalog.PartitionLog(log).statistics(),
    "timestamp": lambda log: kafkalog.PartitionLog(log).offset_for_timestamp(LATE + 1, exact=True),
    "recover": lambda log: kafkalog.recover(log, dry_run=True),
    "salvage": lambda log: kafkalog.recover(log, dry_run=True, salvage=True),
    "rebuild": lambda log: kafkalog.rebuild_indexes(log, dry_run=True),
    "dump": dumped,
    "lookup": lambda log: kafkalog.PartitionLog(log).lookup(BATCHES * 2 - 1),
}


@pytest.fixture
def alarm() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Give what sets a handler that is called every few milliseconds."""
    before = signal.getsignal(signal.SIGALRM)

    def begin(handler: Callable[[], None]) -> None:
        signal.signal(signal.SIGALRM, lambda *_: handler())
        signal.setitimer(signal.ITIMER_REAL, TICK, TICK)

    yield begin
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


class HeardError(Exception):
    """Exception that a handler raises."""


@pytest.mark.parametrize("name", CALLS)
def test_handlers_run_during_a_call_and_end_it(name: str, log: Path, alarm: Callable[..., None]) -> None:
    heard: list[float] = []
    alarm(lambda: heard.append(time.monotonic()))
    begun = time.monotonic()
    CALLS[name](log)
    ended = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, 0)
    # One is heard at the end in any case.
    during = [moment for moment in heard if moment < ended - TICK / 2]
    assert len(during) >= min(3, (ended - begun) // 0.2), (ended - begun, len(heard))

    def stop() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise HeardError("stop")

    alarm(stop)
    # Within the call of a stream, Arrow wraps it; between two calls it comes as it is.
    expected = (pa.ArrowInvalid, HeardError) if name == "pyarrow" else HeardError
    begun_again = time.monotonic()
    with pytest.raises(expected, match="stop"):
        CALLS[name](log)
    assert time.monotonic() - begun_again < max(1, (ended - begun) / 2)


def test_a_reader_that_was_interrupted_says_so(log: Path, alarm: Callable[..., None]) -> None:
    reader = kafkalog.scan(log, **NOTHING)

    def stop() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # What reads is neither read nor closed under its own feet.
        with pytest.raises(ValueError, match="this reader is in use"):
            next(reader)
        with pytest.raises(ValueError, match="this reader is in use"):
            reader.__arrow_c_stream__()
        raise HeardError

    alarm(stop)
    with pytest.raises(HeardError):
        next(reader)
    for _ in range(2):
        # Never a quiet end: rows would be missing.
        with pytest.raises(ValueError, match="this reader was interrupted; scan again"):
            next(reader)
    assert reader.metrics["records"] == 0


def test_a_handler_may_close_the_reader(log: Path, alarm: Callable[..., None]) -> None:
    reader = kafkalog.scan(log, **NOTHING)

    def stop() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        reader.close()

    alarm(stop)
    assert next(reader, None) is None
    with pytest.raises(ValueError, match="closed"):
        next(reader)


def test_ctrl_c_is_heard_inside_a_stream_that_others_read(log: Path) -> None:
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT))
    failed = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the order is what is tested
        timer.start()
        try:
            for _ in range(100):
                pa.table(kafkalog.scan(log, **NOTHING))
        except pa.ArrowInvalid as error:
            failed.append(str(error))
        timer.join()
    timer.join()
    assert [text.partition(":")[0] for text in failed] in ([], ["interrupted"])


def test_other_threads_hear_nothing(log: Path, alarm: Callable[..., None]) -> None:
    heard: list[int] = []
    alarm(lambda: heard.append(os.getpid()))
    rows: list[int] = []
    thread = threading.Thread(target=lambda: rows.append(kafkalog.read_table(log, **NOTHING).num_rows))
    thread.start()
    thread.join()
    assert rows == [0]
    assert heard


@pytest.mark.parametrize("name", CALLS)
def test_other_threads_run_during_a_call(name: str, log: Path) -> None:
    """The interpreter lock is released: a waiting thread also gets it from Python code between two calls."""
    ticks: list[float] = []
    calls: list[tuple[float, float]] = []
    ends = threading.Event()

    def tick() -> None:
        while not ends.wait(0.002):
            ticks.append(time.monotonic())

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        while sum(ended - begun for begun, ended in calls) < 0.3:
            begun = time.monotonic()
            CALLS[name](log)
            calls.append((begun, time.monotonic()))
    finally:
        ends.set()
        thread.join()
    edge = 0.002
    during = [moment for moment in ticks if any(begun + edge < moment < ended - edge for begun, ended in calls)]
    assert len(during) > 10, (len(ticks), len(calls))
