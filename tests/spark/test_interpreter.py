"""A local session whose workers run a Python without kafkalog is refused with advice."""

from __future__ import annotations

import os
import subprocess
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
        calls = (
            check_interpreter,
            kafkalog.spark.register,
            lambda spark: kafkalog.spark.read(spark, "/data"),
            lambda spark: kafkalog.spark.count(spark, "/data"),
            lambda spark: kafkalog.spark.plan(spark, "/data"),
            lambda spark: kafkalog.spark.rewrite(spark, "/data", "/out"),
        )
        for call in calls:
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


REAL = """
import sys, kafkalog.spark
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.log.level", "OFF")
data, out = sys.argv[1:]
kafkalog.LogWriter(data, "t").close()
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
calls = {
    "read": lambda: kafkalog.spark.read(spark, data),
    "count": lambda: kafkalog.spark.count(spark, data),
    "plan": lambda: kafkalog.spark.plan(spark, data),
    "export": lambda: kafkalog.spark.export("local[1]", data, out),
    "rewrite": lambda: kafkalog.spark.rewrite(spark, data, out, drop_keys=[b"k"]),
    "register": lambda: kafkalog.spark.register(spark),
}
for name, call in calls.items():
    try:
        call()
    except ImportError as error:
        print(name, error)
"""


def test_a_real_session(other: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", REAL, str(tmp_path / "data"), str(tmp_path / "out")]
    env = os.environ | {"PYSPARK_PYTHON": str(other)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=200)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["read", "count", "plan", "export", "rewrite", "register"], (
        done.stderr
    )
    for line in lines:
        assert f"run {other}, which has no kafkalog; set the environment variable PYSPARK_PYTHON=" in line
    assert not (tmp_path / "out").exists()
