"""Values that Confluent's own Python serializers write to a broker, read back from its files: in scan and in Spark."""

from __future__ import annotations

import base64
import json
import os
import sys
import uuid
from typing import TYPE_CHECKING, Any

import pytest

import kafkalog
import kafkalog.spark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from interop.broker import Broker

pytestmark = [
    pytest.mark.interop,
    pytest.mark.spark,
    pytest.mark.timeout(600),
    # A warning of PySpark 4.3 about the installed pandas, which we do not use.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.full,
]
confluent_kafka = pytest.importorskip("confluent_kafka")
pytest.importorskip("fastavro")
pytest.importorskip("pyspark")

FIRST = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "amount", "type": "double", "default": 1.5}]}
JSON_SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
    "required": ["id"],
}


def _order(number: int) -> dict[str, Any]:
    return {"id": number, "name": None if number % 3 == 0 else f"order-{number}", "tags": ["a"] * (number % 4)}


class Registry:
    """The mock registry of the client, and the topic in which a real one would keep its schemas."""

    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.client: Any = SchemaRegistryClient.new_client({"url": "mock://registry"})
        self.producer: Any = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
        self._known: dict[tuple[str, int], None] = {}

    def send(self, topic: str, serializer: Any, values: list[Any]) -> None:
        """Serialize and produce values, and write down the schemas that were registered for it."""
        from confluent_kafka.serialization import MessageField, SerializationContext

        for value in values:
            headers: list[tuple[str, str | bytes | None]] = []
            context = SerializationContext(topic, MessageField.VALUE, headers)
            payload = None if value is None else serializer(value, context)
            self.producer.produce(topic, payload, headers=list(context.headers or ()), partition=0)
        for version in self.client.get_versions(f"{topic}-value"):
            if (topic, version) not in self._known:
                self._known[topic, version] = None
                self._write_down(self.client.get_version(f"{topic}-value", version), f"{topic}-value")
        assert self.producer.flush(30) == 0

    def _write_down(self, found: Any, subject: str) -> None:
        key = {"keytype": "SCHEMA", "subject": subject, "version": found.version, "magic": 1}
        kind = found.schema.schema_type
        value = {
            "subject": subject,
            "version": found.version,
            "id": found.schema_id,
            # The mock registry makes one up, and does not compute it.
            "md5": base64.b64encode(uuid.UUID(found.guid).bytes).decode(),
            **({} if kind in {None, "AVRO"} else {"schemaType": kind}),
            "schema": found.schema.schema_str,
            "deleted": False,
        }
        self.producer.produce("_schemas", json.dumps(value), json.dumps(key), partition=0)


def _serializers(client: Any, schema: Any, more: dict[str, Any]) -> Any:
    from confluent_kafka.schema_registry.avro import AvroSerializer

    return AvroSerializer(client, json.dumps(schema), conf={"auto.register.schemas": True, **more})


def _framing(name: str) -> Callable[..., bytes]:
    from confluent_kafka import schema_registry

    found: Callable[..., bytes] = getattr(schema_registry, f"{name}_schema_id_serializer")
    return found


@pytest.fixture(name="log_dirs")
def what_a_producer_wrote(broker: Broker) -> list[Path]:
    """Give the log dirs of a stopped broker, whose topics are spread over both of its disks."""
    from confluent_kafka.schema_registry.json_schema import JSONSerializer

    broker.create("_schemas", cleanup_policy="compact")
    registry = Registry(broker.bootstrap)
    for framing in ("prefix", "header"):
        broker.create(framing)
        conf = {"schema.id.serializer": _framing(framing)}
        registry.send(framing, _serializers(registry.client, FIRST, conf), [*map(_order, range(20)), None])
        later = [{**_order(number), "amount": number / 4} for number in range(20, 40)]
        registry.send(framing, _serializers(registry.client, SECOND, conf), later)
    broker.create("json")
    serializer = JSONSerializer(json.dumps(JSON_SCHEMA), registry.client)
    registry.send("json", serializer, [{"id": n, "name": f"order-{n}"} for n in range(10)])
    broker.stop()
    return broker.log_dirs


def _expected() -> list[Any]:
    before = [{**_order(number), "amount": 1.5} for number in range(20)]
    return [*before, None, *({**_order(number), "amount": number / 4} for number in range(20, 40))]


def test_what_a_real_producer_writes(log_dirs: list[Path]) -> None:
    for topic in ("prefix", "header"):
        table = kafkalog.read_table(log_dirs, topic, decode="value", columns=["value", "valueSchemaId", "valueError"])
        assert table["value"].to_pylist() == _expected()
        assert table["valueError"].null_count == len(table)
        pinned = kafkalog.read_table(log_dirs, topic, decode="value", columns=["value"], reader_schema=1)
        without = [value and {name: value[name] for name in ("id", "name", "tags")} for value in _expected()]
        assert pinned["value"].to_pylist() == without
        headers = kafkalog.read_table(log_dirs, topic, columns=["headers"])["headers"].to_pylist()
        assert any(headers) == (topic == "header")
    as_json = kafkalog.read_table(log_dirs, "json", decode="value", columns=["value"], decode_as="json")
    texts: list[Any] = as_json["value"].to_pylist()
    assert [json.loads(text)["id"] for text in texts] == list(range(10))
    as_struct = kafkalog.read_table(log_dirs, "json", decode="value", columns=["value"])
    assert as_struct["value"].to_pylist() == [{"id": n, "name": f"order-{n}"} for n in range(10)]
    _in_spark(log_dirs)


def _in_spark(log_dirs: list[Path]) -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.master("local[2]").appName("confluent")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        for topic in ("prefix", "header"):
            frame = kafkalog.spark.read(spark, log_dirs, subscribe=topic, decode="value")
            rows = frame.orderBy("offset").select("value").collect()
            assert [row["value"] and row["value"].asDict() for row in rows] == _expected()
    finally:
        spark.stop()
