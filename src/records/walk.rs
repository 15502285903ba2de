//! The fast decoder of magic 2 records (KIP-98): from the records of one batch to [`RecordSlot`]s.
//!
//! | field | type | |
//! |---|---|---|
//! | length | varint | bytes after this field |
//! | attributes | i8 | unused |
//! | timestamp delta | varlong | |
//! | offset delta | varint | |
//! | key length, key | varint, bytes | negative: null |
//! | value length, value | varint, bytes | negative: null |
//! | headers | varint count, then key length, key, value length, value of each | |
//!
//! A record is bound by a chain of loads (its length says where the next one is), so common shapes have specialized
//! loops: one 8-byte load holds all numbers but the value's length, and one comparison of its continuation bits shows
//! that they are as wide as the loop expects. Everything else is decoded field by field (`RecordDecoder::careful`),
//! which is also the only place that reports faults. `records::plain` is the oracle for both.

mod uniform;

use self::uniform::UniformShape;
use super::RecordSlot;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::format::varint::{get_varint, get_varlong, unzigzag32};
use crate::io::unaligned::Unaligned;
use crate::types::{Offset, TimestampMs};

/// Decoder of a batch's records that stops and resumes at any record.
#[derive(Clone, Debug)]
pub struct RecordDecoder {
    at: usize,
    end: usize,
    remaining: u32,
    base_offset: Offset,
    base_timestamp: TimestampMs,
    /// LogAppendTime: every record has the batch's.
    append_timestamp: Option<TimestampMs>,
}

impl RecordDecoder {
    /// Records of a batch with this header, at `start..end` of the source that [`RecordDecoder::step`] will be given.
    #[inline]
    #[must_use]
    pub fn new(header: &BatchHeader, start: usize, end: usize) -> Self {
        Self {
            at: start,
            end,
            remaining: header.records_count.map_or(0, i32::unsigned_abs),
            base_offset: header.base_offset,
            base_timestamp: header.base_timestamp,
            append_timestamp: header
                .attributes
                .is_log_append_time()
                .then_some(header.max_timestamp),
        }
    }

    /// Records still to come.
    #[inline]
    #[must_use]
    pub const fn remaining(&self) -> u32 {
        self.remaining
    }

    /// Position of the next record in the source.
    #[inline]
    #[must_use]
    pub const fn position(&self) -> usize {
        self.at
    }

    /// Decodes records into `out` until it is full or the batch is done; returns how many. Bytes of `source` after
    /// the records may be examined, never used.
    ///
    /// # Errors
    /// `InvalidRecord` as Kafka's `DefaultRecord.readFrom` and `DefaultRecordBatch.iterator` have it; positions are
    /// relative to `source`.
    pub fn step(&mut self, source: &[u8], out: &mut [RecordSlot]) -> Result<usize> {
        let Some(records) = source
            .get(..self.end)
            .filter(|_| u32::try_from(self.end).is_ok())
        else {
            return Err(Error::invalid(
                "records",
                self.at as u64,
                format_args!("{} bytes", self.end),
                source.len(),
            ));
        };
        let words = Unaligned::new(source);
        let wanted = usize::try_from(self.remaining)
            .unwrap_or(usize::MAX)
            .min(out.len());
        let mut done = 0usize;
        while let Some(slots) = out.get_mut(done..wanted)
            && !slots.is_empty()
        {
            // Deltas grow, so a batch goes through few shapes; each has its own loop.
            let n = match words.eight(self.at).map_or((0, 0, 0), shape) {
                (1, 1, 1) => self.run_keyed::<1, 1, 1>(words, slots),
                (1, 1, 2) => self.run_keyed::<1, 1, 2>(words, slots),
                (1, 1, 3) => self.run_keyed::<1, 1, 3>(words, slots),
                (1, 2, 1) => self.run_keyed::<1, 2, 1>(words, slots),
                (1, 2, 2) => self.run_keyed::<1, 2, 2>(words, slots),
                (1, 2, 3) => self.run_keyed::<1, 2, 3>(words, slots),
                (1, 3, 1) => self.run_keyed::<1, 3, 1>(words, slots),
                (1, 3, 2) => self.run_keyed::<1, 3, 2>(words, slots),
                (1, 3, 3) => self.run_keyed::<1, 3, 3>(words, slots),
                (2, 1, 1) => self.run_keyed::<2, 1, 1>(words, slots),
                (2, 1, 2) => self.run_keyed::<2, 1, 2>(words, slots),
                (2, 1, 3) => self.run_keyed::<2, 1, 3>(words, slots),
                (2, 2, 1) => self.run_keyed::<2, 2, 1>(words, slots),
                (2, 2, 2) => self.run_keyed::<2, 2, 2>(words, slots),
                (2, 2, 3) => self.run_keyed::<2, 2, 3>(words, slots),
                (2, 3, 1) => self.run_keyed::<2, 3, 1>(words, slots),
                (2, 3, 2) => self.run_keyed::<2, 3, 2>(words, slots),
                (2, 3, 3) => self.run_keyed::<2, 3, 3>(words, slots),
                _ => 0,
            };
            if let Some(timestamp) = self.append_timestamp {
                slots
                    .iter_mut()
                    .take(n)
                    .for_each(|slot| slot.timestamp = timestamp);
            }
            done = done.wrapping_add(n);
            if n == 0
                && let Some(slot) = slots.first_mut()
            {
                self.at = self.careful(records, slot)?;
                done = done.wrapping_add(1);
            }
        }
        self.remaining = self
            .remaining
            .wrapping_sub(u32::try_from(done).unwrap_or_default());
        if self.remaining == 0 && self.at != self.end {
            let left = self.end.saturating_sub(self.at);
            return Err(Error::invalid(
                "records",
                self.at as u64,
                "no bytes after the last record",
                left,
            ));
        }
        Ok(done)
    }

    /// [`RecordDecoder::run`] for records with or without a key, by the first one's.
    #[inline]
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "sums of the shape's constants, at most 8"
    )]
    fn run_keyed<const L: usize, const T: usize, const O: usize>(
        &mut self,
        words: Unaligned<'_>,
        slots: &mut [RecordSlot],
    ) -> usize {
        if words.byte(self.at.wrapping_add(L + 1 + T + O)) == Some(NULL) {
            self.run::<L, T, O, false>(words, slots)
        } else {
            self.run::<L, T, O, true>(words, slots)
        }
    }

    /// Records whose length, timestamp delta and offset delta take `L`, `T` and `O` bytes, whose key is null or has a
    /// length of one byte, whose value is not null, and that have no headers; stops before the first one that is not
    /// so. Timestamps are those of CreateTime.
    #[inline]
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "sums of the shape's constants, at most 8"
    )]
    fn run<const L: usize, const T: usize, const O: usize, const KEYED: bool>(
        &mut self,
        words: Unaligned<'_>,
        mut slots: &mut [RecordSlot],
    ) -> usize {
        let shape = const { RecordPrefix::of(L, T, O, KEYED) };
        let (mut at, end) = (self.at, self.end);
        let base = (self.base_offset, self.base_timestamp);
        let mut done = 0usize;
        let mut size = 0usize;
        while let Some((slot, after)) = slots.split_first_mut() {
            let Some(window) = words.window::<WINDOW>(at) else {
                break;
            };
            let length = window.first_chunk().map_or(0, four);
            let head = window.get(shape.skipped..).and_then(<[u8]>::first_chunk);
            let head = head.map_or(0, eight);
            if head & shape.fixed.0 != shape.fixed.1
                || shape.skipped > 0 && length & shape.length.0 != shape.length.1
            {
                break;
            }
            let key_len = if KEYED {
                half::<1>(head >> shape.key)
            } else {
                0
            };
            let value_in = (L + 1 + T + O + 1).wrapping_add(key_len as usize);
            let Some(value_word) = window
                .get(value_in..)
                .and_then(<[u8]>::first_chunk)
                .map(four)
            else {
                break;
            };
            let Some((value_len, n)) = short_varint(value_word) else {
                break;
            };
            let key = at.wrapping_add(L + 1 + T + O + 1);
            let value = at.wrapping_add(value_in).wrapping_add(n);
            let record_end = at
                .wrapping_add(L)
                .wrapping_add(half::<L>(length.into()) as usize);
            // No headers: one zero byte, and it is the record's last. Doubled, as the length is, so that a null value,
            // whose length is odd, is none of this loop's either.
            if value.wrapping_mul(2).wrapping_add(value_len as usize)
                != record_end.wrapping_sub(1).wrapping_mul(2)
                || record_end > end
                || words.byte(record_end.wrapping_sub(1)) != Some(0)
            {
                break;
            }
            let timestamp_delta = unzigzag32(group::<T>(head >> shape.time));
            let offset_delta = half::<O>(head >> shape.offset);
            *slot = RecordSlot {
                offset: base.0.wrapping_add(i64::from(offset_delta)),
                timestamp: base.1.wrapping_add(i64::from(timestamp_delta)),
                key_start: narrow(key),
                key_len: if KEYED { signed(key_len) } else { -1 },
                value_start: narrow(value),
                value_len: signed(value_len >> 1),
                headers_start: 0,
                headers_count: 0,
            };
            let last_size = std::mem::replace(&mut size, record_end.wrapping_sub(at));
            at = record_end;
            let mut taken = 1usize;
            if size == last_size {
                let len_mask = match n {
                    1 => 0xff,
                    2 => 0xffff,
                    _ => 0xff_ffff,
                };
                let uniform = UniformShape {
                    size,
                    head: head & shape.same,
                    length,
                    value_len_at: value_in,
                    value_len: (len_mask, value_word & len_mask),
                    slot: *slot,
                    base,
                };
                let records = words.bytes().get(at..end).unwrap_or_default();
                let more = uniform.run::<L, T, O, KEYED>(records, after);
                at = at.wrapping_add(more.wrapping_mul(size));
                taken = taken.wrapping_add(more);
            }
            done = done.wrapping_add(taken);
            slots = slots.get_mut(taken..).unwrap_or_default();
        }
        self.at = at;
        done
    }

    /// One record of any shape, every field checked; `records` ends where the batch's records do.
    #[cold]
    #[inline(never)]
    fn careful(&self, records: &[u8], slot: &mut RecordSlot) -> Result<usize> {
        let start = self.at;
        let cut = |what| {
            Error::invalid(
                what,
                start as u64,
                "a record within the batch",
                "one that runs past its end",
            )
        };
        let mut at = start;
        let length = get_varint(records, &mut at).ok_or_else(|| cut("record length"))?;
        let body = at;
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| body.checked_add(length))
            .filter(|&end| end <= records.len());
        let Some(end) = end else {
            let left = records.len().saturating_sub(body);
            return Err(Error::invalid(
                "record length",
                start as u64,
                format_args!("0 to {left}"),
                length,
            ));
        };
        at = at.saturating_add(1);
        let timestamp_delta =
            get_varlong(records, &mut at).ok_or_else(|| cut("timestamp delta"))?;
        let offset_delta = get_varint(records, &mut at).ok_or_else(|| cut("offset delta"))?;
        let (key_start, key_len) = nullable(records, &mut at).ok_or_else(|| cut("key"))?;
        let (value_start, value_len) = nullable(records, &mut at).ok_or_else(|| cut("value"))?;
        let headers = headers(records, &mut at, cut)?;
        if at != end {
            let found = at.saturating_sub(body);
            return Err(Error::invalid(
                "record",
                start as u64,
                format_args!("{length} bytes"),
                format_args!("{found} by its fields"),
            ));
        }
        *slot = RecordSlot {
            offset: self.base_offset.wrapping_add(i64::from(offset_delta)),
            timestamp: self
                .append_timestamp
                .unwrap_or(self.base_timestamp.wrapping_add(timestamp_delta)),
            key_start: narrow(key_start),
            key_len,
            value_start: narrow(value_start),
            value_len,
            headers_start: narrow(headers.0),
            headers_count: headers.1,
        };
        Ok(end)
    }
}

/// Headers: where the first one begins, and how many there are. `cut` is the fault of what runs past the batch's end.
fn headers(
    records: &[u8],
    at: &mut usize,
    cut: impl Fn(&'static str) -> Error,
) -> Result<(usize, u32)> {
    let count_at = *at;
    let count = get_varint(records, at).ok_or_else(|| cut("header count"))?;
    let left = records.len().saturating_sub(*at);
    let count = u32::try_from(count)
        .ok()
        .filter(|&n| usize::try_from(n).is_ok_and(|n| n <= left))
        .ok_or_else(|| {
            let expected = format_args!("0 to {left}");
            Error::invalid("header count", count_at as u64, expected, count)
        })?;
    let start = *at;
    for _ in 0..count {
        let key_at = *at as u64;
        let (_, len) = nullable(records, at).ok_or_else(|| cut("header key"))?;
        if len < 0 {
            return Err(Error::invalid(
                "header key length",
                key_at,
                "0 or more",
                len,
            ));
        }
        nullable(records, at).ok_or_else(|| cut("header value"))?;
    }
    Ok((start, count))
}

/// A length and that many bytes: where they begin and the length, -1 for null.
fn nullable(records: &[u8], at: &mut usize) -> Option<(usize, i32)> {
    let len = get_varint(records, at)?;
    let start = *at;
    *at = start
        .checked_add(usize::try_from(len.max(0)).ok()?)
        .filter(|&end| end <= records.len())?;
    Some((start, len.max(-1)))
}

/// Bytes in which a head, a key of one length byte and the length of the value lie: one comparison for all of them.
const WINDOW: usize = 8 + 63 + 4 + 5;

/// A length of -1, zig-zag: null.
const NULL: u8 = 1;

/// Guesses the bytes of length, timestamp delta and offset delta of the record that begins with these eight. A wrong
/// guess ends its loop at once, and the record is decoded field by field.
#[inline]
const fn shape(head: u64) -> (usize, usize, usize) {
    // The first record of a batch, the only one of many, at a glance: its deltas are 0.
    if head & 0x80_80_00_80_80 == 0x80 {
        return (2, 1, 1);
    }
    let (l, head) = if head & 0x80 == 0 {
        (1, head >> 16)
    } else {
        (2, head >> 24)
    };
    let (t, head) = if head & 0x80 == 0 {
        (1, head >> 8)
    } else if head & 0x8000 == 0 {
        (2, head >> 16)
    } else {
        (3, head >> 24)
    };
    let o = if head & 0x80 == 0 {
        1
    } else if head & 0x8000 == 0 {
        2
    } else {
        3
    };
    (l, t, o)
}

/// Layout of a record whose length, timestamp delta and offset delta take `l`, `t` and `o` bytes.
///
/// | word | bytes |
/// |---|---|
/// | length | four from the record's first one |
/// | head | eight from `skipped`: attributes, deltas and the key's length; the record's length too where there is room |
#[derive(Clone, Copy)]
struct RecordPrefix {
    skipped: usize,
    /// Shifts of the fields in the head, in bits.
    time: usize,
    offset: usize,
    key: usize,
    /// Mask and value of the bits that are the same in every record of the shape, in the head and in the length.
    fixed: (u64, u64),
    length: (u32, u32),
    /// Those of the head that are the same in all records of one size: all but the deltas'.
    same: u64,
}

impl RecordPrefix {
    #[expect(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        reason = "evaluated at compile time"
    )]
    const fn of(l: usize, t: usize, o: usize, keyed: bool) -> Self {
        /// `n` bytes that begin at byte `at`: all but the last continue.
        const fn varint(at: usize, n: usize) -> (u64, u64) {
            let (mut mask, mut set) = (0, 0);
            let mut i = 0;
            while i < n {
                let bit = 0x80 << (8 * (at + i));
                mask |= bit;
                if i + 1 < n {
                    set |= bit;
                }
                i += 1;
            }
            (mask, set)
        }
        assert!(
            1 + t + o < 8,
            "attributes, deltas and a key length fit a word"
        );
        // A length is not negative: its sign bit is the lowest.
        let length = varint(0, l);
        let length = (length.0 | 1, length.1);
        let skipped = if l + 1 + t + o < 8 { 0 } else { l };
        let time_at = l + 1 - skipped;
        let (offset_at, key_at) = (time_at + t, time_at + t + o);
        let (time, offset) = (varint(time_at, t), varint(offset_at, o));
        let key = if keyed { 0x81 } else { 0xff } << (8 * key_at);
        let null = if keyed { 0 } else { NULL as u64 } << (8 * key_at);
        // Nor is an offset delta.
        let mut fixed = (
            time.0 | offset.0 | 1 << (8 * offset_at) | key,
            time.1 | offset.1 | null,
        );
        let mut same = time.0 | offset.0 | 1 << (8 * offset_at) | 0xff << (8 * key_at);
        if skipped == 0 {
            fixed = (fixed.0 | length.0, fixed.1 | length.1);
            same |= (1 << (8 * l)) - 1;
        }
        Self {
            skipped,
            time: 8 * time_at,
            offset: 8 * offset_at,
            key: 8 * key_at,
            fixed,
            length: (length.0 as u32, length.1 as u32),
            same,
        }
    }
}

/// The varint of exactly `N` bytes in the low bytes of a word, zig-zag still.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "the record loop is this and a few shifts"
)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the bits above are masked off"
)]
const fn group<const N: usize>(word: u64) -> u32 {
    let word = word as u32;
    match N {
        1 => word & 0x7f,
        2 => word & 0x7f | word >> 1 & 0x3f80,
        _ => word & 0x7f | word >> 1 & 0x3f80 | word >> 2 & 0x1f_c000,
    }
}

/// Half of the varint of exactly `N` bytes in the low bytes of a word: its value where it is not negative.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "the record loop is this and a few shifts"
)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the bits above are masked off"
)]
const fn half<const N: usize>(word: u64) -> u32 {
    let word = word as u32;
    match N {
        1 => word >> 1 & 0x3f,
        2 => word >> 1 & 0x3f | word >> 2 & 0x1fc0,
        _ => word >> 1 & 0x3f | word >> 2 & 0x1fc0 | word >> 3 & 0xf_e000,
    }
}

/// Eight bytes as a word, the first one lowest.
#[inline(always)]
#[expect(clippy::inline_always, reason = "no instruction at all")]
#[expect(
    clippy::little_endian_bytes,
    reason = "the first byte must be the lowest on every machine"
)]
const fn eight(bytes: &[u8; 8]) -> u64 {
    u64::from_le_bytes(*bytes)
}

/// Four bytes as a word, the first one lowest.
#[inline(always)]
#[expect(clippy::inline_always, reason = "no instruction at all")]
#[expect(
    clippy::little_endian_bytes,
    reason = "the first byte must be the lowest on every machine"
)]
const fn four(bytes: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*bytes)
}

/// The varint in the low bytes of a word, zig-zag still, if it takes three bytes or fewer; and how many.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "the record loop is this and a few shifts"
)]
const fn short_varint(low: u32) -> Option<(u32, usize)> {
    if low & 0x80 == 0 {
        Some((low & 0x7f, 1))
    } else if low & 0x8000 == 0 {
        Some((low & 0x7f | (low & 0x7f00) >> 1, 2))
    } else if low & 0x80_0000 == 0 {
        Some((low & 0x7f | (low & 0x7f00) >> 1 | (low & 0x7f_0000) >> 2, 3))
    } else {
        None
    }
}

/// A length of at most 20 bits.
#[inline(always)]
#[expect(clippy::inline_always, reason = "no instruction at all")]
#[expect(clippy::cast_possible_wrap, reason = "20 bits")]
const fn signed(len: u32) -> i32 {
    len as i32
}

/// A position in a source, which [`RecordDecoder::step`] has seen to be no longer than 32 bits can say.
#[inline(always)]
#[expect(clippy::inline_always, reason = "no instruction at all")]
#[expect(
    clippy::cast_possible_truncation,
    reason = "checked once for the whole source"
)]
const fn narrow(position: usize) -> u32 {
    position as u32
}

#[cfg(test)]
mod tests;
