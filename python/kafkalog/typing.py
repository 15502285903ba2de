"""Types for annotations, importable at runtime."""

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeAlias, runtime_checkable

__all__ = [
    "ArrowArrayExportable",
    "ArrowSchemaExportable",
    "ArrowStreamExportable",
    "EndingOffsets",
    "Layout",
    "Partitions",
    "Paths",
    "ReaderSchema",
    "Schemas",
    "StartingOffsets",
    "StrPath",
    "Time",
    "TimestampUnit",
    "Timestamps",
]

StrPath: TypeAlias = str | os.PathLike[str]
"""A path."""

Paths: TypeAlias = StrPath | Sequence[StrPath]
"""One path or several."""

Layout = Literal["binary", "view"]
"""Keys and values copied once, or views into the mapped file."""

TimestampUnit = Literal["ms", "us"]
"""Kafka's own unit, or Spark's."""

Partitions: TypeAlias = int | Sequence[int] | Mapping[str, Sequence[int]]
"""Partitions of every topic, or by topic."""

StartingOffsets: TypeAlias = Literal["earliest", "oldest"] | int | Mapping[str, Mapping[int, int]]
"""First offset, inclusive; -2 is earliest."""

EndingOffsets: TypeAlias = Literal["latest", "high_watermark"] | int | Mapping[str, Mapping[int, int]]
"""End offset, exclusive; -1 is latest."""

Time: TypeAlias = int | datetime | str
"""Milliseconds since the epoch, a datetime with a time zone, or ISO 8601 text with one."""

Timestamps: TypeAlias = Time | Mapping[str, Mapping[int, Time]]
"""Times for all partitions or by partition."""


Schemas: TypeAlias = StrPath | Sequence[StrPath] | Mapping[int | str, StrPath]
"""Log dirs with a topic ``_schemas``; or schemas, as text or files, by id, GUID or topic."""

ReaderSchema: TypeAlias = int | str | Mapping[str, int | str]
"""``latest``, a version or a schema's text or file, for all topics or by topic."""


@runtime_checkable
class ArrowSchemaExportable(Protocol):
    """Objects that export an Arrow schema through the PyCapsule interface."""

    def __arrow_c_schema__(self) -> object:
        """Return an ``arrow_schema`` capsule."""


@runtime_checkable
class ArrowStreamExportable(Protocol):
    """Objects that export an Arrow stream through the PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return an ``arrow_array_stream`` capsule."""


@runtime_checkable
class ArrowArrayExportable(Protocol):
    """Objects that export an Arrow array, here of structs, through the PyCapsule interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return ``arrow_schema`` and ``arrow_array`` capsules."""
