"""The golden cases of retention, laid out as a broker that stopped cleanly leaves them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import corpus
from recover_cases import laid_out, outcome

if TYPE_CHECKING:
    from pathlib import Path

CASES = corpus.GOLDEN / "log" / "retain"
MARKER = ".kafka_cleanshutdown"


def source_of(case: Path, to: Path) -> dict[str, Any]:
    """Lay out a log dir that was stopped cleanly, with its times and its high watermark."""
    config = laid_out(case, to)
    (to / MARKER).touch()
    loaded = next(line for line in outcome(case) if line["event"] == "loaded")
    high_watermark = config.get("high_watermark", loaded["log_end_offset"])
    (to / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {high_watermark}\n")
    times = config.get("mtimes", {})
    for path in (to / "orders-0").iterdir():
        ms = times.get(f"orders-0/{path.name}", times.get("*", config["now_ms"]))
        os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))
    return config
