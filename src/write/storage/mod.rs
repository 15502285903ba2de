//! Log dirs opened for writing, and the partition folders in them (`LogManager`, `MetaPropertiesEnsemble`).
//!
//! | file | when |
//! |---|---|
//! | `.lock` | held from the first partition opened to the last one closed |
//! | `meta.properties` | written into a new log dir if the user gives ids |
//! | `partition.metadata` | written into a partition folder that has none, before any record |
//! | `.kafka_cleanshutdown` | removed before anything is written; written when everything is closed cleanly |
//! | `.kafkalog-job` | the note of a job that has not ended ([`job`]): others are refused |
//! | recovery point, log start and replication checkpoint | rewritten whole, other partitions' lines kept |
//!
//! The writers of one process share the state of a log dir. Its marker covers all partitions in it, so it is restored
//! only if it existed before, or if every partition has been opened (which recovers it) and closed since; never if one
//! was left unclean. A failure in between leaves no marker, so a broker checks the logs afterwards.

mod dir;
mod identity;
mod job;
mod partition;
mod progress;

use std::path::PathBuf;

use self::dir::DirHandle;
pub(crate) use self::dir::write_checkpoints;
pub use self::identity::Identity;
use self::identity::identify;
pub(crate) use self::job::{JOB_NOTE, OWN_FILES, STREAM_FILES, refuse_pending};
pub(crate) use self::partition::PartitionDir;
pub(crate) use self::progress::PartitionProgress;
use crate::error::{Error, Result};
use crate::format::file_name::{FolderState, MAX_TOPIC_LEN, is_topic_name};
use crate::format::uuid::Uuid;
use crate::io::disk::Disk;
use crate::log::dir::LogDir;
use crate::types::TopicPartition;

/// Log dirs opened for writing, one for each disk.
#[derive(Debug)]
pub(crate) struct LogDirs {
    dirs: Vec<DirHandle>,
    job: Option<String>,
}

impl LogDirs {
    /// Opens log dirs, made where they are not there.
    ///
    /// # Errors
    /// `LogLocked` where another process holds one of them. `InvalidArgument` for none, one twice, a partition folder,
    /// or ids that are not those in `meta.properties`. `CorruptIndex` where that file is broken. `Io`.
    pub(crate) fn open(paths: &[PathBuf], identity: &Identity, disk: &Disk) -> Result<Self> {
        identity.ids()?;
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
        Ok(Self { dirs, job: None })
    }

    /// Opens partitions for this job, whose note does not keep it out.
    #[must_use]
    pub(crate) fn for_job(mut self, job: Option<String>) -> Self {
        self.job = job;
        self
    }

    /// Opens a partition's folder, made in the log dir with the fewest partitions if it is in none of them.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that Kafka would refuse, or another topic id than the folder's.
    /// `DuplicatePartition` where two log dirs have it. `LogLocked` where another writer of this process writes to it.
    /// `Refused` where another job has left its note. `CorruptIndex` for a broken `partition.metadata`. `Io`.
    pub(crate) fn partition(
        &self,
        partition: &TopicPartition,
        topic_id: Option<Uuid>,
    ) -> Result<PartitionDir> {
        check_names(partition, topic_id)?;
        for dir in &self.dirs {
            job::refuse_pending(&dir.path, self.job.as_deref())?;
        }
        let name = partition.to_string();
        let mut found = self.dirs.iter().filter(|dir| dir.path.join(&name).is_dir());
        let (dir, is_new) = match (found.next(), found.next()) {
            (None, _) => (self.create_folder(&name)?, true),
            (Some(dir), None) => (dir, false),
            (Some(first), Some(second)) => {
                return Err(Error::DuplicatePartition {
                    first: first.path.join(&name),
                    second: second.path.join(&name),
                    partition: name,
                });
            }
        };
        PartitionDir::open(dir, partition.clone(), topic_id, is_new)
    }

    /// Creates a partition folder where there are the fewest, or in the next such log dir if that does not go
    /// (`LogManager.nextLogDirs`).
    fn create_folder(&self, name: &str) -> Result<&DirHandle> {
        let counted = self.dirs.iter().map(|dir| {
            let folders = LogDir::list(&dir.path)?;
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
            match dir.disk.create_folders(&dir.path.join(name)) {
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
    pub(crate) fn close(mut self) -> Result<()> {
        let outcomes: Vec<_> = self.dirs.iter_mut().map(DirHandle::close).collect();
        outcomes.into_iter().collect()
    }
}

/// Checks that Kafka accepts this name and id, before anything is created for them.
///
/// # Errors
/// `InvalidArgument` where it would not.
pub(crate) fn check_names(partition: &TopicPartition, topic_id: Option<Uuid>) -> Result<()> {
    if !is_topic_name(&partition.topic) || partition.partition < 0 {
        return Err(Error::InvalidArgument(format!(
            "topic {:?}: expected 1 to {MAX_TOPIC_LEN} ASCII letters, digits, '.', '_' and '-', but not '.' or '..'",
            partition.topic
        )));
    }
    if topic_id == Some(Uuid::ZERO) {
        return Err(Error::InvalidArgument(
            "the topic id of all zeros means none".to_owned(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
