//! Log dirs opened for writing, and the partition folders in them (`LogManager`, `MetaPropertiesEnsemble`).
//!
//! | file | when |
//! |---|---|
//! | `.lock` | held from the first partition opened to the last one closed |
//! | `meta.properties` | written into a new log dir if the user gives ids |
//! | `partition.metadata` | written into a partition folder that has none, before any record |
//! | `.kafka_cleanshutdown` | removed before anything is written; written when all is closed as it should be |
//! | recovery point, log start and replication checkpoint | rewritten whole, other partitions' lines kept |
//!
//! The writers of one process share what is known of a log dir. Its marker speaks of all partitions in it, so it comes
//! back only if it was there before, or every partition has been opened (which recovers it) and closed since; never if one
//! was left in disorder. Nothing that fails between leaves a marker, so a broker checks behind us.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::checkpoints::{Checkpoints, truncate_cleaner};
use super::dir::{
    CLEAN_SHUTDOWN, DirState, LOG_START, LogDir, META_PROPERTIES, Offsets, RECOVERY_POINT,
    REPLICATION, read_text,
};
use crate::error::{Error, Result};
use crate::format::checkpoint::{
    PARTITION_METADATA, parse_partition_metadata, write_clean_shutdown, write_offsets,
    write_partition_metadata,
};
use crate::format::file_name::{FileName, FolderState, MAX_TOPIC_LEN, is_topic_name};
use crate::format::properties::{parse_properties, write_properties};
use crate::format::uuid::Uuid;
use crate::io::atomic;
use crate::io::disk::Disk;
use crate::io::lock::{LogDirLock, PartitionClaim};
use crate::types::{Offset, TopicPartition};

/// Whose a log dir is: what `meta.properties` says (KIP-858).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `cluster.id`.
    pub cluster_id: Option<String>,
    /// `node.id`.
    pub node_id: Option<i32>,
    /// `directory.id`, of the first log dir that has none; made where it is not given.
    pub directory_id: Option<Uuid>,
}

/// How far a partition is, for the checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The first offset that may not be on the device.
    pub recovery_point: Offset,
    /// The first offset that may be read, if it lies above the base of the first segment.
    pub log_start_offset: Option<Offset>,
    /// The first offset that is not replicated; the log end where there are no replicas.
    pub high_watermark: Offset,
}

/// What this process knows of a log dir it writes to.
#[derive(Debug)]
struct OpenDir {
    lock: LogDirLock,
    users: usize,
    was_clean: bool,
    recovery_points: Offsets,
    log_starts: Offsets,
    high_watermarks: Offsets,
    /// Opened and closed as it should be.
    closed: BTreeSet<TopicPartition>,
    /// Open, or left without being closed.
    dirty: BTreeSet<TopicPartition>,
}

static OPEN: Mutex<Vec<OpenDir>> = Mutex::new(Vec::new());

fn open_dirs() -> MutexGuard<'static, Vec<OpenDir>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A share in a log dir that is open for writing.
#[derive(Debug)]
struct DirHandle {
    path: PathBuf,
    lock: LogDirLock,
    disk: Disk,
    is_closed: bool,
}

impl DirHandle {
    fn open(path: &Path, disk: &Disk) -> Result<Self> {
        // The working directory may be another one when the log dir is closed.
        let path = std::path::absolute(path).map_err(Error::io(path))?;
        if !path.is_dir() {
            disk.create_folders(&path)?;
            disk.sync_folder(atomic::folder_of(&path))?;
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

    fn share(&self) -> Result<Self> {
        Self::open(&self.path, &self.disk)
    }

    /// Does something to what is known of the log dir; `InvalidArgument` in a forked child, which has no part in it.
    fn with<T>(&self, act: impl FnOnce(&mut OpenDir) -> Result<T>) -> Result<T> {
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
    fn close(&mut self) -> Result<()> {
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
    fn checkpoint(&self, partition: &TopicPartition, progress: &Progress) -> Result<()> {
        self.with(|dir| {
            let recovery = Some(progress.recovery_point);
            let replicated = Some(progress.high_watermark);
            for (name, offsets, offset) in [
                (RECOVERY_POINT, &mut dir.recovery_points, recovery),
                (LOG_START, &mut dir.log_starts, progress.log_start_offset),
                (REPLICATION, &mut dir.high_watermarks, replicated),
            ] {
                let path = self.path.join(name);
                let before = match offset {
                    Some(offset) => offsets.insert(partition.clone(), offset),
                    None => offsets.remove(partition),
                };
                if before != offset || !path.exists() {
                    atomic::replace(&self.disk, &path, &write_offsets(offsets))?;
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
    for (name, known) in [
        (RECOVERY_POINT, &mut dir.recovery_points),
        (LOG_START, &mut dir.log_starts),
        (REPLICATION, &mut dir.high_watermarks),
    ] {
        if let Some(lines) = checkpoints.lines(name) {
            known.clone_from(lines);
        }
    }
    Ok(())
}

/// Log dirs opened for writing, one for each disk.
#[derive(Debug)]
pub struct LogDirs {
    dirs: Vec<DirHandle>,
}

impl LogDirs {
    /// Opens log dirs, made where they are not there.
    ///
    /// # Errors
    /// `LogLocked` where another process holds one of them. `InvalidArgument` for none, one twice, a partition folder, or
    /// ids that are not those in `meta.properties`. `CorruptIndex` where that file is broken. `Io`.
    pub fn open(paths: &[PathBuf], identity: &Identity, disk: &Disk) -> Result<Self> {
        let mut dirs: Vec<DirHandle> = Vec::new();
        for path in paths {
            let dir = DirHandle::open(path, disk)?;
            if let Some(same) = dirs.iter().find(|open| open.lock.is_same(&dir.lock)) {
                return Err(Error::InvalidArgument(format!(
                    "{} and {} are the same log dir",
                    same.path.display(),
                    path.display()
                )));
            }
            dirs.push(dir);
        }
        if dirs.is_empty() {
            return Err(Error::InvalidArgument("no log dir".to_owned()));
        }
        identify(&dirs, identity)?;
        Ok(Self { dirs })
    }

    /// Opens a partition's folder, made in the log dir with the fewest partitions if it is in none of them.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that Kafka would refuse, or another topic id than the folder's. `DuplicatePartition`
    /// where two log dirs have it. `LogLocked` where another writer of this process writes to it. `CorruptIndex` for a
    /// broken `partition.metadata`. `Io`.
    pub fn partition(
        &self,
        partition: &TopicPartition,
        topic_id: Option<Uuid>,
    ) -> Result<PartitionDir> {
        if !is_topic_name(&partition.topic) || partition.partition < 0 {
            return Err(Error::InvalidArgument(format!(
                "topic {:?}: expected 1 to {MAX_TOPIC_LEN} ASCII letters, digits, '.', '_' and '-', but not '.' or '..'",
                partition.topic
            )));
        }
        let name = partition.to_string();
        let mut found = self.dirs.iter().filter(|dir| dir.path.join(&name).is_dir());
        let (dir, is_new) = match (found.next(), found.next()) {
            (None, _) => (self.create_folder(&name)?, true),
            (Some(dir), None) => (dir, false),
            (Some(first), Some(second)) => {
                return Err(Error::DuplicatePartition {
                    partition: name,
                    first: first.path.clone(),
                    second: second.path.clone(),
                });
            }
        };
        PartitionDir::open(dir, partition.clone(), topic_id, is_new)
    }

    /// Creates a partition folder where there are the fewest, or in the next such log dir if that does not go
    /// (`LogManager.nextLogDirs`).
    fn create_folder(&self, name: &str) -> Result<&DirHandle> {
        let counted = self.dirs.iter().map(|dir| {
            let folders = LogDir::open(&dir.path)?;
            let counts = |state| matches!(state, FolderState::Live | FolderState::Future);
            let count = folders
                .folders()
                .iter()
                .filter(|f| counts(f.name.state))
                .count();
            Ok((count, dir))
        });
        let mut counted = counted.collect::<Result<Vec<_>>>()?;
        counted.sort_by_key(|&(count, _)| count);
        let mut failure = None;
        for (_, dir) in counted {
            let created = dir
                .disk
                .create_folders(&dir.path.join(name))
                .and_then(|()| dir.disk.sync_folder(&dir.path));
            match created {
                Ok(()) => return Ok(dir),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| Error::InvalidArgument("no log dir".to_owned())))
    }

    /// Closes the log dirs; those in which partitions are open stay open until these are closed.
    ///
    /// # Errors
    /// `Io` where a marker cannot be written.
    pub fn close(mut self) -> Result<()> {
        let outcomes: Vec<_> = self.dirs.iter_mut().map(DirHandle::close).collect();
        outcomes.into_iter().collect()
    }
}

/// A partition folder opened for writing: what the log dir knows of it, and tells of it.
#[derive(Debug)]
pub struct PartitionDir {
    dir: DirHandle,
    _claim: PartitionClaim,
    partition: TopicPartition,
    folder: PathBuf,
    topic_id: Option<String>,
    is_clean: bool,
    /// An earlier writer of this process left it without closing it.
    was_left: bool,
    recovery_point: Option<Offset>,
    log_start_offset: Option<Offset>,
    high_watermark: Option<Offset>,
}

impl PartitionDir {
    fn open(
        dir: &DirHandle,
        partition: TopicPartition,
        topic_id: Option<Uuid>,
        is_new: bool,
    ) -> Result<Self> {
        let claim = dir.lock.claim(&partition.to_string())?;
        let dir = dir.share()?;
        let folder = dir.path.join(partition.to_string());
        let topic_id = topic_id_of(&folder, topic_id, &dir.disk)?;
        let mut opened = Self {
            folder,
            topic_id,
            is_clean: false,
            was_left: false,
            recovery_point: None,
            log_start_offset: None,
            high_watermark: None,
            _claim: claim,
            partition,
            dir,
        };
        opened.take_over(is_new)?;
        Ok(opened)
    }

    /// Reads what is known of the partition, and notes that it is open.
    fn take_over(&mut self, is_new: bool) -> Result<()> {
        let key = &self.partition;
        let (is_clean, was_left, offsets) = self.dir.with(|known| {
            if is_new {
                // Lines of a partition that was removed mean nothing to the new one.
                known.recovery_points.remove(key);
                known.log_starts.remove(key);
                known.high_watermarks.remove(key);
            }
            let was_closed = known.closed.remove(key);
            let was_left = !known.dirty.insert(key.clone());
            let is_clean = is_new || was_closed || (known.was_clean && !was_left);
            let offsets = [
                &known.recovery_points,
                &known.log_starts,
                &known.high_watermarks,
            ]
            .map(|offsets| offsets.get(key).copied());
            Ok((is_clean, was_left, offsets))
        })?;
        (self.is_clean, self.was_left) = (is_clean, was_left);
        [
            self.recovery_point,
            self.log_start_offset,
            self.high_watermark,
        ] = offsets;
        Ok(())
    }

    /// The partition.
    #[must_use]
    pub const fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// The log dir.
    #[must_use]
    pub fn log_dir(&self) -> &Path {
        &self.dir.path
    }

    /// The partition folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The topic id in `partition.metadata`.
    #[must_use]
    pub fn topic_id(&self) -> Option<&str> {
        self.topic_id.as_deref()
    }

    /// Whether it was closed as it should be when it was last written to; a new one was.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.is_clean
    }

    /// The recovery point as it was checkpointed.
    #[must_use]
    pub const fn recovery_point(&self) -> Option<Offset> {
        self.recovery_point
    }

    /// The log start offset as it was checkpointed.
    #[must_use]
    pub const fn log_start_offset(&self) -> Option<Offset> {
        self.log_start_offset
    }

    /// The high watermark as it was checkpointed.
    #[must_use]
    pub const fn high_watermark(&self) -> Option<Offset> {
        self.high_watermark
    }

    /// Whether this process may write: a forked child may not.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.dir.lock.is_held()
    }

    /// Brings the log dir's checkpoints up to date, after a flush.
    ///
    /// # Errors
    /// `Io`.
    pub fn checkpoint(&self, progress: &Progress) -> Result<()> {
        self.dir.checkpoint(&self.partition, progress)
    }

    /// Brings the checkpoint of compaction in line with a log that was cut, and now ends in a segment with this base.
    ///
    /// # Errors
    /// `Io`; `CorruptIndex` for a checkpoint that cannot be read.
    pub fn truncate_cleaner(&self, active_base_offset: Offset) -> Result<()> {
        let (path, disk) = (&self.dir.path, &self.dir.disk);
        self.dir
            .with(|_| truncate_cleaner(disk, path, &self.partition, active_base_offset))
    }

    /// Says that the partition's files are complete and on the device. Where it is dropped without, or this fails, the
    /// log dir gets no marker, and the next to load it recovers it.
    ///
    /// # Errors
    /// `Io` where a checkpoint or the marker cannot be written.
    pub fn close(mut self, progress: &Progress) -> Result<()> {
        self.checkpoint(progress)?;
        self.dir.with(|dir| {
            dir.dirty.remove(&self.partition);
            dir.closed.insert(self.partition.clone());
            Ok(())
        })?;
        self.dir.close()
    }

    /// Gives the partition back as it was: nothing was written.
    ///
    /// # Errors
    /// `Io` where the marker cannot be written.
    pub fn release(mut self) -> Result<()> {
        self.dir.with(|dir| {
            if !self.was_left {
                dir.dirty.remove(&self.partition);
            }
            if self.is_clean {
                dir.closed.insert(self.partition.clone());
            }
            Ok(())
        })?;
        self.dir.close()
    }
}

/// The topic id that is there, else the one given, which is written then.
fn topic_id_of(folder: &Path, given: Option<Uuid>, disk: &Disk) -> Result<Option<String>> {
    let path = folder.join(PARTITION_METADATA);
    let there = read_text(&path)?
        .map(|text| parse_partition_metadata(&text).map_err(|e| e.at(&path)))
        .transpose()?;
    match (there, given) {
        (Some(there), Some(given)) if there.parse::<Uuid>()? != given => {
            Err(Error::InvalidArgument(format!(
                "{}: the topic id is {there}, not {given}",
                path.display()
            )))
        }
        (None, Some(given)) if given == Uuid::ZERO => Err(Error::InvalidArgument(
            "the topic id of all zeros means none".to_owned(),
        )),
        (None, Some(given)) => {
            atomic::replace(disk, &path, &write_partition_metadata(given))?;
            Ok(Some(given.to_string()))
        }
        (there, _) => Ok(there),
    }
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

const VERSION: &str = "version";
const CLUSTER_ID: &str = "cluster.id";
const NODE_ID: &str = "node.id";
/// What version 0 called it.
const BROKER_ID: &str = "broker.id";
const DIRECTORY_ID: &str = "directory.id";

/// Checks the ids of all log dirs against those given, then writes them where there are none.
fn identify(dirs: &[DirHandle], identity: &Identity) -> Result<()> {
    let mut unmarked = Vec::new();
    for dir in dirs {
        let path = dir.path.join(META_PROPERTIES);
        match read_text(&path)? {
            Some(text) => {
                let found = parse_properties(&text).map_err(|e| e.at(&path))?;
                check_identity(&path, &found, identity)?;
            }
            None => unmarked.push((dir, path)),
        }
    }
    let (cluster_id, node_id) = match (&identity.cluster_id, identity.node_id) {
        (Some(cluster_id), Some(node_id)) => (cluster_id, node_id),
        (None, None) if identity.directory_id.is_none() => return Ok(()),
        _ => {
            return Err(Error::InvalidArgument(
                "the ids of a log dir: cluster id and node id go together".to_owned(),
            ));
        }
    };
    if node_id < 0 || cluster_id.is_empty() {
        return Err(Error::InvalidArgument(format!(
            "cluster id {cluster_id:?} and node id {node_id}: neither may be empty or below 0"
        )));
    }
    let mut given = identity.directory_id;
    for (dir, path) in unmarked {
        let directory_id = match given.take() {
            Some(id) => id,
            None => random_id()?,
        };
        let properties = BTreeMap::from([
            (VERSION.to_owned(), "1".to_owned()),
            (CLUSTER_ID.to_owned(), cluster_id.clone()),
            (NODE_ID.to_owned(), node_id.to_string()),
            (DIRECTORY_ID.to_owned(), directory_id.to_string()),
        ]);
        atomic::replace(&dir.disk, &path, &write_properties(&properties))?;
    }
    Ok(())
}

fn check_identity(
    path: &Path,
    found: &BTreeMap<String, String>,
    identity: &Identity,
) -> Result<()> {
    let node = if found.contains_key(NODE_ID) {
        NODE_ID
    } else {
        BROKER_ID
    };
    let node_id = identity.node_id.map(|id| id.to_string());
    let directory_id = identity.directory_id.map(|id| id.to_string());
    for (key, given) in [
        (CLUSTER_ID, &identity.cluster_id),
        (node, &node_id),
        (DIRECTORY_ID, &directory_id),
    ] {
        if let (Some(there), Some(given)) = (found.get(key), given)
            && there != given
        {
            return Err(Error::InvalidArgument(format!(
                "{}: {key} is {there}, not {given}",
                path.display()
            )));
        }
    }
    Ok(())
}

/// An id as Kafka makes them.
///
/// # Errors
/// `Io` where the operating system has no random numbers.
pub fn random_id() -> Result<Uuid> {
    loop {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|error| Error::io("random numbers")(std::io::Error::other(error)))?;
        if let Some(id) = Uuid::of_random(bytes) {
            return Ok(id);
        }
    }
}

#[cfg(test)]
mod tests;
