"""Damaged folders (tests/golden/corrupt): what stops each is what its README says, quickly and in bounded memory."""

from __future__ import annotations

import contextlib
import json
import pickle
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any, Literal

import pytest

import corpus
import kafkalog

HERE = Path(__file__).resolve().parents[1] / "golden" / "corrupt"
CASES: list[dict[str, Any]] = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))
STOPS: dict[str, tuple[type[kafkalog.KafkaLogError], ...]] = {
    "corrupt": (kafkalog.CorruptRecordError, kafkalog.InvalidRecordError),
    "either": (kafkalog.CorruptRecordError, kafkalog.InvalidRecordError),
    "unsupported": (kafkalog.UnsupportedFormatError,),
}
WAYS: tuple[tuple[Literal["binary", "view"], int], ...] = (("binary", 1), ("view", 1), ("binary", 4), ("view", 4))


def of(*stops: str) -> pytest.MarkDecorator:
    chosen = [c for c in CASES if c["stop"] in stops]
    assert chosen
    return pytest.mark.parametrize("case", chosen, ids=lambda c: str(c["name"]))


ways = pytest.mark.parametrize(("layout", "threads"), WAYS)


def folder(case: dict[str, Any]) -> Path:
    return HERE / str(case["name"]) / "t-0"


@of("corrupt", "unsupported")
@ways
def test_damage_is_an_error_that_says_where(
    case: dict[str, Any], layout: Literal["binary", "view"], threads: int
) -> None:
    file = folder(case) / case["file"]
    with pytest.raises(STOPS[case["stop"]]) as caught:
        list(
            kafkalog.scan(
                folder(case),
                columns=corpus.RECORD_COLUMNS,
                layout=layout,
                threads=threads,
                batch_rows=1,
                include_control=True,
            )
        )
    error = caught.value
    assert isinstance(error, kafkalog.KafkaLogError)
    assert Path(str(error.path)) == file
    assert error.position is not None
    assert case["position"] <= error.position <= max(file.stat().st_size, case["position"])
    assert str(file) in str(error)
    assert str(error.position) in str(error)
    assert "\n" not in str(error)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  (our own bytes: Spark ships errors so)
    assert (type(again), str(again), again.position) == (type(error), str(error), error.position)


@of("end")
@ways
def test_a_torn_or_zero_tail_is_the_end(case: dict[str, Any], layout: Literal["binary", "view"], threads: int) -> None:
    table = kafkalog.scan(folder(case), layout=layout, threads=threads).read_all()
    assert table["offset"].to_pylist() == list(range(case["records"]))
    log = kafkalog.PartitionLog(folder(case))
    assert log.log_end_offset == case["records"]
    assert log.lookup(case["records"]) is None
    assert kafkalog.scan_batches(folder(case)).read_all()["lastOffset"].to_pylist()[-1] == case["records"] - 1


@of("either")
@ways
def test_what_kafka_reads_over_is_read_or_refused(
    case: dict[str, Any], layout: Literal["binary", "view"], threads: int
) -> None:
    try:
        table = kafkalog.read_table(
            folder(case), columns=corpus.RECORD_COLUMNS, layout=layout, threads=threads, include_control=True
        )
    except STOPS["either"]:
        return
    table.validate(full=True)
    counts: list[Any] = kafkalog.scan_batches(folder(case)).read_all()["count"].to_pylist()
    assert sum(counts) == table.num_rows


@of("whole")
def test_an_unsound_index_changes_no_answer(case: dict[str, Any]) -> None:
    sound = HERE / "index-good" / "t-0"
    assert kafkalog.read_table(folder(case)).equals(kafkalog.read_table(sound))
    for start in range(11):
        mine = kafkalog.read_table(folder(case), starting_offsets=start, columns=["offset"])
        assert mine["offset"].to_pylist() == list(range(start, 10))
    good, log = kafkalog.PartitionLog(sound), kafkalog.PartitionLog(folder(case))
    for offset in range(11):
        assert log.lookup(offset) == good.lookup(offset), offset
    for stamp in range(1_700_000_000_000 - 3, 1_700_000_000_000 + 4):
        exact = good.offset_for_timestamp(stamp, exact=True)
        assert log.offset_for_timestamp(stamp, exact=True) == exact


def of_the_real_tool() -> dict[str, list[bool]]:
    """Files with a batch that kafka-dump-log did not find valid, and what it said of each of their batches."""
    lines = (corpus.GOLDEN / "dump" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    said = {case["args"][1]: case["out"] for case in map(json.loads, lines) if "died" not in case}
    # Records begin with a bar, and those of old formats say it again.
    batch = re.compile(r"^(?:baseO|o)ffset: .* isvalid: (true|false)$", re.MULTILINE)
    found = {name: [word == "true" for word in batch.findall(out)] for name, out in said.items() if "," not in name}
    return {name: valid for name, valid in found.items() if not all(valid)}


@pytest.mark.parametrize(("name", "valid"), of_the_real_tool().items())
def test_batches_are_listed_with_those_that_are_not_valid(name: str, valid: list[bool]) -> None:
    for check, expected in ((True, valid), (False, [None] * len(valid))):
        table = kafkalog.scan_batches(corpus.GOLDEN / name, check_crcs=check).read_all()
        assert table["isValid"].to_pylist() == expected


@pytest.mark.parametrize("name", ["not-gzip", "not-snappy", "not-lz4", "not-zstd", "gzip-cut", "bomb-zstd"])
def test_batches_are_listed_without_decompressing_them(name: str) -> None:
    """Under a checksum that holds: the contents do not matter here."""
    table = kafkalog.scan_batches(HERE / name / "t-0").read_all()
    assert table["isValid"].to_pylist() == [True] * table.num_rows
    assert table["baseOffset"].to_pylist() == [0, 2, 4, 6, 8]
    sums = kafkalog.PartitionLog(HERE / name / "t-0").statistics()
    assert sums["codecs"].keys() == {"none", name.replace("bomb-", "").replace("not-", "").replace("-cut", "")}


@pytest.mark.parametrize("case", [c for c in CASES if "bomb" in c["name"]], ids=lambda c: str(c["name"]))
@pytest.mark.sampled(3)
def test_bombs_take_bounded_memory(case: dict[str, Any]) -> None:
    script = (
        "import resource, sys, kafkalog\n"
        "import pyarrow\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: kafkalog.read_table(sys.argv[1])\n"
        "except kafkalog.KafkaLogError: pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(folder(case))], capture_output=True, text=True, check=True, timeout=60
    )
    assert int(done.stdout) < 400 << 10, "KiB above what stood before"


@pytest.mark.full
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["gzip", "snappy"])
def test_bombs_in_wrappers(tmp_path: Path, magic: int, codec: str) -> None:
    """The limit stops 400 MiB of zeros, announced by the stream or only found out."""
    size = 400 << 20
    if codec == "gzip":
        squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
        bomb = b"".join(squeeze.compress(bytes(1 << 20)) for _ in range(size >> 20)) + squeeze.flush()
    else:
        # A length as a varint, one zero, and copies of what stands one byte before.
        length = bytes((size >> shift) & 0x7F | 0x80 for shift in range(0, 28, 7)) + bytes([size >> 28])
        bomb = length + b"\0\0" + b"\xfe\1\0" * (size // 64)
    head = struct.pack(">bb", magic, 1 if codec == "gzip" else 2) + bytes(8) * magic
    body = head + struct.pack(">ii", -1, len(bomb)) + bomb
    message = struct.pack(">I", zlib.crc32(body)) + body
    file = tmp_path / "t-0" / f"{0:020}.log"
    file.parent.mkdir()
    file.write_bytes(struct.pack(">qi", 0, len(message)) + message)
    for options in ({}, {"layout": "view", "threads": 2}):
        with pytest.raises(kafkalog.CorruptRecordError, match=f"{256 << 20} bytes .the decode limit") as caught:
            kafkalog.read_table(file, **options)  # type: ignore[arg-type]
        assert (caught.value.path, caught.value.offset) == (str(file), 0)
        assert caught.value.position is not None
        assert 26 <= caught.value.position < file.stat().st_size


def test_errors_leave_no_file_open() -> None:
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir()))
    for case in CASES:
        with contextlib.suppress(kafkalog.KafkaLogError):
            kafkalog.read_table(folder(case))
    assert len(list(descriptors.iterdir())) <= before
