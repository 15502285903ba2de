//! A script, failed once at every single step: what was acknowledged is there after recovery, nothing half-written is
//! visible before or after it, and the log refused to continue.

use std::sync::Arc;

use kafkalog::internal::io::appender::SyncPolicy;
use kafkalog::internal::types::Compression;

use super::faults::{FaultyDisk, Mode};
use super::{Driver, Op, append, by_producer, folder};
use crate::common::is_slow;

/// Everything a log does: rolls by size, index and hand, transactions over segments, copies, cuts, reopenings.
fn script() -> Vec<Op> {
    let compressed = Op::Append {
        records: 5,
        size: 30,
        producer: 3,
        codec: Compression::Lz4,
    };
    vec![
        append(3, 100),
        by_producer(2, 50, 1),
        append(4, 100),
        Op::Copy { batches: 4, gap: 2 },
        by_producer(2, 200, 1),
        append(4, 150),
        Op::End {
            producer: 1,
            is_abort: true,
        },
        compressed.clone(),
        Op::Roll,
        Op::Roll,
        append(6, 80),
        Op::Flush,
        append(2, 10),
        Op::Start(30),
        Op::Reopen,
        compressed,
        by_producer(1, 10, 1),
        append(5, 120),
        Op::Truncate(70),
        append(2, 90),
        by_producer(3, 60, 3),
        Op::Advance(10_000),
        append(2, 60),
        append(7, 150),
        append(7, 150),
        Op::Truncate(40),
        append(3, 50),
        Op::Advance(100_000),
        Op::Restart(5),
        append(3, 70),
        Op::Crash,
        append(3, 300),
        append(3, 300),
        Op::Copy { batches: 9, gap: 0 },
        Op::Reopen,
    ]
}

/// The first two are what matters most; all of them in the slow profile.
const POLICIES: [SyncPolicy; 4] = [
    SyncPolicy::AT_ROLL,
    SyncPolicy::EveryAppend,
    SyncPolicy::Never,
    SyncPolicy::Every {
        records: 10,
        ms: 5_000,
    },
];

/// Runs the script until a step fails; what went wrong, if anything did.
fn run(driver: &mut Driver, script: &[Op]) -> Option<kafkalog::internal::error::Error> {
    script.iter().find_map(|op| driver.run(op).err())
}

fn steps(policy: SyncPolicy) -> usize {
    let folder = folder();
    let disk = Arc::new(FaultyDisk::default());
    let mut driver = Driver::new(folder.path(), policy, Arc::clone(&disk));
    let error = run(&mut driver, &script());
    assert!(error.is_none(), "{error:?}");
    let steps = disk.steps();
    assert_eq!(driver.visible(), driver.rows());
    driver.finish();
    steps
}

fn fail_everywhere(modes: &[Mode]) {
    let policies = if is_slow() { 4 } else { 1 };
    for policy in POLICIES.into_iter().take(policies) {
        let steps = steps(policy);
        for at in 0..steps {
            for &mode in modes {
                let folder = folder();
                let disk = Arc::new(FaultyDisk::failing(at, mode));
                let mut driver = Driver::new(folder.path(), policy, disk);
                let error = run(&mut driver, &script());
                let error = error.unwrap_or_else(|| panic!("step {at} of {steps}: no error"));
                driver.survive(&error, mode.is_crash());
                driver.finish();
            }
        }
    }
}

#[test]
fn a_full_disk_at_every_step() {
    fail_everywhere(&[Mode::Full]);
}

#[test]
fn a_short_write_at_every_step() {
    fail_everywhere(&[Mode::Short(70), Mode::Short(usize::MAX)]);
}

#[test]
fn a_crash_at_every_step() {
    fail_everywhere(&[Mode::Crash(70), Mode::Crash(usize::MAX)]);
}

/// Bytes, files and index entries that were not synced are lost; with a sync before every answer no answer is.
#[cfg(unix)]
#[test]
fn a_power_failure_at_every_step() {
    let policy = SyncPolicy::EveryAppend;
    let steps = steps(policy);
    for at in 0..steps {
        let folder = folder();
        let disk = Arc::new(FaultyDisk::failing(at, Mode::Crash(70)));
        let mut driver = Driver::new(folder.path(), policy, Arc::clone(&disk));
        let error = run(&mut driver, &script()).unwrap();
        if let Some(log) = driver.log.take() {
            log.crash();
        }
        disk.lose(&driver.folder);
        driver.garble_indexes();
        driver.survive(&error, true);
        driver.finish();
    }
}
