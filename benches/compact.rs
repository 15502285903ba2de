//! Compaction of a log, compared with Kafka: `cargo bench --bench compact`.
//!
//! | leg | one pass over 256 MB in four segments (100 B values, 16 KB batches, one key in ten records is new), all in the page cache |
//! |---|---|
//! | limit | every byte read through a 256 KB window, CRC-32C of every batch |
//! | compact | the cleaner as it is used: every checksum checked, once when keys are taken in and once when segments are written |
//! | as kafka | the cleaner without checksums, which Kafka's does not check |
//! | kafka | `Cleaner.clean` of Kafka 4.3.1 with the same map, warmed up, its own process: `benches/java/CleanLog.java` |
//!
//! Each pass works on a copy; opening the log is not counted. Kafka's leg runs where `KAFKA_CLASSPATH` names its jars
//! (`.../kafka-jars/*`) and a JDK is on the path. The first figure is wall time, the second time on the processors; medians of
//! the rounds.

#![expect(
    clippy::expect_used,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench prints, and may stop; its files are whole"
)]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use kafkalog::internal::compress::Compressor;
use kafkalog::internal::format::batch::BatchHeader;
use kafkalog::internal::load::LoadRequest;
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::records::builder::{BatchBuilder, BatchOptions};
use kafkalog::internal::tools::compact::{Cleanable, Cleaner, CleanerSettings};
use kafkalog::internal::write::{WritableLog, WriteOptions};

const SEGMENTS: i64 = 4;
const SEGMENT: usize = 64 << 20;
const BATCH: usize = 16 << 10;
const WINDOW: usize = 256 << 10;
const ROUNDS: usize = 5;
const MAP: usize = 128 << 20;
const NOW: i64 = 1_700_000_000_000;

/// Four segments and an empty active one.
fn generate(folder: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    let mut offset = 0i64;
    let mut compressor = Compressor::default();
    let mut batch = Vec::new();
    for _ in 0..SEGMENTS {
        let mut file = File::create(folder.join(format!("{offset:020}.log"))).expect("a segment");
        let mut written = 0;
        while written < SEGMENT {
            let options = BatchOptions {
                base_offset: offset,
                partition_leader_epoch: 0,
                ..BatchOptions::default()
            };
            let mut builder = BatchBuilder::new(options).expect("options that agree");
            for _ in 0..BATCH / 125 {
                // SplitMix64's last step: spreads keys over all of the map.
                let mut drawn = offset.unsigned_abs().wrapping_mul(0x9E37_79B9_7F4A_7C15);
                drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let keys = 250_000;
                let key = format!("key-{:012}", (drawn ^ (drawn >> 27)) % keys);
                let value = [b'v'; 100];
                let added = builder.append(
                    offset,
                    NOW - 1_000_000 + offset / 1000,
                    Some(key.as_bytes()),
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
    File::create(folder.join(format!("{offset:020}.log"))).expect("a segment");
    // Its indexes are there, as a broker leaves them.
    open(folder).close(NOW).expect("it closes");
}

fn open(folder: &Path) -> WritableLog {
    let config = LogConfig::from_pairs([("cleanup.policy", "compact")]).expect("settings");
    let request = LoadRequest {
        clean: true,
        recovery_point: 0,
        log_start_offset: 0,
        now_ms: NOW,
        producer_id_expiration_ms: 86_400_000,
    };
    let mut log = WritableLog::open(folder, WriteOptions::new(config), request).expect("it loads");
    let end = log.log_end_offset();
    log.update_high_watermark(end).expect("an offset");
    log
}

/// A copy to work on.
fn copy(folder: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(folder).expect("the folder") {
        let entry = entry.expect("a file");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
}

/// Nanoseconds that threads of this process have been on a processor.
fn processor_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Wall and processor time of one pass, in ms.
fn timed(work: impl FnOnce() -> u64) -> (f64, f64) {
    let (began, used) = (Instant::now(), processor_time());
    black_box(work());
    let cpu = (processor_time() - used) as f64 / 1e6;
    (began.elapsed().as_secs_f64() * 1e3, cpu)
}

fn limit(folder: &Path) -> (f64, f64) {
    timed(|| {
        let mut sum = 0u64;
        for entry in fs::read_dir(folder).expect("the folder") {
            let path = entry.expect("a file").path();
            if path.extension().is_some_and(|kind| kind == "log") {
                sum += checksums(&path);
            }
        }
        sum
    })
}

/// The file in windows, the checksum of every batch in it.
fn checksums(path: &Path) -> u64 {
    let mut file = File::open(path).expect("the segment");
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

fn compact(folder: &Path, checks_batches: bool) -> (f64, f64) {
    let work = folder.with_extension("work");
    copy(folder, &work);
    let mut log = open(&work);
    let settings = CleanerSettings {
        map_bytes: MAP,
        checks_batches,
        ..CleanerSettings::default()
    };
    let mut cleaner = Cleaner::new(settings).expect("a map");
    let cleanable = Cleanable::of(&mut log, None, NOW).expect("a log");
    timed(|| {
        let stats = cleaner.clean(&mut log, &cleanable, NOW).expect("a pass");
        assert!(stats.messages_written * 5 < stats.messages_read);
        stats.messages_written
    })
}

/// A name, and one pass over the folder.
type Leg = (&'static str, fn(&Path) -> (f64, f64));

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
    let legs: [Leg; 3] = [
        ("limit", limit),
        ("compact", |folder| compact(folder, true)),
        ("as kafka", |folder| compact(folder, false)),
    ];
    let mut times = [const { (Vec::new(), Vec::new()) }; 3];
    for round in 0..=ROUNDS {
        for ((_, leg), (wall, cpu)) in legs.iter().zip(&mut times) {
            let (took, used) = leg(&folder);
            // The first round warms up.
            if round > 0 {
                wall.push(took);
                cpu.push(used);
            }
        }
    }
    for ((name, _), (wall, cpu)) in legs.iter().zip(times) {
        println!("{name:8} {:8.1} ms {:8.1} ms", median(wall), median(cpu));
    }
    let Ok(jars) = std::env::var("KAFKA_CLASSPATH") else {
        println!("kafka    KAFKA_CLASSPATH names no jars");
        return;
    };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/java/CleanLog.java");
    let done = Command::new("java")
        .args(["-cp", &jars])
        .arg(program)
        .arg(&folder)
        .arg(ROUNDS.to_string())
        .arg(MAP.to_string())
        .output()
        .expect("java runs");
    print!("{}", String::from_utf8_lossy(&done.stdout));
    if !done.status.success() {
        print!("{}", String::from_utf8_lossy(&done.stderr));
    }
}
