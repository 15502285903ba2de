//! A column of records: what is built from decoded records, chunk by chunk.
//!
//! Readers know columns only by this trait. Another kind of column is another implementor, which the table in
//! [`schema`](super::schema) makes from the [options](super::schema::ColumnOptions).

use std::fmt::Debug;

use arrow_array::ArrayRef;
use arrow_schema::Field;

use super::rows::Rows;
use super::sources::DataBuffers;
use crate::error::Error;
use crate::records::RecordSlot;

/// A column of one record batch being built.
pub(crate) trait ValueColumn: Debug + Send + Sync {
    /// Its Arrow field, under this name.
    fn field(&self, name: &str) -> Field;

    /// Appends records.
    ///
    /// # Errors
    /// [`AppendError::Record`] for the first record that the column cannot hold. Those before it have been appended;
    /// the reader removes it and what follows ([`ValueColumn::truncate`]), from this column too.
    fn append(&mut self, rows: &mut Rows<'_>) -> Result<(), AppendError>;

    /// Bytes that records in `source` add to a batch, before they are appended; where that is more than `most`,
    /// something above it. Batches are cut by the sum of all columns.
    fn bytes(&self, slots: &[RecordSlot], source: &[u8], most: usize) -> usize;

    /// Returns whether its values may point into the bytes of the records, which the batch then keeps.
    fn keeps_source(&self) -> bool {
        false
    }

    /// The column so far, over the buffers of its batch; begins the next one.
    ///
    /// # Errors
    /// `Internal` where Arrow refuses what was built.
    fn finish(&mut self, buffers: &DataBuffers) -> crate::error::Result<ArrayRef>;

    /// Drops all rows but the first `rows`.
    fn truncate(&mut self, rows: usize);
}

/// Cause for which records were not appended.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// The record in this row cannot be held. The error's position counts from its batch.
    Record(usize, Error),
    /// The reader cannot continue.
    Other(Error),
}

impl From<Error> for AppendError {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}
