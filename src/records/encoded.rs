//! Batches that were just made by a topic's rules.

use super::validate::LeaderRules;
use crate::format::batch::{self, BatchHeader};
use crate::types::{NO_TIMESTAMP, Offset, TimestampMs, TimestampType};

/// Whole batches of magic 2, one after the other, checksummed, whose records are known to keep these rules because this
/// crate has just made them so: a log that has the same rules takes them without looking at the records again, from the
/// front, as many at a time as go in one write.
#[derive(Debug)]
pub struct EncodedBatches<'a> {
    bytes: &'a mut [u8],
    headers: &'a mut [BatchHeader],
    rules: LeaderRules,
    keeps_offsets: bool,
    has_more: bool,
    begun: &'a mut usize,
}

impl<'a> EncodedBatches<'a> {
    /// `headers` are those of the batches in `bytes`; `has_more` says whether others will follow, in front of which the
    /// batch comes again that is only begun by then. Of the first one `begun` bytes are written already.
    pub(crate) const fn new(
        bytes: &'a mut [u8],
        headers: &'a mut [BatchHeader],
        (rules, keeps_offsets): (LeaderRules, bool),
        has_more: bool,
        begun: &'a mut usize,
    ) -> Self {
        Self {
            bytes,
            headers,
            rules,
            keeps_offsets,
            has_more,
            begun,
        }
    }

    /// Gives them places in a log that continues at `base_offset`, unless they keep their own offsets, and the epoch.
    /// A batch that has others by this is not begun any more.
    pub fn assign(&mut self, mut base_offset: Offset, partition_leader_epoch: i32) {
        let place = |header: &BatchHeader| (header.base_offset, header.partition_leader_epoch);
        let before = self.headers.first().map(place);
        let mut rest = &mut *self.bytes;
        for header in &mut *self.headers {
            if !self.keeps_offsets {
                header.base_offset = base_offset;
            }
            header.partition_leader_epoch = partition_leader_epoch;
            batch::assign(rest, header.base_offset, partition_leader_epoch);
            base_offset = header.next_offset();
            rest = rest.get_mut(header.size..).unwrap_or_default();
        }
        if self.headers.first().map(place) != before {
            *self.begun = 0;
        }
    }

    /// All of them.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// The batches' headers.
    #[must_use]
    pub const fn headers(&self) -> &[BatchHeader] {
        self.headers
    }

    /// Returns whether none is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// Returns whether others follow these.
    #[must_use]
    pub const fn has_more(&self) -> bool {
        self.has_more
    }

    /// Bytes of the first one that are in the log's file already.
    #[must_use]
    pub const fn begun(&self) -> usize {
        *self.begun
    }

    /// Leaves out so many at the front, which are in the log, and notes how much of the next one is in its file.
    pub fn advance(&mut self, batches: usize, begun: usize) {
        let batches = batches.min(self.headers.len());
        let (first, rest) = std::mem::take(&mut self.headers).split_at_mut(batches);
        self.headers = rest;
        let size = first.iter().map(|header| header.size).sum::<usize>();
        let size = size.min(self.bytes.len());
        let (_, rest) = std::mem::take(&mut self.bytes).split_at_mut(size);
        self.bytes = rest;
        *self.begun = begun;
    }

    /// The rules their records keep.
    #[must_use]
    pub const fn rules(&self) -> &LeaderRules {
        &self.rules
    }

    /// Returns whether their offsets are their own, as for a follower, and not the log's to give.
    #[must_use]
    pub const fn keeps_offsets(&self) -> bool {
        self.keeps_offsets
    }

    /// The clock, if the timestamps are the log's.
    #[must_use]
    pub fn log_append_time(&self) -> TimestampMs {
        match self.headers.last() {
            Some(header) if header.timestamp_type() == TimestampType::LogAppendTime => {
                header.max_timestamp
            }
            _ => NO_TIMESTAMP,
        }
    }
}
