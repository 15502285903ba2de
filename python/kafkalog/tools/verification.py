"""Verifying every file of a log dir, without changing any."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from kafkalog import _arguments, _core, storage
from kafkalog._loose import Loose, ensure_named, loose, naming
from kafkalog._renamed import renamed

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.tiers.opening import LayoutChoice
    from kafkalog.typing import Paths, StrPath


@renamed(level="kafka_version")
def verify(
    path: Paths | None,
    kafka_version: str | None = None,
    *,
    headers_only: bool = False,
    threads: int | None = None,
    topic: str | None = None,
    partition: int | None = None,
    remote: StrPath | None = None,
    remote_layout: LayoutChoice = "auto",
    keyring: Mapping[str, StrPath] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
) -> pa.Table:
    """Verify every file of log dirs, partition folders or single files. Nothing is written, locked or changed.

    Each file is checked alone and against the others: batches (checksum, decompression, every record, order of
    offsets), offset, time and transaction indexes and producer snapshots against their log, leader epochs against
    the batches, segments against those before them, the log dir's checkpoints against the ends of the logs,
    identities of directories and topics against each other. The rules are those of every Kafka version from 0.8 on:
    files of a broker that runs, was stopped or was killed give no finding above ``info``.

    Parameters
    ----------
    path : path, list of paths or None
        A log dir, several log dirs of one cluster, a partition's folder, or a file in one of them; None verifies a tier
        alone. A file is verified with those around it, and only findings about it are returned. Also a segment under
        any name, compressed (gzip, zstd, lz4) or ``-`` for standard input, and a ``.tar`` of a log dir: at most 2 GiB
        go to temporary files.
    kafka_version : str, optional
        The Kafka version that is to read the files, for instance ``"2.8"``: batches in a format it does not know are
        errors. Default: any version.
    headers_only : bool
        Whether batches are known by their headers: without checksums and records, which most of the bytes are.
    threads : int, optional
        Default: as many as there are processors. A large segment is divided among them.
    topic, partition : str, int, optional
        Those of a segment outside a partition's folder. Default: unknown, null.
    remote, remote_layout, keyring : optional
        Tiered storage of the log dirs, as for :func:`kafkalog.scan`: its objects are verified, too, and the logs of the
        copies that serve reads are read whole. ``kafkalog help tiered`` lists the codes.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`. Every object is read whole, indexes too.

    Returns
    -------
    pyarrow.Table
        One row for each finding, by file and position: ``file``, ``position`` and ``endPosition`` (bytes, null where a
        finding is about a whole file), ``severity`` (``info``, ``warning``, ``error``), ``code`` (stable, in
        kebab-case; ``kafkalog help damage`` lists all), ``topic``, ``partition``, ``offset`` (the first one concerned),
        ``message`` (what was expected, what was found), ``advice`` (what to do).

    Raises
    ------
    FileNotFoundError
        When the path does not exist.
    ValueError
        For a directory that has files but none of Kafka's, and for an invalid ``kafka_version``.

    Examples
    --------
    >>> findings = kafkalog.verify("/data/kafka-logs")  # doctest: +SKIP
    >>> findings.filter(pc.field("severity") != "info").num_rows  # doctest: +SKIP
    0
    """
    if path is None and remote is None:
        raise ValueError("path is None: only a tier (remote) can be verified without log dirs")
    path = None if path is None else storage.located(path, storage_options, filesystem)
    found = table_of(path, kafka_version, threads, None, headers_only=headers_only, topic=topic, partition=partition)
    if remote is None:
        return found
    remote = storage.located(remote, storage_options, filesystem)
    return with_tier(found, path, remote, remote_layout, keyring, headers_only=headers_only)


def with_tier(
    found: pa.Table,
    path: Paths | None,
    remote: StrPath,
    layout: LayoutChoice = "auto",
    keyring: Mapping[str, StrPath] | None = None,
    *,
    headers_only: bool = False,
    announce: Callable[[str], None] | None = None,
    wanted: Callable[[str, int], bool] | None = None,
) -> pa.Table:
    """Return findings and those about a tier, or about the partitions in it that are wanted.

    ``announce`` gets the cost of verifying it, before anything is read.
    """
    import pyarrow as pa

    from kafkalog.tiers.findings import cost, findings
    from kafkalog.tiers.mounting import open_mounted

    tier, roots = open_mounted(path, remote, layout, keyring or {}, wanted)
    if announce is not None:
        announce(str(cost(tier)))
    rows = list(findings(tier, roots, headers_only=headers_only))
    return pa.concat_tables([found, pa.Table.from_pylist(rows, schema=found.schema)])


def table_of(
    path: Paths | None,
    kafka_version: str | None,
    threads: int | None,
    progress: _core.VerifyProgress | None,
    *,
    headers_only: bool = False,
    topic: str | None = None,
    partition: int | None = None,
) -> pa.Table:
    """Verify, and note the progress; None has no findings."""
    import pyarrow as pa

    if kafka_version is not None and not isinstance(kafka_version, str):
        raise TypeError(f"kafka_version must be text, for instance '4.3', not {kafka_version!r}")
    named: Any = [] if path is None else [path] if isinstance(path, (str, os.PathLike)) else path
    place = (
        _arguments.text("topic", topic),
        _arguments.optional_integer("partition", partition, 0, _arguments.INT32_MAX),
    )
    if isinstance(named, Iterable):
        # Refused before anything is opened.
        named = [each if each == "-" or isinstance(each, Loose) else _arguments.path(each) for each in named]
    read = [loose(each, *place) or each for each in named] if isinstance(named, Iterable) else named
    if isinstance(read, list):
        ensure_named(read, *place)
    outside = [each for each in read if isinstance(each, Loose)]
    with ExitStack() as stack:
        for each in outside:
            stack.enter_context(naming(each))
        found = pa.table(
            _core.verify(
                [] if path is None else _arguments.paths(read),
                level=kafka_version,
                headers_only=_arguments.flag("headers_only", headers_only),
                threads=0 if threads is None else _arguments.integer("threads", threads, 1),
                progress=progress,
            )
        )
    for each in outside:
        found = pa.Table.from_pylist([_renamed(row, each) for row in found.to_pylist()], schema=found.schema)
    return found


def _renamed(row: dict[str, Any], outside: Loose) -> dict[str, Any]:
    """Return a finding with the path that was given, and without the names that only the temporary folder has."""
    file = outside.shown(row["file"])
    if file == row["file"]:
        return row
    names = {"topic": outside.topic, "partition": outside.partition} if outside.is_segment else {}
    return {**row, **names, "file": file, "message": outside.shown(row["message"])}
