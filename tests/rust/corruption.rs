//! Real segments, mutated: whatever the bytes, reading ends in records or in an error that says where; memory stays
//! bounded; a flipped bit is found by the checksum, or by order, structure or neighbours where it is outside.
//!
//! The seeds are the brokers' own files under `tests/golden`, those that are whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use arrow_array::{Array, Int64Array, RecordBatch};
use kafkalog::arrow::batches::BatchReader;
use kafkalog::arrow::columns::ColumnOptions;
use kafkalog::arrow::reader::{ParallelReader, RecordReader};
use kafkalog::arrow::schema::{Column, Layout};
use kafkalog::compress::{DecodeLimit, Decompressor};
use kafkalog::error::{Error, Result};
use kafkalog::format::batch::BatchHeader;
use kafkalog::format::file_name::base_offset;
use kafkalog::log::range::{PartitionRange, SegmentRange};
use kafkalog::records::{legacy, plain};
use kafkalog::segment::filter::TimestampBounds;
use kafkalog::segment::reader::ReadOptions;

use crate::batches::lz4_stored;
use crate::checks;
use crate::common::{Chance, files, is_slow, root, seal};

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
        PartitionRange {
            folder: self.folder.path().to_path_buf(),
            topic: "t".into(),
            partition: 0,
            start_offset: seed.base_offset,
            end_offset: None,
            timestamps: TimestampBounds::default(),
            segments: vec![SegmentRange {
                base_offset: seed.base_offset,
                file_name: seed.name.clone(),
                size: u64::try_from(data.len()).unwrap(),
                is_active,
                start_position: 0,
                next_base_offset: (!is_active).then(|| seed.next_offset()),
                aborted: None,
                start_offset: seed.base_offset,
                end: None,
            }],
        }
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
    let mut reader = RecordReader::try_new(vec![range], options(), columns).unwrap();
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

const NASTY: [i32; 12] = [
    0,
    1,
    -1,
    13,
    14,
    48,
    49,
    61,
    0x7fff_ffff,
    -0x8000_0000,
    0x0100_0000,
    65_536,
];

/// One change somewhere.
fn mutate(data: &mut Vec<u8>, seed: &Seed, other: &Seed, chance: &mut Chance) {
    if data.is_empty() {
        return;
    }
    let &(begin, ref header) = chance.pick(&seed.batches);
    let begin = begin.min(data.len() - 1);
    let anywhere = chance.below(data.len());
    match chance.below(12) {
        0 | 1 => data[anywhere] ^= 1 << chance.below(8),
        2 => data[anywhere] = chance.byte(),
        3 => data.truncate(anywhere),
        4 => {
            let end = (anywhere + chance.below(64)).min(data.len());
            data.drain(anywhere..end);
        }
        5 => {
            let noise: Vec<u8> = (0..chance.below(40)).map(|_| chance.byte()).collect();
            data.splice(anywhere..anywhere, noise);
        }
        6 => {
            let from = chance.below(other.data.len());
            let to = (from + chance.below(200)).min(other.data.len());
            let end = if chance.below(2) == 0 {
                anywhere
            } else {
                (anywhere + to - from).min(data.len())
            };
            data.splice(anywhere..end, other.data[from..to].iter().copied());
        }
        // A field of a batch's header: length, last offset delta, count, or a legacy message's lengths.
        7 | 8 => {
            let at = begin + chance.pick(&[8, 8, 12, 16, 17, 18, 22, 23, 26, 30, 57, 53]);
            if let Some(field) = data.get_mut(at..at + 4) {
                field.copy_from_slice(&chance.pick(&NASTY).to_be_bytes());
            }
        }
        // A varint among the records.
        9 => {
            let at = begin + 61 + chance.below(40);
            let nasty = [0x00, 0x01, 0x02, 0x7f, 0x80, 0xff, 0xfe];
            for byte in data.iter_mut().skip(at).take(chance.below(5) + 1) {
                *byte = *chance.pick(&nasty);
            }
        }
        // A whole batch of another segment.
        10 => {
            let (from, header) = chance.pick(&other.batches);
            data.splice(
                begin..begin,
                other.data[*from..*from + header.size].iter().copied(),
            );
        }
        _ => repack(data, begin, header, chance),
    }
}

/// Takes a compressed batch's records out, damages one byte of them and puts them back as stored LZ4 blocks.
fn repack(data: &mut Vec<u8>, begin: usize, header: &BatchHeader, chance: &mut Chance) {
    let Some(whole) = data.get(begin..begin + header.size) else {
        return;
    };
    let (Ok(codec), false) = (header.compression(), header.is_legacy()) else {
        return;
    };
    let mut records = Vec::new();
    let result =
        Decompressor::new().decompress(codec, 2, &whole[61..], &mut records, checks::LIMIT);
    if result.is_err() || records.is_empty() {
        return;
    }
    let at = chance.below(records.len());
    records[at] = chance.byte();
    let mut batch = whole[..61].to_vec();
    batch[22] = (batch[22] & !7) | 3;
    batch.extend(lz4_stored(&records));
    let length = i32::try_from(batch.len() - 12).unwrap();
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    data.splice(begin..begin + header.size, batch);
}

/// Gives every batch the checksum that its bytes have, so that what is behind it is reached.
fn reseal(data: &mut [u8]) {
    let mut at = 0;
    while let Ok(Some(size)) = BatchHeader::peek_size(&data[at..]) {
        let Some(batch) = data.get_mut(at..at + size) else {
            return;
        };
        seal(batch);
        at += size;
    }
}

fn first_seed() -> u64 {
    std::env::var("KAFKALOG_SEED").map_or(1, |text| text.parse().unwrap())
}

/// What this process held at most, in KiB, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn mutants_end_in_records_or_in_an_error() {
    let seeds = seeds(64 << 10);
    let bench = Bench::new();
    let rounds = if is_slow() { 120_000 } else { 3_000 };
    let (mut whole, mut broken) = (0, 0);
    for round in 0..rounds {
        let number = first_seed() + round;
        let mut chance = Chance(number);
        let (seed, other) = (chance.pick(&seeds), chance.pick(&seeds));
        let mut data = seed.data.clone();
        for _ in 0..=chance.below(3) {
            mutate(&mut data, seed, other, &mut chance);
        }
        if chance.below(3) > 0 {
            reseal(&mut data);
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            checks::segment(&data);
            let layout = *chance.pick(&[Layout::Binary, Layout::View]);
            let range = bench.range(seed, &data, chance.below(2) == 0);
            let columns = columns(layout, chance.below(4) == 0);
            let result = match chance.below(16) {
                0 => {
                    let mut reader = BatchReader::new(vec![range], chance.below(2) == 0);
                    drain(|| reader.next_batch(), true)
                }
                1 => {
                    let ranges = vec![range];
                    let mut reader =
                        ParallelReader::try_new(ranges, 2, options(), &columns).unwrap();
                    drain(|| reader.next_batch(), true)
                }
                _ => read(range, columns, true),
            };
            result
                .inspect_err(|error| is_about_bytes(error, data.len()))
                .is_ok()
        }));
        match outcome {
            Ok(true) => whole += 1,
            Ok(false) => broken += 1,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map_or("", String::as_str);
                panic!("KAFKALOG_SEED={number}, a mutant of {}: {text}", seed.name);
            }
        }
    }
    assert!(
        whole > rounds / 50 && broken > rounds / 5,
        "{whole} were read, {broken} refused"
    );
    // Whatever the mutants declared, nothing near it was taken.
    assert!(
        peak_memory().is_none_or(|kib| kib < 600 << 10),
        "{:?} KiB",
        peak_memory()
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
        let first = if header.is_legacy() {
            let (mut decompressor, mut scratch) = (Decompressor::new(), Vec::new());
            legacy::first_offset(
                batch,
                &header,
                &mut decompressor,
                &mut scratch,
                checks::LIMIT,
            )
            .ok()?
        } else {
            header.base_offset
        };
        spans.push((first, header.last_offset(), header.partition_leader_epoch));
        at += header.size;
    }
    Some(spans)
}

/// Whether nothing in a segment speaks against it: checksums, structure, order of offsets and epochs, bounds.
fn is_plausible(seed: &Seed, data: &[u8], is_active: bool) -> bool {
    let Some(spans) = spans(data) else {
        return false;
    };
    let (mut floor, mut epoch) = (seed.base_offset, -1);
    for (first, last, its) in spans {
        let bounded = is_active || last < seed.next_offset();
        let near = last
            .checked_sub(seed.base_offset)
            .is_some_and(|far| far <= i64::from(i32::MAX));
        let ordered = first >= floor && last >= first && (its == -1 || its >= epoch) && its >= -1;
        if !(bounded && near && ordered) {
            return false;
        }
        (floor, epoch) = (last + 1, epoch.max(its));
    }
    true
}

/// Which flipped bits there were, and which of them went unseen.
#[derive(Default)]
struct Flips {
    inside: usize,
    outside: usize,
    missed: Vec<String>,
}

impl Flips {
    /// Reads `seed` with a bit of its `number`-th batch flipped, as a closed or as the active segment.
    fn flip(
        &mut self,
        bench: &Bench,
        seed: &Seed,
        number: usize,
        (byte, bit): (usize, usize),
        is_active: bool,
    ) {
        let &(begin, ref header) = &seed.batches[number];
        let mut data = seed.data.clone();
        data[begin + byte] ^= 1 << bit;
        let covered = byte >= if header.is_legacy() { 12 } else { 17 };
        let must = covered || !is_plausible(seed, &data, is_active);
        self.inside += usize::from(covered);
        self.outside += usize::from(must && !covered);
        let layout = if bit < 4 {
            Layout::Binary
        } else {
            Layout::View
        };
        match read(bench.range(seed, &data, is_active), columns(layout, false), false) {
            Err(error) => is_about_bytes(&error, data.len()),
            Ok(_) if must => self.missed.push(format!(
                "{} active {is_active}: bit {bit} of byte {byte} of batch {number} of {} at {begin}: {header:?}",
                seed.name,
                seed.batches.len()
            )),
            Ok(_) => {}
        }
    }

    fn finish(self, least: usize) {
        let missed = &self.missed;
        assert!(
            missed.is_empty(),
            "{} missed:\n{}",
            missed.len(),
            missed[..missed.len().min(20)].join("\n")
        );
        let (inside, outside) = (self.inside, self.outside);
        assert!(
            inside >= least && outside >= least,
            "{inside} under a checksum, {outside} found without one"
        );
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let seeds = seeds(32 << 10);
    let bench = Bench::new();
    let mut flips = Flips::default();
    for round in 0..if is_slow() { 60_000 } else { 3_000 } {
        let mut chance = Chance(first_seed() ^ (round << 20));
        let seed = chance.pick(&seeds);
        let number = chance.below(seed.batches.len());
        let byte = chance.below(seed.batches[number].1.size);
        flips.flip(&bench, seed, number, (byte, chance.below(8)), false);
        // The active segment's end may be torn; what is whole and contradicts is found there, too.
        flips.flip(
            &bench,
            seed,
            number,
            (chance.below(17), chance.below(8)),
            seed.is_dense && chance.below(2) == 0,
        );
    }
    flips.finish(1000);
}

/// Every bit of every header where the checksum does not reach, of a few batches of each kind.
#[test]
fn every_flipped_bit_outside_the_checksum_is_found() {
    let bench = Bench::new();
    let mut kinds: BTreeMap<(u8, u8), usize> = BTreeMap::new();
    let mut flips = Flips::default();
    for seed in seeds(8 << 10) {
        for (number, (_, header)) in seed.batches.iter().enumerate().skip(1) {
            let seen = kinds
                .entry((header.magic, header.attributes.0 & 0x27))
                .or_default();
            *seen += 1;
            if *seen > if is_slow() { 30 } else { 2 } {
                continue;
            }
            let end = if header.is_legacy() { 12 } else { 17 };
            for bit in 0..8 * end {
                for is_active in [false, seed.is_dense] {
                    flips.flip(&bench, &seed, number, (bit / 8, bit % 8), is_active);
                }
            }
            flips.flip(&bench, &seed, number, (end + 9, 0), true);
        }
    }
    assert!(kinds.len() > 10, "{kinds:?}");
    flips.finish(20);
}

/// Of a range in the middle, a flipped bit at its edges takes nothing away unseen.
#[test]
fn ranges_end_where_they_should() {
    let mut seeds = seeds(16 << 10);
    // What lies behind a range is looked at by header only, and a wrapper's header does not tell its first offset.
    seeds.retain(|seed| seed.batches.len() >= 4 && seed.batches.iter().all(|b| !b.1.is_legacy()));
    let bench = Bench::new();
    let (mut found, mut harmless) = (0, 0);
    for round in 0..if is_slow() { 30_000 } else { 2_000 } {
        let mut chance = Chance(first_seed() ^ (round << 24));
        let seed = chance.pick(&seeds);
        let spans = spans(&seed.data).unwrap();
        let wanted = 1 + chance.below(seed.batches.len() - 2);
        let (first, last, _) = spans[wanted];
        let part = |data: &[u8]| {
            let mut range = bench.range(seed, data, false);
            range.start_offset = first;
            range.end_offset = Some(last + 1);
            read(range, columns(Layout::View, false), false)
        };
        let whole = part(&seed.data).unwrap();
        let &(begin, ref header) = &seed.batches[wanted + chance.below(3) - 1];
        let at = begin + chance.below(header.size.min(61));
        let mut data = seed.data.clone();
        data[at] ^= 1 << chance.below(8);
        match part(&data) {
            Ok(offsets) if offsets == whole => harmless += 1,
            Ok(offsets) => assert!(
                is_plausible(seed, &data, false),
                "{offsets:?} instead of {whole:?}: {} byte {} of {header:?}",
                seed.name,
                at - begin
            ),
            Err(_) => found += 1,
        }
    }
    assert!(
        found > 300 && harmless > 100,
        "{found} found, {harmless} harmless"
    );
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
