//! Arrow columns of any type, from which the last rows can be removed again.
//!
//! Decoders of all formats append to these. A value that turns out damaged halfway leaves children of unequal lengths;
//! [`Builder::truncate`] restores the rows before it.

use std::mem;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, ListArray, MapArray, NullArray, StructArray, make_array};
use arrow_buffer::{NullBufferBuilder, i256};
use arrow_schema::{DataType, FieldRef, Fields};

pub(crate) use self::bytes::{BytesBuilder, FixedBuilder, SHORT, Text};
pub(crate) use self::numbers::{BooleanBuilder, NumberBuilder};
use self::offsets::{end_of, finish_offsets, offset, refused};
use super::fault::Undecoded;
use crate::error::{Error, Result};

mod bytes;
mod numbers;
mod offsets;

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

/// Lists or maps.
#[derive(Debug)]
pub(crate) struct ListBuilder {
    data_type: DataType,
    item: Box<Builder>,
    /// One more than rows.
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

/// Structs.
#[derive(Debug)]
pub(crate) struct StructBuilder {
    fields: Fields,
    children: Vec<Builder>,
    rows: usize,
    nulls: NullBufferBuilder,
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
        self.close_all(1);
    }

    /// Ends this many rows.
    #[inline]
    pub(crate) fn close_all(&mut self, rows: usize) {
        self.rows = self.rows.saturating_add(rows);
        self.nulls.append_n_non_nulls(rows);
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
            DataType::Boolean => Self::Boolean(BooleanBuilder::new()),
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
            DataType::Utf8 | DataType::Binary => Self::Bytes(BytesBuilder::new(data_type)),
            DataType::FixedSizeBinary(width) => Self::Fixed(FixedBuilder::new(data_type, *width)),
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
            Self::Boolean(flags) => flags.len(),
            Self::Int32(numbers) => numbers.len(),
            Self::Int64(numbers) => numbers.len(),
            Self::UInt32(numbers) => numbers.len(),
            Self::UInt64(numbers) => numbers.len(),
            Self::Float32(numbers) => numbers.len(),
            Self::Float64(numbers) => numbers.len(),
            Self::Decimal128(numbers) => numbers.len(),
            Self::Decimal256(numbers) => numbers.len(),
            Self::Bytes(texts) => texts.len(),
            Self::Fixed(fixed) => fixed.len(),
            Self::List(lists) => lists.offsets.len().saturating_sub(1),
            Self::Struct(structs) => structs.rows,
        }
    }

    /// Bytes of the values so far.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Null(_) => 0,
            Self::Boolean(flags) => flags.len() / 8,
            Self::Int32(numbers) => numbers.bytes(),
            Self::Int64(numbers) => numbers.bytes(),
            Self::UInt32(numbers) => numbers.bytes(),
            Self::UInt64(numbers) => numbers.bytes(),
            Self::Float32(numbers) => numbers.bytes(),
            Self::Float64(numbers) => numbers.bytes(),
            Self::Decimal128(numbers) => numbers.bytes(),
            Self::Decimal256(numbers) => numbers.bytes(),
            Self::Bytes(texts) => texts.bytes(),
            Self::Fixed(fixed) => fixed.bytes(),
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
            Self::Boolean(flags) => flags.push_null(),
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
            Self::Boolean(flags) => flags.truncate(rows),
            Self::Int32(numbers) => numbers.truncate(rows),
            Self::Int64(numbers) => numbers.truncate(rows),
            Self::UInt32(numbers) => numbers.truncate(rows),
            Self::UInt64(numbers) => numbers.truncate(rows),
            Self::Float32(numbers) => numbers.truncate(rows),
            Self::Float64(numbers) => numbers.truncate(rows),
            Self::Decimal128(numbers) => numbers.truncate(rows),
            Self::Decimal256(numbers) => numbers.truncate(rows),
            Self::Bytes(texts) => texts.truncate(rows),
            Self::Fixed(fixed) => fixed.truncate(rows),
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
        match self {
            Self::Null(rows) => Ok(Arc::new(NullArray::new(mem::take(rows)))),
            Self::Boolean(flags) => Ok(flags.finish()),
            Self::Int32(numbers) => numbers.finish(),
            Self::Int64(numbers) => numbers.finish(),
            Self::UInt32(numbers) => numbers.finish(),
            Self::UInt64(numbers) => numbers.finish(),
            Self::Float32(numbers) => numbers.finish(),
            Self::Float64(numbers) => numbers.finish(),
            Self::Decimal128(numbers) => numbers.finish(),
            Self::Decimal256(numbers) => numbers.finish(),
            Self::Bytes(texts) => texts.finish(),
            Self::Fixed(fixed) => fixed.finish(),
            Self::List(lists) => lists.finish(),
            Self::Struct(structs) => structs.finish(),
        }
    }
}

#[cfg(test)]
mod tests;
