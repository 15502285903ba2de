"""The examples of the README and of the guides, run as they are pasted, and the lists that guides repeat.

What stands for the user's own folders is filled in (``documents``). Commands of ``cluster`` are run by
``tests/spark/test_cluster.py``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpus
import documents
import kafkalog
from kafkalog.cli._commands import COMMANDS
from kafkalog.cli.help import GUIDES
from kafkalog.cli.main import main
from kafkalog.schema import RECORD_COLUMNS
from s3_server import S3Server

pytestmark = [pytest.mark.release, pytest.mark.full]

DOCUMENTS = ("README", *GUIDES)


def documents_with(*, spark: bool) -> list[str]:
    return [name for name in DOCUMENTS if documents.python(name, spark=spark)]


@pytest.mark.parametrize(
    "document", [name for name in documents_with(spark=False) if name not in {"engines", "object-stores"}]
)
def test_python_examples_run(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the document: later examples use what earlier ones import."""
    documents.own_folders(tmp_path)
    monkeypatch.chdir(documents.ROOT)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names: dict[str, object] = {}
    for code in documents.python(document, spark=False):
        exec(compile(documents.filled_in(code, tmp_path), document, "exec"), names)  # noqa: S102 - the examples themselves


def test_object_store_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a server here, whose address and keys are put beside the region."""
    server = S3Server(bucket="backups")
    try:
        server.put_folder(corpus.GOLDEN / "clean-restarts" / "data-1", "kafka-logs/")
        for name in ("KEY_ID", "SECRET", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "any")
        here = f'"aws_allow_http": "true", "aws_endpoint_url": "{server.endpoint}", "aws_region": '
        address = server.endpoint.removeprefix("http://")
        handed_over = f'S3FileSystem(scheme="http", endpoint_override="{address}", region='
        rows: list[int] = []
        names: dict[str, object] = {"rows": rows}
        for code in documents.python("object-stores", spark=False):
            there = code.replace('"aws_region": ', here).replace("S3FileSystem(region=", handed_over)
            assert there != code
            # What the last line reads.
            *before, last = there.rstrip().split("\n")
            exec("\n".join([*before, f"found = {last}"]), names)  # noqa: S102 - the examples themselves
            found: Any = names["found"]
            rows.append(found.num_rows if isinstance(found, pa.Table) else found.read_all().num_rows)
        listing, exporting = documents.blocks("object-stores", "sh")
        options = f"--storage-option aws_allow_http=true --storage-option aws_endpoint_url={server.endpoint}"
        shown = shell(f"{listing.rstrip()} {options}\n", Path(), documents.ROOT)
        shell(f"{exporting.rstrip()} {options}\n", Path(), documents.ROOT)
        assert server.objects["orders.parquet"].endswith(b"PAR1")
    finally:
        server.close()
    assert rows == [880, kafkalog.read_table(corpus.GOLDEN / "clean-restarts" / "data-1").num_rows]
    assert re.search(r"^orders +0 +live ", shown, re.MULTILINE)


FIRST, *RECIPES = documents.python("engines", spark=False)


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Ibis calls DuckDB's
@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning:ray.data.context")  # its own settings
@pytest.mark.parametrize("recipe", range(len(RECIPES)), ids=lambda n: "-".join(documents.imports(RECIPES[n])) or str(n))
def test_engine_recipes_run(recipe: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each after the first block and, if it reads JSON, the one that writes it; without its engine it is left out."""
    codes = [FIRST, RECIPES[recipe]]
    engines = documents.imports(RECIPES[recipe])
    if "json-logs" in RECIPES[recipe] and "LogWriter" not in RECIPES[recipe]:
        codes.insert(1, next(code for code in RECIPES if "LogWriter" in code))
    for engine in engines:
        pytest.importorskip(engine)
    documents.own_folders(tmp_path)
    (tmp_path / "data" / "iceberg").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names: dict[str, object] = {}
    for code in codes:
        exec(compile(documents.filled_in(code, tmp_path), "engines", "exec"), names)  # noqa: S102 - the examples themselves


def test_every_engine_has_a_recipe() -> None:
    named = {engine for recipe in RECIPES for engine in documents.imports(recipe)}
    assert named >= {"duckdb", "polars", "datafusion", "ibis", "deltalake", "pyiceberg", "ray", "daft"}


README_ROWS = "print(frame.count(), fast.count(), frame.columns, fast.columns)\n"
GUIDE_ROWS = """
print(spark.read.format('kafkalog').load(log_dir).count())
print(fast.count(), same.count(), fast.columns, number, stream.isStreaming)
print(payments.count(), sum(row["amount"] for row in payments.collect()), payments.columns)
spark.stop()
"""


@pytest.mark.spark
def test_spark_examples_run(tmp_path: Path) -> None:
    """In a process of its own: a session is made, and it ends with the process."""
    assert documents_with(spark=True) == ["README", "typed", "engines", "spark"]
    documents.own_folders(tmp_path)
    (written,) = (code for code in RECIPES if "LogWriter" in code)
    (engines,) = documents.python("engines", spark=True)
    (readme,) = documents.python("README", spark=True)
    (guide,) = documents.python("spark", spark=True)
    (typed,) = documents.python("typed", spark=True)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            readme
            + README_ROWS
            + documents.filled_in(FIRST + written + engines + guide + typed, tmp_path)
            + GUIDE_ROWS,
        ],
        cwd=documents.ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    sevens = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    expected = [f"880 880 {sevens} ['value', 'offset']", "880", "880 880 ['value', 'offset'] 2373 True"]
    shown = done.stdout.splitlines()
    assert [line for line in shown if line in expected] == expected
    assert f"100 {9.5 * sum(range(100))} ['id', 'amount', 'card']" in shown


def shell(code: str, home: Path, cwd: Path) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euc", documents.filled_in(code, home)],
        cwd=cwd,
        env={**os.environ, "PATH": path},
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_shell_blocks_are_these() -> None:
    """CI runs the last two of the README, tests/spark that of ``cluster``; nobody the first; the others run here."""
    counts = {name: len(documents.blocks(name, "sh")) for name in DOCUMENTS}
    kept = {name: count for name, count in counts.items() if count}
    assert kept == {
        "README": 4,
        "first-hour": 3,
        "cluster": 1,
        "writing": 1,
        "recovering": 1,
        "rescue": 4,
        "moving": 1,
        "damage": 1,
        "care": 3,
        "shell": 3,
        "tables": 1,
        "typed": 2,
        "object-stores": 2,
        "tiered": 1,
    }


def test_readme_shell_examples_run(tmp_path: Path) -> None:
    """In a folder with the clone's golden logs: one of them writes."""
    (tmp_path / "tests").symlink_to(documents.ROOT / "tests")
    (tmp_path / "out").mkdir()
    shown = shell(documents.blocks("README", "sh")[1], tmp_path, tmp_path)
    assert re.search(r"^orders +0 +live ", shown, re.MULTILINE)
    assert pq.read_metadata(tmp_path / "out" / "orders.parquet").num_rows == 880


def test_tables_examples_run(tmp_path: Path) -> None:
    documents.own_folders(tmp_path)
    shown = shell(documents.blocks("tables", "sh")[0], tmp_path, tmp_path)
    assert re.search(r"^classic-a +events +0 +180 ", shown, re.MULTILINE)
    assert "Ongoing" in shown
    assert "Topic: topic-0-1" in shown


def test_shell_examples_run(tmp_path: Path) -> None:
    documents.own_folders(tmp_path)
    shown = shell(documents.blocks("shell", "sh")[0], tmp_path, tmp_path)
    assert "orders:0:880" in shown
    assert pq.read_metadata(tmp_path / "data" / "orders.parquet").num_rows == 880
    shown = shell(documents.blocks("shell", "sh")[1], tmp_path, tmp_path)
    assert "orders-0 0\norders-0 1\n" in shown


def test_typed_examples_run(tmp_path: Path) -> None:
    documents.own_folders(tmp_path)
    shown = shell("\n".join(documents.blocks("typed", "sh")), tmp_path, tmp_path)
    assert '"payload":{"a":' in shown
    data = tmp_path / "data"
    assert pq.read_schema(data / "values.parquet").field("value").type.num_fields == 2
    lines = (data / "values.jsonl").read_text(encoding="utf-8").splitlines()
    assert isinstance(json.loads(lines[0])["value"], dict)
    restored, lost = (kafkalog.tables.schemas(data / name) for name in ("new-registry", "typed-logs"))
    assert restored.drop(["logTimestamp"]).equals(lost.drop(["logTimestamp"]))
    assert len(list((data / "schemas").iterdir())) == len(restored)


def test_first_hour_runs(tmp_path: Path) -> None:
    """As in the clone, one block after the other."""
    (tmp_path / "tests").symlink_to(documents.ROOT / "tests")
    shown = shell("\n".join(documents.blocks("first-hour", "sh")), tmp_path, tmp_path)
    assert re.search(r"^orders +0 +6 +82.2 kB ", shown, re.MULTILINE)
    assert "orders:0:" in shown
    assert (tmp_path / "first-hour.html").stat().st_size > 10_000
    assert pq.read_metadata(tmp_path / "orders.parquet").num_rows == 880


def test_import_examples_run(tmp_path: Path) -> None:
    documents.own_folders(tmp_path)
    (tmp_path / "events.jsonl").write_text('{"key": "k", "value": "v"}\n{"value": "w"}\n')
    pq.write_table(pa.table({"key": ["a"], "value": [b"1"]}), tmp_path / "orders.parquet")
    shell(documents.blocks("writing", "sh")[0], tmp_path, tmp_path)
    found = kafkalog.LogDir(tmp_path / "data" / "new-logs")
    ledger = kafkalog.PartitionLog(tmp_path / "backup" / "kafka-logs" / "ledger-0")
    wanted = {"orders": 1, "events": 2, "ledger": ledger.log_end_offset}
    assert {log.topic: log.log_end_offset for log in found} == wanted
    assert {batch.column("compression")[0].as_py() for batch in found["orders", 0].batches()} == {"zstd"}


def test_recovering_examples_run(tmp_path: Path) -> None:
    documents.own_folders(tmp_path)
    shell(documents.blocks("recovering", "sh")[0], tmp_path, tmp_path)
    assert kafkalog.LogDir(tmp_path / "data" / "shorter")["ledger", 0].log_end_offset <= 100


def test_rescue_examples_run(tmp_path: Path) -> None:
    documents.own_folders(tmp_path)
    first, second, tier, into = documents.blocks("rescue", "sh")
    shown = shell(first, tmp_path, tmp_path)
    assert "[damaged]" in shown
    assert not (tmp_path / "data" / "rescued").exists()
    assert "nothing is missing that was acknowledged" in shell(second, tmp_path, tmp_path)
    rescued = kafkalog.LogDir(tmp_path / "data" / "rescued")
    assert {log.topic: log.log_end_offset for log in rescued if log.topic[0] != "_"} == {"orders": 80, "payments": 80}
    # What the tier does not have is missing.
    assert "[tier-only]" in shell(f"{tier.strip()} || test $? = 1", tmp_path, tmp_path)
    assert kafkalog.LogDir(tmp_path / "data" / "reattached")["moved", 0].log_end_offset == 1488
    assert "[epochs-raised]" in shell(into, tmp_path, tmp_path)
    assert kafkalog.LogDir(tmp_path / "data" / "other-cluster")["orders", 0].log_end_offset == 80


def test_moving_examples_run(tmp_path: Path) -> None:
    documents.own_folders(tmp_path)
    shell(documents.blocks("moving", "sh")[0], tmp_path, tmp_path)
    data = tmp_path / "data"
    assert "kafka-topics.sh" in (data / "new-cluster.sh").read_text()
    assert "strimzi.io/cluster: main" in (data / "new-cluster.yaml").read_text()
    assert list(json.loads((data / "new-cluster.json").read_text()))[5:7] == ["topics", "users"]


def test_every_finding_of_a_rescue_is_explained() -> None:
    sources = (Path(kafkalog.__file__).parent / "rescue").glob("*.py")
    given = re.findall(r'"(?:info|warning|error)", "([a-z-]+)"', "".join(each.read_text() for each in sources))
    section = documents.text("rescue").partition("## Findings")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    # The severities follow one another in their own lists.
    assert sorted({*given} - {"warning"}) == sorted(code for row in rows for code in re.findall(r"`([a-z-]+)`", row))


def test_damage_examples_run(tmp_path: Path) -> None:
    documents.own_folders(tmp_path)
    shown = shell(documents.blocks("damage", "sh")[0], tmp_path, tmp_path)
    assert "/data/broken-logs/ledger-0/" in shown
    assert "[batch-crc]" in shown
    saved = kafkalog.verify(tmp_path / "data" / "saved-ledger-0")
    assert {row["code"] for row in saved.to_pylist() if row["severity"] == "error"} <= {"segment-missing"}
    assert '"sha256":"' in (tmp_path / "data" / "evidence.jsonl").read_text()


def test_care_examples_run(tmp_path: Path) -> None:
    documents.own_folders(tmp_path)
    explain_and_retain, compact, rewrite = documents.blocks("care", "sh")
    shown = shell(explain_and_retain, tmp_path, tmp_path)
    assert "can be freed now" in shown
    assert "bytes would be left out" in shown
    assert "record(s) would be dropped" in shell(rewrite, tmp_path, tmp_path)
    assert kafkalog.LogDir(tmp_path / "data" / "retained").partitions()
    assert "would be saved" in shell(compact, tmp_path, tmp_path)
    assert kafkalog.LogDir(tmp_path / "data" / "compacted").partitions()


def test_columns_are_those_of_the_table() -> None:
    text = documents.text("reading")
    table = text[text.index("| column | type |") :].split("\n\n")[0]
    named = [name.strip() for line in table.splitlines()[2:] for name in line.split("|")[1].split(",")]
    assert named == [column.name for column in RECORD_COLUMNS]


def test_commands_are_those_there_are() -> None:
    assert re.findall(r"^\| `kafkalog (\w+)", documents.text("shell"), flags=re.MULTILINE) == list(COMMANDS)


def test_help_lists_the_guides_that_are_shipped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    listed = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _ in listed] == list(GUIDES)
    shipped = (Path(kafkalog.__file__).parent / "guides").glob("*.md")
    assert {path.stem for path in shipped} == set(GUIDES)


@pytest.mark.parametrize("guide", GUIDES)
def test_help_shows_a_guide(guide: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", guide]) == 0
    assert capsys.readouterr().out == documents.text(guide)


def test_help_names_the_guides_where_one_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "sparks"]) == 2
    error = capsys.readouterr().err
    assert "sparks" in error
    assert "safety" in error
