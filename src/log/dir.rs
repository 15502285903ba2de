//! A log dir: the partition folders in it, and the files about all of them.
//!
//! Many folders are named like partitions (`dbus-1` in `/etc`). Such a folder counts as a partition where its name and
//! one of these agree:
//!
//! | the folder | the directory that holds it | counts |
//! |---|---|---|
//! | holds a segment file, `partition.metadata` or `leader-epoch-checkpoint` | anything | yes |
//! | holds none of these, as one that a broker has just created | has `meta.properties`, a checkpoint or the clean-shutdown marker | yes |
//! | holds none of these | has none of those | no |
//!
//! Reading requires none of these files: a missing or broken checkpoint counts as none, as for the broker, which then
//! begins at the first segment (`LogManager.loadLogs`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::checkpoint::{LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, parse_offsets};
use crate::format::file_name::{FileKind, FileName, FolderName, FolderState};
use crate::format::properties::parse_properties;
use crate::io::storage::{Folder, ReadFolder, entries_if_any, read_small};
use crate::io::url::absolute;
pub(crate) use crate::io::url::dir_above;
use crate::producers::snapshots::MAX_SNAPSHOT;
use crate::types::TopicPartition;

use super::below::hint;
pub(crate) use super::kept::PartitionOffsets;

/// Identity of the log dir.
pub const META_PROPERTIES: &str = "meta.properties";
/// Its existence means that the broker stopped cleanly.
pub const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
/// First offset not known to be on disk.
pub const RECOVERY_POINT: &str = "recovery-point-offset-checkpoint";
/// First offset that may be read, where it lies above the first segment's base.
pub const LOG_START: &str = "log-start-offset-checkpoint";
/// High watermark.
pub(crate) const REPLICATION: &str = "replication-offset-checkpoint";
/// First offset not yet compacted.
pub(crate) const CLEANER: &str = "cleaner-offset-checkpoint";
/// The offset checkpoints of a log dir.
pub const CHECKPOINTS: [&str; 4] = [CLEANER, LOG_START, RECOVERY_POINT, REPLICATION];
/// Voters and votes of a KRaft node, in the folder of the metadata log.
pub(crate) const QUORUM_STATE: &str = "quorum-state";
/// The folder of indexes of segments in remote storage (`RemoteIndexCache.DIR_NAME`).
pub(crate) const REMOTE_INDEXES: &str = "remote-log-index-cache";

/// The most that is read of a text file of Kafka's, by its name.
#[must_use]
pub(crate) fn text_limit(name: &str) -> u64 {
    match name {
        // 200,000 partitions with the longest names.
        _ if CHECKPOINTS.contains(&name) => 64 << 20,
        // A million epochs.
        LEADER_EPOCH_CHECKPOINT => 16 << 20,
        // A few lines each; people add comments.
        META_PROPERTIES => 64 << 10,
        _ => 4 << 10,
    }
}

/// The most bytes that a file may have, by its name; `None` for files of any length.
#[must_use]
pub(crate) fn length_limit(name: &str) -> Option<u64> {
    let is_text = [META_PROPERTIES, CLEAN_SHUTDOWN, LEADER_EPOCH_CHECKPOINT]
        .into_iter()
        .chain([PARTITION_METADATA, QUORUM_STATE])
        .chain(CHECKPOINTS)
        .any(|each| each == name);
    if is_text {
        return Some(text_limit(name));
    }
    let kind = FileName::parse(name).map(|name| name.kind);
    (kind == Some(FileKind::Snapshot)).then_some(MAX_SNAPSHOT)
}

/// Reads the text file at `path`, and what is in it; `None` where there is none.
pub(crate) fn read_parsed<T>(
    path: &Path,
    parse: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<Option<T>> {
    let folder = Folder::at(path.parent().unwrap_or(path));
    read_parsed_in(&*folder, &folder_name(path), parse)
}

/// Reads a text file of a folder, and what is in it; `None` where there is none.
pub(crate) fn read_parsed_in<T>(
    folder: &dyn ReadFolder,
    name: &str,
    parse: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<Option<T>> {
    match read_small(folder, name, text_limit(name)) {
        Ok(text) => parse(&text)
            .map(Some)
            .map_err(|error| error.at(&folder.path_of(name))),
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Facts about the partitions of a log dir that are not in their folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirState {
    /// True if the clean-shutdown marker exists.
    pub clean_shutdown: bool,
    /// From [`RECOVERY_POINT`].
    pub recovery_points: Arc<PartitionOffsets>,
    /// From [`LOG_START`].
    pub log_starts: Arc<PartitionOffsets>,
    /// From [`REPLICATION`]; `None` without that file.
    pub high_watermarks: Option<Arc<PartitionOffsets>>,
}

impl DirState {
    /// Reads what there is.
    #[must_use]
    pub fn read(folder: impl Into<Folder>) -> Self {
        let folder = &*folder.into();
        let read = |name: &str| read_parsed_in(folder, name, parse_offsets).ok()?;
        let offsets = |name: &str| super::kept::offsets(&folder.path_of(name), || read(name));
        Self {
            clean_shutdown: folder.contains(CLEAN_SHUTDOWN).unwrap_or(false),
            recovery_points: offsets(RECOVERY_POINT).unwrap_or_default(),
            log_starts: offsets(LOG_START).unwrap_or_default(),
            high_watermarks: offsets(REPLICATION),
        }
    }
}

/// One partition folder of a log dir.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionFolder {
    /// Partition and purpose, from its name.
    pub name: FolderName,
    /// Path of the folder.
    pub path: PathBuf,
}

/// Refuses a log dir: log dirs are often named like partitions (`data-0`).
///
/// # Errors
/// `InvalidArgument` for a log dir in which no file is a segment's; `Io`.
pub(crate) fn ensure_partition(folder: &Folder) -> Result<()> {
    for entry in folder.entries()? {
        if entry?.name().and_then(FileName::parse).is_some() {
            return Ok(());
        }
    }
    PathKind::partition(folder).map(drop)
}

/// One log dir of a broker, as it was when it was opened: a folder of partition folders. Nothing in it is written or
/// locked.
///
/// ```
/// # fn main() -> Result<(), kafkalog::Error> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/clean-restarts/data-1");
/// let dir = kafkalog::LogDir::open(path)?;
/// for topic in dir.topics() {
///     println!("{topic}: partitions {:?}", dir.partitions(topic));
/// }
/// let log = dir.partition("orders", 0)?;
/// # assert_eq!(log.topic(), "orders");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LogDir {
    folder: Folder,
    folders: Vec<PartitionFolder>,
    /// Those of the folders that are links.
    links: BTreeSet<PathBuf>,
    /// It holds files and folders, but none of Kafka's.
    is_foreign: bool,
}

impl LogDir {
    /// Lists the partition folders. A folder named like a partition counts if it holds a segment file,
    /// `partition.metadata` or `leader-epoch-checkpoint`, or if the directory has `meta.properties`, a checkpoint or the
    /// marker of a clean shutdown. An empty directory may yet become a log dir.
    ///
    /// # Errors
    /// `Io` where `path` is not a directory that can be listed; `InvalidArgument` where it is a partition's folder, or
    /// holds files, but none of Kafka's: a path that was mistyped or is one folder too high.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::in_folder(Folder::at(absolute(path.as_ref())?))
    }

    /// As [`LogDir::open`], in any storage.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn in_folder(folder: Folder) -> Result<Self> {
        Self::list(folder)?.ensure_log_dir()
    }

    /// As [`LogDir::open`], of any directory that is not a partition's folder.
    ///
    /// # Errors
    /// `Io` where `path` is not a directory that can be listed; `InvalidArgument` where it is a partition's folder.
    pub(crate) fn list(folder: impl Into<Folder>) -> Result<Self> {
        let folder = folder.into();
        let (mut folders, mut links, mut seen) =
            (Vec::new(), BTreeSet::new(), DirTraits::default());
        for entry in folder.entries()? {
            let entry = entry?;
            // No partition folder's name is anything but ASCII; `remote-log-index-cache` does not parse as one.
            let Some(file_name) = entry.name() else {
                seen.foreign = true;
                continue;
            };
            match FolderName::parse(file_name) {
                Some(name) if entry.is_folder() => {
                    let path = folder.path_of(file_name);
                    links.extend(entry.is_link().then(|| path.clone()));
                    folders.push(PartitionFolder { name, path });
                }
                _ => seen.note(file_name),
            }
        }
        if !seen.dirs_own {
            folders.retain(|each| {
                let each = folder.folder(&folder_name(&each.path));
                let counts = holds_partition_files(&*each);
                // A crash may leave an empty one before anything else is in the log dir.
                seen.foreign |= !counts && !is_empty(&*each);
                counts
            });
        }
        // Else it would look like one that holds nothing.
        if folders.is_empty() && seen.partitions_own && !seen.dirs_own {
            let path = folder.path().display();
            let text = format!("{path}: a partition's folder, not a log dir");
            return Err(Error::InvalidArgument(text));
        }
        folders.sort();
        Ok(Self {
            is_foreign: folders.is_empty() && seen.foreign && !seen.dirs_own,
            folder,
            folders,
            links,
        })
    }

    fn ensure_log_dir(self) -> Result<Self> {
        if self.is_foreign {
            let text = format!(
                "{}: not a log dir: it contains no partition folder and none of a broker's files{}",
                self.path().display(),
                hint(&self.folder, |folder| Self::list(folder)
                    .is_ok_and(|dir| dir.is_certain()))
            );
            return Err(Error::InvalidArgument(text));
        }
        Ok(self)
    }

    /// Returns whether it holds partitions or a broker's files.
    fn is_certain(&self) -> bool {
        !self.folders.is_empty() || has_log_dir_files(&*self.folder)
    }

    /// Refuses a partition's folder; a directory with a broker's file in it need not be listed for that.
    ///
    /// # Errors
    /// As [`LogDir::list`].
    pub(crate) fn check(path: &Path) -> Result<()> {
        let folder = Folder::at(path);
        if has_log_dir_files(&*folder) {
            return Ok(());
        }
        Self::list(folder).map(drop)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of a partition in it.
    pub(crate) fn folder_of(&self, partition: &PartitionFolder) -> Folder {
        self.folder.folder(&folder_name(&partition.path))
    }

    /// Partition folders by topic, partition and state.
    #[must_use]
    pub fn folders(&self) -> &[PartitionFolder] {
        &self.folders
    }

    /// A folder's path without links and dots, by which it is known again; `place` is that of the log dir.
    pub(crate) fn place_of(&self, folder: &PartitionFolder, place: &Path) -> PathBuf {
        match folder.path.file_name() {
            Some(name) if !self.links.contains(&folder.path) => place.join(name),
            _ => self.folder_of(folder).place().unwrap_or_default(),
        }
    }

    /// `meta.properties`, if there is one.
    ///
    /// # Errors
    /// `Io`, or `CorruptIndex` where it is no properties file.
    pub fn meta_properties(&self) -> Result<Option<BTreeMap<String, String>>> {
        read_parsed_in(&*self.folder, META_PROPERTIES, parse_properties)
    }

    /// One of [`CHECKPOINTS`], if it exists.
    ///
    /// # Errors
    /// `Io`, or `CorruptIndex` where Kafka would refuse it.
    pub fn checkpoint(&self, name: &str) -> Result<Option<PartitionOffsets>> {
        read_parsed_in(&*self.folder, name, parse_offsets)
    }

    /// Returns whether the broker stopped cleanly: the marker `.kafka_cleanshutdown` exists.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.folder.contains(CLEAN_SHUTDOWN).unwrap_or(false)
    }

    /// The state all its partitions share.
    #[must_use]
    pub fn state(&self) -> DirState {
        DirState::read(&self.folder)
    }
}

/// Facts about a directory from the files in it.
#[derive(Default)]
struct DirTraits {
    /// A file that only log dirs have.
    dirs_own: bool,
    /// A file that only partition folders have.
    partitions_own: bool,
    /// Neither Kafka's nor a file system's own.
    foreign: bool,
}

impl DirTraits {
    fn note(&mut self, name: &str) {
        if is_of_log_dir(name) {
            self.dirs_own = true;
        } else if is_of_partition(name) {
            self.partitions_own = true;
        } else if !name.starts_with('.')
            && name != "lost+found"
            && !name.strip_suffix(".tmp").is_some_and(is_of_log_dir)
        {
            self.foreign = true;
        }
    }
}

/// Returns whether only log dirs have a file of this name. Not by `.lock`: others use that name, too.
pub(crate) fn is_of_log_dir(name: &str) -> bool {
    [META_PROPERTIES, CLEAN_SHUTDOWN].contains(&name) || CHECKPOINTS.contains(&name)
}

/// Returns whether only partition folders have a file of this name.
pub(crate) fn is_of_partition(name: &str) -> bool {
    // A crash leaves the file that was about to replace another (`CheckpointFile.write`).
    let written = name.strip_suffix(".tmp").unwrap_or(name);
    FileName::parse(written).is_some()
        || matches!(written, LEADER_EPOCH_CHECKPOINT | PARTITION_METADATA)
}

/// Returns whether a directory has files that only log dirs have.
fn has_log_dir_files(dir: &dyn ReadFolder) -> bool {
    let names = [META_PROPERTIES, CLEAN_SHUTDOWN];
    let mut names = names.into_iter().chain(CHECKPOINTS);
    names.any(|name| dir.contains(name).unwrap_or(false))
}

/// Returns whether a directory has files that only partition folders have. One that cannot be listed counts, so that
/// its reader reports the error.
pub(crate) fn holds_partition_files(folder: &dyn ReadFolder) -> bool {
    match entries_if_any(folder) {
        Ok(entries) => entries
            .flatten()
            .any(|entry| entry.name().is_some_and(is_of_partition)),
        Err(_) => true,
    }
}

/// Returns whether a directory can be listed and has no entries.
fn is_empty(folder: &dyn ReadFolder) -> bool {
    folder
        .entries()
        .is_ok_and(|mut entries| entries.next().is_none())
}

/// Kind of a path that a user names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathKind {
    /// A directory with partition folders.
    LogDir,
    /// A partition folder.
    Partition(FolderName),
    /// A file.
    File,
}

impl PathKind {
    /// Looks at a path. A name alone does not tell: log dirs are often called `data-0`.
    ///
    /// # Errors
    /// `Io` if the path does not exist.
    pub(crate) fn of(folder: impl Into<Folder>) -> Result<Self> {
        let folder = folder.into();
        if !folder.is_folder()? {
            return Ok(Self::File);
        }
        let mut seen = DirTraits::default();
        for entry in folder.entries()? {
            let entry = entry?;
            let Some(name) = entry.name() else {
                continue;
            };
            seen.note(name);
            let is_partition = || entry.is_folder() && holds_partition_files(&*folder.folder(name));
            if seen.dirs_own || (FolderName::parse(name).is_some() && is_partition()) {
                return Ok(Self::LogDir);
            }
        }
        let is_partition = seen.partitions_own
            || (FolderName::parse(&folder_name(folder.path())).is_some()
                && has_log_dir_files(&*folder.above()));
        Ok(if is_partition {
            Self::Partition(Self::name_of(folder.path()))
        } else {
            Self::LogDir
        })
    }

    /// Topic, partition and state of a partition folder.
    ///
    /// # Errors
    /// `Io` if the path does not exist; `InvalidArgument` for anything but a partition folder.
    pub(crate) fn partition(folder: impl Into<Folder>) -> Result<FolderName> {
        let folder = folder.into();
        if let Self::Partition(name) = Self::of(&folder)? {
            return Ok(name);
        }
        let mut text = format!("{}: not a partition folder", folder.path().display());
        match LogDir::in_folder(folder) {
            Ok(dir) => {
                if let Some(one) = dir.folders.first() {
                    text = format!("{text}; {} is one", one.path.display());
                }
            }
            // It names a log dir below.
            Err(error @ Error::InvalidArgument(_)) => return Err(error),
            Err(_) => {}
        }
        Err(Error::InvalidArgument(text))
    }

    /// Topic and partition of a folder that holds a partition's files, also under a name of the user's own.
    #[must_use]
    pub(crate) fn name_of(folder: &Path) -> FolderName {
        let name = folder_name(folder);
        FolderName::parse(&name).unwrap_or_else(|| FolderName {
            topic_partition: TopicPartition::new(name, UNKNOWN_PARTITION),
            state: FolderState::Live,
        })
    }
}

/// Kafka's number for an unknown partition (`RecordMetadata.UNKNOWN_PARTITION`).
pub(crate) const UNKNOWN_PARTITION: i32 = -1;

/// The last name of a path, also of `.` and `..`.
pub(crate) fn folder_name(path: &Path) -> String {
    path.file_name().map_or_else(
        || {
            let whole = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
            let name = whole.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        },
        |name| name.to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
mod tests;
