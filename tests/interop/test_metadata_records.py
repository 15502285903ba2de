"""Records of a metadata log that Kafka's own classes apply."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

from metadata_records import RECORDS, REFUSED

if TYPE_CHECKING:
    from interop.broker import Witness

pytestmark = pytest.mark.full

# Metadata transactions are not the business of MetadataDelta, but of the loader before it.
_LOADERS = "END_TRANSACTION_RECORD: no transaction"


def test_what_kafka_applies_and_refuses(witness: Witness) -> None:
    asked = [*RECORDS, *(value for text, value in REFUSED.items() if text != _LOADERS)]
    answers = witness.run("apply", *(b64encode(value).decode() for value in asked)).splitlines()
    assert [answer.split(":")[0] for answer in answers] == [
        *["applied"] * len(RECORDS),
        *["refused"] * (len(REFUSED) - 1),
    ]
