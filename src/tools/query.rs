//! Runs one query on many partitions of a log dir, with several threads: nearly all of its time is spent in system
//! calls.

use std::path::PathBuf;

use super::threads::in_order;
use crate::error::{Error, Result};
use crate::io::threads::processors;
use crate::log::dir::DirState;
use crate::log::partition::PartitionLog;
use crate::segment::LogSegment;
use crate::segment::skipping::OnCorrupt;
use crate::segment::statistics::SegmentStatistics;
use crate::types::{Offset, TimestampMs};

/// Folders that a thread takes at once.
const PIECE: usize = 32;
/// More threads than that wait for each other in the kernel.
pub(crate) const MAX_THREADS: usize = 8;

/// Opens each of the folders, given what the log dir above says if a listing of it found them, and puts the question to
/// it, by at most so many threads. One that cannot be read does not keep the others from answering.
///
/// # Errors
/// `Interrupted`.
pub(crate) fn query_each<T: Send>(
    folders: &[PathBuf],
    dir: Option<&DirState>,
    most_threads: usize,
    question: impl Fn(PartitionLog) -> Result<T> + Sync,
) -> Result<Vec<Result<T>>> {
    let open = |path: &PathBuf| match dir {
        Some(dir) => PartitionLog::open_in(path, dir),
        None => PartitionLog::open(path),
    };
    let ask = |path: &PathBuf| match open(path).and_then(&question) {
        Err(Error::Interrupted) => Err(Error::Interrupted),
        answer => Ok(answer),
    };
    let mut pieces = folders.chunks(PIECE);
    let threads = processors().min(most_threads).min(pieces.len());
    let mut answers = Vec::with_capacity(folders.len());
    in_order(
        &mut vec![(); threads],
        |(), (piece, answers): &mut (&[PathBuf], Vec<Result<T>>)| {
            *answers = piece.iter().map(ask).collect::<Result<_>>()?;
            Ok(())
        },
        |_| Ok(pieces.next().map(|piece| (piece, Vec::new()))),
        |(_, some)| {
            answers.append(some);
            Ok(())
        },
    )?;
    Ok(answers)
}

/// Offset of a partition that is requested (`OffsetSpec` of Kafka's admin client).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffsetSpec {
    /// The log end, or under `read_committed` the last stable offset.
    Latest,
    /// The log start.
    Earliest,
    /// The record with the largest timestamp.
    MaxTimestamp,
    /// The first record with this timestamp or a later one.
    ForTimestamp(TimestampMs),
}

impl OffsetSpec {
    /// By the number that stands for it in a `ListOffsetsRequest`.
    pub(crate) const fn from_number(number: i64) -> Self {
        match number {
            -1 => Self::Latest,
            -2 => Self::Earliest,
            -3 => Self::MaxTimestamp,
            timestamp => Self::ForTimestamp(timestamp),
        }
    }

    /// Threads that may ask at once: only one where time indexes are mapped, as maps and faults of several threads wait
    /// for each other.
    pub(crate) const fn most_threads(self) -> usize {
        match self {
            Self::Latest | Self::Earliest => MAX_THREADS,
            Self::MaxTimestamp | Self::ForTimestamp(_) => 1,
        }
    }

    /// A broker's answer; `None` where no record has such a timestamp, and under `read_committed` where it is not
    /// before the last stable offset (`Partition.fetchOffsetForTimestamp`).
    ///
    /// # Errors
    /// `Io`; corrupt bytes on the way.
    pub(crate) fn find(self, log: &PartitionLog, is_committed: bool) -> Result<Option<Offset>> {
        let found = match self {
            Self::Latest if is_committed => return log.last_stable_offset().map(Some),
            Self::Latest => return log.log_end_offset().map(Some),
            Self::Earliest => {
                log.check_log_start()?;
                return Ok(Some(log.log_start_offset()));
            }
            Self::MaxTimestamp => log.offset_of_max_timestamp()?,
            Self::ForTimestamp(timestamp) => log.offset_for_timestamp(timestamp)?,
        };
        match found.map(|found| found.offset) {
            Some(offset) if is_committed && offset >= log.last_stable_offset()? => Ok(None),
            offset => Ok(offset),
        }
    }
}

/// Description of a partition for `ls`, without its segments.
#[derive(Debug)]
pub(crate) struct Description {
    /// The log, whose segments are listed.
    pub(crate) log: PartitionLog,
    /// The offset after the last whole batch.
    pub(crate) log_end_offset: Offset,
    /// The topic's id, if the folder has it.
    pub(crate) topic_id: Option<String>,
    /// The last timestamp in the time index of each segment: a cheap hint at its latest record.
    pub(crate) latest: Vec<Option<TimestampMs>>,
}

impl Description {
    /// Of an open log.
    ///
    /// # Errors
    /// As of its questions.
    pub(crate) fn of(log: PartitionLog) -> Result<Self> {
        let segments = log.segments().iter();
        Ok(Self {
            latest: segments.map(LogSegment::last_indexed_timestamp).collect(),
            log_end_offset: log.log_end_offset()?,
            topic_id: log.topic_id()?,
            log,
        })
    }
}

/// Statistics of a partition for `stats`.
#[derive(Debug)]
pub(crate) struct PartitionStatistics {
    /// The first offset that may be read.
    pub(crate) log_start_offset: Offset,
    /// The offset after the last whole batch.
    pub(crate) log_end_offset: Offset,
    /// Each segment and what its batch headers add up to.
    pub(crate) segments: Vec<(LogSegment, SegmentStatistics)>,
}

impl PartitionStatistics {
    /// Of an open log.
    ///
    /// # Errors
    /// As [`PartitionLog::statistics`].
    pub(crate) fn of(log: &PartitionLog, on_corrupt: OnCorrupt) -> Result<Self> {
        log.check_log_start()?;
        let segments = log.statistics(on_corrupt)?;
        let log_start_offset = log.log_start_offset();
        let last = segments.iter().filter_map(|(_, sums)| sums.last_offset);
        let log_end_offset = match on_corrupt {
            OnCorrupt::Raise => log.log_end_offset()?,
            // The question would end at the damage.
            OnCorrupt::Skip => last
                .max()
                .map_or(0, |last| last.wrapping_add(1))
                .max(log_start_offset),
        };
        Ok(Self {
            log_start_offset,
            log_end_offset,
            segments,
        })
    }

    /// The size of all segments, and what their sums add up to.
    pub(crate) fn total(&self) -> (u64, SegmentStatistics) {
        let (mut size, mut total) = (0u64, SegmentStatistics::default());
        for (segment, sums) in &self.segments {
            size = size.saturating_add(segment.size);
            total.join(sums);
        }
        (size, total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::interrupt::with_cancellation;

    /// As many folders as pieces and threads may mix up; one of them is gone.
    #[test]
    fn answers_stand_in_the_order_of_the_folders() {
        let dir = tempfile::tempdir().unwrap();
        let folders: Vec<PathBuf> = (0..=PIECE * 5)
            .map(|n| {
                let folder = dir.path().join(format!("t-{n}"));
                std::fs::create_dir(&folder).unwrap();
                std::fs::write(folder.join(format!("{n:020}.log")), b"").unwrap();
                folder
            })
            .collect();
        std::fs::remove_dir_all(&folders[PIECE]).unwrap();
        let ends = |dir: Option<&DirState>| {
            query_each(&folders, dir, MAX_THREADS, |log| log.log_end_offset())
        };
        for state in [None, Some(&DirState::read(dir.path()))] {
            for (n, end) in ends(state).unwrap().into_iter().enumerate() {
                match end {
                    Ok(end) => assert_eq!(usize::try_from(end).unwrap(), n),
                    Err(error) => {
                        assert!(matches!(error, Error::Io { .. }), "{n} {error}");
                        assert_eq!(n, PIECE);
                    }
                }
            }
        }
        let over = with_cancellation(|| true, || ends(None));
        assert!(matches!(over, Err(Error::Interrupted)));
    }
}
