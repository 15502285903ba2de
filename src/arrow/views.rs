//! Columns of byte strings as views into their source: 16 bytes a row,
//!
//! | at | size | up to 12 bytes | longer |
//! |---|---|---|---|
//! | 0 | 4 | length | length |
//! | 4 | 4 | the bytes, zero padded | their first four |
//! | 8 | 4 | | which data buffer |
//! | 12 | 4 | | where in it |

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, ScalarBuffer};

use super::payload::{Kind, Part, append_validity};
use super::pool::Block;
use super::trusted;
use crate::error::{Error, Result};
use crate::io::words::Words;
use crate::records::RecordSlot;

/// Longest string that a view holds itself.
const INLINE: u32 = 12;
/// So many short payloads in a row are looked at together: where all are of one length, they are kept in one way.
const ALIKE: usize = 64;

/// Views into [`Sources`](super::payload::Sources).
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

    /// Appends a view of one payload of each record; `buffer` is where `source` is or will be among them.
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
        for (slots, places) in slots.chunks(ALIKE).zip(places.chunks_mut(ALIKE)) {
            let first = slots.first().map_or(0, |slot| part(slot).1);
            if let Ok(len @ ..=INLINE) = u32::try_from(first)
                && slots
                    .iter()
                    .fold(0, |differ, slot| differ | part(slot).1 ^ first)
                    == 0
            {
                let keep = kept_inline(len);
                for (slot, place) in slots.iter().zip(places) {
                    let start = part(slot).0 as usize;
                    *place = match words.window::<16>(start) {
                        Some(bytes) => inline_view(bytes, len, keep),
                        None => view(source, start, len, buffer)?,
                    };
                }
                continue;
            }
            for (slot, place) in slots.iter().zip(places) {
                let (start, len) = part(slot);
                any |= len;
                let len = len.max(0).unsigned_abs();
                longest = longest.max(len);
                *place = match words.window::<16>(start as usize) {
                    Some(bytes) if len <= INLINE => inline_view(bytes, len, kept_inline(len)),
                    Some(bytes) if (start as usize).wrapping_add(len as usize) <= source.len() => [
                        u64::from(len) | halves(bytes).0 << 32,
                        u64::from(buffer) | u64::from(start) << 32,
                    ],
                    _ => view(source, start as usize, len, buffer)?,
                };
            }
        }
        self.rows = self.rows.wrapping_add(slots.len());
        self.points |= longest > INLINE;
        append_validity(&mut self.nulls, slots, any, part);
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
            .try_grow(self.rows.saturating_add(times).saturating_mul(16))?;
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

/// What a view that holds `len` bytes keeps of those at hand.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the view loop is this")]
fn kept_inline(len: u32) -> [u64; 2] {
    MASKS.get(len as usize & 15).copied().unwrap_or_default()
}

/// The view of the first `len` of these bytes, at most twelve, which are those that it keeps.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the view loop is this")]
fn inline_view(bytes: &[u8; 16], len: u32, [keep_head, keep_tail]: [u64; 2]) -> [u64; 2] {
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
        return Ok(inline_view(&padded, len, kept_inline(len)));
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
    use super::super::payload::Sources;
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    /// All of one length but one, wherever that is, and up to the source's end, where no sixteen bytes are left.
    #[test]
    fn short_payloads_of_one_length() {
        let source: Vec<u8> = (0..=255).collect();
        for len in 0..14i32 {
            for (odd_at, odd) in [(300, 0), (0, -1), (3, len + 1), (63, -1), (64, 0), (99, 13)] {
                let slots: Vec<_> = (0..100i32)
                    .map(|n| {
                        let len = if n == odd_at { odd } else { len };
                        RecordSlot {
                            key_start: (n * 7).min(256 - len.max(0)).unsigned_abs(),
                            key_len: len,
                            ..RecordSlot::default()
                        }
                    })
                    .collect();
                let mut views = Views::new(1);
                let mut sources = Sources::default();
                let buffer = sources.reserve();
                views.append(&slots, &source, buffer, Part::Key).unwrap();
                sources.set(buffer, Buffer::from(source.clone()));
                let views = views.finish(Kind::Binary, &sources.take());
                views.to_data().validate_full().unwrap();
                let expected = slots.iter().map(|slot| Part::Key.bytes(*slot, &source));
                assert!(views.as_binary_view().iter().eq(expected), "{len}, {odd}");
            }
        }
    }
}
