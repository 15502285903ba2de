//! Offsets of texts and lists, and buffers that are taken when a batch ends.

use std::mem;

use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::ArrowError;

use crate::error::Error;
use crate::values::fault::{Cause, Undecoded};

/// Most bytes of text or binary, and most items of lists, in one column of a batch: Arrow's offsets have 32 bits.
const MAX_LENGTH: usize = i32::MAX.unsigned_abs() as usize;

/// Most bytes that a column has room for before its first row: as much as it had in the batch before.
const MOST_ROOM: usize = 1 << 20;

/// The fault of a batch that Arrow's offsets cannot describe.
#[cold]
fn too_large(what: &str) -> Undecoded {
    Undecoded::new(
        Cause::TooLarge,
        format_args!("more than {MAX_LENGTH} {what} in one batch; a smaller batch_rows helps"),
    )
}

/// Validity of the rows of a block, at most 64.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Validity {
    rows: usize,
    nulls: u64,
}

impl Validity {
    #[inline]
    pub(super) fn push(&mut self, is_valid: bool) {
        self.nulls = self.nulls << 1 | u64::from(!is_valid);
        self.rows = self.rows.saturating_add(1);
    }

    #[inline]
    pub(super) fn append_to(self, nulls: &mut NullBufferBuilder) {
        if self.nulls == 0 {
            return nulls.append_n_non_nulls(self.rows);
        }
        for row in (0..self.rows).rev() {
            nulls.append(self.nulls >> row & 1 == 0);
        }
    }
}

/// `length` as an offset.
#[inline]
pub(super) fn offset(length: usize, what: &str) -> std::result::Result<i32, Undecoded> {
    i32::try_from(length).map_err(|_| too_large(what))
}

/// The last of some offsets.
pub(super) fn end_of(offsets: &[i32]) -> usize {
    let end = offsets.last().copied().unwrap_or_default();
    usize::try_from(end).unwrap_or_default()
}

/// The fault of a column that Arrow does not take.
#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(super) fn refused(e: ArrowError) -> Error {
    Error::internal(format_args!("Arrow refused a column of values: {e}"))
}

/// Takes what was built; the next batch begins with room for as much.
pub(super) fn renewed<T>(built: &mut Vec<T>) -> Vec<T> {
    let most = MOST_ROOM.checked_div(mem::size_of::<T>());
    let room = built.len().min(most.unwrap_or_default());
    mem::replace(built, Vec::with_capacity(room))
}

/// The same for offsets; the next batch begins at 0.
pub(super) fn finish_offsets(built: &mut Vec<i32>) -> OffsetBuffer<i32> {
    let offsets = renewed(built);
    built.push(0);
    OffsetBuffer::new(offsets.into())
}
