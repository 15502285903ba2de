"""Inputs that ``LogWriter`` refuses, each by its own clear error; what was appended before stays."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog
from kafkalog import LogConfig, LogWriter, Record
from writing import NOW, both, writer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(
    ("data", "config", "error", "said"),
    [
        pytest.param(pa.table({"topic": ["t"]}), {}, ValueError, "key", id="a schema without key and value"),
        (pa.table({"value": [b"x"], "colour": ["red"]}), {}, ValueError, "colour"),
        (pa.table({"value": [1]}), {}, ValueError, "value"),
        (pa.table({"value": [b"x"], "timestamp": ["soon"]}), {}, ValueError, "timestamp"),
        (pa.table({"value": [b"x"], "headers": [["a"]]}), {}, ValueError, "headers"),
        (pa.table({"value": [b"x"], "offset": [1]}), {}, ValueError, "offset"),
        pytest.param(
            [Record(b"x" * 2_000_000)], {}, kafkalog.InvalidRecordError, "1048588", id="a record over max.message.bytes"
        ),
        pytest.param(
            [Record(b"x", headers=[("h", b"x" * 1_048_600)])],
            {},
            kafkalog.InvalidRecordError,
            "found more than 1048588 of headers in record 0",
            id="headers over max.message.bytes",
        ),
        pytest.param(
            [Record(b"x", timestamp=NOW + 3_600_001)],
            {},
            kafkalog.InvalidRecordError,
            "timestamp",
            id="a timestamp too far ahead",
        ),
        pytest.param(
            [Record(b"x", timestamp=0)],
            {"message_timestamp_before_max_ms": 1},
            kafkalog.InvalidRecordError,
            "timestamp",
            id="a timestamp too old",
        ),
        pytest.param(
            [Record(b"x")],
            {"cleanup_policy": "compact"},
            kafkalog.InvalidRecordError,
            "compacted",
            id="no key in a compacted topic",
        ),
        pytest.param(
            [Record(None)],
            {"cleanup_policy": "compact"},
            kafkalog.InvalidRecordError,
            "compacted",
            id="neither key nor value in a compacted topic",
        ),
        ([b"x"], {}, TypeError, "Record"),
        (b"x", {}, TypeError, "bytes"),
        (Record(b"x"), {}, TypeError, "iterable"),
        ([Record("x")], {}, TypeError, "value"),  # type: ignore[arg-type]
        ([Record(b"x", offset=1)], {}, ValueError, "offset"),
        ([{"value": b"x"}], {}, TypeError, "not of dict"),
        ([pa.table({"value": [b"x"], "colour": ["red"]})], {}, ValueError, "colour"),
        (pa.chunked_array([[b"x"]]), {}, ValueError, "rows"),
        (pa.array([b"x"]), {}, ValueError, "structs"),
        ([Record(b"x", headers=[("h", "text")])], {}, TypeError, r"\('h', 'text'\)"),  # type: ignore[list-item]
        ([Record(b"x", headers=[(b"h", b"")])], {}, TypeError, "pairs of str and bytes"),  # type: ignore[list-item]
        ([Record(b"x", headers=[("h",)])], {}, TypeError, "pairs"),  # type: ignore[list-item]
        ([Record(b"x", headers=[{"name": "h"}])], {}, TypeError, "pairs"),
        ([Record(b"x", headers="ab")], {}, TypeError, "pairs"),  # type: ignore[arg-type]
    ],
)
def test_refusals(tmp_path: Path, data: Any, config: dict[str, Any], error: type[Exception], said: str) -> None:
    with writer(tmp_path, config=LogConfig(**config)) as log:
        log.append([Record(b"before", b"key")])
        with pytest.raises(error, match=said) as caught:
            log.append(data)
        assert "\n" not in str(caught.value)
        if isinstance(caught.value, kafkalog.KafkaLogError):
            assert caught.value.path == log.path
            assert str(caught.value).startswith(f"{log.path}: ")
        assert log.log_end_offset == 1
        assert log.append([Record(b"after", b"key")]).first_offset == 1
    assert [row.value for row in both(tmp_path / "orders-0")] == [b"before", b"after"]


def test_a_refusal_in_the_middle_keeps_the_batches_before_it(tmp_path: Path) -> None:
    with writer(tmp_path, batch_bytes=1) as log:
        with pytest.raises(kafkalog.InvalidRecordError):
            log.append([Record(b"a"), Record(b"b"), Record(b"x" * 2_000_000), Record(b"c")])
        end = log.log_end_offset
        log.append([Record(b"d")])
    assert [row.value for row in both(tmp_path / "orders-0")] == [*[b"a", b"b"][:end], b"d"]


def test_a_header_without_a_key(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": "h", "value": b""}], [{"key": None, "value": b""}]], kind)
    with writer(tmp_path) as log:
        with pytest.raises(kafkalog.InvalidRecordError, match="header key: expected a string, found null in record 1"):
            log.append(pa.table({"value": [b"a", b"b"], "headers": headers}))
        assert log.log_end_offset == 1


@pytest.mark.parametrize("shape", ["chunks", "batches", "records"])
def test_a_refused_record_is_counted_from_the_first(tmp_path: Path, shape: str) -> None:
    """The rows may come in any pieces."""
    times = [NOW] * 20_000 + [NOW + 10**9, NOW]
    pieces = [
        pa.table({"value": [b"x"] * len(part), "timestamp": pa.array(part, pa.int64())})
        for part in (times[:7], times[7:15_000], times[15_000:])
    ]
    data: Any = {
        "chunks": pa.concat_tables(pieces),
        "batches": [batch for piece in pieces for batch in piece.to_batches()],
        "records": (Record(b"x", timestamp=time) for time in times),
    }[shape]
    with writer(tmp_path) as log:
        with pytest.raises(kafkalog.InvalidRecordError, match=r"in record 20000;"):
            log.append(data)
        assert log.log_end_offset == 20_000


def test_offsets_that_are_to_be_kept(tmp_path: Path) -> None:
    """They are there, with room after them."""
    last = (1 << 63) - 1
    with writer(tmp_path) as log:
        with pytest.raises(ValueError, match="expected offset, to be kept, found value"):
            log.append(pa.table({"value": [b"x"]}), keep_offsets=True)
        with pytest.raises(kafkalog.InvalidRecordError, match=f"found {last} in record 1"):
            log.append(pa.table({"value": [b"x", b"y"], "offset": [last - 1, last]}), keep_offsets=True)
        assert log.log_end_offset == last
    assert [row.offset for row in both(tmp_path / "orders-0")] == [last - 1]


@pytest.mark.parametrize(
    ("offsets", "said", "kept"),
    [
        ([5, 7, 6], "below the log end 8", [5, 7]),
        ([5, 5], "below the log end 6", [5]),
        ([3], "below the log end 4", []),
        ([0, 1, 2], "below the log end 4", []),
        ([-1], "expected 0 or more.*found -1 in record 0", []),
    ],
)
@pytest.mark.parametrize("batch_bytes", [1, 16_384], ids=["one a batch", "one batch"])
def test_offsets_that_do_not_rise(
    tmp_path: Path, offsets: list[int], said: str, kept: list[int], batch_bytes: int
) -> None:
    """Inside a batch, across batches, and against what is in the log."""
    with writer(tmp_path, batch_bytes=batch_bytes) as log:
        log.append(pa.table({"value": [b"x"], "offset": [3]}), keep_offsets=True)
        with pytest.raises(kafkalog.InvalidRecordError, match=said) as caught:
            log.append(pa.table({"value": [b"y"] * len(offsets), "offset": offsets}), keep_offsets=True)
        assert caught.value.path == log.path
        log.append(pa.table({"value": [b"z"], "offset": [9]}), keep_offsets=True)
    assert [row.offset for row in both(tmp_path / "orders-0")] == [3, *kept, 9]


def test_what_a_call_calls_cannot_use_the_writer(tmp_path: Path) -> None:
    """It would wait for itself for ever."""
    kind = pa.schema([("value", pa.binary())])
    seen: list[str] = []

    def watching() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": pa.array([b"a"])}, schema=kind)
        try:
            log.append([Record(b"inner")])
        except ValueError as error:
            seen.append(str(error))
        yield pa.record_batch({"value": pa.array([b"b"])}, schema=kind)

    def failing() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": pa.array([b"c"])}, schema=kind)
        raise ZeroDivisionError

    with writer(tmp_path) as log:
        assert log.append(pa.RecordBatchReader.from_batches(kind, watching())).records == 2
        assert len(seen) == 1
        assert "in use by this thread" in seen[0]
        with pytest.raises(OSError, match="Arrow stream failed") as caught:
            log.append(pa.RecordBatchReader.from_batches(kind, failing()))
        assert "\n" not in str(caught.value)
        assert log.log_end_offset == 3
    assert [row.value for row in both(tmp_path / "orders-0")] == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"topic": ""}, ValueError),
        ({"topic": "a/b"}, ValueError),
        ({"topic": ".."}, ValueError),
        ({"topic": "t" * 250}, ValueError),
        ({"topic": b"t"}, TypeError),
        ({"partition": -1}, ValueError),
        ({"partition": "0"}, TypeError),
        ({"config": {"segment.bytes": 1}}, ValueError),
        ({"config": "segment.bytes=1"}, TypeError),
        ({"sync": "always"}, ValueError),
        ({"extra": "drop"}, ValueError),
        ({"clock": 5}, TypeError),
        ({"topic_id": "not an id"}, ValueError),
        ({"topic_id": "AAAAAAAAAAAAAAAAAAAAAA"}, ValueError),
        ({"cluster_id": "alone"}, ValueError),
        ({"node_id": 1}, ValueError),
        ({"cluster_id": "", "node_id": 1}, ValueError),
        ({"directory_id": "not an id"}, ValueError),
        ({"leader_epoch": -1}, ValueError),
        ({"batch_bytes": 0}, ValueError),
    ],
)
def test_arguments(tmp_path: Path, options: dict[str, Any], error: type[Exception]) -> None:
    """Nothing is made for those that are refused."""
    topic, partition = options.pop("topic", "t"), options.pop("partition", 0)
    with pytest.raises(error):
        LogWriter(tmp_path / "new", topic, partition, **options)
    assert not (tmp_path / "new").exists()


def test_a_clock_that_fails_is_heard(tmp_path: Path) -> None:
    def broken() -> int:
        raise ZeroDivisionError

    def words() -> Any:
        return "noon"

    with pytest.raises(ZeroDivisionError):
        LogWriter(tmp_path / "a", "t", clock=broken)
    with pytest.raises(TypeError):
        LogWriter(tmp_path / "b", "t", clock=words)


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    """Nothing may be created in it, and nothing is. Root may write anywhere, so the test drops root's rights."""
    with tempfile.TemporaryDirectory(prefix="kafkalog-") as folder:
        Path(folder).chmod(0o555)
        script = "import os, sys, kafkalog\nkafkalog.LogWriter\nif os.geteuid() == 0: os.setuid(65534)\n" + READ_ONLY
        ran = subprocess.run([sys.executable, "-c", script, folder], capture_output=True, text=True, check=True)
        assert ran.stdout.splitlines() == [f"PermissionError 13 {folder}/new", f"PermissionError 13 {folder}/.lock"]
        assert list(Path(folder).iterdir()) == []
    with pytest.raises(FileExistsError) as caught:
        writer(Path(__file__))
    assert caught.value.filename == __file__
    assert tmp_path.exists()


READ_ONLY = """
for path in (sys.argv[1] + "/new", sys.argv[1]):
    try:
        kafkalog.LogWriter(path, "orders")
    except OSError as error:
        print(type(error).__name__, error.errno, error.filename)
"""


def test_closed_it_takes_nothing(tmp_path: Path) -> None:
    log = writer(tmp_path)
    log.append([Record(b"x")])
    log.close()
    log.close()
    assert log.closed
    calls: list[Any] = [
        lambda: log.append([Record(b"y")]),
        lambda: log.append([]),
        lambda: log.append_batches(log.path),
    ]
    for call in (*calls, log.roll, log.flush, lambda: log.truncate(0), lambda: log.log_end_offset):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert "closed" in repr(log)


def test_an_error_in_the_block_is_the_one_that_is_told(tmp_path: Path) -> None:
    def fails() -> None:
        with writer(tmp_path) as log:
            log.append([Record(b"x")])
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fails()
    assert len(both(tmp_path / "orders-0")) == 1


def test_a_job_that_died_keeps_others_out(tmp_path: Path) -> None:
    """Its note is all that a writer needs to know; tests/spark has the jobs."""
    from kafkalog import _core

    LogWriter(tmp_path, "t").close()
    note = tmp_path / ".kafkalog-job"
    note.write_text("kafkalog-job 1 a1\n{}\n")
    says = rf"{note}: job \"a1\" has not ended, or died: .* delete the note"
    for topic, job in (("t", None), ("new", None), ("t", "a2")):
        with pytest.raises(kafkalog.LogLockedError, match=says):
            _core.LogWriter([str(tmp_path)], topic, 0, [], job=job)
    with pytest.raises(ValueError, match="expected the note of a job of this version"):
        LogWriter(tmp_path, "t")
    command = [sys.executable, "-m", "kafkalog", "import", str(tmp_path / "t-0"), str(tmp_path / "other")]
    (tmp_path / "other").mkdir()
    note.rename(tmp_path / "other" / note.name)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert ".kafkalog-job: expected the note of a job" in done.stderr
    assert not (tmp_path / "new-0").exists()
    assert [path.name for path in (tmp_path / "other").iterdir() if path.is_dir()] == []
    note = (tmp_path / "other" / ".kafkalog-job").rename(note)
    _core.LogWriter([str(tmp_path)], "t", 0, [], job="a1").close()
    note.unlink()
    LogWriter(tmp_path, "t").close()
