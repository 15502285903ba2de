"""Reads of a client of Spark Connect: the data source plans them on the server, which sees the files."""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LISTS = frozenset({"columns", "subscribe"})


def is_remote(spark: SparkSession) -> bool:
    """Tell whether a session is a client of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def read_remote(
    spark: SparkSession,
    options: Mapping[str, Any],
    transform: Callable[[pa.RecordBatch], pa.RecordBatch | None] | None = None,
    schema: StructType | str | None = None,
) -> DataFrame:
    """Read through the data source."""
    from kafkalog.spark import read_splits, register
    from kafkalog.spark.option_names import canonical, in_spark_words, naming_as
    from kafkalog.spark.pyspark_private import spark_arrow_schema
    from kafkalog.spark.transform import transformed

    with naming_as(options):
        given = canonical(in_spark_words(options), None)
    # Raises on the client what the server would raise in its first action.
    register(spark)
    frame = spark.read.format("kafkalog").options(**{name: _text(name, value) for name, value in given.items()}).load()
    if transform is None or schema is None:
        return frame
    arrow = spark_arrow_schema(spark.range(0).mapInArrow(read_splits, schema).schema)
    return frame.mapInArrow(partial(transformed, transform, arrow, "a batch of the data source"), schema)


def _text(name: str, value: Any) -> str:
    """Return the value of an option as text: a client of Spark Connect sends nothing else."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat()
    if name in _LISTS and not isinstance(value, str):
        return ",".join(value)
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value, default=_plain)
    return str(value)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (set, frozenset)) else _text("", value)
