"""One item ahead in a thread, or in turn: the same items, the same errors, and nothing left behind."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

import kafkalog.spark.ahead as module
from kafkalog.spark.ahead import ahead, where_idle

if TYPE_CHECKING:
    from collections.abc import Generator


def counting(stop: int, seen: list[str], fail: bool = False) -> Generator[int, None, None]:  # noqa: FBT001, FBT002
    try:
        for number in range(stop):
            seen.append(f"made {number}")
            yield number
        if fail:
            raise OSError(5, "no more")
    finally:
        seen.append(f"closed in {threading.current_thread().name}")


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "kafkalog-ahead"]


@pytest.mark.parametrize("stop", [0, 1, 2, 100])
def test_all_items_in_order(stop: int) -> None:
    seen: list[str] = []
    assert list(ahead(counting(stop, seen))) == list(range(stop))
    assert seen[-1] == "closed in kafkalog-ahead"
    assert not threads()


def test_an_error_comes_behind_the_items_before_it() -> None:
    items = ahead(counting(3, [], fail=True))
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match="no more"):
        next(items)
    assert not threads()


def test_it_is_one_ahead_and_not_more() -> None:
    seen: list[str] = []
    items = ahead(counting(10, seen))
    assert next(items) == 0
    deadline = time.monotonic() + 10
    while "made 1" not in seen and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert seen == ["made 0", "made 1"]
    items.close()  # type: ignore[attr-defined]
    assert seen[-1] == "closed in kafkalog-ahead"
    assert "made 2" not in seen
    assert not threads()


def test_a_generator_that_is_dropped_leaves_no_thread() -> None:
    seen: list[str] = []
    items = ahead(counting(10, seen))
    next(items)
    del items
    assert not threads()
    assert seen[-1] == "closed in kafkalog-ahead"


class Machine:
    """How idle it is, and what its clock says: both go on when an item is made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cores: float, unix: str = "true") -> None:
        self.now, self.cores = 100.0, cores
        monkeypatch.setattr(module, "_idle_seconds", lambda: self.now * self.cores)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setenv("PYTHON_UNIX_DOMAIN_ENABLED", unix)

    def work(self, seen: list[str]) -> Generator[int, None, None]:
        for item in counting(20, seen):
            self.now += module.LOOK / 4
            yield item


@pytest.mark.parametrize(
    ("cores", "unix", "more"), [(0.6, "true", 1), (0.4, "true", 0), (2.0, "false", 0), (2.0, "", 0)]
)
def test_a_thread_from_when_a_core_is_seen_to_be_idle(
    monkeypatch: pytest.MonkeyPatch, cores: float, unix: str, more: int
) -> None:
    machine = Machine(monkeypatch, cores, unix)
    seen: list[str] = []
    items = where_idle(machine.work(seen))
    assert [next(items) for _ in range(4)] == [0, 1, 2, 3]
    assert not threads()
    assert next(items) == 4
    assert len(threads()) == more
    assert list(items) == list(range(5, 20))
    assert not threads()


@pytest.mark.parametrize("taken", [1, 4, 10])
def test_leaving_early_closes_what_is_run(monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    seen: list[str] = []
    items = where_idle(Machine(monkeypatch, 1.0).work(seen))
    for _ in range(taken):
        next(items)
    items.close()  # type: ignore[attr-defined]
    assert seen[-1].startswith("closed in ")
    assert not threads()


def test_errors_and_ends_before_it_could_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_UNIX_DOMAIN_ENABLED", "true")
    assert list(where_idle(counting(0, []))) == []
    assert list(where_idle(counting(2, []))) == [0, 1]
    items = where_idle(counting(1, [], fail=True))
    assert next(items) == 0
    with pytest.raises(OSError, match="no more"):
        next(items)


@pytest.mark.skipif(sys.platform != "linux", reason="told by /proc")
def test_how_idle_the_machine_is_can_be_told() -> None:
    before = module._idle_seconds()
    assert before is not None
    assert (module._idle_seconds() or 0.0) >= before > 0
