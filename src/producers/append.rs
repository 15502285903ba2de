//! One producer's part of an append, checked against the producer's state (`ProducerAppendInfo`).
//!
//! Nothing here changes the log's state: that happens when the bytes are written and the parts are passed to
//! [`ProducerStateManager::update`](super::ProducerStateManager::update).

use super::entry::{BatchMetadata, ProducerEntry};
use crate::error::{Error, ProducerFault, ProducerRule, Result};
use crate::format::batch::BatchHeader;
use crate::format::entry::AbortedTxn;
use crate::records::control::EndTransaction;
use crate::types::{AppendOrigin, NO_PRODUCER_EPOCH, NO_SEQUENCE, Offset};

/// The transaction version of a marker is not known (`TransactionVersion.TV_UNKNOWN`); right for copied batches.
pub(crate) const TV_UNKNOWN: i16 = -1;
/// From this version on the coordinator raises a producer's epoch before its marker (KIP-890).
const TV_2: i16 = 2;

/// A transaction that a marker ended, as the transaction index wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedTxn {
    /// Its producer.
    pub producer_id: i64,
    /// Its first offset.
    pub first_offset: Offset,
    /// The offset of its marker.
    pub last_offset: Offset,
    /// Aborted, else committed.
    pub is_aborted: bool,
}

impl CompletedTxn {
    /// The entry of a transaction index for it.
    #[must_use]
    pub const fn entry(&self, last_stable_offset: Offset) -> AbortedTxn {
        AbortedTxn {
            version: AbortedTxn::CURRENT_VERSION,
            producer_id: self.producer_id,
            first_offset: self.first_offset,
            last_offset: self.last_offset,
            last_stable_offset,
        }
    }
}

/// Effect of an append on the state of one producer.
#[derive(Clone, Debug)]
pub struct ProducerAppend {
    origin: AppendOrigin,
    epoch_before: i16,
    last_sequence_before: i32,
    pub(super) updated: ProducerEntry,
    /// First offsets of the transactions begun.
    pub(super) started: Vec<Offset>,
}

impl ProducerAppend {
    pub(super) fn new(current: &ProducerEntry, origin: AppendOrigin) -> Self {
        Self {
            origin,
            epoch_before: current.producer_epoch,
            last_sequence_before: current.last_sequence(),
            updated: ProducerEntry {
                batches: std::collections::VecDeque::new(),
                ..*current
            },
            started: Vec::new(),
        }
    }

    /// The producer.
    #[must_use]
    pub const fn producer_id(&self) -> i64 {
        self.updated.producer_id
    }

    /// The producer's state after this append; only of the batches in it.
    #[cfg(test)]
    pub(super) const fn updated(&self) -> &ProducerEntry {
        &self.updated
    }

    /// Checks and notes one batch. Of a control batch `marker` is what its first record says, `None` if it has none.
    ///
    /// # Errors
    /// `ProducerRefused`, by the rules of the origin. `InvalidArgument` for a marker without a transaction version that
    /// is not a copy.
    pub fn append(
        &mut self,
        header: &BatchHeader,
        marker: Option<EndTransaction>,
        transaction_version: i16,
    ) -> Result<Option<CompletedTxn>> {
        if !header.is_control() {
            self.append_data(header)?;
            return Ok(None);
        }
        match marker {
            Some(marker) => self.append_marker(
                &marker,
                header.producer_epoch,
                header.base_offset,
                transaction_version,
            ),
            // Compaction has removed the whole transaction; nothing is left to end.
            None => Ok(None),
        }
    }

    fn append_data(&mut self, header: &BatchHeader) -> Result<()> {
        let offset = header.base_offset;
        self.check_epoch(header.producer_epoch, offset, TV_UNKNOWN)?;
        if self.origin == AppendOrigin::Client {
            self.check_sequence(header.producer_epoch, header.base_sequence, offset)?;
        }
        self.updated.add_batch(
            header.producer_epoch,
            BatchMetadata {
                last_sequence: header.last_sequence(),
                last_offset: header.last_offset(),
                offset_delta: header.last_offset_delta,
                timestamp: header.max_timestamp,
            },
        );
        match (
            self.updated.current_txn_first_offset,
            header.is_transactional(),
        ) {
            (Some(first), false) => Err(self.refused(
                ProducerRule::InvalidTxnState,
                offset,
                "batch",
                format_args!("a transactional one, in the transaction open since offset {first}"),
                "a plain one",
            )),
            (None, true) => {
                self.updated.current_txn_first_offset = Some(offset);
                self.started.push(offset);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn append_marker(
        &mut self,
        marker: &EndTransaction,
        producer_epoch: i16,
        offset: Offset,
        transaction_version: i16,
    ) -> Result<Option<CompletedTxn>> {
        let copied = self.origin == AppendOrigin::Replication;
        let version = match transaction_version {
            // The version is not part of the batch. The leader has already checked by it; version 0 requires less.
            TV_UNKNOWN if copied => 0,
            TV_UNKNOWN => {
                return Err(Error::InvalidArgument(
                    "a transaction marker needs a transaction version unless it is replicated"
                        .to_owned(),
                ));
            }
            version => version,
        };
        self.check_epoch(producer_epoch, offset, version)?;
        if self.updated.coordinator_epoch > marker.coordinator_epoch && !copied {
            return Err(self.refused(
                ProducerRule::TransactionCoordinatorFenced,
                offset,
                "coordinator epoch",
                format_args!("at least {}", self.updated.coordinator_epoch),
                marker.coordinator_epoch,
            ));
        }
        // A marker without a transaction moves no stable offset, so the index has nothing to say of it.
        let completed = self
            .updated
            .current_txn_first_offset
            .map(|first_offset| CompletedTxn {
                producer_id: self.producer_id(),
                first_offset,
                last_offset: offset,
                is_aborted: marker.is_abort,
            });
        self.updated
            .end_transaction(producer_epoch, marker.coordinator_epoch, marker.timestamp);
        Ok(completed)
    }

    /// Up to version 1 a marker has its transaction's epoch; from version 2 on the next one, so that an equal epoch is
    /// a late or repeated marker. A repeated one is let through where the transaction has ended already (KAFKA-19999),
    /// and so is the highest epoch, which has no next.
    fn check_epoch(&self, epoch: i16, offset: Offset, transaction_version: i16) -> Result<()> {
        let current = self.updated.producer_epoch;
        let raises = transaction_version >= TV_2;
        if epoch > current || (epoch == current && !raises) {
            return Ok(());
        }
        let no_transaction = self.updated.current_txn_first_offset.is_none();
        let repeated = raises && epoch == current && (no_transaction || epoch == i16::MAX);
        if repeated || self.origin == AppendOrigin::Replication {
            return Ok(());
        }
        let least = if raises { "above" } else { "at least" };
        Err(self.refused(
            ProducerRule::InvalidProducerEpoch,
            offset,
            "epoch",
            format_args!("{least} {current}"),
            epoch,
        ))
    }

    fn check_sequence(&self, epoch: i16, first_sequence: i32, offset: Offset) -> Result<()> {
        let refused = |expected: &dyn std::fmt::Display| {
            self.refused(
                ProducerRule::OutOfOrderSequence,
                offset,
                "sequence",
                expected,
                first_sequence,
            )
        };
        let current = self.updated.producer_epoch;
        if epoch != current {
            return if first_sequence == 0 || current == NO_PRODUCER_EPOCH {
                Ok(())
            } else {
                Err(refused(&format_args!("0 in the new epoch {epoch}")))
            };
        }
        let last = if !self.updated.batches.is_empty() {
            self.updated.last_sequence()
        } else if epoch == self.epoch_before {
            self.last_sequence_before
        } else {
            NO_SEQUENCE
        };
        // Without an epoch nothing is known any more, so any sequence may be the next.
        if self.epoch_before == NO_PRODUCER_EPOCH || follows(last, first_sequence) {
            Ok(())
        } else {
            Err(refused(&format_args!("the one after {last}")))
        }
    }

    fn refused(
        &self,
        rule: ProducerRule,
        offset: Offset,
        what: &'static str,
        expected: impl std::fmt::Display,
        found: impl std::fmt::Display,
    ) -> Error {
        Error::ProducerRefused(Box::new(ProducerFault {
            rule,
            producer_id: self.producer_id(),
            offset,
            path: None,
            what,
            expected: expected.to_string(),
            found: found.to_string(),
        }))
    }
}

/// Sequences go from `i32::MAX` to 0.
const fn follows(last: i32, next: i32) -> bool {
    match last.checked_add(1) {
        Some(expected) => next == expected,
        None => next == 0,
    }
}
