//! Fields that are assigned in place, and batches that are encoded again.

use super::*;
use crate::format::batch::set_max_timestamp;
use crate::format::record::HeaderIter;

#[test]
fn the_producers_codec_is_kept_in_place() {
    for compression in CODECS {
        let data = batch_of(compression);
        let (out, validated) = validate(&data, &LeaderRules::default(), &placement()).unwrap();
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
                ..LeaderRules::default()
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
        ..LeaderRules::default()
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
        ..LeaderRules::default()
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
                ..LeaderRules::default()
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

#[test]
fn a_largest_timestamp_that_lies_is_put_right() {
    let mut data = batch_of(Compression::Zstd);
    let header = BatchHeader::parse(&data).unwrap().unwrap();
    set_max_timestamp(&mut data, &header, TimestampType::CreateTime, 5);
    let (out, validated) = validate(&data, &LeaderRules::default(), &placement()).unwrap();
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
                        ..LeaderRules::default()
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

/// Some old clients number the records of a compressed batch wrongly: it is built again.
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
            refused(&data, &LeaderRules::default(), &placement()),
            Error::InvalidRecord(_)
        ));
        let coordinator = Placement {
            origin: AppendOrigin::Coordinator,
            ..placement()
        };
        let (out, validated) = validate(&data, &LeaderRules::default(), &coordinator).unwrap();
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

/// A header key that is not UTF-8 comes out of a new batch as Java reads and writes it.
#[test]
fn header_keys_pass_through_text() {
    let mut data = batch_with(&[(NOW, None, "v")], BatchOptions::default());
    let key = data.iter().rposition(|&byte| byte == b'h').unwrap();
    data[key] = 0xff;
    let rules = LeaderRules {
        codec: Some(Codec::new(Compression::Zstd)),
        ..LeaderRules::default()
    };
    let (out, _) = validate(&data, &rules, &placement()).unwrap();
    let (_, bytes, slots) = decoded(&out);
    let start = usize::try_from(slots[0].headers_start).unwrap();
    let keys: Vec<_> = HeaderIter::new(&bytes, start, slots[0].headers_count)
        .map(|h| h.key.to_vec())
        .collect();
    assert_eq!(keys, ["\u{fffd}".as_bytes()]);
}
