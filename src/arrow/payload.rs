//! Columns of byte strings gathered once: 32-bit offsets and one run of bytes. And what they share with those of views.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StringArray};
use arrow_buffer::{Buffer, NullBufferBuilder, ScalarBuffer};

use super::pool::Block;
use super::trusted;
use crate::error::{Error, Result};
use crate::io::words::Words;
use crate::records::RecordSlot;

/// Payloads of up to so many bytes are copied in one go of a fixed size; there must be room for that behind the last one.
const SLACK: usize = 128;

/// Which payload of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The key.
    Key,
    /// The value.
    Value,
}

impl Part {
    #[inline]
    fn of(self, slot: &RecordSlot) -> (usize, i32) {
        let (start, len) = match self {
            Self::Key => (slot.key_start, slot.key_len),
            Self::Value => (slot.value_start, slot.value_len),
        };
        (start as usize, len)
    }

    /// The bytes, `None` for null.
    #[must_use]
    pub fn bytes(self, slot: RecordSlot, source: &[u8]) -> Option<&[u8]> {
        let (start, len) = self.of(&slot);
        source.get(start..start.checked_add(usize::try_from(len).ok()?)?)
    }
}

/// Whether the bytes are known to be text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `binary`, `binary_view`
    Binary,
    /// `string`, `string_view`; whoever appends sees to UTF-8.
    Text,
}

/// The data buffers that views point into.
#[derive(Debug, Default)]
pub struct Sources(Vec<Option<Buffer>>);

impl Sources {
    /// A place for a buffer that will be there by the time the batch is done.
    pub fn reserve(&mut self) -> u32 {
        self.0.push(None);
        u32::try_from(self.0.len())
            .unwrap_or(u32::MAX)
            .saturating_sub(1)
    }

    /// Puts a buffer in its place.
    pub fn set(&mut self, at: u32, buffer: Buffer) {
        if let Some(place) = self.0.get_mut(at as usize) {
            *place = Some(buffer);
        }
    }

    /// All of them.
    #[must_use]
    pub fn take(&mut self) -> Arc<[Buffer]> {
        let empty = || Buffer::from(&[][..]);
        std::mem::take(&mut self.0)
            .into_iter()
            .map(|b| b.unwrap_or_else(empty))
            .collect()
    }
}

/// Offsets and gathered bytes.
#[derive(Debug)]
pub struct Gathered {
    offsets: Block,
    data: Block,
    rows: usize,
    used: usize,
    nulls: NullBufferBuilder,
}

impl Gathered {
    /// An empty column, in blocks of about these sizes to begin with.
    #[must_use]
    pub fn new(rows: usize, bytes: usize) -> Self {
        let offsets = rows.saturating_add(1).saturating_mul(4);
        Self::in_blocks(Block::new(offsets), Block::new(bytes.saturating_add(SLACK)))
    }

    fn in_blocks(offsets: Block, data: Block) -> Self {
        Self {
            offsets,
            data,
            rows: 0,
            used: 0,
            nulls: NullBufferBuilder::new(0),
        }
    }

    /// Rows so far.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
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

    /// The first row begins at the first byte.
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
    pub fn append(&mut self, slots: &[RecordSlot], source: &[u8], part: Part) -> Result<()> {
        match part {
            Part::Key => self.append_by(slots, source, |slot| (slot.key_start, slot.key_len)),
            Part::Value => self.append_by(slots, source, |slot| (slot.value_start, slot.value_len)),
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
        self.reserve(slots.len(), usize::try_from(total).unwrap_or(usize::MAX))?;
        let words = Words::new(source);
        let data = self.data.values::<u8>();
        let ends = self
            .offsets
            .values::<i32>()
            .get_mut(self.rows.wrapping_add(1)..)
            .unwrap_or_default();
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
            // A batch is bound to i32 before its rows come here (`columns`).
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
    pub fn repeat(&mut self, bytes: Option<&[u8]>, times: usize) -> Result<()> {
        let value = bytes.unwrap_or_default();
        let total = value.len().saturating_mul(times);
        self.reserve(times, total)?;
        let end = self.used.saturating_add(total);
        let room = self.data.values().get_mut(self.used..end);
        fill(room.unwrap_or_default(), value);
        let step = i32::try_from(value.len()).unwrap_or(i32::MAX);
        let mut at = i32::try_from(self.used).unwrap_or(i32::MAX);
        let ends = self.offsets.values::<i32>().iter_mut();
        for end in ends.skip(self.rows.wrapping_add(1)).take(times) {
            at = at.saturating_add(step);
            *end = at;
        }
        self.used = end;
        self.rows = self.rows.saturating_add(times);
        match bytes {
            Some(_) => self.nulls.append_n_non_nulls(times),
            None => self.nulls.append_n_nulls(times),
        }
        Ok(())
    }

    /// The column so far as an array; begins the next one in blocks of the size this one came to.
    #[must_use]
    pub fn finish(&mut self, kind: Kind) -> ArrayRef {
        self.begin();
        let (rows, used) = (self.rows, self.used);
        let offsets_used = rows.saturating_add(1).saturating_mul(4);
        let next = Self::in_blocks(self.offsets.next(offsets_used), self.data.next(used));
        let done = std::mem::replace(self, next);
        let offsets =
            ScalarBuffer::<i32>::new(done.offsets.freeze(offsets_used), 0, rows.saturating_add(1));
        let offsets = trusted::offsets(offsets);
        let data = done.data.freeze(used);
        let nulls = { done.nulls }.finish();
        match kind {
            Kind::Binary => Arc::new(BinaryArray::new(offsets, data, nulls)),
            Kind::Text => Arc::new(StringArray::new(offsets, data, nulls)),
        }
    }
}

/// Appends which of the payloads are there; `any` is their lengths or'ed, negative where one is null.
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

/// Repeats `value` to the end of `to`, twice as much each time: a call for a few bytes costs more than they do.
fn fill(to: &mut [u8], value: &[u8]) {
    let mut done = value.len().min(to.len());
    to.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
    while done > 0 && done < to.len() {
        let more = done.min(to.len().wrapping_sub(done));
        to.copy_within(..more, done);
        done = done.wrapping_add(more);
    }
}

/// Writes `N` bytes, of which what is too much is overwritten by the next payload. `None`: no room, which [`SLACK`]
/// rules out.
#[inline]
fn put<const N: usize>(to: &mut [u8], at: usize, bytes: &[u8; N]) -> Option<()> {
    const { assert!(N <= SLACK, "there is room for so much") };
    *to.get_mut(at..)?.first_chunk_mut()? = *bytes;
    Some(())
}

/// Copies `len` bytes; of a fixed size where it can, as a call for a few lines costs more than they do. `None`: out of
/// bounds.
#[inline]
fn copy(to: &mut [u8], at: usize, from: Words<'_>, start: usize, len: usize) -> Option<()> {
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
    use super::super::views::Views;
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

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
            .map(|s| Part::Value.bytes(*s, &source).map(<[u8]>::to_vec))
            .collect();
        let mut gathered = Gathered::new(1, 1);
        let mut views = Views::new(1);
        let mut sources = Sources::default();
        let buffer = sources.reserve();
        for piece in slots.chunks(5) {
            gathered.append(piece, &source, Part::Value).unwrap();
            views.append(piece, &source, buffer, Part::Value).unwrap();
        }
        sources.set(buffer, Buffer::from(source.clone()));
        let gathered = gathered.finish(Kind::Binary);
        let views = views.finish(Kind::Binary, &sources.take());
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
                    .append(&[bad], &[1, 2, 3], Part::Value)
                    .is_err()
            );
            assert!(
                Views::new(1)
                    .append(&[bad], &[1, 2, 3], 0, Part::Value)
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
        let array = gathered.finish(Kind::Text);
        let values: Vec<_> = array.as_string::<i32>().iter().collect();
        assert_eq!(
            values,
            [Some("topic"), Some("topic"), Some("topic"), None, Some("")]
        );
        assert_eq!(gathered.rows(), 0);
    }
}
