"""Decoded values with what else a log may have: transactions, several disks, damage, other registries.

``tests/golden/framed.jsonl`` holds values that the serializers of Apicurio and AWS Glue framed;
``tests/interop/framed`` (Java) prints it.
"""

from __future__ import annotations

import base64
import json
import shutil
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

import corpus
import kafkalog
from byte_logs import TRANSACTIONAL, Producer, Record, batch, marker
from typed_cases import GOLDEN

if TYPE_CHECKING:
    from pathlib import Path

KEYS = GOLDEN / "keys" / "data-0"
POISON = GOLDEN / "poison" / "data-0"
LINES = [json.loads(line) for line in (corpus.GOLDEN / "framed.jsonl").read_text().splitlines()]
FRAMED = {name: list(rows) for name, rows in groupby(LINES, lambda row: str(row["case"]))}


def _log(log_dir: Path, topic: str, data: bytes) -> Path:
    folder = log_dir / f"{topic}-0"
    folder.mkdir(parents=True)
    path = folder / f"{0:020d}.log"
    path.write_bytes(data)
    return path


def _whole(**options: Any) -> list[Any]:
    """The rows of the golden topic."""
    columns = ["offset", "value"]
    return kafkalog.read_table(KEYS, "key-record", columns=columns, **options).to_pylist()


@pytest.mark.parametrize("name", FRAMED)
@pytest.mark.parametrize("reader", ["latest", "text"])
def test_framings_of_other_registries(name: str, reader: str, tmp_path: Path) -> None:
    rows = FRAMED[name]
    with kafkalog.LogWriter(tmp_path, "orders") as log:
        for row in rows:
            headers = [(key, base64.b64decode(value)) for key, value in row["headers"]]
            log.append([kafkalog.Record(base64.b64decode(row["value"]), headers=headers)])
    (key,) = {row["id"] for row in rows}
    schemas = {key: rows[0]["schema"]}
    given: Any = {"schemas": schemas, "reader_schema": reader if reader == "latest" else rows[0]["schema"]}
    wanted = [row["order"] for row in rows]
    table = kafkalog.read_table(tmp_path, "orders", decode="value", columns=["value", "valueError"], **given)
    assert table["value"].to_pylist() == wanted
    part = kafkalog.read_table(tmp_path, "orders", decode="value", columns=["value.amount"], **given)
    assert part["value"].to_pylist() == [{"amount": each["amount"]} for each in wanted]
    text = kafkalog.read_table(tmp_path, "orders", decode="value", columns=["value"], decode_as="json", schemas=schemas)
    union = [{**each, "amount": each["amount"] and {"double": each["amount"]}} for each in wanted]
    texts: list[Any] = text["value"].to_pylist()
    assert [json.loads(each) for each in texts] == union
    other = {"00000000-0000-0000-0000-000000000001" if isinstance(key, str) else key + 1: rows[0]["schema"]}
    with pytest.raises(kafkalog.KafkaLogError, match="on_undecoded"):
        kafkalog.read_table(tmp_path, "orders", decode="value", schemas=other)


def test_values_without_framing(tmp_path: Path) -> None:
    rows = FRAMED["apicurio-headers"]
    with kafkalog.LogWriter(tmp_path, "bare") as log:
        log.append([kafkalog.Record(base64.b64decode(row["value"])) for row in rows])
    path = tmp_path / "order.avsc"
    path.write_text(rows[0]["schema"])
    for schema in (path, rows[0]["schema"]):
        table = kafkalog.read_table(tmp_path, "bare", decode="value", columns=["value"], schemas={"bare": schema})
        assert table["value"].to_pylist() == [row["order"] for row in rows]


def test_pinned_reader_schemas() -> None:
    columns = ["offset", "key"]
    one, two = (
        kafkalog.read_table(KEYS, "key-only", decode="key", columns=columns, on_undecoded="null", reader_schema=version)
        for version in (1, "latest")
    )
    assert one.schema != two.schema
    schemas = kafkalog.tables.schemas(KEYS).to_pylist()
    (text,) = [row["schema"] for row in schemas if (row["subject"], row["version"]) == ("key-only-key", 1)]
    pinned = kafkalog.read_table(
        KEYS, "key-only", decode="key", columns=columns, on_undecoded="null", reader_schema={"key-only": text}
    )
    assert pinned.equals(one)


def _transactions(tmp_path: Path) -> tuple[Path, list[Any]]:
    """Write the golden values in transactions, of which each third one is aborted."""
    values = [row["value"] for row in _whole()]
    data, offset, kept = b"", 0, []
    for number, at in enumerate(range(0, len(values), 4)):
        some = values[at : at + 4]
        records = [Record(offset + n, 1_000 + offset, None, value) for n, value in enumerate(some)]
        data += batch(records, "none", Producer(7, 0, at), TRANSACTIONAL)
        commit = number % 3 != 1
        kept += [(each.offset, at + n) for n, each in enumerate(records) if commit]
        data += marker(offset + len(some), 1_000, 7, commit=commit)
        offset += len(some) + 1
    _log(tmp_path / "disk-0", "key-record", data)
    return tmp_path / "disk-0", kept


@pytest.mark.parametrize("options", [{}, {"threads": 4}, {"decode_as": "json"}, {"batch_rows": 3}])
def test_transactions_on_another_disk_than_the_schemas(tmp_path: Path, options: dict[str, Any]) -> None:
    disk, kept = _transactions(tmp_path)
    shutil.copytree(KEYS / "_schemas-0", tmp_path / "disk-1" / "_schemas-0")
    disks = [disk, tmp_path / "disk-1"]
    form = {"decode_as": "json"} if "decode_as" in options else {}
    plain = [row["value"] for row in _whole(decode="value", **form)]
    given: dict[str, Any] = {"decode": "value", "columns": ["offset", "value"], **options}
    found = kafkalog.read_table(disks, "key-record", isolation_level="read_committed", **given)
    assert found.to_pylist() == [{"offset": offset, "value": plain[at]} for offset, at in kept]
    everything = kafkalog.read_table(disks, "key-record", **given)
    assert everything["value"].to_pylist() == plain
    raw = kafkalog.read_table(disks, "key-record", columns=["offset", "value"], isolation_level="read_committed")
    assert raw["offset"].equals(found["offset"])
    # The disk with the schemas may be named apart.
    apart = kafkalog.read_table(disk, "key-record", isolation_level="read_committed", schemas=disks[1], **given)
    assert apart.equals(found)
    logs = kafkalog.dataset(disks, "key-record", isolation_level="read_committed", **given)
    assert logs.to_table().to_pylist() == found.to_pylist()


def test_damage_is_skipped(tmp_path: Path) -> None:
    values = [row["value"] for row in _whole()]
    batches = [batch([Record(n, 1_000 + n, None, value)]) for n, value in enumerate(values)]
    broken = bytearray(batches[5])
    broken[-3] ^= 1
    _log(tmp_path, "key-record", b"".join([*batches[:5], bytes(broken), *batches[6:]]))
    shutil.copytree(KEYS / "_schemas-0", tmp_path / "_schemas-0")
    plain = _whole(decode="value")
    with kafkalog.scan(
        tmp_path, "key-record", decode="value", columns=["offset", "value"], on_corrupt="skip"
    ) as reader:
        assert reader.read_all().to_pylist() == plain[:5] + plain[6:]
        assert reader.lost["firstOffset"].to_pylist() == [5]


def test_damage_among_the_schemas_is_skipped(tmp_path: Path) -> None:
    shutil.copytree(KEYS / "key-record-0", tmp_path / "key-record-0")
    shutil.copytree(KEYS / "_schemas-0", tmp_path / "_schemas-0")
    (path,) = (tmp_path / "_schemas-0").glob("*.log")
    # Behind all batches: what is there is whole.
    path.write_bytes(path.read_bytes() + b"\0" * 7 + b"damage" * 20)
    options: dict[str, Any] = {"decode": "value", "columns": ["offset", "value"]}
    with kafkalog.scan(tmp_path, "key-record", on_corrupt="skip", **options) as reader:
        assert reader.read_all().to_pylist() == _whole(decode="value")
        assert set(reader.lost["topic"].to_pylist()) == {"_schemas"}
    logs = kafkalog.dataset(tmp_path, "key-record", on_corrupt="skip", **options)
    assert logs.to_table().to_pylist() == _whole(decode="value")
    assert set(logs.lost["topic"].to_pylist()) == {"_schemas"}
    # In the first batch: a schema is missing, and values that need it say so.
    data = bytearray((KEYS / "_schemas-0" / path.name).read_bytes())
    data[70] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(kafkalog.CorruptRecordError, match="_schemas-0"):
        kafkalog.scan(tmp_path, "key-record", **options)
    with kafkalog.scan(tmp_path, "key-record", on_corrupt="skip", decode="value", decode_as="json") as reader:
        reader.read_all()
        assert reader.lost["topic"].to_pylist()[:1] == ["_schemas"]


@pytest.mark.parametrize("form", ["struct", "json"])
def test_latest_of_each_key(form: Any) -> None:
    raw = kafkalog.read_table(KEYS, "key-record", latest_per_key=True, columns=["offset", "key"])
    found = kafkalog.read_table(
        KEYS, "key-record", latest_per_key=True, columns=["offset", "value"], decode="value", decode_as=form
    )
    assert found["offset"].equals(raw["offset"])
    plain = {row["offset"]: row["value"] for row in _whole(decode="value", decode_as=form)}
    assert found["value"].to_pylist() == [plain[offset] for offset in found["offset"].to_pylist()]


@pytest.mark.parametrize(("logs", "topic", "side"), [(KEYS, "key-record", "key"), (POISON, "poison-mixed", "value")])
def test_a_dataset_gives_the_reasons_of_a_scan(logs: Path, topic: str, side: Any) -> None:
    options: dict[str, Any] = {"decode": side, "on_undecoded": "null", "columns": [f"{side}Error"]}
    wanted = kafkalog.read_table(logs, topic, **options)
    assert wanted[f"{side}Error"].null_count < len(wanted)
    assert kafkalog.dataset(logs, topic, **options).to_table().equals(wanted)


def _dotted(folder: Path) -> dict[str, Any]:
    """Write a union of records with full names, and read it as this."""
    one, two = (
        {"type": "record", "name": f"n.s.{name}", "fields": [{"name": "x", "type": kind}, {"name": "y", "type": "int"}]}
        for name, kind in (("A", "int"), ("B", "string"))
    )
    with kafkalog.LogWriter(folder, "t") as log:
        log.append([kafkalog.Record(b"\0\0\0\0\7" + body) for body in (b"\0\6\2", b"\2\2k\4", b"\0\10\6")])
    return {"schemas": {7: json.dumps([one, two])}, "decode": "value"}


def test_names_with_dots_are_fields(tmp_path: Path) -> None:
    pc, duckdb = pytest.importorskip("pyarrow.compute"), pytest.importorskip("duckdb")
    options = _dotted(tmp_path)
    part = kafkalog.read_table(tmp_path, "t", columns=["value.n.s.A.x"], **options)
    assert part["value"].to_pylist() == [{"n.s.A": {"x": 3}}, {"n.s.A": None}, {"n.s.A": {"x": 4}}]
    with pytest.raises(ValueError, match=r"value has no field 'n\.s\.A\.z'; there are: x, y"):
        kafkalog.read_table(tmp_path, "t", columns=["value.n.s.A.z"], **options)
    logs = kafkalog.dataset(tmp_path, "t", **options)
    found = logs.to_table(columns=["offset"], filter=pc.field("value", "n.s.A", "x") > 3)
    assert found["offset"].to_pylist() == [2]
    assert logs.to_table(columns={"x": pc.field("value", "n.s.B", "x")})["x"].to_pylist() == [None, "k", None]
    query = """select "offset" from logs where value."n.s.B".x = 'k' or value."n.s.A".y = 3 order by all"""
    assert duckdb.sql(query).fetchall() == [(1,), (2,)]
    polars = pytest.importorskip("polars")
    x = polars.col("value").struct.field("n.s.A").struct.field("x")
    assert kafkalog.scan_polars(tmp_path, "t", **options).filter(x == 3).collect()["offset"].to_list() == [0]


def test_a_path_with_two_meanings_means_both(tmp_path: Path) -> None:
    pc = pytest.importorskip("pyarrow.compute")
    inner = {"type": "object", "properties": {"b": {"type": "integer"}, "c": {"type": "integer"}}}
    text = json.dumps({"type": "object", "properties": {"a.b": {"type": "integer"}, "a": inner, "d": inner}})
    with kafkalog.LogWriter(tmp_path, "t") as log:
        log.append([kafkalog.Record(b'\0\0\0\0\7{"a.b": 1, "a": {"b": 2, "c": 3}}')])
    options: Any = {"schemas": {7: text}, "decode": "value"}
    part = kafkalog.read_table(tmp_path, "t", columns=["value.a.b"], **options)
    assert part["value"].to_pylist() == [{"a.b": 1, "a": {"b": 2}}]
    logs = kafkalog.dataset(tmp_path, "t", **options)
    for name, value in ((("a.b",), 1), (("a", "b"), 2)):
        assert logs.count_rows(filter=pc.field("value", *name) == value) == 1
        assert logs.count_rows(filter=pc.field("value", *name) == 3) == 0


def test_decimals_that_polars_lacks_are_refused_by_name(tmp_path: Path) -> None:
    pytest.importorskip("polars")
    field = {"type": "bytes", "logicalType": "decimal", "precision": 60}
    inner = {"type": "record", "name": "I", "fields": [{"name": "d", "type": {"type": "array", "items": field}}]}
    fields = [{"name": "a", "type": "int"}, {"name": "i", "type": inner}]
    options: Any = {"schemas": {7: json.dumps({"type": "record", "name": "R", "fields": fields})}, "decode": "value"}
    with kafkalog.LogWriter(tmp_path, "t") as log:
        log.append([kafkalog.Record(b"\0\0\0\0\7\x06\2\2\5\0")])
    with pytest.raises(ValueError, match=r"value\.i\.d\.item has 60.*decode_as"):
        kafkalog.scan_polars(tmp_path, "t", **options)
    found = kafkalog.scan_polars(tmp_path, "t", columns=["value.a"], **options).collect()
    assert found["value"].to_list() == [{"a": 3}]
    text = kafkalog.scan_polars(tmp_path, "t", columns=["value"], decode_as="json", **options).collect()
    assert text["value"].to_list() == ['{"a":3,"i":{"d":["5"]}}']


def test_fields_that_are_filtered_are_all_that_is_decoded() -> None:
    pc = pytest.importorskip("pyarrow.compute")
    logs = kafkalog.dataset(KEYS, "key-record", decode="value")
    rows = [row for row in _whole(decode="value") if row["value"] is not None and row["value"]["a"] > 0]
    found = logs.to_table(columns=["offset"], filter=pc.field("value", "a") > 0)
    assert found["offset"].to_pylist() == [row["offset"] for row in rows]
    computed = logs.to_table(columns={"a": pc.field("value", "a")}, filter=pc.field("value", "a") > 0)
    assert computed["a"].to_pylist() == [row["value"]["a"] for row in rows]
    narrow = kafkalog.dataset(KEYS, "key-record", decode="value", columns=["offset", "value.a"])
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql('select "offset", value.a from narrow where value.a > 0 order by all').fetchall() == [
        (row["offset"], row["value"]["a"]) for row in rows
    ]
    assert narrow.schema.field("value").type.num_fields == 1
