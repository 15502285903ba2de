//! Retention over a loaded log (`UnifiedLog.deleteOldSegments`, `maybeIncrementLogStartOffset`).

use super::loaded::LoadedLog;
use super::plan::Plan;
use super::segments::PlannedSegment;
#[cfg(feature = "internal")]
use crate::error::Error;
use crate::error::Result;
use crate::format::checkpoint::{LEADER_EPOCH_CHECKPOINT, write_epochs};
use crate::format::file_name::{FileKind, FileState};
use crate::io::overlay::content::Content;
#[cfg(feature = "internal")]
use crate::io::storage::ReadFolder as _;
use crate::log::config::LogConfig;
use crate::log::retention::{RetainedLog, Rule, SegmentAge, expired};
use crate::segment::files::{SEGMENT_FILES, name_of, rename_segment};
use crate::types::{Offset, TimestampMs};

/// Opens a step over a loaded log, or returns if Kafka does not load it.
macro_rules! loaded {
    ($plan:ident, $nothing:expr) => {
        match &mut $plan.outcome {
            Ok(log) => log,
            Err(_) => return Ok($nothing),
        }
    };
}

impl Plan {
    /// Plans the deletion of the segments that retention deletes at this time, below the high watermark; returns them,
    /// oldest first. Where all go, an empty segment at the log end takes their place. Files are renamed to `.deleted`.
    ///
    /// # Errors
    /// `Io`; `CorruptRecord` and `CorruptIndex` where a segment's files cannot be read.
    pub fn delete_old_segments(
        &mut self,
        config: &LogConfig,
        high_watermark: Offset,
        now_ms: TimestampMs,
    ) -> Result<Vec<(SegmentAge, Rule)>> {
        let ages = self.ages(now_ms)?;
        let log = loaded!(self, Vec::new());
        let ends = RetainedLog {
            log_start_offset: log.log_start_offset,
            high_watermark: high_watermark.clamp(log.log_start_offset, log.log_end_offset),
            log_end_offset: log.log_end_offset,
        };
        let rules = expired(&ages, config, &ends, now_ms);
        if rules.is_empty() {
            return Ok(Vec::new());
        }
        let start = match ages.get(rules.len()) {
            Some(first) => first.base_offset,
            None => self.roll(config, now_ms)?,
        };
        self.move_log_start(start)?;
        let gone: Vec<_> = ages.into_iter().zip(rules).collect();
        for (segment, _) in &gone {
            self.delete_segment(segment.base_offset)?;
        }
        self.list_segments();
        Ok(gone)
    }

    /// Plans that the log begins at `offset` (`DeleteRecords`), and not before; segments stay until retention.
    ///
    /// # Errors
    /// `OffsetOutOfRange` above the high watermark; `Io`.
    #[cfg(feature = "internal")]
    pub fn increment_log_start(&mut self, offset: Offset, high_watermark: Offset) -> Result<()> {
        let log = loaded!(self, ());
        if offset > high_watermark {
            return Err(Error::OffsetOutOfRange {
                path: self.folder.path().to_path_buf(),
                offset,
                log_start_offset: log.log_start_offset,
                log_end_offset: high_watermark,
            });
        }
        self.move_log_start(offset)
    }

    fn move_log_start(&mut self, offset: Offset) -> Result<()> {
        let log = loaded!(self, ());
        if offset <= log.log_start_offset {
            return Ok(());
        }
        log.log_start_offset = offset;
        log.recovery_point = log.recovery_point.max(offset);
        if log.epochs.truncate_from_start(offset) {
            let text = write_epochs(log.epochs.entries());
            self.folder
                .write(LEADER_EPOCH_CHECKPOINT, Content::bytes(text))?;
        }
        log.producers.on_log_start_offset_incremented(offset);
        Ok(())
    }

    /// Ages of the segments, for retention.
    fn ages(&mut self, now_ms: TimestampMs) -> Result<Vec<SegmentAge>> {
        let folder = self.folder.clone();
        let age = |segment: &mut PlannedSegment| {
            let largest = segment.max_timestamp()?.timestamp;
            let modified = || folder.modified_ms(&segment.name(FileKind::Log));
            Ok(SegmentAge {
                base_offset: segment.base_offset(),
                size: segment.size(),
                largest_timestamp: if largest >= 0 {
                    largest
                } else {
                    modified().unwrap_or(now_ms)
                },
                is_from_mtime: largest < 0,
            })
        };
        self.segments.iter_mut().map(age).collect()
    }

    /// Ends the active segment and begins an empty one at the log end (`LocalLog.roll`); returns its base offset.
    fn roll(&mut self, config: &LogConfig, now_ms: TimestampMs) -> Result<Offset> {
        let log = loaded!(self, 0);
        let end = log.log_end_offset;
        if let Some(active) = self.segments.active_mut() {
            active.on_become_inactive()?;
        }
        let settings = config.segment_settings();
        let segment = PlannedSegment::open(&self.folder, end, settings, now_ms)?;
        self.segments.insert(segment);
        log.producers.update_map_end_offset(end);
        log.producers.take_snapshot(true)?;
        Ok(end)
    }

    /// Renames a segment's files and its producer snapshot to `.deleted`.
    fn delete_segment(&mut self, base_offset: Offset) -> Result<()> {
        if let Some(segment) = self.segments.remove(base_offset) {
            segment.close_handlers();
        }
        let deleted = |kind| name_of(base_offset, kind, FileState::Deleted);
        rename_segment(
            &self.folder,
            base_offset,
            FileState::Live,
            FileState::Deleted,
        )?;
        self.deleted.extend(SEGMENT_FILES.map(deleted));
        let log = loaded!(self, ());
        if log.producers.mark_snapshot_deleted(base_offset)? {
            self.deleted.push(deleted(FileKind::Snapshot));
        }
        Ok(())
    }

    /// Brings the outcome in line with the segments that are left.
    fn list_segments(&mut self) {
        let left = self.segments.listed();
        if let Ok(LoadedLog { segments, .. }) = &mut self.outcome {
            *segments = left;
        }
    }
}
