"""Kafka's ``LocalTieredStorage``: a folder for each partition, the segment's files under names with its id."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kafkalog.tiers.layout import ObjectName, RemoteLayout

if TYPE_CHECKING:
    from kafkalog.tiers.layout import StoredSegment

# Ids hold "-", so that they are found from the right by their length (RemoteLogSegmentFileset).
_KEY = re.compile(
    r"(?:.*/)?(?P<topic>[^/]+)-(?P<partition>\d+)-(?P<topic_id>[\w-]{22})"
    r"/(?P<start>\d{20})-(?P<segment_id>[\w-]{22})\.(?P<kind>log|index|timeindex|txnindex|snapshot|leader_epoch_checkpoint)"
)


class LocalLayout(RemoteLayout):
    """The layout of ``LocalTieredStorage``, in the test jars of Kafka.

    Files have their final names from the start of a copy, so that only ``__remote_log_metadata`` tells finished copies
    from others.
    """

    def parse(self, key: str) -> ObjectName | None:
        """Return what a key says; None for an object that is of no segment."""
        found = _KEY.fullmatch(key)
        if found is None:
            return None
        kind = found["kind"]
        return ObjectName(
            found["topic"],
            found["topic_id"],
            int(found["partition"]),
            found["segment_id"],
            int(found["start"]),
            "leader_epochs" if kind == "leader_epoch_checkpoint" else kind,
        )

    def missing(self, stored: StoredSegment) -> str | None:
        """Return what is missing to a whole copy."""
        lacks = [each for each in ("log", "index", "timeindex", "leader_epochs") if each not in stored.objects]
        return f"no {' and no '.join(lacks)}" if lacks else None
