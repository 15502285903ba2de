//! Kafka's own catalogue (`LogValidatorTest`): what is assigned in place, what is encoded again, what is refused.

use super::*;
use crate::format::record::Header;

mod refused;
mod taken;

const NOW: TimestampMs = 1_700_000_000_000;
const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn placement() -> Placement {
    Placement {
        base_offset: 1_234_567,
        leader_epoch: 9,
        now_ms: NOW,
        origin: AppendOrigin::Client,
    }
}

/// Timestamp, key, value.
type Row = (i64, Option<&'static str>, &'static str);
const ROWS: [Row; 3] = [
    (NOW - 5, Some("a"), "one"),
    (NOW + 7, Some("b"), "two"),
    (-1, Some("c"), "three"),
];

fn batch_with(rows: &[Row], options: BatchOptions) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options).unwrap();
    let header = Header {
        key: b"h",
        value: Some(b"x"),
    };
    for (timestamp, key, value) in rows {
        let key = key.map(str::as_bytes);
        builder
            .append(
                builder.next_offset(),
                *timestamp,
                key,
                Some(value.as_bytes()),
                &[header],
            )
            .unwrap();
    }
    let mut out = Vec::new();
    builder.finish(&mut Compressor::new(), &mut out).unwrap();
    out
}

fn batch_of(compression: Compression) -> Vec<u8> {
    batch_with(
        &ROWS,
        BatchOptions {
            codec: Codec::new(compression),
            ..BatchOptions::default()
        },
    )
}

/// A message of magic 0 or 1.
fn message(
    magic: u8,
    attributes: u8,
    offset: i64,
    timestamp: i64,
    key: Option<&[u8]>,
    value: &[u8],
) -> Vec<u8> {
    let mut body = vec![magic, attributes];
    if magic > 0 {
        body.extend(timestamp.to_be_bytes());
    }
    body.extend(
        key.map_or(-1, |k| i32::try_from(k.len()).unwrap())
            .to_be_bytes(),
    );
    body.extend(key.unwrap_or_default());
    body.extend(i32::try_from(value.len()).unwrap().to_be_bytes());
    body.extend(value);
    let mut data = offset.to_be_bytes().to_vec();
    data.extend(
        i32::try_from(body.len().saturating_add(4))
            .unwrap()
            .to_be_bytes(),
    );
    data.extend(crc32fast::hash(&body).to_be_bytes());
    data.extend(body);
    data
}

fn messages(magic: u8) -> Vec<u8> {
    let rows = ROWS.iter().zip(0..);
    rows.flat_map(|((timestamp, key, value), offset)| {
        message(
            magic,
            0,
            offset,
            *timestamp,
            key.map(str::as_bytes),
            value.as_bytes(),
        )
    })
    .collect()
}

fn wrapper(magic: u8, inner: &[u8]) -> Vec<u8> {
    let value = snap::raw::Encoder::new().compress_vec(inner).unwrap();
    message(magic, 2, 2, NOW, None, &value)
}

/// Offset, timestamp, key, value and number of headers of each record.
type Read = Vec<(i64, i64, Option<String>, String, u32)>;

/// A batch's header, its records' bytes, and where they lie in these.
fn decoded(data: &[u8]) -> (BatchHeader, Vec<u8>, Vec<RecordSlot>) {
    let header = BatchHeader::parse(data).unwrap().unwrap();
    header.ensure_valid(data).unwrap();
    assert_eq!(header.size, data.len());
    let (mut arena, mut slots) = (Vec::new(), Vec::new());
    let payload = plain::batch(
        data,
        0,
        &header,
        &mut Decompressor::new(),
        &mut arena,
        DecodeLimit::default(),
        &mut slots,
    )
    .unwrap();
    if payload == Payload::Source {
        arena = data.to_vec();
    }
    (header, arena, slots)
}

fn read(data: &[u8]) -> (BatchHeader, Read) {
    let (header, source, slots) = decoded(data);
    let text = |start: u32, len: i32| {
        let len = usize::try_from(len).ok()?;
        Some(String::from_utf8(source[usize::try_from(start).unwrap()..][..len].to_vec()).unwrap())
    };
    let rows = slots.iter().map(|s| {
        (
            s.offset,
            s.timestamp,
            text(s.key_start, s.key_len),
            text(s.value_start, s.value_len).unwrap(),
            s.headers_count,
        )
    });
    (header, rows.collect())
}

fn expected(base: i64, headers: u32, timestamp: impl Fn(i64) -> i64) -> Read {
    let rows = ROWS.iter().zip(base..);
    rows.map(|((ts, key, value), offset)| {
        (
            offset,
            timestamp(*ts),
            key.map(str::to_owned),
            (*value).to_owned(),
            headers,
        )
    })
    .collect()
}

fn validate(
    data: &[u8],
    rules: &LeaderRules,
    placement: &Placement,
) -> Result<(Vec<u8>, Validated)> {
    let mut records = data.to_vec();
    let mut validator = LeaderValidator::new();
    let result = validator.validate(&mut records, rules, placement);
    if result.is_err() {
        assert_eq!(records, data, "a refusal leaves the bytes alone");
    }
    result.map(|validated| (records, validated))
}

fn refused(data: &[u8], rules: &LeaderRules, placement: &Placement) -> Error {
    validate(data, rules, placement).unwrap_err()
}
