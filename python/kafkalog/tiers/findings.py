"""Findings about a tier, as those of ``kafkalog.verify`` about files.

| code | severity | |
|---|---|---|
| remote-missing | error | objects of a finished copy are missing |
| remote-size | error | an object is cut, or of a wrong size |
| remote-manifest | error | a manifest is missing, cut, or of another segment |
| remote-unreadable | error | bytes cannot be decrypted or decompressed, or the store refuses them |
| remote-damaged | error | batches of a log are damaged |
| remote-index | warning | an index cannot be read: reads walk over the log instead |
| remote-orphan | warning | objects that no record names, or of a topic that was deleted |
| remote-unfinished | info | what a copy that never finished left behind |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafkalog import _core
from kafkalog.errors import KafkaLogError
from kafkalog.reader import scan_batches
from kafkalog.tiers.segment import DELETED, STARTED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kafkalog.tiers.choice import Run
    from kafkalog.tiers.segment import RemoteSegment
    from kafkalog.tiers.tier import Tier

__all__ = ["Cost", "cost", "findings"]

_INDEXES = ("index", "timeindex", "txnindex", "snapshot", "leader_epochs")
# Bytes that are read again at once.
_STEP = 8 << 20
_LOOK = "restore the object from a copy; if there is none, read what is left with on_corrupt='skip'"
_ADVICE = {
    "remote-missing": _LOOK,
    "remote-size": _LOOK,
    "remote-manifest": _LOOK,
    "remote-unreadable": "pass the private key of its pair in keyring; with the right key, " + _LOOK,
    "remote-damaged": _LOOK,
    "remote-index": "none needed: reads do without it",
    "remote-orphan": "delete the objects if no other cluster uses them",
    "remote-unfinished": "none needed: the broker copies the segment again",
}


class Cost(NamedTuple):
    """Objects that verifying reads.

    Attributes
    ----------
    segments : int
        Number of segments.
    requests : int
        About as many requests.
    bytes : int
        Bytes of the objects.
    """

    segments: int
    requests: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.segments:,} remote segments: {self.bytes:,} bytes, about {self.requests:,} requests"


def _serving(tier: Tier) -> list[Run]:
    return [run for runs in tier.runs.values() for run in runs]


def cost(tier: Tier) -> Cost:
    """Return what it takes to verify the copies that serve reads."""
    stored = {run.segment.place: run.segment.stored for run in _serving(tier) if run.segment.stored is not None}
    objects = [each for found in stored.values() if found is not None for each in found.objects.values()]
    # Windows of 8 MiB.
    requests = sum(1 + each.size // (8 << 20) for each in objects)
    return Cost(len(stored), requests, sum(each.size for each in objects))


def findings(tier: Tier, roots: list[str], *, headers_only: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the findings about a tier that is mounted at some places, by partition and offset."""
    for at, partition in sorted(tier.partitions.items(), key=lambda item: (item[1].topic, item[0])):
        for each in sorted(partition.segments, key=lambda each: (each.start_offset or 0, each.segment_id)):
            found = _of_objects(tier, each)
            if found is not None:
                yield found
        for run in tier.runs.get(at, ()):
            if run.segment.fault is None:
                yield from _of_bytes(tier, run, roots, headers_only=headers_only)


def _of_objects(tier: Tier, each: RemoteSegment) -> dict[str, Any] | None:
    if each.stored is None and (each.fault is None or each.reason not in (None, each.fault.text)):
        return None
    if each.state == STARTED:
        return _finding(tier, each, "info", "remote-unfinished", "what a copy that never finished left behind")
    if each.state == DELETED:
        return _finding(tier, each, "warning", "remote-orphan", "objects of a segment that was deleted")
    if each.fault is not None and each.reason in (None, each.fault.text):
        return _finding(tier, each, "error", *each.fault)
    if each.reason is not None and (each.state is None or "deleted" in each.reason) and "starts" not in each.reason:
        return _finding(tier, each, "warning", "remote-orphan", each.reason)
    return None


def _of_bytes(tier: Tier, run: Run, roots: list[str], *, headers_only: bool) -> Iterator[dict[str, Any]]:
    """Read the log of a run, and the indexes of its segment."""
    each = run.segment
    topic, number = each.topic, each.partition
    starts, ends = {topic: {number: run.first}}, {topic: {number: run.last + 1}}
    root = roots[0] if len(roots) == 1 else next((r for r in roots if _holds(r, topic, number)), roots[0])
    try:
        with scan_batches(
            root,
            topic,
            partitions={topic: [number]},
            on_corrupt="skip",
            check_crcs=not headers_only,
            starting_offsets=starts,
            ending_offsets=ends,
        ) as reader:
            for _ in reader:
                pass
            for lost in reader.lost.to_pylist():
                damaged = f"bytes {lost['position']} to {lost['endPosition'] - 1} of the log"
                code, text = "remote-damaged", f"{damaged} are damaged ({lost['reason']})"
                error = _fault_of_bytes(f"{root}/{topic}-{number}/{lost['segment']}", lost)
                if error is not None:
                    code, text = "remote-unreadable", f"{damaged}: {error}"
                yield _finding(tier, each, "error", code, text, offset=lost["firstOffset"])
    except (KafkaLogError, OSError, ValueError) as failed:
        yield _finding(tier, each, "error", "remote-unreadable", str(failed))
        return
    for kind in _INDEXES:
        fault = _fault_of_index(tier, each, kind)
        if fault is not None:
            yield _finding(tier, each, "warning", "remote-index", fault)


def _fault_of_bytes(path: str, lost: Mapping[str, Any]) -> KafkaLogError | None:
    """Return why lost bytes of a log cannot be had, if the tier does not give them."""
    try:
        for start in range(lost["position"], lost["endPosition"], _STEP):
            _core.read_range(path, start, min(_STEP, lost["endPosition"] - start))
    except KafkaLogError as error:
        return error
    return None


def _fault_of_index(tier: Tier, each: RemoteSegment, kind: str) -> str | None:
    try:
        file = None if each.stored is None else tier.layout.open(tier.store, each.stored, kind)
        if file is not None and file.size:
            file.read(0, file.size)
    except (KafkaLogError, OSError, ValueError) as error:
        return f"{kind}: {error}"
    return None


def _holds(root: str, topic: str, partition: int) -> bool:
    from kafkalog.log import LogDir

    return (topic, partition) in LogDir(root)


def _finding(  # noqa: PLR0917 - the columns
    tier: Tier, each: RemoteSegment, severity: str, code: str, text: str, offset: int | None = None
) -> dict[str, Any]:
    keys = sorted(found.key for found in each.stored.objects.values()) if each.stored else []
    place = keys[0].rpartition(".")[0] if keys else f"segment {each.segment_id}"
    return {
        "file": f"{tier.name}/{place}",
        "position": None,
        "endPosition": None,
        "severity": severity,
        "code": code,
        "topic": each.topic,
        "partition": each.partition,
        "offset": each.start_offset if offset is None else offset,
        "message": text,
        "advice": _ADVICE[code],
    }
