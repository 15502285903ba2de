//! Random records into batches and back: the builder under every codec and level, the validator, and Arrow rows against
//! the builder.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, ListBuilder, StringBuilder, StructBuilder};
use arrow_array::{
    ArrayRef, BinaryArray, BinaryViewArray, Int64Array, LargeBinaryArray, RecordBatch,
    TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Fields};
use kafkalog::internal::arrow::encode::{EncodeOptions, Encoder};
use kafkalog::internal::compress::{Codec, Compressor, DecodeLimit, Decompressor};
use kafkalog::internal::error::Error;
use kafkalog::internal::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use kafkalog::internal::format::record::{Header, HeaderIter};
use kafkalog::internal::load::LoadRequest;
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::producers::DEFAULT_PRODUCER_ID_EXPIRATION_MS;
use kafkalog::internal::records::block::Payload;
use kafkalog::internal::records::builder::{BatchBuilder, BatchOptions};
use kafkalog::internal::records::plain;
use kafkalog::internal::records::validate::{LeaderRules, LeaderValidator, Placement};
use kafkalog::internal::types::{AppendOrigin, Compression};
use kafkalog::internal::write::{LeaderAppend, WritableLog, WriteOptions};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

use crate::checks;
use crate::common::{files, pick};

const NOW: i64 = 1_700_000_000_000;

type Pairs = Vec<(String, Option<Vec<u8>>)>;

#[derive(Clone, Debug, PartialEq)]
struct Row {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Pairs,
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: pick(50, 200, 10_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Lengths around those where a varint, or a codec's block, begins anew.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let edge = prop_oneof![
        6 => prop_oneof![Just(63usize), Just(8_191)].prop_flat_map(|edge| edge - 30..edge + 3),
        1 => prop_oneof![Just(32_768usize), Just(65_536)].prop_flat_map(|edge| edge - 40..edge + 3),
    ];
    prop_oneof![
        6 => vec(any::<u8>(), 0..12),
        3 => vec(any::<u8>(), 50..70),
        3 => (edge, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
    ]
}

fn row() -> impl Strategy<Value = Row> {
    let timestamp = prop_oneof![
        4 => NOW - 200..NOW + 200,
        1 => Just(-1i64),
        1 => 0..i64::MAX,
    ];
    let headers = prop_oneof![
        3 => Just(Vec::new()),
        1 => vec((".{0,4}", weighted(0.8, vec(any::<u8>(), 0..9))), 1..5),
    ];
    (
        timestamp,
        weighted(0.7, bytes()),
        weighted(0.8, bytes()),
        headers,
    )
        .prop_map(|(timestamp, key, value, headers)| Row {
            timestamp,
            key,
            value,
            headers,
        })
}

fn codec() -> impl Strategy<Value = Codec> {
    let leveled = |compression, levels: std::ops::RangeInclusive<i32>| {
        levels.prop_map(move |level| Codec::with_level(compression, level).unwrap())
    };
    prop_oneof![
        2 => Just(Codec::NONE),
        1 => Just(Codec::new(Compression::Snappy)),
        1 => leveled(Compression::Gzip, 1..=9),
        1 => leveled(Compression::Lz4, 1..=17),
        1 => leveled(Compression::Zstd, -20..=12),
    ]
}

fn headers(pairs: &Pairs) -> Vec<Header<'_>> {
    let each = pairs.iter().map(|(key, value)| Header {
        key: key.as_bytes(),
        value: value.as_deref(),
    });
    each.collect()
}

/// The batch of these rows, one offset after the other.
fn built(rows: &[Row], options: BatchOptions) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options).unwrap();
    for row in rows {
        let (key, value) = (row.key.as_deref(), row.value.as_deref());
        builder
            .append(
                builder.next_offset(),
                row.timestamp,
                key,
                value,
                &headers(&row.headers),
            )
            .unwrap();
    }
    let mut out = Vec::new();
    builder.finish(&mut Compressor::new(), &mut out).unwrap();
    out
}

/// The rows of a batch, and its header; its offsets rise by one.
fn read(data: &[u8]) -> (BatchHeader, Vec<Row>) {
    checks::batch(data);
    let header = BatchHeader::parse(data).unwrap().unwrap();
    header.ensure_valid(data).unwrap();
    assert_eq!(header.size, data.len());
    let (mut arena, mut slots) = (Vec::new(), Vec::new());
    let limit = DecodeLimit::default();
    let payload = plain::batch(
        data,
        0,
        &header,
        &mut Decompressor::new(),
        &mut arena,
        limit,
        &mut slots,
    )
    .unwrap();
    let source = if payload == Payload::Arena {
        &arena
    } else {
        data
    };
    let part = |start: u32, len: i32| {
        let len = usize::try_from(len).ok()?;
        Some(source[usize::try_from(start).unwrap()..][..len].to_vec())
    };
    let rows = slots
        .iter()
        .zip(header.base_offset..)
        .map(|(slot, offset)| {
            assert_eq!(slot.offset, offset);
            let start = usize::try_from(slot.headers_start).unwrap();
            let each = HeaderIter::new(source, start, slot.headers_count);
            Row {
                timestamp: slot.timestamp,
                key: part(slot.key_start, slot.key_len),
                value: part(slot.value_start, slot.value_len),
                headers: each
                    .map(|h| {
                        (
                            String::from_utf8(h.key.to_vec()).unwrap(),
                            h.value.map(<[u8]>::to_vec),
                        )
                    })
                    .collect(),
            }
        });
    let rows = rows.collect();
    (header, rows)
}

fn rules(codec: Option<Codec>) -> LeaderRules {
    LeaderRules {
        codec,
        timestamp_after_max_ms: i64::MAX,
        ..LeaderRules::default()
    }
}

fn binary(layout: usize, values: &[Option<&[u8]>]) -> ArrayRef {
    match layout {
        0 => Arc::new(BinaryArray::from(values.to_vec())),
        1 => Arc::new(LargeBinaryArray::from(values.to_vec())),
        _ => Arc::new(BinaryViewArray::from(values.to_vec())),
    }
}

fn lists(rows: &[Row]) -> ArrayRef {
    let fields = Fields::from(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Binary, true),
    ]);
    let entry = StructBuilder::new(
        fields,
        vec![
            Box::new(StringBuilder::new()),
            Box::new(BinaryBuilder::new()),
        ],
    );
    let mut list = ListBuilder::new(entry);
    for row in rows {
        for (key, value) in &row.headers {
            list.values()
                .field_builder::<StringBuilder>(0)
                .unwrap()
                .append_value(key);
            list.values()
                .field_builder::<BinaryBuilder>(1)
                .unwrap()
                .append_option(value.as_deref());
            list.values().append(true);
        }
        list.append(!row.headers.is_empty());
    }
    Arc::new(list.finish())
}

/// The rows cut as a producer cuts them: a batch is closed before it would grow beyond the limit.
fn cut(rows: &[Row], limit: usize) -> Vec<Vec<u8>> {
    let mut batches = Vec::new();
    let mut begun = 0;
    for end in 1..=rows.len() {
        if end - begun > 1 && built(&rows[begun..end], BatchOptions::default()).len() > limit {
            batches.push(built(&rows[begun..end - 1], BatchOptions::default()));
            begun = end - 1;
        }
    }
    if begun < rows.len() {
        batches.push(built(&rows[begun..], BatchOptions::default()));
    }
    batches
}

fn encoder(rules: LeaderRules, batch_size: usize) -> Encoder {
    Encoder::new(EncodeOptions {
        rules,
        batch_size,
        max_message_bytes: 1 << 20,
        ignore_extra: false,
        keeps_offsets: false,
    })
}

/// A new log.
fn open(home: &Path, name: &str, config: &LogConfig) -> WritableLog {
    let request = LoadRequest {
        clean: true,
        recovery_point: 0,
        log_start_offset: 0,
        now_ms: NOW,
        producer_id_expiration_ms: DEFAULT_PRODUCER_ID_EXPIRATION_MS,
    };
    WritableLog::open(&home.join(name), WriteOptions::new(config.clone()), request).unwrap()
}

/// Encoded batches are appended like the same records of a producer, and only under the log's own rules.
#[test]
fn encoded_batches_are_appended_as_a_producers() {
    let rows: Vec<_> = (0..500i64)
        .map(|n| Row {
            timestamp: NOW - n,
            key: (n % 3 != 0).then(|| n.to_string().into_bytes()),
            value: Some(vec![b'v'; usize::try_from(n % 200).unwrap()]),
            headers: Vec::new(),
        })
        .collect();
    let keys: Vec<_> = rows.iter().map(|row| row.key.as_deref()).collect();
    let values: Vec<_> = rows.iter().map(|row| row.value.as_deref()).collect();
    let times: ArrayRef = Arc::new(Int64Array::from_iter_values(
        rows.iter().map(|row| row.timestamp),
    ));
    let columns = [
        ("key", binary(0, &keys)),
        ("value", binary(0, &values)),
        ("timestamp", times),
    ];
    let arrow =
        RecordBatch::try_from_iter_with_nullable(columns.map(|(n, a)| (n, a, true))).unwrap();
    let home = tempfile::tempdir().unwrap();
    let all: [&[(&str, &str)]; 3] = [
        &[],
        &[("message.timestamp.type", "LogAppendTime")],
        &[
            ("compression.type", "zstd"),
            ("compression.zstd.level", "7"),
        ],
    ];
    for (n, settings) in all.into_iter().enumerate() {
        let config = LogConfig::from_pairs(settings.iter().copied()).unwrap();
        let mut maker = encoder(config.leader_rules().unwrap(), 4_000);
        let (mut ours, mut sent) = (
            open(home.path(), &format!("ours-{n}"), &config),
            open(home.path(), &format!("sent-{n}"), &config),
        );
        let mut encoded = maker.rows(&arrow).unwrap();
        let mut at = 0;
        while let Some(mut batch) = encoded.next_batches(NOW, 0).unwrap() {
            let info = ours.append_encoded(&mut batch, 3, NOW).unwrap();
            let next = usize::try_from(info.last_offset + 1).unwrap();
            let mut records = built(&rows[at..next], BatchOptions::default());
            let how = LeaderAppend {
                leader_epoch: 3,
                ..LeaderAppend::default()
            };
            assert_eq!(
                sent.append_as_leader(&mut records, &how, NOW).unwrap(),
                info
            );
            at = next;
        }
        assert_eq!(at, rows.len());
        let folders = [ours.folder().to_path_buf(), sent.folder().to_path_buf()];
        ours.close(NOW).unwrap();
        sent.close(NOW).unwrap();
        let [ours, sent] = folders.map(|folder| {
            let files = files(&folder, "");
            files
                .iter()
                .map(|path| {
                    (
                        path.file_name().unwrap().to_owned(),
                        std::fs::read(path).unwrap(),
                    )
                })
                .collect::<Vec<_>>()
        });
        assert!(ours == sent && ours.len() > 3, "{settings:?}");
    }
    // A topic that is compacted must not take what was encoded for one that is not.
    let mut compacted = open(
        home.path(),
        "compacted-0",
        &LogConfig::from_pairs([("cleanup.policy", "compact")]).unwrap(),
    );
    let mut maker = encoder(LogConfig::default().leader_rules().unwrap(), 4_000);
    let mut encoded = maker.rows(&arrow).unwrap();
    let mut batch = encoded.next_batches(NOW, 0).unwrap().unwrap();
    let error = compacted.append_encoded(&mut batch, 0, NOW).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)) && compacted.log_end_offset() == 0);
    let named = "compaction: expected true, found false";
    assert!(error.to_string().ends_with(named), "{error}");
}

/// Most records are decoded by what they have in common with the one before: here all but deltas, and then one bit less.
#[test]
fn records_of_one_size_with_any_bit_flipped() {
    for (keys, value) in [(&[3usize][..], 10), (&[3, 2], 10), (&[], 70), (&[8], 0)] {
        // Sums of the lengths are the same, their parts and the widths of the deltas are not.
        let rows = (0..80usize).map(|n| {
            let key = keys.get(n / 7 % keys.len().max(1));
            let size = value + keys.first().map_or(0, |first| first - key.unwrap_or(first));
            Row {
                timestamp: NOW + i64::try_from(n * 5).unwrap(),
                key: key.map(|&len| vec![b'k'; len]),
                value: Some(vec![b'v'; size]),
                headers: Vec::new(),
            }
        });
        let data = built(&rows.collect::<Vec<_>>(), BatchOptions::default());
        checks::batch(&data);
        for at in RECORD_BATCH_OVERHEAD..data.len() {
            for bit in (at % 8..at % 8 + 8).take(pick(1, 8, 8)) {
                let mut flipped = data.clone();
                flipped[at] ^= 1 << (bit % 8);
                checks::batch(&flipped);
            }
        }
    }
}

proptest! {
    #![proptest_config(config())]

    /// Both decoders read what the builder wrote, and the validator passes it on, encoded anew or not.
    #[test]
    fn built_records_come_back(rows in vec(row(), 1..20), source in codec(), target in weighted(0.5, codec())) {
        let data = built(&rows, BatchOptions { codec: source, ..BatchOptions::default() });
        let (header, read_back) = read(&data);
        prop_assert_eq!(&read_back, &rows);
        prop_assert_eq!(header.max_timestamp, rows.iter().map(|row| row.timestamp).max().unwrap());

        let placement = Placement { base_offset: 1 << 40, leader_epoch: 3, now_ms: NOW, origin: AppendOrigin::Client };
        let mut records = data.clone();
        let validated = LeaderValidator::new().validate(&mut records, &rules(target), &placement).unwrap();
        let (header, read_back) = read(&records);
        prop_assert_eq!(&read_back, &rows);
        let stored = target.unwrap_or(source).compression();
        prop_assert_eq!(header.compression().unwrap(), stored);
        prop_assert_eq!(validated.is_reencoded, stored != source.compression());
        prop_assert_eq!((header.base_offset, header.next_offset()), (1 << 40, validated.next_offset));
    }

    /// Arrow rows become the builder's batches byte by byte, in every layout, cut where a producer cuts.
    #[test]
    fn arrow_rows_are_the_builders(
        rows in vec(row(), 1..40),
        layouts in (0..3usize, 0..3usize),
        (keyed, headed, timed) in (any::<bool>(), any::<bool>(), 0..3usize),
        limit in prop_oneof![Just(16_384usize), 62..2_000usize],
        skip in 0..3usize,
    ) {
        let mut rows = rows;
        for row in &mut rows {
            if !keyed { row.key = None; }
            if !headed { row.headers.clear(); }
            match timed {
                0 => row.timestamp = NOW,
                // Microseconds do not reach as far.
                1 => row.timestamp = row.timestamp.min(i64::MAX / 1000),
                _ => {}
            }
        }
        let values: Vec<_> = rows.iter().map(|row| row.value.as_deref()).collect();
        let mut columns: Vec<(&str, ArrayRef)> = vec![("value", binary(layouts.0, &values))];
        if keyed {
            let keys: Vec<_> = rows.iter().map(|row| row.key.as_deref()).collect();
            columns.push(("key", binary(layouts.1, &keys)));
        }
        if headed {
            columns.push(("headers", lists(&rows)));
        }
        let times = rows.iter().map(|row| row.timestamp);
        match timed {
            0 => {}
            1 => columns.push(("timestamp", Arc::new(TimestampMicrosecondArray::from_iter_values(times.map(|t| t * 1000))))),
            _ => columns.push(("timestamp", Arc::new(Int64Array::from_iter_values(times)))),
        }
        let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
        let skip = skip.min(rows.len());
        let batch = batch.slice(skip, rows.len() - skip);
        let mut maker = encoder(rules(None), limit);
        let mut encoded = maker.rows(&batch).unwrap();
        let mut batches = Vec::new();
        while let Some(next) = encoded.next_batches(NOW, 0).unwrap() {
            batches.push(next.bytes().to_vec());
        }
        prop_assert_eq!(batches, cut(&rows[skip..], limit));
    }
}
