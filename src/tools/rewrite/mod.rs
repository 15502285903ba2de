//! Rewriting into a new log dir: without some records, with another codec, in other segments. Offsets stay.
//!
//! | module | what |
//! |---|---|
//! | here | a log dir or a partition, loaded as at a broker's start ([`super::recover`]) |
//! | `drops` | selection of the records to drop, and the effect on their batches |
//! | `windows` | batches read and filtered, by several threads |
//! | `segments` | the segments that contain the batches |
//!
//! The records to drop are known by offset before the first byte is written. A batch that loses none is copied byte for
//! byte and never decompressed, unless its codec changes or it is converted from magic 0 or 1. A batch that loses all
//! records keeps its header if the state of its producer, or the log end, depends on it. Markers of transactions stay,
//! and so do producer snapshots, aborted transactions and leader epochs, which name offsets and no records. Nothing
//! else is copied.

mod drops;
mod segments;
mod windows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use self::drops::Dropping;
pub use self::drops::Drops;
use self::segments::PartitionOutput;
use self::windows::{LogWindows, Window, Worker};
use super::progress::Progress;
use super::recover::report::{PartitionReport, RecoveryReport, path_bytes};
use super::recover::{OnLoss, RecoverySettings, plan};
use super::threads::in_order;
use crate::compress::{Codec, DecodeLimit};
use crate::error::Result;
use crate::format::checkpoint::{LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA};
use crate::format::file_name::{FileKind, FileName};
use crate::io::disk::Disk;
use crate::io::threads::processors;
use crate::load::Plan;
use crate::log::config::{BrokerCompression, LogConfig};
use crate::log::dir::folder_name;
use crate::records::filtered::{BatchFilter, FilterRules, FilteredBatch};
use crate::types::{Offset, TimestampMs, TopicPartition};

/// Options of a rewrite.
#[derive(Clone, Debug)]
pub struct RewriteOptions {
    /// The settings of topics that are not in `topics`: those of the codec and the indexes count, and with `rerolls`
    /// those of segments.
    pub config: LogConfig,
    /// The settings of topics, by name.
    pub topics: BTreeMap<String, LogConfig>,
    /// Begin segments by the settings, and not where the source does.
    pub rerolls: bool,
    /// Write messages of magic 0 and 1 as batches of magic 2.
    pub raises: bool,
    /// Reasons why partitions are not in the result, by the names of their folders.
    pub left_out: BTreeMap<String, String>,
    /// The records that go, by the names of folders: one that is not live has records of its own.
    pub drops: BTreeMap<String, Drops>,
    /// The clock.
    pub now_ms: TimestampMs,
    /// Only load.
    pub dry_run: bool,
    /// Action on damage.
    pub on_loss: OnLoss,
    /// The most bytes that a batch may decompress to.
    pub limit: DecodeLimit,
    /// Progress of the work.
    pub progress: Arc<Progress>,
}

impl RewriteOptions {
    /// Everything stays as it is.
    #[must_use]
    pub fn at(now_ms: TimestampMs) -> Self {
        Self {
            config: LogConfig::default(),
            topics: BTreeMap::new(),
            rerolls: false,
            raises: false,
            left_out: BTreeMap::new(),
            drops: BTreeMap::new(),
            now_ms,
            dry_run: false,
            on_loss: OnLoss::default(),
            limit: DecodeLimit::default(),
            progress: Arc::default(),
        }
    }
}

/// Result for one partition.
#[derive(Clone, Debug, Serialize)]
pub struct PartitionRewrite {
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
    /// Counts of records, batches and bytes.
    #[serde(flatten)]
    pub counts: RewriteCounts,
    /// Damaged bytes that were left out.
    pub bytes_lost: u64,
}

/// Counts of one partition; all 0 for a dry run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RewriteCounts {
    /// Records that went.
    pub records_dropped: u64,
    /// Batches copied byte for byte.
    pub batches_copied: u64,
    /// Batches written again.
    pub batches_rewritten: u64,
    /// Batches of which only the header is left.
    pub batches_emptied: u64,
    /// Batches that went.
    pub batches_dropped: u64,
    /// Bytes of the `.log` files before.
    pub bytes_before: u64,
    /// Bytes of the `.log` files after.
    pub bytes_after: u64,
}

impl RewriteCounts {
    fn count(&mut self, outcome: &FilteredBatch) {
        let counter = match outcome {
            FilteredBatch::Unchanged => &mut self.batches_copied,
            FilteredBatch::Rewritten(_) => &mut self.batches_rewritten,
            FilteredBatch::Emptied(_) => &mut self.batches_emptied,
            FilteredBatch::Deleted => &mut self.batches_dropped,
        };
        *counter = counter.saturating_add(1);
    }

    /// Writes what came of a window.
    fn write(&mut self, window: &mut Window, out: &mut PartitionOutput<'_>) -> Result<()> {
        if let Some(begins) = window.begins.take() {
            out.begin(begins.base_offset, begins.modified_ms)?;
            out.note_aborted(begins.aborted);
        }
        for filtered in &window.filtered {
            let gone = filtered.records_read.saturating_sub(filtered.records_kept);
            self.records_dropped = self.records_dropped.saturating_add(gone);
            self.count(&filtered.outcome);
        }
        out.append(&window.kept, &window.headers)
    }
}

/// Result of a rewrite.
pub(crate) type RewriteReport = RecoveryReport<PartitionRewrite>;

/// Writes a log dir, or one partition, into the new log dir `out`. The note that it is not finished stays for the
/// caller to remove.
///
/// # Errors
/// As recovering into a new directory; `CorruptRecord` for a batch whose checksum is wrong or whose records cannot be
/// read where they have to be.
pub fn rewrite(path: &Path, out: &Path, options: &RewriteOptions) -> Result<RewriteReport> {
    let how = RecoverySettings {
        config: options.config.clone(),
        topics: options.topics.clone(),
        on_loss: options.on_loss,
        dry_run: options.dry_run,
        out: Some(out.to_path_buf()),
        left_out: options.left_out.clone(),
        erases: true,
        is_step: true,
        progress: Arc::clone(&options.progress),
        ..RecoverySettings::at(options.now_ms)
    };
    let mut planned = plan(path, &how)?;
    let mut done = BTreeMap::new();
    if !options.dry_run {
        let (output, written) = planned.write_with(out, |loaded, plan, disk, to| {
            Ok((
                loaded.folder.clone(),
                write_partition(loaded, &plan, disk, to, options)?,
            ))
        })?;
        output.finish()?;
        done.extend(written);
    }
    let of_partition = |loaded: PartitionReport| PartitionRewrite {
        counts: done.remove(&loaded.folder).unwrap_or_default(),
        folder: loaded.folder,
        topic_partition: loaded.topic_partition,
        log_start_offset: loaded.log_start_offset,
        log_end_offset: loaded.log_end_offset,
        bytes_lost: loaded.bytes_cut,
    };
    let report = planned.into_report();
    Ok(report.map(|loaded| loaded.into_iter().map(of_partition).collect()))
}

/// Writes the folder of a partition: its segments' files again, and nothing else that may hold a record.
fn write_partition(
    loaded: &PartitionReport,
    plan: &Plan,
    disk: &Disk,
    to: &Path,
    options: &RewriteOptions,
) -> Result<RewriteCounts> {
    plan.write_some(disk, to, |name| match FileName::parse(name) {
        Some(found) => found.kind == FileKind::Snapshot && plan.has_snapshot(name),
        None => [LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA].contains(&name),
    })?;
    let topic = &loaded.topic_partition.topic;
    let config = options.topics.get(topic).unwrap_or(&options.config);
    let drops = options.drops.get(&folder_name(&loaded.folder));
    let out = PartitionOutput::new(disk, to, config, options.rerolls, options.now_ms);
    let done = rewrite_partition(plan, config, options, drops, out)?;
    disk.sync_folder(to)?;
    Ok(done)
}

fn rewrite_partition(
    plan: &Plan,
    config: &LogConfig,
    options: &RewriteOptions,
    drops: Option<&Drops>,
    mut out: PartitionOutput<'_>,
) -> Result<RewriteCounts> {
    let mut workers = workers(plan, config, options, drops)?;
    let mut windows = LogWindows::of(plan);
    let mut done = RewriteCounts::default();
    in_order(
        &mut workers,
        Worker::work,
        |spare| {
            let window = windows.next(spare)?;
            let size = window.as_ref().map_or(0, Window::size);
            options.progress.add(size);
            Ok(window)
        },
        |window| done.write(window, &mut out),
    )?;
    done.bytes_before = windows.size;
    done.bytes_after = out.finish()?;
    Ok(done)
}

/// As many as there are processors, where batches have to be read; else one, which copies them.
fn workers<'a>(
    plan: &Plan,
    config: &LogConfig,
    options: &RewriteOptions,
    drops: Option<&'a Drops>,
) -> Result<Vec<Worker<'a>>> {
    let codec = match config.compression_type {
        BrokerCompression::Producer => None,
        BrokerCompression::Fixed(compression) => {
            Some(match config.compression_level(compression) {
                Some(level) => Codec::with_level(compression, level)?,
                None => Codec::new(compression),
            })
        }
    };
    let rules = FilterRules {
        delete_horizon_ms: None,
        codec,
        keeps_legacy: !options.raises,
        keeps_ends: true,
        limit: options.limit,
    };
    let end = plan.outcome.as_ref().map_or(0, |log| log.log_end_offset);
    let count = if codec.is_some() || options.raises || drops.is_some() {
        processors()
    } else {
        1
    };
    let worker = |_| {
        Ok(Worker {
            filter: BatchFilter::new(rules)?,
            dropping: Dropping::new(drops, codec.map(Codec::compression), options.raises, end),
        })
    };
    (0..count).map(worker).collect()
}
