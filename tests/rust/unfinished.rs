//! Recovery that an interruption or a fault ends: before the first change in place, or with an empty output.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kafkalog::internal::error::Error;
use kafkalog::internal::io::disk::{Disk, DiskStep, Faults, InjectedFailure};
use kafkalog::internal::io::interrupt;
use kafkalog::internal::tools::rebuild::{RebuildOptions, rebuild_indexes};
use kafkalog::internal::tools::recover::{OnLoss, RecoverySettings, recover};

use crate::log_cases::{self, Case};
use crate::recovery::{After, only_log_files, options};

/// True if anything was written.
#[derive(Debug, Default)]
struct Begun(AtomicBool);

impl Faults for Begun {
    fn before(&self, _step: DiskStep, _path: &Path) -> Result<(), InjectedFailure> {
        self.0.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Every time somebody asks; ends the work at the `n`th.
fn asking<T>(n: usize, work: impl FnOnce() -> T) -> (T, usize) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let poll = move || count.fetch_add(1, Ordering::Relaxed) >= n;
    let done = interrupt::with_cancellation(poll, work);
    (done, asked.load(Ordering::Relaxed))
}

/// The first case in which Kafka cuts a segment that is not the last.
fn cut() -> Case {
    let is_it = |case: &Case| {
        let (before, after) = (case.before(), case.expected_tree());
        let mut logs = before
            .iter()
            .filter(|(name, _)| crate::common::has_extension(name, "log"));
        logs.next_back();
        case.event("loaded").is_some()
            && logs.any(|(name, sum)| after.get(name).is_some_and(|after| after.size < sum.size))
    };
    let found = log_cases::cases("recover").into_iter().find(is_it);
    found.unwrap()
}

/// The first case with a group of segments that compaction had not swapped in yet.
fn swapped() -> Case {
    let is_it = |case: &Case| {
        let swaps = |name: &&String| name.ends_with(".log.swap");
        case.event("loaded").is_some() && case.before().keys().filter(swaps).count() > 0
    };
    let found = log_cases::cases("recover").into_iter().find(is_it);
    found.unwrap()
}

#[test]
fn an_interruption_leaves_nothing_half_done() {
    let cases = [cut(), swapped(), only_log_files()];
    let cases = cases.iter();
    let mut interrupted = 0;
    for (case, on_loss) in cases.flat_map(|case| [(case, OnLoss::AsKafka), (case, OnLoss::Salvage)])
    {
        for (place, was_there) in [("", false), ("out", false), ("out", true)] {
            let work = log_cases::work_folder();
            let source = work.path().join("source");
            case.write_before(&source);
            let before = log_cases::tree(&source);
            let out = work.path().join("out");
            for n in 0.. {
                if was_there {
                    fs::create_dir_all(&out).unwrap();
                }
                let begun = Arc::new(Begun::default());
                let options = RecoverySettings {
                    on_loss,
                    out: (place == "out").then(|| out.clone()),
                    ..options(case, Disk::with_faults(Arc::<Begun>::clone(&begun)))
                };
                let (done, asked) = asking(n, || recover(&source, &options));
                let context = format!(
                    "{} {on_loss:?} into {place:?}, at {n} of {asked}",
                    case.name
                );
                match done {
                    Ok(_) => {
                        assert!(asked <= n, "{context}");
                        assert!(begun.0.load(Ordering::Relaxed), "{context}");
                        break;
                    }
                    Err(error) => {
                        assert!(matches!(error, Error::Interrupted), "{context}: {error}");
                    }
                }
                interrupted += 1;
                assert!(
                    place == "out" || !begun.0.load(Ordering::Relaxed),
                    "{context}"
                );
                assert_eq!(
                    log_cases::compare(&before, &log_cases::tree(&source)),
                    [""; 0],
                    "{context}"
                );
                assert_eq!(out.exists(), was_there, "{context}");
                assert_eq!(
                    crate::common::files(work.path(), "").len(),
                    crate::common::files(&source, "").len()
                );
            }
        }
    }
    assert!(interrupted > 50, "{interrupted}");
}

#[test]
fn what_fails_leaves_an_empty_output() {
    let case = &only_log_files();
    let work = log_cases::work_folder();
    let (source, out) = (work.path().join("source"), work.path().join("out"));
    case.write_before(&source);
    let folder = source.join(case.partition_folder());
    for was_there in [false, true] {
        for allowed in 0.. {
            if was_there {
                fs::create_dir_all(&out).unwrap();
            }
            let disk = || Disk::with_faults(Arc::new(After::new(allowed)));
            let recovering = RecoverySettings {
                out: Some(out.clone()),
                ..options(case, disk())
            };
            let recovered = recover(&source, &recovering);
            let is_over = recovered.is_ok();
            assert_eq!(out.exists(), is_over || was_there, "{allowed}");
            if is_over {
                fs::remove_dir_all(&out).unwrap();
                assert!(allowed > 20, "{allowed}");
                break;
            }
            assert!(crate::common::files(&out, "").is_empty(), "{allowed}");
            let rebuilding = RebuildOptions {
                out: Some(out.clone()),
                disk: disk(),
                ..RebuildOptions::at(case.now_ms())
            };
            match rebuild_indexes(&folder, &rebuilding) {
                Ok(_) => fs::remove_dir_all(&out).unwrap(),
                Err(_) => assert!(crate::common::files(&out, "").is_empty(), "{allowed}"),
            }
        }
    }
}
