//! Arrow columns of any type, from which the last rows can be removed again.
//!
//! Decoders of all formats append to these. A value that turns out damaged halfway leaves children of unequal lengths;
//! [`Builder::truncate`] restores the rows before it.

use std::mem;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, ListArray, MapArray, NullArray, StringArray, StructArray,
    make_array,
};
use arrow_buffer::{
    ArrowNativeType, BooleanBufferBuilder, Buffer, NullBufferBuilder, OffsetBuffer, i256,
};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};

use super::fault::{Cause, Undecoded};
use crate::error::{Error, Result};

/// Most bytes of text or binary, and most items of lists, in one column of a batch: Arrow's offsets have 32 bits.
const MAX_LENGTH: usize = i32::MAX.unsigned_abs() as usize;

/// Bytes that are copied at once.
pub(crate) const SHORT: usize = 16;

/// Most bytes that a column has room for before its first row: as much as it had in the batch before.
const MOST_ROOM: usize = 1 << 20;

/// A column being built, with those below it.
#[derive(Debug)]
pub(crate) enum Builder {
    /// Rows without values.
    Null(usize),
    Boolean(BooleanBuilder),
    Int32(NumberBuilder<i32>),
    Int64(NumberBuilder<i64>),
    UInt32(NumberBuilder<u32>),
    UInt64(NumberBuilder<u64>),
    Float32(NumberBuilder<f32>),
    Float64(NumberBuilder<f64>),
    Decimal128(NumberBuilder<i128>),
    Decimal256(NumberBuilder<i256>),
    /// `Utf8` or `Binary`.
    Bytes(BytesBuilder),
    /// `FixedSizeBinary`
    Fixed(FixedBuilder),
    /// `List`, or `Map`, whose item is a struct of key and value.
    List(ListBuilder),
    Struct(StructBuilder),
}

/// Booleans.
#[derive(Debug)]
pub(crate) struct BooleanBuilder {
    values: BooleanBufferBuilder,
    nulls: NullBufferBuilder,
}

/// NumberBuilder of one width: integers, floats, decimals, dates, times, timestamps.
#[derive(Debug)]
pub(crate) struct NumberBuilder<T> {
    data_type: DataType,
    values: Vec<T>,
    nulls: NullBufferBuilder,
}

/// Text or bytes.
#[derive(Debug)]
pub(crate) struct BytesBuilder {
    data_type: DataType,
    bytes: Vec<u8>,
    /// One more than rows.
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

/// Byte strings of one width.
#[derive(Debug)]
pub(crate) struct FixedBuilder {
    width: usize,
    data_type: DataType,
    bytes: Vec<u8>,
    nulls: NullBufferBuilder,
}

/// ListBuilder or maps.
#[derive(Debug)]
pub(crate) struct ListBuilder {
    data_type: DataType,
    item: Box<Builder>,
    /// One more than rows.
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

/// StructBuilder.
#[derive(Debug)]
pub(crate) struct StructBuilder {
    fields: Fields,
    children: Vec<Builder>,
    rows: usize,
    nulls: NullBufferBuilder,
}

/// The fault of a batch that Arrow's offsets cannot describe.
#[cold]
fn too_large(what: &str) -> Undecoded {
    Undecoded::new(
        Cause::TooLarge,
        format_args!("more than {MAX_LENGTH} {what} in one batch; a smaller batch_rows helps"),
    )
}

/// `length` as an offset.
#[inline]
fn offset(length: usize, what: &str) -> std::result::Result<i32, Undecoded> {
    i32::try_from(length).map_err(|_| too_large(what))
}

impl BooleanBuilder {
    #[inline]
    pub(crate) fn push(&mut self, value: bool) {
        self.values.append(value);
        self.nulls.append_non_null();
    }
}

impl<T: Copy + Default> NumberBuilder<T> {
    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        self.values.push(value);
        self.nulls.append_non_null();
    }

    fn new(data_type: &DataType) -> Self {
        Self {
            data_type: data_type.clone(),
            values: Vec::new(),
            nulls: NullBufferBuilder::new(0),
        }
    }

    #[inline]
    fn push_null(&mut self) {
        self.values.push(T::default());
        self.nulls.append_null();
    }

    fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }
}

impl<T: ArrowNativeType> NumberBuilder<T> {
    fn finish(&mut self) -> Result<ArrayRef> {
        let values = renewed(&mut self.values);
        let data = ArrayData::builder(self.data_type.clone())
            .len(values.len())
            .nulls(self.nulls.finish())
            .add_buffer(Buffer::from_vec(values));
        Ok(make_array(data.build().map_err(refused)?))
    }
}

impl BytesBuilder {
    /// Appends bytes; of a column of text, bytes that are UTF-8.
    ///
    /// # Errors
    /// `TooLarge`
    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) -> std::result::Result<(), Undecoded> {
        let end = offset(self.bytes.len().saturating_add(value.len()), "bytes")?;
        self.bytes.extend_from_slice(value);
        self.offsets.push(end);
        self.nulls.append_non_null();
        Ok(())
    }

    /// Appends the first bytes of `start`: a copy of a known length is cheaper.
    ///
    /// # Errors
    /// `TooLarge`
    #[inline]
    pub(crate) fn push_short(
        &mut self,
        start: &[u8; SHORT],
        length: usize,
    ) -> std::result::Result<(), Undecoded> {
        let end = self.bytes.len().saturating_add(length);
        let ends = offset(end, "bytes")?;
        self.bytes.extend_from_slice(start);
        self.bytes.truncate(end);
        self.offsets.push(ends);
        self.nulls.append_non_null();
        Ok(())
    }

    /// The rows from `first` on, counted from it, whose value a later row has too. They rise.
    pub(crate) fn repeated(&self, first: usize) -> Vec<usize> {
        let place = |offset: &i32| usize::try_from(*offset).unwrap_or_default();
        let ends = self.offsets.get(first..).unwrap_or_default();
        let values = ends.windows(2).map(|pair| match pair {
            [begin, end] => self.bytes.get(place(begin)..place(end)),
            _ => None,
        });
        let mut values: Vec<_> = values
            .enumerate()
            .map(|(row, value)| (value, row))
            .collect();
        values.sort_unstable();
        let pairs = values.windows(2).filter_map(|pair| match pair {
            [(value, row), (next, _)] if value == next => Some(*row),
            _ => None,
        });
        let mut repeated: Vec<usize> = pairs.collect();
        repeated.sort_unstable();
        repeated
    }

    /// Appends the bytes that `write` adds to those of the column.
    ///
    /// # Errors
    /// Those of `write`, and `TooLarge`.
    pub(crate) fn push_with(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> std::result::Result<(), Undecoded>,
    ) -> std::result::Result<(), Undecoded> {
        write(&mut self.bytes)?;
        self.offsets.push(offset(self.bytes.len(), "bytes")?);
        self.nulls.append_non_null();
        Ok(())
    }

    #[inline]
    fn push_null(&mut self) {
        let end = self.offsets.last().copied().unwrap_or_default();
        self.offsets.push(end);
        self.nulls.append_null();
    }

    fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows.saturating_add(1));
        self.bytes.truncate(end_of(&self.offsets));
        self.nulls.truncate(rows);
    }
}

impl FixedBuilder {
    /// Appends a value of the column's width; anything else is a fault of the caller.
    ///
    /// # Errors
    /// `Malformed` for another width.
    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) -> std::result::Result<(), Undecoded> {
        if value.len() != self.width {
            let (expected, found) = (self.width, value.len());
            return Err(Undecoded::new(
                Cause::Malformed,
                format_args!("expected {expected} bytes, found {found}"),
            ));
        }
        self.bytes.extend_from_slice(value);
        self.nulls.append_non_null();
        Ok(())
    }

    fn push_null(&mut self) {
        let length = self.bytes.len().saturating_add(self.width);
        self.bytes.resize(length, 0);
        self.nulls.append_null();
    }
}

impl ListBuilder {
    /// The column of the items. After the items of a row comes [`ListBuilder::close`].
    #[inline]
    pub(crate) fn item(&mut self) -> &mut Builder {
        &mut self.item
    }

    /// Ends a row: its items are those appended since the row before.
    ///
    /// # Errors
    /// `TooLarge`
    #[inline]
    pub(crate) fn close(&mut self) -> std::result::Result<(), Undecoded> {
        self.offsets.push(offset(self.item.len(), "items")?);
        self.nulls.append_non_null();
        Ok(())
    }

    fn push_null(&mut self) {
        let end = self.offsets.last().copied().unwrap_or_default();
        self.offsets.push(end);
        self.nulls.append_null();
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let nulls = self.nulls.finish();
        let offsets = finish_offsets(&mut self.offsets);
        let items = self.item.finish()?;
        Ok(match (&self.data_type, items.as_struct_opt()) {
            (DataType::Map(entry, ordered), Some(entries)) => {
                let entry = Arc::clone(entry);
                let map = MapArray::try_new(entry, offsets, entries.clone(), nulls, *ordered);
                Arc::new(map.map_err(refused)?)
            }
            (DataType::List(item), _) => {
                let list = ListArray::try_new(Arc::clone(item), offsets, items, nulls);
                Arc::new(list.map_err(refused)?)
            }
            (other, _) => {
                return Err(Error::internal(format_args!("{other} has no items")));
            }
        })
    }
}

impl StructBuilder {
    /// The columns of the fields. After every child got its value comes [`StructBuilder::close`].
    #[inline]
    pub(crate) fn children(&mut self) -> &mut [Builder] {
        &mut self.children
    }

    /// Rows so far.
    pub(crate) const fn rows(&self) -> usize {
        self.rows
    }

    /// As [`Builder::truncate`].
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.rows = rows.min(self.rows);
        self.children
            .iter_mut()
            .for_each(|child| child.truncate(rows));
        self.nulls.truncate(rows);
    }

    /// Ends a row.
    #[inline]
    pub(crate) fn close(&mut self) {
        self.rows = self.rows.saturating_add(1);
        self.nulls.append_non_null();
    }

    fn push_null(&mut self) {
        self.children.iter_mut().for_each(Builder::push_null);
        self.rows = self.rows.saturating_add(1);
        self.nulls.append_null();
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        let (rows, nulls) = (mem::take(&mut self.rows), self.nulls.finish());
        let children = self.children.iter_mut().zip(&self.fields);
        let children = children.map(|(child, field)| {
            let child = child.finish()?;
            // Its nulls are those of the struct. Parquet's writer refuses them in a field that is never null.
            if field.is_nullable() || child.nulls().is_none() {
                return Ok(child);
            }
            let data = child.to_data().into_builder().nulls(None).build();
            Ok(make_array(data.map_err(refused)?))
        });
        let children = children.collect::<Result<_>>()?;
        let fields = self.fields.clone();
        let made = StructArray::try_new_with_length(fields, children, nulls, rows);
        Ok(Arc::new(made.map_err(refused)?))
    }
}

/// The last of some offsets.
fn end_of(offsets: &[i32]) -> usize {
    let end = offsets.last().copied().unwrap_or_default();
    usize::try_from(end).unwrap_or_default()
}

impl Builder {
    /// An empty column.
    ///
    /// # Errors
    /// `Internal` for a type that no decoder makes.
    pub(crate) fn try_new(data_type: &DataType) -> Result<Self> {
        let nulls = || NullBufferBuilder::new(0);
        let list = |item: &FieldRef| -> Result<Self> {
            Ok(Self::List(ListBuilder {
                data_type: data_type.clone(),
                item: Box::new(Self::try_new(item.data_type())?),
                offsets: vec![0],
                nulls: nulls(),
            }))
        };
        Ok(match data_type {
            DataType::Null => Self::Null(0),
            DataType::Boolean => Self::Boolean(BooleanBuilder {
                values: BooleanBufferBuilder::new(0),
                nulls: nulls(),
            }),
            DataType::Int32 | DataType::Date32 | DataType::Time32(_) => {
                Self::Int32(NumberBuilder::new(data_type))
            }
            DataType::Int64 | DataType::Time64(_) | DataType::Timestamp(..) => {
                Self::Int64(NumberBuilder::new(data_type))
            }
            DataType::UInt32 => Self::UInt32(NumberBuilder::new(data_type)),
            DataType::UInt64 => Self::UInt64(NumberBuilder::new(data_type)),
            DataType::Float32 => Self::Float32(NumberBuilder::new(data_type)),
            DataType::Float64 => Self::Float64(NumberBuilder::new(data_type)),
            DataType::Decimal128(..) => Self::Decimal128(NumberBuilder::new(data_type)),
            DataType::Decimal256(..) => Self::Decimal256(NumberBuilder::new(data_type)),
            DataType::Utf8 | DataType::Binary => Self::Bytes(BytesBuilder {
                data_type: data_type.clone(),
                bytes: Vec::new(),
                offsets: vec![0],
                nulls: nulls(),
            }),
            DataType::FixedSizeBinary(width) => Self::Fixed(FixedBuilder {
                width: usize::try_from(*width).unwrap_or_default(),
                data_type: data_type.clone(),
                bytes: Vec::new(),
                nulls: nulls(),
            }),
            DataType::List(item) | DataType::Map(item, _) => list(item)?,
            DataType::Struct(fields) => Self::Struct(StructBuilder {
                fields: fields.clone(),
                children: fields
                    .iter()
                    .map(|field| Self::try_new(field.data_type()))
                    .collect::<Result<_>>()?,
                rows: 0,
                nulls: nulls(),
            }),
            other => {
                return Err(Error::internal(format_args!(
                    "no column of values is of type {other}"
                )));
            }
        })
    }

    /// Rows so far.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Null(rows) => *rows,
            Self::Boolean(flags) => flags.values.len(),
            Self::Int32(numbers) => numbers.values.len(),
            Self::Int64(numbers) => numbers.values.len(),
            Self::UInt32(numbers) => numbers.values.len(),
            Self::UInt64(numbers) => numbers.values.len(),
            Self::Float32(numbers) => numbers.values.len(),
            Self::Float64(numbers) => numbers.values.len(),
            Self::Decimal128(numbers) => numbers.values.len(),
            Self::Decimal256(numbers) => numbers.values.len(),
            Self::Bytes(texts) => texts.offsets.len().saturating_sub(1),
            Self::Fixed(fixed) => fixed.nulls.len(),
            Self::List(lists) => lists.offsets.len().saturating_sub(1),
            Self::Struct(structs) => structs.rows,
        }
    }

    /// Bytes of the values so far.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Null(_) => 0,
            Self::Boolean(flags) => flags.values.len() / 8,
            Self::Int32(numbers) => mem::size_of_val(numbers.values.as_slice()),
            Self::Int64(numbers) => mem::size_of_val(numbers.values.as_slice()),
            Self::UInt32(numbers) => mem::size_of_val(numbers.values.as_slice()),
            Self::UInt64(numbers) => mem::size_of_val(numbers.values.as_slice()),
            Self::Float32(numbers) => mem::size_of_val(numbers.values.as_slice()),
            Self::Float64(numbers) => mem::size_of_val(numbers.values.as_slice()),
            Self::Decimal128(numbers) => mem::size_of_val(numbers.values.as_slice()),
            Self::Decimal256(numbers) => mem::size_of_val(numbers.values.as_slice()),
            Self::Bytes(texts) => {
                mem::size_of_val(texts.offsets.as_slice()).saturating_add(texts.bytes.len())
            }
            Self::Fixed(fixed) => fixed.bytes.len(),
            Self::List(lists) => {
                mem::size_of_val(lists.offsets.as_slice()).saturating_add(lists.item.bytes())
            }
            Self::Struct(structs) => structs
                .children
                .iter()
                .fold(0, |sum, child| sum.saturating_add(child.bytes())),
        }
    }

    /// Appends a row without a value.
    pub(crate) fn push_null(&mut self) {
        match self {
            Self::Null(rows) => *rows = rows.saturating_add(1),
            Self::Boolean(flags) => {
                flags.values.append(false);
                flags.nulls.append_null();
            }
            Self::Int32(numbers) => numbers.push_null(),
            Self::Int64(numbers) => numbers.push_null(),
            Self::UInt32(numbers) => numbers.push_null(),
            Self::UInt64(numbers) => numbers.push_null(),
            Self::Float32(numbers) => numbers.push_null(),
            Self::Float64(numbers) => numbers.push_null(),
            Self::Decimal128(numbers) => numbers.push_null(),
            Self::Decimal256(numbers) => numbers.push_null(),
            Self::Bytes(texts) => texts.push_null(),
            Self::Fixed(fixed) => fixed.push_null(),
            Self::List(lists) => lists.push_null(),
            Self::Struct(structs) => structs.push_null(),
        }
    }

    /// Drops all rows but the first `rows`, and what was appended of a row that was not ended.
    pub(crate) fn truncate(&mut self, rows: usize) {
        match self {
            Self::Null(all) => *all = rows.min(*all),
            Self::Boolean(flags) => {
                flags.values.truncate(rows);
                flags.nulls.truncate(rows);
            }
            Self::Int32(numbers) => numbers.truncate(rows),
            Self::Int64(numbers) => numbers.truncate(rows),
            Self::UInt32(numbers) => numbers.truncate(rows),
            Self::UInt64(numbers) => numbers.truncate(rows),
            Self::Float32(numbers) => numbers.truncate(rows),
            Self::Float64(numbers) => numbers.truncate(rows),
            Self::Decimal128(numbers) => numbers.truncate(rows),
            Self::Decimal256(numbers) => numbers.truncate(rows),
            Self::Bytes(texts) => texts.truncate(rows),
            Self::Fixed(fixed) => {
                fixed.bytes.truncate(rows.saturating_mul(fixed.width));
                fixed.nulls.truncate(rows);
            }
            Self::List(lists) => {
                lists.offsets.truncate(rows.saturating_add(1));
                lists.item.truncate(end_of(&lists.offsets));
                lists.nulls.truncate(rows);
            }
            Self::Struct(structs) => structs.truncate(rows),
        }
    }

    /// The column so far; begins the next one.
    ///
    /// # Errors
    /// `Internal` where Arrow refuses what was built.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef> {
        let rows = self.len();
        Ok(match self {
            Self::Null(rows) => Arc::new(NullArray::new(mem::take(rows))),
            Self::Boolean(flags) => {
                let values = flags.values.finish();
                Arc::new(BooleanArray::new(values, flags.nulls.finish()))
            }
            Self::Int32(numbers) => numbers.finish()?,
            Self::Int64(numbers) => numbers.finish()?,
            Self::UInt32(numbers) => numbers.finish()?,
            Self::UInt64(numbers) => numbers.finish()?,
            Self::Float32(numbers) => numbers.finish()?,
            Self::Float64(numbers) => numbers.finish()?,
            Self::Decimal128(numbers) => numbers.finish()?,
            Self::Decimal256(numbers) => numbers.finish()?,
            Self::Bytes(texts) => {
                let nulls = texts.nulls.finish();
                let bytes = Buffer::from_vec(renewed(&mut texts.bytes));
                let offsets = finish_offsets(&mut texts.offsets);
                if texts.data_type == DataType::Utf8 {
                    Arc::new(StringArray::try_new(offsets, bytes, nulls).map_err(refused)?)
                } else {
                    Arc::new(BinaryArray::try_new(offsets, bytes, nulls).map_err(refused)?)
                }
            }
            Self::Fixed(fixed) => {
                let nulls = fixed.nulls.finish();
                let data = ArrayData::builder(fixed.data_type.clone())
                    .len(rows)
                    .nulls(nulls)
                    .add_buffer(Buffer::from_vec(renewed(&mut fixed.bytes)));
                make_array(data.build().map_err(refused)?)
            }
            Self::List(lists) => lists.finish()?,
            Self::Struct(structs) => structs.finish()?,
        })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn refused(e: ArrowError) -> Error {
    Error::internal(format_args!("Arrow refused a column of values: {e}"))
}

/// Takes what was built; the next batch begins with room for as much.
fn renewed<T>(built: &mut Vec<T>) -> Vec<T> {
    let most = MOST_ROOM.checked_div(mem::size_of::<T>());
    let room = built.len().min(most.unwrap_or_default());
    mem::replace(built, Vec::with_capacity(room))
}

fn finish_offsets(built: &mut Vec<i32>) -> OffsetBuffer<i32> {
    let offsets = renewed(built);
    built.push(0);
    OffsetBuffer::new(offsets.into())
}

#[cfg(test)]
mod tests;
