"""Every option there is: its spelling, where it counts, and why some of Spark's Kafka source do not.

Spark's own source passes over what it does not know; a misspelt bound is then a query over everything. So an unknown
name is an error here, and what only a broker's client could use is passed over with a line in the log.
"""

from __future__ import annotations

import difflib
import logging
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["IGNORED", "KNOWN", "REFUSED", "Use", "by_known_name"]

Use = Literal["batch", "stream"]

_log = logging.getLogger("kafkalog.spark")

# Options of batch reads, of streams, or of both.
KNOWN: dict[str, tuple[Use, ...]] = {
    "path": ("batch", "stream"),
    "paths": ("batch", "stream"),
    "assign": ("batch", "stream"),
    "subscribe": ("batch", "stream"),
    "subscribePattern": ("batch", "stream"),
    "startingOffsets": ("batch", "stream"),
    "startingTimestamp": ("batch", "stream"),
    "startingOffsetsByTimestamp": ("batch", "stream"),
    "startingOffsetsByTimestampStrategy": ("batch", "stream"),
    # in a stream for `high_watermark` only
    "endingOffsets": ("batch", "stream"),
    "endingTimestamp": ("batch",),
    "endingOffsetsByTimestamp": ("batch",),
    "failOnDataLoss": ("batch", "stream"),
    "minPartitions": ("batch", "stream"),
    "maxRecordsPerPartition": ("batch", "stream"),
    "maxOffsetsPerTrigger": ("stream",),
    "minOffsetsPerTrigger": ("stream",),
    "maxTriggerDelay": ("stream",),
    "includeHeaders": ("batch", "stream"),
    "kafka.isolation.level": ("batch", "stream"),
    # kafkalog's own
    "isolation.level": ("batch", "stream"),
    "columns": ("batch", "stream"),
    # from Python only
    "where": ("batch",),
    "checkCrcs": ("batch", "stream"),
    "includeControl": ("batch", "stream"),
    "includeInactive": ("batch",),
    "splitBytes": ("batch", "stream"),
    "batchRows": ("batch", "stream"),
    "batchBytes": ("batch", "stream"),
    "decodeAhead": ("batch", "stream"),
}

# Passed over, whatever they hold, as is any other option of Kafka's clients (``kafka.*``).
IGNORED = (
    "kafka.bootstrap.servers",
    "kafka.group.id",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
_CLIENT = "kafkalog: option %s is ignored: it is for a client of a broker, and here log dirs are read without one"

# Errors: Spark refuses the first five as well.
REFUSED = {
    "kafka.auto.offset.reset": "is not supported; `startingOffsets` says where to begin",
    "kafka.key.deserializer": "is not supported: keys are bytes",
    "kafka.value.deserializer": "is not supported: values are bytes",
    "kafka.enable.auto.commit": "is not supported: nothing is committed",
    "kafka.interceptor.classes": "is not supported",
    "topic": "is for writing; `subscribe` names topics to read",
}


def by_known_name(given: Mapping[str, Any], use: Use | None) -> dict[str, Any]:
    """Spell the options as the table does, and leave out those that do not count here.

    Parameters
    ----------
    given : mapping
        Names in any letter case, with or without underscores. A value of None is not given.
    use : {"batch", "stream"} or None
        What the options are for, if that is known yet. Nothing is logged before it is.

    Returns
    -------
    dict
        By the names of ``KNOWN``.

    Raises
    ------
    ValueError
        For an unknown name (the nearest known one is named), one that is refused, and one that is given twice.
    """
    known = {_plain(name): name for name in KNOWN}
    refused = {_plain(name): name for name in REFUSED}
    ignored = {_plain(name): name for name in IGNORED}
    options: dict[str, Any] = {}
    for name, value in given.items():
        plain = _plain(name)
        if plain in refused:
            raise ValueError(f"option {refused[plain]} {REFUSED[refused[plain]]}")
        if plain in ignored or (name.lower().startswith("kafka.") and plain not in known):
            if use is not None:
                _log.warning(_CLIENT, ignored.get(plain, name))
            continue
        if plain not in known:
            nearest = difflib.get_close_matches(plain, known, n=1, cutoff=0)
            raise ValueError(f"unknown option {name!r}; did you mean {known[nearest[0]]!r}?")
        if value is None:
            continue
        if known[plain] in options:
            raise ValueError(f"option {known[plain]} is given twice")
        options[known[plain]] = value
    if use is not None:
        _check_use(options, use)
    return options


def _check_use(options: Mapping[str, Any], use: Use) -> None:
    for name in options:
        if use in KNOWN[name]:
            continue
        if use == "stream":
            raise ValueError(f"option {name} is not possible in a stream")
        _log.warning("kafkalog: option %s is ignored in a batch read", name)


def _plain(name: str) -> str:
    return name.replace("_", "").replace(".", "").lower()
