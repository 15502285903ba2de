//! One message of magic 0 or 1 (`LegacyRecord`), as a batch of its own or inside a wrapper.
//!
//! | at (0) | at (1) | size | field | |
//! |---|---|---|---|---|
//! | 0 | 0 | 8 | offset | inside a wrapper: absolute (0), relative (1, KIP-31) |
//! | 8 | 8 | 4 | size | of what follows, at least 14 |
//! | 12 | 12 | 4 | crc | CRC-32 of what follows |
//! | 16 | 16 | 1 | magic | |
//! | 17 | 17 | 1 | attributes | codec, timestamp type |
//! | - | 18 | 8 | timestamp | KIP-32 |
//! | 18 | 26 | 4 | key length | below 0: null |
//! | 22 | 30 | | key | |
//! | .. | .. | 4 | value length | below 0: null |
//! | .. | .. | | value | |
//!
//! Bytes after the value are ignored, as in Kafka.

use super::attributes::Attributes;
use super::batch::{
    BatchHeader, LEGACY_ATTRIBUTES_AT, LEGACY_TIMESTAMP_AT, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT,
};
use super::cursor::{get_i32, get_i64, get_u8};
use super::record::ByteRange;
use crate::error::{Error, FaultKind, Result};
use crate::types::{NO_TIMESTAMP, Offset, TimestampMs};

const KEY_LENGTH_AT_V0: usize = LEGACY_TIMESTAMP_AT;
const KEY_LENGTH_AT_V1: usize = LEGACY_TIMESTAMP_AT + 8;
const _: () = assert!(KEY_LENGTH_AT_V0 == 18 && KEY_LENGTH_AT_V1 == 26);

/// A message; places count from its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The offset field, unchecked.
    pub offset: Offset,
    /// All bytes of it, offset and size included.
    pub size: usize,
    /// 0 or 1.
    pub magic: u8,
    /// Attribute bits.
    pub attributes: Attributes,
    /// Its own timestamp; -1 for magic 0.
    pub timestamp: TimestampMs,
    /// The key.
    pub key: ByteRange,
    /// The value; of a wrapper, the compressed messages.
    pub value: ByteRange,
}

impl Message {
    /// Reads the message that begins at `data`; `None` where it is incomplete.
    ///
    /// # Errors
    /// `CorruptRecord` for a size below 14, `UnsupportedFormat` for a magic above 1, `InvalidRecord` for a key or value
    /// that reaches beyond the message.
    pub fn parse(data: &[u8]) -> Result<Option<Self>> {
        let Some(size) = BatchHeader::peek_size(data)? else {
            return Ok(None);
        };
        let Some(data) = data.get(..size) else {
            return Ok(None);
        };
        let (Some(offset), Some(magic), Some(attributes)) = (
            get_i64(data, 0),
            get_u8(data, MAGIC_AT),
            get_u8(data, LEGACY_ATTRIBUTES_AT),
        ) else {
            return Ok(None);
        };
        let (timestamp, key_at) = match magic {
            0 => (Some(NO_TIMESTAMP), KEY_LENGTH_AT_V0),
            1 => (get_i64(data, LEGACY_TIMESTAMP_AT), KEY_LENGTH_AT_V1),
            _ => {
                return Err(Error::unsupported(
                    "message magic",
                    MAGIC_AT as u64,
                    "0 or 1",
                    magic,
                ));
            }
        };
        let timestamp = timestamp.ok_or_else(|| {
            Error::corrupt_of(
                FaultKind::Length,
                "message size",
                LENGTH_AT as u64,
                format_args!(
                    "at least {} for magic 1",
                    KEY_LENGTH_AT_V1 + 8 - LOG_OVERHEAD
                ),
                size.saturating_sub(LOG_OVERHEAD),
            )
        })?;
        let key = delimited(data, key_at, "message key length")?;
        let value = delimited(data, key.end(), "message value length")?;
        Ok(Some(Self {
            offset,
            size,
            magic,
            attributes: Attributes(attributes),
            timestamp,
            key,
            value,
        }))
    }
}

/// The field after the 4-byte length at `at`.
fn delimited(data: &[u8], at: usize, what: &'static str) -> Result<ByteRange> {
    let start = at.saturating_add(4);
    let room = data.len().saturating_sub(start);
    let length = get_i32(data, at)
        .ok_or_else(|| Error::invalid(what, at as u64, "4 bytes", data.len().saturating_sub(at)))?;
    match usize::try_from(length) {
        Ok(length) if length > room => Err(Error::invalid(
            what,
            at as u64,
            format_args!("at most {room}"),
            length,
        )),
        length => Ok(ByteRange {
            start,
            len: length.ok(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(magic: u8, body: &[u8]) -> Vec<u8> {
        let mut data = 7i64.to_be_bytes().to_vec();
        data.extend(
            i32::try_from(body.len().saturating_add(5))
                .unwrap()
                .to_be_bytes(),
        );
        data.extend([0xc1, 0xc2, 0xc3, 0xc4, magic]);
        data.extend(body);
        data
    }

    #[test]
    fn both_layouts() {
        let v0 = message(0, b"\x02\0\0\0\x03key\0\0\0\x02vv");
        let m = Message::parse(&v0).unwrap().unwrap();
        assert_eq!(
            (m.offset, m.size, m.magic, m.attributes),
            (7, v0.len(), 0, Attributes(2))
        );
        assert_eq!(
            (m.timestamp, m.key.of(&v0), m.value.of(&v0)),
            (-1, Some(&b"key"[..]), Some(&b"vv"[..]))
        );
        let v1 = message(1, b"\0\0\0\0\0\0\0\x01\x02\xff\xff\xff\xff\0\0\0\0");
        let m = Message::parse(&v1).unwrap().unwrap();
        assert_eq!(
            (m.timestamp, m.key.of(&v1), m.value.of(&v1)),
            (258, None, Some(&b""[..]))
        );
        for cut in 0..v1.len() {
            assert_eq!(Message::parse(&v1[..cut]).unwrap(), None);
        }
    }

    #[test]
    fn refused() {
        let fails = |data: &[u8], text: &str| {
            let error = Message::parse(data).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        };
        fails(
            &message(2, &[0; 30]),
            "byte 16: message magic: expected 0 or 1, found 2",
        );
        fails(
            &message(0, &[0; 8]),
            "byte 8: batch length: expected at least 14, found 13",
        );
        fails(
            &message(1, &[0; 9]),
            "byte 26: message key length: expected 4 bytes, found 0",
        );
        fails(&message(1, &[0; 8]), "batch length");
        fails(
            &message(0, b"\0\0\0\0\x05abcdefgh"),
            "byte 27: message value length: expected 4 bytes, found 3",
        );
        fails(
            &message(0, b"\0\0\0\0\x09abcdefgh"),
            "byte 18: message key length: expected at most 8, found 9",
        );
        fails(
            &message(0, b"\0\xff\xff\xff\xff\0\0\0\x02v"),
            "byte 22: message value length: expected at most 1, found 2",
        );
    }
}
