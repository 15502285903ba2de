//! Refused batches, and similar ones that pass.

use super::*;
use crate::format::batch::RECORD_BATCH_OVERHEAD;
use crate::format::control::ControlType;
use crate::records::builder::end_transaction;

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
        ..LeaderRules::default()
    };
    let error = refused(&batch_with(&ROWS, log_append(NOW)), &by_log, &placement());
    assert_eq!(error.refusal(), Some(Refusal::InvalidTimestamp));
    let error = refused(
        &batch_with(&ROWS, log_append(-1)),
        &LeaderRules::default(),
        &placement(),
    );
    assert!(error.to_string().contains("found LogAppendTime"), "{error}");
    let (out, _) = validate(
        &batch_with(&ROWS, log_append(NOW)),
        &LeaderRules::default(),
        &placement(),
    )
    .unwrap();
    let (header, rows) = read(&out);
    assert_eq!(
        (header.timestamp_type(), header.max_timestamp),
        (TimestampType::CreateTime, NOW)
    );
    assert_eq!(rows, expected(1_234_567, 1, |ts| ts));
}

#[test]
fn one_batch_at_a_time() {
    let two = [batch_of(Compression::None), batch_of(Compression::None)].concat();
    assert!(matches!(
        refused(&two, &LeaderRules::default(), &placement()),
        Error::InvalidRecord(_)
    ));
    let two = [wrapper(1, &messages(1)), wrapper(1, &messages(1))].concat();
    assert!(
        refused(&two, &LeaderRules::default(), &placement())
            .to_string()
            .contains("expected one batch, found 2 of them")
    );
    let mixed = [messages(1), messages(0)].concat();
    assert!(
        refused(&mixed, &LeaderRules::default(), &placement())
            .to_string()
            .contains("magic: expected 1 as in the first batch, found 0")
    );
    assert!(matches!(
        refused(&[], &LeaderRules::default(), &placement()),
        Error::InvalidRecord(_)
    ));
    let cut = &batch_of(Compression::None)[..90];
    assert!(matches!(
        refused(cut, &LeaderRules::default(), &placement()),
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
                let result = validate(
                    &data,
                    &LeaderRules {
                        codec,
                        ..LeaderRules::default()
                    },
                    &placement(),
                );
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
        refused(&empty, &LeaderRules::default(), &placement())
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
        refused(&marker, &LeaderRules::default(), &placement())
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
        ..LeaderRules::default()
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
    let error = refused(&unnumbered, &LeaderRules::default(), &placement()).to_string();
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
        ..LeaderRules::default()
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
        ..LeaderRules::default()
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

#[test]
fn what_is_inside_a_wrapper_is_checked() {
    let mut flipped = messages(1);
    let last = flipped.len() - 1;
    flipped[last] ^= 1;
    let error = refused(&wrapper(1, &flipped), &LeaderRules::default(), &placement());
    assert!(
        matches!(error, Error::CorruptRecord(_)) && error.to_string().contains("crc (CRC-32)"),
        "{error}"
    );
    let error = refused(
        &wrapper(1, &messages(0)),
        &LeaderRules::default(),
        &placement(),
    );
    assert!(
        error
            .to_string()
            .contains("inner message magic: expected 1 as the wrapper's, found 0"),
        "{error}"
    );
    let nested = wrapper(1, &wrapper(1, &messages(1)));
    assert!(matches!(
        refused(&nested, &LeaderRules::default(), &placement()),
        Error::InvalidRecord(_)
    ));
}

/// No prefix, no flipped bit makes it panic, and what it takes can be read.
#[test]
fn damaged_appends() {
    let mut validator = LeaderValidator::new();
    let wanted = [
        LeaderRules::default(),
        LeaderRules {
            codec: Some(Codec::new(Compression::Lz4)),
            compact: true,
            ..LeaderRules::default()
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
