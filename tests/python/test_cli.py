"""The command line, as a user runs it: output, exit codes, one-line errors."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import corpus
import kafkalog
from command import call_bytes
from kafkalog import _core
from kafkalog._export_files import Files
from kafkalog._times import format_time
from kafkalog.cli._commands import COMMANDS
from kafkalog.cli._progress import Progress
from kafkalog.cli.main import main
from kafkalog.schema import record_schema
from payloads import element_of, fields_of, text_of

pytestmark = pytest.mark.release

CASE = corpus.GOLDEN / "clean-restarts"
DATA = CASE / "data-1"
CORRUPT = corpus.GOLDEN / "corrupt"


def out(*words: str | Path) -> str:
    done = call_bytes(*words)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    return done.stdout.decode()


def fails(code: int, *words: str | Path) -> str:
    """Run what fails; give the one line."""
    done = call_bytes(*words)
    said = done.stderr.decode()
    assert done.returncode == code, said
    assert "Traceback" not in said
    assert said.startswith("kafkalog: ")
    assert said.count("\n") == 1, said
    return said


def orders() -> corpus.Columns:
    answers = CASE / "expected" / "orders-0"
    return corpus.expected_records(corpus.Partition(DATA / "orders-0", answers, "orders", 0, "live"))


# Exit codes and errors


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.sampled(11)
def test_every_command_has_help(command: str) -> None:
    assert "usage: kafkalog" in out(command, "--help")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_as_wide_as_the_terminal(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([command, "--help"]) == 0
    # An example is one line.
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("  kafkalog ")]
    assert max(map(len, lines)) <= 80


def test_version_and_list_of_commands() -> None:
    assert out("--version").startswith("kafkalog ")
    listed = out("--help")
    assert all(re.search(rf"^ +{command}\b", listed, re.MULTILINE) for command in COMMANDS)


def test_wrong_usage_is_2() -> None:
    for words in (["nope"], ["ls"], ["cat", DATA, "--nope"], ["offsets", DATA, "--time", "soon"]):
        done = call_bytes(*words)
        assert done.returncode == 2, words
        assert b"Traceback" not in done.stderr
    assert "%q" in fails(2, "cat", DATA, "-t", "orders", "-f", "%q")
    assert "-t" in fails(2, "cat", DATA)


def test_a_negative_answer_is_1() -> None:
    assert "events, ledger, orders" in fails(1, "cat", DATA, "-t", "nope")


def test_damage_is_1() -> None:
    said = fails(1, "cat", CORRUPT / "flipped-bit" / "t-0")
    assert "00000000000000000000.log: byte " in said
    assert "expected" in said


def test_a_wrong_path_is_3(tmp_path: Path) -> None:
    for command in ("ls", "stats", "offsets", "cat"):
        words = [command, tmp_path / "nothing", *(["-t", "x"] if command == "cat" else [])]
        assert "nothing: No such file or directory" in fails(3, *words)
    assert "nothing" in fails(3, "export", tmp_path / "nothing", tmp_path / "out")


def test_debug_shows_where() -> None:
    done = call_bytes("cat", CORRUPT / "flipped-bit" / "t-0", "--debug")
    assert done.returncode == 1
    assert b"Traceback" in done.stderr
    assert b"CorruptRecordError" in done.stderr


def test_a_closed_pipe_is_no_error() -> None:
    for words in (
        f"cat {DATA} -t orders -J",
        f"cat {DATA} -t orders",
        f"dump --files {DATA}/orders-0/00000000000000000000.log --print-data-log",
    ):
        command = f"'{sys.executable}' -m kafkalog {words} | head -c 1 > /dev/null; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], capture_output=True, check=False, timeout=120)
        assert (done.stdout, done.stderr) == (b"0\n", b""), words


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_a_full_disk_is_3() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-m", "kafkalog", "offsets", str(DATA)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, timeout=120)
    assert done.returncode == 3
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


def test_main_can_be_called(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["offsets", str(DATA), "--topic", "orders"]) == 0
    assert capsys.readouterr().out == "orders:0:880\n"
    assert main(["offsets", str(DATA), "--topic", "nope"]) == 1
    assert main(["--nope"]) == 2


# ls, stats, offsets


def test_ls() -> None:
    lines = out("ls", CASE / "data-0").splitlines()
    assert lines[0].split()[:4] == ["topic", "partition", "state", "segment"]
    events = [line.split() for line in lines if line.startswith("events ") and line.split()[1] == "0"]
    assert [(row[3], row[4], row[5]) for row in events] == [
        ("00000000000000000000.log", "0", "364"),
        ("00000000000000000364.log", "364", "586"),
        ("00000000000000000586.log", "586", "808"),
        ("00000000000000000808.log", "808", "880"),
    ]
    assert events[0][7] == "2023-11-15T06:39:17.658Z"


def test_ls_json() -> None:
    parts = [json.loads(line) for line in out("ls", DATA, "-J", "-t", "orders").splitlines()]
    assert [(part["topic"], part["partition"], part["logStartOffset"], part["logEndOffset"]) for part in parts] == [
        ("orders", 0, 0, 880)
    ]
    assert sum(segment["size"] for segment in parts[0]["segments"]) == parts[0]["size"]
    assert [segment["active"] for segment in parts[0]["segments"]] == [False] * 5 + [True]


def test_ls_says_what_time_indexes_end_with(tmp_path: Path) -> None:
    shutil.copytree(DATA, tmp_path / "logs")
    folder = tmp_path / "logs" / "orders-0"
    empty, preallocated, cut, gone, unreadable, whole = sorted(folder.glob("*.timeindex"))
    empty.write_bytes(b"")
    preallocated.write_bytes(preallocated.read_bytes() + bytes(12 * 1000))
    cut.write_bytes(cut.read_bytes()[:-5])
    gone.unlink()
    unreadable.unlink()
    unreadable.mkdir()

    def latest(path: Path) -> int | None:
        with kafkalog.TimeIndex(path) as index:
            return index.last_entry.timestamp if len(index) else None

    answers = [segment["maxTimestamp"] for segment in json.loads(out("ls", folder, "-J"))["segments"]]
    assert answers == [None, latest(preallocated), latest(cut), None, None, latest(whole)]


def test_stats() -> None:
    lines = out("stats", DATA).splitlines()
    assert [line.split()[:8] for line in lines[1:]][-1] == ["orders", "0", "6", "82184", "38", "880", "0", "880"]
    part = json.loads(out("stats", DATA, "-J", "-t", "ledger"))
    assert (part["batches"], part["records"], part["controlBatches"]) == (207, 954, 47)
    assert len(part["segments"]) == 14


def test_stats_does_not_know_how_many_records_old_batches_hold() -> None:
    folder = corpus.GOLDEN / "v0-0.9.0.1" / "data-0" / "compact-gzip-0"
    assert out("stats", folder).splitlines()[1].split()[4:6] == ["20", "0+"]


def test_stats_goes_on_after_a_damaged_partition() -> None:
    done = call_bytes("stats", CORRUPT / "huge-length")
    assert done.returncode == 1
    assert b"huge-length" in done.stderr
    assert b"Traceback" not in done.stderr


OPEN = next(p for p in corpus.partitions() if p.folder.name == "txn-open-0")
COMMITTED = ("--isolation-level", "read_committed")


def committed() -> tuple[int, list[int]]:
    """Give the last stable offset and the offsets of what Kafka's consumer gets."""
    head, *lines = OPEN.lines("committed")
    return head["last_stable_offset"], [line["offset"] for line in lines if line["type"] == "record"]


def test_cat_and_export_under_read_committed(tmp_path: Path) -> None:
    stable, offsets = committed()
    words = ("cat", OPEN.folder, *COMMITTED, "-f", r"%o\n")
    assert [int(word) for word in out(*words).split()] == offsets
    assert [int(word) for word in out(*words, "-o", "-20").split()] == [o for o in offsets if o >= stable - 20]
    target = tmp_path / "rows.parquet"
    assert call_bytes("export", OPEN.folder, target, *COMMITTED).returncode == 0
    assert pq.read_table(target)["offset"].to_pylist() == offsets
    assert "invalid choice" in call_bytes("cat", OPEN.folder, "--isolation-level", "serializable").stderr.decode()


# cat


def test_cat_format() -> None:
    want = orders()
    text = call_bytes("cat", DATA, "-t", "orders", "-f", r"%t\t%p\t%o\t%T\t%K\t%S\x7c%%\n").stdout.decode().splitlines()
    assert text == [
        f"orders\t0\t{offset}\t{timestamp}\t{key}\t{value}|%"
        for offset, timestamp, key, value in zip(
            want["offset"], want["timestamp"], want["keySize"], want["valueSize"], strict=True
        )
    ]


def test_cat_gives_bytes_as_they_are() -> None:
    want = orders()
    assert call_bytes("cat", DATA, "-t", "orders", "-D", "").stdout == b"".join(v or b"" for v in want["value"])
    keyed = call_bytes("cat", DATA, "-t", "orders", "-K", ":", "-Z", "-c", "50").stdout
    assert keyed == b"".join(
        (b"NULL" if k is None else k) + b":" + (b"NULL" if v is None else v) + b"\n"
        for k, v in zip(want["key"][:50], want["value"][:50], strict=True)
    )
    sizes = call_bytes("cat", DATA, "-t", "orders", "-f", "%R").stdout
    assert sizes == b"".join(n.to_bytes(4, "big", signed=True) for n in want["valueSize"])


def test_cat_json_is_kcats_envelope() -> None:
    want = orders()
    rows = [json.loads(line) for line in out("cat", DATA, "-t", "orders", "-J").splitlines()]
    assert [row["offset"] for row in rows] == want["offset"]
    for n, row in enumerate(rows):
        assert {"topic", "partition", "offset", "tstype", "ts", "broker", "key", "payload"} <= set(row)
        assert row["ts"] == want["timestamp"][n]
        assert row["tstype"] == "create"
        assert fields_of("payload", want["value"][n]).items() <= row.items()
        assert row.get("headers") == (
            [each for h in want["headers"][n] for each in (h["key"], element_of(h["value"]))]
            if want["headers"][n]
            else None
        )


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (["-o", "877"], [877, 878, 879]),
        (["-o", "-2"], [878, 879]),
        (["-o", "-5", "-c", "2"], [875, 876]),
        (["-o", "-5000", "-c", "1"], [0]),
        (["-o", "beginning", "-c", "1"], [0]),
        (["-o", "end"], []),
        (["-o", "880"], []),
        (["-c", "0"], []),
        (["-p", "0", "-c", "1"], [0]),
    ],
)
def test_cat_offsets(options: list[str], offsets: list[int]) -> None:
    assert out("cat", DATA, "-t", "orders", "-f", r"%o\n", *options).split() == [str(n) for n in offsets]


def test_cat_from_and_until_a_time() -> None:
    log = kafkalog.PartitionLog(DATA / "orders-0")
    start, end = 1_700_030_385_000, 1_700_030_390_000
    first, last = log.offset_for_timestamp(start), log.offset_for_timestamp(end)
    assert first is not None
    assert last is not None
    got = out("cat", DATA, "-t", "orders", "-f", r"%o\n", "-o", f"s@{start}", "-o", f"e@{end}").split()
    assert got == [str(n) for n in range(first.offset, last.offset)]


def test_cat_of_a_partitions_folder_needs_no_topic() -> None:
    assert out("cat", DATA / "orders-0", "-c", "1", "-f", "%t") == "orders"


def test_cat_of_one_segment() -> None:
    file = DATA / "orders-0" / "00000000000000000818.log"
    assert out("cat", file, "-f", r"%o\n").split() == [str(n) for n in range(818, 880)]
    assert out("cat", file, "-f", r"%o\n", "-o", "-1") == "879\n"


def test_cat_of_one_segment_ends_at_the_last_stable_offset() -> None:
    stable, offsets = committed()
    base = max(int(path.stem) for path in OPEN.folder.glob("*.log") if int(path.stem) < stable)
    words = ("cat", OPEN.folder / f"{base:020}.log", *COMMITTED, "-f", r"%o\n")
    assert [int(word) for word in out(*words).split()] == [offset for offset in offsets if offset >= base]
    assert [int(word) for word in out(*words, "-o", "-3").split()] == [o for o in offsets if o >= stable - 3]


@pytest.mark.parametrize("case", sorted(entry.name for entry in CORRUPT.iterdir() if entry.is_dir()))
def test_damage_ends_every_command_with_an_exit_code(case: str, capfd: pytest.CaptureFixture[str]) -> None:
    for command in ("ls", "stats", "offsets"):
        assert main([command, str(CORRUPT / case)]) in {0, 1}, command
        assert main([command, str(CORRUPT / case), *(["-J"] if command != "offsets" else [])]) in {0, 1}, command
    assert main(["cat", str(CORRUPT / case / "t-0"), "-J"]) in {0, 1}
    assert main(["cat", str(CORRUPT / case / "t-0"), "-f", "%h%k", "-o", "-1"]) in {0, 1}
    said = capfd.readouterr().err
    assert "--debug shows where" not in said, "an error that has no name of its own"
    assert all(line.startswith("kafkalog: ") for line in said.splitlines())


def test_moments() -> None:
    times = (-1, None, 0, 1_700_030_344_941, 253_402_300_799_999, -62_135_596_800_000, -62_135_596_800_001, 1 << 62, -2)
    assert [format_time(time) for time in times] == [
        None,
        None,
        "1970-01-01T00:00:00.000Z",
        "2023-11-15T06:39:04.941Z",
        "9999-12-31T23:59:59.999Z",
        "0001-01-01T00:00:00.000Z",
        "-62135596800001",
        str(1 << 62),
        "1969-12-31T23:59:59.998Z",
    ]


_VALUES = st.one_of(st.none(), st.binary(max_size=20), st.sampled_from([b"", b'"', b",", b"a\nb", b"\r", b"base64:"]))
_HEADERS = st.one_of(
    st.none(), st.lists(st.fixed_dictionaries({"key": st.text(max_size=5), "value": _VALUES}), min_size=1)
)


@settings(deadline=None)
@given(rows=st.lists(st.tuples(_VALUES, _HEADERS, st.integers(-(1 << 40), 1 << 40)), max_size=20), text=st.booleans())
def test_cells_are_what_they_were(rows: list[tuple[Any, Any, int]], *, text: bool) -> None:
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([row[0] for row in rows], pa.binary()),
            pa.array([row[1] for row in rows], record_schema("headers").field(0).type),
            pa.array([row[2] for row in rows], pa.int64()),
        ],
        names=["value", "headers", "offset"],
    )

    def shape(name: str, data: bytes | None) -> dict[str, Any]:
        return fields_of(name, data) if text or data is None else {name: base64.b64encode(data).decode()}

    want = [
        {
            **shape("value", value),
            "headers": headers and [{"key": header["key"], **shape("value", header["value"])} for header in headers],
            "offset": offset,
        }
        for value, headers, offset in rows
    ]
    names = ["value", "headers", "offset", *(["valueBase64"] if text else [])]
    # A slice begins somewhere in its parent's children.
    for part, wanted in ((batch, want), (batch.slice(1), want[1:]), (batch.slice(0, 1), want[:1])):
        lines = _core.RowText("jsonl", text=text).of(part).decode().split("\n")[:-1]
        assert [json.loads(line) for line in lines] == wanted
        for separator in (",", "\t"):
            table = _core.RowText("csv" if separator == "," else "tsv", text=text).of(part).decode()
            parsed = csv.DictReader(io.StringIO(table, newline=""), names, delimiter=separator)
            assert [
                {name: json.loads(cell) if name == "headers" and cell else cell for name, cell in row.items()}
                for row in parsed
            ] == [
                {name: "" if row.get(name) is None else row[name] for name in names}
                | {"offset": str(row["offset"]), "headers": row["headers"] or ""}
                for row in wanted
            ]


# export


def exported(tmp_path: Path, form: str, *words: str) -> dict[str, Path]:
    target = tmp_path / form
    done = call_bytes("export", CASE / "data-0", DATA, target, "--format", form, *words)
    assert done.returncode == 0, done.stderr
    assert b"3667 records in 6" in done.stderr, "no bar, one line"
    assert done.stderr.count(b"\n") == 1
    found = {file.stem: file for file in target.iterdir()}
    assert set(found) == {"events-0", "events-1", "events-2", "ledger-0", "orders-0", "state-0"}
    return found


def read(path: Path, form: str) -> pa.Table:
    if form == "parquet":
        return pq.ParquetFile(path).read()
    with pa.OSFile(str(path), "rb") as file:
        return pa.ipc.open_file(file).read_all()


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_export_tables(tmp_path: Path, form: str) -> None:
    for name, file in exported(tmp_path, form).items():
        topic, partition = name.split("-")
        folder = next(d for d in (CASE / "data-0" / name, DATA / name) if d.is_dir())
        want = kafkalog.read_table(folder)
        got = read(file, form)
        assert got.column_names == want.column_names
        assert got.to_pylist() == want.to_pylist(), f"{topic}-{partition}"


def test_export_makes_one_row_group_of_many_batches(tmp_path: Path) -> None:
    file = tmp_path / "all.parquet"
    reader = kafkalog.scan(DATA, batch_rows=100)
    assert Files("parquet", overwrite=False, text=False).write(file, reader.schema, reader) == 2667
    assert pq.ParquetFile(file).num_row_groups == 1
    assert pq.ParquetFile(file).read() == kafkalog.read_table(DATA)


def _undone(row: dict[str, Any]) -> tuple[Any, ...]:
    def data(text: str | None) -> bytes | None:
        return None if text is None else base64.b64decode(text)

    headers = row["headers"] and [{"key": h["key"], "value": data(h["value"])} for h in row["headers"]]
    return data(row["key"]), data(row["value"]), row["offset"], row["timestampType"], headers


def test_export_json_lines(tmp_path: Path) -> None:
    want = orders()
    rows = [json.loads(line) for line in exported(tmp_path, "jsonl")["orders-0"].read_text().splitlines()]
    assert [_undone(row) for row in rows] == list(
        zip(*(want[n] for n in ("key", "value", "offset", "timestampType", "headers")), strict=True)
    )
    assert rows[0]["timestamp"] == "2023-11-15T06:39:04.941Z"


def test_export_csv(tmp_path: Path) -> None:
    want = orders()
    with exported(tmp_path, "csv", "--text")["orders-0"].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["value"] for row in rows] == [text_of(value) or "" for value in want["value"]]
    assert [int(row["offset"]) for row in rows] == want["offset"]
    first = next(n for n, headers in enumerate(want["headers"]) if headers)
    assert [h["key"] for h in json.loads(rows[first]["headers"])] == [h["key"] for h in want["headers"][first]]


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_export_of_records_without_timestamps(tmp_path: Path, suffix: str) -> None:
    """They are at -1 ms in every form, as in a table."""
    source, target = corpus.GOLDEN / "v0-0.8.2.2" / "data-0" / "nulls-0", tmp_path / f"out.{suffix}"
    assert call_bytes("export", source, target, "--columns", "timestamp").returncode == 0
    lines = target.read_text().splitlines()
    texts = [json.loads(line)["timestamp"] for line in lines] if suffix == "jsonl" else lines[1:]
    times = [datetime.fromisoformat(text.replace("Z", "+00:00")) for text in texts]
    assert times == kafkalog.read_table(source, columns=["timestamp"])["timestamp"].to_pylist()
    assert {time.timestamp() for time in times} == {-0.001}


def test_export_one_file_and_a_selection(tmp_path: Path) -> None:
    file = tmp_path / "some.parquet"
    done = call_bytes(
        "export", DATA, file, "-t", "orders", "--columns", "offset,value", "--from", "2023-11-15T06:39:50Z"
    )
    assert done.returncode == 0, done.stderr
    want = kafkalog.read_table(DATA, topics="orders", columns=["offset", "value"], starting_timestamp=1_700_030_390_000)
    assert pq.ParquetFile(file).read().to_pylist() == want.to_pylist()
    assert [entry.name for entry in tmp_path.iterdir()] == ["some.parquet"]


def test_export_replaces_nothing_unless_told(tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("mine")
    assert "File exists (--overwrite replaces it)" in fails(3, "export", DATA, file, "-t", "orders")
    assert file.read_text() == "mine"
    assert call_bytes("export", DATA, file, "-t", "orders", "--overwrite").returncode == 0
    assert file.read_text().startswith("key,value,")


def test_export_of_damage_leaves_no_half_file(tmp_path: Path) -> None:
    fails(1, "export", CORRUPT / "flipped-bit" / "t-0", tmp_path / "out.parquet")
    assert list(tmp_path.iterdir()) == []


def test_export_keeps_out_of_what_it_reads(tmp_path: Path) -> None:
    assert "where a broker looks for logs" in fails(2, "export", DATA, DATA / "out")
    assert not (DATA / "out").exists()


def test_the_bar_does_not_fall_back_at_the_next_file() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    progress = Progress(100_000_000, shown)
    for read in (40_000_000, 30_000_000):
        progress._last = 0.0
        progress.show_read(read)
        progress.finished(cast("kafkalog.RecordReader", SimpleNamespace(metrics={"bytes": read})))
    assert [part[:4].strip() for part in shown.getvalue().split("] ")[1:]] == ["40%", "70%"]


def test_export_shows_a_bar_on_a_terminal_only(tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "kafkalog", "export", str(DATA), str(tmp_path / "out")]
    with subprocess.Popen(command, stderr=terminal, env={**os.environ, "TERM": "xterm"}) as running:
        os.close(terminal)
        said = b""
        while True:
            try:
                piece = os.read(controller, 65_536)
            except OSError:
                break
            if not piece:
                break
            said += piece
        assert running.wait(60) == 0
    os.close(controller)
    assert b"\x1b[K" in said
    assert b"2667 records" in said
