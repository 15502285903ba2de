"""Old spellings of arguments still work, and say the new one at the line that has the old."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from kafkalog import tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
FOLDER = DATA / "orders-0"
TIME = 1_700_100_000_000
# Untyped: the old names are in no signature.
K: Any = kafkalog
NO = False


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            lambda _: K.read_table(DATA, "orders", latest=True),
            lambda _: K.read_table(DATA, "orders", latest_per_key=True),
            "latest is now called latest_per_key",
        ),
        (
            lambda _: K.ReadOptions(latest=True),
            lambda _: K.ReadOptions(latest_per_key=True),
            "latest is now called latest_per_key",
        ),
        (
            lambda _: K.verify(DATA, level="0.10"),
            lambda _: K.verify(DATA, kafka_version="0.10"),
            "level is now called kafka_version",
        ),
        (
            lambda at: K.rebuild_indexes(FOLDER, "2.8", at / "old").files,
            lambda at: K.rebuild_indexes(FOLDER, "2.8", out=at / "new").files,
            "takes out by keyword: write out=...",
        ),
        (
            lambda _: K.recover(FOLDER, dry_run=True, clock=lambda: TIME),
            lambda _: K.recover(FOLDER, dry_run=True, now=TIME),
            "clock is now called now",
        ),
        (
            lambda _: K.recover(FOLDER, NO, 0, dry_run=True),
            lambda _: K.recover(FOLDER, NO, recovery_point=0, dry_run=True),
            "takes recovery_point by keyword",
        ),
        (
            lambda _: K.tables.records(corpus.GOLDEN / "metadata" / "data-0", None, NO),
            lambda _: tables.records(corpus.GOLDEN / "metadata" / "data-0", secrets=False),
            "takes secrets by keyword",
        ),
    ],
)
def test_an_old_spelling_does_the_same(
    tmp_path: Path, old: Callable[[Path], Any], new: Callable[[Path], Any], said: str
) -> None:
    with pytest.warns(DeprecationWarning, match=said) as warned:
        found = old(tmp_path)
    assert {each.filename for each in warned} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found == new(tmp_path)


def test_both_names_of_an_argument_are_refused() -> None:
    calls: list[Callable[[], Any]] = [
        lambda: K.scan(DATA, latest=True, latest_per_key=True),
        lambda: K.verify(DATA, level="4.3", kafka_version="4.3"),
        lambda: K.recover(FOLDER, NO, 0, recovery_point=0, dry_run=True),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"both|multiple values"):
            call()
