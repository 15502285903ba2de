//! The segments that a pass writes.

use std::mem;

use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::entry::AbortedTxn;
use crate::io::storage::Storage;
use crate::segment::writer::WritableSegment;
use crate::segment::writer::roll::base_of;
use crate::types::{NO_PARTITION_LEADER_EPOCH, Offset, TimestampMs};
use crate::write::WritableLog;

/// Bytes of batches written at once.
const WRITE_AT: usize = 1 << 20;

/// New segments, in order, and batches on their way into the last one.
pub(super) struct CleanedSegments<S: Storage> {
    done: Vec<WritableSegment<S>>,
    current: WritableSegment<S>,
    pub(super) bytes: Vec<u8>,
    pub(super) headers: Vec<BatchHeader>,
    /// The last offset of the batch that was examined last.
    pub(super) passed: Offset,
    /// The highest leader epoch that the current segment was offered.
    epoch: i32,
}

impl<S: Storage> CleanedSegments<S> {
    pub(super) fn new(first: WritableSegment<S>) -> Self {
        Self {
            done: Vec::new(),
            current: first,
            bytes: Vec::new(),
            headers: Vec::new(),
            passed: Offset::MIN,
            epoch: NO_PARTITION_LEADER_EPOCH,
        }
    }

    /// Notes an aborted transaction whose marker stays.
    pub(super) fn append_aborted(&mut self, aborted: &AbortedTxn) -> Result<()> {
        self.current.append_aborted(aborted)
    }

    /// The segments so far, in order.
    pub(super) fn segments_mut(&mut self) -> impl Iterator<Item = &mut WritableSegment<S>> {
        self.done.iter_mut().chain([&mut self.current])
    }

    /// The segments, in order.
    pub(super) fn into_segments(mut self) -> Vec<WritableSegment<S>> {
        self.done.push(self.current);
        self.done
    }

    /// Sees to it that what stays of this batch has room. A segment that reaches too far or is full ends, and another
    /// one begins (earlier brokers failed there).
    pub(super) fn make_room(
        &mut self,
        log: &WritableLog<S>,
        header: &BatchHeader,
        now_ms: TimestampMs,
    ) -> Result<()> {
        if self.bytes.len() >= WRITE_AT {
            self.flush()?;
        }
        // One entry more may become due with each batch, and the last one has a place of its own.
        let waiting = self.headers.len().saturating_add(2);
        let room = self.current.offset_index()?.room();
        let room = room.min(self.current.time_index()?.room());
        if room < waiting {
            self.flush()?;
        }
        let size = self.current.size().saturating_add(self.bytes.len() as u64);
        // Messages of magic 0 and 1 may take more bytes as magic 2.
        let most = size.saturating_add((header.size as u64).saturating_mul(4));
        let span = header
            .last_offset()
            .saturating_sub(self.current.base_offset());
        let is_full =
            self.current.offset_index()?.is_full() || self.current.time_index()?.is_full();
        let is_empty = size == 0;
        let reaches = i32::try_from(span).is_ok() && i32::try_from(most).is_ok();
        // In one segment, a leader epoch below another one is damage.
        let epoch = header.partition_leader_epoch;
        let falls = (0..self.epoch).contains(&epoch);
        self.epoch = self.epoch.max(epoch);
        if is_empty || (reaches && !is_full && !falls) {
            return Ok(());
        }
        self.epoch = epoch;
        self.flush()?;
        let base_offset = base_of(header, self.passed.saturating_add(1));
        let next = log.create_cleaned(base_offset, now_ms)?;
        self.done.push(mem::replace(&mut self.current, next));
        Ok(())
    }

    /// Writes the batches that wait.
    pub(super) fn flush(&mut self) -> Result<()> {
        if let Some(last) = self.headers.last() {
            let last_offset = last.last_offset();
            self.current
                .append(last_offset, self.bytes.as_slice().into(), &self.headers)?;
        }
        self.bytes.clear();
        self.headers.clear();
        Ok(())
    }
}
