"""A local session whose workers run a Python without kafkalog is refused with advice."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog.spark
from kafkalog.spark.interpreter import check_interpreter

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.full


def session(python: str, master: str = "local[2]", conf: str | None = None) -> Any:
    return SimpleNamespace(
        _sc=SimpleNamespace(master=master, pythonExec=python), conf=SimpleNamespace(get=lambda *_: conf)
    )


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A python3 at the head of the PATH, which has no kafkalog."""
    python = tmp_path / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return python


def test_another_python_is_named_with_the_variable_to_set(other: Path) -> None:
    for spark in (session("python3"), session(str(other)), session(sys.executable, conf=str(other))):
        for call in (check_interpreter, kafkalog.spark.register, lambda spark: kafkalog.spark.read(spark, "/data")):
            with pytest.raises(ImportError) as caught:
                call(spark)
            assert str(other) in str(caught.value)
            assert f"PYSPARK_PYTHON={sys.executable}" in str(caught.value)


def test_what_cannot_be_seen_or_is_right_is_not_refused(other: Path) -> None:
    sessions: list[Any] = [
        session(sys.executable),
        session("python3", conf=sys.executable),
        session("python3", "spark://host:7077"),
        session("no-such-python"),
        SimpleNamespace(),
    ]
    for spark in sessions:
        check_interpreter(spark)
    assert other.exists()
