//! Arrow rows as Kafka batches, cut by bytes: sizes first, then every byte once, then the checksum while they are near.
//!
//! A batch is what a producer with this `batch.size` would have sent and a leader with these rules would have made of
//! it; so a log that goes by the same rules need not look at its records again ([`EncodedBatch`]). Uncompressed it is
//! byte for byte what [`crate::records::builder`] makes of the same records.

mod columns;
mod fill;

use arrow_array::RecordBatch;

use self::columns::Columns;
use self::fill::{Filled, Wanted, too_large};
use crate::compress::{Codec, Compressor};
use crate::error::Result;
use crate::format::attributes::Attributes;
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::records::encoded::EncodedBatch;
use crate::records::validate::LeaderRules;
use crate::types::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE,
    TimestampMs, TimestampType,
};

/// How rows become batches.
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions {
    /// The topic's rules.
    pub rules: LeaderRules,
    /// The codec where the topic leaves it to the producer.
    pub producer_codec: Codec,
    /// A batch is closed before it goes beyond this uncompressed, but holds one record at least (a producer's
    /// `batch.size`).
    pub batch_size: usize,
    /// No batch goes beyond this as it is stored (`max.message.bytes`).
    pub max_message_bytes: usize,
    /// Columns that are not written are left out instead of refused.
    pub ignore_extra: bool,
    /// Rows bring their own offsets, as for a follower.
    pub keeps_offsets: bool,
}

/// A producer's default `batch.size`.
pub const DEFAULT_BATCH_SIZE: usize = 16 << 10;

/// Makes batches of rows; keeps its memory between them.
#[derive(Debug)]
pub struct Encoder {
    options: EncodeOptions,
    /// The batch in the making; longer than it is, so that numbers can be written as whole words.
    batch: Vec<u8>,
    /// The batch with its records compressed.
    compressed: Vec<u8>,
    /// What follows the value of the record in the making: its headers.
    tail: Vec<u8>,
    compressor: Compressor,
}

impl Encoder {
    /// With nothing in it.
    #[must_use]
    pub fn new(options: EncodeOptions) -> Self {
        Self {
            options,
            batch: Vec::new(),
            compressed: Vec::new(),
            tail: Vec::new(),
            compressor: Compressor::new(),
        }
    }

    /// How rows become batches.
    #[must_use]
    pub const fn options(&self) -> &EncodeOptions {
        &self.options
    }

    /// The rows of this Arrow batch, to be taken a Kafka batch at a time.
    ///
    /// # Errors
    /// `InvalidArgument` for columns that are missing, not written, or of a type that does not serve.
    pub fn rows(&mut self, rows: &RecordBatch) -> Result<Rows<'_>> {
        let columns = Columns::new(rows, self.options.keeps_offsets, self.options.ignore_extra)?;
        Ok(Rows {
            encoder: self,
            columns,
            at: 0,
        })
    }

    /// Writes the header of what was filled, compresses it if need be, and returns the size of the batch.
    fn seal(&mut self, filled: &Filled, codec: Codec, now_ms: TimestampMs) -> Result<usize> {
        let header = self.header(filled, codec, now_ms);
        if codec.compression() == Compression::None {
            let batch = self.batch.get_mut(..filled.end).unwrap_or_default();
            header.seal(batch)?;
            return Ok(filled.end);
        }
        let records = self.batch.get(RECORD_BATCH_OVERHEAD..filled.end);
        self.compressed.clear();
        self.compressed.resize(RECORD_BATCH_OVERHEAD, 0);
        self.compressor
            .compress(codec, records.unwrap_or_default(), &mut self.compressed)?;
        header.seal(&mut self.compressed)?;
        Ok(self.compressed.len())
    }

    /// The header of what was filled, but for size and checksum.
    fn header(&self, filled: &Filled, codec: Codec, now_ms: TimestampMs) -> BatchHeader {
        let timestamp_type = self.options.rules.timestamp_type;
        BatchHeader {
            base_offset: filled.base_offset,
            size: 0,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            magic: 2,
            crc: 0,
            attributes: Attributes::new(codec.compression(), timestamp_type, false, false, false),
            last_offset_delta: filled.last_offset_delta,
            base_timestamp: filled.base_timestamp,
            max_timestamp: match timestamp_type {
                TimestampType::LogAppendTime => now_ms,
                _ => filled.max_timestamp,
            },
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            records_count: Some(i32::try_from(filled.rows).unwrap_or(i32::MAX)),
        }
    }
}

/// Rows on their way into batches.
#[derive(Debug)]
pub struct Rows<'a> {
    encoder: &'a mut Encoder,
    columns: Columns,
    at: usize,
}

impl Rows<'_> {
    /// Rows taken so far: the number of the first one that is in no batch yet.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.at
    }

    /// The next batch, or `None` behind the last row. Rows without a timestamp get `now_ms`. Without offsets of their
    /// own the batch's base offset is 0, for the log to say.
    ///
    /// # Errors
    /// `Refused` for a record that is too large by itself, a timestamp out of bounds, offsets that do not rise;
    /// `InvalidRecord` for a record without key in a compacted topic, a header without key or one that is not UTF-8.
    /// Records count from the first row. The rows of batches given before are not concerned.
    pub fn next_batch(&mut self, now_ms: TimestampMs) -> Result<Option<EncodedBatch<'_>>> {
        let options = self.encoder.options;
        let codec = options.rules.codec.unwrap_or(options.producer_codec);
        let mut most_rows = usize::MAX;
        let filled = loop {
            let wanted = Wanted {
                from: self.at,
                limit: options.batch_size.min(options.max_message_bytes),
                most_rows,
                now_ms,
            };
            let filled = self.encoder.fill(&self.columns, wanted)?;
            if filled.rows == 0 {
                return Ok(None);
            }
            let size = self.encoder.seal(&filled, codec, now_ms)?;
            if size <= options.max_message_bytes {
                break filled;
            }
            if filled.rows == 1 {
                return Err(too_large(size, options.max_message_bytes, self.at));
            }
            // What does not compress may come out larger than it went in.
            most_rows = filled.rows / 2;
        };
        self.at = self.at.saturating_add(filled.rows);
        let header = self.encoder.header(&filled, codec, now_ms);
        let bytes = if codec.compression() == Compression::None {
            self.encoder.batch.get_mut(..filled.end).unwrap_or_default()
        } else {
            self.encoder.compressed.as_mut_slice()
        };
        Ok(Some(EncodedBatch::new(bytes, header, options.rules)))
    }
}

#[cfg(test)]
mod tests;
