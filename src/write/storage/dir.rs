//! A log dir that is open for writing: its lock, its marker, and what the writers of this process know of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::progress::Progress;
use crate::error::{Error, Result};
use crate::format::checkpoint::{write_clean_shutdown, write_offsets};
use crate::format::file_name::{FileName, FolderState};
use crate::io::atomic;
use crate::io::disk::Disk;
use crate::io::lock::LogDirLock;
use crate::log::dir::{
    CLEAN_SHUTDOWN, DirState, LOG_START, LogDir, Offsets, RECOVERY_POINT, REPLICATION,
};
use crate::types::TopicPartition;
use crate::write::checkpoints::Checkpoints;

/// What this process knows of a log dir it writes to.
#[derive(Debug)]
pub(super) struct OpenDir {
    lock: LogDirLock,
    users: usize,
    /// The marker was there.
    pub(super) was_clean: bool,
    recovery_points: Offsets,
    log_starts: Offsets,
    high_watermarks: Offsets,
    /// Opened and closed as it should be.
    pub(super) closed: BTreeSet<TopicPartition>,
    /// Open, or left without being closed.
    pub(super) dirty: BTreeSet<TopicPartition>,
}

impl OpenDir {
    /// The checkpoints that writers keep up to date, by file name, in the order of [`Progress`].
    pub(super) const fn checkpoints(&mut self) -> [(&'static str, &mut Offsets); 3] {
        [
            (RECOVERY_POINT, &mut self.recovery_points),
            (LOG_START, &mut self.log_starts),
            (REPLICATION, &mut self.high_watermarks),
        ]
    }
}

static OPEN: Mutex<Vec<OpenDir>> = Mutex::new(Vec::new());

fn open_dirs() -> MutexGuard<'static, Vec<OpenDir>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A share in a log dir that is open for writing.
#[derive(Debug)]
pub(super) struct DirHandle {
    pub(super) path: PathBuf,
    pub(super) lock: LogDirLock,
    pub(super) disk: Disk,
    is_closed: bool,
}

impl DirHandle {
    pub(super) fn open(path: &Path, disk: &Disk) -> Result<Self> {
        // The working directory may be another one when the log dir is closed.
        let path = std::path::absolute(path).map_err(Error::io(path))?;
        if !path.is_dir() {
            disk.create_folders(&path)?;
        }
        refuse_partition_folder(&path)?;
        let lock = LogDirLock::acquire(&path)?;
        let mut dirs = open_dirs();
        // What a parent process has open is not open here.
        dirs.retain(|dir| dir.lock.is_held());
        if let Some(dir) = dirs.iter_mut().find(|dir| dir.lock.is_same(&lock)) {
            dir.users = dir.users.saturating_add(1);
        } else {
            let state = DirState::read(&path);
            if disk.remove(&path.join(CLEAN_SHUTDOWN))? {
                disk.sync_folder(&path)?;
            }
            dirs.push(OpenDir {
                lock: LogDirLock::acquire(&path)?,
                users: 1,
                was_clean: state.clean_shutdown,
                recovery_points: state.recovery_points,
                log_starts: state.log_starts,
                high_watermarks: state.high_watermarks.unwrap_or_default(),
                closed: BTreeSet::new(),
                dirty: BTreeSet::new(),
            });
        }
        drop(dirs);
        Ok(Self {
            path,
            lock,
            disk: disk.clone(),
            is_closed: false,
        })
    }

    pub(super) fn share(&self) -> Result<Self> {
        Self::open(&self.path, &self.disk)
    }

    /// Does something to what is known of the log dir; `InvalidArgument` in a forked child, which has no part in it.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut OpenDir) -> Result<T>) -> Result<T> {
        let mut dirs = open_dirs();
        let mine = dirs.iter_mut().find(|dir| dir.lock.is_same(&self.lock));
        match mine.filter(|_| self.lock.is_held()) {
            Some(dir) => act(dir),
            None => Err(Error::InvalidArgument(format!(
                "{}: opened by another process than this one",
                self.path.display()
            ))),
        }
    }

    /// Gives the share back; the last one leaves the marker, if the log dir deserves it.
    pub(super) fn close(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_closed, true) || !self.lock.is_held() {
            return Ok(());
        }
        let mut dirs = open_dirs();
        let mine = dirs.iter().position(|dir| dir.lock.is_same(&self.lock));
        let Some((at, dir)) = mine.and_then(|at| Some((at, dirs.get_mut(at)?))) else {
            return Ok(());
        };
        dir.users = dir.users.saturating_sub(1);
        if dir.users > 0 {
            return Ok(());
        }
        let dir = dirs.swap_remove(at);
        if !self.deserves_marker(&dir)? {
            return Ok(());
        }
        let marker = self.path.join(CLEAN_SHUTDOWN);
        let file = self.disk.create(&marker)?;
        self.disk.write(&file, &marker, &write_clean_shutdown())?;
        self.disk.sync(&file, &marker)?;
        self.disk.sync_folder(&self.path)
    }

    fn deserves_marker(&self, dir: &OpenDir) -> Result<bool> {
        if !dir.dirty.is_empty() {
            return Ok(false);
        }
        if dir.was_clean {
            return Ok(true);
        }
        let folders = LogDir::open(&self.path)?;
        let mut live = folders
            .folders()
            .iter()
            .filter(|f| f.name.state == FolderState::Live);
        Ok(live.all(|folder| dir.closed.contains(&folder.name.topic_partition)))
    }

    /// Notes a partition's progress, and rewrites the checkpoints it changes.
    pub(super) fn checkpoint(&self, partition: &TopicPartition, progress: &Progress) -> Result<()> {
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
        // Whoever wants to know whether it went well closes it.
        let _ = self.close();
    }
}

/// Writes checkpoints into a locked log dir; what writers of this process know of it follows.
///
/// # Errors
/// `Io`.
pub fn write_checkpoints(
    lock: &LogDirLock,
    log_dir: &Path,
    checkpoints: &Checkpoints,
    disk: &Disk,
) -> Result<()> {
    let mut dirs = open_dirs();
    checkpoints.write(disk, log_dir)?;
    let mine = dirs.iter_mut().find(|dir| dir.lock.is_same(lock));
    let Some(dir) = mine else {
        return Ok(());
    };
    for (name, known) in dir.checkpoints() {
        if let Some(lines) = checkpoints.lines(name) {
            known.clone_from(lines);
        }
    }
    Ok(())
}

/// A partition folder named by mistake would get partition folders of its own.
fn refuse_partition_folder(path: &Path) -> Result<()> {
    for entry in path.read_dir().map_err(Error::io(path))? {
        let name = entry.map_err(Error::io(path))?.file_name();
        if name.to_str().and_then(FileName::parse).is_some() {
            return Err(Error::InvalidArgument(format!(
                "{} is a partition folder, not a log dir",
                path.display()
            )));
        }
    }
    Ok(())
}
