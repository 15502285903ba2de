//! Report of a recovery, done or planned.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::error::{self, Error};
use crate::io::overlay::FileChange;
use crate::load::{LoadRequest, Note, Plan};
use crate::log::dir::PartitionFolder;
use crate::types::{Offset, TopicPartition};
use crate::write::checkpoints::CheckpointChange;

/// The error of a plan without an outcome.
pub(super) fn not_loaded(partition: &PartitionFolder) -> Error {
    Error::InvalidArgument(format!("{}: not loaded", partition.path.display()))
}

/// A path, which need not be Unicode.
struct PathBytes<'a>(&'a Path);

impl Serialize for PathBytes<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.0.as_os_str().as_encoded_bytes())
    }
}

pub(in crate::tools) fn path_bytes<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    PathBytes(path).serialize(to)
}

fn each_path_bytes<S: Serializer>(paths: &[PathBuf], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(paths.iter().map(|path| PathBytes(path)))
}

/// File or folder of a source that is not in the result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LeftOut {
    /// The file or folder.
    #[serde(serialize_with = "path_bytes")]
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

impl LeftOut {
    pub(super) fn new(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

/// Report of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartitionReport {
    /// Its folder in the source.
    #[serde(rename = "path", serialize_with = "path_bytes")]
    pub folder: PathBuf,
    /// The partition whose records it holds.
    #[serde(flatten)]
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
    /// Bytes of batches and of damage that were cut or deleted.
    pub bytes_cut: u64,
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
    ) -> error::Result<Self> {
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
            bytes_cut: bytes_cut(&plan.notes),
            notes: said_once(&plan.notes),
            files: plan.changes(),
        })
    }
}

fn bytes_cut(notes: &[Note]) -> u64 {
    let cut = |note: &Note| match note {
        Note::Recovered { truncated, .. } => *truncated,
        Note::Dropped { size, .. } | Note::Deleted { size, .. } => *size,
        Note::Salvaged { lost, .. } => *lost,
        _ => 0,
    };
    notes.iter().map(cut).sum()
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

/// Report of a recovery, done or planned, or of a tool that loads as it does and has more to say about partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecoveryReport<P = PartitionReport> {
    /// The log dir or partition folder.
    #[serde(serialize_with = "path_bytes")]
    pub path: PathBuf,
    /// Directory of the result, if not in place.
    #[serde(skip)]
    pub out: Option<PathBuf>,
    /// Nothing was written.
    pub dry_run: bool,
    /// The broker had stopped cleanly.
    pub clean: bool,
    /// The partitions, by topic and number.
    pub partitions: Vec<P>,
    /// Lines of the log dir's checkpoints that changed.
    pub checkpoints: Vec<CheckpointChange>,
    /// Folders that a broker does not load this way: folders being deleted, and the metadata log.
    #[serde(serialize_with = "each_path_bytes")]
    pub skipped: Vec<PathBuf>,
    /// Files and folders of the source that are not in `out`.
    pub left_out: Vec<LeftOut>,
}

impl RecoveryReport {
    /// The report with other reports of the partitions.
    pub(in crate::tools) fn map<P>(
        self,
        partitions: impl FnOnce(Vec<PartitionReport>) -> Vec<P>,
    ) -> RecoveryReport<P> {
        RecoveryReport {
            path: self.path,
            out: self.out,
            dry_run: self.dry_run,
            clean: self.clean,
            partitions: partitions(self.partitions),
            checkpoints: self.checkpoints,
            skipped: self.skipped,
            left_out: self.left_out,
        }
    }
}
