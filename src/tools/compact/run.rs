//! Compaction into a new log dir: a copy whose compacted topics hold the last record of each key.
//!
//! Every partition is loaded as at a broker's start ([`crate::tools::recover`]) and written into the output, where the cleaner
//! takes its turns until none is worth it, one thread for each processor. The output is whole, or says that it is not.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use super::cleanable::Cleanable;
use super::{Cleaner, CleanerSettings, CleanerStats};
use crate::error::{Error, Result};
use crate::format::file_name::{FolderName, FolderState};
use crate::io::disk::Disk;
use crate::log::config::LogConfig;
use crate::log::dir::{DirState, Offsets, PathKind, dir_above, folder_name};
use crate::segment::skipping::OnCorrupt;
use crate::tools::progress::{Progress, Stage};
use crate::tools::recover::report::{PartitionReport, RecoveryReport};
use crate::tools::recover::{OnLoss, RecoverOptions, recover_into};
use crate::tools::threads::in_order;
use crate::types::{Offset, TimestampMs, TopicPartition};
use crate::write::storage::Identity;
use crate::write::writer::PartitionWriter;
use crate::write::{SegmentInfo, WriteOptions};

/// How to compact logs.
#[derive(Clone, Debug)]
pub(crate) struct CompactOptions {
    /// The settings of topics that are not in `topics`.
    pub config: LogConfig,
    /// The settings of topics, by name.
    pub topics: BTreeMap<String, LogConfig>,
    /// The clock.
    pub now_ms: TimestampMs,
    /// Nothing stays of what is written.
    pub dry_run: bool,
    /// What to do about damage: clean the batches around it, or stop.
    pub on_corrupt: OnCorrupt,
    /// End the active segment first, so that it can be compacted too.
    pub roll: bool,
    /// Bytes of the maps of keys, of all threads together.
    pub map_bytes: usize,
    /// How far it has come.
    pub progress: Arc<Progress>,
}

/// What compaction did to one partition.
#[derive(Clone, Debug)]
pub(crate) struct PartitionCompaction {
    /// Its folder in the source.
    pub folder: PathBuf,
    /// Whose records it holds.
    pub topic_partition: TopicPartition,
    /// First offset that may be read.
    pub log_start_offset: Offset,
    /// The next offset to be written.
    pub log_end_offset: Offset,
    /// Where compaction began, and what it could not pass.
    pub cleanable: Cleanable,
    /// What each pass did.
    pub passes: Vec<CleanerStats>,
    /// Segments that retention deleted.
    pub segments_deleted: usize,
    /// Segments before and after.
    pub segments: (usize, usize),
    /// Bytes of their `.log` files, before and after.
    pub size: (u64, u64),
}

/// What compaction did.
#[derive(Clone, Debug)]
pub(crate) struct CompactReport {
    /// How the logs were loaded, and what was lost to damage.
    pub recovery: RecoveryReport,
    /// The compacted partitions, by topic and number.
    pub partitions: Vec<PartitionCompaction>,
}

/// Copies a log dir, or one partition, into the new log dir `out`, and compacts the topics that are to be compacted.
///
/// # Errors
/// As recovering into a new directory. `CorruptRecord` where a log is damaged, unless damage is passed over;
/// `InvalidArgument` for a map without room for a key.
pub(crate) fn compact(path: &Path, out: &Path, options: &CompactOptions) -> Result<CompactReport> {
    let log_dir = match PathKind::of(path)? {
        PathKind::Partition(_) => dir_above(path),
        PathKind::LogDir | PathKind::File => path.to_path_buf(),
    };
    let high_watermarks = DirState::read(&log_dir).high_watermarks.unwrap_or_default();
    let how = how_to_recover(out, options);
    let settings = CleanerSettings {
        map_bytes: options.map_bytes,
        ..CleanerSettings::default()
    };
    // Too small a map is an error before the first byte is written.
    Cleaner::new(settings)?;
    let compacted = RefCell::new(Vec::new());
    let recovery = recover_into(path, &how, &|loaded, disk| {
        if options.on_corrupt == OnCorrupt::Raise {
            loaded.iter().try_for_each(refuse_cut)?;
        }
        let chosen: Vec<_> = loaded
            .iter()
            .filter(|each| is_compacted(options, each))
            .collect();
        let sizes = chosen.iter().map(|each| each.size);
        options.progress.begin(Stage::Compacted, sizes.sum());
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let count = processors.min(chosen.len());
        let mut cleaners = Cleaner::several(count, settings, &options.progress)?;
        let mut next = chosen.into_iter();
        in_order(
            &mut cleaners,
            |cleaner, (partition, done): &mut (&PartitionReport, Option<PartitionCompaction>)| {
                let came =
                    compact_partition(cleaner, partition, (out, disk), &high_watermarks, options);
                let copy = out.join(folder_name(&partition.folder));
                *done = Some(came.map_err(|error| error.moved(&copy, &partition.folder))?);
                Ok(())
            },
            |_| Ok(next.next().map(|partition| (partition, None))),
            |(_, done)| {
                compacted.borrow_mut().extend(done.take());
                Ok(())
            },
        )
    })?;
    Ok(CompactReport {
        recovery,
        partitions: compacted.into_inner(),
    })
}

fn how_to_recover(out: &Path, options: &CompactOptions) -> RecoverOptions {
    let skips = options.on_corrupt == OnCorrupt::Skip;
    RecoverOptions {
        config: options.config.clone(),
        topics: options.topics.clone(),
        // Damage may lie where nothing would be checked.
        clean: skips.then_some(false),
        recovery_point: skips.then_some(0),
        on_loss: if skips {
            OnLoss::Salvage
        } else {
            OnLoss::Refuse
        },
        dry_run: options.dry_run,
        out: Some(out.to_path_buf()),
        disk: Disk::default().counting(options.progress.counter()),
        progress: Arc::clone(&options.progress),
        ..RecoverOptions::at(options.now_ms)
    }
}

fn config_of<'a>(options: &'a CompactOptions, partition: &PartitionReport) -> &'a LogConfig {
    let topic = &partition.topic_partition.topic;
    options.topics.get(topic).unwrap_or(&options.config)
}

/// Whether a partition is of a compacted topic, in a folder that a broker serves.
fn is_compacted(options: &CompactOptions, partition: &PartitionReport) -> bool {
    config_of(options, partition).cleanup_policy.compact && is_live(&partition.folder)
}

/// Whether a folder is one that a broker serves, by its name.
fn is_live(folder: &Path) -> bool {
    let name = FolderName::parse(&folder_name(folder));
    name.is_some_and(|name| name.state == FolderState::Live)
}

/// Records that recovery cuts would be missing without a word.
fn refuse_cut(partition: &PartitionReport) -> Result<()> {
    let cut = partition.bytes_cut();
    if cut == 0 {
        return Ok(());
    }
    let end = partition.log_end_offset;
    let found = format!("{cut} bytes that recovery cuts");
    let error = Error::corrupt("log", 0, format!("whole batches after offset {end}"), found);
    Err(error.for_offset(end).at(&partition.folder))
}

fn compact_partition(
    cleaner: &mut Cleaner,
    loaded: &PartitionReport,
    (out, disk): (&Path, &Disk),
    high_watermarks: &Offsets,
    options: &CompactOptions,
) -> Result<PartitionCompaction> {
    let (partition, now_ms) = (&loaded.topic_partition, options.now_ms);
    let mut how = WriteOptions::new(config_of(options, loaded).clone());
    how.disk = disk.clone();
    let dirs = [out.to_path_buf()];
    let mut writer =
        PartitionWriter::open(&dirs, &Identity::default(), partition, None, how, now_ms)?;
    let log = writer.log_mut();
    if let Some(&offset) = high_watermarks.get(partition) {
        log.update_high_watermark(offset)?;
    }
    log.remove_expired_producers(now_ms);
    let before = log.segments();
    if options.roll && before.last().is_some_and(|active| active.size > 0) {
        log.roll(None, now_ms)?;
    }
    let mut turn = cleaner.turn(out, partition, log, disk, now_ms)?;
    let mut cleanable = turn.cleanable;
    let mut passes = Vec::new();
    while let Some(stats) = turn.outcome {
        let stats = stats?;
        passes.push(stats);
        if stats.end_offset <= turn.cleanable.first_dirty_offset {
            break;
        }
        turn = cleaner.turn(out, partition, log, disk, now_ms)?;
        cleanable.first_uncleanable_offset = turn.cleanable.first_uncleanable_offset;
    }
    let segments_deleted = log.delete_old_segments(now_ms)?;
    log.remove_deleted(TimestampMs::MAX)?;
    let after = log.segments();
    let size = |segments: &[SegmentInfo]| segments.iter().map(|each| each.size).sum();
    let done = PartitionCompaction {
        folder: loaded.folder.clone(),
        topic_partition: partition.clone(),
        log_start_offset: log.log_start_offset(),
        log_end_offset: log.log_end_offset(),
        cleanable,
        passes,
        segments_deleted,
        segments: (before.len(), after.len()),
        size: (size(&before), size(&after)),
    };
    writer.close(now_ms)?;
    Ok(done)
}
