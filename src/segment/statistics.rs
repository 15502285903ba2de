//! Statistics from the headers of a segment: nothing is decompressed, no checksum is computed.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::LogSegment;
use super::source::Access;
use crate::error::Result;
use crate::types::{Offset, TimestampMs, TimestampType};

/// Segments up to this size are copied.
const MAX_COPIED: u64 = 64 << 10;

/// Number of batches of a kind, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Batches.
    pub batches: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
}

impl Tally {
    const fn add(&mut self, bytes: usize) {
        self.batches = self.batches.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    const fn join(&mut self, other: Self) {
        self.batches = self.batches.saturating_add(other.batches);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// The sums of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SegmentStatistics {
    /// Bytes of whole batches; the rest of the file is a torn or zero tail, or damage that was skipped.
    pub valid_bytes: u64,
    /// Batches; a message of magic 0 or 1 outside a wrapper is one, and so is a wrapper.
    pub batches: u64,
    /// Records in the batches that say how many they hold (magic 2), control records included.
    pub records: u64,
    /// Batches of magic 0 and 1, which do not say.
    pub legacy_batches: u64,
    /// Control batches.
    pub control_batches: u64,
    /// Transactional batches, control ones included.
    pub transactional_batches: u64,
    /// Batches whose records have all been compacted away.
    pub empty_batches: u64,
    /// Base offset of the first batch (of a legacy wrapper, its last offset).
    pub first_offset: Option<Offset>,
    /// Last offset of the last batch.
    pub last_offset: Option<Offset>,
    /// The smallest of the batches' first timestamps.
    pub min_timestamp: Option<TimestampMs>,
    /// The largest timestamp.
    pub max_timestamp: Option<TimestampMs>,
    /// By the codec's name.
    pub codecs: BTreeMap<&'static str, Tally>,
    /// By the magic.
    pub magics: BTreeMap<u8, Tally>,
    /// Ids of the producers that wrote with one.
    pub producers: BTreeSet<i64>,
    /// Leader epochs.
    pub leader_epochs: BTreeSet<i32>,
}

impl SegmentStatistics {
    /// Adds up the headers of `segment`.
    ///
    /// # Errors
    /// `Io`, or a fault in a header.
    pub fn of(segment: &LogSegment) -> Result<Self> {
        // A map costs more than one copy of so little.
        let source = if segment.size <= MAX_COPIED {
            segment.open_by_copy(Access::Records)?
        } else {
            segment.open(Access::Headers)?
        };
        let mut batches = segment.batches(source, 0);
        let mut sums = Self::default();
        while let Some((position, header)) = batches.next()? {
            let codec = header.compression();
            let codec = codec.map_err(|error| batches.source.locate(position, error))?;
            sums.batches = sums.batches.saturating_add(1);
            sums.valid_bytes = sums.valid_bytes.saturating_add(header.size as u64);
            sums.codecs
                .entry(codec.name())
                .or_default()
                .add(header.size);
            sums.magics
                .entry(header.magic)
                .or_default()
                .add(header.size);
            match header.records_count {
                None => sums.legacy_batches = sums.legacy_batches.saturating_add(1),
                Some(0) => sums.empty_batches = sums.empty_batches.saturating_add(1),
                Some(count) => {
                    sums.records = sums.records.saturating_add(count.unsigned_abs().into());
                }
            }
            sums.control_batches = sums
                .control_batches
                .saturating_add(header.is_control().into());
            sums.transactional_batches = sums
                .transactional_batches
                .saturating_add(header.is_transactional().into());
            sums.first_offset.get_or_insert(header.base_offset);
            sums.last_offset = Some(header.last_offset());
            // Then the field is no record's timestamp, but the horizon, or what the producer had set.
            let is_appends = header.timestamp_type() == TimestampType::LogAppendTime;
            let first = if header.delete_horizon_ms().is_some() || is_appends {
                header.max_timestamp
            } else {
                header.base_timestamp
            };
            let times = (first >= 0, header.max_timestamp >= 0);
            if times.0 {
                sums.min_timestamp = Some(sums.min_timestamp.map_or(first, |t| t.min(first)));
            }
            if times.1 {
                sums.max_timestamp = sums.max_timestamp.max(Some(header.max_timestamp));
            }
            if header.producer_id >= 0 {
                sums.producers.insert(header.producer_id);
            }
            if header.partition_leader_epoch >= 0 {
                sums.leader_epochs.insert(header.partition_leader_epoch);
            }
        }
        Ok(sums)
    }

    /// Adds those of another segment of the same log.
    pub(crate) fn join(&mut self, other: &Self) {
        let counts = [
            (&mut self.batches, other.batches),
            (&mut self.records, other.records),
            (&mut self.legacy_batches, other.legacy_batches),
            (&mut self.control_batches, other.control_batches),
            (&mut self.transactional_batches, other.transactional_batches),
            (&mut self.empty_batches, other.empty_batches),
            (&mut self.valid_bytes, other.valid_bytes),
        ];
        for (count, more) in counts {
            *count = count.saturating_add(more);
        }
        self.first_offset = least(self.first_offset, other.first_offset);
        self.last_offset = self.last_offset.max(other.last_offset);
        self.min_timestamp = least(self.min_timestamp, other.min_timestamp);
        self.max_timestamp = self.max_timestamp.max(other.max_timestamp);
        for (&codec, &tally) in &other.codecs {
            self.codecs.entry(codec).or_default().join(tally);
        }
        for (&magic, &tally) in &other.magics {
            self.magics.entry(magic).or_default().join(tally);
        }
        self.producers.extend(&other.producers);
        self.leader_epochs.extend(&other.leader_epochs);
    }
}

fn least(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    one.into_iter().chain(other).min()
}
