"""Choice of a row's partition: Kafka's default partitioner for rows with a key, in turn for rows without one."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from kafkalog import _core
from kafkalog.partitioner import partition_for_key
from kafkalog.spark.append_job import live_partitions
from kafkalog.spark.topics import format_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Partitioner:
    """Assigns partitions to the rows of a task."""

    def __init__(
        self, paths: Sequence[str], partitions: int, known: Mapping[str, frozenset[int]] | None = None
    ) -> None:
        self._paths, self._partitions, self._known = paths, partitions, known
        self._live: dict[str, frozenset[int]] = {}
        # Rows without a key take partitions in turn, from a random one on.
        self._turn = uuid.uuid4().int

    def assign(self, topic: str, requested: Any, keys: Any) -> Any:
        """Return the partitions of rows of one topic."""
        import pyarrow as pa
        import pyarrow.compute as pc

        live = self._find(topic)
        number = max(live) + 1
        for wanted in pc.unique(requested).to_pylist():
            _check(topic, wanted, live, number)
        if requested.null_count == 0:
            return requested
        assigned = pc.coalesce(requested, partition_for_key(keys, number))
        if keyless := assigned.null_count:
            turns = [(self._turn + n) % number for n in range(1, keyless + 1)]
            self._turn += keyless
            assigned = pc.replace_with_mask(assigned, pc.is_null(assigned), pa.array(turns, pa.int32()))
        return assigned

    def _find(self, topic: str) -> frozenset[int]:
        """Return the partitions that the topic has here, or will have if it is new."""
        if topic not in self._live:
            _core.check_topic(topic)
            found = live_partitions(self._paths, topic) if self._known is None else self._known.get(topic)
            self._live[topic] = found or frozenset(range(self._partitions))
        return self._live[topic]


def _check(topic: str, requested: int | None, live: frozenset[int], number: int) -> None:
    """Check a requested partition, or that one can be chosen."""
    if requested in live:
        return
    if requested is not None and not 0 <= requested < number:
        raise ValueError(
            f"cannot assign partition {requested}: topic {topic} has only {format_numbers(live)} here; correct the "
            "column `partition`, leave it out to assign partitions by key, or set the option `partitions` if the "
            "topic is new"
        )
    if len(live) < number:
        what = "a partition to a row" if requested is None else f"partition {requested}"
        raise ValueError(
            f"cannot assign {what}: topic {topic} has only {format_numbers(live)} here; list every log dir in "
            "`path`, or write only rows for these partitions"
        )
