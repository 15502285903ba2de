//! Recovery of a log dir or a partition folder after a crash, as at a broker's start (`LogManager.loadLogs`).
//!
//! | module | what |
//! |---|---|
//! | here | the recovery as a value: planned, then applied in place or written elsewhere |
//! | `options` | the options |
//! | `source` | the source at a path |
//! | `planned` | the plan for each partition |
//! | `refused` | errors of the partitions that are not recovered |
//! | `beside` | other files of the source: copied, or left out |
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
mod options;
pub(crate) mod output;
mod planned;
mod refused;
pub(crate) mod report;
mod source;

use std::path::{Path, PathBuf};

use self::beside::CopiedFiles;
pub use self::options::RecoverySettings;
use self::output::{Output, check_named, check_out};
use self::planned::{PlanStep, PlannedPartition, checkpointed, plan_all};
use self::refused::RefusedPartition;
use self::report::{LeftOut, PartitionReport, RecoveryReport};
pub(super) use self::source::claim;
use self::source::{Claims, RecoverySource};
use crate::error::{Error, Result};
use crate::io::atomic;
use crate::io::disk::Disk;
use crate::io::folder::DiskFolder;
use crate::io::interrupt;
pub use crate::load::OnLoss;
use crate::load::Plan;
use crate::log::dir::{
    CLEAN_SHUTDOWN, DirState, PartitionFolder, PartitionOffsets, folder_name, read_parsed,
};
use crate::segment::files::free_segment_room;
use crate::tools::progress::Stage;
use crate::write::checkpoints::Checkpoints;
use crate::write::storage::{JOB_NOTE, refuse_pending, write_checkpoints};

/// Recovers a log dir, or one partition folder of it.
///
/// # Errors
/// Where a partition is refused ([`OnLoss`]): the error that Kafka stops at, or the loss; it names all that are
/// refused, and nothing has been changed then. `InvalidArgument` for an `out` that lies inside of the source, `Io`,
/// also for one that is not empty. `Interrupted` before the first change in place, or with `out` empty.
pub fn recover(path: &Path, settings: &RecoverySettings) -> Result<RecoveryReport> {
    let mut recovery = plan(path, settings)?;
    match &settings.out {
        _ if settings.dry_run => {}
        None => recovery.apply()?,
        Some(out) => recovery.write(out)?.finish()?,
    }
    Ok(recovery.into_report())
}

/// Plans the recovery of a log dir or a partition folder.
///
/// # Errors
/// As [`recover`].
pub(super) fn plan<'a>(path: &'a Path, settings: &'a RecoverySettings) -> Result<Recovery<'a>> {
    plan_with(path, settings, &|_, _, _| Ok(()))
}

/// As [`plan`], with another step on each log before it is closed.
///
/// # Errors
/// As [`recover`], and those of the step.
pub(super) fn plan_with<'a>(
    path: &'a Path,
    settings: &'a RecoverySettings,
    step: &'a PlanStep<'a>,
) -> Result<Recovery<'a>> {
    let source = RecoverySource::of(path)?;
    if let Some(out) = &settings.out {
        check_out(path, out)?;
    }
    let (partitions, copied) = sort_out(path, source.is_log_dir, source.partitions, settings)?;
    let makes_log_dir = settings.out.is_some() && (source.is_log_dir || settings.is_step);
    if makes_log_dir {
        partitions
            .iter()
            .try_for_each(|one| check_named(source.is_log_dir, one))?;
    }
    let state = DirState::read(&source.log_dir);
    let claims = match (&settings.out, settings.dry_run) {
        (None, false) => Some(claim(&source.log_dir, &partitions)?),
        _ => None,
    };
    let partitions = plan_all(partitions, &state, settings, step)?;
    let logs = checkpointed(&partitions);
    let checkpoints = if source.is_log_dir || settings.out.is_none() {
        Checkpoints::plan(&source.log_dir, &logs, source.is_log_dir)
    } else if makes_log_dir {
        Checkpoints::alone(&source.log_dir, &logs)
    } else {
        // A partition folder alone says nothing of the folder above it.
        Checkpoints::default()
    };
    Ok(Recovery {
        path,
        settings,
        step,
        is_log_dir: source.is_log_dir,
        makes_log_dir,
        log_dir: source.log_dir,
        skipped: source.skipped,
        is_clean: settings.clean.unwrap_or(state.clean_shutdown),
        partitions,
        copied,
        checkpoints,
        _claims: claims,
    })
}

/// A log dir or a partition folder as recovery leaves it. Nothing is written before [`Recovery::apply`] or
/// [`Recovery::write`].
pub(super) struct Recovery<'a> {
    path: &'a Path,
    settings: &'a RecoverySettings,
    step: &'a PlanStep<'a>,
    is_log_dir: bool,
    /// The result is a log dir in another place.
    makes_log_dir: bool,
    log_dir: PathBuf,
    skipped: Vec<PathBuf>,
    /// The broker had stopped cleanly.
    is_clean: bool,
    partitions: Vec<PlannedPartition>,
    copied: CopiedFiles,
    checkpoints: Checkpoints,
    _claims: Option<Claims>,
}

impl<'a> Recovery<'a> {
    /// Reports of the partitions, by topic and number.
    pub(super) fn reports(&self) -> impl Iterator<Item = &PartitionReport> {
        self.partitions.iter().map(|planned| &planned.report)
    }

    /// Takes the plan of the partition with this number; one that took too much memory is made again.
    ///
    /// # Errors
    /// As [`plan`].
    pub(super) fn take_plan(&mut self, number: usize) -> Result<Plan> {
        let planned = self.partitions.get_mut(number);
        let planned = planned.ok_or_else(|| Error::internal("no such partition"))?;
        Ok(planned.take_plan(self.settings, self.step)?)
    }

    /// Refuses, as opening the partitions of the result for writing does.
    ///
    /// # Errors
    /// `Refused` for the note of a job that is copied; `Io`.
    pub(super) fn ensure_no_job(&self) -> Result<()> {
        self.copied_file(JOB_NOTE)
            .map_or(Ok(()), |_| refuse_pending(self.path, None))
    }

    /// Lines that one of the checkpoints will have in the result.
    ///
    /// # Errors
    /// `CorruptIndex` where they cannot be read; `Io`.
    pub(super) fn checkpoint(&self, file: &str) -> Result<PartitionOffsets> {
        let copied = self.copied_file(file);
        self.checkpoints.lines_or_in(file, copied.as_deref())
    }

    /// Path of the file of this name that is copied into the result, there or not.
    fn copied_file(&self, name: &str) -> Option<PathBuf> {
        let path = self.is_log_dir.then(|| self.path.join(name))?;
        let is_left = self.copied.left_out.iter().any(|left| left.path == path);
        (!is_left).then_some(path)
    }

    /// The bytes of the marker of a clean shutdown, if it will still be true; `is_whole` says that its log dir is
    /// recovered.
    fn marker_to_keep(&self, is_whole: bool) -> Result<Option<Vec<u8>>> {
        let is_uncut = self.reports().all(|report| report.bytes_cut == 0);
        if !is_whole || !is_uncut || self.settings.clean == Some(false) {
            return Ok(None);
        }
        let path = self.log_dir.join(CLEAN_SHUTDOWN);
        read_parsed(&path, |marker| Ok(marker.to_vec()))
    }

    /// Recovers in place.
    ///
    /// # Errors
    /// `Io`.
    fn apply(&mut self) -> Result<()> {
        let marker = self.marker_to_keep(self.is_log_dir)?;
        // A repair in place is not interrupted between partitions.
        interrupt::with_cancellation(|| false, || self.apply_all(marker))
    }

    fn apply_all(&mut self, marker: Option<Vec<u8>>) -> Result<()> {
        let disk = &self.settings.disk;
        if self.is_log_dir {
            // Before the first log is touched, as in a broker: a crash from here on leaves an unclean log dir.
            disk.remove(&self.log_dir.join(CLEAN_SHUTDOWN))?;
            disk.sync_folder(&self.log_dir)?;
        }
        for planned in &mut self.partitions {
            let plan = planned.take_plan(self.settings, self.step)?;
            plan.apply(disk)?;
            let log = plan.outcome.as_ref().ok();
            if let Some(active) = log.and_then(|log| log.segments.last()) {
                let folder = DiskFolder::new(&planned.report.folder, disk);
                free_segment_room(&folder, active.base_offset)?;
            }
            plan.flush(disk, planned.request.recovery_point)?;
        }
        write_checkpoints(&self.log_dir, &self.checkpoints, disk)?;
        write_marker(marker, &self.log_dir, disk)
    }

    /// Writes the result into a new directory.
    ///
    /// # Errors
    /// `Io`; `Interrupted`. The directory is empty then.
    pub(super) fn write(&mut self, out: &'a Path) -> Result<Output<'a>> {
        let written = self.write_with(out, |_, plan, disk, to| plan.write_to(disk, to));
        written.map(|(output, _)| output)
    }

    /// As [`Recovery::write`], with another way to write the folder of a partition; also returns what that returned.
    ///
    /// # Errors
    /// As there, and those of the writing.
    pub(super) fn write_with<T>(
        &mut self,
        out: &'a Path,
        mut write: impl FnMut(&PartitionReport, Plan, &Disk, &Path) -> Result<T>,
    ) -> Result<(Output<'a>, Vec<T>)> {
        let (settings, makes_log_dir) = (self.settings, self.makes_log_dir);
        let marker = self.marker_to_keep(makes_log_dir)?;
        let sizes = self.reports().map(|report| report.size);
        settings.progress.begin(Stage::Written, sizes.sum());
        let output = Output::begin(self.path, out, &settings.disk, settings.is_step)?;
        let disk = output.disk();
        let mut written = Vec::with_capacity(self.partitions.len());
        for planned in &mut self.partitions {
            let plan = planned.take_plan(settings, self.step)?;
            let name = makes_log_dir.then(|| folder_name(&planned.report.folder));
            let to = name.map_or_else(|| out.to_path_buf(), |name| out.join(name));
            written.push(write(&planned.report, plan, disk, &to)?);
        }
        self.copied.copy(disk, self.path, out)?;
        disk.sync_folder(out)?;
        self.checkpoints.write(disk, out)?;
        write_marker(marker, out, disk)?;
        Ok((output, written))
    }

    /// Report of what was done, or would be.
    pub(super) fn into_report(self) -> RecoveryReport {
        let partitions = self.partitions.into_iter();
        RecoveryReport {
            path: self.path.to_path_buf(),
            out: self.settings.out.clone(),
            dry_run: self.settings.dry_run,
            clean: self.is_clean,
            partitions: partitions.map(|planned| planned.report).collect(),
            checkpoints: self.checkpoints.changes().to_vec(),
            skipped: self.skipped,
            left_out: self.copied.left_out,
        }
    }
}

fn write_marker(marker: Option<Vec<u8>>, log_dir: &Path, disk: &Disk) -> Result<()> {
    marker.map_or(Ok(()), |marker| {
        atomic::replace(disk, &log_dir.join(CLEAN_SHUTDOWN), &marker)
    })
}

/// The partitions that are loaded, and what becomes of the rest of the source where the result goes elsewhere.
fn sort_out(
    path: &Path,
    is_log_dir: bool,
    all: Vec<PartitionFolder>,
    settings: &RecoverySettings,
) -> Result<(Vec<PartitionFolder>, CopiedFiles)> {
    let mut copied = CopiedFiles::new(settings.erases);
    if settings.out.is_none() {
        return Ok((all, copied));
    }
    if is_log_dir {
        let apart: Vec<_> = all.iter().map(|one| one.path.as_path()).collect();
        copied.look_beside(path, &apart)?;
    }
    let mut loaded = Vec::new();
    for partition in all {
        if let Some(reason) = settings.left_out.get(&folder_name(&partition.path)) {
            copied.left_out.push(LeftOut::new(&partition.path, reason));
        } else {
            copied.look_into(&partition.path)?;
            loaded.push(partition);
        }
    }
    copied.left_out.sort();
    Ok((loaded, copied))
}

/// Kafka's refusal, with the alternative.
pub(super) fn refusal(error: Error) -> Error {
    RefusedPartition::not_loaded(error).into()
}
