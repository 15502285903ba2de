//! The fast decoder of magic 2 records (KIP-98): from the records of one batch to [`RecordSlot`]s.
//!
//! | field | type | |
//! |---|---|---|
//! | length | varint | bytes behind this field |
//! | attributes | i8 | unused |
//! | timestamp delta | varlong | |
//! | offset delta | varint | |
//! | key length, key | varint, bytes | negative: null |
//! | value length, value | varint, bytes | negative: null |
//! | headers | varint count, then key length, key, value length, value of each | |
//!
//! A record is bound by a chain of loads (its length says where the next one is), so the common shape is taken on
//! one path: varints of one to three bytes told apart by branches that predict well, two 8-byte loads for the numbers.
//! Whatever does not fit goes to [`careful`], which is also the only place that finds fault. `records::plain` is the
//! oracle that both are held against.

use super::RecordSlot;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::format::varint::{get_varint, get_varlong, zigzag32};
use crate::types::{Offset, TimestampMs};

/// Where a batch's records are being decoded; stops and resumes at any record.
#[derive(Clone, Debug)]
pub struct Walk {
    at: usize,
    end: usize,
    remaining: u32,
    base_offset: Offset,
    base_timestamp: TimestampMs,
    /// LogAppendTime: every record has the batch's.
    append_timestamp: Option<TimestampMs>,
}

impl Walk {
    /// Records of a batch with this header, at `start..end` of the source that [`Walk::step`] will be given.
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

    /// Decodes records into `out` until it is full or the batch is done; returns how many. Bytes of `source` behind
    /// the records may be looked at, never used.
    ///
    /// # Errors
    /// `InvalidRecord` as Kafka's `DefaultRecord.readFrom` and `DefaultRecordBatch.iterator` have it; positions are
    /// relative to `source`.
    pub fn step(&mut self, source: &[u8], out: &mut [RecordSlot]) -> Result<usize> {
        let Some(records) = source
            .get(..self.end)
            .filter(|_| self.end <= u32::MAX as usize)
        else {
            return Err(Error::invalid(
                "records",
                self.at as u64,
                format_args!("{} bytes", self.end),
                source.len(),
            ));
        };
        let wanted = usize::try_from(self.remaining)
            .unwrap_or(usize::MAX)
            .min(out.len());
        let mut done = 0usize;
        for slot in out.iter_mut().take(wanted) {
            self.at = match self.common(source, self.at, slot) {
                Some(next) => next,
                None => self.careful(records, slot)?,
            };
            done = done.wrapping_add(1);
        }
        self.remaining = self
            .remaining
            .wrapping_sub(u32::try_from(done).unwrap_or_default());
        if self.remaining == 0 && self.at != self.end {
            let left = self.end.saturating_sub(self.at);
            return Err(Error::invalid(
                "records",
                self.at as u64,
                "no bytes behind the last record",
                left,
            ));
        }
        Ok(done)
    }

    /// One record of the common shape, or `None`: then [`Walk::careful`] decides.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the record loop is this")]
    fn common(&self, source: &[u8], start: usize, slot: &mut RecordSlot) -> Option<usize> {
        // length, attributes (a byte), timestamp delta: seven bytes at most
        let first = word(source, start)?;
        let (length, n) = short_varint(first)?;
        let body = start.wrapping_add(n);
        let end = body.wrapping_add(halved(length));
        if length & 1 != 0 || end > self.end {
            return None;
        }
        let (timestamp_delta, m) = short_varint(first >> (n.wrapping_mul(8).wrapping_add(8)))?;
        let at = body.wrapping_add(m).wrapping_add(1);
        // offset delta, key length: six bytes at most
        let second = word(source, at)?;
        let (offset_delta, n) = short_varint(second)?;
        let (key_len, m) = short_varint(second >> n.wrapping_mul(8))?;
        let key = at.wrapping_add(n).wrapping_add(m);
        let (key_bytes, key_len) = nullable_length(key_len);
        let at = key.wrapping_add(key_bytes);
        if at >= end {
            return None;
        }
        let (value_len, n) = short_varint(word(source, at)?)?;
        let value = at.wrapping_add(n);
        let (value_bytes, value_len) = nullable_length(value_len);
        let last = value.wrapping_add(value_bytes);
        // No headers: one zero byte, and it is the record's last.
        if last.wrapping_add(1) != end || *source.get(last)? != 0 {
            return None;
        }
        let timestamp = self
            .base_timestamp
            .wrapping_add(i64::from(zigzag32(timestamp_delta)));
        *slot = RecordSlot {
            offset: self
                .base_offset
                .wrapping_add(i64::from(zigzag32(offset_delta))),
            timestamp: self.append_timestamp.unwrap_or(timestamp),
            key_start: narrow(key),
            key_len,
            value_start: narrow(value),
            value_len,
            headers_start: narrow(end),
            headers_count: 0,
        };
        Some(end)
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
        let count_at = at;
        let headers_count = get_varint(records, &mut at).ok_or_else(|| cut("header count"))?;
        let left = records.len().saturating_sub(at);
        let headers_count = u32::try_from(headers_count)
            .ok()
            .filter(|&n| usize::try_from(n).is_ok_and(|n| n <= left))
            .ok_or_else(|| {
                Error::invalid(
                    "header count",
                    count_at as u64,
                    format_args!("0 to {left}"),
                    headers_count,
                )
            })?;
        let headers_start = at;
        for _ in 0..headers_count {
            let key_at = at;
            let (_, len) = nullable(records, &mut at).ok_or_else(|| cut("header key"))?;
            if len < 0 {
                return Err(Error::invalid(
                    "header key length",
                    key_at as u64,
                    "0 or more",
                    len,
                ));
            }
            nullable(records, &mut at).ok_or_else(|| cut("header value"))?;
        }
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
            headers_start: narrow(headers_start),
            headers_count,
        };
        Ok(end)
    }
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

/// Eight bytes, the first one lowest.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "the record loop is this and a few shifts"
)]
#[expect(
    clippy::little_endian_bytes,
    reason = "varints are least significant group first"
)]
fn word(source: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*source.get(at..)?.first_chunk::<8>()?))
}

/// The varint in the low bytes of a word, zig-zag still, if it takes three bytes or fewer; and how many.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "the record loop is this and a few shifts"
)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the bits above are masked off"
)]
const fn short_varint(word: u64) -> Option<(u32, usize)> {
    let low = word as u32;
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

/// Half of a zig-zag number: its magnitude, if it is not negative.
#[inline(always)]
#[expect(clippy::inline_always, reason = "one instruction")]
const fn halved(zigzag: u32) -> usize {
    (zigzag >> 1) as usize
}

/// A zig-zag length as bytes to pass over and as length: any negative one is null.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a few instructions without a branch")]
#[expect(clippy::cast_possible_wrap, reason = "the number has 21 bits")]
const fn nullable_length(zigzag: u32) -> (usize, i32) {
    let null = (zigzag & 1).wrapping_neg();
    let len = zigzag >> 1;
    ((len & !null) as usize, (len | null) as i32)
}

/// A position in a source, which [`Walk::step`] has seen to be no longer than 32 bits can say.
#[inline(always)]
#[expect(clippy::inline_always, reason = "no instruction at all")]
#[expect(
    clippy::cast_possible_truncation,
    reason = "checked once for the whole source"
)]
const fn narrow(position: usize) -> u32 {
    position as u32
}
