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

use super::progress::Progress;
use super::recover::report::RecoveryReport;
use super::recover::{OnLoss, RecoverySettings, plan_with};
use crate::error::{Error, Result};
use crate::io::disk::Disk;
use crate::load::Plan;
use crate::log::config::LogConfig;
use crate::log::dir::{DirState, PartitionFolder, PathKind, dir_above};
use crate::log::retention::{Rule, SegmentAge};
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

/// Result of retention for one partition.
#[derive(Clone, Debug)]
pub(crate) struct PartitionRetention {
    /// Its folder in the source.
    pub folder: PathBuf,
    /// The partition whose records it holds.
    pub topic_partition: TopicPartition,
    /// First offset that may be read, before and after.
    pub log_start_offset: (Offset, Offset),
    /// The next offset to be written.
    pub log_end_offset: Offset,
    /// Nothing above it was deleted.
    pub high_watermark: Offset,
    /// Segments that stay, and bytes of their `.log` files.
    pub segments: usize,
    /// Bytes of their `.log` files.
    pub size: u64,
    /// The segments that went and why, oldest first.
    pub deleted: Vec<(SegmentAge, Rule)>,
}

/// Result of retention, done or planned.
#[derive(Clone, Debug)]
pub(crate) struct RetainReport {
    /// Report of loading the log dir, and its checkpoints.
    pub recovery: RecoveryReport,
    /// The partitions, by topic and number.
    pub partitions: Vec<PartitionRetention>,
}

/// Result of the step for a partition, besides its loading.
struct RetentionResult {
    log_start_before: Offset,
    high_watermark: Offset,
    deleted: Vec<(SegmentAge, Rule)>,
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
    let recovery = planned.into_report();
    let mut done = done.into_inner();
    let partitions = recovery.partitions.iter().filter_map(|loaded| {
        let done = done.remove(&loaded.folder)?;
        Some(PartitionRetention {
            folder: loaded.folder.clone(),
            topic_partition: loaded.topic_partition.clone(),
            log_start_offset: (done.log_start_before, loaded.log_start_offset),
            log_end_offset: loaded.log_end_offset,
            high_watermark: done.high_watermark,
            segments: loaded.segments,
            size: loaded.size,
            deleted: done.deleted,
        })
    });
    Ok(RetainReport {
        partitions: partitions.collect(),
        recovery,
    })
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
    Ok(RetentionResult {
        log_start_before: start,
        high_watermark,
        deleted: plan.delete_old_segments(config, high_watermark, now_ms)?,
    })
}
