"""Errors of the command line for wrong words, wrong paths and wrong data: one line, and the exit code for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import corpus
import kafkalog
import naive
from command import call, fails

pytestmark = pytest.mark.release

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
ORDERS = DATA / "orders-0"
SEGMENT = ORDERS / f"{0:020}.log"


# Words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope"], "no command 'nope' (kafkalog --help shows the usage)"),
        (["--nope", "ls", DATA], "unknown option --nope"),
        (["ls"], "ls: the following arguments are required: PATH (kafkalog ls --help shows the usage)"),
        (
            ["cat", DATA, "-c", "some"],
            "argument -c/--count: expected a whole number from 0 to 9223372036854775807, found 'some'",
        ),
        (
            ["cat", DATA, "-c", "-1"],
            "argument -c/--count: expected a whole number from 0 to 9223372036854775807, found '-1'",
        ),
        (["cat", DATA, "-o", "soon"], "expected beginning, end, an offset, -N, s@WHEN or e@WHEN, found 'soon'"),
        (["cat", DATA, "-p", "x"], "argument -p/--partition: expected a whole number from 0 to 2147483647, found 'x'"),
        (["offsets", DATA, "--partitions", "1,x"], "expected a whole number from 0 to 2147483647, found 'x'"),
        (["offsets", DATA, "--time", "soon"], "max-timestamp or a time: the time 'soon' is neither"),
        (["export", DATA, "out", "--columns", "offzet"], "did you mean 'offset'?"),
        (
            ["export", DATA, "out", "--threads", "0"],
            "argument --threads: expected a whole number from 1 to 1024, found '0'",
        ),
        (["recover", DATA, "--clean", "--unclean"], "not allowed with argument"),
        (["dump", "--files", SEGMENT, "--key-decoder-class", "x"], "--key-decoder-class: expected one of"),
    ],
)
def test_wrong_words(words: list[str | Path], said: str) -> None:
    assert said in fails(2, *words)


def test_debug_before_and_after_the_command(tmp_path: Path) -> None:
    for words in (("--debug", "ls", tmp_path / "no"), ("ls", "--debug", tmp_path / "no")):
        done = call(*words)
        assert done.returncode == 3
        assert done.stderr.startswith("Traceback")
        assert done.stderr.endswith(f"\nkafkalog: {tmp_path / 'no'}: No such file or directory\n")
    assert call("--debug", "ls", DATA).returncode == 0


# Streams


def closed(words: str, streams: str) -> subprocess.CompletedProcess[str]:
    command = f"'{sys.executable}' -m kafkalog {words} {streams}"
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    "words", [f"ls {DATA}", f"cat {DATA} -t orders", f"cat {ORDERS} -J", f"offsets {DATA}", f"dump --files {SEGMENT}"]
)
def test_a_closed_output(words: str) -> None:
    done = closed(words, ">&-")
    assert (done.returncode, done.stderr) == (3, "kafkalog: standard output: Bad file descriptor\n")


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
@pytest.mark.parametrize(
    "words", [f"ls {DATA}", f"stats {DATA} -J", f"offsets {DATA}", f"cat {ORDERS}", f"dump --files {SEGMENT}",
              "--version", "--help", "dump --help"]
)  # fmt: skip
@pytest.mark.sampled(5)
def test_an_output_without_room_or_reader(words: str) -> None:
    done = closed(words, ">/dev/full")
    assert (done.returncode, done.stderr) == (3, "kafkalog: standard output: No space left on device\n")
    # The reader is gone before anything is written.
    done = closed(words, "| true; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_output_that_nothing_is_said_on(tmp_path: Path) -> None:
    assert closed(f"export {ORDERS} {tmp_path}/o.parquet", ">&-").returncode == 0
    assert (tmp_path / "o.parquet").stat().st_size > 1000
    done = closed(f"ls {tmp_path}/none", "2>&-")
    assert (done.returncode, done.stdout) == (3, ""), "what goes to stderr does not go to stdout"


# Paths


def test_files_are_named_as_the_user_named_them(tmp_path: Path) -> None:
    for form in ("parquet", "arrow", "jsonl", "csv"):
        target = tmp_path / "none" / f"out.{form}"
        assert fails(3, "export", ORDERS, target) == f"kafkalog: {target}: No such file or directory\n"
    for name in ("nope", "nope.parquet", "nope.jsonl"):
        said = fails(3, "import", tmp_path / name, tmp_path / "logs")
        assert said == f"kafkalog: {tmp_path / name}: No such file or directory\n"
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl", "csv"])
def test_a_file_that_cannot_grow(tmp_path: Path, form: str) -> None:
    """As on a full disk: it is the file that is named, and no half of it stays."""
    target = tmp_path / f"out.{form}"
    command = f"ulimit -f 1; '{sys.executable}' -m kafkalog export {ORDERS} {target}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (3, f"kafkalog: {target}: File too large\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_paths_of_any_bytes(tmp_path: Path) -> None:
    place = os.fsencode(tmp_path) + b"/\xff-\xc3\xa9"
    Path(os.fsdecode(place)).mkdir()
    logs = place + b"/logs"
    shutil.copytree(DATA, os.fsdecode(logs))
    assert call("offsets", logs, "--topic", "orders").stdout == "orders:0:880\n"
    assert call("cat", logs, "-t", "orders", "-o", "-1", "-f", "%o").stdout == "879"
    assert call("export", logs, place + b"/out.csv", "-t", "orders").returncode == 0
    for form in (b"parquet", b"arrow", b"jsonl"):
        file = place + b"/orders-0." + form
        assert call("export", logs, file, "-t", "orders").returncode == 0
        done = call("import", file, place + b"/from-" + form)
        assert done.stderr.startswith("kafkalog: 880 records in "), done.stderr
    assert call("import", logs, place + b"/again", "-t", "orders").returncode == 0
    assert call("recover", logs, "--out", place + b"/mended").returncode == 0
    assert kafkalog.PartitionLog(os.fsdecode(place + b"/mended/orders-0")).log_end_offset == 880
    assert "\\udcff" in fails(3, "ls", place + b"/none")


@pytest.mark.parametrize("name", ["backup", "b\u00e4ckup-0", os.fsdecode(b"\xff-0")])
def test_a_partitions_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    copy = tmp_path / name
    shutil.copytree(ORDERS, copy)
    assert call("cat", copy, "-o", "-2", "-f", "%o ").stdout == "878 879 "
    assert call("offsets", copy).stdout.endswith(":-1:880\n")
    assert json.loads(call("stats", copy, "-J").stdout)["records"] == 880
    assert len(json.loads(call("ls", copy, "-J").stdout)["segments"]) == 6
    done = call("export", copy, tmp_path / "out.csv")
    assert done.stderr.startswith("kafkalog: 880 records in 1 csv file(s)"), done.stderr
    assert kafkalog.read_table(copy, starting_offsets=878, columns=["partition"])["partition"].to_pylist() == [-1, -1]


@pytest.mark.parametrize("what", ["fifo", "folder"])
def test_what_has_a_files_name_and_is_none(tmp_path: Path, what: str) -> None:
    """`LogLoader` looks at files alone; a pipe that nobody writes to is not waited for."""
    make = os.mkfifo if what == "fifo" else os.mkdir
    logs = tmp_path / "logs"
    shutil.copytree(DATA, logs)
    wanted = kafkalog.read_table(logs, isolation_level="read_committed")
    folder = logs / "orders-0"
    for name in ("00000000000000000145.index", "00000000000000000145.timeindex"):
        (folder / name).unlink()
        make(folder / name)
    names = (f"{900:020}.log", f"{900:020}.snapshot", f"{0:020}.txnindex")
    for name in (*names, f"{900:020}.index", "99.log"):
        make(folder / name)
    assert kafkalog.PartitionLog(folder).log_end_offset == 880
    assert kafkalog.read_table(logs, isolation_level="read_committed").equals(wanted)
    for command in (["ls"], ["stats"], ["offsets", "--time", "max-timestamp"], ["offsets", "--time", "1"]):
        here, there = call(command[0], logs, *command[1:]), call(command[0], DATA, *command[1:])
        assert here.returncode == there.returncode == 0
        assert here.stdout.count("\n") == there.stdout.count("\n")
    reason = "a pipe, a socket or a device, not a file" if what == "fifo" else "Is a directory"
    for name in names:
        assert fails(3, "dump", "--files", folder / name) == f"kafkalog: {folder / name}: {reason}\n"
    with pytest.raises(OSError, match=reason) as caught:
        kafkalog.scan([folder / f"{900:020}.log"]) if what == "fifo" else kafkalog.OffsetIndex(
            folder / f"{900:020}.index"
        )
    assert caught.value.errno is not None
    assert caught.value.filename is not None
    (logs / "recovery-point-offset-checkpoint").unlink()
    make(logs / "recovery-point-offset-checkpoint")
    (folder / "partition.metadata").unlink()
    make(folder / "partition.metadata")
    assert kafkalog.PartitionLog(folder).log_end_offset == 880
    with pytest.raises(OSError, match=reason):
        _ = kafkalog.PartitionLog(folder).topic_id


@pytest.mark.parametrize("words", [["ls"], ["ls", "-J"], ["stats"], ["stats", "-J"], ["offsets"]])
def test_a_folder_that_cannot_be_read_is_named_and_the_others_are_told(tmp_path: Path, words: list[str]) -> None:
    logs = tmp_path / "logs"
    shutil.copytree(DATA, logs)
    whole = call(words[0], logs, *words[1:])
    assert (whole.returncode, whole.stderr) == (0, "")
    for name in ("aaa-0", "middle-3", "zzz-0"):
        loop = logs / name / f"{0:020}.log"
        loop.parent.mkdir()
        loop.symlink_to(loop)
    done = call(words[0], logs, *words[1:])
    reason = "Too many levels of symbolic links"
    assert done.stderr.splitlines() == [
        f"kafkalog: {logs / name / f'{0:020}.log'}: {reason}" for name in ("aaa-0", "middle-3", "zzz-0")
    ]
    assert (done.returncode, done.stdout) == (3, whole.stdout)
    # Damage alone is 1; with a failure beside it, the graver of the two.
    (logs / "damaged-0").mkdir()
    (logs / "damaged-0" / f"{0:020}.log").write_bytes(bytes(8) + b"\0\0\0\3" + bytes(60))
    done = call(words[0], logs, *words[1:])
    assert (done.returncode, done.stderr.count("\n")) == (3, 4)
    for name in ("aaa-0", "middle-3", "zzz-0"):
        shutil.rmtree(logs / name)
    done = call(words[0], logs, *words[1:])
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert str(logs / "damaged-0") in done.stderr


def test_a_folder_in_which_no_segment_is_yet(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-1"):
        (tmp_path / name).mkdir()
    shutil.copy(DATA / "meta.properties", tmp_path)
    (tmp_path / "orders-1" / "leader-epoch-checkpoint").write_text("0\n0\n")
    assert call("ls", tmp_path).stdout.count("\n") == 1
    lines = [json.loads(line) for line in call("ls", tmp_path, "-J").stdout.splitlines()]
    assert [(line["partition"], line["segments"], line["logEndOffset"]) for line in lines] == [(0, [], 0), (1, [], 0)]
    for number in (0, 1):
        folder = tmp_path / f"orders-{number}"
        assert call("offsets", folder).stdout == f"orders:{number}:0\n"
        assert json.loads(call("ls", folder, "-J").stdout)["partition"] == number
        done = call("cat", folder)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_path_without_a_folder_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that one stands in: its checkpoints are above."""
    monkeypatch.chdir(ORDERS)
    here, there = kafkalog.PartitionLog("."), kafkalog.PartitionLog(ORDERS)
    assert (here.topic, here.partition, here.log_end_offset) == ("orders", 0, 880)
    assert there.high_watermark is not None
    assert (here.high_watermark, here.log_start_offset) == (there.high_watermark, there.log_start_offset)
    assert kafkalog.read_table(".").equals(kafkalog.read_table(ORDERS))
    assert call("offsets", ".").stdout == "orders:0:880\n"
    monkeypatch.chdir(DATA)
    assert kafkalog.LogDir(".").topics == kafkalog.LogDir(DATA).topics


def test_what_is_no_path() -> None:
    for ask in (kafkalog.scan, kafkalog.LogDir, kafkalog.PartitionLog, kafkalog.recover, kafkalog.OffsetIndex):
        with pytest.raises(ValueError, match="null character"):
            ask("a\0b")
        with pytest.raises(FileNotFoundError):
            ask("")
        with pytest.raises(TypeError, match="path"):
            ask(b"bytes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="null character"):
        kafkalog.LogWriter("a\0b", "t")


# cat


@pytest.mark.parametrize("base", sorted(int(path.stem) for path in ORDERS.glob("*.log")))
def test_the_last_records_of_any_segment(base: int) -> None:
    file = ORDERS / f"{base:020}.log"
    offsets = kafkalog.read_table(file, columns=["offset"])["offset"].to_pylist()
    for count in (1, 3, 5000):
        got = call("cat", file, "-o", f"-{count}", "-f", r"%o\n").stdout.split()
        assert got == [str(offset) for offset in offsets[-count:]]


# import


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"value": "", "headers": 5}', "expected headers as an object or a list, found 5"),
        (b'{"value": "", "headers": "h"}', "expected headers as an object or a list, found 'h'"),
        (b'{"value": "a\xffb"}', "expected UTF-8, found byte 0xff at byte 12"),
        (b"5", "expected an object, found 5"),
        (b'{"value": 5.5}', "expected value as text or null, found Decimal('5.5')"),
        (b'{"value": "", "timestamp": 5.5}', "expected a timestamp as ISO 8601 or whole milliseconds, found 5.5"),
        (b'{"value": "", "timestamp": true}', "whole milliseconds, found True"),
        (b'{"value": "", "timestamp": NaN}', "whole milliseconds, found nan"),
        (b'{"value": "", "timestamp": 1e30}', "whole milliseconds, found 1E+30"),
        (b'{"value": "", "timestamp": 9223372036854775808}', "not within"),
    ],
)
def test_lines_of_json(tmp_path: Path, line: bytes, said: str) -> None:
    path = tmp_path / "t-0.jsonl"
    path.write_bytes(b'{"value": ""}\n\n' + line + b"\n")
    error = fails(1, "import", path, tmp_path / "logs", "--text")
    assert error.startswith(f"kafkalog: {path}: line 3: ")
    assert said in error


def test_times_of_json_are_exact(tmp_path: Path) -> None:
    times = {
        "1700000000123": 1_700_000_000_123,
        "1.700000000123e12": 1_700_000_000_123,
        "9007199254740993": (1 << 53) + 1,
        "9007199254740993.0": (1 << 53) + 1,
        '"2024-01-02T03:04:05.678Z"': 1_704_164_645_678,
        '"2024-01-02T03:04:05.678999Z"': 1_704_164_645_678,
        '"2024-01-02T04:04:05.678+01:00"': 1_704_164_645_678,
        '"253402300800000"': 253_402_300_800_000,
    }
    path = tmp_path / "t-0.jsonl"
    path.write_text("".join(f'{{"value": "", "timestamp": {time}}}\n' for time in times))
    assert call("import", path, tmp_path / "logs", "--config", "message.timestamp.after.max.ms=9223372036854775807",
                "--config", "segment.ms=9223372036854775807").returncode == 0  # fmt: skip
    assert [row.timestamp for row in naive.rows(tmp_path / "logs" / "t-0")] == list(times.values())
