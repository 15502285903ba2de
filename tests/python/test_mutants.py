"""Mutated logs whose checksums are right: every verb does its work, or refuses in an error that says where.

What a verb writes verifies.
"""

from __future__ import annotations

import random
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
import mutants
import tiers
from random_logs import NOW

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mutants import Mutant

SEEDS = range(tiers.pick(4, 12, 2000))


def read(log: Mutant, _: Path, chance: random.Random) -> None:
    how: dict[str, Any] = {}
    calls: list[Callable[[], Any]] = [
        lambda: kafkalog.read_table(log.folder, **how),
        lambda: kafkalog.dataset(log.folder, **how).count_rows(),
        lambda: list(kafkalog.scan_batches(log.folder, on_corrupt=how["on_corrupt"])),
        lambda: kafkalog.PartitionLog(log.folder).statistics(),
        lambda: kafkalog.PartitionLog(log.folder).log_end_offset,
        lambda: kafkalog.PartitionLog(log.folder).offset_for_timestamp(chance.choice([0, NOW, 1 << 62])),
    ]
    for call in calls:
        how = {
            "on_corrupt": chance.choice(["raise", "skip"]),
            "isolation_level": chance.choice(["read_uncommitted", "read_committed"]),
            "starting_offsets": chance.choice(["earliest", "oldest"]),
        }
        refuses_or(call)


def recover(log: Mutant, out: Path, _: random.Random) -> None:
    kafkalog.recover(log.folder.parent, out=out, now=NOW)


def recover_as_kafka(log: Mutant, out: Path, _: random.Random) -> None:
    kafkalog.recover(log.folder.parent, out=out, on_loss="as_kafka", now=NOW)


def salvage(log: Mutant, out: Path, _: random.Random) -> None:
    kafkalog.recover(log.folder.parent, out=out, salvage=True, now=NOW)


def retain(log: Mutant, out: Path, chance: random.Random) -> None:
    config = {"retention.ms": chance.choice([-1, 1 << 40]), "retention.bytes": chance.choice([-1, 500])}
    kafkalog.retain(log.folder.parent, out, config=config, now=NOW)


def compact(log: Mutant, out: Path, chance: random.Random) -> None:
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": 0,
        "index.interval.bytes": chance.choice([0, 4096]),
        "segment.bytes": chance.choice([1000, 1 << 20]),
    }
    how: dict[str, Any] = {"on_corrupt": chance.choice(["raise", "skip"]), "roll": chance.random() < 0.5}
    kafkalog.compact(log.folder.parent, out, config=config, now=NOW, **how)


def rewrite(log: Mutant, out: Path, chance: random.Random) -> None:
    how: dict[str, Any] = chance.choice(
        [
            {"drop_keys": [b"k1"]},
            {"compression_type": "zstd"},
            {"drop_keys": [b"k1"], "compression_type": "uncompressed"},
            {"config": {"segment.bytes": 1000}},
        ]
    )
    kafkalog.rewrite(log.folder.parent, out, on_corrupt=chance.choice(["raise", "skip"]), **how)


def truncate(log: Mutant, out: Path, chance: random.Random) -> None:
    end = kafkalog.PartitionLog(log.folder).log_end_offset
    kafkalog.truncate(log.folder, out, chance.randrange(max(end, 0) + 1))


def rescue(log: Mutant, out: Path, _: random.Random) -> None:
    kafkalog.rescue([log.folder.parent], out)


def append(log: Mutant, out: Path, _: random.Random) -> None:
    shutil.copytree(log.folder.parent, out)
    before = files(out)
    topic, number = log.folder.name.rsplit("-", 1)
    try:
        with kafkalog.LogWriter(out, topic, int(number), clock=lambda: NOW) as writer:
            writer.append([kafkalog.Record(b"new", b"new")])
    except kafkalog.KafkaLogError:
        assert files(out) == before
        shutil.rmtree(out)
        raise


def rebuild(log: Mutant, out: Path, _: random.Random) -> None:
    kafkalog.rebuild_indexes(log.folder, out=out / log.folder.name)
    cleaned = log.folder.parent / mutants.CLEANED
    if cleaned.exists():
        shutil.copy(cleaned, out)


VERBS = (read, recover, recover_as_kafka, salvage, retain, compact, rewrite, truncate, rescue, append, rebuild)


def files(path: Path) -> dict[str, bytes]:
    return {str(each.relative_to(path)): each.read_bytes() for each in path.rglob("*") if each.is_file()}


Error = tuple[str, str, int, int]


def errors_of(path: Path) -> set[Error]:
    """List the errors of a log dir; a fault of a batch and the records missing because of it count as one."""
    rows = [row for row in kafkalog.verify(path).to_pylist() if row["severity"] == "error"]
    batches = ("batch-", "segment-missing")
    for row in rows:
        # Of a transaction, the first offset that is left.
        row["offset"] = -1 if row["code"] == "txn-index-missing-entry" else row["offset"]
    return {
        ("batch" if row["code"].startswith(batches) else row["code"], row["topic"], row["partition"], row["offset"])
        for row in rows
    }


def refuses_or(act: Callable[[], Any], *, is_sound: bool = True) -> bool:
    """Return whether the work was done; an error is about the data, and says where."""
    told = None
    try:
        act()
    except kafkalog.KafkaLogError as error:
        told = error
    if told is None:
        return True
    assert not isinstance(told, kafkalog.errors.InternalError), told
    assert told.path is not None, repr(told)
    # Which of two batches that overlap is wrong looks otherwise in other segments: such a result is not left as whole.
    assert not is_sound or "does not verify" not in str(told), told
    return False


# Of one transaction index that is gone, compaction would lose committed records; sequences of damaged batches; records
# outside of their batch; offsets that overflow; epochs that fall from one segment to the next; a time index that ends
# before an offset that it has.
FOUND = {1, 6, 24, 41, 95, 139, 190, 221, 315, 329, 341, 342, 469, 582, 700175, 700270}


@pytest.mark.parametrize("seed", sorted({*SEEDS, *FOUND}))
@pytest.mark.sampled(2)
def test_mutants(tmp_path: Path, seed: int) -> None:
    """2,000 logs in the slow profile (``KAFKALOG_SLOW=1``)."""
    chance = random.Random(seed)  # noqa: S311 - to be repeated, not secret
    log = mutants.mutant(chance, tmp_path / "logs")
    before, known = files(tmp_path / "logs"), errors_of(tmp_path / "logs")
    is_sound = not any(code == "batch" for code, *_ in known)
    for verb in VERBS:
        out = tmp_path / verb.__name__
        chance.seed(f"{seed}{verb.__name__}")
        done = refuses_or(partial(verb, log, out, chance), is_sound=is_sound)
        assert files(tmp_path / "logs") == before, verb.__name__
        if verb is recover_as_kafka and not done:
            assert known, log.done
        if not done or not out.exists():
            continue
        new = errors_of(out) - known
        if verb is salvage:
            # Nothing that is whole goes, be its offsets as they are, and what was lost is missing.
            new = {each for each in errors_of(out) if each[0] != "batch"}
        if not is_sound:
            new = {each for each in new if each[0] != "batch" and not each[0].startswith("index-")}
        assert new == set(), (verb.__name__, log.done)
