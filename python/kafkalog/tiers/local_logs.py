"""The log dirs beside a tier: which topic ids, leader epochs and offsets they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalog import _core
from kafkalog.errors import KafkaLogError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog.tiers.segment import TierPartition

__all__ = ["LocalLogs", "LocalPartition"]

_LOG_START = "log-start-offset-checkpoint"


class LocalPartition(NamedTuple):
    """A partition's folder.

    Attributes
    ----------
    log_dir : str
        The log dir it is in.
    topic_id : str or None
        From ``partition.metadata``.
    log_start : int or None
        From the checkpoint of the log dir.
    epochs : list of tuple
        Leader epochs and their first offsets.
    base_offset : int or None
        First offset of its first segment.
    """

    log_dir: str
    topic_id: str | None
    log_start: int | None
    epochs: list[tuple[int, int]]
    base_offset: int | None


class LocalLogs:
    """Partitions of log dirs.

    Parameters
    ----------
    log_dirs : list of str
        The log dirs, none where the tier is read alone.
    """

    def __init__(self, log_dirs: Sequence[str]) -> None:
        self.log_dirs = list(log_dirs)
        self.partitions: dict[tuple[str, int], LocalPartition] = {}
        for path in self.log_dirs:
            self._add(path)
        self._topic_ids = self._known_topic_ids()

    @property
    def is_empty(self) -> bool:
        """True without any log dir."""
        return not self.log_dirs

    def _add(self, path: str) -> None:
        log_dir = _core.LogDir(path)
        starts = {(topic, number): offset for topic, number, offset in log_dir.checkpoints.get(_LOG_START, ())}
        for (_, topic, number, state), found in zip(log_dir.folders(), log_dir.identities(), strict=True):
            if state == "live":
                topic_id, _, _, epochs, segments, _ = found
                base = segments[0][0] if segments else None
                known = LocalPartition(path, topic_id, starts.get((topic, number)), epochs, base)
                self.partitions[topic, number] = known

    def _known_topic_ids(self) -> dict[str, str]:
        """Return the ids of the topics that exist, by the metadata log if it is there; else by the folders."""
        from kafkalog.tables import topics

        if not self.log_dirs:
            return {}
        try:
            rows = topics(self.log_dirs)
        except (KafkaLogError, OSError, ValueError):
            return {topic: each.topic_id for (topic, _), each in self.partitions.items() if each.topic_id}
        self.has_metadata = True
        return {row["topic"]: row["topicId"] for row in rows.select(["topic", "topicId"]).to_pylist()}

    has_metadata = False

    def of(self, partition: TierPartition) -> LocalPartition | None:
        """Return the folder of a partition, if it is of the same topic id."""
        found = self.partitions.get((partition.topic, partition.partition))
        return found if found is not None and found.topic_id in (None, partition.topic_id) else None

    def why_gone(self, partition: TierPartition) -> str | None:
        """Return why a partition of the tier is none of these logs; None if it is one."""
        found = self.partitions.get((partition.topic, partition.partition))
        topic_id = (found.topic_id if found is not None else None) or self._topic_ids.get(partition.topic)
        if topic_id is None:
            return f"topic {partition.topic!r} was deleted" if self.has_metadata else None
        if topic_id != partition.topic_id:
            return f"topic {partition.topic!r} was deleted and made again, with id {topic_id}"
        return None

    def lineage(self, partition: TierPartition) -> list[tuple[int, int]]:
        """Return the leader epochs of a partition's log, if it has a folder that knows them."""
        found = self.of(partition)
        return [] if found is None else list(found.epochs)

    def log_start(self, partition: TierPartition) -> int | None:
        """Return the checkpointed log start offset of a partition."""
        found = self.of(partition)
        return None if found is None else found.log_start
