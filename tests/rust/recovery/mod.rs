//! Recovery between any two steps, over any bytes.
//!
//! | module | what |
//! |---|---|
//! | `loading` | logs that are long, or have more entries than their indexes have room for |
//! | `log_dirs` | a whole log dir, and where the result may lie |
//! | `rebuild` | indexes rebuilt for a version |

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kafkalog::internal::error::Error;
use kafkalog::internal::io::disk::{Disk, DiskStep, Faults, InjectedFailure};
use kafkalog::internal::load::{LoadRequest, OnLoss, plan};
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::tools::recover::{RecoverySettings, recover};

use crate::common::{Chance, is_slow, pick};
use crate::log_cases::{self, Case};

mod loading;
mod log_dirs;
mod rebuild;

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
    fn before(&self, _step: DiskStep, _path: &Path) -> Result<(), InjectedFailure> {
        if self.taken.fetch_add(1, Ordering::Relaxed) < self.allowed {
            return Ok(());
        }
        Err(InjectedFailure {
            written: 5,
            error: io::Error::from_raw_os_error(5),
        })
    }
}

pub(crate) fn options(case: &Case, disk: Disk) -> RecoverySettings {
    RecoverySettings {
        clean: case.config["clean"].as_bool(),
        recovery_point: case.config["recovery_point"].as_i64(),
        log_start_offset: case.config["log_start_offset"].as_i64(),
        config: log_cases::config(case),
        on_loss: OnLoss::AsKafka,
        disk,
        ..RecoverySettings::at(case.now_ms())
    }
}

/// Segments and indexes that a few batches fill.
pub(crate) fn small_segments() -> LogConfig {
    let pairs = [
        ("internal.segment.bytes", "900"),
        ("segment.index.bytes", "480"),
        ("index.interval.bytes", "180"),
    ];
    LogConfig::from_pairs(pairs).unwrap()
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

#[test]
fn a_crash_between_any_two_steps_comes_to_the_same_end() {
    for on_loss in [OnLoss::AsKafka, OnLoss::Salvage] {
        for case in log_cases::cases("recover") {
            let run = |folder: &Path, disk: Disk| {
                let options = RecoverySettings {
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
            let tried = pick(1, 3, steps);
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
                // The bytes of the batches, which are what a crash may not cost.
                assert_eq!(
                    log_cases::logs(whole.path()),
                    log_cases::logs(work.path()),
                    "{context}"
                );
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
    let rounds = pick(400, 1_500, 100_000);
    let config = small_segments();
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
        let mut first = plan(&folder, &config, request, OnLoss::AsKafka).unwrap();
        first.close().unwrap();
        assert_eq!(
            log_cases::compare(&before, &log_cases::tree(&folder)),
            [""; 0],
            "round {round}"
        );
        let options = RecoverySettings {
            clean: Some(request.clean),
            recovery_point: Some(request.recovery_point),
            log_start_offset: Some(request.log_start_offset),
            config: config.clone(),
            on_loss: *chance.pick(&[OnLoss::AsKafka, OnLoss::Refuse, OnLoss::Salvage]),
            ..RecoverySettings::at(NOW_MS)
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
