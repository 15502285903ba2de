"""One partition, written from the pieces that were chosen for it.

A writer appends the pieces' batches as a follower does: checksums verified, offsets and leader epochs kept, indexes and
producer state built. Each partition is written in a log dir of its own and moved to where it belongs when it is whole;
one that was not is continued where it ends.
"""

from __future__ import annotations

import errno
import filecmp
import itertools
import os
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog import _core
from kafkalog._atomic_files import regular, replace, sync_folder
from kafkalog.config import LogConfig
from kafkalog.errors import CorruptRecordError
from kafkalog.index import TransactionIndex
from kafkalog.log import PartitionLog
from kafkalog.writer import LogWriter, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalog.rescue.model import Choice, Piece

# Segments end where those of the source end, and where Kafka's own limit is.
_CONFIG = LogConfig(segment_bytes=(1 << 31) - 1, segment_ms=(1 << 63) - 1)
# linux/fs.h
_FICLONE = 0x40049409
# What systems say of a link or a reflink that cannot be.
_CANNOT_SHARE = frozenset(
    {
        errno.EXDEV,
        errno.EPERM,
        errno.EOPNOTSUPP,
        errno.EMLINK,
        errno.ENOSYS,
        errno.ENOTTY,
        errno.EINVAL,
    }
)


def write_partition(
    choice: Choice,
    staging: Path,
    target: Path,
    *,
    records: Sequence[Record] = (),
    snapshot: bytes | None = None,
    link: bool = False,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Write a partition into a log dir; return the bytes of its segments.

    ``records`` are appended; ``snapshot`` is the state of producers at its end.
    """
    name = f"{choice.topic}-{choice.partition}"
    with LogWriter(staging, choice.topic, choice.partition, config=_CONFIG, topic_id=choice.topic_id) as writer:
        first = choice.local_start_offset
        if writer.log_end_offset == 0 < first:
            writer.truncate_fully(first)
        for piece in choice.pieces:
            _append(writer, piece, progress)
        _append_markers(writer, choice)
        if choice.pieces and writer.log_end_offset < choice.log_end_offset:
            raise CorruptRecordError(
                f"{choice.pieces[-1].replica.path}: offset {writer.log_end_offset}: expected batches up to offset "
                f"{choice.log_end_offset}, found the end of the log",
                choice.pieces[-1].replica.path,
                offset=writer.log_end_offset,
            )
        if writer.log_end_offset < choice.log_start_offset:
            writer.truncate_fully(choice.log_start_offset)
        if choice.log_start_offset > writer.log_start_offset:
            writer.delete_records(choice.log_start_offset)
        _append_records(writer, choice, records)
        end = writer.log_end_offset
    folder = staging / name
    for left in folder.glob("*.deleted"):
        left.unlink()
    _write_epochs(folder, choice, end)
    if snapshot is not None:
        _write_producers(folder, choice, snapshot)
    if link:
        _share(folder, choice)
    size = sum(segment.size for segment in PartitionLog(folder).segments)
    sync_folder(folder)
    folder.rename(target / name)
    return size


def _append_markers(writer: LogWriter, choice: Choice) -> None:
    """Append what ends the transactions that have no end, as ``kafka-transactions abort`` would."""
    if not choice.aborted:
        return
    if writer.log_end_offset > choice.local_start_offset:
        # Of an append that a kill has cut.
        writer.truncate(choice.local_start_offset)
    now = time.time_ns() // 1_000_000
    epoch = max(choice.leader_epochs)[0]
    markers = [
        _core.abort_marker(offset, epoch, (each.producer_id, each.producer_epoch), max(each.coordinator_epoch, 0), now)
        for offset, each in enumerate(choice.aborted, choice.local_start_offset)
    ]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / f"{choice.topic}-{choice.partition}"
        folder.mkdir()
        (folder / f"{choice.local_start_offset:020}.log").write_bytes(b"".join(markers))
        writer.append_batches(str(folder))


def _write_producers(folder: Path, choice: Choice, snapshot: bytes) -> None:
    """Write the state of producers at the end of the tier, and the index of the transactions that are aborted after it.

    A broker that loads the log applies the markers to that state; what the writer knew began with the markers.
    """
    first = choice.local_start_offset
    for made in folder.glob("*.snapshot"):
        made.unlink()
    (folder / f"{first:020}.snapshot").write_bytes(snapshot)
    if choice.aborted:
        path = folder / f"{first:020}.txnindex"
        path.unlink(missing_ok=True)
        with TransactionIndex(path, writable=True) as index:
            for n, each in enumerate(choice.aborted):
                # ProducerStateManager.lastStableOffset: up to the next one that is open
                left = [other.first_offset for other in choice.aborted[n + 1 :]]
                stable = min(left, default=first + n + 1)
                index.append(each.producer_id, each.first_offset, first + n, stable)


def _append_records(writer: LogWriter, choice: Choice, records: Sequence[Record]) -> None:
    """Append records after those of the pieces; some of them may be there from before a kill."""
    if records:
        if writer.log_end_offset > choice.log_end_offset:
            writer.truncate(choice.log_end_offset)
        writer.append(records)


def _append(writer: LogWriter, piece: Piece, progress: Callable[[int], None] | None) -> None:
    """Append what the log does not have of a piece yet, in segments that begin where those of the source do."""
    log = PartitionLog(piece.replica.path)
    first = max(piece.first_offset, writer.log_end_offset)
    if first >= piece.end_offset:
        return
    # Stopped at the end of a segment, the next one has not begun.
    is_filled = PartitionLog(writer.path).segments[-1].size > 0
    for planned in log.batches(starting_offsets=first, ending_offsets=piece.end_offset).take_batch_ranges():
        for segment in planned.segments:
            if is_filled and segment.base_offset >= writer.log_end_offset:
                writer.roll()
                is_filled = False
            for part in _around_damage(segment, piece):
                done = writer.append_batches(planned.with_segments([part]))
                is_filled |= done.bytes > 0
                if progress is not None:
                    progress(done.bytes)


def _around_damage(segment: _core.SegmentRange, piece: Piece) -> Iterator[_core.SegmentRange]:
    """Yield the parts of a segment between its damage, where they have offsets of the piece."""
    found = [each for each in piece.replica.damage if Path(each.segment).name == segment.file_name]
    position, offset = segment.start_position, segment.start_offset
    for each in sorted(found, key=lambda each: each.position):
        if each.position > position and each.first_offset > piece.first_offset:
            yield _part(segment, position, offset, (each.position, each.first_offset))
        position, offset = max(position, each.end_position), max(offset, each.end_offset)
    if position < segment.size and offset < piece.end_offset:
        yield _part(segment, position, offset, None)


def _part(segment: _core.SegmentRange, position: int, offset: int, end: tuple[int, int] | None) -> _core.SegmentRange:
    return _core.SegmentRange(
        base_offset=segment.base_offset,
        file_name=segment.file_name,
        size=segment.size,
        is_active=segment.is_active,
        start_position=position,
        next_base_offset=segment.next_base_offset,
        start_offset=offset,
        end_position=None if end is None else end[0],
        end_offset=None if end is None else end[1],
    )


def _write_epochs(folder: Path, choice: Choice, end: int) -> None:
    """Write the leader epochs of the plan: those without a batch that is left are known to the replicas alone."""
    epochs = [(epoch, first) for epoch, first in choice.leader_epochs if first < end]
    if not epochs:
        return
    # LeaderEpochFileCache.truncateFromStart: the last epoch that began by then begins at the log start.
    start = choice.log_start_offset
    before = [epoch for epoch, first in epochs if first <= start]
    epochs = [*((each, start) for each in before[-1:]), *(each for each in epochs if each[1] > start)]
    lines = "".join(f"{epoch} {first}\n" for epoch, first in epochs)
    replace(folder / "leader-epoch-checkpoint", f"0\n{len(epochs)}\n{lines}")


def _share(folder: Path, choice: Choice) -> None:
    """Replace closed segments by the sources' files where these have the same bytes.

    A broker appends to the last segment alone. It removes or replaces others, and cuts one only as a follower of a
    leader that has less.
    """
    folders = {piece.replica.path for piece in choice.pieces}
    sources = [each for path in sorted(folders) for each in Path(path).glob("*.log")]
    by_size = defaultdict[int, list[Path]](list)
    for source in sources:
        by_size[source.stat().st_size].append(source)
    for log in sorted(folder.glob("*.log"))[:-1]:
        same = (each for each in by_size[log.stat().st_size] if filecmp.cmp(log, each, shallow=False))
        for found in itertools.islice(same, 1):
            _share_file(found, log)


def _share_file(source: Path, target: Path) -> None:
    """Give a file the blocks of another: as a reflink, which no write goes through, or else as a hard link."""
    beside = target.with_name(f"{target.name}.tmp")
    for share in (_reflink, os.link):
        beside.unlink(missing_ok=True)
        try:
            share(source, beside)
        except OSError as error:
            # Another file system, or one that cannot; after the second the copy stays.
            if error.errno not in _CANNOT_SHARE:
                raise
        else:
            beside.replace(target)
            return
    beside.unlink(missing_ok=True)


def _reflink(source: Path, target: Path) -> None:
    """Create a file of the same blocks, which are copied when either is written to (Btrfs, XFS and others on Linux)."""
    if sys.platform != "linux":
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP), str(target))
    import fcntl

    with open(source, "rb", opener=regular) as old, target.open("xb") as new:
        fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        os.fsync(new.fileno())
        about = os.fstat(old.fileno())
    # Retention falls back on it.
    os.utime(target, ns=(about.st_atime_ns, about.st_mtime_ns))
