//! Real segments, mutated: whatever the bytes, reading ends in records or in an error that says where; memory stays
//! bounded; a flipped bit is found by the checksum, or by order, structure or neighbours where it is outside.
//!
//! The seeds are the brokers' own files under `tests/golden`, those that are whole.

use std::path::{Path, PathBuf};

use arrow_array::{Array, Int64Array, RecordBatch};
use kafkalog::internal::arrow::columns::ColumnOptions;
use kafkalog::internal::arrow::reader::RangeReader;
use kafkalog::internal::arrow::schema::{Column, Layout};
use kafkalog::internal::compress::{DecodeLimit, Decompressor};
use kafkalog::internal::error::{Error, Result};
use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::format::file_name::base_offset;
use kafkalog::internal::records::{legacy, plain};
use kafkalog::internal::scan::range::PartitionRange;
use kafkalog::internal::segment::reader::ReadOptions;

use crate::checks;
use crate::common::{files, first_seed, root};

mod chained;
mod damage;
mod flips;
mod in_parts;
mod kinds;
mod mutants;
mod salvaged;

/// A `.log` that is whole, and where its batches begin.
struct Seed {
    name: String,
    base_offset: i64,
    data: Vec<u8>,
    batches: Vec<(usize, BatchHeader)>,
    /// Never compacted: no offset is missing, as in any segment that is still being appended to.
    is_dense: bool,
}

impl Seed {
    fn read(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let data = std::fs::read(path).unwrap();
        let mut batches = Vec::new();
        let mut at = 0;
        while at < data.len() {
            let header = BatchHeader::parse(&data[at..]).ok()??;
            header.ensure_valid(data.get(at..at + header.size)?).ok()?;
            let size = header.size;
            batches.push((at, header));
            at += size;
        }
        let seed = Self {
            base_offset: base_offset(&name)?,
            name,
            is_dense: spans(&data)?
                .windows(2)
                .all(|pair| pair[1].0 == pair[0].1 + 1),
            data,
            batches,
        };
        (!seed.batches.is_empty()).then_some(seed)
    }

    fn next_offset(&self) -> i64 {
        self.batches.last().unwrap().1.next_offset()
    }
}

fn seeds(largest: usize) -> Vec<Seed> {
    let folder = root().join("tests/golden");
    let paths = files(&folder, ".log");
    let is_whole = |path: &&PathBuf| {
        let damaged = ["corrupt", "log"].map(|damaged| folder.join(damaged));
        !damaged.iter().any(|damaged| path.starts_with(damaged))
    };
    let paths = paths.iter().filter(is_whole);
    let mut seeds: Vec<_> = paths.filter_map(|path| Seed::read(path)).collect();
    seeds.retain(|seed| seed.data.len() <= largest);
    assert!(
        seeds.len() > 50,
        "{} seeds under {}",
        seeds.len(),
        folder.display()
    );
    seeds
}

/// A folder to read mutants in.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        Self {
            folder: folder.unwrap(),
        }
    }

    fn range(&self, seed: &Seed, data: &[u8], is_active: bool) -> PartitionRange {
        // A new file each time: the last one may still be mapped.
        let path = self.folder.path().join(&seed.name);
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, data).unwrap();
        if !is_active {
            // Only a segment before another one is mapped.
            let next = format!("{:020}.log", seed.next_offset());
            std::fs::write(path.with_file_name(next), b"").unwrap();
        }
        let next = (!is_active).then(|| seed.next_offset());
        checks::one_segment(self.folder.path(), &seed.name, data.len(), next)
    }
}

fn options() -> ReadOptions {
    ReadOptions {
        limit: DecodeLimit(1 << 20),
        ..ReadOptions::default()
    }
}

fn columns(layout: Layout, all: bool) -> ColumnOptions {
    let columns = if all {
        Column::ALL.to_vec()
    } else {
        vec![Column::Offset, Column::Key, Column::Value]
    };
    ColumnOptions {
        columns,
        layout,
        batch_rows: 1000,
        ..ColumnOptions::default()
    }
}

/// Reads to the end, or to the fault; every record batch is checked in full.
fn drain(
    mut next: impl FnMut() -> Result<Option<RecordBatch>>,
    validate: bool,
) -> Result<Vec<i64>> {
    let mut offsets = Vec::new();
    while let Some(batch) = next()? {
        assert!(batch.num_rows() > 0, "an empty record batch");
        if let Some(column) = batch.column_by_name("offset") {
            let column = column.as_any().downcast_ref::<Int64Array>().unwrap();
            offsets.extend(column.values());
        }
        if validate {
            for column in batch.columns() {
                column.to_data().validate_full().unwrap();
            }
        }
    }
    Ok(offsets)
}

fn read(range: PartitionRange, columns: ColumnOptions, validate: bool) -> Result<Vec<i64>> {
    let mut reader = RangeReader::try_new(vec![range], options(), columns).unwrap();
    drain(|| reader.next_batch(), validate)
}

/// An error about bytes, with a path and a position in the file.
fn is_about_bytes(error: &Error, len: usize) {
    let fault = error
        .as_fault()
        .unwrap_or_else(|| panic!("not about bytes: {error}"));
    let position = fault.location.position.unwrap();
    assert!(fault.location.path.is_some(), "{error}");
    assert!(
        position <= u64::try_from(len).unwrap(),
        "{error} in {len} bytes"
    );
}

/// First and last offset, and leader epoch, of every batch; by the plain decoders.
fn spans(data: &[u8]) -> Option<Vec<(i64, i64, i32)>> {
    let mut spans = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let header = BatchHeader::parse(&data[at..]).ok()??;
        let batch = data.get(at..at + header.size)?;
        header.ensure_valid(batch).ok()?;
        let first = legacy::first_offset(batch, &header, checks::LIMIT).ok()?;
        spans.push((first, header.last_offset(), header.partition_leader_epoch));
        at += header.size;
    }
    Some(spans)
}

/// Returns whether a segment is free of visible faults: checksums, structure, order of offsets and epochs, bounds.
fn is_plausible(seed: &Seed, data: &[u8], is_active: bool) -> bool {
    let Some(spans) = spans(data) else {
        return false;
    };
    let (mut floor, mut epoch, mut at) = (seed.base_offset, -1, 0);
    for (first, last, its) in spans {
        // Of magic 0 nothing holds a wrapper's offset against those inside (`DeepRecordsIterator`).
        let first = if data[at + 16] == 0 { last } else { first };
        at += BatchHeader::parse(&data[at..]).unwrap().unwrap().size;
        let bounded = is_active || last < seed.next_offset();
        let ordered = first >= floor && last >= first && (its == -1 || its >= epoch) && its >= -1;
        if !(bounded && ordered) {
            return false;
        }
        (floor, epoch) = (last + 1, epoch.max(its));
    }
    true
}

/// Unharmed, every seed is read whole: what is refused above is refused for the damage.
#[test]
fn unharmed_segments_are_read_whole() {
    let bench = Bench::new();
    let mut records = 0;
    for seed in seeds(usize::MAX) {
        assert!(is_plausible(&seed, &seed.data, false), "{}", seed.name);
        let (mut decompressor, mut slots) = (Decompressor::new(), Vec::new());
        let mut expected = Vec::new();
        for (at, header) in seed
            .batches
            .iter()
            .filter(|(_, header)| !header.is_control())
        {
            let batch = &seed.data[*at..*at + header.size];
            slots.clear();
            plain::batch(
                batch,
                0,
                header,
                &mut decompressor,
                &mut Vec::new(),
                checks::LIMIT,
                &mut slots,
            )
            .unwrap();
            expected.extend(slots.iter().map(|slot| slot.offset));
        }
        records += expected.len();
        for layout in [Layout::Binary, Layout::View] {
            let columns = columns(layout, true);
            let found = read(bench.range(&seed, &seed.data, false), columns, true).unwrap();
            assert_eq!(found, expected, "{}", seed.name);
        }
    }
    assert!(records > 1000, "{records} records");
}
