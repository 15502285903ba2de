//! Appends batches that were encoded here: as many as fit into one write, with writes that end at page boundaries of
//! the file.

use super::WritableLog;
use super::append::{Append, AppendInfo};
use crate::error::{Error, Refusal, Result};
use crate::format::batch::BatchHeader;
use crate::io::storage::Storage;
use crate::producers::append::TV_UNKNOWN;
use crate::records::encoded::EncodedBatches;
use crate::types::{AppendOrigin, NO_TIMESTAMP, TimestampMs};

impl<S: Storage> WritableLog<S> {
    /// Appends batches that were encoded here by the topic's rules, which are not examined again: as many as one write
    /// takes, off the front. Each is a client's, which gets its offsets and the epoch, or keeps its offsets as a
    /// follower's; and all comes out as if each were appended by itself, so that a batch for which the log may have to
    /// be rolled waits for the next call, and so does what follows one that must be synced.
    ///
    /// Where others follow, the write ends at a multiple of [`WriteOptions::write_bytes`] in the file, and so maybe in
    /// a batch. That one is not appended by then: it stays the first one, begun, and the log is not to be used for
    /// anything else before it is appended, or it has to be written again.
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
        let rules = self.options.config.encode_rules(keeps)?;
        if *batches.rules() != rules {
            return Err(Error::InvalidArgument(format!(
                "batches encoded by other rules than the topic's: {}",
                rules.difference(batches.rules())
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

    /// Counts how many of these, if each were appended alone, would go into the active segment one after the other.
    fn takes(&mut self, headers: &[BatchHeader], now_ms: TimestampMs) -> Result<usize> {
        let params = self.roll_params(NO_TIMESTAMP, 0, 0, now_ms);
        let taken = self.segments.active.takes(headers, &params)?;
        let is_due = |header: &BatchHeader| self.is_flush_due(header.next_offset(), now_ms);
        let due = headers.iter().take(taken).position(is_due);
        Ok(due.map_or(taken, |due| due.saturating_add(1)))
    }
}
