"""Options: Spark's spelling and rules, and what a user reads who breaks them."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from kafkalog.spark.columns import DEFAULT_COLUMNS, SPARK_TYPES, schema
from kafkalog.spark.options import KNOWN, UNSUPPORTED, Bound, parse


def test_defaults() -> None:
    options = parse({"path": "/data"})
    assert options.paths == ("/data",)
    assert (options.topics, options.topic_pattern, options.assign) == (None, None, None)
    assert options.starting == Bound("earliest")
    assert options.ending == Bound("latest")
    assert options.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert options.check_crcs
    assert not options.include_control
    assert (options.split_bytes, options.batch_rows, options.batch_bytes) == (None, 65_536, 2 << 20)


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"subscribe": " a, b,,"}, "topics", ("a", "b")),
        ({"SUBSCRIBE": ["a", "b"]}, "topics", ("a", "b")),
        ({"subscribePattern": "or.*"}, "topic_pattern", "or.*"),
        ({"subscribe_pattern": "or.*"}, "topic_pattern", "or.*"),
        ({"assign": '{"a": [0, 1], "b": [2]}'}, "assign", {"a": [0, 1], "b": [2]}),
        ({"assign": {"a": [0]}}, "assign", {"a": [0]}),
        ({"startingoffsets": '{"a": {"0": 23, "1": -2}}'}, "starting", Bound({"a": {0: 23, 1: -2}})),
        ({"starting_offsets": {"a": {0: 23}}}, "starting", Bound({"a": {0: 23}})),
        ({"startingOffsets": "Earliest"}, "starting", Bound("earliest")),
        ({"startingOffsets": "oldest"}, "starting", Bound("oldest")),
        ({"endingOffsets": "latest"}, "ending", Bound("latest")),
        ({"endingOffsets": "high_watermark"}, "ending", Bound("high_watermark")),
        ({"endingOffsets": '{"a": {"0": -1}}'}, "ending", Bound({"a": {0: -1}})),
        ({"startingTimestamp": "1700000000000"}, "starting", Bound("earliest", 1_700_000_000_000)),
        (
            {"ending_timestamp": datetime(2023, 11, 14, 22, 13, 20, 999, tzinfo=timezone.utc)},
            "ending",
            Bound("latest", 1_700_000_000_000),
        ),
        (
            {"endingOffsetsByTimestamp": '{"a": {"0": 1000}}'},
            "ending",
            Bound("latest", by_timestamp={"a": {0: 1000}}),
        ),
        ({"startingOffsetsByTimestampStrategy": "LATEST"}, "start_must_match", False),
        ({"includeHeaders": "true"}, "columns", (*DEFAULT_COLUMNS, "headers")),
        ({"includeHeaders": True, "columns": "offset"}, "columns", ("offset", "headers")),
        ({"columns": "offset, VALUE"}, "columns", ("offset", "value")),
        ({"columns": ["timestamptype"]}, "columns", ("timestampType",)),
        ({"checkCrcs": "False"}, "check_crcs", False),
        ({"includeControl": "true"}, "include_control", True),
        ({"includeInactive": "true"}, "include_inactive", True),
        ({"splitBytes": "64m"}, "split_bytes", 64 << 20),
        ({"splitBytes": "1GB"}, "split_bytes", 1 << 30),
        ({"splitBytes": 1000}, "split_bytes", 1000),
        ({"batchRows": "10"}, "batch_rows", 10),
        ({"batchBytes": "4k"}, "batch_bytes", 4096),
        ({}, "decode_ahead", True),
        ({"decodeAhead": "false"}, "decode_ahead", False),
        ({"subscribe": None}, "topics", None),
        ({"paths": '["/a", "/b"]'}, "paths", ("/data", "/a", "/b")),
        ({"kafka.isolation.level": "read_uncommitted"}, "include_control", False),
    ],
)
def test_values(given: dict[str, Any], field: str, value: object) -> None:
    assert getattr(parse({"path": "/data", **given}), field) == value


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/data/", "/data"),
        ("file:/data", "/data"),
        ("file:///data", "/data"),
        (Path("/data"), "/data"),
        ("logs/data", str(Path.cwd() / "logs/data")),
        ("c:d", str(Path.cwd() / "c:d")),
    ],
)
def test_paths(path: object, read: str) -> None:
    assert parse({"path": path}).paths == (read,)


def test_a_timestamp_wins_over_timestamps_by_partition_and_these_over_offsets() -> None:
    offsets, times = '{"a": {"0": 5}}', '{"b": {"1": 9}}'
    both = parse({"path": "/d", "startingOffsets": offsets, "startingOffsetsByTimestamp": times}).starting
    assert both.named == {"b": {1: 9}}
    three = parse(
        {"path": "/d", "startingOffsets": offsets, "startingOffsetsByTimestamp": times, "startingTimestamp": 7}
    )
    assert three.starting.timestamp == 7
    assert three.starting.named is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"subscibe": "a"}, "unknown option 'subscibe'; did you mean 'subscribe'?"),
        ({"startingOffset": "earliest"}, "unknown option 'startingOffset'; did you mean 'startingOffsets'?"),
        ({"x": "1"}, "unknown option 'x'; did you mean"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "only one of assign, subscribe and subscribePattern"),
        ({"subscribe": "a", "subscribePattern": "a"}, "only one of assign, subscribe and subscribePattern"),
        ({"subscribe": ","}, "option subscribe: no topic is named in ','"),
        ({"assign": "a"}, "option assign: expected JSON, found 'a'"),
        ({"assign": "[0]"}, "option assign: expected {"),
        ({"assign": "{}"}, "option assign: expected {"),
        ({"assign": '{"a": 0}'}, "option assign: expected {"),
        ({"assign": '{"a": [-1]}'}, "option assign: expected a partition, found -1"),
        ({"assign": '{"a": [true]}'}, "option assign: expected a partition, found True"),
        ({"assign": '{"a": [0], "a": [1]}'}, "option assign: a name occurs twice"),
        ({"startingOffsets": "latest"}, "option startingOffsets: 'latest' is not possible in a batch read"),
        ({"endingOffsets": "earliest"}, "option endingOffsets: 'earliest' is not possible in a batch read"),
        ({"startingOffsets": "soon"}, "option startingOffsets: expected earliest or oldest, or JSON, found 'soon'"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "offset -1 of a-0 is not possible in a batch read"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "offset -2 of a-0 is not possible in a batch read"),
        ({"endingOffsets": '{"a": {"0": -3}}'}, "offset -3 of a-0 is not possible in a batch read"),
        ({"startingOffsets": '{"a": 5}'}, "option startingOffsets: expected earliest or oldest, or {"),
        ({"startingOffsets": '{"a": {"x": 5}}'}, "option startingOffsets: expected a partition, found 'x'"),
        ({"startingOffsets": '{"a": {"0": 1.5}}'}, "option startingOffsets: expected an offset, found 1.5"),
        ({"startingTimestamp": "yesterday"}, "option startingTimestamp: expected milliseconds since the epoch"),
        ({"startingTimestamp": datetime(2023, 1, 1)}, "has no time zone"),  # noqa: DTZ001 - that is the point
        ({"startingOffsetsByTimestamp": "5"}, "option startingOffsetsByTimestamp: expected {"),
        ({"startingOffsetsByTimestampStrategy": "none"}, "startingOffsetsByTimestampStrategy is 'none'"),
        ({"includeHeaders": "yes"}, "option includeHeaders: expected true or false, found 'yes'"),
        ({"columns": "offset,size"}, "option columns: unknown column 'size'"),
        ({"columns": "offset,Offset"}, "option columns: column 'Offset' is named twice"),
        ({"columns": []}, "option columns: no columns are named"),
        ({"splitBytes": "0"}, "option splitBytes: expected a number above zero"),
        ({"splitBytes": "64 apples"}, "option splitBytes: expected a number above zero"),
        ({"batchRows": "-1"}, "option batchRows: expected a number above zero"),
        ({"path": None}, "no path is given"),
        ({"paths": "/a"}, "option paths: expected JSON"),
        ({"path": "hdfs://host/a"}, "path 'hdfs://host/a': only local files can be read, not hdfs:"),
        ({"Path": "/b"}, "option path is given twice"),
        ({"minPartitions": "5"}, "minPartitions of Spark's Kafka source is not supported in this version"),
        ({"failondataloss": "false"}, "failOnDataLoss of Spark's Kafka source is not supported in this version"),
        ({"maxOffsetsPerTrigger": "5"}, "streaming is not supported in this version"),
        ({"topic": "t"}, "writing from Spark is not supported in this version"),
        (
            {"kafka.bootstrap.servers": "h:9092"},
            "kafka.bootstrap.servers of Spark's Kafka source has no meaning",
        ),
        ({"kafka.fetch.max.bytes": "5"}, "kafka.fetch.max.bytes has no meaning for files"),
        ({"kafka.isolation.level": "read_committed"}, "'read_committed' is not supported in this version"),
    ],
)
def test_errors(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are what is tested
        parse({"path": "/data", **given})
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_option_of_sparks_kafka_source_is_known_or_refused_by_name() -> None:
    # The guide of Spark 4.3, "Structured Streaming + Kafka Integration".
    spark = """assign subscribe subscribePattern kafka.bootstrap.servers startingTimestamp startingOffsetsByTimestamp
        startingOffsets endingTimestamp endingOffsetsByTimestamp endingOffsets failOnDataLoss
        kafkaConsumer.pollTimeoutMs
        fetchOffset.numRetries fetchOffset.retryIntervalMs maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay
        minPartitions maxRecordsPerPartition groupIdPrefix kafka.group.id includeHeaders
        startingOffsetsByTimestampStrategy kafka.isolation.level topic"""
    assert set(spark.split()) <= {*KNOWN, *UNSUPPORTED}
    assert not set(KNOWN) & set(UNSUPPORTED)


def test_schema_is_ddl() -> None:
    assert schema(["value", "offset"]) == "`value` BINARY, `offset` BIGINT"
    assert schema(include_headers=True).endswith("`headers` ARRAY<STRUCT<key: STRING, value: BINARY>>")
    assert len(SPARK_TYPES) == 25
