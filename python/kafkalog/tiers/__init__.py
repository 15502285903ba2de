"""Tiered storage (KIP-405): the older segments of a log, where a broker's remote storage plugin put them.

``kafkalog.scan(path, remote=...)`` reads local and remote segments as one log, and ``kafkalog.tables.remote_segments``
lists them. A plugin that kafkalog does not know needs a subclass of :class:`RemoteLayout`.
"""

from kafkalog.tiers.aiven_layout import AivenLayout
from kafkalog.tiers.layout import ObjectFile, ObjectName, RemoteFile, RemoteLayout, SegmentFacts, StoredSegment
from kafkalog.tiers.local_layout import LocalLayout
from kafkalog.tiers.objects import ObjectInfo, ObjectStore

__all__ = [
    "AivenLayout",
    "LocalLayout",
    "ObjectFile",
    "ObjectInfo",
    "ObjectName",
    "ObjectStore",
    "RemoteFile",
    "RemoteLayout",
    "SegmentFacts",
    "StoredSegment",
]
