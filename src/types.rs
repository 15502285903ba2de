//! Basic types: offsets, positions, timestamps, codecs.
//!
//! Lowest layer beside [`crate::error`]; imports nothing. Sentinels are Kafka's own
//! (`RecordBatch.NO_*`).

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// A record's number in its partition.
pub(crate) type Offset = i64;
/// A byte position in a `.log` file. Kafka's are 32-bit; ours are wide enough never to wrap.
pub(crate) type Position = u64;
/// Milliseconds since the epoch, -1 for none.
pub(crate) type TimestampMs = i64;

/// The system's clock.
pub(crate) fn now_ms() -> TimestampMs {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
}

/// `RecordBatch.NO_TIMESTAMP`
pub(crate) const NO_TIMESTAMP: TimestampMs = -1;
/// `RecordBatch.NO_PRODUCER_ID`
pub(crate) const NO_PRODUCER_ID: i64 = -1;
/// `RecordBatch.NO_PRODUCER_EPOCH`
pub(crate) const NO_PRODUCER_EPOCH: i16 = -1;
/// `RecordBatch.NO_SEQUENCE`
pub(crate) const NO_SEQUENCE: i32 = -1;
/// `RecordBatch.NO_PARTITION_LEADER_EPOCH`
pub(crate) const NO_PARTITION_LEADER_EPOCH: i32 = -1;

/// A unit that timestamps are given in by mistake.
pub(crate) const SECONDS: &str = "seconds";

/// The unit that a timestamp seems to be in, if milliseconds are implausible at this time.
pub(crate) const fn wrong_unit(
    timestamp: TimestampMs,
    now_ms: TimestampMs,
) -> Option<&'static str> {
    /// Longer than any clock is wrong by.
    const CENTURY_MS: i64 = 100 * 365 * 24 * 60 * 60 * 1000;
    /// Of seconds, with ten digits: 2001, before there was Kafka. Fewer are milliseconds of any test.
    const LEAST_SECONDS: i64 = 1_000_000_000;
    const fn is_near(timestamp: TimestampMs, now_ms: TimestampMs, most: i64) -> bool {
        timestamp.saturating_sub(now_ms).saturating_abs() < most
    }
    if is_near(timestamp, now_ms, CENTURY_MS / 4) {
        None
    } else if timestamp >= LEAST_SECONDS
        && is_near(timestamp.saturating_mul(1000), now_ms, CENTURY_MS / 4)
    {
        Some(SECONDS)
    } else if timestamp <= now_ms || is_near(timestamp, now_ms, CENTURY_MS) {
        None
    } else if is_near(timestamp / 1000, now_ms, CENTURY_MS) {
        Some("microseconds")
    } else if is_near(timestamp / 1_000_000, now_ms, CENTURY_MS) {
        Some("nanoseconds")
    } else {
        None
    }
}

/// Codec of a batch's records (`CompressionType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not compressed.
    None,
    /// RFC 1952 members.
    Gzip,
    /// Xerial stream, or one raw block.
    Snappy,
    /// LZ4 frame.
    Lz4,
    /// Zstandard frames (KIP-110), magic 2 only.
    Zstd,
}

impl Compression {
    /// The codec of attribute bits 0 to 2, if Kafka knows it.
    #[must_use]
    pub const fn from_id(id: u8) -> Option<Self> {
        match id {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Its number in attribute bits 0 to 2.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The codec of this name, if Kafka knows it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd]
            .into_iter()
            .find(|codec| codec.name() == name)
    }

    /// Kafka's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Source of a record's timestamp (`TimestampType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// Magic 0 has no timestamp.
    NoTimestamp,
    /// The producer.
    CreateTime,
    /// The broker, on append; it counts for every record of the batch.
    LogAppendTime,
}

impl TimestampType {
    /// Spark's and Kafka's number for it: -1, 0, 1.
    #[must_use]
    pub const fn id(self) -> i32 {
        match self {
            Self::NoTimestamp => -1,
            Self::CreateTime => 0,
            Self::LogAppendTime => 1,
        }
    }

    /// Kafka's name, as `kafka-dump-log` prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoTimestamp => "NoTimestampType",
            Self::CreateTime => "CreateTime",
            Self::LogAppendTime => "LogAppendTime",
        }
    }
}

/// Origin of an append, which determines what is checked (`AppendOrigin`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AppendOrigin {
    /// A leader's batches, copied: nothing is refused for its producer.
    Replication,
    /// A group's or transaction's coordinator: epochs are checked, sequences are not.
    #[cfg_attr(
        not(feature = "internal"),
        expect(
            dead_code,
            reason = "no tool is one; what would be asked of it stands where the others are"
        )
    )]
    Coordinator,
    /// A producer: everything is checked.
    Client,
}

/// One partition of one topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
}

impl TopicPartition {
    /// The two together.
    #[must_use]
    pub fn new(topic: impl Into<String>, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}
