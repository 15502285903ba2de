//! Columns of byte strings that are copied: 32-bit offsets and one run of bytes.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StringArray};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};

use super::pool::PooledBlock;
use crate::error::{Error, Result};
use crate::io::unaligned::Unaligned;
use crate::records::RecordSlot;

/// Payloads of up to so many bytes are copied in one go of a fixed size; so much room must follow the last one.
const SLACK: usize = 128;

/// Payload of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PayloadPart {
    /// The key.
    Key,
    /// The value.
    Value,
}

impl PayloadPart {
    /// The bytes, `None` for null.
    #[must_use]
    pub(crate) fn bytes(self, slot: RecordSlot, source: &[u8]) -> Option<&[u8]> {
        match self {
            Self::Key => slot.key(source),
            Self::Value => slot.value(source),
        }
    }
}

/// Offsets and gathered bytes.
#[derive(Debug)]
pub(crate) struct Gathered {
    offsets: PooledBlock,
    data: PooledBlock,
    rows: usize,
    used: usize,
    nulls: NullBufferBuilder,
}

impl Gathered {
    /// An empty column; its first blocks have about these sizes.
    #[must_use]
    pub(crate) fn new(rows: usize, bytes: usize) -> Self {
        let offsets = rows.saturating_add(1).saturating_mul(4);
        Self::in_blocks(
            PooledBlock::new(offsets),
            PooledBlock::new(bytes.saturating_add(SLACK)),
        )
    }

    fn in_blocks(offsets: PooledBlock, data: PooledBlock) -> Self {
        Self {
            offsets,
            data,
            rows: 0,
            used: 0,
            nulls: NullBufferBuilder::new(0),
        }
    }

    /// Makes room for `rows` more rows with `bytes` more bytes.
    fn reserve(&mut self, rows: usize, bytes: usize) -> Result<()> {
        let places = self.rows.saturating_add(rows).saturating_add(1);
        self.offsets.try_grow(places.saturating_mul(4))?;
        self.data
            .try_grow(self.used.saturating_add(bytes).saturating_add(SLACK))?;
        self.begin();
        Ok(())
    }

    /// Lets the first row begin at the first byte.
    fn begin(&mut self) {
        self.offsets.grow(4);
        if self.rows == 0
            && let Some(first) = self.offsets.values::<i32>().first_mut()
        {
            *first = 0;
        }
    }

    /// Appends one payload of each record.
    ///
    /// # Errors
    /// `OutOfMemory`; `InvalidRecord` for a slot that points outside the source (a fault of ours, not of the data).
    pub(crate) fn append(
        &mut self,
        slots: &[RecordSlot],
        source: &[u8],
        part: PayloadPart,
    ) -> Result<()> {
        match part {
            PayloadPart::Key => {
                self.append_by(slots, source, |slot| (slot.key_start, slot.key_len))
            }
            PayloadPart::Value => {
                self.append_by(slots, source, |slot| (slot.value_start, slot.value_len))
            }
        }
    }

    #[inline]
    fn append_by(
        &mut self,
        slots: &[RecordSlot],
        source: &[u8],
        part: impl Fn(&RecordSlot) -> (u32, i32),
    ) -> Result<()> {
        let mut total = 0u64;
        let mut any = 0i32;
        for slot in slots {
            let (_, len) = part(slot);
            total = total.wrapping_add(u64::from(len.max(0).unsigned_abs()));
            any |= len;
        }
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        self.reserve(slots.len(), total)?;
        self.offset_after(total)?;
        let words = Unaligned::new(source);
        let data = self.data.values::<u8>();
        let ends = self
            .offsets
            .values::<i32>()
            .get_mut(self.rows.wrapping_add(1)..)
            .filter(|ends| ends.len() >= slots.len())
            .ok_or_else(did_not_grow)?;
        let mut at = self.used;
        for (slot, end) in slots.iter().zip(ends) {
            let (start, len) = part(slot);
            let (start, len) = (start as usize, len.max(0).unsigned_abs() as usize);
            match words.window::<16>(start) {
                Some(bytes) if len <= 16 => put(data, at, bytes),
                _ => copy(data, at, words, start, len),
            }
            .ok_or_else(|| {
                Error::invalid("payload", start as u64, "bytes within the batch", len)
            })?;
            at = at.wrapping_add(len);
            // All of them fit: `offset_after`.
            *end = i32::try_from(at).unwrap_or(i32::MAX);
        }
        self.used = at;
        self.rows = self.rows.wrapping_add(slots.len());
        append_validity(&mut self.nulls, slots, any, part);
        Ok(())
    }

    /// Appends the same bytes, or null, `times` times.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn repeat(&mut self, bytes: Option<&[u8]>, times: usize) -> Result<()> {
        let value = bytes.unwrap_or_default();
        let total = value.len().saturating_mul(times);
        self.reserve(times, total)?;
        self.offset_after(total)?;
        let end = self.used.saturating_add(total);
        let room = self.data.values().get_mut(self.used..end);
        fill(room.ok_or_else(did_not_grow)?, value);
        let first = self.rows.saturating_add(1);
        let ends = (self.offsets.values::<i32>()).get_mut(first..first.saturating_add(times));
        let mut at = self.used;
        for end in ends.ok_or_else(did_not_grow)? {
            at = at.wrapping_add(value.len());
            // All of them fit: `offset_after`.
            *end = i32::try_from(at).unwrap_or(i32::MAX);
        }
        self.used = end;
        self.rows = self.rows.saturating_add(times);
        match bytes {
            Some(_) => self.nulls.append_n_non_nulls(times),
            None => self.nulls.append_n_nulls(times),
        }
        Ok(())
    }

    /// Drops all rows but the first `rows`.
    pub(super) fn truncate(&mut self, rows: usize) {
        if rows < self.rows {
            let ends = self.offsets.values::<i32>();
            let end = ends.get(rows).map_or(0, |end| end.unsigned_abs());
            self.used = end as usize;
            self.rows = rows;
            self.nulls.truncate(rows);
        }
    }

    /// Checks that 32-bit offsets reach `more` bytes further: batches are cut long before.
    fn offset_after(&self, more: usize) -> Result<()> {
        let end = self.used.saturating_add(more);
        i32::try_from(end).map(drop).map_err(|_| {
            Error::internal(format_args!("a column of {end} bytes under 32-bit offsets"))
        })
    }

    /// The column so far as `binary`; begins the next one in blocks of the size this one reached.
    ///
    /// # Errors
    /// `Internal` where Arrow refuses what was built.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef> {
        let (offsets, data, nulls) = self.take()?;
        let array = BinaryArray::try_new(offsets, data, nulls)
            .map_err(|e| Error::internal(format_args!("Arrow refused a column: {e}")))?;
        Ok(Arc::new(array))
    }

    /// As [`Gathered::finish`], as `string`.
    ///
    /// # Errors
    /// As [`Gathered::finish`]; also of bytes that are not UTF-8.
    pub(crate) fn finish_text(&mut self) -> Result<ArrayRef> {
        let (offsets, data, nulls) = self.take()?;
        let array = StringArray::try_new(offsets, data, nulls)
            .map_err(|e| Error::internal(format_args!("Arrow refused a column: {e}")))?;
        Ok(Arc::new(array))
    }

    fn take(&mut self) -> Result<(OffsetBuffer<i32>, Buffer, Option<NullBuffer>)> {
        self.begin();
        let (rows, used) = (self.rows, self.used);
        let offsets_used = rows.saturating_add(1).saturating_mul(4);
        let next = Self::in_blocks(self.offsets.next(offsets_used), self.data.next(used));
        let done = std::mem::replace(self, next);
        let offsets = done.offsets.freeze(offsets_used);
        let offsets = ascending(ScalarBuffer::new(offsets, 0, rows.saturating_add(1)))?;
        Ok((offsets, done.data.freeze(used), { done.nulls }.finish()))
    }
}

/// Offsets, if they are at least one, and ascend from 0 or more. Arrow's own check panics, and takes several times as long,
/// as it ends at the first that does not.
#[expect(unsafe_code, reason = "right after the check")]
pub(super) fn ascending(offsets: ScalarBuffer<i32>) -> Result<OffsetBuffer<i32>> {
    let pairs = offsets.iter().zip(offsets.get(1..).unwrap_or_default());
    let falls = pairs.fold(0, |falls, (a, b)| falls | i32::from(a > b));
    if falls != 0 || offsets.first().is_none_or(|first| *first < 0) {
        return Err(Error::internal("offsets that do not ascend"));
    }
    // SAFETY: the first is 0 or more and none is below the one before it, as just seen.
    Ok(unsafe { OffsetBuffer::new_unchecked(offsets) })
}

/// A block that has no room where it just made some.
#[cold]
pub(super) fn did_not_grow() -> Error {
    Error::internal("a block did not grow")
}

/// Appends which of the payloads are not null; `any` is their lengths or'ed, negative if one is null.
pub(super) fn append_validity(
    nulls: &mut NullBufferBuilder,
    slots: &[RecordSlot],
    any: i32,
    part: impl Fn(&RecordSlot) -> (u32, i32),
) {
    if any < 0 {
        for slot in slots {
            nulls.append(part(slot).1 >= 0);
        }
    } else {
        nulls.append_n_non_nulls(slots.len());
    }
}

/// Repeats `value` to the end of `to`, twice as much each time: a copy of a few bytes costs more in its call.
fn fill(to: &mut [u8], value: &[u8]) {
    let mut done = value.len().min(to.len());
    to.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
    while done > 0 && done < to.len() {
        let more = done.min(to.len().wrapping_sub(done));
        to.copy_within(..more, done);
        done = done.wrapping_add(more);
    }
}

/// Writes `N` bytes; the next payload overwrites those that are too many. `None`: no room, which [`SLACK`] rules out.
#[inline]
fn put<const N: usize>(to: &mut [u8], at: usize, bytes: &[u8; N]) -> Option<()> {
    const { assert!(N <= SLACK, "there is room for so much") };
    *to.get_mut(at..)?.first_chunk_mut()? = *bytes;
    Some(())
}

/// Copies `len` bytes, in a fixed size if possible: a copy of a few lines costs more in its call. `None`: out of bounds.
#[inline]
fn copy(to: &mut [u8], at: usize, from: Unaligned<'_>, start: usize, len: usize) -> Option<()> {
    if len <= 32
        && let Some(bytes) = from.window::<32>(start)
    {
        return put(to, at, bytes);
    }
    if len <= 64
        && let Some(bytes) = from.window::<64>(start)
    {
        return put(to, at, bytes);
    }
    if len <= SLACK
        && let Some(bytes) = from.window::<SLACK>(start)
    {
        return put(to, at, bytes);
    }
    let from = from.bytes().get(start..start.checked_add(len)?)?;
    to.get_mut(at..at.checked_add(len)?)?.copy_from_slice(from);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::sources::Sources;
    use super::super::views::Views;
    use super::*;
    use crate::error::internal_message;
    use crate::io::region::Region;
    use crate::records::chunk::ChunkBytes;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use std::panic::AssertUnwindSafe;

    fn slot(start: u32, len: i32) -> RecordSlot {
        RecordSlot {
            value_start: start,
            value_len: len,
            ..RecordSlot::default()
        }
    }

    /// Every length around the inline and the copy limits, at the source's end too, nulls in between.
    #[test]
    fn gathered_and_views_say_the_same() {
        let source: Vec<u8> = (0..3000u32)
            .map(|n| u8::try_from(n % 251).unwrap())
            .collect();
        let mut slots = Vec::new();
        for len in [0, 1, 2, 4, 11, 12, 13, 31, 32, 33, 255, 256, 257, 700] {
            slots.extend([
                slot(7, len),
                slot(u32::try_from(3000 - len).unwrap(), len),
                slot(0, -1),
            ]);
        }
        let expected: Vec<_> = slots
            .iter()
            .map(|s| PayloadPart::Value.bytes(*s, &source).map(<[u8]>::to_vec))
            .collect();
        let mut gathered = Gathered::new(1, 1);
        let mut views = Views::new(1);
        let mut sources = Sources::default();
        let region = Region::heap(source.clone());
        for piece in slots.chunks(5) {
            gathered.append(piece, &source, PayloadPart::Value).unwrap();
            let bytes = sources.of(ChunkBytes::Region(&region)).unwrap();
            if views.append(piece, bytes, PayloadPart::Value).unwrap() {
                sources.point(bytes.number());
            }
        }
        let gathered = gathered.finish().unwrap();
        let views = views.finish(&sources.finish()).unwrap();
        gathered.to_data().validate_full().unwrap();
        views.to_data().validate_full().unwrap();
        let a: Vec<_> = gathered
            .as_binary::<i32>()
            .iter()
            .map(|v| v.map(<[u8]>::to_vec))
            .collect();
        let b: Vec<_> = views
            .as_binary_view()
            .iter()
            .map(|v| v.map(<[u8]>::to_vec))
            .collect();
        assert_eq!(a, expected);
        assert_eq!(b, expected);
    }

    #[test]
    fn slots_outside_the_source_are_refused() {
        for bad in [slot(0, 4), slot(9, 1), slot(u32::MAX, 20)] {
            assert!(
                Gathered::new(1, 1)
                    .append(&[bad], &[1, 2, 3], PayloadPart::Value)
                    .is_err()
            );
        }
    }

    #[test]
    fn repeats() {
        let mut gathered = Gathered::new(1, 1);
        gathered.repeat(Some(b"topic"), 3).unwrap();
        gathered.repeat(None, 1).unwrap();
        gathered.repeat(Some(b""), 1).unwrap();
        let array = gathered.finish_text().unwrap();
        let values: Vec<_> = array.as_string::<i32>().iter().collect();
        assert_eq!(
            values,
            [Some("topic"), Some("topic"), Some("topic"), None, Some("")]
        );
        assert_eq!(gathered.rows, 0);
        gathered.repeat(Some(b"\xff"), 1).unwrap();
        let refused = internal_message(AssertUnwindSafe(|| gathered.finish_text()));
        assert!(refused.contains("UTF-8"), "{refused}");
    }

    #[test]
    fn offsets_that_do_not_ascend_are_refused() {
        let check = |offsets: &[i32]| ascending(ScalarBuffer::from(offsets.to_vec()));
        assert!(check(&[0]).is_ok() && check(&[3, 3, 4, i32::MAX]).is_ok());
        for offsets in [&[][..], &[-1, 0], &[0, 2, 1], &[0, 1, 1, 0]] {
            let refused = internal_message(|| check(offsets));
            assert!(refused.contains("do not ascend"), "{offsets:?}: {refused}");
        }
    }

    #[test]
    fn what_offsets_cannot_reach_is_refused() {
        let mut gathered = Gathered::new(1, 1);
        gathered.used = i32::MAX.unsigned_abs() as usize - 3;
        assert!(gathered.offset_after(3).is_ok());
        let refused = internal_message(AssertUnwindSafe(|| gathered.offset_after(4)));
        assert!(refused.contains("32-bit offsets"), "{refused}");
    }
}
