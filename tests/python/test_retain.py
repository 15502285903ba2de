"""``kafkalog.retain``: what Kafka's retention leaves, in a new log dir that is whole or says that it is not."""

from __future__ import annotations

import json
import pickle
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from command import call, fails
from recover_cases import digests, digests_as_kafkas, outcome
from retain_cases import CASES, MARKER, source_of

if TYPE_CHECKING:
    from pathlib import Path

CHECKPOINTS = ("cleaner-offset-", "log-start-offset-", "recovery-point-offset-", "replication-offset-")


def single_rounds() -> list[str]:
    """Name the cases of one round, which one call can repeat, and whose files are not to wait for their removal."""
    names = []
    for case in sorted(CASES.iterdir()):
        if case.name != "_base":
            config = json.loads((case / "config.json").read_text())
            if len(config["rounds"]) == 1 and "delete_records_before" not in config["rounds"][0]:
                names.append(case.name)
    return names


def kafkas(case: Path) -> dict[str, str]:
    files = [line for line in outcome(case) if line["event"] == "file" and line["change"] != "deleted"]
    names = {line["name"]: line["after_sha256"] for line in files}
    return {name: digest for name, digest in names.items() if name.startswith("orders-0/") and ".deleted" not in name}


@pytest.mark.parametrize("whole", [True, False], ids=["log-dir", "partition"])
@pytest.mark.parametrize("name", single_rounds())
@pytest.mark.sampled(22)
def test_as_kafka(tmp_path: Path, name: str, *, whole: bool) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    config = source_of(CASES / name, source)
    before = digests(source)
    kafka = next(line for line in outcome(CASES / name) if line["event"] == "round")
    path = source if whole else source / "orders-0"
    settings = {name: value for name, value in config["log"].items() if name != "file.delete.delay.ms"}
    planned = kafkalog.retain(path, out, now=kafka["now_ms"], config=settings, dry_run=True)
    assert not out.exists()
    report = kafkalog.retain(path, out, now=kafka["now_ms"], config=settings)
    assert digests(source) == before
    assert planned.partitions == report.partitions
    assert pickle.loads(pickle.dumps(report)) == report  # noqa: S301 - our own bytes

    (partition,) = report.partitions
    deleted = [{"base": each.base_offset, "reason": each.rule} for each in partition.deleted]
    reasons = [{**each, "reason": each["reason"].replace("_mtime", "")} for each in kafka["deleted_segments"]]
    assert deleted == reasons
    assert partition.log_start_offset == kafka["log_start_offset"]
    assert report.bytes_deleted == sum(each.size for each in partition.deleted)
    left = digests_as_kafkas(out, CASES / name / "after")
    assert {each: left[each] for each in left if each.startswith("orders-0/")} == kafkas(CASES / name)
    assert (out / MARKER).exists()
    assert {each for each in left if "/" not in each} <= {MARKER, *(f"{name}checkpoint" for name in CHECKPOINTS)}

    log = kafkalog.PartitionLog(out / "orders-0")
    assert log.log_start_offset == kafka["log_start_offset"]
    assert log.log_end_offset == kafka["log_end_offset"]
    assert log.high_watermark == max(partition.high_watermark, log.log_start_offset)
    for path in (out / "orders-0").glob("*.log"):
        if (source / "orders-0" / path.name).exists():
            assert path.stat().st_mtime_ns == (source / "orders-0" / path.name).stat().st_mtime_ns


def filled(log_dir: Path, rows: int = 300) -> Path:
    config = kafkalog.LogConfig(segment_bytes=2000)
    with kafkalog.LogWriter(log_dir, "orders", config=config, clock=lambda: 1000) as log:
        for n in range(rows // 10):
            log.append([kafkalog.Record(b"v" * 50, b"k", 1000 + n) for _ in range(10)])
    return log_dir


def test_settings_come_from_the_metadata_log(tmp_path: Path) -> None:
    source = corpus.GOLDEN / "clean-restarts" / "data-0"
    topics = {row["topic"]: dict(row["configs"]) for row in kafkalog.tables.topics(source).to_pylist()}
    assert topics["state"]["cleanup.policy"] == "compact"
    report = kafkalog.retain(source, tmp_path / "out", now=1 << 50)
    for partition in report.partitions:
        by_time = {each.rule for each in partition.deleted} == {"time"}
        deletes = "compact" not in topics[partition.topic].get("cleanup.policy", "delete") and partition.log_end_offset
        assert by_time == bool(deletes), partition.topic
    assert (tmp_path / "out" / "__cluster_metadata-0").is_dir()
    assert kafkalog.verify(tmp_path / "out").filter(~corpus_info()).num_rows == 0
    longer = kafkalog.retain(source, tmp_path / "longer", now=1 << 50, config={"retention.ms": -1})
    assert longer.bytes_deleted == 0


def test_internal_topics_keep_their_own_settings(tmp_path: Path) -> None:
    source = corpus.GOLDEN / "clean-restarts" / "data-1"
    delete = {"retention.ms": 0, "cleanup.policy": "delete"}
    assert not (source / "__cluster_metadata-0").exists()
    for config in (delete, kafkalog.LogConfig(retention_ms=0)):
        report = kafkalog.retain(source, tmp_path / "out", now=1 << 50, config=config, dry_run=True)
        emptied = {each.topic for each in report.partitions if each.deleted}
        assert emptied == {"events", "ledger", "orders"}
    named = kafkalog.retain(
        source / "__transaction_state-1", tmp_path / "out", now=1 << 50, config=delete, dry_run=True
    )
    assert named.bytes_deleted > 0


def corpus_info() -> Any:
    import pyarrow.compute as pc

    return pc.field("severity") == "info"


def test_unknown_settings_are_refused(tmp_path: Path) -> None:
    source = filled(tmp_path / "logs")
    for path in (source, source / "orders-0"):
        with pytest.raises(ValueError, match="settings of topic 'orders' are not known"):
            kafkalog.retain(path, tmp_path / "out")
        said = fails(2, "retain", path, tmp_path / "out")
        assert "settings of topic 'orders'" in said
    for config, error in (({"no.such": 1}, ValueError), (7, TypeError), ({"retention.ms": "x"}, ValueError)):
        with pytest.raises(error):
            kafkalog.retain(source, tmp_path / "out", config=config)  # type: ignore[arg-type]
    tiered = {"remote.storage.enable": "true"}
    with pytest.raises(ValueError, match=r"orders-0: remote\.storage\.enable"):
        kafkalog.retain(source, tmp_path / "out", config=tiered)
    assert not (tmp_path / "out").exists()


def test_command_line(tmp_path: Path) -> None:
    source = filled(tmp_path / "logs")
    size = kafkalog.PartitionLog(source / "orders-0").size
    words: list[str | Path] = [
        "retain",
        source,
        tmp_path / "out",
        "--config",
        "retention.bytes=5000",
        "--config",
        "retention.ms=-1",
    ]
    planned = call(*words, "--dry-run")
    assert not (tmp_path / "out").exists()
    assert planned.stdout.splitlines()[-1].endswith("would be left out")
    done = call(*words, "-J")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    deleted = sum(segment["size"] for segment in told["deleted"])
    assert (told["topic"], told["size"]) == ("orders", size - deleted)
    assert {segment["rule"] for segment in told["deleted"]} == {"size"}
    assert f"{deleted} bytes would be left out" in planned.stdout
    assert 5000 <= told["size"] < 5000 + told["deleted"][0]["size"]
    log = kafkalog.PartitionLog(tmp_path / "out" / "orders-0")
    assert (log.log_start_offset, log.log_end_offset) == (told["logStartOffset"], 300)
    assert "File exists" in fails(3, *words)


_RETAIN = "import sys, kafkalog; kafkalog.retain(sys.argv[1], sys.argv[2], config={'retention.ms': -1})"


@pytest.mark.full
def test_a_kill_leaves_a_whole_result_or_a_note(tmp_path: Path) -> None:
    source = filled(tmp_path / "logs", 2500)
    before = digests(source)
    kafkalog.retain(source, tmp_path / "whole", config={"retention.ms": -1})
    whole, killed = digests(tmp_path / "whole"), 0
    for n in range(6):
        out = tmp_path / f"out-{n}"
        child = subprocess.Popen([sys.executable, "-c", _RETAIN, str(source), str(out)])
        while not out.exists() and child.poll() is None:
            time.sleep(0.0005)
        time.sleep(n * 0.004)
        child.send_signal(signal.SIGKILL)
        child.wait()
        if child.returncode == 0 or not any(out.iterdir()):
            continue
        if digests(out) != whole:
            killed += 1
            if (out / ".kafkalog-unfinished").exists():
                codes = kafkalog.verify(out)["code"].to_pylist()
                assert "unfinished-output" in codes
                # Whose it is counts: others find a directory that is not empty.
                shutil.copytree(source, tmp_path / "other", dirs_exist_ok=True)
                with pytest.raises(FileExistsError):
                    kafkalog.retain(tmp_path / "other", out, config={"retention.ms": -1})
            else:
                assert {path.name for path in out.iterdir()} == {".kafkalog-unfinished.tmp"}
        if killed:
            shutil.rmtree(tmp_path / "other", ignore_errors=True)
        if digests(out) != whole:
            kafkalog.retain(source, out, config={"retention.ms": -1})
        assert digests(out) == whole
    assert killed
    assert digests(source) == before
