"""Options of a sink, and the rows and records that they refuse."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import kafkalog
from spark.sinks import ILLEGAL, make, rows, sink
from spark.ways import needs_data_sources

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_data_sources


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kafka.key.serializer": "x"}, "option kafka.key.serializer is not supported: keys are bytes"),
        ({"Kafka.Value.Serializer": "x"}, "option kafka.value.serializer is not supported: values are bytes"),
        ({"compression.type": "lz4", "kafka.compression.type": "zstd"}, "differ; set one of them"),
        ({"kafka.topic": "t"}, "the rows have no topic; set the option topic"),
        ({"partition": "2"}, "unknown option 'partition'; did you mean 'partitions'?"),
        ({"topic": "t", "partitions": "0"}, "expected a number of partitions above zero"),
        ({"topic": "t", "compression.type": "brotli"}, "brotli"),
        # ConfigDef.ValidString
        ({"topic": "t", "compression.type": ""}, "Invalid value  for configuration compression_type"),
        ({"topic": "t", "kafka.compression.type": "ZSTD"}, "Invalid value ZSTD for configuration"),
        ({"topic": "t", "max.message.bytes": "1m"}, "expected max.message.bytes, found '1m'"),
        *[({"topic": name}, f'topic "{name}": expected 1 to 249 ASCII letters') for name in ILLEGAL if name],
        ({"topic": " "}, 'topic "": expected'),
        ({"topic": "t", "failOnDataLoss": "maybe"}, "option failOnDataLoss: expected true or false, found 'maybe'"),
    ],
)
def test_options_that_are_refused(tmp_path: Path, options: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        make(tmp_path, **options)


def test_names_of_compression_types(tmp_path: Path) -> None:
    """A producer's and a topic's; ConfigDef.parseType trims them."""
    for given, codec in {" zstd ": "zstd", "none": "none", "uncompressed": "none", "producer": "none"}.items():
        data = tmp_path / str(len(list(tmp_path.iterdir())))
        target = make(data, **{"topic": "t", "kafka.compression.type": given})
        target.commit([target.write(iter([rows(0, 9)]))])
        assert set(kafkalog.read_table(data, columns="compression")["compression"].to_pylist()) == {codec}


@pytest.mark.parametrize("compression", [None, "none", "lz4"])
def test_a_record_that_is_too_large_is_refused_by_the_task(tmp_path: Path, compression: str | None) -> None:
    """Exactly the records that the commit would refuse; with compression, the commit finds out."""
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    taken = 0
    others: list[tuple[bytes | None, Any]] = [(None, None), (b"k" * 70, None), (b"", [])]
    others += [(b"k", [{"key": "h\u00e4", "value": None}, {"key": "i" * 80, "value": b"v" * 9000}])]
    cases = [(size, *other) for size in (0, 56, 57, 58, 700, 8100, 9100) for other in others]
    for number, (most, size) in enumerate([(m, s) for m in (130, 9300) for s in range(len(cases))]):
        length, key, header = cases[size]
        fits = pa.RecordBatch.from_pydict({"value": [b"v"] * 3})
        value = os.urandom(length)
        given = pa.RecordBatch.from_pydict(
            {"value": [b"", value], "key": [None, key], "headers": pa.array([None, header], headers)}
        )
        data = tmp_path / str(number)
        with kafkalog.LogWriter(data, "u", config=kafkalog.LogConfig(max_message_bytes=1 << 20)) as writer:
            writer.append(given.slice(1))
        (found,) = kafkalog.read_table(data, columns="batchSize")["batchSize"].to_pylist()
        says = ""
        with kafkalog.LogWriter(data, "u", config=kafkalog.LogConfig(max_message_bytes=most)) as writer:
            try:
                writer.append(given)
            except kafkalog.InvalidRecordError:
                assert found is not None
                assert found > most
                says = re.escape(
                    f"t-0: RecordTooLarge: batch size: expected at most {most} (max.message.bytes), found {found} for "
                    "row 4 of this task alone"
                )
        target = sink(data, partitions=1, compression=compression, max_message_bytes=most)
        if says and compression != "lz4":
            with pytest.raises(kafkalog.InvalidRecordError, match=f"^{says}$"):
                target.write(iter([fits, given]))
        else:
            taken += 1
            target.write(iter([fits, given]))
    assert taken == len(cases) * 2 if compression == "lz4" else len(cases) // 2 < taken < len(cases) * 2


def test_options_of_a_producer_are_ignored_and_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = make(tmp_path, **{"topic": " t ", "kafka.acks": "all", "kafka.partitions": "9"})
    assert (made.topic, made.partitions) == ("t", 1)
    assert [record.args for record in caplog.records] == [("kafka.acks",), ("kafka.partitions",)]
    assert caplog.text.count("kafkalog: option kafka.") == 2


def test_a_path_among_logs_is_refused_before_a_row_is_staged(tmp_path: Path) -> None:
    (tmp_path / "L").mkdir()
    (tmp_path / "L" / "meta.properties").touch()
    with pytest.raises(ValueError, match="the output would lie in the log dir"):
        make(tmp_path / "L" / "x", topic="t")
    assert [each.name for each in tmp_path.rglob("*") if each.is_file()] == ["meta.properties"]


def test_the_staging_path_of_a_sink_is_no_url() -> None:
    from kafkalog.spark.sink import _staging

    with pytest.raises(ValueError, match="s3://b/x is a URL: "):
        _staging({"path": "/data", "stagingPath": "s3://b/x"})
