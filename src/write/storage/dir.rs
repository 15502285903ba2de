//! A log dir that is open for writing: its lock, its marker, and the state shared by the writers of this process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::progress::PartitionProgress;
use crate::error::{Error, Result};
use crate::format::checkpoint::{write_clean_shutdown, write_offsets};
use crate::format::file_name::FolderState;
use crate::io::atomic;
use crate::io::disk::Disk;
use crate::io::file::read_small;
use crate::io::lock::LogDirLock;
use crate::io::threads::lock;
use crate::log::dir::{
    CLEAN_SHUTDOWN, DirState, LOG_START, LogDir, PartitionOffsets, RECOVERY_POINT, REPLICATION,
    text_limit,
};
use crate::log::output::check_log_dir;
use crate::types::TopicPartition;
use crate::write::checkpoints::Checkpoints;

/// State that this process keeps of a log dir to which it writes.
#[derive(Debug)]
pub(super) struct CheckpointValues {
    users: usize,
    /// The marker was there.
    pub(super) was_clean: bool,
    /// Content of the marker, to be restored if no partition is written.
    pub(super) marker: Option<Vec<u8>>,
    recovery_points: PartitionOffsets,
    log_starts: PartitionOffsets,
    high_watermarks: PartitionOffsets,
    /// Partitions that were opened and closed cleanly.
    pub(super) closed: BTreeSet<TopicPartition>,
    /// Partitions that are open, or were left without a close.
    pub(super) dirty: BTreeSet<TopicPartition>,
}

impl CheckpointValues {
    fn new(state: DirState, marker: Option<Vec<u8>>) -> Self {
        Self {
            users: 0,
            was_clean: state.clean_shutdown,
            marker,
            recovery_points: Arc::unwrap_or_clone(state.recovery_points),
            log_starts: Arc::unwrap_or_clone(state.log_starts),
            high_watermarks: Arc::unwrap_or_clone(state.high_watermarks.unwrap_or_default()),
            closed: BTreeSet::new(),
            dirty: BTreeSet::new(),
        }
    }

    /// The checkpoints that writers keep up to date, by file name, in the order of [`PartitionProgress`].
    pub(super) const fn checkpoints(&mut self) -> [(&'static str, &mut PartitionOffsets); 3] {
        [
            (RECOVERY_POINT, &mut self.recovery_points),
            (LOG_START, &mut self.log_starts),
            (REPLICATION, &mut self.high_watermarks),
        ]
    }
}

/// A log dir that this process has locked. Its mutex is held across syncs, so each dir has its own.
#[derive(Debug)]
struct OpenDir {
    lock: LogDirLock,
    /// `None` while no writer has the dir open.
    known: Mutex<Option<CheckpointValues>>,
}

impl OpenDir {
    fn known(&self) -> MutexGuard<'_, Option<CheckpointValues>> {
        lock(&self.known)
    }
}

/// The locked log dirs of this process. This mutex is never held across input or output.
static OPEN: Mutex<Vec<Weak<OpenDir>>> = Mutex::new(Vec::new());

/// The entry of a log dir, which the first to ask adds.
fn open_dir(held: LogDirLock) -> Arc<OpenDir> {
    let mut dirs = lock(&OPEN);
    // A forked child does not have open what its parent has.
    dirs.retain(|dir| dir.upgrade().is_some_and(|dir| dir.lock.is_held()));
    let same = dirs.iter().filter_map(Weak::upgrade);
    if let Some(dir) = same.into_iter().find(|dir| dir.lock.is_same(&held)) {
        return dir;
    }
    let known = Mutex::new(None);
    let dir = Arc::new(OpenDir { lock: held, known });
    dirs.push(Arc::downgrade(&dir));
    dir
}

/// A share in a log dir that is open for writing.
#[derive(Debug)]
pub(super) struct DirHandle {
    pub(super) path: PathBuf,
    pub(super) lock: LogDirLock,
    pub(super) disk: Disk,
    dir: Arc<OpenDir>,
    is_closed: bool,
}

impl DirHandle {
    pub(super) fn open(path: &Path, disk: &Disk) -> Result<Self> {
        // The working directory may be another one when the log dir is closed.
        let path = std::path::absolute(path).map_err(Error::io(path))?;
        check_log_dir(&path)?;
        if !path.is_dir() {
            disk.create_folders(&path)?;
        }
        let lock = LogDirLock::acquire(&path)?;
        let dir = open_dir(LogDirLock::acquire(&path)?);
        let mut known = dir.known();
        if known.is_none() {
            let state = DirState::read(&path);
            let marker = path.join(CLEAN_SHUTDOWN);
            let content = read_small(&marker, text_limit(CLEAN_SHUTDOWN)).ok();
            if disk.remove(&marker)? {
                disk.sync_folder(&path)?;
            }
            *known = Some(CheckpointValues::new(state, content));
        }
        if let Some(known) = known.as_mut() {
            known.users = known.users.saturating_add(1);
        }
        drop(known);
        Ok(Self {
            path,
            lock,
            disk: disk.clone(),
            dir,
            is_closed: false,
        })
    }

    pub(super) fn share(&self) -> Result<Self> {
        Self::open(&self.path, &self.disk)
    }

    /// Does something to what is known of the log dir; `InvalidArgument` in a forked child, which has no part in it.
    pub(super) fn with<T>(
        &self,
        act: impl FnOnce(&mut CheckpointValues) -> Result<T>,
    ) -> Result<T> {
        let foreign = || {
            Error::InvalidArgument(format!(
                "{}: opened by another process than this one",
                self.path.display()
            ))
        };
        if !self.lock.is_held() {
            return Err(foreign());
        }
        act(self.dir.known().as_mut().ok_or_else(foreign)?)
    }

    /// Gives the share back; the last one writes the marker, if the log dir deserves it.
    pub(super) fn close(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_closed, true) || !self.lock.is_held() {
            return Ok(());
        }
        // Held to the end: the next writer of the dir removes the marker again.
        let mut known = self.dir.known();
        if let Some(shared) = known.as_mut() {
            shared.users = shared.users.saturating_sub(1);
            if shared.users > 0 {
                return Ok(());
            }
        }
        let Some(last) = known.take() else {
            return Ok(());
        };
        if !self.deserves_marker(&last)? {
            return Ok(());
        }
        let marker = self.path.join(CLEAN_SHUTDOWN);
        let file = self.disk.create(&marker)?;
        let content = last.marker.unwrap_or_else(write_clean_shutdown);
        self.disk.write(&file, &marker, &content)?;
        self.disk.sync(&file, &marker)?;
        self.disk.sync_folder(&self.path)
    }

    fn deserves_marker(&self, dir: &CheckpointValues) -> Result<bool> {
        if !dir.dirty.is_empty() {
            return Ok(false);
        }
        if dir.was_clean {
            return Ok(true);
        }
        let folders = LogDir::list(&self.path)?;
        let mut live = folders
            .folders()
            .iter()
            .filter(|f| f.name.state == FolderState::Live);
        Ok(live.all(|folder| dir.closed.contains(&folder.name.topic_partition)))
    }

    /// Notes a partition's progress, and rewrites the checkpoints it changes.
    pub(super) fn checkpoint(
        &self,
        partition: &TopicPartition,
        progress: &PartitionProgress,
    ) -> Result<()> {
        self.with(|dir| {
            let offsets = [
                Some(progress.recovery_point),
                progress.log_start_offset,
                Some(progress.high_watermark),
            ];
            for ((name, known), offset) in dir.checkpoints().into_iter().zip(offsets) {
                let path = self.path.join(name);
                let before = match offset {
                    Some(offset) => known.insert(partition.clone(), offset),
                    None => known.remove(partition),
                };
                if before != offset || !path.exists() {
                    atomic::replace(&self.disk, &path, &write_offsets(known))?;
                }
            }
            Ok(())
        })
    }
}

impl Drop for DirHandle {
    fn drop(&mut self) {
        // A caller who needs the result calls `close`.
        let _ = self.close();
    }
}

/// Writes checkpoints into a log dir that the caller has locked; what writers of this process know of it follows.
///
/// # Errors
/// `Io`.
pub(crate) fn write_checkpoints(
    log_dir: &Path,
    checkpoints: &Checkpoints,
    disk: &Disk,
) -> Result<()> {
    let dir = open_dir(LogDirLock::acquire(log_dir)?);
    let mut known = dir.known();
    checkpoints.write(disk, log_dir)?;
    let Some(dir) = known.as_mut() else {
        return Ok(());
    };
    for (name, known) in dir.checkpoints() {
        if let Some(lines) = checkpoints.lines(name) {
            known.clone_from(lines);
        }
    }
    Ok(())
}
