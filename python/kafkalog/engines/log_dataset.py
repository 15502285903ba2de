"""Logs as a ``pyarrow.dataset.Dataset``, which query engines push their columns and filters into.

DuckDB, Polars, DataFusion and pyarrow call Python methods of a dataset for its scanner, batches or fragments. The
methods of pyarrow that use the dataset in C++ are overridden here. Its functions that use it get a dataset of one file,
into which the rows are written when it is opened.
"""

from __future__ import annotations

import atexit
import os
import time
from abc import ABC, abstractmethod
from io import UnsupportedOperation
from tempfile import NamedTemporaryFile
from threading import Event
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakSet

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import acero, fs

from kafkalog._splitting import default_split_bytes, split_ranges
from kafkalog.engines.counting import count
from kafkalog.engines.source import Metrics, Plan, Source

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from kafkalog._core import PartitionRange
    from kafkalog.reader import RecordReader
    from kafkalog.typing import Layout

__all__ = ["LogDataset", "LogFragment"]

# Rows that Arrow's scanner does not divide into smaller batches: more than a reader puts into one.
_BATCH_SIZE = 1 << 20
_EVERY_ROW = pc.scalar(True)  # noqa: FBT003 - a literal


# What threads of Arrow or Polars iterate over, which read ahead of the query, and do not stop when it does.
READ_AHEAD: WeakSet[Any] = WeakSet()
ENDING = Event()
_QUIET, _MOST_WAITS, _WAIT_SECONDS = 3, 250, 0.02


@atexit.register
def _end_reads() -> None:
    """Let those threads come to rest: one that calls Python while it ends crashes the process."""
    ENDING.set()
    quiet = 0
    for _ in range(_MOST_WAITS):
        left = list(READ_AHEAD)
        if quiet == _QUIET or not left:
            return
        time.sleep(_WAIT_SECONDS)
        is_busy = any(each.gi_running for each in left) or len(READ_AHEAD) != len(left)
        quiet = 0 if is_busy else quiet + 1


if hasattr(os, "register_at_fork"):
    # The threads are not in the child.
    os.register_at_fork(after_in_child=READ_AHEAD.clear)


class _Readable(ABC):
    """Base of a dataset and its fragments: pyarrow's ways to read them."""

    _source: Source
    _metrics: Metrics
    _condition: pc.Expression | None

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._source.schema

    @abstractmethod
    def _plan(self, condition: pc.Expression | None) -> Plan:
        """Choose what to read for a filter."""

    @abstractmethod
    def _threads(self, *, use_threads: bool) -> int:
        """Return how many threads may decode."""

    def scanner(
        self,
        schema: pa.Schema | None = None,  # noqa: ARG002 - fragments of pyarrow take it
        *,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int | None = None,
        use_threads: bool = True,
        **_: Any,
    ) -> ds.Scanner:
        """Plan a read of some columns and rows.

        Parameters
        ----------
        schema : pyarrow.Schema, optional
            Ignored; the dataset's schema is used.
        columns : list of str, or dict of str to pyarrow.compute.Expression, optional
            Columns, or what to compute from them. Only what these and the filter name is decoded.
        filter : pyarrow.compute.Expression, optional
            Which rows. Bounds in it choose files, places in them and batches.
        batch_size : int, optional
            At most so many rows in a batch.
        use_threads : bool
            Whether several threads may decode: as many as pyarrow has, if the option ``threads`` was not given.

        Returns
        -------
        pyarrow.dataset.Scanner
            It can be read once.
        """
        condition = _joined(self._condition, filter)
        plan = self._plan(condition)
        own = self._source.schema
        names: Any = own.names if columns is None else columns
        computed = list(columns.values()) if isinstance(columns, dict) else []
        read = self._source.columns_for([] if computed else names, plan.condition, *computed)
        size = batch_size or _BATCH_SIZE
        # Arrow has no functions for views.
        is_plain = plan.condition is not None or bool(computed)
        layout = "binary" if is_plain else self._source.options.layout
        batches = self._batches(plan, read, batch_size, self._threads(use_threads=use_threads), layout)
        scanner: ds.Scanner = ds.Scanner.from_batches(
            batches, columns=names, filter=plan.condition, use_threads=use_threads, batch_size=size
        )
        if layout == self._source.options.layout or computed:
            return scanner
        views = scanner.to_reader().cast(pa.schema([own.field(name) for name in names]))
        return ds.Scanner.from_batches(views, use_threads=use_threads, batch_size=size)

    def _batches(
        self, plan: Plan, columns: list[str], rows: int | None, threads: int, layout: Layout
    ) -> pa.RecordBatchReader:
        reader = self._source.open(plan, columns, threads=threads, batch_rows=rows, layout=layout)
        schema = reader.schema
        if self._source.is_batches:
            schema = pa.schema([schema.field(name) for name in columns])
        batches = self._counted(reader, plan, columns)
        READ_AHEAD.add(batches)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def _counted(self, reader: RecordReader, plan: Plan, columns: list[str]) -> Generator[pa.RecordBatch, None, None]:
        # Not before: DataFusion makes scanners that it only asks for their schema.
        self._metrics.add({"total": plan.total})
        counted: dict[str, int] = {}
        with reader:
            try:
                for batch in reader:
                    if ENDING.is_set():
                        return
                    counted = self._count(reader.metrics, counted)
                    yield batch.select(columns) if self._source.is_batches else batch
            finally:
                self._count(reader.metrics, counted)
                if self._source.options.on_corrupt == "skip":
                    self._metrics.lose(reader.lost)

    def rows_within(
        self, columns: Iterable[str], bounds: pc.Expression | None = None, *, batch_rows: int | None, limit: int | None
    ) -> Iterator[pa.RecordBatch]:
        """Read columns, and fields of them, of all rows within the bounds in a filter, which the caller applies itself.

        Only this thread calls Python. A scanner of Arrow reads on in others until the process ends, which they crash.
        """
        plan = self._plan(_joined(self._condition, bounds))
        read = self._source.columns_for(columns, self._condition)
        threads = self._threads(use_threads=True)
        layout = self._source.options.layout
        reader = self._source.open(plan, read, threads=threads, batch_rows=batch_rows, layout=layout, limit=limit)
        yield from self._counted(reader, plan, read)

    def _count(self, counts: dict[str, int], counted: dict[str, int]) -> dict[str, int]:
        self._metrics.add({name: number - counted.get(name, 0) for name, number in counts.items()})
        return counts

    def to_batches(self, schema: pa.Schema | None = None, **options: Any) -> Iterator[pa.RecordBatch]:
        """Read batches in the order of the log; the parameters are those of :meth:`scanner`."""
        return self.scanner(schema, **options).to_batches()

    def to_table(self, schema: pa.Schema | None = None, **options: Any) -> pa.Table:
        """Read everything into a table, in the order of the log; the parameters are those of :meth:`scanner`."""
        return self.scanner(schema, **options).to_table()

    def head(self, num_rows: int, **options: Any) -> pa.Table:
        """Read at most this many rows, the first ones; the options are those of :meth:`scanner`."""
        return self.scanner(**options).head(num_rows)

    def take(self, indices: Any, **options: Any) -> pa.Table:
        """Read rows by their number from 0, in the given order; all rows are read for it.

        The options are those of :meth:`scanner`.
        """
        return self.to_table(**options).take(indices)

    def count_rows(self, filter: pc.Expression | None = None, **_: Any) -> int:  # noqa: A002 - pyarrow's name
        """Count the rows that :meth:`to_table` gives: from batch headers, without checksums, if they show it."""
        plan = self._plan(_joined(self._condition, filter))
        rest: list[PartitionRange] = plan.ranges
        known = 0
        # Records that are not decoded may be left out.
        is_counted = not self._source.is_batches and self._source.options.on_undecoded != "skip"
        if is_counted and plan.condition is None and not plan.headers:
            known, rest = count(plan.ranges, self._source.options, self._metrics)
        read = self._source.columns_for([], plan.condition)
        left = Plan(rest, plan.total, plan.headers)
        batches = self._batches(left, read, None, self._threads(use_threads=True), "binary")
        if plan.condition is None:
            return known + sum(batch.num_rows for batch in batches)
        return known + ds.Scanner.from_batches(batches, columns=[], filter=plan.condition).count_rows()


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise UnsupportedOperation("logs are read only through a dataset")


class _OneFile(fs.FileSystemHandler):
    """A file system of one file, which is written anew for each read in C++: the rows of a dataset as Arrow IPC.

    The columns and the filter of the dataset reach the logs. Those of such a read do not: Arrow applies them to all
    rows of the file, which lies in the folder for temporary files.
    """

    NAME = "logs"

    def __init__(self, source: Source, condition: pc.Expression | None, metrics: Metrics) -> None:
        self._source, self._condition, self._metrics = source, condition, metrics

    def get_type_name(self) -> str:
        return "kafkalog"

    def normalize_path(self, path: str) -> str:
        return path

    def open_input_file(self, _: str) -> pa.NativeFile:
        plan, schema = self._source.plan(self._condition), self._source.schema
        self._metrics.add({"total": plan.total})
        columns = self._source.columns_for(schema.names, plan.condition)
        # Arrow has no functions for views.
        layout = self._source.options.layout if plan.condition is None else "binary"
        reader = self._source.open(plan, columns, layout=layout)
        with NamedTemporaryFile(prefix="kafkalog-", suffix=".arrow") as file:
            with reader, pa.OSFile(file.name, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
                for batch in reader:
                    writer.write(self._chosen(batch, plan.condition).select(schema.names).cast(schema))
                self._metrics.add(reader.metrics)
                if self._source.options.on_corrupt == "skip":
                    self._metrics.lose(reader.lost)
            # It has no name from here on, and is gone when the read ends. A buffer is read at once: on Arrow's I/O
            # threads RecordBatchFileReader::Open waits for reads of files by the same threads, and all may be waiting.
            return pa.BufferReader(pa.memory_map(file.name).read_buffer())

    @staticmethod
    def _chosen(batch: pa.RecordBatch, condition: pc.Expression | None) -> pa.Table:
        rows = pa.Table.from_batches([batch])
        if condition is None:
            return rows
        # By this thread alone: a scanner, or Table.filter, waits for threads that may all wait for this file.
        source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
        kept = acero.Declaration("filter", acero.FilterNodeOptions(condition), [source])
        return kept.to_table(use_threads=False)


# What pyarrow asks of a file system besides.
_OneFileSystem: Any = type(
    "_OneFileSystem",
    (_OneFile,),
    {name: _refuse for name in fs.FileSystemHandler.__abstractmethods__ if name not in vars(_OneFile)},
)


class LogDataset(_Readable, ds.FileSystemDataset):  # type: ignore[misc]
    """Records, or Kafka's batches, of log dirs for query engines.

    Obtained from :func:`kafkalog.dataset`. Every query lists the files and reads what they hold by then. Pickles as its
    paths and options.
    """

    def __init__(self, source: Source, condition: pc.Expression | None = None, metrics: Metrics | None = None) -> None:
        self._source = source
        self._condition = condition
        self._metrics = Metrics() if metrics is None else metrics
        # Functions of pyarrow that scan a dataset in C++ crash where there is none.
        form, files = ds.IpcFileFormat(), fs.PyFileSystem(_OneFileSystem(source, condition, self._metrics))
        super().__init__([form.make_fragment(_OneFile.NAME, files)], source.schema, form, files)

    def __reduce__(self) -> tuple[Any, ...]:
        return LogDataset, (self._source, self._condition)

    def __repr__(self) -> str:
        shown = "" if self._condition is None else f", where {self._condition}"
        rows = "batches" if self._source.is_batches else "records"
        return f"<kafkalog.LogDataset, {rows} of {', '.join(self._source.paths)}{shown}>"

    @property
    def files(self) -> list[str]:
        """The paths that were given."""
        return list(self._source.paths)

    @property
    def partition_expression(self) -> pc.Expression:
        """Expression that is true of all rows."""
        return _EVERY_ROW if self._condition is None else self._condition

    @property
    def metrics(self) -> dict[str, int]:
        """Counters of all queries since the dataset was made, or since :meth:`reset_metrics`.

        ``bytes_read`` of batches, and of the headers of skipped ones; ``bytes_skipped``,
        all others of the partitions; and the counters of ``RecordReader.metrics``. A pickled copy counts for itself.
        A disk reads in pages: for headers, more than these bytes.
        """
        return self._metrics.snapshot()

    @property
    def lost(self) -> pa.Table:
        """Ranges that queries skipped because of damage (``on_corrupt="skip"``), as ``RecordReader.lost``.

        Of all queries, as :attr:`metrics`: a range that two of them met is there twice.
        """
        tables = self._metrics.lost()
        return pa.concat_tables(tables) if tables else self._source.open(Plan([], 0), ["partition"]).lost

    def reset_metrics(self) -> None:
        """Let :attr:`metrics` and :attr:`lost` begin again from nothing."""
        self._metrics.reset()

    def filter(self, expression: pc.Expression | None) -> LogDataset:
        """Return the dataset with a filter that is combined with those of all queries; None takes it away."""
        condition = None if expression is None else _joined(self._condition, expression)
        return LogDataset(self._source, condition, self._metrics)

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[LogFragment]:  # noqa: A002
        """Divide what a filter needs into parts that can be read side by side, also by other processes.

        They are in the order of the rows. Bounds in the filter choose files; the rest is for the scanner of a fragment.
        """
        condition = _joined(self._condition, filter)
        plan = self._plan(condition)
        size = default_split_bytes(sum(each.bytes for each in plan.ranges))
        left_out = plan.total - sum(each.bytes for each in plan.ranges)
        self._metrics.add({"total": left_out})
        # The latest record of a key may be anywhere in its partition.
        is_latest = self._source.options.latest_per_key
        whole = self._source.options.on_corrupt == "skip"
        divided = (
            [[each] for each in plan.ranges] if is_latest else split_ranges(plan.ranges, size, whole_segments=whole)
        )
        for share in divided:
            total = sum(each.bytes for each in share)
            part = Plan(list(share), total, plan.headers)
            answered = condition if plan.condition is None else None
            yield LogFragment(self._source, part, self._condition, answered, self._metrics)

    def _get_fragments(self, filter: pc.Expression | None) -> Iterator[LogFragment]:  # noqa: A002 - pyarrow's name
        return self.get_fragments(filter)

    def replace_schema(self, schema: pa.Schema) -> Any:
        """Read everything and return it with another schema."""
        return self._in_memory().replace_schema(schema)

    def sort_by(self, sorting: Any, **options: Any) -> Any:
        """Read everything and return it sorted, as ``pyarrow.dataset.Dataset.sort_by``."""
        return self._in_memory().sort_by(sorting, **options)

    def join(self, right_dataset: ds.Dataset, keys: Any, **options: Any) -> Any:  # type: ignore[override]
        """Read everything and return it joined with another dataset, as ``pyarrow.dataset.Dataset.join``."""
        return self._in_memory().join(_in_memory(right_dataset), keys, **options)

    def join_asof(  # type: ignore[override]
        self, right_dataset: ds.Dataset, on: str, by: Any, tolerance: int, **options: Any
    ) -> Any:
        """Read everything and return it joined by the nearest key, as ``pyarrow.dataset.Dataset.join_asof``."""
        return self._in_memory().join_asof(_in_memory(right_dataset), on, by, tolerance, **options)

    def _in_memory(self) -> Any:
        return ds.dataset(self.to_table())

    def _plan(self, condition: pc.Expression | None) -> Plan:
        return self._source.plan(condition)

    def _threads(self, *, use_threads: bool) -> int:
        if not use_threads:
            return 1
        return self._source.threads or pa.cpu_count()


class LogFragment(_Readable):
    """A part of a :class:`LogDataset`, to be read by one thread; pickles as what it reads."""

    def __init__(
        self,
        source: Source,
        plan: Plan,
        condition: pc.Expression | None,
        answered: pc.Expression | None,
        metrics: Metrics,
    ) -> None:
        self._source = source
        self._planned = plan
        self._condition = condition
        # A filter that is true of all rows of the plan.
        self._answered = answered
        self._metrics = metrics

    def __reduce__(self) -> tuple[Any, ...]:
        if self._source.is_loose:
            raise TypeError("a part of a file outside a log dir cannot be pickled; pickle the dataset")
        return _restored, (self._source, self._planned, self._condition, self._answered)

    def __repr__(self) -> str:
        size = sum(each.bytes for each in self._planned.ranges)
        return f"<kafkalog.LogFragment, {len(self._planned.ranges)} partitions, {size} bytes>"

    @property
    def physical_schema(self) -> pa.Schema:
        """The same."""
        return self._source.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """Expression that is true of all rows; it states nothing."""
        return _EVERY_ROW

    def _plan(self, condition: pc.Expression | None) -> Plan:
        plan = self._planned
        answered: Any = self._answered
        is_answered = condition is not None and answered is not None and answered.equals(condition)
        return Plan(plan.ranges, plan.total, plan.headers, None if is_answered else condition)

    def _threads(self, *, use_threads: bool) -> int:  # noqa: ARG002 - the engine reads fragments side by side
        return 1


def _restored(
    source: Source, plan: Plan, condition: pc.Expression | None, answered: pc.Expression | None
) -> LogFragment:
    return LogFragment(source, plan, condition, answered, Metrics())


def _joined(one: pc.Expression | None, other: pc.Expression | None) -> pc.Expression | None:
    if one is None or other is None:
        return one if other is None else other
    return one & other


def _in_memory(dataset: ds.Dataset) -> ds.Dataset:
    return ds.dataset(dataset.to_table()) if isinstance(dataset, LogDataset) else dataset
