//! The records of one batch, one after the other, until it is full.

use super::Encoder;
use super::bytes::{Absent, ByteColumn, InputColumn};
use super::columns::{Always, InputColumns, Times, Timestamps};
use super::headers::HeaderRows;
use crate::error::{Error, Refusal, Result};
use crate::format::batch::RECORD_BATCH_OVERHEAD;
use crate::format::varint::{put_varint, zigzag64};
use crate::records::validate::LeaderRules;
use crate::types::{NO_TIMESTAMP, Offset, TimestampMs};

/// Rows to encode, and limits of the batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowLimits {
    pub(super) from: usize,
    /// Position of the batch.
    pub(super) start: usize,
    /// Bytes of the batch, header included, that only its first record may go beyond.
    pub(super) limit: usize,
    /// Bytes that it may not go beyond with one record alone.
    pub(super) most: usize,
    pub(super) most_rows: usize,
    /// The number of the first of the rows, for a message.
    pub(super) numbered_from: usize,
    pub(super) now_ms: TimestampMs,
}

/// Result of filling one batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct FilledBatch {
    /// The end of its last byte.
    pub(super) end: usize,
    pub(super) rows: usize,
    pub(super) base_offset: Offset,
    pub(super) last_offset_delta: i32,
    pub(super) base_timestamp: TimestampMs,
    pub(super) max_timestamp: TimestampMs,
}

/// Numbers are written as words of eight bytes, so there is that much room after the last one.
const SLACK: usize = 8;
/// The largest batch whose length fits Kafka's number.
pub(super) const MAX_BATCH_BYTES: usize = i32::MAX as usize - (64 << 10);

impl RowLimits {
    /// The largest end of the batch.
    const fn limit(&self) -> usize {
        self.start.saturating_add(self.limit)
    }

    /// The number of a row in what the user gave.
    const fn number(&self, row: usize) -> usize {
        self.numbered_from.saturating_add(row)
    }
}

impl Encoder {
    /// Takes rows until the batch is full; none if there are none.
    pub(super) fn fill(
        &mut self,
        columns: &InputColumns,
        wanted: RowLimits,
    ) -> Result<FilledBatch> {
        let size = wanted.limit.min(MAX_BATCH_BYTES);
        reserve(&mut self.batch, wanted.start.saturating_add(size))?;
        let mut filled = FilledBatch {
            end: wanted.start.saturating_add(RECORD_BATCH_OVERHEAD),
            rows: 0,
            base_offset: 0,
            last_offset_delta: 0,
            base_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
        };
        let end = wanted.from.saturating_add(wanted.most_rows);
        let end = columns.rows.min(end);
        // `careful` takes any row, or says why not; `plain` takes as many as are plain.
        while wanted.from.saturating_add(filled.rows) < end
            && self.careful(columns, wanted, &mut filled)?
        {
            if columns.headers.is_none() && columns.offsets.is_none() {
                self.plain(columns, wanted, end, &mut filled);
            }
        }
        Ok(filled)
    }

    /// Chooses the loop for these columns; it begins after a first record.
    fn plain(
        &mut self,
        columns: &InputColumns,
        wanted: RowLimits,
        end: usize,
        filled: &mut FilledBatch,
    ) {
        let batch = self.batch.as_mut_slice();
        let run = PlainRows {
            wanted,
            end,
            rules: self.options.rules,
        };
        let now = Always(wanted.now_ms);
        let (key, value) = (&columns.key, &columns.value);
        let values = value.dense();
        match &columns.timestamps {
            None => match (key, key.dense(), values) {
                (InputColumn::Absent, _, Some(values)) => {
                    run.take(batch, filled, &Absent, &values, &now);
                }
                (_, Some(keys), Some(values)) => run.take(batch, filled, &keys, &values, &now),
                _ => run.take(batch, filled, key, value, &now),
            },
            Some(timestamps) => match (timestamps.dense(), key, key.dense(), values) {
                (Some(times), InputColumn::Absent, _, Some(values)) => {
                    run.take(batch, filled, &Absent, &values, &times);
                }
                (Some(times), _, Some(keys), Some(values)) => {
                    run.take(batch, filled, &keys, &values, &times);
                }
                (Some(times), ..) => run.take(batch, filled, key, value, &times),
                (None, ..) => {
                    run.take(batch, filled, key, value, &OrNow(timestamps, wanted.now_ms));
                }
            },
        }
    }

    /// Takes one row of any kind; `false` if the batch ends before it.
    fn careful(
        &mut self,
        columns: &InputColumns,
        wanted: RowLimits,
        filled: &mut FilledBatch,
    ) -> Result<bool> {
        let rules = self.options.rules;
        let (batch, tail) = (&mut self.batch, &mut self.tail);
        let row = wanted.from.saturating_add(filled.rows);
        let (key, value) = (columns.key.get(row), columns.value.get(row));
        let numbers = match numbers(columns, row, filled, &rules, wanted, tail) {
            Ok(Some(numbers)) if key.is_some() || !rules.compact => numbers,
            Ok(None) => return Ok(false),
            // A row that is refused ends the batch, and is refused when the next one begins with it.
            _ if filled.rows > 0 => return Ok(false),
            Ok(Some(_)) => return Err(LeaderRules::key_refused(wanted.number(row))),
            Err(error) => return Err(error),
        };
        if filled.rows == 0 {
            filled.base_timestamp = numbers.timestamp;
            filled.base_offset = numbers.offset;
        }
        // Java's subtraction wraps, and the reader's addition back.
        let timestamp_raw = zigzag64(numbers.timestamp.wrapping_sub(filled.base_timestamp));
        let offset_raw = zigzag64(i64::from(numbers.offset_delta));
        let (key_raw, key) = length(key);
        let (value_raw, value) = length(value);
        let raw = [timestamp_raw, offset_raw, key_raw, value_raw];
        let bytes = key.len().saturating_add(value.len());
        let body = body_size(raw, bytes.saturating_add(tail.len()));
        let end = filled.end.saturating_add(record_size(body));
        let body_raw = (body as u64).wrapping_shl(1);
        if end > wanted.limit() {
            if filled.rows > 0 {
                return Ok(false);
            }
            let size = end.saturating_sub(wanted.start);
            if size > wanted.most {
                return Err(too_large(size, wanted.most, wanted.number(row)));
            }
            reserve(batch, end)?;
        }
        let put = || {
            let mut at = put_number(batch, filled.end, body_raw)?;
            at = put_byte(batch, at, 0)?;
            at = put_number(batch, at, timestamp_raw)?;
            at = put_number(batch, at, offset_raw)?;
            at = put_number(batch, at, key_raw)?;
            at = put_bytes(batch, at, key)?;
            at = put_number(batch, at, value_raw)?;
            at = put_bytes(batch, at, value)?;
            put_bytes(batch, at, tail)
        };
        let found = { put }();
        if found != Some(end) {
            return Err(wrong_size(end, found));
        }
        filled.end = end;
        filled.rows = filled.rows.wrapping_add(1);
        filled.last_offset_delta = numbers.offset_delta;
        filled.max_timestamp = filled.max_timestamp.max(numbers.timestamp);
        Ok(true)
    }
}

/// The loop over plain rows: no headers, no offsets of their own, all numbers small, nothing to refuse. It leaves any other
/// row to [`Encoder::careful`], and gives the same bytes.
#[derive(Clone, Copy)]
struct PlainRows {
    wanted: RowLimits,
    /// The row after the last one that it may take.
    end: usize,
    rules: LeaderRules,
}

/// Timestamps of any unit and with nulls; one that no record takes is below -1.
struct OrNow<'a>(&'a Timestamps, TimestampMs);

impl Times for OrNow<'_> {
    #[inline]
    fn get(&self, row: usize) -> TimestampMs {
        self.0
            .get(row)
            .map_or(i64::MIN, |known| known.unwrap_or(self.1))
    }
}

/// Two numbers below this fit one word: three bytes of varint each.
const SMALL: u64 = 1 << 20;

impl PlainRows {
    #[inline(never)]
    fn take<K: ByteColumn, V: ByteColumn, T: Times>(
        &self,
        batch: &mut [u8],
        filled: &mut FilledBatch,
        keys: &K,
        values: &V,
        times: &T,
    ) {
        let RowLimits { from, now_ms, .. } = self.wanted;
        let limit = self.wanted.limit();
        let base = filled.base_timestamp;
        let (mut at, mut delta, mut max) = (filled.end, filled.rows, filled.max_timestamp);
        for row in from.saturating_add(delta)..self.end {
            let key = keys.get(row);
            let timestamp = times.get(row);
            let (key_raw, key) = length(key);
            let (value_raw, value) = length(values.get(row));
            let timestamp_raw = zigzag64(timestamp.wrapping_sub(base));
            let offset_raw = (delta as u64).wrapping_shl(1);
            if timestamp_raw | offset_raw | key_raw | value_raw >= SMALL
                || timestamp < NO_TIMESTAMP
                || (self.rules.compact && key_raw == NULL)
                || !self.rules.takes_timestamp(timestamp, now_ms)
            {
                break;
            }
            let timestamp_word = Word::of(timestamp_raw);
            let offset_word = Word::of(offset_raw);
            let key_word = Word::of(key_raw);
            let value_word = Word::of(value_raw);
            // The attributes and the count of headers are a byte each.
            let body = timestamp_word
                .len
                .wrapping_add(offset_word.len)
                .wrapping_add(key_word.len)
                .wrapping_add(value_word.len)
                .wrapping_add(2)
                .wrapping_add(key.len())
                .wrapping_add(value.len());
            let body_word = Word::of((body as u64).wrapping_shl(1));
            let size = body.wrapping_add(body_word.len);
            let end = at.wrapping_add(size);
            if end > limit {
                break;
            }
            let Some(record) = batch.get_mut(at..end.wrapping_add(SLACK)) else {
                break;
            };
            let mut put = || {
                put_word(record, 0, body_word.then(1, timestamp_word))?;
                let mut next = body_word
                    .len
                    .wrapping_add(1)
                    .wrapping_add(timestamp_word.len);
                put_word(record, next, offset_word.then(0, key_word))?;
                next = next
                    .wrapping_add(offset_word.len)
                    .wrapping_add(key_word.len);
                next = put_bytes(record, next, key)?;
                put_word(record, next, value_word.word)?;
                next = put_bytes(record, next.wrapping_add(value_word.len), value)?;
                put_byte(record, next, 0)
            };
            // A size that is wrong is reported by `careful`, which gets the row next.
            let found = put();
            debug_assert_eq!(found, Some(size), "a record's size");
            if found != Some(size) {
                break;
            }
            at = end;
            delta = delta.wrapping_add(1);
            max = max.max(timestamp);
        }
        if delta > filled.rows {
            filled.end = at;
            filled.rows = delta;
            filled.last_offset_delta = i32::try_from(delta).unwrap_or(i32::MAX).wrapping_sub(1);
            filled.max_timestamp = max;
        }
    }
}

/// A varint of at most four bytes, the first one lowest.
#[derive(Clone, Copy)]
struct Word {
    word: u64,
    len: usize,
}

impl Word {
    /// Of an unsigned number below 2^28.
    #[inline]
    const fn of(raw: u64) -> Self {
        if raw < 0x80 {
            return Self { word: raw, len: 1 };
        }
        if raw < 0x4000 {
            let word = raw & 0x7f | 0x80 | (raw & 0x3f80) << 1;
            return Self { word, len: 2 };
        }
        let len = len(raw);
        let groups =
            raw & 0x7f | (raw & 0x3f80) << 1 | (raw & 0x1f_c000) << 2 | (raw & 0xfe0_0000) << 3;
        // All bytes but the last one continue.
        let bits = len.wrapping_sub(1).wrapping_mul(8) & 63;
        let word = groups | 0x8080_8080 & (1u64 << bits).wrapping_sub(1);
        Self { word, len }
    }

    /// This, so many zero bytes, and the other, if they are eight bytes at most.
    #[inline]
    const fn then(self, zeros: usize, other: Self) -> u64 {
        let bits = self.len.wrapping_add(zeros).wrapping_mul(8) & 63;
        self.word | other.word << bits
    }
}

/// A row's numbers.
#[derive(Clone, Copy)]
struct Numbers {
    timestamp: TimestampMs,
    offset: Offset,
    offset_delta: i32,
}

/// The row's numbers, and in `tail` its headers, which end a record; `None` if its offset is too far from the batch's.
#[inline]
fn numbers(
    columns: &InputColumns,
    row: usize,
    filled: &FilledBatch,
    rules: &LeaderRules,
    wanted: RowLimits,
    tail: &mut Vec<u8>,
) -> Result<Option<Numbers>> {
    let now_ms = wanted.now_ms;
    let timestamp = match &columns.timestamps {
        Some(timestamps) => match timestamps.get(row) {
            Ok(timestamp) => timestamp.unwrap_or(now_ms),
            Err(raw) => return Err(no_timestamp(raw, wanted.number(row))),
        },
        None => now_ms,
    };
    if !rules.takes_timestamp(timestamp, now_ms) {
        return Err(rules.timestamp_refused(timestamp, wanted.number(row), now_ms));
    }
    if let Some(headers) = &columns.headers {
        put_headers(headers, row, wanted, tail)?;
    } else {
        tail.clear();
        put_count(0, tail);
    }
    let (offset, offset_delta) = match &columns.offsets {
        None => (0, i32::try_from(filled.rows).ok()),
        Some(offsets) => place(offsets.get(row), wanted.number(row), filled)?,
    };
    Ok(offset_delta.map(|offset_delta| Numbers {
        timestamp,
        offset,
        offset_delta,
    }))
}

/// A given offset, and how far it is from the batch's first.
fn place(
    offset: Option<Offset>,
    number: usize,
    filled: &FilledBatch,
) -> Result<(Offset, Option<i32>)> {
    let offset = offset.ok_or_else(|| {
        Error::InvalidArgument(format!(
            "column 'offset': expected no nulls, found one in record {number}"
        ))
    })?;
    let least = if filled.rows == 0 {
        0
    } else {
        filled
            .base_offset
            .saturating_add(i64::from(filled.last_offset_delta))
            .saturating_add(1)
    };
    // After the largest offset there would be no log end.
    if offset < least || offset == Offset::MAX {
        return Err(Error::refused(
            Refusal::OffsetsOutOfOrder,
            format!(
                "offset: expected {least} or more, below {}, found {offset} in record {number}",
                Offset::MAX
            ),
        ));
    }
    let base = if filled.rows == 0 {
        offset
    } else {
        filled.base_offset
    };
    Ok((offset, i32::try_from(offset.saturating_sub(base)).ok()))
}

/// The row's headers as a record ends, of `wanted.most` bytes: their count, then each.
fn put_headers(
    headers: &HeaderRows,
    row: usize,
    wanted: RowLimits,
    tail: &mut Vec<u8>,
) -> Result<()> {
    let (most, number) = (wanted.most, wanted.number(row));
    tail.clear();
    let all = headers.get(row);
    put_count(all.len(), tail);
    for (key, value) in all {
        let key = key.ok_or_else(|| {
            Error::unplaced(
                "header key",
                "a string",
                format_args!("null in record {number}"),
            )
        })?;
        if std::str::from_utf8(key).is_err() {
            return Err(Error::unplaced(
                "header key",
                "UTF-8",
                format_args!("{} in record {number}", key.escape_ascii()),
            ));
        }
        put_count(key.len(), tail);
        tail.extend_from_slice(key);
        match value {
            Some(value) => {
                put_count(value.len(), tail);
                tail.extend_from_slice(value);
            }
            None => put_varint(-1, tail),
        }
        // The same few bytes may be repeated any number of times.
        if tail.len() > most {
            let found = format!("more than {most} of headers in record {number}");
            return Err(refused_size(most, &found));
        }
    }
    Ok(())
}

/// A count or length; one beyond 31 bits makes the record too large by itself.
fn put_count(count: usize, tail: &mut Vec<u8>) {
    put_varint(i32::try_from(count).unwrap_or(i32::MAX), tail);
}

/// Room for a batch of this size.
fn reserve(batch: &mut Vec<u8>, size: usize) -> Result<()> {
    let len = size.saturating_add(SLACK);
    if batch.len() < len {
        batch
            .try_reserve(len.saturating_sub(batch.len()))
            .map_err(|_| Error::no_memory(size))?;
        batch.resize(len, 0);
    }
    Ok(())
}

/// The refusal of a record that makes a batch of `size` bytes by itself.
#[cold]
pub(super) fn too_large(size: usize, most: usize, number: usize) -> Error {
    refused_size(most, &format!("{size} with record {number} alone"))
}

#[cold]
fn refused_size(most: usize, found: &str) -> Error {
    Error::refused(
        Refusal::RecordTooLarge,
        format!("batch size: expected at most {most}, found {found}"),
    )
}

#[cold]
fn no_timestamp(raw: i64, number: usize) -> Error {
    Error::refused(
        Refusal::InvalidTimestamp,
        format!(
            "timestamp: expected the epoch or later, or -1 ms for none, found {raw} in record {number}"
        ),
    )
}

/// A length of -1, zig-zag: null.
const NULL: u64 = 1;

/// A key's or value's length, zig-zag, and its bytes.
#[inline]
pub(super) fn length(bytes: Option<&[u8]>) -> (u64, &[u8]) {
    match bytes {
        Some(bytes) => ((bytes.len() as u64).wrapping_shl(1), bytes),
        None => (NULL, &[]),
    }
}

/// Bytes of a record's body, of attributes, these numbers, and other bytes.
#[inline]
pub(super) fn body_size(numbers: [u64; 4], bytes: usize) -> usize {
    let sizes = numbers.map(len).into_iter();
    sizes.fold(bytes.saturating_add(1), usize::saturating_add)
}

/// Bytes of a record, with the length of its body in front.
#[inline]
pub(super) const fn record_size(body: usize) -> usize {
    body.saturating_add(len((body as u64).wrapping_shl(1)))
}

/// Bytes of the unsigned varint.
#[inline]
pub(super) const fn len(raw: u64) -> usize {
    let bits = 64u32.wrapping_sub((raw | 1).leading_zeros());
    (bits.wrapping_add(6) / 7) as usize
}

/// A record that is not as long as it was said to be.
#[cold]
fn wrong_size(end: usize, found: Option<usize>) -> Error {
    Error::internal(format_args!(
        "a record's end: expected {end}, found {found:?}"
    ))
}

/// Writes an unsigned varint and returns where it ends. Overwrites up to eight bytes.
#[inline]
fn put_number(batch: &mut [u8], at: usize, raw: u64) -> Option<usize> {
    if raw < 1 << 28 {
        let Word { word, len } = Word::of(raw);
        put_word(batch, at, word)?;
        Some(at.wrapping_add(len))
    } else {
        put_long(batch, at, raw)
    }
}

#[inline]
#[expect(
    clippy::little_endian_bytes,
    reason = "the least significant group comes first"
)]
fn put_word(to: &mut [u8], at: usize, word: u64) -> Option<()> {
    *to.get_mut(at..)?.first_chunk_mut()? = word.to_le_bytes();
    Some(())
}

#[cold]
fn put_long(batch: &mut [u8], at: usize, mut raw: u64) -> Option<usize> {
    let end = at.checked_add(len(raw))?;
    for byte in batch.get_mut(at..end)? {
        let more = if raw > 0x7f { 0x80 } else { 0 };
        *byte = u8::try_from(raw & 0x7f).unwrap_or_default() | more;
        raw = raw.wrapping_shr(7);
    }
    Some(end)
}

#[inline]
fn put_byte(batch: &mut [u8], at: usize, byte: u8) -> Option<usize> {
    *batch.get_mut(at)? = byte;
    Some(at.wrapping_add(1))
}

/// Writes bytes and returns where they end.
#[inline]
fn put_bytes(batch: &mut [u8], at: usize, bytes: &[u8]) -> Option<usize> {
    let end = at.wrapping_add(bytes.len());
    batch.get_mut(at..end)?.copy_from_slice(bytes);
    Some(end)
}
