"""``kafkalog.explain``: agrees with ``kafkalog.retain``, and names what holds a segment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import corpus
import kafkalog
from command import call
from recover_cases import digests, outcome
from retain_cases import CASES, source_of

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_700_000_000_000
DAY = 86_400_000
FOREVER = {"retention.ms": -1}


def all_rounds() -> list[tuple[str, int, int]]:
    """Every time at which a case looks at a log that it has not changed yet."""
    found = []
    for case in sorted(CASES.iterdir()):
        if case.name != "_base":
            config = json.loads((case / "config.json").read_text())
            for n, each in enumerate(config["rounds"]):
                found.append((case.name, n, each["now_ms"]))
    return found


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Times in milliseconds: those of microseconds are beyond datetime."""
    for n, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            table = table.set_column(n, column.name, table.column(n).cast(pa.int64()))
    return table.to_pylist()


@pytest.mark.parametrize(("name", "n", "now"), all_rounds())
def test_what_is_deletable_is_what_retain_deletes(tmp_path: Path, name: str, n: int, now: int) -> None:
    source = tmp_path / "source"
    config = source_of(CASES / name, source)
    before = digests(source)
    rows = rows_of(kafkalog.explain(source, now, config=config["log"]))
    report = kafkalog.retain(source, tmp_path / "out", now=now, config=config["log"], dry_run=True)
    assert digests(source) == before
    (partition,) = report.partitions
    deletable = [
        (row["baseOffset"], row["retentionRule"], row["largestTimestamp"]) for row in rows if row["bytesFreeable"]
    ]
    assert deletable == [(each.base_offset, each.rule, each.largest_timestamp) for each in partition.deleted]
    assert sum(row["bytesFreeable"] for row in rows) == report.bytes_deleted
    if n == 0 and "delete_records_before" not in config["rounds"][0]:
        kafka = next(line for line in outcome(CASES / name) if line["event"] == "round")
        for row, theirs in zip(rows, kafka["segments_before"], strict=True):
            ours = {
                "base": row["baseOffset"],
                "size": row["size"],
                "from_mtime": row["timestampSource"] == "mtime",
                "largest_timestamp": row["largestTimestamp"],
            }
            # Of a file's modification time Kafka does not say what it is.
            assert {name: ours[name] for name in theirs} == theirs


def test_the_time_told_is_the_first_at_which_it_goes(tmp_path: Path) -> None:
    source = tmp_path / "source"
    config = source_of(CASES / "time-stops-at-first", source)
    settings = config["log"]
    at = min(each["now_ms"] for each in config["rounds"])
    rows = rows_of(kafkalog.explain(source, at, config=settings))
    waiting = [row for row in rows if row["retention"] == "waiting"]
    assert waiting
    assert {row["heldBy"] for row in waiting} == {"age", "older_segment"}
    for row in waiting:
        for time, goes in ((row["retentionTime"] - 1, False), (row["retentionTime"], True)):
            report = kafkalog.retain(source, tmp_path / "out", now=time, config=settings, dry_run=True)
            deleted = {each.base_offset for each in report.partitions[0].deleted}
            assert (row["baseOffset"] in deleted) == goes


def written(log_dir: Path, times: list[int], config: kafkalog.LogConfig) -> Path:
    """Write a batch of 10 records for each time."""
    with kafkalog.LogWriter(log_dir, "orders", config=config, clock=lambda: NOW) as log:
        for time in times:
            log.append([kafkalog.Record(b"v" * 50, b"k%d" % n, time + n) for n in range(10)])
    return log_dir


TOLERANT = {"segment_bytes": 2000, "message_timestamp_after_max_ms": (1 << 63) - 1}


@pytest.mark.parametrize(
    ("stamp", "reason"),
    [(NOW + 30 * DAY, "future_timestamp"), (NOW * 1000, "microseconds"), (NOW * 1_000_000, "nanoseconds")],
)
@pytest.mark.sampled(2)
def test_the_record_that_holds_all_after_it(tmp_path: Path, stamp: int, reason: str) -> None:
    old = NOW - 30 * DAY
    times = [old] * 6 + [stamp] + [old] * 6
    source = written(tmp_path / "logs", times, kafkalog.LogConfig(**TOLERANT))  # type: ignore[arg-type]
    rows = rows_of(kafkalog.explain(source, NOW, config={"retention.ms": DAY, "segment.bytes": 2000}))
    held = [row for row in rows if row["retention"] == "waiting"]
    assert {row["pinReason"] for row in held} == {reason}
    assert {row["pinOffset"] for row in held} == {69}
    assert {row["pinTimestamp"] for row in held} == {stamp + 9}
    assert {row["retentionTime"] for row in held} == {stamp + 9 + DAY + 1}
    assert [row["heldBy"] for row in held] == ["age", *["older_segment"] * (len(held) - 1)]
    assert rows[0]["retention"] == "deletable"
    assert {row["rolledBy"] for row in rows} == {"size", None}
    told = call("explain", source, "--now", str(NOW), "--config", f"retention.ms={DAY}")
    assert told.returncode == 0, told.stderr
    first = told.stdout.splitlines()
    assert f"{sum(row['bytesFreeable'] for row in rows)} bytes can be freed now" in first[0]
    assert "orders-0: the timestamp of offset 69" in told.stdout
    lines = call("explain", source, "--now", str(NOW), "--config", f"retention.ms={DAY}", "-J").stdout.splitlines()
    assert [json.loads(line)["pinOffset"] for line in lines] == [row["pinOffset"] for row in rows]


def test_why_a_segment_was_rolled(tmp_path: Path) -> None:
    small = {"segment.bytes": 1 << 20, "segment.index.bytes": 24, "index.interval.bytes": 0}
    config = kafkalog.LogConfig.from_kafka(small)
    full = written(tmp_path / "full", [NOW] * 8, config)
    rows = rows_of(kafkalog.explain(full, NOW, config=small))
    assert {row["rolledBy"] for row in rows[:-1]} == {"index_full"}
    long = kafkalog.LogConfig(segment_ms=DAY // 2, message_timestamp_after_max_ms=10 * DAY)
    aged = written(tmp_path / "aged", [NOW, NOW + DAY, NOW + 2 * DAY], long)
    rows = rows_of(kafkalog.explain(aged, NOW, config={"segment.ms": DAY // 2}))
    assert [row["rolledBy"] for row in rows] == ["time", "time", None]
    with kafkalog.LogWriter(tmp_path / "hand", "orders") as log:
        log.append([kafkalog.Record(b"v")])
        log.roll()
        log.append([kafkalog.Record(b"v")])
    assert [row["rolledBy"] for row in rows_of(kafkalog.explain(tmp_path / "hand"))] == ["unknown", None]


@pytest.mark.parametrize(
    ("config", "held"),
    [
        (FOREVER, "unlimited"),
        ({**FOREVER, "retention.bytes": 1 << 40}, "size"),
        ({"cleanup.policy": "compact"}, "cleanup_policy"),
        ({"remote.storage.enable": "true"}, "tiered_storage"),
    ],
)
def test_what_never_goes_by_itself(tmp_path: Path, config: dict[str, Any], held: str) -> None:
    source = written(tmp_path / "logs", [NOW] * 6, kafkalog.LogConfig(segment_bytes=2000))
    rows = rows_of(kafkalog.explain(source, NOW + 1000 * DAY, config=config))
    assert {(row["retention"], row["heldBy"], row["retentionTime"]) for row in rows} == {("kept", held, None)}
    assert {row["configSource"] for row in rows} == {"given"}


def test_compaction(tmp_path: Path) -> None:
    """Up to the cleaner's checkpoint clean, then dirty, then what the lag protects, then the active segment."""
    times = [NOW + n * 1000 for n in range(12)]
    source = written(tmp_path / "logs", times, kafkalog.LogConfig(segment_bytes=1500))
    bases = [segment.base_offset for segment in kafkalog.PartitionLog(source / "orders-0").segments]
    (source / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {bases[2]}\n")
    lag = {"cleanup.policy": "compact", "min.compaction.lag.ms": 4000}
    rows = rows_of(kafkalog.explain(source, NOW + 11_000, config=lag))
    verdicts = [(row["compaction"], row["compactionHeldBy"]) for row in rows]
    assert verdicts[:2] == [("clean", None)] * 2
    assert verdicts[-1] == ("uncleanable", "active")
    young = [row["baseOffset"] for row in rows[:-1] if row["largestTimestamp"] > NOW + 7000]
    assert [row["baseOffset"] for row in rows[:-1] if row["compactionHeldBy"] == "min_lag"] == young
    assert ("dirty", None) in verdicts
    assert {row["heldBy"] for row in rows} == {"cleanup_policy"}
    plain = kafkalog.explain(source, NOW, config=FOREVER)
    assert plain["compaction"].null_count == plain.num_rows


def test_an_open_transaction_stops_compaction() -> None:
    """A broker wrote it; what it holds is what the table of open transactions names."""
    source = corpus.GOLDEN / "txn" / "data-1"
    opened = kafkalog.tables.open_transactions(source).to_pylist()
    assert opened
    table = kafkalog.explain(source, NOW, config={"cleanup.policy": "compact"})
    for row in opened:
        if row["blocksLastStableOffset"]:
            of = (pc.field("topic") == row["topic"]) & (pc.field("partition") == row["partition"])
            held = rows_of(table.filter(of & (pc.field("compactionHeldBy") == "open_transaction")))
            for each in held:
                assert (each["pinOffset"], each["pinProducerId"]) == (row["firstOffset"], row["producerId"])
                assert each["pinReason"] == "open_transaction"
            assert (
                held
                or row["firstOffset"]
                >= max(rows_of(table.filter(of)), key=lambda each: each["baseOffset"])["baseOffset"]
            )


def test_settings_of_a_broker(tmp_path: Path) -> None:
    source = corpus.GOLDEN / "clean-restarts" / "data-0"
    table = kafkalog.explain(source)
    assert "__cluster_metadata" not in table["topic"].to_pylist()
    found = {(row["topic"], row["configSource"], row["compaction"] is None) for row in rows_of(table)}
    assert ("state", "metadata", False) in found
    assert ("events", "metadata", True) in found
    damaged = tmp_path / "damaged"
    log = written(damaged, [NOW] * 6, kafkalog.LogConfig(segment_bytes=2000)) / "orders-0"
    first = log / f"{0:020}.log"
    first.write_bytes(b"\xff" * first.stat().st_size)
    rows = rows_of(kafkalog.explain(damaged, NOW, config=FOREVER))
    assert [row["size"] for row in rows] == [segment.size for segment in kafkalog.PartitionLog(log).segments]
