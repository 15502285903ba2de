//! Appending as a follower, which keeps the offsets it is given, and what every append does (`UnifiedLog.append`).

use super::WritableLog;
use super::checks::{CheckedBatches, Rules, check};
use crate::error::{Error, Refusal, Result};
use crate::format::batch::BatchHeader;
use crate::io::appender::AppendedBytes;
use crate::io::storage::Storage;
use crate::producers::Analysis;
use crate::producers::append::{CompletedTxn, TV_UNKNOWN};
use crate::producers::entry::BatchMetadata;
use crate::records::control::EndTransaction;
use crate::segment::writer::roll::{RollParams, RollReasons};
use crate::types::{AppendOrigin, NO_TIMESTAMP, Offset, Position, TimestampMs};

/// Result of an append (`LogAppendInfo`).
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
    /// Reasons for which a new segment was begun, if one was.
    pub rolled: Option<RollReasons>,
    /// The batch repeats one that is in the log; nothing was written.
    pub is_duplicate: bool,
    /// Base offset of the segment it went into.
    pub base_offset: Offset,
    /// Position in that segment's `.log`.
    pub position: Position,
    /// Bytes written.
    pub size: u64,
    /// Batches that were to be appended.
    pub batches: u64,
    /// Records in them; messages of the old formats do not say how many they hold, and count as one.
    pub records: u64,
}

impl AppendInfo {
    /// Nothing was written, as the batch that it repeats is there.
    const fn of_duplicate(mut self, repeated: &BatchMetadata) -> Self {
        self.first_offset = repeated.first_offset();
        self.last_offset = repeated.last_offset;
        self.log_append_time = repeated.timestamp;
        self.is_duplicate = true;
        self.size = 0;
        self
    }
}

/// Bytes to be written, and facts about them.
pub(super) struct Append<'a> {
    /// The batches, and after them what is written already of the one that follows.
    pub(super) records: &'a [u8],
    /// Of the first batch, bytes that are in the file already.
    pub(super) begun: usize,
    pub(super) headers: &'a [BatchHeader],
    pub(super) first_offset: Option<Offset>,
    pub(super) last_offset: Offset,
    pub(super) max_timestamp: TimestampMs,
    pub(super) log_append_time: TimestampMs,
    pub(super) origin: AppendOrigin,
    pub(super) transaction_version: i16,
}

impl<S: Storage> WritableLog<S> {
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

    pub(super) fn below_log_end(&self, first: Offset, last: Offset) -> Error {
        let end = self.log_end_offset;
        Error::refused(
            Refusal::UnexpectedAppendOffset,
            format!("an append of offsets {first} to {last} below the log end {end}"),
        )
    }

    pub(super) fn nothing(&self, checked: &CheckedBatches) -> AppendInfo {
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

    /// The append, and what is left when the disk fails in between.
    pub(super) fn append_guarded(
        &mut self,
        append: &Append<'_>,
        now_ms: TimestampMs,
    ) -> Result<AppendInfo> {
        let mut written = None;
        let end = self.log_end_offset;
        let outcome = self.guarded(|log| log.append_checked(append, &mut written, now_ms));
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
        self.note_epochs(append.headers)?;
        self.ensure_fits(append)?;
        let rolled = self.maybe_roll(append, now_ms)?;
        let batches = append.headers.iter().zip(append.markers()?);
        let version = append.transaction_version;
        let analysis = self.producers.analyze(batches, append.origin, version)?;
        let info = self.info(append, rolled);
        if let Some(repeated) = &analysis.duplicate {
            return Ok(info.of_duplicate(repeated));
        }
        *written = Some((info.base_offset, info.position));
        let bytes = AppendedBytes {
            all: append.records,
            begun: append.begun,
            whole: append.size(),
        };
        let active = &mut self.segments.active;
        active.append(append.last_offset, bytes, append.headers)?;
        self.move_end(append.last_offset.saturating_add(1), analysis)?;
        self.flush_if_due(now_ms)?;
        Ok(info)
    }

    /// An append may not be larger than a segment, be the segment empty.
    fn ensure_fits(&self, append: &Append<'_>) -> Result<()> {
        let (size, most) = (append.size() as u64, self.max_segment_bytes());
        if size <= most {
            return Ok(());
        }
        Err(Error::refused(
            Refusal::RecordBatchTooLarge,
            format!("an append of {size} bytes, above segment.bytes, {most}"),
        ))
    }

    /// Describes an append to the end of the active segment.
    fn info(&self, append: &Append<'_>, rolled: Option<RollReasons>) -> AppendInfo {
        AppendInfo {
            first_offset: append.first_offset.unwrap_or(-1),
            last_offset: append.last_offset,
            max_timestamp: append.max_timestamp,
            log_append_time: append.log_append_time,
            rolled,
            is_duplicate: false,
            base_offset: self.segments.active.base_offset(),
            position: self.segments.active.size(),
            size: append.size() as u64,
            batches: append.headers.len() as u64,
            records: append.headers.iter().map(count).sum(),
        }
    }

    /// The batches up to `end` are in the file: offsets and producers follow.
    fn move_end(&mut self, end: Offset, analysis: Analysis) -> Result<()> {
        self.set_log_end(end);
        self.hold_high_watermark();
        self.producers.update_all(analysis.appends);
        for completed in &analysis.completed {
            self.note_completed(completed)?;
        }
        self.producers.update_map_end_offset(end);
        self.update_first_unstable_offset();
        Ok(())
    }

    fn max_segment_bytes(&self) -> u64 {
        u64::try_from(self.options.config.segment_bytes).unwrap_or(0)
    }

    pub(super) fn roll_params(
        &self,
        max_timestamp: TimestampMs,
        last_offset: Offset,
        size: u64,
        now_ms: TimestampMs,
    ) -> RollParams {
        let config = &self.options.config;
        RollParams {
            max_segment_ms: config.max_segment_ms(),
            max_segment_bytes: self.max_segment_bytes(),
            max_timestamp,
            last_offset,
            size,
            now_ms,
        }
    }

    fn maybe_roll(
        &mut self,
        append: &Append<'_>,
        now_ms: TimestampMs,
    ) -> Result<Option<RollReasons>> {
        let size = append.size() as u64;
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
            let aborted = completed.entry(self.producers.last_stable_offset(completed));
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
    pub(super) fn size(&self) -> usize {
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
