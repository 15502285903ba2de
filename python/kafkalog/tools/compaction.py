"""Copying logs and compacting the copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kafkalog import _arguments, _core
from kafkalog._times import clock
from kafkalog.tools.copy_reports import CompactReport
from kafkalog.tools.reports import from_core
from kafkalog.tools.soundness import Soundness, checked, way_out
from kafkalog.tools.topic_settings import topic_settings, topics_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog.config import Config, LogConfig
    from kafkalog.typing import StrPath, Time


def compact(
    source: StrPath,
    out: StrPath,
    *,
    now: Time | None = None,
    config: Config = None,
    dry_run: bool = False,
    on_corrupt: Literal["raise", "skip"] = "raise",
    roll: bool = False,
    map_bytes: int = 128 << 20,
    progress: Callable[[str, int, int], object] | None = None,
) -> CompactReport:
    """Copy logs into a new log dir that a broker can mount, and compact the copy as Kafka's log cleaner does.

    The last record of each key is kept, under its offset. The rules are Kafka's: a partition is compacted if its
    topic's ``cleanup.policy`` includes ``compact`` and the share of bytes that were not compacted before is above
    ``min.cleanable.dirty.ratio``. Compaction stops before the active segment, an open transaction, the checkpointed
    high watermark, and segments younger than ``min.compaction.lag.ms``. Records without a key and data of aborted
    transactions are removed. Tombstones and transaction markers get a delete horizon, ``delete.retention.ms`` from now,
    and are removed by the first compaction after it. Batches that lose nothing are copied byte for byte; others keep
    their codec. With ``compact,delete``, retention deletes whole segments afterwards.

    The source is not changed. Logs are loaded as at a broker's start, with the result of :func:`recover`; the checksum
    of every compacted batch is verified, which a broker does not do. If the process is killed, ``out`` holds the file
    ``.kafkalog-unfinished``, and the same call starts over.

    Parameters
    ----------
    source, now, config, progress
        As for :func:`retain`; the phases are ``written``, then ``compacted``, in a dry run only ``compacted``.
    out : path
        As for :func:`retain`. It needs space for the copy and, while a group of segments is compacted, for its result.
    dry_run : bool
        Only report, with the figures of a run. Nothing is written, in ``out`` or elsewhere. Where the keys of a
        partition do not fit into ``map_bytes``, the figures are those of the first pass, and its report has
        ``more_passes``: a run removes at least as much.
    on_corrupt : {"raise", "skip"}
        ``"raise"``: damage is an error, and so are bytes that recovery would cut. ``"skip"``: every segment is checked,
        damaged batches are left out, and the rest is compacted; the report names what was lost.
    roll : bool
        Roll the active segment first, so that it can be compacted too. Kafka waits for ``segment.ms``.
    map_bytes : int
        Memory for the offsets of keys, in bytes: 24 per key, of which nine tenths are used, like a broker's
        ``log.cleaner.dedupe.buffer.size``. More keys take more passes. Partitions are compacted by as many threads as
        there are processors, which share this memory.

    Returns
    -------
    CompactReport
        The records kept and bytes saved, partition by partition.

    Raises
    ------
    ValueError
        If a topic's settings are unknown, if the one partition to compact is not of a compacted topic, or if ``out``
        lies among logs.
    CorruptRecordError
        If a log is damaged; or another ``KafkaLogError``.
    CorruptIndexError
        If a transaction index lacks an aborted transaction: the cleaner would take its records for the latest of their
        keys. ``rebuild_indexes`` repairs it.
    FileExistsError
        If ``out`` exists and is not empty.

    Examples
    --------
    >>> report = kafkalog.compact("/data/kafka-logs", "/backup/kafka-logs")  # doctest: +SKIP
    >>> report.bytes_saved  # doctest: +SKIP
    51104844032
    """
    path, target = _arguments.local(source), _arguments.local(out)
    dry_run, roll = _arguments.flag("dry_run", dry_run), _arguments.flag("roll", roll)
    on_corrupt = _arguments.choose("on_corrupt", on_corrupt, ("raise", "skip"))
    map_bytes = _arguments.integer("map_bytes", map_bytes, 48)
    now_ms = clock(now)
    settings = topic_settings(path, config)
    topics = topics_in(path)
    settings.require(topics, path)
    _require_compacted(path, [settings.of(topic) for topic in topics])
    others, named = settings.compiled()
    tell = _arguments.function("progress", progress)
    soundness = Soundness(path) if dry_run else checked(path, target)
    soundness.require_aborted({topic for topic in topics if _is_compacted(settings.of(topic))})
    with way_out(on_corrupt):
        found = _core.compact(
            path,
            target,
            now_ms=now_ms,
            map_bytes=map_bytes,
            dry_run=dry_run,
            on_corrupt=on_corrupt,
            roll=roll,
            settings=others,
            topics=named,
            progress=tell,
        )
    if not dry_run:
        soundness.finish(target)
    return from_core(
        CompactReport,
        found,
        out=None if dry_run else target,
        now_ms=now_ms,
        metadata_notes=settings.notes,
        source_errors=soundness.errors,
    )


def _is_compacted(config: LogConfig | None) -> bool:
    return config is None or "compact" in config.cleanup_policy


def _require_compacted(path: str, configs: list[LogConfig | None]) -> None:
    """Refuse a source without a compacted topic: nothing would become smaller."""
    policies = {config.cleanup_policy for config in configs if config is not None}
    if policies and not any("compact" in policy for policy in policies):
        found = " and ".join(repr(policy) for policy in sorted(policies))
        raise ValueError(
            f"{path}: no topic is compacted: cleanup.policy is {found}; "
            'give {"cleanup.policy": "compact"} as config to compact anyway'
        )
