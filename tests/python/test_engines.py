"""Query engines over ``kafkalog.dataset``: their filters and columns reach the files, and never change the answer.

The witness is the same engine over the same rows in memory. Engines that are not installed are left out.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import kafkalog
import predicates
import tiers
from kafkalog.schema import RECORD_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Records of all formats, of transactions, under both types of timestamps; some of the keys and values are null.
LOG_DIRS = [
    corpus.GOLDEN / name
    for name in (
        "clean-restarts/data-1",
        "txn/data-1",
        "timestamps/data-1",
        "mixed-upgrade/data-0",
        "v1-0.10.2.2/data-0",
    )
]
COLUMNS = [column.name for column in RECORD_COLUMNS]
ASKED = ["topic", "partition", "offset", "timestamp", "producerId", "magic", "isControl", "key", "value", "keySize"]
ROUNDS = tiers.pick(30, 120, 1000)
SELECTED = ["topic", "partition", "offset", "key", "timestamp"]


@pytest.fixture(scope="module")
def logs() -> Any:
    return kafkalog.dataset(LOG_DIRS, columns=COLUMNS, include_control=True)


@pytest.fixture(scope="module")
def memory() -> pa.Table:
    return kafkalog.read_table(LOG_DIRS, columns=COLUMNS, include_control=True)


def duckdb_blob(value: bytes) -> str:
    return "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'::blob"


def duckdb_over(source: Any) -> Callable[[predicates.Condition], pa.Table]:
    connection: Any = pytest.importorskip("duckdb").connect()
    connection.register("source", source)

    def ask(condition: predicates.Condition) -> pa.Table:
        where = predicates.sql(condition, blob=duckdb_blob, moment="timestamptz '{}'")
        names = ", ".join(f'"{name}"' for name in SELECTED)
        return pa.table(connection.sql(f"select {names} from source where {where}"))  # noqa: S608 - ours

    return ask


def datafusion_over(source: Any) -> Callable[[predicates.Condition], pa.Table]:
    context = pytest.importorskip("datafusion").SessionContext()
    if isinstance(source, pa.Table):
        context.register_record_batches("source", [source.to_batches()])
    else:
        context.register_dataset("source", source)

    def ask(condition: predicates.Condition) -> pa.Table:
        moment = "arrow_cast('{}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
        casts: dict[type, str] = {bytes: "arrow_cast({}, 'Binary')", str: "try_cast({} as varchar)"}
        where = predicates.sql(condition, blob=lambda value: f"X'{value.hex()}'", moment=moment, casts=casts)
        names = ", ".join(f'"{name}"' for name in SELECTED)
        return pa.table(context.sql(f"select {names} from source where {where}"))  # noqa: S608 - ours

    return ask


def polars_over(source: Any) -> Callable[[predicates.Condition], pa.Table]:
    pl = pytest.importorskip("polars")
    frame: Any
    if isinstance(source, pa.Table):
        frame = pl.from_arrow(source).lazy()
    else:
        frame = kafkalog.scan_polars(LOG_DIRS, columns=COLUMNS, include_control=True)

    def ask(condition: predicates.Condition) -> pa.Table:
        table: pa.Table = frame.filter(predicates.polars(condition)).select(SELECTED).collect().to_arrow()
        return table

    return ask


def polars_dataset_over(source: Any) -> Callable[[predicates.Condition], pa.Table]:
    """Polars' own scan of a dataset."""
    pl = pytest.importorskip("polars")
    frame = pl.from_arrow(source).lazy() if isinstance(source, pa.Table) else pl.scan_pyarrow_dataset(source)

    def ask(condition: predicates.Condition) -> pa.Table:
        table: pa.Table = frame.filter(predicates.polars(condition)).select(SELECTED).collect().to_arrow()
        return table

    return ask


def pyarrow_over(source: Any) -> Callable[[predicates.Condition], pa.Table]:
    def ask(condition: predicates.Condition) -> pa.Table:
        if isinstance(source, pa.Table):
            return source.filter(predicates.arrow(condition)).select(SELECTED)
        table: pa.Table = source.to_table(columns=SELECTED, filter=predicates.arrow(condition))
        return table

    return ask


def ibis_over(source: Any) -> Callable[[predicates.Condition], pa.Table]:
    connection = pytest.importorskip("ibis").duckdb.connect()
    connection.con.register("source", source)
    table = connection.table("source")

    def ask(condition: predicates.Condition) -> pa.Table:
        found: pa.Table = connection.to_pyarrow(table.filter(predicates.ibis(condition)).select(SELECTED))
        return found

    return ask


ENGINES = {
    "duckdb": duckdb_over,
    "polars": polars_over,
    "polars-dataset": polars_dataset_over,
    "datafusion": datafusion_over,
    "ibis": ibis_over,
    "pyarrow": pyarrow_over,
}
engines = pytest.mark.parametrize("engine", ENGINES)


def rows(table: pa.Table) -> list[Any]:
    """Give the rows in an order of their own: engines promise none."""
    columns = [table[name] for name in ("topic", "partition", "offset", "key")]
    columns.append(table["timestamp"].cast(pa.int64()))
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True), key=lambda row: row[:3])


def conditions(engine: str, memory: pa.Table) -> list[predicates.Condition]:
    drawn = predicates.Conditions(memory, random.Random(list(ENGINES).index(engine)), ASKED)  # noqa: S311 - repeatable
    return [drawn.draw() for _ in range(ROUNDS)]


@pytest.mark.full
def test_the_conditions_are_many_and_of_every_kind(memory: pa.Table) -> None:
    """At least 500 a run, and among them each kind on each column."""
    asked = [condition for engine in ENGINES for condition in conditions(engine, memory)]
    assert len(asked) >= 500
    found = [part for condition in asked for part in predicates.parts(condition)]
    assert {part[0] for part in found} >= {"and", "or", "not"}
    signs = {(part[1], part[2]) for part in found if part[0] == "compare"}
    assert signs == {(column, sign) for column in ASKED for sign in predicates.SIGNS}
    for kind in ("cast", "in", "null", "range"):
        assert {part[1] for part in found if part[0] == kind} == set(ASKED), kind
    zones = {value.utcoffset() for part in found if part[:2] == ("range", "timestamp") for value in part[2:]}
    assert len(zones) == len(predicates.ZONES)


def _copies(folder: Path, chance: random.Random, *, index: bool) -> list[Path]:
    """Copy the log dirs, and hurt some of their index files, or a byte of some of the segments."""
    copies = []
    for n, source in enumerate(LOG_DIRS):
        copies.append(folder / str(n) / source.name)
        shutil.copytree(source, copies[-1])
        files = sorted(copies[-1].rglob("*.*index") if index else copies[-1].rglob("*.log"))
        for file in chance.sample(files, len(files) // 2):
            data = bytearray(file.read_bytes())
            for _ in range(chance.choice([1, 1, 8]) if data else 0):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            file.write_bytes(data[: chance.choice([len(data), len(data) // 2])] if index else data)
    return copies


OTHER_READS: dict[str, dict[str, Any]] = {
    "read_committed": {"isolation_level": "read_committed"},
    "latest": {"latest_per_key": True},
    "hurt indexes": {},
    "hurt indexes, read_committed": {"isolation_level": "read_committed"},
    "damage": {"on_corrupt": "skip"},
    "damage, read_committed": {"on_corrupt": "skip", "isolation_level": "read_committed"},
}


@pytest.mark.parametrize("kind", OTHER_READS)
@pytest.mark.parametrize("seed", range(tiers.pick(1, 1, 10)))
@pytest.mark.sampled(1)
def test_random_conditions_on_other_reads(kind: str, seed: int, tmp_path: Path) -> None:
    """Of several log dirs; beside the condition on all rows of the same read."""
    chance = random.Random(f"{kind} {seed}")  # noqa: S311 - repeatable
    paths = LOG_DIRS
    if kind.startswith(("hurt", "damage")):
        paths = _copies(tmp_path, chance, index=kind.startswith("hurt"))
    options = {"columns": COLUMNS, "include_control": "latest" not in kind, **OTHER_READS[kind]}
    memory = kafkalog.read_table(paths, **options)
    logs = kafkalog.dataset(paths, **options)
    asks, witness = pyarrow_over(logs), pyarrow_over(memory)
    drawn = predicates.Conditions(memory, chance, ASKED)
    for condition in (drawn.draw() for _ in range(ROUNDS // 2)):
        expected = rows(witness(condition))
        assert rows(asks(condition)) == expected, condition
        assert logs.count_rows(filter=predicates.arrow(condition)) == len(expected), condition


@engines
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis calls DuckDB's
@pytest.mark.sampled(2)
def test_random_conditions_give_the_rows_that_they_give_in_memory(engine: str, logs: Any, memory: pa.Table) -> None:
    asks, witness = ENGINES[engine](logs), ENGINES[engine](memory)
    found = 0
    for condition in conditions(engine, memory):
        expected = rows(witness(condition))
        assert rows(asks(condition)) == expected, condition
        found += 0 < len(expected) < memory.num_rows
    # Most conditions select some rows and not others: they could not all be ignored.
    assert found > ROUNDS / 3


_EARLY_END = {
    "polars": """
import polars as pl
rows = kafkalog.scan_polars(sys.argv[1], "orders", batch_rows=1)
assert rows.head(3).collect().height == 3
assert rows.filter(pl.col("offset") > 2).head(3).collect().height == 3
""",
    "duckdb": """
import duckdb
assert len(duckdb.sql("select * from logs limit 3").fetchall()) == 3
""",
    "pyarrow": """
batches = logs.to_batches()
assert next(batches).num_rows == 1
assert logs.head(3).num_rows == 3
""",
}


@pytest.mark.parametrize("engine", _EARLY_END)
@pytest.mark.parametrize("_", range(tiers.pick(1, 5, 20)))
def test_process_ends_after_a_query_that_stopped_early(engine: str, _: int) -> None:
    """Threads of Arrow's scanner outlive the query; one that called Python at exit crashed the process."""
    pytest.importorskip(engine)
    code = 'import sys, kafkalog\nlogs = kafkalog.dataset(sys.argv[1], "orders", batch_rows=1)\n' + _EARLY_END[engine]
    done = subprocess.run(
        [sys.executable, "-c", code, str(LOG_DIRS[0])], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
