//! Report of a recovery, done or planned.

use std::path::PathBuf;

use super::beside::LeftOut;
use crate::error::{Error, Result};
use crate::io::overlay::FileChange;
use crate::load::{LoadRequest, Note, Plan};
use crate::log::dir::PartitionFolder;
use crate::types::{Offset, TopicPartition};
use crate::write::checkpoints::CheckpointChange;

/// The error of a plan without an outcome.
pub(super) fn not_loaded(partition: &PartitionFolder) -> Error {
    Error::InvalidArgument(format!("{}: not loaded", partition.path.display()))
}

/// Report of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionReport {
    /// Its folder in the source.
    pub folder: PathBuf,
    /// The partition whose records it holds.
    pub topic_partition: TopicPartition,
    /// Offset at which checking began; everything below it was trusted.
    pub recovered_from: Offset,
    /// First offset that may be read.
    pub log_start_offset: Offset,
    /// The next offset to be written.
    pub log_end_offset: Offset,
    /// Number of segments.
    pub segments: usize,
    /// Bytes of their `.log` files.
    pub size: u64,
    /// The highest producer id that a broker would still know; `None` if there is no producer.
    pub highest_producer_id: Option<i64>,
    /// The latest leader epoch; `None` for a log without batches.
    pub latest_leader_epoch: Option<i32>,
    /// Notes, in order.
    pub notes: Vec<Note>,
    /// Changes of the files, by name.
    pub files: Vec<FileChange>,
}

impl PartitionReport {
    pub(in crate::tools) fn of(
        partition: &PartitionFolder,
        request: LoadRequest,
        plan: &Plan,
    ) -> Result<Self> {
        let Ok(log) = &plan.outcome else {
            return Err(not_loaded(partition));
        };
        Ok(Self {
            folder: partition.path.clone(),
            topic_partition: partition.name.topic_partition.clone(),
            recovered_from: if request.clean {
                log.log_end_offset
            } else {
                request.recovery_point
            },
            log_start_offset: log.log_start_offset,
            log_end_offset: log.log_end_offset,
            segments: log.segments.len(),
            size: log.segments.iter().map(|segment| segment.size).sum(),
            highest_producer_id: log.producers.highest_producer_id(),
            latest_leader_epoch: log.epochs.latest().map(|entry| entry.epoch),
            notes: said_once(&plan.notes),
            files: plan.changes(),
        })
    }

    /// Bytes of batches and of damage that were cut or deleted.
    #[must_use]
    pub fn bytes_cut(&self) -> u64 {
        let notes = self.notes.iter();
        notes
            .map(|note| match note {
                Note::Recovered { truncated, .. } => *truncated,
                Note::Dropped { size, .. } | Note::Deleted { size, .. } => *size,
                Note::Salvaged { lost, .. } => *lost,
                _ => 0,
            })
            .sum()
    }
}

/// A segment without an index is checked when it is opened, and again with the others; it is reported once.
fn said_once(notes: &[Note]) -> Vec<Note> {
    let mut once: Vec<Note> = Vec::new();
    for note in notes {
        let may_repeat = matches!(
            note,
            Note::Recovered { truncated: 0, .. } | Note::IndexFull { .. } | Note::OutOfOrder { .. }
        );
        let is_known = may_repeat && once.contains(note);
        if !is_known {
            once.push(note.clone());
        }
    }
    once
}

/// Report of a recovery, done or planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The log dir or partition folder.
    pub path: PathBuf,
    /// Directory of the result, if not in place.
    pub out: Option<PathBuf>,
    /// Nothing was written.
    pub dry_run: bool,
    /// The broker had stopped cleanly.
    pub clean: bool,
    /// The partitions, by topic and number.
    pub partitions: Vec<PartitionReport>,
    /// Lines of the log dir's checkpoints that changed.
    pub checkpoints: Vec<CheckpointChange>,
    /// Folders that a broker does not load this way: folders being deleted, and the metadata log.
    pub skipped: Vec<PathBuf>,
    /// Files and folders of the source that are not in `out`.
    pub left_out: Vec<LeftOut>,
}
