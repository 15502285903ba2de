//! Wrappers built by hand: offsets, timestamps, and what must be refused.

use super::*;
use crate::types::TimestampMs;

struct Plan<'a> {
    magic: u8,
    attributes: u8,
    offset: i64,
    timestamp: i64,
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

impl Plan<'_> {
    fn build(&self) -> Vec<u8> {
        let mut body = vec![self.magic, self.attributes];
        if self.magic > 0 {
            body.extend(self.timestamp.to_be_bytes());
        }
        for field in [self.key, self.value] {
            let len = field.map_or(-1, |f| i32::try_from(f.len()).unwrap());
            body.extend(len.to_be_bytes());
            body.extend(field.unwrap_or_default());
        }
        let mut data = self.offset.to_be_bytes().to_vec();
        data.extend(
            i32::try_from(body.len().saturating_add(4))
                .unwrap()
                .to_be_bytes(),
        );
        data.extend(crc32fast::hash(&body).to_be_bytes());
        data.extend(body);
        data
    }
}

fn inner(magic: u8, offset: i64, timestamp: i64) -> Vec<u8> {
    let value = format!("v{offset}");
    Plan {
        magic,
        attributes: 0,
        offset,
        timestamp,
        key: None,
        value: Some(value.as_bytes()),
    }
    .build()
}

/// Raw snappy of literals: enough to wrap anything.
fn snappy(data: &[u8]) -> Vec<u8> {
    snap::raw::Encoder::new().compress_vec(data).unwrap()
}

fn wrapper(magic: u8, attributes: u8, offset: i64, inner: &[u8]) -> Vec<u8> {
    let value = snappy(inner);
    Plan {
        magic,
        attributes: attributes | 2,
        offset,
        timestamp: 5000,
        key: None,
        value: Some(&value),
    }
    .build()
}

fn walked(data: &[u8]) -> Result<Vec<(Offset, TimestampMs)>> {
    let header = BatchHeader::parse(data)?.unwrap();
    header.ensure_valid(data)?;
    let (mut arena, mut out) = (vec![0; 5], vec![RecordSlot::default()]);
    let mut decompressor = Decompressor::new();
    let limit = DecodeLimit(1 << 20);
    let result = walk(
        data,
        0,
        &header,
        &mut decompressor,
        &mut arena,
        limit,
        &mut out,
    );
    if result.is_err() {
        assert_eq!(out.len(), 1, "nothing is appended");
    }
    let payload = result?;
    for slot in &out[1..] {
        let from = if payload == Payload::Arena {
            &arena
        } else {
            data
        };
        let (start, len) = (
            usize::try_from(slot.value_start).unwrap(),
            usize::try_from(slot.value_len).unwrap(),
        );
        assert_eq!(from[start], b'v', "{slot:?}");
        assert!(from.get(start..).is_some_and(|rest| rest.len() >= len));
    }
    assert_eq!(first_offset(data, &header, limit)?, out[1].offset);
    Ok(out[1..].iter().map(|s| (s.offset, s.timestamp)).collect())
}

#[test]
fn offsets() {
    let v1 = [inner(1, 0, 10), inner(1, 1, 30), inner(1, 4, 20)].concat();
    assert_eq!(
        walked(&wrapper(1, 0, 104, &v1)).unwrap(),
        [(100, 10), (101, 30), (104, 20)]
    );
    assert_eq!(
        walked(&wrapper(1, 0, 4, &v1)).unwrap(),
        [(0, 10), (1, 30), (4, 20)]
    );
    // Left 0 by some producers.
    assert_eq!(
        walked(&wrapper(1, 0, 0, &v1)).unwrap(),
        [(0, 10), (1, 30), (4, 20)]
    );
    let v0 = [inner(0, 7, 0), inner(0, 9, 0)].concat();
    assert_eq!(walked(&wrapper(0, 0, 9, &v0)).unwrap(), [(7, -1), (9, -1)]);
    // As they stand, whatever the wrapper says.
    for offset in [0, 5, 8, 12] {
        assert_eq!(
            walked(&wrapper(0, 0, offset, &v0)).unwrap(),
            [(7, -1), (9, -1)]
        );
    }
}

#[test]
fn timestamps() {
    let mixed = [inner(1, 0, 10), inner(0, 1, 0)].concat();
    assert_eq!(
        walked(&wrapper(1, 0, 11, &mixed)).unwrap(),
        [(10, 10), (11, -1)]
    );
    assert_eq!(
        walked(&wrapper(1, 8, 11, &mixed)).unwrap(),
        [(10, 5000), (11, -1)]
    );
    assert_eq!(
        walked(&wrapper(0, 8, 1, &mixed)).unwrap(),
        [(0, 10), (1, -1)]
    );
    let alone = Plan {
        magic: 1,
        attributes: 8,
        offset: 3,
        timestamp: 77,
        key: Some(b"k"),
        value: Some(b"v"),
    };
    assert_eq!(walked(&alone.build()).unwrap(), [(3, 77)]);
}

#[test]
fn a_cut_inner_message_is_dropped() {
    let two = [inner(1, 0, 10), inner(1, 1, 20)].concat();
    for cut in 1..inner(1, 1, 20).len() {
        assert_eq!(
            walked(&wrapper(1, 0, 5, &two[..two.len() - cut])).unwrap(),
            [(5, 10)]
        );
    }
}

#[test]
fn inner_checksums_are_not_checked() {
    let mut one = inner(1, 0, 10);
    one[12] ^= 1;
    assert_eq!(walked(&wrapper(1, 0, 5, &one)).unwrap(), [(5, 10)]);
}

#[test]
fn refused() {
    let fails = |data: &[u8], kind: &str, text: &str| {
        let error = walked(data).unwrap_err();
        assert!(
            format!("{error:?}").starts_with(kind) && error.to_string().contains(text),
            "{error:?}: {error}"
        );
    };
    let null = Plan {
        magic: 1,
        attributes: 2,
        offset: 3,
        timestamp: 0,
        key: None,
        value: None,
    };
    fails(
        &null.build(),
        "InvalidRecord",
        "byte 34: wrapper value: expected compressed messages, found null",
    );
    fails(
        &wrapper(1, 0, 3, &[]),
        "InvalidRecord",
        "wrapper value: expected at least one message, found 0 bytes",
    );
    fails(
        &wrapper(1, 0, 3, &inner(1, 0, 0)[..30]),
        "InvalidRecord",
        "expected at least one message",
    );
    let nested = wrapper(1, 0, 3, &inner(1, 3, 0));
    fails(
        &wrapper(1, 0, 3, &nested),
        "InvalidRecord",
        "inner message codec: expected none, found 2",
    );
    let mut short = inner(1, 0, 0);
    short[11] = 13;
    fails(
        &wrapper(1, 0, 3, &[inner(1, 0, 0), short].concat()),
        "CorruptRecord",
        "byte 0: batch length: expected at least 14, found 13 (byte 44 of the decompressed records)",
    );
    fails(
        &wrapper(1, 0, 3, &inner(1, 4, 0)),
        "InvalidRecord",
        "last inner offset: expected at most 3, the wrapper's, found 4",
    );
    fails(
        &wrapper(1, 0, 3, &inner(2, 3, 0)),
        "UnsupportedFormat",
        "message magic: expected 0 or 1, found 2",
    );
    let zstd = Plan {
        magic: 1,
        attributes: 4,
        offset: 3,
        timestamp: 0,
        key: None,
        value: Some(b""),
    };
    fails(
        &zstd.build(),
        "UnsupportedFormat",
        "compression codec: expected 0 to 3 for magic 1, found 4",
    );
    let raw = Plan {
        magic: 1,
        attributes: 2,
        offset: 3,
        timestamp: 0,
        key: None,
        value: Some(&[2, 0]),
    };
    fails(&raw.build(), "CorruptRecord", "byte 34: snappy block");
    let bomb = vec![0; 2 << 20];
    fails(
        &wrapper(1, 0, 3, &bomb),
        "CorruptRecord",
        "byte 34: decompressed records: expected at most 1048576 bytes",
    );
}
