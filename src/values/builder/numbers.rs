//! Columns of booleans and of numbers.

use std::mem;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, Buffer, NullBufferBuilder};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::offsets::{refused, renewed};
use crate::error::Result;

/// Booleans.
#[derive(Debug)]
pub(crate) struct BooleanBuilder {
    values: BooleanBufferBuilder,
    nulls: NullBufferBuilder,
}

/// Numbers of one width: integers, floats, decimals, dates, times, timestamps.
#[derive(Debug)]
pub(crate) struct NumberBuilder<T> {
    data_type: DataType,
    values: Vec<T>,
    nulls: NullBufferBuilder,
}

impl BooleanBuilder {
    #[inline]
    pub(crate) fn push(&mut self, value: bool) {
        self.values.append(value);
        self.nulls.append_non_null();
    }

    pub(super) fn new() -> Self {
        Self {
            values: BooleanBufferBuilder::new(0),
            nulls: NullBufferBuilder::new(0),
        }
    }

    /// Rows so far.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn push_null(&mut self) {
        self.values.append(false);
        self.nulls.append_null();
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    pub(super) fn finish(&mut self) -> ArrayRef {
        let values = self.values.finish();
        Arc::new(BooleanArray::new(values, self.nulls.finish()))
    }
}

impl<T: Copy + Default> NumberBuilder<T> {
    #[inline]
    pub(crate) fn push(&mut self, value: T) {
        self.values.push(value);
        self.nulls.append_non_null();
    }

    pub(super) fn new(data_type: &DataType) -> Self {
        Self {
            data_type: data_type.clone(),
            values: Vec::new(),
            nulls: NullBufferBuilder::new(0),
        }
    }

    #[inline]
    pub(super) fn push_null(&mut self) {
        self.values.push(T::default());
        self.nulls.append_null();
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    /// Rows so far.
    pub(super) const fn len(&self) -> usize {
        self.values.len()
    }

    /// Bytes of the values so far.
    pub(super) fn bytes(&self) -> usize {
        mem::size_of_val(self.values.as_slice())
    }
}

impl<T: ArrowNativeType> NumberBuilder<T> {
    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        let values = renewed(&mut self.values);
        let data = ArrayData::builder(self.data_type.clone())
            .len(values.len())
            .nulls(self.nulls.finish())
            .add_buffer(Buffer::from_vec(values));
        Ok(make_array(data.build().map_err(refused)?))
    }
}
