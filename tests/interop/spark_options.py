"""Options for both sources, Spark's own and ours: those with the same rows, those with errors, those that differ.

Topics and their records are those of ``filled`` in ``test_spark``.
"""

from __future__ import annotations

import json

MIDDLE, LATE = 1_700_000_002_000, 1_700_000_004_000


def both_offsets(**partitions: int) -> str:
    return json.dumps({"alpha": {name[1:]: offset for name, offset in partitions.items()}})


# Spark's source waits before it reports that nothing is there.
BRIEFLY = {"kafkaConsumer.pollTimeoutMs": "3000"}
COMMITTED = {"kafka.isolation.level": "read_committed"}
ROWS: list[dict[str, str]] = [
    {"subscribe": "alpha"},
    {"SubScribe": " alpha, beta.alp ,"},
    {"subscribe": "empty"},
    {"subscribePattern": "alp"},
    {"subscribePattern": "^alp.*|nothing"},
    {"subscribePattern": "alp$"},
    {"assign": '{"alpha": [0, 2], "trimmed": [0]}'},
    {"subscribe": "alpha", "includeHeaders": "TRUE"},
    {"subscribe": "alpha", "kafka.isolation.level": "read_committed"},
    {"subscribe": "alpha", "kafka.isolation.level": "read_committed", "maxRecordsPerPartition": "100"},
    {"subscribe": "alpha", "startingOffsets": "EARLIEST", "endingOffsets": "latest"},
    {"subscribe": "alpha", "startingOffsets": both_offsets(p0=17, p1=-2, p2=0)},
    {"subscribe": "alpha", "endingOffsets": both_offsets(p0=17, p1=-1, p2=0)},
    {
        "subscribe": "alpha",
        "startingOffsets": both_offsets(p0=100, p1=100, p2=100),
        "endingOffsets": both_offsets(p0=100, p1=200, p2=101),
    },
    {"subscribe": "alpha", "startingTimestamp": str(MIDDLE)},
    {"subscribe": "alpha", "endingTimestamp": str(MIDDLE)},
    {"subscribe": "alpha", "startingTimestamp": str(MIDDLE), "endingTimestamp": str(LATE)},
    {"subscribe": "alpha", "endingTimestamp": "9999999999999"},
    {"subscribe": "alpha", "startingOffsetsByTimestamp": both_offsets(p0=MIDDLE, p1=0, p2=LATE)},
    {"subscribe": "alpha", "endingOffsetsByTimestamp": both_offsets(p0=MIDDLE, p1=0, p2=LATE)},
    {
        "subscribe": "alpha",
        "startingTimestamp": str(LATE),
        "startingOffsetsByTimestamp": "never looked at",
        "startingOffsets": "latest",
    },
    {
        "subscribe": "alpha",
        "startingOffsetsByTimestamp": both_offsets(p0=MIDDLE, p1=MIDDLE, p2=9_999_999_999_999),
        "startingOffsetsByTimestampStrategy": "Latest",
    },
    {"subscribe": "alpha,empty", "startingTimestamp": str(MIDDLE), "startingOffsetsByTimestampStrategy": "latest"},
    {"subscribe": "trimmed"},
    {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": 5}}', "failOnDataLoss": "false"},
    {"subscribe": "trimmed", "endingOffsets": '{"trimmed": {"0": 100000}}', "failOnDataLoss": "false", **BRIEFLY},
    {"subscribe": "beyond", "endingOffsets": '{"beyond": {"0": 2}}'},
    {"subscribe": "alpha", "minPartitions": "10"},
    {"subscribe": "alpha", "minPartitions": "10", "maxRecordsPerPartition": "90"},
    {"subscribe": "beta.alp", "maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "1", "maxTriggerDelay": "1s"},
    {"subscribe": "beta.alp", "groupIdPrefix": "g", "kafka.fetch.max.bytes": "100000", "fetchOffset.numRetries": "1"},
    # spelling and white space
    {"subscribe": "alpha,alpha"},
    {"assign": ' {"alpha": [0, 0]} '},
    {"assign": '{"alpha": [], "beta.alp": [0]}'},
    {"subscribePattern": "nothing.*"},
    {"subscribePattern": " (?i)ALPHA "},
    {"subscribePattern": "a(?=lpha)"},
    {"subscribePattern": r"\Qbeta.alp\E"},
    {"subscribe": "alpha", "startingOffsets": " earliest ", "endingOffsets": " Latest "},
    {"subscribe": "alpha", "startingTimestamp": " 5 "},
    {"subscribe": "alpha", "minPartitions": "+5"},
    {"subscribe": "alpha", "KAFKA.GROUP.ID": "g", "groupidprefix": "h"},
    # bounds of several kinds
    {
        "subscribePattern": "alpha|beta",
        "startingOffsets": '{"alpha": {"0": 1, "1": -2, "2": 0}, "beta.alp": {"0": 7}}',
    },
    {"assign": '{"alpha": [1]}', "startingOffsets": '{"alpha": {"1": 7}}', "endingOffsets": '{"alpha": {"1": 9}}'},
    {"subscribe": "alpha", "startingTimestamp": "0", "endingOffsets": both_offsets(p0=300, p1=300, p2=300)},
    {
        "subscribe": "alpha",
        "startingOffsetsByTimestamp": both_offsets(p0=MIDDLE, p1=MIDDLE, p2=MIDDLE),
        "endingOffsetsByTimestamp": both_offsets(p0=LATE, p1=LATE, p2=LATE),
    },
    {
        "subscribe": "alpha",
        "startingOffsetsByTimestamp": both_offsets(p0=MIDDLE, p1=MIDDLE, p2=MIDDLE),
        "endingTimestamp": str(LATE),
    },
    {"subscribe": "alpha", "startingTimestamp": str(MIDDLE), "endingTimestamp": str(MIDDLE)},
    {"subscribe": "alpha", "endingTimestamp": "0"},
    {"subscribe": "alpha", "endingOffsets": both_offsets(p0=0, p1=0, p2=0)},
    {"subscribe": "empty", "endingTimestamp": "5"},
    # below the log start
    {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": 150}}'},
    {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": -2}}', "endingOffsets": '{"trimmed": {"0": -1}}'},
    {"subscribe": "trimmed", "startingTimestamp": "1"},
    {
        "subscribe": "trimmed",
        "startingOffsets": '{"trimmed": {"0": 5}}',
        "endingOffsets": '{"trimmed": {"0": 100}}',
        "failOnDataLoss": "false",
    },
    # isolation levels
    {"subscribe": "alpha", **COMMITTED, "startingTimestamp": str(MIDDLE)},
    {"subscribe": "alpha", **COMMITTED, "endingTimestamp": str(LATE)},
    {"subscribe": "alpha", **COMMITTED, "startingOffsets": both_offsets(p0=17, p1=20, p2=30)},
    {"subscribe": "open", **COMMITTED},
    {"subscribe": "open", "startingTimestamp": "6"},
    {"subscribe": "open", **COMMITTED, "endingTimestamp": "6"},
    {"subscribe": "open", **COMMITTED, "startingOffsets": '{"open": {"0": 1}}'},
    # ignored in a batch, whatever the value
    {"subscribe": "beta.alp", "maxOffsetsPerTrigger": "many", "maxTriggerDelay": "soon"},
    {"subscribe": "beta.alp", "minOffsetsPerTrigger": "-5"},
]

ERRORS: list[dict[str, str]] = [
    {"subscribe": "alpha", "startingOffsets": both_offsets(p0=1_000_000, p1=-2, p2=0)},
    {"subscribe": "alpha", "assign": '{"alpha": [0]}'},
    {"subscribe": " , "},
    {"subscribePattern": " "},
    {"assign": "alpha"},
    {"assign": '{"alpha": 0}'},
    {"subscribe": "alpha", "startingOffsets": "latest"},
    {"subscribe": "alpha", "endingOffsets": "earliest"},
    {"subscribe": "alpha", "startingOffsets": "soon"},
    {"subscribe": "alpha", "startingOffsets": both_offsets(p0=-1, p1=0, p2=0)},
    {"subscribe": "alpha", "endingOffsets": both_offsets(p0=-2, p1=0, p2=0)},
    {"subscribe": "alpha", "startingOffsets": both_offsets(p0=0)},
    {"subscribe": "alpha", "startingOffsets": both_offsets(p0=0, p1=0, p2=0, p3=0)},
    {"subscribe": "alpha", "endingOffsetsByTimestamp": both_offsets(p0=0)},
    {
        "subscribe": "alpha",
        "startingOffsets": both_offsets(p0=5, p1=5, p2=5),
        "endingOffsets": both_offsets(p0=9, p1=4, p2=9),
    },
    {"subscribe": "alpha", "startingTimestamp": str(LATE), "endingTimestamp": str(MIDDLE)},
    {"subscribe": "alpha", "startingTimestamp": "yesterday"},
    {"subscribe": "alpha", "startingTimestamp": "9999999999999"},
    {"subscribe": "empty", "startingTimestamp": "5"},
    {"subscribe": "alpha", "startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "earliest"},
    {"subscribe": "alpha", "minPartitions": "0"},
    {"subscribe": "alpha", "minPartitions": "many"},
    {"subscribe": "alpha", "maxRecordsPerPartition": "0"},
    {"subscribe": "alpha", "failOnDataLoss": "yes"},
    {"subscribe": "alpha", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
    {"subscribe": "alpha", "kafka.auto.offset.reset": "latest"},
    {"subscribe": "alpha", "kafka.key.deserializer": "x"},
    {"subscribe": "alpha", "kafka.enable.auto.commit": "true"},
    {"subscribe": "alpha", "kafka.isolation.level": "read_everything"},
    {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": 5}}'},
    {"subscribe": "trimmed", "endingOffsets": '{"trimmed": {"0": 100000}}', **BRIEFLY},
    {"subscribe": "nowhere", **BRIEFLY},
    {"subscribe": "alpha,nowhere", **BRIEFLY},
    {"assign": '{"nowhere": [0]}', **BRIEFLY},
    {"subscribe": "alpha", "subscribePattern": ""},
    {"subscribePattern": "("},
    {"subscribe": "alpha", "startingOffsets": ""},
    {"subscribe": "alpha", "startingOffsets": "{}"},
    {"subscribe": "alpha", "endingOffsets": "{}"},
    {"subscribe": "alpha", "startingOffsetsByTimestamp": "{}"},
    {"subscribe": "alpha", "startingOffsets": both_offsets(p0=-3, p1=0, p2=0)},
    {"subscribe": "alpha", "endingOffsets": both_offsets(p0=-3, p1=0, p2=0)},
    {"subscribe": "alpha", "endingOffsets": both_offsets(p0=0, p1=0)},
    {
        "subscribe": "alpha",
        "startingOffsets": '{"alpha": {"0": 1, "1": -2, "2": 0}, "beta.alp": {"0": 0}}',
    },
    {"subscribe": "alpha", "startingOffsets": both_offsets(p0=99, p1=99, p2=99), "endingTimestamp": "0"},
    {"subscribe": "alpha", "startingTimestamp": str(MIDDLE), "endingOffsets": both_offsets(p0=0, p1=0, p2=0)},
    {
        "subscribe": "alpha",
        "startingOffsetsByTimestamp": both_offsets(p0=LATE, p1=MIDDLE, p2=MIDDLE),
        "endingOffsetsByTimestamp": both_offsets(p0=MIDDLE, p1=LATE, p2=LATE),
    },
    {
        "subscribe": "alpha",
        "startingOffsetsByTimestamp": both_offsets(p0=MIDDLE, p1=MIDDLE, p2=MIDDLE),
        "endingOffsetsByTimestamp": both_offsets(p0=LATE, p1=LATE),
    },
    {"subscribe": "alpha", "endingTimestamp": "x"},
    {"subscribe": "alpha", "endingTimestamp": "5", "startingOffsetsByTimestampStrategy": "none"},
    {"subscribe": "alpha", "startingOffsetsByTimestampStrategy": " latest "},
    {"subscribe": "alpha", "minPartitions": ""},
    {"subscribe": "alpha", "maxRecordsPerPartition": str(2**63)},
    {"subscribe": "alpha", "includeHeaders": "yes"},
    {"subscribe": "alpha", "failOnDataLoss": "0"},
    {"subscribe": "alpha", "kafka.value.deserializer": "x"},
    {"subscribe": "alpha", "kafka.interceptor.classes": "x"},
    {"subscribe": "alpha", "KAFKA.AUTO.OFFSET.RESET": "earliest"},
    {"subscribe": "alpha", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "many"},
    {"subscribe": "trimmed", "endingOffsets": '{"trimmed": {"0": 100}}'},
    {
        "subscribe": "trimmed",
        "startingOffsets": '{"trimmed": {"0": 5}}',
        "endingOffsets": '{"trimmed": {"0": 100}}',
    },
    {"subscribe": "open", **COMMITTED, "startingTimestamp": "6"},
]

# Where the two differ, and why: (options, what Spark's source returns, what ours returns), None for an error.
DIFFERENT: list[tuple[dict[str, str], str | None, str | None]] = [
    # a missing partition is data loss, which the user may allow and which is reported
    ({"subscribe": "nowhere", "failOnDataLoss": "false", **BRIEFLY}, None, "none"),
    ({"assign": '{"alpha": [0, 9]}'}, "some", None),
    ({"subscribe": "trimmed", "endingOffsets": '{"trimmed": {"0": 100}}', "failOnDataLoss": "false"}, None, "none"),
    (
        {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": 99999}}', "failOnDataLoss": "false"},
        None,
        "none",
    ),
    # a broker lists no internal topics
    ({"subscribePattern": "__transaction"}, "none", "some"),
    # a mistake is an error, not ignored
    ({"subscribe": "alpha", "startingOffset": "earliest"}, "some", None),
    ({"subscribe": "alpha", "topic": "alpha"}, "some", None),
    ({"assign": "{}"}, "none", None),
    ({"assign": '{"alpha": [-1]}'}, "none", None),
    ({"assign": '{"alpha": [0], "alpha": [1]}'}, "some", None),
    ({"assign": '{"alpha": [0]} [1]'}, "some", None),
    ({"subscribe": "alpha", "startingOffsets": '{"alpha": {"0": 1.9, "1": 0, "2": 0}}'}, "some", None),
    ({"subscribe": "alpha", "startingOffsets": '{"alpha": {"0": null, "1": 0, "2": 0}}'}, "some", None),
    ({"subscribe": "alpha", "endingTimestamp": "-1"}, "some", None),
    # taken as it is meant
    ({"subscribe": "alpha", "minPartitions": " 10 "}, None, "some"),
    ({"subscribe": "alpha", "kafka.isolation.level": "READ_COMMITTED"}, None, "some"),
    # meaningless without a broker
    ({"subscribe": "alpha", "kafka.fetch.max.bytes": "x", "fetchOffset.numRetries": "x"}, None, "some"),
]

FROM_START = {"startingOffsets": "earliest"}
STREAMS: list[dict[str, str]] = [
    {"subscribe": "alpha"},
    {"subscribe": "alpha", "startingOffsets": "LATEST"},
    {"subscribe": "alpha", **FROM_START, "includeHeaders": "true"},
    {"subscribePattern": "alp", **FROM_START},
    {"assign": '{"alpha": [2], "trimmed": [0]}', **FROM_START},
    {"subscribe": "alpha", "startingOffsets": both_offsets(p0=-1, p1=-2, p2=7)},
    {"subscribe": "alpha", "startingTimestamp": "9999999999999", "startingOffsetsByTimestampStrategy": "latest"},
    {"subscribe": "alpha", "startingOffsetsByTimestamp": both_offsets(p0=MIDDLE, p1=0, p2=LATE)},
    {
        "subscribe": "alpha",
        "startingTimestamp": str(MIDDLE),
        "startingOffsetsByTimestamp": "never looked at",
        "startingOffsets": "nor this",
    },
    {"subscribe": "alpha", **FROM_START, **COMMITTED},
    {"subscribe": "open", **FROM_START, **COMMITTED},
    {"subscribe": "alpha", **FROM_START, "maxOffsetsPerTrigger": "700"},
    {"subscribe": "alpha", **FROM_START, "minOffsetsPerTrigger": "50"},
    {"subscribe": "alpha", **FROM_START, "minPartitions": "10", "maxRecordsPerPartition": "100"},
    {"subscribe": "trimmed", **FROM_START},
    {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": 5}}', "failOnDataLoss": "false"},
    {"subscribe": "empty", **FROM_START},
    {"subscribe": "alpha", **FROM_START, "kafka.fetch.max.bytes": "100000", "groupIdPrefix": "g"},
]

STREAM_ERRORS: list[dict[str, str]] = [
    {"subscribe": "alpha", "endingOffsets": "latest"},
    {"subscribe": "alpha", "endingOffsetsByTimestamp": both_offsets(p0=MIDDLE, p1=MIDDLE, p2=MIDDLE)},
    {"subscribe": "alpha", "startingTimestamp": "9999999999999"},
    {"subscribe": "open", **COMMITTED, "startingTimestamp": "6"},
    {"subscribe": "alpha", "startingOffsets": both_offsets(p0=1)},
    {"subscribe": "alpha", "startingOffsets": "soon"},
    {"subscribe": "alpha", **FROM_START, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
    {"subscribe": "alpha", **FROM_START, "maxOffsetsPerTrigger": "many"},
    {"subscribe": "alpha", **FROM_START, "minOffsetsPerTrigger": "some"},
    {"subscribe": "alpha", **FROM_START, "maxTriggerDelay": "soon"},
    {"subscribe": "alpha", "assign": '{"alpha": [0]}'},
    {"subscribe": "alpha", "minPartitions": "0"},
    {"subscribe": "alpha", "failOnDataLoss": "maybe"},
    {"subscribe": "alpha", "kafka.auto.offset.reset": "latest"},
    {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": 5}}'},
]

# Rows for both sinks, which must then hold the same records; T is a topic.
HEADERS = "array(named_struct('key', 'h', 'value', cast('x' as binary)))"
SINKS: list[tuple[str, dict[str, str]]] = [
    ("'v' || id value, 'k' || id key from range(50)", {"topic": "T"}),
    ("'v' value, 'k' key", {"TOPIC": " T "}),
    ("'v' value, 'k' key, 'T' topic", {}),
    ("'v' value, 'k' key, 'nowhere' topic", {"topic": "T"}),
    ("'v' value, 'k' key, 5 topic", {"topic": "T"}),
    ("'v' value, 'k' key, 1 partition", {"topic": "T"}),
    ("'v' value, 'k' key, cast(null as int) partition", {"topic": "T"}),
    (f"'v' value, 'k' key, {HEADERS} headers", {"topic": "T", "includeHeaders": "true"}),
    ("'v' value, 'k' key, array(named_struct('key', 'h', 'value', cast(null as binary))) headers", {"topic": "T"}),
    ("'v' value, 'k' key, cast(array() as array<struct<key:string,value:binary>>) headers", {"topic": "T"}),
    ("cast(null as string) value, cast('k' as binary) key", {"topic": "T"}),
    ("cast('v' as varchar(5)) value, 'k' key, 1 other", {"topic": "T", "kafka.compression.type": "zstd"}),
    ("'v' value where false", {"topic": "T"}),
]

SINK_ERRORS: list[tuple[str, dict[str, str]]] = [
    ("1 value", {"topic": "T"}),
    ("'v' VALUE", {"topic": "T"}),
    ("'k' key", {"topic": "T"}),
    ("'v' value, 1 key", {"topic": "T"}),
    ("'v' value", {}),
    ("'v' value, cast(null as string) topic", {}),
    ("'v' value, 5 topic", {}),
    ("'v' value, 1L partition", {"topic": "T"}),
    ("'v' value, 7 partition", {"topic": "T", "kafka.max.block.ms": "1000"}),
    ("'v' value, -1 partition", {"topic": "T"}),
    ("'v' value, array(named_struct('key', 'h', 'value', 'x')) headers", {"topic": "T"}),
    ("'v' value, array(named_struct('key', cast(null as string), 'value', X'00')) headers", {"topic": "T"}),
    ("'v' value", {"topic": "bad/name", "kafka.max.block.ms": "1000"}),
    ("'v' value", {"topic": "T", "kafka.key.serializer": "x"}),
    ("'v' value", {"topic": "T", "kafka.compression.type": "none of them"}),
]
