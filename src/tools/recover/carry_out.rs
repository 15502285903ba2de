//! Carrying plans out: in place, or into a new directory.

use std::path::Path;

use super::beside::CopiedFiles;
use super::job::RecoveryJob;
use super::options::RecoverySettings;
use super::planned::Planned;
use crate::error::Result;
use crate::io::atomic;
use crate::io::folder::DiskFolder;
use crate::log::dir::{CLEAN_SHUTDOWN, folder_name, read_parsed};
use crate::segment::files::free_segment_room;

/// The bytes of the log dir's marker, where they will still be true.
pub(super) fn marker_to_keep(
    log_dir: &Path,
    is_of_log_dir: bool,
    planned: &[Planned],
    options: &RecoverySettings,
) -> Result<Option<Vec<u8>>> {
    let is_whole = planned.iter().all(|each| each.report.bytes_cut() == 0);
    if !is_of_log_dir || !is_whole || options.clean == Some(false) {
        return Ok(None);
    }
    let path = log_dir.join(CLEAN_SHUTDOWN);
    read_parsed(&path, |marker| Ok(marker.to_vec()))
}

pub(super) fn write_marker(
    marker: Option<Vec<u8>>,
    log_dir: &Path,
    options: &RecoverySettings,
) -> Result<()> {
    marker.map_or(Ok(()), |marker| {
        atomic::replace(&options.disk, &log_dir.join(CLEAN_SHUTDOWN), &marker)
    })
}

pub(super) fn in_place(
    log_dir: &Path,
    is_log_dir: bool,
    planned: &[Planned],
    job: RecoveryJob<'_>,
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

/// Writes partitions, and what is copied beside them.
pub(super) fn into(
    path: &Path,
    out: &Path,
    planned: &[Planned],
    beside: &CopiedFiles,
    job: RecoveryJob<'_>,
    makes_log_dir: bool,
) -> Result<()> {
    let disk = &job.options.disk;
    disk.create_folders(out)?;
    for planned in planned {
        let name = makes_log_dir.then(|| folder_name(&planned.partition.path));
        let to = name.map_or_else(|| out.to_path_buf(), |name| out.join(name));
        planned.with_plan(job, |plan| match job.steps {
            Some(steps) => steps.write(&planned.partition, plan, disk, &to),
            None => plan.write_to(disk, &to),
        })?;
    }
    beside.copy(disk, path, out)?;
    disk.sync_folder(out)
}
