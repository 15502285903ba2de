//! Random batches of every shape against what they were made from, and random bytes against every check.

use std::io::Write;

use kafkalog::internal::compress::{DecodeLimit, Decompressor};
use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::format::record::HeaderIter;
use kafkalog::internal::records::block::Payload;
use kafkalog::internal::records::plain;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

use crate::checks;
use crate::common::{Head, batch, pick, put_varint, seal};

#[derive(Clone, Debug, PartialEq)]
struct Row {
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: pick(100, 400, 20_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => vec(any::<u8>(), 0..20),
        2 => vec(any::<u8>(), 50..150),
        1 => (8000..9000usize).prop_map(|len| vec![0x61; len]),
    ]
}

fn row() -> impl Strategy<Value = Row> {
    let number = prop_oneof![
        0..100i64,
        -200..200i64,
        any::<i32>().prop_map(i64::from),
        any::<i64>()
    ];
    let delta = prop_oneof![0..200i32, any::<i32>()];
    let headers = prop_oneof![
        3 => Just(Vec::new()),
        1 => vec((vec(any::<u8>(), 0..6), weighted(0.8, vec(any::<u8>(), 0..9))), 1..5),
    ];
    (
        number,
        delta,
        weighted(0.8, bytes()),
        weighted(0.8, bytes()),
        headers,
    )
        .prop_map(|(timestamp_delta, offset_delta, key, value, headers)| Row {
            timestamp_delta,
            offset_delta,
            key,
            value,
            headers,
        })
}

fn put_bytes(out: &mut Vec<u8>, bytes: Option<&Vec<u8>>) {
    match bytes {
        Some(bytes) => {
            put_varint(out, i64::try_from(bytes.len()).unwrap());
            out.extend(bytes);
        }
        None => put_varint(out, -1),
    }
}

fn encode(rows: &[Row]) -> Vec<u8> {
    let mut out = Vec::new();
    for row in rows {
        let mut body = vec![0];
        put_varint(&mut body, row.timestamp_delta);
        put_varint(&mut body, i64::from(row.offset_delta));
        put_bytes(&mut body, row.key.as_ref());
        put_bytes(&mut body, row.value.as_ref());
        put_varint(&mut body, i64::try_from(row.headers.len()).unwrap());
        for (key, value) in &row.headers {
            put_bytes(&mut body, Some(key));
            put_bytes(&mut body, value.as_ref());
        }
        put_varint(&mut out, i64::try_from(body.len()).unwrap());
        out.extend(body);
    }
    out
}

fn compress(codec: u8, records: &[u8]) -> Vec<u8> {
    match codec {
        0 => records.to_vec(),
        1 => {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(records).unwrap();
            encoder.finish().unwrap()
        }
        2 => snap::raw::Encoder::new().compress_vec(records).unwrap(),
        3 => lz4_stored(records),
        _ => {
            let mut out = Vec::with_capacity(zstd_safe::compress_bound(records.len()));
            zstd_safe::compress(&mut out, records, 1).unwrap();
            out
        }
    }
}

/// An LZ4 frame of stored blocks.
pub fn lz4_stored(records: &[u8]) -> Vec<u8> {
    let mut out = vec![0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
    for block in records.chunks(64 << 10) {
        let length = u32::try_from(block.len()).unwrap() | 0x8000_0000;
        out.extend(length.swap_bytes().to_be_bytes());
        out.extend(block);
    }
    out.extend([0; 4]);
    out
}

fn head(rows: usize, attributes: u8) -> Head {
    Head {
        base_offset: 5_000_000_000,
        attributes,
        last_offset_delta: 1000,
        base_timestamp: 1_700_000_000_000,
        max_timestamp: 1_800_000_000_000,
        count: i32::try_from(rows).unwrap(),
    }
}

fn part(from: &[u8], start: u32, len: i32) -> Option<Vec<u8>> {
    let len = usize::try_from(len).ok()?;
    Some(from[usize::try_from(start).unwrap()..][..len].to_vec())
}

proptest! {
    #![proptest_config(config())]

    /// Both decoders read what was written ([`checks::batch`] compares them).
    #[test]
    fn comes_back(rows in vec(row(), 0..20), codec in 0..5u8, append_time in any::<bool>()) {
        let head = head(rows.len(), codec | if append_time { 8 } else { 0 });
        let data = batch(head, &compress(codec, &encode(&rows)));
        checks::batch(&data);
        let header = BatchHeader::parse(&data).unwrap().unwrap();
        header.ensure_valid(&data).unwrap();
        let (mut arena, mut slots) = (Vec::new(), Vec::new());
        let mut decompressor = Decompressor::new();
        let limit = DecodeLimit::default();
        let payload = plain::batch(&data, 0, &header, &mut decompressor, &mut arena, limit, &mut slots).unwrap();
        let from = if payload == Payload::Arena { &arena } else { &data };
        prop_assert_eq!(slots.len(), rows.len());
        for (slot, row) in slots.iter().zip(&rows) {
            prop_assert_eq!(slot.offset, head.base_offset + i64::from(row.offset_delta));
            let timestamp = head.base_timestamp.wrapping_add(row.timestamp_delta);
            prop_assert_eq!(slot.timestamp, if append_time { head.max_timestamp } else { timestamp });
            prop_assert_eq!(&part(from, slot.key_start, slot.key_len), &row.key);
            prop_assert_eq!(&part(from, slot.value_start, slot.value_len), &row.value);
            let start = usize::try_from(slot.headers_start).unwrap();
            let headers: Vec<_> = HeaderIter::new(from, start, slot.headers_count)
                .map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec)))
                .collect();
            prop_assert_eq!(&headers, &row.headers);
        }
    }

    /// Broken in one place or a few, and sealed again: both decoders find fault, or neither does.
    #[test]
    fn broken(
        rows in vec(row(), 1..6),
        codec in prop_oneof![3 => Just(0u8), 1 => Just(3u8)],
        edits in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        more in -2..3i32,
        cut in prop_oneof![3 => Just(0usize), 1 => 0..40usize],
    ) {
        let mut records = encode(&rows);
        for (at, byte) in edits {
            let at = at.index(records.len());
            records[at] = byte;
        }
        records.truncate(records.len().saturating_sub(cut));
        let mut head = head(rows.len(), codec);
        head.count += more;
        checks::batch(&batch(head, &compress(codec, &records)));
    }

    /// Any bytes after a header that says they are records.
    #[test]
    fn rubbish(records in vec(prop_oneof![any::<u8>(), 0..16u8], 0..200), codec in 0..8u8, magic in 0..4u8) {
        let mut data = batch(head(3, codec), &records);
        data[16] = magic;
        seal(&mut data);
        checks::batch(&data);
    }

    #[test]
    fn any_bytes(data in vec(any::<u8>(), 0..300)) {
        for check in checks::ALL {
            check(&data);
        }
    }

    /// Streams that were whole, in each codec, broken.
    #[test]
    fn broken_streams(
        data in bytes(),
        codec in 1..5u8,
        edits in vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        cut in prop_oneof![3 => Just(0usize), 1 => 0..40usize],
    ) {
        let mut stream = compress(codec, &data);
        for (at, byte) in edits {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        stream.truncate(stream.len().saturating_sub(cut));
        stream.insert(0, codec | 0x80);
        checks::decompress(&stream);
    }
}
