"""Conditions on keys and values in a dataset: searched for, and the rows are those of Arrow's own filter."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow.compute import field

import corpus
import kafkalog
from kafkalog.engines.expressions import parse
from kafkalog.engines.polars_source import lazy_frame
from kafkalog.engines.searches import search_arguments
from kafkalog.schema import RECORD_COLUMNS, record_schema
from tiers import pick

if TYPE_CHECKING:
    from kafkalog.engines.log_dataset import LogDataset

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
SCHEMA = record_schema([column.name for column in RECORD_COLUMNS])
# Its stubs know no patterns of bytes.
functions: Any = pc
KEY, VALUE = field("key"), field("value")
ROWS = kafkalog.read_table(DATA)


def looks_for(condition: Any) -> dict[str, Any]:
    tree = parse(condition, SCHEMA)
    return {} if tree is None else search_arguments(tree, ["key", "value"])


@pytest.fixture(name="logs")
def dataset_of_logs() -> LogDataset:
    return kafkalog.dataset(DATA)


@pytest.mark.parametrize(
    ("condition", "containing", "matching", "fields"),
    [
        (KEY == b"key-20", b"key-20", None, ["key"]),
        (pa.scalar(b"k") == VALUE, b"k", None, ["value"]),
        (KEY == "key-20", b"key-20", None, ["key"]),
        (KEY.isin([b"a", b"b"]), None, "a|b", ["key"]),
        ((KEY == b"a") | (VALUE == b"\xff\n"), None, r"\xff\x0a|a", ["key", "value"]),
        (functions.match_substring(VALUE, b"a\xffb"), b"a\xffb", None, ["value"]),
        (pc.match_substring(VALUE, "iTem", ignore_case=True), None, "(?i:iTem)", ["value"]),
        (pc.starts_with(VALUE, "{") & (field("topic") == "orders"), b"{", None, ["value"]),
        (pc.ends_with(KEY, "-20"), b"-20", None, ["key"]),
        (pc.match_like(VALUE, "a%longest_b"), b"longest", None, ["value"]),
        (pc.match_substring_regex(VALUE, "ite[lm]+ .*a$"), None, "(?:ite[lm]+ .*a$)", ["value"]),
        (pc.if_else(KEY.is_valid(), KEY.isin([b"a"]), pa.scalar(None, pa.bool_())), b"a", None, ["key"]),
        ((KEY == b"a") & (VALUE == b"longer"), b"longer", None, ["value"]),
    ],
    ids=range(13),
)
def test_what_is_searched_for(condition: Any, containing: Any, matching: Any, fields: list[str]) -> None:
    found = looks_for(condition)
    assert (found.get("containing"), found.get("matching"), found["search_in"]) == (containing, matching, fields)


@pytest.mark.parametrize(
    "condition",
    [
        KEY != b"a",
        ~(KEY == b"a"),
        KEY > b"a",
        (KEY == b"a") | (field("offset") == 3),
        KEY == b"",
        KEY.isin([b"a", None]),
        pc.match_substring(VALUE, ""),
        pc.match_like(VALUE, "%_%"),
        pc.match_substring(VALUE, "\u00e9", ignore_case=True),
        pc.starts_with(field("topic"), "o"),
        field("key", "part") == b"a",
        *(
            pc.match_substring_regex(VALUE, pattern)
            for pattern in ("(?i)a", r"\sa", "[a&&b]", "a{,3}", "\u00e9", r"\Qa\E", "[[:alpha:]a]")
        ),
    ],
    ids=range(18),
)
def test_what_is_not(condition: Any) -> None:
    assert looks_for(condition) == {}


def conditions(seed: int) -> Any:
    """Give a condition on pieces of keys and values that are there, or nearly."""
    chosen = random.Random(seed)  # noqa: S311 - cases
    column = chosen.choice(["key", "value"])
    values = [row for row in ROWS[column].to_pylist() if row]

    def piece() -> bytes:
        value: bytes = chosen.choice(values)
        start = chosen.randrange(len(value))
        return value[start : start + chosen.randrange(1, 9)] + chosen.choice([b"", b"", b"x"])

    one: Any = field(column)
    kinds: list[Any] = [
        lambda: one == chosen.choice(values),
        lambda: one.isin([chosen.choice(values) for _ in range(chosen.randrange(1, 5))]),
        lambda: functions.match_substring(one, piece(), ignore_case=chosen.random() < 0.3),
        lambda: functions.starts_with(one, chosen.choice(values)[:3]),
        lambda: functions.ends_with(one, chosen.choice(values)[-3:]),
        lambda: functions.match_like(one, b"%" + piece().translate(None, b"\\") + b"%"),
        lambda: functions.match_substring_regex(
            one, chosen.choice(["item [a-z]+", "^.{1,9}$", r"\d+-\d", "a|b[^c]", "k.y"])
        ),
        lambda: field("offset") < chosen.randrange(900),
    ]
    found: Any = chosen.choice(kinds)()
    for _ in range(chosen.randrange(3)):
        other = chosen.choice(kinds)()
        found = chosen.choice([found & other, found | other, found & ~other])
    return found


@pytest.mark.parametrize("seed", range(pick(30, 300, 3000)))
def test_rows_are_those_of_arrow(seed: int, logs: LogDataset) -> None:
    condition = conditions(seed)
    expected = ROWS.filter(condition)
    assert logs.to_table(filter=condition).equals(expected)
    assert logs.count_rows(filter=condition) == expected.num_rows


def test_engines_build_no_rows_that_are_not_found(logs: LogDataset) -> None:
    """Rows that the search leaves out are counted as skipped."""
    wanted = ROWS.filter(KEY == b"key-20").num_rows

    def counted() -> int:
        found = logs.metrics["skipped_records"]
        logs.reset_metrics()
        return int(found)

    for query in (
        "key = 'key-20'::blob",
        "key in ('key-20'::blob, 'nope'::blob)",
        "key = 'key-20'::blob and value is not null",
    ):
        answer: Any = duckdb.sql(f"select topic from logs where {query}")  # noqa: S608
        assert answer.fetchall()
        assert counted() >= ROWS.num_rows - 10 * wanted
    frame = lazy_frame(logs)
    rows = pl.DataFrame(pl.from_arrow(ROWS))
    for predicate in (
        pl.col("key") == b"key-20",
        pl.col("key").bin.starts_with(b"key-2") & (pl.col("topic") == "orders"),
        (pl.col("value").bin.contains(b"item")) | (pl.lit(b"key-20") == pl.col("key")),
        pl.col("key").bin.ends_with(b"-20") & pl.col("value").is_not_null(),
    ):
        assert frame.filter(predicate).collect().equals(rows.filter(predicate))
        assert counted() > 500
    pickled = logs.filter(KEY == b"key-20")
    assert sum(part.to_table().num_rows for part in pickled.get_fragments()) == wanted


def test_a_search_that_is_asked_for_stays() -> None:
    logs = kafkalog.dataset(DATA, containing=b"item")
    expected = ROWS.filter(pc.match_substring(VALUE, "item") & (KEY == b"key-1"))
    assert logs.to_table(filter=KEY == b"key-1").equals(expected)


def test_a_condition_that_arrow_refuses_is_refused(logs: LogDataset) -> None:
    for condition in (field("timestamp") == 5, field("offset") == "3"):
        with pytest.raises(pa.ArrowNotImplementedError):
            logs.to_table(filter=condition)
