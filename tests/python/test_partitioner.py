"""The partition of a key, as Kafka's ``BuiltInPartitioner.partitionForKey`` (4.3.1) answered."""

from __future__ import annotations

import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from kafkalog import partition_for_key

# Random keys, and their partitions of 7, 1000 and 2**31 - 1.
ANSWERS = [
    ("", (2, 681, 275646681)),
    ("67", (5, 143, 1775968143)),
    ("197a", (2, 782, 361637782)),
    ("066555", (0, 915, 2021612915)),
    ("ff7d2e31", (2, 731, 1957530731)),
    ("a5a23a39f7", (1, 605, 1996780605)),
    ("64e17b61ec39", (5, 504, 207545504)),
    ("8b1fe9c8b6baad", (6, 153, 1074045153)),
    ("8d91e5952ecba48d", (3, 209, 893847209)),
    ("73f54eddd45c0b826a", (1, 893, 424973893)),
    ("ace3d3fe3390ac21498ba3", (5, 658, 1684671658)),
    ("733e3f90747c1212b74c460811470884b1fa41a33c5a5820014eb81bf8b9e7018690ab9dd80135f68eeecff11f4943fda54e03e0ab9c3613caec",
     (6, 806, 1138181806)),
]  # fmt: skip
NUMBERS = (7, 1000, (1 << 31) - 1)


def naive(key: bytes, partitions: int) -> int:
    """Compute it in Python, from the description of MurmurHash2."""
    word = 0xFFFFFFFF
    found = (0x9747B28C ^ len(key)) & word
    whole = len(key) // 4 * 4
    for (mixed,) in struct.iter_unpack("<I", key[:whole]):
        mixed = mixed * 0x5BD1E995 & word  # noqa: PLW2901
        found = (found * 0x5BD1E995 & word) ^ ((mixed ^ mixed >> 24) * 0x5BD1E995 & word)
    if rest := key[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * 0x5BD1E995 & word
    found = (found ^ found >> 13) * 0x5BD1E995 & word
    return ((found ^ found >> 15) & 0x7FFFFFFF) % partitions


def test_kafkas_answers() -> None:
    for key, expected in ANSWERS:
        assert tuple(partition_for_key(bytes.fromhex(key), number) for number in NUMBERS) == expected
    for place, number in enumerate(NUMBERS):
        keys = pa.array([bytes.fromhex(key) for key, _ in ANSWERS])
        assert partition_for_key(keys, number).to_pylist() == [expected[place] for _, expected in ANSWERS]


def test_kafkas_digest_of_many_answers() -> None:
    keys = [bytes((n * 31 + i * 17 + (n >> 5)) & 0xFF for i in range(n % 67)) for n in range(10_000)]
    digest = 0
    for partition in partition_for_key(keys, 997).to_pylist():
        assert partition is not None
        digest = (digest * 31 + partition) % 1_000_000_007
    assert digest == 767_609_975


def test_random_keys() -> None:
    chance = random.Random(23)  # noqa: S311
    keys = [chance.randbytes(chance.randrange(70)) if chance.random() < 0.9 else None for _ in range(3000)]
    for number in (1, 2, 50, 10_007):
        expected = [None if key is None else naive(key, number) for key in keys]
        assert partition_for_key(keys, number).to_pylist() == expected


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["a", None, "bc"]),
        pa.array(["a", None, "bc"], pa.large_string()),
        pa.array(["a", None, "bc"], pa.string_view()),
        pa.array([b"a", None, b"bc"], pa.large_binary()),
        pa.array(["a", None, "bc"]).dictionary_encode(),
        pa.array(["x", "a", None, "bc"]).slice(1),
        pa.chunked_array([["a", None], ["bc"]]),
        ["a", None, b"bc"],
        (key for key in (b"a", None, bytearray(b"bc"))),
    ],
    ids=lambda keys: str(getattr(keys, "type", type(keys).__name__)),
)
def test_layouts(keys: Any) -> None:
    found = partition_for_key(keys, 100)
    assert found.type == pa.int32()
    assert found.to_pylist() == [naive(b"a", 100), None, naive(b"bc", 100)]


def test_no_keys_and_fixed_width() -> None:
    assert partition_for_key([], 3).to_pylist() == []
    assert partition_for_key(pa.nulls(2), 3).to_pylist() == [None, None]
    assert partition_for_key(pa.array([b"ab"], pa.binary(2)), 100).to_pylist() == [naive(b"ab", 100)]
    assert partition_for_key("ä", 100) == partition_for_key(memoryview("ä".encode()), 100) == naive("ä".encode(), 100)


@pytest.mark.parametrize(
    ("keys", "number", "kind", "says"),
    [
        (b"k", 0, ValueError, "num_partitions is 0, which is not within 1 to 2147483647"),
        (b"k", 1 << 31, ValueError, "num_partitions is 2147483648"),
        (3, 1, TypeError, "keys must be bytes, an Arrow array or an iterable of bytes, not int"),
        ([3], 1, TypeError, "bytes"),
        (pa.array([3]), 1, ValueError, "column 'key': expected binary or string, of any layout, found Int64"),
    ],
)
def test_refused(keys: Any, number: int, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        partition_for_key(keys, number)
