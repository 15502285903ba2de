"""Options of decoded keys and values, checked, and the schemas that users give."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkalog import _arguments, _core, storage
from kafkalog.storage._urls import is_url

if TYPE_CHECKING:
    from kafkalog.options import ReadOptions

_GUID = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
_IMPORT = re.compile(r'(?:^|[;}])\s*import\s+(?:public\s+|weak\s+)?"([^"]+)"\s*;', re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# Formats by the ending of a file's name.
_KINDS = {".avsc": "AVRO", ".proto": "PROTOBUF", ".desc": "PROTOBUF", ".json": "JSON"}
_MAX_ID = (1 << 63) - 1
# A schema's text, and not the path of one.
_TEXT = re.compile(r'\s*(?:[\[{"]|syntax\b|edition\b|//|/\*|import\b|package\b|message\b|enum\b|option\b)')

# Id, GUID, topic (one of the three); format, or None to judge by the text; text; names and texts of imports.
_Given: TypeAlias = "tuple[int | None, str | None, str | None, str | None, str, list[tuple[str, str]]]"

# A version, a text, or a text with names and texts of its imports.
_ReaderText: TypeAlias = "int | str | tuple[str, list[tuple[str, str]]]"


def check_schemas(name: str, given: Any) -> tuple[str, ...] | dict[int | str, str] | None:
    """Check the option ``schemas``; paths become absolute, since they are used later."""
    if given is None:
        return None
    if isinstance(given, (str, PathLike)):
        given = [given]
    if not isinstance(given, Mapping):
        if not isinstance(given, Iterable):
            raise TypeError(f"{name} must be a log dir, a list of them or a dict of schemas, not {given!r}")
        return tuple(text if is_url(text := os.fsdecode(each)) else _arguments.local(text) for each in given)
    if not given:
        raise ValueError(f"{name} is an empty dict: name an id, a GUID or a topic with its schema")
    found: dict[int | str, str] = {}
    for key, value in given.items():
        if isinstance(key, bool) or not isinstance(key, (int, str)):
            raise TypeError(f"{name}: expected an id, a GUID or a topic, found {key!r}")
        if not isinstance(value, (str, PathLike)):
            raise TypeError(f"{name}: the schema of {key!r} must be a text or a path, not {value!r}")
        as_id = int(key) if isinstance(key, str) and key.isdecimal() else key
        if isinstance(as_id, int):
            _arguments.integer(f"{name}: id", as_id, 0, _MAX_ID)
        text = os.fspath(value)
        found[as_id] = str(Path(text).absolute()) if _is_path(text) else text
    return found


def check_reader_schema(name: str, given: Any) -> Any:
    """Check the option ``reader_schema``."""
    if isinstance(given, Mapping):
        return {_text(name, topic): _reader(name, reader) for topic, reader in given.items()}
    return _reader(name, given)


def _reader(name: str, given: Any) -> int | str:
    if isinstance(given, PathLike):
        given = os.fspath(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return _arguments.integer(name, given, 1, (1 << 31) - 1)
    text = _text(name, given)
    if text.isdecimal():
        return _reader(name, int(text))
    return str(Path(text).absolute()) if _is_path(text) else text


def _text(name: str, given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise TypeError(f"{name} must be 'latest', a version or a schema's text, or a dict of these, not {given!r}")
    return given


def _is_path(text: str) -> bool:
    return Path(text).suffix in _KINDS and "\n" not in text and not _TEXT.match(text)


def _file(path: str) -> tuple[str, str, list[tuple[str, str]]]:
    """Read a schema: format, text and imports."""
    place = Path(path)
    kind = _KINDS[place.suffix]
    if place.suffix == ".desc":
        return kind, base64.b64encode(place.read_bytes()).decode(), []
    text = place.read_text("utf-8")
    imports: dict[str, str] = {}
    if place.suffix == ".proto":
        _add_imports(text, place.parent, imports, {place.name})
    return kind, text, list(imports.items())


def _add_imports(text: str, folder: Path, found: dict[str, str], seen: set[str]) -> None:
    """Add what a file imports, each after what it imports itself. Files that are not there may be known anyway."""
    for name in _IMPORT.findall(_COMMENT.sub("", text)):
        path = folder / name
        if name in seen or not path.is_file():
            continue
        seen.add(name)
        imported = path.read_text("utf-8")
        _add_imports(imported, folder, found, seen)
        found[name] = imported


def _given(schemas: Mapping[int | str, str]) -> list[_Given]:
    found: list[_Given] = []
    for key, value in schemas.items():
        kind: str | None = None
        text = value
        imports: list[tuple[str, str]] = []
        if _is_path(value):
            kind, text, imports = _file(value)
        is_id, is_guid = isinstance(key, int), isinstance(key, str) and _GUID.fullmatch(key) is not None
        topic = key if isinstance(key, str) and not is_guid else None
        if topic is not None and kind is None and not _TEXT.match(text):
            raise ValueError(
                f"schemas: {value!r}, the schema of topic {topic!r}, is no path of a .avsc, .proto, .desc or .json file"
            )
        guid = key if isinstance(key, str) and is_guid else None
        found.append((key if is_id and isinstance(key, int) else None, guid, topic, kind, text, imports))
    return found


def _reader_text(reader: int | str) -> _ReaderText:
    if isinstance(reader, str) and _is_path(reader):
        _, text, imports = _file(reader)
        return text, imports
    return reader


def fields_of(columns: Iterable[str] | None) -> dict[str, list[list[str]]]:
    """Return the fields that columns name, by part of the record; of a whole column no entry."""
    names = list(columns or ())
    found: dict[str, list[list[str]]] = {}
    for name in names:
        side, *rest = name.split(".")
        if rest and side not in names:
            found.setdefault(side, []).append(rest)
    return found


def sides_of(decode: str | None) -> tuple[str, ...]:
    """Return the columns that are decoded."""
    return ("key", "value") if decode == "both" else () if decode is None else (decode,)


def json_columns(options: ReadOptions) -> tuple[str, ...]:
    """Return the columns of text that is JSON."""
    return sides_of(options.decode) if options.decode_as == "json" else ()


def find_schemas(ranges: list[_core.PartitionRange], paths: list[str], options: ReadOptions) -> _core.FoundSchemas:
    """Read the schemas for planned ranges."""
    return _core.find_schemas_of(ranges, paths, on_corrupt=options.on_corrupt, **_source(options, paths))


def plan_decoding(
    ranges: list[_core.PartitionRange],
    paths: list[str],
    options: ReadOptions,
    found: _core.FoundSchemas | None = None,
) -> _core.Decoding | None:
    """Choose the schemas for planned ranges, of those that were found before; None if nothing is decoded."""
    if options.decode is None:
        return None
    reader: Any = options.reader_schema
    planned = (found or find_schemas(ranges, paths, options)).plan(
        ranges,
        sides=options.decode,
        reader=None if isinstance(reader, dict) else _reader_text(reader),
        readers={topic: _reader_text(each) for topic, each in reader.items()} if isinstance(reader, dict) else None,
        decode_as=options.decode_as,
        on_undecoded=options.on_undecoded,
    )
    return planned.projected(**fields_of(options.columns))


def refreshed(
    decoding: _core.Decoding, ranges: list[_core.PartitionRange], paths: list[str], options: ReadOptions
) -> _core.Decoding:
    """Return the same, with the schemas that were registered since."""
    return decoding if isinstance(options.schemas, dict) else find_schemas(ranges, paths, options).refresh(decoding)


def _source(options: ReadOptions, paths: list[str]) -> dict[str, Any]:
    schemas: Any = options.schemas
    dirs = schemas if isinstance(schemas, tuple) else ()
    return {
        "log_dirs": [storage.beside(each, paths) if is_url(each) else each for each in dirs] or None,
        "given": _given(schemas) if isinstance(schemas, dict) else None,
    }
