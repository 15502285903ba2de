//! Options of a plan.

use std::collections::{BTreeMap, BTreeSet};

use crate::segment::filter::TimestampBounds;
use crate::segment::skipping::OnCorrupt;
use crate::types::{Offset, TimestampMs, TopicPartition};

/// Kafka's number for the log start (`ListOffsetsRequest.EARLIEST_TIMESTAMP`).
pub(crate) const EARLIEST: Offset = -2;
/// Kafka's number for the log end (`ListOffsetsRequest.LATEST_TIMESTAMP`).
pub(crate) const LATEST: Offset = -1;

/// Partitions of the topics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Partitions {
    /// All.
    #[default]
    All,
    /// These, of every topic.
    Numbers(BTreeSet<i32>),
    /// These; a topic that is not named has none.
    ByTopic(BTreeMap<String, BTreeSet<i32>>),
}

/// Offsets or timestamps by partition.
pub(crate) type ByPartition = BTreeMap<TopicPartition, i64>;

/// Start of a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Starting {
    /// At the log start offset.
    #[default]
    Earliest,
    /// At the first offset in the files.
    Oldest,
    /// At this offset, in every partition.
    Offset(Offset),
    /// At these offsets; partitions that are not named from the log start.
    Offsets(ByPartition),
}

/// End of a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// With the last whole batch.
    #[default]
    Latest,
    /// At the checkpointed high watermark.
    HighWatermark,
    /// Before this offset, in every partition.
    Offset(Offset),
    /// Before these offsets; partitions that are not named with the last whole batch.
    Offsets(ByPartition),
}

/// A bound by time; it takes the place of the bound by offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timestamp {
    /// For every partition.
    At(TimestampMs),
    /// For these; others keep their bound by offset.
    ByPartition(ByPartition),
}

impl Timestamp {
    pub(super) fn of(bound: Option<&Self>, partition: &TopicPartition) -> Option<TimestampMs> {
        match bound? {
            Self::At(timestamp) => Some(*timestamp),
            Self::ByPartition(map) => map.get(partition).copied(),
        }
    }
}

/// Records of transactions that are read (`IsolationLevel`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsolationLevel {
    /// All, whatever the outcome of their transactions.
    #[default]
    ReadUncommitted,
    /// Those of committed transactions, and those without one.
    ReadCommitted,
}

/// Bounds for every record, all of them inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruning {
    /// Smallest offset.
    pub min_offset: Option<Offset>,
    /// Largest offset.
    pub max_offset: Option<Offset>,
    /// Smallest and largest timestamp.
    pub timestamps: TimestampBounds,
}

/// Options of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// These topics, which must exist.
    pub topics: Option<BTreeSet<String>>,
    /// Topics whose whole name matches.
    pub topic_pattern: Option<String>,
    /// Partitions of the topics.
    pub partitions: Partitions,
    /// Start of the read.
    pub starting_offsets: Starting,
    /// End of the read.
    pub ending_offsets: Ending,
    /// Start of the read, by time.
    pub starting_timestamp: Option<Timestamp>,
    /// End of the read, by time.
    pub ending_timestamp: Option<Timestamp>,
    /// Records of transactions that are read.
    pub isolation_level: IsolationLevel,
    /// Further bounds.
    pub pruning: Pruning,
    /// Also `-delete`, `-future` and `-stray` folders of a log dir.
    pub include_inactive: bool,
    /// Named topics and partitions that do not exist are ignored.
    pub allow_missing: bool,
    /// Action on damage in what must be read to plan.
    pub on_corrupt: OnCorrupt,
}
