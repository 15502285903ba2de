//! Appending as a leader, which assigns offsets, and other parts of `UnifiedLog` that only Kafka's traces and tests
//! call: compiled with the feature `internal` only.

use std::path::Path;

use super::append::{Append, AppendInfo};
use super::checks::{Rules, check, headers};
use super::{WritableLog, WriteOptions};
use crate::error::{Error, Refusal, Result};
use crate::io::storage::Storage;
use crate::load::{self, LoadRequest, OnLoss};
use crate::producers::append::TV_UNKNOWN;
use crate::records::leader::{LeaderValidator, Placement};
use crate::types::{AppendOrigin, NO_TIMESTAMP, Offset, TimestampMs};

/// Properties of an append by a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderAppend {
    /// Its epoch, written into the batches.
    pub leader_epoch: i32,
    /// Origin of the append.
    pub origin: AppendOrigin,
    /// Of a transaction's marker: the version of the protocol, -1 where it is not known (KIP-890).
    pub transaction_version: i16,
}

impl Default for LeaderAppend {
    /// A client's, in epoch 0.
    fn default() -> Self {
        Self {
            leader_epoch: 0,
            origin: AppendOrigin::Client,
            transaction_version: TV_UNKNOWN,
        }
    }
}

impl WritableLog {
    /// Loads the partition folder as a broker does at start-up, recovery and all if the stop was not clean, and opens
    /// it for writing; a missing folder is created. The high watermark is at the log start.
    ///
    /// # Errors
    /// `Io`, and whatever would keep a broker from loading the log; `InvalidArgument` for an index size that holds no
    /// entry.
    pub fn open(folder: &Path, options: WriteOptions, request: LoadRequest) -> Result<Self> {
        let plan = load::plan(folder, &options.config, request, OnLoss::AsKafka)?;
        Self::open_planned(folder, options, plan, request.now_ms)
    }
}

impl<S: Storage> WritableLog<S> {
    /// Appends as the leader: the batches in `records` get offsets from the log end on, the epoch, and the topic's
    /// timestamp type; they are encoded again where the codec or the format asks for it. `records` is then what was
    /// written. From a client: one batch, its offsets from 0 on.
    ///
    /// # Errors
    /// Before anything is written: those of [`check`] and of
    /// [`LeaderValidator`], `ProducerRefused`, `Refused`. A leader epoch or a
    /// new segment may have been noted by then, as in Kafka. `Io`, and then the log takes nothing more.
    pub fn append_as_leader(
        &mut self,
        records: &mut Vec<u8>,
        how: &LeaderAppend,
        now_ms: TimestampMs,
    ) -> Result<AppendInfo> {
        self.check_failed()?;
        let max_message_bytes = usize::try_from(self.options.config.max_message_bytes);
        let max_message_bytes = max_message_bytes.unwrap_or_default();
        let rules = Rules {
            origin: how.origin,
            max_batch_size: Some(max_message_bytes),
            offsets_given: false,
            leader_epoch: how.leader_epoch,
        };
        let checked = check(records, &rules)?;
        if checked.headers.is_empty() {
            return Ok(self.nothing(&checked));
        }
        records.truncate(checked.size);
        let placement = Placement {
            base_offset: self.log_end_offset,
            leader_epoch: how.leader_epoch,
            now_ms,
            origin: how.origin,
        };
        let rules = self.options.config.leader_rules()?;
        let validated = LeaderValidator::new().validate(records, &rules, &placement)?;
        let headers = headers(records)?;
        if validated.is_reencoded
            && let Some(header) = headers.iter().find(|h| h.size > max_message_bytes)
        {
            return Err(Error::refused(
                Refusal::RecordTooLarge,
                format!(
                    "a batch of {} bytes after re-encoding, above {max_message_bytes}",
                    header.size
                ),
            ));
        }
        let append = Append {
            records,
            begun: 0,
            headers: &headers,
            first_offset: Some(placement.base_offset),
            last_offset: validated.next_offset.saturating_sub(1),
            max_timestamp: validated.max_timestamp,
            log_append_time: validated.log_append_time.unwrap_or(NO_TIMESTAMP),
            origin: how.origin,
            transaction_version: how.transaction_version,
        };
        self.append_guarded(&append, now_ms)
    }

    /// Notes that a leader epoch begins at an offset.
    ///
    /// # Errors
    /// `InvalidArgument` for negative ones, `Io`, `Refused` for a log that has failed.
    pub fn assign_epoch(&mut self, epoch: i32, start_offset: Offset) -> Result<()> {
        self.guarded(|log| log.epochs.assign(epoch, start_offset).map(drop))
    }

    /// Writes a snapshot of the producers at the log end, unless they have not moved since the last one; returns
    /// whether it did.
    ///
    /// # Errors
    /// `Io`, `Refused` for a log that has failed.
    pub fn take_producer_snapshot(&mut self) -> Result<bool> {
        self.guarded(|log| log.producers.take_snapshot(true))
    }

    /// Returns whether an error of the disk has made the log refuse everything.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.failure.is_some()
    }
}
