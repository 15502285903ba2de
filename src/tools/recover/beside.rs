//! Other files of a source besides the logs that are loaded: some are copied into a new directory, some are left out.
//!
//! | in a log dir | in the result |
//! |---|---|
//! | `meta.properties`, checkpoints, other files of Kafka or of this crate | copied |
//! | other files | copied, unless something is erased, as are rows that a job of the Spark sink staged |
//! | a small file that is longer than its kind may be | no |
//! | the metadata log, a partition being deleted, `remote-log-index-cache` | copied; where something is erased, the first alone |
//! | a folder that is not a partition's: a broker does not start with it (`LogManager.loadLogs`) | no |
//! | folders in partition folders, special files | no |
//!
//! If something is erased, nothing is copied that may contain it: of unread files only those with Kafka's names, and no
//! leftovers.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::output::copy;
use super::report::LeftOut;
use crate::error::{Error, Result};
use crate::format::checkpoint::{LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA};
use crate::format::file_name::{
    CLUSTER_METADATA_TOPIC, FileName, FileState, FolderName, FolderState,
};
use crate::io::disk::Disk;
use crate::io::lock::LOCK_FILE;
use crate::log::dir::{
    CHECKPOINTS, CLEAN_SHUTDOWN, META_PROPERTIES, QUORUM_STATE, REMOTE_INDEXES, folder_name,
    length_limit,
};
use crate::log::output::UNFINISHED;
use crate::tables::plan::{BOOTSTRAP, is_snapshot};
use crate::write::storage::{JOB_NOTE, OWN_FILES, STREAM_FILES};

const FOREIGN_FOLDER: &str = "not a partition's folder; a broker does not start with it";
const INNER_FOLDER: &str = "a folder in a partition's folder, which is not Kafka's";
const FOREIGN_FILE: &str = "not Kafka's, and it may contain dropped records";
const LEFT_FILE: &str = "left by a broker, and it may contain dropped records";
const DELETED_FOLDER: &str = "being deleted: a broker removes it at its start";
const CACHE: &str = "a cache, which a broker fills again";
const SPECIAL: &str = "not a regular file";
const STAGED_ROWS: &str = "left by a job of the Spark sink, and it may contain dropped records";

/// The most that a note of our own may have, as in `kafkalog/_atomic_files.py`.
const NOTE_LIMIT: u64 = 64 << 20;

/// Files that are copied, and those that are left out.
#[derive(Debug)]
pub(super) struct CopiedFiles {
    folders: Vec<PathBuf>,
    files: Vec<PathBuf>,
    pub(super) left_out: Vec<LeftOut>,
    /// True if nothing is copied that may contain dropped records.
    erases: bool,
}

impl CopiedFiles {
    /// Creates an empty one.
    pub(super) const fn new(erases: bool) -> Self {
        Self {
            folders: Vec::new(),
            files: Vec::new(),
            left_out: Vec::new(),
            erases,
        }
    }

    /// Looks into a log dir; its partitions in `apart` are dealt with elsewhere.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn look_beside(&mut self, path: &Path, apart: &[&Path]) -> Result<()> {
        for entry in entries(path)? {
            let name = folder_name(&entry);
            match fs::metadata(&entry) {
                Ok(found) if found.is_dir() => {
                    if !apart.contains(&entry.as_path()) {
                        self.add_folder(entry, &name)?;
                    }
                }
                Ok(found) if found.is_file() => {
                    let is_note = name == JOB_NOTE || name.starts_with(STREAM_FILES);
                    let limit = length_limit(&name).or(is_note.then_some(NOTE_LIMIT));
                    if !self.leaves_long(&entry, limit, found.len()) {
                        self.add_file(entry, &name);
                    }
                }
                _ => self.leave(entry, SPECIAL),
            }
        }
        Ok(())
    }

    fn add_folder(&mut self, path: PathBuf, name: &str) -> Result<()> {
        let reason = match FolderName::parse(name) {
            Some(name) if name.state == FolderState::Delete => {
                self.erases.then_some(DELETED_FOLDER)
            }
            Some(name) if name.topic_partition.topic == CLUSTER_METADATA_TOPIC => None,
            None if name == REMOTE_INDEXES => self.erases.then_some(CACHE),
            _ => Some(FOREIGN_FOLDER),
        };
        if let Some(reason) = reason {
            self.leave(path, reason);
            return Ok(());
        }
        let copied = self.look_into(&path)?;
        self.files.extend(copied);
        self.folders.push(path);
        Ok(())
    }

    fn add_file(&mut self, path: PathBuf, name: &str) {
        let is_own = name == JOB_NOTE
            || (name.strip_prefix(STREAM_FILES)).is_some_and(|id| !id.contains('.'))
            || CHECKPOINTS.contains(&name)
            || [META_PROPERTIES, BOOTSTRAP].contains(&name);
        if [CLEAN_SHUTDOWN, LOCK_FILE, UNFINISHED].contains(&name) {
            // The result has its own.
        } else if self.erases && !is_own {
            let is_staged = name.starts_with(OWN_FILES);
            self.leave(path, if is_staged { STAGED_ROWS } else { FOREIGN_FILE });
        } else {
            self.files.push(path);
        }
    }

    /// Looks into a partition folder; returns what may be copied of it.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn look_into(&mut self, folder: &Path) -> Result<Vec<PathBuf>> {
        let mut copied = Vec::new();
        for entry in entries(folder)? {
            let name = folder_name(&entry);
            let found = fs::metadata(&entry);
            if found.as_ref().is_ok_and(fs::Metadata::is_dir) {
                self.leave(entry, INNER_FOLDER);
                continue;
            }
            let Some(found) = found.ok().filter(fs::Metadata::is_file) else {
                self.leave(entry, SPECIAL);
                continue;
            };
            if let Some(reason) = why_not(&entry).filter(|_| self.erases) {
                self.leave(entry, reason);
            } else if !self.leaves_long(&entry, length_limit(&name), found.len()) {
                copied.push(entry);
            }
        }
        Ok(copied)
    }

    /// Leaves out a small file that is longer than its kind may be: nothing could read it.
    fn leaves_long(&mut self, path: &Path, limit: Option<u64>, length: u64) -> bool {
        let limit = limit.filter(|&limit| length > limit);
        if let Some(limit) = limit {
            let reason = format!("expected at most {limit} bytes, found {length}");
            self.left_out.push(LeftOut::new(path, reason));
        }
        limit.is_some()
    }

    fn leave(&mut self, path: PathBuf, reason: &str) {
        self.left_out.push(LeftOut::new(path, reason));
    }

    /// Copies from the log dir into the new one, its identity last: a broker takes no log dir for its own without it,
    /// should we be killed before the end.
    ///
    /// # Errors
    /// `Io`; `Interrupted`.
    pub(super) fn copy(&self, disk: &Disk, from: &Path, to: &Path) -> Result<()> {
        let target = |path: &Path| {
            let name = path.strip_prefix(from);
            name.map_or_else(|_| to.to_path_buf(), |name| to.join(name))
        };
        for folder in &self.folders {
            disk.create_folders(&target(folder))?;
        }
        let is_identity = |path: &&PathBuf| path.file_name() == Some(OsStr::new(META_PROPERTIES));
        let (last, first): (Vec<_>, Vec<_>) = self.files.iter().partition(is_identity);
        for file in first.into_iter().chain(last) {
            copy(disk, file, &target(file))?;
        }
        let mut folders = self.folders.iter();
        folders.try_for_each(|folder| disk.sync_folder(&target(folder)))
    }
}

/// Reason why a file of a partition folder is not copied if something is erased.
fn why_not(file: &Path) -> Option<&'static str> {
    let name = folder_name(file);
    match FileName::parse(&name) {
        Some(name) if name.state == FileState::Live => None,
        Some(_) => Some(LEFT_FILE),
        None if [LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, QUORUM_STATE].contains(&&*name) => {
            None
        }
        None if is_snapshot(file) => None,
        None if [".tmp", ".part", ".deleted"]
            .iter()
            .any(|end| name.ends_with(end)) =>
        {
            Some(LEFT_FILE)
        }
        None => Some(FOREIGN_FILE),
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(Error::io(folder))?;
    let paths = entries.map(|entry| Ok(entry.map_err(Error::io(folder))?.path()));
    let mut paths = paths.collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
