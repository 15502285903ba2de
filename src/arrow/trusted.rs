//! Arrays made without a second look at what this crate has just built; tests of [`super::payload`] and of
//! [`super::views`] validate them.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: arrays from parts that are right by construction"
)]

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryViewArray, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};

/// Views that [`super::views::Views`] wrote, over the buffers they point into.
pub(super) fn view_array(
    views: ScalarBuffer<u128>,
    buffers: Arc<[Buffer]>,
    nulls: Option<NullBuffer>,
    text: bool,
) -> ArrayRef {
    if text {
        // SAFETY: each view was written from a slice of its buffer, so length, prefix and place are right; whoever
        // appended to a text column saw to UTF-8 (`text`: names that are `str`; `headers`: checked or replaced).
        Arc::new(unsafe { StringViewArray::new_unchecked(views, buffers, nulls) })
    } else {
        // SAFETY: each view was written from a slice of its buffer, so length, prefix and place are right.
        Arc::new(unsafe { BinaryViewArray::new_unchecked(views, buffers, nulls) })
    }
}

/// Offsets that [`super::payload::Gathered`] wrote.
pub(super) fn offsets(offsets: ScalarBuffer<i32>) -> OffsetBuffer<i32> {
    // SAFETY: the first is 0 and each of the others is the one before plus a length that is not negative, so there is at
    // least one and none falls; a batch is cut before they reach i32's end.
    unsafe { OffsetBuffer::new_unchecked(offsets) }
}
