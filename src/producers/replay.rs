//! Producer state, replayed from a log's batches after a snapshot (`UnifiedLog.rebuildProducerState`).

use super::append::TV_UNKNOWN;
use super::{Analysis, ProducerStateManager};
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::records::control::EndTransaction;
use crate::types::{AppendOrigin, Offset, TimestampMs};

/// A log whose batches can be replayed.
pub trait ReplayedLog {
    /// The base offsets of its segments, in order.
    fn base_offsets(&self) -> Vec<Offset>;

    /// Has `replay` take the batches of the segment at `base_offset` from the one on that holds `start` or what follows
    /// it, up to the one that holds `end`; to the segment's end where there is none.
    ///
    /// # Errors
    /// Those of [`Replay::take`]; `Io`, and a fault in a header.
    fn replay(
        &mut self,
        base_offset: Offset,
        start: Offset,
        end: Option<Offset>,
        replay: &mut Replay<'_>,
    ) -> Result<()>;
}

/// The batches of one segment, taken in as one append (`UnifiedLog.loadProducersFromRecords`).
#[derive(Debug)]
pub struct Replay<'a> {
    producers: &'a ProducerStateManager,
    analysis: Analysis,
}

impl Replay<'_> {
    /// Takes the next batch; `marker` reads what it says, where it is a producer's control batch.
    ///
    /// # Errors
    /// `ProducerRefused`, by the rules of a replica; those of `marker`.
    pub fn take(
        &mut self,
        header: &BatchHeader,
        marker: impl FnOnce() -> Result<Option<EndTransaction>>,
    ) -> Result<()> {
        if !header.has_producer_id() {
            return Ok(());
        }
        let (origin, version) = (AppendOrigin::Replication, TV_UNKNOWN);
        self.analysis
            .add(self.producers, header, marker()?, origin, version)
    }
}

/// Offset up to which a state is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilding {
    /// First offset that may be read.
    pub log_start_offset: Offset,
    /// The offset the state is to be of.
    pub log_end_offset: Offset,
    /// The clock.
    pub now_ms: TimestampMs,
    /// The log was stopped cleanly: where it has no snapshot, it is of the time before there were any, and has no
    /// producers to look for.
    pub was_clean: bool,
}

impl ProducerStateManager {
    /// Brings the state to an offset of the log: from the newest snapshot and the batches after it, with snapshots at
    /// the last two segments and at the end, so that a later truncation need not replay more.
    ///
    /// # Errors
    /// `Io`; those of [`ReplayedLog::replay`].
    pub fn rebuild(&mut self, log: &mut impl ReplayedLog, to: Rebuilding) -> Result<()> {
        let bases = log.base_offsets();
        let end = to.log_end_offset;
        let last_two = bases.get(bases.len().saturating_sub(2)..);
        let last_two = last_two.unwrap_or_default();
        if to.was_clean && self.latest_snapshot_offset().is_none() {
            for &offset in last_two {
                self.update_map_end_offset(offset);
                self.take_snapshot(true)?;
            }
            return self.end_rebuild(end);
        }
        // A log without producers has none after it was cut either.
        let nothing_known = self.is_empty() && self.map_end_offset() >= end;
        self.truncate_and_reload(to.log_start_offset, end, to.now_ms)?;
        if nothing_known || self.map_end_offset() >= end {
            return self.end_rebuild(end);
        }
        let from = self.map_end_offset();
        let holding = bases.partition_point(|&base| base <= from);
        let holds_end = bases.iter().copied().rfind(|&base| base <= end);
        let later = bases.get(holding.saturating_sub(1)..).unwrap_or_default();
        for &base in later.iter().take_while(|&&base| base < end) {
            let start = base.max(self.map_end_offset()).max(to.log_start_offset);
            self.update_map_end_offset(start);
            if last_two.contains(&base) {
                self.take_snapshot(true)?;
            }
            let mut replay = Replay {
                producers: self,
                analysis: Analysis::default(),
            };
            let holds_end = holds_end == Some(base);
            log.replay(base, start, holds_end.then_some(end), &mut replay)?;
            let analysis = replay.analysis;
            self.update_all(analysis.appends);
            for completed in &analysis.completed {
                self.complete_txn(completed)?;
            }
        }
        self.end_rebuild(end)
    }

    fn end_rebuild(&mut self, end: Offset) -> Result<()> {
        self.update_map_end_offset(end);
        self.take_snapshot(true).map(drop)
    }
}
