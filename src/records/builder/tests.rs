//! Kafka's golden batches, made again; every codec and level read back.

use super::*;
use crate::compress::{DecodeLimit, Decompressor};
use crate::records::RecordSlot;
use crate::records::block::Payload;
use crate::records::plain;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())
        .collect()
}

/// (ts 283843, key1 -> value1), (ts 1234, key2 -> value2) of `DefaultRecordBatchTest`.
fn golden(codec: Codec) -> Vec<u8> {
    let options = BatchOptions {
        codec,
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(options).unwrap();
    for (offset, timestamp, key, value) in
        [(0, 283_843, "key1", "value1"), (1, 1234, "key2", "value2")]
    {
        builder
            .append(
                offset,
                timestamp,
                Some(key.as_bytes()),
                Some(value.as_bytes()),
                &[],
            )
            .unwrap();
    }
    let mut out = b"before".to_vec();
    let range = builder
        .finish(&mut Compressor::new(), &mut out)
        .unwrap()
        .unwrap();
    assert_eq!(range, 6..out.len());
    assert_eq!((builder.count, builder.size()), (0, RECORD_BATCH_OVERHEAD));
    out.split_off(6)
}

#[test]
fn golden_batches() {
    assert_eq!(
        golden(Codec::NONE),
        hex(
            "000000000000000000000055ffffffff02e58cf1ff00000000000100000000000454c300000000000454c3\
            ffffffffffffffffffffffffffff0000000220000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c75653200"
        )
    );
    // The block is stored, so these bytes do not depend on the compressor.
    assert_eq!(
        golden(Codec::new(Compression::Lz4)),
        hex(
            "000000000000000000000064ffffffff02a3ac2aa200030000000100000000000454c300000000000454c3\
            ffffffffffffffffffffffffffff0000000204224d186040822400008020000000086b6579310c76616c756531002400e1bf2202086b6579320c76616c7565320000000000"
        )
    );
}

#[test]
fn the_golden_marker() {
    let options = BatchOptions {
        base_offset: 983,
        partition_leader_epoch: 29,
        producer_id: 73,
        producer_epoch: 13,
        ..BatchOptions::default()
    };
    let mut out = Vec::new();
    end_transaction(options, 1000, ControlType::Commit, 347, &mut out).unwrap();
    assert_eq!(
        out,
        hex(
            "00000000000003d7000000420000001d02172b6dc800300000000000000000000003e800000000000003e8\
            0000000000000049000dffffffff000000012000000008000000010c00000000015b00"
        )
    );
    assert!(end_transaction(options, 1000, ControlType::KraftVoters, 347, &mut out).is_err());
    assert!(
        end_transaction(
            BatchOptions::default(),
            1000,
            ControlType::Commit,
            347,
            &mut out
        )
        .is_err()
    );
    assert_eq!(out.len(), 78);
}

#[test]
fn the_golden_empty_batch() {
    let options = BatchOptions {
        base_offset: 5,
        partition_leader_epoch: 2,
        producer_id: 23,
        producer_epoch: 5,
        base_sequence: 10,
        ..BatchOptions::default()
    };
    let mut out = Vec::new();
    empty_batch(options, 8, 7, &mut out).unwrap();
    assert_eq!(
        out,
        hex(
            "000000000000000500000031000000020203f354db000000000003ffffffffffffffff0000000000000007\
            000000000000001700050000000a00000000"
        )
    );
    assert!(empty_batch(options, 4, 7, &mut out).is_err());
    assert!(empty_batch(options, i64::MAX, 7, &mut out).is_err());
}

fn levels() -> Vec<Codec> {
    let mut codecs = vec![Codec::NONE, Codec::new(Compression::Snappy)];
    for (codec, levels) in [
        (Compression::Gzip, vec![-1, 1, 6, 9]),
        (Compression::Lz4, (1..=17).collect()),
        (Compression::Zstd, vec![-131_072, -7, 0, 1, 3, 19, 22]),
    ] {
        codecs.extend(
            levels
                .into_iter()
                .map(|level| Codec::with_level(codec, level).unwrap()),
        );
    }
    codecs
}

/// Values that compress and values that do not, of sizes around the codecs' blocks, by one compressor throughout.
#[test]
fn every_codec_and_level_is_read_back() {
    let mut noise = 1u32;
    let mut compressor = Compressor::new();
    for codec in levels() {
        for size in [
            0usize, 1, 100, 32_000, 32_768, 65_480, 65_536, 70_000, 200_000,
        ] {
            let value: Vec<u8> = (0..size)
                .map(|at| {
                    noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    if at % 64 < 16 {
                        noise.to_be_bytes()[0]
                    } else {
                        b'a' + noise.to_be_bytes()[0] % 4
                    }
                })
                .collect();
            let incompressible: Vec<u8> = (0..size / 2)
                .map(|_| {
                    noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    noise.to_be_bytes()[0]
                })
                .collect();
            let options = BatchOptions {
                codec,
                base_offset: 7,
                ..BatchOptions::default()
            };
            let mut builder = BatchBuilder::new(options).unwrap();
            let header = Header {
                key: b"h",
                value: None,
            };
            builder
                .append(7, 1, Some(b"k"), Some(&value), &[header])
                .unwrap();
            builder
                .append(9, 3, None, Some(&incompressible), &[])
                .unwrap();
            builder.append(10, 2, Some(&value), None, &[]).unwrap();
            let mut out = Vec::new();
            builder.finish(&mut compressor, &mut out).unwrap().unwrap();

            let head = BatchHeader::parse(&out).unwrap().unwrap();
            head.ensure_valid(&out).unwrap();
            assert_eq!((head.size, head.records_count), (out.len(), Some(3)));
            assert_eq!(
                (head.last_offset(), head.base_timestamp, head.max_timestamp),
                (10, 1, 3)
            );
            assert_eq!(head.compression().unwrap(), codec.compression());
            let (mut arena, mut slots) = (Vec::new(), Vec::<RecordSlot>::new());
            let payload = plain::batch(
                &out,
                0,
                &head,
                &mut Decompressor::new(),
                &mut arena,
                DecodeLimit::default(),
                &mut slots,
            )
            .unwrap();
            let source = if payload == Payload::Source {
                &out
            } else {
                &arena
            };
            let bytes = |start: u32, len: i32| {
                usize::try_from(len)
                    .ok()
                    .map(|len| &source[usize::try_from(start).unwrap()..][..len])
            };
            let read: Vec<_> = slots
                .iter()
                .map(|s| {
                    (
                        s.offset,
                        s.timestamp,
                        bytes(s.key_start, s.key_len),
                        bytes(s.value_start, s.value_len),
                        s.headers_count,
                    )
                })
                .collect();
            let expected = [
                (7, 1, Some(&b"k"[..]), Some(&value[..]), 1),
                (9, 3, None, Some(&incompressible[..]), 0),
                (10, 2, Some(&value[..]), None, 0),
            ];
            assert!(read == expected, "{codec:?} with {size} bytes");
        }
    }
}

/// A stronger level gives fewer bytes, so levels reach the compressor.
#[test]
fn levels_differ() {
    let text: Vec<u8> = (0..20_000u32)
        .flat_map(|n| format!("{{\"id\":{},\"n\":{}}}", n * 7919 % 1000, n).into_bytes())
        .collect();
    for (compression, weak, strong) in [
        (Compression::Gzip, 1, 9),
        (Compression::Lz4, 9, 12),
        (Compression::Lz4, 1, 12),
        (Compression::Zstd, 1, 19),
        (Compression::Zstd, -100, 1),
    ] {
        let mut compressor = Compressor::new();
        let sizes = [weak, strong, weak].map(|level| {
            let mut out = Vec::new();
            compressor
                .compress(
                    Codec::with_level(compression, level).unwrap(),
                    &text,
                    &mut out,
                )
                .unwrap();
            out.len()
        });
        assert!(
            sizes[0] > sizes[1] && sizes[0] == sizes[2],
            "{compression} {sizes:?}"
        );
    }
}

#[test]
fn what_is_no_record_is_refused() {
    let mut builder = BatchBuilder::new(BatchOptions {
        base_offset: 10,
        ..BatchOptions::default()
    })
    .unwrap();
    builder.append(12, -1, None, None, &[]).unwrap();
    let size = builder.size();
    let bad = Header {
        key: b"\xff",
        value: None,
    };
    for (offset, timestamp, headers, text) in [
        (
            12,
            0,
            &[][..],
            "record offset: expected 13 to 2147483657, found 12 in record 1",
        ),
        (9, 0, &[], "record offset"),
        (10 + i64::from(i32::MAX) + 1, 0, &[], "record offset"),
        (i64::MIN, 0, &[], "record offset"),
        (
            13,
            -2,
            &[],
            "record timestamp: expected 0 or more, or -1 for none, found -2 in record 1",
        ),
        (13, 0, &[bad], "header key: expected UTF-8"),
    ] {
        let error = builder
            .append(offset, timestamp, None, None, headers)
            .unwrap_err();
        assert!(
            matches!(error, Error::InvalidRecord(_)) && error.to_string().contains(text),
            "{error}"
        );
        assert_eq!((builder.size(), builder.count), (size, 1));
    }
    assert!(builder.append_control(0, ControlType::Commit, &[]).is_err());
    builder
        .append(10 + i64::from(i32::MAX), 0, None, None, &[])
        .unwrap();
    assert!(builder.reach(10 + i64::from(i32::MAX)).is_ok());
    assert!(builder.reach(i64::MAX).is_err());
}

#[test]
fn options_that_contradict_themselves() {
    let good = BatchOptions {
        producer_id: 1,
        producer_epoch: 0,
        base_sequence: 0,
        is_transactional: true,
        ..BatchOptions::default()
    };
    good.check().unwrap();
    for bad in [
        BatchOptions {
            timestamp_type: TimestampType::NoTimestamp,
            ..good
        },
        BatchOptions {
            producer_id: -1,
            ..good
        },
        BatchOptions {
            producer_epoch: -1,
            ..good
        },
        BatchOptions {
            base_sequence: -1,
            ..good
        },
        BatchOptions {
            base_offset: -1,
            ..good
        },
    ] {
        assert!(matches!(
            BatchBuilder::new(bad),
            Err(Error::InvalidArgument(_))
        ));
    }
    assert!(
        BatchBuilder::new(BatchOptions {
            base_sequence: -1,
            is_control: true,
            ..good
        })
        .is_ok()
    );
}

/// A batch without records is nothing at all.
#[test]
fn nothing_from_nothing() {
    let mut out = Vec::new();
    let mut builder = BatchBuilder::new(BatchOptions::default()).unwrap();
    assert_eq!(
        builder.finish(&mut Compressor::new(), &mut out).unwrap(),
        None
    );
    assert!(out.is_empty());
}

/// Under LogAppendTime the records keep the producer's timestamps as deltas, and the header says the broker's.
#[test]
fn log_append_time() {
    let options = BatchOptions {
        timestamp_type: TimestampType::LogAppendTime,
        log_append_time: 99,
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(options).unwrap();
    builder.append(0, 5, None, None, &[]).unwrap();
    builder.append(1, 7, None, None, &[]).unwrap();
    let mut out = Vec::new();
    builder.finish(&mut Compressor::new(), &mut out).unwrap();
    let header = BatchHeader::parse(&out).unwrap().unwrap();
    assert_eq!(header.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!((header.base_timestamp, header.max_timestamp), (5, 99));
}

/// With a delete horizon the timestamps count from it and stay what they are.
#[test]
fn delete_horizon() {
    let options = BatchOptions {
        delete_horizon_ms: Some(1000),
        ..BatchOptions::default()
    };
    let mut builder = BatchBuilder::new(options).unwrap();
    builder.append(0, 5, Some(b"k"), None, &[]).unwrap();
    let mut out = Vec::new();
    builder.finish(&mut Compressor::new(), &mut out).unwrap();
    let header = BatchHeader::parse(&out).unwrap().unwrap();
    assert_eq!(
        (header.delete_horizon_ms(), header.max_timestamp),
        (Some(1000), 5)
    );
    let mut slots = Vec::new();
    plain::walk(&out, RECORD_BATCH_OVERHEAD, out.len(), &header, &mut slots).unwrap();
    assert_eq!(slots[0].timestamp, 5);
}
