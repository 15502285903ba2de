//! Records on their way into columns.

use super::sources::{SourceBytes, Sources};
use crate::error::Result;
use crate::records::RecordSlot;
use crate::records::chunk::BatchRows;
use crate::scan::reader::Context;

/// The bytes that slots count from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RowBytes<'a> {
    /// Columns copy what they need.
    Copied(&'a [u8]),
    /// Views may point into them.
    Kept(SourceBytes<'a>),
}

impl<'a> RowBytes<'a> {
    /// The bytes.
    #[inline]
    #[must_use]
    pub(crate) const fn as_slice(self) -> &'a [u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Kept(source) => source.as_slice(),
        }
    }
}

/// Records of one chunk that go into the batch together.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    /// The records.
    pub slots: &'a [RecordSlot],
    /// Their batches, which may continue after them.
    pub runs: &'a [BatchRows],
    /// The bytes that the slots count from.
    pub bytes: RowBytes<'a>,
    /// Origin of the rows.
    pub context: &'a Context,
    /// The buffers of the batch.
    pub sources: &'a mut Sources,
}

impl<'a> Rows<'a> {
    /// Keeps the bytes: a view points into them.
    pub(crate) fn point(&mut self) {
        if let RowBytes::Kept(source) = self.bytes {
            self.sources.point(source.number());
        }
    }

    /// Calls `each` for every batch with the records that are its.
    ///
    /// # Errors
    /// Those of `each`.
    #[inline]
    pub(crate) fn by_batch(
        &self,
        mut each: impl FnMut(&BatchRows, &'a [RecordSlot]) -> Result<()>,
    ) -> Result<()> {
        let mut left = self.slots;
        for run in self.runs {
            let (slots, rest) = left.split_at(run.rows.min(left.len()));
            left = rest;
            if !slots.is_empty() {
                each(run, slots)?;
            }
        }
        Ok(())
    }
}
