//! A partition's log that can be read while a broker replaces its files.
//!
//! A [`PartitionLog`] lists its folder when it is opened. Since then, a cleaner may have merged segments and retention
//! may have removed some. A lookup in files that were removed fails although the data is sound. It is then repeated on
//! the current folder.

use std::path::Path;

use super::dir::{DirState, PathKind};
use super::listed::ListedLog;
use crate::error::Result;
use crate::format::checkpoint::EpochEntry;
use crate::format::file_name::FolderName;
use crate::io::storage::Folder;
use crate::io::url::absolute;
use crate::segment::LogSegment;
use crate::segment::skipping::OnCorrupt;
use crate::segment::statistics::SegmentStatistics;
use crate::types::{Offset, TimestampMs};

pub use super::listed::{Lookup, OffsetAndTimestamp};

/// Number of times that the folder may change again before an error is final.
const RELISTINGS: usize = 8;

/// One partition folder, with the answers that a broker would give after loading it. Nothing in it is written or locked.
///
/// It can be used while a broker runs: [`PartitionLog::segments`], [`PartitionLog::log_start_offset`] and
/// [`PartitionLog::high_watermark`] are as they were when the log was opened. Every other answer is that of the folder
/// at the time of the call, if a broker replaced files.
///
/// ```
/// # fn main() -> Result<(), kafkalog::Error> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/clean-restarts/data-1/orders-0");
/// let log = kafkalog::PartitionLog::open(path)?;
/// let end = log.log_end_offset()?;
/// if let Some(found) = log.lookup(log.log_start_offset())? {
///     println!("first record at byte {} of segment {}", found.position, found.segment_base_offset);
/// }
/// # assert!(end > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PartitionLog {
    listed: ListedLog,
}

impl PartitionLog {
    /// Opens a partition folder and reads the checkpoints of the log dir above it.
    ///
    /// # Errors
    /// `Io` if the folder does not exist, `InvalidArgument` if it is not a partition folder, `CorruptRecord` for a
    /// broken swap file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        ListedLog::open(Folder::at(absolute(path.as_ref())?)).map(|listed| Self { listed })
    }

    /// Opens a folder that a listing of its log dir found. `dir` is what the log dir says of its partitions, read once
    /// for all of them.
    ///
    /// # Errors
    /// As [`PartitionLog::open`].
    pub(crate) fn open_in(path: &Path, dir: &DirState) -> Result<Self> {
        let listed = ListedLog::open_in(Folder::at(path), PathKind::name_of(path), dir)?;
        if listed.segments().is_empty() {
            PathKind::partition(path)?;
        }
        Ok(Self { listed })
    }

    /// The log as it was listed when it was opened.
    #[cfg(feature = "internal")]
    #[must_use]
    pub const fn listed(&self) -> &ListedLog {
        &self.listed
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.listed.path()
    }

    /// Topic, partition and state, from the folder's name.
    #[must_use]
    pub const fn name(&self) -> &FolderName {
        self.listed.name()
    }

    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.name().topic_partition.topic
    }

    /// The partition's number.
    #[must_use]
    pub const fn partition(&self) -> i32 {
        self.name().topic_partition.partition
    }

    /// The segments in order.
    #[must_use]
    pub fn segments(&self) -> &[LogSegment] {
        self.listed.segments()
    }

    /// The first offset that may be read.
    #[must_use]
    pub const fn log_start_offset(&self) -> Offset {
        self.listed.log_start_offset()
    }

    /// The checkpointed high watermark.
    #[must_use]
    pub const fn high_watermark(&self) -> Option<Offset> {
        self.listed.high_watermark()
    }

    /// The offset after the last whole batch.
    ///
    /// # Errors
    /// `Io`, or a corrupt header in the active segment.
    pub fn log_end_offset(&self) -> Result<Offset> {
        self.with_fresh_listing(ListedLog::log_end_offset)
    }

    /// Refuses a log start beyond the log's end ([`ListedLog::check_log_start`]).
    ///
    /// # Errors
    /// As there.
    pub(crate) fn check_log_start(&self) -> Result<()> {
        self.with_fresh_listing(ListedLog::check_log_start)
    }

    /// The topic's id, if the folder has it.
    ///
    /// # Errors
    /// `Io`, or `CorruptIndex` for a file that Kafka would refuse.
    pub fn topic_id(&self) -> Result<Option<String>> {
        self.listed.topic_id()
    }

    /// The leader epochs on disk.
    ///
    /// # Errors
    /// `Io`, or `CorruptIndex` for a file that Kafka would refuse.
    pub fn leader_epochs(&self) -> Result<Vec<EpochEntry>> {
        self.listed.leader_epochs()
    }

    /// Every file of the folder that is not a segment's `.log`, with its length, sorted by name.
    ///
    /// # Errors
    /// `Io` if the folder cannot be listed.
    pub fn other_files(&self) -> Result<Vec<(String, u64)>> {
        self.listed.other_files()
    }

    /// Every segment and what its batch headers add up to.
    ///
    /// # Errors
    /// `Io`, or a corrupt header; past damage `Io` alone.
    pub fn statistics(
        &self,
        on_corrupt: OnCorrupt,
    ) -> Result<Vec<(LogSegment, SegmentStatistics)>> {
        self.with_fresh_listing(|log| log.statistics(on_corrupt))
    }

    /// The first record at or after `offset`, control records included; `None` if no record follows.
    ///
    /// # Errors
    /// `OffsetOutOfRange` below the log start or beyond the log end; `Io`; corrupt bytes on the way.
    pub fn lookup(&self, offset: Offset) -> Result<Option<Lookup>> {
        self.with_fresh_listing(|log| log.lookup(offset))
    }

    /// Kafka's answer (`ListOffsets`) to which record is the first at or after `timestamp`.
    ///
    /// Kafka looks only into the first segment whose largest timestamp is at or after `timestamp`; the file's
    /// modification time stands in where a segment has none. So the answer can be `None` although a later segment has
    /// such records.
    ///
    /// # Errors
    /// `InvalidArgument` for a negative timestamp; `Io`; corrupt bytes on the way.
    pub fn offset_for_timestamp(
        &self,
        timestamp: TimestampMs,
    ) -> Result<Option<OffsetAndTimestamp>> {
        self.with_fresh_listing(|log| log.offset_for_timestamp(timestamp, false))
    }

    /// The first record at or after `timestamp` among those of every segment, whatever the indexes say.
    ///
    /// # Errors
    /// As [`PartitionLog::offset_for_timestamp`].
    pub fn exact_offset_for_timestamp(
        &self,
        timestamp: TimestampMs,
    ) -> Result<Option<OffsetAndTimestamp>> {
        self.with_fresh_listing(|log| log.offset_for_timestamp(timestamp, true))
    }

    /// Kafka's answer to which record has the largest timestamp; the first one if several have it.
    ///
    /// # Errors
    /// `Io`; corrupt bytes on the way.
    pub fn offset_of_max_timestamp(&self) -> Result<Option<OffsetAndTimestamp>> {
        self.with_fresh_listing(ListedLog::offset_of_max_timestamp)
    }

    /// Puts a question to the listed files. If it fails and the closed segments have changed since, lists the folder
    /// again and repeats the question.
    ///
    /// # Errors
    /// The question's own, if the folder has not changed since the listing; `Io` if the folder is gone.
    pub(crate) fn with_fresh_listing<T>(
        &self,
        question: impl Fn(&ListedLog) -> Result<T>,
    ) -> Result<T> {
        let mut answer = question(&self.listed);
        let mut asked = closed(&self.listed);
        for _ in 0..RELISTINGS {
            if !matches!(&answer, Err(error) if error.is_of_the_files()) {
                break;
            }
            let now = ListedLog::open(self.listed.folder().clone())?;
            let found = closed(&now);
            if found == asked {
                break;
            }
            answer = question(&now);
            asked = found;
        }
        answer
    }
}

/// Identity of a listing of the segments. The active segment always grows, so its size does not count.
fn closed(log: &ListedLog) -> Vec<(Offset, u64)> {
    let size = |s: &LogSegment| if s.is_active { 0 } else { s.size };
    let segments = log.segments().iter();
    segments.map(|s| (s.base_offset, size(s))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::cell::Cell;

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("t-0");
        std::fs::create_dir(&folder).unwrap();
        for base in [0, 5, 9] {
            std::fs::write(folder.join(format!("{base:020}.log")), b"").unwrap();
        }
        dir
    }

    #[test]
    fn a_changed_folder_is_asked_again_and_an_unchanged_one_is_believed() {
        let dir = folder();
        let log = PartitionLog::open(dir.path().join("t-0")).unwrap();
        let asked = Cell::new(0);
        let bases = |log: &ListedLog| -> Result<Vec<Offset>> {
            asked.set(asked.get() + 1);
            for segment in log.segments() {
                let path = log.path().join(&segment.file_name);
                std::fs::metadata(&path).map_err(Error::io(&path))?;
            }
            Ok(log.segments().iter().map(|s| s.base_offset).collect())
        };
        std::fs::remove_file(log.path().join(format!("{:020}.log", 5))).unwrap();
        assert_eq!(log.with_fresh_listing(bases).unwrap(), [0, 9]);
        assert_eq!(asked.replace(0), 2);
        let fails = |_: &ListedLog| -> Result<()> {
            asked.set(asked.get() + 1);
            Err(Error::corrupt("crc", 0, 1, 2))
        };
        assert!(matches!(
            PartitionLog::open(log.path())
                .unwrap()
                .with_fresh_listing(fails),
            Err(Error::CorruptRecord(_))
        ));
        assert_eq!(asked.get(), 1);
    }

    /// The public questions list again by themselves; callers need no wrapper.
    #[test]
    fn public_questions_survive_a_cleaner() {
        let dir = folder();
        let log = PartitionLog::open(dir.path().join("t-0")).unwrap();
        let file = |base: i64| log.path().join(format!("{base:020}.log"));
        // A cleaner merges 5 into 0, retention removes 0, and the active segment is rolled.
        std::fs::remove_file(file(0)).unwrap();
        std::fs::remove_file(file(5)).unwrap();
        std::fs::rename(file(9), file(12)).unwrap();
        assert_eq!(log.log_end_offset().unwrap(), 12);
        assert_eq!(log.statistics(OnCorrupt::Raise).unwrap().len(), 1);
        assert_eq!(log.exact_offset_for_timestamp(0).unwrap(), None);
        assert_eq!(log.offset_of_max_timestamp().unwrap(), None);
        assert_eq!(log.lookup(12).unwrap(), None);
        assert!(matches!(
            log.lookup(9),
            Err(Error::OffsetOutOfRange {
                log_start_offset: 12,
                ..
            })
        ));
    }
}
