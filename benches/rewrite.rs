//! A log written with another codec, compared with the codec alone: `cargo bench --bench rewrite`.
//!
//! | leg | 128 MB of records (values of 100 B that compress to a third) in batches of 16 KB, LZ4 before |
//! |---|---|
//! | codec | the records of every batch decompressed and compressed, by as many threads as there are processors |
//! | rewrite | the log dir rewritten: loaded, checksums, the same codec, new batches, indexes, everything on the device |
//! | copy | the log dir rewritten with the codec that it has: batches are copied |
//!
//! The first figure is wall time, the second time on the processors; medians of the rounds.

#![expect(
    clippy::expect_used,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench prints, and may stop; its files are whole"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Instant;

use kafkalog::internal::compress::{Codec, Compressor, DecodeLimit, Decompressor};
use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::records::builder::{BatchBuilder, BatchOptions};
use kafkalog::internal::tools::recover::OnLoss;
use kafkalog::internal::tools::rewrite::{RewriteOptions, rewrite};
use kafkalog::internal::types::Compression;

const PLAIN: usize = 128 << 20;
const BATCH: usize = 16 << 10;
const ROUNDS: usize = 5;
const NOW: i64 = 1_700_000_000_000;
const HEADER: usize = 61;

/// One segment; returns its bytes.
fn generate(folder: &Path) -> Vec<u8> {
    fs::create_dir_all(folder).expect("a folder");
    let mut compressor = Compressor::default();
    let (mut log, mut offset, mut drawn) = (Vec::new(), 0i64, 1u64);
    for _ in 0..PLAIN / BATCH {
        let options = BatchOptions {
            base_offset: offset,
            partition_leader_epoch: 0,
            codec: Codec::new(Compression::Lz4),
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options).expect("options that agree");
        for _ in 0..BATCH / 115 {
            drawn = drawn
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let value = format!(
                "{{\"customer\":{:020},\"state\":\"shipped\",\"amount\":{:08},\"currency\":\"EUR\",\"note\":\"none at all\"}}",
                drawn,
                drawn >> 40
            );
            let key = offset.to_be_bytes();
            let added = builder.append(
                offset,
                NOW + offset,
                Some(&key),
                Some(value.as_bytes()),
                &[],
            );
            added.expect("a record");
            offset += 1;
        }
        builder.finish(&mut compressor, &mut log).expect("a batch");
    }
    let mut file = File::create(folder.join(format!("{:020}.log", 0))).expect("a segment");
    file.write_all(&log).expect("it is written");
    file.sync_all().expect("it is on the disk");
    log
}

/// What is compressed of each batch.
fn payloads(log: &[u8]) -> Vec<&[u8]> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(rest) = log.get(at..)
        && let Ok(Some(header)) = BatchHeader::parse(rest)
    {
        found.push(rest.get(HEADER..header.size).expect("a whole batch"));
        at += header.size;
    }
    found
}

fn codec(payloads: &[&[u8]], to: Compression) -> usize {
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = payloads.len().div_ceil(threads);
    thread::scope(|scope| {
        let work = |share: &'_ [&[u8]]| {
            let (mut from, mut to_codec) = (Decompressor::new(), Compressor::default());
            let (mut plain, mut out, mut sum) = (Vec::new(), Vec::new(), 0);
            for payload in share {
                plain.clear();
                out.clear();
                let limit = DecodeLimit::default();
                from.decompress(Compression::Lz4, 2, payload, &mut plain, limit)
                    .expect("it is whole");
                to_codec
                    .compress(Codec::new(to), &plain, &mut out)
                    .expect("it compresses");
                sum += out.len();
            }
            sum
        };
        let started: Vec<_> = payloads
            .chunks(share)
            .map(|share| scope.spawn(move || work(share)))
            .collect();
        started
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum()
    })
}

fn rewritten(folder: &Path, to: &str) -> u64 {
    let out = folder.with_extension("out");
    let _ = fs::remove_dir_all(&out);
    let config = LogConfig::from_pairs([("compression.type", to)]).expect("a codec");
    let options = RewriteOptions {
        config,
        topics: BTreeMap::new(),
        rerolls: false,
        raises: false,
        partitions: None,
        drops: BTreeMap::new(),
        now_ms: NOW,
        on_loss: OnLoss::Refuse,
        limit: DecodeLimit::default(),
    };
    let report = rewrite(folder, &out, &options).expect("it is rewritten");
    report
        .partitions
        .values()
        .map(|each| each.bytes_after)
        .sum()
}

/// Nanoseconds that threads of this process have been on a processor.
fn processor_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// A name, and one pass.
type Leg<'a> = (&'a str, Box<dyn Fn() -> u64 + 'a>);

fn main() {
    if cfg!(debug_assertions) {
        println!("a debug build: its figures mean nothing");
    }
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("bench-0");
    let log = generate(&folder);
    let payloads = payloads(&log);
    for to in [Compression::Zstd, Compression::Gzip, Compression::Snappy] {
        let name = Codec::new(to).compression().name();
        let legs: [Leg<'_>; 3] = [
            ("codec", Box::new(|| codec(&payloads, to) as u64)),
            ("rewrite", Box::new(|| rewritten(&folder, name))),
            ("copy", Box::new(|| rewritten(&folder, "lz4"))),
        ];
        let mut times = [const { (Vec::new(), Vec::new()) }; 3];
        for round in 0..=ROUNDS {
            for ((_, leg), (wall, cpu)) in legs.iter().zip(&mut times) {
                let (began, used) = (Instant::now(), processor_time());
                black_box(leg());
                // The first round warms up.
                if round > 0 {
                    wall.push(began.elapsed().as_secs_f64() * 1e3);
                    cpu.push((processor_time() - used) as f64 / 1e6);
                }
            }
        }
        println!("lz4 to {name}");
        let mut first = None;
        for ((name, _), (wall, cpu)) in legs.iter().zip(times) {
            let (wall, cpu) = (median(wall), median(cpu));
            let limit = *first.get_or_insert((wall, cpu));
            println!(
                "{name:8} {wall:8.1} ms {cpu:8.1} ms  {:5.2} {:5.2} of the codec",
                wall / limit.0,
                cpu / limit.1
            );
        }
    }
}
