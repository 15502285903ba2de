"""``limit`` and ``head`` against the first rows of the whole, and ``columns="*"``."""

from __future__ import annotations

from typing import Any

import pytest

import corpus
import kafkalog
from kafkalog.schema import RECORD_COLUMNS

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
COLUMNS = ["topic", "partition", "offset", "value"]
EVERY = kafkalog.read_table(DATA, columns=COLUMNS)


@pytest.mark.parametrize("limit", [0, 1, 7, 880, EVERY.num_rows - 1, EVERY.num_rows, EVERY.num_rows + 1])
@pytest.mark.parametrize("options", [{}, {"threads": 3, "batch_rows": 50}, {"batch_rows": 3}, {"layout": "view"}])
def test_a_limit_gives_the_first_rows(limit: int, options: dict[str, Any]) -> None:
    reader = kafkalog.scan(DATA, columns=COLUMNS, limit=limit, **options)
    found = reader.read_all()
    assert found.cast(EVERY.schema).equals(EVERY.slice(0, limit))
    assert reader.metrics["records"] == found.num_rows
    one = kafkalog.PartitionLog(DATA / "orders-0").scan(columns="offset", limit=limit).read_all()
    assert one.num_rows == min(limit, 880)


def test_a_limit_counts_what_the_other_options_choose() -> None:
    latest = kafkalog.read_table(DATA, columns=COLUMNS, latest_per_key=True)
    assert 5 < latest.num_rows < EVERY.num_rows
    assert kafkalog.read_table(DATA, columns=COLUMNS, latest_per_key=True, limit=5).equals(latest.slice(0, 5))
    with pytest.raises(ValueError, match="limit is -1"):
        kafkalog.scan(DATA, limit=-1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'limit'"):
        kafkalog.dataset(DATA, limit=5)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"scan_polars\(\) got an unexpected keyword argument 'limit'"):
        kafkalog.scan_polars(DATA, limit=5)


def test_a_limit_decodes_no_more_than_it_needs() -> None:
    metrics = []
    for limit in (1, None):
        with kafkalog.scan(DATA, "orders", limit=limit) as reader:
            reader.read_all()
            metrics.append(reader.metrics)
    assert metrics[0]["bytes"] < metrics[1]["bytes"] / 5
    assert metrics[0]["segments"] == 1


def test_head_gives_the_next_rows_and_closes() -> None:
    assert kafkalog.scan(DATA, columns=COLUMNS).head().equals(EVERY.slice(0, 5))
    reader = kafkalog.scan(DATA, columns=COLUMNS, batch_rows=10)
    next(reader)
    assert reader.head(25).equals(EVERY.slice(10, 25))
    with pytest.raises(ValueError, match="closed"):
        reader.head(1)
    assert kafkalog.scan(DATA, columns=COLUMNS).head(10**9).equals(EVERY)
    assert kafkalog.scan(DATA, columns=COLUMNS).head(0).schema == EVERY.schema


def test_a_star_is_all_columns() -> None:
    names = [column.name for column in RECORD_COLUMNS]
    assert kafkalog.scan(DATA, columns="*").schema.names == names
    assert kafkalog.ReadOptions(columns="*").columns == tuple(names)


def test_times_may_be_text() -> None:
    from_, until = "2023-11-15T06:20:00Z", "2023-11-15T07:39:50+01:00"
    given = kafkalog.read_table(DATA, columns=COLUMNS, min_timestamp=from_, max_timestamp=until)
    same = kafkalog.read_table(DATA, columns=COLUMNS, min_timestamp=1_700_029_200_000, max_timestamp=1_700_030_390_000)
    assert given.equals(same)
    assert 0 < given.num_rows < EVERY.num_rows


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_what_is_lost_before_the_limit_is_named(threads: int) -> None:
    path, rows = corpus.GOLDEN / "corrupt" / "flipped-bit", {"batch_rows": 3, "limit": 4}
    options = kafkalog.ReadOptions(on_corrupt="skip", starting_offsets="oldest", threads=threads, **rows)  # type: ignore[arg-type]
    with kafkalog.scan(path, options=options) as reader:
        assert reader.read_all()["offset"].to_pylist() == [0, 1, 4, 5]
        assert reader.lost.num_rows == 1
