"""The golden cases of compaction, laid out as a broker that stopped cleanly leaves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import corpus
from recover_cases import laid_out, loaded, stopped_cleanly

if TYPE_CHECKING:
    from pathlib import Path

CASES = corpus.GOLDEN / "log" / "clean"


def source_of(case: Path, to: Path) -> dict[str, Any]:
    """Lay out a log dir that was stopped cleanly, with its times and its high watermark."""
    config = laid_out(case, to)
    high_watermark = config["passes"][0].get("high_watermark", loaded(case)["high_watermark"])
    stopped_cleanly(config, to, high_watermark)
    return config
