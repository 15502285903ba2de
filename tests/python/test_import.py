"""``kafkalog import``: what an export wrote, what others wrote, and other logs, into a log dir."""

from __future__ import annotations

import base64
import json
import os
import pty
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import corpus
import kafkalog
import naive

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.release

CASE = corpus.GOLDEN / "clean-restarts"
DATA = CASE / "data-1"
SAME = ["key", "value", "timestamp", "headers"]


def kafkalog_(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafkalog", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def done(*words: str | Path) -> str:
    ended = kafkalog_(*words)
    assert ended.returncode == 0, ended.stderr
    return ended.stderr


def fails(code: int, *words: str | Path) -> str:
    ended = kafkalog_(*words)
    assert ended.returncode == code, ended.stderr
    assert ended.stderr.startswith("kafkalog: ")
    assert ended.stderr.count("\n") == 1, ended.stderr
    return ended.stderr


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl", "text"])
@pytest.mark.sampled(2)
def test_an_export_comes_back(tmp_path: Path, form: str) -> None:
    text = ["--text"] if form == "text" else []
    form = "jsonl" if form == "text" else form
    done("export", DATA, tmp_path / "files", "--format", form, *text)
    said = done("import", tmp_path / "files", tmp_path / "logs", *text)
    before, after = kafkalog.read_table(DATA), kafkalog.read_table(tmp_path / "logs")
    assert f"{before.num_rows} records" in said
    columns = [*SAME, "topic", "partition"]
    assert after.select(columns).equals(before.select(columns))


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.sampled(2)
def test_settings(tmp_path: Path, codec: str) -> None:
    pq.write_table(pa.table({"value": ["some words"] * 1000}), tmp_path / "t-3.parquet")
    config = ["--config", f"compression.type={codec}", "--config", "segment.bytes=1048576"]
    done("import", tmp_path / "t-3.parquet", tmp_path / "logs", *config)
    batches = kafkalog.scan_batches(tmp_path / "logs").read_all()
    assert set(batches["compression"].to_pylist()) == {"none" if codec == "uncompressed" else codec}
    assert set(batches["partition"].to_pylist()) == {3}


@pytest.mark.parametrize("shape", ["file", "stream", "feather"])
def test_arrow_files(tmp_path: Path, shape: str) -> None:
    data = pa.table({"key": [b"a", None], "value": ["x", "y"], "timestamp": pa.array([1, 2], pa.timestamp("ms"))})
    path = tmp_path / "t-0.arrow"
    if shape == "feather":
        path = tmp_path / "t-0.feather"
        pyarrow.feather.write_feather(data, str(path))
    else:
        make = pa.ipc.new_file if shape == "file" else pa.ipc.new_stream
        with pa.OSFile(str(path), "wb") as sink, make(sink, data.schema) as out:
            out.write_table(data)
    done("import", path, tmp_path / "logs")
    assert [(row.timestamp, row.key, row.value) for row in naive.rows(tmp_path / "logs" / "t-0")] == [
        (1, b"a", b"x"),
        (2, None, b"y"),
    ]


def test_json_lines_as_people_write_them(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"key": "k", "value": '{"a": 1}', "timestamp": 5, "headers": {"h": "x", "n": None}},
        {"value": None, "keyBase64": "/w==", "timestamp": "2024-01-02T03:04:05.678Z"},
        {"value": "", "headers": [{"key": "h", "value": "1"}, {"key": "h"}]},
        {"value": "base64:/w==", "headers": [{"key": "h", "value": None, "valueBase64": "/w=="}]},
    ]
    path = tmp_path / "events.jsonl"
    # with the mark that Windows puts in front
    path.write_text("\n\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8-sig")
    done("import", path, tmp_path / "logs", "-t", "events", "-p", "2", "--text")
    rows = naive.rows(tmp_path / "logs" / "events-2")
    assert [(row.key, row.value, row.headers) for row in rows] == [
        (b"k", b'{"a": 1}', (("h", b"x"), ("n", None))),
        (b"\xff", None, ()),
        (None, b"", (("h", b"1"), ("h", None))),
        (None, b"base64:/w==", (("h", b"\xff"),)),
    ]
    assert [row.timestamp for row in rows[:2]] == [5, 1_704_164_645_678]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2"),
        ("[]", "object"),
        ('{"value": "%%"}', "base64"),
        ('{"value": 5}', "expected value as text"),
        ('{"value": "eA==", "valueBase64": "eA=="}', "given twice"),
        ('{"valueBase64": 5}', "expected value as text"),
        ('{"valueBase64": "%"}', "value is not base64"),
        ('{"value": ' + "[" * 100_000, "recursion"),
        ('{"timestamp": 5}', "neither key nor value"),
        ('{"value": "eA==", "colour": "red"}', "colour"),
        ('{"value": "eA==", "timestamp": "soon"}', "soon"),
        ('{"value": "eA==", "timestamp": "2024-01-01"}', "time zone"),
        ('{"value": "eA==", "headers": [1]}', "header"),
        ('{"value": "eA==", "headers": {"h": "%"}}', "header 'h'"),
    ],
)
@pytest.mark.sampled(4)
def test_lines_that_are_wrong(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "t-0.jsonl"
    path.write_text('{"value": "eA=="}\n' + line + "\n")
    error = fails(1, "import", path, tmp_path / "logs")
    assert "line 2" in error
    assert said in error


def test_logs_are_copied_whole(tmp_path: Path) -> None:
    said = done("import", DATA, tmp_path / "logs")
    assert "partition(s)" in said
    assert kafkalog.read_table(tmp_path / "logs").equals(kafkalog.read_table(DATA))
    done("import", DATA / "orders-0", tmp_path / "other", "-t", "renamed", "-p", "5")
    assert kafkalog.read_table(tmp_path / "other", columns=SAME).equals(
        kafkalog.read_table(DATA / "orders-0", columns=SAME)
    )
    assert [path.name for path in (tmp_path / "other").iterdir() if path.is_dir()] == ["renamed-5"]
    done("import", DATA, tmp_path / "third", "-t", "orders")
    assert {p.name.rpartition("-")[0] for p in (tmp_path / "third").iterdir() if p.is_dir()} == {"orders"}


def test_what_cat_prints_comes_back(tmp_path: Path) -> None:
    """As kcat's objects, which name fields otherwise."""
    (tmp_path / "orders-0.jsonl").write_text(kafkalog_("cat", DATA, "-t", "orders", "-J").stdout)
    done("import", tmp_path / "orders-0.jsonl", tmp_path / "logs")
    columns = ["key", "value", "headers", "timestamp"]
    want = kafkalog.read_table(DATA, "orders", columns=columns)
    assert kafkalog.read_table(tmp_path / "logs", columns=columns).equals(want)
    (tmp_path / "odd-0.jsonl").write_text('{"payload":"v","headers":["k"]}')
    assert "line 1: expected headers as [key, value, ...], found ['k']" in fails(
        1, "import", tmp_path / "odd-0.jsonl", tmp_path / "logs"
    )


def test_several_files_are_appended_in_turn(tmp_path: Path) -> None:
    for name in "ba":
        pq.write_table(pa.table({"value": [name * n for n in range(3)]}), tmp_path / f"{name}.parquet")
    done("import", tmp_path / "b.parquet", tmp_path / "a.parquet", tmp_path / "logs", "-t", "t")
    assert [row.value for row in naive.rows(tmp_path / "logs" / "t-0")] == [b"", b"b", b"bb", b"", b"a", b"aa"]


def test_offsets_may_be_kept(tmp_path: Path) -> None:
    columns = ["offset", "key", "value", "timestamp"]
    done("export", DATA / "orders-0", tmp_path / "orders-0.parquet", "--columns", ",".join(columns))
    # A leader would refuse the one or overwrite the other; a follower keeps what it is given.
    for setting in ("message.timestamp.before.max.ms=1", "message.timestamp.type=LogAppendTime"):
        words = ("-t", "t", "--config", setting)
        done("import", tmp_path / "orders-0.parquet", tmp_path / setting, "--keep-offsets", *words)
        assert kafkalog.read_table(tmp_path / setting, columns=columns).equals(
            kafkalog.read_table(DATA / "orders-0", columns=columns)
        )
    done("import", tmp_path / "orders-0.parquet", tmp_path / "logs", "--keep-offsets")
    assert kafkalog.read_table(tmp_path / "logs", columns=columns).equals(
        kafkalog.read_table(DATA / "orders-0", columns=columns)
    )


def test_identity(tmp_path: Path) -> None:
    (tmp_path / "t-0.jsonl").write_text('{"value": ""}\n')
    topic_id = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")
    words = ["--topic-id", topic_id, "--cluster-id", "kafkalogTESTclusterAA", "--node-id", "1"]
    done("import", tmp_path / "t-0.jsonl", tmp_path / "logs", *words)
    meta = kafkalog.LogDir(tmp_path / "logs").meta
    assert meta is not None
    assert meta["cluster.id"] == "kafkalogTESTclusterAA"
    assert kafkalog.PartitionLog(tmp_path / "logs" / "t-0").topic_id == topic_id


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["missing.parquet"], 3, "missing.parquet"),
        (["data.txt"], 2, "does not show the format"),
        (["data.parquet"], 2, "does not show topic"),
        (["bad-0.parquet"], 1, "bad-0.parquet"),
        (["bad-0.arrow"], 1, "bad-0.arrow"),
        (["cut-0.arrow"], 1, "cut-0.arrow: "),
        (["page-0.parquet"], 1, "page-0.parquet: "),
        (
            ["extra-0.parquet"],
            2,
            "extra-0.parquet: columns: expected key, value, headers, timestamp, found also colour",
        ),
        (["extra-0.parquet"], 2, "(--ignore-extra leaves them out)"),
        (["times-0.parquet"], 2, "times-0.parquet: columns: expected key or value, found timestamp"),
        (["times-0.arrow"], 2, "times-0.arrow: columns: expected key or value, found timestamp"),
        (["numbers-0.parquet"], 2, "numbers-0.parquet: column 'value': expected binary or string"),
        (["line-0.jsonl"], 1, "line-0.jsonl: line 1: "),
        (["line-0.jsonl", "--text", "--keep-offsets"], 2, "offset"),
        (
            ["data.parquet", "-t", "t", "--keep-offsets"],
            2,
            "data.parquet: columns: expected offset, to be kept, found value",
        ),
        (["data.parquet", "-t", "a/b"], 2, "a/b"),
        (["data.parquet", "-t", "t", "-p", "-1"], 2, "partition"),
        (["data.parquet", "-t", "t", "--topic-id", "x"], 2, "topic_id"),
        (["empty"], 2, "neither files"),
        (["extra-0.parquet", "--config", "segment.size=1"], 2, "segment.size"),
        (["extra-0.parquet", "--config", "segment.ms=0"], 2, "segment_ms"),
        (["extra-0.parquet", "--config", "x"], 2, "NAME=VALUE"),
    ],
)
@pytest.mark.sampled(3)
def test_what_is_refused(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "data.txt").write_text("")
    pq.write_table(pa.table({"value": ["x"]}), tmp_path / "data.parquet")
    pq.write_table(pa.table({"value": ["x"], "colour": ["red"]}), tmp_path / "extra-0.parquet")
    pq.write_table(pa.table({"timestamp": [1]}), tmp_path / "times-0.parquet")
    with pa.ipc.new_file(str(tmp_path / "times-0.arrow"), pa.schema([("timestamp", pa.int64())])):
        pass
    pq.write_table(pa.table({"value": pa.array([], pa.int32())}), tmp_path / "numbers-0.parquet")
    (tmp_path / "line-0.jsonl").write_text('{"value": "%"}\n')
    (tmp_path / "bad-0.parquet").write_bytes(b"nothing of the kind")
    page = bytearray((tmp_path / "data.parquet").read_bytes())
    page[4:40] = b"\x55" * 36
    (tmp_path / "page-0.parquet").write_bytes(page)
    with pa.ipc.new_stream(str(tmp_path / "cut-0.arrow"), pa.schema([("value", pa.binary())])) as stream:
        stream.write_table(pa.table({"value": [b"x" * 1000]}))
    os.truncate(tmp_path / "cut-0.arrow", (tmp_path / "cut-0.arrow").stat().st_size - 600)
    (tmp_path / "bad-0.arrow").write_bytes(b"nothing of the kind")
    ended = subprocess.run(
        [sys.executable, "-m", "kafkalog", "import", *words, "logs"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    assert ended.returncode == code, ended.stderr
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "logs").exists()


def test_extra_columns_may_be_left_out(tmp_path: Path) -> None:
    pq.write_table(pa.table({"value": ["x"], "colour": ["red"]}), tmp_path / "t-0.parquet")
    done("import", tmp_path / "t-0.parquet", tmp_path / "logs", "--ignore-extra")
    assert len(naive.rows(tmp_path / "logs" / "t-0")) == 1


def test_nothing_is_imported_into_itself(tmp_path: Path) -> None:
    done("import", DATA, tmp_path / "logs", "-t", "orders")
    assert "which is written" in fails(2, "import", tmp_path / "logs", tmp_path / "logs")


def test_a_bar_on_a_terminal_and_only_there(tmp_path: Path) -> None:
    pq.write_table(pa.table({"value": ["x" * 100] * 300_000}), tmp_path / "t-0.parquet")
    words = [sys.executable, "-m", "kafkalog", "import", str(tmp_path / "t-0.parquet")]
    parent, terminal = pty.openpty()
    with subprocess.Popen([*words, str(tmp_path / "shown")], stderr=terminal) as process:
        os.close(terminal)
        said = b""
        while True:
            try:
                some = os.read(parent, 65536)
            except OSError:
                break
            if not some:
                break
            said += some
    os.close(parent)
    assert process.returncode == 0
    assert b"MB/s" in said
    assert "MB/s" not in done("import", tmp_path / "t-0.parquet", tmp_path / "quiet")


@pytest.mark.parametrize(
    ("unit", "factor"), [("seconds", 1), (None, 10**3), ("microseconds", 10**6), ("nanoseconds", 10**9)]
)
@pytest.mark.sampled(1)
def test_timestamps_in_another_unit_are_named(tmp_path: Path, unit: str | None, factor: int) -> None:
    """Kafka takes seconds for times in 1970; later than the clock allows, it refuses by a setting."""
    now = int(time.time())
    source, out = tmp_path / "t-0.jsonl", tmp_path / "logs"
    source.write_text(json.dumps({"value": "eA==", "timestamp": now * factor}) + "\n")
    records = [kafkalog.Record(value=b"x", timestamp=now * factor)]
    if unit in {None, "seconds"}:
        printed = kafkalog_("import", source, out)
        assert printed.returncode == 0
        assert (f"{source}: timestamps seem to be in seconds" in printed.stderr) is (unit is not None)
        assert ("1970" in printed.stderr) is (unit is not None)
    else:
        printed = kafkalog_("import", source, out)
        assert printed.returncode == 1
        assert f"seems to be {unit}; message.timestamp.after.max.ms is 3600000" in printed.stderr
        with (
            kafkalog.LogWriter(tmp_path / "other", "t", 0) as writer,
            pytest.raises(kafkalog.InvalidRecordError, match=f"{unit}; message.timestamp.after.max.ms"),
        ):
            writer.append(records)
    # A topic that takes everything.
    config = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    with kafkalog.LogWriter(tmp_path / "open", "t", 0, config=kafkalog.LogConfig.from_kafka(config)) as writer:
        assert writer.append(records).seeming_unit == unit
        assert writer.append([kafkalog.Record(value=b"x")]).seeming_unit is None
    words = ["--config", f"message.timestamp.after.max.ms={2**63 - 1}"]
    printed = kafkalog_("import", source, tmp_path / "words", *words)
    assert printed.returncode == 0
    assert printed.stderr.count("timestamps seem") == (unit is not None)
    if unit == "seconds":
        strict = kafkalog_("import", source, tmp_path / "strict", "--config", "message.timestamp.before.max.ms=1000")
        assert strict.returncode == 1
        assert "message.timestamp.before.max.ms is 1000" in strict.stderr
