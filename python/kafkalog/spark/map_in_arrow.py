"""The fast way into Spark: ``mapInArrow`` over a DataFrame of splits.

Against the data source it saves Spark one copy of every row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read", "read_splits"]


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
        At most one of them: names of topics, a pattern that a whole name matches, or partitions by topic. Default: all
        that the path holds but internal topics.
    starting_offsets : "earliest", "oldest" or dict, optional
        Offsets by topic and partition, inclusive; -2 is earliest. "oldest" reads also below the log start offset.
    ending_offsets : "latest", "high_watermark" or dict, optional
        Offsets by topic and partition, exclusive; -1 is latest.
    starting_timestamp, ending_timestamp : int or datetime, optional
        Milliseconds since the epoch, or a datetime with its zone. They win over offsets.
    include_headers : bool, optional
        Put the column ``headers`` last.
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
    """
    from kafkalog.spark.columns import ddl
    from kafkalog.spark.planning import plan_frame

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
    }
    given = {name: value for name, value in named.items() if value is not None}
    frame, asked = plan_frame(spark, {**given, **options})
    return frame.mapInArrow(read_splits, ddl(asked.columns))


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
    from kafkalog.spark.rows import rows
    from kafkalog.spark.split import Split

    # The input is drained as we go: Spark throws a worker away that leaves some of it.
    for batch in batches:
        for task in batch.column("task"):
            yield from rows(Split.from_json(str(task.as_py())))
