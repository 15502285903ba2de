//! A log opened for writing, out of what loading found (`UnifiedLog`'s constructor).

use std::collections::BTreeMap;
use std::path::Path;

use super::roll::settings;
use super::segments::Segments;
use super::{LoadedLog, WritableLog, WriteOptions};
use crate::error::{Error, Result};
use crate::format::file_name::{FileKind, FileName};
use crate::records::validate::LeaderValidator;
use crate::segment::writer::WritableSegment;
use crate::types::TimestampMs;

impl WritableLog {
    /// Opens the last of the segments for appending; where there is none, one is made at the log start. The high
    /// watermark is at the log start.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` for an index size that holds no entry.
    pub fn from_loaded(
        folder: &Path,
        options: WriteOptions,
        loaded: LoadedLog,
        now_ms: TimestampMs,
    ) -> Result<Self> {
        let mut bases = loaded.segments;
        let active_base = bases.pop().unwrap_or(loaded.log_start_offset);
        let mut closed = BTreeMap::new();
        for base in bases {
            let path = folder.join(FileName::new(base, FileKind::Log).to_string());
            let size = path.metadata().map_err(Error::io(&path))?.len();
            closed.insert(base, size);
        }
        let settings = settings(&options.config, options.seed);
        let max_index_size = settings.max_index_size;
        let mut active =
            WritableSegment::open(&options.disk, folder, active_base, settings, now_ms)?;
        active.resize_indexes(max_index_size)?;
        let segments = Segments { closed, active };
        let start = loaded.log_start_offset.max(segments.first_base_offset());
        let mut log = Self {
            folder: folder.to_path_buf(),
            segments,
            log_start_offset: start,
            log_end_offset: loaded.log_end_offset,
            recovery_point: loaded.recovery_point.max(start),
            high_watermark: start,
            first_unstable_offset: None,
            last_flush_ms: now_ms,
            epochs: loaded.epochs,
            producers: loaded.producers,
            validator: LeaderValidator::new(),
            deleted: Vec::new(),
            flush_after_roll: None,
            failure: None,
            options,
        };
        log.update_first_unstable_offset();
        Ok(log)
    }
}
