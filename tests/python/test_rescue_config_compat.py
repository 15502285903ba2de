"""Topic settings that a newer broker refuses, and what becomes of them."""

from __future__ import annotations

import pytest

from kafkalog.rescue.config_compat import about_settings, accepted
from kafkalog.rescue.model import MetadataRecord


def setting(name: str, value: str | None, *, kind: int = 2, of: str = "orders") -> MetadataRecord:
    return MetadataRecord("CONFIG_RECORD", 0, {"resourceType": kind, "resourceName": of, "name": name, "value": value})


@pytest.mark.parametrize("size", ["14", "16384", " 1000 ", "1048575"])
def test_small_segments_are_raised_to_the_least_that_kafka_starts_with(size: str) -> None:
    record = setting("segment.bytes", size)
    assert accepted(record) == setting("segment.bytes", "1048576")
    [finding] = about_settings([record], {"orders"})
    assert (finding.severity, finding.code, finding.topic) == ("warning", "setting-raised", "orders")
    assert f"from {size.strip()} to 1048576" in finding.message


@pytest.mark.parametrize(
    "record",
    [
        setting("segment.bytes", "1048576"),
        # Kafka's own tests set it: it has no bound.
        setting("internal.segment.bytes", "16384"),
        # Brokers ignore what they refuse among their own.
        setting("log.segment.bytes", "16384", kind=4, of=""),
        setting("segment.bytes", "16384", kind=4, of=""),
        # Removed in 4.0; unknown names are ignored.
        setting("message.format.version", "2.8-IV1"),
        setting("retention.ms", "-1"),
        MetadataRecord("TOPIC_RECORD", 0, {"name": "orders", "topicId": "x"}),
    ],
    ids=str,
)
def test_everything_else_stays(record: MetadataRecord) -> None:
    assert accepted(record) is record
    assert list(about_settings([record], {"orders"})) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("segment.bytes", "13"), ("segment.bytes", "big"), ("cleanup.policy", "keep"), ("flush.messages", None)],
)
def test_what_no_rule_mends_is_kept_and_named(name: str, value: str | None) -> None:
    record = setting(name, value)
    assert accepted(record) is record
    [finding] = about_settings([record], {"orders"})
    assert (finding.severity, finding.code) == ("warning", "setting-refused")
    assert name.replace(".", "_") in finding.message.replace(".", "_")


def test_only_of_topics_that_are_taken() -> None:
    assert list(about_settings([setting("segment.bytes", "14", of="left-out")], {"orders"})) == []
