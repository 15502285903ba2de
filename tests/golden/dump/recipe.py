"""Ask kafka-dump-log itself: what it prints for files of ``tests/golden``, kept in ``cases.jsonl`` beside this file.

Usage: ``python3 tests/golden/dump/recipe.py CLASSPATH`` with Kafka 4.3.1's jars (``tests/interop/witness`` has Maven
fetch them). The tool is run in a copy of the golden files, because it makes empty indexes beside what it reads and cuts
indexes of odd lengths. Its paths are relative to that copy; absolute ones, on stderr, begin with ``{root}``. Of a run
that ended with an exception only the standard output is kept, and ``died`` has the exception's class.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent
MAIN = "org.apache.kafka.tools.DumpLogSegments"
API = "org.apache.kafka.tools.api."

PRINT = "--print-data-log"
DEEP = "--deep-iteration"
SKIP = "--skip-record-metadata"
INTEGERS = ("--key-decoder-class", API + "IntegerDecoder")
LONGS = ("--value-decoder-class", API + "LongDecoder")

# Every format and codec, headers, null and empty fields, control records of every kind, text that is not UTF-8, empty
# batches, a delete horizon, an open transaction.
SEGMENTS = (
    "empties/data-1/only-markers-0/00000000000000000000.log",
    "empties/data-1/only-markers-0/00000000000000000021.log",
    "crash-0.9.0.1-killed/data-0/compact-none-0/00000000000000000182.log",
    "compact/data-0/compact-dirty-0/00000000000000000420.log",
    "compact/data-0/compact-codecs-0/00000000000000001710.log",
    "v2-1.1.1/data-0/v0-compact-0/00000000000000000000.log",
    "v0-0.9.0.1/data-0/compact-gzip-0/00000000000000000000.log",
    "mixed-switch/data-0/switched-compact-0/00000000000000000521.log",
    "v2-3.9.1-zk/data-0/v1-compact-0/00000000000000000118.log",
    "index-shapes/data-0/index-full-0/00000000000000000291.log",
    "v1-0.10.0.1/data-0/ts-append-0/00000000000000000311.log",
    "empties/data-0/one-record-0/00000000000000000000.log",
    "txn/data-0/bootstrap.checkpoint",
    "metadata/data-0/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint",
    "corrupt/unknown-magic/t-0/00000000000000000000.log",
    "corrupt/torn-tail/t-0/00000000000000000006.log",
    "corrupt/flipped-bit/t-0/00000000000000000000.log",
)
INDEXES = (
    "corrupt/index-back/t-0/00000000000000000000.index",
    "corrupt/index-back/t-0/00000000000000000000.timeindex",
    "v2-1.1.1/data-0/txn-0/00000000000000000101.index",
    "v2-1.1.1/data-0/txn-0/00000000000000000000.index",
    "v2-1.1.1/data-0/txn-0/00000000000000000101.timeindex",
    "crash-2.8.2-killed/data-0/compact-none-0/00000000000000000395.timeindex",
    "index-shapes/data-0/index-full-0/00000000000000000291.index",
    "index-shapes/data-0/index-full-0/00000000000000000291.timeindex",
)
OTHERS = (
    "txn/data-1/txn-open-0/00000000000000000000.txnindex",
    "clean-restarts/data-1/ledger-0/00000000000000000478.txnindex",
    "live-copy/data-1/ledger-0/00000000000000000441.snapshot",
    "compact/data-1/compact-producers-0/00000000000000001980.snapshot",
    "txn/data-0/meta.properties",
    "txn/data-0/replication-offset-checkpoint",
)
# The decoders of internal topics, each on files of its own topic.
DECODED = {
    "--offsets-decoder": (
        "internal-compacted/data-0/__consumer_offsets-1/00000000000000000057.log",
        "internal-compacted/data-0/__consumer_offsets-1/00000000000000000205.log",
        "internal-compacted/data-1/__consumer_offsets-0/00000000000000000134.log",
        "v0-0.9.0.1/data-0/__consumer_offsets-1/00000000000000000000.log",
    ),
    "--transaction-log-decoder": (
        "internal-compacted/data-0/__transaction_state-1/00000000000000000000.log",
        "internal-compacted/data-0/__transaction_state-1/00000000000000000034.log",
    ),
    "--cluster-metadata-decoder": (
        "metadata/data-0/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint",
        "metadata/data-0/__cluster_metadata-0/00000000000000000343.log",
    ),
    "--share-group-state-decoder": ("internal-compacted/data-0/__share_group_state-1/00000000000000000000.log",),
}


def cases() -> list[list[str]]:
    """Command lines."""

    def of(files: tuple[str, ...], *flags: str) -> list[str]:
        return ["--files", ",".join(files), *flags]

    made = [
        *(of(SEGMENTS, *flags) for flags in ((), (DEEP,), (PRINT,), (PRINT, SKIP), (DEEP, SKIP))),
        of(SEGMENTS, DEEP, "--max-bytes", "300"),
        *(of(INDEXES, *flags) for flags in ((), ("--verify-index-only",))),
        of(OTHERS),
    ]
    # Runs that may end early have a file each.
    for index in INDEXES:
        made.append(of((index,), "--index-sanity-check"))
        made.append(of((index,), "--max-message-size", "100"))
    for segment in SEGMENTS[:3]:
        made.append(of((segment,), *INTEGERS))
        made.append(of((segment,), *LONGS, SKIP))
    for folder in sorted((GOLDEN / "corrupt").glob("*/t-0")):
        files = [file for file in sorted(folder.iterdir()) if file.suffix in {".log", ".index", ".timeindex"}]
        made.extend(of((str(file.relative_to(GOLDEN)),), PRINT) for file in files)
    for flag, segments in DECODED.items():
        made.append(of(segments, flag))
        made.append(of(segments[:1], flag, SKIP))
    # Of several decoders the first of the tool's order counts.
    made.append(
        of(DECODED["--transaction-log-decoder"][:1], "--share-group-state-decoder", "--transaction-log-decoder")
    )
    return made


def ask(class_path: str, args: list[str]) -> dict[str, object]:
    """Give what the tool prints."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch).resolve() / "golden"
        files = args[1].split(",")
        for folder in {str(Path(file).parent) for file in files}:
            shutil.copytree(GOLDEN / folder, root / folder, dirs_exist_ok=True)
        flags = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-Dlevel=off"]
        done = subprocess.run(
            ["java", *flags, "-cp", class_path, MAIN, *args], cwd=root, capture_output=True, check=False, timeout=120
        )
        out, err = done.stdout.decode(), done.stderr.decode().replace(str(root), "{root}")
    if done.returncode == 0:
        return {"args": args, "out": out, "err": re.sub(r"(?m)^SLF4J.*\n", "", err)}
    died = re.search(r'(?m)^Exception in thread "main" ([\w.$]+)', err)
    if died is None:
        sys.exit(err)
    return {"args": args, "out": out, "died": died[1]}


if __name__ == "__main__":
    answers = [ask(sys.argv[1], case) for case in cases()]
    with (HERE / "cases.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(answer, ensure_ascii=False) + "\n" for answer in answers)
