//! Producers and transactions according to the batches, to be compared with `.txnindex` and `.snapshot` files.
//!
//! A segment is walked without knowledge of those before it. The result is therefore *changes*: the effect of its
//! batches on any previous state. [`ProducerHistory`] applies the changes segment by segment and has the state at every
//! snapshot's offset. Memory grows with the producers and the snapshots, not with batches or transactions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::finding::{
    BATCH_TRANSACTION, Finding, Findings, TXN_INDEX_ENTRY, TXN_INDEX_MISSING_ENTRY,
};
use super::log::CompanionFile;
use super::summary::Summary;
use super::txn_index::TxnEntries;
use crate::error::{Error, FaultKind, Result};
use crate::format::batch::BatchHeader;
use crate::format::entry::AbortedTxn;
use crate::segment::LogSegment;
use crate::segment::source::SegmentSource;
use crate::types::{Offset, Position};

/// A producer's last batch of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LastBatch {
    /// Its last offset.
    pub last_offset: Offset,
    /// The producer's epoch.
    pub epoch: i16,
    /// The sequence of its last record.
    pub last_sequence: i32,
}

/// An open transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnendedTransaction {
    /// Base offset of its first batch that is there.
    pub first: Offset,
    /// Some batch of it has records: compaction has not taken them.
    pub has_records: bool,
}

/// A batch without a transaction. Kafka loads no log with one inside of its producer's transaction
/// (`ProducerAppendInfo.appendDataBatch`, `InvalidTxnStateException`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plain {
    offset: Offset,
    position: Position,
    /// Start of the transaction, if some of it is among the same batches.
    since: Option<Offset>,
}

/// Effect of some batches on one producer's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProducerChange {
    /// Its last batch among them.
    pub last: Option<LastBatch>,
    /// Its last marker among them: what was open before is not any more.
    pub ended: Option<Offset>,
    /// Transaction that is open after that.
    pub open: Option<UnendedTransaction>,
    /// The first batch without a transaction before any marker and any transaction, and the first one inside of one.
    plain: [Option<Plain>; 2],
}

impl ProducerChange {
    fn records(&mut self, position: Position, header: &BatchHeader) {
        self.last = Some(LastBatch {
            last_offset: header.last_offset(),
            epoch: header.producer_epoch,
            last_sequence: header.last_sequence(),
        });
        if header.is_transactional() {
            let open = self.open.get_or_insert(UnendedTransaction {
                first: header.base_offset,
                has_records: false,
            });
            open.has_records |= header.records_count > Some(0);
        } else if self.open.is_some() || self.ended.is_none() {
            let since = self.open.map(|open| open.first);
            let [unknown, inside] = &mut self.plain;
            let place = if since.is_some() { inside } else { unknown };
            place.get_or_insert(Plain {
                offset: header.base_offset,
                position,
                since,
            });
        }
    }

    const fn marker(&mut self, offset: Offset) {
        self.ended = Some(offset);
        self.open = None;
    }

    /// Both, one after the other.
    fn then(&mut self, later: &Self) {
        self.last = later.last.or(self.last);
        if later.ended.is_some() {
            self.ended = later.ended;
            self.open = later.open;
        } else if let Some(more) = later.open {
            let open = self.open.get_or_insert(more);
            open.has_records |= more.has_records;
        }
    }
}

/// Changes by producer.
pub(super) type ProducerChanges = BTreeMap<i64, ProducerChange>;

/// An ABORT marker whose transaction may have begun before its segment.
#[derive(Clone, Copy, Debug)]
struct EarlierAbort {
    producer_id: i64,
    marker: Offset,
    /// Part of it that is in the segment.
    open: Option<UnendedTransaction>,
    entry: Option<AbortedTxn>,
}

/// The producers of one segment.
#[derive(Debug)]
pub(super) struct ProducerWalk {
    log: PathBuf,
    /// Offsets of snapshots within the segment that are still ahead, descending.
    cuts: Vec<Offset>,
    /// Changes up to each cut, and after the last one.
    done: Vec<(Offset, ProducerChanges)>,
    current: ProducerChanges,
    /// The whole segment's.
    all: ProducerChanges,
    entries: TxnEntries,
    /// Aborted transactions that may have begun earlier.
    deferred: Vec<EarlierAbort>,
    is_damaged: bool,
    next_base_offset: Option<Offset>,
}

impl ProducerWalk {
    /// Creates a walk that stops at the snapshots' offsets `cuts`, and compares aborted transactions with `entries`.
    #[must_use]
    pub(super) fn new(segment: &LogSegment, mut cuts: Vec<Offset>, entries: TxnEntries) -> Self {
        cuts.sort_unstable_by(|a, b| b.cmp(a));
        Self {
            log: segment.path(),
            cuts,
            done: Vec::new(),
            current: ProducerChanges::new(),
            all: ProducerChanges::new(),
            entries,
            deferred: Vec::new(),
            is_damaged: false,
            next_base_offset: segment.next_base_offset,
        }
    }

    fn cut_up_to(&mut self, offset: Offset) {
        while let Some(cut) = self.cuts.pop_if(|cut| *cut <= offset) {
            self.done.push((cut, std::mem::take(&mut self.current)));
        }
    }

    fn marker(
        &mut self,
        position: Position,
        header: &BatchHeader,
        source: &mut SegmentSource,
        findings: &mut Findings,
    ) -> Result<()> {
        let marker = match source.marker(position, header) {
            Ok(Some(marker)) => marker,
            // Kafka loads no log with one (`EndTransactionMarker.deserialize`).
            Err(Error::InvalidRecord(fault)) if fault.kind == FaultKind::ControlType => {
                let finding = Finding::new(BATCH_TRANSACTION, &self.log, fault.text());
                let end = position.saturating_add(header.size as u64);
                findings.add(finding.at(position).to(end).of(header.base_offset));
                return Ok(());
            }
            // The check of the log reports broken ones.
            Ok(None) | Err(Error::InvalidRecord(_)) => return Ok(()),
            Err(error) if error.is_of_the_files() => return Ok(()),
            Err(error) => return Err(error),
        };
        let (producer_id, offset) = (header.producer_id, header.base_offset);
        let before = self.all.get(&producer_id).copied().unwrap_or_default();
        let entry = self.entries.at_marker(offset);
        if marker.is_abort {
            let aborted = EarlierAbort {
                producer_id,
                marker: offset,
                open: before.open,
                entry,
            };
            if let Some(ended) = before.ended {
                let is_certain = !self.entries.may_be_ahead && !self.is_damaged;
                let certain = (is_certain, is_certain);
                aborted.check(Some(ended), certain, &self.entries.path, findings);
            } else {
                self.deferred.push(aborted);
            }
        } else if let Some(entry) = entry {
            let message =
                format!("last offset: expected an ABORT marker at {offset}, found COMMIT");
            self.entries.tell(&entry, message, findings);
        }
        for changes in [&mut self.all, &mut self.current] {
            changes.entry(producer_id).or_default().marker(offset);
        }
        Ok(())
    }

    /// Finishes the segment's contribution to the history.
    #[must_use]
    pub(super) fn finish(self) -> SegmentProducers {
        SegmentProducers {
            changes: self.done,
            rest: self.current,
            deferred: self.deferred,
            log: self.log,
            may_be_ahead: self.entries.may_be_ahead,
            txn_index: self.entries.path,
            is_damaged: self.is_damaged,
        }
    }
}

impl CompanionFile for ProducerWalk {
    fn batch(
        &mut self,
        position: Position,
        header: &BatchHeader,
        source: &mut SegmentSource,
        findings: &mut Findings,
    ) -> Result<()> {
        self.cut_up_to(header.base_offset);
        self.entries
            .pass(header.base_offset, self.is_damaged, findings);
        if !header.has_producer_id() || header.is_legacy() {
            return Ok(());
        }
        if header.is_control() {
            return self.marker(position, header, source, findings);
        }
        for changes in [&mut self.all, &mut self.current] {
            changes
                .entry(header.producer_id)
                .or_default()
                .records(position, header);
        }
        Ok(())
    }

    fn lost(&mut self, _: (Position, Position)) {
        self.is_damaged = true;
    }

    fn end(&mut self, _: Position, summary: &Summary, findings: &mut Findings) {
        self.is_damaged |= summary.is_damaged;
        // The next segment may begin after a gap.
        self.cut_up_to(self.next_base_offset.unwrap_or(summary.next_offset));
        let is_uncertain = self.is_damaged || self.entries.may_be_ahead;
        self.entries.pass(Offset::MAX, is_uncertain, findings);
    }
}

impl EarlierAbort {
    /// Holds the transaction against its index entry; `ended` is the producer's marker before it. Where there are
    /// records of it, there is an entry, though it may have begun before the log.
    fn check(
        &self,
        ended: Option<Offset>,
        (is_certain, is_exact): (bool, bool),
        txn_index: &Path,
        findings: &mut Findings,
    ) {
        let (producer_id, marker) = (self.producer_id, self.marker);
        let Some(entry) = self.entry else {
            if let Some(open) = self.open.filter(|open| open.has_records && is_certain) {
                let message = format!(
                    "expected an entry for producer {producer_id}, aborted from offset {} to {marker}, found none",
                    open.first
                );
                let finding = Finding::new(TXN_INDEX_MISSING_ENTRY, txn_index, message);
                findings.add(finding.of(open.first));
            }
            return;
        };
        let latest = self.open.map_or(marker, |open| open.first);
        let earliest = ended.map_or(0, |ended| ended.saturating_add(1));
        let message = if entry.producer_id != producer_id {
            let found = entry.producer_id;
            format!(
                "producer id: expected {producer_id}, whose marker is at offset {marker}, found {found}"
            )
        } else if is_exact && !(earliest..=latest).contains(&entry.first_offset) {
            let found = entry.first_offset;
            format!(
                "first offset: expected {earliest} to {latest}, where producer {producer_id} began, found {found}"
            )
        } else {
            return;
        };
        let finding = Finding::new(TXN_INDEX_ENTRY, txn_index, message);
        findings.add(finding.of(entry.first_offset));
    }
}

/// The producers of one segment, as it gives them to the history.
#[derive(Debug)]
pub(super) struct SegmentProducers {
    changes: Vec<(Offset, ProducerChanges)>,
    rest: ProducerChanges,
    deferred: Vec<EarlierAbort>,
    log: PathBuf,
    txn_index: PathBuf,
    may_be_ahead: bool,
    is_damaged: bool,
}

/// A producer as the log shows it up to some offset.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProducerView {
    /// Last batch, last marker, and what is open.
    pub change: ProducerChange,
    /// Nothing can have been open before what was seen.
    pub is_exact: bool,
}

/// The producers of a partition up to an offset.
#[derive(Debug)]
pub(super) struct ProducerHistory {
    producers: BTreeMap<i64, ProducerView>,
    /// The log was seen from its very first batch, without a hole.
    is_whole: bool,
}

impl ProducerHistory {
    /// Of a log that begins at `base_offset`.
    #[must_use]
    pub(super) const fn from(base_offset: Offset) -> Self {
        Self {
            producers: BTreeMap::new(),
            is_whole: base_offset == 0,
        }
    }

    /// Takes the next segment in; `at_snapshot` is asked at each snapshot's offset, as long as no batch is missing.
    pub(super) fn take(
        &mut self,
        segment: SegmentProducers,
        mut at_snapshot: impl FnMut(Offset, &Self),
        findings: &mut Findings,
    ) {
        for aborted in &segment.deferred {
            let known = self.producers.get(&aborted.producer_id);
            let mut before = known.map_or_else(ProducerChange::default, |known| known.change);
            let is_exact = self.is_whole || known.is_some_and(|known| known.is_exact);
            if let Some(open) = aborted.open {
                before.then(&ProducerChange {
                    open: Some(open),
                    ..ProducerChange::default()
                });
            }
            let aborted = EarlierAbort {
                open: before.open,
                ..*aborted
            };
            let is_certain = !segment.is_damaged && !segment.may_be_ahead;
            let certain = (is_certain, is_certain && is_exact);
            aborted.check(before.ended, certain, &segment.txn_index, findings);
        }
        for (cut, changes) in segment.changes {
            if !segment.is_damaged {
                self.check_plain(&changes, &segment.log, findings);
            }
            self.apply(&changes);
            if !segment.is_damaged {
                at_snapshot(cut, self);
            }
        }
        if !segment.is_damaged {
            self.check_plain(&segment.rest, &segment.log, findings);
        }
        self.apply(&segment.rest);
        if segment.is_damaged {
            // What follows is compared with what follows only.
            self.is_whole = false;
            self.producers.clear();
        }
    }

    /// Names batches without a transaction inside of one.
    fn check_plain(&self, changes: &ProducerChanges, log: &Path, findings: &mut Findings) {
        for (producer_id, change) in changes {
            let before = self.producers.get(producer_id);
            let open = before.and_then(|known| known.change.open);
            for plain in change.plain.iter().flatten() {
                let Some(since) = plain.since.or_else(|| open.map(|open| open.first)) else {
                    continue;
                };
                let message = format!(
                    "batch: expected a transactional one, as producer {producer_id} has a transaction open since offset \
                     {since}, found a plain one"
                );
                let finding = Finding::new(BATCH_TRANSACTION, log, message);
                findings.add(finding.at(plain.position).of(plain.offset));
            }
        }
    }

    fn apply(&mut self, changes: &ProducerChanges) {
        for (&producer_id, change) in changes {
            let known = self.producers.entry(producer_id).or_insert(ProducerView {
                change: ProducerChange::default(),
                is_exact: self.is_whole,
            });
            known.change.then(change);
            known.is_exact |= change.ended.is_some();
        }
    }

    /// Every producer seen, by id.
    pub(super) fn producers(&self) -> impl Iterator<Item = (i64, &ProducerView)> {
        self.producers.iter().map(|(&id, known)| (id, known))
    }

    /// One producer.
    #[must_use]
    pub(super) fn producer(&self, producer_id: i64) -> Option<&ProducerView> {
        self.producers.get(&producer_id)
    }
}
