//! Columns of byte strings: gathered once, or as views into their source.
//!
//! `binary`: 32-bit offsets and one run of bytes. `binary_view`: 16 bytes a row,
//!
//! | at | size | up to 12 bytes | longer |
//! |---|---|---|---|
//! | 0 | 4 | length | length |
//! | 4 | 4 | the bytes, zero padded | their first four |
//! | 8 | 4 | | which data buffer |
//! | 12 | 4 | | where in it |

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StringArray};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, ScalarBuffer};

use super::pool::Block;
use super::trusted;
use crate::error::{Error, Result};
use crate::io::words::Words;
use crate::records::RecordSlot;

/// Longest string that a view holds itself.
const INLINE: u32 = 12;
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
    fn reserve(&mut self, rows: usize, bytes: usize) {
        self.offsets.grow(
            self.rows
                .saturating_add(rows)
                .saturating_add(1)
                .saturating_mul(4),
        );
        self.data
            .grow(self.used.saturating_add(bytes).saturating_add(SLACK));
        if self.rows == 0
            && let Some(first) = self.offsets.values::<i32>().first_mut()
        {
            *first = 0;
        }
    }

    /// Appends one payload of each record.
    ///
    /// # Errors
    /// `InvalidRecord` for a slot that points outside the source (a fault of ours, not of the data).
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
        self.reserve(slots.len(), usize::try_from(total).unwrap_or(usize::MAX));
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
        if any < 0 {
            for slot in slots {
                self.nulls.append(part(slot).1 >= 0);
            }
        } else {
            self.nulls.append_n_non_nulls(slots.len());
        }
        Ok(())
    }

    /// Appends the same bytes, or null, `times` times.
    pub fn repeat(&mut self, bytes: Option<&[u8]>, times: usize) {
        let value = bytes.unwrap_or_default();
        let total = value.len().saturating_mul(times);
        self.reserve(times, total);
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
    }

    /// The column so far as an array; begins the next one in blocks of the size this one came to.
    #[must_use]
    pub fn finish(&mut self, kind: Kind) -> ArrayRef {
        self.reserve(0, 0);
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

/// Views into [`Sources`].
#[derive(Debug)]
pub struct Views {
    words: Block,
    rows: usize,
    nulls: NullBufferBuilder,
    /// Since this was last asked.
    points: bool,
    has_pointed: bool,
}

impl Views {
    /// An empty column, in a block for about so many rows to begin with.
    #[must_use]
    pub fn new(rows: usize) -> Self {
        Self::in_block(Block::new(rows.saturating_mul(16)))
    }

    fn in_block(words: Block) -> Self {
        Self {
            words,
            rows: 0,
            nulls: NullBufferBuilder::new(0),
            points: false,
            has_pointed: false,
        }
    }

    /// Appends a view of one payload of each record; `buffer` is where `source` is or will be among the [`Sources`].
    ///
    /// # Errors
    /// `InvalidRecord` for a slot that points outside the source (a fault of ours, not of the data).
    pub fn append(
        &mut self,
        slots: &[RecordSlot],
        source: &[u8],
        buffer: u32,
        part: Part,
    ) -> Result<()> {
        match part {
            Part::Key => {
                self.append_by(slots, source, buffer, |slot| (slot.key_start, slot.key_len))
            }
            Part::Value => self.append_by(slots, source, buffer, |slot| {
                (slot.value_start, slot.value_len)
            }),
        }
    }

    #[inline]
    fn append_by(
        &mut self,
        slots: &[RecordSlot],
        source: &[u8],
        buffer: u32,
        part: impl Fn(&RecordSlot) -> (u32, i32),
    ) -> Result<()> {
        self.words
            .grow(self.rows.saturating_add(slots.len()).saturating_mul(16));
        let places = self
            .words
            .values::<[u64; 2]>()
            .get_mut(self.rows..)
            .unwrap_or_default();
        let words = Words::new(source);
        let mut any = 0i32;
        let mut longest = 0u32;
        for (slot, place) in slots.iter().zip(places) {
            let (start, len) = part(slot);
            any |= len;
            let len = len.max(0).unsigned_abs();
            longest = longest.max(len);
            *place = match words.window::<16>(start as usize) {
                Some(bytes) if len <= INLINE => inline_view(bytes, len),
                Some(bytes) if (start as usize).wrapping_add(len as usize) <= source.len() => [
                    u64::from(len) | halves(bytes).0 << 32,
                    u64::from(buffer) | u64::from(start) << 32,
                ],
                _ => view(source, start as usize, len, buffer)?,
            };
        }
        self.rows = self.rows.wrapping_add(slots.len());
        self.points |= longest > INLINE;
        if any < 0 {
            for slot in slots {
                self.nulls.append(part(slot).1 >= 0);
            }
        } else {
            self.nulls.append_n_non_nulls(slots.len());
        }
        Ok(())
    }

    /// Whether a view since the last time this was asked may point into a source instead of holding its bytes.
    pub fn take_points(&mut self) -> bool {
        let points = std::mem::take(&mut self.points);
        self.has_pointed |= points;
        points
    }

    /// Appends the same view, or null, `times` times; the bytes are at `start` of `source`.
    ///
    /// # Errors
    /// As [`Views::append`].
    pub fn repeat(
        &mut self,
        at: Option<(usize, u32)>,
        source: &[u8],
        buffer: u32,
        times: usize,
    ) -> Result<()> {
        let (start, len) = at.unwrap_or_default();
        let value = view(source, start, len, buffer)?;
        self.points |= len > INLINE;
        self.words
            .grow(self.rows.saturating_add(times).saturating_mul(16));
        for place in self
            .words
            .values::<[u64; 2]>()
            .iter_mut()
            .skip(self.rows)
            .take(times)
        {
            *place = value;
        }
        self.rows = self.rows.saturating_add(times);
        match at {
            Some(_) => self.nulls.append_n_non_nulls(times),
            None => self.nulls.append_n_nulls(times),
        }
        Ok(())
    }

    /// The column so far as an array; begins the next one in a block of the size this one came to.
    #[must_use]
    pub fn finish(&mut self, kind: Kind, sources: &Arc<[Buffer]>) -> ArrayRef {
        let rows = self.rows;
        let used = rows.saturating_mul(16);
        self.words.grow(1);
        let next = Self::in_block(self.words.next(used));
        let mut done = std::mem::replace(self, next);
        done.take_points();
        // Whoever takes the column over looks at each of its buffers.
        let sources = if done.has_pointed {
            Arc::clone(sources)
        } else {
            Arc::default()
        };
        let views = ScalarBuffer::<u128>::new(done.words.freeze(used), 0, rows);
        let nulls: Option<NullBuffer> = { done.nulls }.finish();
        trusted::view_array(views, sources, nulls, kind == Kind::Text)
    }
}

/// What a view of so many bytes keeps of the four that share a word with the length, there, and of the eight behind.
const MASKS: [[u64; 2]; 16] = {
    let mut masks = [[0; 2]; 16];
    let mut rest: &mut [[u64; 2]] = &mut masks;
    let mut mask = [0u64; 2];
    while let Some((first, others)) = rest.split_first_mut() {
        *first = mask;
        mask = [(mask[0] << 8) | (0xff << 32), mask[1] << 8 | mask[0] >> 56];
        rest = others;
    }
    masks
};

/// The first four bytes and the eight behind them, the first ones lowest.
#[inline(always)]
#[expect(clippy::inline_always, reason = "two loads")]
#[expect(
    clippy::little_endian_bytes,
    reason = "a view is made of little-endian words, whose bytes stay as they are"
)]
fn halves(bytes: &[u8; 16]) -> (u64, u64) {
    let (head, rest) = bytes.split_first_chunk().unwrap_or((&[0; 4], &[]));
    let tail = rest.first_chunk().unwrap_or(&[0; 8]);
    (
        u64::from(u32::from_le_bytes(*head)),
        u64::from_le_bytes(*tail),
    )
}

/// The view of the first `len` of these bytes, at most twelve.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the view loop is this")]
fn inline_view(bytes: &[u8; 16], len: u32) -> [u64; 2] {
    let [keep_head, keep_tail] = MASKS.get(len as usize & 15).copied().unwrap_or_default();
    let (head, tail) = halves(bytes);
    [u64::from(len) | head << 32 & keep_head, tail & keep_tail]
}

/// The view of `len` bytes at `start`, also where fewer than sixteen are left.
#[cold]
#[inline(never)]
fn view(source: &[u8], start: usize, len: u32, buffer: u32) -> Result<[u64; 2]> {
    let bytes = start
        .checked_add(len as usize)
        .and_then(|end| source.get(start..end));
    let bytes = bytes
        .ok_or_else(|| Error::invalid("payload", start as u64, "bytes within the batch", len))?;
    let mut padded = [0u8; 16];
    padded
        .iter_mut()
        .zip(bytes)
        .for_each(|(to, from)| *to = *from);
    if len <= INLINE {
        return Ok(inline_view(&padded, len));
    }
    let at = u32::try_from(start)
        .map_err(|_| Error::invalid("payload", start as u64, "a place of 32 bits", start))?;
    Ok([
        u64::from(len) | halves(&padded).0 << 32,
        u64::from(buffer) | u64::from(at) << 32,
    ])
}

#[cfg(test)]
mod tests {
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
        gathered.repeat(Some(b"topic"), 3);
        gathered.repeat(None, 1);
        gathered.repeat(Some(b""), 1);
        let array = gathered.finish(Kind::Text);
        let values: Vec<_> = array.as_string::<i32>().iter().collect();
        assert_eq!(
            values,
            [Some("topic"), Some("topic"), Some("topic"), None, Some("")]
        );
        assert_eq!(gathered.rows(), 0);
    }
}
