//! Builds the columns of one Arrow record batch from chunks of decoded records.
//!
//! A column that was not requested costs nothing. Columns that are constant within a Kafka batch are filled batch by
//! batch.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Schema, SchemaRef};

use super::decoded::{DecodedRows, DecodedSides};
use super::rows::{RowBytes, Rows};
use super::schema::{Column, ColumnOptions};
use super::sources::Sources;
use super::value_column::{AppendError, ValueColumn};
use crate::error::{Error, Result};
use crate::records::RecordSlot;
use crate::records::chunk::Chunk;
use crate::records::parts::Size;
use crate::scan::reader::Context;

/// The largest `batch_bytes`: 32-bit offsets end at twice this.
const MAX_BATCH_BYTES: usize = 1 << 30;

/// A batch with decompressed records ends at a quarter of `batch_bytes`, but not below this: it is still in the
/// second-level cache then, for the consumer and for the batches that use its memory again.
const NEAR_BYTES: usize = 512 << 10;

/// Value of [`Columns::share`] for a full batch.
pub(crate) const FULL: u64 = 1024;

/// `some` of `all`, in parts of [`FULL`].
const fn part(some: usize, all: usize) -> u64 {
    match (some as u64).saturating_mul(FULL).checked_div(all as u64) {
        Some(part) => part,
        None => FULL,
    }
}

/// The columns of one batch being built.
#[derive(Debug)]
pub(crate) struct Columns {
    options: ColumnOptions,
    schema: SchemaRef,
    all: Vec<Box<dyn ValueColumn>>,
    rows: usize,
    bytes: usize,
    /// Bytes at which the batch ends.
    most_bytes: usize,
    /// Bytes of a row without payloads.
    row_bytes: usize,
    /// Keys and values are among them.
    has_payloads: bool,
    /// Buffers that columns point into; `None` if no column can.
    sources: Option<Sources>,
    /// Keys and values that are decoded before columns take them.
    decoded: Option<DecodedSides>,
}

impl Columns {
    /// No rows yet.
    ///
    /// # Errors
    /// `InvalidArgument` for a batch of no rows or no bytes.
    pub(crate) fn try_new(options: ColumnOptions) -> Result<Self> {
        let Some(decoding) = options.decoding.clone() else {
            let columns = options.columns.iter();
            let columns = columns.map(|column| column.build(&options)).collect();
            return Self::of(columns, options);
        };
        let most_bytes = options.batch_bytes.min(MAX_BATCH_BYTES);
        let sides = DecodedSides::try_new(&decoding, &options.columns, most_bytes)?;
        let columns = options.columns.iter().map(|column| {
            let decoded = sides.column(&decoding, *column);
            decoded.unwrap_or_else(|| column.build(&options))
        });
        let mut all = Self::of(columns.collect(), options.clone())?;
        all.decoded = Some(sides);
        Ok(all)
    }

    /// As [`Columns::try_new`], of these, under the names in the options.
    pub(super) fn of(
        columns: Vec<Box<dyn ValueColumn>>,
        mut options: ColumnOptions,
    ) -> Result<Self> {
        if options.batch_rows == 0 || options.batch_bytes == 0 {
            return Err(Error::InvalidArgument(
                "batch_rows and batch_bytes must be at least 1".to_owned(),
            ));
        }
        options.batch_bytes = options.batch_bytes.min(MAX_BATCH_BYTES);
        options.batch_rows = options
            .batch_rows
            .min(i32::MAX.unsigned_abs() as usize / 16);
        let fields = columns.iter().zip(&options.columns);
        let fields = fields.map(|(column, name)| column.field(name.name()));
        let has = |column| options.columns.contains(&column);
        let mut empty = Self {
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            rows: 0,
            bytes: 0,
            most_bytes: options.batch_bytes,
            row_bytes: 0,
            has_payloads: has(Column::Key) && has(Column::Value),
            decoded: None,
            sources: (columns.iter().any(|column| column.keeps_source())).then(Sources::default),
            all: columns,
            options,
        };
        empty.row_bytes = empty.size(&[RecordSlot::default()], &[], usize::MAX);
        Ok(empty)
    }

    /// Most bytes of a batch with decompressed records.
    fn decompressed_bytes(&self) -> usize {
        let near = self.options.batch_bytes.min(NEAR_BYTES);
        near.max(self.options.batch_bytes / 4)
    }

    /// Rows so far.
    #[must_use]
    pub(crate) const fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of a row without payloads.
    #[must_use]
    pub(crate) const fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Returns whether columns may point into what records were read from, instead of copying.
    #[must_use]
    pub(crate) const fn keep_sources(&self) -> bool {
        self.sources.is_some()
    }

    /// Bytes of our own, not of a map, that this batch keeps because views point into them.
    #[must_use]
    pub(crate) fn kept(&self) -> usize {
        self.sources.as_ref().map_or(0, Sources::kept)
    }

    /// Fill level of the batch, in parts of [`FULL`].
    #[must_use]
    pub(crate) const fn share(&self) -> u64 {
        let rows = part(self.rows, self.options.batch_rows);
        let bytes = part(self.bytes, self.most_bytes);
        if rows > bytes { rows } else { bytes }
    }

    /// Returns whether the batch is half full or more, and has no room for one of Kafka's of this size.
    #[must_use]
    pub(crate) const fn is_better_finished(&self, size: Size) -> bool {
        let rows = self.rows.saturating_add(size.records);
        let bytes = self.bytes.saturating_add(size.bytes);
        self.share() >= FULL / 2 && (rows > self.options.batch_rows || bytes > self.most_bytes)
    }

    /// The batch has decompressed records: it ends while they are in the cache.
    #[inline]
    pub(crate) fn limit_to_cache(&mut self) {
        self.most_bytes = self.decompressed_bytes();
    }

    /// Counts how many of these records fit, at least one into an empty batch, and the bytes they add.
    ///
    /// `encoded` is at least the size of their keys and values: a first estimate that avoids a look at each.
    #[must_use]
    pub(crate) fn fits(
        &self,
        slots: &[RecordSlot],
        source: &[u8],
        encoded: usize,
    ) -> (usize, usize) {
        let free_rows = self.options.batch_rows.saturating_sub(self.rows);
        let free_bytes = self.most_bytes.saturating_sub(self.bytes);
        if slots.len() <= free_rows && self.has_payloads {
            let bytes = encoded.saturating_add(self.row_bytes.saturating_mul(slots.len()));
            if bytes <= free_bytes {
                return (slots.len(), bytes);
            }
        }
        let mut slots = slots.get(..free_rows).unwrap_or(slots);
        let (mut fit, mut bytes) = (0usize, 0usize);
        // All, or half of those that do not fit, and so on.
        let mut next = slots.len();
        while let Some((some, rest)) = slots.split_at_checked(next).filter(|_| next > 0) {
            let free = free_bytes.saturating_sub(bytes);
            let more = self.size(some, source, free);
            if more <= free {
                fit = fit.saturating_add(next);
                bytes = bytes.saturating_add(more);
                slots = rest;
            } else if next == 1 {
                if fit == 0 && self.rows == 0 {
                    return (1, self.size(some, source, usize::MAX));
                }
                break;
            } else {
                slots = some;
            }
            next = slots.len().div_ceil(2);
        }
        (fit, bytes)
    }

    /// Bytes that these records add to a batch; where that is more than `most`, something above it.
    fn size(&self, slots: &[RecordSlot], source: &[u8], most: usize) -> usize {
        self.all.iter().fold(0usize, |total, column| {
            let left = most.saturating_sub(total);
            total.saturating_add(column.bytes(slots, source, left))
        })
    }

    /// Decodes the first `count` records of a chunk before they are appended; `None` where nothing is decoded.
    ///
    /// # Errors
    /// `Internal`
    pub(super) fn decode(
        &mut self,
        chunk: &Chunk,
        count: usize,
        context: &Context,
    ) -> Result<Option<DecodedRows>> {
        let decoded = self.decoded.as_mut();
        decoded
            .map(|sides| sides.decode(chunk, count, self.rows, context))
            .transpose()
    }

    /// Unknown fields of decoded messages since the last call.
    pub(super) fn take_unknown_fields(&mut self) -> u64 {
        let decoded = self.decoded.as_mut();
        decoded.map_or(0, DecodedSides::take_unknown_fields)
    }

    /// Appends the first `count` records of a chunk, which add `bytes` to the batch ([`Columns::fits`]), up to the first
    /// one that a column cannot hold. Returns how many that are, and the error for the one after them.
    ///
    /// # Errors
    /// `OutOfMemory`; `InvalidRecord` for slots that do not fit their source (a fault of ours, not of the data).
    pub(crate) fn append(
        &mut self,
        chunk: &Chunk,
        count: usize,
        bytes: usize,
        context: &Context,
    ) -> Result<(usize, Option<Error>)> {
        let (Some(slots), Some(source)) = (chunk.slots().get(..count), chunk.bytes()) else {
            return Err(Error::internal("records without the bytes they lie in"));
        };
        self.bytes = self.bytes.saturating_add(bytes);
        // For columns that only copy.
        let mut none = Sources::default();
        let (sources, bytes) = match &mut self.sources {
            Some(sources) => {
                let kept = sources.of(source)?;
                (sources, RowBytes::Kept(kept))
            }
            None => (&mut none, RowBytes::Copied(source.as_slice())),
        };
        let mut rows = Rows {
            slots,
            runs: chunk.runs(),
            bytes,
            context,
            sources,
        };
        let mut refused = None;
        for column in &mut self.all {
            match column.append(&mut rows) {
                Ok(()) => {}
                // The columns after this one get no more than the rows before that record.
                Err(AppendError::Record(row, error)) => {
                    rows.slots = rows.slots.get(..row).unwrap_or_default();
                    refused = Some(error);
                }
                Err(AppendError::Other(error)) => return Err(error),
            }
        }
        let count = rows.slots.len();
        self.rows = self.rows.saturating_add(count);
        if refused.is_some() {
            let columns = self.all.iter_mut();
            columns.for_each(|column| column.truncate(self.rows));
        }
        Ok((count, refused))
    }

    /// Empties the arena of a chunk: its bytes go to the batch if columns may point into them.
    pub(crate) fn empty_arena(&mut self, chunk: &mut Chunk) {
        match &mut self.sources {
            Some(sources) if sources.has_arena() => sources.freeze(&chunk.freeze()),
            _ => chunk.arena_mut().clear(),
        }
    }

    /// The batch so far, with the bytes of the chunk's arena if it needs them, and whether any column points into a
    /// source; begins the next one.
    ///
    /// # Errors
    /// `Internal` where Arrow refuses what was built.
    pub(crate) fn finish(&mut self, chunk: &mut Chunk) -> Result<(RecordBatch, bool)> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        self.most_bytes = self.options.batch_bytes;
        if self.sources.as_ref().is_some_and(Sources::has_arena) {
            self.empty_arena(chunk);
        }
        let buffers = self.sources.as_mut().map(Sources::finish);
        let buffers = buffers.unwrap_or_else(|| Sources::default().finish());
        let arrays = self.all.iter_mut();
        let arrays: Vec<ArrayRef> = arrays
            .map(|column| column.finish(&buffers))
            .collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options);
        Ok((
            batch.map_err(|e| Error::internal(format_args!("Arrow refused a column: {e}")))?,
            buffers.are_used(),
        ))
    }
}

#[cfg(test)]
mod tests;
