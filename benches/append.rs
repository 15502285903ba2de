//! Appending from Arrow beside its limits, leg after leg in each round: medians, and ratios to each leg's own limit.
//!
//! `cargo bench --bench append` makes 100 B values without key in memory (`VALUE=1000`, `KEY=8`, `ROWS=1000000` in the
//! environment make others) and appends them in batches of 16 KB below the temporary folder (`FOLDER=` elsewhere).
//!
//! | leg | one pass |
//! |---|---|
//! | copy | keys and values copied behind each other, and a CRC-32C over every 16 KB |
//! | encode | the same rows as Kafka batches |
//! | copy to file | as copy, each 16 KB written behind the last |
//! | append | encoded and appended as a leader, `.log`, indexes and all; Kafka's default sync policy |
//! | plain | through the builder and the validator, as batches that came from elsewhere go |
//!
//! With `--serve` it makes one pass of the leg `append` for each line on standard input and answers in JSON, as a leg of
//! `benches/python/compare_append.py`, whose other leg is Kafka's `UnifiedLog.appendAsLeader`.
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

use std::fs::File;
use std::io::BufRead;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch};
use kafkalog::arrow::encode::{DEFAULT_BATCH_SIZE, EncodeOptions, Encoder};
use kafkalog::compress::{Codec, Compressor};
use kafkalog::format::batch::BatchHeader;
use kafkalog::log::config::LogConfig;
use kafkalog::log::load::LoadRequest;
use kafkalog::log::producer_state::DEFAULT_PRODUCER_ID_EXPIRATION_MS;
use kafkalog::log::write::{LeaderAppend, WritableLog, WriteOptions};
use kafkalog::records::builder::{BatchBuilder, BatchOptions};
use kafkalog::types::TimestampType;

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

/// Copies and checksums; hands every 16 KB on.
fn copy(data: &Data, mut each: impl FnMut(&[u8])) -> u64 {
    let mut buffer = vec![0u8; DEFAULT_BATCH_SIZE];
    let mut sum = 0u64;
    for (keys, values) in &data.batches {
        for bytes in keys
            .iter()
            .map(BinaryArray::value_data)
            .chain([values.value_data()])
        {
            for chunk in bytes.chunks(DEFAULT_BATCH_SIZE) {
                let buffer = &mut buffer[..chunk.len()];
                buffer.copy_from_slice(chunk);
                sum += crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, buffer);
                each(buffer);
            }
        }
    }
    sum
}

fn encoder(config: &LogConfig) -> Encoder {
    Encoder::new(EncodeOptions {
        rules: config.leader_rules().expect("levels in bounds"),
        producer_codec: Codec::NONE,
        batch_size: DEFAULT_BATCH_SIZE,
        max_message_bytes: usize::try_from(config.max_message_bytes).expect("0 or more"),
        ignore_extra: false,
        keeps_offsets: false,
    })
}

fn encode(arrow: &[RecordBatch], encoder: &mut Encoder) -> u64 {
    let mut size = 0;
    for batch in arrow {
        let mut rows = encoder.rows(batch).expect("columns");
        while let Some(batch) = rows.next_batch(NOW).expect("a batch") {
            size += batch.bytes().len() as u64;
        }
    }
    size
}

fn open(folder: &Path, config: &LogConfig) -> WritableLog {
    std::fs::remove_dir_all(folder).ok();
    let request = LoadRequest {
        clean: true,
        recovery_point: 0,
        log_start_offset: 0,
        now_ms: NOW,
        producer_id_expiration_ms: DEFAULT_PRODUCER_ID_EXPIRATION_MS,
    };
    WritableLog::open(folder, WriteOptions::new(config.clone()), request).expect("a new log")
}

fn append(arrow: &[RecordBatch], encoder: &mut Encoder, folder: &Path, config: &LogConfig) -> u64 {
    let mut log = open(folder, config);
    for batch in arrow {
        let mut rows = encoder.rows(batch).expect("columns");
        while let Some(mut batch) = rows.next_batch(NOW).expect("a batch") {
            log.append_encoded(&mut batch, 0, NOW).expect("an append");
        }
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
            if builder.count() > 0 && builder.size() + size > DEFAULT_BATCH_SIZE {
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

type Leg<'a> = (&'static str, usize, Box<dyn FnMut() -> u64 + 'a>);

fn main() {
    let data = Data::new();
    let arrow = data.arrow();
    let config = LogConfig::default();
    assert_eq!(config.message_timestamp_type, TimestampType::CreateTime);
    let home = std::env::var_os("FOLDER").map_or_else(std::env::temp_dir, PathBuf::from);
    let home = home.join(format!("kafkalog-append-{}", std::process::id()));
    std::fs::create_dir_all(&home).expect("a folder");
    if std::env::args().any(|argument| argument == "--serve") {
        let mut encoder = encoder(&config);
        println!("{{\"ready\": true}}");
        for line in std::io::stdin().lock().lines() {
            line.expect("standard input is text");
            let begun = Instant::now();
            let records = append(&arrow, &mut encoder, &home.join("bench-0"), &config);
            let seconds = begun.elapsed().as_secs_f64();
            println!("{{\"records\": {records}, \"seconds\": {seconds}}}");
        }
    } else {
        compare(&data, &arrow, &config, &home);
    }
    std::fs::remove_dir_all(&home).expect("the folder goes");
}

fn compare(data: &Data, arrow: &[RecordBatch], config: &LogConfig, home: &Path) {
    let (mut first, mut second) = (encoder(config), encoder(config));
    let folder = home.join("bench-0");
    let copied = home.join("copied");
    // Name, the leg it is compared with, one pass.
    let mut legs: Vec<Leg<'_>> = vec![
        (
            "copy",
            0,
            Box::new(|| (0..IN_MEMORY).map(|_| copy(data, |_| ())).sum()),
        ),
        (
            "encode",
            0,
            Box::new(|| (0..IN_MEMORY).map(|_| encode(arrow, &mut first)).sum()),
        ),
        (
            "copy to file",
            2,
            Box::new(|| {
                let file = File::create(&copied).expect("a file");
                let mut at = 0;
                copy(data, |bytes| {
                    file.write_all_at(bytes, at).expect("a write");
                    at += bytes.len() as u64;
                })
            }),
        ),
        (
            "append",
            2,
            Box::new(|| append(arrow, &mut second, &folder, config)),
        ),
        ("plain", 2, Box::new(|| append_plain(data, &folder, config))),
    ];
    let mut walls = vec![Vec::new(); legs.len()];
    let mut spent = vec![Vec::new(); legs.len()];
    for round in 0..=ROUNDS {
        for (leg, (_, _, pass)) in legs.iter_mut().enumerate() {
            let (begun, before) = (Instant::now(), on_processor());
            std::hint::black_box(pass());
            // The first round warms up.
            if round > 0 {
                spent[leg].push(on_processor() - before);
                walls[leg].push(begun.elapsed().as_secs_f64());
            }
        }
    }
    let each = 1e9 / data.rows as f64;
    let medians: Vec<_> = spent.into_iter().map(median).collect();
    println!("{} rows; ns a record", data.rows);
    println!("{:14} {:>8} {:>8} {:>6}", "leg", "wall", "cpu", "ratio");
    for (leg, ((name, limit, _), walls)) in legs.iter().zip(walls).enumerate() {
        let ratio = medians[leg] / medians[*limit];
        let each = if *limit == 0 {
            each / IN_MEMORY as f64
        } else {
            each
        };
        println!(
            "{name:14} {:8.1} {:8.1} {ratio:6.2}",
            median(walls) * each,
            medians[leg] * each
        );
    }
    let head = std::fs::read(folder.join("00000000000000000000.log")).expect("a segment");
    let header = BatchHeader::parse(&head)
        .expect("a header")
        .expect("a batch");
    println!(
        "first batch: {} bytes, {:?} records",
        header.size,
        header.records_count.expect("magic 2")
    );
}
