//! Carrying plans out: in place, or into a new directory.

use std::fs;
use std::path::Path;

use super::job::Job;
use super::options::RecoverOptions;
use super::output::copy;
use super::planned::Planned;
use crate::error::{Error, Result};
use crate::io::atomic;
use crate::io::folder::DiskFolder;
use crate::io::lock::LOCK_FILE;
use crate::log::dir::{CLEAN_SHUTDOWN, META_PROPERTIES, PartitionFolder, folder_name};
use crate::log::output::UNFINISHED;
use crate::segment::files::free_segment_room;

/// The bytes of the log dir's marker, where they will still be true.
pub(super) fn marker_to_keep(
    log_dir: &Path,
    is_of_log_dir: bool,
    planned: &[Planned],
    options: &RecoverOptions,
) -> Result<Option<Vec<u8>>> {
    let is_whole = planned.iter().all(|each| each.report.bytes_cut() == 0);
    if !is_of_log_dir || !is_whole || options.clean == Some(false) {
        return Ok(None);
    }
    let path = log_dir.join(CLEAN_SHUTDOWN);
    match fs::read(&path) {
        Ok(marker) => Ok(Some(marker)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io(&path)(e)),
    }
}

pub(super) fn write_marker(
    marker: Option<Vec<u8>>,
    log_dir: &Path,
    options: &RecoverOptions,
) -> Result<()> {
    marker.map_or(Ok(()), |marker| {
        atomic::replace(&options.disk, &log_dir.join(CLEAN_SHUTDOWN), &marker)
    })
}

pub(super) fn in_place(
    log_dir: &Path,
    is_log_dir: bool,
    planned: &[Planned],
    job: Job<'_>,
) -> Result<()> {
    let disk = &job.options.disk;
    if is_log_dir {
        // Before the first log is touched, as in a broker: a crash from here on leaves an unclean log dir.
        disk.remove(&log_dir.join(CLEAN_SHUTDOWN))?;
        disk.sync_folder(log_dir)?;
    }
    planned.iter().try_for_each(|planned| {
        planned.with_plan(job, |plan| {
            plan.apply(disk)?;
            let log = plan.outcome.as_ref().ok();
            if let Some(active) = log.and_then(|log| log.segments.last()) {
                let folder = DiskFolder::new(&planned.report.folder, disk);
                free_segment_room(&folder, active.base_offset)?;
            }
            plan.flush(disk, planned.request.recovery_point)
        })
    })
}

pub(super) fn into(
    path: &Path,
    is_log_dir: bool,
    out: &Path,
    planned: &[Planned],
    left_out: &[PartitionFolder],
    job: Job<'_>,
) -> Result<()> {
    let disk = &job.options.disk;
    if !is_log_dir {
        return planned
            .iter()
            .try_for_each(|planned| write_partition(job, planned, out));
    }
    disk.create_folders(out)?;
    let entries = fs::read_dir(path).map_err(Error::io(path))?;
    let mut entries = entries
        .collect::<std::io::Result<Vec<_>>>()
        .map_err(Error::io(path))?;
    // A broker takes no log dir for its own without this, should we be killed before the end.
    entries.sort_by_key(|entry| entry.file_name() == META_PROPERTIES);
    for entry in entries {
        let (from, name) = (entry.path(), entry.file_name());
        let is_left_out = [CLEAN_SHUTDOWN, LOCK_FILE, UNFINISHED]
            .iter()
            .any(|own| name == *own)
            || left_out.iter().any(|partition| partition.path == from);
        let one = planned.iter().find(|planned| planned.report.folder == from);
        match one {
            Some(one) => write_partition(job, one, &out.join(&name))?,
            None if !is_left_out => copy(disk, &from, &out.join(&name))?,
            None => {}
        }
    }
    disk.sync_folder(out)
}

/// Writes partitions into a log dir of their own.
pub(super) fn into_new_log_dir(out: &Path, planned: &[Planned], job: Job<'_>) -> Result<()> {
    let disk = &job.options.disk;
    disk.create_folders(out)?;
    for planned in planned {
        let name = folder_name(&planned.partition.path);
        write_partition(job, planned, &out.join(name))?;
    }
    disk.sync_folder(out)
}

/// Writes a partition folder as it will be, and what else is in it.
fn write_partition(job: Job<'_>, planned: &Planned, to: &Path) -> Result<()> {
    let disk = &job.options.disk;
    planned.with_plan(job, |plan| match job.steps {
        Some(steps) => steps.write(&planned.partition, plan, disk, to),
        None => plan.write_to(disk, to),
    })?;
    let from = &planned.report.folder;
    for entry in fs::read_dir(from).map_err(Error::io(from))? {
        let path = entry.map_err(Error::io(from))?.path();
        if let (true, Some(name)) = (path.is_dir(), path.file_name()) {
            copy(disk, &path, &to.join(name))?;
        }
    }
    Ok(())
}
