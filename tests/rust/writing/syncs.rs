//! Files that are synced, in which order, and when.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kafkalog::internal::format::control::ControlType;
use kafkalog::internal::io::appender::SyncPolicy;
use kafkalog::internal::io::disk::{Disk, DiskStep, Faults, InjectedFailure};
use kafkalog::internal::load::LoadRequest;
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::records::builder::{BatchOptions, end_transaction};
use kafkalog::internal::types::AppendOrigin;
use kafkalog::internal::write::{LeaderAppend, WritableLog, WriteOptions};

use super::{NOW_MS, folder};
use crate::common::{give_to_producer, one_record};

/// Files and folders that were synced, in order.
#[derive(Debug, Default)]
struct Syncs(Mutex<Vec<PathBuf>>);

impl Faults for Syncs {
    fn before(&self, step: DiskStep, path: &Path) -> Result<(), InjectedFailure> {
        if matches!(step, DiskStep::Sync | DiskStep::SyncFolder) {
            self.0.lock().unwrap().push(path.to_path_buf());
        }
        Ok(())
    }
}

impl Syncs {
    /// The names since the last time.
    fn taken(&self) -> Vec<String> {
        let paths = std::mem::take(&mut *self.0.lock().unwrap()).into_iter();
        paths
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect()
    }
}

fn open(folder: &Path, sync: SyncPolicy, settings: &[(&str, &str)]) -> (WritableLog, Arc<Syncs>) {
    let syncs = Arc::new(Syncs::default());
    let options = WriteOptions {
        sync,
        disk: Disk::with_faults(Arc::<Syncs>::clone(&syncs)),
        ..WriteOptions::new(LogConfig::from_pairs(settings.iter().copied()).unwrap())
    };
    let request = LoadRequest {
        clean: true,
        recovery_point: 0,
        log_start_offset: 0,
        now_ms: NOW_MS,
        producer_id_expiration_ms: i64::MAX,
    };
    let log = WritableLog::open(&folder.join("t-0"), options, request).unwrap();
    syncs.taken();
    (log, syncs)
}

/// One record, plain or of producer 7's transaction.
fn append(log: &mut WritableLog, in_transaction: bool, now_ms: i64) {
    let mut data = one_record(0, if in_transaction { 0x10 } else { 0 }, NOW_MS);
    if in_transaction {
        give_to_producer(&mut data, 0);
    }
    let how = LeaderAppend::default();
    log.append_as_leader(&mut data, &how, now_ms).unwrap();
}

fn name(offset: i64, suffix: &str) -> String {
    format!("{offset:020}.{suffix}")
}

/// `LogSegment.flush`: an index that names what is not there would mislead a reader after a crash.
#[test]
fn data_goes_before_indexes() {
    let folder = folder();
    let (mut log, syncs) = open(folder.path(), SyncPolicy::AT_ROLL, &[]);
    append(&mut log, true, NOW_MS);
    let options = BatchOptions {
        producer_id: 7,
        producer_epoch: 0,
        ..BatchOptions::default()
    };
    let mut abort = Vec::new();
    end_transaction(options, NOW_MS, ControlType::Abort, 1, &mut abort).unwrap();
    let how = LeaderAppend {
        origin: AppendOrigin::Coordinator,
        transaction_version: 1,
        ..LeaderAppend::default()
    };
    log.append_as_leader(&mut abort, &how, NOW_MS).unwrap();
    syncs.taken();
    log.flush(false, NOW_MS).unwrap();
    let kinds = ["log", "index", "timeindex", "txnindex"];
    let mut expected: Vec<_> = kinds.map(|kind| name(0, kind)).into();
    // The segment is a new one, so its name has to get there, too.
    expected.push("t-0".to_owned());
    assert_eq!(syncs.taken(), expected);
    log.flush(false, NOW_MS).unwrap();
    assert_eq!(syncs.taken(), [""; 0]);
    log.crash();
}

/// `UnifiedLog.roll`: the snapshot, then the segment that ends, then the names in the folder; and no more than that, be it
/// rolled by hand or by an append that does not fit.
#[test]
fn a_roll_brings_what_lies_before_it_to_the_disk() {
    let policies = [(SyncPolicy::AT_ROLL, true), (SyncPolicy::Never, false)];
    let ways = policies.map(|policy| [(policy, true), (policy, false)]);
    for ((sync, is_synced), by_hand) in ways.concat() {
        let folder = folder();
        let (mut log, syncs) = open(folder.path(), sync, &[("internal.segment.bytes", "100")]);
        append(&mut log, false, NOW_MS);
        syncs.taken();
        if by_hand {
            log.roll(None, NOW_MS).unwrap();
        } else {
            append(&mut log, false, NOW_MS);
        }
        let synced = [
            name(1, "snapshot"),
            name(0, "log"),
            name(0, "index"),
            name(0, "timeindex"),
            "t-0".to_owned(),
        ];
        let expected = if is_synced { &synced[..] } else { &[] };
        assert_eq!(syncs.taken(), expected, "{sync:?}, {by_hand}");
        assert_eq!(
            log.recovery_point(),
            i64::from(is_synced),
            "{sync:?}, {by_hand}"
        );
        log.crash();
    }
}

/// `flush.ms` counts from the last time that something was brought to the disk.
#[test]
fn as_often_as_the_policy_says() {
    let folder = folder();
    let sync = SyncPolicy::Every {
        records: 4,
        ms: 1_000,
    };
    let (mut log, _) = open(folder.path(), sync, &[]);
    for (after, recovery_point) in [
        (0, 0),
        (999, 0),
        (1_000, 3),
        (1_999, 3),
        (2_000, 5),
        (2_001, 5),
        (2_002, 5),
        (2_003, 5),
        (2_004, 9),
        (3_003, 9),
        (3_004, 11),
    ] {
        append(&mut log, false, NOW_MS + after);
        assert_eq!(log.recovery_point(), recovery_point, "{after}");
    }
    log.crash();
}

/// Files that a truncation put aside are removed after `file.delete.delay.ms`, not before.
#[test]
fn files_put_aside_wait_for_their_time() {
    let folder = folder();
    let (mut log, _) = open(folder.path(), SyncPolicy::AT_ROLL, &[]);
    append(&mut log, false, NOW_MS);
    log.roll(None, NOW_MS).unwrap();
    append(&mut log, false, NOW_MS);
    log.truncate_to(0, NOW_MS).unwrap();
    let delay = log.config().file_delete_delay_ms;
    let aside = log.folder().join(name(1, "log.deleted"));
    for (after, is_there) in [(0, true), (delay - 1, true), (delay, false)] {
        log.remove_deleted(NOW_MS + after).unwrap();
        assert_eq!(aside.exists(), is_there, "{after} of {delay}");
    }
    log.crash();
}
