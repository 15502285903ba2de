"""Choice of a partition's replica, and of the other replicas that fill its damaged ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog import _core
from kafkalog.errors import KafkaLogError
from kafkalog.reader import RecordReader
from kafkalog.rescue.lineage import agreed_end, epoch_at
from kafkalog.rescue.model import Choice, Divergence, Finding, Piece

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalog.rescue.inventory import Run
    from kafkalog.rescue.lineage import Epochs
    from kafkalog.rescue.model import Replica

    # severity, code, message, path
    Find = Callable[..., None]

_MOST = (1 << 63) - 1
# Live ones first: the others are what a broker would have deleted.
_STATES = ("live", "future", "stray", "delete")


@dataclass(frozen=True)
class Partition:
    """State of a partition in the metadata image."""

    topic: str
    topic_id: str
    number: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    is_compacted: bool
    # whether the image knows the replicas in sync
    is_known: bool


def choose(
    partition: Partition,
    found: Sequence[Replica],
    runs: dict[str, list[Run]],
    attached: Callable[[Choice], Choice] = lambda choice: choice,
) -> tuple[Choice, list[Finding]]:
    """Choose among the replicas of a partition's topic, of any incarnation and state.

    Those in sync, or eligible as leaders (KIP-966), have every committed record; so the one among them with the latest
    leader epoch, then the longest, has all that was acknowledged to producers with ``acks=all``. Where none of these is
    on the disks, or where batches are newer than the image, the lineage alone decides. ``attached`` adds what tiered
    storage has.
    """
    findings: list[Finding] = []

    def find(severity: str, code: str, message: str, path: str | None = None) -> None:
        findings.append(Finding(severity, code, message, path, partition.topic, partition.number))  # type: ignore[arg-type]

    candidates = _candidates(partition, found, find)
    if not candidates:
        choice = attached(nothing(partition, "no disk has a replica"))
        if choice.remote:
            _report_remote(choice, find)
        else:
            find("error", "no-replica", "no disk has a replica: the partition will be empty")
        return choice, findings
    good, reasons = _eligible_replicas(partition, candidates)
    chosen = max(good, key=lambda each: _rank(partition, each))
    others = [each for each in candidates if each is not chosen]
    start = max(each.log_start_offset for each in candidates)
    raised = next(each for each in candidates if each.log_start_offset == start)
    if start > chosen.log_start_offset:
        reasons.append(f"log start offset {start} of node {raised.disk.node_id}")
    spliced = _Splice(partition, chosen, others, good, start=start)
    end = max(spliced.end, start)
    epochs = _merged_epochs(chosen, spliced.pieces, end)
    choice = Choice(
        topic=partition.topic,
        topic_id=partition.topic_id,
        partition=partition.number,
        replica=chosen,
        pieces=tuple(spliced.pieces),
        log_start_offset=start,
        log_end_offset=end,
        leader_epochs=epochs,
        leader_epoch=max([partition.leader_epoch, *(epoch for each in candidates for epoch, _ in each.leader_epochs)]),
        partition_epoch=partition.partition_epoch,
        reasons=tuple(reasons),
        lost=tuple(spliced.lost),
        spliced=tuple(spliced.taken),
        divergences=tuple(
            differs
            for other in others
            if (differs := _divergence(chosen, other, epochs, end, None if partition.is_compacted else runs))
            is not None
        ),
    )
    choice = attached(choice)
    _report(partition, choice, candidates, good, find)
    return choice, findings


def _candidates(partition: Partition, found: Sequence[Replica], find: Find) -> list[Replica]:
    """Return the replicas of this incarnation in the best state there is."""
    same = [each for each in found if each.topic_id == partition.topic_id]
    if not any(each.state == "live" for each in same):
        # Brokers before 2.8 wrote no ids.
        same += [each for each in found if each.topic_id is None]
    live = [each for each in same if each.state == "live"]
    for each in found:
        if each.topic_id not in {partition.topic_id, None}:
            text = f"another incarnation of the topic, id {each.topic_id}, offsets to {each.log_end_offset}: left out"
            find("info", "other-incarnation", text, each.path)
        elif each.state != "live" and live:
            find("info", "inactive-folder", f"a folder in state {each.state}: left out", each.path)
    if live or not same:
        return live
    state = min((each.state for each in same), key=_STATES.index)
    inactive = [each for each in same if each.state == state]
    for each in inactive:
        find("warning", "inactive-folder", f"a folder in state {state}, used because there is no other", each.path)
    return inactive


def _eligible_replicas(partition: Partition, candidates: Sequence[Replica]) -> tuple[list[Replica], list[str]]:
    """Return the candidates that have every committed record, as far as is known, and why."""
    newest = max(each.last_epoch for each in candidates)
    if not partition.is_known:
        return list(candidates), ["no metadata: latest leader epoch, then length"]
    if newest > partition.leader_epoch:
        text = f"batches of leader epoch {newest} are newer than the metadata's {partition.leader_epoch}: lineage"
        return list(candidates), [text]
    eligible = {*partition.isr, *partition.elr}
    good = [each for each in candidates if each.disk.node_id in eligible]
    if good:
        isr = sorted(partition.isr)
        elr = f", ELR {sorted(partition.elr)}" if partition.elr else ""
        return good, [f"in sync: ISR {isr}{elr}; then latest leader epoch, then length"]
    return list(candidates), [f"none of ISR {sorted(partition.isr)} is given: latest leader epoch, then length"]


def _rank(partition: Partition, replica: Replica) -> tuple[int, ...]:
    damaged = sum(each.end_offset - each.first_offset for each in replica.damage)
    return (
        replica.last_epoch,
        replica.log_end_offset,
        -len(replica.damage),
        -damaged,
        int(replica.disk.node_id in partition.isr),
        -(replica.disk.node_id or 0),
    )


def nothing(partition: Partition, reason: str) -> Choice:
    """Return the choice of nothing, and why."""
    return Choice(
        topic=partition.topic,
        topic_id=partition.topic_id,
        partition=partition.number,
        replica=None,
        pieces=(),
        log_start_offset=0,
        log_end_offset=0,
        leader_epochs=(),
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        reasons=(reason,),
    )


def _report(
    partition: Partition, choice: Choice, candidates: Sequence[Replica], good: Sequence[Replica], find: Find
) -> None:
    """Name ranges that are lost, replaced from others, or left out."""
    if choice.remote:
        _report_remote(choice, find)
    else:
        for first, end in choice.lost:
            find("error", "lost", f"offsets {first} to {end - 1} are damaged on every disk that has them")
    for first, end in choice.spliced:
        nodes = sorted(
            {piece.replica.disk.node_id or 0 for piece in choice.pieces if first <= piece.first_offset < end}
        )
        find("info", "spliced", f"offsets {first} to {end - 1} are damaged, and replaced from node {nodes[0]}")
    known = max(each.high_watermark or 0 for each in candidates)
    if known > choice.log_end_offset:
        text = f"offsets {choice.log_end_offset} to {known - 1} were committed, and are on no disk"
        find("error", "committed-missing", text)
    elif choice.replica is not None and is_cut(choice.replica) and not choice.spliced:
        text = f"the log had more after offset {choice.log_end_offset}, which no disk has"
        # A kill may tear a batch that was never acknowledged; a missing or unreadable file is another matter.
        if all(each.reason == "torn" for each in choice.replica.damage if each.end_offset == each.first_offset):
            find("warning", "torn", text, choice.replica.path)
        else:
            find("error", "lost", text, choice.replica.path)
    if partition.is_known and not {each.disk.node_id for each in good} & {*partition.isr, *partition.elr}:
        text = (
            f"no disk of an in-sync replica is given (ISR {sorted(partition.isr)}): "
            f"records from offset {choice.log_end_offset} on may be missing"
        )
        find("error", "out-of-sync", text)
    for each in choice.divergences:
        node = each.replica.disk.node_id
        if each.chosen_epoch == each.epoch:
            text = f"node {node} has other batches of the same leader epoch {each.epoch} from offset {each.offset} on"
            find("warning", "other-batches", text, each.replica.path)
        else:
            text = (
                f"node {node} has {each.records} offsets of leader epoch {each.epoch} from offset {each.offset} on, "
                "which in-sync replicas do not have: left out"
            )
            find("info", "diverged", text, each.replica.path)


def _report_remote(choice: Choice, find: Find) -> None:
    """Name what neither the disks nor tiered storage have."""
    for first, end in choice.lost:
        find("error", "lost", f"offsets {first} to {end - 1} are whole neither on a disk nor in the tier")
    if choice.replica is None:
        text = (
            f"no disk has as much as the tier, which ends at offset {choice.log_end_offset - 1}: records that were not "
            "copied there yet are missing"
        )
        find("error", "tier-only", text)


class _Splice:
    """Pieces of the chosen replica, and of others where it is damaged."""

    def __init__(
        self,
        partition: Partition,
        chosen: Replica,
        others: Sequence[Replica],
        good: Sequence[Replica],
        *,
        start: int,
    ) -> None:
        self.pieces: list[Piece] = []
        self.lost: list[tuple[int, int]] = []
        self.taken: list[tuple[int, int]] = []
        self.end = chosen.log_end_offset
        self._partition = partition
        # The damage of one whose end is not known says that there may be more.
        holes = [(each.first_offset, each.end_offset) for each in chosen.damage if each.end_offset > each.first_offset]
        donors = sorted(others, key=lambda each: (each not in good, [-part for part in _rank(partition, each)]))
        position = start
        for first, end in _merged((max(first, start), end) for first, end in holes if end > start):
            self._take(chosen, position, min(first, self.end))
            self._fill(chosen, donors, first, end)
            position = max(position, end)
        self._take(chosen, position, self.end)
        if is_cut(chosen):
            self._extend(chosen, donors)

    def _take(self, replica: Replica, first: int, end: int) -> None:
        if first < end:
            self.pieces.append(Piece(replica, first, end))

    def _fill(self, chosen: Replica, donors: Iterable[Replica], first: int, end: int) -> None:
        """Fill one hole from the donors, as far as they have the same history there."""
        holes = [(first, end)]
        filled: list[Piece] = []
        for donor in donors:
            if not holes:
                break
            limit = agreed_end(chosen.leader_epochs, chosen.log_end_offset, donor.leader_epochs, donor.log_end_offset)
            if limit <= first or not self._is_same_around(chosen, donor, first, end):
                continue
            left = []
            for hole in holes:
                has = _without(
                    [(max(hole[0], donor.log_start_offset), min(hole[1], limit))],
                    [(each.first_offset, max(each.end_offset, each.first_offset)) for each in donor.damage],
                )
                filled += [Piece(donor, *each) for each in has]
                left += _without([hole], has)
            holes = left
        self.pieces += sorted(filled, key=lambda piece: piece.first_offset)
        self.taken += _merged((piece.first_offset, piece.end_offset) for piece in filled)
        self.lost += holes

    def _extend(self, chosen: Replica, donors: Iterable[Replica]) -> None:
        """Take what others have after the torn end of the chosen one, if it is of the same history.

        The chosen replica had more, so those batches may have been acknowledged. Its ``leader-epoch-checkpoint`` says
        where the next leader began, which ends what may be taken.
        """
        for donor in donors:
            limit = agreed_end(chosen.leader_epochs, _MOST, donor.leader_epochs, donor.log_end_offset)
            hole = [(self.end, limit)] if limit > self.end else []
            damage = [(each.first_offset, max(each.end_offset, each.first_offset)) for each in donor.damage]
            has = _without(hole, damage)
            if has and has[0][0] == self.end and self._is_same_around(chosen, donor, self.end, self.end):
                self.pieces.append(Piece(donor, *has[0]))
                self.taken.append(has[0])
                self.end = has[0][1]

    def _is_same_around(self, chosen: Replica, donor: Replica, first: int, end: int) -> bool:
        """Return whether the batches that both have near a hole have the same checksums.

        A cleaner changes the batches of a compacted topic on each broker by itself.
        """
        if self._partition.is_compacted:
            return True
        return first_difference(chosen, donor, max(first - _NEAR, 0), end + _NEAR) is None


_NEAR = 4096


def is_cut(replica: Replica) -> bool:
    """Return whether a replica has lost its end: it is torn, or once was longer."""
    torn = any(each.end_offset == each.first_offset for each in replica.damage)
    return torn or (replica.high_watermark or 0) > replica.log_end_offset


def _merged_epochs(chosen: Replica, pieces: Iterable[Piece], end: int) -> Epochs:
    known = {epoch: first for epoch, first in chosen.leader_epochs if first < end}
    for piece in pieces:
        if piece.first_offset >= chosen.log_end_offset:
            for epoch, first in piece.replica.leader_epochs:
                if first < piece.end_offset:
                    known.setdefault(epoch, first)
    return tuple(sorted(known.items()))


def _divergence(
    chosen: Replica, other: Replica, epochs: Epochs, end: int, runs: dict[str, list[Run]] | None
) -> Divergence | None:
    """Find where another replica leaves the history of the result, or has other batches in the same epoch."""
    same = agreed_end(epochs, end, other.leader_epochs, other.log_end_offset)
    if same < other.log_end_offset:
        mine = epoch_at(epochs, same) if same < end else -1
        return Divergence(other, same, mine, epoch_at(other.leader_epochs, same), other.log_end_offset - same)
    differ = None if runs is None else _differing(chosen, other, runs, same)
    if differ is None:
        return None
    epoch = epoch_at(epochs, differ)
    return Divergence(other, differ, epoch, epoch, other.log_end_offset - differ)


def _differing(chosen: Replica, other: Replica, runs: dict[str, list[Run]], end: int) -> int | None:
    """Return the first offset below the end at which two replicas of one lineage have different batches.

    Kafka never writes such; a restored backup or a broken disk may. Runs that both have whole are compared by digest.
    """
    theirs = {(run.first_offset, run.end_offset, run.epoch): run.digest for run in runs.get(other.path, ())}
    for run in runs.get(chosen.path, ()):
        digest = theirs.get((run.first_offset, run.end_offset, run.epoch))
        if digest is None or digest == run.digest or run.end_offset > end:
            continue
        found = first_difference(chosen, other, run.first_offset, run.end_offset)
        if found is not None:
            return found
    return None


def first_difference(one: Replica, two: Replica, first: int, end: int) -> int | None:
    """Return the first offset of a batch, of those that both have whole, that is not the same in both."""
    known = _checksums(one, first, end)
    for offset, batch in _checksums(two, first, end).items():
        if offset in known and known[offset] != batch:
            return offset
    return None


def _checksums(replica: Replica, first: int, end: int) -> dict[int, tuple[int, int, int]]:
    """Return last offset, epoch and checksum of the whole batches that begin in a range, by base offset."""
    found: dict[int, tuple[int, int, int]] = {}
    try:
        ranges = _core.plan(
            [replica.path], starting_offsets=first, ending_offsets=end, include_inactive=True, on_corrupt="skip"
        )
        with RecordReader(_core.scan_batch_ranges(ranges, on_corrupt="skip")) as reader:
            for batch in reader:
                names = ("baseOffset", "lastOffset", "partitionLeaderEpoch", "crc")
                for base, *rest in zip(*(batch[name].to_pylist() for name in names), strict=True):
                    if first <= base < end:
                        found[base] = (rest[0], rest[1], rest[2])
    except (KafkaLogError, OSError):
        return found
    return found


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort ranges, and join those that touch."""
    joined: list[tuple[int, int]] = []
    for first, end in sorted(ranges):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((first, end))
    return joined


def _without(ranges: Iterable[tuple[int, int]], holes: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges without the holes; an empty hole takes everything after it."""
    left = [each for each in ranges if each[0] < each[1]]
    for first, end in holes:
        end = _MOST if end == first else end  # noqa: PLW2901 - its end is not known
        cut = []
        for low, high in left:
            cut += [(low, min(high, first)), (max(low, end), high)]
        left = [each for each in cut if each[0] < each[1]]
    return left
