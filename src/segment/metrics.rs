//! Counters of a reader of segments, for its caller.

use crate::format::batch::BatchHeader;

/// Counts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Bytes of batches read or skipped.
    pub bytes: u64,
    /// Batches whose records were read.
    pub batches: u64,
    /// Batches skipped on their header.
    pub batches_skipped: u64,
    /// Records in them, where their headers say (magic 2), and records decoded but outside the bounds of time.
    pub records_skipped: u64,
    /// Bytes of batches of which nothing but the header was read.
    pub bytes_skipped: u64,
    /// Bytes that came out of decompression.
    pub bytes_decompressed: u64,
    /// Segments opened.
    pub segments: u64,
    /// Planned segments that retention removed before they were read.
    pub segments_lost: u64,
    /// Bytes skipped as damaged.
    pub bytes_lost: u64,
    /// Ranges of them.
    pub lost: u64,
}

impl Metrics {
    /// Adds another reader's counts.
    pub fn add(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.batches = self.batches.saturating_add(other.batches);
        self.batches_skipped = self.batches_skipped.saturating_add(other.batches_skipped);
        self.records_skipped = self.records_skipped.saturating_add(other.records_skipped);
        self.bytes_skipped = self.bytes_skipped.saturating_add(other.bytes_skipped);
        self.bytes_decompressed = self
            .bytes_decompressed
            .saturating_add(other.bytes_decompressed);
        self.segments = self.segments.saturating_add(other.segments);
        self.segments_lost = self.segments_lost.saturating_add(other.segments_lost);
        self.bytes_lost = self.bytes_lost.saturating_add(other.bytes_lost);
        self.lost = self.lost.saturating_add(other.lost);
    }

    /// Counts a range that is skipped as damaged.
    pub(crate) const fn lose(&mut self, bytes: u64) {
        self.bytes_lost = self.bytes_lost.saturating_add(bytes);
        self.lost = self.lost.saturating_add(1);
    }

    /// Takes back a range without bytes that was counted as lost, as it is part of another one.
    pub(crate) const fn find_again(&mut self) {
        self.lost = self.lost.saturating_sub(1);
    }

    /// Takes back a batch that was counted as read, and is not.
    pub(super) const fn give_back(&mut self, header: &BatchHeader) {
        self.bytes = self.bytes.saturating_sub(header.size as u64);
    }

    /// Takes back a batch that was counted as skipped, of which nothing but the header was read.
    pub(super) fn give_back_unread(&mut self, header: &BatchHeader) {
        self.give_back(header);
        let records = header.records_count.map_or(0, i32::unsigned_abs);
        self.batches_skipped = self.batches_skipped.saturating_sub(1);
        self.records_skipped = self.records_skipped.saturating_sub(records.into());
        self.bytes_skipped = self.bytes_skipped.saturating_sub(header.size as u64);
    }

    /// Counts bytes that came out of decompression.
    pub(super) fn decompressed(&mut self, bytes: usize) {
        self.bytes_decompressed = self.bytes_decompressed.saturating_add(bytes as u64);
    }

    /// Counts a batch of which nothing but the header is read.
    #[inline]
    pub(super) fn skip_unread(&mut self, header: &BatchHeader) {
        self.bytes_skipped = self.bytes_skipped.saturating_add(header.size as u64);
        self.skip(header);
    }

    /// Counts a batch that is skipped.
    #[inline]
    pub(super) fn skip(&mut self, header: &BatchHeader) {
        let records = header.records_count.map_or(0, i32::unsigned_abs);
        self.batches_skipped = self.batches_skipped.saturating_add(1);
        self.records_skipped = self.records_skipped.saturating_add(records.into());
    }
}
