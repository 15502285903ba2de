//! Columns of values of one width.

use std::fmt::{self, Debug};
use std::sync::Arc;

use arrow_array::types::{ArrowTimestampType, TimestampMicrosecondType, TimestampMillisecondType};
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray};
use arrow_buffer::{BooleanBufferBuilder, NullBufferBuilder, ScalarBuffer};
use arrow_schema::{DataType, Field};
use bytemuck::{Pod, Zeroable};

use super::layout::TimestampUnit;
use super::payload::did_not_grow;
use super::pool::PooledBlock;
use super::rows::Rows;
use super::sources::DataBuffers;
use super::value_column::{AppendError, ValueColumn};
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::records::RecordSlot;
use crate::records::chunk::BatchRows;
use crate::scan::reader::Context;

/// Appends the values of records.
type FillNumbers<T> = fn(&mut Fixed<T>, &Rows<'_>) -> Result<(), AppendError>;

/// A column being built.
pub(super) struct Fixed<T: ArrowPrimitiveType> {
    data_type: DataType,
    fill: FillNumbers<T>,
    block: PooledBlock,
    rows: usize,
    nulls: NullBufferBuilder,
}

/// A column that `fill` fills, by a method of [`Fixed`].
pub(super) fn numbers<T: ArrowPrimitiveType<Native: Pod>>(
    fill: FillNumbers<T>,
) -> Box<dyn ValueColumn> {
    Box::new(Fixed::in_block(T::DATA_TYPE, fill, PooledBlock::new(8192)))
}

/// Timestamps in this unit.
pub(super) fn timestamps(unit: TimestampUnit) -> Box<dyn ValueColumn> {
    fn column<T: ArrowTimestampType>(fill: FillNumbers<T>) -> Box<dyn ValueColumn> {
        let data_type = DataType::Timestamp(T::UNIT, Some(Arc::from("UTC")));
        Box::new(Fixed::in_block(data_type, fill, PooledBlock::new(8192)))
    }
    match unit {
        TimestampUnit::Millisecond => column::<TimestampMillisecondType>(|column, rows| {
            column.each_record(rows, |record| record.timestamp)
        }),
        TimestampUnit::Microsecond => column::<TimestampMicrosecondType>(|column, rows| {
            column.each_record(rows, |record| record.timestamp.wrapping_mul(1000))?;
            // One look at all of them: what has no bit set from 53 on is far from the limit.
            let bits = rows.slots.iter().fold(0, |bits, slot| {
                bits | (slot.timestamp ^ (slot.timestamp >> 63))
            });
            if bits >> 53 == 0 {
                return Ok(());
            }
            let mut slots = rows.slots.iter().enumerate();
            let beyond = slots.find(|(_, slot)| slot.timestamp.checked_mul(1000).is_none());
            beyond.map_or(Ok(()), |(row, slot)| Err(beyond_microseconds(row, slot)))
        }),
    }
}

/// The error for a timestamp that microseconds cannot hold; Spark's Kafka source fails as well.
#[cold]
fn beyond_microseconds(row: usize, slot: &RecordSlot) -> AppendError {
    let most = i64::MAX / 1000;
    let error = Error::invalid(
        "timestamp",
        0,
        format_args!("-{most} to {most} ms, which is what microseconds hold"),
        format_args!(
            "{} ms; columns without timestamp can be read",
            slot.timestamp
        ),
    );
    AppendError::Record(row, error)
}

impl<T: ArrowPrimitiveType> Debug for Fixed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.rows, self.data_type)
    }
}

impl<T: ArrowPrimitiveType<Native: Pod>> Fixed<T> {
    fn in_block(data_type: DataType, fill: FillNumbers<T>, block: PooledBlock) -> Self {
        Self {
            data_type,
            fill,
            block,
            rows: 0,
            nulls: NullBufferBuilder::new(0),
        }
    }

    /// Places for as many values as there are `rows`, after those there are.
    #[inline]
    fn places(&mut self, rows: &Rows<'_>) -> Result<&mut [T::Native]> {
        let end = self.rows.saturating_add(rows.slots.len());
        self.block.grow(end.saturating_mul(size_of::<T::Native>()));
        let places = self.block.values::<T::Native>().get_mut(self.rows..end);
        self.rows = end;
        places.ok_or_else(did_not_grow)
    }

    /// Appends the value of each record.
    ///
    /// # Errors
    /// `Internal` where memory did not grow.
    #[inline]
    pub(super) fn each_record(
        &mut self,
        rows: &Rows<'_>,
        value: impl Fn(&RecordSlot) -> T::Native,
    ) -> Result<(), AppendError> {
        let places = self.places(rows)?;
        for (place, slot) in places.iter_mut().zip(rows.slots) {
            *place = value(slot);
        }
        self.nulls.append_n_non_nulls(rows.slots.len());
        Ok(())
    }

    /// Appends one value, or null, for all records.
    ///
    /// # Errors
    /// As [`Fixed::each_record`].
    #[inline]
    pub(super) fn each_segment(
        &mut self,
        rows: &Rows<'_>,
        value: impl Fn(&Context) -> Option<T::Native>,
    ) -> Result<(), AppendError> {
        let value = value(rows.context);
        self.places(rows)?
            .fill(value.unwrap_or_else(T::Native::zeroed));
        match value {
            Some(_) => self.nulls.append_n_non_nulls(rows.slots.len()),
            None => self.nulls.append_n_nulls(rows.slots.len()),
        }
        Ok(())
    }

    /// Appends the value of each record, given its batch.
    ///
    /// # Errors
    /// As [`Fixed::each_record`].
    #[inline]
    pub(super) fn each_record_of_batch(
        &mut self,
        rows: &Rows<'_>,
        value: impl Fn(&BatchRows, &RecordSlot) -> T::Native,
    ) -> Result<(), AppendError> {
        let mut places = self.places(rows)?.iter_mut();
        rows.by_batch(|run, slots| {
            for (slot, place) in slots.iter().zip(places.by_ref()) {
                *place = value(run, slot);
            }
            Ok(())
        })?;
        self.nulls.append_n_non_nulls(rows.slots.len());
        Ok(())
    }

    /// Appends the value of each batch, for all its records.
    ///
    /// # Errors
    /// As [`Fixed::each_record`].
    #[inline]
    pub(super) fn each_batch(
        &mut self,
        rows: &Rows<'_>,
        value: impl Fn(&BatchRows) -> T::Native,
    ) -> Result<(), AppendError> {
        fill(self.places(rows)?, rows, value)?;
        self.nulls.append_n_non_nulls(rows.slots.len());
        Ok(())
    }

    /// As [`Fixed::each_batch`], or null.
    ///
    /// # Errors
    /// As [`Fixed::each_record`].
    #[inline]
    pub(super) fn each_batch_or_null(
        &mut self,
        rows: &Rows<'_>,
        value: impl Fn(&BatchRows) -> Option<T::Native>,
    ) -> Result<(), AppendError> {
        fill(self.places(rows)?, rows, |run| {
            value(run).unwrap_or_else(T::Native::zeroed)
        })?;
        rows.by_batch(|run, slots| {
            match value(run) {
                Some(_) => self.nulls.append_n_non_nulls(slots.len()),
                None => self.nulls.append_n_nulls(slots.len()),
            }
            Ok(())
        })?;
        Ok(())
    }
}

impl<T: ArrowPrimitiveType<Native: Pod>> ValueColumn for Fixed<T> {
    fn field(&self, name: &str) -> Field {
        Field::new(name, self.data_type.clone(), true)
    }

    fn append(&mut self, rows: &mut Rows<'_>) -> Result<(), AppendError> {
        (self.fill)(self, rows)
    }

    fn bytes(&self, slots: &[RecordSlot], _: &[u8], _: usize) -> usize {
        slots.len().saturating_mul(size_of::<T::Native>())
    }

    /// Begins the next one in a block of the size this one reached.
    fn finish(&mut self, _: &DataBuffers) -> Result<ArrayRef> {
        let rows = self.rows;
        let used = rows.saturating_mul(size_of::<T::Native>());
        self.block.grow(1);
        let next = Self::in_block(self.data_type.clone(), self.fill, self.block.next(used));
        let done = std::mem::replace(self, next);
        let values = ScalarBuffer::new(done.block.freeze(used), 0, rows);
        let array = PrimitiveArray::<T>::try_new(values, { done.nulls }.finish())
            .map_err(|e| Error::internal(format_args!("Arrow refused a column: {e}")))?;
        Ok(Arc::new(array.with_data_type(done.data_type)))
    }

    fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
        self.nulls.truncate(self.rows);
    }
}

#[inline]
fn fill<T: Pod>(
    mut places: &mut [T],
    rows: &Rows<'_>,
    value: impl Fn(&BatchRows) -> T,
) -> Result<()> {
    rows.by_batch(|run, slots| {
        let (here, rest) = std::mem::take(&mut places)
            .split_at_mut_checked(slots.len())
            .ok_or_else(did_not_grow)?;
        here.fill(value(run));
        places = rest;
        Ok(())
    })
}

/// Flags, the same for all records of a batch.
#[derive(Debug)]
pub(super) struct Flags {
    bits: BooleanBufferBuilder,
    of: fn(&BatchHeader) -> bool,
}

/// A column of this flag of each batch.
pub(super) fn flags(of: fn(&BatchHeader) -> bool) -> Box<dyn ValueColumn> {
    let bits = BooleanBufferBuilder::new(1024);
    Box::new(Flags { bits, of })
}

impl ValueColumn for Flags {
    fn field(&self, name: &str) -> Field {
        Field::new(name, DataType::Boolean, true)
    }

    fn append(&mut self, rows: &mut Rows<'_>) -> Result<(), AppendError> {
        rows.by_batch(|run, slots| {
            self.bits.append_n(slots.len(), (self.of)(&run.header));
            Ok(())
        })?;
        Ok(())
    }

    fn bytes(&self, slots: &[RecordSlot], _: &[u8], _: usize) -> usize {
        slots.len()
    }

    fn finish(&mut self, _: &DataBuffers) -> Result<ArrayRef> {
        Ok(Arc::new(BooleanArray::new(self.bits.finish(), None)))
    }

    fn truncate(&mut self, rows: usize) {
        self.bits.truncate(rows);
    }
}
