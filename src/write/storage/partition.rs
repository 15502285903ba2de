//! A partition folder that is open for writing, from its claim to its checkpoints.

use std::path::{Path, PathBuf};

use super::dir::DirHandle;
use super::progress::PartitionProgress;
use crate::error::{Error, Result};
use crate::format::checkpoint::{
    PARTITION_METADATA, parse_partition_metadata, write_partition_metadata,
};
use crate::format::uuid::Uuid;
use crate::io::atomic;
use crate::io::lock::PartitionClaim;
use crate::log::dir::read_parsed;
use crate::types::{Offset, TopicPartition};
use crate::write::checkpoints::truncate_cleaner;

/// A partition folder opened for writing: what the log dir knows of it, and tells of it.
#[derive(Debug)]
pub(crate) struct PartitionDir {
    dir: DirHandle,
    _claim: PartitionClaim,
    partition: TopicPartition,
    folder: PathBuf,
    topic_id: Option<String>,
    /// The topic id is not in the folder yet.
    is_id_new: bool,
    is_clean: bool,
    /// An earlier writer of this process left it without closing it.
    was_left: bool,
    recovery_point: Option<Offset>,
    log_start_offset: Option<Offset>,
    high_watermark: Option<Offset>,
}

impl PartitionDir {
    pub(super) fn open(
        dir: &DirHandle,
        partition: TopicPartition,
        topic_id: Option<Uuid>,
        is_new: bool,
    ) -> Result<Self> {
        let claim = dir.lock.claim(&partition.to_string())?;
        let dir = dir.share()?;
        let folder = dir.path.join(partition.to_string());
        let (topic_id, is_id_new) = topic_id_of(&folder, topic_id)?;
        let mut opened = Self {
            folder,
            topic_id,
            is_id_new,
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
                for (_, offsets) in known.checkpoints() {
                    offsets.remove(key);
                }
            }
            let was_closed = known.closed.remove(key);
            let was_left = !known.dirty.insert(key.clone());
            let is_clean = is_new || was_closed || (known.was_clean && !was_left);
            let offsets = known
                .checkpoints()
                .map(|(_, offsets)| offsets.get(key).copied());
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

    /// The log dir.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn log_dir(&self) -> &Path {
        &self.dir.path
    }

    /// The partition folder.
    #[must_use]
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The topic id in `partition.metadata`.
    #[must_use]
    pub(crate) fn topic_id(&self) -> Option<&str> {
        self.topic_id.as_deref()
    }

    /// Writes the topic id into a folder that has none: the log was loaded, and what is refused stays as it is.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn write_topic_id(&self) -> Result<()> {
        let Some(id) = self.topic_id.as_ref().filter(|_| self.is_id_new) else {
            return Ok(());
        };
        let path = self.folder.join(PARTITION_METADATA);
        atomic::replace(
            &self.dir.disk,
            &path,
            &write_partition_metadata(id.parse()?),
        )
    }

    /// Returns whether it was closed as it should be when it was last written to; a new one was.
    #[must_use]
    pub(crate) const fn is_clean(&self) -> bool {
        self.is_clean
    }

    /// The recovery point as it was checkpointed.
    #[must_use]
    pub(crate) const fn recovery_point(&self) -> Option<Offset> {
        self.recovery_point
    }

    /// The log start offset as it was checkpointed.
    #[must_use]
    pub(crate) const fn log_start_offset(&self) -> Option<Offset> {
        self.log_start_offset
    }

    /// The high watermark as it was checkpointed.
    #[cfg(test)]
    #[must_use]
    pub(crate) const fn high_watermark(&self) -> Option<Offset> {
        self.high_watermark
    }

    /// Returns whether this process may write: a forked child may not.
    #[must_use]
    pub(crate) fn is_held(&self) -> bool {
        self.dir.lock.is_held()
    }

    /// Brings the log dir's checkpoints up to date, after a flush.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn checkpoint(&self, progress: &PartitionProgress) -> Result<()> {
        self.dir.checkpoint(&self.partition, progress)
    }

    /// Brings the checkpoint of compaction in line with a log that was cut, and now ends in a segment with this base.
    ///
    /// # Errors
    /// `Io`; `CorruptIndex` for a checkpoint that cannot be read.
    pub(crate) fn truncate_cleaner(&self, active_base_offset: Offset) -> Result<()> {
        let (path, disk) = (&self.dir.path, &self.dir.disk);
        self.dir
            .with(|_| truncate_cleaner(disk, path, &self.partition, active_base_offset))
    }

    /// Says that the partition's files are complete and on the device. Where it is dropped without, or this fails, the
    /// log dir gets no marker, and the next to load it recovers it.
    ///
    /// # Errors
    /// `Io` where a checkpoint or the marker cannot be written.
    pub(crate) fn close(mut self, progress: &PartitionProgress) -> Result<()> {
        self.checkpoint(progress)?;
        self.dir.with(|dir| {
            dir.dirty.remove(&self.partition);
            dir.closed.insert(self.partition.clone());
            dir.marker = None;
            Ok(())
        })?;
        self.dir.close()
    }

    /// Gives the partition back as it was: nothing was written.
    ///
    /// # Errors
    /// `Io` where the marker cannot be written.
    pub(crate) fn release(mut self) -> Result<()> {
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

/// The topic id that is there, else the one given, and whether it is that one.
fn topic_id_of(folder: &Path, given: Option<Uuid>) -> Result<(Option<String>, bool)> {
    let path = folder.join(PARTITION_METADATA);
    let there = read_parsed(&path, parse_partition_metadata)?;
    match (there, given) {
        (Some(there), Some(given)) if there.parse::<Uuid>()? != given => {
            Err(Error::InvalidArgument(format!(
                "{}: the topic id is {there}, not {given}",
                path.display()
            )))
        }
        (None, Some(given)) => Ok((Some(given.to_string()), true)),
        (there, _) => Ok((there, false)),
    }
}
