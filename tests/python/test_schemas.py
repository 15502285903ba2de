"""Schemas of a registry's topic, against the replay of a registry's own rules over what a real broker wrote."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
from clone import SHARED_CORPUS
from kafkalog import tables
from kafkalog.cli.main import main
from kafkalog.errors import CorruptRecordError

if TYPE_CHECKING:
    from pathlib import Path

GOLDEN = corpus.GOLDEN / "schemas"
CASES = [(folder.name, folder, folder / "schemas.jsonl") for folder in sorted(GOLDEN.iterdir()) if folder.is_dir()]
_SHARED = SHARED_CORPUS / "typed"
CASES += [
    (f"shared-{case.name}", case, case / "expected/schemas.jsonl")
    for case in (sorted(_SHARED.iterdir()) if _SHARED.is_dir() else ())
    if case.is_dir()
]
DELETED = GOLDEN / "contexts-deleted" / "data-0"


def rows(table: pa.Table) -> list[dict[str, Any]]:
    at = table.schema.get_field_index("logTimestamp")
    found = table.set_column(at, "logTimestamp", table["logTimestamp"].cast(pa.int64())).to_pylist()
    return [
        {**row, **{name: json.loads(row[name]) if row[name] else None for name in ("metadata", "ruleSet")}}
        for row in found
    ]


@pytest.mark.parametrize(("case", "answers"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_schemas_are_those_of_a_registry(case: Path, answers: Path) -> None:
    expected = [json.loads(line) for line in answers.read_text().splitlines()]
    for row in expected:
        row.pop("duplicateOf", None)
    assert rows(tables.schemas(case / "data-0")) == expected


def test_notes_name_duplicates_and_what_a_registry_leaves_out() -> None:
    metadata = tables.schemas(DELETED).schema.metadata
    notes = json.loads(metadata[b"kafkalog.notes"])
    assert metadata[b"kafkalog.unapplied"] == b"2"
    assert [note.partition(":")[0] for note in notes] == ["offset 54", "offset 55"] + ["a record is left out"] * 2


def test_a_history_has_every_change() -> None:
    history = rows(tables.schemas(DELETED, history=True))
    assert [row["logOffset"] for row in history] == sorted(row["logOffset"] for row in history)
    of = [(row["version"], row["deleted"], row["schema"] is None) for row in history if row["subject"] == "soft-value"]
    assert of == [(1, "no", False), (2, "no", False), (3, "no", False), (3, "soft", False), (1, "soft", False)]
    cleared = [row["deleted"] for row in history if row["subject"] == "cleared-value"]
    assert cleared == ["no", "no", "no", "soft", "soft", "hard", "hard"]


def test_other_paths_lead_to_the_topic(tmp_path: Path) -> None:
    folder = DELETED / "_schemas-0"
    expected = tables.schemas(DELETED)
    assert tables.schemas(folder) == expected
    assert tables.schemas(next(folder.glob("*.log"))) == expected
    shutil.copytree(folder, tmp_path / "registry-0")
    assert tables.schemas(tmp_path / "registry-0", topic="registry") == expected
    with pytest.raises(ValueError, match="_schemas"):
        tables.schemas(tmp_path / "registry-0")


def test_damage_is_an_error_or_skipped(tmp_path: Path) -> None:
    shutil.copytree(DELETED, tmp_path / "d")
    log = next((tmp_path / "d" / "_schemas-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    with pytest.raises(CorruptRecordError, match="on_corrupt"):
        tables.schemas(tmp_path / "d")
    table = tables.schemas(tmp_path / "d", on_corrupt="skip")
    assert 0 < len(table) <= len(tables.schemas(DELETED))
    assert len(json.loads(table.schema.metadata[b"kafkalog.unread"])) == 1
    assert main(["schemas", str(tmp_path / "d")]) == 1


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["schemas", str(DELETED), "-J", "--id", "500"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["subject"], row["version"]) for row in found] == [
        ("duplicate-value", 1),
        ("duplicate-value", 2),
        ("another-value", 1),
    ]
    assert main(["schemas", str(DELETED), "--text", "--subject", "late-value"]) == 1
    assert main(["schemas", str(DELETED), "--text", "--subject", ":.nocontext:late-value"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "Late"
    out = tmp_path / "out"
    assert main(["schemas", str(DELETED), "--export", str(out)]) == 0
    table = tables.schemas(DELETED).to_pylist()
    assert sorted(file.read_text() for file in out.iterdir()) == sorted(row["schema"] for row in table)
    assert (out / "%3A.nocontext%3Alate-value.v1.id77.avsc").is_file()
    assert main(["schemas", str(DELETED), "--export", str(out)]) == 3
    assert main(["schemas", str(DELETED)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[6] for line in lines if line.startswith("meta-value")] == ["yes"]
