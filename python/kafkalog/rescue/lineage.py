"""Leader epochs: up to where two replicas have the same history.

A leader writes its epoch into every batch (KIP-101), so two replicas with the same epoch at an offset got the batch
from the same leader. A follower that starts asks the leader where an epoch ended, and truncates to that
(``OffsetsForLeaderEpoch``, KIP-279); this is the same, between two disks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Epochs with their first offsets, ascending.
Epochs = tuple[tuple[int, int], ...]


def epoch_at(epochs: Epochs, offset: int) -> int:
    """Return the leader epoch at an offset; -1 where none is known."""
    return max((epoch for epoch, first in epochs if first <= offset), default=-1)


def agreed_end(truth: Epochs, truth_end: int, other: Epochs, other_end: int) -> int:
    """Return the offset up to which another replica has what the truth has."""
    left = [entry for entry in other if entry[1] < other_end]
    end = min(other_end, truth_end)
    while left:
        known, known_end = _end_for(truth, truth_end, left[-1][0])
        if known is None:
            # The truth begins later: retention has removed what the other log has.
            return min(end, left[0][1])
        if known == left[-1][0]:
            return min(end, known_end)
        # Epochs of the other log after the one that both may have are not in the truth.
        while left and left[-1][0] > known:
            end = min(end, left.pop()[1])
        end = min(end, known_end)
    return end


def _end_for(epochs: Sequence[tuple[int, int]], log_end: int, epoch: int) -> tuple[int | None, int]:
    """Return the latest epoch up to this one, and where it ends (``LeaderEpochFileCache.endOffsetFor``)."""
    found: int | None = None
    end = log_end
    for each, first in epochs:
        if each > epoch:
            end = min(end, first)
            break
        found = each
    return found, end
