//! Every layout against the builder, which has Kafka's own bytes for a witness.

use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, ListBuilder, MapBuilder, StringBuilder, StructBuilder};
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, DictionaryArray, FixedSizeBinaryArray,
    Int32Array, Int64Array, LargeBinaryArray, LargeStringArray, NullArray, StringArray,
    StringViewArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use arrow_schema::{DataType, Field, Fields};

use super::*;
use crate::error::{Error, Refusal};
use crate::format::record::Header;
use crate::records::builder::{BatchBuilder, BatchOptions};

const NOW: TimestampMs = 1_700_000_000_000;

fn rules() -> LeaderRules {
    LeaderRules {
        codec: None,
        compact: false,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: 3_600_000,
    }
}

fn options() -> EncodeOptions {
    EncodeOptions {
        rules: rules(),
        producer_codec: Codec::NONE,
        batch_size: DEFAULT_BATCH_SIZE,
        max_message_bytes: 1 << 20,
        ignore_extra: false,
        keeps_offsets: false,
    }
}

fn table(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns
            .iter()
            .map(|(name, array)| (*name, array.clone(), true)),
    )
    .unwrap()
}

fn binary(values: &[Option<&[u8]>]) -> ArrayRef {
    Arc::new(BinaryArray::from(values.to_vec()))
}

type Pairs<'a> = Vec<(&'a str, Option<&'a [u8]>)>;
type Row<'a> = (i64, Option<&'a [u8]>, Option<&'a [u8]>, Pairs<'a>);

/// The batch of these rows by the builder; offsets from 0.
fn built(rows: &[Row<'_>], options: BatchOptions) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options).unwrap();
    for (timestamp, key, value, pairs) in rows {
        let headers: Vec<_> = pairs
            .iter()
            .map(|(key, value)| Header {
                key: key.as_bytes(),
                value: *value,
            })
            .collect();
        builder
            .append(builder.next_offset(), *timestamp, *key, *value, &headers)
            .unwrap();
    }
    let mut out = Vec::new();
    builder.finish(&mut Compressor::new(), &mut out).unwrap();
    out
}

/// All batches, and the first error.
fn encode(batch: &RecordBatch, options: EncodeOptions) -> (Vec<Vec<u8>>, Option<Error>) {
    let mut encoder = Encoder::new(options);
    let mut rows = match encoder.rows(batch) {
        Ok(rows) => rows,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut batches = Vec::new();
    loop {
        match rows.next_batch(NOW) {
            Ok(Some(batch)) => {
                let header = BatchHeader::parse(batch.bytes()).unwrap().unwrap();
                header.ensure_valid(batch.bytes()).unwrap();
                assert_eq!(&header, batch.header());
                batches.push(batch.bytes().to_vec());
            }
            Ok(None) => return (batches, None),
            Err(error) => return (batches, Some(error)),
        }
    }
}

fn one(batch: &RecordBatch) -> Vec<u8> {
    let (mut batches, error) = encode(batch, options());
    assert!(error.is_none() && batches.len() == 1, "{error:?}");
    batches.remove(0)
}

fn refused(batch: &RecordBatch, options: EncodeOptions) -> String {
    encode(batch, options).1.unwrap().to_string()
}

const TEXTS: [Option<&str>; 5] = [
    Some("a"),
    None,
    Some(""),
    Some("longer than twelve bytes"),
    Some("a"),
];

fn texts() -> Vec<Option<&'static [u8]>> {
    TEXTS.iter().map(|text| text.map(str::as_bytes)).collect()
}

#[test]
fn every_layout_of_bytes() {
    let dictionary: DictionaryArray<Int8Type> = TEXTS.into_iter().collect();
    let wide: DictionaryArray<Int32Type> = TEXTS.into_iter().collect();
    // A dictionary one of whose values is null.
    let nested = DictionaryArray::<Int32Type>::try_new(
        Int32Array::from(vec![Some(1), Some(0), Some(2), Some(3), None]),
        Arc::new(StringArray::from(vec![
            None,
            Some("a"),
            Some(""),
            Some("longer than twelve bytes"),
        ])),
    )
    .unwrap();
    let layouts: Vec<ArrayRef> = vec![
        Arc::new(BinaryArray::from(texts())),
        Arc::new(LargeBinaryArray::from(texts())),
        Arc::new(BinaryViewArray::from(texts())),
        Arc::new(StringArray::from(TEXTS.to_vec())),
        Arc::new(LargeStringArray::from(TEXTS.to_vec())),
        Arc::new(StringViewArray::from(TEXTS.to_vec())),
        Arc::new(dictionary),
        Arc::new(wide),
    ];
    let rows: Vec<Row<'_>> = texts()
        .into_iter()
        .map(|text| (NOW, text, text, vec![]))
        .collect();
    let expected = built(&rows, BatchOptions::default());
    for key in &layouts {
        for value in &layouts {
            let batch = table(&[("value", value.clone()), ("key", key.clone())]);
            assert_eq!(
                one(&batch),
                expected,
                "{} and {}",
                key.data_type(),
                value.data_type()
            );
        }
    }
    let rows: Vec<Row<'_>> = [
        Some("a"),
        None,
        Some(""),
        Some("longer than twelve bytes"),
        None,
    ]
    .into_iter()
    .map(|text| (NOW, None, text.map(str::as_bytes), vec![]))
    .collect();
    let nested: ArrayRef = Arc::new(nested);
    let null: ArrayRef = Arc::new(NullArray::new(5));
    let expected = built(&rows, BatchOptions::default());
    assert_eq!(
        one(&table(&[("value", nested.clone()), ("key", null)])),
        expected
    );
    // Slices begin in the middle of everything.
    let sliced = one(&table(&[("value", nested.slice(1, 3))]));
    assert_eq!(sliced, built(&rows[1..4], BatchOptions::default()));
    for layout in &layouts {
        let expected: Vec<Row<'_>> = texts()[2..]
            .iter()
            .map(|text| (NOW, None, *text, vec![]))
            .collect();
        let batch = table(&[("value", layout.slice(2, 3))]);
        assert_eq!(
            one(&batch),
            built(&expected, BatchOptions::default()),
            "{}",
            layout.data_type()
        );
    }
    let fixed: ArrayRef = Arc::new(
        FixedSizeBinaryArray::try_from_sparse_iter_with_size(
            [Some(b"abc"), None, Some(b"def")].into_iter(),
            3,
        )
        .unwrap(),
    );
    let rows: Vec<Row<'_>> = [Some(&b"abc"[..]), None, Some(b"def")]
        .map(|v| (NOW, v, None, vec![]))
        .to_vec();
    assert_eq!(
        one(&table(&[("key", fixed)])),
        built(&rows, BatchOptions::default())
    );
}

#[test]
fn every_unit_of_time() {
    let millis = [Some(1_234), Some(-1), None, Some(NOW)];
    let scale = |by: i64| millis.iter().map(|t| t.map(|t| t * by)).collect::<Vec<_>>();
    // Parts of a millisecond are cut off.
    let finer = |by: i64| {
        let mut values = scale(by);
        values[0] = Some(1_234 * by + by - 1);
        values
    };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMillisecondArray::from(scale(1))),
        Arc::new(TimestampMillisecondArray::from(scale(1)).with_timezone("Europe/Berlin")),
        Arc::new(Int64Array::from(scale(1))),
        Arc::new(TimestampMicrosecondArray::from(finer(1_000)).with_timezone("UTC")),
        Arc::new(TimestampNanosecondArray::from(finer(1_000_000))),
    ];
    let values = binary(&[Some(&b"v"[..]); 4]);
    let rows: Vec<Row<'_>> = millis
        .iter()
        .map(|t| (t.unwrap_or(NOW), None, Some(&b"v"[..]), vec![]))
        .collect();
    let expected = built(&rows, BatchOptions::default());
    for column in columns {
        let batch = table(&[("value", values.clone()), ("timestamp", column.clone())]);
        assert_eq!(one(&batch), expected, "{}", column.data_type());
    }
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![Some(7), None]));
    let rows: Vec<Row<'_>> = [7_000, NOW]
        .map(|t| (t, None, Some(&b"v"[..]), vec![]))
        .to_vec();
    let batch = table(&[
        ("value", binary(&[Some(&b"v"[..]); 2])),
        ("timestamp", seconds),
    ]);
    assert_eq!(one(&batch), built(&rows, BatchOptions::default()));

    for bad in [
        Arc::new(Int64Array::from(vec![-2])) as ArrayRef,
        Arc::new(Int64Array::from(vec![i64::MIN])),
        Arc::new(TimestampMicrosecondArray::from(vec![-1])),
        Arc::new(TimestampMicrosecondArray::from(vec![-1_001])),
        Arc::new(TimestampSecondArray::from(vec![-1])),
        Arc::new(TimestampSecondArray::from(vec![i64::MAX])),
    ] {
        let text = refused(
            &table(&[("value", binary(&[Some(b"v")])), ("timestamp", bad)]),
            options(),
        );
        assert!(
            text.contains("timestamp: expected the epoch or later") && text.contains("in record 0"),
            "{text}"
        );
    }
}

fn header_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Binary, true),
    ])
}

fn headers_column(rows: &[Option<Pairs<'_>>]) -> ArrayRef {
    let entry = StructBuilder::new(
        header_fields(),
        vec![
            Box::new(StringBuilder::new()),
            Box::new(BinaryBuilder::new()),
        ],
    );
    let mut list = ListBuilder::new(entry);
    for row in rows {
        for (key, value) in row.iter().flatten() {
            list.values()
                .field_builder::<StringBuilder>(0)
                .unwrap()
                .append_value(key);
            list.values()
                .field_builder::<BinaryBuilder>(1)
                .unwrap()
                .append_option(*value);
            list.values().append(true);
        }
        list.append(row.is_some());
    }
    Arc::new(list.finish())
}

#[test]
fn headers_as_list_and_as_map() {
    let rows: Vec<Option<Pairs<'_>>> = vec![
        Some(vec![("h", None), ("k", Some(b"v")), ("k", Some(b""))]),
        None,
        Some(vec![]),
        Some(vec![("\u{e4}", Some(b"x"))]),
    ];
    let mut map = MapBuilder::new(None, StringBuilder::new(), BinaryBuilder::new());
    for row in &rows {
        for (key, value) in row.iter().flatten() {
            map.keys().append_value(key);
            map.values().append_option(*value);
        }
        map.append(row.is_some()).unwrap();
    }
    let map: ArrayRef = Arc::new(map.finish());
    let list = headers_column(&rows);
    let values = binary(&[Some(&b"v"[..]); 4]);
    let expected: Vec<Row<'_>> = rows
        .iter()
        .map(|pairs| {
            (
                NOW,
                None,
                Some(&b"v"[..]),
                pairs.clone().unwrap_or_default(),
            )
        })
        .collect();
    for column in [&list, &map] {
        let batch = table(&[("value", values.clone()), ("headers", column.clone())]);
        assert_eq!(
            one(&batch),
            built(&expected, BatchOptions::default()),
            "{}",
            column.data_type()
        );
        let batch = table(&[
            ("value", values.slice(0, 2)),
            ("headers", column.slice(2, 2)),
        ]);
        assert_eq!(one(&batch), built(&expected[2..], BatchOptions::default()));
    }
    let null: ArrayRef = Arc::new(NullArray::new(4));
    one(&table(&[("value", values.clone()), ("headers", null)]));

    let wrong = table(&[("value", values.clone()), ("headers", values.clone())]);
    assert!(
        refused(&wrong, options())
            .contains("column 'headers': expected list<struct<key, value>> or a map")
    );
    let mut unnamed = MapBuilder::new(None, BinaryBuilder::new(), BinaryBuilder::new());
    unnamed.keys().append_value(b"\xff");
    unnamed.values().append_null();
    unnamed.append(true).unwrap();
    let unnamed: ArrayRef = Arc::new(unnamed.finish());
    let text = refused(
        &table(&[("value", values.slice(0, 1)), ("headers", unnamed)]),
        options(),
    );
    assert!(
        text.contains("header key: expected UTF-8, found \\xff in record 0"),
        "{text}"
    );
}

#[test]
fn a_header_needs_a_key() {
    let entry = StructBuilder::new(
        header_fields(),
        vec![
            Box::new(StringBuilder::new()),
            Box::new(BinaryBuilder::new()),
        ],
    );
    let mut list = ListBuilder::new(entry);
    list.append(true);
    list.values()
        .field_builder::<StringBuilder>(0)
        .unwrap()
        .append_null();
    list.values()
        .field_builder::<BinaryBuilder>(1)
        .unwrap()
        .append_value(b"v");
    list.values().append(true);
    list.append(true);
    let column: ArrayRef = Arc::new(list.finish());
    let (batches, error) = encode(
        &table(&[
            ("value", binary(&[Some(&b"v"[..]); 2])),
            ("headers", column),
        ]),
        options(),
    );
    // The row before it is a batch by itself.
    assert_eq!(batches.len(), 1);
    assert!(
        error
            .unwrap()
            .to_string()
            .contains("header key: expected a string, found null in record 1")
    );
}

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

#[test]
fn a_compacted_topic_takes_no_row_without_key() {
    let rules = LeaderRules {
        compact: true,
        ..rules()
    };
    let keys = binary(&[Some(b"k"), Some(b""), None, Some(b"k")]);
    let values = binary(&[Some(b"v"), None, Some(b"v"), Some(b"v")]);
    let (batches, error) = encode(
        &table(&[("key", keys), ("value", values.clone())]),
        EncodeOptions { rules, ..options() },
    );
    assert_eq!(
        BatchHeader::parse(&batches[0])
            .unwrap()
            .unwrap()
            .records_count,
        Some(2)
    );
    let error = error.unwrap();
    assert!(
        matches!(error, Error::InvalidRecord(_)) && error.to_string().contains("none in record 2"),
        "{error}"
    );
    let (batches, error) = encode(
        &table(&[("value", values)]),
        EncodeOptions { rules, ..options() },
    );
    assert!(batches.is_empty() && error.unwrap().to_string().contains("record 0"));
}

#[test]
fn timestamps_in_bounds() {
    let rules = LeaderRules {
        timestamp_before_max_ms: 10,
        timestamp_after_max_ms: 5,
        ..rules()
    };
    for (timestamp, good) in [
        (NOW - 10, true),
        (NOW - 11, false),
        (NOW + 5, true),
        (NOW + 6, false),
        (-1, true),
        (0, false),
    ] {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![NOW, timestamp]));
        let batch = table(&[
            ("value", binary(&[Some(&b"v"[..]); 2])),
            ("timestamp", column),
        ]);
        let (batches, error) = encode(&batch, EncodeOptions { rules, ..options() });
        assert_eq!(batches.len(), 1);
        assert_eq!(
            error.as_ref().and_then(Error::refusal),
            (!good).then_some(Refusal::InvalidTimestamp),
            "{timestamp}"
        );
        let rules = LeaderRules {
            timestamp_type: TimestampType::LogAppendTime,
            ..rules
        };
        let (batches, error) = encode(&batch, EncodeOptions { rules, ..options() });
        assert!(error.is_none());
        let rows: Vec<Row<'_>> = [NOW, timestamp]
            .map(|t| (t, None, Some(&b"v"[..]), vec![]))
            .to_vec();
        let options = BatchOptions {
            timestamp_type: TimestampType::LogAppendTime,
            log_append_time: NOW,
            ..BatchOptions::default()
        };
        assert_eq!(batches, [built(&rows, options)]);
    }
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
        text.contains("offset: expected 0 or more, found -1 in record 0"),
        "{text}"
    );
    let text = refused(&batch, options());
    assert!(text.contains("found also offset"), "{text}");
}

#[test]
fn columns_that_do_not_serve() {
    let values = binary(&[Some(b"v")]);
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1]));
    let text = |columns: &[(&str, ArrayRef)]| refused(&table(columns), options());
    let extra = [
        ("value", values.clone()),
        ("topic", values.clone()),
        ("partition", ints.clone()),
    ];
    assert!(text(&extra).contains("found also topic, partition"));
    assert_eq!(
        encode(
            &table(&extra),
            EncodeOptions {
                ignore_extra: true,
                ..options()
            }
        )
        .0
        .len(),
        1
    );
    assert!(
        text(&[("timestamp", ints.clone())]).contains("expected key or value, found timestamp")
    );
    assert!(
        text(&[("value", ints.clone())])
            .contains("column 'value': expected binary or string, of any layout, found Int32")
    );
    assert!(
        text(&[("value", values.clone()), ("timestamp", ints)])
            .contains("column 'timestamp': expected a timestamp")
    );
    let twice = RecordBatch::try_from_iter([("value", values.clone()), ("value", values)]).unwrap();
    assert!(refused(&twice, options()).contains("column 'value' is there twice"));
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

/// Nothing in, nothing out.
#[test]
fn no_rows() {
    let none: ArrayRef = Arc::new(BinaryArray::from(Vec::<Option<&[u8]>>::new()));
    let (batches, error) = encode(&table(&[("value", none)]), options());
    assert!(batches.is_empty() && error.is_none());
}
