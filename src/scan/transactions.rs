//! Aborted transactions and the last stable offset: what `read_committed` needs before reading.
//!
//! They are in the log itself, in its markers. Other files save reading all headers, if they can be trusted:
//!
//! | file | is trusted |
//! |---|---|
//! | `.txnindex` | of a segment that Kafka would not recover, if it is well-formed and the log has the ABORT marker and the first batch of every entry where it says |
//! | no `.txnindex` | of such a segment, if the snapshot at its end knows no producer that ever ended a transaction or has one open |
//! | `.snapshot` | if its checksum is right |
//!
//! Everything else is read from headers: segments that Kafka would recover, which the active one is unless its broker
//! was stopped cleanly, small ones, those without a sound index. So an index that is missing, cut or wrong costs a walk
//! over headers and changes no answer. An index of a large segment that lost whole entries cannot be detected that way:
//! [`crate::scan::reader`] compares the markers that it passes with the plan.
//!
//! A walk touches every page of a segment of small batches, and so does the reader after it: the walk's map is kept for
//! the reader, like that of an index's lookups ([`crate::io::kept_map`]).
//!
//! # Last stable offset
//! The first offset of the oldest transaction that is undecided at the end, or the end. The end is the high watermark;
//! a log without a broker is read up to its last whole batch, so that takes its place unless the checkpointed one is
//! requested. What was open at an offset is in the newest snapshot at or below it, and in the batches from there on.
//!
//! Sources: `UnifiedLog.lastStableOffset`, `UnifiedLog.rebuildProducerState`, `TransactionIndex.collectAbortedTxns`,
//! `CompletedFetch.nextFetchedRecord`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::control::ControlType;
use crate::format::entry::{AbortedTxn, ProducerState};
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::io::kept_map::KeptMap;
use crate::io::storage::read_small;
use crate::log::listed::ListedLog;
use crate::log::partition::PartitionLog;
use crate::producers::snapshots::MAX_SNAPSHOT;
use crate::segment::LogSegment;
use crate::segment::filter::AbortedRange;
use crate::segment::lookup::SegmentLookup;
use crate::segment::transactions::{OpenTransactions, TxnEvent, events};
use crate::types::{NO_PRODUCER_ID, Offset};

/// So many bytes of log are walked over, header to header, in the time that it takes to confirm one index entry, or so
/// many batches, where those are fewer bytes.
const WALKED_FOR_ENTRY: u64 = 64 << 10;
const BATCHES_FOR_ENTRY: u64 = 64;

/// Number of batches at the beginning of a segment from which their size is estimated.
const SAMPLED: usize = 16;

/// A smaller segment is walked over in any case: that costs little, and an index that lost entries costs no answer.
const LEAST_BELIEVED: u64 = 1 << 20;

/// Evidence of aborted transactions in the files beside a segment.
enum Evidence {
    /// There were no transactions.
    Quiet,
    /// These.
    Aborted(Vec<AbortedTxn>),
    /// No trusted file.
    None,
}

/// The transactions of one log.
#[derive(Debug)]
pub struct LogTransactions<'a> {
    log: &'a ListedLog,
    /// Offsets of the snapshots there are, ascending.
    snapshots: Vec<Offset>,
    states: BTreeMap<Offset, Option<Arc<[ProducerState]>>>,
    /// By segment and where the walk began.
    events: BTreeMap<(usize, Offset), Arc<[TxnEvent]>>,
    /// Of the segments that were walked over or looked up in, and mapped, by file name.
    maps: BTreeMap<String, KeptMap>,
    walked_for_entry: u64,
    least_believed: u64,
}

impl PartitionLog {
    /// The first offset that a `read_committed` reader may not read yet, taking the whole log as replicated: where the
    /// oldest open transaction begins, or the log's end. If the log starts inside that transaction, it is the base
    /// offset of the batch that holds the log start.
    ///
    /// # Errors
    /// `Io`, or a corrupt header or marker that had to be read.
    pub fn last_stable_offset(&self) -> Result<Offset> {
        self.with_fresh_listing(|log| {
            if let Some(&known) = log.last_stable_offset.get() {
                return Ok(known);
            }
            let found = LogTransactions::of(log.whole())?.last_stable_offset(None)?;
            Ok(*log.last_stable_offset.get_or_init(|| found))
        })
    }
}

impl<'a> LogTransactions<'a> {
    /// Lists the snapshots of the log's folder; nothing is read yet.
    ///
    /// # Errors
    /// `Io` where the folder cannot be listed.
    pub fn of(log: &'a ListedLog) -> Result<Self> {
        let mut snapshots = Vec::new();
        for entry in log.folder().entries()? {
            if let Some(name) = entry?.name().and_then(FileName::parse)
                && name.kind == FileKind::Snapshot
                && name.state == FileState::Live
            {
                snapshots.push(name.offset);
            }
        }
        snapshots.sort_unstable();
        Ok(Self {
            log,
            snapshots,
            states: BTreeMap::new(),
            events: BTreeMap::new(),
            maps: BTreeMap::new(),
            walked_for_entry: WALKED_FOR_ENTRY,
            least_believed: LEAST_BELIEVED,
        })
    }

    /// Believes an index even if a walk over the headers would be cheaper.
    #[cfg(feature = "internal")]
    #[must_use]
    pub const fn preferring_indexes(mut self) -> Self {
        self.walked_for_entry = 0;
        self.least_believed = 0;
        self
    }

    /// Number of times that a segment's headers were walked because no file could be trusted.
    #[cfg(feature = "internal")]
    #[must_use]
    pub fn walks(&self) -> usize {
        self.events.len()
    }

    /// The last stable offset, the high watermark being where it is said to be, else at the end of the log.
    ///
    /// # Errors
    /// `Io`, or a fault in a header or a marker on the way.
    pub fn last_stable_offset(&mut self, high_watermark: Option<Offset>) -> Result<Offset> {
        self.find_log_end()?;
        let (start, end) = (self.log.log_start_offset(), self.log.log_end_offset()?);
        let end = high_watermark.map_or(end, |offset| offset.min(end).max(start));
        let Some(first) = self.ongoing_at(end)?.first_offset() else {
            return Ok(end);
        };
        let first = first.max(start);
        // Kafka looks the offset up and keeps where the batch begins that it finds: below the log start where that lies
        // inside of a batch.
        // The reader of the batch reports what cannot be read.
        let found = self.log.batch_at_or_after(first).unwrap_or(Some(first));
        Ok(found.map_or(end, |base| base.min(end)))
    }

    /// If only a walk over the active segment shows the log's end, uses the walk that its transactions need anyway.
    fn find_log_end(&mut self) -> Result<()> {
        let last = self.log.segments().len().saturating_sub(1);
        match self.log.segments().get(last) {
            Some(active) if !active.has_offset_index => {
                let (from, _) = self.known_below(Offset::MAX);
                self.events(last, from).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// The newest snapshot at or below `at`, or the log's start, and what was open there.
    fn known_below(&mut self, at: Offset) -> (Offset, OpenTransactions) {
        let start = self.log.log_start_offset();
        let usable: Vec<Offset> = self.snapshots.iter().copied().rev().collect();
        let mut usable = usable.into_iter().filter(|&o| o > start && o <= at);
        let known = usable.find_map(|offset| Some((offset, self.snapshot(offset)?)));
        known.unwrap_or_else(|| (start, OpenTransactions::default()))
    }

    /// Finds the transactions open at `at`, as a starting broker does.
    fn ongoing_at(&mut self, at: Offset) -> Result<OpenTransactions> {
        let (from, mut ongoing) = self.known_below(at);
        for n in self.log.floor(from)..self.log.segments().len() {
            let base = self.log.segments().get(n).map(|s| s.base_offset);
            if from >= at || base.is_none_or(|base| base >= at) {
                break;
            }
            for event in self.events(n, from)?.iter() {
                if event.offset < at {
                    ongoing.apply(event);
                }
            }
        }
        Ok(ongoing)
    }

    /// The aborted transactions with records in `start..end`, sorted.
    ///
    /// All that began below `end` must be decided: it is at most the last stable offset.
    ///
    /// # Errors
    /// `Io`, or a fault in a header or a marker on the way.
    pub fn aborted(&mut self, start: Offset, end: Offset) -> Result<Vec<AbortedRange>> {
        let mut found = match self.collect(start, end, true)? {
            Some(found) => found,
            None => self.collect(start, end, false)?.unwrap_or_default(),
        };
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// `None` if an index was believed and a walk after it does not know what is open.
    fn collect(
        &mut self,
        start: Offset,
        end: Offset,
        with_indexes: bool,
    ) -> Result<Option<Vec<AbortedRange>>> {
        let mut found = Vec::new();
        // What is open, as far as records from `start` on are concerned.
        let mut ongoing = Some(OpenTransactions::default());
        let log = self.log;
        for (n, segment) in log.segments().iter().enumerate().skip(log.floor(start)) {
            let base = segment.base_offset;
            if start >= end || (base >= end && self.is_decided(base, end, ongoing.as_ref())) {
                break;
            }
            let evidence = if with_indexes {
                self.evidence(n, segment)?
            } else {
                Evidence::None
            };
            match evidence {
                Evidence::Quiet => continue,
                Evidence::Aborted(entries) => {
                    let here =
                        |txn: &&AbortedTxn| txn.first_offset < end && txn.last_offset >= start;
                    let range = |txn: &AbortedTxn| {
                        AbortedRange::from([txn.producer_id, txn.first_offset, txn.last_offset])
                    };
                    found.extend(entries.iter().filter(here).map(range));
                    ongoing = None;
                    continue;
                }
                Evidence::None => {}
            }
            let Some(mut open) = ongoing.take().or_else(|| self.snapshot(base)) else {
                return Ok(None);
            };
            for event in self.events(n, start)?.iter() {
                if let Some(first) = open.apply(event)
                    && first < end
                    && event.is_abort == Some(true)
                {
                    let range = [event.producer_id, first, event.offset];
                    found.push(AbortedRange::from(range));
                }
            }
            ongoing = Some(open);
        }
        Ok(Some(found))
    }

    /// Returns whether all transactions that began below `end` ended below `at`.
    fn is_decided(&mut self, at: Offset, end: Offset, ongoing: Option<&OpenTransactions>) -> bool {
        let decided = |open: &OpenTransactions| open.first_offset().is_none_or(|at| at >= end);
        match ongoing {
            Some(open) => decided(open),
            None => self.snapshot(at).is_some_and(|open| decided(&open)),
        }
    }

    fn evidence(&mut self, n: usize, segment: &LogSegment) -> Result<Evidence> {
        if !self.log.is_trusted(n) || segment.size < self.least_believed {
            return Ok(Evidence::None);
        }
        if let Some(index) = segment.transaction_index()
            && index.entries() > 0
        {
            if !index.is_whole() {
                return Ok(Evidence::None);
            }
            let entries: Vec<AbortedTxn> = index.iter().collect();
            let confirmed = is_well_formed(&entries, segment) && self.confirms(&entries, segment);
            return Ok(if confirmed {
                Evidence::Aborted(entries)
            } else {
                Evidence::None
            });
        }
        let end = match segment.next_base_offset {
            Some(next) => next,
            None => self.log.log_end_offset()?,
        };
        let never = |p: &ProducerState| p.coordinator_epoch < 0 && p.current_txn_first_offset < 0;
        let is_quiet = self.state(end).is_some_and(|all| all.iter().all(never));
        Ok(if is_quiet {
            Evidence::Quiet
        } else {
            Evidence::None
        })
    }

    /// Returns whether the log has marker and first batch of every entry where it says; false also where a walk over
    /// all headers takes less time. The walk reports what is wrong on the way. The map through which it looked is kept,
    /// as it touched many pages.
    fn confirms(&mut self, entries: &[AbortedTxn], segment: &LogSegment) -> bool {
        let Ok(mut lookup) = SegmentLookup::open_for_many(segment) else {
            return false;
        };
        let worth = |bytes: u64| (entries.len() as u64).saturating_mul(bytes) <= segment.size;
        let worth_it = worth(self.walked_for_entry)
            || worth(BATCHES_FOR_ENTRY.saturating_mul(lookup.mean_size(SAMPLED)));
        if !worth_it {
            return false;
        }
        let mut ahead = entries.iter().skip(1);
        let are_there = entries.iter().all(|txn| {
            // What the next entry needs comes from memory in the meantime.
            if let Some(next) = ahead.next() {
                lookup.fetch(next.last_offset);
                lookup.fetch(next.first_offset);
            }
            let marker = lookup.marker_at(txn.last_offset).ok().flatten();
            marker == Some((txn.producer_id, ControlType::Abort))
                && if txn.first_offset >= segment.base_offset {
                    begins(txn, &mut lookup)
                } else {
                    self.begins_before(txn)
                }
        });
        if are_there && let Some(map) = lookup.into_map() {
            let name = segment.file_name.clone();
            self.maps.insert(name, KeptMap::keep(map));
        }
        are_there
    }

    /// As [`begins`], of a transaction whose marker is in a later segment.
    fn begins_before(&self, txn: &AbortedTxn) -> bool {
        let segment = self.log.segments().get(self.log.floor(txn.first_offset));
        segment
            .and_then(|segment| SegmentLookup::open(segment).ok())
            .is_some_and(|mut lookup| begins(txn, &mut lookup))
    }

    fn events(&mut self, n: usize, from: Offset) -> Result<Arc<[TxnEvent]>> {
        let Some(segment) = self.log.segments().get(n) else {
            return Ok(Arc::default());
        };
        let from = from.max(segment.base_offset);
        if let Some(known) = self.events.get(&(n, from)) {
            return Ok(Arc::clone(known));
        }
        let position = self.log.start_position(n, from)?;
        let walked =
            events(segment, position, from).map_err(|error| exchanged(segment).unwrap_or(error))?;
        if let Some(error) = exchanged(segment) {
            return Err(error);
        }
        if segment.is_active
            && let Some(next_offset) = walked.next_offset
        {
            self.log.note_log_end(next_offset);
        }
        if let Some(map) = walked.map {
            let name = segment.file_name.clone();
            self.maps.insert(name, KeptMap::keep(map));
        }
        let found: Arc<[TxnEvent]> = walked.events.into();
        self.events.insert((n, from), Arc::clone(&found));
        Ok(found)
    }

    /// The map through which a segment was examined, if one is kept.
    pub(super) fn map_of(&self, segment: &LogSegment) -> KeptMap {
        let kept = self.maps.get(&segment.file_name);
        kept.cloned().unwrap_or_default()
    }

    /// Reads the open transactions from the snapshot at this offset, if there is one that can be read.
    fn snapshot(&mut self, offset: Offset) -> Option<OpenTransactions> {
        let mut open = OpenTransactions::default();
        for producer in self.state(offset)?.iter() {
            if producer.current_txn_first_offset >= 0 {
                open.begin(producer.producer_id, producer.current_txn_first_offset);
            }
        }
        Some(open)
    }

    fn state(&mut self, offset: Offset) -> Option<Arc<[ProducerState]>> {
        self.snapshots.binary_search(&offset).ok()?;
        let log = self.log;
        let read = || {
            let name = FileName::new(offset, FileKind::Snapshot);
            let bytes = read_small(&**log.folder(), &name.to_string(), MAX_SNAPSHOT).ok()?;
            ProducerState::parse_snapshot(&bytes).ok().map(Arc::from)
        };
        self.states.entry(offset).or_insert_with(read).clone()
    }
}

/// Returns whether a transactional batch of the producer begins at the transaction's first offset.
fn begins(txn: &AbortedTxn, lookup: &mut SegmentLookup<'_>) -> bool {
    let found = lookup.find(txn.first_offset).ok().flatten();
    found.is_some_and(|(_, header)| {
        header.base_offset == txn.first_offset
            && header.producer_id == txn.producer_id
            && header.is_transactional()
            && !header.is_control()
    })
}

/// The error that has the folder listed again, where a closed segment has another length by now, or is gone.
fn exchanged(segment: &LogSegment) -> Option<Error> {
    match segment.stat() {
        Ok(now) if segment.is_active || now.length == segment.size => None,
        Ok(_) => Some(Error::replaced(segment.path())),
        Err(error) => Some(error),
    }
}

/// Returns whether the entries could be a segment's: known version, markers within it and in order, first before last.
fn is_well_formed(entries: &[AbortedTxn], segment: &LogSegment) -> bool {
    let end = segment.next_base_offset.unwrap_or(Offset::MAX);
    let mut floor = segment.base_offset;
    entries.iter().all(|txn| {
        let fits = txn.version == AbortedTxn::CURRENT_VERSION
            && txn.producer_id > NO_PRODUCER_ID
            && (floor..end).contains(&txn.last_offset)
            && (0..txn.last_offset).contains(&txn.first_offset);
        floor = txn.last_offset.saturating_add(1);
        fits
    })
}
