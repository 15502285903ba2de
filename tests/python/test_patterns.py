"""A regular expression of a user takes bounded time, whatever it is."""

from __future__ import annotations

import time

import pytest

import corpus
from kafkalog import _patterns
from kafkalog.cli.main import main

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"


@pytest.mark.parametrize(
    ("pattern", "whole", "expected"),
    [
        ("orders", True, ["orders"]),
        ("orders|events", True, ["events", "orders"]),
        ("^(?!orders|__).*", False, ["events"]),
        ("o.*", True, ["orders"]),
        ("d", False, ["orders"]),
        ("d", True, []),
        (r"(\w)_*\1", False, ["__x__"]),
    ],
)
def test_matches(pattern: str, whole: bool, expected: list[str]) -> None:  # noqa: FBT001
    names = ["orders", "events", "__x__", "orders"]
    assert _patterns.matching(_patterns.compiled(pattern), names, whole=whole) == expected


def test_an_expression_that_would_take_for_ever_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_patterns, "SECONDS", 1.0)
    begin = time.monotonic()
    for pattern in ("(?=(a+)+$)b", "(a|a)*$", ".*.*.*.*.*.*.*.*b"):
        with pytest.raises(ValueError, match="takes more than 1 s"):
            _patterns.matching(_patterns.compiled(pattern), ["a" * 240 + "!"], whole=True)
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("pattern", ["(", "(" * 5_000, "a{99999999999999999999}"])
def test_what_is_no_expression_is_one_line(pattern: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"."):
        _patterns.compiled(pattern)
    assert main(["offsets", str(DATA), f"--topic={pattern}"]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert main(["offsets", str(DATA), "--topic", "ord.*"]) == 0
    assert capfd.readouterr().out.startswith("orders:0:")
