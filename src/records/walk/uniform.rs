//! Records like the one before them.
//!
//! Where keys and values have fixed lengths, a record differs from its neighbour in deltas and payloads only. Detecting
//! that takes one comparison per record, and none waits for the length of the previous record.

use super::{RecordPrefix, eight, four, group, half};
use crate::format::varint::unzigzag32;
use crate::records::RecordSlot;
use crate::types::{Offset, TimestampMs};

/// Properties that a record shares with those that follow it.
#[derive(Clone, Copy, Debug)]
pub(super) struct UniformShape {
    /// Bytes of the whole record.
    pub(super) size: usize,
    /// Those bits of the head that are no delta.
    pub(super) head: u64,
    /// The four bytes in which the length begins.
    pub(super) length: u32,
    /// Position of the value's length in the record.
    pub(super) value_len_at: usize,
    /// Its bits among the four bytes from there, and what they are.
    pub(super) value_len: (u32, u32),
    /// The record itself.
    pub(super) slot: RecordSlot,
    /// Base of the deltas.
    pub(super) base: (Offset, TimestampMs),
}

impl UniformShape {
    /// Decodes the records right after the one that this is of, the first one at the beginning of `records`, into
    /// `slots`, up to the first that is not like it; returns how many. `L`, `T` and `O` are those of `Walk::run`, whose
    /// loop took the one before.
    #[inline]
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "sums of the shape's constants, at most 8"
    )]
    pub(super) fn run<const L: usize, const T: usize, const O: usize, const KEYED: bool>(
        &self,
        records: &[u8],
        slots: &mut [RecordSlot],
    ) -> usize {
        let shape = const { RecordPrefix::of(L, T, O, KEYED) };
        let (len_mask, len) = self.value_len;
        let (base_offset, base_timestamp) = self.base;
        let step = super::narrow(self.size);
        let mut done = 0usize;
        let (mut key_start, mut value_start) = (self.slot.key_start, self.slot.value_start);
        for (slot, record) in slots.iter_mut().zip(records.chunks_exact(self.size)) {
            let (Some(head), Some(length), Some(value_len), Some(&headers)) = (
                record.get(shape.skipped..).and_then(<[u8]>::first_chunk),
                record.first_chunk(),
                record
                    .get(self.value_len_at..)
                    .and_then(<[u8]>::first_chunk),
                record.last(),
            ) else {
                break;
            };
            let head = eight(head);
            let length = if shape.skipped > 0 {
                (four(length) ^ self.length) & ((1 << (8 * L)) - 1)
            } else {
                0
            };
            let differs = (four(value_len) ^ len) & len_mask | u32::from(headers) | length;
            if (head ^ self.head) & shape.same | u64::from(differs) != 0 {
                break;
            }
            key_start = key_start.wrapping_add(step);
            value_start = value_start.wrapping_add(step);
            let timestamp_delta = unzigzag32(group::<T>(head >> shape.time));
            let offset_delta = half::<O>(head >> shape.offset);
            *slot = RecordSlot {
                offset: base_offset.wrapping_add(i64::from(offset_delta)),
                timestamp: base_timestamp.wrapping_add(i64::from(timestamp_delta)),
                key_start,
                value_start,
                ..self.slot
            };
            done = done.wrapping_add(1);
        }
        done
    }
}
