//! Appending, as a leader, which gives offsets, or as a follower, which keeps them (`UnifiedLog.append`).

use super::WritableLog;
use super::checks::{Checked, Rules, check, headers};
use crate::error::{Error, Refusal, Result};
use crate::format::batch::BatchHeader;
use crate::format::entry::AbortedTxn;
use crate::io::appender::Bytes;
use crate::log::producer_state::append::{CompletedTxn, TV_UNKNOWN};
use crate::records::control::EndTransaction;
use crate::records::encoded::EncodedBatches;
use crate::records::validate::Placement;
use crate::segment::writer::{RollParams, RollReasons};
use crate::types::{AppendOrigin, NO_TIMESTAMP, Offset, Position, TimestampMs};

/// What a leader says about an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderAppend {
    /// Its epoch, written into the batches.
    pub leader_epoch: i32,
    /// Who appends.
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

/// What became of an append (`LogAppendInfo`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendInfo {
    /// The first offset; -1 where only decompression would tell (a follower's magic 0 and 1), or nothing was appended.
    pub first_offset: Offset,
    /// The last offset.
    pub last_offset: Offset,
    /// The largest timestamp, -1 for none.
    pub max_timestamp: TimestampMs,
    /// Under LogAppendTime what the records' timestamps are now, of a repeated batch what its were; else -1.
    pub log_append_time: TimestampMs,
    /// Why a new segment was begun for it, if one was.
    pub rolled: Option<RollReasons>,
    /// The batch repeats one that is in the log; nothing was written.
    pub is_duplicate: bool,
    /// Base offset of the segment it went into.
    pub base_offset: Offset,
    /// Where it begins in that segment's `.log`.
    pub position: Position,
    /// Bytes written.
    pub size: u64,
    /// Batches that were to be appended.
    pub batches: u64,
    /// Records in them; messages of the old formats do not say how many they hold, and count as one.
    pub records: u64,
}

/// What is to be written, and what is known of it.
struct Append<'a> {
    /// The batches, and behind them what is written already of the one that follows.
    records: &'a [u8],
    /// Of the first batch, bytes that are in the file already.
    begun: usize,
    headers: &'a [BatchHeader],
    first_offset: Option<Offset>,
    last_offset: Offset,
    max_timestamp: TimestampMs,
    log_append_time: TimestampMs,
    origin: AppendOrigin,
    transaction_version: i16,
}

impl WritableLog {
    /// Appends as the leader: the batches in `records` get offsets from the log end on, the epoch, and the topic's
    /// timestamp type; they are encoded anew where the codec or the format asks for it. `records` is then what was
    /// written. From a client: one batch, its offsets from 0 on.
    ///
    /// # Errors
    /// Before anything is written: those of [`check`] and of
    /// [`LeaderValidator`](crate::records::validate::LeaderValidator), `ProducerRefused`, `Refused`. A leader epoch or a
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
        let validated = self.validator.validate(records, &rules, &placement)?;
        let headers = headers(records)?;
        if validated.is_reencoded
            && let Some(header) = headers.iter().find(|h| h.size > max_message_bytes)
        {
            return Err(Error::refused(
                Refusal::RecordTooLarge,
                format!(
                    "a batch of {} bytes, encoded anew, above {max_message_bytes}",
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

    /// Appends as a follower: whole batches, with the offsets and epochs they have. Batches from the first one of an epoch
    /// above `leader_epoch` on are left out.
    ///
    /// # Errors
    /// Before anything is written: those of [`check`], `Refused` for an append that begins below
    /// the log end or does not fit into a segment. `Io`, and then the log takes nothing more.
    pub fn append_as_follower(
        &mut self,
        records: &[u8],
        leader_epoch: i32,
        now_ms: TimestampMs,
    ) -> Result<AppendInfo> {
        self.check_failed()?;
        let rules = Rules {
            origin: AppendOrigin::Replication,
            max_batch_size: None,
            offsets_given: true,
            leader_epoch,
        };
        let checked = check(records, &rules)?;
        if checked.headers.is_empty() {
            return Ok(self.nothing(&checked));
        }
        let first = checked.first_or_last_of_first();
        if first < self.log_end_offset {
            return Err(self.below_log_end(first, checked.last_offset));
        }
        let append = Append {
            records: records.get(..checked.size).unwrap_or(records),
            begun: 0,
            first_offset: checked.first_offset,
            last_offset: checked.last_offset,
            max_timestamp: checked.max_timestamp,
            log_append_time: NO_TIMESTAMP,
            origin: AppendOrigin::Replication,
            transaction_version: TV_UNKNOWN,
            headers: &checked.headers,
        };
        self.append_guarded(&append, now_ms)
    }

    /// Appends batches that were encoded here by the topic's rules, which are not looked at again: as many as one write
    /// takes, off the front. Each is a client's, which gets its offsets and the epoch, or keeps its offsets as a
    /// follower's; and all comes out as if each were appended by itself, so that a batch for which the log may have to be
    /// rolled waits for the next call, and so does what follows one that is to be brought to the disk.
    ///
    /// Where others follow, the write ends at a multiple of [`WriteOptions::write_bytes`] in the file, and so maybe in a
    /// batch. That one is not appended by then: it stays the first one, begun, and the log is not to be used for anything
    /// else before it is appended, or it has to be written anew.
    ///
    /// [`WriteOptions::write_bytes`]: super::WriteOptions::write_bytes
    ///
    /// # Errors
    /// `InvalidArgument` for batches that were encoded by other rules; else as [`WritableLog::append_as_leader`] and
    /// [`WritableLog::append_as_follower`].
    pub fn append_encoded(
        &mut self,
        batches: &mut EncodedBatches<'_>,
        leader_epoch: i32,
        now_ms: TimestampMs,
    ) -> Result<AppendInfo> {
        self.check_failed()?;
        let keeps = batches.keeps_offsets();
        let rules = self.options.config.leader_rules()?;
        let rules = if keeps { rules.of_follower() } else { rules };
        if *batches.rules() != rules {
            return Err(Error::InvalidArgument(format!(
                "batches encoded by other rules than the topic's: expected {rules:?}, found {:?}",
                batches.rules()
            )));
        }
        batches.assign(self.log_end_offset, leader_epoch);
        let mut next = self.log_end_offset;
        let most = usize::try_from(self.options.config.max_message_bytes).unwrap_or_default();
        let is_taken = |header: &&BatchHeader| {
            let rises = header.base_offset >= next;
            next = header.next_offset();
            if keeps { rises } else { header.size <= most }
        };
        let taken = batches.headers().iter().take_while(is_taken).count();
        let taken = batches.headers().get(..taken).unwrap_or_default();
        let taken = self.guarded(|log| log.takes(taken, now_ms))?;
        let (whole, size) = self.one_write(batches, taken.max(1));
        let headers = batches.headers().get(..whole).unwrap_or_default();
        let records = batches.bytes().get(..size).unwrap_or_default();
        let (Some(first), Some(last)) = (headers.first(), headers.last()) else {
            return Err(Error::InvalidArgument("no batch to append".to_owned()));
        };
        let last_offset = last.last_offset();
        if keeps && first.base_offset < self.log_end_offset {
            return Err(self.below_log_end(first.base_offset, last_offset));
        }
        if !keeps && first.size > most {
            return Err(Error::refused(
                Refusal::RecordTooLarge,
                format!("a batch of {} bytes, above {most}", first.size),
            ));
        }
        let timestamps = headers.iter().map(|header| header.max_timestamp);
        let append = Append {
            records,
            begun: batches.begun(),
            headers,
            first_offset: Some(first.base_offset),
            last_offset,
            max_timestamp: timestamps.max().unwrap_or(NO_TIMESTAMP),
            log_append_time: batches.log_append_time(),
            origin: if keeps {
                AppendOrigin::Replication
            } else {
                AppendOrigin::Client
            },
            transaction_version: TV_UNKNOWN,
        };
        let info = self.append_guarded(&append, now_ms)?;
        let begun = records.len().saturating_sub(append.size());
        batches.advance(whole, begun);
        Ok(info)
    }

    /// New bytes up to where a write should end.
    #[must_use]
    pub fn left_to_write(&self) -> usize {
        let most = self.options.write_bytes;
        let in_last = self.segments.active.written() % most;
        usize::try_from(most.get().saturating_sub(in_last)).unwrap_or(usize::MAX)
    }

    /// Of the first so many batches, those that one write brings into the file, and its bytes.
    fn one_write(&self, batches: &EncodedBatches<'_>, taken: usize) -> (usize, usize) {
        let headers = batches.headers();
        let sizes = || headers.iter().take(taken).map(|header| header.size);
        let all = sizes().sum::<usize>();
        if batches.has_more() && taken >= headers.len() {
            let position = self.segments.active.size();
            let end = position.saturating_add(all as u64);
            let cut = end.saturating_sub(end % self.options.write_bytes);
            let cut = usize::try_from(cut.saturating_sub(position)).unwrap_or_default();
            let mut left = cut;
            let whole = sizes()
                .take_while(|&size| {
                    let fits = size <= left;
                    left = left.saturating_sub(size);
                    fits
                })
                .count();
            if whole > 0 {
                return (whole, cut);
            }
        }
        (taken, all)
    }

    /// How many of these, were each appended by itself, would go into the active segment one behind the other.
    fn takes(&mut self, headers: &[BatchHeader], now_ms: TimestampMs) -> Result<usize> {
        let params = self.roll_params(NO_TIMESTAMP, 0, 0, now_ms);
        let taken = self.segments.active.takes(headers, &params)?;
        let since = now_ms.saturating_sub(self.last_flush_ms);
        let is_due = |header: &BatchHeader| {
            let unflushed = header.next_offset().saturating_sub(self.recovery_point);
            self.options.sync.is_due(unflushed, since)
        };
        let due = headers.iter().take(taken).position(is_due);
        Ok(due.map_or(taken, |due| due.saturating_add(1)))
    }

    fn below_log_end(&self, first: Offset, last: Offset) -> Error {
        let end = self.log_end_offset;
        Error::refused(
            Refusal::UnexpectedAppendOffset,
            format!("an append of offsets {first} to {last} below the log end {end}"),
        )
    }

    fn nothing(&self, checked: &Checked) -> AppendInfo {
        AppendInfo {
            first_offset: checked.first_offset.unwrap_or(-1),
            last_offset: checked.last_offset,
            max_timestamp: checked.max_timestamp,
            log_append_time: NO_TIMESTAMP,
            rolled: None,
            is_duplicate: false,
            base_offset: self.segments.active.base_offset(),
            position: self.segments.active.size(),
            size: 0,
            batches: 0,
            records: 0,
        }
    }

    /// The append, what a broker does behind it, and what is left when the disk fails in between.
    fn append_guarded(&mut self, append: &Append<'_>, now_ms: TimestampMs) -> Result<AppendInfo> {
        let mut written = None;
        let end = self.log_end_offset;
        let outcome = self.guarded(|log| {
            let outcome = log.append_checked(append, &mut written, now_ms);
            if !matches!(outcome, Err(Error::Io { .. })) {
                log.flush_rolled(now_ms)?;
            }
            outcome
        });
        if self.failure.is_some()
            && let Some((base_offset, position)) = written
            && base_offset == self.segments.active.base_offset()
        {
            // It was not acknowledged, so recovery should not find it.
            self.segments.active.take_back(position);
            self.set_log_end(end);
        }
        outcome
    }

    /// `written` is where the bytes went, as soon as they may have.
    fn append_checked(
        &mut self,
        append: &Append<'_>,
        written: &mut Option<(Offset, Position)>,
        now_ms: TimestampMs,
    ) -> Result<AppendInfo> {
        for header in append.headers {
            if !header.is_legacy() {
                let (epoch, offset) = (header.partition_leader_epoch, header.base_offset);
                self.epochs.assign(epoch, offset)?;
            } else if !self.epochs.entries().is_empty() {
                // Old formats have no epochs; what is known of them would mislead the next election (KIP-101).
                self.epochs.clear();
                self.epochs.flush()?;
            }
        }
        let size = append.size() as u64;
        let max_segment_bytes = u64::try_from(self.options.config.segment_bytes).unwrap_or(0);
        if size > max_segment_bytes {
            return Err(Error::refused(
                Refusal::RecordBatchTooLarge,
                format!("an append of {size} bytes, above segment.bytes, {max_segment_bytes}"),
            ));
        }
        let rolled = self.maybe_roll(append, size, now_ms)?;
        let markers = append.markers()?;
        let batches = append.headers.iter().zip(markers);
        let version = append.transaction_version;
        let analysis = self.producers.analyze(batches, append.origin, version)?;
        let base_offset = self.segments.active.base_offset();
        let mut info = AppendInfo {
            first_offset: append.first_offset.unwrap_or(-1),
            last_offset: append.last_offset,
            max_timestamp: append.max_timestamp,
            log_append_time: append.log_append_time,
            rolled,
            is_duplicate: false,
            base_offset,
            position: self.segments.active.size(),
            size,
            batches: append.headers.len() as u64,
            records: append.headers.iter().map(count).sum(),
        };
        if let Some(duplicate) = analysis.duplicate {
            info.first_offset = duplicate.first_offset();
            info.last_offset = duplicate.last_offset;
            info.log_append_time = duplicate.timestamp;
            info.is_duplicate = true;
            info.size = 0;
            return Ok(info);
        }
        *written = Some((base_offset, info.position));
        let bytes = Bytes {
            all: append.records,
            begun: append.begun,
            whole: append.size(),
        };
        let active = &mut self.segments.active;
        active.append(append.last_offset, bytes, append.headers)?;
        self.set_log_end(append.last_offset.saturating_add(1));
        self.hold_high_watermark();
        self.producers.update_all(analysis.appends);
        for completed in &analysis.completed {
            self.note_completed(completed)?;
        }
        self.producers.update_map_end_offset(self.log_end_offset);
        self.update_first_unstable_offset();
        let unflushed = self.log_end_offset.saturating_sub(self.recovery_point);
        let since = now_ms.saturating_sub(self.last_flush_ms);
        if self.options.sync.is_due(unflushed, since) {
            self.flush_to(self.log_end_offset, false, now_ms)?;
        }
        Ok(info)
    }

    fn roll_params(
        &self,
        max_timestamp: TimestampMs,
        last_offset: Offset,
        size: u64,
        now_ms: TimestampMs,
    ) -> RollParams {
        let config = &self.options.config;
        RollParams {
            max_segment_ms: config.max_segment_ms(),
            max_segment_bytes: u64::try_from(config.segment_bytes).unwrap_or(0),
            max_timestamp,
            last_offset,
            size,
            now_ms,
        }
    }

    fn maybe_roll(
        &mut self,
        append: &Append<'_>,
        size: u64,
        now_ms: TimestampMs,
    ) -> Result<Option<RollReasons>> {
        let params = self.roll_params(append.max_timestamp, append.last_offset, size, now_ms);
        let reasons = self.segments.active.roll_reasons(&params)?;
        if !reasons.any() {
            return Ok(None);
        }
        // A lower bound where only decompression would tell the first offset.
        let first = append.first_offset;
        let first = first.unwrap_or(append.last_offset.wrapping_sub(i64::from(i32::MAX)));
        self.roll_to(first, now_ms)?;
        Ok(Some(reasons))
    }

    fn note_completed(&mut self, completed: &CompletedTxn) -> Result<()> {
        if completed.is_aborted {
            let aborted = AbortedTxn {
                version: AbortedTxn::CURRENT_VERSION,
                producer_id: completed.producer_id,
                first_offset: completed.first_offset,
                last_offset: completed.last_offset,
                last_stable_offset: self.producers.last_stable_offset(completed),
            };
            self.segments.active.append_aborted(&aborted)?;
        }
        self.producers.complete_txn(completed)
    }
}

fn count(header: &BatchHeader) -> u64 {
    u64::from(header.records_count.unwrap_or(1).unsigned_abs())
}

impl Append<'_> {
    /// Bytes of its batches.
    fn size(&self) -> usize {
        self.headers.iter().map(|header| header.size).sum()
    }

    /// Of each batch what its marker says, where it is a producer's control batch.
    fn markers(&self) -> Result<Vec<Option<EndTransaction>>> {
        let mut at = 0usize;
        let each = self.headers.iter().map(|header| {
            let begin = at;
            at = at.saturating_add(header.size);
            if !header.is_control() || !header.has_producer_id() {
                return Ok(None);
            }
            let batch = self.records.get(begin..at).unwrap_or_default();
            EndTransaction::of(batch, header).map_err(|error| error.shift(begin as u64))
        });
        each.collect()
    }
}
