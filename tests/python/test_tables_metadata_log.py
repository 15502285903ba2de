"""Snapshot from which a metadata log is replayed, missing changes, and records that cannot be applied."""

from __future__ import annotations

import json
import random
import shutil
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import corpus
import kafkalog
import tiers
from command import call
from kafkalog import tables
from kafkalog.rescue.planner import plan_rescue
from metadata_records import HOSTILE, RECORDS, REFUSED, TOPIC_ID
from naive import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

GOLDEN = corpus.GOLDEN / "metadata" / "data-0"
TOPICS, END = 18, 403
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return shutil.copytree(GOLDEN, tmp_path / "data-0")


def metadata(log_dir: Path) -> Path:
    return log_dir / "__cluster_metadata-0"


def notes(table: pa.Table) -> list[str]:
    found: list[str] = json.loads(table.schema.metadata[b"kafkalog.notes"])
    return found


def names(path: Path) -> set[str]:
    return {row["topic"] for row in tables.topics(path).to_pylist()}


def codes(path: Path) -> list[str]:
    found = kafkalog.verify(path)
    return [row["code"] for row in found.to_pylist() if row["code"].startswith("metadata-")]


def flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 0x10
    file.write_bytes(data)


def test_damage_that_a_later_snapshot_covers_is_passed_over(log_dir: Path) -> None:
    """A real broker starts on it: it reads from the snapshot on."""
    file = metadata(log_dir) / f"{247:020}.log"
    flip(file, 3000)
    assert len(names(GOLDEN)) == TOPICS
    for name in ("cluster_metadata", "topics", "brokers", "acls", "quotas", "features"):
        table = getattr(tables, name)(log_dir)
        assert table.to_pylist() == getattr(tables, name)(GOLDEN).to_pylist()
        assert [str(file) in note for note in notes(table)] == [True]
    # What changed before the damage is not shown: the state after it is known from the next snapshot on.
    changes = tables.topics(log_dir, history=True).to_pylist()
    assert min(row["logOffset"] for row in changes) >= 322
    plan, whole = plan_rescue(log_dir), plan_rescue(GOLDEN)
    assert plan.image.records == whole.image.records
    assert [each.code for each in plan.findings if each.severity == "error"] == [
        each.code for each in whole.findings if each.severity == "error"
    ]
    assert any(each.code == "metadata-passed-over" and file.name in each.message for each in plan.findings)
    assert codes(log_dir) == []
    printed = call("topics", log_dir)
    assert printed.returncode == 0
    assert file.name in printed.stderr
    assert printed.stdout == call("topics", GOLDEN).stdout


WITNESSES = {
    "snapshot": f"{403:020}-{3:010}.checkpoint",
    "producers": f"{403:020}.snapshot",
    "segment": f"{343:020}.timeindex",
    "epochs": "leader-epoch-checkpoint",
    "recovery point": "../recovery-point-offset-checkpoint",
}


def _cut(folder: Path, how: str) -> None:
    last = folder / f"{343:020}.log"
    data = last.read_bytes()
    first = 12 + int.from_bytes(data[8:12], "big")
    for file in [*folder.glob(f"{343:020}.*index"), folder / f"{343:020}.snapshot"]:
        file.unlink()
    last.write_bytes(data[:first] if how == "at a batch" else b"")
    if how == "gone":
        last.unlink()


@pytest.mark.parametrize("how", ["gone", "empty", "at a batch"])
@pytest.mark.parametrize("witness", [*WITNESSES, None])
def test_a_log_that_lost_its_end(witness: str | None, how: str, log_dir: Path) -> None:
    """Said where another file shows it: each alone, as an older controller or a copy may leave it."""
    folder = metadata(log_dir)
    lines = folder / WITNESSES["recovery point"]
    lines.write_text("0\n1\n__cluster_metadata 0 403\n", encoding="utf-8")
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n3 400\n", encoding="utf-8")
    kept = {name: (folder / file).read_bytes() for name, file in WITNESSES.items()}
    _cut(folder, how)
    for name, file in WITNESSES.items():
        (folder / file).unlink(missing_ok=True)
        if name == witness:
            (folder / file).write_bytes(kept[name])
    expected = ["metadata-cut"] if witness else []
    assert codes(log_dir) == expected
    # The log before is whole, and so is the state that it comes to.
    said = notes(tables.topics(log_dir))
    assert [("the changes after that are gone" in note) or ("before this snapshot" in note) for note in said] == [
        True
    ] * len(expected)
    plan = plan_rescue(log_dir)
    named = [each.message for each in plan.findings if each.code == "metadata-passed-over"]
    assert len(named) == len(expected)
    assert all("log ends at" in message for message in named)


def test_a_whole_log_has_no_end_that_is_missing() -> None:
    """Nothing that real controllers left says so."""
    found = [path for path in corpus.GOLDEN.rglob("data-*/__cluster_metadata-0") if path.is_dir()]
    assert len(found) > 1
    assert [path for path in found if "metadata-cut" in codes(path.parent)] == []


@pytest.mark.parametrize("kind", ["zeros", "cut", "cut at a batch", "empty", "foreign"])
def test_an_older_snapshot_where_the_newest_is_not_whole(kind: str, log_dir: Path) -> None:
    newest = metadata(log_dir) / f"{403:020}-{3:010}.checkpoint"
    data = newest.read_bytes()
    first = 12 + int.from_bytes(data[8:12], "big")
    broken = {
        "zeros": bytes(len(data)),
        "cut": data[:-40],
        "cut at a batch": data[:first],
        "empty": b"",
        "foreign": b"no snapshot at all" * 99,
    }
    newest.write_bytes(broken[kind])
    found = tables.cluster_metadata(log_dir)
    whole = tables.cluster_metadata(GOLDEN)

    def values(table: pa.Table) -> list[tuple[str, str]]:
        return sorted((row["type"], row["value"]) for row in table.to_pylist())

    assert values(found) == values(whole)
    assert any(newest.name in note for note in notes(found))
    assert names(log_dir) == names(GOLDEN)
    plan = plan_rescue(log_dir)
    assert plan.image.path == str(metadata(log_dir))
    assert not [each for each in plan.findings if each.code in {"metadata-gap", "no-metadata"}]
    assert any(newest.name in each.message for each in plan.findings if each.code == "metadata-passed-over")


@pytest.mark.parametrize("snapshot", [None, 86])
def test_a_hole_between_snapshot_and_log_is_an_error(snapshot: int | None, log_dir: Path) -> None:
    """Kafka refuses it, too (KafkaMetadataLog, KAFKA-14240)."""
    for file in metadata(log_dir).iterdir():
        start = int(file.name[:20]) if file.name[:20].isdigit() else 0
        is_snapshot = file.suffix == ".checkpoint"
        if (is_snapshot and start != snapshot) or (not is_snapshot and file.name[:20].isdigit() and start < 247):
            file.unlink()
    missing = f"offset {snapshot or 0} to 246"
    for verb in (
        lambda: tables.topics(log_dir),
        lambda: tables.cluster_metadata(log_dir),
        lambda: tables.acls(log_dir, history=True),
        lambda: kafkalog.explain(log_dir),
        lambda: kafkalog.retain(log_dir, log_dir.parent / "out", dry_run=True),
        lambda: kafkalog.compact(log_dir, log_dir.parent / "out", dry_run=True),
    ):
        with pytest.raises(kafkalog.CorruptRecordError, match=missing):
            verb()
    # Whose settings are all given needs none of these.
    kafkalog.explain(log_dir, config=kafkalog.LogConfig())
    assert codes(log_dir).count("metadata-gap") == 1
    plan = plan_rescue(log_dir)
    (gap,) = [each for each in plan.findings if each.code == "metadata-gap"]
    assert gap.severity == "error"
    assert missing in gap.message
    assert plan.image.path == str(metadata(log_dir))
    assert {choice.topic for choice in plan.choices} >= {"topic-0-1"}


def test_topics_of_which_only_folders_are_left_are_rescued_and_named(log_dir: Path) -> None:
    """The gap hides the topic's creation; its records are whole."""
    folder = log_dir / "topic-0-1-1"
    for file in metadata(log_dir).iterdir():
        start = int(file.name[:20]) if file.name[:20].isdigit() else 0
        if file.suffix == ".checkpoint" or (file.name[:20].isdigit() and start < 343):
            file.unlink()
    plan = plan_rescue(log_dir)
    chosen = [choice for choice in plan.choices if choice.topic == "topic-0-1" and choice.partition == 1]
    assert [choice.replica and choice.replica.path for choice in chosen] == [str(folder)]
    assert [each.severity for each in plan.findings if each.code in {"metadata-gap", "no-metadata"}] == ["error"]


def test_records_that_cannot_be_applied_are_counted_and_named(tmp_path: Path) -> None:
    good, refused = RECORDS, REFUSED
    log_dir = tmp_path / "data"
    log_dir.mkdir()
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAABQ\n")
    identity = {"topic_id": METADATA_TOPIC_ID, "cluster_id": "AAAAAAAAAAAAAAAAAAAABQ", "node_id": 1}
    with kafkalog.LogWriter(log_dir, "__cluster_metadata", 0, **identity) as log:  # type: ignore[arg-type]
        log.append([kafkalog.Record(value=value) for value in [*good, *refused.values()]])
    with kafkalog.LogWriter(log_dir, "orders", 0, **{**identity, "topic_id": TOPIC_ID}) as log:  # type: ignore[arg-type]
        log.append([kafkalog.Record(value=b"x")])
    for table in (tables.brokers(log_dir), tables.topics(log_dir), tables.topics(log_dir, history=True)):
        assert table.schema.metadata[b"kafkalog.unapplied"] == str(len(refused)).encode()
        said = notes(table)
        assert [text for text in refused if not any(text in note for note in said)] == []
    assert tables.brokers(log_dir)["fenced"].to_pylist() == [True]
    assert tables.topics(log_dir)["topic"].to_pylist() == ["orders"]
    # Where it cannot be known what a record about topics says, no folder is compared with them.
    found = [row for row in kafkalog.verify(log_dir).to_pylist() if row["code"].startswith("metadata-")]
    assert [row["code"] for row in found].count("metadata-unknown") == 2
    assert [row["code"] for row in found].count("metadata-record") == len(refused) - 2
    assert sorted(row["offset"] for row in found) == list(range(len(good), len(good) + len(refused)))
    plan = plan_rescue(log_dir)
    named = [each for each in plan.findings if each.code == "metadata-record"]
    assert len(named) == len(refused)
    assert {each.severity for each in named} == {"error"}
    for report in (
        kafkalog.retain(log_dir, tmp_path / "out", dry_run=True),
        kafkalog.rewrite(log_dir, tmp_path / "out", dry_run=True),
    ):
        assert len(report.metadata_notes) == len(refused)
    assert len(notes(kafkalog.explain(log_dir))) == len(refused)
    commands: tuple[list[str | Path], ...] = (
        ["topics", log_dir],
        ["explain", log_dir],
        ["retain", log_dir, tmp_path / "out", "--dry-run"],
    )
    for command in commands:
        assert call(*command).stderr.count("a record is left out") == len(refused)


def test_names_that_no_controller_writes_become_no_folders(tmp_path: Path) -> None:
    log_dir = tmp_path / "disk" / "data"
    log_dir.mkdir(parents=True)
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=AAAAAAAAAAAAAAAAAAAABQ\n")
    identity = {"topic_id": METADATA_TOPIC_ID, "cluster_id": "AAAAAAAAAAAAAAAAAAAABQ", "node_id": 1}
    with kafkalog.LogWriter(log_dir, "__cluster_metadata", 0, **identity) as log:  # type: ignore[arg-type]
        log.append([kafkalog.Record(value=value) for value in [*RECORDS, *HOSTILE]])
    out = tmp_path / "new" / "out"
    report = kafkalog.rescue(log_dir, out)
    assert len([each for each in report.plan.findings if each.code == "metadata-record"]) == len(HOSTILE)
    assert {path.name for path in out.iterdir() if path.is_dir()} == {"orders-0", "__cluster_metadata-0"}
    assert {path.name for path in tmp_path.iterdir()} == {"disk", "new"}
    assert [path.name for path in (tmp_path / "new").iterdir() if path != out] == []
    table = tables.topics(log_dir)
    assert table["topic"].to_pylist() == ["orders"]
    assert table.schema.metadata[b"kafkalog.unapplied"] == str(len(HOSTILE)).encode()


class Batch(NamedTuple):
    """Position and offsets of a batch, whether its checksum holds, and whether it is a control batch."""

    at: int
    end: int
    offsets: range
    is_whole: bool
    is_control: bool


def batches(data: bytes) -> list[Batch]:
    found, at = [], 0
    while at + 61 <= len(data):
        base, length, *_, crc, attributes, last = struct.unpack_from(">qiibIhi", data, at)
        end = at + 12 + length
        if length < 49 or end > len(data):
            break
        is_whole = crc == crc32c(data[at + 21 : end])
        found.append(Batch(at, end, range(base, base + last + 1), is_whole, bool(attributes & 0x20)))
        at = end
    return found


def has_all(folder: Path) -> bool:
    """Return whether a snapshot and the log after it hold everything, by the definition."""
    offsets: set[int] = set()
    for file in folder.glob("*.log"):
        for batch in batches(file.read_bytes()):
            offsets |= set(batch.offsets) if batch.is_whole else set()
    starts = {0} if 0 in offsets else set()
    for file in folder.glob("*.checkpoint"):
        data = file.read_bytes()
        found = batches(data)
        if len(found) > 1 and found[-1].end == len(data) and found[-1].is_control and all(b.is_whole for b in found):
            starts.add(int(file.name[:20]))
    return any(offsets >= set(range(start, END)) for start in starts)


@pytest.mark.parametrize("seed", range(tiers.pick(12, 50, 2000)))
def test_random_damage_leaves_the_whole_state_or_is_an_error(seed: int, tmp_path: Path) -> None:
    """Every whole pair of snapshot and log holds the same; that nothing else is taken, a plain computation says."""
    chance = random.Random(seed)  # noqa: S311 - to be repeated, not secret
    folder = shutil.copytree(metadata(GOLDEN), tmp_path / metadata(GOLDEN).name)
    files = sorted([*folder.glob("*.log"), *folder.glob("*.checkpoint")])
    for file in chance.sample(files, chance.randrange(1, 6)):
        data = file.read_bytes()
        batch = chance.choice(batches(data))
        # That the last segment is gone nothing shows.
        if chance.randrange(2) and file.name != f"{343:020}.log":
            file.unlink()
        elif file.suffix == ".checkpoint" and chance.randrange(2):
            file.write_bytes(chance.choice([b"", bytes(len(data)), data[: batch.at], data[: batch.at + 30]]))
        else:
            flip(file, chance.randrange(batch.at + 61, batch.end))
    expected = names(GOLDEN) if has_all(folder) else None
    try:
        found = names(folder)
    except kafkalog.CorruptRecordError:
        found = None
    assert found == expected


def state_of(folder: Path) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    """Return the topics, the records of the state in any order of their fields, and the notes."""
    image = tables.cluster_metadata(folder)
    records = sorted(
        row["type"] + json.dumps(sorted_lists(json.loads(row["value"])), sort_keys=True) for row in image.to_pylist()
    )
    return tables.topics(folder).to_pylist(), records, notes(image)


def sorted_lists(value: Any) -> Any:
    if isinstance(value, list):
        return sorted((sorted_lists(each) for each in value), key=str)
    return {name: sorted_lists(each) for name, each in value.items()} if isinstance(value, dict) else value


def damages(data: bytes, chance: random.Random, count: int) -> Iterator[bytes]:
    """Flip a bit, zero a part, cut; and all of it."""
    yield bytes(len(data))
    for _ in range(count):
        at, length = chance.randrange(len(data)), chance.choice([16, 512, 4096])
        yield data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        yield data[:at] + bytes(len(data[at : at + length])) + data[at + length :]
        yield data[:at]


LOGS = [each.folder for each in corpus.partitions() if each.topic == "__cluster_metadata"]


@pytest.mark.parametrize("source", LOGS, ids=lambda folder: folder.parts[-3])
def test_damage_of_each_file_leaves_all_or_is_named(source: Path, tmp_path: Path) -> None:
    """An error, the whole state, or what is there with the name of the file that is damaged."""
    chance = random.Random(41)  # noqa: S311 - to be repeated, not secret
    topics, records, said = state_of(source)
    assert said == []
    folder = shutil.copytree(source, tmp_path / source.name)
    for file in sorted([*folder.glob("*.log"), *folder.glob("*.checkpoint")]):
        data = file.read_bytes()
        ends = {0} | {batch.end for batch in batches(data)}
        for damaged in damages(data, chance, tiers.pick(1, 3, 50)) if data else ():
            # That whole batches are gone from the end of the last segment nothing shows.
            if len(damaged) in ends - {len(data)}:
                continue
            file.write_bytes(damaged)
            try:
                found = state_of(folder)
            except kafkalog.CorruptRecordError:
                continue
            assert found[:2] == (topics, records) or any(file.name in note for note in found[2]), file
        file.write_bytes(data)
