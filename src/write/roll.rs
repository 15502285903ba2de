//! Rolling to the next segment, and flushing (`LocalLog.roll`, `LocalLog.flush`).

use super::{WritableLog, WriteOptions};
use crate::error::{Error, Refusal, Result};
use crate::format::file_name::FileName;
use crate::io::appender::SyncPolicy;
use crate::io::storage::Storage;
use crate::segment::files::{SEGMENT_FILES, sync_segment};
use crate::segment::writer::{SegmentSettings, WritableSegment};
use crate::types::{Offset, TimestampMs};

impl<S: Storage> WritableLog<S> {
    /// Ends the active segment and begins another one at the log end, or at `expected_next_offset` if that is further.
    /// An empty active segment is replaced. Returns the new base offset.
    ///
    /// # Errors
    /// `Refused` for a base below the active segment's, or of a segment that has something in it; `Io`.
    pub fn roll(
        &mut self,
        expected_next_offset: Option<Offset>,
        now_ms: TimestampMs,
    ) -> Result<Offset> {
        self.guarded(|log| log.roll_to(expected_next_offset.unwrap_or(0), now_ms))
    }

    /// Ends the old segment on the disk before it begins the new one. Kafka flushes in the background, after the new
    /// segment was begun (`UnifiedLog.roll`, KAFKA-15046). A power loss in between can leave the new segment's `.log`
    /// alone, after a segment that is torn and without the snapshot between them: then no broker loads the log. Or the
    /// old segment ends early, at the end of a batch, and the log has a gap.
    ///
    /// | step | a power loss after it leaves |
    /// |---|---|
    /// | the active segment ends: last time entry, lengths | the old segment, torn or not |
    /// | the snapshot of the new base offset, synced | the same |
    /// | the files of the old segment, then the folder, synced | the old segment, whole |
    /// | the new segment | the old one, whole, and what the device has of the new one |
    pub(super) fn roll_to(&mut self, expected: Offset, now_ms: TimestampMs) -> Result<Offset> {
        let base_offset = expected.max(self.log_end_offset);
        let active = &self.segments.active;
        let (active_base, active_size) = (active.base_offset(), active.size());
        let is_replaced = base_offset == active_base && active_size == 0;
        if !is_replaced && (self.segments.contains(base_offset) || base_offset < active_base) {
            return Err(Error::refused(
                Refusal::SegmentExists,
                format!(
                    "{}: a new segment at {base_offset} beside the active one at {active_base} with {active_size} bytes",
                    self.folder().display()
                ),
            ));
        }
        if is_replaced {
            // Kafka warns of it and says how full they are, so that they are there to be put aside.
            self.segments.active.offset_index()?;
            self.segments.active.time_index()?;
        } else {
            // Files of that name belong to no segment.
            for kind in SEGMENT_FILES {
                let name = FileName::new(base_offset, kind).to_string();
                self.storage.remove(&name)?;
            }
            self.segments.active.on_become_inactive()?;
        }
        self.set_log_end(self.log_end_offset);
        // The snapshot must have the segment's offset, so that the segment can be recovered from it alone; the base may
        // lie ahead of what the producers' state is of.
        self.producers.update_map_end_offset(base_offset);
        self.producers
            .take_snapshot(self.options.sync != SyncPolicy::Never)?;
        self.flush_before_roll(base_offset, now_ms)?;
        if is_replaced {
            self.replace_active(base_offset, now_ms)?;
        } else {
            let next = self.open_segment(base_offset, now_ms)?;
            let old = std::mem::replace(&mut self.segments.active, next);
            self.segments.closed.insert(active_base, old.known());
            old.close_handlers();
        }
        self.hold_high_watermark();
        Ok(base_offset)
    }

    /// Brings the segments below the base offset of the next one to the disk, all that was not known to be there, and
    /// their names. Where all batches are there already, the last time entry and the lengths are not: no later flush
    /// would look at them, so they go there under every policy.
    fn flush_before_roll(&mut self, base_offset: Offset, now_ms: TimestampMs) -> Result<()> {
        let is_flushed = base_offset <= self.recovery_point;
        if self.options.sync == SyncPolicy::Never && !is_flushed {
            return Ok(());
        }
        self.segments.active.close_indexes();
        for base in self.segments.bases(self.recovery_point, base_offset) {
            sync_segment(&self.storage, base)?;
        }
        self.storage.sync_names()?;
        if base_offset > self.recovery_point {
            self.recovery_point = base_offset;
            self.last_flush_ms = now_ms;
        }
        Ok(())
    }

    /// Puts a new, empty segment in the place of the active one, whose files wait to be removed.
    pub(super) fn replace_active(
        &mut self,
        base_offset: Offset,
        now_ms: TimestampMs,
    ) -> Result<()> {
        let old_base = self.segments.active.base_offset();
        if base_offset == old_base {
            // The new files take the names of the old.
            self.rename_to_deleted(old_base, now_ms)?;
            self.segments.active = self.open_segment(base_offset, now_ms)?;
        } else {
            self.segments.active = self.open_segment(base_offset, now_ms)?;
            self.rename_to_deleted(old_base, now_ms)?;
        }
        Ok(())
    }

    pub(super) fn open_segment(
        &mut self,
        base_offset: Offset,
        now_ms: TimestampMs,
    ) -> Result<WritableSegment<S>> {
        let settings = next_settings(&mut self.options);
        WritableSegment::open(&self.storage, base_offset, settings, now_ms)
    }

    /// Brings everything up to the log end to the disk and moves the recovery point there. The active segment is left
    /// out if it is empty, unless `force_active`.
    ///
    /// # Errors
    /// `Io`, and then the recovery point stays; `Refused` for a log that has failed.
    pub fn flush(&mut self, force_active: bool, now_ms: TimestampMs) -> Result<()> {
        self.guarded(|log| log.flush_to(log.log_end_offset, force_active, now_ms))
    }

    pub(super) fn flush_to(
        &mut self,
        offset: Offset,
        inclusive: bool,
        now_ms: TimestampMs,
    ) -> Result<()> {
        let to = if inclusive {
            offset.saturating_add(1)
        } else {
            offset
        };
        let from = self.recovery_point;
        if to <= from {
            return Ok(());
        }
        let bases = self.segments.bases(from, to);
        for &base in &bases {
            if base == self.segments.active.base_offset() {
                self.segments.active.flush()?;
            } else {
                sync_segment(&self.storage, base)?;
            }
        }
        // New segments are not there after a crash unless their folder says so.
        if bases.iter().any(|&base| base >= from) {
            self.storage.sync_names()?;
        }
        if offset > self.recovery_point {
            self.recovery_point = offset;
            self.last_flush_ms = now_ms;
        }
        Ok(())
    }

    /// Returns whether the sync policy asks for it by now, if the log ends there.
    pub(super) fn is_flush_due(&self, end: Offset, now_ms: TimestampMs) -> bool {
        let unflushed = end.saturating_sub(self.recovery_point);
        let since = now_ms.saturating_sub(self.last_flush_ms);
        self.options.sync.is_due(unflushed, since)
    }

    pub(super) fn flush_if_due(&mut self, now_ms: TimestampMs) -> Result<()> {
        let end = self.log_end_offset;
        if self.is_flush_due(end, now_ms) {
            self.flush_to(end, false, now_ms)?;
        }
        Ok(())
    }
}

/// Settings of the next segment, with a jitter of its own.
pub(super) fn next_settings(options: &mut WriteOptions) -> SegmentSettings {
    // SplitMix64.
    options.seed = options.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut drawn = options.seed;
    drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    drawn ^= drawn >> 31;
    let config = &options.config;
    SegmentSettings {
        roll_jitter_ms: config.segment_jitter(drawn),
        ..config.segment_settings()
    }
}
