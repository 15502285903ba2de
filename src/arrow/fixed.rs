//! Columns of values of one width.

use std::sync::Arc;

use arrow_array::{ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{NullBuffer, NullBufferBuilder, ScalarBuffer};
use bytemuck::Pod;

use super::payload::did_not_grow;
use super::pool::PooledBlock;
use super::rows::Rows;
use crate::error::{Error, Result};
use crate::records::RecordSlot;
use crate::records::chunk::BatchRows;
use crate::scan::reader::Context;

/// A column being built.
#[derive(Debug)]
pub struct Fixed {
    block: PooledBlock,
    rows: usize,
    nulls: NullBufferBuilder,
}

impl Default for Fixed {
    fn default() -> Self {
        Self {
            block: PooledBlock::new(8192),
            rows: 0,
            nulls: NullBufferBuilder::new(0),
        }
    }
}

impl Fixed {
    /// Places for as many values as there are `rows`, after those there are.
    #[inline]
    fn places<T: Pod>(&mut self, rows: &Rows<'_>) -> Result<&mut [T]> {
        let end = self.rows.saturating_add(rows.slots.len());
        self.block.grow(end.saturating_mul(size_of::<T>()));
        let places = self.block.values::<T>().get_mut(self.rows..end);
        self.rows = end;
        places.ok_or_else(did_not_grow)
    }

    /// Appends the value of each record.
    ///
    /// # Errors
    /// `Internal` where memory did not grow.
    #[inline]
    pub fn each_record<T: Pod>(
        &mut self,
        rows: &Rows<'_>,
        value: impl Fn(&RecordSlot) -> T,
    ) -> Result<()> {
        let places = self.places::<T>(rows)?;
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
    pub fn each_segment<T: Pod>(
        &mut self,
        rows: &Rows<'_>,
        value: impl Fn(&Context) -> Option<T>,
    ) -> Result<()> {
        let value = value(rows.context);
        self.places::<T>(rows)?
            .fill(value.unwrap_or_else(T::zeroed));
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
    pub fn each_record_of_batch<T: Pod>(
        &mut self,
        rows: &Rows<'_>,
        value: impl Fn(&BatchRows, &RecordSlot) -> T,
    ) -> Result<()> {
        let mut places = self.places::<T>(rows)?.iter_mut();
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
    pub fn each_batch<T: Pod>(
        &mut self,
        rows: &Rows<'_>,
        value: impl Fn(&BatchRows) -> T,
    ) -> Result<()> {
        fill(self.places::<T>(rows)?, rows, value)?;
        self.nulls.append_n_non_nulls(rows.slots.len());
        Ok(())
    }

    /// As [`Fixed::each_batch`], or null.
    ///
    /// # Errors
    /// As [`Fixed::each_record`].
    #[inline]
    pub fn each_batch_or_null<T: Pod>(
        &mut self,
        rows: &Rows<'_>,
        value: impl Fn(&BatchRows) -> Option<T>,
    ) -> Result<()> {
        fill(self.places::<T>(rows)?, rows, |run| {
            value(run).unwrap_or_else(T::zeroed)
        })?;
        rows.by_batch(|run, slots| {
            match value(run) {
                Some(_) => self.nulls.append_n_non_nulls(slots.len()),
                None => self.nulls.append_n_nulls(slots.len()),
            }
            Ok(())
        })
    }

    /// The column so far; begins the next one in a block of the size this one reached.
    ///
    /// # Errors
    /// `Internal` where Arrow refuses what was built.
    pub fn finish<T: ArrowPrimitiveType>(&mut self) -> Result<PrimitiveArray<T>> {
        let rows = self.rows;
        let used = rows.saturating_mul(size_of::<T::Native>());
        self.block.grow(1);
        let next = Self {
            block: self.block.next(used),
            ..Self::default()
        };
        let done = std::mem::replace(self, next);
        let nulls: Option<NullBuffer> = { done.nulls }.finish();
        let values = ScalarBuffer::new(done.block.freeze(used), 0, rows);
        PrimitiveArray::try_new(values, nulls)
            .map_err(|e| Error::internal(format_args!("Arrow refused a column: {e}")))
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

/// Builder of a column of values of one width.
#[derive(Clone, Copy, Debug)]
pub struct FixedColumn {
    /// Bytes of a value.
    pub width: usize,
    /// Appends rows.
    pub fill: fn(&mut Fixed, &Rows<'_>) -> Result<()>,
    /// Makes the array.
    pub finish: fn(&mut Fixed) -> Result<ArrayRef>,
}

/// [`Fixed::finish`] as any array.
///
/// # Errors
/// As [`Fixed::finish`].
pub(crate) fn finish<T: ArrowPrimitiveType>(column: &mut Fixed) -> Result<ArrayRef> {
    Ok(Arc::new(column.finish::<T>()?))
}

/// As [`finish`], of timestamps in UTC.
///
/// # Errors
/// As [`Fixed::finish`].
pub(crate) fn finish_utc<T: arrow_array::types::ArrowTimestampType>(
    column: &mut Fixed,
) -> Result<ArrayRef> {
    Ok(Arc::new(column.finish::<T>()?.with_timezone("UTC")))
}
