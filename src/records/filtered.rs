//! Records taken out of a batch that is in a log (`MemoryRecords.filterTo`).
//!
//! | what is dropped | result for the batch |
//! |---|---|
//! | nothing | its bytes |
//! | nothing, and another codec is requested | magic 2: its header, and the bytes of its records compressed again |
//! | some records | one batch of magic 2, of the others; a batch of magic 2 keeps its base and last offset |
//! | all records, and its producer or last offset counts | a header of 61 bytes |
//! | all records | nothing |
//!
//! A batch that loses records keeps producer, epoch, transaction and timestamp type of its header; count, largest
//! timestamp and checksum are those of the remaining records. Messages of magic 0 and 1 become one batch of magic 2 at
//! the first remaining offset, whether any is dropped or not, unless [`FilterRules::keeps_legacy`] says otherwise.
//!
//! # Delete horizon
//! The first pass that finds a tombstone, or the marker of a transaction without data, writes into the batch when these
//! may be removed ([`FilterRules::delete_horizon_ms`], KIP-534). It takes the place of the base timestamp; it is not
//! written again.

use super::RecordSlot;
use super::batch::BatchDecoder;
use super::builder::{BatchBuilder, BatchOptions, empty_batch};
use crate::compress::{Codec, Compressor, DecodeLimit};
use crate::error::{Error, Result};
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::types::{Compression, NO_TIMESTAMP, Offset, TimestampMs, TimestampType};

/// Treatment of a batch (`MemoryRecords.RecordFilter.BatchRetention`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchRetention {
    /// Kept; its records are not examined.
    Keep,
    /// Removed; its records are not examined.
    Delete,
    /// Filtered; without any record left, the header is kept.
    RetainEmpty,
    /// Filtered; without any record left, it is removed.
    DeleteEmpty,
}

/// A filter's decision about a batch (`BatchRetentionResult`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchVerdict {
    /// Treatment of the batch.
    pub retention: BatchRetention,
    /// It is the marker of a transaction none of whose data is left, so that it gets a delete horizon.
    pub is_marker_of_nothing: bool,
}

impl From<BatchRetention> for BatchVerdict {
    fn from(retention: BatchRetention) -> Self {
        Self {
            retention,
            is_marker_of_nothing: false,
        }
    }
}

/// Decides what stays (`MemoryRecords.RecordFilter`).
pub trait RecordFilter {
    /// Decides about a whole batch.
    ///
    /// # Errors
    /// The filter's own.
    fn batch(&mut self, batch: &[u8], header: &BatchHeader) -> Result<BatchVerdict>;

    /// Clears `stays` of the records that go. Keys and values of `slots` lie in `source`; a batch comes in several
    /// calls where it is large.
    ///
    /// # Errors
    /// The filter's own.
    fn records(
        &mut self,
        header: &BatchHeader,
        source: &[u8],
        slots: &[RecordSlot],
        stays: &mut [bool],
    ) -> Result<()>;
}

/// Rules by which batches are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRules {
    /// Delete horizon of tombstones and markers that are met for the first time; `None`: no batch gets one.
    pub delete_horizon_ms: Option<TimestampMs>,
    /// The codec of all batches whose records are requested; `None`: each keeps its own, at the default level.
    pub codec: Option<Codec>,
    /// Messages of magic 0 and 1 of which none goes stay as they are.
    pub keeps_legacy: bool,
    /// Messages of magic 0 and 1 that are written again end where they did if their batch would stay without records;
    /// Kafka's cleaner ends them with the last record that is left.
    pub keeps_ends: bool,
    /// The most bytes that a batch may decompress to.
    pub limit: DecodeLimit,
}

/// Result for a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilteredBatch {
    /// Kept, byte for byte.
    Unchanged,
    /// Its records, or some, are in a new batch with this header.
    Rewritten(BatchHeader),
    /// Only this header is left.
    Emptied(BatchHeader),
    /// Removed.
    Deleted,
}

/// A batch that was filtered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filtered {
    /// Result for the batch.
    pub outcome: FilteredBatch,
    /// Records that were requested.
    pub records_read: u64,
    /// Those of them that stay.
    pub records_kept: u64,
}

impl Filtered {
    const fn of(outcome: FilteredBatch) -> Self {
        Self {
            outcome,
            records_read: 0,
            records_kept: 0,
        }
    }

    /// Header of what is left; `header` is the one it had.
    #[must_use]
    pub const fn header_left<'a>(&'a self, header: &'a BatchHeader) -> Option<&'a BatchHeader> {
        match &self.outcome {
            FilteredBatch::Unchanged => Some(header),
            FilteredBatch::Rewritten(new) | FilteredBatch::Emptied(new) => Some(new),
            FilteredBatch::Deleted => None,
        }
    }
}

/// Filters one batch after the other, with memory that is kept.
#[derive(Debug)]
pub struct BatchFilter {
    rules: FilterRules,
    decoder: BatchDecoder,
    compressor: Compressor,
    slots: Vec<RecordSlot>,
    stays: Vec<bool>,
    builder: BatchBuilder,
}

/// Records decoded at once.
const AT_ONCE: usize = 512;

impl BatchFilter {
    /// Writes batches by these rules.
    ///
    /// # Errors
    /// None that the default batch options would have.
    pub fn new(rules: FilterRules) -> Result<Self> {
        Ok(Self {
            decoder: BatchDecoder::with_limit(rules.limit),
            rules,
            compressor: Compressor::new(),
            slots: vec![RecordSlot::default(); AT_ONCE],
            stays: Vec::new(),
            builder: BatchBuilder::new(BatchOptions::default())?,
        })
    }

    /// Appends to `out` what is left of a whole batch. Its checksum is the caller's to check.
    ///
    /// # Errors
    /// The filter's; faults in the records, with positions from the beginning of the batch. `out` is then unchanged.
    pub fn filter(
        &mut self,
        batch: &[u8],
        header: &BatchHeader,
        filter: &mut impl RecordFilter,
        out: &mut Vec<u8>,
    ) -> Result<Filtered> {
        let begun = out.len();
        let done = self.filter_into(batch, header, filter, out);
        done.map_err(|error| {
            out.truncate(begun);
            placed(error).for_offset(header.base_offset)
        })
    }

    fn filter_into(
        &mut self,
        batch: &[u8],
        header: &BatchHeader,
        filter: &mut impl RecordFilter,
        out: &mut Vec<u8>,
    ) -> Result<Filtered> {
        let verdict = filter.batch(batch, header)?;
        match verdict.retention {
            BatchRetention::Keep => {
                out.extend_from_slice(batch);
                return Ok(Filtered::of(FilteredBatch::Unchanged));
            }
            BatchRetention::Delete => return Ok(Filtered::of(FilteredBatch::Deleted)),
            BatchRetention::RetainEmpty | BatchRetention::DeleteEmpty => {}
        }
        let mut records = self.decoder.open(batch, header)?;
        let mut seen = FilterCounts::default();
        self.stays.clear();
        while let Some(slots) = records.next(&mut self.slots)? {
            let begun = self.stays.len();
            self.stays.resize(begun.saturating_add(slots.len()), true);
            let stays = self.stays.get_mut(begun..).unwrap_or_default();
            filter.records(header, records.bytes(), slots, stays)?;
            seen.add(slots, stays);
        }
        let outcome = if seen.kept > 0 {
            self.keep(batch, header, verdict, &seen, out)?
        } else if verdict.retention == BatchRetention::RetainEmpty {
            FilteredBatch::Emptied(put_empty(header, out)?)
        } else {
            FilteredBatch::Deleted
        };
        Ok(Filtered {
            outcome,
            records_read: seen.read,
            records_kept: seen.kept,
        })
    }

    /// Writes the records that stay: as they are, if that can be.
    fn keep(
        &mut self,
        batch: &[u8],
        header: &BatchHeader,
        verdict: BatchVerdict,
        seen: &FilterCounts,
        out: &mut Vec<u8>,
    ) -> Result<FilteredBatch> {
        let own = Codec::new(header.compression()?);
        let codec = self.rules.codec.unwrap_or(own);
        let delete_horizon_ms = header.delete_horizon_ms().filter(|&ms| ms >= 0);
        let new_horizon_ms = self.rules.delete_horizon_ms.filter(|_| {
            (seen.has_tombstones || verdict.is_marker_of_nothing)
                && header.delete_horizon_ms().is_none()
                && !(header.is_legacy() && self.rules.keeps_legacy)
        });
        let is_whole = seen.kept == seen.read
            && codec.compression() == own.compression()
            && (self.rules.keeps_legacy || !header.is_legacy());
        if is_whole && new_horizon_ms.is_none() {
            out.extend_from_slice(batch);
            return Ok(FilteredBatch::Unchanged);
        }
        if seen.kept == seen.read && new_horizon_ms.is_none() && !header.is_legacy() {
            return self.recompress(batch, header, codec, out);
        }
        let base_offset = if header.is_legacy() {
            seen.first_kept.min(header.last_offset())
        } else {
            header.base_offset
        };
        let options = BatchOptions {
            base_offset,
            codec,
            delete_horizon_ms: new_horizon_ms.or(delete_horizon_ms),
            ..options_of(header)
        };
        self.builder.restart(options);
        self.put_kept(batch, header)?;
        // Else the producer's next batch would seem to leave sequences out, and one with records beyond its end, which
        // consumers read, would reach into the next.
        let last = header.last_offset();
        let counts = self.rules.keeps_ends && verdict.retention == BatchRetention::RetainEmpty;
        if !header.is_legacy() || counts || seen.last_kept > last {
            self.builder.reach(last)?;
        }
        let begun = out.len();
        self.builder.finish(&mut self.compressor, out)?;
        header_at(out, begun).map(FilteredBatch::Rewritten)
    }

    /// Writes a batch of magic 2, opened last, with another codec: its records are the same bytes.
    fn recompress(
        &mut self,
        batch: &[u8],
        header: &BatchHeader,
        codec: Codec,
        out: &mut Vec<u8>,
    ) -> Result<FilteredBatch> {
        let begun = out.len();
        let (head, records) = batch
            .split_at_checked(RECORD_BATCH_OVERHEAD)
            .unwrap_or_default();
        let records = match header.compression()? {
            Compression::None => records,
            _ => self.decoder.reopen(batch, header)?.bytes(),
        };
        out.extend_from_slice(head);
        self.compressor.compress(codec, records, out)?;
        let new = BatchHeader {
            attributes: header.attributes.with_compression(codec.compression()),
            ..header.clone()
        };
        new.seal(out.get_mut(begun..).unwrap_or_default())?;
        header_at(out, begun).map(FilteredBatch::Rewritten)
    }

    /// Gives the records that stay to the builder. They are decoded once more, so that a batch takes no memory for all
    /// of its records at once.
    fn put_kept(&mut self, batch: &[u8], header: &BatchHeader) -> Result<()> {
        let mut records = self.decoder.reopen(batch, header)?;
        let mut stays = self.stays.iter();
        while let Some(slots) = records.next(&mut self.slots)? {
            for (slot, &stays) in slots.iter().zip(&mut stays) {
                if stays {
                    self.builder.copy_slot(slot.offset, records.bytes(), slot)?;
                }
            }
        }
        Ok(())
    }
}

/// Decisions of the filter about the records so far.
#[derive(Default)]
struct FilterCounts {
    read: u64,
    kept: u64,
    first_kept: Offset,
    last_kept: Offset,
    has_tombstones: bool,
}

impl FilterCounts {
    fn add(&mut self, slots: &[RecordSlot], stays: &[bool]) {
        self.read = self.read.saturating_add(slots.len() as u64);
        for (slot, _) in slots.iter().zip(stays).filter(|&(_, &stays)| stays) {
            if self.kept == 0 {
                self.first_kept = slot.offset;
            }
            self.kept = self.kept.saturating_add(1);
            self.last_kept = slot.offset;
            self.has_tombstones |= slot.value_len < 0;
        }
    }
}

/// Options of a replacement batch, taken from the header of the original.
fn options_of(header: &BatchHeader) -> BatchOptions {
    let is_log_append_time = header.timestamp_type() == TimestampType::LogAppendTime;
    BatchOptions {
        base_offset: header.base_offset,
        codec: Codec::NONE,
        // Messages of magic 0 have no timestamps, which CreateTime can say.
        timestamp_type: match header.timestamp_type() {
            TimestampType::LogAppendTime => TimestampType::LogAppendTime,
            _ => TimestampType::CreateTime,
        },
        log_append_time: if is_log_append_time {
            header.max_timestamp
        } else {
            NO_TIMESTAMP
        },
        partition_leader_epoch: header.partition_leader_epoch,
        producer_id: header.producer_id,
        producer_epoch: header.producer_epoch,
        base_sequence: header.base_sequence,
        is_transactional: header.is_transactional(),
        is_control: header.is_control(),
        delete_horizon_ms: None,
    }
}

fn put_empty(header: &BatchHeader, out: &mut Vec<u8>) -> Result<BatchHeader> {
    let begun = out.len();
    let options = options_of(header);
    empty_batch(options, header.last_offset(), header.max_timestamp, out)?;
    header_at(out, begun)
}

/// Gives an error about a record a place: the batch.
fn placed(error: Error) -> Error {
    match error {
        Error::InvalidRecord(mut fault) => {
            fault.location.position.get_or_insert(0);
            Error::InvalidRecord(fault)
        }
        other => other,
    }
}

/// The header of the batch that was just written.
fn header_at(out: &[u8], begun: usize) -> Result<BatchHeader> {
    let batch = out.get(begun..).unwrap_or_default();
    let header = BatchHeader::parse(batch)?;
    header.ok_or_else(|| Error::corrupt("batch header", 0, "a whole header", batch.len()))
}

#[cfg(test)]
mod tests;
