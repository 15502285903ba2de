"""Copy the selection kept in this folder out of a whole corpus, and write its manifest.

Usage: ``python3 tests/golden/recipe.py CORPUS...`` with roots of the same format
(``<case>/<log dir>/<topic>-<partition>/`` and ``<case>/expected/``). Whole partition folders are taken,
with the log dir's own files and all of their expected answers; nothing inside a file is changed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
ALL = ("*",)

MANIFEST = """\
# Golden: logs that real brokers wrote, and what Kafka read in them

`recipe.py` writes this file and copies whole partition folders out of a larger corpus. To change the selection, edit
and rerun it. `corrupt/` is written by `corrupt/make.py`.

| path | holds |
|---|---|
| `<case>/<log dir>/` | what the broker left, without `.lock`; modification times are not kept |
| `<case>/expected/` | what the classes of Kafka 4.3.1 read there: gzipped JSON lines for each partition |
| `<case>/expected/case.json` | the broker's version and settings |
| `MANIFEST.sha256` | a line for each folder: the SHA-256 of what `sha256sum` prints for its files, sorted by name |

Of the answers, `records`, `batches` and `index.<file>` are about the files as they are on disk; `load`,
`lookup-offset`, `lookup-time` and `committed` are about the log as a starting broker sees it, with modification times
of 0, and `lookup-time-late-mtime` with modification times in the year 2100. Answers for a log dir `KIND-N` other than
`data-N` are in `expected/KIND-<partition>/`. Kafka 4.3.1 wrote its cases from seed 1, older brokers theirs from seed
20151.
"""

# case -> what it is here for, and the folders taken ("*": every one)
SELECTION: dict[str, tuple[str, tuple[str, ...]]] = {
    "clean-restarts": (
        (
            "two whole log dirs of a broker restarted six times: every codec, transactions, leader epochs, a "
            "compacted topic, all checkpoints, the metadata log. The README's export reads this one"
        ),
        ALL,
    ),
    "codecs": (
        (
            "one codec a partition with odd keys, values and headers (null, empty, repeated); the broker's own "
            "recompression; codecs that change inside one partition"
        ),
        (
            "data-0/broker-lz4-0",
            "data-0/broker-zstd-0",
            "data-0/codec-none-2",
            "data-0/codec-snappy-2",
            "data-0/codec-zstd-2",
            "data-1/codec-gzip-2",
            "data-1/codec-lz4-2",
            "data-1/codec-mixed-0",
        ),
    ),
    "compact": (
        (
            "after the cleaner: offset gaps, tombstones with and without delete horizon, empty batches, "
            "transaction markers, a dirty tail"
        ),
        (
            "data-0/compact-codecs-0",
            "data-0/compact-delete-0",
            "data-0/compact-dirty-0",
            "data-0/compact-keys-0",
            "data-0/compact-txn-gone-0",
            "data-1/compact-gone-0",
            "data-1/compact-producers-0",
            "data-1/compact-txn-0",
        ),
    ),
    "empties": (
        (
            "nothing, one record, one record a segment, everything aborted, expired or deleted; killed-0: a "
            "preallocated log with a tail of zeros, preallocated indexes"
        ),
        (
            "data-0/all-deleted-0",
            "data-0/never-written-0",
            "data-0/one-record-0",
            "data-0/only-aborted-0",
            "data-1/all-expired-0",
            "data-1/never-written-1",
            "data-1/one-per-segment-0",
            "data-1/only-markers-0",
            "killed-0/one-record-0",
            "killed-0/preallocated-0",
        ),
    ),
    "in-flight": (
        "folders on their way: -delete, -stray, -future beside the live one, .deleted segments",
        (
            "data-0/to-delete-0.4d7c6ca9872c484f9ada79a4519a0a05-delete",
            "data-0/to-move-0",
            "data-0/to-shrink-0",
            "data-1/to-lose-0.2501711a66e84167a87e2d6f3fea8e94-stray",
            "data-1/to-move-0.40a64cc5636f477ca0a538d79d314614-future",
        ),
    ),
    "index-shapes": (
        "an index entry for every batch, and indexes so small that they roll the segment",
        ("data-0/interval-exact-0", "data-0/index-full-0"),
    ),
    "internal-compacted": (
        "internal topics after compaction: offsets, transactions, share groups",
        (
            "data-0/__consumer_offsets-1",
            "data-0/__share_group_state-1",
            "data-0/__transaction_state-1",
            "data-1/__consumer_offsets-0",
        ),
    ),
    "kill-9": (
        "after kill -9: zero-tailed indexes, no clean-shutdown marker, stale checkpoints, an open transaction",
        ("data-1/ledger-0",),
    ),
    "live-copy": (
        "copied file by file while the broker wrote, so torn between files",
        ("data-0/events-2", "data-0/state-0", "data-1/ledger-0"),
    ),
    "metadata": (
        "the metadata log: several segments, .checkpoint snapshots, control records of the quorum",
        ("data-0/__cluster_metadata-0", "data-0/topic-0-1-1"),
    ),
    "retention": (
        (
            "log start offset above zero: by time, by DeleteRecords inside a segment and to the end, with "
            "transactions, compacted"
        ),
        (
            "data-0/compact-deleted-0",
            "data-0/records-all-deleted-0",
            "data-0/records-deleted-1",
            "data-1/retention-ms-0",
            "data-1/txn-deleted-0",
        ),
    ),
    "timestamps": (
        "LogAppendTime, out of order, type switched in between, gaps that roll segments",
        (
            "data-0/ts-append-0",
            "data-1/ts-gaps-append-0",
            "data-1/ts-out-of-order-0",
            "data-1/ts-switched-0",
        ),
    ),
    "txn": (
        "aborted transactions with their .txnindex, fenced producers, open transactions at the end",
        ("data-0/txn-aborts-0", "data-0/txn-fenced-0", "data-1/txn-open-0"),
    ),
    "v0-0.8.2.2": (
        "magic 0: absolute inner offsets, the broken LZ4 header checksum, nulls, a compacted topic",
        ("data-0/compact-none-0", "data-0/mixcodec-0", "data-0/nulls-0", "data-0/plain-lz4-0"),
    ),
    "v0-0.9.0.1": (
        "magic 0: compacted wrappers, recompressed by the broker, an index that filled up",
        (
            "data-0/__consumer_offsets-1",
            "data-0/compact-gzip-0",
            "data-0/compact-lz4-0",
            "data-0/indexfull-0",
            "data-0/recompress-0",
        ),
    ),
    "v1-0.10.0.1": (
        "magic 1 without a time index: relative inner offsets, LogAppendTime, message.format.version 0.9",
        (
            "data-0/compact-snappy-0",
            "data-0/mixcodec-0",
            "data-0/rolled-by-time-0",
            "data-0/ts-append-0",
            "data-0/v0-mixcodec-0",
        ),
    ),
    "v1-0.10.2.2": (
        "magic 1 with a time index: out-of-order timestamps, compacted wrappers, retention",
        ("data-0/compact-gzip-0", "data-0/nulls-0", "data-0/retained-0", "data-0/ts-shuffled-0"),
    ),
    "v2-1.1.1": (
        "magic 2 of the last version whose offset index names first offsets; older formats beside it",
        (
            "data-0/headers-0",
            "data-0/indexfull-0",
            "data-0/txn-0",
            "data-0/v0-compact-0",
            "data-0/v1-append-0",
        ),
    ),
    "v2-2.8.2": (
        "magic 2 with zstd; a compacted transactional topic",
        ("data-0/plain-zstd-0", "data-0/txn-compact-0", "data-0/ts-shuffled-0"),
    ),
    "v2-3.9.1-zk": ("the last version with ZooKeeper", ("data-0/headers-0", "data-0/v1-compact-0")),
    "crash-0.9.0.1-killed": (
        "magic 0 after kill -9: zero-tailed indexes, .deleted files of the cleaner",
        ("data-0/compact-none-0", "data-0/mixcodec-0"),
    ),
    "crash-2.8.2-killed": (
        "magic 2 after kill -9: .deleted files of retention and compaction",
        ("data-0/compact-none-0", "data-0/retained-0", "data-0/txn-0"),
    ),
    "mixed-switch": (
        "magics 0, 1 and 2 up and down inside one segment, and compacted over",
        ("data-0/switched-compact-0", "data-0/switched-one-segment-0"),
    ),
    "mixed-upgrade": (
        "one log dir under eight broker versions in turn",
        ("data-0/grown-compact-0", "data-0/grown-compact-wrapped-0", "data-0/grown-one-segment-0"),
    ),
    "mixed-upgrade-at-0.10.0.1": (
        "leftovers of a cleaner that died: .log.cleaned beside a clean-shutdown marker",
        ("data-0/grown-compact-wrapped-0",),
    ),
}


def expected_name(folder: str) -> str:
    """Name of the folder of expected answers: plain for ``data-N``, with the log dir's kind before it otherwise."""
    log_dir, partition = folder.split("/")
    kind = re.sub(r"-\d+$", "", log_dir)
    return partition if kind == "data" else f"{kind}-{partition}"


def copy_file(source: Path, target: Path) -> None:
    """Copy the bytes only: modification times and modes say nothing here."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o644)


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder of files."""
    target.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.iterdir()):
        copy_file(file, target / file.name)


def copy_case(source: Path, folders: tuple[str, ...], target: Path) -> list[str]:
    """Copy one case and return the partition folders taken."""
    log_dirs = sorted(p.name for p in source.iterdir() if p.is_dir() and p.name != "expected")
    every = [f"{d}/{p.name}" for d in log_dirs for p in sorted((source / d).iterdir()) if p.is_dir()]
    taken = every if folders == ALL else list(folders)
    for log_dir in sorted({folder.split("/")[0] for folder in taken}):
        for file in sorted((source / log_dir).iterdir()):
            if file.is_file():
                copy_file(file, target / log_dir / file.name)
        name = f"{log_dir}.checkpoints.jsonl"
        copy_file(source / "expected" / name, target / "expected" / name)
    copy_file(source / "expected" / "case.json", target / "expected" / "case.json")
    for folder in taken:
        copy_folder(source / folder, target / folder)
        answers = expected_name(folder)
        copy_folder(source / "expected" / answers, target / "expected" / answers)
    return taken


def summary(case: Path, folder: str) -> str:
    """One row of the manifest, counted from Kafka's own answers."""
    answers = case / "expected" / expected_name(folder)
    counts: Counter[str] = Counter()
    magics: set[str] = set()
    codecs: set[str] = set()
    with gzip.open(answers / "batches.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            batch = json.loads(line)
            if "magic" in batch:
                counts["batches"] += 1
                magics.add(str(batch["magic"]))
                codecs.add(batch["codec"])
    with gzip.open(answers / "records.jsonl.gz", "rt", encoding="utf-8") as lines:
        counts["records"] = sum('"offset":' in line for line in lines)
    segments = sum(1 for f in (case / folder).iterdir() if re.fullmatch(r"\d{20}\.log", f.name))
    return (
        f"| {folder} | {segments} | {counts['batches']} | {counts['records']} "
        f"| {' '.join(sorted(magics))} | {' '.join(sorted(codecs))} |"
    )


def digest(folder: Path) -> str:
    """Give the SHA-256 over the names and contents of a folder's own files, in the order of their names."""
    total = hashlib.sha256()
    for file in sorted(p for p in folder.iterdir() if p.is_file()):
        total.update(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n".encode())
    return total.hexdigest()


def manifest(taken: dict[str, list[str]]) -> str:
    """Write the manifest's text."""
    lines = [MANIFEST]
    for name, folders in taken.items():
        case = HERE / name
        version = json.loads((case / "expected" / "case.json").read_text(encoding="utf-8"))["kafka_version"]
        lines += [f"## {name}", "", f"Kafka {version}: {SELECTION[name][0]}.", ""]
        lines += ["| folder | segments | batches | records | magic | codecs |", "|---|---|---|---|---|---|"]
        lines += [summary(case, folder) for folder in folders]
        lines.append("")
    return "\n".join(lines)


def main(roots: list[str]) -> int:
    """Copy, count, and write both manifests."""
    taken: dict[str, list[str]] = {}
    for name, (_, folders) in SELECTION.items():
        found = [Path(root) / name for root in roots if (Path(root) / name / "expected").is_dir()]
        if len(found) != 1:
            print(f"{name}: found in {len(found)} of the roots given", file=sys.stderr)
            return 1
        target = HERE / name
        if target.exists():
            shutil.rmtree(target)
        taken[name] = copy_case(found[0], folders, target)
    (HERE / "MANIFEST.md").write_text(manifest(taken), encoding="utf-8")
    kept = sorted({file.parent for name in taken for file in (HERE / name).rglob("*") if file.is_file()})
    sums = [f"{digest(folder)}  {folder.relative_to(HERE).as_posix()}\n" for folder in kept]
    (HERE / "MANIFEST.sha256").write_text("".join(sums), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
