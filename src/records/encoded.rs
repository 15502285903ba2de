//! A batch that was just made by a topic's rules.

use super::validate::LeaderRules;
use crate::format::batch::{self, BatchHeader, CRC_AT};
use crate::format::cursor::get_u32;
use crate::types::{NO_TIMESTAMP, Offset, TimestampMs, TimestampType};

/// One whole batch of magic 2, checksummed, whose records are known to keep these rules because this crate has just
/// made it so: a leader's log that has the same rules takes it without looking at the records again.
#[derive(Debug)]
pub struct EncodedBatch<'a> {
    bytes: &'a mut [u8],
    header: BatchHeader,
    rules: LeaderRules,
}

impl<'a> EncodedBatch<'a> {
    /// `header` is that of `bytes`, but for size and checksum.
    pub(crate) fn new(bytes: &'a mut [u8], mut header: BatchHeader, rules: LeaderRules) -> Self {
        header.size = bytes.len();
        header.crc = get_u32(bytes, CRC_AT).unwrap_or_default();
        Self {
            bytes,
            header,
            rules,
        }
    }

    /// Gives it its place in the log.
    pub fn assign(&mut self, base_offset: Offset, partition_leader_epoch: i32) {
        batch::assign(self.bytes, base_offset, partition_leader_epoch);
        self.header.base_offset = base_offset;
        self.header.partition_leader_epoch = partition_leader_epoch;
    }

    /// All of it.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// What its header says.
    #[must_use]
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The rules its records keep.
    #[must_use]
    pub const fn rules(&self) -> &LeaderRules {
        &self.rules
    }

    /// The clock, if the timestamps are the log's.
    #[must_use]
    pub const fn log_append_time(&self) -> TimestampMs {
        match self.header.timestamp_type() {
            TimestampType::LogAppendTime => self.header.max_timestamp,
            _ => NO_TIMESTAMP,
        }
    }
}
