//! High watermark, log start, leader epochs, the last stable offset.

use super::WritableLog;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::io::storage::Storage;
use crate::types::{Offset, TimestampMs};

/// Start of the oldest transaction that is open, or whose end is not replicated yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct FirstUnstable {
    offset: Offset,
    /// The log start when it was looked up.
    log_start: Offset,
    /// Base offset of the batch: below the log start where that lies inside of it.
    batch: Offset,
}

impl<S: Storage> WritableLog<S> {
    /// The offset below which everything counts as replicated.
    #[must_use]
    pub const fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// The offset below which every transaction is decided.
    #[must_use]
    pub fn last_stable_offset(&self) -> Offset {
        let unstable = self.first_unstable.map_or(Offset::MAX, |open| open.batch);
        unstable.min(self.high_watermark)
    }

    /// The oldest transaction that is open: its producer, and its first offset.
    #[must_use]
    pub fn first_undecided(&self) -> Option<(i64, Offset)> {
        self.producers.first_undecided()
    }

    /// Sets the high watermark, held between log start and log end; returns what it became.
    ///
    /// # Errors
    /// `Refused` for a log that has failed.
    pub fn update_high_watermark(&mut self, offset: Offset) -> Result<Offset> {
        self.check_failed()?;
        self.set_high_watermark(offset.max(self.log_start_offset).min(self.log_end_offset));
        Ok(self.high_watermark)
    }

    /// As it is, unbounded.
    pub(super) fn set_high_watermark(&mut self, offset: Offset) {
        self.high_watermark = offset;
        self.producers.on_high_watermark_updated(offset);
        self.update_first_unstable_offset();
    }

    /// Keeps the high watermark from lying beyond the log end.
    pub(super) fn hold_high_watermark(&mut self) {
        if self.high_watermark >= self.log_end_offset {
            self.set_high_watermark(self.log_end_offset);
        }
    }

    pub(super) fn update_first_unstable_offset(&mut self) {
        let log_start = self.log_start_offset;
        let first = self.producers.first_unstable_offset();
        let is_known =
            |open: &FirstUnstable| Some(open.offset) == first && open.log_start == log_start;
        if self.first_unstable.as_ref().is_some_and(is_known) {
            return;
        }
        self.first_unstable = first.map(|offset| FirstUnstable {
            offset,
            log_start,
            batch: offset,
        });
        if first.is_some_and(|offset| offset < log_start) {
            self.look_up_first_unstable();
        }
    }

    /// Finds the batch where the oldest open transaction begins, or where the log does if that is later
    /// (`maybeIncrementFirstUnstableOffset`). Errors are left to the next reader.
    pub(super) fn look_up_first_unstable(&mut self) {
        let Some(open) = self.first_unstable else {
            return;
        };
        let offset = open.offset.max(open.log_start);
        let found = self.batch_at_or_after(offset).unwrap_or(Some(offset));
        let batch = found.unwrap_or(self.log_end_offset);
        self.first_unstable = Some(FirstUnstable { batch, ..open });
    }

    /// Moves the end of the log; the recovery point follows it down.
    pub(super) fn set_log_end(&mut self, offset: Offset) {
        self.log_end_offset = offset;
        self.lower_end = None;
        self.recovery_point = self.recovery_point.min(offset);
    }

    /// Moves the log start up (`DeleteRecords`); returns whether that changed anything. Segments below it stay until
    /// retention takes them.
    ///
    /// # Errors
    /// `OffsetOutOfRange` for an offset above the high watermark; `Refused` for a log that has failed; `Io` for the
    /// epochs' checkpoint.
    pub fn increment_log_start(&mut self, offset: Offset) -> Result<bool> {
        self.check_failed()?;
        if offset > self.high_watermark {
            return Err(Error::OffsetOutOfRange {
                path: self.folder().to_path_buf(),
                offset,
                log_start_offset: self.log_start_offset,
                log_end_offset: self.high_watermark,
            });
        }
        if offset <= self.log_start_offset {
            return Ok(false);
        }
        self.guarded(|log| {
            log.log_start_offset = offset;
            log.recovery_point = log.recovery_point.max(offset);
            if log.epochs.truncate_from_start(offset) {
                log.epochs.flush()?;
            }
            log.producers.on_log_start_offset_incremented(offset);
            log.update_first_unstable_offset();
            Ok(true)
        })
    }

    /// Notes the epochs that batches begin. Old formats have none, and what is known of them then would mislead the
    /// next election (KIP-101).
    pub(super) fn note_epochs(&mut self, headers: &[BatchHeader]) -> Result<()> {
        for header in headers {
            if !header.is_legacy() {
                // As `LogSegment.recover`: a batch without one begins none.
                if header.partition_leader_epoch < 0 {
                    continue;
                }
                let (epoch, offset) = (header.partition_leader_epoch, header.base_offset);
                self.epochs.assign(epoch, offset)?;
            } else if !self.epochs.entries().is_empty() {
                self.epochs.clear();
                self.epochs.flush()?;
            }
        }
        Ok(())
    }

    /// Forgets producers idle for too long, as a broker does every ten minutes.
    pub fn remove_expired_producers(&mut self, now_ms: TimestampMs) {
        self.producers.remove_expired_producers(now_ms);
    }
}
