"""``containing`` and ``matching`` against Python's ``re`` over all records: golden logs, random ones, damaged ones."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from kafkalog import LogWriter, ReadOptions, Record
from random_logs import random_log
from tiers import pick

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

FIELDS = ("value", "key", "headers")
GOLDEN = sorted({path.parent for path in corpus.GOLDEN.glob("*/data-*/*-[0-9]*/*.log")})


def fields_of(row: dict[str, Any], search_in: tuple[str, ...]) -> list[bytes]:
    """Give the fields of a row in which to search."""
    found = [row[name] for name in ("key", "value") if name in search_in]
    if "headers" in search_in:
        for header in row["headers"] or ():
            found += [header["key"].encode(), header["value"]]
    return [each for each in found if each is not None]


def expected(rows: pa.Table, pattern: str | bytes, search_in: tuple[str, ...]) -> list[dict[str, Any]]:
    """Keep the rows in which ``re`` finds it; bytes are a literal."""
    regex = re.compile(re.escape(pattern) if isinstance(pattern, bytes) else pattern.encode())
    return [row for row in rows.to_pylist() if any(map(regex.search, fields_of(row, search_in)))]


def searched(path: Any, pattern: str | bytes, search_in: tuple[str, ...], **options: Any) -> list[dict[str, Any]]:
    """Search a log, in one of the ways."""
    how: dict[str, Any] = {"containing" if isinstance(pattern, bytes) else "matching": pattern}
    rows: list[dict[str, Any]] = kafkalog.read_table(path, search_in=search_in, **how, **options).to_pylist()
    return rows


def escaped(text: bytes) -> str:
    """Write any bytes as an expression."""
    return "".join(f"\\x{byte:02x}" for byte in text)


def patterns(chance: random.Random, rows: pa.Table) -> list[str | bytes]:
    """Make patterns of which some are found in some of the rows."""
    texts = [text for row in rows.to_pylist() for text in fields_of(row, FIELDS) if text] or [b"a"]

    def piece(most: int = 4) -> bytes:
        text = chance.choice(texts)
        at = chance.randrange(len(text))
        return text[at : at + chance.randint(1, most)]

    makers: list[Callable[[], str | bytes]] = [
        piece,
        lambda: piece(40),
        lambda: piece() + piece(),
        lambda: escaped(piece(2)),
        lambda: f"^{escaped(piece(3))}",
        lambda: f"{escaped(piece(3))}$",
        lambda: f"{escaped(piece(1))}.*{escaped(piece(1))}",
        lambda: f"(?s){escaped(piece(1))}.{{1,3}}{escaped(piece(1))}",
        lambda: f"(?:{escaped(piece())}|{escaped(piece())})+",
        lambda: f"(?i){escaped(piece(3))}",
        lambda: f"[^{escaped(piece(3))}]\\d",
        lambda: f"\\b{escaped(piece(2))}",
    ]
    return [make() for make in chance.sample(makers, 5)]


@pytest.mark.parametrize("folder", GOLDEN, ids=lambda path: f"{path.parent.parent.name}-{path.name}")
@pytest.mark.sampled(2)
def test_golden_logs(folder: Path) -> None:
    chance = random.Random(str(folder))  # noqa: S311 - to be repeated, not secret
    rows = kafkalog.read_table(folder, include_control=True, on_corrupt="skip")
    for pattern in [b"", "", "^$", ".", "[0-9]$", "(?i)KEY", *patterns(chance, rows)]:
        for search_in in (("value",), ("key", "headers"), FIELDS):
            wanted = expected(rows, pattern, search_in)
            for how in ({}, {"layout": "view", "batch_rows": 7}, {"threads": 3}):
                options: dict[str, Any] = {"include_control": True, "on_corrupt": "skip", **how}
                assert searched(folder, pattern, search_in, **options) == wanted, (pattern, search_in, how)


@pytest.mark.parametrize("seed", range(pick(12, 400, 4000)))
def test_random_logs(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - to be repeated, not secret
    log = random_log(chance, legacy=seed % 3 == 0, damage=seed % 2 == 0)
    folder = log.write(tmp_path, chance)
    first, end = log.bases[0], log.end
    bounds: dict[str, Any] = chance.choice(
        [
            {},
            {"starting_offsets": chance.randint(first, end)},
            {"min_offset": chance.randint(first, end), "max_offset": end},
            {"min_timestamp": 1_700_000_000_000 - 3_600_000},
            {"latest_per_key": True, "tombstones": True},
            {"isolation_level": "read_committed"},
            {"include_control": True},
        ]
    )
    options = {"on_corrupt": "skip", **bounds}
    with kafkalog.scan(folder, **options) as reader:
        rows = reader.read_all()
        lost = reader.lost
    for pattern in patterns(chance, rows):
        search_in = tuple(chance.sample(FIELDS, chance.randint(1, 3)))
        wanted = expected(rows, pattern, search_in)
        how: dict[str, Any] = {"containing" if isinstance(pattern, bytes) else "matching": pattern}
        with kafkalog.scan(folder, search_in=search_in, threads=chance.randint(1, 3), **how, **options) as reader:
            assert reader.read_all().to_pylist() == wanted, (pattern, search_in)
            assert reader.lost == lost
        limit = chance.randint(0, 5)
        assert searched(folder, pattern, search_in, limit=limit, **options) == wanted[:limit]


def test_a_pattern_that_spans_two_records(tmp_path: Path) -> None:
    with LogWriter(tmp_path, "t", 0) as log:
        log.append(
            [Record(b"ab", b"one"), Record(b"ef", b"cd", headers=[("gh", b"ij"), ("kl", None)]), Record(None, b"")]
        )
    for spanning in (b"onea", b"bcd", b"abcd", b"cdef", b"efgh", b"ghij", b"ijkl"):
        assert searched(tmp_path, spanning, FIELDS) == []
        # What lies between them are lengths, which an expression must not see either.
        assert searched(tmp_path, f"(?s){spanning[:1].decode()}.*{spanning[-1:].decode()}x?$", ("key", "headers")) == []
    assert [row["offset"] for row in searched(tmp_path, b"ij", ("headers",))] == [1]
    assert [row["offset"] for row in searched(tmp_path, b"kl", ("headers",))] == [1]


def test_null_and_empty(tmp_path: Path) -> None:
    with LogWriter(tmp_path, "t", 0) as log:
        log.append([Record(None, b"k"), Record(b"", None), Record(b"v", b"")])
    for everything in (b"", "", "^", "x*"):
        assert [row["offset"] for row in searched(tmp_path, everything, ("value",))] == [1, 2]
        assert [row["offset"] for row in searched(tmp_path, everything, ("key",))] == [0, 2]
        assert searched(tmp_path, everything, ("headers",)) == []
    assert [row["offset"] for row in searched(tmp_path, r"^$", ("key", "value"))] == [1, 2]


def test_large_values(tmp_path: Path) -> None:
    """Batches that are read in several chunks, and a match at every edge of one."""
    big = bytes(range(256)) * 2000
    with LogWriter(tmp_path, "t", 0) as log:
        log.append([Record(b"needle" + big), Record(big), Record(big + b"needle")])
        log.append([Record(b"%d" % n) for n in range(5000)])
    assert [row["offset"] for row in searched(tmp_path, b"needle", ("value",))] == [0, 2]
    assert [row["offset"] for row in searched(tmp_path, "needle$", ("value",))] == [2]
    found = searched(tmp_path, b"99", ("value",), starting_offsets=1003, layout="view")
    assert [row["offset"] - 3 for row in found] == [n for n in range(1000, 5000) if "99" in str(n)]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"matching": "a(b"}, "the pattern 'a(b' at position 1: unclosed group"),
        ({"matching": "a(?=b)"}, "at position 1: look-around"),
        ({"matching": "a" * 70_000}, "the pattern has 70000 bytes; at most 65536"),
        ({"matching": "a", "containing": b"a"}, "give one of containing and matching"),
        ({"matching": "a", "search_in": "headers,key"}, "expected value, key or headers, found 'headers,key'"),
        ({"matching": "a", "search_in": ()}, "name at least one of value, key and headers"),
        ({"search_in": "key"}, "search_in says where containing= or matching= is searched for"),
    ],
)
def test_refused(options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        ReadOptions(**options)
    with pytest.raises(ValueError, match=re.escape(text)):
        kafkalog.scan(corpus.GOLDEN / "clean-restarts" / "data-1", **options)


def test_types() -> None:
    assert ReadOptions(containing="\u00fc") == ReadOptions(containing=b"\xc3\xbc")
    assert ReadOptions(containing=b"a", search_in="key").search_in == ("key",)
    with pytest.raises(TypeError, match="containing must be bytes or str, not 5"):
        ReadOptions(containing=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="matching must be a regular expression as str"):
        ReadOptions(matching=b"a")  # type: ignore[arg-type]


def test_metrics_count_what_is_not_found() -> None:
    folder = corpus.GOLDEN / "clean-restarts" / "data-1" / "orders-0"
    with kafkalog.scan(folder, containing=b"no such text", on_corrupt="skip") as reader:
        rows = reader.read_all()
        metrics = reader.metrics
    assert (rows.num_rows, metrics["records"]) == (0, 0)
    assert metrics["skipped_records"] >= kafkalog.read_table(folder).num_rows


def test_batches_have_no_search() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'containing'"):
        kafkalog.scan_batches(corpus.GOLDEN / "clean-restarts" / "data-1", containing=b"a")  # type: ignore[call-arg]


def test_what_is_found_early_is_given_early(tmp_path: Path) -> None:
    """A batch that few records would fill does not wait for the end of the log."""
    with LogWriter(tmp_path / "logs", "t") as log:
        log.append([Record(b"needle")])
        for _ in range(48):
            log.append([Record(b"x" * 900_000)])
        log.append([Record(b"needle")])
    with kafkalog.scan(tmp_path / "logs", columns=["offset"], containing=b"needle", threads=1) as reader:
        found = [(batch.column("offset").to_pylist(), reader.metrics["bytes"]) for batch in reader]
    assert [offsets for offsets, _ in found] == [[0], [49]]
    assert found[0][1] < 24_000_000
    assert found[1][1] > 40_000_000
