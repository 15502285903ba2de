"""Spark reads logs in an object store: the driver lists, tasks read, and no plan has a secret."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpus
import kafkalog
import kafkalog.spark
import tiered_cases
from kafkalog.spark.planner import plan_splits
from kafkalog.spark.read_split import read_split
from kafkalog.spark.source_options import parse
from kafkalog.spark.split import PackedSplits, Split
from s3_server import SECRET, S3Server
from spark.ways import both_ways, by_data_source, needs_data_sources, table_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

LOCAL = corpus.GOLDEN / "clean-restarts" / "data-1"
_READ = """
import pathlib, pickle, sys
from kafkalog.spark.read_split import read_split
splits = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
print(sum(batch.num_rows for split in splits for batch in read_split(split)))
"""

_READ_TABLE = """
import pathlib, pickle, sys
reader, parts = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
print(sum(batch.num_rows for part in parts for batch in reader.read(part)))
"""


@pytest.fixture
def server() -> Iterator[S3Server]:
    made = S3Server()
    made.put_folder(LOCAL, "L/")
    yield made
    made.close()


@needs_data_sources
def test_the_type_of_decoded_values_is_read_from_the_store(server: S3Server) -> None:
    from kafkalog.spark.data_source import source_schema

    typed = corpus.GOLDEN / "typed" / "keys" / "data-0"
    server.put_folder(typed, "T/")
    stored = {f"storage.{name}": value for name, value in server.storage_options.items() if "secret" not in name}
    given = {"subscribe": "key-record", "decode": "value", "storage.aws_skip_signature": "true", **stored}
    del given["storage.aws_access_key_id"]
    # Spark asks for the columns before it plans a read.
    for more in ({}, {"schemas": "s3://bkt/T"}):
        assert source_schema({**given, **more, "path": "s3://bkt/T"}) == source_schema(
            {"subscribe": "key-record", "decode": "value", "path": str(typed)}
        )


def test_tasks_read_what_the_driver_listed(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKALOG_TEST_SECRET", SECRET)
    stored = {**server.storage_options, "aws_secret_access_key": "env:KAFKALOG_TEST_SECRET"}
    given = {f"storage.{name}": value for name, value in stored.items()}
    splits = plan_splits(parse({"path": "s3://bkt/L", "subscribe": "orders", "splitBytes": "30k", **given}))
    assert len(splits) > 1
    assert server.counts["LIST"] <= 2
    server.reset()
    plan = pickle.dumps(splits)
    assert SECRET.encode() not in plan
    (tmp_path / "plan").write_bytes(plan)
    done = subprocess.run(
        [sys.executable, "-c", _READ, tmp_path / "plan"], check=True, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout.strip() == "880"
    assert server.counts["LIST"] == 0
    packed = PackedSplits.pack(splits)
    assert sum(batch.num_rows for n in range(len(splits)) for batch in read_split(packed[n])) == 880
    assert server.counts["LIST"] == 0


def test_a_secret_in_an_option_is_refused(server: S3Server) -> None:
    given = {f"storage.{name}": value for name, value in server.storage_options.items()}
    with pytest.raises(ValueError, match="is a secret, which would get into Spark's plan") as raised:
        parse({"path": "s3://bkt/L", **given})
    assert SECRET not in str(raised.value)


@needs_data_sources
@pytest.mark.parametrize("name", ["consumer_offsets", "topics", "producers", "records"])
def test_tables_are_those_of_local_log_dirs(spark: SparkSession, name: str) -> None:
    golden = corpus.GOLDEN / ("metadata/data-0" if name == "topics" else "internal-compacted/data-0")
    server = S3Server()
    server.put_folder(golden, "L/")
    try:
        read = spark.read.format("kafkalog").option("table", name)
        expected = table_of(read.load(str(golden)))
        assert expected.num_rows > 0
        # Tasks run in processes that have no variables of this test; the server checks no signatures.
        names = ("aws_region", "aws_endpoint_url", "aws_allow_http", "aws_virtual_hosted_style_request")
        given = {f"storage.{each}": server.storage_options[each] for each in names}
        found = table_of(read.options(**given, **{"storage.aws_skip_signature": "true"}).load("s3://bkt/L"))
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
    finally:
        server.close()


def test_a_table_has_its_store_in_the_plan_and_no_secret(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tables = pytest.importorskip("kafkalog.spark.tables")
    monkeypatch.setenv("KAFKALOG_TEST_SECRET", SECRET)
    stored = {**server.storage_options, "aws_secret_access_key": "env:KAFKALOG_TEST_SECRET"}
    given = {f"storage.{name}": value for name, value in stored.items()}
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([StructField("topic", StringType())])
    reader = tables.table_reader({"table": "producers", "path": "s3://bkt/L", **given}, schema)
    plan = pickle.dumps((reader, reader.partitions()))
    assert SECRET.encode() not in plan
    (tmp_path / "plan").write_bytes(plan)
    done = subprocess.run(
        [sys.executable, "-c", _READ_TABLE, tmp_path / "plan"], check=True, stdout=subprocess.PIPE, text=True
    )
    local = tables.table_reader({"table": "producers", "path": str(LOCAL)}, schema)
    assert int(done.stdout) == sum(batch.num_rows for part in local.partitions() for batch in local.read(part)) > 0
    with pytest.raises(ValueError, match="is a secret, which would get into Spark's plan"):
        tables.table_schema({"table": "producers", "path": "s3://bkt/L", "storage.aws_secret_access_key": SECRET})


@pytest.mark.parametrize("name", ["lineage", "aiven-lineage-zstd-aes"])
@pytest.mark.parametrize("place", ["disk", "bucket"])
def test_tasks_read_a_tier_and_the_log_dir_as_one(
    name: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = tiered_cases.unpack(name, tmp_path)
    topics = sorted({topic for topic, _ in case.partitions()})
    options = {"subscribe": ",".join(topics), "keyring": json.dumps({key: str(at) for key, at in case.keyring.items()})}
    server = S3Server()
    server.put_folder(case.tier, "T/")
    server.put_folder(case.data, "L/")
    try:
        options |= {"path": str(case.data), "remote": str(case.tier)}
        if place == "bucket":
            monkeypatch.setenv("KAFKALOG_TEST_SECRET", SECRET)
            stored = {**server.storage_options, "aws_secret_access_key": "env:KAFKALOG_TEST_SECRET"}
            options |= {"path": "s3://bkt/L", "remote": "s3://bkt/T"}
            options |= {f"storage.{key}": value for key, value in stored.items()}
        splits = plan_splits(parse({**options, "splitBytes": "20k"}))
        assert len(splits) > 3
        rows = kafkalog.read_table(case.data, topics, **case.remote).num_rows
        for plan in (pickle.dumps(splits), pickle.dumps([Split.from_json(each.to_json()) for each in splits])):
            assert SECRET.encode() not in plan
            (tmp_path / "plan").write_bytes(plan)
            done = subprocess.run(
                [sys.executable, "-c", _READ, tmp_path / "plan"], check=True, stdout=subprocess.PIPE, text=True
            )
            assert int(done.stdout) == rows
    finally:
        server.close()


@both_ways
def test_a_tier_is_read_by_a_session(spark: SparkSession, way: Any, tmp_path: Path) -> None:
    case = tiered_cases.unpack("aiven-txn-fixed", tmp_path)
    given = {"subscribe": "txn-mixed", "remote": str(case.tier), "splitBytes": "60k"}
    for level, kind in (("read_uncommitted", "uncommitted"), ("read_committed", "committed")):
        frame = way(spark, case.data, **given, **{"isolation.level": level})
        rows = case.rows("txn-mixed", 0, kind) or []
        assert [row["offset"] for row in frame.select("offset").collect()] == [row["offset"] for row in rows]
    alone = spark.read.format("kafkalog").options(**given).load() if way is by_data_source else None
    if alone is not None:
        assert alone.count() == kafkalog.read_table(None, "txn-mixed", **case.remote).num_rows


def test_tasks_meet_damage_of_a_tier(tmp_path: Path) -> None:
    """A chunk that its tag does not fit: a task fails with the object's place, or reads the other chunks."""
    case = tiered_cases.unpack("aiven-lineage-zstd-aes", tmp_path)
    log = next(case.tier.glob("diverged-*/0/00000000000000000060-*.log"))
    data = bytearray(log.read_bytes())
    data[20] ^= 1
    log.write_bytes(data)
    options = {"subscribe": "diverged", "keyring": json.dumps({key: str(at) for key, at in case.keyring.items()})}
    options |= {"path": str(case.data), "remote": str(case.tier), "splitBytes": "4k"}

    def offsets(policy: str) -> list[Any]:
        plan = pickle.dumps(plan_splits(parse({**options, "onCorrupt": policy})))
        splits = pickle.loads(plan)  # noqa: S301
        return [each for split in splits for batch in read_split(split) for each in batch["offset"].to_pylist()]

    with pytest.raises(kafkalog.CorruptRecordError, match="encrypted chunk: expected") as raised:
        offsets("raise")
    assert (raised.value.path, raised.value.position) == (str(log), 0)
    past = kafkalog.read_table(case.data, "diverged", on_corrupt="skip", **case.remote)["offset"].to_pylist()
    assert offsets("skip") == past
    rows = case.rows("diverged", 0, "uncommitted") or []
    assert set(past) < {row["offset"] for row in rows}


def test_options_of_a_tier() -> None:
    for name, value in (("keyring", "{}"), ("remoteLayout", "aiven")):
        with pytest.raises(ValueError, match=f"option {name} describes a tier, which the option remote names"):
            parse({"path": str(LOCAL), name: value})
    with pytest.raises(ValueError, match="option remote applies to batch reads only; remove it from the stream"):
        parse({"path": str(LOCAL), "remote": str(LOCAL)}, "stream")
    with pytest.raises(ValueError, match=r"option keyring: expected"):
        parse({"path": str(LOCAL), "remote": str(LOCAL), "keyring": "[1]"})
    with pytest.raises(ValueError, match=r"option remoteLayout: expected"):
        parse({"path": str(LOCAL), "remote": str(LOCAL), "remoteLayout": "other"})
    with pytest.raises(ValueError, match="a stream reads local log dirs; read a store in batches"):
        parse({"path": "memory://L"}, "stream")


def test_an_export_to_a_store(spark: SparkSession, server: S3Server, tmp_path: Path) -> None:
    """Files of tasks, and at last the object that says that all are there; nothing of an export that fails."""
    names = ("aws_region", "aws_endpoint_url", "aws_allow_http", "aws_virtual_hosted_style_request")
    given: dict[str, Any] = {f"storage.{each}": server.storage_options[each] for each in names}
    given |= {"storage.aws_skip_signature": "true", "subscribe": "orders,events", "splitBytes": "50k"}
    for source in (str(LOCAL), "s3://bkt/L"):
        out = f"s3://bkt/{len(source)}/out"
        done = kafkalog.spark.export(spark, source, out, "parquet", **given)
        written = {key: data for key, data in server.objects.items() if key.startswith(f"{len(source)}/out/")}
        parts = {key.rpartition("/")[2]: data for key, data in written.items() if not key.endswith("_SUCCESS")}
        assert sorted(parts) == [f"part-{number:05d}.parquet" for number in range(done["tasks"])]
        assert done["files"] == done["tasks"] == len(written) - 1 > 1
        assert done["bytes"] == sum(map(len, parts.values()))
        tables = [pq.read_table(pa.BufferReader(data)) for _, data in sorted(parts.items())]
        rows = pa.concat_tables(tables).sort_by([("topic", "ascending"), ("offset", "ascending")])
        local = kafkalog.read_table(LOCAL, ["orders", "events"]).sort_by(
            [("topic", "ascending"), ("offset", "ascending")]
        )
        assert rows["value"].to_pylist() == local["value"].to_pylist()
        assert rows.num_rows == done["rows"]
        with pytest.raises(FileExistsError, match="choose another path"):
            kafkalog.spark.export(spark, source, out, "parquet", **given)
    with pytest.raises(ValueError, match="the output would lie in"):
        kafkalog.spark.export(spark, str(LOCAL), "s3://bkt/L/out", "parquet", **given)
    with pytest.raises(ValueError, match="is a secret"):
        kafkalog.spark.export(spark, str(LOCAL), "s3://bkt/x", **{**given, "storage.aws_secret_access_key": SECRET})
    shutil.copytree(LOCAL, tmp_path / "bad")
    log = next((tmp_path / "bad" / "orders-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0x55
    log.write_bytes(data)
    with pytest.raises(kafkalog.CorruptRecordError, match=log.name):
        kafkalog.spark.export(spark, str(tmp_path / "bad"), "s3://bkt/bad", **given)
    assert "bad/_SUCCESS" not in server.objects


def test_totals_count_requests_of_a_store(spark: SparkSession, server: S3Server) -> None:
    names = ("aws_region", "aws_endpoint_url", "aws_allow_http", "aws_virtual_hosted_style_request")
    given: dict[str, Any] = {f"storage.{each}": server.storage_options[each] for each in names}
    given |= {"storage.aws_skip_signature": "true", "subscribe": "orders"}
    for path, more in (("s3://bkt/L", given), (str(LOCAL), {"subscribe": "orders"})):
        done = kafkalog.spark.totals(spark)
        server.reset()
        count = kafkalog.spark.count(spark, path, metrics=done, **more)
        assert done.value["records"] == count == 880
        if path == str(LOCAL):
            assert not any(done.value[name] for name in ("requests", "bytes_fetched", "retries", "seconds_waited"))
            continue
        # Those of the tasks; the driver's, before them, are of checkpoints and indexes.
        size = sum(file.stat().st_size for file in (LOCAL / "orders-0").glob("*.log"))
        assert 0 < done.value["requests"] <= server.counts["GET"]
        assert size <= done.value["bytes_fetched"] <= server.bytes - server.listed
        assert done.value["seconds_waited"] > 0
