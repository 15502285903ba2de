"""``export`` through Spark: every format, and damage as the core's error."""

from __future__ import annotations

import base64
import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import corpus
import kafkalog
from kafkalog.cli.main import main
from kafkalog.spark import exporter
from kafkalog.spark.planner import plan_splits
from kafkalog.spark.source_options import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"


@pytest.fixture(scope="module")
def expected() -> pa.Table:
    return kafkalog.read_table(DATA, topics=["orders", "events"], timestamp_unit="us")


def write(out: Path, form: str, **options: Any) -> dict[str, Any]:
    return kafkalog.spark.export("local[2]", DATA, out, form, subscribe="orders,events", split_bytes="50k", **options)


def order(table: pa.Table) -> pa.Table:
    return table.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]).combine_chunks()


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_columnar_files(
    spark: SparkSession, tmp_path: Path, expected: pa.Table, form: Literal["parquet", "arrow"]
) -> None:
    done = write(tmp_path / "out", form)
    assert done["rows"] == expected.num_rows
    assert done["files"] == done["tasks"] > 1
    assert done["bytes"] == sum(f.stat().st_size for f in (tmp_path / "out").glob(f"*.{form}"))
    assert done["log_bytes"] == sum(
        f.stat().st_size for t in ("orders-0", "events-1") for f in (DATA / t).glob("*.log")
    )
    alone = kafkalog.scan(DATA, topics=["orders", "events"])
    records = alone.read_all().num_rows
    assert done["metrics"]["records"] == records == done["rows"]
    assert done["metrics"]["batches"] == alone.metrics["batches"]
    assert done["metrics"]["bytes"] >= done["log_bytes"]
    assert done["metrics"]["splits"] == done["tasks"]
    assert done["metrics"]["segments_lost"] == 0
    assert done["metrics"]["nanoseconds"] > 0
    table = ds.dataset(tmp_path / "out", format=form).to_table()
    assert table.column_names == expected.column_names
    found, wanted = order(table), order(expected)
    for name in wanted.column_names:
        assert found.column(name).to_pylist() == wanted.column(name).to_pylist(), name


def test_json_lines(spark: SparkSession, tmp_path: Path, expected: pa.Table) -> None:
    done = write(tmp_path / "out", "jsonl")
    lines = [line for file in sorted((tmp_path / "out").glob("*.jsonl")) for line in file.read_text().splitlines()]
    rows = {(row["topic"], row["offset"]): row for row in map(json.loads, lines)}
    assert len(rows) == done["rows"] == expected.num_rows
    for wanted in expected.to_pylist():
        row = rows[wanted["topic"], wanted["offset"]]
        assert set(row) == set(expected.column_names)
        for name in ("key", "value"):
            assert row[name] == (None if wanted[name] is None else base64.b64encode(wanted[name]).decode())
        assert row["timestamp"] == f"{wanted['timestamp']:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"


def test_csv(spark: SparkSession, tmp_path: Path, expected: pa.Table) -> None:
    done = write(tmp_path / "out", "csv")
    rows = []
    for file in (tmp_path / "out").glob("*.csv"):
        with file.open(newline="") as text:
            rows += list(csv.DictReader(text))
    assert len(rows) == done["rows"] == expected.num_rows
    assert "headers" not in rows[0]
    values = {(row["topic"], int(row["offset"])): base64.b64decode(row["value"]) for row in rows}
    for wanted in expected.to_pylist():
        assert values[wanted["topic"], wanted["offset"]] == (wanted["value"] or b"")


def test_a_pattern_is_the_whole_name_as_in_a_local_export(spark: SparkSession, tmp_path: Path) -> None:
    for number, (pattern, rows) in enumerate({"order": 0, "order.": 880, "orders|x": 880}.items()):
        words = ["export", str(DATA), "--topic-pattern", pattern]
        for way, more in {"local": [], "spark": ["--spark", "local[2]"]}.items():
            assert main([*words, *more, str(tmp_path / f"{way}{number}")]) == (0 if rows else 1)
            files = list((tmp_path / f"{way}{number}").glob("*.parquet"))
            assert sum(pq.read_metadata(file).num_rows for file in files) == rows, (way, pattern)


@pytest.mark.parametrize(
    "selection",
    [["--topic-pattern", "nope"], ["--topic-pattern", "("], ["-t", "nope"], ["-t", "orders", "-p", "99"]],
    ids=" ".join,
)
def test_a_selection_without_a_match_is_answered_as_in_a_local_export(
    selection: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = []
    for more in ([], ["--spark", "local[2]"]):
        code = main(["export", str(DATA), *selection, *more, str(tmp_path / "out")])
        said.append((code, capfd.readouterr().err))
        assert not (tmp_path / "out").exists()
    assert said[0] == said[1]
    assert said[0][0] == (2 if "(" in selection else 1)
    assert said[0][1].count("\n") == 1


# Workers import this first: a task that has opened its file waits, or dies.
SLOW = """
import os, signal, time
import kafkalog._export_files as write
opened = write.Files._open
def slow(self, path, schema):
    writer = opened(self, path, schema)
    if os.environ["WHAT"] == "waits":
        time.sleep(20)
    elif os.environ["WHAT"] == "dies" or not os.path.exists(os.environ["MARK"]):
        open(os.environ["MARK"], "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return writer
if os.environ.get("WHAT"):
    write.Files._open = slow
"""


def of_session(number: int) -> list[str]:
    """The command lines of the processes of a session."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(") ")[2].split()
            words = (status.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[3]) == number:
            found.append(words[:200])
    return found


@pytest.mark.full
@pytest.mark.spark
def test_a_killed_export_has_published_nothing(tmp_path: Path) -> None:
    """Neither a JVM nor a worker outlives it, and unless it was killed hard it leaves no file, hidden or not."""
    (tmp_path / "sitecustomize.py").write_text(SLOW)

    def start(what: str, target: Path) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "ignore", "-m", "kafkalog", "export", str(DATA), str(target / "out")]
        env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYSPARK_PYTHON": sys.executable, "WHAT": what}
        env["MARK"] = str(tmp_path / f"mark of what {what}")
        words = [*command, "--spark", "local[2,2]" if what == "dies once" else "local[2]"]
        return subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True, start_new_session=True)

    signals = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
    running = {number: start("waits", tmp_path / number.name) for number in signals}
    dying = start("dies", tmp_path / "dies")
    for number, process in running.items():
        deadline = time.monotonic() + 120
        # until a task is writing its file
        while not any((tmp_path / number.name).glob(".out.*.tmp/.*.tmp")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(number)
    for number, process in running.items():
        said = process.communicate(timeout=120)[1]
        assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), said
        deadline = time.monotonic() + 60
        while of_session(process.pid):
            assert time.monotonic() < deadline, of_session(process.pid)
            time.sleep(0.1)
        left = [file.suffix for file in (tmp_path / number.name).iterdir()]
        assert left == ([".tmp"] if number == signal.SIGKILL else []), left
    assert "\nkafkalog: " in dying.communicate(timeout=120)[1]
    assert dying.returncode > 0
    assert list((tmp_path / "dies").iterdir()) == []
    # the killed export left a hidden folder; the next one, of which a worker dies, removes it
    target = tmp_path / "SIGKILL"
    whole = start("dies once", target)
    whole.communicate(timeout=120)
    assert whole.returncode == 0
    assert (tmp_path / "mark of what dies once").exists()
    assert [file.name for file in target.iterdir()] == ["out"]
    assert ds.dataset(target / "out").count_rows() == kafkalog.read_table(DATA).num_rows
    assert all(file.name.startswith("part-") for file in (target / "out").iterdir())


def test_a_target_that_appears_meanwhile_is_left_alone(tmp_path: Path) -> None:
    """A rename replaces an empty folder silently."""
    staging, target = tmp_path / "staging", tmp_path / "out"
    for folder in (staging, target):
        folder.mkdir()
    (staging / "a").touch()
    with pytest.raises(FileExistsError):
        exporter._publish(staging, target, {"a": "part-0"})
    assert list(target.iterdir()) == []


def test_the_folder_of_a_running_export_stays(tmp_path: Path) -> None:
    """A dead export holds no lock; names are not patterns."""
    target, other = tmp_path / "out[1]", tmp_path / "out1"
    with exporter._staged(target) as held:
        dead, of_other = (exporter._hidden(path) for path in (target, other))
        of_user = tmp_path / ".out[1].mine.tmp"
        for folder in (dead, of_other, of_user):
            folder.mkdir()
            (folder / "lock").touch()
        with exporter._staged(target) as beside:
            assert {*tmp_path.iterdir()} == {held, beside, of_other, of_user}
    assert {*tmp_path.iterdir()} == {of_other, of_user}


def test_a_task_that_still_runs_does_not_find_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[Path] = []

    def remove(folder: Path, **_: Any) -> None:
        removed.append(folder)
        with pytest.raises(FileNotFoundError):
            (staging / "late").touch()

    monkeypatch.setattr(shutil, "rmtree", remove)
    with exporter._staged(tmp_path / "out") as staging:
        assert staging.exists()
    assert len(removed) == 1


def test_attempts_do_not_share_a_file(tmp_path: Path) -> None:
    """Two attempts of a task, at the same time or one after the other."""
    (split,) = plan_splits(parse({"path": str(DATA), "subscribe": "orders"}))
    told = [next(exporter._write_splits(str(tmp_path), "parquet", (), [(0, split)])).to_pylist()[0] for _ in range(2)]
    assert told[0]["name"] != told[1]["name"]
    assert {file.name for file in tmp_path.iterdir()} == {each["name"] for each in told}
    assert [each["rows"] for each in told] == [880, 880]


def test_a_torn_tail_of_the_active_segment_ends_the_log_for_a_task(tmp_path: Path) -> None:
    """In a closed segment it would be damage."""
    folder, out = tmp_path / "orders-0", tmp_path / "out"
    shutil.copytree(DATA / "orders-0", folder)
    out.mkdir()
    active = max(folder.glob("*.log"))
    with active.open("r+b") as file:
        torn = file.read(100)
        file.seek(0, os.SEEK_END)
        file.write(torn)
    (split,) = plan_splits(parse({"path": str(folder)}))
    (told,) = next(exporter._write_splits(str(out), "parquet", (), [(0, split)])).to_pylist()
    assert told["rows"] == pq.read_metadata(out / told["name"]).num_rows == 880


def failure(staging: Path, error: Exception, text: str) -> Exception | None:
    """The exception that the driver raises for a task's, of which Spark passes on the text."""
    exporter._record_failure(staging / f"{len(list(staging.iterdir()))}.failure", error)
    return exporter._recorded_failure(staging, RuntimeError(f"An exception was thrown\n  File ...\n{text}\n"))


def test_a_failure_of_a_task_is_raised_whole(tmp_path: Path) -> None:
    """Spark passes on its text only."""
    missing = FileNotFoundError(2, "No such file", "/out/x\nValueError: y")
    found = failure(tmp_path, missing, f"FileNotFoundError: {missing}")
    assert isinstance(found, FileNotFoundError)
    assert (found.errno, found.filename, str(found)) == (2, "/out/x\nValueError: y", str(missing))
    damage = kafkalog.CorruptRecordError("/t-0/0.log: byte 7: x", "/t-0/0.log", 7, 40)
    found = failure(tmp_path, damage, f"kafkalog.errors.CorruptRecordError: {damage}")
    assert isinstance(found, kafkalog.CorruptRecordError)
    assert vars(found) == vars(damage)
    assert str(found) == str(damage)
    for error in (OSError("no number"), OSError(28, "No space left on device")):
        found = failure(tmp_path, error, f"OSError: {error}")
        assert type(found) is OSError
        assert (str(found), found.errno) == (str(error), error.errno)
    # another task's exception, and one that is neither kafkalog's nor an I/O error
    assert failure(tmp_path, kafkalog.InvalidRecordError("other"), "InvalidRecordError: this") is None
    assert failure(tmp_path, ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero") is None


def test_a_partition_without_records_since_a_time_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    done = write(tmp_path / "out", "parquet", starting_timestamp=1 << 45)
    assert (done["rows"], done["files"]) == (0, 0)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_target_that_exists_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(FileExistsError) as caught:
        write(tmp_path / "out", "parquet")
    assert caught.value.filename == str(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("out", ["L/x", "L/orders-0/x", "L/absent/deeper"])
def test_no_output_lands_among_logs(tmp_path: Path, out: str) -> None:
    shutil.copytree(DATA, tmp_path / "L")
    with pytest.raises(ValueError, match="where a broker looks for logs"):
        kafkalog.spark.export("local[2]", tmp_path / "L" / "orders-0", tmp_path / out, "parquet")
    assert not (tmp_path / out).exists()


def test_options_may_be_spelled_as_for_a_read(spark: SparkSession, tmp_path: Path) -> None:
    """The export's defaults apply to options that are not given in any spelling."""
    done = write(tmp_path / "out", "parquet", include_headers=False, columns=None)
    assert "headers" not in ds.dataset(tmp_path / "out").schema.names
    assert done["rows"] > 880
    for name in ("starting_offsets_by_timestamp_strategy", "StartingOffsetsByTimestampStrategy"):
        with pytest.raises(ValueError, match=r"no record of .* has a timestamp of"):
            write(tmp_path / "late", "parquet", starting_timestamp=1 << 45, **{name: "error"})
    assert not (tmp_path / "late").exists()


def test_arguments_are_checked_before_spark_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "_session", lambda _: pytest.fail("Spark was asked for"))
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("there", "link"):
        with pytest.raises(FileExistsError):
            write(tmp_path / name, "parquet")
    with pytest.raises(ValueError, match="unknown format 'xml'"):
        write(tmp_path / "out", "xml")
    with pytest.raises(ValueError, match="did you mean 'columns'"):
        write(tmp_path / "out", "parquet", colums="key")
    with pytest.raises(ValueError, match="CSV cannot hold headers"):
        write(tmp_path / "out", "csv", columns="key,headers")


@pytest.mark.parametrize(
    "words",
    [
        ["-t", "orders", "--columns", "offset,value,partition,topic"],
        ["-t", "ledger", "-t", "orders", "-p", "0"],
        ["-t", "orders", "--from", "1700030390000", "--until", "2023-11-15T06:39:55Z"],
        ["-t", "ledger", "--include-control"],
        ["-t", "ledger", "--isolation-level", "read_committed", "--format", "arrow"],
    ],
    ids=" ".join,
)
def test_a_selection_is_that_of_a_local_export(spark: SparkSession, tmp_path: Path, words: list[str]) -> None:
    form: Any = words[-1] if "--format" in words else "parquet"
    for where, master in (("local", []), ("spark", ["--spark", "local[2]"])):
        assert main(["export", str(DATA), str(tmp_path / where), *words, *master]) == 0
    local = ds.dataset(tmp_path / "local", format=form).to_table()
    far = ds.dataset(tmp_path / "spark", format=form).to_table()
    assert far.column_names == local.column_names
    assert order(far).to_pylist() == order(local).to_pylist()
    assert 0 < local.num_rows < kafkalog.read_table(DATA, columns="offset", include_control=True).num_rows


def test_exit_codes_and_lines_are_those_of_a_local_export(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    damaged = corpus.GOLDEN / "corrupt" / "flipped-bit" / "t-0"
    for code, source, words in (
        (1, damaged, []),
        (3, tmp_path / "nowhere", []),
        (1, DATA, ["-t", "nope"]),
        (2, DATA, ["-p", "0"]),
        (2, DATA, ["--columns", "offzet"]),
        (0, DATA, ["-t", "orders", "-p", "0"]),
    ):
        line = {}
        for where in ("local", "spark"):
            master = ["--spark", "local[2]"] if where == "spark" else []
            assert main(["export", str(source), str(tmp_path / where), *words, *master]) == (
                0 if words == ["-p", "0"] and where == "local" else code
            )
            line[where] = capfd.readouterr().err.splitlines()[-1]
        if code in {1, 3} and not words:
            assert line["local"] == line["spark"].replace(str(tmp_path / "spark"), str(tmp_path / "local"))
        assert all(each.startswith("kafkalog: ") for each in line.values())
        for where in ("local", "spark"):
            shutil.rmtree(tmp_path / where, ignore_errors=True)


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_damage_is_the_cores_own_error(spark: SparkSession, tmp_path: Path, form: Literal["parquet", "arrow"]) -> None:
    folder = corpus.GOLDEN / "corrupt" / "flipped-bit" / "t-0"
    with pytest.raises(kafkalog.CorruptRecordError, match=r"00000000000000000000\.log: byte \d+") as caught:
        kafkalog.spark.export("local[2]", folder, tmp_path / "out", form)
    assert "\n" not in str(caught.value)
