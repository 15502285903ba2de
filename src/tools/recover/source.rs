//! Source of a recovery, and the right to change it.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::file_name::{CLUSTER_METADATA_TOPIC, FolderState};
use crate::io::lock::{LogDirLock, PartitionClaim};
use crate::log::dir::{LogDir, PartitionFolder, PathKind, dir_above, ensure_partition};

/// Source of a recovery.
pub(super) struct RecoverySource {
    /// Not one partition's folder.
    pub(super) is_log_dir: bool,
    /// The path, or the folder above it.
    pub(super) log_dir: PathBuf,
    pub(super) partitions: Vec<PartitionFolder>,
    pub(super) skipped: Vec<PathBuf>,
}

impl RecoverySource {
    pub(super) fn of(path: &Path) -> Result<Self> {
        match PathKind::of(path)? {
            PathKind::LogDir => {
                let (partitions, skipped) = partitions(path)?;
                Ok(Self {
                    is_log_dir: true,
                    log_dir: path.to_path_buf(),
                    partitions,
                    skipped,
                })
            }
            PathKind::Partition(name) => Ok(Self {
                is_log_dir: false,
                log_dir: dir_above(path),
                partitions: vec![PartitionFolder {
                    name,
                    path: path.to_path_buf(),
                }],
                skipped: Vec::new(),
            }),
            PathKind::File => {
                let text = format!("{}: not a log dir or partition folder", path.display());
                Err(Error::InvalidArgument(text))
            }
        }
    }
}

/// The partition folders that a broker loads; not those being deleted, nor the metadata log, which is loaded by other
/// rules.
fn partitions(log_dir: &Path) -> Result<(Vec<PartitionFolder>, Vec<PathBuf>)> {
    let dir = LogDir::open(log_dir)?;
    let folders = dir.folders().to_vec();
    let (loaded, skipped): (Vec<_>, Vec<_>) = folders.into_iter().partition(|folder| {
        folder.name.state != FolderState::Delete
            && folder.name.topic_partition.topic != CLUSTER_METADATA_TOPIC
    });
    loaded
        .iter()
        .try_for_each(|each| ensure_partition(&dir.folder_of(each)))?;
    let skipped = skipped.into_iter().map(|folder| folder.path).collect();
    Ok((loaded, skipped))
}

/// The right to write a log dir, and its partitions.
pub(in crate::tools) type Claims = (LogDirLock, Vec<PartitionClaim>);

/// The lock of the log dir, and the right to every partition: no second writer works where a broker or a writer does.
pub(in crate::tools) fn claim(log_dir: &Path, partitions: &[PartitionFolder]) -> Result<Claims> {
    let lock = LogDirLock::acquire(log_dir)?;
    let name = |partition: &PartitionFolder| {
        let name = partition.path.file_name();
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    let claims = partitions
        .iter()
        .map(|partition| lock.claim(&name(partition)));
    let claims = claims.collect::<Result<_>>()?;
    Ok((lock, claims))
}
