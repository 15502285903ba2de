"""The Python data source behind ``format("kafkalog")``: what it makes of the options.

``pyspark_kafkalog.DefaultSource`` is the class that Spark finds; it imports this module when it is used.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalog.spark.batch import Reader, rows_of
from kafkalog.spark.columns import ddl
from kafkalog.spark.options import parse, parse_columns
from kafkalog.spark.pushdown import FilteringReader, is_asked_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.types import StructType

__all__ = ["make_reader", "source_schema"]


def source_schema(options: Mapping[str, str]) -> str:
    """Give the schema for the options, when the user gave none."""
    return ddl(parse_columns(options))


def make_reader(options: Mapping[str, str], schema: StructType) -> Reader:
    """Make the reader of a batch for a schema: all columns, or the user's choice of them by name in any order.

    Raises
    ------
    ValueError
        For a column that does not exist or has another type.
    """
    kind = FilteringReader if is_asked_for() else Reader
    made = rows_of(schema)
    return kind(replace(parse(options), columns=made.columns), made)
