//! Columns of byte strings as views into their source: 16 bytes a row,
//!
//! | at | size | up to 12 bytes | longer |
//! |---|---|---|---|
//! | 0 | 4 | length | length |
//! | 4 | 4 | the bytes, zero padded | their first four |
//! | 8 | 4 | | number of the data buffer |
//! | 12 | 4 | | position in it |
//!
//! Arrow's check of every view costs as much as making it, so arrays are built without it. Every view is written here,
//! from [`sources`](super::sources) that keep their guarantees; a column of text accepts only text.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: arrays of views that are right by construction"
)]

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryViewArray, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, ScalarBuffer};

use super::payload::{PayloadPart, append_validity};
use super::pool::PooledBlock;
use super::sources::{BatchId, DataBuffers, INLINE, SourceBytes, SourceText};
use crate::error::{Error, Result};
use crate::io::unaligned::Unaligned;
use crate::records::RecordSlot;

/// So many short payloads in a row are compared at once: if all have one length, they are written in one way.
const ALIKE: usize = 64;

/// A column of views being built.
#[derive(Debug)]
pub(crate) struct Views {
    words: PooledBlock,
    rows: usize,
    nulls: NullBufferBuilder,
    /// The batch of the sources; `None` before the first row with bytes.
    batch: Option<BatchId>,
    /// The numbers of the sources that views point into.
    pointed: Vec<u32>,
}

/// Buffers of a column of views.
struct ViewParts {
    views: ScalarBuffer<u128>,
    buffers: Arc<[Buffer]>,
    nulls: Option<NullBuffer>,
}

impl Views {
    /// An empty column; its first block has room for about `rows` rows.
    #[must_use]
    pub(crate) fn new(rows: usize) -> Self {
        Self::in_block(PooledBlock::new(rows.saturating_mul(16)))
    }

    fn in_block(words: PooledBlock) -> Self {
        Self {
            words,
            rows: 0,
            nulls: NullBufferBuilder::new(0),
            batch: None,
            pointed: Vec::new(),
        }
    }

    /// Appends a view of one payload of each record, whose slots count from `source`. Returns whether any of them
    /// points into it: then it must be kept ([`Sources::point`](super::sources::Sources::point)).
    ///
    /// # Errors
    /// `InvalidRecord` for a slot that points outside the source (a fault of ours, not of the data); `Internal` for a
    /// source of another batch.
    pub(crate) fn append(
        &mut self,
        slots: &[RecordSlot],
        source: SourceBytes<'_>,
        part: PayloadPart,
    ) -> Result<bool> {
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
        source: SourceBytes<'_>,
        part: impl Fn(&RecordSlot) -> (u32, i32),
    ) -> Result<bool> {
        let places = place(&mut self.words, self.rows, slots.len())?;
        self.batch = of_batch(self.batch, source)?;
        let (source, buffer) = (source.as_slice(), source.number());
        let words = Unaligned::new(source);
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
                let end = u64::from(start).wrapping_add(u64::from(len));
                *place = match words.window::<16>(start as usize) {
                    Some(bytes) if len <= INLINE => inline_view(bytes, len, kept_inline(len)),
                    Some(bytes) if end <= source.len() as u64 => [
                        u64::from(len) | halves(bytes).0 << 32,
                        u64::from(buffer) | u64::from(start) << 32,
                    ],
                    _ => view(source, start as usize, len, buffer)?,
                };
            }
        }
        self.rows = self.rows.wrapping_add(slots.len());
        append_validity(&mut self.nulls, slots, any, part);
        let points = longest > INLINE;
        if points {
            self.point(buffer);
        }
        Ok(points)
    }

    fn point(&mut self, number: u32) {
        if self.pointed.last() != Some(&number) {
            self.pointed.push(number);
        }
    }

    /// Appends a view of `len` bytes at `start` of a source, `times` times; returns what [`Views::append`] does.
    ///
    /// # Errors
    /// As [`Views::append`]; `OutOfMemory`.
    pub(crate) fn push(
        &mut self,
        source: SourceBytes<'_>,
        (start, len): (usize, u32),
        times: usize,
    ) -> Result<bool> {
        let batch = of_batch(self.batch, source)?;
        let value = view(source.as_slice(), start, len, source.number())?;
        self.repeat(value, times)?;
        self.batch = batch;
        self.nulls.append_n_non_nulls(times);
        let points = len > INLINE && times > 0;
        if points {
            self.point(source.number());
        }
        Ok(points)
    }

    /// Appends nulls.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn push_nulls(&mut self, times: usize) -> Result<()> {
        self.repeat([0; 2], times)?;
        self.nulls.append_n_nulls(times);
        Ok(())
    }

    /// Drops all rows but the first `rows`. The batch keeps the buffers of the others.
    pub(super) fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
        self.nulls.truncate(self.rows);
    }

    fn repeat(&mut self, value: [u64; 2], times: usize) -> Result<()> {
        let end = self.rows.saturating_add(times);
        self.words.try_grow(end.saturating_mul(16))?;
        place(&mut self.words, self.rows, times)?.fill(value);
        self.rows = end;
        Ok(())
    }

    /// The column so far, over the buffers of its batch; begins the next one in a block of the size this one reached.
    ///
    /// # Errors
    /// `Internal` for the buffers of another batch, or without one that a view points into.
    pub(crate) fn finish(&mut self, sources: &DataBuffers) -> Result<ArrayRef> {
        let ViewParts {
            views,
            buffers,
            nulls,
        } = self.take(sources)?;
        // SAFETY: `append` and `push` wrote each view from a slice of its source, so that length, prefix and position
        // are right; `take` saw that the buffer of every number is that source.
        Ok(Arc::new(unsafe {
            BinaryViewArray::new_unchecked(views, buffers, nulls)
        }))
    }

    fn take(&mut self, sources: &DataBuffers) -> Result<ViewParts> {
        let rows = self.rows;
        let used = rows.saturating_mul(16);
        self.words.grow(1);
        let next = Self::in_block(self.words.next(used));
        let done = std::mem::replace(self, next);
        let has = |number: &u32| sources.has(*number);
        if !done.pointed.is_empty()
            && (done.batch != Some(sources.batch()) || !done.pointed.iter().all(has))
        {
            return Err(Error::internal("views without the bytes they point into"));
        }
        // Consumers look at each buffer of a column, so one that points nowhere gets none.
        let buffers = if done.pointed.is_empty() {
            Arc::default()
        } else {
            Arc::clone(sources.buffers())
        };
        Ok(ViewParts {
            views: ScalarBuffer::new(done.words.freeze(used), 0, rows),
            buffers,
            nulls: { done.nulls }.finish(),
        })
    }
}

/// A column of text as views.
#[derive(Debug)]
pub(crate) struct TextViews(Views);

impl TextViews {
    /// As [`Views::new`].
    #[must_use]
    pub(crate) fn new(rows: usize) -> Self {
        Self(Views::new(rows))
    }

    /// Appends some text `times` times; returns what [`Views::append`] does.
    ///
    /// # Errors
    /// As [`Views::push`].
    pub(crate) fn push(&mut self, text: SourceText<'_>, times: usize) -> Result<bool> {
        let len = u32::try_from(text.len())
            .map_err(|e| Error::internal(format_args!("a text of {} bytes: {e}", text.len())))?;
        self.0.push(text.source(), (text.start(), len), times)
    }

    /// Appends nulls.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn push_nulls(&mut self, times: usize) -> Result<()> {
        self.0.push_nulls(times)
    }

    /// As [`Views::truncate`].
    pub(super) fn truncate(&mut self, rows: usize) {
        self.0.truncate(rows);
    }

    /// As [`Views::finish`].
    ///
    /// # Errors
    /// As [`Views::finish`].
    pub(crate) fn finish(&mut self, sources: &DataBuffers) -> Result<ArrayRef> {
        let ViewParts {
            views,
            buffers,
            nulls,
        } = self.0.take(sources)?;
        // SAFETY: as in `Views::finish`; every view is of a `SourceText`, which is UTF-8.
        Ok(Arc::new(unsafe {
            StringViewArray::new_unchecked(views, buffers, nulls)
        }))
    }
}

/// The batch that views belong to once they have seen this source.
fn of_batch(batch: Option<BatchId>, source: SourceBytes<'_>) -> Result<Option<BatchId>> {
    match batch {
        Some(batch) if batch != source.batch() => {
            Err(Error::internal("a view of another batch's bytes"))
        }
        _ => Ok(Some(source.batch())),
    }
}

/// Places for `more` views after the first `rows`.
#[inline]
fn place(words: &mut PooledBlock, rows: usize, more: usize) -> Result<&mut [[u64; 2]]> {
    let end = rows.saturating_add(more);
    words.grow(end.saturating_mul(16));
    let places = words.values::<[u64; 2]>().get_mut(rows..end);
    places.ok_or_else(|| Error::internal("a block did not grow"))
}

/// Masks for a view of so many bytes: of the four bytes that share a word with the length, and of the eight after them.
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

/// The first four bytes and the eight after them, the first ones lowest.
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

/// Mask of the given bytes that a view of `len` bytes keeps.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the view loop is this")]
fn kept_inline(len: u32) -> [u64; 2] {
    MASKS.get(len as usize & 15).copied().unwrap_or_default()
}

/// The view of the first `len` of these bytes, at most twelve; the masks say which those are.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the view loop is this")]
fn inline_view(bytes: &[u8; 16], len: u32, [keep_head, keep_tail]: [u64; 2]) -> [u64; 2] {
    let (head, tail) = halves(bytes);
    [u64::from(len) | head << 32 & keep_head, tail & keep_tail]
}

/// The view of `len` bytes at `start`, even if fewer than sixteen bytes follow.
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
mod tests;
