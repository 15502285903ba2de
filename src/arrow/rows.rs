//! Records on their way into columns.

use super::sources::SourceBytes;
use crate::error::Result;
use crate::records::RecordSlot;
use crate::records::chunk::BatchRows;
use crate::scan::reader::Context;

/// The bytes that slots count from.
#[derive(Clone, Copy, Debug)]
pub enum RowBytes<'a> {
    /// Columns copy what they need.
    Copied(&'a [u8]),
    /// Views may point into them.
    Kept(SourceBytes<'a>),
}

impl<'a> RowBytes<'a> {
    /// The bytes.
    #[inline]
    #[must_use]
    pub const fn as_slice(self) -> &'a [u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Kept(source) => source.as_slice(),
        }
    }
}

/// Records of one chunk that go into the batch together.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The records.
    pub slots: &'a [RecordSlot],
    /// Their batches, which may continue after them.
    pub runs: &'a [BatchRows],
    /// The bytes that the slots count from.
    pub bytes: RowBytes<'a>,
    /// Origin of the rows.
    pub context: &'a Context,
}

impl<'a> Rows<'a> {
    /// Calls `each` for every batch with the records that are its.
    ///
    /// # Errors
    /// Those of `each`.
    #[inline]
    pub fn by_batch(
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
