"""Queries as people write them, over ``kafkalog.dataset`` and ``scan_polars``: as over a table in memory."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import corpus
import kafkalog
from kafkalog.engines.polars_source import lazy_frame

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
# Finds variables of its caller by their names.
ask: Any = duckdb.sql

SQL = {
    "count": "select count(*) from logs",
    "no column": "select 1 from logs",
    "limit": 'select topic, "offset" from logs order by topic, partition, "offset" limit 3',
    "distinct": "select distinct topic, timestampType from logs",
    "expression": "select count(*) from logs where date_trunc('day', timestamp) >= timestamptz '2023-11-15 00:00:00Z'",
    "function": "select count(*) from logs where octet_length(value) > 10 and upper(topic) like 'ORD%'",
    "headers": "select headers from logs where len(headers) > 1",
    "join": """select count(*) from logs a join logs b using (topic, partition, "offset") where a.topic = 'orders'""",
    "semi-join": """select "offset" from logs
                    where topic in (select topic from logs where octet_length(value) > 900)""",
    "last of each": """with last as (select topic, partition, max("offset") as "offset" from logs group by all)
                       select topic, value from logs join last using (topic, partition, "offset")""",
    "over": """select topic, sum(octet_length(value)) over (partition by topic order by "offset") from logs""",
    "case": "select case when partition = 0 then topic else 'other' end as name, count(*) from logs group by name",
    "outside": """select count(*) from logs where "offset" < 0 or timestamp > now() + interval 1 year""",
}


@pytest.mark.parametrize("query", SQL)
def test_sql(query: str) -> None:
    """DuckDB finds the variable by its name."""
    logs: Any = kafkalog.read_table(DATA)
    expected = ask(SQL[query]).fetchall()
    logs = kafkalog.dataset(DATA)
    assert sorted(map(repr, ask(SQL[query]).fetchall())) == sorted(map(repr, expected))
    assert logs.metrics["bytes_read"] + logs.metrics["bytes_skipped"] > 0
    assert expected


FRAMES: dict[str, Callable[[pl.LazyFrame], pl.LazyFrame]] = {
    "length": lambda frame: frame.select(pl.len()),
    "head": lambda frame: frame.filter(pl.col("topic") == "orders").select("offset", "key").head(3),
    "tail": lambda frame: frame.tail(2),
    "slice": lambda frame: frame.slice(100, 7).filter(pl.col("offset") % 2 == 0),
    "strings": lambda frame: frame.filter(pl.col("topic").str.starts_with("ord"), pl.col("value").bin.size() > 10),
    "times": lambda frame: frame.group_by(pl.col("timestamp").dt.truncate("1h")).len().sort("timestamp"),
    "new column": lambda frame: frame.with_columns(twice=pl.col("offset") * 2).filter(pl.col("twice") < 8),
    "join": lambda frame: (
        frame.join(frame.group_by("topic").agg(pl.col("offset").max()), on=["topic", "offset"])
        .select("topic", "value")
        .sort("topic")
    ),
}


@pytest.mark.parametrize("query", FRAMES)
def test_lazy_frames(query: str) -> None:
    memory: Any = pl.from_arrow(kafkalog.read_table(DATA))
    expected = FRAMES[query](memory.lazy()).collect()
    assert FRAMES[query](kafkalog.scan_polars(DATA)).collect().equals(expected)
    assert FRAMES[query](pl.scan_pyarrow_dataset(kafkalog.dataset(DATA))).collect().equals(expected)
    assert expected.height


def test_a_limit_of_polars_ends_the_read(tmp_path: Path) -> None:
    with kafkalog.LogWriter(tmp_path, "t") as log:
        log.append(pa.table({"value": [bytes(1000)] * 20_000}))
    logs: Any = kafkalog.dataset(tmp_path, threads=1)
    assert lazy_frame(logs).head(7).select("offset").collect()["offset"].to_list() == list(range(7))
    # Arrow's scanner is ahead of Polars, by some batches.
    assert 0 < logs.metrics["bytes_read"] < logs.metrics["bytes_skipped"]


@pytest.mark.parametrize("is_folder", [True, False], ids=["no partition", "no record"])
def test_empty_logs(is_folder: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    if not is_folder:
        kafkalog.LogWriter(tmp_path, "t").close()
    logs = kafkalog.dataset(tmp_path)
    assert ask('select count(*), max("offset") from logs').fetchall() == [(0, None)]
    assert ask("select * from logs where topic = 'x'").fetchall() == []
    assert logs.count_rows() == 0
    frame = kafkalog.scan_polars(tmp_path)
    assert frame.collect().shape == (0, 8)
    assert frame.filter(pl.col("offset") > 3).select("key").head(3).collect().shape == (0, 1)


def test_damage_elsewhere_does_not_matter(tmp_path: Path) -> None:
    """A query that does not need the partition answers; one that does names the file and the position."""
    for partition in DATA.glob("[eo]*-[0-9]"):
        shutil.copytree(partition, tmp_path / partition.name)
    path = min((tmp_path / "orders-0").glob("*.log"))
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    logs: Any = kafkalog.dataset(tmp_path)
    assert logs.count_rows() > 0, "by the headers, which are sound"
    assert ask("select count(value) from logs where topic = 'events'").fetchall()[0][0] > 0
    with pytest.raises(duckdb.Error, match=rf"orders-0.{path.name}: byte 17"):
        ask("select count(value) from logs").fetchall()
    with pytest.raises(kafkalog.CorruptRecordError, match=rf"orders-0.{path.name}: byte 17"):
        kafkalog.scan_polars(tmp_path).select("value").collect()
