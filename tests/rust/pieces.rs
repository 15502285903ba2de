//! Ranges cut into pieces, against the same ranges whole: the same rows, the same fault at the same place.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMillisecondType};
use kafkalog::internal::arrow::columns::ColumnOptions;
use kafkalog::internal::arrow::parallel::ParallelReader;
use kafkalog::internal::arrow::reader::RangeReader;
use kafkalog::internal::arrow::schema::{Column, Layout};
use kafkalog::internal::scan::pieces::{NoIndexEntry, Pieces};
use kafkalog::internal::scan::plan::{Ending, PlanOptions, Starting, plan_scan};
use kafkalog::internal::scan::range::PartitionRange;
use kafkalog::internal::segment::reader::ReadOptions;

use crate::common::{Chance, Head, batch, one_record, put_varint};
use crate::corpus::cases;

/// Segment, batch position, offset, timestamp, key and value of each row; then what went wrong.
type Told = (Vec<Row>, Option<String>);
type Row = (Arc<str>, i64, i64, i64, Option<Vec<u8>>, Option<Vec<u8>>);

fn read(reader: &mut RangeReader, told: &mut Told) {
    loop {
        match reader.next_batch() {
            Ok(Some(batch)) => {
                let (segment, key, value) = (
                    batch.column(0).as_string::<i32>(),
                    batch.column(4).as_binary::<i32>(),
                    batch.column(5).as_binary::<i32>(),
                );
                let position = batch.column(1).as_primitive::<Int64Type>();
                let offset = batch.column(2).as_primitive::<Int64Type>();
                let timestamp = batch.column(3).as_primitive::<TimestampMillisecondType>();
                for i in 0..batch.num_rows() {
                    told.0.push((
                        segment.value(i).into(),
                        position.value(i),
                        offset.value(i),
                        timestamp.value(i),
                        key.iter().nth(i).flatten().map(<[u8]>::to_vec),
                        value.iter().nth(i).flatten().map(<[u8]>::to_vec),
                    ));
                }
            }
            Ok(None) => return,
            Err(error) => {
                told.1 = Some(error.to_string());
                return;
            }
        }
    }
}

/// Each range by a reader of its own, up to the first fault.
fn told<'a>(parts: impl IntoIterator<Item = &'a [PartitionRange]>) -> Told {
    let mut told = Told::default();
    for ranges in parts {
        let columns = ColumnOptions {
            columns: vec![
                Column::Segment,
                Column::BatchPosition,
                Column::Offset,
                Column::Timestamp,
                Column::Key,
                Column::Value,
            ],
            layout: Layout::Binary,
            batch_rows: 64,
            ..ColumnOptions::default()
        };
        let options = ReadOptions {
            include_control: true,
            ..ReadOptions::default()
        };
        let mut reader = RangeReader::try_new(ranges.to_vec(), options, columns).unwrap();
        read(&mut reader, &mut told);
        if told.1.is_some() {
            break;
        }
    }
    told
}

fn cut(
    ranges: &[PartitionRange],
    size: u64,
    no_index_entry: NoIndexEntry,
) -> Vec<Vec<PartitionRange>> {
    Pieces::new(ranges.to_vec(), size, no_index_entry).collect()
}

/// Number of pieces that begin inside a segment.
fn inside(pieces: &[Vec<PartitionRange>]) -> usize {
    let segments = pieces.iter().flatten().flat_map(|range| &range.segments);
    segments.filter(|s| s.start_position > 0).count()
}

fn check(name: &Path, ranges: &[PartitionRange]) -> usize {
    let whole = told([ranges]);
    let mut cuts = 0;
    for (size, no_index_entry) in [
        (1, NoIndexEntry::WalkHeaders),
        (900, NoIndexEntry::KeepWhole),
        (5000, NoIndexEntry::WalkHeaders),
        (70_000, NoIndexEntry::KeepWhole),
    ] {
        let pieces = cut(ranges, size, no_index_entry);
        let bytes =
            |ranges: &[PartitionRange]| ranges.iter().map(PartitionRange::bytes).sum::<u64>();
        // Pieces after the end that was requested are left out.
        assert!(pieces.iter().map(|piece| bytes(piece)).sum::<u64>() <= bytes(ranges));
        let parts = told(pieces.iter().map(Vec::as_slice));
        assert_eq!(parts.1, whole.1, "{}: pieces of {size}", name.display());
        assert!(
            parts.0 == whole.0,
            "{}: pieces of {size} give {} rows, the whole {}",
            name.display(),
            parts.0.len(),
            whole.0.len()
        );
        // Else records would be lost where a file is exchanged for another before its piece is read: there offsets
        // count.
        for segment in pieces.iter().flatten().flat_map(|range| &range.segments) {
            let place = i64::try_from(segment.start_position).unwrap();
            let mut rows = whole.0.iter();
            let below = rows.find(|row| {
                *row.0 == *segment.file_name && row.1 == place && row.2 < segment.start_offset
            });
            assert_eq!(below, None, "{}", name.display());
        }
        cuts += inside(&pieces);
    }
    cuts
}

#[test]
fn pieces_give_what_the_whole_gives() {
    let (mut cuts, mut chance) = (0, Chance(3));
    for case in cases() {
        let paths = [case.folder.clone()];
        let options = PlanOptions {
            starting_offsets: Starting::Oldest,
            ..PlanOptions::default()
        };
        let whole = plan_scan(&paths, &options).unwrap();
        cuts += check(&case.folder, &whole);
        let offsets: Vec<i64> = told([&whole[..]]).0.iter().map(|row| row.2).collect();
        if offsets.is_empty() {
            continue;
        }
        for _ in 0..3 {
            let (from, to) = (*chance.pick(&offsets), *chance.pick(&offsets));
            let options = PlanOptions {
                starting_offsets: Starting::Offset(from.min(to)),
                ending_offsets: Ending::Offset(from.max(to)),
                ..PlanOptions::default()
            };
            check(&case.folder, &plan_scan(&paths, &options).unwrap());
        }
    }
    assert!(cuts > 1000, "{cuts}");
}

/// A partition of several segments with their indexes, copied, so that it can be damaged.
fn copy() -> (tempfile::TempDir, PathBuf) {
    let case = cases()
        .into_iter()
        .filter(|case| case.folder.to_string_lossy().contains("v2-"))
        .max_by_key(|case| {
            let files = fs::read_dir(&case.folder).unwrap();
            files
                .map(|e| e.unwrap().metadata().unwrap().len())
                .sum::<u64>()
        })
        .unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join(case.folder.file_name().unwrap());
    fs::create_dir(&folder).unwrap();
    for entry in fs::read_dir(&case.folder).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    (scratch, folder)
}

/// Pieces find what the whole finds, at any changed byte of a header.
#[test]
fn damage_is_found_in_pieces_too() {
    let (_scratch, folder) = copy();
    let logs = crate::common::files(&folder, ".log");
    let mut chance = Chance(11);
    let mut found = 0;
    for round in 0..200 {
        let log = chance.pick(&logs);
        let data = fs::read(log).unwrap();
        if data.is_empty() {
            continue;
        }
        let mut position = 0;
        let mut starts = Vec::new();
        while let Some(length) = data.get(position + 8..position + 12) {
            starts.push(position);
            position += 12 + u32::from_be_bytes(length.try_into().unwrap()) as usize;
        }
        let mut damaged = data.clone();
        let at = *chance.pick(&starts) + chance.below(24);
        damaged[at] ^= 1 << chance.below(8);
        fs::write(log, damaged).unwrap();
        let ranges = plan_scan(std::slice::from_ref(&folder), &PlanOptions::default());
        if let Ok(ranges) = ranges {
            let whole = told([&ranges[..]]);
            found += usize::from(whole.1.is_some());
            for (size, no_index_entry) in [
                (1, NoIndexEntry::KeepWhole),
                (3000, NoIndexEntry::WalkHeaders),
            ] {
                let pieces = cut(&ranges, size, no_index_entry);
                let parts = told(pieces.iter().map(Vec::as_slice));
                assert_eq!(parts.1, whole.1, "round {round}: {} at {at}", log.display());
                assert!(parts.0 == whole.0, "round {round}");
            }
        }
        fs::write(log, data).unwrap();
    }
    assert!(found > 50, "{found}");
}

/// Three segments of two megabytes in batches of some 200 records, without indexes.
fn long_log(folder: &Path) -> Vec<PathBuf> {
    let mut offset = 0i64;
    let mut paths = Vec::new();
    for _ in 0..3 {
        let path = folder.join(format!("{offset:020}.log"));
        let mut log = Vec::new();
        while log.len() < 2 << 20 {
            let mut records = Vec::new();
            for i in 0..200i64 {
                let mut body = vec![0];
                put_varint(&mut body, i);
                put_varint(&mut body, i);
                put_varint(&mut body, -1);
                let value = format!("value {}", offset + i).repeat(4);
                put_varint(&mut body, i64::try_from(value.len()).unwrap());
                body.extend(value.bytes());
                put_varint(&mut body, 0);
                put_varint(&mut records, i64::try_from(body.len()).unwrap());
                records.append(&mut body);
            }
            let head = Head {
                base_offset: offset,
                attributes: 0,
                last_offset_delta: 199,
                base_timestamp: offset,
                max_timestamp: offset + 199,
                count: 200,
            };
            log.extend(batch(head, &records));
            offset += 200;
        }
        fs::write(&path, log).unwrap();
        paths.push(path);
    }
    paths
}

fn in_parallel(
    ranges: &[PartitionRange],
    threads: usize,
    stop_after: usize,
) -> (Vec<i64>, Option<String>) {
    let columns = ColumnOptions {
        columns: vec![Column::Offset, Column::Value],
        // Small batches make small pieces.
        batch_bytes: 64 << 10,
        ..ColumnOptions::default()
    };
    let mut reader = ParallelReader::try_new(
        ranges.to_vec(),
        threads,
        ReadOptions::default(),
        &columns,
        None,
    )
    .unwrap();
    let mut offsets = Vec::new();
    for _ in 0..stop_after {
        match reader.next_batch() {
            Ok(Some(batch)) => {
                offsets.extend(batch.column(0).as_primitive::<Int64Type>().values());
            }
            Ok(None) => break,
            Err(error) => return (offsets, Some(error.to_string())),
        }
    }
    (offsets, None)
}

#[test]
fn threads_keep_the_order() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("t-0");
    fs::create_dir(&folder).unwrap();
    let logs = long_log(&folder);
    let ranges = plan_scan(std::slice::from_ref(&folder), &PlanOptions::default()).unwrap();
    assert!(inside(&cut(&ranges, 512 << 10, NoIndexEntry::WalkHeaders)) > 6);
    let (all, _) = in_parallel(&ranges, 1, usize::MAX);
    assert!(all.iter().copied().eq(0..i64::try_from(all.len()).unwrap()) && all.len() > 90_000);
    for threads in [2, 3, 8] {
        assert!(
            in_parallel(&ranges, threads, usize::MAX) == (all.clone(), None),
            "{threads}"
        );
        // A reader that stops early does not wait.
        assert!(in_parallel(&ranges, threads, 3).0.len() < all.len());
    }
    let mut data = fs::read(&logs[1]).unwrap();
    let middle = data.len() / 2;
    data[middle] ^= 1;
    fs::write(&logs[1], data).unwrap();
    let one = in_parallel(&ranges, 1, usize::MAX);
    assert!(one.1.is_some() && one.0.len() < all.len());
    for threads in [2, 8] {
        assert!(
            in_parallel(&ranges, threads, usize::MAX) == one,
            "{threads}"
        );
    }
}

#[test]
fn small_segments_share_a_piece() {
    let options = PlanOptions::default();
    let paths: Vec<PathBuf> = cases()
        .iter()
        .map(|case| case.folder.clone())
        .take(3)
        .collect();
    for path in paths {
        let ranges = plan_scan(&[path], &options).unwrap();
        assert!(cut(&ranges, u64::MAX, NoIndexEntry::KeepWhole).len() <= 1);
    }
}

/// Values may contain healthy Kafka batches, and a wrong index may point at them.
#[test]
fn no_cut_at_a_batch_inside_a_value() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("t-0");
    fs::create_dir(&folder).unwrap();
    let (mut log, mut index) = (Vec::new(), Vec::new());
    for offset in 0..40i32 {
        let inner = one_record(offset.into(), 0, 5);
        let mut body = vec![0, 0, 0, 1];
        put_varint(&mut body, i64::try_from(inner.len() + 200).unwrap());
        let before = body.len();
        body.extend(&inner);
        body.extend([7; 200]);
        body.push(0);
        let mut records = Vec::new();
        put_varint(&mut records, i64::try_from(body.len()).unwrap());
        let at = log.len() + 61 + records.len() + before;
        records.extend(body);
        let head = Head {
            base_offset: offset.into(),
            attributes: 0,
            last_offset_delta: 0,
            base_timestamp: 5,
            max_timestamp: 5,
            count: 1,
        };
        log.extend(batch(head, &records));
        assert_eq!(log[at..at + inner.len()], inner);
        index.extend(offset.to_be_bytes());
        index.extend(i32::try_from(at).unwrap().to_be_bytes());
    }
    fs::write(folder.join(format!("{:020}.log", 0)), log).unwrap();
    fs::write(folder.join(format!("{:020}.index", 0)), index).unwrap();
    let ranges = plan_scan(&[folder], &PlanOptions::default()).unwrap();
    assert_eq!(inside(&cut(&ranges, 900, NoIndexEntry::KeepWhole)), 0);
    assert!(inside(&cut(&ranges, 900, NoIndexEntry::WalkHeaders)) > 5);
    check(Path::new("inside"), &ranges);
    assert_eq!(told([ranges.as_slice()]).0.len(), 40);
}
