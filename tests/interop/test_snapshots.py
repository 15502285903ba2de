"""Kafka's own tool reads the snapshots of the metadata log that we write, as it reads those of a controller."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import corpus
from kafkalog import _core, tables

if TYPE_CHECKING:
    from interop.broker import Witness

pytestmark = [pytest.mark.interop, pytest.mark.full]

TOOL = "org.apache.kafka.tools.DumpLogSegments"
VOTERS = (
    '{"version":0,"voters":[{"voterId":7,"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAZw","endpoints":[{"name":"C","host":'
    '"localhost","port":60000}],"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}}]}'
)


def dump(witness: Witness, path: Path) -> list[str]:
    arguments = ["--cluster-metadata-decoder", "--files", str(path)]
    done = subprocess.run(witness.command(TOOL, *arguments), capture_output=True, text=True, check=True, timeout=100)
    return done.stdout.splitlines()


def test_a_controllers_snapshot_written_again(witness: Witness, tmp_path: Path) -> None:
    source = max(corpus.GOLDEN.rglob("*-*.checkpoint"), key=lambda path: path.stat().st_size)
    end_offset, epoch = (int(part) for part in source.stem.split("-"))
    rows = [row for row in tables.records(source.parent, secrets=True).to_pylist() if row["segment"] == source.name]
    records = [(row["type"], row["valueVersion"], row["value"]) for row in rows]
    assert len(records) > 10
    copy = tmp_path / "__cluster_metadata-0"
    copy.mkdir()
    written = Path(
        _core.write_metadata_snapshot(str(copy), end_offset, epoch, records, timestamp=1_700_000_000_000, voters=VOTERS)
    )
    assert written.name == source.name
    theirs, ours = dump(witness, source), dump(witness, written)
    said = [[line.split(" payload: ")[1] for line in lines if " payload: " in line] for lines in (theirs, ours)]
    assert len(said[0]) == len(records)
    assert said[0] == said[1]
    control = [line.split("headerKeys: [] ")[1] for line in ours if "| offset" in line and " payload: " not in line]
    assert control == [
        'SnapshotHeader {"version":0,"lastContainedLogTimestamp":1700000000000}',
        'KRaftVersion {"version":0,"kRaftVersion":1}',
        f"KRaftVoters {VOTERS}",
        'SnapshotFooter {"version":0}',
    ]
    assert "isvalid: false" not in "".join(ours)
