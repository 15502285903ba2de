//! State of the producers that write to a log (`ProducerStateManager`, KIP-98, KIP-360, KIP-890).
//!
//! | module | what |
//! |---|---|
//! | [`append`] | one producer's part of an append, checked |
//! | [`entry`] | the state of one producer |
//! | [`replay`] | the state, replayed from the batches after a snapshot |
//! | [`snapshots`] | the files it is kept in |
//!
//! The state after offset N is kept in `N.snapshot`, taken at every roll and at a clean close. The log decides:
//! everything after the last snapshot is replayed from the batches.
//!
//! A transaction is *ongoing* from its first batch to its marker, and *unreplicated* from there until the high
//! watermark has passed the marker. The first offset of the first of either kind is the first unstable one.
//!
//! The verification of transactions with their coordinator (KIP-890) is not implemented: it is an exchange between
//! brokers that leaves nothing in the log. Callers pass the time.

pub(crate) mod append;
pub(crate) mod entry;
pub(crate) mod replay;
pub(crate) mod snapshots;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::append::{CompletedTxn, ProducerAppend};
use self::entry::{BatchMetadata, ProducerEntry};
use self::snapshots::SnapshotFiles;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::format::entry::ProducerState;
use crate::format::file_name::{FileKind, FileName};
use crate::records::control::EndTransaction;
use crate::types::{AppendOrigin, Offset, TimestampMs};

/// `producer.id.expiration.ms`, a day.
pub const DEFAULT_PRODUCER_ID_EXPIRATION_MS: i64 = 24 * 60 * 60 * 1000;

/// Effect of an append on all the producers in it.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// Each producer's part.
    pub appends: BTreeMap<i64, ProducerAppend>,
    /// Transactions that end in it, in order.
    pub completed: Vec<CompletedTxn>,
    /// The batch repeats this one, which is in the log: nothing is to be appended.
    pub duplicate: Option<BatchMetadata>,
}

/// The producers of one partition log, and their snapshots.
#[derive(Clone, Debug)]
pub struct ProducerStateManager {
    files: Arc<dyn SnapshotFiles>,
    expiration_ms: i64,
    producers: BTreeMap<i64, ProducerEntry>,
    /// Producer ids by their open transaction's first offset.
    ongoing: BTreeMap<Offset, i64>,
    /// The markers' offsets by the first offset of their transaction.
    unreplicated: BTreeMap<Offset, Offset>,
    /// File names by offset.
    snapshots: BTreeMap<Offset, String>,
    last_map_offset: Offset,
    last_snap_offset: Offset,
}

impl ProducerStateManager {
    /// Knows which snapshots there are, and no producer yet.
    ///
    /// # Errors
    /// Those of [`SnapshotFiles::list`].
    pub fn open(files: Arc<dyn SnapshotFiles>, expiration_ms: i64) -> Result<Self> {
        let snapshots = files.list()?.into_iter().collect();
        Ok(Self {
            files,
            expiration_ms,
            producers: BTreeMap::new(),
            ongoing: BTreeMap::new(),
            unreplicated: BTreeMap::new(),
            snapshots,
            last_map_offset: 0,
            last_snap_offset: 0,
        })
    }

    /// The same state, its snapshots kept here from now on: a plan has been carried out.
    #[must_use]
    pub fn kept_in(mut self, files: Arc<dyn SnapshotFiles>) -> Self {
        self.files = files;
        self
    }

    /// Removes the snapshots without a segment of their base offset, save the last one if it is not below the last
    /// segment: that is the one of a clean close.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove_stray_snapshots(&mut self, base_offsets: &[Offset]) -> Result<()> {
        self.snapshots = self.files.list()?.into_iter().collect();
        let bases: BTreeSet<Offset> = base_offsets.iter().copied().collect();
        let mut strays: Vec<Offset> = self
            .snapshots
            .keys()
            .copied()
            .filter(|offset| !bases.contains(offset))
            .collect();
        let last_base = bases.last().copied().unwrap_or(Offset::MIN);
        if strays.last().is_some_and(|&stray| stray >= last_base) {
            strays.pop();
        }
        for offset in strays {
            self.remove_snapshot(offset)?;
        }
        Ok(())
    }

    /// The first offset whose fate is open: of a transaction that continues, or one whose marker may not be replicated.
    #[must_use]
    pub fn first_unstable_offset(&self) -> Option<Offset> {
        let unreplicated = self.unreplicated.keys().next().copied();
        [self.first_undecided_offset(), unreplicated]
            .into_iter()
            .flatten()
            .min()
    }

    /// The first transaction that continues: its producer, and its first offset.
    #[must_use]
    pub fn first_undecided(&self) -> Option<(i64, Offset)> {
        let (&first, &producer_id) = self.ongoing.first_key_value()?;
        Some((producer_id, first))
    }

    /// The first offset of the first transaction that continues.
    #[must_use]
    pub fn first_undecided_offset(&self) -> Option<Offset> {
        self.first_undecided().map(|(_, first)| first)
    }

    /// Transactions that ended below the high watermark are settled.
    pub fn on_high_watermark_updated(&mut self, high_watermark: Offset) {
        self.unreplicated
            .retain(|_, marker| *marker >= high_watermark);
    }

    /// The offset the state is of: everything below it has been taken in.
    #[must_use]
    pub const fn map_end_offset(&self) -> Offset {
        self.last_map_offset
    }

    /// Says that everything below `offset` has been taken in.
    pub const fn update_map_end_offset(&mut self, offset: Offset) {
        self.last_map_offset = offset;
    }

    /// Returns whether no producer is known and no transaction waits for the high watermark.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty() && self.unreplicated.is_empty()
    }

    /// The state of one producer.
    #[must_use]
    pub fn last_entry(&self, producer_id: i64) -> Option<&ProducerEntry> {
        self.producers.get(&producer_id)
    }

    /// All producers by id, as a snapshot has them. Kafka writes them in the order of its hash map and reads any.
    #[must_use]
    pub fn active_producers(&self) -> impl ExactSizeIterator<Item = &ProducerEntry> {
        self.producers.values()
    }

    /// The highest id among the active producers.
    #[must_use]
    pub fn highest_producer_id(&self) -> Option<i64> {
        self.producers.last_key_value().map(|(&id, _)| id)
    }

    /// Begins a producer's part of an append.
    #[must_use]
    pub fn prepare_update(&self, producer_id: i64, origin: AppendOrigin) -> ProducerAppend {
        match self.producers.get(&producer_id) {
            Some(entry) => ProducerAppend::new(entry, origin),
            None => ProducerAppend::new(&ProducerEntry::unknown(producer_id), origin),
        }
    }

    /// Checks the batches of one append, in order; of a control batch with what its marker says. Stops at a batch that
    /// a client repeats. Changes nothing (`UnifiedLog.analyzeAndValidateProducerState`).
    ///
    /// # Errors
    /// Those of [`ProducerAppend::append`].
    pub fn analyze<'a>(
        &self,
        batches: impl IntoIterator<Item = (&'a BatchHeader, Option<EndTransaction>)>,
        origin: AppendOrigin,
        transaction_version: i16,
    ) -> Result<Analysis> {
        let mut analysis = Analysis::default();
        for (header, marker) in batches {
            if !header.has_producer_id() {
                continue;
            }
            if origin == AppendOrigin::Client {
                let known = self.last_entry(header.producer_id);
                analysis.duplicate = known.and_then(|entry| entry.find_duplicate(header));
                if analysis.duplicate.is_some() {
                    break;
                }
            }
            let new = |&id: &i64| self.prepare_update(id, origin);
            let append = analysis.appends.entry(header.producer_id);
            let append = append.or_insert_with_key(new);
            let completed = append.append(header, marker, transaction_version)?;
            analysis.completed.extend(completed);
        }
        Ok(analysis)
    }

    /// Takes the batches of an append in; the transactions it ends are the caller's to [complete](Self::complete_txn).
    pub fn update_all(&mut self, appends: BTreeMap<i64, ProducerAppend>) {
        for append in appends.into_values() {
            self.update(append);
        }
    }

    /// Takes one producer's part of an append in.
    pub fn update(&mut self, append: ProducerAppend) {
        let producer_id = append.producer_id();
        match self.producers.get_mut(&producer_id) {
            Some(entry) => entry.update(append.updated),
            None => {
                self.producers.insert(producer_id, append.updated);
            }
        }
        for first_offset in append.started {
            self.ongoing.insert(first_offset, producer_id);
        }
    }

    /// The last stable offset right after a marker: for the transaction index, before the transaction is
    /// [completed](Self::complete_txn).
    #[must_use]
    pub fn last_stable_offset(&self, completed: &CompletedTxn) -> Offset {
        self.ongoing
            .iter()
            .find(|&(_, &producer_id)| producer_id != completed.producer_id)
            .map_or(completed.last_offset.saturating_add(1), |(&first, _)| first)
    }

    /// A transaction has ended; it stays unstable until the high watermark has passed its marker.
    ///
    /// # Errors
    /// `InvalidArgument` for one that was never begun.
    pub fn complete_txn(&mut self, completed: &CompletedTxn) -> Result<()> {
        if self.ongoing.remove(&completed.first_offset).is_none() {
            return Err(Error::InvalidArgument(format!(
                "producer {}: the transaction that ends at offset {} did not begin at offset {}",
                completed.producer_id, completed.last_offset, completed.first_offset
            )));
        }
        self.unreplicated
            .insert(completed.first_offset, completed.last_offset);
        Ok(())
    }

    /// Forgets producers that have been idle for the expiration time and have no transaction open.
    pub fn remove_expired_producers(&mut self, now_ms: TimestampMs) {
        let expiration_ms = self.expiration_ms;
        self.producers
            .retain(|_, entry| !is_expired(entry, now_ms, expiration_ms));
    }

    /// Goes back to the newest snapshot up to `log_end`, unless that is where the state is; snapshots outside of the
    /// log are removed. The caller replays the batches from [`map_end_offset`](Self::map_end_offset) on.
    ///
    /// # Errors
    /// `Io`. Corrupt snapshots are removed, and the one before is taken.
    pub fn truncate_and_reload(
        &mut self,
        log_start: Offset,
        log_end: Offset,
        now_ms: TimestampMs,
    ) -> Result<()> {
        self.remove_snapshots(|offset| offset > log_end || offset <= log_start)?;
        if log_end == self.last_map_offset {
            self.on_log_start_offset_incremented(log_start);
            return Ok(());
        }
        self.producers.clear();
        self.ongoing.clear();
        // What is cut lies above the high watermark, what stays below it.
        self.unreplicated.clear();
        self.load_from_snapshot(log_start, now_ms)
    }

    /// Forgets everything, snapshots included; the log continues at `offset`.
    ///
    /// # Errors
    /// `Io`.
    pub fn truncate_fully_and_start_at(&mut self, offset: Offset) -> Result<()> {
        self.producers.clear();
        self.ongoing.clear();
        self.unreplicated.clear();
        self.remove_snapshots(|_| true)?;
        self.last_snap_offset = 0;
        self.last_map_offset = offset;
        Ok(())
    }

    /// The log begins later. Producers are kept even where all their batches are gone.
    pub fn on_log_start_offset_incremented(&mut self, log_start: Offset) {
        self.on_high_watermark_updated(log_start);
        self.last_map_offset = self.last_map_offset.max(log_start);
        self.last_snap_offset = self.latest_snapshot_offset().unwrap_or(log_start);
    }

    fn load_from_snapshot(&mut self, log_start: Offset, now_ms: TimestampMs) -> Result<()> {
        while let Some((&offset, name)) = self.snapshots.last_key_value() {
            let data = self.files.read(name);
            match data.and_then(|data| ProducerState::parse_snapshot(&data)) {
                Ok(states) => {
                    for state in states {
                        self.load_entry(ProducerEntry::from(state), now_ms);
                    }
                    self.last_snap_offset = offset;
                    self.last_map_offset = offset;
                    return Ok(());
                }
                Err(Error::CorruptIndex(_)) => self.remove_snapshot(offset)?,
                Err(error) => return Err(error),
            }
        }
        self.last_snap_offset = log_start;
        self.last_map_offset = log_start;
        Ok(())
    }

    fn load_entry(&mut self, entry: ProducerEntry, now_ms: TimestampMs) {
        if is_expired(&entry, now_ms, self.expiration_ms) {
            return;
        }
        if let Some(first_offset) = entry.current_txn_first_offset {
            self.ongoing.insert(first_offset, entry.producer_id);
        }
        self.producers.insert(entry.producer_id, entry);
    }

    /// Writes `<map end offset>.snapshot`, unless the state has not moved since the last one. Returns whether it did.
    ///
    /// # Errors
    /// `Io`.
    pub fn take_snapshot(&mut self, sync: bool) -> Result<bool> {
        if self.last_map_offset <= self.last_snap_offset {
            return Ok(false);
        }
        let data = ProducerState::write_snapshot(self.active_producers().map(Into::into))?;
        let name = FileName::new(self.last_map_offset, FileKind::Snapshot).to_string();
        self.files.write(&name, &data, sync)?;
        self.snapshots.insert(self.last_map_offset, name);
        self.last_snap_offset = self.last_map_offset;
        Ok(true)
    }

    /// The offset of the newest snapshot.
    #[must_use]
    pub fn latest_snapshot_offset(&self) -> Option<Offset> {
        self.snapshots.keys().next_back().copied()
    }

    /// The offsets of all snapshots.
    pub fn snapshot_offsets(&self) -> impl Iterator<Item = Offset> {
        self.snapshots.keys().copied()
    }

    fn remove_snapshots(&mut self, which: impl Fn(Offset) -> bool) -> Result<()> {
        let going: Vec<Offset> = self.snapshot_offsets().filter(|&o| which(o)).collect();
        going
            .into_iter()
            .try_for_each(|offset| self.remove_snapshot(offset))
    }

    /// Renames the snapshot of a segment that goes to `.deleted`; `false` where there is none.
    ///
    /// # Errors
    /// `Io`.
    pub fn mark_snapshot_deleted(&mut self, offset: Offset) -> Result<bool> {
        match self.snapshots.remove(&offset) {
            Some(name) => self.files.mark_deleted(&name),
            None => Ok(false),
        }
    }

    fn remove_snapshot(&mut self, offset: Offset) -> Result<()> {
        match self.snapshots.remove(&offset) {
            Some(name) => self.files.remove(&name),
            None => Ok(()),
        }
    }
}

/// Idle for long enough, and no transaction open.
const fn is_expired(entry: &ProducerEntry, now_ms: TimestampMs, expiration_ms: i64) -> bool {
    entry.current_txn_first_offset.is_none()
        && now_ms.wrapping_sub(entry.last_timestamp) >= expiration_ms
}

#[cfg(test)]
mod tests;
