//! Retention into a new log dir: a copy without the segments that a broker would delete at a given time
//! (`UnifiedLog.deleteOldSegments`, `LogManager.cleanupLogs`).
//!
//! Every partition is loaded as at a broker's start ([`super::recover`]) and then retained under its topic's settings.
//! Nothing is deleted from the source, and deleted segments are never copied. The modification times of the files that
//! stay are kept, because retention falls back on them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::progress::Progress;
use super::recover::report::{PartitionReport, RecoveryReport, path_bytes};
use super::recover::{OnLoss, RecoverySettings, plan_with};
use crate::error::{Error, Result};
use crate::io::disk::Disk;
use crate::load::Plan;
use crate::log::config::LogConfig;
use crate::log::dir::{DirState, PartitionFolder, PathKind, dir_above};
use crate::log::retention::SegmentAge;
use crate::types::{Offset, TimestampMs, TopicPartition};

/// Options of retention.
#[derive(Clone, Debug)]
pub(crate) struct RetainOptions {
    /// The settings of topics that are not in `topics`.
    pub config: LogConfig,
    /// The settings of topics, by name.
    pub topics: BTreeMap<String, LogConfig>,
    /// The clock.
    pub now_ms: TimestampMs,
    /// Report only.
    pub dry_run: bool,
    /// Progress of the work.
    pub progress: Arc<Progress>,
}

/// A segment that retention deletes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DeletedSegment {
    /// Its size and age.
    #[serde(flatten)]
    pub segment: SegmentAge,
    /// The rule by which it goes.
    pub rule: &'static str,
}

/// Result of retention for one partition.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PartitionRetention {
    /// Its folder in the source.
    #[serde(rename = "path", serialize_with = "path_bytes")]
    pub folder: PathBuf,
    /// The partition whose records it holds.
    #[serde(flatten)]
    pub topic_partition: TopicPartition,
    /// First offset that may be read.
    pub log_start_offset: Offset,
    /// The next offset to be written.
    pub log_end_offset: Offset,
    /// Segments that stay, and bytes of their `.log` files.
    pub segments: usize,
    /// Bytes of their `.log` files.
    pub size: u64,
    /// Result of the step.
    #[serde(flatten)]
    pub result: RetentionResult,
}

/// Result of retention, done or planned.
pub(crate) type RetainReport = RecoveryReport<PartitionRetention>;

/// Result of the step for a partition, besides its loading.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RetentionResult {
    /// First offset that could be read before.
    pub log_start_before: Offset,
    /// Nothing above it was deleted.
    pub high_watermark: Offset,
    /// The segments that went and why, oldest first.
    pub deleted: Vec<DeletedSegment>,
}

/// Copies a log dir, or one partition, into the new log dir `out`, without what retention deletes.
///
/// # Errors
/// As recovering into a new directory; `InvalidArgument` for a topic with tiered storage: what was uploaded is not
/// known here.
pub(crate) fn retain(path: &Path, out: &Path, options: &RetainOptions) -> Result<RetainReport> {
    let log_dir = match PathKind::of(path)? {
        PathKind::Partition(_) => dir_above(path),
        PathKind::LogDir | PathKind::File => path.to_path_buf(),
    };
    let high_watermarks = DirState::read(&log_dir).high_watermarks.unwrap_or_default();
    let how = RecoverySettings {
        config: options.config.clone(),
        topics: options.topics.clone(),
        on_loss: OnLoss::Refuse,
        dry_run: options.dry_run,
        out: Some(out.to_path_buf()),
        is_step: true,
        disk: Disk::default().counting(options.progress.counter()),
        progress: Arc::clone(&options.progress),
        ..RecoverySettings::at(options.now_ms)
    };
    let done = RefCell::new(BTreeMap::new());
    let retain = |partition: &PartitionFolder, config: &LogConfig, plan: &mut Plan| {
        let known = high_watermarks
            .get(&partition.name.topic_partition)
            .copied();
        let result = retain_partition(partition, config, plan, known, options.now_ms)?;
        done.borrow_mut().insert(partition.path.clone(), result);
        Ok(())
    };
    let mut planned = plan_with(path, &how, &retain)?;
    if !options.dry_run {
        planned.write(out)?.finish()?;
    }
    let report = planned.into_report();
    let mut done = done.into_inner();
    let of_partition = |loaded: PartitionReport| {
        Some(PartitionRetention {
            result: done.remove(&loaded.folder)?,
            folder: loaded.folder,
            topic_partition: loaded.topic_partition,
            log_start_offset: loaded.log_start_offset,
            log_end_offset: loaded.log_end_offset,
            segments: loaded.segments,
            size: loaded.size,
        })
    };
    Ok(report.map(|loaded| loaded.into_iter().filter_map(of_partition).collect()))
}

fn retain_partition(
    partition: &PartitionFolder,
    config: &LogConfig,
    plan: &mut Plan,
    high_watermark: Option<Offset>,
    now_ms: TimestampMs,
) -> Result<RetentionResult> {
    if config.remote_storage_enable {
        return Err(Error::InvalidArgument(format!(
            "{}: remote.storage.enable is true: a segment is deleted only after it was uploaded, which its files do not show",
            partition.path.display()
        )));
    }
    let (start, end) = match &plan.outcome {
        Ok(log) => (log.log_start_offset, log.log_end_offset),
        Err(_) => (0, 0),
    };
    // Without a checkpoint the log is a copy, all of which was replicated as far as anyone knows.
    let high_watermark = high_watermark.unwrap_or(end).clamp(start, end);
    let deleted = plan.delete_old_segments(config, high_watermark, now_ms)?;
    let deleted = deleted.into_iter().map(|(segment, rule)| DeletedSegment {
        segment,
        rule: rule.name(),
    });
    Ok(RetentionResult {
        log_start_before: start,
        high_watermark,
        deleted: deleted.collect(),
    })
}
