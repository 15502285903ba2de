//! The limit of reading: map each `.log` file, read it once, CRC-32C of every batch, nothing else.
//!
//! `cargo bench --bench limit -- FILE...` prints the best of five passes. With `--serve` before the files it makes one
//! pass for each line on standard input and answers in JSON, as a leg of `benches/python/compare.py`.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench prints, and may stop; its files are whole"
)]

use std::fs::File;
use std::io::BufRead;
use std::path::Path;
use std::time::Instant;

use kafkalog::internal::format::batch::{
    ATTRIBUTES_AT, CRC_AT, LENGTH_AT, LOG_OVERHEAD, RECORD_BATCH_OVERHEAD,
};
use kafkalog::internal::io::mapping::Mapping;

fn field(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The first `length` bytes of a file of the bench's own.
#[expect(unsafe_code, reason = "a map")]
fn map(file: &File, path: &Path, length: u64) -> Mapping {
    // SAFETY: nobody changes the files of a bench while it runs.
    unsafe { Mapping::open(file, path, length) }.expect("the file maps")
}

/// Records seen in one pass over the files.
fn pass(files: &[String]) -> u64 {
    let mut records = 0;
    for name in files {
        let path = Path::new(name);
        let file = File::open(path).expect("the file opens");
        let length = file.metadata().expect("the file has a length").len();
        let mapping = map(&file, path, length);
        mapping.advise_sequential();
        let mut rest = mapping.as_slice();
        while rest.len() >= RECORD_BATCH_OVERHEAD {
            let size = LOG_OVERHEAD + field(rest, LENGTH_AT) as usize;
            let batch = &rest[..size];
            let computed = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
            assert_eq!(computed, field(batch, CRC_AT), "crc of {name}");
            records += u64::from(field(batch, RECORD_BATCH_OVERHEAD - 4));
            rest = &rest[size..];
        }
    }
    records
}

fn main() {
    let all: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let serve = all.iter().any(|a| a == "--serve");
    let files: Vec<String> = all.into_iter().filter(|a| a != "--serve").collect();
    if serve {
        println!("{{\"ready\": true}}");
        for line in std::io::stdin().lock().lines() {
            line.expect("standard input is text");
            let start = Instant::now();
            let records = pass(&files);
            let seconds = start.elapsed().as_secs_f64();
            println!("{{\"records\": {records}, \"value_bytes\": null, \"seconds\": {seconds}}}");
        }
    } else if files.is_empty() {
        println!("usage: cargo bench --bench limit -- [--serve] FILE...");
    } else {
        let best = (0..5)
            .map(|_| {
                let start = Instant::now();
                let records = pass(&files);
                start.elapsed().as_secs_f64() * 1e9 / records as f64
            })
            .fold(f64::INFINITY, f64::min);
        println!("limit: {best:.1} ns a record");
    }
}
