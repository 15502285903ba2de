//! Indexes rebuilt, for this version of Kafka and for older ones.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use kafkalog::internal::error::Error;
use kafkalog::internal::io::disk::{Disk, DiskStep, Faults, InjectedFailure};
use kafkalog::internal::tools::rebuild::{Level, RebuildOptions, rebuild_indexes};

use super::only_log_files;
use crate::log_cases;

/// Steps as they were taken.
#[derive(Debug, Default)]
struct Watch(Mutex<Vec<DiskStep>>);

impl Faults for Watch {
    fn before(&self, step: DiskStep, _path: &Path) -> Result<(), InjectedFailure> {
        self.0.lock().unwrap().push(step);
        Ok(())
    }
}

#[test]
fn indexes_are_rebuilt_as_kafka_rebuilds_them() {
    let case = &only_log_files();
    let work = log_cases::work_folder();
    case.write_before(work.path());
    let folder = work.path().join(case.partition_folder());
    let elsewhere = tempfile::tempdir().unwrap();
    let out = elsewhere.path().join("out");
    let mut options = RebuildOptions {
        config: log_cases::config(case),
        dry_run: true,
        ..RebuildOptions::at(case.now_ms())
    };
    let before = log_cases::tree(&folder);
    let planned = rebuild_indexes(&folder, &options).unwrap();
    options.dry_run = false;
    options.out = Some(out.clone());
    assert_eq!(rebuild_indexes(&folder, &options).unwrap(), planned);
    // None has an index, so that each was examined twice.
    let told = &planned.notes;
    assert!(
        told.iter()
            .enumerate()
            .all(|(n, note)| !told[..n].contains(note)),
        "{told:?}"
    );
    assert_eq!(
        log_cases::compare(&before, &log_cases::tree(&folder)),
        [""; 0]
    );
    options.out = None;
    assert_eq!(rebuild_indexes(&folder, &options).unwrap(), planned);
    assert_eq!(
        log_cases::compare(&log_cases::tree(&out), &log_cases::tree(&folder)),
        [""; 0]
    );
    fs::remove_dir_all(&out).unwrap();
    assert_eq!(case.compare_tree(work.path()), [""; 0]);

    // A second time there is nothing to write.
    let watch = Arc::new(Watch::default());
    options.disk = Disk::with_faults(Arc::<Watch>::clone(&watch));
    let again = rebuild_indexes(&folder, &options).unwrap();
    assert!(
        again.files.iter().all(|file| file.is_same),
        "{:?}",
        again.files
    );
    assert_eq!(*watch.0.lock().unwrap(), [DiskStep::SyncFolder]);
    options.disk = Disk::default();

    let index = folder.join("00000000000000000017.index");
    let entry = |n: usize| {
        let bytes = fs::read(&index).unwrap();
        let number = |at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        (number(8 * n), number(8 * n + 4))
    };
    let last = entry(0);
    options.level = Level::parse("1.1").unwrap();
    rebuild_indexes(&folder, &options).unwrap();
    let data = fs::read(folder.join("00000000000000000017.log")).unwrap();
    let at = usize::try_from(last.1).unwrap();
    let first = i64::from_be_bytes(data[at..at + 8].try_into().unwrap());
    assert_eq!(entry(0), (i32::try_from(first - 17).unwrap(), last.1));
    assert!(entry(0) != last, "the batch has more than one record");
    let has = |end: &str| !crate::common::files(&folder, end).is_empty();
    assert!(has(".timeindex") && has(".snapshot"));
    options.level = Level::parse("0.10.0").unwrap();
    rebuild_indexes(&folder, &options).unwrap();
    assert!(has(".index") && !has(".timeindex") && !has(".txnindex") && !has(".snapshot"));
    for level in ["", "4", "x", "4.4", "4.5", "9.0", "1.2.3.4", "-1.0"] {
        let is_known = matches!(level, "4" | "4.4");
        assert_eq!(Level::parse(level).is_ok(), is_known, "{level}");
    }

    // What recovery would cut is left alone.
    let log = folder.join("00000000000000000017.log");
    let mut data = fs::read(&log).unwrap();
    data[700] ^= 1;
    fs::write(&log, data).unwrap();
    let before = log_cases::tree(&folder);
    let error = rebuild_indexes(&folder, &options).unwrap_err();
    assert!(matches!(error, Error::CorruptRecord(_)), "{error}");
    assert_eq!(
        log_cases::compare(&before, &log_cases::tree(&folder)),
        [""; 0]
    );
}
