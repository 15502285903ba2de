//! A whole log dir: its checkpoints, its strays, its lock, and where the result may lie.

use std::fs;
use std::io;

use kafkalog::internal::error::Error;
use kafkalog::internal::io::lock::LogDirLock;
use kafkalog::internal::tools::rebuild::{RebuildOptions, rebuild_indexes};
use kafkalog::internal::tools::recover::{RecoverySettings, recover};

use super::NOW_MS;
use crate::log_cases;

/// A log dir of two partitions, one of them damaged in its middle, with checkpoints and a clean marker that lies.
fn log_dir() -> tempfile::TempDir {
    let work = log_cases::work_folder();
    let base = log_cases::root().join("recover/_base/base/orders-0");
    for partition in [
        "orders-0",
        "orders-1",
        "gone-0.0123456789abcdef0123456789abcdef-delete",
    ] {
        log_cases::copy(&base, &work.path().join(partition));
    }
    fs::write(
        work.path().join("recovery-point-offset-checkpoint"),
        "0\n1\norders 0 27\n",
    )
    .unwrap();
    let damaged = work.path().join("orders-1/00000000000000000024.log");
    let mut data = fs::read(&damaged).unwrap();
    data.truncate(300);
    fs::write(damaged, data).unwrap();
    work
}

#[test]
fn a_log_dir_is_recovered_whole_or_not_at_all() {
    let work = log_dir();
    let mut options = RecoverySettings::at(NOW_MS);
    let report = recover(work.path(), &options).unwrap();
    let ends: Vec<_> = report
        .partitions
        .iter()
        .map(|p| (p.recovered_from, p.log_end_offset))
        .collect();
    // The first by its checkpoint; the second, which has none, from the beginning.
    assert_eq!(ends, [(27, 27), (0, 26)]);
    assert_eq!(report.skipped.len(), 1);
    assert_eq!((report.clean, report.partitions[1].bytes_cut), (false, 99));
    assert!(!work.path().join(".lock").exists());

    let work = log_dir();
    fs::write(work.path().join(".kafka_cleanshutdown"), "").unwrap();
    let before = log_cases::tree(work.path());
    let lock = work.path().join("orders-1/00000000000000000017.txnindex");
    fs::write(&lock, [1; 34]).unwrap();
    let error = recover(work.path(), &options).unwrap_err().to_string();
    assert!(
        error.contains("00000000000000000017.txnindex") && error.contains("salvage"),
        "{error}"
    );
    fs::write(
        &lock,
        fs::read(work.path().join("orders-0/00000000000000000017.txnindex")).unwrap(),
    )
    .unwrap();
    assert_eq!(
        log_cases::compare(&before, &log_cases::tree(work.path())),
        [""; 0]
    );

    options.out = Some(work.path().join("orders-0/inside"));
    assert!(matches!(
        recover(work.path(), &options),
        Err(Error::InvalidArgument(_))
    ));
    options.out = Some(work.path().to_path_buf());
    let error = recover(work.path(), &options).unwrap_err();
    assert!(
        matches!(&error, Error::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists),
        "{error}"
    );
}

/// `LogManager` checkpoints its current and future logs, not the strays among them.
#[test]
fn strays_lose_their_lines() {
    let work = log_dir();
    let stray = "orders-1.2501711a66e84167a87e2d6f3fea8e94-stray";
    fs::rename(work.path().join("orders-1"), work.path().join(stray)).unwrap();
    let names = [
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
    ];
    for name in names {
        let text = "0\n2\norders 0 1\norders 1 1\n";
        fs::write(work.path().join(name), text).unwrap();
    }
    recover(work.path(), &RecoverySettings::at(NOW_MS)).unwrap();
    for name in names {
        let text = fs::read_to_string(work.path().join(name)).unwrap();
        assert!(
            text.contains("orders 0 ") && !text.contains("orders 1 "),
            "{name}: {text}"
        );
    }
}

/// Through a link, and with dots that lead out again.
#[cfg(unix)]
#[test]
fn no_result_lies_inside_of_its_source() {
    let work = log_dir();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link");
    std::os::unix::fs::symlink(work.path(), &link).unwrap();
    let before = log_cases::tree(work.path());
    let source = work.path().join("orders-0");
    for out in [
        source.join("new"),
        link.join("orders-0/new"),
        link.join("orders-0/new/below"),
        link.join("orders-1/../orders-0/new"),
    ] {
        let recovering = RecoverySettings {
            out: Some(out.clone()),
            ..RecoverySettings::at(NOW_MS)
        };
        let rebuilding = RebuildOptions {
            out: Some(out.clone()),
            ..RebuildOptions::at(NOW_MS)
        };
        for source in [source.clone(), link.join("orders-0")] {
            let recovered = recover(&source, &recovering).map(drop);
            let rebuilt = rebuild_indexes(&source, &rebuilding).map(drop);
            for outcome in [recovered, rebuilt] {
                assert!(
                    matches!(outcome, Err(Error::InvalidArgument(_))),
                    "{}: {outcome:?}",
                    out.display()
                );
            }
        }
    }
    assert_eq!(
        log_cases::compare(&before, &log_cases::tree(work.path())),
        [""; 0]
    );
    let below = elsewhere.path().join("below");
    fs::create_dir(&below).unwrap();
    let options = RecoverySettings {
        out: Some(below.join("../beside")),
        ..RecoverySettings::at(NOW_MS)
    };
    recover(&source, &options).unwrap();
    assert!(elsewhere.path().join("beside").is_dir());
}

#[test]
fn nobody_recovers_under_a_writer() {
    let work = log_dir();
    let lock = LogDirLock::acquire(work.path()).unwrap();
    let claim = lock.claim("orders-1").unwrap();
    let options = RecoverySettings::at(NOW_MS);
    assert!(matches!(
        recover(work.path(), &options),
        Err(Error::LogLocked { .. })
    ));
    recover(&work.path().join("orders-0"), &options).unwrap();
    drop(claim);
    recover(work.path(), &options).unwrap();
}
