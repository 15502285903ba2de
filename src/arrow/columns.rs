//! Builds the columns of one Arrow record batch from chunks of decoded records.
//!
//! A column that was not requested costs nothing. Columns that are constant within a Kafka batch are filled batch by
//! batch.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::SchemaRef;

use super::fixed::{Fixed, FixedColumn};
use super::headers::{self, HeadersBuilder};
use super::payload::{Gathered, PayloadPart};
use super::rows::{RowBytes, Rows};
use super::schema::{Column, Filling, Layout, TimestampUnit, record_schema};
use super::sources::{DataBuffers, Sources};
use super::text::StringColumn;
use super::views::Views;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
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

/// Columns, their layout, and the size at which a batch is cut.
#[derive(Clone, Debug)]
pub struct ColumnOptions {
    /// In the order of the schema.
    pub columns: Vec<Column>,
    /// Of keys, values and strings.
    pub layout: Layout,
    /// Of the timestamp column.
    pub unit: TimestampUnit,
    /// Most rows of a batch.
    pub batch_rows: usize,
    /// Most bytes of a batch, unless one row alone has more; of decompressed records a quarter, but not below 512 KiB.
    pub batch_bytes: usize,
}

impl ColumnOptions {
    /// Most bytes of a batch with decompressed records.
    fn decompressed_bytes(&self) -> usize {
        let near = self.batch_bytes.min(NEAR_BYTES);
        near.max(self.batch_bytes / 4)
    }
}

impl Default for ColumnOptions {
    fn default() -> Self {
        Self {
            columns: Column::defaults().to_vec(),
            layout: Layout::default(),
            unit: TimestampUnit::default(),
            batch_rows: 65_536,
            batch_bytes: 2 << 20,
        }
    }
}

/// A column being built.
#[derive(Debug)]
enum Builder {
    Gathered(Gathered, PayloadPart),
    Views(Views, PayloadPart),
    Headers(Box<HeadersBuilder>),
    Text(StringColumn, TextOf),
    Flag(BooleanBufferBuilder, fn(&BatchHeader) -> bool),
    Fixed(Fixed, FixedColumn),
}

/// Source of a row's text.
#[derive(Clone, Copy, Debug)]
enum TextOf {
    Segment(fn(&Context) -> Option<&str>),
    Batch(fn(&BatchHeader) -> Option<&'static str>),
    Control(fn(&RecordSlot, &[u8]) -> Option<&'static str>),
}

/// The columns of one batch being built.
#[derive(Debug)]
pub(crate) struct Columns {
    options: ColumnOptions,
    schema: SchemaRef,
    builders: Vec<Builder>,
    rows: usize,
    bytes: usize,
    /// Bytes at which the batch ends.
    most_bytes: usize,
    fixed_row_bytes: usize,
    wants: Wants,
    /// Buffers that view columns point into; `None` if no column can.
    sources: Option<Sources>,
}

/// Payloads that count towards a batch's bytes, and whether timestamps must fit their unit.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each column that costs something"
)]
struct Wants {
    key: bool,
    value: bool,
    headers: bool,
    microseconds: bool,
}

impl Columns {
    /// No rows yet.
    ///
    /// # Errors
    /// `InvalidArgument` for a batch of no rows or no bytes.
    pub(crate) fn try_new(mut options: ColumnOptions) -> Result<Self> {
        if options.batch_rows == 0 || options.batch_bytes == 0 {
            return Err(Error::InvalidArgument(
                "batch_rows and batch_bytes must be at least 1".to_owned(),
            ));
        }
        options.batch_bytes = options.batch_bytes.min(MAX_BATCH_BYTES);
        options.batch_rows = options
            .batch_rows
            .min(i32::MAX.unsigned_abs() as usize / 16);
        let columns = options.columns.iter();
        let builder = |column: &Column| Builder::new(&column.filling(), &options);
        let builders: Vec<_> = columns.clone().map(builder).collect();
        let fixed_row_bytes = columns.map(|column| column.filling().width()).sum();
        let has = |column| options.columns.contains(&column);
        let wants = Wants {
            key: has(Column::Key),
            value: has(Column::Value),
            headers: has(Column::Headers),
            microseconds: has(Column::Timestamp) && options.unit == TimestampUnit::Microsecond,
        };
        let schema = record_schema(&options.columns, options.layout, options.unit);
        let points = wants.key || wants.value || wants.headers;
        let points = points && options.layout == Layout::View;
        Ok(Self {
            schema,
            builders,
            rows: 0,
            bytes: 0,
            most_bytes: options.batch_bytes,
            fixed_row_bytes,
            wants,
            options,
            sources: points.then(Sources::default),
        })
    }

    /// Rows so far.
    #[must_use]
    pub(crate) const fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of a row, without what it points to.
    #[must_use]
    pub(crate) const fn row_bytes(&self) -> usize {
        self.fixed_row_bytes
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
        self.most_bytes = self.options.decompressed_bytes();
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
        if slots.len() <= free_rows && self.wants.key && self.wants.value {
            let bytes = encoded.saturating_add(self.fixed_row_bytes.saturating_mul(slots.len()));
            if bytes <= free_bytes {
                return (slots.len(), bytes);
            }
        }
        let slots = slots.get(..free_rows).unwrap_or(slots);
        let all = self.size(slots, source, free_bytes);
        if all <= free_bytes {
            return (slots.len(), all);
        }
        let mut bytes = 0usize;
        for (row, slot) in slots.iter().enumerate() {
            let more = self.size(std::slice::from_ref(slot), source, usize::MAX);
            if bytes.saturating_add(more) > free_bytes && (row > 0 || self.rows > 0) {
                return (row, bytes);
            }
            bytes = bytes.saturating_add(more);
        }
        (slots.len(), bytes)
    }

    /// The first of these records whose timestamp the column's unit cannot hold, and its place among them.
    #[must_use]
    pub(crate) fn beyond_unit<'a>(
        &self,
        slots: &'a [RecordSlot],
    ) -> Option<(usize, &'a RecordSlot)> {
        if !self.wants.microseconds {
            return None;
        }
        // One look at all of them: what has no bit set from 53 on is far from the limit.
        let bits = slots.iter().fold(0, |bits, slot| {
            bits | (slot.timestamp ^ (slot.timestamp >> 63))
        });
        if bits >> 53 == 0 {
            return None;
        }
        let mut all = slots.iter().enumerate();
        all.find(|(_, slot)| slot.timestamp.checked_mul(1000).is_none())
    }

    /// Bytes that these records add to a batch; where that is more than `most`, something above it.
    fn size(&self, slots: &[RecordSlot], source: &[u8], most: usize) -> usize {
        let (key, value) = (i64::from(self.wants.key), i64::from(self.wants.value));
        let mut payload = 0i64;
        let mut headers = 0u32;
        for slot in slots {
            payload = payload.wrapping_add(i64::from(slot.key_len.max(0)).wrapping_mul(key));
            payload = payload.wrapping_add(i64::from(slot.value_len.max(0)).wrapping_mul(value));
            headers |= slot.headers_count;
        }
        let mut total = usize::try_from(payload).unwrap_or(usize::MAX);
        total = total.saturating_add(self.fixed_row_bytes.saturating_mul(slots.len()));
        if headers != 0 && self.wants.headers {
            for slot in slots {
                if total > most {
                    break;
                }
                total = total.saturating_add(headers::size(slot, source));
            }
        }
        total
    }

    /// Appends the first `count` records of a chunk, which add `bytes` to the batch ([`Columns::fits`]). Timestamps
    /// wrap where the unit cannot hold them ([`Columns::beyond_unit`]).
    ///
    /// # Errors
    /// `OutOfMemory`; `InvalidRecord` for slots that do not fit their source (a fault of ours, not of the data).
    pub(crate) fn append(
        &mut self,
        chunk: &Chunk,
        count: usize,
        bytes: usize,
        context: &Context,
    ) -> Result<()> {
        let (Some(slots), Some(source)) = (chunk.slots().get(..count), chunk.bytes()) else {
            return Err(Error::internal("records without the bytes they lie in"));
        };
        self.bytes = self.bytes.saturating_add(bytes);
        // For columns that only copy, no headers among them.
        let mut none = Sources::default();
        let mut number = None;
        let (sources, bytes) = match &mut self.sources {
            Some(sources) => {
                let kept = sources.of(source)?;
                number = Some(kept.number());
                (sources, RowBytes::Kept(kept))
            }
            None => (&mut none, RowBytes::Copied(source.as_slice())),
        };
        let rows = Rows {
            slots,
            runs: chunk.runs(),
            bytes,
            context,
        };
        let mut points = false;
        for builder in &mut self.builders {
            points |= builder.append(&rows, sources)?;
        }
        if let Some(number) = number.filter(|_| points) {
            sources.point(number);
        }
        self.rows = self.rows.saturating_add(count);
        Ok(())
    }

    /// Empties the arena of a chunk: its bytes go to the batch if columns may point into them.
    pub(crate) fn empty_arena(&mut self, chunk: &mut Chunk) {
        match &mut self.sources {
            Some(sources) => sources.freeze(&chunk.freeze()),
            None => chunk.arena_mut().clear(),
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
        let arrays = self.builders.iter_mut();
        let arrays: Vec<ArrayRef> = arrays
            .map(|builder| builder.finish(&buffers))
            .collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options);
        Ok((
            batch.map_err(|e| Error::internal(format_args!("Arrow refused a column: {e}")))?,
            buffers.are_used(),
        ))
    }
}

impl Builder {
    fn new(filling: &Filling, options: &ColumnOptions) -> Self {
        let layout = options.layout;
        match *filling {
            Filling::Payload(part) => match layout {
                Layout::Binary => Self::Gathered(Gathered::new(1024, 1024), part),
                Layout::View => Self::Views(Views::new(1024), part),
            },
            Filling::Headers => Self::Headers(Box::new(HeadersBuilder::new(layout, 1024))),
            Filling::SegmentText(of) => Self::Text(StringColumn::new(layout), TextOf::Segment(of)),
            Filling::BatchText(of) => Self::Text(StringColumn::new(layout), TextOf::Batch(of)),
            Filling::ControlText(of) => Self::Text(StringColumn::new(layout), TextOf::Control(of)),
            Filling::Flag(of) => Self::Flag(BooleanBufferBuilder::new(1024), of),
            Filling::Timestamp => Self::Fixed(Fixed::default(), options.unit.column()),
            Filling::Numbers(_, column) => Self::Fixed(Fixed::default(), column),
        }
    }

    /// Appends rows; returns whether any of them points into their bytes.
    fn append(&mut self, rows: &Rows<'_>, sources: &mut Sources) -> Result<bool> {
        match (self, rows.bytes) {
            (Self::Gathered(builder, part), bytes) => {
                builder.append(rows.slots, bytes.as_slice(), *part)?;
            }
            (Self::Views(builder, part), RowBytes::Kept(source)) => {
                return builder.append(rows.slots, source, *part);
            }
            (Self::Views(..), RowBytes::Copied(_)) => {
                return Err(Error::internal("views of bytes that are not kept"));
            }
            (Self::Headers(builder), bytes) => return builder.append(rows.slots, bytes, sources),
            (Self::Text(builder, of), _) => append_text(builder, *of, rows)?,
            (Self::Flag(builder, of), _) => rows.by_batch(|run, slots| {
                builder.append_n(slots.len(), of(&run.header));
                Ok(())
            })?,
            (Self::Fixed(builder, column), _) => (column.fill)(builder, rows)?,
        }
        Ok(false)
    }

    fn finish(&mut self, buffers: &DataBuffers) -> Result<ArrayRef> {
        match self {
            Self::Gathered(builder, _) => builder.finish(),
            Self::Views(builder, _) => builder.finish(buffers),
            Self::Headers(builder) => builder.finish(buffers),
            Self::Text(builder, _) => builder.finish(),
            Self::Flag(builder, _) => Ok(Arc::new(BooleanArray::new(builder.finish(), None))),
            Self::Fixed(builder, column) => (column.finish)(builder),
        }
    }
}

fn append_text(builder: &mut StringColumn, of: TextOf, rows: &Rows<'_>) -> Result<()> {
    match of {
        TextOf::Segment(of) => builder.repeat(of(rows.context), rows.slots.len()),
        TextOf::Batch(of) => {
            rows.by_batch(|run, slots| builder.repeat(of(&run.header), slots.len()))
        }
        TextOf::Control(of) => rows.by_batch(|run, slots| {
            if !run.header.is_control() {
                return builder.repeat(None, slots.len());
            }
            for slot in slots {
                builder.repeat(of(slot, rows.bytes.as_slice()), 1)?;
            }
            Ok(())
        }),
    }
}
