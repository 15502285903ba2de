//! Columns of booleans and of numbers.

use std::mem;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, Buffer, NullBufferBuilder};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::offsets::{Validity, refused, renewed};
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

    /// Appends what `value` makes of each of `all`, null where it makes nothing.
    ///
    /// # Errors
    /// The last one of `value`; some rows are appended then.
    #[inline]
    pub(crate) fn push_all<S, E>(
        &mut self,
        all: &mut [S],
        mut value: impl FnMut(&mut S) -> std::result::Result<Option<T>, E>,
    ) -> std::result::Result<(), E> {
        let mut validity = Validity::default();
        let mut done = Ok(());
        // The length is known: there is room for all.
        self.values.extend(all.iter_mut().map(|each| {
            let made = value(each).unwrap_or_else(|e| {
                done = Err(e);
                None
            });
            validity.push(made.is_some());
            made.unwrap_or_default()
        }));
        validity.append_to(&mut self.nulls);
        done
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
