//! Compaction of a log, compared with Kafka: `cargo bench --bench compact`.
//!
//! | leg | one pass over 256 MB in four segments (100 B values, 16 KB batches, one key in ten records is new), all in the page cache |
//! |---|---|
//! | limit | every byte read through a 256 KB window, CRC-32C of every batch |
//! | compact | the cleaner as it is used: every checksum checked, once when keys are taken in and once when segments are written |
//! | as kafka | the cleaner without checksums, which Kafka's does not check |
//! | kafka | `Cleaner.clean` of Kafka 4.3.1 with the same map, warmed up, its own process: `benches/java/KafkaLegs.java` |
//!
//! Each pass works on a copy; opening the log is not counted. Kafka's leg runs where `KAFKA_CLASSPATH` names its jars
//! (`.../kafka-jars/*`) and a JDK is on the path. The first figure is wall time, the second time on the processors;
//! medians of the rounds.

#![expect(
    clippy::expect_used,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench prints, and may stop; its files are whole"
)]

#[path = "common/checksums.rs"]
mod checksums;
#[path = "common/kafka.rs"]
mod kafka;
#[path = "common/legs.rs"]
mod legs;
#[path = "common/segments.rs"]
mod segments;

use std::fs::{self, File};
use std::path::Path;

use kafkalog::internal::load::LoadRequest;
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::tools::compact::{Cleanable, Cleaner, CleanerSettings};
use kafkalog::internal::types::Compression;
use kafkalog::internal::write::{WritableLog, WriteOptions};

use checksums::checksums;
use kafka::kafka;
use legs::{Leg, Took, compare, timed};
use segments::{Shape, write_segment};

const SEGMENTS: i64 = 4;
const SEGMENT: usize = 64 << 20;
const RECORDS: usize = (16 << 10) / 125;
const ROUNDS: usize = 5;
const MAP: usize = 128 << 20;
const NOW: i64 = 1_700_000_000_000;

/// Four segments and an empty active one.
fn generate(folder: &Path) {
    let mut offset = 0i64;
    let shape = Shape {
        codec: Compression::None,
        records: RECORDS,
        size: SEGMENT,
    };
    for _ in 0..SEGMENTS {
        offset = write_segment(folder, offset, shape, |offset| {
            // SplitMix64's last step: spreads keys over all of the map.
            let mut drawn = offset.unsigned_abs().wrapping_mul(0x9E37_79B9_7F4A_7C15);
            drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let keys = 250_000;
            let key = format!("key-{:012}", (drawn ^ (drawn >> 27)) % keys);
            let timestamp = NOW - 1_000_000 + offset / 1000;
            (timestamp, key.into_bytes(), vec![b'v'; 100])
        });
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

fn limit(folder: &Path) -> Took {
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

fn compact(folder: &Path, checks_batches: bool) -> Took {
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

fn main() {
    if cfg!(debug_assertions) {
        println!("a debug build: its figures mean nothing");
    }
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("bench-0");
    generate(&folder);
    let legs: [Leg<'_>; 3] = [
        ("limit", Box::new(|| limit(&folder))),
        ("compact", Box::new(|| compact(&folder, true))),
        ("as kafka", Box::new(|| compact(&folder, false))),
    ];
    compare(&legs, ROUNDS);
    kafka("clean", &folder, &[ROUNDS.to_string(), MAP.to_string()]);
}
