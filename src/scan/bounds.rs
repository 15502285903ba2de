//! The first and last offsets of partitions, without a plan to read them.
//!
//! They are Kafka's answers to `ListOffsets` for earliest and latest. The end of a log is found in the headers of its
//! active segment, from the last position in its index.

use std::path::PathBuf;

use super::plan::{PlanOptions, query_each, stable_end_of, transactions_of};
use crate::error::Result;
use crate::log::listed::ListedLog;
use crate::types::Offset;

/// The offsets of one partition that may be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionBounds {
    /// The partition folder.
    pub folder: PathBuf,
    /// The topic's name.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
    /// The log start offset.
    pub start_offset: Offset,
    /// The offset after the last one, as [`PlanOptions::ending_offsets`] and the isolation level bound it.
    pub end_offset: Offset,
}

/// The bounds of every partition that the options choose, by topic and partition.
///
/// # Errors
/// As [`super::plan::plan_scan`], and a fault in a header of an active segment.
pub(crate) fn bounds(paths: &[PathBuf], options: &PlanOptions) -> Result<Vec<PartitionBounds>> {
    query_each(paths, options, bounds_of)
}

fn bounds_of(log: &ListedLog, options: &PlanOptions) -> Result<PartitionBounds> {
    let mut transactions = transactions_of(log, options)?;
    let end_offset = match stable_end_of(log, options, transactions.as_mut())? {
        Some(end) => end,
        None => log.log_end_offset()?,
    };
    let partition = log.name().topic_partition.clone();
    Ok(PartitionBounds {
        folder: log.path().to_path_buf(),
        topic: partition.topic,
        partition: partition.partition,
        start_offset: log.log_start_offset(),
        end_offset: end_offset.max(log.log_start_offset()),
    })
}
