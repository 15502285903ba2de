"""Options: Spark's spelling and rules, and the errors for breaking them."""

from __future__ import annotations

import inspect
import re
from datetime import datetime, timezone
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog.spark
from kafkalog.spark import read
from kafkalog.spark.columns import DEFAULT_COLUMNS, SPARK_TYPES, schema
from kafkalog.spark.option_names import IGNORED, KNOWN, REFUSED
from kafkalog.spark.planner import plan_read
from kafkalog.spark.source_options import Bound, SourceOptions, parse, parse_paths, parse_rows

if TYPE_CHECKING:
    from kafkalog.spark.option_names import Use


def test_defaults() -> None:
    options = parse({"path": "/data"})
    assert options.paths == ("/data",)
    assert (options.topics, options.read.topic_pattern, options.assign) == (None, None, None)
    assert options.starting == Bound("earliest")
    assert options.ending == Bound("latest")
    assert options.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert options.read.check_crcs
    assert not options.read.include_control
    assert (options.split_bytes, options.read.batch_rows, options.read.batch_bytes) == (None, 65_536, 1 << 20)


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"subscribe": " a, b,,"}, "topics", ("a", "b")),
        ({"SUBSCRIBE": ["a", "b"]}, "topics", ("a", "b")),
        ({"subscribePattern": " or.* "}, "read.topic_pattern", ".*(?:or.*).*"),
        ({"subscribe_pattern": "or.*"}, "read.topic_pattern", ".*(?:or.*).*"),
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
        # a number is milliseconds, as in Spark's Kafka source, also where it looks like a year
        ({"startingTimestamp": "2024"}, "starting", Bound("earliest", 2024)),
        ({"startingTimestamp": 2024}, "starting", Bound("earliest", 2024)),
        ({"endingTimestamp": "2023-11-14T23:13:20+01:00"}, "ending", Bound("latest", 1_700_000_000_000)),
        ({"endingTimestamp": "2023-11-14T22:13:19.999001Z"}, "ending", Bound("latest", 1_700_000_000_000)),
        (
            {"startingOffsetsByTimestamp": {"a": {0: datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=timezone.utc)}}},
            "starting",
            Bound("earliest", by_timestamp={"a": {0: 1_700_000_000_001}}),
        ),
        (
            {"ending_timestamp": datetime(2023, 11, 14, 22, 13, 19, 999_001, tzinfo=timezone.utc)},
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
        ({"checkCrcs": "False"}, "read.check_crcs", False),
        ({"includeControl": "true"}, "read.include_control", True),
        ({"includeInactive": "true"}, "read.include_inactive", True),
        ({"latestPerKey": "true"}, "read.latest_per_key", True),
        ({"containing": "\u00fc"}, "read.containing", b"\xc3\xbc"),
        ({"matching": "a|b", "searchIn": "key, headers"}, "read.search_in", ("key", "headers")),
        ({"latestPerKey": "true", "tombstones": True}, "read.tombstones", True),
        ({"splitBytes": "64m"}, "split_bytes", 64 << 20),
        ({"splitBytes": "1GB"}, "split_bytes", 1 << 30),
        ({"splitBytes": 1000}, "split_bytes", 1000),
        ({"batchRows": "10"}, "read.batch_rows", 10),
        ({"batchBytes": "4k"}, "read.batch_bytes", 4096),
        ({"subscribe": None}, "topics", None),
        ({"paths": '["/a", "/b"]'}, "paths", ("/data", "/a", "/b")),
        ({}, "read.isolation_level", "read_uncommitted"),
        ({"kafka.isolation.level": "READ_COMMITTED"}, "read.isolation_level", "read_committed"),
        ({"isolation.level": "read_committed"}, "read.isolation_level", "read_committed"),
        ({"isolation_level": "read_committed"}, "read.isolation_level", "read_committed"),
        (
            {"isolation.level": "read_committed", "Kafka.Isolation.Level": "read_committed"},
            "read.isolation_level",
            "read_committed",
        ),
        ({}, "fail_on_data_loss", True),
        ({"FAILONDATALOSS": "False"}, "fail_on_data_loss", False),
        ({}, "min_partitions", None),
        ({"minPartitions": "5"}, "min_partitions", 5),
        ({"maxRecordsPerPartition": "10000000000"}, "max_records", 10_000_000_000),
        # only the bound that takes precedence is parsed, as in Spark
        ({"startingTimestamp": "5", "startingOffsets": "latest"}, "starting", Bound("earliest", 5)),
        ({"startingTimestamp": "5", "startingOffsetsByTimestamp": "x"}, "starting", Bound("earliest", 5)),
        # a time is not compared with an offset
        (
            {"startingOffsetsByTimestamp": '{"a": {"0": 50}}', "endingOffsets": '{"a": {"0": 4}}'},
            "ending",
            Bound({"a": {0: 4}}),
        ),
        # an empty range is not an error
        (
            {"startingOffsets": '{"a": {"0": 5}}', "endingOffsets": '{"a": {"0": 5}}'},
            "ending",
            Bound({"a": {0: 5}}),
        ),
        # -1 and -2 are not compared
        (
            {"startingOffsets": '{"a": {"0": 5}}', "endingOffsets": '{"a": {"0": -1}}'},
            "ending",
            Bound({"a": {0: -1}}),
        ),
    ],
)
def test_values(given: dict[str, Any], field: str, value: object) -> None:
    assert attrgetter(field)(parse({"path": "/data", **given})) == value


@pytest.mark.parametrize(
    ("path", "read"),
    [
        ("/data/", "/data"),
        ("file:/data", "/data"),
        ("file:///data", "/data"),
        ("FILE:/data", "/data"),
        (Path("/data"), "/data"),
        ("logs/data", "{}/logs/data"),
        ("c:d", "{}/c:d"),
    ],
)
def test_paths(path: object, read: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "logs" / "data").mkdir(parents=True)
    (tmp_path / "c:d").mkdir()
    monkeypatch.chdir(tmp_path)
    assert parse({"path": path}).paths == (read.format(tmp_path),)


@pytest.mark.parametrize("use", ["batch", "stream"])
def test_a_relative_path_that_does_not_exist(use: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="path 'logs/data' is relative") as caught:
        parse({"path": "logs/data"}, use)
    assert caught.value.filename == str(tmp_path / "logs/data")


def test_several_log_dirs_in_one_path(tmp_path: Path) -> None:
    assert parse({"path": "/a, /b,"}).paths == ("/a", "/b")
    assert parse({"path": ["/a,b"]}).paths == ("/a,b",)
    (tmp_path / "x,y").mkdir()
    assert parse({"path": f"{tmp_path}/x,y"}).paths == (f"{tmp_path}/x,y",)


def test_standard_input_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Spark does not read standard input \(-\)"):
        parse_paths({"path": "-"}, must_exist=True)


@pytest.mark.parametrize("must_exist", [True, False], ids=["load", "save"])
def test_commas_mean_the_same_in_both_directions(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    must_exist: bool,  # noqa: FBT001
) -> None:
    """A save to ``/x/a,b`` once went into ``/x/a`` and ``./b``."""
    monkeypatch.chdir(tmp_path)
    for name in ("x,y", "c", "d"):
        (tmp_path / name).mkdir()
    expected = {
        "/x/a,b": ["/x/a,b"],
        "/x/a,b, /c,d,": ["/x/a,b", "/c,d"],
        "file:///x/a,b,file:/c,/d": ["/x/a,b", "/c", "/d"],
        f"file://{tmp_path}/x,y": [f"{tmp_path}/x,y"],
        f"file:{tmp_path}/x,y": [f"{tmp_path}/x,y"],
        "x,y": [f"{tmp_path}/x,y"],
        "c,d": [f"{tmp_path}/c", f"{tmp_path}/d"],
    }
    for path, paths in expected.items():
        assert list(parse_paths({"path": path}, must_exist=must_exist)) == paths
    with pytest.raises(ValueError, match="hdfs://h/a,b is a URL"):
        parse_paths({"path": "hdfs://h/a,b"}, must_exist=must_exist)


def test_a_timestamp_precedes_timestamps_by_partition_and_these_precede_offsets() -> None:
    offsets, times = '{"a": {"0": 5}}', '{"b": {"1": 9}}'
    both = parse({"path": "/d", "startingOffsets": offsets, "startingOffsetsByTimestamp": times}).starting
    assert both.named == {"b": {1: 9}}
    three = parse(
        {"path": "/d", "startingOffsets": offsets, "startingOffsetsByTimestamp": times, "startingTimestamp": 7}
    )
    assert three.starting.timestamp == 7
    assert three.starting.named is None
    both = parse({"path": "/d", "endingOffsets": offsets, "endingOffsetsByTimestamp": times}).ending
    assert both.named == {"b": {1: 9}}
    three = parse({"path": "/d", "endingOffsets": offsets, "endingOffsetsByTimestamp": times, "endingTimestamp": 7})
    assert three.ending.timestamp == 7
    assert three.ending.named is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"subscibe": "a"}, "unknown option 'subscibe'; did you mean 'subscribe'?"),
        ({"startingOffset": "earliest"}, "unknown option 'startingOffset'; did you mean 'startingOffsets'?"),
        ({"x": "1"}, "unknown option 'x'; valid are path, paths, assign"),
        ({"topics": "a"}, "unknown option 'topics'; did you mean 'subscribe'?"),
        ({"topic_pattern": "a"}, "unknown option 'topic_pattern'; did you mean 'subscribePattern'?"),
        ({"partitions": "1"}, "unknown option 'partitions'; did you mean 'assign'?"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "only one of assign, subscribe and subscribePattern"),
        ({"subscribe": "a", "subscribePattern": "a"}, "only one of assign, subscribe and subscribePattern"),
        ({"subscribe": ","}, "option subscribe: no topic is named in ','"),
        ({"assign": "a"}, "option assign: expected JSON, found 'a'"),
        ({"assign": "[0]"}, "option assign: expected {"),
        ({"assign": "{}"}, "option assign: expected {"),
        ({"assign": '{"a": 0}'}, "option assign: expected {"),
        ({"assign": '{"a": [-1]}'}, "option assign: expected a partition number, found -1"),
        ({"assign": '{"a": [true]}'}, "option assign: expected a partition number, found True"),
        ({"assign": '{"a": [0], "a": [1]}'}, "option assign: a name occurs twice"),
        (
            {"assign": '{"a": [2147483648]}'},
            "option assign: expected a partition number of at most 2147483647, found 2147483648",
        ),
        ({"startingOffsets": '{"a": {"0": 1, "00": 5}}'}, "option startingOffsets: a name occurs twice"),
        ({"endingOffsets": '{"a": {"4294967296": 5}}'}, "option endingOffsets: expected a partition number of at most"),
        ({"startingOffsets": "latest"}, "option startingOffsets: 'latest' is not valid in a batch read"),
        ({"endingOffsets": "earliest"}, "option endingOffsets: 'earliest' is not valid in a batch read"),
        ({"startingOffsets": "soon"}, "option startingOffsets: expected earliest or oldest, or JSON, found 'soon'"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, "offset -1 of a-0 is not valid in a batch read"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "offset -2 of a-0 is not valid in a batch read"),
        ({"endingOffsets": '{"a": {"0": -3}}'}, "offset -3 of a-0 is not valid in a batch read"),
        ({"startingOffsets": '{"a": 5}'}, "option startingOffsets: expected earliest or oldest, or {"),
        ({"startingOffsets": '{"a": {"x": 5}}'}, "option startingOffsets: expected a partition number, found 'x'"),
        ({"startingOffsets": '{"a": {"0": 1.5}}'}, "option startingOffsets: expected an offset, found 1.5"),
        (
            {"startingTimestamp": "yesterday"},
            "option startingTimestamp: time 'yesterday' is neither milliseconds since the epoch nor ISO 8601",
        ),
        ({"startingTimestamp": datetime(2023, 1, 1)}, "has no time zone"),  # noqa: DTZ001 - that is the point
        ({"startingOffsetsByTimestamp": "5"}, "option startingOffsetsByTimestamp: expected {"),
        (
            {"startingOffsetsByTimestampStrategy": "none"},
            "startingOffsetsByTimestampStrategy: expected error or latest, found 'none'",
        ),
        (
            {"startingOffsetsByTimestampStrategy": " latest "},
            "startingOffsetsByTimestampStrategy: expected error or latest, found ' latest '",
        ),
        ({"includeHeaders": "yes"}, "option includeHeaders: expected true or false, found 'yes'"),
        ({"columns": "offset,size"}, "option columns: unknown column 'size'"),
        ({"columns": "offset,Offset"}, "option columns: column 'Offset' is named twice"),
        ({"columns": []}, "option columns: no column is named; use some of key"),
        ({"splitBytes": "0"}, "option splitBytes: expected a number above zero"),
        ({"splitBytes": "64 apples"}, "option splitBytes: expected a number above zero"),
        ({"batchRows": "-1"}, "option batchRows: expected a number above zero"),
        ({"path": None}, "no path is given"),
        ({"paths": "/a"}, "option paths: expected a JSON list of paths"),
        ({"path": "file://host/a"}, "file://host/a is a URL"),
        ({"Path": "/b"}, "option path is given twice"),
        ({"minPartitions": "0"}, "option minPartitions: expected a number above zero, found 0"),
        ({"minPartitions": "2.5"}, "option minPartitions: expected a number above zero, found '2.5'"),
        ({"maxRecordsPerPartition": "-1"}, "option maxRecordsPerPartition: expected a number above zero, found -1"),
        ({"failondataloss": "no"}, "option failOnDataLoss: expected true or false, found 'no'"),
        ({"topic": "t"}, "option topic applies to writes only; name the topics to read in `subscribe`"),
        ({"kafka.isolation.level": "none"}, "expected read_uncommitted or read_committed, found 'none'"),
        ({"isolation.level": "read_committed", "kafka.isolation.level": "read_uncommitted"}, "differ; set one of them"),
        # options that Spark's source refuses too
        ({"kafka.auto.offset.reset": "latest"}, "set `startingOffsets` instead"),
        ({"kafka.key.deserializer": "x"}, "kafka.key.deserializer is not supported: keys are bytes"),
        ({"kafka.value.deserializer": "x"}, "kafka.value.deserializer is not supported: values are bytes"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit is not supported"),
        ({"kafka.interceptor.classes": "x"}, "kafka.interceptor.classes is not supported"),
        ({"subscribePattern": " "}, "option subscribePattern: the pattern is empty"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "minOffsetsPerTrigger (5) exceeds"),
        (
            {"startingOffsets": '{"a": {"0": 5}}', "endingOffsets": '{"a": {"1": 5}}'},
            "starting and ending offsets must name the same partitions; only one of them names a-0, a-1",
        ),
        (
            {"startingOffsets": '{"a": {"0": 5}}', "endingOffsets": '{"a": {"0": 4}}'},
            "starting offset 5 of a-0 exceeds its ending offset 4",
        ),
        (
            {"startingOffsetsByTimestamp": '{"a": {"0": 5}}', "endingOffsetsByTimestamp": '{"a": {"0": 4}}'},
            "starting timestamp 5 of a-0 exceeds its ending timestamp 4",
        ),
    ],
)
def test_errors(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are what is tested
        parse({"path": "/data", **given})
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def stream(**given: Any) -> SourceOptions:
    return parse({"path": "/data", **given}, "stream")


def test_defaults_of_a_stream() -> None:
    options = stream()
    assert options.starting == Bound("latest")
    assert options.ending == Bound("latest")
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger) == (None, None)
    assert options.max_trigger_delay_ms == 15 * 60 * 1000


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"startingOffsets": "Earliest"}, "starting", Bound("earliest")),
        ({"startingOffsets": '{"a": {"0": -1, "1": -2}}'}, "starting", Bound({"a": {0: -1, 1: -2}})),
        ({"startingTimestamp": "5"}, "starting", Bound("latest", 5)),
        ({"endingOffsets": "high_watermark"}, "ending", Bound("high_watermark")),
        ({"maxOffsetsPerTrigger": "10"}, "max_offsets_per_trigger", 10),
        ({"minoffsetspertrigger": "10"}, "min_offsets_per_trigger", 10),
        ({"maxTriggerDelay": "2h"}, "max_trigger_delay_ms", 7_200_000),
        ({"maxTriggerDelay": "2min"}, "max_trigger_delay_ms", 120_000),
        # with 0 every batch is large enough, as in Spark's source
        ({"minOffsetsPerTrigger": "0"}, "min_offsets_per_trigger", 0),
        ({"maxTriggerDelay": "2500us"}, "max_trigger_delay_ms", 2),
        ({"maxTriggerDelay": "1d"}, "max_trigger_delay_ms", 86_400_000),
        ({"maxTriggerDelay": "250"}, "max_trigger_delay_ms", 250),
        ({"maxTriggerDelay": "10s"}, "max_trigger_delay_ms", 10_000),
    ],
)
def test_values_of_a_stream(given: dict[str, Any], field: str, value: object) -> None:
    assert getattr(stream(**given), field) == value


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"endingOffsets": "latest"}, "option endingOffsets: a stream has no end"),
        (
            {"endingOffsetsByTimestamp": '{"a": {"0": 5}}'},
            "option endingOffsetsByTimestamp applies to batch reads only",
        ),
        ({"endingTimestamp": "5"}, "option endingTimestamp applies to batch reads only"),
        ({"startingOffsets": "oldest"}, "option startingOffsets: expected earliest or latest, or JSON"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "offset -3 of a-0 is not valid in a stream"),
        (
            {"maxTriggerDelay": "soon"},
            "option maxTriggerDelay: expected a duration, such as 15m, 10s or 500ms, found 'soon'",
        ),
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger: expected a number above zero"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "minOffsetsPerTrigger (5) exceeds"),
        ({"minOffsetsPerTrigger": "-1"}, "option minOffsetsPerTrigger: expected a number"),
        ({"subscribePattern": "(?=a"}, "option subscribePattern: topic pattern '(?=a' is not supported: missing )"),
    ],
)
def test_errors_of_a_stream(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are what is tested
        stream(**given)
    assert says in str(caught.value)


@pytest.mark.parametrize(("kind", "ends"), [("batch", ("starting", "ending")), ("stream", ("starting",))])
@pytest.mark.parametrize("time", ["-1", -1, "-1700000000000"])
def test_times_before_1970(kind: Use, ends: tuple[str, ...], time: Any) -> None:
    for end in ends:
        for name, given in ((f"{end}Timestamp", time), (f"{end}OffsetsByTimestamp", {"a": {0: time}})):
            says = f"option {name}: time is {int(time)}, before 1970; only times from 0 on"
            with pytest.raises(ValueError, match=f"^{re.escape(says)}"):
                parse({"path": "/data", name: given}, kind)


@pytest.mark.parametrize(("name", "value"), [("decodeAs", "json"), ("onUndecoded", "skip"), ("readerSchema", "1")])
def test_an_error_of_typed_values_has_sparks_name(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} is for decoded records"):
        parse({"path": "/data", name: value})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kafka.bootstrap.servers": "h:9092"}, "option kafka.bootstrap.servers is ignored: it configures a client"),
        ({"KAFKA.FETCH.MAX.BYTES": "5"}, "option KAFKA.FETCH.MAX.BYTES is ignored: it configures a client"),
        ({"groupidprefix": "g"}, "option groupIdPrefix is ignored: it configures a client"),
        ({"fetchoffset.numretries": "g"}, "option fetchOffset.numRetries is ignored: it configures a client"),
        ({"maxOffsetsPerTrigger": "5"}, "option maxOffsetsPerTrigger is ignored in a batch read"),
        ({"maxTriggerDelay": "5s"}, "option maxTriggerDelay is ignored in a batch read"),
        # whatever the value, as in Spark's source
        ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay is ignored in a batch read"),
        ({"maxOffsetsPerTrigger": "many"}, "option maxOffsetsPerTrigger is ignored in a batch read"),
        ({"minOffsetsPerTrigger": "-5"}, "option minOffsetsPerTrigger is ignored in a batch read"),
    ],
)
def test_an_ignored_option_is_reported(given: dict[str, Any], says: str, caplog: pytest.LogCaptureFixture) -> None:
    parse({"path": "/data", **given})
    assert f"kafkalog: {says}" in caplog.text


def test_an_ignored_option_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """A data source must give its schema before the kind of read is known."""
    assert parse_rows({"path": "/data", "kafka.bootstrap.servers": "h:9092", "columns": "key"}).columns == ("key",)
    assert caplog.text == ""


def test_every_option_of_sparks_kafka_source_is_known_by_name() -> None:
    # The guide of Spark 4.3, "Structured Streaming + Kafka Integration".
    spark = """assign subscribe subscribePattern kafka.bootstrap.servers startingTimestamp startingOffsetsByTimestamp
        startingOffsets endingTimestamp endingOffsetsByTimestamp endingOffsets failOnDataLoss
        kafkaConsumer.pollTimeoutMs
        fetchOffset.numRetries fetchOffset.retryIntervalMs maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay
        minPartitions maxRecordsPerPartition groupIdPrefix kafka.group.id includeHeaders
        startingOffsetsByTimestampStrategy kafka.isolation.level topic"""
    assert set(spark.split()) <= {*KNOWN, *IGNORED, *REFUSED}
    assert not set(KNOWN) & {*IGNORED, *REFUSED}


@pytest.mark.parametrize("name", ["startingOffsets", "STARTINGOFFSETS", "starting_OFFSETS"])
def test_both_spellings_of_an_option(name: str) -> None:
    """Spark's exact spelling used to take precedence silently."""
    twice: Any = {"starting_offsets": {"orders": {0: 5}}, name: "earliest"}
    with pytest.raises(ValueError, match="option startingOffsets is given twice"):
        read(None, "/data", **twice)  # type: ignore[arg-type]


def test_schema_is_ddl() -> None:
    assert schema(["value", "offset"]) == "`value` BINARY, `offset` BIGINT"
    assert schema(include_headers=True).endswith("`headers` ARRAY<STRUCT<key: STRING, value: BINARY>>")
    assert len(SPARK_TYPES) == 33


def test_functions_show_the_options_of_read() -> None:
    read = inspect.signature(kafkalog.spark.read).parameters
    for function in (kafkalog.spark.count, kafkalog.spark.plan, kafkalog.spark.export):
        shown = inspect.signature(function).parameters
        missing = read.keys() - shown.keys() - {"columns", "transform", "schema", "metrics", "options"}
        assert missing == set(), function
        assert [*shown.values()][-1].kind is inspect.Parameter.VAR_KEYWORD


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"topics": [""]}, "option topics: no topic is named"),
        ({"topics": "a", "topic_pattern": "b"}, "only one of assign, topics and topic_pattern may be given"),
        ({"subscribe": [""]}, "option subscribe: no topic is named"),
    ],
)
def test_errors_have_the_names_that_the_caller_wrote(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{says}"):
        plan_read({"path": "/data", **given})
