"""How large the smallest batch with a record is, without making it: the sink's tasks refuse what the commit would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["batch_size", "too_large"]

# DefaultRecordBatch.RECORD_BATCH_OVERHEAD
_BATCH_HEADER = 61
# All of a record but its parts: at most five bytes for each length.
_MOST_AROUND = _BATCH_HEADER + 3 + 4 * 5


def too_large(keys: Any, values: Any, headers: Any, most: int) -> Iterator[tuple[int, int]]:
    """Find the rows that no batch of so many bytes has room for.

    Parameters
    ----------
    keys, values, headers : pyarrow.Array
        Binary, binary, and lists of structs of key and value.
    most : int
        Bytes of a batch, with its header.

    Yields
    ------
    tuple of (int, int)
        The row and the bytes that it would need.
    """
    import pyarrow.compute as pc

    sizes = [pc.fill_null(pc.binary_length(column), 0) for column in (keys, values)]
    both: Any = pc.add(*(size.cast("int64") for size in sizes))
    # A bound that is nearly always enough.
    if (pc.max(both).as_py() or 0) + headers.nbytes * 2 + _MOST_AROUND <= most:
        return
    for row, each in enumerate(headers.to_pylist()):
        size = batch_size(_length(keys[row]), _length(values[row]), each)
        if size > most:
            yield row, size


def _length(value: Any) -> int | None:
    return len(value.as_buffer()) if value.is_valid else None


def batch_size(key: int | None, value: int | None, headers: Sequence[dict[str, Any]] | None) -> int:
    """Give the bytes of an uncompressed batch of one record, from the lengths of its key and value."""
    parts = [key, value]
    for header in headers or ():
        parts += [len((header["key"] or "").encode()), None if header["value"] is None else len(header["value"])]
    # attributes, and the differences of time and offset, which are 0
    body = 3 + _varint(len(headers or ())) + sum(1 if part is None else _varint(part) + part for part in parts)
    return _BATCH_HEADER + _varint(body) + body


def _varint(number: int) -> int:
    """Bytes of a number that is not below zero, zigzag."""
    return max(-(-(2 * number).bit_length() // 7), 1)
