//! State of one producer (`ProducerStateEntry`, `BatchMetadata`).

use std::collections::VecDeque;

use crate::format::batch::BatchHeader;
use crate::format::entry::{ProducerState, sequence_before};
use crate::types::{NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, Offset, TimestampMs};

/// Batches kept per producer, to know a repeated one by (`NUM_BATCHES_TO_RETAIN`; a producer has so many in flight).
pub(crate) const BATCHES_TO_RETAIN: usize = 5;

/// One of a producer's last batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchMetadata {
    /// Sequence of its last record.
    pub last_sequence: i32,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Offset of its last record less that of its first.
    pub offset_delta: i32,
    /// Its largest timestamp.
    pub timestamp: TimestampMs,
}

impl BatchMetadata {
    /// Sequence of its first record.
    #[must_use]
    pub const fn first_sequence(&self) -> i32 {
        sequence_before(self.last_sequence, self.offset_delta)
    }

    /// Offset of its first record.
    #[must_use]
    pub const fn first_offset(&self) -> Offset {
        self.last_offset.wrapping_sub(self.offset_delta as i64)
    }
}

/// The state of one producer id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerEntry {
    pub(super) producer_id: i64,
    pub(super) batches: VecDeque<BatchMetadata>,
    pub(super) producer_epoch: i16,
    pub(super) coordinator_epoch: i32,
    pub(super) last_timestamp: TimestampMs,
    pub(super) current_txn_first_offset: Option<Offset>,
}

impl ProducerEntry {
    /// A producer nothing is known of.
    #[must_use]
    pub const fn unknown(producer_id: i64) -> Self {
        Self {
            producer_id,
            batches: VecDeque::new(),
            producer_epoch: NO_PRODUCER_EPOCH,
            coordinator_epoch: -1,
            last_timestamp: NO_TIMESTAMP,
            current_txn_first_offset: None,
        }
    }

    /// The producer.
    #[must_use]
    pub const fn producer_id(&self) -> i64 {
        self.producer_id
    }

    /// Its epoch, -1 unknown.
    #[must_use]
    pub const fn producer_epoch(&self) -> i16 {
        self.producer_epoch
    }

    /// Epoch of the coordinator that wrote its last marker, -1 unknown.
    #[must_use]
    pub const fn coordinator_epoch(&self) -> i32 {
        self.coordinator_epoch
    }

    /// Timestamp of its last batch or marker.
    #[must_use]
    pub const fn last_timestamp(&self) -> TimestampMs {
        self.last_timestamp
    }

    /// First offset of its open transaction.
    #[must_use]
    pub const fn current_txn_first_offset(&self) -> Option<Offset> {
        self.current_txn_first_offset
    }

    /// Its last batches, at most [`BATCHES_TO_RETAIN`], oldest first.
    #[cfg(test)]
    pub(super) fn batches(&self) -> impl ExactSizeIterator<Item = &BatchMetadata> {
        self.batches.iter()
    }

    /// Sequence of its oldest kept record, -1 for none.
    #[cfg(test)]
    pub(super) fn first_sequence(&self) -> i32 {
        self.batches
            .front()
            .map_or(NO_SEQUENCE, BatchMetadata::first_sequence)
    }

    /// Sequence of its last record, -1 for none.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        self.batches
            .back()
            .map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }

    /// Offset of its last record, -1 for none.
    #[must_use]
    pub fn last_data_offset(&self) -> Offset {
        self.batches.back().map_or(-1, |batch| batch.last_offset)
    }

    /// The kept batch that `header`'s batch repeats: same epoch, same first and last sequence.
    #[must_use]
    pub fn find_duplicate(&self, header: &BatchHeader) -> Option<BatchMetadata> {
        if header.producer_epoch != self.producer_epoch {
            return None;
        }
        let range = (header.base_sequence, header.last_sequence());
        self.batches
            .iter()
            .find(|batch| (batch.first_sequence(), batch.last_sequence) == range)
            .copied()
    }

    /// Notes a batch; those of another epoch are forgotten.
    pub(super) fn add_batch(&mut self, producer_epoch: i16, batch: BatchMetadata) {
        self.set_epoch(producer_epoch);
        self.push(batch);
        self.last_timestamp = batch.timestamp;
    }

    /// Takes over what `next` noted since.
    pub(super) fn update(&mut self, next: Self) {
        self.set_epoch(next.producer_epoch);
        for batch in next.batches {
            self.push(batch);
        }
        self.coordinator_epoch = next.coordinator_epoch;
        self.current_txn_first_offset = next.current_txn_first_offset;
        self.last_timestamp = next.last_timestamp;
    }

    /// Notes a marker: no transaction is open from here on.
    pub(super) fn end_transaction(
        &mut self,
        producer_epoch: i16,
        coordinator_epoch: i32,
        timestamp: TimestampMs,
    ) {
        self.set_epoch(producer_epoch);
        self.coordinator_epoch = coordinator_epoch;
        self.current_txn_first_offset = None;
        self.last_timestamp = timestamp;
    }

    fn set_epoch(&mut self, producer_epoch: i16) {
        if self.producer_epoch != producer_epoch {
            self.batches.clear();
            self.producer_epoch = producer_epoch;
        }
    }

    fn push(&mut self, batch: BatchMetadata) {
        if self.batches.len() == BATCHES_TO_RETAIN {
            self.batches.pop_front();
        }
        self.batches.push_back(batch);
    }
}

impl From<ProducerState> for ProducerEntry {
    fn from(state: ProducerState) -> Self {
        let mut entry = Self {
            producer_epoch: state.producer_epoch,
            coordinator_epoch: state.coordinator_epoch,
            last_timestamp: state.timestamp,
            current_txn_first_offset: Some(state.current_txn_first_offset)
                .filter(|&offset| offset >= 0),
            ..Self::unknown(state.producer_id)
        };
        if state.last_offset >= 0 {
            entry.push(BatchMetadata {
                last_sequence: state.last_sequence,
                last_offset: state.last_offset,
                offset_delta: state.offset_delta,
                timestamp: state.timestamp,
            });
        }
        entry
    }
}

impl From<&ProducerEntry> for ProducerState {
    /// Of the batches, a snapshot keeps the last.
    fn from(entry: &ProducerEntry) -> Self {
        Self {
            producer_id: entry.producer_id,
            producer_epoch: entry.producer_epoch,
            last_sequence: entry.last_sequence(),
            last_offset: entry.last_data_offset(),
            offset_delta: entry.batches.back().map_or(0, |batch| batch.offset_delta),
            timestamp: entry.last_timestamp,
            coordinator_epoch: entry.coordinator_epoch,
            current_txn_first_offset: entry.current_txn_first_offset.unwrap_or(-1),
        }
    }
}
