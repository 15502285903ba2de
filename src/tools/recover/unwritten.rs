//! A new log dir as it would be, of which nothing is written.

use std::path::Path;
use std::sync::Arc;

use super::options::RecoverOptions;
use super::report::PartitionReport;
use crate::error::Result;
use crate::io::storage::ReadFolder;
use crate::load::LoadRequest;
use crate::log::dir::{LOG_START, Offsets, RECOVERY_POINT};
use crate::types::{Offset, TopicPartition};
use crate::write::checkpoints::Checkpoints;
use crate::write::storage::refuse_pending;

/// Gives a partition's folder as it would be.
pub(in crate::tools) type Folder<'a> = Box<dyn Fn() -> Result<Arc<dyn ReadFolder>> + 'a>;

/// A new log dir as it would be.
pub(in crate::tools) struct Unwritten<'a> {
    pub(super) options: &'a RecoverOptions,
    /// How each partition was loaded, and its folder.
    pub(in crate::tools) partitions: Vec<(&'a PartitionReport, Folder<'a>)>,
    /// The log dir that all but its partitions and changed checkpoints is copied from; `None` where there is nothing else.
    pub(super) copied: Option<&'a Path>,
    pub(super) checkpoints: &'a Checkpoints,
    pub(super) has_marker: bool,
}

impl Unwritten<'_> {
    /// Refuses, as opening its partitions for writing does.
    ///
    /// # Errors
    /// `Refused` for the note of a job that would be copied; `Io`.
    pub(in crate::tools) fn ensure_no_job(&self) -> Result<()> {
        self.copied
            .map_or(Ok(()), |from| refuse_pending(from, None))
    }

    /// The lines of one of its checkpoints.
    pub(in crate::tools) fn lines(&self, file: &str) -> Result<Offsets> {
        self.checkpoints.lines_beside(file, self.copied)
    }

    /// What a loading of its partitions is told.
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
