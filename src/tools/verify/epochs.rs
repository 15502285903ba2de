//! `leader-epoch-checkpoint`, compared with the leader epochs of the batches.
//!
//! | rule | source |
//! |---|---|
//! | epochs and start offsets rise | `LeaderEpochFileCache.assign` |
//! | a batch's epoch is that of the last entry at or before it | `UnifiedLog.maybeAssignEpochStartOffset` |
//! | no entry begins after the log's end | `LogLoader` cuts those |

use std::path::{Path, PathBuf};

use super::finding::{
    EPOCHS_BEYOND_END, EPOCHS_MISMATCH, EPOCHS_ORDER, EPOCHS_UNREADABLE, Finding, Findings,
};
use super::log::CompanionFile;
use super::summary::Summary;
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::checkpoint::{EpochEntry, LEADER_EPOCH_CHECKPOINT, parse_epochs};
use crate::log::dir::read_parsed;
use crate::segment::source::SegmentSource;
use crate::types::{Offset, Position};

/// Batches of one epoch in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EpochRun {
    epoch: i32,
    first: Offset,
    last: Offset,
}

/// The leader epochs of a segment's batches; those of magic 0 and 1 have none.
#[derive(Debug, Default)]
pub(super) struct EpochWalk {
    /// In their order.
    pub runs: Vec<EpochRun>,
}

impl CompanionFile for EpochWalk {
    fn batch(
        &mut self,
        _position: Position,
        header: &BatchHeader,
        _source: &mut SegmentSource,
        _findings: &mut Findings,
    ) -> Result<()> {
        let epoch = header.partition_leader_epoch;
        let (first, last) = (header.base_offset, header.last_offset());
        match self.runs.last_mut() {
            Some(run) if run.epoch == epoch => run.last = last,
            _ if epoch >= 0 => self.runs.push(EpochRun { epoch, first, last }),
            _ => {}
        }
        Ok(())
    }

    fn lost(&mut self, _: (Position, Position)) {}

    fn end(&mut self, _: Position, _: &Summary, _: &mut Findings) {}
}

/// Reads the checkpoint of a partition folder and holds it against itself; `None` where there is none to go by.
pub(super) fn read(folder: &Path, findings: &mut Findings) -> Option<(PathBuf, Vec<EpochEntry>)> {
    let path = folder.join(LEADER_EPOCH_CHECKPOINT);
    let entries = match read_parsed(&path, parse_epochs) {
        Ok(entries) => entries?,
        Err(error) => {
            findings.add(Finding::of_error(EPOCHS_UNREADABLE, &path, &error));
            return None;
        }
    };
    let pairs = entries.iter().zip(entries.iter().skip(1));
    for (a, b) in pairs {
        if a.epoch >= b.epoch || a.start_offset >= b.start_offset {
            let message = format!(
                "entries: expected rising ones, found epoch {} from offset {} before {} from {}",
                a.epoch, a.start_offset, b.epoch, b.start_offset
            );
            findings.add(Finding::new(EPOCHS_ORDER, &path, message).of(b.start_offset));
        }
    }
    Some((path, entries))
}

/// Holds the entries against the batches and the log's end.
pub(super) fn compare(
    path: &Path,
    entries: &[EpochEntry],
    runs: &[EpochRun],
    (log_start, log_end): (Offset, Option<Offset>),
    findings: &mut Findings,
) {
    // The first entry begins where the log does, also within a segment.
    let served = runs.iter().filter(|run| run.last >= log_start);
    for run in served {
        let at = |offset: Offset| {
            let entry = entries
                .iter()
                .rev()
                .find(|entry| entry.start_offset <= offset);
            entry.map(|entry| entry.epoch)
        };
        let stated = [at(run.first.max(log_start)), at(run.last)];
        if let Some(found) = stated.iter().find(|&&found| found != Some(run.epoch)) {
            let EpochRun { epoch, first, last } = run;
            let found = found.map_or_else(|| "none".to_owned(), |found| found.to_string());
            let message = format!(
                "epoch of offsets {first} to {last}: expected {epoch}, as in the log, found {found}"
            );
            findings.add(Finding::new(EPOCHS_MISMATCH, path, message).of(*first));
        }
    }
    if let Some(end) = log_end
        && let Some(entry) = entries.iter().find(|entry| entry.start_offset > end)
    {
        let (epoch, start) = (entry.epoch, entry.start_offset);
        let message =
            format!("start of epoch {epoch}: expected up to the log's end, {end}, found {start}");
        findings.add(Finding::new(EPOCHS_BEYOND_END, path, message).of(start));
    }
}
