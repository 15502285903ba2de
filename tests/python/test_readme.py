"""The README's first two shell blocks are the commands that are run here and in CI."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kafkalog
from kafkalog.cli.main import COMMANDS
from kafkalog.schema import RECORD_COLUMNS

ROOT = Path(__file__).resolve().parents[2]


def blocks() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```(?:sh|bash|shell|console)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def commands(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith(("#", "set ", "cd "))]


def test_ci_runs_exactly_the_second_command() -> None:
    assert commands((ROOT / ".ci" / "run").read_text(encoding="utf-8")) == commands(blocks()[1])


def test_the_first_command_is_the_main_job() -> None:
    first = commands(blocks()[0])
    assert first == ["python3 tests/main_job.py"]
    assert (ROOT / first[0].split()[1]).is_file()


def examples(*, spark: bool) -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [code for code in found if ("pyspark" in code) == spark]


@pytest.mark.parametrize("code", examples(spark=False), ids=lambda code: code.splitlines()[2])
def test_examples_run(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - the examples themselves


@pytest.mark.spark
@pytest.mark.parametrize("code", examples(spark=True), ids=["spark"])
def test_spark_examples_run(code: str, tmp_path: Path) -> None:
    """In a process of its own: a session is made, and it ends with the process."""
    check = "print(spark.read.format('kafkalog').load(log_dir).count())\n"
    check += "print(fast.count(), same.count(), fast.columns, number, stream.isStreaming)\nspark.stop()\n"
    done = subprocess.run(
        [sys.executable, "-c", code + check],
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["880", "880 880 ['value', 'offset'] 2373 True"]


def test_shell_examples_are_these() -> None:
    """The first two are what CI runs, the third is run by tests/spark/test_cluster.py, the last here below."""
    assert ["spark-submit" in block for block in blocks()] == [False, False, True, False]


def test_import_examples_run(tmp_path: Path) -> None:
    """As pasted, one after the other; only the names that stand for the user's own are filled in."""
    (tmp_path / "events.jsonl").write_text('{"key": "k", "value": "v"}\n{"value": "w"}\n')
    pq.write_table(pa.table({"key": ["a"], "value": [b"1"]}), tmp_path / "orders.parquet")
    golden = ROOT / "tests" / "golden" / "clean-restarts" / "data-1"
    code = blocks()[3].replace("/data/", f"{tmp_path}/").replace("/backup/kafka-logs", str(golden))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euc", code],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    found = kafkalog.LogDir(tmp_path / "kafka-logs")
    ledger = kafkalog.PartitionLog(golden / "ledger-0")
    wanted = {"orders": 1, "events": 2, "ledger": ledger.log_end_offset}
    assert {log.topic: log.log_end_offset for log in found} == wanted
    assert {batch.column("compression")[0].as_py() for batch in found["orders", 0].batches()} == {"zstd"}


def test_columns_are_those_of_the_table() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text[text.index("| column | type |") :].split("\n\n")[0]
    named = [name.strip() for line in table.splitlines()[2:] for name in line.split("|")[1].split(",")]
    assert named == [column.name for column in RECORD_COLUMNS]


def test_commands_are_those_there_are() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `kafkalog (\w+)", text, flags=re.MULTILINE) == list(COMMANDS)
