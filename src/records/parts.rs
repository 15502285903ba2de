//! Batches that are handed over in parts, before all of their records are decoded.
//!
//! When reading past damage, no record of a batch may be returned if one of them cannot be decoded. If the batch fits
//! the chunk, no record has left the chunk by then. A larger one would have to be decoded twice, unless the consumer
//! can take records back: it gets the batch chunk by chunk, and is notified to drop the rows if a later record does not
//! decode.

use crate::types::Position;

/// Size of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// Its records.
    pub(crate) records: usize,
    /// Bytes that they take at most in the consumer's columns.
    pub(crate) bytes: usize,
}

/// Agreement between a reader and the consumer of its chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartAgreement {
    /// The largest batch that the consumer can take back, and what a record counts besides its bytes.
    most: usize,
    row: usize,
    open: Option<Size>,
    /// Position of a batch whose records must all be taken back.
    withdrawn: Option<Position>,
}

impl PartAgreement {
    /// The consumer can take back batches of up to `most` bytes, of which each record counts `row` more than its own.
    pub(crate) const fn allow(&mut self, most: usize, row: usize) {
        self.most = most;
        self.row = row;
    }

    /// Estimates a batch of so many records in so many bytes, if the consumer can take it back.
    pub(super) fn limit_for(&self, records: usize, bytes: usize) -> Option<Size> {
        let bytes = records.saturating_mul(self.row).saturating_add(bytes);
        (bytes <= self.most).then_some(Size { records, bytes })
    }

    /// The batch that the records are of which were given last, if there are more to come, any of which may have them
    /// taken back.
    #[must_use]
    pub(crate) const fn open(&self) -> Option<Size> {
        self.open
    }

    /// Says whether a batch is in the middle.
    pub(crate) const fn set_open(&mut self, open: Option<Size>) {
        self.open = open;
    }

    /// Position of the batch whose records must all be taken back.
    #[must_use]
    pub(crate) const fn withdrawn(&self) -> Option<Position> {
        self.withdrawn
    }

    /// Makes the consumer take back the rows of the open batch.
    pub(super) const fn withdraw(&mut self, position: Position) {
        self.open = None;
        self.withdrawn = Some(position);
    }

    /// Returns whether something has to be taken back; from now on it has been.
    pub(crate) const fn take_withdrawn(&mut self) -> bool {
        self.withdrawn.take().is_some()
    }

    /// No batch is open.
    pub(super) const fn reset(&mut self) {
        self.open = None;
        self.withdrawn = None;
    }
}
