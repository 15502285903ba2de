"""Compared with Spark's own Kafka source on a running broker: for each option the same rows, or an error of both.

And a stream that reads along while the broker writes, rolls and transacts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog.spark
from interop.broker import Broker
from interop.maven import SHORT_LIVED_JVM, MissingToolError, alone, class_path
from interop.mount import STAMP, faults
from interop.mount import consumed as consumed_rows
from interop.spark_options import (
    BRIEFLY,
    DIFFERENT,
    ERRORS,
    FROM_START,
    ROWS,
    SINK_ERRORS,
    SINKS,
    STREAM_ERRORS,
    STREAMS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from interop.broker import Witness

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    pytest.mark.timeout(600),
    # A warning of PySpark 4.3 about the installed pandas, which we do not use.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.full,
]
pytest.importorskip("pyspark", minversion="4.2")

HOME = Path(__file__).resolve().parent / "spark"
COLUMNS = "topic, partition, offset, key, value, unix_millis(timestamp) as timestamp, timestampType"
# The last millisecond that 64-bit microseconds can hold.
MOST_MILLIS = (2**63 - 1) // 1000


def kafka_source() -> str:
    """Return the class path of Spark's Kafka source, for the installed Spark."""
    import pyspark

    source = class_path(HOME)
    target = HOME / "target"
    classes = target / f"token-{pyspark.__version__}"
    with alone():
        if not classes.is_dir():
            jars = sorted(Path(pyspark.__file__).parent.joinpath("jars").glob("*.jar"))
            (target / "made").mkdir(exist_ok=True)
            path = os.pathsep.join(map(str, jars))
            scalac = ["java", *SHORT_LIVED_JVM, "-cp", path, "scala.tools.nsc.Main"]
            compiler = [*scalac, "-classpath", path, "-d", str(target / "made")]
            subprocess.run([*compiler, str(HOME / "KafkaToken.scala")], check=True, timeout=300)
            (target / "made").rename(classes)
    return f"{source}{os.pathsep}{classes}"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """A session with both sources."""
    from pyspark.sql import SparkSession

    try:
        class_path = kafka_source()
    except MissingToolError as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"required in CI: {missing}")
        pytest.skip(str(missing))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("kafkalog witness")
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraClassPath": class_path,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def filled(witness: Witness, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with topics of every kind, which runs while both sources read."""
    with Broker(witness, tmp_path_factory.mktemp("spark") / "fresh") as broker:
        broker.create("alpha", 3, segment_bytes=20_000)
        broker.create("beta.alp", 1, segment_bytes=20_000)
        broker.create("trimmed", 1, segment_bytes=8_000)
        broker.create("empty", 2)
        for seed, topic, partitions in ((1, "alpha", 3), (2, "beta.alp", 1), (3, "trimmed", 1)):
            broker.driver.ask("write", topic=topic, partitions=partitions, seed=seed, batches=100, keyed=True)
        broker.driver.ask("leave-open", topic="alpha", partition=1)
        broker.create("open", 1)
        broker.driver.ask("produce", topic="open", partition=0, records=[{"timestamp": 5, "value": "dg=="}])
        broker.driver.ask("leave-open", topic="open", partition=0)
        broker.create("beyond", 1, message_timestamp_after_max_ms=2**63 - 1)
        records = [{"timestamp": time, "value": "dg=="} for time in (5, MOST_MILLIS, MOST_MILLIS + 1)]
        broker.driver.ask("produce", topic="beyond", partition=0, records=records)
        assert broker.driver.ask("trim", topic="trimmed", partition=0, before=150) == 150
        checkpoints = [log_dir / "log-start-offset-checkpoint" for log_dir in broker.log_dirs]
        deadline = time.monotonic() + 60
        while not any("trimmed 0 150" in file.read_text() for file in checkpoints if file.exists()):
            assert time.monotonic() < deadline, "the log start was not checkpointed"
            time.sleep(0.1)
        yield broker


def by_kafka(spark: SparkSession, broker: Broker, options: dict[str, str]) -> DataFrame:
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    return reader.option("kafkaConsumer.pollTimeoutMs", "20000").options(**options).load()


def by_files(spark: SparkSession, broker: Broker, options: dict[str, str]) -> DataFrame:
    return spark.read.format("kafkalog").options(**options).load(",".join(map(str, broker.log_dirs)))


def by_tasks(spark: SparkSession, broker: Broker, options: dict[str, Any]) -> DataFrame:
    return kafkalog.spark.read(spark, broker.log_dirs, **options)


def name_of(options: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items())


@pytest.mark.parametrize("options", ROWS, ids=name_of)
def test_the_same_rows(spark: SparkSession, filled: Broker, options: dict[str, str]) -> None:
    theirs = by_kafka(spark, filled, options)
    chosen = [*COLUMNS.split(", "), *(["headers"] if "headers" in theirs.columns else [])]
    wanted = sorted(theirs.selectExpr(*chosen).collect(), key=lambda row: (row[0], row[1], row[2]))
    for way in (by_files, by_tasks):
        ours = way(spark, filled, options)
        assert [(f.name, f.dataType) for f in ours.schema] == [(f.name, f.dataType) for f in theirs.schema]
        found = sorted(ours.selectExpr(*chosen).collect(), key=lambda row: (row[0], row[1], row[2]))
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert one == other


@pytest.mark.parametrize("options", ERRORS, ids=name_of)
def test_errors_of_both(spark: SparkSession, filled: Broker, options: dict[str, str]) -> None:
    with pytest.raises(Exception, match=r"(?s).+"):
        by_kafka(spark, filled, options).collect()
    with pytest.raises(Exception, match=r"ValueError: |OffsetOutOfRangeError: |UnknownTopicOrPartitionError: "):
        by_files(spark, filled, options).collect()
    with pytest.raises((ValueError, kafkalog.OffsetOutOfRangeError)):
        by_tasks(spark, filled, options)


def outcome(way: Callable[[], DataFrame]) -> str | None:
    try:
        return "some" if way().select("offset").collect() else "none"
    except Exception:  # noqa: BLE001 - of both sources, from Java and from Python
        return None


@pytest.mark.parametrize(("options", "theirs", "ours"), DIFFERENT, ids=str)
def test_where_they_differ(
    spark: SparkSession, filled: Broker, options: dict[str, str], theirs: str | None, ours: str | None
) -> None:
    assert outcome(lambda: by_kafka(spark, filled, options)) == theirs
    assert outcome(lambda: by_files(spark, filled, options)) == ours
    assert outcome(lambda: by_tasks(spark, filled, options)) == ours


def streamed(spark: SparkSession, broker: Broker, kind: str, options: dict[str, str], checkpoint: Path) -> Any:
    """Run a query to the end of the log; return its batches, their end offsets, and its schema."""
    reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", broker.bootstrap).options(**options)
    frame = reader.load() if kind == "kafka" else reader.load(",".join(map(str, broker.log_dirs)))
    batches: list[list[tuple[str, int, int]]] = []

    def keep(batch: DataFrame, _: int) -> None:
        batches.append(
            sorted((row[0], row[1], row[2]) for row in batch.select("topic", "partition", "offset").collect())
        )

    query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
    running = query.trigger(availableNow=True).start()
    assert running.awaitTermination(120)
    ends = [(checkpoint / "offsets" / str(number)).read_text().splitlines()[-1] for number in range(len(batches))]
    return batches, list(map(json.loads, ends)), [(field.name, field.dataType) for field in frame.schema]


@pytest.mark.parametrize("options", STREAMS, ids=name_of)
def test_the_same_batches(spark: SparkSession, filled: Broker, options: dict[str, str], tmp_path: Path) -> None:
    theirs = streamed(spark, filled, "kafka", options, tmp_path / "kafka")
    assert streamed(spark, filled, "kafkalog", options, tmp_path / "kafkalog") == theirs


@pytest.mark.parametrize("options", STREAM_ERRORS, ids=name_of)
def test_errors_of_both_streams(spark: SparkSession, filled: Broker, options: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"(?s).+"):
        streamed(spark, filled, "kafka", options, tmp_path / "kafka")
    with pytest.raises(Exception, match=r"ValueError: |OffsetOutOfRangeError: |UnknownTopicOrPartitionError: "):
        streamed(spark, filled, "kafkalog", options, tmp_path / "kafkalog")


@pytest.mark.parametrize("kind", ["kafka", "kafkalog"])
def test_a_query_that_continues_looks_for_its_topics(
    spark: SparkSession, filled: Broker, tmp_path: Path, kind: str
) -> None:
    """A named topic that never existed fails it, though all topics of the checkpoint exist."""
    rows = streamed(spark, filled, kind, {"subscribe": "alpha", **FROM_START}, tmp_path)[0]
    assert sum(map(len, rows)) > 100
    with pytest.raises(
        Exception, match=r"UnknownTopicOrPartition|OffsetOutOfRangeError: not in the log dirs: nowhere;"
    ):
        streamed(spark, filled, kind, {"subscribe": "alpha,nowhere", **FROM_START, **BRIEFLY}, tmp_path)


def written(
    spark: SparkSession, broker: Broker, kind: str, asked: tuple[str, dict[str, str]], folder: Path
) -> list[tuple[Any, ...]]:
    """Write rows, where T is a new topic of three partitions; return the records of the topic."""
    sql, options = asked
    topic = folder.name if kind == "kafka" else "t"
    frame = spark.sql(f"select {sql.replace(chr(39) + 'T' + chr(39), repr(topic))}")
    given = {name: value.replace("T", topic) if name.lower() == "topic" else value for name, value in options.items()}
    reader = spark.read.option("includeHeaders", "true")
    writer = frame.write.format(kind).mode("append").options(**given)
    if kind == "kafka":
        broker.create(topic, 3)
        writer.option("kafka.bootstrap.servers", broker.bootstrap).save()
        found = reader.format(kind).options(subscribe=topic, **{"kafka.bootstrap.servers": broker.bootstrap}).load()
    else:
        for partition in range(3):
            kafkalog.LogWriter(folder, topic, partition).close()
        writer.save(str(folder))
        found = reader.format(kind).load(str(folder))
    # without a key, any partition is right
    rows = found.selectExpr("if(key is null, null, partition)", "key", "value", "headers").collect()
    return sorted((tuple(row) for row in rows), key=str)


@pytest.mark.parametrize("asked", SINKS, ids=str)
def test_the_same_records(
    spark: SparkSession, filled: Broker, asked: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    folder = tmp_path / f"sunk-{SINKS.index(asked)}"
    found = written(spark, filled, "kafkalog", asked, folder)
    assert found == written(spark, filled, "kafka", asked, folder)


@pytest.mark.parametrize("asked", SINK_ERRORS, ids=str)
def test_errors_of_both_sinks(
    spark: SparkSession, filled: Broker, asked: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    folder = tmp_path / f"refused-{SINK_ERRORS.index(asked)}"
    with pytest.raises(Exception, match=r"(?s).+"):
        written(spark, filled, "kafka", asked, folder)
    with pytest.raises(Exception, match=r"Error: "):
        written(spark, filled, "kafkalog", asked, folder)
    assert kafkalog.read_table(folder).num_rows == 0


def test_a_time_that_microseconds_cannot_hold(spark: SparkSession, filled: Broker) -> None:
    options = {"subscribe": "beyond"}
    with pytest.raises(Exception, match=r"offset 2 has timestamp value \d+ that overflows"):
        by_kafka(spark, filled, options).collect()
    with pytest.raises(Exception, match=rf"InvalidRecordError: .*offset 2: timestamp: .*found {MOST_MILLIS + 1} ms"):
        by_files(spark, filled, options).collect()


def test_the_topics_have_rows(spark: SparkSession, filled: Broker) -> None:
    """With empty topics the table would prove nothing."""
    paths = [str(log_dir) for log_dir in filled.log_dirs]
    counts = {
        topic: kafkalog.spark.count(spark, paths, subscribe=topic)
        for topic in ("alpha", "beta.alp", "trimmed", "empty")
    }
    assert min(counts["alpha"], counts["beta.alp"], counts["trimmed"]) > 300
    assert counts["empty"] == 0
    committed = kafkalog.spark.count(spark, paths, subscribe="alpha", isolation_level="read_committed")
    assert 0 < committed < counts["alpha"]


def consumed(broker: Broker, topic: str, partitions: int, isolation: str, file: Path) -> list[tuple[str, int, int]]:
    """The records that Kafka's consumer reads."""
    found = []
    for partition in range(partitions):
        broker.driver.ask("consume", topic=topic, partition=partition, isolation=isolation, file=str(file))
        found += [(topic, partition, int(json.loads(line)["offset"])) for line in file.read_text().splitlines()]
    return found


class Along:
    """A query that keeps its rows, over several runs from one checkpoint."""

    def __init__(self, spark: SparkSession, broker: Broker, checkpoint: Path, **options: str) -> None:
        self.batches: dict[int, list[tuple[str, int, int]]] = {}
        reader = spark.readStream.format("kafkalog").options(columns="topic,partition,offset", subscribePattern="^live")
        reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="400", **options)
        self.frame = reader.load(",".join(map(str, broker.log_dirs)))
        self.checkpoint = checkpoint

    def start(self, **trigger: Any) -> Any:
        def keep(batch: DataFrame, number: int) -> None:
            self.batches[number] = [(row[0], row[1], row[2]) for row in batch.collect()]

        writer = self.frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**trigger).start()

    @property
    def rows(self) -> list[tuple[str, int, int]]:
        return [row for batch in self.batches.values() for row in batch]

    def until(self, query: Any, rows: int) -> None:
        deadline = time.monotonic() + 240
        while len(self.rows) < rows:
            assert query.exception() is None, str(query.exception())
            assert time.monotonic() < deadline, f"{len(self.rows)} rows of {rows}"
            time.sleep(0.1)


def test_a_stream_reads_along_with_a_broker(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The log rolls and transactions end while two queries read; one is restarted, and a topic is added later."""
    broker.create("live", 2, segment_bytes=15_000)
    broker.driver.ask("start", topics=["live"], partitions=2, seed=11)
    everything = Along(spark, broker, tmp_path / "c1")
    committed = Along(spark, broker, tmp_path / "c2", **{"kafka.isolation.level": "read_committed"})
    one, two = everything.start(processingTime="0 seconds"), committed.start(processingTime="0 seconds")
    try:
        everything.until(one, 800)
        one.stop()
        broker.create("live-too", 1, segment_bytes=15_000)
        broker.driver.ask("write", topic="live-too", partitions=1, seed=12, batches=10, keyed=True)
        seen = len(everything.rows)
        one = everything.start(processingTime="0 seconds")
        everything.until(one, seen + 800)
        committed.until(two, 400)
    finally:
        one.stop()
        two.stop()
    broker.driver.ask("stop")
    for each, isolation in ((everything, "read_uncommitted"), (committed, "read_committed")):
        # the remaining records, up to the present end
        each.start(availableNow=True).awaitTermination(180)
        wanted = consumed(broker, "live", 2, isolation, tmp_path / "consumed")
        wanted += consumed(broker, "live-too", 1, isolation, tmp_path / "consumed")
        assert sorted(each.rows) == sorted(wanted)
        assert len(wanted) > 800
        assert max(map(len, each.batches.values())) <= 400
    assert len(committed.rows) < len(everything.rows)


def test_a_query_moves_from_sparks_own_source_to_ours_and_back(
    spark: SparkSession, filled: Broker, tmp_path: Path
) -> None:
    """With one checkpoint: each source continues from what the other wrote into it."""
    filled.create("handed", 2, segment_bytes=20_000)
    rows: list[tuple[str, int, int]] = []
    counts = []
    kinds = [("kafka", ""), ("kafkalog", ",".join(map(str, filled.log_dirs))), ("kafka", "")]
    for seed, (kind, path) in enumerate(kinds):
        filled.driver.ask("write", topic="handed", partitions=2, seed=seed, batches=20, keyed=True)
        options = {"subscribe": "handed", "startingOffsets": "earliest", "kafka.bootstrap.servers": filled.bootstrap}
        reader = spark.readStream.format(kind).options(**options)
        frame = (reader.load(path) if path else reader.load()).select("topic", "partition", "offset")

        def keep(batch: DataFrame, _: int) -> None:
            rows.extend((row[0], row[1], row[2]) for row in batch.collect())

        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start().awaitTermination(180)
        counts.append(len(rows))
    assert 100 < counts[0] < counts[1] < counts[2]
    assert sorted(rows) == sorted(consumed(filled, "handed", 2, "read_uncommitted", tmp_path / "consumed"))


def test_a_broker_serves_what_the_sink_wrote(
    broker: Broker, witness: Witness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Keys go to the partitions that Kafka's producer would choose, and the broker appends after them."""
    import pyarrow as pa

    from kafkalog import partition_for_key
    from kafkalog.spark.sink import Sink

    broker.create("sunk", 3, segment_bytes=20_000)
    paths = tuple(str(log_dir) for log_dir in broker.log_dirs)
    sink = Sink(paths=paths, topic="sunk", partitions=1, compression="zstd", stream=None)
    keys = [b"key-%d" % (n % 50) for n in range(2000)]
    columns: dict[str, list[Any]] = {"key": keys, "value": [b"value %d" % n for n in range(2000)]}
    headers = [[{"key": "h", "value": b"%d" % n}] if n % 3 == 0 else None for n in range(2000)]
    times = pa.array([STAMP + n for n in range(2000)], pa.timestamp("ms", "America/New_York"))
    kinds = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table({**columns, "headers": pa.array(headers, kinds), "timestamp": times})

    def write() -> None:
        sink.commit([sink.write(iter(table.slice(start, 500).to_batches())) for start in range(0, 2000, 500)])

    for partition in range(3):
        broker.folder("sunk", partition)
    with pytest.raises(kafkalog.LogLockedError, match=r"\.lock: another writer holds this lock"):
        write()
    assert consumed_rows(broker, "sunk", 0) == []
    broker.stop()
    # One log dir lacks some partitions: a broker would rename folders created there to -stray.
    folders = [sorted(path.name for path in log_dir.iterdir()) for log_dir in broker.log_dirs]
    parts = [{name for name in names if name.startswith("sunk-")} for names in folders]
    assert len(parts[0] | parts[1]) == 3
    for path, there in zip(paths, parts, strict=True):
        if there and there != {f"sunk-{partition}" for partition in range(len(there))}:
            one = Sink(paths=(path,), topic="sunk", partitions=3, compression="zstd", stream=None)
            with pytest.raises(ValueError, match="cannot assign a partition to a row: topic sunk has only"):
                one.write(iter(table.to_batches()))
    assert [sorted(path.name for path in log_dir.iterdir()) for log_dir in broker.log_dirs] == folders
    write()
    unknown = Sink(paths=paths, topic="unknown", partitions=2, compression=None, stream=None)
    unknown.commit([unknown.write(iter(table.to_batches()))])
    assert "topic unknown is new in a broker's log dir" in caplog.text
    assert "topic sunk" not in caplog.text
    broker.start()
    names = sorted(path.name for log_dir in broker.log_dirs for path in log_dir.iterdir())
    assert [name.partition(".")[0] for name in names if name.endswith("-stray")] == ["unknown-0", "unknown-1"]
    for partition in range(3):
        wanted = [n for n in range(2000) if partition_for_key(keys[n], 3) == partition]
        found = consumed_rows(broker, "sunk", partition)
        assert [(row.key, row.value, row.timestamp) for row in found] == [
            (keys[n], columns["value"][n], STAMP + n) for n in wanted
        ]
        assert [dict(row.headers) for row in found] == [{"h": b"%d" % n} if n % 3 == 0 else {} for n in wanted]
    broker.driver.ask("write", topic="sunk", partitions=3, seed=1, batches=20, keyed=True)
    broker.stop()
    assert faults(witness, [broker.folder("sunk", partition) for partition in range(3)], tmp_path / "dumped") == []
