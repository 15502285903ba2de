//! Random operations, reopenings, failures and crashes, against the list.

use std::sync::Arc;

use kafkalog::internal::io::appender::SyncPolicy;
use kafkalog::internal::types::Compression;
use proptest::collection::vec;
use proptest::prelude::*;

use super::faults::{FaultyDisk, Mode};
use super::{Driver, Op, folder};
use crate::common::pick;

fn op() -> impl Strategy<Value = Op> {
    let codecs = [
        Compression::None,
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ];
    let codec = proptest::sample::select(codecs.to_vec());
    let append =
        (1..8usize, 1..170usize, 0..4i64, codec).prop_map(|(records, size, producer, codec)| {
            Op::Append {
                records,
                size,
                producer,
                codec,
            }
        });
    prop_oneof![
        12 => append,
        3 => (1..6usize, 0..5i64).prop_map(|(batches, gap)| Op::Copy { batches, gap }),
        3 => (1..3i64, any::<bool>()).prop_map(|(producer, is_abort)| Op::End { producer, is_abort }),
        2 => Just(Op::Roll),
        1 => Just(Op::Flush),
        2 => (0..110i64).prop_map(Op::Truncate),
        1 => (0..20i64).prop_map(Op::Restart),
        1 => (0..100i64).prop_map(Op::Start),
        2 => (0..20_000i64).prop_map(Op::Advance),
        2 => Just(Op::Reopen),
        1 => Just(Op::Crash),
    ]
}

fn policy() -> impl Strategy<Value = SyncPolicy> {
    prop_oneof![
        Just(SyncPolicy::Never),
        Just(SyncPolicy::AT_ROLL),
        Just(SyncPolicy::EveryAppend),
        (1..30i64, 1..10_000i64).prop_map(|(records, ms)| SyncPolicy::Every { records, ms }),
    ]
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        Just(Mode::Full),
        (0..400usize).prop_map(Mode::Short),
        (0..400usize).prop_map(Mode::Crash),
    ]
}

pub fn cases() -> ProptestConfig {
    ProptestConfig {
        cases: pick(50, 200, 20_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_log_is_a_list(ops in vec(op(), 1..40), policy in policy()) {
        let folder = folder();
        let mut driver = Driver::new(folder.path(), policy, Arc::default());
        for op in &ops {
            driver.run(op).unwrap();
        }
        prop_assert_eq!(driver.visible(), driver.rows());
        driver.finish();
    }

    #[test]
    fn a_log_that_fails_is_a_list_still(
        ops in vec(op(), 1..40),
        failures in vec((0..60usize, mode()), 1..6),
        policy in policy(),
    ) {
        let folder = folder();
        let disk = Arc::new(FaultyDisk::default());
        let mut driver = Driver::new(folder.path(), policy, Arc::clone(&disk));
        let mut failures = failures.into_iter();
        let mut failure = failures.next();
        if let Some((ahead, mode)) = failure {
            disk.fail_at(ahead, mode);
        }
        for op in &ops {
            if let Err(error) = driver.run(op) {
                let (_, mode) = failure.unwrap();
                driver.survive(&error, mode.is_crash());
                failure = failures.next();
                if let Some((ahead, mode)) = failure {
                    disk.fail_at(ahead, mode);
                }
            }
        }
        disk.mend();
        driver.finish();
    }
}
