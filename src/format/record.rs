//! One record of magic 2 (`DefaultRecord`), read field by field.
//!
//! | field | type | |
//! |---|---|---|
//! | length | varint | of what follows |
//! | attributes | i8 | unused |
//! | timestamp delta | varlong | against the batch's base timestamp |
//! | offset delta | varint | against the batch's base offset |
//! | key length, key | varint, bytes | below 0: null |
//! | value length, value | varint, bytes | below 0: null |
//! | header count | varint | 0 or more |
//! | per header: key length, key | varint, UTF-8 | 0 or more |
//! | value length, value | varint, bytes | below 0: null |
//!
//! Plain and checked: the basis of `records::plain`, and the reader of headers for all decoders.

mod write;

pub(crate) use write::NewRecord;

use std::borrow::Cow;

use super::text::put_text;
use super::varint::{get_varint, get_varlong};
use crate::error::{Error, Result};

/// Range of some bytes, or null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteRange {
    /// Its first byte; where it would be, if null.
    pub start: usize,
    /// Its length; `None` for null.
    pub len: Option<usize>,
}

impl ByteRange {
    /// The byte after it.
    #[must_use]
    pub const fn end(self) -> usize {
        match self.len {
            Some(len) => self.start.saturating_add(len),
            None => self.start,
        }
    }

    /// Its bytes in what it was parsed from.
    #[must_use]
    pub fn of(self, data: &[u8]) -> Option<&[u8]> {
        self.len?;
        data.get(self.start..self.end())
    }
}

/// A record's fields; places count from the bytes it was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Unused by Kafka so far.
    pub attributes: u8,
    /// Timestamp minus the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Offset minus the batch's base offset.
    pub offset_delta: i32,
    /// The key.
    pub key: ByteRange,
    /// The value.
    pub value: ByteRange,
    /// Position of the first header.
    pub headers_start: usize,
    /// Number of headers.
    pub headers_count: u32,
    /// The byte after the record.
    pub end: usize,
}

impl Record {
    /// Reads the record that begins at `at`; `data` ends where its batch ends.
    ///
    /// # Errors
    /// `InvalidRecord` where the fields do not fill the length exactly, or are broken themselves.
    pub fn parse(data: &[u8], at: usize) -> Result<Self> {
        let mut next = at;
        let length = varint(data, &mut next, "record length")?;
        let body = next;
        let room = data.len().saturating_sub(body);
        let end = match usize::try_from(length) {
            Ok(length) if length <= room => body.saturating_add(length),
            _ => {
                return Err(Error::invalid(
                    "record length",
                    at as u64,
                    format_args!("0 to {room}, the bytes left"),
                    length,
                ));
            }
        };
        let attributes = data
            .get(next)
            .copied()
            .ok_or_else(|| Error::invalid("record attributes", next as u64, "a byte", "the end"))?;
        next = next.saturating_add(1);
        let delta_at = next;
        let timestamp_delta = get_varlong(data, &mut next)
            .ok_or_else(|| broken_varint(data, delta_at, "timestamp delta"))?;
        let offset_delta = varint(data, &mut next, "offset delta")?;
        let key = field(data, &mut next, "key length")?;
        let value = field(data, &mut next, "value length")?;
        let count_at = next;
        let count = varint(data, &mut next, "header count")?;
        let room = data.len().saturating_sub(next);
        let headers_count = u32::try_from(count)
            .ok()
            .filter(|&count| usize::try_from(count).is_ok_and(|count| count <= room))
            .ok_or_else(|| {
                Error::invalid(
                    "header count",
                    count_at as u64,
                    format_args!("0 to {room}, the bytes left"),
                    count,
                )
            })?;
        let headers_start = next;
        for _ in 0..headers_count {
            header(data, &mut next)?;
        }
        if next != end {
            return Err(Error::invalid(
                "record length",
                at as u64,
                format_args!("{}, as its fields take", next.saturating_sub(body)),
                length,
            ));
        }
        Ok(Self {
            attributes,
            timestamp_delta,
            offset_delta,
            key,
            value,
            headers_start,
            headers_count,
            end,
        })
    }
}

#[cold]
fn broken_varint(data: &[u8], at: usize, what: &'static str) -> Error {
    let left = data.len().saturating_sub(at);
    Error::invalid(
        what,
        at as u64,
        "a variable-length integer",
        format_args!("one that does not end in the {left} bytes left, or is too long"),
    )
}

fn varint(data: &[u8], at: &mut usize, what: &'static str) -> Result<i32> {
    let begin = *at;
    get_varint(data, at).ok_or_else(|| broken_varint(data, begin, what))
}

fn field(data: &[u8], at: &mut usize, what: &'static str) -> Result<ByteRange> {
    let begin = *at;
    let length = varint(data, at, what)?;
    let start = *at;
    let room = data.len().saturating_sub(start);
    let field = ByteRange {
        start,
        len: usize::try_from(length).ok(),
    };
    if field.len.is_some_and(|len| len > room) {
        return Err(Error::invalid(
            what,
            begin as u64,
            format_args!("at most {room}, the bytes left"),
            length,
        ));
    }
    *at = field.end();
    Ok(field)
}

fn header(data: &[u8], at: &mut usize) -> Result<(ByteRange, ByteRange)> {
    let begin = *at;
    let key = field(data, at, "header key length")?;
    if key.len.is_none() {
        return Err(Error::invalid(
            "header key length",
            begin as u64,
            "0 or more",
            "a null key",
        ));
    }
    Ok((key, field(data, at, "header value length")?))
}

/// One header: its key, not yet checked for UTF-8, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// UTF-8, if the producer kept to it; see [`key_text`].
    pub key: &'a [u8],
    /// `None` for null.
    pub value: Option<&'a [u8]>,
}

/// The headers of a record that was parsed: repeated and empty keys are kept, in their order.
#[derive(Clone, Debug)]
pub struct HeaderIter<'a> {
    data: &'a [u8],
    at: usize,
    left: u32,
}

impl<'a> HeaderIter<'a> {
    /// `start` and `count` as a record of the same `data` has them ([`Record`], `records::RecordSlot`).
    #[must_use]
    pub const fn new(data: &'a [u8], start: usize, count: u32) -> Self {
        Self {
            data,
            at: start,
            left: count,
        }
    }

    /// Returns whether there are no more.
    #[must_use]
    pub(crate) const fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Position of the next header, or after the last.
    #[must_use]
    pub(crate) const fn position(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for HeaderIter<'a> {
    type Item = Header<'a>;

    /// Ends early at bytes that are not a header, which a parsed record does not have.
    #[inline]
    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (key, value) = header(self.data, &mut self.at).ok()?;
        Some(Header {
            key: key.of(self.data)?,
            value: value.of(self.data),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, usize::try_from(self.left).ok())
    }
}

/// A header key as Java's `new String(bytes, UTF_8)` reads it: what is not UTF-8 becomes U+FFFD, never an error.
#[must_use]
pub fn key_text(key: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(key) {
        return Cow::Borrowed(text);
    }
    let mut text = Vec::with_capacity(key.len());
    put_text(key, &mut text);
    Cow::Owned(String::from_utf8(text).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Null key, empty value, headers h=null and k="v".
    const GOLDEN: &[u8] = &[
        0x1a, 0x00, 0x09, 0x04, 0x01, 0x00, 0x04, 0x02, 0x68, 0x01, 0x02, 0x6b, 0x02, 0x76,
    ];

    #[test]
    fn the_golden_record() {
        let r = Record::parse(GOLDEN, 0).unwrap();
        assert_eq!((r.timestamp_delta, r.offset_delta, r.end), (-5, 2, 14));
        assert_eq!(
            (r.key.of(GOLDEN), r.value.of(GOLDEN)),
            (None, Some(&b""[..]))
        );
        let headers: Vec<_> = HeaderIter::new(GOLDEN, r.headers_start, r.headers_count)
            .map(|h| (h.key, h.value))
            .collect();
        assert_eq!(headers, [(&b"h"[..], None), (b"k", Some(&b"v"[..]))]);
    }

    fn fails(data: &[u8], text: &str) {
        let error = Record::parse(data, 0).unwrap_err();
        assert!(matches!(error, Error::InvalidRecord(_)));
        assert!(error.to_string().contains(text), "{error}");
    }

    #[test]
    fn every_cut_is_refused() {
        for cut in 0..GOLDEN.len() {
            fails(&GOLDEN[..cut], "record length");
        }
    }

    #[test]
    fn every_field_can_be_wrong() {
        let with = |at: usize, byte: u8| {
            let mut data = GOLDEN.to_vec();
            data[at] = byte;
            data
        };
        fails(
            &with(0, 0x1c),
            "byte 0: record length: expected 0 to 13, the bytes left, found 14",
        );
        fails(
            &with(0, 0x18),
            "byte 0: record length: expected 13, as its fields take, found 12",
        );
        fails(
            &with(0, 0x01),
            "byte 0: record length: expected 0 to 13, the bytes left, found -1",
        );
        fails(
            &[0x00],
            "byte 1: record attributes: expected a byte, found the end",
        );
        fails(
            &[&[0x1a, 0], &[0xff; 12][..]].concat(),
            "byte 2: timestamp delta: expected a variable-length",
        );
        fails(
            &[&[0x1a, 0, 0], &[0xff; 11][..]].concat(),
            "byte 3: offset delta: expected a variable-length",
        );
        fails(
            &with(4, 0x14),
            "byte 4: key length: expected at most 9, the bytes left, found 10",
        );
        fails(
            &with(5, 0x12),
            "byte 5: value length: expected at most 8, the bytes left, found 9",
        );
        fails(
            &with(6, 0x01),
            "byte 6: header count: expected 0 to 7, the bytes left, found -1",
        );
        fails(
            &with(6, 0x10),
            "byte 6: header count: expected 0 to 7, the bytes left, found 8",
        );
        fails(
            &with(6, 0x06),
            "byte 14: header key length: expected a variable-length",
        );
        fails(
            &with(7, 0x01),
            "byte 7: header key length: expected 0 or more, found a null key",
        );
        fails(
            &with(7, 0x0e),
            "byte 7: header key length: expected at most 6",
        );
        fails(
            &with(12, 0x04),
            "byte 12: header value length: expected at most 1",
        );
        // Any length below zero is null.
        assert_eq!(Record::parse(&with(4, 0x7f), 0).unwrap().key.len, None);
        assert_eq!(Record::parse(&with(5, 0x03), 0).unwrap().value.len, None);
    }

    /// As `new String(bytes, UTF_8)` of Java 17 gives it.
    #[test]
    fn keys_that_are_not_utf8() {
        for (bytes, text) in [
            (&b"plain"[..], "plain"),
            (b"a\xffb", "a\u{fffd}b"),
            (b"a\xe2\x82", "a\u{fffd}"),
            (b"\xe0\x80\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xed\xa0\x80z", "\u{fffd}z"),
            (b"\xed\xa0", "\u{fffd}"),
            (b"\xf0\x9f\x92z", "\u{fffd}z"),
            (b"\xf5\x80", "\u{fffd}\u{fffd}"),
            (b"\xc3\xa9\xc3", "\u{e9}\u{fffd}"),
        ] {
            assert_eq!(key_text(bytes), text, "{bytes:x?}");
        }
    }
}
