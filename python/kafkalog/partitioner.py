"""Partition of a key, as Kafka's producers choose it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, overload

from kafkalog import _arguments, _core
from kafkalog.typing import ArrowArrayExportable, ArrowStreamExportable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["partition_for_key"]


@overload
def partition_for_key(  # type: ignore[overload-overlap]  # text is an iterable of text
    keys: bytes | bytearray | memoryview | str, num_partitions: int
) -> int: ...


@overload
def partition_for_key(
    keys: ArrowArrayExportable | ArrowStreamExportable | Iterable[bytes | str | None], num_partitions: int
) -> pa.Int32Array: ...


def partition_for_key(keys: Any, num_partitions: int) -> Any:
    """Return the partition that Kafka's default partitioner chooses for a key.

    That is murmur2 of the serialized key, its sign removed, modulo the number of partitions.

    Parameters
    ----------
    keys : bytes, str, Arrow array, or iterable of bytes and str
        One key, or many: any Arrow array of binary or string (of pyarrow, a Polars series), or an iterable. Text is
        encoded as UTF-8, as Kafka's ``StringSerializer`` does.
    num_partitions : int
        How many partitions the topic has.

    Returns
    -------
    int or pyarrow.Int32Array
        The partition of the key, or of each key. Null for a null key, whose partition is up to the producer.

    Raises
    ------
    TypeError
        When a key is neither bytes nor text.
    ValueError
        When ``num_partitions`` is below 1, or an array holds neither binary nor string.

    Examples
    --------
    >>> kafkalog.partition_for_key(b"foobar", 12)
    6
    >>> kafkalog.partition_for_key(["foobar", None], 12).to_pylist()
    [6, None]
    """
    number = _arguments.integer("num_partitions", num_partitions, 1, (1 << 31) - 1)
    if isinstance(keys, (bytes, bytearray, memoryview, str)):
        one: Any = [keys]
        return partition_for_key(one, number)[0].as_py()
    if not isinstance(keys, (ArrowArrayExportable, ArrowStreamExportable, Iterable)):
        raise TypeError(f"keys must be bytes, an Arrow array or an iterable of bytes, not {type(keys).__name__}")
    import pyarrow as pa

    given: Any = keys
    if isinstance(keys, ArrowArrayExportable):
        given = pa.array(given)
    elif isinstance(keys, ArrowStreamExportable):
        given = pa.chunked_array(given)
    else:
        given = pa.array(given, pa.binary())
    found: Any = _core.partition_for_key(pa.table({"key": given}), number)
    partitions: Any = pa.RecordBatchReader.from_stream(found).read_next_batch().column(0)
    return partitions
