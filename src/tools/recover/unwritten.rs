//! A new log dir as it would be, of which nothing is written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::beside::LeftOut;
use super::options::RecoverySettings;
use super::report::PartitionReport;
use crate::error::Result;
use crate::io::storage::ReadFolder;
use crate::load::LoadRequest;
use crate::log::dir::{LOG_START, PartitionOffsets, RECOVERY_POINT};
use crate::types::{Offset, TopicPartition};
use crate::write::checkpoints::Checkpoints;
use crate::write::storage::{JOB_NOTE, refuse_pending};

/// Gives a partition's folder as it would be.
pub(in crate::tools) type PlannedFolder<'a> = Box<dyn Fn() -> Result<Arc<dyn ReadFolder>> + 'a>;

/// A new log dir as it would be.
pub(in crate::tools) struct Unwritten<'a> {
    pub(super) options: &'a RecoverySettings,
    /// Report of loading each partition, and its folder.
    pub(in crate::tools) partitions: Vec<(&'a PartitionReport, PlannedFolder<'a>)>,
    /// The log dir that all but its partitions and changed checkpoints is copied from; `None` where there is nothing else.
    pub(super) source: Option<&'a Path>,
    /// Files of the source that are not copied.
    pub(super) left_out: &'a [LeftOut],
    pub(super) checkpoints: &'a Checkpoints,
    pub(super) has_marker: bool,
}

impl Unwritten<'_> {
    /// Refuses, as opening its partitions for writing does.
    ///
    /// # Errors
    /// `Refused` for the note of a job that would be copied; `Io`.
    pub(in crate::tools) fn ensure_no_job(&self) -> Result<()> {
        match (self.source, self.copied(JOB_NOTE)) {
            (Some(source), Some(_)) => refuse_pending(source, None),
            _ => Ok(()),
        }
    }

    /// The lines of one of its checkpoints.
    pub(in crate::tools) fn lines(&self, file: &str) -> Result<PartitionOffsets> {
        let copied = self.copied(file);
        self.checkpoints.lines_or_in(file, copied.as_deref())
    }

    /// The file of this name that would be copied, if there is one.
    fn copied(&self, name: &str) -> Option<PathBuf> {
        let path = self.source?.join(name);
        let is_left = self.left_out.iter().any(|left| left.path == path);
        (!is_left).then_some(path)
    }

    /// Inputs for loading its partitions.
    pub(in crate::tools) fn requests(
        &self,
    ) -> Result<impl Fn(&TopicPartition) -> LoadRequest + use<>> {
        let (recovery_points, log_starts) = (self.lines(RECOVERY_POINT)?, self.lines(LOG_START)?);
        let (clean, options) = (self.has_marker, self.options);
        let (now_ms, producer_id_expiration_ms) =
            (options.now_ms, options.producer_id_expiration_ms);
        let of = |line: Option<&Offset>| line.copied().unwrap_or_default();
        Ok(move |partition: &TopicPartition| LoadRequest {
            clean,
            recovery_point: of(recovery_points.get(partition)),
            log_start_offset: of(log_starts.get(partition)),
            now_ms,
            producer_id_expiration_ms,
        })
    }
}
