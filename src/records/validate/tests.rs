//! Kafka's own catalogue (`LogValidatorTest`): what is assigned in place, what is encoded anew, what is refused.

use super::*;
use crate::format::batch::{RECORD_BATCH_OVERHEAD, set_max_timestamp};
use crate::format::control::ControlType;
use crate::records::builder::end_transaction;

const NOW: TimestampMs = 1_700_000_000_000;
const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn rules() -> LeaderRules {
    LeaderRules {
        codec: None,
        compact: false,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
    }
}

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

fn read(data: &[u8]) -> (BatchHeader, Read) {
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
    let source = if payload == Payload::Source {
        data
    } else {
        &arena
    };
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

#[test]
fn the_producers_codec_is_kept_in_place() {
    for compression in CODECS {
        let data = batch_of(compression);
        let (out, validated) = validate(&data, &rules(), &placement()).unwrap();
        assert!(!validated.is_reencoded);
        assert_eq!(
            (
                validated.next_offset,
                validated.max_timestamp,
                validated.log_append_time
            ),
            (1_234_570, NOW + 7, None)
        );
        let (header, rows) = read(&out);
        assert_eq!(
            (header.base_offset, header.partition_leader_epoch),
            (1_234_567, 9)
        );
        assert_eq!(rows, expected(1_234_567, 1, |ts| ts));
        // Nothing that the checksum covers has changed.
        assert_eq!(out[16..], data[16..]);
    }
}

#[test]
fn another_codec_is_encoded_anew_and_another_level_is_not() {
    for source in CODECS {
        for target in CODECS {
            let rules = LeaderRules {
                codec: Some(Codec::new(target)),
                ..rules()
            };
            let (out, validated) = validate(&batch_of(source), &rules, &placement()).unwrap();
            assert_eq!(validated.is_reencoded, source != target);
            let (header, rows) = read(&out);
            assert_eq!(header.compression().unwrap(), target);
            assert_eq!(rows, expected(1_234_567, 1, |ts| ts));
            assert_eq!(
                (header.max_timestamp, header.base_timestamp),
                (NOW + 7, NOW - 5)
            );
            assert_eq!(
                (header.partition_leader_epoch, validated.max_timestamp),
                (9, NOW + 7)
            );
        }
    }
    let rules = LeaderRules {
        codec: Some(Codec::with_level(Compression::Gzip, 9).unwrap()),
        ..rules()
    };
    let gzip = BatchOptions {
        codec: Codec::with_level(Compression::Gzip, 1).unwrap(),
        ..BatchOptions::default()
    };
    assert!(
        !validate(&batch_with(&ROWS, gzip), &rules, &placement())
            .unwrap()
            .1
            .is_reencoded
    );
}

#[test]
fn a_producer_keeps_its_place_in_a_new_batch() {
    let options = BatchOptions {
        producer_id: 7,
        producer_epoch: 3,
        base_sequence: 99,
        is_transactional: true,
        ..BatchOptions::default()
    };
    let rules = LeaderRules {
        codec: Some(Codec::new(Compression::Zstd)),
        ..rules()
    };
    let (header, _) = read(
        &validate(&batch_with(&ROWS, options), &rules, &placement())
            .unwrap()
            .0,
    );
    assert_eq!(
        (
            header.producer_id,
            header.producer_epoch,
            header.base_sequence
        ),
        (7, 3, 99)
    );
    assert!(header.is_transactional() && header.last_sequence() == 101);
}

#[test]
fn log_append_time() {
    for source in CODECS {
        for target in [None, Some(Codec::new(Compression::Lz4))] {
            let rules = LeaderRules {
                codec: target,
                timestamp_type: TimestampType::LogAppendTime,
                ..rules()
            };
            let (out, validated) = validate(&batch_of(source), &rules, &placement()).unwrap();
            assert_eq!(
                (validated.max_timestamp, validated.log_append_time),
                (NOW, Some(NOW))
            );
            let (header, rows) = read(&out);
            assert_eq!(
                (header.timestamp_type(), header.max_timestamp),
                (TimestampType::LogAppendTime, NOW)
            );
            assert_eq!(header.base_timestamp, NOW - 5);
            assert_eq!(rows, expected(1_234_567, 1, |_| NOW));
        }
    }
}

/// A producer may not say LogAppendTime, unless its timestamps pass for its own.
#[test]
fn log_append_time_from_a_producer() {
    let log_append = |ms| BatchOptions {
        timestamp_type: TimestampType::LogAppendTime,
        log_append_time: ms,
        ..BatchOptions::default()
    };
    let by_log = LeaderRules {
        timestamp_type: TimestampType::LogAppendTime,
        ..rules()
    };
    let error = refused(&batch_with(&ROWS, log_append(NOW)), &by_log, &placement());
    assert_eq!(error.refusal(), Some(Refusal::InvalidTimestamp));
    let error = refused(&batch_with(&ROWS, log_append(-1)), &rules(), &placement());
    assert!(error.to_string().contains("found LogAppendTime"), "{error}");
    let (out, _) = validate(&batch_with(&ROWS, log_append(NOW)), &rules(), &placement()).unwrap();
    let (header, rows) = read(&out);
    assert_eq!(
        (header.timestamp_type(), header.max_timestamp),
        (TimestampType::CreateTime, NOW)
    );
    assert_eq!(rows, expected(1_234_567, 1, |ts| ts));
}

#[test]
fn a_largest_timestamp_that_lies_is_put_right() {
    let mut data = batch_of(Compression::Zstd);
    let header = BatchHeader::parse(&data).unwrap().unwrap();
    set_max_timestamp(&mut data, &header, TimestampType::CreateTime, 5);
    let (out, validated) = validate(&data, &rules(), &placement()).unwrap();
    assert_eq!(
        (read(&out).0.max_timestamp, validated.max_timestamp),
        (NOW + 7, NOW + 7)
    );
}

#[test]
fn old_formats_become_the_new_one() {
    for magic in [0, 1] {
        let inner: Vec<u8> = messages(magic);
        for (data, source) in [
            (inner.clone(), Compression::None),
            (wrapper(magic, &inner), Compression::Snappy),
        ] {
            for target in [None, Some(Codec::NONE), Some(Codec::new(Compression::Gzip))] {
                let (out, validated) = validate(
                    &data,
                    &LeaderRules {
                        codec: target,
                        ..rules()
                    },
                    &placement(),
                )
                .unwrap();
                assert!(validated.is_reencoded && validated.next_offset == 1_234_570);
                let (header, rows) = read(&out);
                assert_eq!((header.magic, header.partition_leader_epoch), (2, 9));
                assert_eq!(
                    header.compression().unwrap(),
                    target.map_or(source, Codec::compression)
                );
                assert_eq!(
                    rows,
                    expected(1_234_567, 0, |ts| if magic == 0 { -1 } else { ts })
                );
                assert_eq!(
                    validated.max_timestamp,
                    if magic == 0 { -1 } else { NOW + 7 }
                );
            }
        }
    }
}

#[test]
fn one_batch_at_a_time() {
    let two = [batch_of(Compression::None), batch_of(Compression::None)].concat();
    assert!(matches!(
        refused(&two, &rules(), &placement()),
        Error::InvalidRecord(_)
    ));
    let two = [wrapper(1, &messages(1)), wrapper(1, &messages(1))].concat();
    assert!(
        refused(&two, &rules(), &placement())
            .to_string()
            .contains("expected one batch, found 2 of them")
    );
    let mixed = [messages(1), messages(0)].concat();
    assert!(
        refused(&mixed, &rules(), &placement())
            .to_string()
            .contains("magic: expected 1 as in the first batch, found 0")
    );
    assert!(matches!(
        refused(&[], &rules(), &placement()),
        Error::InvalidRecord(_)
    ));
    let cut = &batch_of(Compression::None)[..90];
    assert!(matches!(
        refused(cut, &rules(), &placement()),
        Error::CorruptRecord(_)
    ));
}

/// Count and last offset delta of a batch of three, as `testRecordBatchWithCountOverrides` has them.
#[test]
fn counts_that_contradict_the_offsets() {
    for compression in [Compression::None, Compression::Lz4] {
        for (count, delta, good) in [
            (3i32, 2i32, true),
            (0, 3, false),
            (15, 3, false),
            (-3, 3, false),
            (5, 6, false),
            (1, 2, false),
            (2, 1, false),
            (4, 3, false),
        ] {
            let mut data = batch_of(compression);
            data[57..61].copy_from_slice(&count.to_be_bytes());
            data[23..27].copy_from_slice(&delta.to_be_bytes());
            let crc = crc32c::crc32c(&data[21..]).to_be_bytes();
            data[17..21].copy_from_slice(&crc);
            for codec in [None, Some(Codec::new(Compression::Zstd))] {
                let result = validate(&data, &LeaderRules { codec, ..rules() }, &placement());
                assert_eq!(result.is_ok(), good, "{count} {delta} {compression}");
            }
        }
    }
}

#[test]
fn no_records_control_records_sequences() {
    let mut empty = Vec::new();
    crate::records::builder::empty_batch(BatchOptions::default(), 0, -1, &mut empty).unwrap();
    assert!(
        refused(&empty, &rules(), &placement())
            .to_string()
            .contains("records count: expected 1 or more, found 0")
    );

    let mut marker = Vec::new();
    let options = BatchOptions {
        producer_id: 5,
        producer_epoch: 0,
        ..BatchOptions::default()
    };
    end_transaction(options, NOW, ControlType::Commit, 3, &mut marker).unwrap();
    assert!(
        refused(&marker, &rules(), &placement())
            .to_string()
            .contains("records from a client, found control records")
    );
    // From the coordinator it goes in, and is never compressed.
    let coordinator = Placement {
        origin: AppendOrigin::Coordinator,
        ..placement()
    };
    let zstd = LeaderRules {
        codec: Some(Codec::new(Compression::Zstd)),
        ..rules()
    };
    let (out, validated) = validate(&marker, &zstd, &coordinator).unwrap();
    assert!(!validated.is_reencoded && out[16..] == marker[16..]);
    assert_eq!(read(&out).0.base_offset, 1_234_567);

    let options = BatchOptions {
        producer_id: 5,
        producer_epoch: 0,
        base_sequence: 0,
        ..BatchOptions::default()
    };
    let mut unnumbered = batch_with(&ROWS, options);
    unnumbered[53..57].copy_from_slice(&(-1i32).to_be_bytes());
    let error = refused(&unnumbered, &rules(), &placement()).to_string();
    assert!(
        error.contains("base sequence: expected 0 or more from producer 5, found -1"),
        "{error}"
    );
}

#[test]
fn keys_in_a_compacted_topic() {
    let rows = [(NOW, Some("k"), "v"), (NOW, None, "v"), (NOW, None, "v")];
    let rules = LeaderRules {
        compact: true,
        ..rules()
    };
    for compression in CODECS {
        let data = batch_with(
            &rows,
            BatchOptions {
                codec: Codec::new(compression),
                ..BatchOptions::default()
            },
        );
        let error = refused(&data, &rules, &placement());
        assert!(matches!(error, Error::InvalidRecord(_)), "{error}");
        assert!(error.to_string().contains(
            "key: expected one in each record, as the topic is compacted, found none in record 1"
        ));
        validate(&batch_of(compression), &rules, &placement()).unwrap();
    }
    let keyless = message(1, 0, 0, NOW, None, b"v");
    assert!(matches!(
        refused(&keyless, &rules, &placement()),
        Error::InvalidRecord(_)
    ));
}

#[test]
fn timestamps_at_the_bounds() {
    let rules = LeaderRules {
        timestamp_before_max_ms: 1000,
        timestamp_after_max_ms: 500,
        ..rules()
    };
    for compression in CODECS {
        for (timestamp, good) in [
            (NOW - 1000, true),
            (NOW - 1001, false),
            (NOW + 500, true),
            (NOW + 501, false),
            (-1, true),
            (0, false),
        ] {
            let rows = [(NOW, Some("k"), "v"), (timestamp, Some("k"), "v")];
            let data = batch_with(
                &rows,
                BatchOptions {
                    codec: Codec::new(compression),
                    ..BatchOptions::default()
                },
            );
            match validate(&data, &rules, &placement()) {
                Ok(_) => assert!(good, "{timestamp}"),
                Err(error) => {
                    assert!(!good && error.refusal() == Some(Refusal::InvalidTimestamp));
                    let text = format!(
                        "expected {} to {}, found {timestamp} in record 1",
                        NOW - 1000,
                        NOW + 500
                    );
                    assert!(error.to_string().contains(&text), "{error}");
                }
            }
            // The broker's clock needs no bounds.
            let by_log = LeaderRules {
                timestamp_type: TimestampType::LogAppendTime,
                ..rules
            };
            validate(&data, &by_log, &placement()).unwrap();
        }
    }
    // A missing key and a bad timestamp: the timestamp decides.
    let rules = LeaderRules {
        compact: true,
        ..rules
    };
    let data = batch_with(
        &[(NOW, None, "v"), (0, Some("k"), "v")],
        BatchOptions::default(),
    );
    assert_eq!(
        refused(&data, &rules, &placement()).refusal(),
        Some(Refusal::InvalidTimestamp)
    );
}

/// Some old clients number the records of a compressed batch wrongly: it is made anew.
#[test]
fn offsets_with_gaps_inside_a_compressed_batch() {
    for compression in [Compression::Gzip, Compression::None] {
        let options = BatchOptions {
            codec: Codec::new(compression),
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options).unwrap();
        for (offset, (timestamp, key, value)) in [0, 2, 3].into_iter().zip(ROWS) {
            builder
                .append(
                    offset,
                    timestamp,
                    key.map(str::as_bytes),
                    Some(value.as_bytes()),
                    &[],
                )
                .unwrap();
        }
        let mut data = Vec::new();
        builder.finish(&mut Compressor::new(), &mut data).unwrap();
        assert!(matches!(
            refused(&data, &rules(), &placement()),
            Error::InvalidRecord(_)
        ));
        let coordinator = Placement {
            origin: AppendOrigin::Coordinator,
            ..placement()
        };
        let (out, validated) = validate(&data, &rules(), &coordinator).unwrap();
        assert_eq!(validated.is_reencoded, compression == Compression::Gzip);
        assert_eq!(validated.next_offset, 1_234_570);
        if validated.is_reencoded {
            assert_eq!(read(&out).1, expected(1_234_567, 0, |ts| ts));
        } else {
            // As in Kafka the last offset is what the count says, and the base follows from it.
            assert_eq!(
                (read(&out).0.base_offset, read(&out).0.last_offset()),
                (1_234_566, 1_234_569)
            );
        }
    }
}

#[test]
fn what_is_inside_a_wrapper_is_checked() {
    let mut flipped = messages(1);
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    let error = refused(&wrapper(1, &flipped), &rules(), &placement());
    assert!(
        matches!(error, Error::CorruptRecord(_)) && error.to_string().contains("crc (CRC-32)"),
        "{error}"
    );
    let error = refused(&wrapper(1, &messages(0)), &rules(), &placement());
    assert!(
        error
            .to_string()
            .contains("inner message magic: expected 1 as the wrapper's, found 0"),
        "{error}"
    );
    let nested = wrapper(1, &wrapper(1, &messages(1)));
    assert!(matches!(
        refused(&nested, &rules(), &placement()),
        Error::InvalidRecord(_)
    ));
}

/// A header key that is not UTF-8 comes out of a new batch as Java reads and writes it.
#[test]
fn header_keys_pass_through_text() {
    let mut data = batch_with(&[(NOW, None, "v")], BatchOptions::default());
    let key = data.iter().rposition(|&byte| byte == b'h').unwrap();
    data[key] = 0xff;
    let rules = LeaderRules {
        codec: Some(Codec::new(Compression::Zstd)),
        ..rules()
    };
    let (out, _) = validate(&data, &rules, &placement()).unwrap();
    let (mut arena, mut slots) = (Vec::new(), Vec::new());
    let header = BatchHeader::parse(&out).unwrap().unwrap();
    plain::batch(
        &out,
        0,
        &header,
        &mut Decompressor::new(),
        &mut arena,
        DecodeLimit::default(),
        &mut slots,
    )
    .unwrap();
    let start = usize::try_from(slots[0].headers_start).unwrap();
    let keys: Vec<_> = HeaderIter::new(&arena, start, slots[0].headers_count)
        .map(|h| h.key.to_vec())
        .collect();
    assert_eq!(keys, ["\u{fffd}".as_bytes()]);
}

/// No prefix, no flipped bit makes it panic, and what it takes can be read.
#[test]
fn damaged_appends() {
    let mut validator = LeaderValidator::new();
    let wanted = [
        rules(),
        LeaderRules {
            codec: Some(Codec::new(Compression::Lz4)),
            compact: true,
            ..rules()
        },
    ];
    for data in [
        batch_of(Compression::None),
        batch_of(Compression::Snappy),
        messages(1),
        wrapper(0, &messages(0)),
    ] {
        for bit in 0..data.len() * 8 {
            for rules in &wanted {
                let mut flipped = data.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                if validator
                    .validate(&mut flipped, rules, &placement())
                    .is_ok()
                {
                    let header = BatchHeader::parse(&flipped).unwrap().unwrap();
                    assert!(header.size <= flipped.len() && header.size >= RECORD_BATCH_OVERHEAD);
                }
                let mut cut = data[..bit / 8].to_vec();
                let _ = validator.validate(&mut cut, rules, &placement());
            }
        }
    }
}
