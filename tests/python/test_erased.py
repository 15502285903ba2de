"""``kafkalog.rewrite``: of an erased key no byte is left, in any format, with any codec; others stay byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

import kafkalog
from byte_logs import CODECS, Producer, Record, batch, decompressed, messages, payloads, sealed
from kafkalog import _core

NOW = 1_700_000_000_000
ERASED = b"person-4711-of-nowhere"
SECRET = b"lives in a house by the sea"
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in CODECS if codec != "zstd" or magic == 2]


def records(first: int, erased: set[int]) -> list[Record]:
    """Eight records; those erased have the key, and a value that no other record has."""
    found = []
    for n in range(8):
        key, value = (ERASED, SECRET) if n in erased else (b"other-%02d" % (n % 5), b"value of %d" % (first + n))
        found.append(Record(first + n, NOW + n, key, value))
    return found


def encoded(magic: int, codec: str, rows: list[Record]) -> bytes:
    return batch(rows, codec, Producer(7, 0, rows[0].offset)) if magic == 2 else messages(rows, magic, codec)


@pytest.mark.parametrize("raised", [False, True], ids=["as-is", "magic-2"])
@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_nothing_is_left(tmp_path: Path, magic: int, codec: str, *, raised: bool) -> None:
    """A batch without the key, one with it among others, one of it alone, and one more in the active segment."""
    rows = [records(0, set()), records(8, {0, 3, 7}), records(16, set(range(8))), records(24, {5})]
    encodings = [encoded(magic, codec, each) for each in rows]
    folder = tmp_path / "logs" / "people-0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(b"".join(encodings[:3]))
    (folder / f"{24:020}.log").write_bytes(encodings[3])
    source = b"".join(plain for each in encodings for _, _, plain in payloads(each))
    assert source.count(ERASED) == source.count(SECRET) == 12
    out = tmp_path / "out"
    report = kafkalog.rewrite(folder, out, drop_keys=[ERASED], magic=2 if raised else None)
    assert report.records_dropped == 12
    assert report.manifest is not None
    files = [
        path for path in [*tmp_path.rglob("*"), Path(report.manifest)] if path.is_file() and folder not in path.parents
    ]
    assert {path.suffix for path in files} >= {".log", ".index", ".timeindex", ".json"}
    found = []
    for path in files:
        held = [path.read_bytes()]
        if path.suffix == ".log":
            batches = list(payloads(held[0]))
            assert {each for _, each, _ in batches} <= {codec, "none"}
            held += [plain for _, _, plain in batches]
            found += held
        for data in held:
            assert ERASED not in data, path
            assert SECRET not in data, path
    # The search finds bytes that are in the file.
    assert any(b"value of 9" in data for data in found)
    if not raised:
        assert (out / "people-0" / f"{0:020}.log").read_bytes().startswith(encodings[0])
    table = kafkalog.read_table(out, columns=["offset", "key", "value"], starting_offsets="oldest")
    left = [record for each in rows for record in each if record.key != ERASED]
    assert table.to_pylist() == [{"offset": each.offset, "key": each.key, "value": each.value} for each in left]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_what_loses_nothing_is_not_decompressed(tmp_path: Path, codec: str) -> None:
    """Its payload is none, under a checksum that is right: it could not be."""
    folder = tmp_path / "logs" / "people-0"
    folder.mkdir(parents=True)
    whole = [encoded(2, codec, records(0, set())), encoded(2, codec, records(16, {2}))]
    opaque = encoded(2, codec, records(8, set()))
    opaque = sealed(opaque[:61] + bytes(byte ^ 0xFF for byte in opaque[61:]))
    (folder / f"{0:020}.log").write_bytes(whole[0] + opaque + whole[1])
    with pytest.raises(kafkalog.CorruptRecordError):
        kafkalog.read_table(folder)
    # What `kafkalog.rewrite` does before it verifies, which reads every record.
    report = _core.rewrite(str(folder), str(tmp_path / "out"), now_ms=NOW, drops=[("people-0", [(18, 19)])])
    (done,) = report["partitions"]
    assert (done["batches_copied"], done["batches_rewritten"], done["records_dropped"]) == (2, 1, 1)
    written = (tmp_path / "out" / "people-0" / f"{0:020}.log").read_bytes()
    assert written.startswith(whole[0] + opaque)
    assert b"value of 18" not in decompressed(codec, written[len(whole[0] + opaque) + 61 :])
    # One that loses a record is read.
    with pytest.raises(kafkalog.CorruptRecordError, match=codec):
        _core.rewrite(str(folder), str(tmp_path / "other"), now_ms=NOW, drops=[("people-0", [(9, 10)])])
    assert not (tmp_path / "other").exists()
