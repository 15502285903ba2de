"""Copying logs without what retention deletes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog import _arguments, _core
from kafkalog._times import clock
from kafkalog.tools.copy_reports import RetainReport
from kafkalog.tools.reports import from_core
from kafkalog.tools.soundness import Soundness, checked, way_out
from kafkalog.tools.topic_settings import topic_settings, topics_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog.config import Config
    from kafkalog.typing import StrPath, Time


def retain(
    source: StrPath,
    out: StrPath,
    *,
    now: Time | None = None,
    config: Config = None,
    dry_run: bool = False,
    progress: Callable[[str, int, int], object] | None = None,
) -> RetainReport:
    """Copy logs into a new log dir that a broker can mount, without the segments that a broker would delete.

    The rules and their order are Kafka's: segments before the log start offset are deleted, then the oldest ones while
    the log keeps ``retention.bytes`` without them, then those whose largest timestamp is more than ``retention.ms`` ago
    (without timestamps, the time at which the file was last modified). Whole segments are deleted, oldest first; the
    first one that must stay retains all those after it. Nothing above the checkpointed high watermark is deleted. If
    all segments are deleted, an empty one replaces them. If ``cleanup.policy`` does not include ``delete``, only
    segments before the log start offset are deleted. Deleted segments are not copied, and the remaining files keep
    their modification times. The source is not changed. Logs are loaded as at a broker's start, with the result of
    :func:`recover`. If the process is killed, ``out`` holds the file ``.kafkalog-unfinished``, and the same call starts
    over.

    Parameters
    ----------
    source : path
        A log dir, or a partition's folder.
    out : path
        A new log dir. Of a log dir, Kafka's other files and folders are copied as well; a folder that keeps a broker
        from starting is not, and the report names it.
    now : int, datetime or str, optional
        The time of the retention, in milliseconds since the epoch. Default: the system's
        clock.
    config : LogConfig or mapping, optional
        A ``LogConfig``: the settings of every topic. A mapping of Kafka's names to values: these, over each topic's
        own. Default: each topic's own, from the metadata log in the log dir, over Kafka's defaults. What a broker has
        in ``server.properties`` instead is in no log; give it here. Internal topics in a log dir keep their own.
    dry_run : bool
        Only report.
    progress : callable, optional
        Called periodically, in the caller's thread, with the phase (``written``), the bytes done and the bytes in all.
        An exception raised by the callback aborts the operation.

    Returns
    -------
    RetainReport
        The deleted segments of each partition, and the rules by which they were deleted.

    Raises
    ------
    ValueError
        If a topic's settings are unknown, if a topic uses tiered storage, or if ``out`` lies among logs.
    CorruptRecordError
        If Kafka would not load a log, or would discard healthy batches; or another ``KafkaLogError``.
    FileExistsError
        If ``out`` exists and is not empty.

    Examples
    --------
    >>> report = kafkalog.retain("/data/kafka-logs", "/backup/kafka-logs", dry_run=True)  # doctest: +SKIP
    >>> report.bytes_deleted  # doctest: +SKIP
    73014444032
    """
    path, target = _arguments.local(source), _arguments.local(out)
    dry_run = _arguments.flag("dry_run", dry_run)
    now_ms = clock(now)
    settings = topic_settings(path, config)
    settings.require(topics_in(path), path)
    others, topics = settings.compiled()
    tell = _arguments.function("progress", progress)
    soundness = Soundness(path) if dry_run else checked(path, target)
    with way_out():
        found = _core.retain(
            path,
            target,
            now_ms=now_ms,
            dry_run=dry_run,
            settings=others,
            topics=topics,
            progress=tell,
        )
    if not dry_run:
        soundness.finish(target)
    return from_core(
        RetainReport,
        found,
        out=None if dry_run else target,
        now_ms=now_ms,
        metadata_notes=settings.notes,
        source_errors=soundness.errors,
    )
