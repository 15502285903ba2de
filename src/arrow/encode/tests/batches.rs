//! Ends and contents of batches.

use arrow_array::Int64Array;

use super::*;

/// Each batch is as full as it can be, and all of them hold all rows.
#[test]
fn batches_are_cut_by_bytes() {
    for (size, limit) in [
        (100usize, 16_384usize),
        (1, 200),
        (7, 61),
        (8_191, 16_384),
        (20_000, 16_384),
        (63, 5_000),
    ] {
        let rows = 500;
        let value = vec![b'v'; size];
        let values = binary(&vec![Some(&value[..]); rows]);
        let (batches, error) = encode(
            &table(&[("value", values)]),
            EncodeOptions {
                batch_size: limit,
                ..options()
            },
        );
        assert!(error.is_none());
        let mut left = rows;
        for (index, batch) in batches.iter().enumerate() {
            let header = BatchHeader::parse(batch).unwrap().unwrap();
            let count = usize::try_from(header.records_count.unwrap()).unwrap();
            let row: Row<'_> = (NOW, None, Some(&value), vec![]);
            assert_eq!(
                batch,
                &built(&vec![row.clone(); count], BatchOptions::default())
            );
            assert!(batch.len() <= limit || count == 1);
            if index + 1 < batches.len() {
                let more = built(&vec![row; count + 1], BatchOptions::default());
                assert!(
                    more.len() > limit,
                    "{size} in {limit}: a batch of {count} had room"
                );
            }
            left -= count;
        }
        assert_eq!(left, 0);
    }
}

#[test]
fn every_codec_holds_the_same_records() {
    let values: Vec<Vec<u8>> = (0..2_000u32)
        .map(|n| format!("{{\"n\":{n}}}").into_bytes())
        .collect();
    let column = binary(&values.iter().map(|v| Some(&v[..])).collect::<Vec<_>>());
    for compression in [
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let codec = Codec::new(compression);
        let rules = LeaderRules {
            codec: Some(codec),
            ..rules()
        };
        let (batches, error) = encode(
            &table(&[("value", column.clone())]),
            EncodeOptions { rules, ..options() },
        );
        assert!(error.is_none() && batches.len() > 1);
        let mut at = 0;
        for batch in batches {
            let header = BatchHeader::parse(&batch).unwrap().unwrap();
            let count = usize::try_from(header.records_count.unwrap()).unwrap();
            let rows: Vec<Row<'_>> = values[at..at + count]
                .iter()
                .map(|v| (NOW, None, Some(&v[..]), vec![]))
                .collect();
            assert_eq!(
                batch,
                built(
                    &rows,
                    BatchOptions {
                        codec,
                        ..BatchOptions::default()
                    }
                ),
                "{compression}"
            );
            at += count;
        }
        assert_eq!(at, values.len());
    }
}

/// Noise comes out of a compressor longer than it went in; the batches are made smaller then, and one record that is too
/// large by itself is refused.
#[test]
fn nothing_beyond_max_message_bytes() {
    let mut noise = 7u64;
    let mut value = || -> Vec<u8> {
        (0..90)
            .map(|_| {
                noise = noise
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                noise.to_be_bytes()[0]
            })
            .collect()
    };
    let values: Vec<_> = (0..300).map(|_| value()).collect();
    let column = binary(&values.iter().map(|v| Some(&v[..])).collect::<Vec<_>>());
    for compression in [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let rules = LeaderRules {
            codec: Some(Codec::new(compression)),
            ..rules()
        };
        for most in [200, 260, 1000, 5000] {
            let options = EncodeOptions {
                rules,
                max_message_bytes: most,
                batch_size: 1 << 20,
                ..options()
            };
            let (batches, error) = encode(&table(&[("value", column.clone())]), options);
            assert!(error.is_none(), "{error:?}");
            assert!(batches.iter().all(|batch| batch.len() <= most));
            let count: i32 = batches
                .iter()
                .map(|b| {
                    BatchHeader::parse(b)
                        .unwrap()
                        .unwrap()
                        .records_count
                        .unwrap()
                })
                .sum();
            assert_eq!(count, 300);
        }
        let options = EncodeOptions {
            rules,
            max_message_bytes: 150,
            ..options()
        };
        let (batches, error) = encode(&table(&[("value", column.clone())]), options);
        let error = error.unwrap();
        assert!(batches.is_empty() && error.refusal() == Some(Refusal::RecordTooLarge));
        assert!(
            error.to_string().contains("expected at most 150"),
            "{error}"
        );
    }
}

/// Lengths and deltas of every size, so that each number goes through each of its ways.
#[test]
fn numbers_of_every_width() {
    let long = vec![b'x'; 70_000];
    let mut rows: Vec<Row<'_>> = Vec::new();
    for shift in 0..41 {
        for near in [-1i64, 0, 1] {
            let timestamp = (1i64 << shift) + near;
            let len =
                usize::try_from(timestamp)
                    .unwrap()
                    .min(if shift < 17 { 70_000 } else { shift });
            rows.push((
                timestamp,
                Some(&long[..len / 2]),
                Some(&long[..len]),
                vec![],
            ));
        }
    }
    let timestamps: ArrayRef = Arc::new(Int64Array::from(
        rows.iter().map(|r| r.0).collect::<Vec<_>>(),
    ));
    let keys = binary(&rows.iter().map(|r| r.1).collect::<Vec<_>>());
    let values = binary(&rows.iter().map(|r| r.2).collect::<Vec<_>>());
    let batch = table(&[("key", keys), ("value", values), ("timestamp", timestamps)]);
    let rules = LeaderRules {
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: i64::MAX,
        ..rules()
    };
    let options = EncodeOptions {
        rules,
        batch_size: 1 << 30,
        max_message_bytes: 1 << 30,
        ..options()
    };
    let (batches, error) = encode(&batch, options);
    assert!(error.is_none());
    assert_eq!(batches, [built(&rows, BatchOptions::default())]);
}

#[test]
fn given_offsets() {
    let far = 5 + i64::from(i32::MAX) + 1;
    let column: ArrayRef = Arc::new(Int64Array::from(vec![5, 7, far, far + 1, far + 1]));
    let batch = table(&[("value", binary(&[Some(&b"v"[..]); 5])), ("offset", column)]);
    let (batches, error) = encode(
        &batch,
        EncodeOptions {
            keeps_offsets: true,
            ..options()
        },
    );
    let ranges: Vec<_> = batches
        .iter()
        .map(|b| BatchHeader::parse(b).unwrap().unwrap())
        .map(|h| (h.base_offset, h.last_offset(), h.records_count.unwrap()))
        .collect();
    assert_eq!(
        ranges,
        [(5, 7, 2), (far, far + 1, 2), (far + 1, far + 1, 1)]
    );
    assert!(error.is_none());
    // Across batches it is the log that looks at the order; inside one it is refused here.
    let column: ArrayRef = Arc::new(Int64Array::from(vec![-1]));
    let batch = table(&[("value", binary(&[Some(b"v")])), ("offset", column)]);
    let text = refused(
        &batch,
        EncodeOptions {
            keeps_offsets: true,
            ..options()
        },
    );
    assert!(
        text.contains(
            "offset: expected 0 or more, below 9223372036854775807, found -1 in record 0"
        ),
        "{text}"
    );
    let text = refused(&batch, options());
    assert!(text.contains("found also offset"), "{text}");
}

/// Nothing in, nothing out.
#[test]
fn no_rows() {
    let none: ArrayRef = Arc::new(BinaryArray::from(Vec::<Option<&[u8]>>::new()));
    let (batches, error) = encode(&table(&[("value", none)]), options());
    assert!(batches.is_empty() && error.is_none());
}
