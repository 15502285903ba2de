"""Verifying every file of a log dir, without changing any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog import _arguments, _core

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.typing import Paths

__all__ = ["verify"]


def verify(path: Paths, level: str | None = None, *, threads: int | None = None) -> pa.Table:
    """Verify every file of log dirs, partition folders or single files. Nothing is written, locked or changed.

    Each file is checked by itself and against the others: batches (checksum, decompression, every record, order of
    offsets), offset, time and transaction indexes and producer snapshots against their log, leader epochs against
    the batches, segments against those before them, the log dir's checkpoints against the ends of the logs,
    identities of directories and topics against each other. The rules are those of every Kafka version from 0.8 on:
    what a broker writes, whether it runs, was stopped or was killed, gives no finding above ``info``.

    Parameters
    ----------
    path : path or list of paths
        A log dir, several log dirs of one cluster, a partition's folder, or a file in one of them. A file is verified
        with those around it, and only findings about it are returned.
    level : str, optional
        The Kafka version that is to read the files, for instance ``"2.8"``: batches in a format it does not know are
        errors. Default: any version.
    threads : int, optional
        Default: as many as there are processors. A large segment is divided among them.

    Returns
    -------
    pyarrow.Table
        One row for each finding, by file and position: ``file``, ``position`` and ``endPosition`` (bytes, null where a
        finding is about a whole file), ``severity`` (``info``, ``warning``, ``error``), ``code`` (stable, in
        kebab-case; ``kafkalog help damage`` lists all), ``topic``, ``partition``, ``offset`` (the first one it is
        about), ``message`` (what was expected, what was found), ``advice`` (what to do).

    Raises
    ------
    FileNotFoundError
        When the path does not exist.
    ValueError
        For a directory that holds files but none of Kafka's, and for a ``level`` that is not a Kafka version.

    Examples
    --------
    >>> findings = kafkalog.verify("/data/kafka-logs")  # doctest: +SKIP
    >>> findings.filter(pc.field("severity") != "info").num_rows  # doctest: +SKIP
    0
    """
    return table_of(path, level, threads, None)


def table_of(path: Paths, level: str | None, threads: int | None, progress: _core.VerifyProgress | None) -> pa.Table:
    """Verify, and note the progress."""
    import pyarrow as pa

    if level is not None and not isinstance(level, str):
        raise TypeError(f"level must be a Kafka version as text, for instance '4.3', not {level!r}")
    found = _core.verify(
        _arguments.paths(path),
        level=level,
        threads=0 if threads is None else _arguments.integer("threads", threads, 1),
        progress=progress,
    )
    return pa.table(found)
