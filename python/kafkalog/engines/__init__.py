"""Logs for query engines: DuckDB, Polars, DataFusion, Ibis and any reader of a ``pyarrow.dataset.Dataset``.

Importing this imports neither pyarrow nor an engine.
"""

# The modules, from the bottom:
#   expressions   a filter as a tree
#   regions       a tree as bounds
#   searches      a tree as a search in keys and values
#   source        bounds as planned ranges, and readers of them
#   counting      counts from headers
#   log_dataset   what pyarrow and engines call
#   polars_source what Polars calls

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from kafkalog import _arguments, _tiered, storage
from kafkalog._loose import STANDARD_INPUT
from kafkalog.options import DatasetKeywords, ReadOptions, ScanBatchesKeywords, expand_signature, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    from typing_extensions import Unpack

    from kafkalog.engines.log_dataset import LogDataset
    from kafkalog.tiers.opening import LayoutChoice
    from kafkalog.typing import Paths, StrPath

__all__ = ["dataset", "scan_polars"]


@overload
def dataset(
    path: Paths | None,
    topics: str | Iterable[str] | None = None,
    *,
    table: Literal["batches"] | None = None,
    max_disorder_ms: int | None = None,
    options: ReadOptions | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
    remote: StrPath | None = None,
    remote_layout: LayoutChoice = "auto",
    keyring: Mapping[str, StrPath] | None = None,
    **keywords: Unpack[DatasetKeywords],
) -> LogDataset: ...


@overload
def dataset(
    path: Paths | None,
    topics: str | Iterable[str] | None = None,
    *,
    table: str,
    max_disorder_ms: int | None = None,
    options: ReadOptions | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
    remote: StrPath | None = None,
    remote_layout: LayoutChoice = "auto",
    keyring: Mapping[str, StrPath] | None = None,
    **keywords: Any,
) -> ds.Dataset: ...


@expand_signature(DatasetKeywords)
def dataset(
    path: Paths | None,
    topics: str | Iterable[str] | None = None,
    *,
    table: str | None = None,
    max_disorder_ms: int | None = None,
    options: ReadOptions | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
    remote: StrPath | None = None,
    remote_layout: LayoutChoice = "auto",
    keyring: Mapping[str, StrPath] | None = None,
    **keywords: Any,
) -> LogDataset | ds.Dataset:
    """Return logs as a ``pyarrow.dataset.Dataset`` for query engines.

    DuckDB, Polars, DataFusion and Ibis request the columns and rows that a query needs. Only those columns are decoded,
    and bounds in the filter on topic, partition, offset, timestamp, producerId, magic and isControl skip partitions,
    segments and batches. Conditions on key and value (``=``, ``IN``, pyarrow's ``match_substring``, ``starts_with`` and
    the like) are searched for as by ``scan(containing=)``, before columns are built. Every query reads what the files
    hold by then.

    Parameters
    ----------
    path, topics, options
        As for :func:`kafkalog.scan`.
    table : str, optional
        ``batches``: a row for each of Kafka's batches instead of each record. Or the name of a function of
        ``kafkalog.tables``, whose table is read at once.
    max_disorder_ms : int, optional
        A guarantee about the log: no record is earlier than a record before it in its partition by more than so many
        milliseconds. With it, the time indexes end a read whose filter has an upper bound on timestamps. Without it,
        everything after the bound must be read: under CreateTime, producers may send any timestamp, and batch headers
        do not give the earliest of their records. If the log violates this bound, rows may be missing.
    storage_options, filesystem : optional
        The store of URLs, as for :func:`kafkalog.scan`.
    remote, remote_layout, keyring : optional
        Tiered storage, as for :func:`kafkalog.scan`. A dataset has the segments that the tier had when it was made.
    **keywords
        Any option of :class:`kafkalog.ReadOptions`; for ``batches`` those of :func:`kafkalog.scan_batches`; for another
        table what its function takes. The engine determines ``threads`` if it is not given.

    Returns
    -------
    kafkalog.engines.log_dataset.LogDataset or pyarrow.dataset.Dataset
        A ``LogDataset``, whose ``metrics`` count what queries read; of another table one in memory.

    Raises
    ------
    FileNotFoundError
        When the path does not exist.
    ValueError
        For invalid arguments, or an unknown table.

    Examples
    --------
    >>> logs = kafkalog.dataset("/var/lib/kafka/data", topics="orders")  # doctest: +SKIP
    >>> duckdb.sql("select count(*) from logs where timestamp >= now() - interval 1 hour")  # doctest: +SKIP
    """
    tier = {"remote": remote, "remote_layout": remote_layout, "keyring": keyring}
    store = {"storage_options": storage_options, "filesystem": filesystem}
    path, told = _located(path, topics, table, tier, store)
    return _opened(
        "dataset", path, topics, table=table, max_disorder_ms=max_disorder_ms, options=options, **keywords, **told
    )


def _located(
    path: Paths | None,
    topics: str | Iterable[str] | None,
    table: str | None,
    tier: dict[str, Any],
    store: dict[str, Any],
) -> tuple[Any, dict[str, Any]]:
    """Return paths for reading, and what the function of a table is to know of a tier."""
    if table in {None, "batches"}:
        return _tiered.located(path, topics=topics, **tier, **store), {}
    told = {name: value for name, value in tier.items() if value is not None and value != "auto"}
    if "remote" in told:
        told["remote"] = storage.located(told["remote"], **store)
    return None if path is None else storage.located(path, **store), told


def _opened(
    function: str,
    path: Paths,
    topics: str | Iterable[str] | None,
    *,
    table: str | None,
    max_disorder_ms: int | None,
    options: ReadOptions | None,
    **keywords: Any,
) -> LogDataset | ds.Dataset:
    given = {**keywords} if topics is None else {"topics": topics, **keywords}
    if table is not None and table != "batches":
        return _in_memory(table, path, given if options is None else {"options": options, **given})
    from kafkalog.engines.log_dataset import LogDataset
    from kafkalog.engines.source import Source

    taken = DatasetKeywords if table is None else ScanBatchesKeywords
    chosen = merged(function, ("topics", *taken.__annotations__), options, given)
    is_set = "threads" in keywords or (options is not None and "threads" in options.changed())
    disorder = _arguments.optional_integer("max_disorder_ms", max_disorder_ms, 0)
    source = Source(
        (path,) if path == STANDARD_INPUT else tuple(_arguments.paths(path)),
        chosen,
        table is not None,
        disorder,
        chosen.threads if is_set else None,
    )
    # A path or topic that does not exist is an error here, not in the first query.
    source.plan()
    # Nor one whose schemas are missing.
    _ = source.decoding
    return LogDataset(source)


@expand_signature(DatasetKeywords)
def scan_polars(
    path: Paths,
    topics: str | Iterable[str] | None = None,
    *,
    table: str | None = None,
    max_disorder_ms: int | None = None,
    options: ReadOptions | None = None,
    storage_options: Mapping[str, Any] | None = None,
    filesystem: object | None = None,
    remote: StrPath | None = None,
    remote_layout: LayoutChoice = "auto",
    keyring: Mapping[str, StrPath] | None = None,
    **keywords: Any,
) -> pl.LazyFrame:
    """Return logs as a Polars ``LazyFrame``, which reads only the columns and rows that a query needs.

    Parameters
    ----------
    path, topics, table, max_disorder_ms, options, **keywords
        As for :func:`dataset`.
    storage_options, filesystem, remote, remote_layout, keyring
        As for :func:`dataset`.

    Returns
    -------
    polars.LazyFrame
        Every ``collect`` reads what the files hold by then.

    Raises
    ------
    FileNotFoundError, ValueError
        As for :func:`dataset`.
    """
    from kafkalog.engines.polars_source import lazy_frame

    tier = {"remote": remote, "remote_layout": remote_layout, "keyring": keyring}
    store = {"storage_options": storage_options, "filesystem": filesystem}
    path, told = _located(path, topics, table, tier, store)
    given: dict[str, Any] = {"table": table, "max_disorder_ms": max_disorder_ms, "options": options, **keywords, **told}
    return lazy_frame(_opened("scan_polars", path, topics, **given))


def _in_memory(name: str, path: Paths, keywords: dict[str, Any]) -> ds.Dataset:
    import pyarrow.dataset as ds

    from kafkalog import tables

    if name not in tables.__all__:
        valid = ("batches", *tables.__all__)
        raise ValueError(f"unknown table {name!r}{_arguments.did_you_mean(name, valid)}; valid are {', '.join(valid)}")
    rows: pa.Table = getattr(tables, name)(path, **keywords)
    return ds.dataset(rows)
