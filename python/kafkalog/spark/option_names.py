"""Every read option: its spelling, whether it applies to batches and streams, and which of Spark's options do not.

Spark's Kafka source ignores names that it does not know; a misspelt bound then reads everything. Here an unknown name
is an error. An option that only a client of a broker could use is ignored with a warning.
"""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from kafkalog import _arguments
from kafkalog._renamed import warn
from kafkalog.errors import KafkaLogError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Use = Literal["batch", "stream"]

_log = logging.getLogger("kafkalog.spark")

_BOTH = (
    *("path", "paths", "assign", "subscribe", "subscribePattern"),
    *("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy"),
    # in a stream only with the value high_watermark
    "endingOffsets",
    *("failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "includeHeaders", "kafka.isolation.level"),
    # of kafkalog only
    *(
        "isolation.level",
        "columns",
        "checkCrcs",
        "onCorrupt",
        "includeControl",
        "containing",
        "matching",
        "searchIn",
        "splitBytes",
        "batchRows",
        "batchBytes",
    ),
    # of decoded keys and values
    *("decode", "schemas", "readerSchema", "decodeAs", "onUndecoded"),
)
_BATCH = (
    *("endingTimestamp", "endingOffsetsByTimestamp", "where", "includeInactive", "latestPerKey", "tombstones"),
    # of tiered storage
    *("remote", "remoteLayout", "keyring"),
)
_STREAM = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")

KNOWN: dict[str, tuple[Use, ...]] = {
    **dict.fromkeys(_BOTH, ("batch", "stream")),
    **dict.fromkeys(_BATCH, ("batch",)),
    **dict.fromkeys(_STREAM, ("stream",)),
}
"""Options of batch reads, of streams, or of both."""

# Options of the store of URLs; the rest of the name is the store's own.
STORAGE = "storage."

# Old names, and options that have no effect any more.
_RENAMED = {"latest": "latestPerKey"}
_RETIRED = "decodeahead"

# What ``kafkalog.scan`` and others call these options.
_WORDS_OF_SCAN = {
    "topic": "subscribe",
    "topics": "subscribe",
    "topicpattern": "subscribePattern",
    "partition": "assign",
    "partitions": "assign",
}

# Ignored whatever their value, like every other option of Kafka's clients (``kafka.*``).
IGNORED = (
    "kafka.bootstrap.servers",
    "kafka.group.id",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
_CLIENT_OPTION = "kafkalog: option %s is ignored: it configures a client of a broker, and log dirs are read without one"

# Errors. Spark refuses the first five as well.
REFUSED = {
    "kafka.auto.offset.reset": "is not supported; set `startingOffsets` instead",
    "kafka.key.deserializer": "is not supported: keys are bytes; convert them in the query",
    "kafka.value.deserializer": "is not supported: values are bytes; convert them in the query",
    "kafka.enable.auto.commit": "is not supported: nothing is committed to a broker; remove it",
    "kafka.interceptor.classes": "is not supported; remove it",
    "topic": "applies to writes only; name the topics to read in `subscribe`",
}


def canonical(given: Mapping[str, Any], use: Use | None) -> dict[str, Any]:
    """Return the options under the names of ``KNOWN``, without those that do not apply."""
    known = {_folded(name): name for name in KNOWN}
    refused = {_folded(name): name for name in REFUSED}
    ignored = {_folded(name): name for name in IGNORED}
    options = of_store(given)
    for name, value in ((name, value) for name, value in given.items() if not name.lower().startswith(STORAGE)):
        folded = _current(_folded(name))
        if folded == _RETIRED:
            continue
        if folded in refused:
            raise ValueError(f"option {refused[folded]} {REFUSED[refused[folded]]}")
        if folded in ignored or (name.lower().startswith("kafka.") and folded not in known):
            if use is not None:
                _log.warning(_CLIENT_OPTION, ignored.get(folded, name))
            continue
        if folded not in known:
            raise unknown_option(name, tuple(KNOWN), _WORDS_OF_SCAN.get(folded))
        if value is None:
            continue
        if known[folded] in options:
            raise ValueError(f"option {known[folded]} is given twice, in two spellings; remove one")
        options[known[folded]] = value
    if use is not None:
        _check_use(options, use)
    return options


def of_store(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the store of URLs, as one."""
    stored = {name[len(STORAGE) :].lower(): given[name] for name in given if name.lower().startswith(STORAGE)}
    return {STORAGE: stored} if stored else {}


def _current(folded: str) -> str:
    """Return the current name of an option."""
    if folded == _RETIRED:
        warn("option decodeAhead has no effect any more; remove it")
    if folded in _RENAMED:
        warn(f"option {folded} is now called {_RENAMED[folded]}")
        return _folded(_RENAMED[folded])
    return folded


def in_spark_words(given: Mapping[str, Any]) -> dict[str, Any]:
    """Translate ``topics``, ``topic_pattern`` and ``partitions``, as of ``kafkalog.scan``, to Spark's names."""
    found = dict(given)
    topics, pattern, numbers = (found.pop(name, None) for name in ("topics", "topic_pattern", "partitions"))
    names = _arguments.names("topics", topics)
    if isinstance(parts := _arguments.partitions(numbers), list):
        if names is None:
            raise ValueError("partitions needs topics, or name both: partitions={topic: [0, 1]}")
        parts = dict.fromkeys(names, parts)
    elif parts is not None and names is not None:
        parts = {name: parts[name] for name in names if name in parts}
    # Spark's pattern matches any part of a name, and this one the whole.
    whole = None if pattern is None else f"^(?:{pattern})$"
    named = {"assign": parts, "subscribe": names if parts is None else None, "subscribePattern": whole}
    for name, value in named.items():
        if value is None:
            continue
        if found.get(name) is not None:
            raise ValueError(f"option {name} is given twice, in two spellings; remove one")
        found[name] = value
    return found


@contextmanager
def naming_as(given: Mapping[str, Any]) -> Iterator[None]:
    """Let errors about options that :func:`in_spark_words` translates have the names that the caller wrote."""
    try:
        yield
    except ValueError as error:
        if type(error) is ValueError:
            text = str(error)
            for word in ("topics", "topic_pattern", "partitions"):
                if given.get(word) is not None:
                    text = re.sub(rf"\b{_WORDS_OF_SCAN[_folded(word)]}\b", word, text)
            error.args = (text,)
        raise


# Options that errors about keys and values name, which Python spells in its own way.
_OF_PYTHON = {
    re.sub("(?=[A-Z])", "_", name).lower(): name for name in ("readerSchema", "decodeAs", "onUndecoded", "batchRows")
}
_SPELLED = re.compile(rf"(?<![\w./-])(?:{'|'.join(_OF_PYTHON)})(?![\w/-])")


def spelled(text: str) -> str:
    """Return a message of the core with Spark's names of options."""
    return _SPELLED.sub(lambda found: _OF_PYTHON[found[0]], text)


@contextmanager
def naming_options() -> Iterator[None]:
    """Let errors of the core have Spark's names of options."""
    try:
        yield
    except (ValueError, KafkaLogError) as error:
        if type(error) is ValueError or isinstance(error, KafkaLogError):
            error.args = (spelled(str(error)),)
        raise


def unknown_option(name: str, valid: Sequence[str], meant: str | None = None) -> ValueError:
    """Return the error about a name, with the one that was meant, or else all."""
    meant = meant or _arguments.nearest(name, valid)
    advice = f"valid are {', '.join(valid)}" if meant is None else f"did you mean {meant!r}?"
    return ValueError(f"unknown option {name!r}; {advice}")


def _check_use(options: Mapping[str, Any], use: Use) -> None:
    for name in options:
        if name == STORAGE or use in KNOWN[name]:
            continue
        if use == "stream":
            raise ValueError(f"option {name} applies to batch reads only; remove it from the stream")
        _log.warning("kafkalog: option %s is ignored in a batch read", name)


def _folded(name: str) -> str:
    return name.replace("_", "").replace(".", "").lower()
