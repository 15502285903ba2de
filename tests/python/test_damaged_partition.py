"""One damaged partition does not end what is asked of several: rows of the others, an error on stderr, exit code 1."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
from command import call
from kafkalog import _core

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 20


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    for partition in range(3):
        with kafkalog.LogWriter(data, "orders", partition) as writer:
            for n in range(COUNT):
                writer.append([kafkalog.Record(b"%d" % n, timestamp=1_700_000_000_000 + n)])
    return data


def damage(data: Path, position: int) -> Path:
    """Change a byte of the second partition."""
    log = data / "orders-1" / f"{0:020}.log"
    content = bytearray(log.read_bytes())
    content[position] ^= 1
    log.write_bytes(content)
    return log


MORE = [[], ["--isolation-level", "read_committed"], ["-o", "-18"], ["-o", "s@1700000000003"]]


@pytest.mark.parametrize("more", MORE)
def test_cat_prints_the_other_partitions(data: Path, more: list[str]) -> None:
    command: tuple[str | Path, ...] = ("cat", data, "-t", "orders", "-f", "%p %o\\n", *more)
    whole = call(*command).stdout.splitlines()
    log = damage(data, 500)
    said = call(*command)
    assert said.returncode == 1
    shown = said.stdout.splitlines()
    for partition in "02":
        kept = [line for line in whole if line.startswith(partition)]
        assert kept
        assert [line for line in shown if line.startswith(partition)] == kept
    if more[:1] != ["-o"]:
        assert 0 < len([line for line in shown if line.startswith("1")]) < COUNT
        [line] = said.stderr.splitlines()
        assert line.startswith(f"kafkalog: {log}: ")
        assert "--on-corrupt skip" in line
    assert call("cat", data / "orders-1", "-f", "%o\\n").returncode == 1
    few = call("cat", data, "-t", "orders", "-f", "%p %o\\n", "-c", "3")
    assert (few.returncode, few.stdout) == (0, "0 0\n0 1\n0 2\n")


def test_a_partition_that_cannot_be_planned_is_left_out(data: Path) -> None:
    checkpoint = data / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\norders 1 4001\n")
    said = call("cat", data, "-t", "orders", "-f", "%p %o\\n")
    assert said.returncode == 1
    assert {line.split()[0] for line in said.stdout.splitlines()} == {"0", "2"}
    [line] = said.stderr.splitlines()
    assert "4001" in line
    exported = call("export", data, data.parent / "out", "-t", "orders")
    assert exported.returncode == 1
    assert sorted(each.name for each in (data.parent / "out").iterdir()) == ["orders-0.parquet", "orders-2.parquet"]


def test_export_writes_the_files_of_the_others_and_none_that_looks_whole(data: Path, tmp_path: Path) -> None:
    log = damage(data, 500)
    said = call("export", data, tmp_path / "out", "-t", "orders")
    assert said.returncode == 1
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == ["orders-0.parquet", "orders-2.parquet"]
    first, last = said.stderr.splitlines()
    assert first.startswith(f"kafkalog: {log}: ")
    assert first.endswith(f"; {tmp_path / 'out' / 'orders-1.parquet'} is not written")
    assert "--on-corrupt skip" in first
    assert last == f"kafkalog: {2 * COUNT} records in 2 parquet file(s) in {tmp_path / 'out'}"
    single = call("export", data, tmp_path / "all.parquet", "-t", "orders")
    assert single.returncode == 1
    assert not (tmp_path / "all.parquet").exists()
    alone = call("export", data, tmp_path / "alone", "-t", "orders", "-p", "1")
    assert alone.returncode == 1
    assert list((tmp_path / "alone").iterdir()) == []


def internal(topic: str, kind: str, version: int, key: dict[str, Any], value: dict[str, Any]) -> kafkalog.Record:
    encoded = _core.encode_record(topic, kind, version, json.dumps(key), json.dumps(value))
    return kafkalog.Record(encoded[1], encoded[0])


@pytest.fixture
def internal_topics(data: Path) -> Path:
    """Three partitions of each of Kafka's own topics, of which the second is damaged at its first batch, too."""
    config = kafkalog.LogConfig(cleanup_policy="compact")
    transaction = {"producerEpoch": 0, "transactionTimeoutMs": 1000, "transactionStatus": 1}
    transaction |= {"transactionLastUpdateTimestampMs": 5, "transactionStartTimestampMs": 5}
    offset = {"offset": 5, "metadata": "", "commitTimestamp": 1, "expireTimestamp": -1}
    for n in range(3):
        places = [{"topic": "orders", "partitionIds": [n]}]
        value = {**transaction, "producerId": n, "transactionPartitions": places}
        committed = {"group": f"g{n}", "topic": "orders", "partition": 2 - n}
        for topic, record in (
            ("__consumer_offsets", ("OffsetCommit", 1, committed, offset)),
            ("__transaction_state", ("TransactionLog", 0, {"transactionalId": f"t{n}"}, value)),
        ):
            with kafkalog.LogWriter(data, topic, n, config=config) as writer:
                writer.append([internal(topic, *record)])
    for topic in ("orders", "__consumer_offsets", "__transaction_state"):
        log = data / f"{topic}-1" / f"{0:020}.log"
        # The length of the first batch.
        log.write_bytes(log.read_bytes()[:8] + b"\x7f\xff\xff\xff" + log.read_bytes()[12:])
    return data


ANSWERS = {
    ("groups",): ["g0", "g2"],
    ("groups", "--offsets"): ["g0", "g2"],
    ("groups", "--state"): ["g0", "g2"],
    ("transactions",): ["t0", "t2"],
    ("transactions", "--open"): ["t0", "t2"],
    ("transactions", "--hanging"): [],
    ("explain",): ["orders"],
    ("offsets",): ["__consumer_offsets:0:1", "__transaction_state:2:1", "orders:0:20", "orders:2:20"],
    ("offsets", "--time", "1700000000005"): ["orders:0:5", "orders:2:5"],
    ("offsets", "--time", "max-timestamp"): ["orders:0:19", "orders:2:19"],
    ("stats",): ["orders"],
    ("ls",): ["orders"],
}


@pytest.mark.parametrize("words", ANSWERS)
@pytest.mark.sampled(2)
def test_verbs_over_many_partitions_answer_for_the_others(internal_topics: Path, words: tuple[str, ...]) -> None:
    said = call(words[0], internal_topics, *words[1:])
    assert said.returncode == 1
    for answer in ANSWERS[words]:
        assert answer in said.stdout
    assert "g1" not in said.stdout
    lines = said.stderr.splitlines()
    assert lines
    for line in lines:
        assert line.startswith(f"kafkalog: {internal_topics}/")
        assert f"-1/{0:020}.log: byte 8: batch length: expected " in line
