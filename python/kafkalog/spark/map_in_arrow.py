"""The fast way into Spark: ``mapInArrow`` over the numbers of splits.

Compared with the data source, Spark copies every row once less.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark import Accumulator, Broadcast
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kafkalog.spark.split import PackedSplits, Split
    from kafkalog.typing import Partitions

    Metrics = Accumulator[dict[str, int]]
    # The splits of a task, with their numbers in the plan.
    Splits = Iterable[tuple[int, Split]]
    Work = Callable[[Splits], Iterator[pa.RecordBatch]]

Function = TypeVar("Function", bound="Callable[..., Any]")

# The column that is the cheapest to decode.
_COUNTED = "offset"


def read(
    spark: SparkSession,
    path: Any = None,
    *,
    columns: str | Iterable[str] | None = None,
    topics: str | Iterable[str] | None = None,
    topic_pattern: str | None = None,
    partitions: Partitions | None = None,
    subscribe: str | Iterable[str] | None = None,
    subscribe_pattern: str | None = None,
    assign: str | dict[str, list[int]] | None = None,
    starting_offsets: str | dict[str, dict[int, int]] | None = None,
    ending_offsets: str | dict[str, dict[int, int]] | None = None,
    starting_timestamp: Any = None,
    ending_timestamp: Any = None,
    include_headers: bool | None = None,
    where: Iterable[tuple[str, str, Any]] | None = None,
    transform: Callable[[pa.RecordBatch], pa.RecordBatch | None] | None = None,
    schema: StructType | str | None = None,
    metrics: Metrics | None = None,
    **options: Any,
) -> DataFrame:
    """Read topics of log dirs as a DataFrame.

    The read is planned here: the DataFrame returns the files as they are now, however often and late it is used. For a
    client of Spark Connect the data source plans it on the server, in each action.

    Parameters
    ----------
    spark : SparkSession
        The session.
    path : str, PathLike or list of them
        A log dir, several log dirs, partition folders or ``.log`` files. Executors must see them under the same path.
    columns : str or iterable of str, optional
        Names of record columns in any order; a column that is not named costs nothing. Default: the seven of Spark's
        Kafka source: key, value, topic, partition, offset, timestamp, timestampType.
    topics, topic_pattern, partitions : optional
        As for :class:`kafkalog.ReadOptions`; numbers of partitions are those of ``topics``.
    subscribe, subscribe_pattern, assign : optional
        The same with the options of Spark's Kafka source, of which one may be given: names of topics, a regular
        expression that is searched in the names, or partitions by topic.
    starting_offsets : "earliest", "oldest" or dict, optional
        Offsets by topic and partition, inclusive; -2 is earliest. "oldest" also reads below the log start offset.
    ending_offsets : "latest", "high_watermark" or dict, optional
        Offsets by topic and partition, exclusive; -1 is latest.
    starting_timestamp, ending_timestamp : int, str or datetime, optional
        Take precedence over offsets. A number, also as text, is milliseconds since the epoch, as in Spark's Kafka
        source: "2024" is not a year. Other text is ISO 8601 with a time zone, and a datetime needs a time zone too.
        Microseconds are rounded up: the bound is the first record at or after the time.
    include_headers : bool, optional
        Append the column ``headers``.
    where : iterable of (column, operator, value), optional
        Conditions that all rows meet, on ``topic`` (``=``, ``!=``, ``<`` and so on, ``in``, ``not in``,
        ``startswith``, ``endswith``, ``contains``), ``partition`` (the same but the last three), ``offset`` and
        ``timestamp`` (``=``, ``<``, ``<=``, ``>``, ``>=``; a datetime or milliseconds). Excluded records cost little.
    transform : callable, optional
        Takes each batch in the executor, before rows cross to the JVM, and returns one of ``schema``, or None. A batch
        may hold rows of several partitions and topics, one after the other.
    schema : StructType or str, optional
        The schema of what ``transform`` returns: columns of these names in this order, of the Arrow types that Spark
        uses for them. Large types, views and columns of nulls are cast; anything else is an error.
    metrics : Accumulator, optional
        From :func:`totals`; sums up what the tasks read.
    **options
        Any other option of the data source, in Spark's spelling or with underscores.

    Returns
    -------
    DataFrame
        Ordered by topic, partition and offset, as long as nothing is shuffled.

    Raises
    ------
    ValueError
        For options that are unknown or contradict each other.
    FileNotFoundError
        If the path does not exist.
    ImportError
        If the Python of a local session's workers has no kafkalog.

    Examples
    --------
    >>> df = kafkalog.spark.read(spark, "/data/kafka-logs", topics="orders", columns=["value", "offset"])

    Sizes by topic; no payload leaves the executors' Python:

    >>> df = kafkalog.spark.read(spark, "/data", columns=["topic", "valueSize"], transform=sums, schema="s bigint")
    """
    from kafkalog.spark.columns import rows_ddl
    from kafkalog.spark.interpreter import check_interpreter
    from kafkalog.spark.planner import over_splits, plan_read
    from kafkalog.spark.pyspark_private import spark_arrow_schema
    from kafkalog.spark.remote import is_remote, read_remote

    check_interpreter(spark)
    if (transform is None) != (schema is None):
        raise ValueError("transform and schema must be given together: schema describes what transform returns")

    named = {
        "path": path,
        "columns": columns,
        "topics": topics,
        "topic_pattern": topic_pattern,
        "partitions": partitions,
        "subscribe": subscribe,
        "subscribe_pattern": subscribe_pattern,
        "assign": assign,
        "starting_offsets": starting_offsets,
        "ending_offsets": ending_offsets,
        "starting_timestamp": starting_timestamp,
        "ending_timestamp": ending_timestamp,
        "include_headers": include_headers,
        "where": where,
    }
    # A second spelling of one of them is an error of the parser.
    if is_remote(spark):
        return read_remote(spark, {**named, **options}, transform, schema)
    splits, parsed = plan_read({**named, **options})
    if transform is None or schema is None:
        return over_splits(spark, splits, partial(_read, metrics), rows_ddl(parsed))
    # Spark parses a schema that is given as text.
    arrow = spark_arrow_schema(spark.range(0).mapInArrow(read_splits, schema).schema)
    return over_splits(spark, splits, partial(_transformed, transform, arrow, metrics), schema)


# Of `read` alone: what its rows become.
_OF_READ = frozenset({"transform", "schema", "metrics", "columns"})


def with_read_options(function: Function) -> Function:
    """Show the options of :func:`read` in the signature of a function that takes them as ``**options``."""
    signature = inspect.signature(function)
    own = list(signature.parameters.values())
    options = [each for each in inspect.signature(read).parameters.values() if each.kind is each.KEYWORD_ONLY]
    shown = [each for each in options if each.name not in _OF_READ and each.name not in signature.parameters]
    function.__signature__ = signature.replace(parameters=[*own[:-1], *shown, own[-1]])  # type: ignore[attr-defined]
    return function


@with_read_options
def count(spark: SparkSession, path: Any = None, *, metrics: Metrics | None = None, **options: Any) -> int:
    """Count the rows of :func:`read`, whose parameters it has: one number for each task crosses to the JVM."""
    from kafkalog.spark.interpreter import check_interpreter
    from kafkalog.spark.planner import over_splits, plan_read
    from kafkalog.spark.remote import is_remote, read_remote

    check_interpreter(spark)
    if is_remote(spark):
        return read_remote(spark, {"path": path, **options, "columns": _COUNTED}).count()
    splits, _ = plan_read({"path": path, **options, "columns": _COUNTED})
    counts = over_splits(spark, splits, partial(_counted, metrics), "rows bigint").collect()
    return sum(each["rows"] for each in counts)


def read_splits(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn splits, in the column ``task``, into rows: a function for ``mapInArrow`` over the DataFrame of ``plan``."""
    from kafkalog.spark.split import Split

    tasks = (str(task.as_py()) for batch in batches for task in batch.column("task"))
    return _read(None, ((number, Split.from_json(task)) for number, task in enumerate(tasks)))


def run_task(
    work: Work, plan: PackedSplits | Broadcast[PackedSplits], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Do a task's work on its splits, of which the rows are the numbers: a function for ``mapInArrow``."""
    from kafkalog.spark.split import PackedSplits

    packed = plan if isinstance(plan, PackedSplits) else plan.value
    # To the end of the input: Spark does not reuse a worker that leaves some of it.
    numbers = (int(number.as_py()) for batch in batches for number in batch.column(0))
    return work((number, packed[number]) for number in numbers)


def describe(splits: Splits) -> Iterator[pa.RecordBatch]:
    """Turn splits into the rows of ``plan``."""
    import pyarrow as pa

    for number, split in splits:
        row: list[pa.Array[Any]] = [pa.array([number], pa.int32()), pa.array([split.bytes], pa.int64())]
        row += [pa.array([split.segments], pa.int32()), pa.array([split.to_json()], pa.string())]
        yield pa.RecordBatch.from_arrays(row, names=["split", "bytes", "segments", "task"])


def _rows(split: Split, metrics: Metrics | None) -> Iterator[pa.RecordBatch]:
    from kafkalog.spark.read_split import read_split

    return read_split(split, report=None if metrics is None else metrics.add)


def _read(metrics: Metrics | None, splits: Splits) -> Iterator[pa.RecordBatch]:
    for _, split in splits:
        yield from _rows(split, metrics)


def _transformed(
    transform: Callable[[pa.RecordBatch], pa.RecordBatch | None],
    schema: pa.Schema | None,
    metrics: Metrics | None,
    splits: Splits,
) -> Iterator[pa.RecordBatch]:
    from kafkalog.spark.transform import transformed

    for _, split in splits:
        yield from transformed(transform, schema, _place(split), _rows(split, metrics))


def _place(split: Split) -> str:
    """Name the partition folders of a split."""
    folders = [each.folder for each in split.ranges]
    more = f" and {len(folders) - 1} more" if len(folders) > 1 else ""
    return f"a batch of {folders[0]}{more}"


def _counted(metrics: Metrics | None, splits: Splits) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for _, split in splits:
        number = sum(batch.num_rows for batch in _rows(split, metrics))
        yield pa.RecordBatch.from_arrays([pa.array([number], pa.int64())], names=["rows"])
