"""Copy the cases kept in this folder out of a whole corpus of log cases.

Usage: ``python3 tests/golden/log/select.py CORPUS``. A case is taken whole and unchanged, together with the shared state
(``_base``) it names; README.md says what a case holds.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

# kind -> the cases taken
SELECTION: dict[str, tuple[str, ...]] = {
    "index-ops": (
        "offset-base-entry",
        "offset-closed",
        "offset-empty-file",
        "offset-garbage",
        "offset-max-size-15",
        "offset-max-size-7",
        "offset-max-size-9",
        "offset-mixed-0",
        "offset-negative-last",
        "offset-order",
        "offset-overflow",
        "offset-read-only",
        "offset-reset",
        "offset-resize",
        "offset-resize-zero",
        "offset-torn-1",
        "offset-truncate",
        "offset-upper-bound",
        "offset-warm-section",
        "offset-wrong-base",
        "offset-zero-tail",
        "time-empty",
        "time-fill-and-look",
        "time-garbage",
        "time-last-below-base",
        "time-last-below-first",
        "time-max-size-11",
        "time-max-size-12",
        "time-max-size-36",
        "time-mixed-1",
        "time-negative",
        "time-order",
        "time-resize",
        "time-torn-1",
        "time-truncate",
        "time-warm-section",
        "time-zero-tail",
    ),
    "recover": (
        "batch-twice",
        "cleaned-only",
        "crash-preallocated",
        "crash-preallocated-clean-marker",
        "crash-zero-tails",
        "deleted-leftovers",
        "emptied-all-logs",
        "emptied-log-active-clean",
        "empty-directory",
        "empty-directory-log-start",
        "epochs-beyond-end",
        "epochs-garbage",
        "epochs-letters",
        "epochs-missing-unflushed",
        "epochs-unsorted",
        "flip-attributes",
        "flip-base-offset",
        "flip-base-offset-high",
        "flip-payload",
        "flip-payload-first-batch",
        "foreign-files",
        "garbage-index-clean",
        "garbage-tail-and-index",
        "garbage-timeindex-unflushed",
        "healthy-clean",
        "healthy-open-transaction",
        "healthy-rp-beyond-end",
        "healthy-unflushed",
        "index-max-smaller",
        "index-points-beyond",
        "index-points-into-batch",
        "interval-changed",
        "length-minus-one",
        "length-one-less",
        "log-start-beyond-end",
        "log-start-beyond-torn",
        "log-start-inside",
        "magic-1",
        "magic-127",
        "missing-index-clean",
        "missing-log-keep-indexes",
        "missing-segment-middle-unflushed",
        "missing-timeindex-clean",
        "missing-txnindex-unflushed",
        "name-below-first-batch",
        "name-far-below",
        "name-not-a-number",
        "name-short",
        "offset-backwards",
        "offset-below-base",
        "only-log-files",
        "only-log-files-unclean",
        "orphan-index",
        "overlapping-segments-unflushed",
        "random-00",
        "snapshot-all-damaged",
        "snapshot-expired-unflushed",
        "snapshot-none-clean",
        "snapshot-none-unclean",
        "snapshot-stray",
        "split-done-swap",
        "split-half-swap",
        "split-overflow",
        "swap-and-cleaned-lower",
        "swap-corrupt",
        "swap-empty",
        "swap-group",
        "swap-some-renamed",
        "swap-without-index",
        "too-large-active-index-clean",
        "too-large-index-unflushed",
        "torn-at-011",
        "torn-at-085",
        "torn-middle-segment-unflushed",
        "txnindex-below-base-clean",
        "txnindex-version-high-clean",
        "valid-crc-huge-delta",
        "valid-crc-negative-delta",
        "zero-tail-017",
        "zero-tail-clean",
        "zero-tail-middle",
    ),
}


def main(corpus: str) -> int:
    """Replace what is here of every kind."""
    for kind, names in SELECTION.items():
        source, target = Path(corpus) / kind, HERE / kind
        if target.exists():
            shutil.rmtree(target)
        taken = set(names)
        for name in names:
            base = json.loads((source / name / "config.json").read_text(encoding="utf-8")).get("base")
            if base:
                taken.add(f"_base/{base}")
        for name in sorted(taken):
            for file in sorted((source / name).rglob("*")):
                if file.is_file():
                    copy = target / file.relative_to(source)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.write_bytes(file.read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
