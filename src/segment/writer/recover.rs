//! Indexes rebuilt from the batches (`LogSegment.recover`, `LogSegment.appendFromFile`).
//!
//! # Full indexes
//! A smaller `index.interval.bytes` or `segment.index.bytes` than a segment was written with, or appends to a segment
//! that was reopened many times, make recovery create more entries than fit into an index. Kafka fails there ("Attempt
//! to append to a full index") and does not open the log. Here the batches after that get no entries, and the next
//! append goes to another segment, as the indexes are full.

use std::ops::Range;

use super::WritableSegment;
use crate::error::{Error, FaultKind, Refusal, Result};
use crate::format::batch::BatchHeader;
use crate::format::entry::{AbortedTxn, TimestampOffset};
use crate::format::file_name::FileKind;
use crate::io::storage::Storage;
use crate::segment::batches::Batches;
use crate::segment::source::Access;
use crate::segment::walk::KafkaPolicy;
use crate::types::{Offset, Position};

/// Result of the recovery of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Batches that stay.
    pub(crate) batches: u64,
    /// Bytes that are cut.
    pub(crate) truncated: u64,
    /// The reason.
    pub(crate) reason: Option<String>,
    /// The position of the first batch that got no index entries, as there was no room for them.
    pub(crate) full_from: Option<Position>,
}

/// Failure that ends the recovery of a segment, other than a batch to be cut.
#[derive(Debug)]
pub(crate) enum RecoveryFailure {
    /// `InvalidOffsetException`: offsets go back where an index entry is due.
    InvalidOffset(Error),
    /// `LogSegmentOffsetOverflowException`, in the segment of this base offset.
    Overflow(Offset, Error),
    /// Anything else.
    Fatal(Error),
}

impl From<Error> for RecoveryFailure {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

impl RecoveryFailure {
    pub(crate) fn into_error(self) -> Error {
        let (Self::InvalidOffset(error) | Self::Overflow(_, error) | Self::Fatal(error)) = self;
        error
    }
}

/// State of a recovery.
#[derive(Debug, Default)]
struct RecoveryProgress {
    valid_bytes: u64,
    batches: u64,
    full_from: Option<Position>,
}

impl<S: Storage> WritableSegment<S> {
    /// Rebuilds the indexes and cuts the `.log` after its last valid batch. `see` is shown every valid batch, for
    /// leader epochs and the producers' state, and returns the aborted transaction that the batch ends.
    ///
    /// # Errors
    /// `InvalidOffset` and `Overflow`, with the files as they are in Kafka then. `Fatal` for what Kafka does not catch,
    /// and `Io`.
    pub(crate) fn recover(
        &mut self,
        see: impl FnMut(&mut Batches<KafkaPolicy>, Position, &BatchHeader) -> Result<Option<AbortedTxn>>,
    ) -> Result<Recovered, RecoveryFailure> {
        self.offset_index.get()?.reset()?;
        self.time_index.get()?.reset()?;
        self.txn_index.reset()?;
        self.max_timestamp = None;
        self.entries.restart();
        let mut progress = RecoveryProgress::default();
        let outcome = self.recover_batches(&mut progress, see);
        self.entries.restart();
        self.txn_index.flush()?;
        let reason = match outcome {
            Ok(()) => None,
            // A marker of a type that ends no transaction, in a producer's batch: Kafka throws something else than a
            // record's exception, and does not load the log.
            Err(RecoveryFailure::Fatal(
                error @ (Error::CorruptRecord(_) | Error::InvalidRecord(_)),
            )) if error.fault_kind() != FaultKind::ControlType => Some(error.to_string()),
            Err(failure) => {
                self.flush_indexes()?;
                return Err(failure);
            }
        };
        let truncated = self.log.truncate(progress.valid_bytes)?;
        self.checked = progress.valid_bytes;
        self.offset_index.get()?.trim_to_valid_size()?;
        let max = self.max_timestamp()?;
        self.end_times(max)?;
        self.time_index.get()?.trim_to_valid_size()?;
        self.flush_indexes()?;
        let torn = || "a batch that is not whole".to_owned();
        Ok(Recovered {
            batches: progress.batches,
            truncated,
            reason: (truncated > 0).then(|| reason.unwrap_or_else(torn)),
            full_from: progress.full_from,
        })
    }

    fn recover_batches(
        &mut self,
        progress: &mut RecoveryProgress,
        mut see: impl FnMut(
            &mut Batches<KafkaPolicy>,
            Position,
            &BatchHeader,
        ) -> Result<Option<AbortedTxn>>,
    ) -> Result<(), RecoveryFailure> {
        let is_summed = self.checked >= self.size();
        let access = if is_summed {
            Access::Headers
        } else {
            Access::Records
        };
        let mut batches = self.walk(0, self.size(), access)?;
        if !is_summed {
            batches.sum_ahead();
        }
        while let Some((position, header)) = batches.next()? {
            if batches.position() > self.checked {
                batches.ensure_valid(position, &header)?;
            }
            self.ensure_in_range(position, header.last_offset())?;
            let entry = batches.entry_offset(position, &header, self.settings.entry)?;
            self.index_batch(position, &header, entry, progress)?;
            if let Some(aborted) = see(&mut batches, position, &header)? {
                self.txn_index.append(&aborted)?;
            }
        }
        Ok(())
    }

    fn ensure_in_range(&self, position: Position, offset: Offset) -> Result<(), RecoveryFailure> {
        if self.holds(offset) {
            return Ok(());
        }
        let base = self.base_offset;
        let expected = format!("{base} to {} above it", i32::MAX);
        let error = Error::corrupt_of(FaultKind::Order, "last offset", position, expected, offset);
        Err(RecoveryFailure::Overflow(base, error.at(self.path())))
    }

    /// Counts a batch that has been written, and makes its index entries if they are due and have room.
    fn index_batch(
        &mut self,
        position: Position,
        header: &BatchHeader,
        offset: Offset,
        progress: &mut RecoveryProgress,
    ) -> Result<(), RecoveryFailure> {
        if let Some(max) = self.count(header)? {
            if self.offset_index.get()?.is_full() || self.time_index.get()?.is_full() {
                progress.full_from.get_or_insert(position);
            } else {
                match self.add_entries(position, offset, max) {
                    Err(error) if error.refusal() == Some(Refusal::OffsetsOutOfOrder) => {
                        let error = self.out_of_order(offset, max)?;
                        return Err(RecoveryFailure::InvalidOffset(error));
                    }
                    added => added?,
                }
            }
        }
        progress.valid_bytes = position.saturating_add(header.size as u64);
        progress.batches = progress.batches.saturating_add(1);
        Ok(())
    }

    /// Says where an index would go back: the offset index, or else the time index.
    #[cold]
    fn out_of_order(&mut self, offset: Offset, max: TimestampOffset) -> Result<Error> {
        let offsets = self.offset_index.get()?;
        let last = offsets.last_offset();
        let (path, at, last, found) = if offset <= last && offsets.entries() > 0 {
            (offsets.path(), offsets.size_in_bytes(), last, offset)
        } else {
            let times = self.time_index.get()?;
            let last = times.last_entry().offset;
            (times.path(), times.size_in_bytes(), last, max.offset)
        };
        let expected = format!("above {last}, as offsets rise");
        let error = Error::corrupt_index("index entry offset", at as u64, expected, found);
        Ok(error.at(path))
    }

    /// Indexes the batches of `source` that fit, as an append does, and gives both indexes their final form
    /// (`LogSegment.appendFromFile`, `onBecomeInactiveSegment`). `put` makes the bytes in that range of the source the
    /// content of this segment's `.log`. Returns how many they are.
    ///
    /// # Errors
    /// As [`WritableSegment::recover`].
    pub(crate) fn fill(
        &mut self,
        source: &mut Batches<KafkaPolicy>,
        put: impl FnOnce(&str, Range<Position>) -> Result<()>,
    ) -> Result<u64, RecoveryFailure> {
        let start = source.position();
        let mut progress = RecoveryProgress::default();
        self.offset_index.get()?;
        self.time_index.get()?;
        while let Some((position, header)) = source.next()? {
            if !self.holds(header.last_offset()) {
                source.seek(position);
                break;
            }
            let entry = source.entry_offset(position, &header, self.settings.entry)?;
            let position = position.saturating_sub(start);
            self.index_batch(position, &header, entry, &mut progress)?;
        }
        let taken = progress.valid_bytes;
        put(
            &self.name(FileKind::Log),
            start..start.saturating_add(taken),
        )?;
        self.reopen_log()?;
        let max = self.max_timestamp()?;
        self.end_times(max)?;
        self.on_become_inactive()?;
        self.flush_indexes()?;
        Ok(taken)
    }

    /// Makes the entry that ends the time index.
    fn end_times(&mut self, max: TimestampOffset) -> Result<(), RecoveryFailure> {
        let times = self.time_index.get()?;
        match times.maybe_append(max.timestamp, max.offset, true) {
            Err(error) if error.refusal() == Some(Refusal::OffsetsOutOfOrder) => {
                let error = self.out_of_order(Offset::MAX, max)?;
                Err(RecoveryFailure::InvalidOffset(error))
            }
            added => Ok(added?),
        }
    }
}
