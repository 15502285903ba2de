"""Arguments that callers may give, and the errors for others."""

from __future__ import annotations

import inspect
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from kafkalog._times import to_millis

if TYPE_CHECKING:
    from pathlib import Path

DATA = corpus.GOLDEN / "clean-restarts" / "data-1"
_NO: Any = "no"


def refused(match: str, kind: type[Exception] = ValueError, **options: Any) -> None:
    with pytest.raises(kind, match=match):
        kafkalog.scan(DATA, **options)


def test_near_names_are_suggested() -> None:
    refused(r"unknown column 'offsets' \(did you mean 'offset'\?\); valid are key, value", columns=["offsets"])
    refused(r"did you mean 'timestampType'", columns="timestamptype")
    refused(r"unknown starting_offsets 'earlyest' \(did you mean 'earliest'", starting_offsets="earlyest")
    refused(r"unknown ending_offsets 'latst' \(did you mean 'latest'", ending_offsets="latst")
    refused(r"unknown layout 'views' \(did you mean 'view'", layout="views")
    refused(r"unknown timestamp_unit 'ns'; valid are 'ms', 'us'|did you mean", timestamp_unit="ns")


def test_columns() -> None:
    refused("named twice", columns=["key", "key"])
    refused("no columns", columns=[])
    refused("takes names", TypeError, columns=[1])
    one = kafkalog.read_table(DATA, topics="orders", columns="offset")
    assert one.column_names == ["offset"]


def test_unknown_choices() -> None:
    refused("unknown isolation_level 'serializable'", isolation_level="serializable")
    refused("unknown on_corrupt 'ignore'", on_corrupt="ignore")


def test_numbers() -> None:
    refused("batch_rows is 0", batch_rows=0)
    refused("batch_bytes is -1", batch_bytes=-1)
    refused("threads is 0", threads=0)
    refused("whole number", TypeError, threads=1.5)
    refused("number", TypeError, starting_offsets=True)
    refused("not within", starting_offsets=1 << 63)
    refused("the only negative offset is -2, for earliest", starting_offsets=-1)
    refused("the only negative offset is -1, for latest", ending_offsets=-2)
    refused("not within", partitions=[-1])
    refused("takes numbers", TypeError, partitions="0")
    refused("takes numbers", TypeError, partitions=b"0")
    with pytest.raises(TypeError, match="topic must be a str"):
        kafkalog.LogDir(DATA).partitions(0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "call"),
    [
        ("exact", lambda _: kafkalog.PartitionLog(DATA / "orders-0").offset_for_timestamp(0, exact=_NO)),
        ("writable", lambda at: kafkalog.OffsetIndex(at / f"{0:020}.index", writable=_NO)),
        ("writable", lambda at: kafkalog.TransactionIndex(at / f"{0:020}.txnindex", writable=_NO)),
        ("clean", lambda at: kafkalog.recover(DATA, clean=_NO, out=at / "new")),
        ("salvage", lambda at: kafkalog.recover(DATA, salvage=_NO, out=at / "new")),
        ("dry_run", lambda at: kafkalog.recover(DATA, out=at / "new", dry_run=_NO)),
        ("dry_run", lambda at: kafkalog.rebuild_indexes(DATA / "orders-0", out=at / "new", dry_run=_NO)),
        ("dry_run", lambda at: kafkalog.truncate(DATA / "orders-0", at / "new", offset=5, dry_run=_NO)),
        ("keep_offsets", lambda at: kafkalog.LogWriter(at, "t").append([], keep_offsets=_NO)),
    ],
)
def test_what_merely_counts_as_true_is_refused(option: str, call: Any, tmp_path: Path) -> None:
    """``salvage="no"`` would have salvaged."""
    with pytest.raises(TypeError, match=f"{option} must be True or False, not"):
        call(tmp_path)


@pytest.mark.parametrize("option", ["topic_id", "cluster_id", "directory_id"])
def test_ids_are_texts(option: str, tmp_path: Path) -> None:
    wrong: Any = {option: 5}
    with pytest.raises(TypeError, match=f"{option} must be a str, not 5"):
        kafkalog.LogWriter(tmp_path, "t", **wrong)


def test_settings_are_a_config(tmp_path: Path) -> None:
    """Also Kafka's own names: with one that Kafka does not know, or anything else, nothing is done."""
    wrong: Any = {"segment.byte": 1 << 20}
    for call in (
        lambda: kafkalog.LogWriter(tmp_path, "t", config=wrong),
        lambda: kafkalog.recover(DATA, config=wrong, dry_run=True),
        lambda: kafkalog.rebuild_indexes(DATA / "orders-0", config=wrong, dry_run=True),
        lambda: kafkalog.truncate(DATA / "orders-0", tmp_path / "new", offset=5, config=wrong),
    ):
        with pytest.raises(ValueError, match=r"unknown topic setting 'segment.byte' \(did you mean 'segment.bytes'"):
            call()
    wrong = "segment.bytes=5"
    with pytest.raises(TypeError, match="config must be a LogConfig or a mapping of Kafka's names"):
        kafkalog.LogWriter(tmp_path, "t", config=wrong)
    twice: Any = {"retention.ms": 1, "retention_ms": -1}
    odd: Any = {1: 1}
    for given, error, said in ((twice, ValueError, "given twice"), (odd, TypeError, "names of settings, not 1")):
        with pytest.raises(error, match=said):
            kafkalog.retain(DATA, tmp_path / "new", config=given, dry_run=True)
    assert not any(tmp_path.iterdir())
    kafkalog.LogWriter(tmp_path, "t", config={"segment.bytes": "1048576"}).close()


def test_defaults_are_those_of_the_interface() -> None:
    wanted = {
        "topics": None,
        "partitions": None,
        "columns": None,
        "starting_offsets": "earliest",
        "ending_offsets": "latest",
        "starting_timestamp": None,
        "ending_timestamp": None,
        "isolation_level": "read_uncommitted",
        "include_control": False,
        "include_inactive": False,
        "check_crcs": True,
        "on_corrupt": "raise",
        "layout": "binary",
        "timestamp_unit": "ms",
        "batch_rows": 65_536,
        "batch_bytes": 2 << 20,
        "threads": 1,
    }
    # read_table, which returns when all is read, has a thread for each processor.
    assert inspect.signature(kafkalog.read_table).parameters["threads"].default is None
    for function in (kafkalog.scan, kafkalog.PartitionLog.scan, kafkalog.scan_batches):
        given = {name: each.default for name, each in inspect.signature(function).parameters.items()}
        assert {name: given[name] for name in wanted if name in given}.items() <= wanted.items(), function
        assert function is not kafkalog.scan or wanted.keys() <= given.keys()
    for kind in (kafkalog.OffsetIndex, kafkalog.TimeIndex):
        given = {name: each.default for name, each in inspect.signature(kind).parameters.items()}
        del given["path"]
        store = {"storage_options": None, "filesystem": None}
        assert given == {"base_offset": None, "max_index_size": 10_485_760, "writable": False, **store}


LEDGER, MIDDLE = DATA / "ledger-0", 1_700_030_390_000
COMPACTED = corpus.GOLDEN / "compact" / "data-0" / "compact-dirty-0"
CHANGES: list[tuple[Path, dict[str, Any]]] = [
    (DATA, {"topics": "orders"}),
    (DATA, {"topic_pattern": "led.*"}),
    (DATA, {"partitions": [1]}),
    (corpus.GOLDEN / "in-flight" / "data-0", {"include_inactive": True}),
    (LEDGER, {"columns": ["offset"]}),
    (corpus.GOLDEN / "retention" / "data-0" / "records-deleted-1", {"starting_offsets": "oldest"}),
    (LEDGER, {"starting_offsets": 500}),
    (LEDGER, {"ending_offsets": 500}),
    (DATA / "orders-0", {"starting_timestamp": MIDDLE}),
    (DATA / "orders-0", {"ending_timestamp": MIDDLE}),
    (LEDGER, {"min_offset": 500}),
    (LEDGER, {"max_offset": 500}),
    (DATA / "orders-0", {"min_timestamp": MIDDLE}),
    (DATA / "orders-0", {"max_timestamp": MIDDLE}),
    (LEDGER, {"isolation_level": "read_committed"}),
    (LEDGER, {"include_control": True}),
    (COMPACTED, {"latest_per_key": True}),
    (LEDGER, {"limit": 100}),
    (LEDGER, {"containing": "7"}),
    (LEDGER, {"matching": "7+"}),
    (LEDGER, {"search_in": "key"}),
    # Without a registry's schemas each of these is an error, which says what to give.
    (LEDGER, {"decode": "value"}),
    (LEDGER, {"schemas": {7: '"string"'}}),
    (LEDGER, {"reader_schema": 1}),
    (LEDGER, {"decode_as": "json"}),
    (LEDGER, {"on_undecoded": "null"}),
    (COMPACTED, {"tombstones": True}),
    (corpus.GOLDEN / "corrupt" / "flipped-crc" / "t-0", {"check_crcs": False}),
    (corpus.GOLDEN / "corrupt" / "flipped-crc" / "t-0", {"on_corrupt": "skip"}),
    (LEDGER, {"layout": "view"}),
    (LEDGER, {"timestamp_unit": "us"}),
    (LEDGER, {"batch_rows": 100}),
    (LEDGER, {"batch_bytes": 1000}),
    (LEDGER, {"threads": 0}),
]


@pytest.mark.parametrize(
    ("path", "options"), CHANGES, ids=lambda given: next(iter(given)) if isinstance(given, dict) else ""
)
def test_every_way_to_read_heeds_every_option(path: Path, options: dict[str, Any]) -> None:
    def told(read: Any, *arguments: Any, **some: Any) -> Any:
        try:
            found = read(*arguments, **some)
            table = found if hasattr(found, "num_rows") else found.read_all()
        except (kafkalog.KafkaLogError, ValueError) as error:
            return str(error)
        return table.schema, [batch.num_rows for batch in table.to_batches()], table.to_pylist()

    want = told(kafkalog.scan, path, **options)
    assert want != told(kafkalog.scan, path)
    assert told(kafkalog.read_table, path, **options) == want
    (name,) = options
    if name in inspect.signature(kafkalog.PartitionLog.scan).parameters:
        assert told(kafkalog.PartitionLog(path).scan, **options) == want
    if name in inspect.signature(kafkalog.scan_batches).parameters:
        listed = told(kafkalog.scan_batches, path, **options)
        assert listed != told(kafkalog.scan_batches, path)
        if name in inspect.signature(kafkalog.PartitionLog.batches).parameters:
            assert told(kafkalog.PartitionLog(path).batches, **options) == listed


def test_every_option_is_tried() -> None:
    tried = {name for _, options in CHANGES for name in options}
    assert tried == inspect.signature(kafkalog.scan).parameters.keys() - {
        "path",
        "options",
        # Of stores: tests/python/test_storage.py.
        "storage_options",
        "filesystem",
        # Of tiers: tests/python/test_tiered_reads.py.
        "remote",
        "remote_layout",
        "keyring",
    }


def test_what_may_be_given_by_its_place(tmp_path: Path) -> None:
    """As the interface writes the calls."""
    assert kafkalog.read_table(DATA, "orders").equals(kafkalog.read_table(DATA, topics="orders"))
    assert kafkalog.scan_batches(DATA, ["orders"]).read_all().num_rows == 38
    folder = DATA / "orders-0"
    assert kafkalog.rebuild_indexes(folder, "2.8", out=tmp_path / "rebuilt").log_end_offset == 880
    assert kafkalog.recover(folder, bool(0), recovery_point=0, dry_run=True).partitions[0].recovered_from == 0
    assert kafkalog.truncate(folder, tmp_path / "cut", 100).log_end_offset == 100


def test_offsets_by_partition_are_checked() -> None:
    refused("partition", TypeError, starting_offsets={"orders": 5})
    refused("whole number", TypeError, starting_offsets={"orders": {0: "5"}})
    refused("as a topic", TypeError, ending_offsets={1: {0: 5}})
    refused("nope", starting_offsets={"nope": {0: 5}})


def test_a_topic_that_is_not_there_lists_those_that_are() -> None:
    refused("orders", topics="ordres")


def test_datetimes() -> None:
    moment = datetime(2023, 11, 15, 6, 39, 50, tzinfo=timezone.utc)
    assert to_millis(moment, "t") == 1_700_030_390_000
    plus_two = timezone(timedelta(hours=2))
    assert to_millis(moment.astimezone(plus_two), "t") == 1_700_030_390_000
    # "at or after" half a millisecond later is the next one
    assert to_millis(moment + timedelta(microseconds=1), "t") == 1_700_030_390_001
    assert to_millis(moment + timedelta(microseconds=999), "t") == 1_700_030_390_001
    refused("no time zone", starting_timestamp=datetime(2023, 11, 15))  # noqa: DTZ001 - the mistake itself
    refused("has no time zone; write 2023-11-15Z for UTC", starting_timestamp="2023-11-15")


def test_times_before_the_epoch_are_refused_by_the_name_of_the_argument() -> None:
    before = datetime(1969, 12, 31, tzinfo=timezone.utc)
    refused("starting_timestamp is -86400000", starting_timestamp=before)
    refused("ending_timestamp is -1", ending_timestamp={"orders": {0: -1}})
    with pytest.raises(ValueError, match="timestamp is -86400000"):
        kafkalog.PartitionLog(DATA / "orders-0").offset_for_timestamp(before)
    assert kafkalog.read_table(DATA, topics="orders", min_timestamp=before).num_rows == 880


def test_paths_that_lead_to_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    first, second = "00000000000000000000.log", "00000000000000000145.log"
    want = kafkalog.read_table("orders-0")
    assert kafkalog.read_table([DATA / "orders-0", f"orders-0/{first}"]) == want
    assert kafkalog.read_table([f"orders-0/{first}", DATA / "orders-0"]) == want
    both = kafkalog.read_table([f"orders-0/{first}", DATA / "orders-0" / second], columns=["segment"])
    assert both["segment"].unique().to_pylist() == [first, second]
    # A folder that the log dir before it leaves out is named all the same, and so are files of it.
    internal = "__transaction_state-1"
    topics = set(kafkalog.read_table([internal, DATA])["topic"].to_pylist())
    assert "__transaction_state" in topics
    for named in (internal, f"{internal}/{first}"):
        assert set(kafkalog.read_table([DATA, named])["topic"].to_pylist()) == topics


def test_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    want = kafkalog.read_table(DATA, topics="orders")
    assert kafkalog.read_table(str(DATA), topics="orders") == want
    assert kafkalog.read_table(".", topics="orders") == want
    assert kafkalog.read_table([DATA], topics="orders") == want
    assert kafkalog.read_table("orders-0") == want
    assert kafkalog.read_table(DATA / "orders-0" / "00000000000000000000.log", columns=["segment"])[
        "segment"
    ].unique().to_pylist() == ["00000000000000000000.log"]
    for wrong in ([], [b"x"], b"x", 5, None):
        with pytest.raises((TypeError, ValueError), match="path"):
            kafkalog.scan(wrong)  # type: ignore[arg-type]


def test_two_log_dirs_that_hold_the_same_partition_are_named(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(DATA / "orders-0", tmp_path / "orders-0")
    with pytest.raises((ValueError, kafkalog.KafkaLogError)) as caught:
        kafkalog.scan([DATA, tmp_path])
    assert str(tmp_path) in str(caught.value)
    assert str(DATA) in str(caught.value)
