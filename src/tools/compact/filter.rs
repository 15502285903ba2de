//! Selection of the batches and records that stay (`Cleaner.cleanInto`, `Cleaner.shouldRetainRecord`).

use super::transactions::WalkedTransactions;
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::entry::AbortedTxn;
use crate::producers::ProducerStateManager;
use crate::records::RecordSlot;
use crate::records::filtered::{BatchRetention, BatchVerdict, RecordFilter};
use crate::scan::offset_map::{KeyHash, OffsetMap};
use crate::types::{Offset, TimestampMs};

/// Tombstones that stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tombstones {
    /// The clock, against delete horizons.
    pub now_ms: TimestampMs,
    /// Those of magic 0 and 1 are too young to go.
    pub keeps_legacy: bool,
}

impl Tombstones {
    fn stay(self, header: &BatchHeader) -> bool {
        if header.is_legacy() {
            self.keeps_legacy
        } else {
            header
                .delete_horizon_ms()
                .is_none_or(|horizon_ms| self.now_ms < horizon_ms)
        }
    }
}

/// Filter for the batches of a segment.
pub(super) struct CleanerFilter<'a> {
    map: &'a OffsetMap,
    transactions: &'a mut WalkedTransactions,
    producers: &'a ProducerStateManager,
    upper_bound: Offset,
    tombstones: Tombstones,
    /// The present batch does not count any more.
    discards: bool,
    entry: Option<AbortedTxn>,
    invalid_messages: u64,
    hashes: Vec<KeyHash>,
}

impl<'a> CleanerFilter<'a> {
    /// A batch that ends where the range does (`upper_bound`) stays in any case: else the log would seem to end before.
    pub(super) const fn new(
        map: &'a OffsetMap,
        transactions: &'a mut WalkedTransactions,
        producers: &'a ProducerStateManager,
        upper_bound: Offset,
        tombstones: Tombstones,
    ) -> Self {
        Self {
            map,
            transactions,
            producers,
            upper_bound,
            tombstones,
            discards: false,
            entry: None,
            invalid_messages: 0,
            hashes: Vec::new(),
        }
    }

    /// Takes the transaction index entry of the batch that was filtered last, if it gets one.
    pub(super) const fn take_entry(&mut self) -> Option<AbortedTxn> {
        self.entry.take()
    }

    /// Records without a key so far.
    pub(super) const fn invalid_messages(&self) -> u64 {
        self.invalid_messages
    }

    /// Returns whether the state of a producer that is still known is in this batch: its last sequence, or where only a
    /// marker is known of it, its epoch.
    fn is_last_of_producer(&self, header: &BatchHeader) -> bool {
        if !header.has_producer_id() {
            return false;
        }
        let entry = self.producers.last_entry(header.producer_id);
        entry.is_some_and(|entry| {
            let last = entry.last_data_offset();
            if last >= 0 {
                header.last_offset() == last
            } else {
                header.is_control() && header.producer_epoch == entry.producer_epoch()
            }
        })
    }
}

impl RecordFilter for CleanerFilter<'_> {
    fn batch(&mut self, batch: &[u8], header: &BatchHeader) -> Result<BatchVerdict> {
        let decision = self.transactions.meet(batch, header)?;
        self.entry = decision.entry;
        let is_due = |horizon_ms| horizon_ms <= self.tombstones.now_ms;
        self.discards = decision.may_go
            && (!header.is_control() || header.delete_horizon_ms().is_some_and(is_due));
        let retention =
            if self.is_last_of_producer(header) || header.next_offset() == self.upper_bound {
                BatchRetention::RetainEmpty
            } else if self.discards {
                BatchRetention::Delete
            } else {
                BatchRetention::DeleteEmpty
            };
        Ok(BatchVerdict {
            retention,
            is_marker_of_nothing: decision.may_go && header.is_control(),
        })
    }

    fn records(
        &mut self,
        header: &BatchHeader,
        source: &[u8],
        slots: &[RecordSlot],
        stays: &mut [bool],
    ) -> Result<()> {
        if self.discards {
            stays.fill(false);
            return Ok(());
        }
        if header.is_control() {
            return Ok(());
        }
        let latest = self.map.latest_offset();
        if slots.first().is_some_and(|first| first.offset > latest) {
            return Ok(());
        }
        let tombstones_stay = self.tombstones.stay(header);
        let keys = slots
            .iter()
            .map(|slot| slot.key(source).unwrap_or_default());
        self.map.hash_all(keys, &mut self.hashes);
        for ((slot, stays), &hash) in slots.iter().zip(stays).zip(&self.hashes) {
            if slot.offset > latest {
                continue;
            }
            if slot.key_len < 0 {
                self.invalid_messages = self.invalid_messages.saturating_add(1);
                *stays = false;
                continue;
            }
            let last = self.map.get(hash);
            let is_last = last.is_none_or(|last| slot.offset >= last);
            *stays = is_last && (slot.value_len >= 0 || tombstones_stay);
        }
        Ok(())
    }
}
