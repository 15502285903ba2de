"""``kafkalog import`` that ends early: what was appended stays, and --resume continues after it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpus
import kafkalog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.release

ORDERS = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"
ROWS = 60_000
NOW = 1_700_000_000_000
LINES = [json.dumps({"value": f"{n:07}" * 14}) + "\n" for n in range(ROWS)]


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "kafkalog", "import", *map(str, words)]


def run(*words: str | Path, preexec_fn: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        preexec_fn=preexec_fn,
    )


def values(log_dir: Path) -> list[bytes | None]:
    return kafkalog.read_table(log_dir, columns=["value"])["value"].to_pylist()


def value(n: int) -> bytes:
    return b"%07d" % n * 14


def ended_by(number: int, fifo: Path, logs: Path) -> tuple[int, str]:
    """Begin an import of what is never written to its end, and end it when something is in the log."""
    os.mkfifo(fifo)
    log = logs / "t-0" / f"{0:020}.log"
    with (
        subprocess.Popen(command("--text", fifo, logs), stderr=subprocess.PIPE, text=True) as process,
        fifo.open("w") as lines,
    ):
        lines.writelines(LINES[: ROWS // 2])
        lines.flush()
        while not log.exists() or log.stat().st_size < 1 << 20:
            assert process.poll() is None
            time.sleep(0.001)
        process.send_signal(number)
        said = process.communicate(timeout=60)[1]
    return process.returncode, said


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.sampled(1)
def test_interrupted_it_goes_on(tmp_path: Path, number: int) -> None:
    (tmp_path / "begun").mkdir()
    logs = tmp_path / "logs"
    code, said = ended_by(number, tmp_path / "begun" / "t-0.jsonl", logs)
    assert code == (130 if number == signal.SIGINT else -number)
    end = kafkalog.PartitionLog(logs / "t-0").log_end_offset
    assert 0 < end < ROWS
    if number == signal.SIGINT:
        assert said == f"kafkalog: interrupted; {logs / 't-0'} ends at offset {end}; --resume continues there\n"
    whole = tmp_path / "t-0.jsonl"
    whole.write_text("".join(LINES))
    again = run("--text", "--resume", whole, logs)
    assert again.returncode == 0, again.stderr
    assert values(logs) == [value(n) for n in range(ROWS)]
    # Once more there is nothing to do.
    assert run("--text", "--resume", whole, logs).stderr.startswith("kafkalog: 0 records in 0 batches")
    assert kafkalog.PartitionLog(logs / "t-0").log_end_offset == ROWS


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """As a full disk: the system's error, the file, where the log ends."""
    limit = 3 << 20

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    parquet = tmp_path / "t-0.parquet"
    pq.write_table(pa.table({"value": [value(n) for n in range(ROWS)]}), parquet)
    logs = tmp_path / "logs"
    ended = run(parquet, logs, "--config", "segment.index.bytes=1000000", preexec_fn=limited)
    assert ended.returncode == 3
    log = kafkalog.PartitionLog(logs / "t-0")
    assert 0 < log.log_end_offset < ROWS
    assert f"{0:020}.log: File too large; " in ended.stderr
    assert f"ends at offset {log.log_end_offset}; --resume continues there" in ended.stderr
    again = run("--resume", parquet, logs)
    assert again.returncode == 0, again.stderr
    assert values(logs) == [value(n) for n in range(ROWS)]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "late": ({"timestamp": [NOW] * 20_000 + [10**15] + [NOW] * 5}, "timestamp: expected"),
    "large": ({"value": [b"x"] * 20_000 + [b"x" * (2 << 20)] + [b"x"] * 5}, "batch size: expected"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("form", ["parquet", "jsonl"])
@pytest.mark.sampled(2)
def test_a_record_that_is_refused(tmp_path: Path, case: str, form: str) -> None:
    """It is named by the file and its number there, in whatever pieces the file is read."""
    columns, said = BAD[case]
    rows: list[dict[str, Any]] = [{"value": b"v%d" % n} for n in range(20_006)]
    for name, cells in columns.items():
        for row, cell in zip(rows, cells, strict=True):
            row[name] = cell
    path = tmp_path / f"t-0.{form}"
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        text = [{**row, "value": row["value"].decode()} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in text))
    ended = run(path, tmp_path / "logs", *(["--text"] if form == "jsonl" else []))
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert str(path) in ended.stderr
    assert said in ended.stderr
    assert "record 20000" in ended.stderr
    # All before it are there.
    assert "ends at offset 20000; --resume continues there" in ended.stderr
    assert len(values(tmp_path / "logs")) == 20_000


def test_json_lines_go_on(tmp_path: Path) -> None:
    """Mended, the rest of the file follows."""
    good = [json.dumps({"value": f"v{n}"}) for n in range(30_000)]
    path = tmp_path / "t-0.jsonl"
    path.write_text("\n".join([*good[:29_000], "{", *good[29_000:]]) + "\n")
    ended = run("--text", path, tmp_path / "logs")
    assert ended.returncode == 1
    end = kafkalog.PartitionLog(tmp_path / "logs" / "t-0").log_end_offset
    assert f"ends at offset {end}; --resume" in ended.stderr
    assert 0 < end < 29_000
    path.write_text("\n".join(good) + "\n")
    again = run("--text", "--resume", path, tmp_path / "logs")
    assert again.returncode == 0, again.stderr
    assert values(tmp_path / "logs") == [b"v%d" % n for n in range(30_000)]


def test_several_files_and_kept_offsets_go_on(tmp_path: Path) -> None:
    parts = [pa.table({"offset": [base, base + 1, base + 5], "value": [b"a", b"b", b"c"]}) for base in (0, 10, 20)]
    paths = [tmp_path / f"{n}.parquet" for n in range(3)]
    for path, part in zip(paths, parts, strict=True):
        pq.write_table(part, path)
    for kept in ([], ["--keep-offsets"]):
        logs = tmp_path / f"logs{len(kept)}"
        assert run(paths[0], logs, "-t", "t", *kept).returncode == 0
        assert run(*paths, logs, "-t", "t", "--resume", *kept).returncode == 0
        offsets = kafkalog.read_table(logs, columns=["offset"])["offset"].to_pylist()
        assert offsets == ([0, 1, 5, 10, 11, 15, 20, 21, 25] if kept else list(range(9)))
        assert values(logs) == [b"a", b"b", b"c"] * 3
    # Offsets that do not rise: without --resume they are refused, and it says how to continue.
    ended = run(*paths, tmp_path / "logs1", "-t", "t", "--keep-offsets")
    assert ended.returncode == 1
    assert "below the log end 26" in ended.stderr
    assert "--resume continues there" in ended.stderr


def test_logs_go_on(tmp_path: Path) -> None:
    log = kafkalog.PartitionLog(ORDERS)
    with kafkalog.LogWriter(tmp_path, "orders") as writer:
        writer.append_batches(log.batches(ending_offsets=400))
        end = writer.log_end_offset
    assert 0 < end < log.log_end_offset
    ended = run(ORDERS, tmp_path)
    assert ended.returncode == 1
    assert f"ends at offset {end}; --resume continues there" in ended.stderr
    assert run("--resume", ORDERS, tmp_path).returncode == 0
    assert kafkalog.read_table(tmp_path).equals(kafkalog.read_table(ORDERS))
    assert run("--resume", ORDERS, tmp_path).returncode == 0
    assert kafkalog.PartitionLog(tmp_path / "orders-0").log_end_offset == log.log_end_offset


def test_another_log_is_not_gone_on_with(tmp_path: Path) -> None:
    """A partition with more records than the source has was not begun by this import."""
    pq.write_table(pa.table({"value": [b"x"] * 3}), tmp_path / "t-0.parquet")
    for _ in range(2):
        assert run(tmp_path / "t-0.parquet", tmp_path / "logs").returncode == 0
    ended = run("--resume", tmp_path / "t-0.parquet", tmp_path / "logs")
    assert ended.returncode == 2
    assert "has 3 records more" in ended.stderr
