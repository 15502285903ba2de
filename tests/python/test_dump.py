"""``kafkalog dump`` prints what kafka-dump-log printed for the same files (``tests/golden/dump``)."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
import naive
from kafkalog import _core
from kafkalog.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

CASES: list[dict[str, Any]] = [
    json.loads(line) for line in (corpus.GOLDEN / "dump" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
]
SEGMENT = "index-shapes/data-0/index-full-0/00000000000000000291.log"
TWO_BATCHES = "corrupt/index-good/t-0/00000000000000000000.log"

# Kafka decompresses without bound, or until memory ends; here a block ends at 256 MiB.
BOMBS = re.compile(r"corrupt/(v0-)?bomb")


def named(case: dict[str, Any]) -> str:
    files, *flags = case["args"][1:]
    short = files if "," not in files else f"{files.count(',') + 1} files"
    return " ".join([short, *flags]).replace("00000000000000000", "").replace("org.apache.kafka.tools.api.", "")


def findings(text: str) -> list[str]:
    """Split at what begins with a file; their order in Java follows a hash of the folder's name."""
    return sorted(re.split(r"\n(?! |Indexed offset)", text.rstrip("\n")))


@pytest.mark.parametrize("case", CASES, ids=named)
def test_equals_the_real_tool(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(corpus.GOLDEN)
    code = main(["dump", *case["args"]])
    out, err = capfd.readouterr()
    if "died" not in case and BOMBS.search(case["args"][1]) and code == 1 and err.startswith("kafkalog:"):
        assert case["out"].startswith(out)
        return
    assert out == case["out"]
    if "died" in case:
        last = err.splitlines()[-1]
        assert code == 1
        assert re.match(r"kafkalog: .*: byte \d+:.*: expected .*, found ", last), last
    else:
        assert findings(err.replace(str(corpus.GOLDEN), "{root}")) == findings(case["err"])
        damage = r"isvalid: false|isValid: false|invalid bytes at the end"
        told = r"Mismatches in|timestamp mismatch|out of order|not found in"
        if re.search(damage, out) or re.search(told, err):
            assert code == 1
        elif "is followed by" not in err:
            assert code == 0


def test_gaps_are_told_but_are_no_damage(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(corpus.GOLDEN)
    assert main(["dump", "--files", SEGMENT, "--deep-iteration"]) == 0
    assert f"Non-consecutive offsets in {corpus.GOLDEN / SEGMENT}\n  -1 is followed by " in capfd.readouterr().err


def test_offsets_that_step_back_are_damage(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = (corpus.GOLDEN / SEGMENT).read_bytes()
    twice = tmp_path / "00000000000000000291.log"
    twice.write_bytes(data + data)
    assert main(["dump", "--files", str(twice), "--deep-iteration"]) == 1
    assert "is followed by" in capfd.readouterr().err


GOOD = (corpus.GOLDEN / "corrupt" / "index-good" / "t-0" / "00000000000000000000.log").read_bytes()
TIME = 1_700_000_000_001  # the largest of each of its three batches of 93 bytes
# One that wrote a record, and one of which only a marker is known.
PRODUCERS = struct.pack(">i", 2) + b"".join(
    struct.pack(">qhiqiqiq", *each) for each in ((7, 0, 0, 0, 0, TIME, -1, -1), (8, 0, -1, -1, 0, TIME, 3, -1))
)


def message(magic: int, offset: int, attributes: int, key: bytes | None, value: bytes) -> bytes:
    """Give one of v0 or v1."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", TIME) if magic else b"")
    body += struct.pack(">i", -1) if key is None else struct.pack(">i", len(key)) + key
    body += struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def entries(form: str, *some: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(form, *each) for each in some)


V0 = gzip.compress(b"".join(message(0, n, 0, b"k", b"v") for n in range(3)), mtime=0)
MADE: dict[str, tuple[str, dict[str, bytes], list[str], list[str]]] = {
    # What kafka-dump-log 4.3.1 says of each, cut to what is at stake.
    "an entry at the base offset": (
        "index",
        {"log": GOOD, "index": entries(">ii", (0, 0), (3, 93), (5, 186))},
        ["offset: 0 position: 0", "offset: 3 position: 93", "offset: 5 position: 186"],
        ["  Index offset: 0, log offset: 1"],
    ),
    "a time twice": (
        "timeindex",
        {"log": GOOD, "index": entries(">ii", (3, 93)), "timeindex": entries(">qi", (TIME, 3), (TIME, 5))},
        [f"timestamp: {TIME} offset: 3", f"timestamp: {TIME} offset: 5"],
        [f"  Index timestamp: {TIME}, Previously indexed timestamp: {TIME}"],
    ),
    "a time index looks through to the end of the log": (
        "timeindex",
        {"log": GOOD[:194] + b"\0\0\0\5" + GOOD[198:], "index": b"", "timeindex": entries(">qi", (TIME, 1))},
        [],
        ["byte 194: batch length: expected at least 14, found 5"],
    ),
    "offsets in a wrapper of v0 stand as they are": (
        "log",
        {"log": message(0, 10, 1, None, V0)},
        [f"| offset: {n} NoTimestampType: -1 keySize: 1 valueSize: 1" for n in range(3)],
        [],
    ),
    "no time in a message of v0 in a wrapper with the broker's": (
        "log",
        {"log": message(1, 2, 9, None, V0)},
        [f"| offset: {n} LogAppendTime: -1 keySize: 1 valueSize: 1" for n in range(3)],
        [],
    ),
    "an offset twice": (
        "log",
        {"log": message(1, 4, 0, b"k", b"v") * 2},
        [f"| offset: 4 CreateTime: {TIME} keySize: 1 valueSize: 1"] * 2,
        ["  -1 is followed by 4", "  4 is followed by 4"],
    ),
    "a producer of the first offset alone": (
        "snapshot",
        {"snapshot": struct.pack(">hI", 1, naive.crc32c(PRODUCERS)) + PRODUCERS},
        ["firstSequence: 0 lastSequence: 0 lastOffset: 0 offsetDelta: 0", f"lastTimestamp: {TIME}"],
        [],
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_files_made_by_hand(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kind, files, said, told = MADE[name]
    for suffix, data in files.items():
        (tmp_path / f"{0:020}.{suffix}").write_bytes(data)
    code = main(
        ["dump", "--files", str(tmp_path / f"{0:020}.{kind}"), *(["--deep-iteration"] if kind == "log" else [])]
    )
    out, err = capfd.readouterr()
    lines = [line for line in out.splitlines()[1:] if kind != "log" or line.startswith("|")]
    assert len(lines) == len(said)
    assert all(part in line for part, line in zip(said, lines, strict=True)), lines
    # But for the line that names the file.
    found = [line for line in err.splitlines() if not line.endswith(f".{kind}")]
    assert len(found) == len(told)
    assert all(line.endswith(part) for part, line in zip(told, found, strict=True)), found
    assert code == (1 if told else 0)


@pytest.mark.parametrize(
    "flags",
    [
        ["--key-decoder-class", "com.example.MyDecoder"],
        ["--value-decoder-class", "com.example.MyDecoder"],
    ],
    ids=lambda flags: flags[0],
)
def test_what_is_not_supported_is_refused_in_one_line(flags: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", "--files", str(corpus.GOLDEN / SEGMENT), *flags]) == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert flags[-1] in err


# Records that a broker with tiered storage wrote, and what the tool printed of them; made by hand are the last two.
SEGMENT_ID = "RemoteLogSegmentId{topicIdPartition=2TVv0IciRcqoaq-qJZtEfQ:mostly-remote-1, id=0nJo2DNzTQ2ywvne-oezyA}"
PARTITION_OF_IT = "0e6d6f73746c792d72656d6f7465d9356fd0872245caa86aafaa259b447d0000000100"
REMOTE = {
    "010000"
    + PARTITION_OF_IT
    + "d27268d833734d0db2c2f9defa87b3c8000000000000000000000000000000007b000000010000018bdfd3eda8"
    "000001a20b41fda4020000000000000000000000000000003b0c000001000101": (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={SEGMENT_ID}, startOffset=0, endOffset=123, brokerId=1, "
        "maxTimestampMs=1700267290024, eventTimestampMs=1795485203876, segmentLeaderEpochs={0=0}, "
        "segmentSizeInBytes=15116, customMetadata=Optional.empty, state=COPY_SEGMENT_STARTED, txnIdxEmpty=true}"
    ),
    "010100" + PARTITION_OF_IT + "d27268d833734d0db2c2f9defa87b3c80000000001000001a20b41fdf3000100": (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={SEGMENT_ID}, customMetadata=Optional.empty, "
        "state=COPY_SEGMENT_FINISHED, eventTimestampMs=1795485203955, brokerId=1}"
    ),
    "010100" + PARTITION_OF_IT + "d27268d833734d0db2c2f9defa87b3c80000000001000001a20b41fdf304aabbcc0300": (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={SEGMENT_ID}, "
        "customMetadata=Optional[CustomMetadata{3 bytes}], "
        "state=DELETE_SEGMENT_FINISHED, eventTimestampMs=1795485203955, brokerId=1}"
    ),
    "010200" + PARTITION_OF_IT + "00000001000001a20b41fdf30100": (
        "RemotePartitionDeleteMetadata{topicPartition=2TVv0IciRcqoaq-qJZtEfQ:mostly-remote-1, "
        "state=DELETE_PARTITION_STARTED, eventTimestampMs=1795485203955, brokerId=1}"
    ),
}


def payloads(folder: Path, flag: str, capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Give what is printed of each record."""
    assert main(["dump", "--files", str(folder / f"{0:020}.log"), "--skip-record-metadata", flag]) == 0
    return [line[2:] for line in capfd.readouterr().out.splitlines() if line.startswith("| ")]


def written(folder: Path, *records: tuple[bytes | None, bytes | None]) -> Path:
    """Write records into a partition."""
    folder.parent.mkdir(exist_ok=True)
    (folder.parent / "meta.properties").write_text("version=1\n")
    with kafkalog.LogWriter(folder.parent, folder.name.rpartition("-")[0], 0) as log:
        log.append([kafkalog.Record(key=key, value=value) for key, value in records])
    return folder


def test_remote_log_metadata(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    records = [(None, bytes.fromhex(value)) for value in REMOTE]
    folder = written(tmp_path / "__remote_log_metadata-0", *records)
    assert payloads(folder, "--remote-log-metadata-decoder", capfd) == [f"payload: {said}" for said in REMOTE.values()]
    table = kafkalog.tables.records(folder)
    assert [json.loads(str(value))["brokerId"] for value in table["value"].to_pylist()] == [1] * len(REMOTE)
    assert set(table["type"].to_pylist()) == {
        "REMOTE_LOG_SEGMENT_METADATA_RECORD",
        "REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD",
        "REMOTE_PARTITION_DELETE_METADATA_RECORD",
    }


def test_records_that_cannot_be_decoded_are_skipped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    group = b"\0\x02\0\x01g"
    folder = written(tmp_path / "__consumer_offsets-0", (b"\0\x09", b""), (group, b"\0\x03\0"), (group, None))
    assert payloads(folder, "--offsets-decoder", capfd) == [
        "key: Unknown record type 9 at offset 0, skipping.",
        "key: Error at offset 1, skipping. At byte 2: expected more bytes",
        'key: {"type":"2","data":{"group":"g"}} payload: <DELETE>',
    ]
    folder = written(tmp_path / "__cluster_metadata-0", (None, b"2"), (None, b"\x01\x02"), (None, None))
    assert payloads(folder, "--cluster-metadata-decoder", capfd) == [
        "payload: Error at 0, skipping. At byte 0: expected frame version 1",
        "payload: Error at 1, skipping. At byte 2: expected a version",
        "payload: Error at 2, skipping. At byte 0: expected a value",
    ]
    # As for Kafka's tool, a record without a key ends the dump.
    folder = written(tmp_path / "__transaction_state-0", (None, b"x"))
    assert main(["dump", "--files", str(folder / f"{0:020}.log"), "--transaction-log-decoder"]) == 1
    assert "a key, which the decoder needs" in capfd.readouterr().err


@pytest.mark.parametrize(
    "words", [[], ["--files"], ["--files", SEGMENT, "--max-bytes", "-1"], ["--files", SEGMENT, "--max-bytes", "x"]]
)
def test_wrong_usage(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", *words]) == 2
    said = capfd.readouterr().err
    assert said.startswith(f"kafkalog: dump: {'argument' if words else 'the following arguments are required'}")
    assert (words or ["--files"])[len(words) // 2] in said
    assert said.count("\n") == 1


def test_names_without_numbers_are_wrong_usage(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("foo.log", "short.checkpoint", "x.index", "x.timeindex", "x.txnindex"):
        (tmp_path / name).write_bytes(b"")
        assert main(["dump", "--files", str(tmp_path / name)]) == 2
        out, err = capfd.readouterr()
        assert out == f"Dumping {tmp_path / name}\n"
        assert "file name: expected" in err


def test_files_that_are_not_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stem = "00000000000000000005"
    for suffix in ("log", "index", "timeindex", "txnindex", "snapshot"):
        path = tmp_path / f"{stem}.{suffix}"
        assert main(["dump", "--files", str(path)]) == 3
        out, err = capfd.readouterr()
        assert out.startswith(f"Dumping {path}\n")
        assert "No such file or directory" in err
    (tmp_path / f"{stem}.log").mkdir()
    assert main(["dump", "--files", str(tmp_path / f"{stem}.log")]) == 3
    assert list(tmp_path.iterdir()) == [tmp_path / f"{stem}.log"]


def test_a_file_of_another_kind_that_is_not_there(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The real tool ignores it by its name; here a wrong path is a wrong path."""
    path = tmp_path / "meta.properties"
    assert main(["dump", "--files", str(path)]) == 3
    said = f"Ignoring unknown file {path}\nkafkalog: {path}: No such file or directory\n"
    assert capfd.readouterr() == (f"Dumping {path}\n", said)
    path.write_text("")
    assert main(["dump", "--files", str(path)]) == 0
    assert capfd.readouterr() == (f"Dumping {path}\n", f"Ignoring unknown file {path}\n")
    for names in ("", ",", f",{path}", f"{path},,{path}"):
        assert main(["dump", "--files", names]) == 2
        assert "expected names separated by commas" in capfd.readouterr().err


def test_a_corrupt_snapshot_is_told_and_the_next_file_dumped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    good = corpus.GOLDEN / "live-copy/data-1/ledger-0/00000000000000000441.snapshot"
    bad = tmp_path / "00000000000000000441.snapshot"
    bad.write_bytes(good.read_bytes()[:-1])
    assert main(["dump", "--files", f"{bad},{good}"]) == 1
    out, err = capfd.readouterr()
    assert out.startswith(f"Dumping {bad}\nDumping {good}\nproducerId: ")
    assert err.startswith(f"{bad}: byte ")


def test_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    segment = corpus.GOLDEN / "crash-0.9.0.1-killed/data-0/compact-none-0/00000000000000000182.log"
    column = kafkalog.read_table(segment, columns=["value"])["value"].to_pylist()
    values = [value for value in column if isinstance(value, bytes)]
    assert any(not is_text(value) for value in values)
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        _core.dump([(segment, str(segment))], out.fileno(), err.fileno(), print_data_log=True, value_decoder="bytes")
    text = (tmp_path / "out").read_bytes()
    for value in values:
        assert b" payload: " + value + b"\n" in text


def is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes((corpus.GOLDEN / TWO_BATCHES).read_bytes() * 20_000)
    tool = subprocess.Popen(
        [sys.executable, "-m", "kafkalog", "dump", "--files", str(segment)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert tool.stdout is not None
    assert tool.stderr is not None
    assert tool.stdout.readline() == f"Dumping {segment}\n".encode()
    tool.stdout.close()
    assert tool.stderr.read() == b""
    tool.stderr.close()
    assert tool.wait() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_output_that_fails_is_an_io_error() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(OSError, match="No space left"):
        _core.dump([(corpus.GOLDEN / SEGMENT, SEGMENT)], full, 2)
    os.close(full)


def test_nothing_is_made_or_changed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "t-0"
    shutil.copytree(corpus.GOLDEN / "index-shapes/data-0/index-full-0", folder)
    stem = "00000000000000000291"
    (folder / f"{stem}.index").unlink()
    # kafka-dump-log makes an empty .index here, and cuts the odd bytes off the other one.
    (folder / "00000000000000000999.log").write_bytes(b"")
    (folder / "00000000000000000999.index").write_bytes(b"12345678901")
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    main(["dump", "--files", str(folder / f"{stem}.timeindex")])
    main(["dump", "--files", str(folder / "00000000000000000999.index")])
    after = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}
    assert after == before


def test_a_length_beyond_the_file_takes_no_memory(tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    data = bytearray((corpus.GOLDEN / SEGMENT).read_bytes())
    data[8:12] = (2**31 - 1).to_bytes(4, "big")
    segment.write_bytes(data)
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)); "
        "from kafkalog.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited, "dump", "--files", str(segment)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert f"Found {len(data)} invalid bytes at the end of {segment.name}" in done.stdout
