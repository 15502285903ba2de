"""Options of every function that reads, in one list.

``scan``, ``read_table``, ``scan_batches`` and the methods of ``PartitionLog`` take any of them by keyword, and all of
them at once as ``options=ReadOptions(...)``.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar

from kafkalog import _arguments, _core
from kafkalog._renamed import renamed, with_new_names
from kafkalog._times import to_millis
from kafkalog._typed_values import check_reader_schema, check_schemas
from kafkalog.schema import DECODED_COLUMNS, RECORD_COLUMNS, decoded_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalog.typing import (
        EndingOffsets,
        Layout,
        Partitions,
        ReaderSchema,
        Schemas,
        StartingOffsets,
        Time,
        Timestamps,
        TimestampUnit,
    )

__all__ = ["ReadOptions"]

RENAMED = {"latest": "latest_per_key"}
"""Options by their old names, which are accepted for now."""

IsolationLevel = Literal["read_uncommitted", "read_committed"]

_RECORD_COLUMN_NAMES = tuple(column.name for column in RECORD_COLUMNS)
_DECODED_COLUMN_NAMES = tuple(column.name for column in DECODED_COLUMNS)


# Takes the name and the value of an option, and returns the normalized value.
_Check: TypeAlias = "Callable[[str, Any], Any]"


def _topics(name: str, given: Any) -> tuple[str, ...] | None:
    found = _arguments.names(name, given)
    return None if found is None else tuple(found)


def _pattern(name: str, given: Any) -> str | None:
    if given is not None and not isinstance(given, str):
        raise TypeError(f"{name} must be a regular expression as str, not {given!r}")
    return given


def _columns(_: str, given: Any) -> tuple[str, ...] | None:
    return _RECORD_COLUMN_NAMES if given == "*" else column_names(given)


def column_names(given: Any) -> tuple[str, ...] | None:
    """Check names of columns, and of fields of decoded ones."""
    valid = (*_RECORD_COLUMN_NAMES, *_DECODED_COLUMN_NAMES)
    found = _arguments.names("columns", given)
    nested = [name for name in found or () if name.startswith(("key.", "value."))]
    if found is None or not nested:
        return _arguments.column_names(found, valid)
    # Fields of one column stand where its first one is named.
    whole = dict.fromkeys(name.partition(".")[0] if name in nested else name for name in found)
    _arguments.column_names(list(whole), valid)
    return tuple(found)


def _literal(name: str, given: Any) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, (bytearray, memoryview)):
        return bytes(given)
    raise TypeError(f"{name} must be bytes or str, not {given!r}")


def _fields(name: str, given: Any) -> tuple[str, ...]:
    return tuple(_arguments.names(name, given) or ())


def _number(least: int = _arguments.INT64_MIN, most: int = _arguments.INT64_MAX) -> _Check:
    return lambda name, given: _arguments.optional_integer(name, given, least, most)


def _minimum(name: str, given: Any) -> int | None:
    return None if given is None else to_millis(given, name)


def _maximum(name: str, given: Any) -> int | None:
    return None if given is None else to_millis(given, name, up=False)


def _at_least_1(name: str, given: Any) -> int:
    return _arguments.integer(name, given, 1)


def _plan(check: _Check) -> dict[str, Any]:
    """Describe an option that selects records, for ``_core.plan``."""
    return {"check": check, "is_plan": True, "is_decode": False}


def _typed(check: _Check) -> dict[str, Any]:
    """Describe an option of decoded keys and values, for ``_core.FoundSchemas``."""
    return {"check": check, "is_plan": False, "is_decode": False}


def _decode(check: _Check, *, is_plan: bool = False) -> dict[str, Any]:
    """Describe an option that says how they are decoded, for ``_core.scan_ranges``."""
    return {"check": check, "is_plan": is_plan, "is_decode": True}


def _one_of(*valid: str) -> _Check:
    return lambda name, given: _arguments.choose(name, given, valid)


def _decode_sides(name: str, given: Any) -> str | None:
    return None if given is None else _arguments.choose(name, given, ("key", "value", "both"))


_isolation_level = _one_of("read_uncommitted", "read_committed")
_on_corrupt = _one_of("raise", "skip")


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options of a read: what to read, and how.

    Frozen, comparable and picklable; checked when it is created. ``dataclasses.replace`` gives a changed copy.

    Parameters
    ----------
    topics : str or iterable of str, optional
        Topics to read. Default: all but internal ones (``__...``).
    topic_pattern : str, optional
        A regular expression that matches the whole name of the topics to read.
    partitions : int, list of int or {topic: [int]}, optional
        Partitions to read. Default: all.
    columns : str or iterable of str, optional
        Names of ``RECORD_COLUMNS`` in any order, or ``"*"`` for all; a column that is not requested costs nothing.
        Default: key, value, topic, partition, offset, timestamp, timestampType, headers. With ``decode`` also
        ``DECODED_COLUMNS``, and fields: of ``value.amount`` the column ``value`` has this field alone, and the decoder
        skips the others.
    starting_offsets : {"earliest", "oldest"}, int or {topic: {partition: int}}
        First offset to read: the log start offset as the broker has it, the first record that is still in the files,
        or an offset (-2 is earliest). An offset below the log start offset reads from the log start offset; one beyond
        the log end offset reads nothing.
    ending_offsets : {"latest", "high_watermark"}, int or {topic: {partition: int}}
        First offset not to read: the end of the log, the checkpointed high watermark, or an offset (-1 is latest).
    starting_timestamp : int, datetime, str or {topic: {partition: int, datetime or str}}, optional
        Begin with the first record whose timestamp is at or after it. Milliseconds since the epoch, a datetime with
        a time zone, or such a one as ISO 8601 text. Takes precedence over ``starting_offsets``, as in Spark's Kafka
        source.
    ending_timestamp : int, datetime, str or {topic: {partition: int, datetime or str}}, optional
        End before the first record whose timestamp is at or after it. Takes precedence over ``ending_offsets``.
    min_offset, max_offset : int, optional
        Leave out records with offsets outside, whatever the bounds above; both are inclusive. A partition without such
        records is not an error.
    min_timestamp, max_timestamp : int, datetime or str, optional
        Leave out records with timestamps outside, both inclusive; times as for ``starting_timestamp``. Unlike that one
        they hold for every record, also where times are out of order. Segments and batches that cannot hold such a
        record are skipped unread, so their checksums are not checked.
    isolation_level : {"read_uncommitted", "read_committed"}
        Read records of open and aborted transactions as well, or, as Kafka's consumer does, only those of committed
        transactions and of none. ``read_committed`` ends at the last stable offset, where the oldest open transaction
        begins: of the whole log, or of the part below the high watermark when that is the end.
    include_control : bool
        Return control records (transaction markers and the like) as rows. Also under ``read_committed``, which leaves
        out the records of aborted transactions but not the markers that say so.
    latest_per_key : bool
        Of the records that the other options choose, return only the last one of each key of a partition, as a
        compacted topic would keep it. Records without a key and control records are left out. A partition is read
        twice, with at most about 100 MiB for its keys; more than some millions of keys cost further passes.
    tombstones : bool
        With ``latest_per_key``: also return keys whose last record has no value, which deletes the key. Default: left
        out.
    containing : bytes or str, optional
        Of the records that the other options choose, ``latest_per_key`` included, return only those whose value
        contains these bytes, or this text as UTF-8. A null value contains nothing, and any other the empty literal.
    matching : str, optional
        The same for a regular expression, of which a match anywhere in the value is enough. It finds what
        ``re.search(matching.encode(), value)`` does: a dot is any byte but a line feed, and classes, word boundaries
        and ``(?i)`` know ASCII alone. The syntax is that of the ``regex`` crate: ``(?u)`` switches to characters;
        look-around, backreferences and possessive repetitions are errors.
    search_in : {"value", "key", "headers"} or several of them
        Where to search for ``containing`` or ``matching``; one match is enough. Of headers names and values.
    limit : int, optional
        At most this many records: the first ones, in the order of the scan.
    include_inactive : bool
        Read ``-delete``, ``-future`` and ``-stray`` folders of a log dir too.
    check_crcs : bool
        Check the checksum of every batch.
    on_corrupt : {"raise", "skip"}
        Damage ends the read with an error, or is skipped: reading continues with the next whole batch in order,
        and ``RecordReader.lost`` says which bytes and offsets are missing, and why. Every whole batch in its place is
        read, and no record of a damaged one. Batches outside the bounds are skipped by their headers, damaged or not.
    layout : {"binary", "view"}
        ``view`` returns ``binary_view`` columns that point into the mapped files, without a copy.
    timestamp_unit : {"ms", "us"}
        Unit of the timestamp column; Spark wants ``us``. A record whose milliseconds it cannot hold is an
        ``InvalidRecordError``, as it is to Spark's Kafka source, if the column is requested. With
        ``on_corrupt="skip"`` that record is left out.
    batch_rows, batch_bytes : int
        An Arrow batch ends when it has this many rows or bytes of keys, values and headers; one of decompressed
        records at a quarter of these bytes, but not below 512 KiB; one of views also when some megabytes of copied or
        decompressed data are kept alive by it.
    threads : int or None
        Threads that decode, including the one that reads; the order is kept. None: one for each processor.
    decode : {"value", "key", "both"}, optional
        Decode values, keys or both by their schemas (Avro, Protobuf, JSON Schema), which are found by the id that a
        serializer wrote before them or into a header. The column ``value`` (``key``) then has the type of the reader
        schema, and there are the columns of ``DECODED_COLUMNS``. Nulls of the log stay null.
    schemas : path, list of paths or dict, optional
        Where the schemas are. Default: in the topic ``_schemas`` of the log dirs that are read, as a schema registry
        keeps it. Or log dirs that have it, also by URLs; or schemas by id or GUID, ``{7: text}``; or those of topics
        whose payloads have no id, ``{"orders": "orders.avsc"}``: files that end in .avsc, .proto, .desc (a descriptor
        set) or .json.
    reader_schema : "latest", int, str or {topic: one of these}
        The schema that gives the column its type: the newest version of subject ``<topic>-value`` (``<topic>-key``)
        that is not deleted (of schemas that are given, the highest id or the last GUID), a version of it, or a schema's
        text or file. Older and newer records are resolved to it. Of a Protobuf schema the column holds the first
        message or, if the first records of the topic all name one other message of it, that one. A record's own message
        is the one that its message indexes name in the schema that it was written with, and it must have the full name
        of the column's message: others are undecoded. To choose, give a text with that message and without the others;
        ``decode_as="json"`` shows every message.
    decode_as : {"struct", "json"}
        ``json`` gives text, of each record under the schema it was written with: for several record types in a topic,
        and for recursive schemas.
    on_undecoded : {"raise", "null", "skip"}
        What cannot be decoded ends the read with an error, or is null, and ``valueError`` says why, or the record is
        left out. ``RecordReader.metrics`` counts it as ``undecoded``.

    Attributes
    ----------
    topics, topic_pattern, partitions, ... : object
        The parameters. Names are tuples and times milliseconds, however they were given.

    Raises
    ------
    ValueError, TypeError
        For arguments that make no sense.

    Examples
    --------
    >>> options = kafkalog.ReadOptions(columns=["offset", "value"], isolation_level="read_committed")
    >>> kafkalog.read_table("/var/lib/kafka/data", "orders", options=options)  # doctest: +SKIP
    """

    topics: str | Iterable[str] | None = field(default=None, metadata=_plan(_topics))
    topic_pattern: str | None = field(default=None, metadata=_plan(_pattern))
    partitions: Partitions | None = field(default=None, metadata=_plan(lambda _, given: _arguments.partitions(given)))
    columns: str | Iterable[str] | None = field(default=None, metadata=_decode(_columns))
    starting_offsets: StartingOffsets = field(default="earliest", metadata=_plan(_arguments.starting_offsets))
    ending_offsets: EndingOffsets = field(default="latest", metadata=_plan(_arguments.ending_offsets))
    starting_timestamp: Timestamps | None = field(default=None, metadata=_plan(_arguments.timestamps))
    ending_timestamp: Timestamps | None = field(default=None, metadata=_plan(_arguments.timestamps))
    min_offset: int | None = field(default=None, metadata=_plan(_number()))
    max_offset: int | None = field(default=None, metadata=_plan(_number()))
    min_timestamp: Time | None = field(default=None, metadata=_plan(_minimum))
    max_timestamp: Time | None = field(default=None, metadata=_plan(_maximum))
    isolation_level: IsolationLevel = field(default="read_uncommitted", metadata=_plan(_isolation_level))
    include_control: bool = field(default=False, metadata=_decode(_arguments.flag))
    latest_per_key: bool = field(default=False, metadata=_decode(_arguments.flag))
    tombstones: bool = field(default=False, metadata=_decode(_arguments.flag))
    containing: bytes | str | None = field(default=None, metadata=_decode(_literal))
    matching: str | None = field(default=None, metadata=_decode(_pattern))
    search_in: str | Iterable[str] = field(default=("value",), metadata=_decode(_fields))
    limit: int | None = field(default=None, metadata=_decode(_number(0)))
    include_inactive: bool = field(default=False, metadata=_plan(_arguments.flag))
    check_crcs: bool = field(default=True, metadata=_decode(_arguments.flag))
    on_corrupt: Literal["raise", "skip"] = field(default="raise", metadata=_decode(_on_corrupt, is_plan=True))
    layout: Layout = field(default="binary", metadata=_decode(_one_of("binary", "view")))
    timestamp_unit: TimestampUnit = field(default="ms", metadata=_decode(_one_of("ms", "us")))
    batch_rows: int = field(default=65_536, metadata=_decode(_at_least_1))
    batch_bytes: int = field(default=2_097_152, metadata=_decode(_at_least_1))
    threads: int | None = field(default=1, metadata=_decode(_number(1, _arguments.MAX_THREADS)))
    decode: Literal["key", "value", "both"] | None = field(default=None, metadata=_typed(_decode_sides))
    schemas: Schemas | None = field(default=None, metadata=_typed(check_schemas))
    reader_schema: ReaderSchema = field(default="latest", metadata=_typed(check_reader_schema))
    decode_as: Literal["struct", "json"] = field(default="struct", metadata=_typed(_one_of("struct", "json")))
    on_undecoded: Literal["raise", "null", "skip"] = field(
        default="raise", metadata=_typed(_one_of("raise", "null", "skip"))
    )

    def __post_init__(self) -> None:
        is_all = isinstance(self.columns, str) and self.columns == "*"
        for each in dataclasses.fields(self):
            object.__setattr__(self, each.name, each.metadata["check"](each.name, getattr(self, each.name)))
        if self.tombstones and not self.latest_per_key:
            raise ValueError("tombstones=True is for latest_per_key=True, which leaves tombstones out by default")
        # The checks made bytes and a tuple of them.
        _core.check_search(self.containing, self.matching, self.search_in)  # type: ignore[arg-type]
        if self.search_in != ("value",) and not self.is_search:
            raise ValueError("search_in says where containing= or matching= is searched for; give one of them")
        self._check_decoding(is_all=is_all)

    def _check_decoding(self, *, is_all: bool) -> None:
        if self.decode is None:
            for name in ("schemas", "reader_schema", "decode_as", "on_undecoded"):
                if getattr(self, name) != ReadOptions.__dataclass_fields__[name].default:
                    raise ValueError(f'{name} is for decoded records: give decode="value", "key" or "both" as well')
        decoded = decoded_columns(self.decode)
        if is_all:
            object.__setattr__(self, "columns", (*_RECORD_COLUMN_NAMES, *decoded))
        for name in self.columns or ():
            if "." in name and self.decode not in {"both", name.partition(".")[0]}:
                side = name.partition(".")[0]
                raise ValueError(f'column {name!r} is a field of decoded {side}s: it needs decode="{side}" or "both"')
            if name in _DECODED_COLUMN_NAMES and name not in decoded:
                side = "key" if name.startswith("key") else "value"
                raise ValueError(f'column {name!r} is of decoded {side}s: it needs decode="{side}" or "both"')

    def __repr__(self) -> str:
        changed = ", ".join(f"{name}={value!r}" for name, value in self.changed().items())
        return f"kafkalog.ReadOptions({changed})"

    @property
    def is_search(self) -> bool:
        """True if only records that are found are wanted."""
        return self.containing is not None or self.matching is not None

    def changed(self) -> dict[str, Any]:
        """Return the options that differ from their defaults; ``ReadOptions(**changed)`` equals this one."""
        given = {each.name: (getattr(self, each.name), each.default) for each in dataclasses.fields(self)}
        return {name: value for name, (value, default) in given.items() if value != default}


ReadOptions.__init__ = renamed(**RENAMED)(ReadOptions.__init__)  # type: ignore[method-assign]


class BatchRangeKeywords(TypedDict, total=False):
    """Keywords of ``PartitionLog.batches``."""

    starting_offsets: StartingOffsets
    ending_offsets: EndingOffsets
    starting_timestamp: Timestamps | None
    ending_timestamp: Timestamps | None
    check_crcs: bool
    on_corrupt: Literal["raise", "skip"]


class ScanBatchesKeywords(BatchRangeKeywords, total=False):
    """Keywords of ``scan_batches``."""

    topic_pattern: str | None
    partitions: Partitions | None
    include_inactive: bool


class RecordKeywords(BatchRangeKeywords, total=False):
    """Keywords of everything that returns records of one partition."""

    columns: str | Iterable[str] | None
    min_offset: int | None
    max_offset: int | None
    min_timestamp: Time | None
    max_timestamp: Time | None
    isolation_level: IsolationLevel
    include_control: bool
    latest_per_key: bool
    tombstones: bool
    containing: bytes | str | None
    matching: str | None
    search_in: str | Iterable[str]
    layout: Layout
    timestamp_unit: TimestampUnit
    batch_rows: int
    batch_bytes: int
    threads: int | None
    decode: Literal["key", "value", "both"] | None
    schemas: Schemas | None
    reader_schema: ReaderSchema
    decode_as: Literal["struct", "json"]
    on_undecoded: Literal["raise", "null", "skip"]


class PartitionScanKeywords(RecordKeywords, total=False):
    """Keywords of ``PartitionLog.scan``."""

    limit: int | None


class DatasetKeywords(ScanBatchesKeywords, RecordKeywords, total=False):
    """Keywords of ``dataset`` and ``scan_polars``, whose engines have a limit of their own."""


class ScanKeywords(DatasetKeywords, total=False):
    """Keywords of ``scan`` and ``read_table``."""

    limit: int | None


def plan_arguments(options: ReadOptions) -> dict[str, Any]:
    """Return the options that select records, as ``_core.plan`` takes them."""
    return _values(options, "is_plan")


def _values(options: ReadOptions, use: str) -> dict[str, Any]:
    return {each.name: getattr(options, each.name) for each in dataclasses.fields(options) if each.metadata[use]}


def decode_arguments(options: ReadOptions) -> dict[str, Any]:
    """Return the options that say how records are decoded, as ``_core.scan_ranges`` takes them."""
    found = {
        each.name: getattr(options, each.name) for each in dataclasses.fields(options) if each.metadata["is_decode"]
    }
    found["columns"] = whole_columns(found["columns"])
    found["threads"] = found["threads"] or min(os.cpu_count() or 1, _arguments.MAX_THREADS)
    return found


def whole_columns(names: Iterable[str] | None) -> list[str] | None:
    """Return columns without the names of fields in them, each once."""
    return None if names is None else list(dict.fromkeys(name.partition(".")[0] for name in names))


def merged(function: str, valid: Iterable[str], options: ReadOptions | None, given: dict[str, Any]) -> ReadOptions:
    """Combine ``options=`` with keywords, which take precedence."""
    known = set(valid)
    given = with_new_names(function, RENAMED, given)
    for name in given:
        if name not in known:
            near = _arguments.did_you_mean(name, known)
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{near}")
    if options is None:
        return ReadOptions(**given)
    if not isinstance(options, ReadOptions):
        raise TypeError(f"options must be a kafkalog.ReadOptions, not {options!r}")
    for name in options.changed():
        if name not in known:
            raise ValueError(f"{function}() does not take {name}, which options sets")
    return dataclasses.replace(options, **given) if given else options


_Function = TypeVar("_Function", bound="Callable[..., Any]")


def expand_signature(keywords: type, **defaults: Any) -> Callable[[_Function], _Function]:
    """Show a function's ``**keywords`` one by one in its signature, for ``help`` and for editors."""
    fields = {each.name: each for each in dataclasses.fields(ReadOptions)}

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        shown = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name, each.default),
                annotation=each.type,
            )
            for name, each in fields.items()
            if name in keywords.__annotations__
        ]
        function.__signature__ = signature.replace(parameters=[*own, *shown])  # type: ignore[attr-defined]
        return function

    return decorate
