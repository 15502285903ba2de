//! Content of the device when the power fails, at any step: of a log dir that is written, closed, recovered.
//!
//! A file has there what it held when it was last synced, under the names its folder had when that was. The strictest
//! device that there may be: others bring more of it there by themselves.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use kafkalog::internal::format::control::ControlType;
use kafkalog::internal::io::appender::SyncPolicy;
use kafkalog::internal::io::disk::{Disk, DiskStep, Faults, InjectedFailure};
use kafkalog::internal::io::lock::LOCK_FILE;
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::log::dir::{CLEAN_SHUTDOWN, DirState, META_PROPERTIES};
use kafkalog::internal::log::partition::PartitionLog;
use kafkalog::internal::records::builder::{BatchOptions, end_transaction};
use kafkalog::internal::segment::batches::BatchCursor;
use kafkalog::internal::segment::source::Access;
use kafkalog::internal::tools::recover::{OnLoss, RecoverySettings, recover};
use kafkalog::internal::types::{AppendOrigin, TopicPartition};
use kafkalog::internal::write::storage::Identity;
use kafkalog::internal::write::writer::PartitionWriter;
use kafkalog::internal::write::{LeaderAppend, WriteOptions};

use crate::common::{give_to_producer, one_record};
use crate::log_cases::{self, work_folder};
use crate::recovery;

const NOW_MS: i64 = 1_700_000_000_000;

/// Files by their path below the root.
type Files = BTreeMap<PathBuf, Vec<u8>>;

#[derive(Debug, Default)]
struct Held {
    /// Of a folder, its names and what they are names of.
    names: BTreeMap<u64, BTreeMap<String, u64>>,
    /// Of a file, its bytes.
    bytes: BTreeMap<u64, Vec<u8>>,
}

/// The device below `root`, which is there.
#[derive(Debug)]
struct Device {
    root: PathBuf,
    /// Files whose bytes do not count, by what their names end with: what is being deleted, and snapshots that nobody
    /// asked to be synced, as their checksums say whether they are whole.
    aside: Vec<&'static str>,
    held: Mutex<Held>,
    /// Steps at which a marker was there and something else in its log dir was not as it is in the files.
    lies: Mutex<Vec<String>>,
    /// Files at each step, and the offsets that had to be there.
    history: Mutex<Vec<(Files, Vec<i64>)>>,
    safe: Mutex<Vec<i64>>,
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

fn names(folder: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, inode(&entry.path()))
        })
        .collect()
}

impl Device {
    /// One that has all that is there.
    fn over(root: &Path, aside: &[&'static str]) -> Arc<Self> {
        let device = Self {
            root: root.to_path_buf(),
            aside: aside.to_vec(),
            held: Mutex::default(),
            lies: Mutex::default(),
            history: Mutex::default(),
            safe: Mutex::default(),
        };
        let mut folders = vec![root.to_path_buf()];
        while let Some(folder) = folders.pop() {
            device.take(DiskStep::SyncFolder, &folder);
            for path in fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()) {
                if path.is_dir() {
                    folders.push(path);
                } else {
                    device.take(DiskStep::Sync, &path);
                }
            }
        }
        Arc::new(device)
    }

    fn disk(self: &Arc<Self>) -> Disk {
        Disk::with_faults(Arc::<Self>::clone(self))
    }

    fn take(&self, step: DiskStep, path: &Path) {
        let mut held = self.held.lock().unwrap();
        match step {
            DiskStep::Sync => drop(held.bytes.insert(inode(path), fs::read(path).unwrap())),
            DiskStep::SyncFolder => drop(held.names.insert(inode(path), names(path))),
            _ => {}
        }
    }

    /// Files after the power failed.
    fn left(&self) -> Files {
        let held = self.held.lock().unwrap();
        let (mut found, mut folders) = (Files::new(), vec![(PathBuf::new(), inode(&self.root))]);
        while let Some((path, folder)) = folders.pop() {
            for (name, inode) in held.names.get(&folder).into_iter().flatten() {
                let path = path.join(name);
                // Asked of what it is now: no name is first a folder's, then a file's.
                if held.names.contains_key(inode) || self.root.join(&path).is_dir() {
                    folders.push((path, *inode));
                } else if name != LOCK_FILE {
                    found.insert(path, held.bytes.get(inode).cloned().unwrap_or_default());
                }
            }
        }
        found
    }

    /// Current content of the files.
    fn actual(&self) -> Files {
        let files = crate::common::files(&self.root, "").into_iter();
        files
            .filter(|path| path.file_name().is_some_and(|name| name != LOCK_FILE))
            .map(|path| {
                let name = path.strip_prefix(&self.root).unwrap().to_path_buf();
                (name, fs::read(path).unwrap())
            })
            .collect()
    }

    /// Differences between the device and the files.
    fn unsynced(&self) -> Vec<String> {
        self.differences(&self.left(), &self.actual())
    }

    fn differences(&self, left: &Files, actual: &Files) -> Vec<String> {
        let extra = actual.keys().filter(|path| !left.contains_key(*path));
        let length = |files: &Files, path: &Path| files.get(path).map(Vec::len);
        let is_aside = |path: &Path| {
            let path = path.to_string_lossy();
            self.aside.iter().any(|end| path.ends_with(end))
        };
        let is_same = |path: &Path| match (left.get(path), actual.get(path)) {
            (Some(there), Some(here)) => there == here || is_aside(path),
            _ => false,
        };
        let paths = left.keys().chain(extra).filter(|path| !is_same(path));
        paths
            .map(|path| {
                let (there, here) = (length(left, path), length(actual, path));
                let path = path.display();
                format!("{path}: {there:?} bytes on the device, {here:?} in the file")
            })
            .collect()
    }
}

impl Faults for Device {
    fn before(&self, step: DiskStep, path: &Path) -> Result<(), InjectedFailure> {
        self.take(step, path);
        let (mut left, mut actual) = (self.left(), self.actual());
        let safe = self.safe.lock().unwrap().clone();
        self.history.lock().unwrap().push((left.clone(), safe));
        // Who finds the marker believes everything else.
        let marker = left.keys().find(|path| path.ends_with(CLEAN_SHUTDOWN));
        if let Some(marker) = marker.cloned() {
            let log_dir = marker.parent().unwrap();
            let is_told_of = |path: &Path| path.starts_with(log_dir) && path != marker;
            left.retain(|path, _| is_told_of(path));
            actual.retain(|path, _| is_told_of(path));
            let lies = self.differences(&left, &actual);
            let lies = lies
                .first()
                .map(|lie| format!("{step:?} {}: {lie}", path.display()));
            self.lies.lock().unwrap().extend(lies);
        }
        Ok(())
    }
}

fn config() -> LogConfig {
    LogConfig::from_pairs([
        ("internal.segment.bytes", "400"),
        ("segment.index.bytes", "60"),
        ("index.interval.bytes", "100"),
        ("preallocate", "true"),
    ])
    .unwrap()
}

fn open(log_dir: &Path, disk: Disk, sync: SyncPolicy) -> PartitionWriter {
    let options = WriteOptions {
        sync,
        disk,
        ..WriteOptions::new(config())
    };
    let identity = Identity {
        cluster_id: Some("cluster".to_owned()),
        node_id: Some(1),
        directory_id: None,
    };
    let partition = TopicPartition::new("t", 0);
    let dirs = [log_dir.to_path_buf()];
    PartitionWriter::open(&dirs, &identity, &partition, None, options, NOW_MS).unwrap()
}

/// A writer and the list it should be: a timestamp for every offset, none of them twice.
struct Driver {
    device: Arc<Device>,
    writer: PartitionWriter,
    times: Vec<i64>,
    next: i64,
}

impl Driver {
    /// Notes that what the writer says to be on the device has to be from now on.
    fn note(&self) {
        let upto = usize::try_from(self.writer.log().recovery_point()).unwrap();
        let upto = upto.min(self.times.len());
        *self.device.safe.lock().unwrap() = self.times[..upto].to_vec();
    }

    fn append(&mut self, count: usize) {
        for _ in 0..count {
            self.next += 1;
            let how = LeaderAppend::default();
            let mut data = one_record(0, 0, self.next);
            self.times.push(self.next);
            let log = self.writer.log_mut();
            log.append_as_leader(&mut data, &how, NOW_MS).unwrap();
            self.note();
        }
    }

    /// A transaction that is aborted.
    fn abort(&mut self) {
        self.next += 2;
        let known = self.writer.log().producers().last_entry(7);
        let sequence = known.map_or(0, |entry| entry.last_sequence() + 1);
        let mut data = one_record(0, 0x10, self.next - 1);
        give_to_producer(&mut data, sequence);
        let options = BatchOptions {
            producer_id: 7,
            producer_epoch: 0,
            ..BatchOptions::default()
        };
        let mut marker = Vec::new();
        end_transaction(options, self.next, ControlType::Abort, 1, &mut marker).unwrap();
        let how = LeaderAppend {
            origin: AppendOrigin::Coordinator,
            transaction_version: 1,
            ..LeaderAppend::default()
        };
        self.times.extend([self.next - 1, self.next]);
        let log = self.writer.log_mut();
        log.append_as_leader(&mut data, &LeaderAppend::default(), NOW_MS)
            .unwrap();
        log.append_as_leader(&mut marker, &how, NOW_MS).unwrap();
        self.note();
    }

    fn truncate(&mut self, to: i64) {
        self.times.truncate(usize::try_from(to).unwrap());
        self.note();
        self.writer.truncate_to(to, NOW_MS).unwrap();
        self.note();
    }

    fn reopen(mut self, log_dir: &Path, sync: SyncPolicy) -> Self {
        self.writer.close(NOW_MS).unwrap();
        assert_eq!(self.device.unsynced(), [""; 0], "closed");
        self.writer = open(log_dir, self.device.disk(), sync);
        self
    }
}

/// The timestamps of a log's batches, which begin at 0 and leave no offset out.
fn times(folder: &Path) -> Vec<i64> {
    let mut times = Vec::new();
    for segment in PartitionLog::open(folder).unwrap().segments() {
        let mut cursor = BatchCursor::new(segment.bounds(), 0);
        let mut source = segment.open(Access::Headers).unwrap();
        while let Some((_, header)) = cursor.next(&mut source).unwrap() {
            assert_eq!(header.base_offset, i64::try_from(times.len()).unwrap());
            times.push(header.max_timestamp);
        }
    }
    times
}

/// A marker is there only while all else is as it says, and recovered from what is on the device at any step, a log has
/// what its writer said to be there.
#[test]
fn what_a_writer_says_is_there() {
    for sync in [
        SyncPolicy::EveryAppend,
        SyncPolicy::AT_ROLL,
        SyncPolicy::Never,
    ] {
        let root = work_folder();
        // Neither of the two is there.
        let log_dir = root.path().join("deep/data");
        let aside = [".deleted", ".snapshot"];
        let aside = &aside[..if sync == SyncPolicy::Never { 2 } else { 1 }];
        let device = Device::over(root.path(), aside);
        let mut driver = Driver {
            writer: open(&log_dir, device.disk(), sync),
            device,
            times: Vec::new(),
            next: NOW_MS,
        };
        driver.append(3);
        driver.abort();
        driver.append(9);
        driver.abort();
        driver.writer.flush(NOW_MS).unwrap();
        driver.writer.log_mut().roll(None, NOW_MS).unwrap();
        driver.append(1);
        driver = driver.reopen(&log_dir, sync);
        driver.append(7);
        driver.truncate(5);
        driver.append(11);
        driver.abort();
        driver = driver.reopen(&log_dir, sync);
        driver.writer.log_mut().roll(None, NOW_MS).unwrap();
        driver.append(2);
        let device = Arc::clone(&driver.device);
        driver.writer.close(NOW_MS).unwrap();
        assert_eq!(device.unsynced(), [""; 0]);
        assert_eq!(*device.lies.lock().unwrap(), [""; 0], "{sync:?}");
        let history = std::mem::take(&mut *device.history.lock().unwrap());
        assert!(history.len() > 100, "{}", history.len());
        let mut most = 0;
        for (step, (files, safe)) in history.iter().enumerate() {
            most = most.max(safe.len());
            let place = work_folder();
            for (path, bytes) in files {
                let path = place.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
            let log_dir = place.path().join("deep/data");
            let vouched = DirState::read(&log_dir)
                .recovery_points
                .get(&TopicPartition::new("t", 0))
                .copied();
            let writer = open(&log_dir, Disk::default(), sync);
            let found = times(writer.folder());
            let vouched = usize::try_from(vouched.unwrap_or_default()).unwrap();
            // A cut is checkpointed after it, as Kafka does it: what the checkpoint says was there once.
            assert!(
                vouched <= most.max(found.len()),
                "{sync:?}, step {step} of {}: {vouched} by the checkpoint, {most} were safe, {found:?} found",
                history.len()
            );
            assert!(
                found.starts_with(safe),
                "{sync:?}, step {step} of {}: {safe:?} were safe, {found:?} found",
                history.len()
            );
            writer.close(NOW_MS).unwrap();
        }
    }
}

/// Files that a truncation put aside do not appear again under their old names, whatever the policy.
#[test]
fn what_was_cut_does_not_come_back() {
    for fully in [false, true] {
        let root = work_folder();
        let device = Device::over(root.path(), &[]);
        let mut driver = Driver {
            writer: open(&root.path().join("data"), device.disk(), SyncPolicy::Never),
            device: Arc::clone(&device),
            times: Vec::new(),
            next: NOW_MS,
        };
        driver.append(12);
        driver.writer.flush(NOW_MS).unwrap();
        if fully {
            let log = driver.writer.log_mut();
            log.truncate_fully_and_start_at(100, None, NOW_MS).unwrap();
        } else {
            driver.writer.log_mut().truncate_to(3, NOW_MS).unwrap();
        }
        let live = |files: Files| {
            let names = files.into_keys();
            names
                .filter(|path| path.extension().is_some_and(|end| end == "log"))
                .collect::<Vec<_>>()
        };
        assert_eq!(live(device.left()), live(device.actual()), "{fully}");
        driver.writer.close(NOW_MS).unwrap();
    }
}

/// After an unclean stop, data may be in the files alone; what recovery keeps of it is on the device when it returns.
#[test]
fn what_a_recovery_lets_stand_is_there() {
    let mut stood = 0;
    for case in log_cases::cases("recover") {
        let root = work_folder();
        let log_dir = root.path().join("data");
        case.write_before(&log_dir);
        let _ = fs::remove_file(log_dir.join(CLEAN_SHUTDOWN));
        let device = Device::over(root.path(), &[]);
        device.held.lock().unwrap().bytes.clear();
        let options = RecoverySettings {
            clean: Some(false),
            recovery_point: Some(0),
            ..recovery::options(&case, device.disk())
        };
        if recover(&log_dir, &options).is_err() {
            continue;
        }
        let (left, actual) = (device.left(), device.actual());
        let is_live = |path: &&PathBuf| {
            let end = path.extension().and_then(|end| end.to_str());
            // Of another spelling of its name Kafka reads nothing.
            path.file_stem().unwrap().len() == 20
                && path.parent().unwrap().ends_with(case.partition_folder())
                && matches!(end, Some("log" | "index" | "timeindex" | "txnindex"))
        };
        for path in actual.keys().filter(|path| is_live(path)) {
            assert_eq!(
                left.get(path),
                actual.get(path),
                "{}: {}",
                case.name,
                path.display()
            );
            stood += 1;
        }
    }
    assert!(stood > 100, "{stood}");
}

/// All of what recovery leaves is on the device when it returns; the marker is there neither too long nor too early.
#[test]
fn what_a_recovery_leaves_is_there() {
    for case in log_cases::cases("recover") {
        for (on_loss, into) in [
            (OnLoss::AsKafka, false),
            (OnLoss::AsKafka, true),
            (OnLoss::Salvage, false),
        ] {
            let root = work_folder();
            let log_dir = root.path().join("data");
            case.write_before(&log_dir);
            fs::create_dir_all(log_dir.join(case.partition_folder())).unwrap();
            // As if there had been a clean stop, where a case is not about that.
            fs::write(log_dir.join(CLEAN_SHUTDOWN), "").unwrap();
            fs::write(log_dir.join(META_PROPERTIES), "version=1\n").unwrap();
            let device = Device::over(root.path(), &[]);
            let options = RecoverySettings {
                on_loss,
                out: into.then(|| root.path().join("out/data")),
                ..recovery::options(&case, device.disk())
            };
            let _ = recover(&log_dir, &options);
            let context = format!("{}, {on_loss:?}, {into}", case.name);
            assert_eq!(device.unsynced(), [""; 0], "{context}");
            assert_eq!(*device.lies.lock().unwrap(), [""; 0], "{context}");
        }
    }
}
