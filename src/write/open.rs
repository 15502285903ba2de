//! A log opened for writing (`UnifiedLog.create`): loaded as a broker does at start-up, then the last segment opened.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::roll::next_settings;
use super::segments::WritableSegments;
use super::{WritableLog, WriteOptions};
use crate::error::Result;
use crate::io::folder::DiskFolder;
use crate::io::overlay::Overlay;
use crate::io::storage::Storage;
use crate::load::{LoadedLog, LoadedSegment, Plan};
use crate::log::epochs::LeaderEpochs;
use crate::producers::snapshots::Snapshots;
use crate::segment::writer::{SegmentSummary, WritableSegment};
use crate::types::TimestampMs;

impl WritableLog {
    /// Carries out what loading the folder would do, and opens it for writing; a missing folder is created. The high
    /// watermark is at the log start.
    ///
    /// # Errors
    /// `Io`, and whatever would keep a broker from loading the log; `InvalidArgument` for an index size that holds no
    /// entry.
    pub fn open_planned(
        folder: &Path,
        options: WriteOptions,
        mut plan: Plan,
        now_ms: TimestampMs,
    ) -> Result<Self> {
        options.disk.create_folders(folder)?;
        plan.hand_over()?;
        // What a broker would have done before it refused to load is done too.
        plan.apply(&options.disk)?;
        let deleted = plan.deleted().to_vec();
        let storage = DiskFolder::new(folder, &options.disk);
        let epochs = LeaderEpochs::load(folder, options.disk.clone())?;
        let loaded = LoadedLog {
            epochs,
            ..plan.outcome?
        };
        let mut log = Self::from_loaded(storage, options, loaded, now_ms)?;
        for name in deleted {
            log.delete_later(&name, now_ms);
        }
        Ok(log)
    }

    /// Opens for writing what a plan left in the folder that it was written to; the high watermark is at the log start.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` for an index size that holds no entry.
    pub(crate) fn open_written(
        folder: &Path,
        options: WriteOptions,
        mut loaded: LoadedLog,
        now_ms: TimestampMs,
    ) -> Result<Self> {
        loaded.epochs = LeaderEpochs::load(folder, options.disk.clone())?;
        let storage = DiskFolder::new(folder, &options.disk);
        Self::from_loaded(storage, options, loaded, now_ms)
    }
}

impl WritableLog<Overlay> {
    /// Opens what a plan leaves, and does not carry it out: what is done to the log is done to the plan's folder. Of
    /// cleaned segments only the length is kept.
    ///
    /// # Errors
    /// As [`WritableLog::open_planned`].
    pub(crate) fn open_dry(
        mut plan: Plan,
        options: WriteOptions,
        now_ms: TimestampMs,
    ) -> Result<Self> {
        plan.hand_over()?;
        let (folder, outcome) = plan.into_folder();
        folder.never_apply(".log.cleaned");
        Self::from_loaded(folder, options, outcome?, now_ms)
    }
}

impl<S: Storage + 'static> WritableLog<S> {
    /// Opens the last of the segments, as a plan that was carried out leaves them: its indexes are cut to their entries
    /// and get their full length here.
    pub(super) fn from_loaded(
        storage: S,
        mut options: WriteOptions,
        loaded: LoadedLog,
        now_ms: TimestampMs,
    ) -> Result<Self> {
        let settings = next_settings(&mut options);
        let known = |segment: &LoadedSegment| {
            let known = SegmentSummary {
                size: segment.size,
                max_timestamp: segment.max_timestamp,
                created_ms: now_ms,
            };
            (segment.base_offset, known)
        };
        let mut closed: BTreeMap<_, _> = loaded.segments.iter().map(known).collect();
        let mut active = if let Some((base, known)) = closed.pop_last() {
            WritableSegment::open_known(&storage, base, settings, known)?
        } else {
            let base = loaded.log_start_offset;
            WritableSegment::open(&storage, base, settings, now_ms)?
        };
        active.resize_indexes()?;
        let segments = WritableSegments { closed, active };
        let start = loaded.log_start_offset.max(segments.first_base_offset());
        let snapshots = Arc::new(Snapshots::over(storage.clone()));
        let mut log = Self {
            storage,
            segments,
            log_start_offset: start,
            log_end_offset: loaded.log_end_offset,
            lower_end: None,
            recovery_point: loaded.recovery_point.max(start),
            high_watermark: start,
            first_unstable: None,
            last_flush_ms: now_ms,
            epochs: loaded.epochs,
            producers: loaded.producers.kept_in(snapshots),
            deleted: Vec::new(),
            failure: None,
            options,
        };
        log.update_first_unstable_offset();
        log.look_up_first_unstable();
        Ok(log)
    }
}
