//! The records of one batch, one behind the other, until it is full.

use super::Encoder;
use super::columns::{Absent, Bytes, Column, Columns, Headers};
use crate::error::{Error, Refusal, Result};
use crate::format::batch::RECORD_BATCH_OVERHEAD;
use crate::format::varint::{put_varint, unzigzag64};
use crate::records::validate::LeaderRules;
use crate::types::{NO_TIMESTAMP, Offset, TimestampMs};

/// Which rows, and how much of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) from: usize,
    /// Bytes of the batch, header included, that only its first record may go beyond.
    pub(super) limit: usize,
    pub(super) most_rows: usize,
    pub(super) now_ms: TimestampMs,
}

/// What one batch came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filled {
    /// Behind its last byte.
    pub(super) end: usize,
    pub(super) rows: usize,
    pub(super) base_offset: Offset,
    pub(super) last_offset_delta: i32,
    pub(super) base_timestamp: TimestampMs,
    pub(super) max_timestamp: TimestampMs,
}

/// Numbers are written as words of eight bytes, so there is that much room behind the last one.
const SLACK: usize = 8;
/// What a batch may come to, so that its length fits Kafka's number.
const MOST: usize = i32::MAX as usize - (64 << 10);

impl Encoder {
    /// Takes rows until the batch is full; none if there are none.
    pub(super) fn fill(&mut self, columns: &Columns, wanted: Wanted) -> Result<Filled> {
        match (&columns.key, columns.value.dense()) {
            (Column::Absent, Some(values)) => self.run(columns, &Absent, &values, wanted),
            (key, Some(values)) => match key.dense() {
                Some(keys) => self.run(columns, &keys, &values, wanted),
                None => self.run(columns, key, &values, wanted),
            },
            (key, None) => self.run(columns, key, &columns.value, wanted),
        }
    }

    fn run<K: Bytes, V: Bytes>(
        &mut self,
        columns: &Columns,
        keys: &K,
        values: &V,
        wanted: Wanted,
    ) -> Result<Filled> {
        let rules = self.options.rules;
        let (batch, tail) = (&mut self.batch, &mut self.tail);
        reserve(batch, wanted.limit.min(MOST))?;
        tail.clear();
        let mut filled = Filled {
            end: RECORD_BATCH_OVERHEAD,
            rows: 0,
            base_offset: 0,
            last_offset_delta: 0,
            base_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
        };
        let last = wanted.from.saturating_add(wanted.most_rows);
        for row in wanted.from..columns.rows.min(last) {
            let (key, value) = (keys.get(row), values.get(row));
            let numbers = match numbers(columns, row, &filled, &rules, wanted.now_ms, tail) {
                Ok(Some(numbers)) if key.is_some() || !rules.compact => numbers,
                // A row that is refused ends the batch, and is refused when the next one begins with it.
                Ok(None) => break,
                _ if filled.rows > 0 => break,
                Ok(Some(_)) => return Err(LeaderRules::key_refused(row)),
                Err(error) => return Err(error),
            };
            if filled.rows == 0 {
                filled.base_timestamp = numbers.timestamp;
                filled.base_offset = numbers.offset;
            }
            // Java's subtraction wraps, and the reader's addition back.
            let timestamp_raw = unzigzag64(numbers.timestamp.wrapping_sub(filled.base_timestamp));
            let offset_raw = unzigzag64(i64::from(numbers.offset_delta));
            let (key_raw, key) = length(key);
            let (value_raw, value) = length(value);
            let tail_len = if columns.headers.is_some() {
                tail.len()
            } else {
                1
            };
            let body = key
                .len()
                .saturating_add(value.len())
                .saturating_add(tail_len)
                .saturating_add(1)
                .saturating_add(len(timestamp_raw))
                .saturating_add(len(offset_raw))
                .saturating_add(len(key_raw))
                .saturating_add(len(value_raw));
            let body_raw = (body as u64).wrapping_shl(1);
            let end = filled
                .end
                .saturating_add(body)
                .saturating_add(len(body_raw));
            if end > wanted.limit {
                if filled.rows > 0 {
                    break;
                }
                if end > MOST {
                    return Err(too_large(end, MOST, row));
                }
                reserve(batch, end)?;
            }
            let mut at = put_number(batch, filled.end, body_raw);
            at = put_byte(batch, at, 0);
            at = put_number(batch, at, timestamp_raw);
            at = put_number(batch, at, offset_raw);
            at = put_number(batch, at, key_raw);
            at = put_bytes(batch, at, key);
            at = put_number(batch, at, value_raw);
            at = put_bytes(batch, at, value);
            if columns.headers.is_some() {
                put_bytes(batch, at, tail);
            } else {
                put_byte(batch, at, 0);
            }
            filled.end = end;
            filled.rows = filled.rows.wrapping_add(1);
            filled.last_offset_delta = numbers.offset_delta;
            filled.max_timestamp = filled.max_timestamp.max(numbers.timestamp);
        }
        Ok(filled)
    }
}

/// A row's numbers.
#[derive(Clone, Copy)]
struct Numbers {
    timestamp: TimestampMs,
    offset: Offset,
    offset_delta: i32,
}

/// The row's numbers, and its headers in `tail`; `None` where its offset is too far from the batch's.
#[inline]
fn numbers(
    columns: &Columns,
    row: usize,
    filled: &Filled,
    rules: &LeaderRules,
    now_ms: TimestampMs,
    tail: &mut Vec<u8>,
) -> Result<Option<Numbers>> {
    let timestamp = match &columns.timestamps {
        Some(timestamps) => match timestamps.get(row) {
            Ok(timestamp) => timestamp.unwrap_or(now_ms),
            Err(raw) => return Err(no_timestamp(raw, row)),
        },
        None => now_ms,
    };
    if !rules.takes_timestamp(timestamp, now_ms) {
        return Err(rules.timestamp_refused(timestamp, row, now_ms));
    }
    if let Some(headers) = &columns.headers {
        put_headers(headers, row, tail)?;
    }
    let (offset, offset_delta) = match &columns.offsets {
        None => (0, i32::try_from(filled.rows).ok()),
        Some(offsets) => place(offsets.get(row).copied().unwrap_or(-1), row, filled)?,
    };
    Ok(offset_delta.map(|offset_delta| Numbers {
        timestamp,
        offset,
        offset_delta,
    }))
}

/// A given offset, and how far it is from the batch's first.
fn place(offset: Offset, row: usize, filled: &Filled) -> Result<(Offset, Option<i32>)> {
    let least = if filled.rows == 0 {
        0
    } else {
        filled
            .base_offset
            .saturating_add(i64::from(filled.last_offset_delta))
            .saturating_add(1)
    };
    if offset < least {
        return Err(Error::refused(
            Refusal::OffsetsOutOfOrder,
            format!("offset: expected {least} or more, found {offset} in record {row}"),
        ));
    }
    let base = if filled.rows == 0 {
        offset
    } else {
        filled.base_offset
    };
    Ok((offset, i32::try_from(offset.saturating_sub(base)).ok()))
}

/// The row's headers as a record ends: their count, then each.
fn put_headers(headers: &Headers, row: usize, tail: &mut Vec<u8>) -> Result<()> {
    tail.clear();
    let all = headers.get(row);
    put_count(all.len(), tail);
    for (key, value) in all {
        let key = key.ok_or_else(|| {
            Error::unplaced(
                "header key",
                "a string",
                format_args!("null in record {row}"),
            )
        })?;
        if std::str::from_utf8(key).is_err() {
            return Err(Error::unplaced(
                "header key",
                "UTF-8",
                format_args!("{} in record {row}", key.escape_ascii()),
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
    }
    Ok(())
}

/// A count or length; what is beyond 31 bits makes the record too large by itself.
fn put_count(count: usize, tail: &mut Vec<u8>) {
    put_varint(i32::try_from(count).unwrap_or(i32::MAX), tail);
}

/// Room for a batch of this size.
fn reserve(batch: &mut Vec<u8>, size: usize) -> Result<()> {
    let len = size.saturating_add(SLACK);
    if batch.len() < len {
        batch
            .try_reserve(len.saturating_sub(batch.len()))
            .map_err(|error| {
                Error::unplaced("batch", format_args!("memory for {size} bytes"), error)
            })?;
        batch.resize(len, 0);
    }
    Ok(())
}

/// The refusal of a record that makes a batch of `size` bytes by itself.
#[cold]
pub(super) fn too_large(size: usize, most: usize, row: usize) -> Error {
    Error::refused(
        Refusal::RecordTooLarge,
        format!("batch size: expected at most {most}, found {size} with record {row} alone"),
    )
}

#[cold]
fn no_timestamp(raw: i64, row: usize) -> Error {
    Error::refused(
        Refusal::InvalidTimestamp,
        format!(
            "timestamp: expected the epoch or later, or -1 ms for none, found {raw} in record {row}"
        ),
    )
}

/// A length of -1, zig-zag: null.
const NULL: u64 = 1;

/// A key's or value's length, zig-zag, and its bytes.
#[inline]
fn length(bytes: Option<&[u8]>) -> (u64, &[u8]) {
    match bytes {
        Some(bytes) => ((bytes.len() as u64).wrapping_shl(1), bytes),
        None => (NULL, &[]),
    }
}

/// How many bytes the unsigned varint takes.
#[inline]
const fn len(raw: u64) -> usize {
    let bits = 64u32.wrapping_sub((raw | 1).leading_zeros());
    (bits.wrapping_add(6) / 7) as usize
}

/// Writes an unsigned varint and returns where it ends. Up to eight bytes are written over.
#[inline]
#[expect(
    clippy::little_endian_bytes,
    reason = "the least significant group comes first"
)]
fn put_number(batch: &mut [u8], at: usize, raw: u64) -> usize {
    /// Beyond four groups of seven bits.
    const LONG: u64 = 1 << 28;
    const CONTINUES: u64 = 0x8080_8080;
    let n = len(raw);
    let end = at.wrapping_add(n);
    if raw >= LONG {
        put_long(batch, at, raw);
        return end;
    }
    let groups =
        raw & 0x7f | (raw & 0x3f80) << 1 | (raw & 0x1f_c000) << 2 | (raw & 0xfe0_0000) << 3;
    // All bytes but the last one continue.
    let bits = n.wrapping_sub(1).wrapping_mul(8);
    let word = groups | CONTINUES & (1u64 << (bits & 63)).wrapping_sub(1);
    if let Some(to) = batch.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *to = word.to_le_bytes();
    }
    end
}

#[cold]
fn put_long(batch: &mut [u8], at: usize, mut raw: u64) {
    let to = batch.get_mut(at..).unwrap_or_default();
    for byte in to.iter_mut().take(len(raw)) {
        let more = if raw > 0x7f { 0x80 } else { 0 };
        *byte = u8::try_from(raw & 0x7f).unwrap_or_default() | more;
        raw = raw.wrapping_shr(7);
    }
}

#[inline]
fn put_byte(batch: &mut [u8], at: usize, byte: u8) -> usize {
    if let Some(to) = batch.get_mut(at) {
        *to = byte;
    }
    at.wrapping_add(1)
}

/// Writes bytes and returns where they end.
#[inline]
fn put_bytes(batch: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    let end = at.wrapping_add(bytes.len());
    if let Some(to) = batch.get_mut(at..end) {
        to.copy_from_slice(bytes);
    }
    end
}
