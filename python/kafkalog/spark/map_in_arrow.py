"""The fast way into Spark: ``mapInArrow`` over a DataFrame of splits.

Against the data source it saves Spark one copy of every row.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kafkalog.spark.split import Split

__all__ = ["count", "numbered_splits", "read", "read_splits"]

# What a record costs least to be counted by.
_COUNTED = "offset"


def read(
    spark: SparkSession,
    path: Any = None,
    *,
    columns: str | Iterable[str] | None = None,
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
    metrics: Accumulator[dict[str, int]] | None = None,
    **options: Any,
) -> DataFrame:
    """Read topics of log dirs as a DataFrame.

    What is read is settled here: the DataFrame shows the files as they are now, however often and late it is used.

    Parameters
    ----------
    spark : SparkSession
        The session.
    path : str, PathLike or list of them
        A log dir, several, partition folders or ``.log`` files. Executors must see them under the same path.
    columns : str or iterable of str, optional
        Which record columns, in which order; what is not named costs nothing. Default: the seven of Spark's Kafka
        source, which are key, value, topic, partition, offset, timestamp, timestampType.
    subscribe, subscribe_pattern, assign : optional
        At most one of them: names of topics, a regular expression found anywhere in a name, as Spark's source takes it
        (but for internal topics, which no broker lists to Spark), or partitions by topic. Default: all that the path
        holds but internal topics.
    starting_offsets : "earliest", "oldest" or dict, optional
        Offsets by topic and partition, inclusive; -2 is earliest. "oldest" reads also below the log start offset.
    ending_offsets : "latest", "high_watermark" or dict, optional
        Offsets by topic and partition, exclusive; -1 is latest.
    starting_timestamp, ending_timestamp : int or datetime, optional
        Milliseconds since the epoch, or a datetime with its zone. They win over offsets.
    include_headers : bool, optional
        Put the column ``headers`` last.
    where : iterable of (column, operator, value), optional
        Conditions that all rows fulfil, on ``topic`` (``=``, ``!=``, ``<`` and so on, ``in``, ``not in``,
        ``startswith``, ``endswith``, ``contains``), ``partition`` (the same but the last three), ``offset`` and
        ``timestamp`` (``=``, ``<``, ``<=``, ``>``, ``>=``; a datetime or milliseconds). What they exclude costs little.
    transform : callable, optional
        Takes each batch in the executor, before rows cross to the JVM, and gives one of ``schema``, or None. A batch
        may hold rows of several partitions and topics, one behind the other.
    schema : StructType or str, optional
        What ``transform`` gives: columns of these names in this order, of the Arrow types that Spark uses for them.
        Large types and views are brought into them, and so is a column of nulls; anything else is an error.
    metrics : Accumulator, optional
        One of ``totals``, which sums up what the tasks read.
    **options
        Any other option of the data source, as Spark spells it or with underscores.

    Returns
    -------
    DataFrame
        In the order of topic, partition and offset, as long as nothing is shuffled.

    Raises
    ------
    ValueError
        For options that are unknown or contradict each other.
    FileNotFoundError
        When the path does not exist.

    Examples
    --------
    >>> df = kafkalog.spark.read(spark, "/data/kafka-logs", columns=["value", "offset"], subscribe="orders")

    Sizes by topic; no payload leaves the executors' Python:

    >>> df = kafkalog.spark.read(spark, "/data", columns=["topic", "valueSize"], transform=sums, schema="s bigint")
    """
    from kafkalog.spark.columns import ddl
    from kafkalog.spark.planning import plan_frame

    if (transform is None) != (schema is None):
        raise ValueError("transform and schema are given together: what the function makes of a batch has the schema")

    named = {
        "path": path,
        "columns": columns,
        "subscribe": subscribe,
        "subscribePattern": subscribe_pattern,
        "assign": assign,
        "startingOffsets": starting_offsets,
        "endingOffsets": ending_offsets,
        "startingTimestamp": starting_timestamp,
        "endingTimestamp": ending_timestamp,
        "includeHeaders": include_headers,
        "where": where,
    }
    given = {name: value for name, value in named.items() if value is not None}
    if twice := given.keys() & options.keys():
        # One of them would be lost in the next line.
        raise ValueError(f"option {min(twice)} is given twice")
    frame, asked = plan_frame(spark, {**given, **options})
    if transform is None or schema is None:
        function = read_splits if metrics is None else partial(_read_into, metrics)
        return frame.mapInArrow(function, ddl(asked.columns))
    from kafkalog.spark.transforming import arrow_of

    # Spark reads what a text says.
    arrow = arrow_of(spark.range(0).mapInArrow(read_splits, schema).schema)
    return frame.mapInArrow(partial(_transformed, transform, arrow, metrics), schema)


def count(
    spark: SparkSession, path: Any = None, *, metrics: Accumulator[dict[str, int]] | None = None, **options: Any
) -> int:
    """Count records in the executors: a number for each task is all that crosses to the JVM.

    Parameters
    ----------
    spark : SparkSession
        The session.
    path : str, PathLike or list of them
        As for ``read``.
    metrics : Accumulator, optional
        As for ``read``.
    **options
        Those of ``read``.

    Returns
    -------
    int
        As many rows as ``read`` has.
    """
    from kafkalog.spark.planning import plan_frame

    frame, _ = plan_frame(spark, {"path": path, **options, "columns": _COUNTED})
    counts = frame.mapInArrow(partial(_counted, metrics), "rows bigint").collect()
    return sum(each["rows"] for each in counts)


def read_splits(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn splits into rows: the function for ``mapInArrow`` over the DataFrame of ``plan``.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Splits, in the column ``task``.

    Yields
    ------
    pyarrow.RecordBatch
        Rows of the planned columns; nothing for no splits.
    """
    return _read_into(None, batches)


def _read_into(
    metrics: Accumulator[dict[str, int]] | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    from kafkalog.spark.rows import rows

    for _, split in numbered_splits(batches):
        yield from rows(split, told=None if metrics is None else metrics.add)


def numbered_splits(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Split]]:
    """Give the splits of a task's input with their numbers in the plan.

    The input is drained as we go: Spark throws a worker away that leaves some of it.
    """
    from kafkalog.spark.split import Split

    for batch in batches:
        for number, task in zip(batch.column("split"), batch.column("task"), strict=True):
            yield number.as_py(), Split.from_json(str(task.as_py()))


def _transformed(
    transform: Callable[[pa.RecordBatch], pa.RecordBatch | None],
    schema: pa.Schema,
    metrics: Accumulator[dict[str, int]] | None,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    from kafkalog.spark.rows import rows
    from kafkalog.spark.transforming import transformed

    for _, split in numbered_splits(batches):
        yield from transformed(transform, schema, split, rows(split, told=None if metrics is None else metrics.add))


def _counted(
    metrics: Accumulator[dict[str, int]] | None, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from kafkalog.spark.rows import rows

    for _, split in numbered_splits(batches):
        told = None if metrics is None else metrics.add
        number = sum(batch.num_rows for batch in rows(split, told=told))
        yield pa.RecordBatch.from_arrays([pa.array([number], pa.int64())], names=["rows"])
