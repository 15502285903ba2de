//! The columns of one record batch in the making, filled chunk by chunk, one column after the other.
//!
//! A column that was not asked for costs nothing. Columns that hold for a whole Kafka batch are filled run by run.

use std::sync::Arc;

use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    UInt32Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, RecordBatch, RecordBatchOptions,
};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBufferBuilder, ScalarBuffer};
use arrow_schema::SchemaRef;
use bytemuck::Pod;

use super::headers::{self, Headers};
use super::payload::{Gathered, Kind, Part, Sources};
use super::pool::Block;
use super::schema::{Column, Layout, TimestampUnit, record_schema};
use super::text::Text;
use super::views::Views;
use crate::error::{Error, Result};
use crate::format::control::ControlType;
use crate::records::RecordSlot;
use crate::records::chunk::Run;
use crate::scan::reader::Context;

/// The most a batch may be asked to hold: 32-bit offsets end at twice this.
const MAX_BATCH_BYTES: usize = 1 << 30;

/// What [`Columns::share`] of a full batch is.
pub const FULL: u64 = 1024;

/// `some` of `all`, in parts of [`FULL`].
const fn part(some: usize, all: usize) -> u64 {
    match (some as u64).saturating_mul(FULL).checked_div(all as u64) {
        Some(part) => part,
        None => FULL,
    }
}

/// Which columns, how laid out, and where a batch is cut.
#[derive(Clone, Debug)]
pub struct ColumnOptions {
    /// In the order they are to appear.
    pub columns: Vec<Column>,
    /// Of keys, values and strings.
    pub layout: Layout,
    /// Of the timestamp column.
    pub unit: TimestampUnit,
    /// Most rows of a batch.
    pub batch_rows: usize,
    /// Most bytes of a batch, unless one row alone has more.
    pub batch_bytes: usize,
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

/// Values of one width.
#[derive(Debug)]
struct Fixed {
    block: Block,
    nulls: Option<NullBufferBuilder>,
}

#[derive(Debug)]
enum Builder {
    Gathered(Gathered, Part),
    Views(Views, Part),
    Text(Text),
    Headers(Box<Headers>),
    Fixed(Fixed),
    Bool(BooleanBufferBuilder),
}

/// Records of one chunk that go into the batch together.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The records.
    pub slots: &'a [RecordSlot],
    /// Their batches, which may go on behind them.
    pub runs: &'a [Run],
    /// The bytes that the slots point into.
    pub source: &'a [u8],
    /// Where those are or will be among the [`Sources`]; views only.
    pub buffer: u32,
    /// Where they are from.
    pub context: &'a Context,
}

/// The columns of one batch in the making.
#[derive(Debug)]
pub struct Columns {
    options: ColumnOptions,
    schema: SchemaRef,
    builders: Vec<(Column, Builder)>,
    rows: usize,
    bytes: usize,
    fixed_row_bytes: usize,
    wants: Wants,
    /// The data buffers of view columns.
    pub sources: Sources,
}

/// Which payloads count towards a batch's bytes, and whether timestamps are to be held against their unit.
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
    pub fn try_new(mut options: ColumnOptions) -> Result<Self> {
        if options.batch_rows == 0 || options.batch_bytes == 0 {
            return Err(Error::InvalidArgument(
                "batch_rows and batch_bytes must be at least 1".to_owned(),
            ));
        }
        options.batch_bytes = options.batch_bytes.min(MAX_BATCH_BYTES);
        options.batch_rows = options
            .batch_rows
            .min(i32::MAX.unsigned_abs() as usize / 16);
        let layout = options.layout;
        let builders: Vec<_> = options
            .columns
            .iter()
            .map(|&column| (column, builder(column, layout)))
            .collect();
        let has = |column| options.columns.contains(&column);
        let fixed_row_bytes = options
            .columns
            .iter()
            .map(|column| fixed_width(*column))
            .sum();
        let wants = Wants {
            key: has(Column::Key),
            value: has(Column::Value),
            headers: has(Column::Headers),
            microseconds: has(Column::Timestamp) && options.unit == TimestampUnit::Microsecond,
        };
        let schema = record_schema(&options.columns, layout, options.unit);
        Ok(Self {
            schema,
            builders,
            rows: 0,
            bytes: 0,
            fixed_row_bytes,
            wants,
            options,
            sources: Sources::default(),
        })
    }

    /// What [`Columns::finish`] makes.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows so far.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// How much of a full batch there is, in parts of [`FULL`].
    #[must_use]
    pub const fn share(&self) -> u64 {
        let rows = part(self.rows, self.options.batch_rows);
        let bytes = part(self.bytes, self.options.batch_bytes);
        if rows > bytes { rows } else { bytes }
    }

    /// How many of these records fit, at least one into an empty batch, and the bytes they add.
    ///
    /// `encoded` is at least what their keys and values come to, as a first guess that spares looking at each.
    #[must_use]
    pub fn fits(&self, slots: &[RecordSlot], source: &[u8], encoded: usize) -> (usize, usize) {
        let free_rows = self.options.batch_rows.saturating_sub(self.rows);
        let free_bytes = self.options.batch_bytes.saturating_sub(self.bytes);
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
    pub fn beyond_unit<'a>(&self, slots: &'a [RecordSlot]) -> Option<(usize, &'a RecordSlot)> {
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

    /// Appends records of one chunk, and `bytes` to what the batch comes to ([`Columns::fits`]). Timestamps wrap where the
    /// unit cannot hold them ([`Columns::beyond_unit`]).
    ///
    /// # Errors
    /// `InvalidRecord` for slots that do not fit their source (a fault of ours, not of the data).
    pub fn append(&mut self, rows: &Rows<'_>, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        let at = self.rows;
        for (column, builder) in &mut self.builders {
            match builder {
                Builder::Gathered(builder, part) => {
                    builder.append(rows.slots, rows.source, *part)?;
                }
                Builder::Views(builder, part) => {
                    builder.append(rows.slots, rows.source, rows.buffer, *part)?;
                }
                Builder::Headers(builder) => {
                    builder.append(rows.slots, rows.source, rows.buffer, &mut self.sources)?;
                }
                Builder::Text(builder) => text(*column, builder, rows)?,
                Builder::Fixed(builder) => fixed(*column, builder, at, rows, self.options.unit),
                Builder::Bool(builder) => runs(rows, |run, n| {
                    let value = match column {
                        Column::IsControl => run.header.is_control(),
                        _ => run.header.is_transactional(),
                    };
                    builder.append_n(n, value);
                }),
            }
        }
        self.rows = self.rows.saturating_add(rows.slots.len());
        Ok(())
    }

    /// Whether views since this was last asked point into their sources, or hold all payloads themselves.
    pub fn points_into_sources(&mut self) -> bool {
        self.builders
            .iter_mut()
            .fold(false, |any, (_, builder)| match builder {
                Builder::Views(views, _) => views.take_points() || any,
                Builder::Headers(headers) => headers.take_points() || any,
                _ => any,
            })
    }

    /// The batch so far; begins the next one.
    ///
    /// # Errors
    /// `Internal` where Arrow refuses what was built.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        let sources = self.sources.take();
        let arrays = self
            .builders
            .iter_mut()
            .map(|(column, builder)| match builder {
                Builder::Gathered(builder, _) => builder.finish(Kind::Binary),
                Builder::Views(builder, _) => builder.finish(Kind::Binary, &sources),
                Builder::Headers(builder) => builder.finish(&sources),
                Builder::Text(builder) => builder.finish(),
                Builder::Bool(builder) => Arc::new(BooleanArray::new(builder.finish(), None)),
                Builder::Fixed(builder) => finish_fixed(*column, builder, rows, self.options.unit),
            });
        let arrays: Vec<ArrayRef> = arrays.collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|e| Error::internal(format_args!("Arrow refused a batch: {e}")))
    }
}

fn builder(column: Column, layout: Layout) -> Builder {
    let payload = |part| match layout {
        Layout::Binary => Builder::Gathered(Gathered::new(1024, 1024), part),
        Layout::View => Builder::Views(Views::new(1024), part),
    };
    match column {
        Column::Key => payload(Part::Key),
        Column::Value => payload(Part::Value),
        Column::Topic | Column::Segment | Column::Compression | Column::ControlType => {
            Builder::Text(Text::new(layout))
        }
        Column::Headers => Builder::Headers(Box::new(Headers::new(layout, 1024))),
        Column::IsTransactional | Column::IsControl => {
            Builder::Bool(BooleanBufferBuilder::new(1024))
        }
        _ => {
            let nulls = (column == Column::DeleteHorizonMs).then(|| NullBufferBuilder::new(0));
            Builder::Fixed(Fixed {
                block: Block::new(8192),
                nulls,
            })
        }
    }
}

/// Bytes a row takes in this column besides what it points to.
const fn fixed_width(column: Column) -> usize {
    match column {
        Column::Offset
        | Column::Timestamp
        | Column::BatchPosition
        | Column::BaseOffset
        | Column::ProducerId
        | Column::DeleteHorizonMs => 8,
        Column::Topic | Column::Segment | Column::Compression => 16,
        Column::Magic | Column::IsControl | Column::IsTransactional => 1,
        Column::ProducerEpoch => 2,
        _ => 4,
    }
}

/// Calls `each` for every run and how many of the rows are its.
fn runs(rows: &Rows<'_>, mut each: impl FnMut(&Run, usize)) {
    let mut left = rows.slots.len();
    for run in rows.runs {
        let n = run.rows.min(left);
        left = left.saturating_sub(n);
        if n > 0 {
            each(run, n);
        }
    }
}

fn text(column: Column, builder: &mut Text, rows: &Rows<'_>) -> Result<()> {
    match column {
        Column::Topic => {
            return builder.repeat(Some(&rows.context.topic), rows.slots.len());
        }
        Column::Segment => {
            return builder.repeat(Some(&rows.context.segment), rows.slots.len());
        }
        _ => {}
    }
    let mut result = Ok(());
    let mut slots = rows.slots.iter();
    runs(rows, |run, n| {
        if column == Column::Compression {
            let name = run
                .header
                .attributes
                .compression()
                .map(crate::types::Compression::name);
            result = std::mem::replace(&mut result, Ok(())).and_then(|()| builder.repeat(name, n));
        } else if run.header.is_control() {
            for slot in slots.by_ref().take(n) {
                let name = Part::Key
                    .bytes(*slot, rows.source)
                    .and_then(|key| ControlType::parse(key).ok())
                    .map(ControlType::name);
                result =
                    std::mem::replace(&mut result, Ok(())).and_then(|()| builder.repeat(name, 1));
            }
        } else {
            slots.by_ref().take(n).for_each(drop);
            result = std::mem::replace(&mut result, Ok(())).and_then(|()| builder.repeat(None, n));
        }
    });
    result
}

/// Writes one value a row, `at` rows into the block.
#[inline]
fn each_slot<T: Pod>(
    builder: &mut Fixed,
    at: usize,
    slots: &[RecordSlot],
    value: impl Fn(&RecordSlot) -> T,
) {
    let places = builder_values::<T>(builder, at, slots.len());
    for (place, slot) in places.iter_mut().zip(slots) {
        *place = value(slot);
    }
}

/// Writes one value a run, for all its rows.
#[inline]
fn each_run<T: Pod>(
    builder: &mut Fixed,
    mut at: usize,
    rows: &Rows<'_>,
    value: impl Fn(&Run) -> T,
) {
    builder.block.grow(
        at.saturating_add(rows.slots.len())
            .saturating_mul(size_of::<T>()),
    );
    let values = builder.block.values::<T>();
    runs(rows, |run, n| {
        let end = at.saturating_add(n);
        values.get_mut(at..end).unwrap_or_default().fill(value(run));
        at = end;
    });
}

fn fixed(column: Column, builder: &mut Fixed, at: usize, rows: &Rows<'_>, unit: TimestampUnit) {
    let slots = rows.slots;
    match column {
        Column::Offset => each_slot(builder, at, slots, |s| s.offset),
        Column::Timestamp => match unit {
            TimestampUnit::Millisecond => each_slot(builder, at, slots, |s| s.timestamp),
            TimestampUnit::Microsecond => {
                each_slot(builder, at, slots, |s| s.timestamp.wrapping_mul(1000));
            }
        },
        Column::KeySize => each_slot(builder, at, slots, |s| s.key_len),
        Column::ValueSize => each_slot(builder, at, slots, |s| s.value_len),
        Column::Partition => {
            let partition = rows.context.partition;
            each_slot(builder, at, slots, |_| partition);
        }
        Column::TimestampType => each_run(builder, at, rows, |r| r.header.timestamp_type().id()),
        Column::BatchPosition => each_run(builder, at, rows, |r| {
            i64::try_from(r.position).unwrap_or(i64::MAX)
        }),
        Column::BaseOffset => each_run(builder, at, rows, |r| r.header.base_offset),
        Column::BatchSize => each_run(builder, at, rows, |r| {
            i32::try_from(r.header.size).unwrap_or(i32::MAX)
        }),
        Column::Magic => each_run(builder, at, rows, |r| {
            i8::try_from(r.header.magic).unwrap_or(i8::MAX)
        }),
        Column::Crc => each_run(builder, at, rows, |r| r.header.crc),
        Column::PartitionLeaderEpoch => {
            each_run(builder, at, rows, |r| r.header.partition_leader_epoch);
        }
        Column::ProducerId => each_run(builder, at, rows, |r| r.header.producer_id),
        Column::ProducerEpoch => each_run(builder, at, rows, |r| r.header.producer_epoch),
        Column::Sequence => {
            let mut values = builder_values::<i32>(builder, at, slots.len()).iter_mut();
            let mut slots = slots.iter();
            runs(rows, |run, n| {
                for (place, slot) in values.by_ref().zip(slots.by_ref()).take(n) {
                    let delta = slot.offset.wrapping_sub(run.header.base_offset);
                    *place = run
                        .header
                        .sequence_at(i32::try_from(delta).unwrap_or(i32::MAX));
                }
            });
        }
        Column::DeleteHorizonMs => {
            each_run(builder, at, rows, |r| {
                r.header.delete_horizon_ms().unwrap_or_default()
            });
            if let Some(nulls) = &mut builder.nulls {
                runs(rows, |run, n| match run.header.delete_horizon_ms() {
                    Some(_) => nulls.append_n_non_nulls(n),
                    None => nulls.append_n_nulls(n),
                });
            }
        }
        Column::Key
        | Column::Value
        | Column::Topic
        | Column::Headers
        | Column::Segment
        | Column::Compression
        | Column::IsTransactional
        | Column::IsControl
        | Column::ControlType => {}
    }
}

fn builder_values<T: Pod>(builder: &mut Fixed, at: usize, rows: usize) -> &mut [T] {
    let end = at.saturating_add(rows);
    builder.block.grow(end.saturating_mul(size_of::<T>()));
    builder
        .block
        .values::<T>()
        .get_mut(at..end)
        .unwrap_or_default()
}

fn finish_fixed(column: Column, builder: &mut Fixed, rows: usize, unit: TimestampUnit) -> ArrayRef {
    let width = fixed_width(column);
    let used = rows.saturating_mul(width);
    builder.block.grow(1);
    let next = builder.block.next(used);
    let buffer = std::mem::replace(&mut builder.block, next).freeze(used);
    let nulls = builder
        .nulls
        .replace(NullBufferBuilder::new(0))
        .and_then(|mut nulls| nulls.finish());
    if column != Column::DeleteHorizonMs {
        builder.nulls = None;
    }
    match column {
        Column::Magic => primitive::<Int8Type>(buffer, rows, nulls),
        Column::ProducerEpoch => primitive::<Int16Type>(buffer, rows, nulls),
        Column::Crc => primitive::<UInt32Type>(buffer, rows, nulls),
        Column::Timestamp => {
            let array: ArrayRef = match unit {
                TimestampUnit::Millisecond => Arc::new(
                    values::<TimestampMillisecondType>(buffer, rows, nulls).with_timezone("UTC"),
                ),
                TimestampUnit::Microsecond => Arc::new(
                    values::<TimestampMicrosecondType>(buffer, rows, nulls).with_timezone("UTC"),
                ),
            };
            array
        }
        _ if width == 8 => primitive::<Int64Type>(buffer, rows, nulls),
        _ => primitive::<Int32Type>(buffer, rows, nulls),
    }
}

fn values<T: ArrowPrimitiveType>(
    buffer: Buffer,
    rows: usize,
    nulls: Option<arrow_buffer::NullBuffer>,
) -> PrimitiveArray<T> {
    PrimitiveArray::new(ScalarBuffer::new(buffer, 0, rows), nulls)
}

fn primitive<T: ArrowPrimitiveType>(
    buffer: Buffer,
    rows: usize,
    nulls: Option<arrow_buffer::NullBuffer>,
) -> ArrayRef {
    let array = values::<T>(buffer, rows, nulls);
    debug_assert_eq!(array.len(), rows);
    Arc::new(array)
}
