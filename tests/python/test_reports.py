"""Reports as text, which is what the command prints, and as tables, which is what it prints with ``-J``."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import corpus
import kafkalog
from command import call
from kafkalog import _core
from kafkalog.config import pairs

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
NOW = 1_800_000_000_000
DELETE, COMPACT = {"retention.ms": 1}, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0}


def flags(settings: dict[str, Any]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--config", f"{name}={value}")]


CASES: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    "recover": (lambda out: kafkalog.recover(DATA, out=out), []),
    "retain": (lambda out: kafkalog.retain(DATA, out, config=DELETE, now=NOW), [*flags(DELETE), "--now", str(NOW)]),
    "compact": (lambda out: kafkalog.compact(DATA, out, config=COMPACT, now=NOW), [*flags(COMPACT), "--now", str(NOW)]),
    "rewrite": (lambda out: kafkalog.rewrite(DATA, out, drop_keys=["key-7"]), ["--drop-key", "key-7"]),
}


@pytest.mark.parametrize("verb", CASES)
@pytest.mark.sampled(2)
def test_a_report_is_what_the_command_prints(tmp_path: Path, verb: str) -> None:
    function, words = CASES[verb]
    report = function(tmp_path / "out")
    place = ["--out", tmp_path / "text"] if verb == "recover" else [tmp_path / "text"]
    said = call(verb, DATA, *place, *words).stdout
    assert said.replace(str(tmp_path / "text"), str(tmp_path / "out")) == f"{report}\n"
    place = ["--out", tmp_path / "json"] if verb == "recover" else [tmp_path / "json"]
    rows = [json.loads(line) for line in call(verb, DATA, *place, *words, "-J").stdout.splitlines()]
    table = report.to_arrow()
    assert table.num_rows == len(report.partitions) == len([row for row in rows if "leftOut" not in row]) > 1
    assert table.schema.field("partition").type == pa.int32()
    for row, line in zip(table.to_pylist(), rows, strict=False):
        shared = row.keys() & line.keys() - {"files", "notes"}
        assert {name: row[name] for name in shared} == {name: line[name] for name in shared}
        assert len(shared) >= 9


def test_a_report_without_partitions_keeps_its_columns(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "meta.properties").write_bytes((DATA / "meta.properties").read_bytes())
    full = kafkalog.recover(DATA, dry_run=True).to_arrow()
    empty = kafkalog.recover(tmp_path / "empty", dry_run=True).to_arrow()
    assert empty.num_rows == 0
    assert empty.schema == full.schema
    cut = kafkalog.truncate(DATA / "orders-0", tmp_path / "cut", 100)
    assert cut.to_arrow().to_pylist()[0]["logEndOffset"] == 100
    assert str(cut).endswith("offsets 0 to 100 (before: 880), 1 segment(s), 76665 bytes cut")


def test_the_core_has_every_field_of_a_partitions_report(tmp_path: Path) -> None:
    path, out = str(DATA), str(tmp_path / "out")
    how: dict[str, Any] = {"now_ms": NOW, "dry_run": True}
    found: dict[Any, dict[str, Any]] = {
        kafkalog.PartitionRecovery: _core.recover(path, dry_run=True),
        kafkalog.PartitionRetention: _core.retain(path, out, settings=pairs(DELETE), **how),
        kafkalog.PartitionCompaction: _core.compact(path, out, settings=pairs(COMPACT), map_bytes=1 << 20, **how),
        kafkalog.PartitionRewrite: _core.rewrite(path, out, **how),
    }
    for kind, report in found.items():
        assert report["partitions"]
        for each in report["partitions"]:
            assert each.keys() == {field.name for field in dataclasses.fields(kind)}


def test_a_report_names_paths_that_are_not_unicode(tmp_path: Path) -> None:
    logs = tmp_path / os.fsdecode(b"\xff")
    shutil.copytree(DATA, logs)
    (logs / "backup").mkdir()
    report = kafkalog.recover(logs, out=tmp_path / "out")
    assert report.path == str(logs)
    assert [left.path for left in report.left_out] == [str(logs / "backup")]
    assert {Path(each.path).parent for each in report.partitions} == {logs}
