"""Golden tiers: partitions of a real broker, and their segments in two layouts of remote storage. Makes the archives.

    python3 tests/golden/tiered/make.py CORPUS

A Kafka 4.3 broker wrote the logs and copied their segments with ``LocalTieredStorage``; `aiven-*` are the same segments
through the classes of Aiven's plugin (commit 8fb15816). An archive has of a case the log dir, the tier, and `expected`:
the rows and offsets that the broker gave to consumers, and what it knew of each remote segment. The keys are test keys.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# By archive: the case, and the topics that are kept of it.
SELECTION = {
    "lineage": ("tiered/lineage", ("diverged", "moved")),
    "killed-later": ("tiered/killed-later", ("cut-off-a", "cut-off-b")),
    "deleted-kept": ("tiered/deleted-kept", ("gone", "made-again", "stays")),
    "retention": ("tiered/retention", ("records-deleted", "by-bytes")),
    "txn": ("tiered/txn", ("txn-mixed", "txn-long-abort")),
    "aiven-lineage-zstd-aes": ("aiven/lineage-zstd-aes", ("diverged",)),
    "aiven-txn-fixed": ("aiven/txn-fixed", ("txn-mixed", "txn-long-abort")),
    "aiven-codecs-heuristic": ("aiven/codecs-heuristic", ("codec-mixed",)),
    "aiven-damaged-zstd-aes": ("aiven/damaged-zstd-aes", ("copy-disabled", "half-remote", "tiered-late")),
}
KEPT_OF_DIR = ("__cluster_metadata-", "__remote_log_metadata-")


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """Add a file, always in the same way."""
    about = tarfile.TarInfo(name)
    about.size, about.mode, about.mtime = len(data), 0o644, 1_800_000_000
    archive.addfile(about, io.BytesIO(data))


def is_of(name: str, topics: tuple[str, ...]) -> bool:
    """Return whether a folder is of one of the topics, with or without a prefix before its name."""
    return any(f"{topic}-" in f"{name}-" and name.split(topic, 1)[0] in ("", "logs-") for topic in topics)


def files(source: Path, topics: tuple[str, ...]) -> dict[str, bytes]:
    """Return the files that are kept of a log dir, a tier or what is expected of them."""
    kept = {}
    for path in sorted(p for p in source.rglob("*") if p.is_file()):
        at = path.relative_to(source).parts
        folder = at[-2] if len(at) > 1 else ""
        owner = next((part for part in at[:-1] if part != "kafka-tiered-storage"), "")
        if owner and not is_of(owner, topics) and not folder.startswith(KEPT_OF_DIR):
            continue
        if folder.startswith(KEPT_OF_DIR) and path.suffix in (".index", ".timeindex"):
            continue
        kept["/".join(at)] = path.read_bytes()
    return kept


def main(corpus: str) -> None:
    """Write every archive."""
    for name, (case, topics) in SELECTION.items():
        source = Path(corpus) / case
        note = json.loads((source / "expected" / "case.json").read_text())
        logs = (source / note["source"]).resolve() if "source" in note else source
        about = json.loads((logs / "expected" / "case.json").read_text())
        parts = {
            "data": files(logs / about["expected_from"], topics),
            "tier": files(source / ("bucket" if "source" in note else "tiered"), topics),
            "expected": files(logs / "expected", topics),
        }
        parts["expected"]["case.json"] = json.dumps(about, indent=1).encode()
        if "source" in note:
            parts["expected"]["aiven.json"] = json.dumps(note, indent=1).encode()
            parts["expected"]["segments.jsonl.gz"] = (source / "expected" / "segments.jsonl.gz").read_bytes()
            parts["keys"] = {
                f"{kek}.pem": (source / path).resolve().read_bytes() for kek, path in note["keyring"].items()
            }
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for part, kept in parts.items():
                for file, data in kept.items():
                    add(archive, f"{part}/{file}", data)
        (HERE / f"{name}.tar.gz").write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])
