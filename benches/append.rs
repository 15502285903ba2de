//! Appending from Arrow and its limits, one leg after another in each round: medians, and ratios to each leg's own limit.
//!
//! `cargo bench --bench append` makes 100 B values without key in memory (`VALUE=1000`, `KEY=8`, `ROWS=1000000` in the
//! environment make others) and appends them in batches of 16 KB below the temporary folder (`FOLDER=` elsewhere), in
//! writes as large as by default (`WRITE=524288` for others).
//!
//! | leg | one pass |
//! |---|---|
//! | memory | the batches of the log copied, and a CRC-32C over each |
//! | encode | the rows as these batches |
//! | 16k | as memory, each batch written after the last |
//! | 256k | the same, written by 256 KB |
//! | append | encoded and appended as a leader, `.log`, indexes and all; Kafka's default sync policy |
//! | plain | through the builder and the validator, as batches that came from elsewhere go |
//! | whole | as memory, but into memory as large as the log, already mapped, instead of a batch's |
//! | fresh | the same into memory not mapped yet, like the pages of a growing log |
//!
//! With `--serve LEG` it makes one pass of that leg for each line on standard input and answers in JSON, as a leg of
//! `benches/python/compare_append.py`, whose other leg is Kafka's `UnifiedLog.appendAsLeader`. What a pass has written is
//! removed outside the clock.
//!
//! The figure is the time on the processor from `/proc`, which a busy machine disturbs less than wall time; the first
//! column is wall time.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench prints, and may stop"
)]

use std::cell::RefCell;
use std::fs::File;
use std::io::BufRead;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch};
use kafkalog::internal::arrow::append::{Appended, append_rows};
use kafkalog::internal::arrow::encode::{DEFAULT_BATCH_SIZE, EncodeOptions, Encoder};
use kafkalog::internal::compress::Compressor;
use kafkalog::internal::format::batch::RECORD_BATCH_OVERHEAD;
use kafkalog::internal::load::LoadRequest;
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::producers::DEFAULT_PRODUCER_ID_EXPIRATION_MS;
use kafkalog::internal::records::builder::{BatchBuilder, BatchOptions};
use kafkalog::internal::types::TimestampType;
use kafkalog::internal::write::{LeaderAppend, WritableLog, WriteOptions};

const ROUNDS: usize = 9;
/// Passes in memory are quick, and the processor's clock ticks in milliseconds.
const IN_MEMORY: usize = 10;
const NOW: i64 = 1_700_000_000_000;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Rows in Arrow batches of 64 Ki, as readers of files give them.
struct Data {
    batches: Vec<(Option<BinaryArray>, BinaryArray)>,
    rows: usize,
}

impl Data {
    fn new() -> Self {
        let (rows, value, key) = (
            setting("ROWS", 1_000_000),
            setting("VALUE", 100),
            setting("KEY", 0),
        );
        let mut noise = 1u64;
        let mut column = |rows: usize, size: usize| {
            let bytes: Vec<u8> = (0..rows * size)
                .map(|_| {
                    noise = noise
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    b'a' + noise.to_be_bytes()[0] % 26
                })
                .collect();
            BinaryArray::from_iter_values(bytes.chunks(size))
        };
        let mut batches = Vec::new();
        let mut left = rows;
        while left > 0 {
            let n = left.min(65_536);
            let keys = (key > 0).then(|| column(n, key));
            batches.push((keys, column(n, value)));
            left -= n;
        }
        Self { batches, rows }
    }

    fn arrow(&self) -> Vec<RecordBatch> {
        let batches = self.batches.iter().map(|(keys, values)| {
            let mut columns: Vec<(&str, ArrayRef)> = vec![("value", Arc::new(values.clone()))];
            if let Some(keys) = keys {
                columns.push(("key", Arc::new(keys.clone())));
            }
            RecordBatch::try_from_iter(columns).expect("columns of one length")
        });
        batches.collect()
    }
}

/// Copies the batches that a log consists of and checksums each; hands them on as soon as they come to `size` bytes.
fn copy(batches: &[Vec<u8>], size: usize, mut each: impl FnMut(&[u8])) -> u64 {
    let mut buffer = vec![0u8; size + 2 * DEFAULT_BATCH_SIZE];
    let (mut sum, mut at) = (0u64, 0);
    for batch in batches {
        let to = &mut buffer[at..at + batch.len()];
        to.copy_from_slice(batch);
        sum += crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, to);
        at += batch.len();
        if at >= size {
            each(&buffer[..at]);
            at = 0;
        }
    }
    each(&buffer[..at]);
    sum
}

/// The same, one after the other, as in a log.
fn copy_whole(batches: &[Vec<u8>], log: &mut Vec<u8>) -> u64 {
    log.clear();
    let mut sum = 0u64;
    for batch in batches {
        let at = log.len();
        log.extend_from_slice(batch);
        sum += crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &log[at..]);
    }
    sum
}

fn copy_to_file(batches: &[Vec<u8>], size: usize, path: &Path) -> u64 {
    let file = File::create(path).expect("a file");
    let mut at = 0;
    copy(batches, size, |bytes| {
        file.write_all_at(bytes, at).expect("a write");
        at += bytes.len() as u64;
    })
}

fn encoder(config: &LogConfig) -> Encoder {
    Encoder::new(EncodeOptions {
        rules: config.leader_rules().expect("levels in bounds"),
        batch_size: DEFAULT_BATCH_SIZE,
        max_message_bytes: usize::try_from(config.max_message_bytes).expect("0 or more"),
        ignore_extra: false,
        keeps_offsets: false,
    })
}

/// Batch by batch; the number of bytes.
fn encode(arrow: &[RecordBatch], encoder: &mut Encoder, mut each: impl FnMut(&[u8])) -> u64 {
    let mut size = 0;
    for batch in arrow {
        let mut rows = encoder.rows(batch).expect("columns");
        while let Some(batch) = rows.next_batches(NOW, 0).expect("a batch") {
            each(batch.bytes());
            size += batch.bytes().len() as u64;
        }
    }
    size
}

fn open(folder: &Path, config: &LogConfig) -> WritableLog {
    let request = LoadRequest {
        clean: true,
        recovery_point: 0,
        log_start_offset: 0,
        now_ms: NOW,
        producer_id_expiration_ms: DEFAULT_PRODUCER_ID_EXPIRATION_MS,
    };
    let mut options = WriteOptions::new(config.clone());
    let write = setting("WRITE", 0) as u64;
    options.write_bytes = NonZeroU64::new(write).unwrap_or(options.write_bytes);
    WritableLog::open(folder, options, request).expect("a new log")
}

fn append(arrow: &[RecordBatch], encoder: &mut Encoder, folder: &Path, config: &LogConfig) -> u64 {
    let mut log = open(folder, config);
    let mut done = Appended::default();
    for batch in arrow {
        append_rows(&mut log, encoder, batch, 0, NOW, &mut done).expect("an append");
    }
    let end = log.log_end_offset().unsigned_abs();
    log.crash();
    end
}

fn append_plain(data: &Data, folder: &Path, config: &LogConfig) -> u64 {
    let mut log = open(folder, config);
    let mut builder = BatchBuilder::new(BatchOptions::default()).expect("options");
    let (mut compressor, mut out) = (Compressor::new(), Vec::new());
    let mut send = |builder: &mut BatchBuilder| {
        out.clear();
        builder.finish(&mut compressor, &mut out).expect("a batch");
        log.append_as_leader(&mut out, &LeaderAppend::default(), NOW)
            .expect("an append");
    };
    for (keys, values) in &data.batches {
        for row in 0..values.len() {
            let (key, value) = (keys.as_ref().map(|keys| keys.value(row)), values.value(row));
            let size = value.len() + key.map_or(0, <[u8]>::len) + 12;
            if builder.size() > RECORD_BATCH_OVERHEAD && builder.size() + size > DEFAULT_BATCH_SIZE
            {
                send(&mut builder);
            }
            builder
                .append(builder.next_offset(), NOW, key, Some(value), &[])
                .expect("a record");
        }
    }
    send(&mut builder);
    let end = log.log_end_offset().unsigned_abs();
    log.crash();
    end
}

/// User and system time of this process, in seconds.
fn on_processor() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("a Linux /proc");
    let spent = text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    spent.expect("nanoseconds") / 1e9
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Name, the leg it is compared with, what one pass does so many times.
type Leg<'a> = (&'static str, usize, usize, Box<dyn Fn() -> u64 + 'a>);

fn main() {
    let data = Data::new();
    let arrow = data.arrow();
    let config = LogConfig::default();
    assert_eq!(config.message_timestamp_type, TimestampType::CreateTime);
    let home = std::env::var_os("FOLDER").map_or_else(std::env::temp_dir, PathBuf::from);
    let home = home.join(format!("kafkalog-append-{}", std::process::id()));
    let made = home.join("bench-0");
    let copied = home.join("copied");
    let mut batches = Vec::new();
    encode(&arrow, &mut encoder(&config), |batch| {
        batches.push(batch.to_vec());
    });
    let encoder = RefCell::new(encoder(&config));
    let log = RefCell::new(Vec::new());
    let size = batches.iter().map(Vec::len).sum();
    let legs: [Leg<'_>; 8] = [
        (
            "memory",
            0,
            IN_MEMORY,
            Box::new(|| copy(&batches, 0, |_| ())),
        ),
        (
            "encode",
            0,
            IN_MEMORY,
            Box::new(|| encode(&arrow, &mut encoder.borrow_mut(), |_| ())),
        ),
        ("16k", 2, 1, Box::new(|| copy_to_file(&batches, 0, &copied))),
        (
            "256k",
            2,
            1,
            Box::new(|| copy_to_file(&batches, 256 << 10, &copied)),
        ),
        (
            "append",
            3,
            1,
            Box::new(|| append(&arrow, &mut encoder.borrow_mut(), &made, &config)),
        ),
        (
            "plain",
            3,
            1,
            Box::new(|| append_plain(&data, &made, &config)),
        ),
        (
            "whole",
            0,
            IN_MEMORY,
            Box::new(|| copy_whole(&batches, &mut log.borrow_mut())),
        ),
        (
            "fresh",
            0,
            1,
            Box::new(|| copy_whole(&batches, &mut Vec::with_capacity(size))),
        ),
    ];
    let mut arguments = std::env::args().skip_while(|argument| argument != "--serve");
    if arguments.next().is_some() {
        let name = arguments.next().expect("the name of a leg");
        let leg = legs.iter().find(|leg| leg.0 == name).expect("such a leg");
        println!("{{\"ready\": true}}");
        for line in std::io::stdin().lock().lines() {
            line.expect("standard input is text");
            let (wall, cpu) = timed(leg, &home);
            let records = data.rows;
            println!("{{\"records\": {records}, \"seconds\": {wall}, \"cpu\": {cpu}}}");
        }
    } else {
        compare(&legs, data.rows, &home);
    }
}

/// Wall and processor time of one pass, in seconds.
fn timed((_, _, times, pass): &Leg<'_>, home: &Path) -> (f64, f64) {
    std::fs::create_dir_all(home).expect("a folder");
    let (begun, before) = (Instant::now(), on_processor());
    for _ in 0..*times {
        std::hint::black_box(pass());
    }
    let (cpu, wall) = (on_processor() - before, begun.elapsed().as_secs_f64());
    std::fs::remove_dir_all(home).expect("the folder goes");
    (wall / *times as f64, cpu / *times as f64)
}

fn compare(legs: &[Leg<'_>], rows: usize, home: &Path) {
    let mut walls = vec![Vec::new(); legs.len()];
    let mut spent = vec![Vec::new(); legs.len()];
    for round in 0..=ROUNDS {
        for (leg, pass) in legs.iter().enumerate() {
            let (wall, cpu) = timed(pass, home);
            // The first round warms up.
            if round > 0 {
                walls[leg].push(wall);
                spent[leg].push(cpu);
            }
        }
    }
    let each = 1e9 / rows as f64;
    let medians: Vec<_> = spent.into_iter().map(median).collect();
    println!("{rows} rows; ns a record");
    println!("{:14} {:>8} {:>8} {:>6}", "leg", "wall", "cpu", "ratio");
    for (leg, ((name, limit, ..), walls)) in legs.iter().zip(walls).enumerate() {
        let ratio = medians[leg] / medians[*limit];
        let (wall, cpu) = (median(walls) * each, medians[leg] * each);
        println!("{name:14} {wall:8.1} {cpu:8.1} {ratio:6.2}");
    }
}
