//! Arrow's layouts, units and widths of a column, one meaning each.

use arrow_array::builder::{BinaryBuilder, ListBuilder, MapBuilder, StringBuilder, StructBuilder};
use arrow_array::types::{Int8Type, Int32Type};
use arrow_array::{
    Array, BinaryViewArray, DictionaryArray, FixedSizeBinaryArray, Int32Array, Int64Array,
    LargeBinaryArray, LargeStringArray, NullArray, StringArray, StringViewArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray,
};
use arrow_schema::{DataType, Field, Fields};

use super::*;

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

type HeaderLists = ListBuilder<StructBuilder>;

fn header_lists() -> HeaderLists {
    ListBuilder::new(StructBuilder::new(
        header_fields(),
        vec![
            Box::new(StringBuilder::new()),
            Box::new(BinaryBuilder::new()),
        ],
    ))
}

fn append_header(list: &mut HeaderLists, key: Option<&str>, value: Option<&[u8]>) {
    let header = list.values();
    let keys = header.field_builder::<StringBuilder>(0).unwrap();
    keys.append_option(key);
    let values = header.field_builder::<BinaryBuilder>(1).unwrap();
    values.append_option(value);
    header.append(true);
}

fn headers_column(rows: &[Option<Pairs<'_>>]) -> ArrayRef {
    let mut list = header_lists();
    for row in rows {
        for (key, value) in row.iter().flatten() {
            append_header(&mut list, Some(key), *value);
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
    let mut list = header_lists();
    list.append(true);
    append_header(&mut list, None, Some(b"v"));
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
    assert!(refused(&twice, options()).contains("column 'value' appears twice"));
}
