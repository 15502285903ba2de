"""The module in which Spark 4 discovers ``format("kafkalog")``: it imports every ``pyspark_*`` module.

One such module that fails to import hides all discovered sources, also those of other packages. So this imports nothing
but pyspark, and with a Spark without Python data sources (3.5) it defines none.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceWriter
    from pyspark.sql.types import StructType

__all__: list[str] = []


def _is_table(options: Any) -> bool:
    """Tell whether a table of ``kafkalog.tables`` is read rather than the records of topics."""
    return any(name.lower() == "table" for name in options)


with suppress(ImportError):
    from pyspark.sql.datasource import DataSource

    class DefaultSource(DataSource):
        """Apache Kafka's on-disk logs: ``spark.read.format("kafkalog").option("subscribe", "t").load(log_dir)``."""

        @classmethod
        def name(cls) -> str:
            """Return the name of the format."""
            return "kafkalog"

        def schema(self) -> str:
            """Return the schema that the options select."""
            if _is_table(self.options):
                from kafkalog.spark.tables import table_schema

                return table_schema(self.options)
            from kafkalog.spark.data_source import source_schema

            return source_schema(self.options)

        def reader(self, schema: StructType) -> DataSourceReader:
            """Create the reader of a batch."""
            if _is_table(self.options):
                from kafkalog.spark.tables import table_reader

                return table_reader(self.options, schema)
            from kafkalog.spark.data_source import make_reader

            return make_reader(self.options, schema)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - PySpark's own name for it
            """Create the reader of a stream."""
            from kafkalog.spark.stream_reader import stream_reader

            return stream_reader(self.options, schema)

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - PySpark's own
            """Create the writer of a batch."""
            from kafkalog.spark.sink import make_writer

            return make_writer(self.options, schema, overwrite=overwrite)

        def streamWriter(self, schema: StructType, overwrite: bool) -> Any:  # noqa: ARG002, FBT001, N802 - PySpark's own
            """Create the writer of a stream."""
            from kafkalog.spark.sink import make_stream_writer

            return make_stream_writer(self.options, schema)

    __all__ += ["DefaultSource"]
