//! Reasons for which a log refuses an append.

use std::fmt;
use std::path::PathBuf;

use super::fault::prefix;
use crate::types::Offset;

/// Rule that an append breaks, by Kafka's exception for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProducerRule {
    /// `OutOfOrderSequenceException`
    OutOfOrderSequence,
    /// `InvalidProducerEpochException`
    InvalidProducerEpoch,
    /// `InvalidTxnStateException`
    InvalidTxnState,
    /// `TransactionCoordinatorFencedException`
    TransactionCoordinatorFenced,
}

/// An append that contradicts the state of its producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerFault {
    /// The rule.
    pub rule: ProducerRule,
    /// The producer.
    pub producer_id: i64,
    /// Offset that the append would have got.
    pub offset: Offset,
    /// The partition folder, where one is known.
    pub path: Option<PathBuf>,
    /// The field at fault (`sequence`, `epoch`).
    pub what: &'static str,
    /// The value that the state requires.
    pub expected: String,
    /// The value of the append.
    pub found: String,
}

impl fmt::Display for ProducerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefix(f, self.path.as_deref())?;
        write!(
            f,
            "producer {} at offset {}: {}: expected {}, found {} ({:?})",
            self.producer_id, self.offset, self.what, self.expected, self.found, self.rule
        )
    }
}

/// Reason for which a log refused an append; Kafka's exceptions by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// A batch above `max.message.bytes`.
    RecordTooLarge,
    /// An append above `segment.bytes`.
    RecordBatchTooLarge,
    /// A timestamp too far from the clock, or out of range.
    InvalidTimestamp,
    /// Offsets that do not rise, inside an append or in an index (`InvalidOffsetException`).
    OffsetsOutOfOrder,
    /// A time index that would go back.
    TimestampsOutOfOrder,
    /// An index without room for another entry.
    IndexFull,
    /// An append that begins below the log end.
    UnexpectedAppendOffset,
    /// An offset too far from the segment's base (`IndexOffsetOverflowException`).
    SegmentOffsetOverflow,
    /// A segment that exists, or would lie below the active one.
    SegmentExists,
    /// The log failed before and accepts nothing until it is reopened.
    Failed,
    /// A job that appends to many partitions at once has not ended, or died before its end.
    PendingJob,
}
