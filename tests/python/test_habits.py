"""Command lines of people who know kcat or Kafka's own tools, or who guess: they work, or the error names what does."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpus
import kafkalog
from command import call, call_bytes, fails
from kafkalog._times import from_now
from kafkalog.cli._commands import COMMANDS, GROUPS, SYNONYMS

pytestmark = pytest.mark.release

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
OTHER = corpus.GOLDEN / "clean-restarts" / "data-0"
INTERNAL = corpus.GOLDEN / "internal-compacted" / "data-0"
ORDERS = DATA / "orders-0"
SEGMENT = ORDERS / f"{145:020}.log"


def out(*words: str | Path) -> str:
    done = call(*words, errors="replace")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def on_terminal(*words: str | Path, **environment: str) -> str:
    """Run with a terminal as standard output and error, and give what it shows."""
    master, slave = pty.openpty()
    plain = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "TERM"}}
    with subprocess.Popen(
        [sys.executable, "-m", "kafkalog", *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
        env={**plain, "TERM": "xterm", **environment},
    ) as process:
        os.close(slave)
        shown = b""
        try:
            while block := os.read(master, 65536):
                shown += block
        except OSError:  # the other end is closed
            pass
        process.wait(60)
    os.close(master)
    return shown.decode(errors="replace").replace("\r\n", "\n")


# Help


def test_without_arguments_five_lines() -> None:
    lines = out().splitlines()
    assert len(lines) == 5
    for line in lines[1:4]:
        words = [str(DATA) if word == "DIR" else "orders" if word == "TOPIC" else word for word in line.split()[1:]]
        assert words[0] in COMMANDS


def test_help_is_in_groups_and_begins_with_what_most_need() -> None:
    shown = out("--help")
    places = [shown.index(f"\n{group}\n") for group in GROUPS]
    assert places == sorted(places)
    assert list(GROUPS)[1:6] == ["read", "look", "check", "repair", "write"]
    assert list(next(iter(GROUPS.values()))) == ["ls", "cat", "export"]
    assert out("-h") == shown


def test_colour_is_for_terminals() -> None:
    assert "\x1b[" not in out("--help") + out("ls", DATA)
    for words in (["--help"], ["ls", DATA], ["ls", DATA / "none"]):
        assert "\x1b[" in on_terminal(*words)
        assert "\x1b[" not in on_terminal(*words, NO_COLOR="1")
        assert "\x1b[" not in on_terminal(*words, TERM="dumb")
        assert "\x1b[" in on_terminal(*words, NO_COLOR=""), "no-color.org: where it is not empty"


def test_help_starts_soon() -> None:
    """60 ms on an idle machine: what is imported decides."""
    code = "import sys; from kafkalog.cli.main import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"kafkalog._core", "dataclasses", "inspect", "tempfile", "pathlib"} & set(done.stderr.split())


def test_what_is_no_command() -> None:
    assert f"kafkalog ls {DATA}" in fails(2, "list", DATA)
    assert f"kafkalog ls {DATA}" in fails(2, DATA)
    assert f"kafkalog ls {SEGMENT}" in fails(2, SEGMENT)
    for word, command in SYNONYMS.items():
        assert command in COMMANDS or command == "--version"
        assert f"use kafkalog {command}" in fails(2, word, DATA)
    assert f"kafkalog groups {DATA}" in fails(2, "kafka-consumer-groups.sh", DATA)
    assert f"kafkalog grep x {DATA}" in fails(2, "search", "x", DATA)


# Paths


def test_several_log_dirs_and_one_segment() -> None:
    both = [json.loads(line) for path in (OTHER, DATA) for line in out("ls", path, "-J").splitlines()]
    assert [json.loads(line) for line in out("ls", OTHER, DATA, "-J").splitlines()] == both
    assert len(out("ls", OTHER, DATA).splitlines()) == 1 + sum(len(each["segments"]) for each in both)
    (one,) = map(json.loads, out("ls", SEGMENT, "-J").splitlines())
    whole = next(each for each in both if each["topic"] == "orders")
    assert one == {**whole, "segments": whole["segments"][1:2], "size": whole["segments"][1]["size"]}
    counted = [json.loads(line)["records"] for line in out("stats", OTHER, DATA, "-J").splitlines()]
    assert sum(counted) == sum(
        json.loads(line)["records"] for p in (OTHER, DATA) for line in out("stats", p, "-J").splitlines()
    )
    summed = json.loads(out("stats", SEGMENT, "-J"))
    segments = json.loads(out("stats", ORDERS, "-J"))["segments"]
    assert (summed["topic"], summed["partition"]) == ("orders", 0)
    assert [summed[name] for name in ("size", "records", "batches")] == [
        segments[1][name] for name in ("size", "records", "batches")
    ]
    assert out("offsets", OTHER, DATA) == out("offsets", OTHER) + out("offsets", DATA)
    assert out("offsets", SEGMENT) == "orders:0:331\n"
    assert out("offsets", SEGMENT, "--time", "earliest") == "orders:0:145\n"
    explained = [json.loads(line) for line in out("explain", ORDERS, "-J", "--now", "1700030400000").splitlines()]
    found = [json.loads(line) for line in out("explain", SEGMENT, "-J", "--now", "1700030400000").splitlines()]
    assert found == explained[1:2]
    assert out("explain", OTHER, DATA).count("can be freed now") == 2
    assert f"{SEGMENT.stat().st_size} bytes" in out("explain", SEGMENT)


def test_paths_stand_anywhere() -> None:
    assert out("ls", OTHER, "-t", "orders,events", DATA) == out("ls", "-t", "orders,events", OTHER, DATA)
    assert out("cat", "-t", "orders", "--", DATA) == out("cat", DATA, "-t", "orders")


@pytest.mark.parametrize("command", ["ls", "stats", "offsets", "explain"])
def test_one_bad_partition_or_folder_of_several(command: str, tmp_path: Path) -> None:
    """Root may read anything: what cannot be opened stands for what may not."""
    shutil.copytree(DATA, tmp_path / "L")
    segment = next((tmp_path / "L" / "ledger-0").glob("*.log"))
    segment.unlink()
    segment.symlink_to(segment)
    done = call(command, tmp_path / "L")
    assert done.returncode in {1, 3}
    assert "orders" in done.stdout
    assert "ledger-0" in done.stderr
    (tmp_path / "M").symlink_to(tmp_path / "M")
    done = call(command, tmp_path / "M", DATA)
    assert done.returncode == 3
    assert "orders" in done.stdout
    assert "M: Too many levels" in done.stderr


def test_one_bad_partition_of_what_reads_records(tmp_path: Path) -> None:
    shutil.copytree(DATA, tmp_path / "L")
    for segment in (tmp_path / "L" / "ledger-0").glob("*.log"):
        segment.unlink()
        segment.symlink_to(segment)
    done = call("cat", tmp_path / "L", "-t", "ledger,orders", "-f", r"%o\n")
    assert (done.returncode, len(done.stdout.splitlines())) == (3, 880), done.stderr
    done = call("export", tmp_path / "L", tmp_path / "out")
    assert done.returncode in {1, 3}, done.stderr
    assert (tmp_path / "out" / "orders-0.parquet").exists()
    assert not (tmp_path / "out" / "ledger-0.parquet").exists()


def without_rights(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run as one who may read only what permissions say: root may read anything."""
    drop = "-dac_override,-dac_read_search"
    prefix = ["setpriv", f"--bounding-set={drop}", f"--inh-caps={drop}"] if os.geteuid() == 0 else []
    command = [*prefix, sys.executable, "-m", "kafkalog", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=120)


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may read anything")
def test_one_partition_that_may_not_be_read(tmp_path: Path) -> None:
    logs = Path(shutil.copytree(DATA, tmp_path / "L"))
    groups = Path(shutil.copytree(INTERNAL, tmp_path / "G"))
    denied = [logs / "ledger-0", groups / "__share_group_state-1", Path(shutil.copytree(OTHER, tmp_path / "D"))]
    plain = {
        "dump": call("dump", ORDERS, errors="replace").stdout,
        "grep": call("grep", "-c", "item", ORDERS).stdout,
    }
    for folder in denied:
        folder.chmod(0)
    try:
        cases: tuple[tuple[list[str | Path], int, str], ...] = (
            (["dump", logs], 3, plain["dump"].splitlines()[1]),
            (["grep", "-c", "item", logs], 3, plain["grep"]),
            (["ls", logs], 3, "orders"),
            (["stats", logs], 3, "orders"),
            (["offsets", logs], 3, "orders:0:880"),
            (["explain", logs], 1, "orders-0"),
            (["cat", logs, "-t", "ledger,orders", "-f", r"%t %o\n"], 3, "orders 879"),
            (["verify", logs], 1, f"{denied[0]}: error: Permission denied"),
            (["verify", logs / "orders-0", denied[2]], 1, f"{denied[2]}: error: Permission denied"),
            (["transactions", "--aborted", logs], 3, "LastStableOffset"),
            (["groups", groups], 1, "bulk-101"),
            (["report", logs, "-o", tmp_path / "r.html"], 1, ""),
        )
        for words, code, shown in cases:
            done = without_rights(*words)
            assert done.returncode == code, (words, done.stdout, done.stderr)
            assert shown in done.stdout, (words, done.stdout)
            said = done.stderr if words[0] not in {"verify", "report"} else done.stdout + done.stderr
            assert "Permission denied" in said or words[0] == "report", (words, done.stderr)
        page = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert "Permission denied" in page
        assert "orders" in page
    finally:
        for folder in denied:
            folder.chmod(0o755)


# What may not be read; the arguments; the exit code; a part of standard output.
UNREADABLE: list[tuple[str, str, int, str]] = [
    ("A/ledger-0", "metadata A", 1, "--topic orders"),
    ("A/ledger-0", "metadata A --as json", 1, '"topic": "orders"'),
    ("B/events-0", "metadata B", 0, "--topic events"),
    ("B/__cluster_metadata-0", "metadata B", 1, "--topic events"),
    ("B/__cluster_metadata-0", "explain B", 1, "events-0"),
    ("C/__consumer_offsets-1", "metadata C", 1, ""),
    ("C/__share_group_state-1/partition.metadata", "groups C --state", 1, "bulk-101"),
    *(
        ("B", f"{words}", 3, "orders")
        for words in ("ls A B", "stats B A", "offsets A B", "explain B A", "metadata B A")
    ),
    ("B", "topics B", 3, ""),
    ("A", "topics A B", 3, "events"),
    ("A", "groups C A", 3, "bulk-101"),
    ("A", "transactions C A", 3, "tx-0"),
    ("B", "dump A B", 3, "orders-0"),
    ("B", "cat A B -t orders -f %t:%o,", 3, "orders:879"),
    ("B", "grep -c item A B", 3, "\n"),
    ("B", "export A B -t orders - --format jsonl", 3, '"offset":879'),
    ("B", "report A B -o r.html", 1, ""),
    ("A/meta.properties", "report A -o r.html", 1, ""),
]


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may read anything")
@pytest.mark.parametrize("case", UNREADABLE)
@pytest.mark.sampled(6)
def test_what_may_not_be_read_is_told(
    case: tuple[str, str, int, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, words, code, shown = case
    monkeypatch.chdir(tmp_path)
    for name, source in (("A", DATA), ("B", OTHER), ("C", INTERNAL)):
        shutil.copytree(source, name)
    Path(place).chmod(0)
    try:
        done = without_rights(*words.split())
    finally:
        Path(place).chmod(0o755)
    assert done.returncode == code, done
    assert shown in done.stdout
    if words.startswith("report"):
        page = Path("r.html").read_text(encoding="utf-8")
        assert "orders" in page
        assert place in page
        assert "Permission denied" in page
    else:
        assert f"{place}: Permission denied" in done.stderr or f"Permission denied: '{place}'" in done.stderr.replace(
            f"{tmp_path}/", ""
        ), done.stderr


# Topics, partitions, times


def offsets_of(*words: str | Path) -> list[str]:
    return out("cat", *words, "-f", r"%t-%p:%o\n").splitlines()


def test_topics_and_partitions() -> None:
    both = offsets_of(DATA, "-t", "orders,ledger")
    assert offsets_of(DATA, "--topics", "orders", "--topics", "ledger") == both
    assert offsets_of(DATA, "-t", "orders-0,ledger-0") == offsets_of(DATA, "-t", "orders:0,ledger") == both
    assert offsets_of(DATA, "-t", "orders,events,ledger", "-p", "0,1") != both
    assert offsets_of(DATA, "-t", "orders-0,events") == offsets_of(DATA, "-t", "orders,events")
    for command in ("ls", "stats", "offsets"):
        assert out(command, DATA, "-t", "orders-0") == out(command, DATA, "-t", "orders", "-p", "0")
    assert "found: " in fails(1, "cat", DATA, "-t", "orders-7")
    assert "leave out -p" in fails(2, "cat", DATA, "-t", "orders-0", "-p", "0")


def test_one_grammar() -> None:
    """Every command that reads partitions takes -t and -p; the error of the others names what works."""
    explain = ["explain", "--now", "1700030400000"]
    explained = [json.loads(line) for line in out(*explain, DATA, "-J").splitlines()]
    wanted = [row for row in explained if row["topic"] == "orders"]
    assert [json.loads(line) for line in out(*explain, DATA, "-t", "orders", "-J").splitlines()] == wanted
    assert out(*explain, OTHER, DATA, "-p", "0", "-t", "orders") == out(*explain, DATA, "-t", "orders-0")
    size = sum(path.stat().st_size for path in (ORDERS, *ORDERS.iterdir()))
    assert out(*explain, DATA, "-t", "orders").startswith(f"{DATA}: {size} bytes, ")
    found = out("verify", DATA, "-t", "orders,events").splitlines()
    assert found == [line for line in out("verify", DATA).splitlines() if "/orders-0/" in line or "/events-1/" in line]
    assert out("verify", DATA, "-t", "orders-0") == out("verify", ORDERS)
    (shown,) = [line.split() for line in out("topics", OTHER, "-t", "events", "-p", "1").splitlines()[1:]]
    assert shown[1:4] == ["events", "Partition:", "1"]
    assert "PartitionCount: 3" in out("topics", OTHER, "-t", "events-1")
    offsets = [json.loads(line) for line in call("groups", INTERNAL, "-J").stdout.splitlines()]
    some = [json.loads(line) for line in call("groups", INTERNAL, "-t", "events-1", "-J").stdout.splitlines()]
    assert some == [row for row in offsets if (row["topic"], row["partition"]) == ("events", 1)] != []
    assert "-g names groups" in fails(2, "groups", INTERNAL, "-t", "events", "--list")
    ids = [json.loads(line) for line in call("transactions", INTERNAL, "-J").stdout.splitlines()]
    some = [
        json.loads(line) for line in call("transactions", INTERNAL, "-t", "events", "-p", "0", "-J").stdout.splitlines()
    ]
    assert some == [row for row in ids if {"topic": "events", "partition": 0} in row["partitions"]] != []
    assert "no topic 'none'" in call("transactions", INTERNAL, "-t", "none").stderr
    for command in ("recover", "rebuild", "truncate", "compact", "retain", "report"):
        for words in (["-t", "orders"], ["--topic=orders"], ["-p0"]):
            assert "DIR/orders-0" in fails(2, command, DATA, *words)
    assert "--subject names schemas" in fails(2, "schemas", DATA, "-t", "orders")
    assert "-t names them" in fails(2, "metadata", DATA, "-p", "0")
    assert "no sizes" in fails(2, "groups", DATA, "--human-readable")
    assert "did you mean" not in fails(2, "verify", DATA, "-H")


@pytest.mark.parametrize(
    "command", ["transactions", "transactions --open", "groups", "topics", "topics --list", "offsets"]
)
def test_a_partition_that_is_not_there(command: str) -> None:
    """Commands over tables answer as those over folders do: nothing, or the rest, and exit 1."""
    name, *more = command.split()
    logs = OTHER if name in {"topics", "offsets"} else INTERNAL
    topic = "events"
    for words, lack in ((["-p", "99"], "partition 99"), (["-t", topic, "-p", "99"], "partition 99")):
        done = call(name, logs, *more, *words)
        assert (done.returncode, done.stdout) == (1, ""), done
        assert f"no {lack} in " in done.stderr
        assert re.search(rf"; found: .*\b{topic}-0\b", done.stderr)
    some = call(name, logs, *more, "-t", topic, "-p", "0")
    assert (some.returncode, "99" in some.stderr) == (0, False)
    for words, lack in ((["-t", topic, "-p", "0,99"], "partition 99"), (["-t", f"{topic}-0,none"], "topic 'none'")):
        done = call(name, logs, *more, *words)
        assert (done.returncode, done.stdout) == (1, some.stdout), done
        assert f"no {lack} in " in done.stderr


def test_a_topic_that_is_named_like_a_partition(tmp_path: Path) -> None:
    shutil.copytree(ORDERS, tmp_path / "orders-0-0")
    shutil.copytree(ORDERS, tmp_path / "orders-0")
    assert {line.split(":")[0] for line in offsets_of(tmp_path, "-t", "orders-0")} == {"orders-0-0"}


def test_times_from_now() -> None:
    now = time.time() * 1000
    for text, distance in (("now", 0), ("+7d", 7 * 86_400_000), ("-2h", -7_200_000), ("now-1h30m", -5_400_000)):
        found = from_now(text)
        assert found is not None
        assert abs(found - now - distance) < 60_000
    assert from_now("7d") is from_now("2024") is from_now("") is None
    assert out("explain", DATA, "--now", "+7d")
    assert offsets_of(DATA, "-t", "orders", "--from", "-9000d") == offsets_of(DATA, "-t", "orders")
    assert offsets_of(DATA, "-t", "orders", "-o", "s@-1h") == offsets_of(DATA, "-t", "orders", "--from=-1h") == []
    assert "a time from now is -2h, or +7d" in fails(2, "explain", DATA, "--now", "7 days")


def test_sizes_for_people() -> None:
    assert "82.2 kB" in out("stats", DATA, "--human-readable")
    assert "15.7 kB" in out("ls", DATA, "--human-readable")
    assert "kB can be freed now" in out("explain", DATA, "--human-readable", "--config", "retention.ms=1")
    assert out("ls", DATA, "-J", "--human-readable") == out("ls", DATA, "-J")


# cat


def test_kcats_words() -> None:
    plain = call_bytes("cat", DATA, "-t", "orders").stdout
    assert call_bytes("cat", "-C", "-b", DATA, "-t", "orders", "-e", "-q").stdout == plain
    assert call_bytes("-C", "-b", DATA, "-t", "orders", "-eq").stdout == plain
    assert call_bytes("cat", f"-b{DATA}", "-Ceqt", "orders").stdout == plain
    assert call_bytes("-t", "orders", "-b", DATA).stdout == call_bytes("-b", DATA, "-C", "-t", "orders").stdout == plain
    assert out("-L", "-b", DATA) == out("-b", DATA, "-L") == out("ls", DATA)
    assert "kafkalog import" in fails(2, "-P", "-b", DATA)
    assert "is the address of a broker" in fails(2, "cat", "-b", "localhost:9092", "-t", "orders")
    assert "value=avro" in fails(2, "cat", DATA, "-t", "orders", "-s", "value=i")


def test_cat_of_a_key() -> None:
    table = kafkalog.read_table(DATA, "orders", columns=["key", "offset"]).to_pylist()
    for keys in (["key-1"], ["key-1", "key-20"], [""], ["none"]):
        wanted = [row["offset"] for row in table if row["key"] in {key.encode() for key in keys}]
        words = [word for key in keys for word in ("-k", key)]
        assert [int(line) for line in out("cat", DATA, "-t", "orders", *words, "-f", r"%o\n").splitlines()] == wanted
    assert out("cat", DATA, "-t", "orders", "-k", "key-20", "-c", "1", "-f", "%k") == "key-20"


def test_an_internal_topic_on_a_terminal() -> None:
    shown = on_terminal("cat", DATA, "-t", "__transaction_state", "-c", "1", "-f", "%o ")
    assert "kafkalog transactions PATH" in shown
    assert "--transaction-log-decoder" in shown
    assert "decoder" not in call("cat", DATA, "-t", "__transaction_state", "-f", "%o ").stderr
    assert "decoder" not in on_terminal("cat", DATA, "-t", "orders", "-c", "1", "-f", "%o ")


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    """A text that looks like the escape of an earlier version is text, and what is not has a field of its own."""
    values = [b"base64:/w==", b"\xff", b"", None, b"text"]
    with kafkalog.LogWriter(tmp_path / "L", "t") as writer:
        writer.append([kafkalog.Record(value, b"\xfe") for value in values])
    rows = [json.loads(line) for line in out("cat", tmp_path / "L", "-t", "t", "-J").splitlines()]
    texts = ["base64:/w==", None, "", None, "text"]
    assert [row["payload"] for row in rows] == texts
    assert [row.get("payloadBase64") for row in rows] == [None, "/w==", None, None, None]
    assert {(row["key"], row["keyBase64"]) for row in rows} == {(None, "/g==")}
    rows = [json.loads(line) for line in out("export", tmp_path / "L", "-", "--text").splitlines()]
    assert [(row["value"], row.get("valueBase64")) for row in rows] == [
        (text, "/w==" if value == b"\xff" else None) for text, value in zip(texts, values, strict=True)
    ]
    table = call_bytes("export", tmp_path / "L", "-", "--format", "csv", "--text").stdout.decode()
    found = list(csv.DictReader(io.StringIO(table, newline="")))
    assert [(row["value"], row["valueBase64"]) for row in found] == [
        (text or "", "/w==" if value == b"\xff" else "") for text, value in zip(texts, values, strict=True)
    ]
    for form in ("cat", "export"):
        lines = out(form, tmp_path / "L", *(["-t", "t", "-J"] if form == "cat" else ["-", "--text"]))
        (tmp_path / "t-0.jsonl").write_text(lines)
        assert call("import", tmp_path / "t-0.jsonl", tmp_path / form, "--text").returncode == 0
        again = kafkalog.read_table(tmp_path / form)
        assert (again["value"].to_pylist(), set(again["key"].to_pylist())) == (values, {b"\xfe"})


# export


def test_export_to_standard_output() -> None:
    wanted = kafkalog.read_table(DATA, "orders")
    stream = call_bytes("export", DATA, "-", "-t", "orders", "--format", "arrow").stdout
    assert pa.ipc.open_stream(stream).read_all() == wanted
    for form, separator in (("csv", ","), ("tsv", "\t")):
        table = call_bytes("export", DATA, "-", "-t", "orders", "--format", form).stdout.decode()
        rows = list(csv.DictReader(io.StringIO(table, newline=""), delimiter=separator))
        assert [int(row["offset"]) for row in rows] == wanted["offset"].to_pylist()
    lines = out("export", DATA, "-", "-t", "orders").splitlines()
    assert [json.loads(line)["offset"] for line in lines] == wanted["offset"].to_pylist()
    assert "--format arrow" in fails(2, "export", DATA, "-", "--format", "parquet")
    assert "not for a terminal" in on_terminal("export", DATA, "-", "--format", "arrow")


@pytest.mark.parametrize("ending", ["json", "ndjson", "tsv", "json.gz", "ndjson.gz", "tsv.gz", "jsonl"])
def test_endings(ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"orders.{ending}"
    assert call("export", DATA, file, "-t", "orders", "--columns", "offset").returncode == 0
    lines = (gzip.decompress(file.read_bytes()) if ending.endswith("gz") else file.read_bytes()).decode().splitlines()
    offsets = [int(line) for line in lines[1:]] if "tsv" in ending else [json.loads(line)["offset"] for line in lines]
    assert offsets == kafkalog.read_table(DATA, "orders", columns="offset")["offset"].to_pylist()


def test_compression_of_an_export(tmp_path: Path) -> None:
    for codec in ("snappy", "gzip", "zstd", "none"):
        file = tmp_path / f"{codec}.parquet"
        assert call("export", DATA, file, "-t", "orders", "--compression", codec).returncode == 0
        stored = pq.ParquetFile(file).metadata.row_group(0).column(0).compression
        assert stored == {"none": "UNCOMPRESSED"}.get(codec, codec.upper())
    assert call("export", DATA, tmp_path / "dir", "--format", "csv", "--compression", "gzip").returncode == 0
    assert (tmp_path / "dir" / "orders-0.csv.gz").exists()
    assert "it takes none, gzip" in fails(2, "export", DATA, tmp_path / "x.jsonl", "--compression", "lz4")
    assert "name it" in fails(2, "export", DATA, tmp_path / "x.jsonl", "--compression", "gzip")


def test_export_selects_as_cat_does() -> None:
    for words in (["-o", "-3"], ["-o", "870"], ["-c", "5"], ["-k", "key-20"], ["--latest"], ["-o", "s@1700030390000"]):
        lines = out("export", DATA, "-", "-t", "orders", "--columns", "offset", *words).splitlines()
        found = out("cat", DATA, "-t", "orders", "-f", r"%o\n", *words).split()
        assert [str(json.loads(line)["offset"]) for line in lines] == found != []


# Other commands


def test_dump_of_files_and_folders() -> None:
    files = sorted(ORDERS.glob("*.log"))
    named = call("dump", "--files", ",".join(map(str, files)), "--print-data-log", errors="replace").stdout
    assert call("dump", ORDERS, "--print-data-log", errors="replace").stdout == named
    assert call("dump", *files, "--print-data-log", errors="replace").stdout == named
    assert call("dump", DATA, "-t", "orders", "--print-data-log", errors="replace").stdout == named
    assert call("dump", "--key-decoder-class", *files[:1]).returncode == 0
    assert "FILE, a folder, or --files" in fails(2, "dump")


def test_groups_as_kafkas_tool_is_called() -> None:
    shown = call("groups", INTERNAL).stdout
    assert call("groups", INTERNAL, "--describe", "--all-groups").stdout == shown
    assert call("groups", "--bootstrap-server", INTERNAL, "--describe", "--all-groups").stdout == shown
    rows = [json.loads(line) for line in call("groups", INTERNAL, "--state", "-J").stdout.splitlines()]
    names = sorted(row["group"] for row in rows)
    assert sorted(call("groups", INTERNAL, "--list").stdout.split("\n")[:-1]) == names != []
    assert "STATE" in call("groups", INTERNAL, "--list", "--state").stdout
    verbose = call("groups", INTERNAL, "--describe", "--group", ",".join(names[:2]), "--verbose").stdout
    assert "LEADER-EPOCH" in verbose.splitlines()[0]
    assert {line.split()[0] for line in verbose.splitlines()[1:]} <= set(names[:2])


@pytest.mark.parametrize(
    "words",
    [
        ["retain", "--config", "retention.ms=1"],
        ["rewrite", "--drop-key", "key-1"],
        ["compact", "--config", "cleanup.policy=compact", "--now", "1700040000000"],
        ["truncate", "--offset", "500"],
    ],
)
@pytest.mark.sampled(2)
def test_a_dry_run_needs_no_output(words: list[str], tmp_path: Path) -> None:
    assert out(*words, "-n", ORDERS) == out(*words, "-n", ORDERS, tmp_path / "out")
    assert "name OUT" in fails(2, *words, ORDERS)


def test_offsets_takes_a_topic() -> None:
    assert (
        out("offsets", "-t", "orders", DATA)
        == out("offsets", "--bootstrap-server", DATA, "--topic", "orders")
        == "orders:0:880\n"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("cat DATA -t orders -G group", "without a broker"),
        ("cat DATA -t orders -X isolation.level=read_committed", "--isolation-level read_committed"),
        ("cat -b DATA -t orders -s value=avro -r http://localhost:8081", "schemas come from _schemas"),
        ("cat --bootstrap-server DATA --topic orders --property print.key=true", "-K ' ' prints keys"),
        ("cat --bootstrap-server DATA --topic orders --timeout-ms 100", "leave it out"),
        ("cat --bootstrap-server DATA --include ord.*", "-t names topics"),
        ("cat DATA --topic orders --formatter kafka.tools.DefaultMessageFormatter", "kafkalog groups"),
        ("groups --bootstrap-server DATA --reset-offsets --to-earliest", "kafkalog metadata"),
        ("groups DATA --delete --group g", "nothing is written"),
        ("offsets --bootstrap-server DATA --topic-partitions orders:0", "-t orders:0"),
        ("console-consumer --bootstrap-server DATA --topic orders", "use kafkalog cat"),
        ("kafka-dump-log.sh --files x", "use kafkalog dump"),
        ("log-dirs --describe --bootstrap-server DATA", "use kafkalog ls"),
        ("consume -b DATA -t orders", "use kafkalog cat"),
        ("cat DATA -t orders --limit 1", "-c N prints the first N"),
        ("cat DATA -t orders -n 1", "-c N prints the first N"),
        ("cat DATA -t orders --format json", "-J prints a JSON object a record"),
        ("cat DATA -t orders -f csv", "kafkalog export PATH - --format csv"),
        ("grep item DATA -f JSON", "-J prints a JSON object a record"),
        ("ls -l DATA", "--human-readable"),
        ("verify DATA -q", "-s error"),
        ("report DATA --html r.html", "-o FILE.html"),
        ("help grep", "kafkalog grep --help"),
        ("help first-huor", "first-hour"),
    ],
)
def test_what_is_refused_names_what_works(words: str, said: str) -> None:
    assert said in fails(2, *words.replace("DATA", str(DATA)).split())


@pytest.mark.parametrize(
    "words",
    [
        "cat --bootstrap-server DATA --topic orders --from-beginning --max-messages 1",
        "cat --bootstrap-server DATA --topic orders --partition 0 --offset 5",
        "cat DATA -t orders -o beginning -c 1 -K:",
        "cat DATA -t orders -o end",
        "cat -b DATA -C -t orders -p 0 -o -1 -e -q -J",
        "offsets --bootstrap-server DATA --topic orders --time -2",
        "offsets --broker-list DATA --topic orders --partitions 0",
        "dump --files SEGMENT --print-data-log --deep-iteration",
        "dump SEGMENT --value-decoder-class string",
        "stats DATA -t orders -p 0",
        "verify DATA",
    ],
)
def test_lines_of_other_tools(words: str) -> None:
    segment = str(ORDERS / f"{0:020}.log")
    done = call(*words.replace("DATA", str(DATA)).replace("SEGMENT", segment).split(), errors="replace")
    assert (done.returncode, done.stderr) == (0, "")
