//! One record of magic 2 as bytes (`DefaultRecord.writeTo`).

use super::Header;
use crate::error::{Error, Result};
use crate::format::varint::{put_varint, put_varlong, varlong_len};

/// Kafka's length of a null key or value.
const NULL: i32 = -1;

/// A record to be written; numbers count from its batch's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewRecord<'a> {
    /// Timestamp minus the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Offset minus the batch's base offset.
    pub offset_delta: i32,
    /// The key, or null.
    pub key: Option<&'a [u8]>,
    /// The value, or null.
    pub value: Option<&'a [u8]>,
    /// The headers, in order.
    pub headers: &'a [Header<'a>],
}

impl NewRecord<'_> {
    /// The bytes after the length field (`DefaultRecord.sizeOfBodyInBytes`).
    ///
    /// # Errors
    /// `InvalidRecord` for more than 31 bits can say.
    pub(crate) fn body_len(&self) -> Result<i32> {
        let mut len = 1usize
            .saturating_add(varlong_len(self.timestamp_delta))
            .saturating_add(varlong_len(i64::from(self.offset_delta)))
            .saturating_add(nullable_len(self.key))
            .saturating_add(nullable_len(self.value))
            .saturating_add(count_len(self.headers.len()));
        for header in self.headers {
            len = len
                .saturating_add(nullable_len(Some(header.key)))
                .saturating_add(nullable_len(header.value));
        }
        i32::try_from(len).map_err(|_| {
            Error::invalid(
                "record length",
                0,
                format_args!("at most {}", i32::MAX),
                len,
            )
        })
    }

    /// Appends the record and returns how many bytes it took; on failure nothing is appended.
    ///
    /// # Errors
    /// As [`NewRecord::body_len`].
    pub(crate) fn put(&self, out: &mut Vec<u8>) -> Result<usize> {
        let body = self.body_len()?;
        let begun = out.len();
        put_varint(body, out);
        out.push(0);
        put_varlong(self.timestamp_delta, out);
        put_varint(self.offset_delta, out);
        put_nullable(self.key, out);
        put_nullable(self.value, out);
        put_count(self.headers.len(), out);
        for header in self.headers {
            put_nullable(Some(header.key), out);
            put_nullable(header.value, out);
        }
        Ok(out.len().saturating_sub(begun))
    }
}

/// Lengths and counts are below 2^31 where [`NewRecord::body_len`] has seen them.
fn signed(len: usize) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}

fn count_len(count: usize) -> usize {
    varlong_len(i64::from(signed(count)))
}

fn nullable_len(bytes: Option<&[u8]>) -> usize {
    match bytes {
        Some(bytes) => count_len(bytes.len()).saturating_add(bytes.len()),
        None => 1,
    }
}

fn put_count(count: usize, out: &mut Vec<u8>) {
    put_varint(signed(count), out);
}

fn put_nullable(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    match bytes {
        Some(bytes) => {
            put_count(bytes.len(), out);
            out.extend_from_slice(bytes);
        }
        None => put_varint(NULL, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::Record;

    fn header<'a>(key: &'a str, value: Option<&'a [u8]>) -> Header<'a> {
        Header {
            key: key.as_bytes(),
            value,
        }
    }

    /// format.md 2.9, after Kafka's own.
    #[test]
    fn the_golden_record() {
        let record = NewRecord {
            timestamp_delta: -5,
            offset_delta: 2,
            key: None,
            value: Some(b""),
            headers: &[header("h", None), header("k", Some(b"v"))],
        };
        let mut out = b"before".to_vec();
        assert_eq!(record.put(&mut out).unwrap(), 14);
        assert_eq!(
            out.split_off(6),
            [0x1a, 0, 9, 4, 1, 0, 4, 2, 0x68, 1, 2, 0x6b, 2, 0x76]
        );
        assert_eq!(out, b"before");
    }

    /// Every length just below, at and above where a varint grows.
    #[test]
    fn sizes_around_the_edges_of_varints() {
        let bytes = vec![7u8; (1 << 20) + 100];
        let edges = [
            0usize,
            1,
            62,
            63,
            64,
            65,
            8190,
            8191,
            8192,
            8193,
            1 << 20,
            (1 << 20) + 1,
        ];
        for key in edges.into_iter().map(Some).chain([None]) {
            for near in edges {
                // The body is a few bytes more than key and value, so its own edge lies a little lower.
                for value in near.saturating_sub(20)..near + 4 {
                    let record = NewRecord {
                        timestamp_delta: i64::MIN,
                        offset_delta: i32::MAX,
                        key: key.map(|len| &bytes[..len]),
                        value: Some(&bytes[..value]),
                        headers: &[],
                    };
                    if key.is_some_and(|key| key > 100) && value > 9000 {
                        continue;
                    }
                    let mut out = Vec::new();
                    assert_eq!(record.put(&mut out).unwrap(), out.len());
                    let read = Record::parse(&out, 0).unwrap();
                    assert_eq!(
                        (read.end, read.key.len, read.value.len),
                        (out.len(), key, Some(value))
                    );
                    assert_eq!(
                        (read.timestamp_delta, read.offset_delta),
                        (i64::MIN, i32::MAX)
                    );
                }
            }
        }
    }
}
