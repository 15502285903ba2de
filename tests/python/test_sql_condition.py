"""A condition or a pattern of a caller is one condition or pattern, and does nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

import corpus
import kafkalog
from kafkalog.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = corpus.GOLDEN / "clean-restarts" / "data-1"
secrets = kafkalog.read_table(SOURCE, topics="orders")

REFUSED = {
    "1=1); copy (select 1) to 'x.csv'; --": "one expression",
    "1=1; copy (select 1) to 'x.csv'": "one expression",
    "1=1;": "one expression",
    "true; select 1": "one expression",
    "1=1) or (2=2": "one expression",
    "1=1 union select true": "one expression",
    "true from records": "one expression",
    "true where false": "one expression",
    "true order by 1": "one expression",
    "true limit 1": "one expression",
    "true, false": "one expression",
    "true as x": "one expression",
    "offset > 5": 'write the column offset as "offset"',
    "select true": "one expression",
    "copy (select 1) to 'x.csv'": "one expression",
    "attach 'x.db'": "attach",
    "install httpfs": "one expression",
    "pragma version": "one expression",
    "": "one expression",
    "true /*": "one expression",
    "(select count(*) from read_text('/etc/hostname')) > 0": "subquery",
    "exists (from glob('/etc/*'))": "subquery",
    'octet_length(key) in (select "offset" from secrets)': "subquery",
    '"offset" = (select max("offset") from records)': "subquery",
    "array(select true)[1]": "subquery",
    '"offset"': "expected a boolean, found BIGINT",
    '"offset" % 2': "expected a boolean, found BIGINT",
    "null": "expected a boolean",
    "'true'": "expected a boolean, found VARCHAR",
    "columns(*)": "expected a boolean",
    "key = $1": "parameters",
    "nope = 1": "nope",
    "count(*) > 1": "aggregates",
    "row_number() over () = 1": "window",
    "unnest([true])": "UNNEST",
    "1=" + "1" * 10_000: "characters",
    "(" * 5_000: "parentheses",
}


@pytest.mark.parametrize("condition", REFUSED, ids=lambda each: each[:40])
@pytest.mark.sampled(18)
def test_what_is_not_one_condition_is_refused_before_anything_is_done(
    condition: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for dry_run in (True, False):
        with pytest.raises(ValueError, match=REFUSED[condition]):
            kafkalog.rewrite(SOURCE, tmp_path / "out", drop=condition, dry_run=dry_run)
    assert main(["rewrite", str(SOURCE), str(tmp_path / "out"), f"--drop-where={condition}"]) == 2
    assert capfd.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('"offset" % 7 = 0', lambda row: row["offset"] % 7 == 0),
        ('records."offset" < 5 -- the first', lambda row: row["offset"] < 5),
        ("key is null or octet_length(key) >= 0", lambda _: True),
        ('\'"class":"SUBQUERY"\' = \'{}\' or "offset" = 3 /* one */', lambda row: row["offset"] == 3),
        ("timestamp is distinct from null", lambda _: True),
        ("null::boolean", lambda _: False),
    ],
)
def test_conditions(condition: str, expected: Any, tmp_path: Path) -> None:
    rows = kafkalog.read_table(SOURCE, topics="orders").to_pylist()
    report = kafkalog.rewrite(SOURCE, tmp_path / "out", drop=condition, topics="orders", dry_run=True)
    assert report.records_dropped == sum(map(expected, rows))


def test_a_condition_cannot_leave_its_connection() -> None:
    """Below the check of the text: the connection itself reads nothing, and its settings are locked."""
    from kafkalog.schema import record_schema
    from kafkalog.tools.sql_condition import SqlCondition

    connection = SqlCondition("true", record_schema())._connection
    for statement in (
        "select * from read_text('/etc/hostname')",
        "copy (select 1) to 'x.csv'",
        "select * from secrets",
        "set enable_external_access = true",
        "set python_enable_replacements = true",
        "attach 'x.db'",
        "install httpfs",
    ):
        with pytest.raises(Exception, match=r"(?i)disabled|locked|does not exist|permission"):
            connection.execute(statement).fetchall()


@pytest.mark.parametrize("drop", [pc.field("offset"), pc.field("nope") > 1, pc.field("key") + 1])
def test_an_expression_that_is_no_condition(drop: pc.Expression, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="drop"):
        kafkalog.rewrite(SOURCE, tmp_path / "out", drop=drop)
    with pytest.raises(TypeError, match="drop must be"):
        kafkalog.rewrite(SOURCE, tmp_path / "out", drop=7)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"(a)\1", "(((a{1000}){1000}){1000})", "(" * 100_000])
def test_a_pattern_is_one_that_takes_linear_time(pattern: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="drop_key_pattern"):
        kafkalog.rewrite(SOURCE, tmp_path / "out", drop_key_pattern=pattern)
    assert list(tmp_path.iterdir()) == []
    assert kafkalog.rewrite(SOURCE, tmp_path / "out", drop_key_pattern="(a+)+$", dry_run=True).records_dropped >= 0
