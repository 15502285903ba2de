"""Log dirs that have some partitions of an internal topic, or damaged ones; folders that are no log dirs; odd names."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from command import call, fails
from kafkalog import tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GROUPS = [corpus.GOLDEN / "internal-compacted" / name for name in ("data-0", "data-1")]
OPEN = corpus.GOLDEN / "txn" / "data-1"
CLUSTER = corpus.GOLDEN / "clean-restarts" / "data-0"


def coverage(table: Any) -> Any:
    found: Any = json.loads(table.schema.metadata[b"kafkalog.partitions"])
    return found


def unread(table: Any) -> list[str]:
    found: list[str] = json.loads((table.schema.metadata or {}).get(b"kafkalog.unread", b"[]"))
    return found


@pytest.mark.parametrize("ask", [tables.consumer_groups, tables.consumer_offsets, tables.lag])
@pytest.mark.parametrize("on_corrupt", ["raise", "skip"])
def test_which_partitions_are_here(ask: Callable[..., Any], on_corrupt: str) -> None:
    topic = "__consumer_offsets"
    assert coverage(ask(GROUPS, on_corrupt=on_corrupt)) == {
        "topic": topic,
        "here": [0, 1],
        "of": 2,
        "source": "highest",
    }
    part = ask(GROUPS[0], on_corrupt=on_corrupt)
    assert coverage(part) == {"topic": topic, "here": [1], "of": 2, "source": "highest"}
    whole = ask(GROUPS, on_corrupt=on_corrupt).to_pylist()
    assert [row for row in whole if row in part.to_pylist()] == part.to_pylist()
    assert ask(GROUPS, on_corrupt="skip").equals(ask(GROUPS))


def test_which_partitions_records_are_of() -> None:
    topic = "__consumer_offsets"
    assert {"topic": topic, "here": [0, 1], "of": 2, "source": "highest"} in coverage(tables.records(GROUPS))
    [part] = coverage(tables.records(GROUPS[0], topic))
    assert part == {"topic": topic, "here": [1], "of": 2, "source": "highest"}
    [state] = coverage(tables.records(CLUSTER, "__transaction_state"))
    assert state["of"] > len(state["here"]) > 0
    assert coverage(tables.records(next(GROUPS[0].glob("__consumer_offsets-1/*.log")))) == [part]


def test_of_how_many_the_metadata_log_knows() -> None:
    noted = {row["partition"] for row in tables.topics(CLUSTER).to_pylist() if row["topic"] == "__transaction_state"}
    for table in (tables.transactions(CLUSTER), tables.open_transactions(CLUSTER)):
        assert coverage(table) == {
            "topic": "__transaction_state",
            "here": [0],
            "of": len(noted),
            "source": "metadata",
        }
    assert len(noted) > 1
    told = call("transactions", CLUSTER)
    assert told.returncode == 0
    assert f"__transaction_state: partitions 0 of {len(noted)} here" in told.stderr
    assert "other brokers" in told.stderr
    told = call("groups", GROUPS[0])
    assert "__consumer_offsets: partitions 1 of at least 2 here" in told.stderr
    assert "classic" in told.stdout or told.stdout


def test_none_is_here() -> None:
    for command, path, topic in (
        ("groups", CLUSTER, "__consumer_offsets"),
        ("transactions", OPEN, "__transaction_state"),
    ):
        said = fails(1, command, path)
        assert topic in said
        assert "another broker's log dir has it" in said


def damaged(log_dir: Path, folder: str) -> None:
    log = min((log_dir / folder).glob("*.log"))
    data = bytearray(log.read_bytes())
    # The length of the first batch.
    data[8:12] = b"\x7f\xff\xff\xff"
    log.write_bytes(data)
    for other in (*(log_dir / folder).glob("*.snapshot"), *(log_dir / folder).glob("*index")):
        other.unlink()


def test_a_damaged_partition_of_an_internal_topic(tmp_path: Path) -> None:
    dirs = [tmp_path / path.name for path in GROUPS]
    for source, target in zip(GROUPS, dirs, strict=True):
        shutil.copytree(source, target)
    damaged(dirs[0], "__consumer_offsets-1")
    with pytest.raises(kafkalog.CorruptRecordError):
        tables.consumer_groups(dirs)
    rest = tables.consumer_groups(dirs, on_corrupt="skip")
    assert rest.to_pylist() == tables.consumer_groups(GROUPS[1]).to_pylist()
    (error,) = unread(rest)
    assert "__consumer_offsets-1" in error
    told = call("groups", *dirs)
    assert told.returncode == 1
    assert told.stderr.count("__consumer_offsets-1") == 1
    assert str(rest["group"][0]) in told.stdout


def test_open_transactions_without_a_coordinator(tmp_path: Path) -> None:
    """The partitions have them; a damaged one does not end the others."""
    log_dir = tmp_path / "logs"
    shutil.copytree(OPEN, log_dir)
    expected = {16, 17}
    for flag in ("--open", "--hanging"):
        told = call("transactions", log_dir, flag, "-J")
        rows = [json.loads(line) for line in told.stdout.splitlines()]
        assert {row["producerId"] for row in rows} == expected, flag
        assert told.returncode == 0
        assert "__transaction_state" in told.stderr
        assert call("transactions", log_dir, flag).returncode == 0
    shutil.copytree(log_dir / "txn-open-0", log_dir / "other-0")
    damaged(log_dir, "other-0")
    with pytest.raises(kafkalog.KafkaLogError):
        tables.open_transactions(log_dir)
    table = tables.open_transactions(log_dir, on_corrupt="skip")
    assert set(table["producerId"].to_pylist()) == expected
    assert "other-0" in unread(table)[0]
    for flag in ("--open", "--hanging"):
        told = call("transactions", log_dir, flag, "-J")
        assert {json.loads(line)["producerId"] for line in told.stdout.splitlines()} == expected
        assert told.returncode == 1
        assert "other-0" in told.stderr


def test_a_folder_above_a_log_dir_names_it(tmp_path: Path) -> None:
    deep = tmp_path / "pvc" / "kafka" / "kafka-logs"
    shutil.copytree(CLUSTER, deep)
    (tmp_path / "pvc" / "lost+found").mkdir()
    for path in (deep.parent, deep.parent.parent):
        for words in (["ls"], ["cat"], ["stats"], ["verify"], ["explain"], ["groups"], ["offsets"]):
            said = fails(2, words[0], path)
            assert (
                f"not a log dir: it contains no partition folder and none of a broker's files; {deep} is one" in said
            ), words
        for command in (("truncate", path, tmp_path / "out", "--offset", "1"), ("rebuild", path)):
            assert f"{deep} is one" in fails(2, *command), command
        with pytest.raises(ValueError, match=f"{deep} is one"):
            kafkalog.PartitionLog(path)
    for command in (("truncate", deep, tmp_path / "out", "--offset", "1"), ("rebuild", deep)):
        assert f"{deep}: not a partition folder; {deep}" in fails(2, *command), command
    shutil.copytree(CLUSTER, deep.with_name("kafka-logs-2"))
    with pytest.raises(ValueError, match=r"kafka-logs and .*kafka-logs-2 are"):
        kafkalog.LogDir(deep.parent)


def test_redpanda_is_called_that(tmp_path: Path) -> None:
    partition = tmp_path / "data" / "kafka" / "orders" / "0_12"
    partition.mkdir(parents=True)
    (partition / "0-1-v1.log").write_bytes(b"x" * 100)
    (partition / "0-1-v1.base_index").write_bytes(b"x")
    for path in (partition, partition.parent, tmp_path / "data" / "kafka", tmp_path / "data", tmp_path):
        with pytest.raises(ValueError, match="Redpanda's, whose files have another format"):
            kafkalog.LogDir(path)


def test_an_empty_log_dir_has_no_topics(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    for path in (tmp_path, tmp_path / "empty"):
        path.mkdir(exist_ok=True)
        told = call("cat", path)
        assert "several topics" not in told.stderr
        assert "no partition" in told.stderr
        assert (told.returncode, told.stdout) == (1, "")


def test_tables_escape_and_cut(capsys: pytest.CaptureFixture[str]) -> None:
    from kafkalog.cli import _printing

    rows = [("a\nb\x1b[31m\u202e", "x" * 249, 1), ("plain é", "y", 2)]
    _printing.table(["NAME", "LONG", "N"], rows, right=["N"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("a\\nb\\x1b[31m\\u202e  xxx")
    assert "é" in lines[2]
    assert max(map(len, lines)) < 130
    assert "..." in lines[1]


def test_an_odd_group_name_is_one_line(tmp_path: Path) -> None:
    key = {"group": "two\nlines\x1b[2J", "topic": "t", "partition": 0}
    value = {"offset": 5, "metadata": "", "commitTimestamp": 1, "expireTimestamp": -1}
    from kafkalog import _core

    kind = "OffsetCommit"
    made = _core.encode_record("__consumer_offsets", kind, 1, json.dumps(key), json.dumps(value))
    config = kafkalog.LogConfig(cleanup_policy="compact")
    with kafkalog.LogWriter(tmp_path / "logs", "__consumer_offsets", config=config) as log:
        log.append([kafkalog.Record(made[1], made[0])])
    for words in (["groups"], ["groups", "--state"]):
        told = call(words[0], tmp_path / "logs", *words[1:])
        assert len(told.stdout.splitlines()) == 2
        assert "two\\nlines\\x1b[2J" in told.stdout


def test_one_long_name_widens_its_own_line(tmp_path: Path) -> None:
    """And no other; names of one length stand in one column; -J has the whole name."""
    logs, long = tmp_path / "logs", "t" * 249
    for topic in ("short", long, "other"):
        kafkalog.LogWriter(logs, topic).close()
    for command in ("ls", "stats", "explain"):
        told = call(command, logs).stdout
        assert long not in told
        rows = [line for line in told.splitlines() if line.startswith(("short", "other", "topic", "TOPIC"))]
        assert len(rows) > 2
        assert max(map(len, rows)) < 160
        assert call(command, logs, "-J").stdout.count(long) > 0
    for n in range(3):
        kafkalog.LogWriter(tmp_path / "alike", f"{n}{'t' * 59}").close()
    lines = call("ls", tmp_path / "alike").stdout.splitlines()
    assert len({line.index("live") for line in lines[1:]}) == 1


def test_names_of_files_are_escaped(tmp_path: Path) -> None:
    """A folder that is not a topic's may have any name, also in a report."""
    logs = tmp_path / "logs"
    kafkalog.LogWriter(logs, "t").close()
    odd = "new\nline\x1b[2J-0"
    (logs / odd).mkdir()
    (logs / "t-0" / "a\nb").write_text("x")
    rewritten = ("rewrite", logs, tmp_path / "o", "--drop-key", "k")
    for command, *more in (("verify", logs), ("verify", logs, "--evidence"), rewritten):
        said = call(str(command), *more)
        text = said.stdout + said.stderr
        assert "new\\nline\\x1b[2J-0" in text
        assert "\x1b" not in text
        assert not [line for line in text.splitlines() if line.startswith(("line", "b:"))]
