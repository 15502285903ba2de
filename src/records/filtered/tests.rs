//! As `MemoryRecordsTest.testFilterTo` and the tests beside it, and against records decoded one by one.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "overflow would fail the test"
)]

use proptest::prelude::*;

use super::*;
use crate::compress::Codec;
use crate::compress::Decompressor;
use crate::format::batch::RECORDS_COUNT_AT;
use crate::format::control::ControlType;
use crate::records::block::Payload;
use crate::records::builder::end_transaction;
use crate::records::plain;
use crate::types::Compression;

/// Keeps the given offsets.
struct Chosen {
    verdict: BatchVerdict,
    stays: Vec<bool>,
    at: usize,
    asked: usize,
}

impl Chosen {
    fn new(retention: BatchRetention, stays: &[bool]) -> Self {
        Self {
            verdict: retention.into(),
            stays: stays.to_vec(),
            at: 0,
            asked: 0,
        }
    }
}

impl RecordFilter for Chosen {
    fn batch(&mut self, _: &[u8], _: &BatchHeader) -> Result<BatchVerdict> {
        Ok(self.verdict)
    }

    fn records(
        &mut self,
        _: &BatchHeader,
        _: &[u8],
        slots: &[RecordSlot],
        stays: &mut [bool],
    ) -> Result<()> {
        self.asked += slots.len();
        for stays in stays {
            *stays = self.stays[self.at];
            self.at += 1;
        }
        Ok(())
    }
}

const RULES: FilterRules = FilterRules {
    delete_horizon_ms: Some(9_000),
    codec: None,
    keeps_legacy: false,
    keeps_ends: false,
    limit: DecodeLimit(1 << 20),
};

/// (offset, timestamp, key, value)
type Row = (Offset, TimestampMs, Option<Vec<u8>>, Option<Vec<u8>>);

fn batch(options: BatchOptions, rows: &[Row]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(options).unwrap();
    for (offset, timestamp, key, value) in rows {
        builder
            .append(*offset, *timestamp, key.as_deref(), value.as_deref(), &[])
            .unwrap();
    }
    let mut out = Vec::new();
    builder.finish(&mut Compressor::new(), &mut out).unwrap();
    out
}

fn rows(batch: &[u8]) -> Vec<Row> {
    let header = BatchHeader::parse(batch).unwrap().unwrap();
    header.ensure_valid(batch).unwrap();
    let (mut arena, mut slots) = (Vec::new(), Vec::new());
    let mut decompressor = Decompressor::new();
    let payload = plain::batch(
        batch,
        0,
        &header,
        &mut decompressor,
        &mut arena,
        DecodeLimit::default(),
        &mut slots,
    )
    .unwrap();
    let source = match payload {
        Payload::Source => batch,
        Payload::Arena => &arena,
    };
    let row = |slot: &RecordSlot| {
        let owned = |part: Option<&[u8]>| part.map(<[u8]>::to_vec);
        let (key, value) = (owned(slot.key(source)), owned(slot.value(source)));
        (slot.offset, slot.timestamp, key, value)
    };
    slots.iter().map(row).collect()
}

fn text(offset: Offset, timestamp: TimestampMs, key: &str, value: Option<&str>) -> Row {
    let bytes = |text: &str| text.as_bytes().to_vec();
    (offset, timestamp, Some(bytes(key)), value.map(bytes))
}

fn three() -> Vec<Row> {
    vec![
        text(100, 10, "a", Some("1")),
        text(101, 30, "b", Some("2")),
        text(102, 20, "c", Some("3")),
    ]
}

fn producer() -> BatchOptions {
    BatchOptions {
        base_offset: 100,
        partition_leader_epoch: 67,
        producer_id: 23,
        producer_epoch: 5,
        base_sequence: 10,
        is_transactional: true,
        ..BatchOptions::default()
    }
}

fn run(batch: &[u8], chosen: &mut Chosen, rules: FilterRules) -> (Filtered, Vec<u8>) {
    let header = BatchHeader::parse(batch).unwrap().unwrap();
    let mut out = b"before".to_vec();
    let mut filter = BatchFilter::new(rules).unwrap();
    let filtered = filter.filter(batch, &header, chosen, &mut out).unwrap();
    (filtered, out.split_off(6))
}

#[test]
fn nothing_goes() {
    let batch = batch(producer(), &three());
    let mut all = Chosen::new(BatchRetention::DeleteEmpty, &[true; 3]);
    let (filtered, out) = run(&batch, &mut all, RULES);
    assert_eq!((out, all.asked), (batch.clone(), 3));
    assert_eq!(filtered.outcome, FilteredBatch::Unchanged);
    // The records of a batch that is kept are not requested, whatever is in it.
    let mut broken = batch;
    broken[61..].fill(0xff);
    let mut kept = Chosen::new(BatchRetention::Keep, &[]);
    let (filtered, out) = run(&broken, &mut kept, RULES);
    assert_eq!((out, filtered.records_read, kept.asked), (broken, 0, 0));
}

#[test]
fn some_go() {
    for codec in [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        let codec = Codec::new(codec);
        let batch = batch(
            BatchOptions {
                codec,
                ..producer()
            },
            &three(),
        );
        let mut middle = Chosen::new(BatchRetention::DeleteEmpty, &[true, false, true]);
        let (filtered, out) = run(&batch, &mut middle, RULES);
        assert_eq!((filtered.records_read, filtered.records_kept), (3, 2));
        assert_eq!(rows(&out), [three().remove(0), three().remove(2)]);
        let before = BatchHeader::parse(&batch).unwrap().unwrap();
        let after = BatchHeader::parse(&out).unwrap().unwrap();
        let expected = BatchHeader {
            size: out.len(),
            crc: after.crc,
            max_timestamp: 20,
            records_count: Some(2),
            ..before.clone()
        };
        assert_eq!(after, expected, "{codec:?}");
        // The last one goes, the last offset stays.
        let mut first = Chosen::new(BatchRetention::DeleteEmpty, &[true, false, false]);
        let (_, out) = run(&batch, &mut first, RULES);
        let after = BatchHeader::parse(&out).unwrap().unwrap();
        assert_eq!((after.base_offset, after.last_offset()), (100, 102));
        assert_eq!(after.last_sequence(), 12);
    }
}

#[test]
fn all_go() {
    let batch = batch(producer(), &three());
    let mut none = Chosen::new(BatchRetention::DeleteEmpty, &[false; 3]);
    let (filtered, out) = run(&batch, &mut none, RULES);
    assert_eq!((filtered.outcome, out.len()), (FilteredBatch::Deleted, 0));
    let mut unasked = Chosen::new(BatchRetention::Delete, &[]);
    let (filtered, out) = run(&batch, &mut unasked, RULES);
    assert_eq!((filtered.outcome, out.len()), (FilteredBatch::Deleted, 0));
    let mut empty = Chosen::new(BatchRetention::RetainEmpty, &[false; 3]);
    let (filtered, out) = run(&batch, &mut empty, RULES);
    let before = BatchHeader::parse(&batch).unwrap().unwrap();
    let after = BatchHeader::parse(&out).unwrap().unwrap();
    after.ensure_valid(&out).unwrap();
    let expected = BatchHeader {
        size: 61,
        crc: after.crc,
        base_timestamp: -1,
        records_count: Some(0),
        ..before
    };
    assert_eq!(after, expected);
    assert_eq!(filtered.outcome, FilteredBatch::Emptied(expected));
    // Once more it stays what it is.
    let mut again = Chosen::new(BatchRetention::RetainEmpty, &[]);
    assert_eq!(run(&out, &mut again, RULES).1, out);
}

/// KIP-534: once, and record timestamps stay.
#[test]
fn delete_horizons() {
    let mut with_tombstone = three();
    with_tombstone[1].3 = None;
    let plain = batch(producer(), &with_tombstone);
    let mut all = Chosen::new(BatchRetention::DeleteEmpty, &[true; 3]);
    let (_, set) = run(&plain, &mut all, RULES);
    let header = BatchHeader::parse(&set).unwrap().unwrap();
    assert_eq!(header.delete_horizon_ms(), Some(9_000));
    assert_eq!((header.base_timestamp, header.max_timestamp), (9_000, 30));
    assert_eq!(rows(&set), with_tombstone);
    let later = FilterRules {
        delete_horizon_ms: Some(10_000),
        ..RULES
    };
    let mut all = Chosen::new(BatchRetention::DeleteEmpty, &[true; 3]);
    assert_eq!(run(&set, &mut all, later).1, set);
    // Nor where the batch is written again.
    let mut some = Chosen::new(BatchRetention::DeleteEmpty, &[false, true, true]);
    let (_, out) = run(&set, &mut some, later);
    let header = BatchHeader::parse(&out).unwrap().unwrap();
    assert_eq!(header.delete_horizon_ms(), Some(9_000));
    assert_eq!(rows(&out), with_tombstone[1..]);
    // A tombstone that goes sets none, nor do rules without one.
    let mut values = Chosen::new(BatchRetention::DeleteEmpty, &[true, false, true]);
    let (_, out) = run(&plain, &mut values, RULES);
    let header = BatchHeader::parse(&out).unwrap().unwrap();
    assert_eq!(header.delete_horizon_ms(), None);
    let never = FilterRules {
        delete_horizon_ms: None,
        ..RULES
    };
    let mut all = Chosen::new(BatchRetention::DeleteEmpty, &[true; 3]);
    assert_eq!(run(&plain, &mut all, never).1, plain);
}

#[test]
fn markers() {
    let mut marker = Vec::new();
    end_transaction(producer(), 1_000, ControlType::Commit, 3, &mut marker).unwrap();
    let mut stays = Chosen::new(BatchRetention::DeleteEmpty, &[true]);
    assert_eq!(run(&marker, &mut stays, RULES).1, marker);
    let mut stays = Chosen::new(BatchRetention::DeleteEmpty, &[true]);
    stays.verdict.is_marker_of_nothing = true;
    let (_, out) = run(&marker, &mut stays, RULES);
    let header = BatchHeader::parse(&out).unwrap().unwrap();
    assert_eq!(header.delete_horizon_ms(), Some(9_000));
    assert!(header.is_control() && header.is_transactional());
    assert_eq!(rows(&out), rows(&marker));
}

#[test]
fn another_codec() {
    let batch = batch(producer(), &three());
    let rules = FilterRules {
        codec: Some(Codec::new(Compression::Zstd)),
        ..RULES
    };
    let mut all = Chosen::new(BatchRetention::DeleteEmpty, &[true; 3]);
    let (_, out) = run(&batch, &mut all, rules);
    let header = BatchHeader::parse(&out).unwrap().unwrap();
    assert_eq!(header.compression().unwrap(), Compression::Zstd);
    assert_eq!(rows(&out), three());
}

/// A message of magic 1 without a checksum: it is not verified here.
fn message(magic: u8, offset: Offset, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend([magic, 0]);
    if magic == 1 {
        body.extend(77i64.to_be_bytes());
    }
    for part in [key, value] {
        body.extend(i32::try_from(part.len()).unwrap().to_be_bytes());
        body.extend(part);
    }
    let mut out = offset.to_be_bytes().to_vec();
    out.extend(i32::try_from(body.len()).unwrap().to_be_bytes());
    out.extend(body);
    out
}

#[test]
fn old_messages() {
    for (magic, timestamp) in [(0, -1), (1, 77)] {
        let old = message(magic, 100, b"a", b"1");
        let mut all = Chosen::new(BatchRetention::DeleteEmpty, &[true]);
        let (filtered, out) = run(&old, &mut all, RULES);
        assert!(matches!(filtered.outcome, FilteredBatch::Rewritten(_)));
        assert_eq!(rows(&out), [text(100, timestamp, "a", Some("1"))]);
        let header = BatchHeader::parse(&out).unwrap().unwrap();
        assert_eq!((header.magic, header.base_offset), (2, 100));
        assert_eq!(header.timestamp_type(), TimestampType::CreateTime);
        let keeping = FilterRules {
            keeps_legacy: true,
            ..RULES
        };
        let mut all = Chosen::new(BatchRetention::DeleteEmpty, &[true]);
        assert_eq!(run(&old, &mut all, keeping).1, old);
    }
}

#[test]
fn damage_is_told_and_nothing_written() {
    let whole = batch(producer(), &three());
    for at in 61..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x80;
        let header = BatchHeader::parse(&damaged).unwrap().unwrap();
        let mut some = Chosen::new(BatchRetention::DeleteEmpty, &[true, false, true]);
        let mut out = b"before".to_vec();
        let done = BatchFilter::new(RULES)
            .unwrap()
            .filter(&damaged, &header, &mut some, &mut out);
        if done.is_err() {
            assert_eq!(out, b"before");
        }
    }
    let mut count = whole;
    count[RECORDS_COUNT_AT] = 0xff;
    let header = BatchHeader::in_file(&count, count.len() as u64)
        .unwrap()
        .unwrap();
    let mut all = Chosen::new(BatchRetention::DeleteEmpty, &[true; 3]);
    let error = BatchFilter::new(RULES)
        .unwrap()
        .filter(&count, &header, &mut all, &mut Vec::new())
        .unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("byte 57: ") && error.contains("records count"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The remaining records are unchanged, in batches of every size.
    #[test]
    fn the_others_stay(
        chosen in prop::collection::vec((any::<bool>(), 0usize..40, any::<bool>()), 1..1400),
        codec in 0i8..5,
    ) {
        let codec = Codec::new(Compression::from_id(u8::try_from(codec).unwrap()).unwrap());
        let mut all = Vec::new();
        for (n, (_, len, is_tombstone)) in chosen.iter().enumerate() {
            let value = (!is_tombstone).then(|| vec![b'v'; *len]);
            let offset = 100 + i64::try_from(n * 2).unwrap();
            all.push((offset, offset % 7, Some(vec![b'k'; *len]), value));
        }
        let batch = batch(BatchOptions { codec, ..producer() }, &all);
        let stays: Vec<bool> = chosen.iter().map(|each| each.0).collect();
        let mut filter = Chosen::new(BatchRetention::DeleteEmpty, &stays);
        let (_, out) = run(&batch, &mut filter, RULES);
        let expected: Vec<Row> = all
            .into_iter()
            .zip(stays)
            .filter_map(|(row, stays)| stays.then_some(row))
            .collect();
        if expected.is_empty() {
            prop_assert!(out.is_empty());
        } else {
            prop_assert_eq!(rows(&out), expected);
        }
    }
}
