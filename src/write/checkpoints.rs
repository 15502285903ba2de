//! The offset checkpoints of a log dir, updated after its logs were loaded.
//!
//! | file | a partition's line, as a broker leaves it | source |
//! |---|---|---|
//! | recovery point | the log end, as everything was flushed | `LogManager.checkpointRecoveryOffsetsInDir` |
//! | log start | the log start, if it lies above the first segment's base | `LogManager.checkpointLogStartOffsetsInDir` |
//! | replication | the high watermark, within the log | `UnifiedLog.updateHighWatermark` |
//! | cleaner | the same, or the log start where it lies outside of the log | `LogCleanerManager.cleanableOffsets` |
//!
//! Lines of partitions that are not in the log dir are removed, because a broker does not know these. A partition
//! without a line in the last two gets none: no high watermark is 0, and nothing was compacted. Where a whole log dir
//! was loaded, a file that cannot be read is written again; for one partition alone only readable files are changed.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::error::Result;
use crate::format::checkpoint::{parse_offsets, write_offsets};
use crate::io::atomic;
use crate::io::disk::Disk;
use crate::log::dir::{
    CHECKPOINTS, CLEANER, LOG_START, PartitionOffsets, RECOVERY_POINT, REPLICATION, read_parsed,
};
use crate::types::{Offset, TopicPartition};

/// Start and end of a loaded log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogEnds {
    /// Partition of the log.
    pub partition: TopicPartition,
    /// The base offset of its first segment.
    pub first_base_offset: Offset,
    /// First offset that may be read.
    pub log_start_offset: Offset,
    /// The next offset to be written.
    pub log_end_offset: Offset,
}

impl LogEnds {
    /// This log's line in a checkpoint, out of the line there is.
    fn line(&self, file: &str, before: Option<Offset>) -> Option<Offset> {
        let (start, end) = (self.log_start_offset, self.log_end_offset);
        match file {
            RECOVERY_POINT => Some(end),
            LOG_START => (start > self.first_base_offset).then_some(start),
            REPLICATION => before.map(|mark| mark.min(end).max(start)),
            CLEANER => before.map(|clean| {
                if (start..=end).contains(&clean) {
                    clean
                } else {
                    start
                }
            }),
            _ => before,
        }
    }
}

/// Change of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointChange {
    /// The file's name.
    pub file: &'static str,
    /// Partition of the line.
    #[serde(flatten)]
    pub partition: TopicPartition,
    /// The offset in it; `None` where there is no such line, or the file cannot be read.
    pub before: Option<Offset>,
    /// The offset that will be in it.
    pub after: Option<Offset>,
}

impl fmt::Display for CheckpointChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |offset: Option<Offset>| offset.map_or("none".to_owned(), |o| o.to_string());
        let (before, after) = (word(self.before), word(self.after));
        write!(f, "{}: {}: {before} to {after}", self.file, self.partition)
    }
}

/// The checkpoints that will be written, and how they differ from those there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checkpoints {
    files: Vec<(&'static str, PartitionOffsets)>,
    changes: Vec<CheckpointChange>,
}

impl Checkpoints {
    /// Plans the checkpoints of a log dir after `logs` were loaded, flushed and closed; `is_whole` says that they are
    /// all of its logs.
    #[must_use]
    pub(crate) fn plan(log_dir: &Path, logs: &[LogEnds], is_whole: bool) -> Self {
        let mut planned = Self::default();
        for file in CHECKPOINTS {
            let (before, is_broken) = match read_parsed(&log_dir.join(file), parse_offsets) {
                Ok(lines) if is_whole || lines.is_some() => (lines.unwrap_or_default(), false),
                Err(_) if is_whole => (PartitionOffsets::new(), true),
                _ => continue,
            };
            let mut after = if is_whole {
                PartitionOffsets::new()
            } else {
                before.clone()
            };
            for log in logs {
                // What a broker takes where it finds no line.
                let unread = is_broken.then_some(log.log_start_offset);
                let line = before.get(&log.partition).copied().or(unread);
                match log.line(file, line) {
                    Some(offset) => after.insert(log.partition.clone(), offset),
                    None => after.remove(&log.partition),
                };
            }
            if !is_broken && before == after {
                continue;
            }
            planned.note(file, &before, &after);
            planned.files.push((file, after));
        }
        planned
    }

    /// Plans the checkpoints of a new log dir that holds these logs of another one, and nothing else.
    #[must_use]
    pub(crate) fn alone(log_dir: &Path, logs: &[LogEnds]) -> Self {
        let named: BTreeSet<_> = logs.iter().map(|log| &log.partition).collect();
        let mut planned = Self::default();
        for file in CHECKPOINTS {
            let before = read_parsed(&log_dir.join(file), parse_offsets);
            let mut before = before.ok().flatten().unwrap_or_default();
            before.retain(|partition, _| named.contains(partition));
            let line = |log: &LogEnds| {
                let offset = log.line(file, before.get(&log.partition).copied())?;
                Some((log.partition.clone(), offset))
            };
            let after: PartitionOffsets = logs.iter().filter_map(line).collect();
            planned.note(file, &before, &after);
            if !after.is_empty() {
                planned.files.push((file, after));
            }
        }
        planned
    }

    fn note(&mut self, file: &'static str, before: &PartitionOffsets, after: &PartitionOffsets) {
        let partitions: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        for partition in partitions {
            let (before, after) = (
                before.get(partition).copied(),
                after.get(partition).copied(),
            );
            if before != after {
                self.changes.push(CheckpointChange {
                    file,
                    partition: partition.clone(),
                    before,
                    after,
                });
            }
        }
    }

    /// The lines that change.
    #[must_use]
    pub(crate) fn changes(&self) -> &[CheckpointChange] {
        &self.changes
    }

    /// The lines that a file will have, where it is written.
    pub(super) fn lines(&self, file: &str) -> Option<&PartitionOffsets> {
        let mine = self.files.iter().find(|(name, _)| *name == file);
        mine.map(|(_, lines)| lines)
    }

    /// The lines that a file will have in a log dir that gets what is not written from here, if it is copied.
    ///
    /// # Errors
    /// `CorruptIndex` where they cannot be read; `Io`.
    pub(crate) fn lines_or_in(
        &self,
        file: &str,
        copied: Option<&Path>,
    ) -> Result<PartitionOffsets> {
        match (self.lines(file), copied) {
            (Some(lines), _) => Ok(lines.clone()),
            (None, Some(from)) => {
                let lines = read_parsed(from, parse_offsets)?;
                Ok(lines.unwrap_or_default())
            }
            (None, None) => Ok(PartitionOffsets::new()),
        }
    }

    /// Writes them into a log dir.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn write(&self, disk: &Disk, log_dir: &Path) -> Result<()> {
        self.files.iter().try_for_each(|(file, lines)| {
            atomic::replace(disk, &log_dir.join(file), &write_offsets(lines))
        })
    }
}

/// Lowers the offset up to which a partition was compacted, after its log was cut
/// (`LogCleanerManager.maybeTruncateCheckpoint`).
///
/// # Errors
/// `Io`; `CorruptIndex` for a checkpoint that cannot be read.
pub(super) fn truncate_cleaner(
    disk: &Disk,
    log_dir: &Path,
    partition: &TopicPartition,
    offset: Offset,
) -> Result<()> {
    let path = log_dir.join(CLEANER);
    let Some(mut lines) = read_parsed(&path, parse_offsets)? else {
        return Ok(());
    };
    match lines.get_mut(partition) {
        Some(clean) if *clean > offset => *clean = offset,
        _ => return Ok(()),
    }
    atomic::replace(disk, &path, &write_offsets(&lines))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn ends(partition: i32, first: Offset, start: Offset, end: Offset) -> LogEnds {
        LogEnds {
            partition: TopicPartition::new("t", partition),
            first_base_offset: first,
            log_start_offset: start,
            log_end_offset: end,
        }
    }

    fn plan(files: &[(&str, &str)], is_whole: bool) -> (Vec<String>, Vec<(String, String)>) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let logs = [ends(0, 0, 0, 50), ends(1, 10, 20, 30)];
        let planned = Checkpoints::plan(folder.path(), &logs, is_whole);
        planned.write(&Disk::default(), folder.path()).unwrap();
        let lines = planned.changes().iter().map(ToString::to_string);
        let mut texts = Vec::new();
        for name in CHECKPOINTS {
            if let Ok(text) = fs::read_to_string(folder.path().join(name)) {
                texts.push((name.to_owned(), text.replace('\n', "|")));
            }
        }
        let again = Checkpoints::plan(folder.path(), &logs, is_whole);
        assert_eq!(again, Checkpoints::default(), "once is enough");
        (lines.collect(), texts)
    }

    fn texts(of: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = of.iter().map(|&(a, b)| (a.to_owned(), b.to_owned()));
        owned.collect()
    }

    #[test]
    fn a_whole_log_dir() {
        let (changes, written) = plan(
            &[
                (RECOVERY_POINT, "0\n3\nt 0 60\nt 1 30\ngone 0 5\n"),
                (LOG_START, "0\n1\nt 0 7\n"),
                (REPLICATION, "0\n2\nt 0 60\nt 1 5\n"),
                (CLEANER, "0\n2\nt 0 51\nt 1 25\n"),
            ],
            true,
        );
        let expected = [
            "cleaner-offset-checkpoint: t-0: 51 to 0",
            "log-start-offset-checkpoint: t-0: 7 to none",
            "log-start-offset-checkpoint: t-1: none to 20",
            "recovery-point-offset-checkpoint: gone-0: 5 to none",
            "recovery-point-offset-checkpoint: t-0: 60 to 50",
            "replication-offset-checkpoint: t-0: 60 to 50",
            "replication-offset-checkpoint: t-1: 5 to 20",
        ];
        assert_eq!(changes, expected);
        let expected = [
            (CLEANER, "0|2|t 0 0|t 1 25|"),
            (LOG_START, "0|1|t 1 20|"),
            (RECOVERY_POINT, "0|2|t 0 50|t 1 30|"),
            (REPLICATION, "0|2|t 0 50|t 1 20|"),
        ];
        assert_eq!(written, texts(&expected));
    }

    /// `LogCleanerManager.cleanableOffsets` starts over only below the log start and beyond the log end.
    #[test]
    fn compacted_up_to_either_end_of_the_log() {
        for (clean, kept) in [(19, 20), (20, 20), (30, 30), (31, 20)] {
            let text = format!("0\n1\nt 1 {clean}\n");
            let (_, written) = plan(&[(CLEANER, &text)], true);
            let expected = (CLEANER.to_owned(), format!("0|1|t 1 {kept}|"));
            assert!(written.contains(&expected), "{clean}: {written:?}");
        }
    }

    #[test]
    fn files_that_are_not_there_or_cannot_be_read() {
        let (changes, written) = plan(&[(REPLICATION, "what"), (CLEANER, "")], true);
        assert_eq!(changes.len(), 5, "{changes:?}");
        let expected = [
            (CLEANER, ""),
            (LOG_START, "0|1|t 1 20|"),
            (RECOVERY_POINT, "0|2|t 0 50|t 1 30|"),
            (REPLICATION, "0|2|t 0 0|t 1 20|"),
        ];
        assert_eq!(written, texts(&expected));
    }

    #[test]
    fn who_has_no_line_gets_none() {
        let files = [(REPLICATION, "0\n1\nt 0 9\n"), (CLEANER, "0\n1\nt 1 25\n")];
        let (_, written) = plan(&files, true);
        let expected = [
            (CLEANER, "0|1|t 1 25|"),
            (LOG_START, "0|1|t 1 20|"),
            (RECOVERY_POINT, "0|2|t 0 50|t 1 30|"),
            (REPLICATION, "0|1|t 0 9|"),
        ];
        assert_eq!(written, texts(&expected));
    }

    #[test]
    fn some_partitions_alone() {
        let files = [
            (RECOVERY_POINT, "0\n2\nother 0 5\nt 0 60\n"),
            (REPLICATION, "what"),
        ];
        let (changes, written) = plan(&files, false);
        assert_eq!(changes.len(), 2, "{changes:?}");
        let expected = [
            (RECOVERY_POINT, "0|3|other 0 5|t 0 50|t 1 30|"),
            (REPLICATION, "what"),
        ];
        assert_eq!(written, texts(&expected));
    }

    #[test]
    fn what_was_compacted_ends_where_the_log_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let (disk, partition) = (Disk::default(), TopicPartition::new("t", 1));
        let cut = |offset| {
            truncate_cleaner(&disk, folder.path(), &partition, offset).unwrap();
            fs::read_to_string(folder.path().join(CLEANER)).ok()
        };
        assert_eq!(cut(5), None);
        fs::write(folder.path().join(CLEANER), "0\n2\nt 0 9\nt 1 9\n").unwrap();
        assert_eq!(cut(9).unwrap(), "0\n2\nt 0 9\nt 1 9\n");
        assert_eq!(cut(5).unwrap(), "0\n2\nt 0 9\nt 1 5\n");
    }
}
