"""Local and remote segments as one log: what a consumer of the real broker got, in both layouts."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pytest

import kafkalog
import tiered_cases
from kafkalog.cli.main import main
from kafkalog.errors import KafkaLogError
from s3_server import S3Server
from tiered_cases import COLUMNS, expected_rows, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tiered_cases import TieredCase

MORE = tiered_cases.more_cases()
LEVELS: tuple[tuple[str, Any], ...] = (("uncommitted", "read_uncommitted"), ("committed", "read_committed"))
WHOLE = [name for name in tiered_cases.NAMES if "damaged" not in name]


@pytest.fixture(scope="module", params=WHOLE)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TieredCase:
    return tiered_cases.unpack(request.param, tmp_path_factory.mktemp(request.param))


def golden(name: str, tmp_path: Path) -> TieredCase:
    return tiered_cases.unpack(name, tmp_path / name)


def check(case: TieredCase, path: Path | None, *, alone: bool = False) -> None:
    """Rows of both isolation levels, ends, and the offsets of times."""
    dirs = kafkalog.LogDir(path, **case.remote)
    for topic, partition in case.partitions():
        answers = case.offsets(topic, partition)
        end = answers["latest"]
        if alone:
            if answers["latest_tiered"] < 0 or (topic, partition) not in dirs:
                continue
            # A copy that is whole counts, even if the broker was killed before it said so.
            end = dirs[topic, partition].log_end_offset
            assert answers["latest_tiered"] < end <= answers["latest"]
        log = dirs[topic, partition]
        assert log.log_end_offset == end
        if not alone or answers["earliest"] == log.log_start_offset:
            check_offsets(log, answers, end)
        for kind, level in LEVELS:
            wanted = case.rows(topic, partition, kind)
            # In a tier alone some transactions are open: their ends are in the local log.
            if wanted is None or (alone and kind == "committed"):
                continue
            table = kafkalog.read_table(
                path, topic, partitions=partition, isolation_level=level, columns=COLUMNS, **case.remote
            )
            found = [row for row in rows_of(table) if row["offset"] >= answers["earliest"]]
            assert found == expected_rows(wanted, end if alone else None), (topic, partition, kind)
            assert alone or len(found) == table.num_rows


def check_offsets(log: kafkalog.PartitionLog, answers: dict[str, Any], end: int) -> None:
    """The log's start, and offsets by time, as far as the log reaches."""
    assert log.log_start_offset == answers["earliest"]
    for each in answers["times"]:
        if each["offset"] < end and (each["offset"] >= 0 or end == answers["latest"]):
            answer = log.offset_for_timestamp(each["timestamp"])
            got = (-1, -1, None) if answer is None else tuple(answer)
            assert got == (each["offset"], each["found_timestamp"], each["leader_epoch"])


def test_reads_are_the_brokers(case: TieredCase) -> None:
    check(case, case.data)


def test_reads_without_the_metadata_topic(case: TieredCase, tmp_path: Path) -> None:
    check(case, case.withheld(tmp_path / "data"))


def test_the_tier_alone(case: TieredCase) -> None:
    check(case, None, alone=True)


@pytest.mark.full
@pytest.mark.parametrize("each", [each for each in MORE if "damaged" not in each.name], ids=lambda each: each.name)
def test_every_case(each: TieredCase, tmp_path: Path) -> None:
    check(each, each.data)
    check(each, each.withheld(tmp_path / "data"))
    check(each, None, alone=True)


def test_bounds_and_lookups_below_the_local_log(tmp_path: Path) -> None:
    case = golden("txn", tmp_path)
    whole = kafkalog.read_table(case.data, "txn-mixed", **case.remote)
    offsets: list[Any] = whole["offset"].to_pylist()
    middle = offsets[len(offsets) // 3]
    some = kafkalog.read_table(
        case.data, "txn-mixed", starting_offsets=middle, ending_offsets=middle + 40, **case.remote
    )
    assert some["offset"].to_pylist() == [each for each in offsets if middle <= each < middle + 40]
    log = kafkalog.LogDir(case.data, **case.remote)["txn-mixed", 0]
    for offset in offsets[::97]:
        found = log.lookup(offset)
        assert found is not None
        assert found.offset == offset
    batches = kafkalog.scan_batches(case.data, "txn-mixed", **case.remote).read_all()
    assert batches["isValid"].unique().to_pylist() == [True]
    folder = kafkalog.read_table(case.data / "txn-mixed-0", **case.remote)
    assert folder.equals(whole)


def test_several_log_dirs(tmp_path: Path) -> None:
    case = golden("txn", tmp_path)
    second = tmp_path / "second"
    second.mkdir()
    (case.data / "txn-mixed-0").rename(second / "txn-mixed-0")
    for name in ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        if (case.data / name).exists():
            (second / name).write_bytes((case.data / name).read_bytes())
    whole = kafkalog.read_table([case.data, second], ["txn-mixed", "txn-long-abort"], **case.remote)
    assert whole.group_by("topic").aggregate([("offset", "count")]).num_rows == 2
    rows = rows_of(kafkalog.read_table([case.data, second], "txn-mixed", columns=COLUMNS, **case.remote))
    assert rows == expected_rows(case.rows("txn-mixed", 0, "uncommitted") or [])


def test_a_log_dir_with_a_tier_pickles(tmp_path: Path) -> None:
    case = golden("lineage", tmp_path)
    dirs = kafkalog.LogDir(case.data, **case.remote)
    pickled = pickle.dumps([dirs, dirs["moved", 0]])
    code = (
        "import pickle, sys\n"
        "dirs, log = pickle.loads(sys.stdin.buffer.read())\n"
        "print(len(dirs), log.log_start_offset, log.log_end_offset, log.scan().read_all().num_rows)"
    )
    said = subprocess.run([sys.executable, "-c", code], input=pickled, capture_output=True, check=True).stdout.split()
    assert [int(each) for each in said] == [len(dirs), 0, 1520, 1520]


def test_damage_is_an_error_that_names_the_object(tmp_path: Path) -> None:
    case = golden("lineage", tmp_path)
    folder = next((case.tier / "kafka-tiered-storage").glob("moved-0-*"))
    log = next(folder.glob("00000000000000000094-*.log"))
    for damage in (log.read_bytes()[:-1], None):
        if damage is None:
            log.unlink()
        else:
            log.write_bytes(damage)
        with pytest.raises((OSError, KafkaLogError), match=log.name[21:43]):
            kafkalog.read_table(case.data, "moved", **case.remote)
    after = kafkalog.read_table(case.data, "moved", starting_offsets=400, **case.remote)
    assert after["offset"].to_pylist() == list(range(400, 1520))


def test_no_damage_of_chunks_or_manifests_gives_wrong_rows(tmp_path: Path) -> None:
    case = golden("aiven-damaged-zstd-aes", tmp_path)
    damaged = {each["key"][-22:] for each in case.about["damage"]}
    rows = kafkalog.tables.remote_segments(case.data, **case.remote).to_pylist()
    checked = 0
    for row in rows:
        wanted = case.rows(row["topic"], row["partition"], "uncommitted")
        if wanted is None or row["startOffset"] is None:
            continue
        ends = {row["topic"]: {row["partition"]: row["endOffset"] + 1}}
        starts = {row["topic"]: {row["partition"]: row["startOffset"]}}
        right = expected_rows([each for each in wanted if row["startOffset"] <= each["offset"] <= row["endOffset"]])
        given = {"starting_offsets": starts, "ending_offsets": ends, "partitions": row["partition"], "columns": COLUMNS}
        try:
            found = rows_of(kafkalog.read_table(case.data, row["topic"], **given, **case.remote))
        except (OSError, KafkaLogError):
            assert row["segmentId"] in damaged
            checked += 1
        else:
            assert found == right
    assert checked >= 5


def test_keys(tmp_path: Path) -> None:
    case = golden("aiven-lineage-zstd-aes", tmp_path)
    with pytest.raises(OSError, match="keyring has none"):
        kafkalog.read_table(case.data, "diverged", remote=case.tier)
    first, second = case.keyring
    swapped = {first: case.keyring[second], second: case.keyring[first]}
    with pytest.raises(OSError, match="of another pair"):
        kafkalog.read_table(case.data, "diverged", remote=case.tier, keyring=swapped)


def test_arguments(tmp_path: Path) -> None:
    case = golden("lineage", tmp_path)
    with pytest.raises(ValueError, match="path is None"):
        kafkalog.scan(None)
    with pytest.raises(ValueError, match="which remote names"):
        kafkalog.scan(case.data, keyring={"a": "b"})
    with pytest.raises(ValueError, match="a file"):
        kafkalog.scan(next(case.data.glob("moved-0/*.log")), **case.remote)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = golden("aiven-txn-fixed", tmp_path)
    wanted = case.rows("txn-mixed", 0, "committed") or []
    with_tier = [str(case.data), "-t", "txn-mixed", "--remote", str(case.tier)]
    assert main(["cat", *with_tier, "--isolation-level", "read_committed", "-f", "%o\n"]) == 0
    assert [int(each) for each in capsys.readouterr().out.split()] == [row["offset"] for row in wanted]
    assert main(["offsets", *with_tier, "--time", "earliest"]) == 0
    assert capsys.readouterr().out == "txn-mixed:0:0\n"
    assert main(["ls", *with_tier]) == 0
    assert "txn-mixed" in capsys.readouterr().out
    out = tmp_path / "rows.jsonl"
    assert main(["export", str(case.data), str(out), *with_tier[1:]]) == 0
    assert len(out.read_text().splitlines()) == len(case.rows("txn-mixed", 0, "uncommitted") or [])
    assert main(["cat", *with_tier, "--remote-key", "nothing"]) == 2


def test_the_command_line_without_a_log_dir(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tier on a disk or in a bucket by itself: as ``path=None`` reads it."""
    case = golden("aiven-txn-fixed", tmp_path)
    server = S3Server()
    server.put_folder(case.tier, "T/")
    words = [f"--storage-option={name}={value}" for name, value in server.storage_options.items()]
    alone = kafkalog.read_table(None, "txn-mixed", **case.remote)
    offsets = alone["offset"].to_pylist()
    try:
        for remote, more in ((str(case.tier), []), (f"s3://{server.bucket}/T", words)):

            def said(*command: str, remote: str = remote, more: list[str] = more) -> str:
                assert main([*command, "--remote", remote, *more]) == 0
                return capsys.readouterr().out

            assert [int(each) for each in said("cat", "-t", "txn-mixed", "-f", "%o\n").split()] == offsets
            # No topic has the name: it is partition 0 of one, of which only the tier tells.
            assert [int(each) for each in said("cat", "-t", "txn-mixed-0", "-f", "%o\n").split()] == offsets
            assert said("offsets", "-t", "txn-mixed") == f"txn-mixed:0:{offsets[-1] + 1}\n"
            listed = json.loads(said("ls", "-t", "txn-mixed", "-J"))
            assert (listed["logStartOffset"], listed["logEndOffset"]) == (0, offsets[-1] + 1)
            counted = json.loads(said("stats", "-t", "txn-mixed", "-J"))
            assert counted["records"] >= len(offsets)
            assert said("grep", "-c", ".", "-t", "txn-mixed") == f"txn-mixed-0:{len(offsets)}\n"
            out = tmp_path / f"{len(more)}.jsonl"
            said("export", str(out), "-t", "txn-mixed")
            assert len(out.read_text().splitlines()) == len(offsets)
            assert said("verify", "-t", "txn-mixed") == ""
        log = next(path for path in case.tier.rglob("*.log") if "txn-mixed-" in str(path))
        log.write_bytes(log.read_bytes()[:-5])
        assert main(["verify", "-t", "txn-mixed", "--remote", str(case.tier)]) == 1
        assert "[remote-size]" in capsys.readouterr().out
        assert main(["verify", "-t", "txn-long-abort", "--remote", str(case.tier)]) == 0
        table = kafkalog.verify(None, **case.remote)
        assert set(table.filter(pc.field("severity") == "error")["topic"].to_pylist()) == {"txn-mixed"}
    finally:
        server.close()
    for command in (["ls"], ["grep", "x"], ["cat", "-t", "orders"]):
        assert main(command) == 2
        assert "the following arguments are required: PATH" in capsys.readouterr().err
    with pytest.raises(ValueError, match="path is None"):
        kafkalog.verify(None)


def codes(case: TieredCase, **more: Any) -> dict[str, set[str]]:
    """Return the codes of the findings about a tier, and the segments that each is about."""
    found: dict[str, set[str]] = {}
    # An archive does not have all topics that its metadata has.
    topics = {topic for topic, _ in case.partitions()} | {"gone"}
    for row in kafkalog.verify(case.data, **{**case.remote, **more}).to_pylist():
        if row["code"].startswith("remote-") and row["topic"] in topics:
            found.setdefault(row["code"], set()).add(row["file"][-22:])
    return found


@pytest.mark.parametrize("name", ["lineage", "txn", "aiven-txn-fixed"])
def test_a_whole_tier_has_no_findings(name: str, tmp_path: Path) -> None:
    assert codes(golden(name, tmp_path)).keys() <= {"remote-unfinished"}


def test_verifying_finds_every_damage(tmp_path: Path) -> None:
    case = golden("aiven-damaged-zstd-aes", tmp_path)
    found = codes(case)
    errors = {each for code, ids in found.items() if code not in ("remote-orphan", "remote-unfinished") for each in ids}
    topics = {topic for topic, _ in case.partitions()}
    harmless = {"manifest unknown fields"}
    for each in case.about["damage"]:
        if each["key"].split("/")[0][:-23] in topics and each["damage"] not in harmless:
            assert each["key"][-22:] in errors, each
    whole = {row["segmentId"] for row in kafkalog.tables.remote_segments(case.data, **case.remote).to_pylist()}
    assert errors & whole <= {each["key"][-22:] for each in case.about["damage"]}


def test_verifying_finds_what_is_left_behind(tmp_path: Path) -> None:
    assert "remote-orphan" in codes(golden("deleted-kept", tmp_path))
    assert "remote-unfinished" in codes(golden("killed-later", tmp_path))
    case = golden("aiven-lineage-zstd-aes", tmp_path)
    assert "remote-unreadable" in codes(case, keyring={})


def test_the_command_says_what_it_will_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = golden("lineage", tmp_path)
    main(["verify", str(case.data), "--remote", str(case.tier)])
    said = capsys.readouterr()
    assert "remote-" not in said.out.replace("[remote-unfinished]", "")
    assert "remote segments" in said.err
    assert "bytes, about" in said.err
    log = next((case.tier / "kafka-tiered-storage").glob("moved-0-*/*.log"))
    log.write_bytes(log.read_bytes()[:-5])
    assert main(["verify", str(case.data), "--remote", str(case.tier)]) == 1
    assert "[remote-size]" in capsys.readouterr().out


@pytest.fixture
def server() -> Iterator[S3Server]:
    made = S3Server()
    yield made
    made.close()


@pytest.mark.parametrize("name", ["lineage", "aiven-txn-fixed"])
def test_a_tier_in_a_bucket(name: str, tmp_path: Path, server: S3Server) -> None:
    """The tier in a bucket, and the log dir on a disk or beside it: the rows are those from local folders."""
    case = golden(name, tmp_path)
    topic, partition = case.partitions()[0]
    expected = kafkalog.read_table(case.data, topic, **case.remote)
    server.put_folder(case.tier, "tiers/one/")
    server.put_folder(case.data, "logs/")
    options: Any = {"storage_options": server.storage_options, "keyring": case.keyring}
    bucket = f"s3://{server.bucket}"
    for path in (case.data, f"{bucket}/logs"):
        assert kafkalog.read_table(path, topic, remote=f"{bucket}/tiers/one", **options).equals(expected)
    dirs = kafkalog.LogDir(case.data, remote=f"{bucket}/tiers/one", **options)
    assert dirs[topic, partition].log_end_offset == case.offsets(topic, partition)["latest"]
    rows = kafkalog.tables.remote_segments(case.data, remote=f"{bucket}/tiers/one", **options)
    assert rows.equals(kafkalog.tables.remote_segments(case.data, **case.remote))
    # What may pass is tried again.
    server.fault = lambda kind, key, number: "slow-down" if number in (2, 5, 9) else None  # noqa: ARG005
    assert kafkalog.read_table(case.data, topic, remote=f"{bucket}/tiers/one", **options).equals(expected)
    server.reset()
    log = next(key for key in server.objects if topic in key and key.startswith("tiers") and key.endswith(".log"))
    server.fault = lambda kind, key, number: "denied" if key == log else None  # noqa: ARG005
    with pytest.raises(OSError, match=log[-26:-4]):
        kafkalog.read_table(case.data, topic, remote=f"{bucket}/tiers/one", **options)
