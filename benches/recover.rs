//! Recovery of a segment, compared with its limit and with Kafka: `cargo bench --bench recover`.
//!
//! | leg | one pass over a 256 MB segment (100 B values, 16 KB batches) that has its indexes, all in the page cache |
//! |---|---|
//! | limit | the file read through a 256 KB window, CRC-32C of every batch, by one thread |
//! | recover | a plan of loading after an unclean stop with nothing flushed: checksums by all threads it has, indexes, producers, epochs |
//! | kafka | `LogSegment.recover` of Kafka 4.3.1, warmed up, its own process: `benches/java/KafkaLegs.java` |
//!
//! Twice: with the page cache as appending leaves it, in single pages, and as reading in leaves it, in larger pieces,
//! as after a machine's restart. `dd` has the file dropped from the cache in between.
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

#[path = "common/checksums.rs"]
mod checksums;
#[path = "common/kafka.rs"]
mod kafka;
#[path = "common/legs.rs"]
mod legs;
#[path = "common/segments.rs"]
mod segments;

use std::path::Path;
use std::process::Command;

use kafkalog::internal::io::disk::Disk;
use kafkalog::internal::load::{LoadRequest, OnLoss, Plan, plan};
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::types::Compression;

use checksums::checksums;
use kafka::kafka;
use legs::{Leg, compare, timed};
use segments::{Shape, write_segment};

const SEGMENT: usize = 256 << 20;
const RECORDS: usize = (16 << 10) / 115;
const ROUNDS: usize = 9;
const LOG: &str = "00000000000000000000.log";

fn generate(folder: &Path) {
    let shape = Shape {
        codec: Compression::None,
        records: RECORDS,
        size: SEGMENT,
    };
    write_segment(folder, 0, shape, |offset| {
        let key = offset.to_be_bytes();
        let bytes = key.iter().cycle().take(100);
        let value = bytes.map(|byte| b'v' ^ byte.wrapping_mul(31)).collect();
        (1_700_000_000_000 + offset, key.to_vec(), value)
    });
}

fn planned(folder: &Path) -> Plan {
    let request = LoadRequest {
        clean: false,
        recovery_point: 0,
        log_start_offset: 0,
        now_ms: 1_700_000_000_000,
        producer_id_expiration_ms: 86_400_000,
    };
    plan(folder, &LogConfig::default(), request, OnLoss::AsKafka).expect("it lists")
}

fn recover(folder: &Path) -> u64 {
    let log = planned(folder).outcome.expect("it loads");
    log.log_end_offset.unsigned_abs()
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
    compared(&folder);
    let file = format!("if={}", folder.join(LOG).display());
    let dropped = Command::new("dd")
        .args([&file, "iflag=nocache", "count=0", "status=none"])
        .status();
    assert!(
        dropped.expect("dd runs").success(),
        "dropped from the cache"
    );
    println!("as read in");
    compared(&folder);
}

fn compared(folder: &Path) {
    let legs: [Leg<'_>; 2] = [
        ("limit", Box::new(|| timed(|| checksums(&folder.join(LOG))))),
        ("recover", Box::new(|| timed(|| recover(folder)))),
    ];
    compare(&legs, ROUNDS);
    kafka("recover", folder, &[ROUNDS.to_string()]);
}
