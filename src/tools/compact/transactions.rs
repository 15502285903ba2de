//! Tracks the batches and markers of transactions that no longer count (`CleanedTransactionMetadata`).
//!
//! | batch | may be removed |
//! |---|---|
//! | data of an aborted transaction | yes |
//! | other data | no |
//! | COMMIT or ABORT | once this walk has met no batch of its transaction |
//! | a control batch without a record | yes |
//! | another control batch | no |
//!
//! An ABORT marker that stays because data was met needs its entry in the transaction index of the new segment.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::control::ControlType;
use crate::format::entry::AbortedTxn;
use crate::records::control::control_type;
use crate::types::Offset;

/// An aborted transaction that a walk is in.
#[derive(Debug)]
struct AbortedTransaction {
    txn: AbortedTxn,
    was_met: bool,
}

/// The transactions of the batches that a walk meets.
#[derive(Debug, Default)]
pub(super) struct WalkedTransactions {
    /// Producers that have committed data so far, whose marker is still to come.
    committed: BTreeSet<i64>,
    aborted: BTreeMap<i64, AbortedTransaction>,
    /// By first and last offset and producer.
    waiting: BTreeMap<(Offset, Offset, i64), AbortedTxn>,
}

/// Decision about a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    /// True if it no longer counts.
    pub may_go: bool,
    /// An ABORT marker that stays: what the transaction index says of it.
    pub entry: Option<AbortedTxn>,
}

impl Decision {
    const fn of(may_go: bool) -> Self {
        Self {
            may_go,
            entry: None,
        }
    }
}

impl WalkedTransactions {
    /// Learns of aborted transactions that later batches may be in.
    pub(super) fn add(&mut self, aborted: Vec<AbortedTxn>) {
        let key = |txn: AbortedTxn| (txn.first_offset, txn.last_offset, txn.producer_id);
        self.waiting
            .extend(aborted.into_iter().map(|txn| (key(txn), txn)));
    }

    /// Looks at the next batch.
    ///
    /// # Errors
    /// Faults in the record of a control batch, positions counted from the beginning of the batch.
    pub(super) fn meet(&mut self, batch: &[u8], header: &BatchHeader) -> Result<Decision> {
        self.begin_up_to(header.last_offset());
        if header.is_control() {
            return self.meet_control(batch, header);
        }
        Ok(Decision::of(self.meet_data(header)))
    }

    fn meet_data(&mut self, header: &BatchHeader) -> bool {
        if !header.is_transactional() {
            return false;
        }
        if let Some(ongoing) = self.aborted.get_mut(&header.producer_id) {
            ongoing.was_met = true;
            return true;
        }
        self.committed.insert(header.producer_id);
        false
    }

    fn meet_control(&mut self, batch: &[u8], header: &BatchHeader) -> Result<Decision> {
        Ok(match control_type(batch, header)? {
            Some(ControlType::Abort) => match self.aborted.remove(&header.producer_id) {
                Some(ongoing) if ongoing.was_met => Decision {
                    may_go: false,
                    entry: Some(ongoing.txn),
                },
                _ => Decision::of(true),
            },
            Some(ControlType::Commit) => Decision::of(!self.committed.remove(&header.producer_id)),
            Some(_) => Decision::of(false),
            None => Decision::of(true),
        })
    }

    /// Aborted transactions begin that have an offset up to this one. Of a producer's, one continues until its marker.
    fn begin_up_to(&mut self, offset: Offset) {
        while let Some(next) = self.waiting.first_entry()
            && next.key().0 <= offset
        {
            let ongoing = AbortedTransaction {
                txn: next.remove(),
                was_met: false,
            };
            let producer = self.aborted.entry(ongoing.txn.producer_id);
            producer.or_insert(ongoing);
        }
    }
}
