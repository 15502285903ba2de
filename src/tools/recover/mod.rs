//! Recovery of a log dir or a partition folder after a crash, as at a broker's start (`LogManager.loadLogs`).
//!
//! | module | what |
//! |---|---|
//! | `options`, `job` | the options, and the steps of other tools |
//! | `source` | the source at a path |
//! | `planned` | the plan for each partition |
//! | `refused` | errors of the partitions that are not recovered |
//! | `carry_out` | carrying out the plans, in place or elsewhere |
//! | `beside` | other files of the source: copied, or left out |
//! | `unwritten` | a new directory as it would be, for the next step of a dry run |
//! | `output` | a new directory for the result: whole, or removed again |
//! | [`report`] | the report |
//!
//! Every partition is planned before the first byte is written ([`crate::load`]); the plan is then only reported (dry
//! run), carried out in place, or written into a new directory. As at a broker's start, the checkpoints of the log dir
//! say where recovery begins, and its clean-shutdown marker says that nothing needs to be checked; files that a broker
//! would unlink after `file.delete.delay.ms` are unlinked at once. Afterwards the log is closed as at a clean shutdown:
//! everything flushed, indexes trimmed, a producer snapshot at the log end, the checkpoints in line with the logs
//! ([`crate::write::checkpoints`]). For a single partition, only its own lines change in existing checkpoints.
//!
//! The marker is removed before the first change, as at a start, and restored at the end, as at a stop. But it tells
//! the controller that nothing acknowledged was lost (KIP-966): it is not created if there was none, and not restored
//! if the caller said that it is wrong, or if bytes of a log were cut.

mod beside;
mod carry_out;
mod job;
mod options;
pub(crate) mod output;
mod planned;
mod refused;
pub(crate) mod report;
mod source;
mod unwritten;

use std::path::Path;

use self::beside::CopiedFiles;
pub use self::beside::LeftOut;
use self::carry_out::{in_place, into, marker_to_keep, write_marker};
use self::job::RecoveryJob;
pub(super) use self::job::{After, AfterLoad};
pub use self::options::RecoverySettings;
use self::output::{check_named, check_out, fill};
use self::planned::plan_all;
use self::refused::RefusedPartition;
use self::report::RecoveryReport;
use self::source::RecoverySource;
pub(super) use self::source::claim;
use self::unwritten::PlannedFolder;
pub(super) use self::unwritten::Unwritten;
use crate::error::{Error, Result};
use crate::io::disk::Disk;
use crate::io::interrupt;
pub use crate::load::OnLoss;
use crate::log::dir::{DirState, PartitionFolder};
use crate::tools::progress::Stage;
use crate::write::checkpoints::Checkpoints;
use crate::write::storage::write_checkpoints;

/// Recovers a log dir, or one partition folder of it.
///
/// # Errors
/// Where a partition is refused ([`OnLoss`]): the error that Kafka stops at, or the loss; it names all that are
/// refused, and nothing has been changed then. `InvalidArgument` for an `out` that lies inside of the source, `Io`,
/// also for one that is not empty. `Interrupted` before the first change in place, or with `out` empty.
pub fn recover(path: &Path, options: &RecoverySettings) -> Result<RecoveryReport> {
    run(path, RecoveryJob::new(options))
}

/// Recovers, does something with every partition, and writes the result into a new log dir.
///
/// # Errors
/// As [`recover`], and those of the step.
pub(super) fn recover_then(
    path: &Path,
    options: &RecoverySettings,
    steps: &dyn AfterLoad,
) -> Result<RecoveryReport> {
    run(
        path,
        RecoveryJob {
            steps: Some(steps),
            ..RecoveryJob::new(options)
        },
    )
}

/// Recovers into a new log dir, and does something with it; in a dry run, with what it would be.
///
/// # Errors
/// As [`recover`], and those of the step.
pub(super) fn recover_into(
    path: &Path,
    options: &RecoverySettings,
    after: &dyn After,
) -> Result<RecoveryReport> {
    run(
        path,
        RecoveryJob {
            after: Some(after),
            ..RecoveryJob::new(options)
        },
    )
}

fn run(path: &Path, job: RecoveryJob<'_>) -> Result<RecoveryReport> {
    let options = job.options;
    let RecoverySource {
        is_log_dir,
        log_dir,
        partitions,
        skipped,
    } = RecoverySource::of(path)?;
    if let Some(out) = &options.out {
        check_out(path, out)?;
    }
    let (partitions, beside) = sort_out(path, is_log_dir, partitions, job)?;
    if job.makes_log_dir(is_log_dir) {
        partitions
            .iter()
            .try_for_each(|one| check_named(is_log_dir, one))?;
    }
    let state = DirState::read(&log_dir);
    let lock = match (&options.out, options.dry_run) {
        (None, false) => Some(claim(&log_dir, &partitions)?),
        _ => None,
    };
    let planned = plan_all(partitions, &state, job)?;
    let logs = planned::checkpointed(&planned);
    let checkpoints = if is_log_dir || options.out.is_none() {
        Checkpoints::plan(&log_dir, &logs, is_log_dir)
    } else if job.makes_log_dir(is_log_dir) {
        Checkpoints::alone(&log_dir, &logs)
    } else {
        // A partition folder alone says nothing of the folder above it.
        Checkpoints::default()
    };
    match (&options.out, &lock) {
        (None, Some(_)) => {
            let marker = marker_to_keep(&log_dir, is_log_dir, &planned, options)?;
            // What has begun in place comes to its end.
            interrupt::with_cancellation(
                || false,
                || {
                    in_place(&log_dir, is_log_dir, &planned, job)?;
                    write_checkpoints(&log_dir, &checkpoints, &options.disk)?;
                    write_marker(marker, &log_dir, options)
                },
            )?;
        }
        (Some(out), _) if !options.dry_run => {
            let makes_log_dir = job.makes_log_dir(is_log_dir);
            let marker = marker_to_keep(&log_dir, makes_log_dir, &planned, options)?;
            // Where more than loading was done the caller verifies the result, and then removes the note.
            let finishes = job.steps.is_none() && job.after.is_none();
            let sizes = planned.iter().map(|each| each.report.size);
            options.progress.begin(Stage::Written, sizes.sum());
            let work = |disk: &Disk| {
                let options = RecoverySettings {
                    disk: disk.clone(),
                    ..options.clone()
                };
                let job = RecoveryJob {
                    options: &options,
                    ..job
                };
                into(path, out, &planned, &beside, job, makes_log_dir)?;
                checkpoints.write(disk, out)?;
                write_marker(marker, out, &options)?;
                let reports: Vec<_> = planned.iter().map(|each| each.report.clone()).collect();
                job.after.map_or(Ok(()), |after| after.run(&reports, disk))
            };
            fill(path, out, &options.disk, finishes, work)?;
        }
        _ => {
            if let Some(after) = job.after {
                let makes_log_dir = job.makes_log_dir(is_log_dir);
                let marker = marker_to_keep(&log_dir, makes_log_dir, &planned, options)?;
                let partitions = planned.iter().map(|planned| {
                    let folder: PlannedFolder<'_> = Box::new(move || planned.snapshot(job));
                    (&planned.report, folder)
                });
                after.rehearse(Unwritten {
                    options,
                    partitions: partitions.collect(),
                    source: is_log_dir.then_some(path),
                    left_out: &beside.left_out,
                    checkpoints: &checkpoints,
                    has_marker: marker.is_some(),
                })?;
            }
        }
    }
    Ok(RecoveryReport {
        path: path.to_path_buf(),
        out: options.out.clone(),
        dry_run: options.dry_run,
        clean: options.clean.unwrap_or(state.clean_shutdown),
        partitions: planned.into_iter().map(|planned| planned.report).collect(),
        checkpoints: checkpoints.changes().to_vec(),
        skipped,
        left_out: beside.left_out,
    })
}

/// The partitions that are loaded, and what becomes of the rest of the source where the result goes elsewhere.
fn sort_out(
    path: &Path,
    is_log_dir: bool,
    all: Vec<PartitionFolder>,
    job: RecoveryJob<'_>,
) -> Result<(Vec<PartitionFolder>, CopiedFiles)> {
    let mut beside = CopiedFiles::new(job.steps.is_some_and(AfterLoad::erases));
    if job.options.out.is_none() {
        return Ok((all, beside));
    }
    if is_log_dir {
        let apart: Vec<_> = all.iter().map(|one| one.path.as_path()).collect();
        beside.look_beside(path, &apart)?;
    }
    let mut loaded = Vec::new();
    for partition in all {
        if let Some(reason) = job.steps.and_then(|steps| steps.why_left_out(&partition)) {
            let left = LeftOut::new(&partition.path, reason);
            beside.left_out.push(left);
        } else {
            beside.look_into(&partition.path)?;
            loaded.push(partition);
        }
    }
    beside.left_out.sort();
    Ok((loaded, beside))
}

/// Kafka's refusal, with the alternative.
pub(super) fn refusal(error: Error) -> Error {
    RefusedPartition::not_loaded(error).into()
}
