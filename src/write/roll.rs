//! The next segment, and bringing things to the disk (`LocalLog.roll`, `LocalLog.flush`).

use super::{WritableLog, WriteOptions};
use crate::error::{Error, Refusal, Result};
use crate::format::file_name::FileName;
use crate::io::appender::SyncPolicy;
use crate::segment::files::{SEGMENT_FILES, sync_segment};
use crate::segment::writer::{SegmentSettings, WritableSegment};
use crate::types::{Offset, TimestampMs};

impl WritableLog {
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
        self.guarded(|log| {
            let base_offset = log.roll_to(expected_next_offset.unwrap_or(0), now_ms)?;
            log.flush_rolled(now_ms)?;
            Ok(base_offset)
        })
    }

    pub(super) fn roll_to(&mut self, expected: Offset, now_ms: TimestampMs) -> Result<Offset> {
        let base_offset = expected.max(self.log_end_offset);
        let active = &self.segments.active;
        let (active_base, active_size) = (active.base_offset(), active.size());
        if base_offset == active_base && active_size == 0 {
            // Kafka warns of it and says how full they are, so that they are there to be put aside.
            self.segments.active.offset_index()?;
            self.segments.active.time_index()?;
            self.replace_active(base_offset, now_ms)?;
        } else if self.segments.contains(base_offset) || base_offset < active_base {
            return Err(Error::refused(
                Refusal::SegmentExists,
                format!(
                    "{}: a new segment at {base_offset} beside the active one at {active_base} with {active_size} bytes",
                    self.folder.display()
                ),
            ));
        } else {
            // Files of that name belong to nobody.
            for kind in SEGMENT_FILES {
                let name = FileName::new(base_offset, kind).to_string();
                self.options.disk.remove(&self.folder.join(name))?;
            }
            self.segments.active.on_become_inactive()?;
            let next = self.open_segment(base_offset, now_ms)?;
            let old = std::mem::replace(&mut self.segments.active, next);
            self.segments.closed.insert(active_base, old.known());
            old.close_handlers();
        }
        self.set_log_end(self.log_end_offset);
        // The snapshot must have the segment's offset, so that the segment can be recovered from it alone; the base may
        // lie ahead of what the producers' state is of.
        self.producers.update_map_end_offset(base_offset);
        self.producers
            .take_snapshot(self.options.sync != SyncPolicy::Never)?;
        self.hold_high_watermark();
        self.flush_after_roll = Some((active_base, base_offset));
        Ok(base_offset)
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
    ) -> Result<WritableSegment> {
        let settings = next_settings(&mut self.options);
        WritableSegment::open(&self.storage(), base_offset, settings, now_ms)
    }

    /// Brings everything up to the log end to the disk and moves the recovery point there. The active segment is left out
    /// if it is empty, unless `force_active`.
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
                sync_segment(&self.storage(), base)?;
            }
        }
        // New segments are not there after a crash unless their folder says so.
        if bases.iter().any(|&base| base >= from) {
            self.options.disk.sync_folder(&self.folder)?;
        }
        if offset > self.recovery_point {
            self.recovery_point = offset;
            self.last_flush_ms = now_ms;
        }
        Ok(())
    }

    /// Whether the sync policy asks for it by now, if the log ends there.
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

    /// What a broker does in the background after a roll.
    pub(super) fn flush_rolled(&mut self, now_ms: TimestampMs) -> Result<()> {
        let Some((ended, offset)) = self.flush_after_roll.take() else {
            return Ok(());
        };
        if offset <= self.recovery_point {
            // Nothing will look at it again. Its batches were brought to the disk before it ended, so not its last time
            // entry, nor how long its files are.
            return sync_segment(&self.storage(), ended);
        }
        match self.options.sync {
            SyncPolicy::Never => Ok(()),
            _ => self.flush_to(offset, false, now_ms),
        }
    }
}

/// What the next segment needs of its topic's settings, with a jitter of its own.
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
