//! A log written with another codec, compared with the codec alone: `cargo bench --bench rewrite`, or with `-- zstd` one codec.
//!
//! | leg | 512 MB of records (values of 100 B that compress to a third) in batches of 16 KB, LZ4 before, or zstd where the result is LZ4 |
//! |---|---|
//! | codec | the records of every batch decompressed and compressed in memory, by as many threads as there are processors |
//! | least | as many threads read each its share of the file, compare the checksum of every batch, decompress and compress it, compute its new checksum, write it, and bring all to the device |
//! | rewrite | the log dir rewritten: loaded as after a clean stop, checksums, records decoded, the same codec, new batches, indexes, everything on the device |
//! | copy | the log dir rewritten with the codec that it has: batches are copied |
//!
//! The codec's own speed is the limit where it takes most of the time (gzip, zstd); LZ4 and snappy are about as fast as the
//! rest of the least work. What `kafkalog.rewrite` does in the end, verifying and hashing the result, is in no leg. The first
//! figure is wall time, the second time on the processors; medians of the rounds.

#![expect(
    clippy::expect_used,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench prints, and may stop; its files are whole"
)]

#[path = "common/legs.rs"]
mod legs;
#[path = "common/segments.rs"]
mod segments;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;

use kafkalog::internal::compress::{Codec, Compressor, DecodeLimit, Decompressor};
use kafkalog::internal::format::batch::{BatchHeader, CRC_AT, RECORD_BATCH_OVERHEAD};
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::log::dir::CLEAN_SHUTDOWN;
use kafkalog::internal::tools::recover::{RecoverySettings, recover};
use kafkalog::internal::tools::rewrite::{RewriteOptions, rewrite};
use kafkalog::internal::types::Compression;

use legs::{Leg, compare, timed};
use segments::{Shape, write_segment};

const PLAIN: usize = 512 << 20;
const RECORDS: usize = (16 << 10) / 115;
const ROUNDS: usize = 5;
const NOW: i64 = 1_700_000_000_000;
const WRITE: usize = 256 << 10;

/// A log dir with one segment, closed as by a broker that stops.
fn generate(log_dir: &Path, codec: Compression) -> Vec<u8> {
    let folder = log_dir.join("bench-0");
    let mut drawn = 1u64;
    let shape = Shape {
        codec,
        records: RECORDS,
        size: PLAIN,
    };
    write_segment(&folder, 0, shape, |offset| {
        drawn = drawn
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let value = format!(
            "{{\"customer\":{:020},\"state\":\"shipped\",\"amount\":{:08},\"currency\":\"EUR\",\"note\":\"none at all\"}}",
            drawn,
            drawn >> 40
        );
        (
            NOW + offset,
            offset.to_be_bytes().to_vec(),
            value.into_bytes(),
        )
    });
    recover(log_dir, &RecoverySettings::at(NOW)).expect("indexes and checkpoints");
    fs::write(
        log_dir.join(CLEAN_SHUTDOWN),
        "{\"version\":0,\"brokerEpoch\":-1}",
    )
    .expect("a marker");
    fs::read(folder.join(format!("{:020}.log", 0))).expect("the segment")
}

/// Position and length of each batch.
fn batches(log: &[u8]) -> Vec<(usize, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(rest) = log.get(at..)
        && let Ok(Some(header)) = BatchHeader::parse(rest)
    {
        found.push((at, header.size));
        at += header.size;
    }
    found
}

/// Has threads work each on its share of the batches.
fn shared(batches: &[(usize, usize)], work: impl Fn(&[(usize, usize)]) -> usize + Sync) -> usize {
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = batches.len().div_ceil(threads);
    thread::scope(|scope| {
        let work = &work;
        let started: Vec<_> = batches
            .chunks(share)
            .map(|share| scope.spawn(move || work(share)))
            .collect();
        started
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum()
    })
}

#[derive(Default)]
struct Recompressing {
    from: Decompressor,
    to: Compressor,
    plain: Vec<u8>,
}

impl Recompressing {
    fn put(&mut self, batch: &[u8], (from, to): (Compression, Compression), out: &mut Vec<u8>) {
        let records = batch.get(RECORD_BATCH_OVERHEAD..).expect("a whole batch");
        self.plain.clear();
        self.from
            .decompress(from, 2, records, &mut self.plain, DecodeLimit::default())
            .expect("it is whole");
        self.to
            .compress(Codec::new(to), &self.plain, out)
            .expect("it compresses");
    }
}

fn codec(log: &[u8], all: &[(usize, usize)], codecs: (Compression, Compression)) -> usize {
    shared(all, |share| {
        let (mut work, mut out, mut sum) = (Recompressing::default(), Vec::new(), 0);
        for &(at, size) in share {
            out.clear();
            let batch = log.get(at..at + size).expect("a whole batch");
            work.put(batch, codecs, &mut out);
            sum += out.len();
        }
        sum
    })
}

fn least(log_dir: &Path, all: &[(usize, usize)], (from, to): (Compression, Compression)) -> usize {
    let source = File::open(log_dir.join(format!("bench-0/{:020}.log", 0))).expect("the segment");
    shared(all, |share| {
        let (mut work, mut out, mut batch, mut sum) =
            (Recompressing::default(), Vec::new(), Vec::new(), 0);
        let mut file = tempfile::tempfile_in(log_dir.parent().expect("a folder")).expect("a file");
        for &(at, size) in share {
            batch.resize(size, 0);
            source
                .read_exact_at(&mut batch, at as u64)
                .expect("it is there");
            let header = BatchHeader::parse(&batch)
                .expect("a header")
                .expect("all of it");
            assert_eq!(header.computed_crc(&batch), header.crc);
            let begun = out.len();
            out.extend_from_slice(batch.get(..RECORD_BATCH_OVERHEAD).expect("a header"));
            work.put(&batch, (from, to), &mut out);
            let new = out.get_mut(begun..).expect("a batch");
            let crc = header.computed_crc(new).to_be_bytes();
            let place = new.get_mut(CRC_AT..).and_then(<[u8]>::first_chunk_mut);
            *place.expect("a header") = crc;
            if out.len() >= WRITE {
                file.write_all(&out).expect("it is written");
                sum += out.len();
                out.clear();
            }
        }
        file.write_all(&out).expect("it is written");
        file.sync_all().expect("it is on the device");
        sum + out.len()
    })
}

fn rewritten(log_dir: &Path, to: Compression) -> u64 {
    let out = log_dir.with_extension("out");
    let _ = fs::remove_dir_all(&out);
    let name = Codec::new(to).compression().name();
    let config = LogConfig::from_pairs([("compression.type", name)]).expect("a codec");
    let options = RewriteOptions {
        config,
        ..RewriteOptions::at(NOW)
    };
    let report = rewrite(log_dir, &out, &options).expect("it is rewritten");
    let written = report.partitions.iter();
    written.map(|each| each.counts.bytes_after).sum()
}

fn main() {
    if cfg!(debug_assertions) {
        println!("a debug build: its figures mean nothing");
    }
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .collect();
    for (from, to) in [
        (Compression::Lz4, Compression::Zstd),
        (Compression::Lz4, Compression::Gzip),
        (Compression::Lz4, Compression::Snappy),
        (Compression::Zstd, Compression::Lz4),
    ] {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == to.name()) {
            continue;
        }
        let scratch = tempfile::tempdir().expect("a scratch folder");
        let log_dir = scratch.path().join("logs");
        let log = generate(&log_dir, from);
        let all = batches(&log);
        println!("{} to {}", from.name(), to.name());
        let legs: [Leg<'_>; 4] = [
            (
                "codec",
                Box::new(|| timed(|| codec(&log, &all, (from, to)))),
            ),
            (
                "least",
                Box::new(|| timed(|| least(&log_dir, &all, (from, to)))),
            ),
            ("rewrite", Box::new(|| timed(|| rewritten(&log_dir, to)))),
            ("copy", Box::new(|| timed(|| rewritten(&log_dir, from)))),
        ];
        compare(&legs, ROUNDS);
    }
}
