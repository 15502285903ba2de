//! Arrow rows, many batches in one write, against the same batches one by one; and a disk that fails in between.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use kafkalog::internal::arrow::append::{Appended, append_rows, encode_options};
use kafkalog::internal::arrow::encode::Encoder;
use kafkalog::internal::error::{Error, Refusal};
use kafkalog::internal::io::disk::Disk;
use kafkalog::internal::load::LoadRequest;
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::types::TimestampType;
use kafkalog::internal::write::{AppendInfo, LeaderAppend, WritableLog, WriteOptions};
use proptest::collection::vec;
use proptest::prelude::*;

use super::faults::{FaultyDisk, Mode};
use super::model::cases;
use super::{NOW_MS, folder};
use crate::common::files;

/// Rows to append: a timestamp, the distance of the offset from the one before, a value's length.
type Rows = Vec<(i64, i64, usize)>;

fn rows(timestamps: std::ops::Range<i64>) -> impl Strategy<Value = Rows> {
    vec((timestamps, 0..3i64, 0..150usize), 1..300)
}

fn settings() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    (
        prop_oneof![Just(900u32), Just(5_000), Just(1 << 20)],
        prop_oneof![Just(12u32), Just(36), Just(100), Just(10_000)],
        prop_oneof![Just(0u32), Just(500), Just(4_096)],
        prop_oneof![Just(1u64), Just(7), Just(u64::MAX >> 1)],
        prop_oneof![Just(1_000u32), Just(100_000_000)],
        prop_oneof![Just("CreateTime"), Just("LogAppendTime")],
        prop_oneof![Just("producer"), Just("lz4")],
    )
        .prop_map(|(segment, index, interval, flush, ms, time, codec)| {
            vec![
                ("internal.segment.bytes", segment.to_string()),
                ("segment.index.bytes", index.to_string()),
                ("index.interval.bytes", interval.to_string()),
                ("flush.messages", flush.to_string()),
                ("segment.ms", ms.to_string()),
                ("message.timestamp.type", time.to_owned()),
                ("compression.type", codec.to_owned()),
            ]
        })
}

fn config(settings: &[(&str, String)]) -> LogConfig {
    LogConfig::from_pairs(settings.iter().map(|(name, value)| (*name, value.as_str()))).unwrap()
}

fn arrow(rows: &Rows, keeps_offsets: bool) -> RecordBatch {
    let values = rows.iter().map(|row| vec![b'v'; row.2]);
    let values: ArrayRef = Arc::new(BinaryArray::from_iter_values(values));
    let times: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)));
    let mut columns = vec![("value", values), ("timestamp", times)];
    if keeps_offsets {
        let mut next = -1;
        let offsets = rows.iter().map(|row| {
            next += 1 + row.1;
            next
        });
        columns.push(("offset", Arc::new(Int64Array::from_iter_values(offsets))));
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

fn open(folder: &Path, config: &LogConfig, disk: Disk, clean: bool) -> Result<WritableLog, Error> {
    let mut options = WriteOptions::new(config.clone());
    options.disk = disk;
    open_with(folder, options, clean)
}

fn open_with(folder: &Path, options: WriteOptions, clean: bool) -> Result<WritableLog, Error> {
    let request = LoadRequest {
        clean,
        recovery_point: 0,
        log_start_offset: 0,
        now_ms: NOW_MS,
        producer_id_expiration_ms: options.producer_id_expiration_ms,
    };
    WritableLog::open(folder, options, request)
}

/// Each batch by itself, as a producer's or as a leader's.
fn one_by_one(log: &mut WritableLog, arrow: &RecordBatch, keeps_offsets: bool) -> Vec<AppendInfo> {
    let mut options = encode_options(log, 700, keeps_offsets, false).unwrap();
    if !keeps_offsets {
        // A producer knows nothing of the topic.
        options.rules.timestamp_type = TimestampType::CreateTime;
        options.rules.codec = None;
    }
    let mut encoder = Encoder::new(options);
    let mut made = encoder.rows(arrow).unwrap();
    let mut infos = Vec::new();
    while let Some(mut batch) = made.next_batches(NOW_MS, 0).unwrap() {
        let info = if keeps_offsets {
            batch.assign(0, 0);
            log.append_as_follower(batch.bytes(), 0, NOW_MS)
        } else {
            let mut records = batch.bytes().to_vec();
            log.append_as_leader(&mut records, &LeaderAppend::default(), NOW_MS)
        };
        infos.push(info.unwrap());
        log.update_high_watermark(log.log_end_offset()).unwrap();
    }
    infos
}

/// All rows, in as few writes as it takes; what is in the log also where it ends early.
fn in_runs(
    log: &mut WritableLog,
    arrow: &RecordBatch,
    keeps_offsets: bool,
) -> (Appended, Option<Error>) {
    let mut done = Appended::default();
    let options = encode_options(log, 700, keeps_offsets, false).unwrap();
    let mut encoder = Encoder::new(options);
    let outcome = append_rows(log, &mut encoder, arrow, 0, NOW_MS, &mut done);
    (done, outcome.err())
}

fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = files(folder, "");
    let each = files.iter().map(|path| {
        let name = path.strip_prefix(folder).unwrap();
        (name.display().to_string(), std::fs::read(path).unwrap())
    });
    each.collect()
}

proptest! {
    #![proptest_config(cases())]

    /// Segments, entries, snapshots, checkpoints, what is synced and what is said of it: all as if each were alone.
    #[test]
    fn batches_in_one_write_are_as_one_by_one(
        mut rows in rows(NOW_MS - 4_000..NOW_MS),
        times_rise in any::<bool>(),
        settings in settings(),
        keeps_offsets in any::<bool>(),
        write_bytes in prop_oneof![Just(1), Just(512), Just(1_000), Just(4_096), Just(1 << 20)],
    ) {
        if times_rise {
            // Else the largest timestamp of a batch is much like that of any other, and no segment is old enough.
            rows.sort_unstable();
        }
        let config = config(&settings);
        let arrow = arrow(&rows, keeps_offsets);
        let home = folder();
        let folders = [home.path().join("a/orders-0"), home.path().join("b/orders-0")];
        let [mut alone, mut together] = folders.clone().map(|folder| {
            let mut options = WriteOptions::new(config.clone());
            options.write_bytes = NonZeroU64::new(write_bytes).unwrap();
            open_with(&folder, options, true).unwrap()
        });
        let infos = one_by_one(&mut alone, &arrow, keeps_offsets);
        let (done, error) = in_runs(&mut together, &arrow, keeps_offsets);
        prop_assert!(error.is_none(), "{:?}", error);
        prop_assert_eq!(done, Appended {
            first_offset: infos[0].first_offset,
            last_offset: infos[infos.len() - 1].last_offset,
            records: rows.len() as u64,
            batches: infos.len() as u64,
            bytes: infos.iter().map(|info| info.size).sum(),
            rolled: infos.iter().filter(|info| info.rolled.is_some()).count() as u64,
            max_timestamp: infos.iter().map(|info| info.max_timestamp).max().unwrap(),
            duplicates: 0,
            seeming_unit: done.seeming_unit,
        });
        prop_assert_eq!(alone.segments(), together.segments());
        prop_assert_eq!(alone.recovery_point(), together.recovery_point());
        prop_assert_eq!(alone.high_watermark(), together.high_watermark());
        prop_assert!(contents(&folders[0]) == contents(&folders[1]), "open");
        alone.close(NOW_MS).unwrap();
        together.close(NOW_MS).unwrap();
        prop_assert!(contents(&folders[0]) == contents(&folders[1]), "closed");
    }
}

/// A write that fails takes all of its batches back, and nothing of those before it; the log takes nothing more.
#[test]
fn a_write_of_many_batches_fails_whole() {
    for write_bytes in [1 << 20, 4_096, 1_500] {
        fails_whole(NonZeroU64::new(write_bytes).unwrap());
    }
}

/// Writes end inside a batch, unless they are larger than the segments.
fn fails_whole(write_bytes: NonZeroU64) {
    let rows: Rows = (0..400).map(|n| (NOW_MS, 0, n % 150)).collect();
    let arrow = arrow(&rows, false);
    let settings = [("internal.segment.bytes", "9000".to_owned())];
    let config = config(&settings);
    let attempt = |at: usize, mode: Mode| {
        let home = folder();
        let path = home.path().join("orders-0");
        let disk = Arc::new(FaultyDisk::default());
        let faulty = Disk::with_faults(Arc::clone(&disk) as _);
        let mut options = WriteOptions::new(config.clone());
        options.disk = faulty;
        options.write_bytes = write_bytes;
        let mut log = open_with(&path, options, true).unwrap();
        disk.fail_at(at, mode);
        let begun = disk.steps();
        let (done, error) = in_runs(&mut log, &arrow, false);
        let steps = disk.steps() - begun;
        let Some(error) = error else {
            assert_eq!(done.last_offset, 399);
            return Some(steps);
        };
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert_eq!(log.log_end_offset(), done.last_offset + 1);
        let active = log.active_segment();
        let (size, length) = (active.size(), active.path().metadata().unwrap().len());
        // The file ends with the last whole batch, whatever was begun after it.
        assert!(
            mode.is_crash() || size == length,
            "step {at}: {size} of {length}"
        );
        let (_, again) = in_runs(&mut log, &arrow, false);
        let refused = matches!(
            again,
            Some(Error::Refused {
                refusal: Refusal::Failed,
                ..
            })
        );
        assert!(refused, "{again:?}");
        log.crash();
        disk.mend();
        let log = open(&path, &config, Disk::default(), false).unwrap();
        let end = log.log_end_offset();
        if mode.is_crash() {
            // What got through whole may stay.
            assert!(end > done.last_offset, "{end}");
        } else {
            assert_eq!(end, done.last_offset + 1, "step {at}");
        }
        log.close(NOW_MS).unwrap();
        None
    };
    let steps = attempt(usize::MAX >> 1, Mode::Full).unwrap();
    assert!(steps > 10, "{steps}");
    for at in 0..steps {
        for mode in [
            Mode::Full,
            Mode::Short(2_000),
            Mode::Crash(0),
            Mode::Crash(2_000),
        ] {
            assert!(attempt(at, mode).is_none(), "step {at} of {steps}");
        }
    }
}
