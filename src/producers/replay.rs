//! Producer state, replayed from a log's batches after a snapshot (`UnifiedLog.rebuildProducerState`).

use std::collections::BTreeMap;

use super::ProducerStateManager;
use super::append::{CompletedTxn, ProducerAppend, TV_UNKNOWN};
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::segment::batches::{Batches, Policy};
use crate::types::{AppendOrigin, Offset, Position, TimestampMs};

/// A log whose batches can be replayed.
pub(crate) trait ReplayedLog {
    /// The rules by which its batches are walked.
    type Policy: Policy;

    /// The base offsets of its segments, in order.
    fn base_offsets(&self) -> Vec<Offset>;

    /// The batches of the segment at `base_offset` from the one on that holds `start` or what follows it, up to the one
    /// that holds `end`; to the segment's end where there is none.
    ///
    /// # Errors
    /// `Io`, and a fault in a header.
    fn batches(
        &mut self,
        base_offset: Offset,
        start: Offset,
        end: Option<Offset>,
    ) -> Result<Option<Batches<Self::Policy>>>;
}

impl ProducerAppend {
    /// Takes in the batch at `position` of a log, by the rules of a replica.
    ///
    /// # Errors
    /// `ProducerRefused`; a fault in a marker, `Io`.
    pub(crate) fn replay<P>(
        &mut self,
        batches: &mut Batches<P>,
        position: Position,
        header: &BatchHeader,
    ) -> Result<Option<CompletedTxn>> {
        let marker = batches.source.marker(position, header)?;
        let completed = self.append(header, marker, TV_UNKNOWN);
        completed.map_err(|error| error.at(batches.source.path()))
    }
}

/// Offset up to which a state is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rebuilding {
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
    /// Those of [`ReplayedLog::batches`] and [`ProducerAppend::replay`].
    pub(crate) fn rebuild(&mut self, log: &mut impl ReplayedLog, to: Rebuilding) -> Result<()> {
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
            // A segment is one append (`UnifiedLog.loadProducersFromRecords`).
            let (mut appends, mut completed) = (BTreeMap::new(), Vec::new());
            let holds_end = holds_end == Some(base);
            if let Some(mut batches) = log.batches(base, start, holds_end.then_some(end))? {
                while let Some((position, header)) = batches.next()? {
                    if header.has_producer_id() {
                        let new = |&id: &i64| self.prepare_update(id, AppendOrigin::Replication);
                        let append = appends.entry(header.producer_id).or_insert_with_key(new);
                        completed.extend(append.replay(&mut batches, position, &header)?);
                    }
                }
            }
            self.update_all(appends);
            for completed in &completed {
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
