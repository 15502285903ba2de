"""Typed values in Spark beside ``from_avro``: the rows of a log, each field a column, to nowhere.

    python spark_typed.py --scratch DIR [--records N] [--rounds N]

``ours`` decodes in Rust (``decode="value"``). ``from_avro`` takes the bytes that kafkalog reads, without the prefix,
under the schema by hand, as Spark's users do; ``bytes`` is that read alone. One session on one core makes one pass of
each leg in turn; the table has the medians, ns a row, and ratios to ``ours``. Needs a release build, and Maven Central
for spark-avro.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import struct
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa

import kafkalog

if TYPE_CHECKING:
    from collections.abc import Callable

FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "string"},
    {"name": "customer", "type": "string"},
    {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["NEW", "PAID", "SENT", "BACK"]}},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "note", "type": ["null", "string"], "default": None},
    {
        "name": "place",
        "type": {
            "type": "record",
            "name": "Place",
            "fields": [{"name": "city", "type": "string"}, {"name": "zone", "type": "int"}],
        },
    },
    {"name": "lines", "type": {"type": "array", "items": "long"}},
    {"name": "amount", "type": "double"},
]
SCHEMA = {"type": "record", "name": "Order", "fields": FIELDS}


def write(log_dir: Path, records: int) -> None:
    """Write the log."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(SCHEMA).replace(', "logicalType": "timestamp-millis"', "")))
    with kafkalog.LogWriter(log_dir, "orders") as writer:
        for begin in range(0, records, 50_000):
            values = []
            for n in range(begin, min(begin + 50_000, records)):
                out = io.BytesIO(struct.pack(">bI", 0, 1))
                out.seek(5)
                value = {
                    "id": f"order-{n:08}",
                    "customer": "Žofie Nováková" if n % 8 == 0 else "Ada Lovelace",
                    "status": ("NEW", "PAID", "SENT", "BACK")[n % 4],
                    "at": 1_700_000_000_000 + n * 137,
                    "note": "call first" if n % 2 else None,
                    "place": {"city": ("Berlin", "Oslo", "Lisboa", "Gent")[n % 4], "zone": n % 24},
                    "lines": [n * 7 + line for line in range(n % 3)],
                    "amount": n / 8,
                }
                fastavro.schemaless_writer(out, parsed, value)
                values.append(out.getvalue())
            writer.append(pa.table({"value": pa.array(values, pa.binary())}))


def main() -> None:
    """Measure."""
    from pyspark.sql import SparkSession, functions
    from pyspark.sql.avro.functions import from_avro

    import kafkalog.spark
    from kafkalog import _core

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, required=True, help="folder for the log; kept")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--package", default="org.apache.spark:spark-avro_2.13:4.2.0")
    args = parser.parse_args()
    if _core.build_profile != "release":
        sys.exit("this is a debug build: its numbers say nothing")
    logs = args.scratch.resolve() / f"logs-{args.records}"
    if not logs.exists():
        write(logs, args.records)
    spark = SparkSession.builder.master("local[1]").config("spark.jars.packages", args.package).getOrCreate()
    text = json.dumps(SCHEMA)

    def raw() -> Any:
        return kafkalog.spark.read(spark, str(logs), subscribe="orders", columns="value")

    def ours() -> Any:
        typed = kafkalog.spark.read(
            spark, str(logs), subscribe="orders", columns="value", decode="value", schemas={1: text}, readerSchema=text
        )
        return typed.select("value.*")

    def theirs() -> Any:
        body = functions.expr("substring(value, 6)")
        return raw().select(from_avro(body, text).alias("value")).select("value.*")

    legs = {"ours": ours, "from_avro": theirs, "bytes": raw}
    left, right = ours().limit(1000).collect(), theirs().limit(1000).collect()
    if left != right:
        sys.exit("the legs differ")
    measure(legs, args.records, args.rounds)
    spark.stop()


def measure(legs: dict[str, Callable[[], Any]], records: int, rounds: int) -> None:
    """Make a pass of each leg in turn, and print the medians."""
    times: dict[str, list[float]] = {name: [] for name in legs}
    for turn in range(rounds + 1):
        for name, leg in legs.items():
            begun = time.perf_counter()
            leg().write.format("noop").mode("overwrite").save()
            # The first round warms up.
            if turn:
                times[name].append((time.perf_counter() - begun) / records * 1e9)
    first = statistics.median(times["ours"])
    for name, took in times.items():
        middle = statistics.median(took)
        print(f"{name:10} {middle:8.0f} ns a row  {middle / first:5.2f}")


if __name__ == "__main__":
    main()
