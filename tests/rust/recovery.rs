//! Recovery between any two steps, over any bytes, of many partitions; indexes rebuilt for a version.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kafkalog::internal::error::Error;
use kafkalog::internal::io::disk::{Disk, Failure, Faults, Step};
use kafkalog::internal::io::lock::LogDirLock;
use kafkalog::internal::load::{LoadRequest, Note, plan};
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::log::partition::PartitionLog;
use kafkalog::internal::tools::rebuild::{Level, RebuildOptions, rebuild_indexes};
use kafkalog::internal::tools::recover::{OnLoss, RecoverOptions, recover};
use kafkalog::internal::write::{LeaderAppend, WritableLog, WriteOptions};

use crate::common::{Chance, Head, batch, is_slow, one_record};
use crate::log_cases::{self, Case};

const NOW_MS: i64 = 1_700_000_010_000;

/// Lets so many steps through.
#[derive(Debug, Default)]
pub(crate) struct After {
    allowed: usize,
    taken: AtomicUsize,
}

impl After {
    pub(crate) fn new(allowed: usize) -> Self {
        Self {
            allowed,
            ..Self::default()
        }
    }
}

impl Faults for After {
    fn before(&self, _step: Step, _path: &Path) -> Result<(), Failure> {
        if self.taken.fetch_add(1, Ordering::Relaxed) < self.allowed {
            return Ok(());
        }
        Err(Failure {
            written: 5,
            error: io::Error::from_raw_os_error(5),
        })
    }
}

pub(crate) fn options(case: &Case, disk: Disk) -> RecoverOptions {
    RecoverOptions {
        clean: case.config["clean"].as_bool(),
        recovery_point: case.config["recovery_point"].as_i64(),
        log_start_offset: case.config["log_start_offset"].as_i64(),
        config: log_cases::config(case),
        on_loss: OnLoss::AsKafka,
        disk,
        ..RecoverOptions::at(case.now_ms())
    }
}

/// A log of several segments that lost all but its `.log` files, after an unclean stop.
pub(crate) fn only_log_files() -> Case {
    let is_it = |case: &Case| {
        let (before, partition) = (case.before(), format!("{}/", case.partition_folder()));
        let files = || before.keys().filter(|name| name.starts_with(&partition));
        let is_clean = case.config["clean"] != false;
        !is_clean
            && files().count() > 1
            && files().all(|name| crate::common::has_extension(name, "log"))
    };
    let found = log_cases::cases("recover").into_iter().find(is_it);
    found.unwrap()
}

/// The bytes of the `.log` files, which is what a crash may not cost.
fn logs(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = crate::common::files(folder, ".log").into_iter();
    files
        .map(|path| {
            let name = path.strip_prefix(folder).unwrap().to_path_buf();
            (name, fs::read(path).unwrap())
        })
        .collect()
}

#[test]
fn a_crash_between_any_two_steps_comes_to_the_same_end() {
    for on_loss in [OnLoss::AsKafka, OnLoss::Salvage] {
        for case in log_cases::cases("recover") {
            let run = |folder: &Path, disk: Disk| {
                let options = RecoverOptions {
                    on_loss,
                    // What a crash leaves is never clean.
                    clean: Some(false),
                    ..options(&case, disk)
                };
                recover(folder, &options)
            };
            let whole = log_cases::work_folder();
            case.write_before(whole.path());
            fs::create_dir_all(whole.path().join(case.partition_folder())).unwrap();
            let counter = Arc::new(After::new(usize::MAX));
            if run(
                whole.path(),
                Disk::with_faults(Arc::<After>::clone(&counter)),
            )
            .is_err()
            {
                continue;
            }
            let steps = counter.taken.load(Ordering::Relaxed);
            let mut chance = Chance(steps as u64);
            let tried = if is_slow() { steps } else { 3 };
            for n in 0..tried {
                let allowed = if is_slow() { n } else { chance.below(steps) };
                let work = log_cases::work_folder();
                case.write_before(work.path());
                fs::create_dir_all(work.path().join(case.partition_folder())).unwrap();
                let faults = Arc::new(After::new(allowed));
                let crashed = run(work.path(), Disk::with_faults(faults));
                assert!(matches!(crashed, Err(Error::Io { .. })), "{}", case.name);
                run(work.path(), Disk::default()).unwrap_or_else(|e| panic!("{}: {e}", case.name));
                let context = format!("{}, {on_loss:?}, step {allowed} of {steps}", case.name);
                assert_eq!(logs(whole.path()), logs(work.path()), "{context}");
            }
        }
    }
}

fn request(chance: &mut Chance) -> LoadRequest {
    LoadRequest {
        clean: chance.below(3) == 0,
        recovery_point: *chance.pick(&[0, 0, 17, 24, 27, 1000, -1, i64::MAX]),
        log_start_offset: *chance.pick(&[0, 0, 0, 21, 27, 50]),
        now_ms: NOW_MS,
        producer_id_expiration_ms: 86_400_000,
    }
}

/// Bytes changed in any file, files cut, lengthened, renamed to what they are not.
fn mutate(chance: &mut Chance, folder: &Path) {
    let files = crate::common::files(folder, "");
    let Some(path) = (!files.is_empty()).then(|| chance.pick(&files).clone()) else {
        return;
    };
    let mut data = fs::read(&path).unwrap();
    let at = chance.below(data.len() + 1);
    match chance.below(7) {
        0 => data.truncate(at),
        1 => data.extend(std::iter::repeat_n(0, chance.below(600))),
        2 => (0..chance.below(40)).for_each(|n| {
            if let Some(byte) = data.get_mut(at + n) {
                *byte = chance.byte();
            }
        }),
        3 | 4 => {
            if let Some(byte) = data.get_mut(at) {
                *byte ^= 1 << chance.below(8);
            }
        }
        5 => {
            let name = path.file_name().unwrap().to_string_lossy();
            let stem = name.split('.').next().unwrap();
            let ends = [
                "log",
                "index",
                "timeindex",
                "txnindex",
                "snapshot",
                "log.swap",
                "index.swap",
                "log.cleaned",
                "log.deleted",
                "snapshot.swap",
            ];
            let stems = [
                stem,
                "00000000000000000009",
                "00000000000000000030",
                "24",
                "x",
                "",
            ];
            let name = format!("{}.{}", chance.pick(&stems), chance.pick(&ends));
            let _ = fs::rename(&path, path.with_file_name(name));
            return;
        }
        _ => {
            fs::remove_file(&path).unwrap();
            return;
        }
    }
    fs::write(&path, data).unwrap();
}

#[test]
fn any_folder_is_loaded_or_refused_and_once_is_enough() {
    let rounds = if is_slow() { 100_000 } else { 3_000 };
    let config = LogConfig::from_pairs([
        ("internal.segment.bytes", "900"),
        ("segment.index.bytes", "480"),
        ("index.interval.bytes", "180"),
    ])
    .unwrap();
    let bases = fs::read_dir(log_cases::root().join("recover/_base")).unwrap();
    let mut bases: Vec<PathBuf> = bases.map(|entry| entry.unwrap().path()).collect();
    bases.sort();
    let mut loaded = 0;
    for round in 0..rounds {
        let mut chance = Chance(round);
        let work = log_cases::work_folder();
        let base: &PathBuf = chance.pick(&bases);
        log_cases::copy(base, work.path());
        let folder = work.path().join("orders-0");
        for _ in 0..=chance.below(4) {
            mutate(&mut chance, &folder);
        }
        let before = log_cases::tree(&folder);
        let request = request(&mut chance);
        let mut first = plan(&folder, &config, request).unwrap();
        first.close().unwrap();
        assert_eq!(
            log_cases::compare(&before, &log_cases::tree(&folder)),
            [""; 0],
            "round {round}"
        );
        let options = RecoverOptions {
            clean: Some(request.clean),
            recovery_point: Some(request.recovery_point),
            log_start_offset: Some(request.log_start_offset),
            config: config.clone(),
            on_loss: *chance.pick(&[OnLoss::AsKafka, OnLoss::Refuse, OnLoss::Salvage]),
            ..RecoverOptions::at(NOW_MS)
        };
        let Ok(report) = recover(&folder, &options) else {
            assert_eq!(
                log_cases::compare(&before, &log_cases::tree(&folder)),
                [""; 0],
                "round {round}"
            );
            continue;
        };
        loaded += 1;
        let once = log_cases::tree(&folder);
        // Of a name without zeros in front Kafka makes an empty segment at every start (`LogFileUtils.offsetFromFileName`,
        // `LogSegment.open`); what a first start deletes may be there again after a second.
        let is_named_anew = folder.join("24.log").exists();
        if options.on_loss == OnLoss::Salvage || (!request.clean && !is_named_anew) {
            let again = recover(&folder, &options).unwrap_or_else(|e| panic!("round {round}: {e}"));
            let (a, b) = (&report.partitions[0], &again.partitions[0]);
            assert_eq!(
                (a.log_start_offset, a.log_end_offset),
                (b.log_start_offset, b.log_end_offset),
                "round {round}"
            );
            // Of what is made from the batches, Kafka leaves some for the next time: an index whose log went in the first,
            // what snapshots tell of producers, the epoch of an empty log. The batches are settled at once.
            let mut differences = log_cases::compare(&once, &log_cases::tree(&folder));
            differences.retain(|line| line.contains(".log:"));
            assert_eq!(differences, [""; 0], "round {round}");
        }
    }
    assert!(loaded > rounds / 3, "{loaded} of {rounds} were loaded");
}

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
    let mut options = RecoverOptions::at(NOW_MS);
    let report = recover(work.path(), &options).unwrap();
    let ends: Vec<_> = report
        .partitions
        .iter()
        .map(|p| (p.recovered_from, p.log_end_offset))
        .collect();
    // The first by its checkpoint; the second, which has none, from the beginning.
    assert_eq!(ends, [(27, 27), (0, 26)]);
    assert_eq!(report.skipped.len(), 1);
    assert_eq!(
        (report.clean, report.partitions[1].bytes_cut()),
        (false, 99)
    );
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
    recover(work.path(), &RecoverOptions::at(NOW_MS)).unwrap();
    for name in names {
        let text = fs::read_to_string(work.path().join(name)).unwrap();
        assert!(
            text.contains("orders 0 ") && !text.contains("orders 1 "),
            "{name}: {text}"
        );
    }
}

/// By whatever path: through a link, and with dots that lead out again.
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
        let recovering = RecoverOptions {
            out: Some(out.clone()),
            ..RecoverOptions::at(NOW_MS)
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
    let options = RecoverOptions {
        out: Some(below.join("../beside")),
        ..RecoverOptions::at(NOW_MS)
    };
    recover(&source, &options).unwrap();
    assert!(elsewhere.path().join("beside").is_dir());
}

#[test]
fn nobody_recovers_under_a_writer() {
    let work = log_dir();
    let lock = LogDirLock::acquire(work.path()).unwrap();
    let claim = lock.claim("orders-1").unwrap();
    let options = RecoverOptions::at(NOW_MS);
    assert!(matches!(
        recover(work.path(), &options),
        Err(Error::LogLocked { .. })
    ));
    recover(&work.path().join("orders-0"), &options).unwrap();
    drop(claim);
    recover(work.path(), &options).unwrap();
}

/// Steps as they were taken.
#[derive(Debug, Default)]
struct Watch(Mutex<Vec<Step>>);

impl Faults for Watch {
    fn before(&self, step: Step, _path: &Path) -> Result<(), Failure> {
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
    // None has an index, so that each was looked at twice.
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
    assert_eq!(*watch.0.lock().unwrap(), [Step::SyncFolder]);
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

/// Many windows of it, read by several threads: batches that lie across their ends, ones that are larger than a window,
/// and ones that no thread takes into memory.
/// The first batch after each opening gets no index entry, so an index that is filled in several openings has room for fewer
/// entries than recovery wants. Kafka fails there ("Attempt to append to a full index").
#[test]
fn a_log_whose_rebuilt_index_is_full_opens_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = LogConfig {
        index_interval_bytes: 0,
        segment_index_bytes: 360,
        ..LogConfig::default()
    };
    let mut request = LoadRequest {
        clean: true,
        recovery_point: 0,
        log_start_offset: 0,
        now_ms: NOW_MS,
        producer_id_expiration_ms: i64::MAX,
    };
    let open = |config: &LogConfig, request| {
        WritableLog::open(folder.path(), WriteOptions::new(config.clone()), request).unwrap()
    };
    let append = |log: &mut WritableLog, count: i64| {
        for _ in 0..count {
            let at = log.log_end_offset();
            let mut batch = one_record(0, 0, NOW_MS + at);
            log.append_as_leader(&mut batch, &LeaderAppend::default(), NOW_MS)
                .unwrap();
        }
    };
    // Room for 29 entries, as a time index keeps its last slot.
    for _ in 0..4 {
        let mut log = open(&config, request);
        append(&mut log, 8);
        request.recovery_point = log.close(NOW_MS).unwrap();
    }
    let mut log = open(&config, request);
    append(&mut log, 2);
    assert_eq!((log.segments().len(), log.log_end_offset()), (1, 34));
    log.crash();

    let unclean = LoadRequest {
        clean: false,
        recovery_point: 0,
        ..request
    };
    let planned = plan(folder.path(), &config, unclean).unwrap();
    let full = |note: &&Note| matches!(note, Note::IndexFull { base_offset: 0, .. });
    assert_eq!(planned.notes.iter().filter(full).count(), 1);
    let mut log = open(&config, unclean);
    assert_eq!((log.segments().len(), log.log_end_offset()), (1, 34));
    append(&mut log, 1);
    let bases: Vec<i64> = log.segments().iter().map(|s| s.base_offset).collect();
    assert_eq!(bases, [0, 34], "the next append begins a segment");
    append(&mut log, 40);
    log.close(NOW_MS).unwrap();
    let index = fs::read(folder.path().join("00000000000000000000.index")).unwrap();
    let times = fs::read(folder.path().join("00000000000000000000.timeindex")).unwrap();
    assert_eq!((index.len(), times.len()), (29 * 8, 30 * 12));
    // The last time entry names the largest timestamp.
    let last = [(NOW_MS + 33).to_be_bytes().as_slice(), &33i32.to_be_bytes()].concat();
    assert_eq!(times[29 * 12..], last);

    // A clean stop, and less room than entries.
    config.segment_index_bytes = 120;
    let clean = LoadRequest {
        recovery_point: 75,
        ..request
    };
    let mut log = open(&config, clean);
    assert_eq!(log.log_end_offset(), 75);
    let count = log.segments().len();
    append(&mut log, 1);
    assert_eq!(log.segments().len(), count + 1);
    log.close(NOW_MS).unwrap();
    let log = PartitionLog::open(folder.path()).unwrap();
    assert_eq!(log.log_end_offset().unwrap(), 76);
}

#[test]
fn a_large_log_ends_at_its_first_fault() {
    let work = log_cases::work_folder();
    let folder = work.path().join("orders-0");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("00000000000000000000.log");
    let request = LoadRequest {
        clean: false,
        recovery_point: 0,
        log_start_offset: 0,
        now_ms: NOW_MS,
        producer_id_expiration_ms: 86_400_000,
    };
    for round in 0..24 {
        let mut chance = Chance(round);
        let (mut log, mut starts) = (Vec::new(), Vec::new());
        while log.len() < 6 << 20 {
            let offset = i64::try_from(starts.len()).unwrap();
            let size = match chance.below(100) {
                0 if round % 5 == 4 => 5_000_000,
                0 => 1_500_000,
                1..10 => chance.below(300_000),
                _ => chance.below(4_000),
            };
            let head = Head {
                base_offset: offset,
                attributes: 0,
                last_offset_delta: 0,
                base_timestamp: NOW_MS,
                max_timestamp: NOW_MS,
                count: 1,
            };
            let noise: Vec<u8> = (0..size).map(|_| chance.byte()).collect();
            starts.push(log.len());
            log.extend(batch(head, &noise));
        }
        let spoilt = chance.below(starts.len());
        let behind = starts.get(spoilt + 1).copied().unwrap_or(log.len());
        let at = chance.below(behind - starts[spoilt] - 21) + 21 + starts[spoilt];
        let bit = 1 << chance.below(8);
        match round % 4 {
            0 => {}
            1 => log.truncate(at),
            2 => log[at] ^= bit,
            // The length, so that nobody knows where the next batch begins.
            _ => log[starts[spoilt] + 8 + chance.below(4)] ^= bit,
        }
        let expected = if round % 4 == 0 { starts.len() } else { spoilt };
        fs::write(&path, &log).unwrap();
        let loaded = plan(&folder, &LogConfig::default(), request).unwrap();
        let end = loaded.outcome.unwrap().log_end_offset;
        assert_eq!(end, i64::try_from(expected).unwrap(), "round {round}");
    }
}
