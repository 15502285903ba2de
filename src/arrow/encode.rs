//! Encodes Arrow rows as Kafka batches of limited size: computes sizes first, then writes every byte once, then
//! computes the checksum while the bytes are in the cache.
//!
//! A batch is what a producer with this `batch.size` would have sent, after a leader with these rules has processed it.
//! A log with the same rules therefore need not examine its records again ([`EncodedBatches`]). Uncompressed, it has
//! the same bytes as the output of [`crate::records::builder`] for the same records.

mod bytes;
mod columns;
mod fill;
mod headers;
mod keys;
mod places;
mod sizes;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use self::columns::InputColumns;
use self::fill::{FilledBatch, MAX_BATCH_BYTES, RowLimits, too_large};
#[cfg(feature = "python")]
pub(crate) use self::keys::partition_for_key;
#[cfg(feature = "python")]
pub(crate) use self::sizes::first_too_large;
use crate::compress::{Codec, Compressor};
use crate::error::Result;
use crate::format::attributes::Attributes;
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::records::encoded::EncodedBatches;
use crate::records::validate::LeaderRules;
use crate::types::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE,
    TimestampMs, TimestampType,
};

/// Options for encoding rows as batches.
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions {
    /// The topic's rules.
    pub rules: LeaderRules,
    /// A batch is closed before it goes beyond this uncompressed, but holds one record at least (a producer's
    /// `batch.size`).
    pub batch_size: usize,
    /// No batch goes beyond this as it is stored (`max.message.bytes`), but for one record that a follower is given:
    /// only a leader refuses that.
    pub max_message_bytes: usize,
    /// Columns that are not written are left out instead of refused.
    pub ignore_extra: bool,
    /// Rows bring their own offsets, as for a follower.
    pub keeps_offsets: bool,
}

impl EncodeOptions {
    /// Codec of the batches: none if the topic leaves it to the producer.
    fn codec(&self) -> Codec {
        self.rules.codec.unwrap_or(Codec::NONE)
    }

    /// The largest a record may be before it is compressed.
    fn most(&self) -> usize {
        if self.keeps_offsets || self.codec().compression() != Compression::None {
            return MAX_BATCH_BYTES;
        }
        self.max_message_bytes.min(MAX_BATCH_BYTES)
    }
}

/// A producer's default `batch.size`.
pub const DEFAULT_BATCH_SIZE: usize = 16 << 10;

/// Checks that rows of this schema can be written, even if there are none.
///
/// # Errors
/// As [`Encoder::rows`].
pub(crate) fn check_schema(
    schema: SchemaRef,
    keeps_offsets: bool,
    ignore_extra: bool,
) -> Result<()> {
    InputColumns::new(&RecordBatch::new_empty(schema), keeps_offsets, ignore_extra).map(drop)
}

/// Makes batches of rows; keeps its memory between them.
#[derive(Debug)]
pub struct Encoder {
    options: EncodeOptions,
    /// The batch being built, after those made before it where nothing is compressed; longer than they are, so that
    /// numbers can be written as whole words.
    batch: Vec<u8>,
    /// Batches with their records compressed.
    compressed: Vec<u8>,
    /// The headers of the batches made.
    headers: Vec<BatchHeader>,
    /// Bytes of the last of them that are in the log's file: more than 0 if it is to come again.
    begun: usize,
    /// Bytes after the value of the record being built: its headers.
    tail: Vec<u8>,
    compressor: Compressor,
    /// Rows taken over so far, those of this Arrow batch included.
    given: usize,
}

impl Encoder {
    /// With nothing in it.
    #[must_use]
    pub fn new(options: EncodeOptions) -> Self {
        Self {
            options,
            batch: Vec::new(),
            compressed: Vec::new(),
            headers: Vec::new(),
            begun: 0,
            tail: Vec::new(),
            compressor: Compressor::new(),
            given: 0,
        }
    }

    /// Numbers the rows of the next Arrow batch from here on in error messages.
    #[must_use]
    pub const fn numbered_from(mut self, first_row: usize) -> Self {
        self.given = first_row;
        self
    }

    /// The rows of this Arrow batch, to be taken a few Kafka batches at a time. In what errors say they count after
    /// those of the batches before.
    ///
    /// # Errors
    /// `InvalidArgument` for columns that are missing, not written, or of a type that does not serve.
    pub fn rows(&mut self, rows: &RecordBatch) -> Result<PendingRows<'_>> {
        let columns =
            InputColumns::new(rows, self.options.keeps_offsets, self.options.ignore_extra)?;
        self.begun = 0;
        let numbered_from = self.given;
        self.given = numbered_from.saturating_add(columns.rows);
        Ok(PendingRows {
            encoder: self,
            columns,
            numbered_from,
            at: 0,
        })
    }

    /// Forgets the batches made, all but one that was begun, which is the first now; returns its size.
    fn keep_begun(&mut self) -> usize {
        let end = self.headers.iter().map(|header| header.size).sum::<usize>();
        let last = self.headers.pop().filter(|_| self.begun > 0);
        self.headers.clear();
        let bytes = if self.options.codec().compression() == Compression::None {
            &mut self.batch
        } else {
            &mut self.compressed
        };
        match last {
            Some(last) if end <= bytes.len() => {
                bytes.copy_within(end.saturating_sub(last.size)..end, 0);
                let size = last.size;
                self.headers.push(last);
                size
            }
            _ => 0,
        }
    }

    /// Makes a batch of what was filled, compressed if need be: that which begins at `start`. Returns its header.
    fn seal(
        &mut self,
        filled: &FilledBatch,
        start: usize,
        codec: Codec,
        now_ms: TimestampMs,
    ) -> Result<BatchHeader> {
        let mut header = self.header(filled, codec, now_ms);
        let batch = if codec.compression() == Compression::None {
            self.batch.get_mut(start..filled.end).unwrap_or_default()
        } else {
            let records = self.batch.get(RECORD_BATCH_OVERHEAD..filled.end);
            let out = &mut self.compressed;
            out.truncate(start);
            out.resize(start.saturating_add(RECORD_BATCH_OVERHEAD), 0);
            self.compressor
                .compress(codec, records.unwrap_or_default(), out)?;
            out.get_mut(start..).unwrap_or_default()
        };
        header.crc = header.seal(batch)?;
        header.size = batch.len();
        Ok(header)
    }

    /// The header of what was filled, but for size and checksum.
    fn header(&self, filled: &FilledBatch, codec: Codec, now_ms: TimestampMs) -> BatchHeader {
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
pub struct PendingRows<'a> {
    encoder: &'a mut Encoder,
    columns: InputColumns,
    numbered_from: usize,
    at: usize,
}

impl PendingRows<'_> {
    /// The next batches, of at least `least` bytes together if there are as many, and at least one; `None` after the
    /// last row. Rows without a timestamp get `now_ms`. Without given offsets, the base offsets of the batches are 0,
    /// and the log assigns them. If the log has begun to write the last of those given before, it comes again, in
    /// front, and what is written of it does not count.
    ///
    /// # Errors
    /// `Refused` for a record that is too large by itself, a timestamp out of bounds, offsets that do not rise;
    /// `InvalidRecord` for a record without key in a compacted topic, a header without key or one that is not UTF-8.
    /// Records count from the encoder's first row. The rows of batches given before are not concerned.
    pub fn next_batches(
        &mut self,
        now_ms: TimestampMs,
        least: usize,
    ) -> Result<Option<EncodedBatches<'_>>> {
        let mut end = self.encoder.keep_begun();
        let least = least.saturating_add(self.encoder.begun);
        let mut is_last = false;
        while self.encoder.headers.is_empty() || end < least {
            match self.add_batch(end, now_ms) {
                Ok(Some(size)) => end = end.saturating_add(size),
                // Rows that are refused end this too, and are refused when the next one begins with them.
                Err(error) if end == 0 => return Err(error),
                Ok(None) | Err(_) => {
                    is_last = true;
                    break;
                }
            }
        }
        if end == 0 {
            return Ok(None);
        }
        let encoder = &mut *self.encoder;
        let options = encoder.options;
        let bytes = if options.codec().compression() == Compression::None {
            &mut encoder.batch
        } else {
            &mut encoder.compressed
        };
        let bytes = bytes.get_mut(..end).unwrap_or_default();
        let has_more = !is_last && self.at < self.columns.rows;
        Ok(Some(EncodedBatches::new(
            bytes,
            &mut encoder.headers,
            (options.rules, options.keeps_offsets),
            has_more,
            &mut encoder.begun,
        )))
    }

    /// Makes the batch that begins at `start`, and returns its size.
    fn add_batch(&mut self, start: usize, now_ms: TimestampMs) -> Result<Option<usize>> {
        let options = self.encoder.options;
        let codec = options.codec();
        let fill_at = if codec.compression() == Compression::None {
            start
        } else {
            0
        };
        let mut most_rows = usize::MAX;
        loop {
            let wanted = RowLimits {
                from: self.at,
                start: fill_at,
                limit: options.batch_size.min(options.max_message_bytes),
                most: options.most(),
                most_rows,
                numbered_from: self.numbered_from,
                now_ms,
            };
            let filled = self.encoder.fill(&self.columns, wanted)?;
            if filled.rows == 0 {
                return Ok(None);
            }
            let header = self.encoder.seal(&filled, start, codec, now_ms)?;
            let size = header.size;
            let is_taken = options.keeps_offsets && filled.rows == 1;
            if size <= options.max_message_bytes || is_taken {
                self.at = self.at.saturating_add(filled.rows);
                self.encoder.headers.push(header);
                return Ok(Some(size));
            }
            if filled.rows == 1 {
                let number = self.numbered_from.saturating_add(self.at);
                return Err(too_large(size, options.max_message_bytes, number));
            }
            // What does not compress may come out larger than it went in.
            most_rows = filled.rows / 2;
        }
    }
}

#[cfg(test)]
mod tests;
