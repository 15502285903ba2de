"""``segment.jitter.ms``: how much earlier than ``segment.ms`` a segment is rolled, by chance.

The law is ``LogConfig.randomSegmentJitter`` and ``LogSegment.shouldRoll`` of Kafka 4.3.1: a segment draws ``j`` out of
0 to ``min(segment.jitter.ms, segment.ms) - 1`` when it is begun or loaded, each as likely, and is rolled by a record
that comes more than ``segment.ms - j`` ms after its first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog import LogConfig, LogWriter, Record

if TYPE_CHECKING:
    from pathlib import Path


def rolls(path: Path, segment_ms: int, jitter_ms: int, gap: int, times: int = 200) -> int:
    """Count the records, one gap after another, that begin a segment: each is the second of one, or the first."""
    config = LogConfig(
        segment_ms=segment_ms,
        segment_jitter_ms=jitter_ms,
        segment_index_bytes=1024,
        message_timestamp_after_max_ms=(1 << 63) - 1,
    )
    count = 0
    with LogWriter(path, "t", config=config, sync="never") as writer:
        at = 1_700_000_000_000
        writer.append([Record(b"", timestamp=at)])
        for _ in range(times):
            rolled = writer.append([Record(b"", timestamp=at + gap)]).rolled
            if not rolled:
                writer.roll()
                writer.append([Record(b"", timestamp=at + gap)])
            at += gap
            count += rolled
    return count


@pytest.mark.parametrize(
    ("settings", "least", "most"),
    [
        ((1000, 0, 1000), 0, 0),
        ((1000, 0, 1001), 200, 200),
        # At the most 99 ms earlier.
        ((1000, 100, 901), 0, 0),
        ((1000, 100, 1001), 200, 200),
        ((1000, 100, 950), 60, 140),  # 49 of 100
        # At the most segment.ms - 1 ms earlier.
        ((1000, 5000, 1), 0, 0),
        ((1000, 5000, 1001), 200, 200),
        ((1000, 5000, 500), 60, 140),
        ((1, 1000, 1), 0, 0),
    ],
)
@pytest.mark.sampled(2)
def test_as_kafka_draws_it(tmp_path: Path, settings: tuple[int, int, int], least: int, most: int) -> None:
    assert least <= rolls(tmp_path, *settings) <= most


def test_it_is_drawn_from_31_bits(tmp_path: Path) -> None:
    """``Utils.abs(nextInt())``: of years, at the most 24.8 days are taken off."""
    year = 365 * 86_400_000
    assert rolls(tmp_path / "whole", 2 * year, year, 2 * year - (1 << 31), 50) == 0
    assert 5 <= rolls(tmp_path / "half", 2 * year, year, 2 * year - (1 << 30), 50) <= 45


def test_logs_opened_together_do_not_roll_together(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=1000, segment_index_bytes=1024)
    rolled = 0
    for n in range(40):
        with LogWriter(tmp_path / str(n), "t", config=config, sync="never") as writer:
            writer.append([Record(b"", timestamp=0)])
            rolled += writer.append([Record(b"", timestamp=500)]).rolled
    assert 4 <= rolled <= 36
