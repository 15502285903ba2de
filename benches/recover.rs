//! Recovery of a segment, compared with its limit and with Kafka: `cargo bench --bench recover`.
//!
//! | leg | one pass over a 256 MB segment (100 B values, 16 KB batches) that has its indexes, all in the page cache |
//! |---|---|
//! | limit | the file read through a 256 KB window, CRC-32C of every batch, by one thread |
//! | recover | a plan of loading after an unclean stop with nothing flushed: checksums by all threads it has, indexes, producers, epochs |
//! | kafka | `LogSegment.recover` of Kafka 4.3.1, warmed up, its own process: `benches/java/RecoverSegment.java` |
//!
//! Twice: with the page cache as appending leaves it, in single pages, and as reading in leaves it, in larger pieces, as
//! after a machine's restart. `dd` has the file dropped from the cache in between.
//!
//! Kafka's leg runs where `KAFKA_CLASSPATH` names its jars (`.../kafka-jars/*`) and a JDK is on the path. The first
//! figure is wall time, the second time on the processors; medians of the rounds.

#![expect(
    clippy::expect_used,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench prints, and may stop; its files are whole"
)]

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use kafkalog::internal::compress::Compressor;
use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::io::disk::Disk;
use kafkalog::internal::load::{LoadRequest, Plan, plan};
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::records::builder::{BatchBuilder, BatchOptions};

const SEGMENT: usize = 256 << 20;
const BATCH: usize = 16 << 10;
const WINDOW: usize = 256 << 10;
const ROUNDS: usize = 9;
const LOG: &str = "00000000000000000000.log";

fn generate(folder: &Path) {
    std::fs::create_dir_all(folder).expect("a folder");
    let mut file = File::create(folder.join(LOG)).expect("a segment");
    let (mut written, mut offset) = (0, 0);
    let mut compressor = Compressor::default();
    let mut batch = Vec::new();
    while written < SEGMENT {
        let options = BatchOptions {
            base_offset: offset,
            partition_leader_epoch: 0,
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options).expect("options that agree");
        let mut value = [b'v'; 100];
        for _ in 0..BATCH / 115 {
            for (to, byte) in value
                .iter_mut()
                .zip(offset.to_be_bytes().into_iter().cycle())
            {
                *to ^= byte.wrapping_mul(31);
            }
            let key = offset.to_be_bytes();
            let added = builder.append(
                offset,
                1_700_000_000_000 + offset,
                Some(&key),
                Some(&value),
                &[],
            );
            added.expect("a record");
            offset += 1;
        }
        batch.clear();
        builder
            .finish(&mut compressor, &mut batch)
            .expect("a batch");
        file.write_all(&batch).expect("it is written");
        written += batch.len();
    }
    file.sync_all().expect("it is on the disk");
}

/// The file in windows, the checksum of every batch in it.
fn limit(folder: &Path) -> u64 {
    let mut file = File::open(folder.join(LOG)).expect("the segment");
    let mut window = vec![0; WINDOW];
    let (mut held, mut sum) = (0, 0u64);
    loop {
        let read = file.read(window.get_mut(held..).unwrap_or_default());
        let read = read.expect("it reads");
        held += read;
        let mut at = 0;
        while let Some(rest) = window.get(at..held)
            && let Ok(Some(header)) = BatchHeader::parse(rest)
            && let Some(batch) = rest.get(..header.size)
        {
            assert_eq!(header.computed_crc(batch), header.crc);
            sum += u64::from(header.crc);
            at += header.size;
        }
        window.copy_within(at..held, 0);
        held -= at;
        if read == 0 {
            return sum;
        }
    }
}

fn planned(folder: &Path) -> Plan {
    let request = LoadRequest {
        clean: false,
        recovery_point: 0,
        log_start_offset: 0,
        now_ms: 1_700_000_000_000,
        producer_id_expiration_ms: 86_400_000,
    };
    plan(folder, &LogConfig::default(), request).expect("it lists")
}

fn recover(folder: &Path) -> u64 {
    let log = planned(folder).outcome.expect("it loads");
    log.log_end_offset.unsigned_abs()
}

/// Nanoseconds that threads of this process have been on a processor.
fn processor_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// A name, and one pass over the folder.
type Leg = (&'static str, fn(&Path) -> u64);

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() {
    if cfg!(debug_assertions) {
        println!("a debug build: its figures mean nothing");
    }
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("bench-0");
    generate(&folder);
    // Its indexes are there, as a broker leaves them: a segment without is recovered when it is found and once more.
    let disk = Disk::default();
    planned(&folder).apply(&disk).expect("it is carried out");
    println!("as appended");
    compare(&folder);
    let file = format!("if={}", folder.join(LOG).display());
    let dropped = Command::new("dd")
        .args([&file, "iflag=nocache", "count=0", "status=none"])
        .status();
    assert!(
        dropped.expect("dd runs").success(),
        "dropped from the cache"
    );
    println!("as read in");
    compare(&folder);
}

fn compare(folder: &Path) {
    let legs: [Leg; 2] = [("limit", limit), ("recover", recover)];
    let mut times = [const { (Vec::new(), Vec::new()) }; 2];
    for round in 0..=ROUNDS {
        for ((_, leg), (wall, cpu)) in legs.iter().zip(&mut times) {
            let (began, used) = (Instant::now(), processor_time());
            black_box(leg(folder));
            // The first round warms up.
            if round > 0 {
                wall.push(began.elapsed().as_secs_f64() * 1e3);
                cpu.push((processor_time() - used) as f64 / 1e6);
            }
        }
    }
    let mut first = None;
    for ((name, _), (wall, cpu)) in legs.iter().zip(times) {
        let (wall, cpu) = (median(wall), median(cpu));
        let limit = *first.get_or_insert((wall, cpu));
        println!(
            "{name:8} {wall:8.1} ms {cpu:8.1} ms  {:5.2} {:5.2} of the limit",
            wall / limit.0,
            cpu / limit.1
        );
    }
    let Ok(jars) = std::env::var("KAFKA_CLASSPATH") else {
        println!("kafka    KAFKA_CLASSPATH names no jars");
        return;
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/java/RecoverSegment.java");
    let done = Command::new("java")
        .args(["-cp", &jars])
        .arg(program)
        .arg(folder)
        .arg(ROUNDS.to_string())
        .output()
        .expect("java runs");
    print!("{}", String::from_utf8_lossy(&done.stdout));
    if !done.status.success() {
        print!("{}", String::from_utf8_lossy(&done.stderr));
    }
}
