"""Spark 4 imports every ``pyspark_*`` module to find data sources; this one is found as ``format("kafkalog")``.

A single such module that fails to import hides all sources of that kind, other people's too. So nothing but pyspark
is imported here, and a Spark without data sources (3.5) gets a module without one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceWriter
    from pyspark.sql.types import StructType

__all__: list[str] = []

with suppress(ImportError):
    from pyspark.sql.datasource import DataSource

    class DefaultSource(DataSource):
        """Apache Kafka's on-disk logs: ``spark.read.format("kafkalog").option("subscribe", "t").load(log_dir)``."""

        @classmethod
        def name(cls) -> str:
            """Give the name of the format."""
            return "kafkalog"

        def schema(self) -> str:
            """Give the columns that the options ask for."""
            from kafkalog.spark.datasource import source_schema

            return source_schema(self.options)

        def reader(self, schema: StructType) -> DataSourceReader:
            """Make a reader of the schema's columns."""
            from kafkalog.spark.datasource import make_reader

            return make_reader(self.options, schema)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - PySpark's own name for it
            """Make a reader of the schema's columns for a stream."""
            from kafkalog.spark.streaming import stream_reader

            return stream_reader(self.options, schema)

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - PySpark's own
            """Make a writer of the schema's rows."""
            from kafkalog.spark.sink import make_writer

            return make_writer(self.options, schema, overwrite=overwrite)

        def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: ARG002, FBT001, N802 - PySpark's own
            """Make a writer of the schema's rows for a stream."""
            from kafkalog.spark.sink import make_stream_writer

            return make_stream_writer(self.options, schema)

    __all__ += ["DefaultSource"]
