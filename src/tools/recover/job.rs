//! A recovery, and what other tools add to it.

use std::path::Path;

use super::options::RecoverySettings;
use super::report::PartitionReport;
use super::unwritten::Unwritten;
use crate::error::Result;
use crate::io::disk::Disk;
use crate::load::Plan;
use crate::log::config::LogConfig;
use crate::log::dir::PartitionFolder;

/// Steps after the loading of each partition, on the way into a new log dir.
pub(in crate::tools) trait AfterLoad {
    /// Reason why the partition is not in the result, if it is not.
    fn why_left_out(&self, _partition: &PartitionFolder) -> Option<&str> {
        None
    }

    /// Returns whether nothing may be copied that is not read, as it may hold what is to go.
    fn erases(&self) -> bool {
        false
    }

    /// Plans more, before the log is closed. A plan that took too much memory is made again.
    fn plan(&self, partition: &PartitionFolder, config: &LogConfig, plan: &mut Plan) -> Result<()>;

    /// Writes the partition's folder.
    fn write(
        &self,
        _partition: &PartitionFolder,
        plan: &Plan,
        disk: &Disk,
        to: &Path,
    ) -> Result<()> {
        plan.write_to(disk, to)
    }
}

/// Step on the new log dir once all partitions are in it, before it is finished.
pub(in crate::tools) trait After {
    /// Does it.
    fn run(&self, loaded: &[PartitionReport], disk: &Disk) -> Result<()>;

    /// Finds out what would come of it, of a log dir that is not written.
    fn rehearse(&self, unwritten: Unwritten<'_>) -> Result<()>;
}

/// A recovery, and what comes after it.
#[derive(Clone, Copy)]
pub(super) struct RecoveryJob<'a> {
    pub(super) options: &'a RecoverySettings,
    pub(super) steps: Option<&'a dyn AfterLoad>,
    pub(super) after: Option<&'a dyn After>,
}

impl<'a> RecoveryJob<'a> {
    /// A recovery, and nothing after it.
    pub(super) const fn new(options: &'a RecoverySettings) -> Self {
        Self {
            options,
            steps: None,
            after: None,
        }
    }

    /// Returns whether the result is a log dir, whatever the source is.
    pub(super) fn makes_log_dir(&self, is_log_dir: bool) -> bool {
        let is_for_more = self.steps.is_some() || self.after.is_some();
        self.options.out.is_some() && (is_log_dir || is_for_more)
    }
}
