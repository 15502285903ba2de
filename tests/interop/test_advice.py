"""Claims of ``verify`` about what a starting broker does with damage, compared with Kafka's ``LogManager``."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, NamedTuple

import pytest

import corpus
import kafkalog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from interop.broker import Witness

pytestmark = pytest.mark.interop

SOURCE = corpus.GOLDEN / "clean-restarts" / "data-1"
UUID = "0123456789abcdef0123456789abcdef"
P = "orders-0"
MARKER, FIRST = ".kafka_cleanshutdown", f"{P}/{0:020}"


class Claim(NamedTuple):
    """A damage, the finding that ``verify`` has for it, and what the advice says of a broker."""

    code: str
    damage: Callable[[Path], object]
    # False where a broker does not start, or takes the log dir offline
    starts: bool = True
    # Files that a broker removes, and those that it leaves.
    removes: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    # The log's start and end, where they are not those of the whole log.
    ends: tuple[int, int] | None = None


def write(name: str, data: bytes | str) -> Callable[[Path], object]:
    def damage(log_dir: Path) -> None:
        path = log_dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    return damage


def last(log_dir: Path) -> Path:
    """Return the active segment."""
    return max((log_dir / P).glob("*.log"))


def unclean(log_dir: Path) -> None:
    (log_dir / MARKER).unlink()


def torn(log_dir: Path) -> None:
    unclean(log_dir)
    with last(log_dir).open("ab") as file:
        file.write(last(log_dir).read_bytes()[:100])


def zeros(log_dir: Path) -> None:
    unclean(log_dir)
    with last(log_dir).open("ab") as file:
        file.write(bytes(5000))


def zeros_in_closed(log_dir: Path) -> None:
    with sorted((log_dir / P).glob("*.log"))[1].open("ab") as file:
        file.write(bytes(5000))


def flushed(log_dir: Path) -> None:
    zeros_in_closed(log_dir)
    unclean(log_dir)


def recovered(log_dir: Path) -> None:
    flushed(log_dir)
    (log_dir / "recovery-point-offset-checkpoint").unlink()


def huge(log_dir: Path) -> None:
    with last(log_dir).open("r+b") as file:
        file.truncate(1 << 31)


def copied(name: str) -> Callable[[Path], object]:
    return lambda log_dir: shutil.copytree(log_dir / P, log_dir / name)


def epochs(*lines: str) -> str:
    return "\n".join(["0", str(len(lines)), *lines, ""])


CLAIMS = {
    "lost+found": Claim("unknown-folder", lambda d: (d / "lost+found").mkdir(), starts=False),
    "no dash": Claim("unknown-folder", lambda d: (d / "orders").mkdir(), starts=False),
    "plus": Claim("folder-name", lambda d: (d / "a+b-0").mkdir()),
    "space": Claim("folder-name", lambda d: (d / "sp ace-0").mkdir()),
    "epochs of noise": Claim("epochs-unreadable", write(f"{P}/leader-epoch-checkpoint", "noise"), starts=False),
    "negative epoch": Claim("epochs-unreadable", write(f"{P}/leader-epoch-checkpoint", epochs("-1 0")), starts=False),
    "epochs out of order": Claim("epochs-order", write(f"{P}/leader-epoch-checkpoint", epochs("0 0", "2 9", "1 9"))),
    "epoch beyond the end": Claim("epochs-beyond-end", write(f"{P}/leader-epoch-checkpoint", epochs("0 0", "9 99999"))),
    "recovery points of noise": Claim(
        "checkpoint-unreadable", write("recovery-point-offset-checkpoint", "noise"), starts=False
    ),
    "log starts of noise": Claim("checkpoint-unreadable", write("log-start-offset-checkpoint", "noise"), starts=False),
    "log start beyond the end": Claim(
        "checkpoint-beyond-end", write("log-start-offset-checkpoint", "0\n1\norders 0 5000\n"), ends=(5000, 5000)
    ),
    "twice": Claim("duplicate-partition", copied("orders-00"), starts=False),
    "partition.metadata of noise": Claim(
        "identity-unreadable", write(f"{P}/partition.metadata", "noise"), starts=False
    ),
    "a name": Claim("file-name", write(f"{P}/copy.log", ""), starts=False),
    "deleted": Claim("leftover", write(f"{FIRST}.log.deleted", "x"), removes=(f"{FIRST}.log.deleted",)),
    "cleaned": Claim("leftover", write(f"{FIRST}.log.cleaned", "x"), removes=(f"{FIRST}.log.cleaned",)),
    "a swap of zeros": Claim("swap-unreadable", write(f"{P}/{145:020}.log.swap", bytes(400)), starts=False),
    "stray": Claim("stray-folder", copied(f"gone-0.{UUID}-stray"), keeps=(f"gone-0.{UUID}-stray",)),
    "snapshot of noise": Claim("snapshot-unreadable", write(f"{P}/{880:020}.snapshot", "noise")),
    "snapshot of nothing": Claim(
        "snapshot-stray",
        write(f"{P}/{7:020}.snapshot", (SOURCE / P / f"{880:020}.snapshot").read_bytes()),
        removes=(f"{P}/{7:020}.snapshot",),
    ),
    "an index alone": Claim("index-orphan", write(f"{P}/{99999:020}.index", ""), removes=(f"{P}/{99999:020}.index",)),
    "no index": Claim("index-missing", lambda d: (d / f"{FIRST}.index").unlink(), keeps=(f"{FIRST}.index",)),
    "another file": Claim("unknown-file", write(f"{P}/notes.txt", "x"), keeps=(f"{P}/notes.txt",)),
    "a marker of noise": Claim("clean-shutdown-content", write(MARKER, "noise")),
    "torn": Claim("torn-tail", torn),
    "zeros": Claim("zero-tail", zeros),
    "zeros in a closed segment": Claim("zero-tail-closed", zeros_in_closed),
    "zeros in a flushed segment": Claim("zero-tail-closed", flushed),
    "zeros in a recovered segment": Claim("zero-tail-closed", recovered, ends=(0, 331)),
    "2 GiB": Claim("segment-size", huge, starts=False),
}


def test_a_broker_does_what_the_advice_says(witness: Witness, tmp_path: Path) -> None:
    """Each log dir is loaded by the same process, one after the other, as at a broker's start."""
    dirs, wrong = {}, []
    for name, claim in CLAIMS.items():
        log_dir = dirs[name] = tmp_path / name / "data"
        shutil.copytree(SOURCE, log_dir)
        claim.damage(log_dir)
        codes = {row["code"] for row in kafkalog.verify(log_dir).to_pylist()}
        if claim.code not in codes:
            wrong.append(f"{name}: verify finds {sorted(codes)}")
    answers = [json.loads(line) for line in witness.run("start", *map(str, dirs.values())).splitlines()]
    whole = kafkalog.PartitionLog(SOURCE / P)
    ends = (whole.log_start_offset, whole.log_end_offset)
    for (name, claim), answer in zip(CLAIMS.items(), answers, strict=True):
        if answer["starts"] != claim.starts or (claim.starts and tuple(answer["logs"][P]) != (claim.ends or ends)):
            wrong.append(f"{name}: {answer}")
        wrong += [f"{name}: {file} is there" for file in claim.removes if (dirs[name] / file).exists()]
        wrong += [f"{name}: {file} is gone" for file in claim.keeps if not (dirs[name] / file).exists()]
    assert wrong == [], "\n".join(wrong)
    # What a broker drops at its start, before it writes the file again.
    for name, left in {"epochs out of order": [[0, 0], [1, 9]], "epoch beyond the end": [[0, 0]]}.items():
        assert answers[[*CLAIMS].index(name)]["epochs"][P] == left, name
    # Zeros in a closed segment: left, so that reading fails there, or cut with all that follows.
    for name, is_left in {
        "zeros in a closed segment": True,
        "zeros in a flushed segment": True,
        "zeros in a recovered segment": False,
    }.items():
        log = dirs[name] / P / f"{145:020}.log"
        assert ("zero-tail-closed" in {row["code"] for row in kafkalog.verify(dirs[name]).to_pylist()}) == is_left, name
        assert ("CorruptRecordException" in witness.run("dump", str(log))) == is_left, name
    codes = {row["code"] for name in ("torn", "zeros") for row in kafkalog.verify(dirs[name]).to_pylist()}
    assert not codes & {"torn-tail", "zero-tail"}
