//! Rows that the topic's rules refuse.

use arrow_array::Int64Array;

use super::*;

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
