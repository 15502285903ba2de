"""Kafka's ``LocalTieredStorage``: a folder for each partition, the segment's files under names with its id."""

from __future__ import annotations

import re

from kafkalog.tiers.layout import ObjectName, RemoteLayout

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

    required = ("log", "index", "timeindex", "leader_epochs")

    def parse(self, key: str) -> ObjectName | None:
        """Return what a key says; None for an object that is of no segment."""
        found = _KEY.fullmatch(key)
        if found is None:
            return None
        kind = found["kind"]
        return ObjectName.of(found.groupdict(), "leader_epochs" if kind == "leader_epoch_checkpoint" else kind)
