"""Prefetching one item in a thread: the same items, the same errors, and no thread is left."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from kafkalog.spark.task import prefetch

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
    return [thread for thread in threading.enumerate() if thread.name == "kafkalog-prefetch"]


@pytest.mark.parametrize("stop", [0, 1, 2, 100])
def test_all_items_in_order(stop: int) -> None:
    seen: list[str] = []
    assert list(prefetch(counting(stop, seen))) == list(range(stop))
    assert seen[-1] == "closed in kafkalog-prefetch"
    assert not threads()


def test_an_error_comes_after_the_items_before_it() -> None:
    items = prefetch(counting(3, [], fail=True))
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match="no more"):
        next(items)
    assert not threads()


def test_it_prefetches_one_item_and_not_more() -> None:
    seen: list[str] = []
    items = prefetch(counting(10, seen))
    assert next(items) == 0
    deadline = time.monotonic() + 10
    while "made 1" not in seen and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(0.02)
    assert seen == ["made 0", "made 1"]
    items.close()
    assert seen[-1] == "closed in kafkalog-prefetch"
    assert "made 2" not in seen
    assert not threads()


def test_a_generator_that_is_dropped_leaves_no_thread() -> None:
    seen: list[str] = []
    items = prefetch(counting(10, seen))
    next(items)
    del items
    assert not threads()
    assert seen[-1] == "closed in kafkalog-prefetch"
