//! Reading records and the limit of reading, one leg after another in each round: medians, and ratios to the first leg.
//!
//! `cargo bench --bench read` makes its own segments (10 B, 100 B and 1 KB values with 8 B keys in batches of 16 KB,
//! 100 B values one a batch, and 10 B and 100 B in batches of 1 MB); `cargo bench --bench read -- FOLDER...` reads
//! partition folders that a broker wrote.
//!
//! | leg | one pass |
//! |---|---|
//! | limit | each file mapped again, CRC-32C of every batch, and for a compressed batch the codec's decompression |
//! | view, binary | offset, timestamp, key and value in that layout, checksums compared |
//! | all | the eight default columns, binary |
//! | view skip | as `view`, past damage, of which there is none |
//! | view held | as `view`, each batch kept until the next one arrives, as a loop in Python keeps it |
//! | plain | `view` through the plain decoder: what the fast one buys |
//! | limit x2 | the limit by two threads, each with half of the bytes: the factor that the machine gives |
//! | apart x2 | two readers of half of the bytes each, views dropped where they are made: what handing them over costs |
//! | view x2, binary x2 | two threads (wall time only), and how many times as fast as one |
//!
//! `LEGS=limit,view` in the environment runs only these. With `--serve LEG` before the folders it makes one pass for each
//! line on standard input and answers in JSON, as a leg of `benches/python/compare.py`.
//!
//! The figure is the thread's time on the processor, which a busy machine disturbs less than wall time; the first
//! column is wall time.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a bench prints, and may stop; its files are whole"
)]

#[path = "common/passes.rs"]
mod passes;

use std::fs::File;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::time::Instant;

use kafkalog::internal::arrow::columns::ColumnOptions;
use kafkalog::internal::arrow::parallel::ParallelReader;
use kafkalog::internal::arrow::reader::RangeReader;
use kafkalog::internal::arrow::schema::{Column, Layout};
use kafkalog::internal::compress::{DecodeLimit, Decompressor};
use kafkalog::internal::format::batch::{
    ATTRIBUTES_AT, BatchHeader, LENGTH_AT, RECORD_BATCH_OVERHEAD,
};
use kafkalog::internal::io::kept_map::KeptMap;
use kafkalog::internal::io::mapping::Mapping;
use kafkalog::internal::io::storage::Folder;
use kafkalog::internal::records::{block, plain};
use kafkalog::internal::scan::pieces::{NoIndexEntry, Pieces};
use kafkalog::internal::scan::range::{PartitionRange, SegmentRange};
use kafkalog::internal::segment::filter::TimestampBounds;
use kafkalog::internal::segment::reader::ReadOptions;
use kafkalog::internal::segment::skipping::OnCorrupt;

use passes::{chosen, on_processor};

const ROUNDS: usize = 9;
const FOUR: [Column; 4] = [
    Column::Offset,
    Column::Timestamp,
    Column::Key,
    Column::Value,
];

/// Every `.log` of a folder, whole.
fn range(folder: &Path) -> PartitionRange {
    let names = std::fs::read_dir(folder).expect("the folder lists");
    let names = names.map(|e| {
        e.expect("an entry")
            .file_name()
            .into_string()
            .expect("a plain name")
    });
    let mut names: Vec<_> = names
        .filter(|n| Path::new(n).extension().is_some_and(|e| e == "log"))
        .collect();
    names.sort();
    let bases: Vec<i64> = names
        .iter()
        .map(|n| {
            n.split('.')
                .next()
                .and_then(|base| base.parse().ok())
                .expect("a base offset")
        })
        .collect();
    let segments = names.iter().enumerate().map(|(i, name)| SegmentRange {
        base_offset: bases[i],
        file_name: name.clone(),
        size: folder.join(name).metadata().expect("a size").len(),
        is_active: i + 1 == names.len(),
        start_position: 0,
        next_base_offset: bases.get(i + 1).copied(),
        aborted: None,
        start_offset: bases[i],
        end: None,
        map: KeptMap::default(),
        version: None,
    });
    PartitionRange {
        segments: segments.collect(),
        folder: Folder::at(folder),
        topic: "bench".to_owned(),
        partition: 0,
        start_offset: 0,
        end_offset: None,
        timestamps: TimestampBounds::default(),
        chosen: None,
    }
}

/// Bytes of one file, from one batch's beginning to another's.
struct Part {
    path: PathBuf,
    size: u64,
    bytes: std::ops::Range<usize>,
}

/// The files of all ranges.
fn whole(ranges: &[PartitionRange]) -> Vec<Part> {
    let segments = ranges
        .iter()
        .flat_map(|range| range.segments.iter().map(move |s| (&range.folder, s)));
    segments
        .map(|(folder, segment)| Part {
            path: folder.path_of(&segment.file_name),
            size: segment.size,
            bytes: 0..segment.size as usize,
        })
        .collect()
}

/// The first `length` bytes of a file of the bench's own.
#[expect(unsafe_code, reason = "a map")]
fn map(file: &File, path: &Path, length: u64) -> Mapping {
    // SAFETY: nobody changes the files of a bench while it runs.
    unsafe { Mapping::open(file, path, length) }.expect("the file maps")
}

/// The same in two halves.
fn halves(ranges: &[PartitionRange]) -> [Vec<Part>; 2] {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let parts = whole(ranges);
    let mut room = parts.iter().map(|p| p.size as usize).sum::<usize>() / 2;
    for part in parts {
        let file = File::open(&part.path).expect("the file opens");
        let mapping = map(&file, &part.path, part.size);
        let mut cut = 0;
        while room > 0
            && let Some(header) = BatchHeader::parse(&mapping.as_slice()[cut..]).expect("a header")
        {
            cut += header.size;
            room = room.saturating_sub(header.size);
        }
        let (path, size) = (part.path.clone(), part.size);
        second.push(Part {
            path,
            size,
            bytes: cut..part.bytes.end,
        });
        first.push(Part {
            bytes: 0..cut,
            ..part
        });
    }
    [first, second].map(|half| half.into_iter().filter(|p| !p.bytes.is_empty()).collect())
}

/// Lower bound of any pass: the bytes, their checksum, the codec.
fn limit(parts: &[Part]) -> u64 {
    let mut records = 0;
    let mut decompressor = Decompressor::new();
    let mut block = Vec::new();
    for Part { path, size, bytes } in parts {
        let file = File::open(path).expect("the file opens");
        let mapping = map(&file, path, *size);
        let mut rest = &mapping.as_slice()[bytes.clone()];
        while let Some(header) = BatchHeader::parse(rest).expect("a header") {
            let batch = &rest[..header.size];
            assert_eq!(crc32c::crc32c(&batch[ATTRIBUTES_AT..]), header.crc);
            let codec = header.compression().expect("a codec");
            if codec != kafkalog::internal::types::Compression::None {
                block.clear();
                let records = &batch[RECORD_BATCH_OVERHEAD..];
                decompressor
                    .decompress(codec, 2, records, &mut block, DecodeLimit::default())
                    .expect("it decompresses");
            }
            records += u64::from(header.records_count.expect("magic 2").unsigned_abs());
            rest = &rest[header.size..];
        }
    }
    records
}

fn limit_in_two([first, second]: &[Vec<Part>; 2]) -> u64 {
    std::thread::scope(|scope| {
        let other = scope.spawn(|| limit(second));
        limit(first) + other.join().expect("the other half")
    })
}

/// Slots of every record by the plain decoder.
fn by_plain_decoder(ranges: &[PartitionRange]) -> u64 {
    let mut records = 0;
    let mut decompressor = Decompressor::new();
    let (mut arena, mut slots) = (Vec::new(), Vec::new());
    for range in ranges {
        for segment in &range.segments {
            let path = range.folder.path_of(&segment.file_name);
            let file = File::open(&path).expect("the file opens");
            let mapping = map(&file, &path, segment.size);
            let mut rest = mapping.as_slice();
            while let Some(header) = BatchHeader::parse(rest).expect("a header") {
                let batch = &rest[..header.size];
                header.ensure_valid(batch).expect("a right checksum");
                arena.clear();
                slots.clear();
                let limit = DecodeLimit::default();
                let block = block::open(batch, &header, &mut decompressor, &mut arena, limit)
                    .expect("it opens");
                let source = if block.payload == block::Payload::Source {
                    batch
                } else {
                    &arena
                };
                plain::walk(
                    source,
                    block.range.start,
                    block.range.end,
                    &header,
                    &mut slots,
                )
                .expect("records");
                records += slots.len() as u64;
                rest = &rest[header.size..];
            }
        }
    }
    records
}

fn options(layout: Layout, columns: &[Column]) -> ColumnOptions {
    ColumnOptions {
        columns: columns.to_vec(),
        layout,
        ..ColumnOptions::default()
    }
}

fn read(ranges: &[PartitionRange], layout: Layout, columns: &[Column]) -> u64 {
    count(ranges, ReadOptions::default(), options(layout, columns))
}

/// As [`read`], past damage.
fn read_past_damage(ranges: &[PartitionRange], layout: Layout) -> u64 {
    let reading = ReadOptions {
        on_corrupt: OnCorrupt::Skip,
        ..ReadOptions::default()
    };
    count(ranges, reading, options(layout, &FOUR))
}

fn count(ranges: &[PartitionRange], reading: ReadOptions, options: ColumnOptions) -> u64 {
    let mut reader = RangeReader::try_new(ranges.to_vec(), reading, options).expect("options");
    let mut rows = 0;
    while let Some(batch) = reader.next_batch().expect("a batch") {
        rows += batch.num_rows() as u64;
    }
    rows
}

/// As [`read`], with the last batch at hand while the next one is read.
fn read_held(ranges: &[PartitionRange], layout: Layout) -> u64 {
    let options = options(layout, &FOUR);
    let mut reader =
        RangeReader::try_new(ranges.to_vec(), ReadOptions::default(), options).expect("options");
    let (mut held, mut rows) = (None, 0);
    while let Some(batch) = reader.next_batch().expect("a batch") {
        rows += batch.num_rows() as u64;
        drop(held.replace(batch));
    }
    rows
}

/// A reader in a thread of its own for each half.
fn read_apart(halves: &[Vec<PartitionRange>], layout: Layout) -> u64 {
    std::thread::scope(|scope| {
        let threads: Vec<_> = halves
            .iter()
            .map(|half| scope.spawn(|| read(half, layout, &FOUR)))
            .collect();
        let rows = threads.into_iter().map(|t| t.join().expect("a half"));
        rows.sum()
    })
}

fn read_in_two(ranges: &[PartitionRange], layout: Layout) -> u64 {
    let options = options(layout, &FOUR);
    let mut reader =
        ParallelReader::try_new(ranges.to_vec(), 2, ReadOptions::default(), &options, None)
            .expect("threads");
    let mut rows = 0;
    while let Some(batch) = reader.next_batch().expect("a batch") {
        rows += batch.num_rows() as u64;
    }
    rows
}

type Leg<'a> = (&'static str, Box<dyn Fn() -> u64 + 'a>);

fn legs(ranges: &[PartitionRange]) -> Vec<Leg<'_>> {
    let (parts, halves) = (whole(ranges), halves(ranges));
    let bytes: u64 = ranges.iter().map(PartitionRange::bytes).sum();
    let pieces: Vec<_> = Pieces::new(
        ranges.to_vec(),
        bytes.div_ceil(2),
        NoIndexEntry::WalkHeaders,
    )
    .collect();
    vec![
        ("limit", Box::new(move || limit(&parts))),
        ("view", Box::new(|| read(ranges, Layout::View, &FOUR))),
        ("binary", Box::new(|| read(ranges, Layout::Binary, &FOUR))),
        (
            "all",
            Box::new(|| read(ranges, Layout::Binary, Column::defaults())),
        ),
        (
            "view skip",
            Box::new(|| read_past_damage(ranges, Layout::View)),
        ),
        ("view held", Box::new(|| read_held(ranges, Layout::View))),
        ("plain", Box::new(|| by_plain_decoder(ranges))),
        ("limit x2", Box::new(move || limit_in_two(&halves))),
        (
            "apart x2",
            Box::new(move || read_apart(&pieces, Layout::View)),
        ),
        ("view x2", Box::new(|| read_in_two(ranges, Layout::View))),
        (
            "binary x2",
            Box::new(|| read_in_two(ranges, Layout::Binary)),
        ),
    ]
}

/// One pass of a leg for each line on standard input.
fn serve(leg: &str, ranges: &[PartitionRange]) {
    let legs = legs(ranges);
    let (_, pass) = legs
        .iter()
        .find(|(name, _)| *name == leg)
        .expect("a leg of this name");
    println!("{{\"ready\": true}}");
    for line in std::io::stdin().lock().lines() {
        line.expect("standard input is text");
        let start = Instant::now();
        let records = pass();
        let seconds = start.elapsed().as_secs_f64();
        println!("{{\"records\": {records}, \"value_bytes\": null, \"seconds\": {seconds}}}");
    }
}

fn compare(name: &str, ranges: &[PartitionRange]) {
    let legs: Vec<Leg<'_>> = legs(ranges)
        .into_iter()
        .filter(|(name, _)| chosen("LEGS", name))
        .collect();
    let mut times = vec![Vec::new(); legs.len()];
    let mut records = 0;
    for round in 0..=ROUNDS {
        for (i, (_, leg)) in legs.iter().enumerate() {
            let (wall, before) = (Instant::now(), on_processor());
            records = leg();
            let (wall, cpu) = (
                wall.elapsed().as_nanos() as f64,
                on_processor().saturating_sub(before) as f64,
            );
            if round > 0 {
                times[i].push((wall / records as f64, cpu / records as f64));
            }
        }
    }
    println!("{name}: {records} records, ns a record");
    let mut medians: Vec<(&str, f64, f64)> = Vec::new();
    for (i, (leg, _)) in legs.iter().enumerate() {
        let median = |pick: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = times[i].iter().map(pick).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        medians.push((leg, median(|t| t.0), median(|t| t.1)));
    }
    let (_, first_wall, first_cpu) = medians[0];
    for (leg, wall, cpu) in &medians {
        print!("  {leg:<10} wall {wall:8.1} ({:.2})", wall / first_wall);
        let alone = leg.strip_suffix(" x2");
        let alone = alone.map(|one| if one == "apart" { "view" } else { one });
        match medians.iter().find(|(one, ..)| Some(*one) == alone) {
            Some((_, one, _)) => println!("   {:.2} times as fast as one", one / wall),
            None if alone.is_some() => println!(),
            None => println!("   cpu {cpu:8.1} ({:.2})", cpu / first_cpu),
        }
    }
}

fn varint(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// A closed segment and an active one of 32 MB each, batches of about `batch_bytes`, values of `value_len`.
fn generate(folder: &Path, value_len: usize, batch_bytes: usize) -> PathBuf {
    let folder = folder.join(format!("bench-{value_len}-{batch_bytes}-0"));
    std::fs::create_dir(&folder).expect("a folder");
    let (mut offset, mut timestamp) = (0i64, 1_700_000_000_000i64);
    for _ in 0..2 {
        let base = offset;
        let mut log = Vec::new();
        while log.len() < 32 << 20 {
            let (mut records, mut count) = (Vec::new(), 0i64);
            let first = timestamp;
            while records.is_empty() || records.len() + value_len < batch_bytes {
                timestamp += count % 3;
                let mut body = vec![0];
                varint(&mut body, timestamp - first);
                varint(&mut body, count);
                varint(&mut body, 8);
                body.extend(format!("k{:07}", offset % 10_000_000).bytes());
                varint(&mut body, value_len as i64);
                body.extend((0..value_len).map(|i| b'a' + ((offset as usize + i) % 26) as u8));
                varint(&mut body, 0);
                varint(&mut records, body.len() as i64);
                records.append(&mut body);
                (offset, count) = (offset + 1, count + 1);
            }
            let mut tail = Vec::new();
            tail.extend(0i16.to_be_bytes());
            tail.extend((count as i32 - 1).to_be_bytes());
            tail.extend(first.to_be_bytes());
            tail.extend(timestamp.to_be_bytes());
            tail.extend((-1i64).to_be_bytes());
            tail.extend((-1i16).to_be_bytes());
            tail.extend((-1i32).to_be_bytes());
            tail.extend((count as i32).to_be_bytes());
            tail.append(&mut records);
            let at = log.len();
            log.extend((offset - count).to_be_bytes());
            log.extend(0i32.to_be_bytes());
            log.extend(0i32.to_be_bytes());
            log.push(2);
            log.extend(crc32c::crc32c(&tail).to_be_bytes());
            log.append(&mut tail);
            let length = (log.len() - at - LENGTH_AT - 4) as i32;
            log[at + LENGTH_AT..at + LENGTH_AT + 4].copy_from_slice(&length.to_be_bytes());
        }
        std::fs::write(folder.join(format!("{base:020}.log")), log).expect("it is written");
    }
    folder
}

fn main() {
    if cfg!(debug_assertions) {
        println!("a debug build: its figures mean nothing");
    }
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let (leg, folders) = match arguments.as_slice() {
        [flag, leg, folders @ ..] if flag == "--serve" => (Some(leg), folders),
        folders => (None, folders),
    };
    let ranges: Vec<_> = folders.iter().map(|f| range(Path::new(f))).collect();
    match leg {
        Some(leg) => return serve(leg, &ranges),
        None if !ranges.is_empty() => return compare("given", &ranges),
        None => {}
    }
    let scratch = tempfile::tempdir().expect("a scratch folder");
    for (name, value_len, batch_bytes) in [
        ("10 B", 10, 16_000),
        ("100 B", 100, 16_000),
        ("1 KB", 1000, 16_000),
        ("100 B, one a batch", 100, 1),
        ("10 B in batches of 1 MB", 10, 1_000_000),
        ("100 B in batches of 1 MB", 100, 1_000_000),
    ] {
        compare(
            name,
            &[range(&generate(scratch.path(), value_len, batch_bytes))],
        );
    }
}
