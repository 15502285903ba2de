//! Bounds on offsets and timestamps: what is left is what the same bounds leave of everything, and less is read for it.

use std::fs;
use std::path::Path;

use arrow_array::{Array, Int64Array, TimestampMillisecondArray};
use kafkalog::internal::arrow::columns::ColumnOptions;
use kafkalog::internal::arrow::parallel::ParallelReader;
use kafkalog::internal::arrow::reader::RangeReader;
use kafkalog::internal::arrow::schema::{Column, Layout};
use kafkalog::internal::format::file_name::FileKind;
use kafkalog::internal::scan::plan::{IsolationLevel, PlanOptions, Pruning, Starting, plan_scan};
use kafkalog::internal::scan::range::PartitionRange;
use kafkalog::internal::segment::filter::TimestampBounds;
use kafkalog::internal::segment::metrics::Metrics;
use kafkalog::internal::segment::reader::ReadOptions;

use crate::common::Chance;
use crate::corpus::{Copy, EARLY, cases};

type Row = (i64, i64);

fn read(ranges: Vec<PartitionRange>, layout: Layout, threads: usize) -> (Vec<Row>, Metrics) {
    let columns = ColumnOptions {
        columns: vec![Column::Offset, Column::Timestamp, Column::Value],
        layout,
        batch_rows: 100,
        ..ColumnOptions::default()
    };
    let options = ReadOptions::default();
    let mut rows = Vec::new();
    let mut take = |batch: arrow_array::RecordBatch| {
        let offsets = batch.column(0).as_any().downcast_ref::<Int64Array>();
        let times = batch.column(1).as_any();
        let times = times.downcast_ref::<TimestampMillisecondArray>().unwrap();
        let pairs = offsets.unwrap().values().iter().zip(times.values());
        rows.extend(pairs.map(|(&offset, &time)| (offset, time)));
    };
    let metrics = if threads > 1 {
        let mut reader = ParallelReader::try_new(ranges, threads, options, &columns, None).unwrap();
        while let Some(batch) = reader.next_batch().unwrap() {
            take(batch);
        }
        reader.metrics().0
    } else {
        let mut reader = RangeReader::try_new(ranges, options, columns).unwrap();
        while let Some(batch) = reader.next_batch().unwrap() {
            take(batch);
        }
        reader.metrics().0
    };
    (rows, metrics)
}

fn planned(
    folder: &Path,
    pruning: Pruning,
    isolation_level: IsolationLevel,
) -> Vec<PartitionRange> {
    let options = PlanOptions {
        starting_offsets: Starting::Oldest,
        pruning,
        isolation_level,
        ..PlanOptions::default()
    };
    plan_scan(&[folder.to_path_buf()], &options).unwrap()
}

#[test]
fn what_is_left_is_what_the_bounds_leave() {
    let mut chance = Chance(3);
    let (mut segments, mut batches, mut records) = (0, 0, 0);
    for case in cases() {
        for isolation in [
            IsolationLevel::ReadUncommitted,
            IsolationLevel::ReadCommitted,
        ] {
            let whole = planned(&case.folder, Pruning::default(), isolation);
            let all_segments: usize = whole.iter().map(|r| r.segments.len()).sum();
            let (rows, _) = read(whole, Layout::Binary, 1);
            for _ in 0..6 {
                let bound = |chance: &mut Chance, of: fn(&Row) -> i64| {
                    let row = rows.get(chance.below(rows.len().max(1)));
                    let near = i64::try_from(chance.below(3)).unwrap() - 1;
                    row.filter(|_| chance.below(2) > 0)
                        .map(|row| of(row) + near)
                };
                let by_time = chance.below(3) > 0;
                let time = |chance: &mut Chance| by_time.then(|| bound(chance, |r| r.1)).flatten();
                let pruning = Pruning {
                    timestamps: TimestampBounds {
                        min: time(&mut chance),
                        max: time(&mut chance),
                    },
                    min_offset: bound(&mut chance, |r| r.0),
                    max_offset: bound(&mut chance, |r| r.0),
                };
                let wanted = |row: &&Row| {
                    pruning.min_offset.is_none_or(|min| row.0 >= min)
                        && pruning.max_offset.is_none_or(|max| row.0 <= max)
                        && pruning.timestamps.min.is_none_or(|min| row.1 >= min)
                        && pruning.timestamps.max.is_none_or(|max| row.1 <= max)
                };
                let expected: Vec<Row> = rows.iter().filter(wanted).copied().collect();
                let layout = *chance.pick(&[Layout::Binary, Layout::View]);
                let threads = *chance.pick(&[1, 1, 3]);
                let ranges = planned(&case.folder, pruning, isolation);
                segments += all_segments - ranges.iter().map(|r| r.segments.len()).sum::<usize>();
                let (found, metrics) = read(ranges, layout, threads);
                let place = case.folder.display();
                assert_eq!(found, expected, "{place} {pruning:?} {layout:?} {threads}");
                batches += metrics.batches_skipped;
                records += metrics.records_skipped;
            }
        }
    }
    assert!(
        segments > 100 && batches > 1000 && records > 1000,
        "{segments} {batches} {records}"
    );
}

/// A time index is a hint: cut, emptied or garbled it may cost reading, never a row.
#[test]
fn damaged_time_indexes_leave_no_row_out() {
    let mut chance = Chance(23);
    let mut pruned = 0;
    for case in cases().iter().step_by(2) {
        let copy = Copy::of(&case.folder, EARLY);
        let sound: Vec<_> = copy
            .files(FileKind::TimeIndex)
            .iter()
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        let everything = planned(
            &copy.folder,
            Pruning::default(),
            IsolationLevel::ReadUncommitted,
        );
        let segments = everything[0].segments.len();
        let (rows, _) = read(everything, Layout::Binary, 1);
        if rows.is_empty() {
            continue;
        }
        for round in 0..5 {
            for (path, bytes) in &sound {
                let entries = bytes.len() / 12;
                let mut bytes = bytes.clone();
                match round {
                    0 => bytes.truncate(chance.below(entries + 1) * 12),
                    1 if !bytes.is_empty() => {
                        let at = chance.below(bytes.len());
                        bytes[at] ^= 1 << chance.below(8);
                    }
                    2 => bytes.rotate_left(entries / 2 * 12),
                    3 => bytes.clear(),
                    _ => {}
                }
                fs::write(path, bytes).unwrap();
            }
            let times: Vec<i64> = rows.iter().map(|row| row.1).collect();
            for min in [
                *times.iter().max().unwrap(),
                *chance.pick(&times),
                *chance.pick(&times) + 1,
            ] {
                let timestamps = TimestampBounds {
                    min: Some(min),
                    max: None,
                };
                let pruning = Pruning {
                    timestamps,
                    ..Pruning::default()
                };
                let ranges = planned(&copy.folder, pruning, IsolationLevel::ReadUncommitted);
                pruned += segments - ranges[0].segments.len();
                let expected: Vec<Row> = rows.iter().filter(|row| row.1 >= min).copied().collect();
                let (found, _) = read(ranges, Layout::Binary, 1);
                let place = copy.folder.display();
                assert_eq!(found, expected, "{place} {min} round {round}");
            }
        }
    }
    assert!(pruned > 100, "{pruned}");
}
