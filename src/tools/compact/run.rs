//! Compaction into a new log dir: a copy whose compacted topics hold the last record of each key.
//!
//! Every partition is loaded as at a broker's start ([`crate::tools::recover`]) and written into the output, where the
//! cleaner runs passes until none is worth it, one thread for each processor. The output is complete, or marked as
//! unfinished.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::{Cleaner, CleanerLines, CleanerSettings, CleanerStats};
use crate::error::{Error, Result};
use crate::format::file_name::{FolderName, FolderState};
use crate::io::disk::Disk;
use crate::io::folder::DiskFolder;
use crate::io::storage::Storage;
use crate::io::threads::processors;
use crate::load::{LoadedLog, Plan};
use crate::log::cleanable::CleanerBound;
use crate::log::config::LogConfig;
use crate::log::dir::{CLEANER, DirState, PartitionOffsets, PathKind, dir_above, folder_name};
use crate::segment::skipping::OnCorrupt;
use crate::tools::progress::{Progress, Stage};
use crate::tools::recover::report::{PartitionReport, RecoveryReport, path_bytes};
use crate::tools::recover::{OnLoss, RecoverySettings, plan};
use crate::tools::threads::in_order;
use crate::types::{Offset, TimestampMs, TopicPartition};
use crate::write::storage::{Identity, LogDirs};
use crate::write::writer::PartitionWriter;
use crate::write::{SegmentInfo, WritableLog, WriteOptions};

/// Options of compacting logs.
#[derive(Clone, Debug)]
pub(crate) struct CompactOptions {
    /// The settings of topics that are not in `topics`.
    pub config: LogConfig,
    /// The settings of topics, by name.
    pub topics: BTreeMap<String, LogConfig>,
    /// The clock.
    pub now_ms: TimestampMs,
    /// Report only: the first pass over each log is planned, and nothing is written.
    pub dry_run: bool,
    /// Action on damage: clean the batches around it, or stop.
    pub on_corrupt: OnCorrupt,
    /// End the active segment first, so that it can be compacted too.
    pub roll: bool,
    /// Bytes of the maps of keys, of all threads together.
    pub map_bytes: usize,
    /// Progress of the work.
    pub progress: Arc<Progress>,
}

/// Result of compacting one partition.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PartitionCompaction {
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
    /// Offset at which compaction began.
    pub first_dirty_offset: Offset,
    /// Offset that it could not pass.
    pub first_uncleanable_offset: Offset,
    /// Offset at which it ended.
    pub compacted_to: Offset,
    /// Share of the bytes that were not compacted before; `None` for an empty log.
    pub dirty_ratio: Option<f64>,
    /// Passes.
    pub passes: usize,
    /// A dry run planned the first pass only, and more may follow.
    pub more_passes: bool,
    /// Records that were read in all passes.
    pub records_read: u64,
    /// Records that were kept.
    pub records_kept: u64,
    /// Records that were removed because they have no key.
    pub records_without_key: u64,
    /// Segments that retention deleted.
    pub segments_deleted: usize,
    /// Segments before.
    pub segments_before: usize,
    /// Segments afterwards.
    pub segments: usize,
    /// Bytes of their `.log` files before.
    pub size_before: u64,
    /// Bytes of their `.log` files afterwards.
    pub size: u64,
    /// The bound at the first uncleanable offset.
    pub held_by: &'static str,
    /// The producer of the open transaction, if that is the bound.
    pub pin_producer_id: Option<i64>,
    /// Offset at which the transaction begins.
    pub pin_offset: Option<Offset>,
}

/// Result of a compaction.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct CompactReport {
    /// Report of loading the logs, with the compacted partitions, by topic and number.
    #[serde(flatten)]
    pub recovery: RecoveryReport<PartitionCompaction>,
    /// Partitions that lost bytes to damage.
    pub damaged: Vec<PartitionReport>,
}

/// Copies a log dir, or one partition, into the new log dir `out`, and compacts the topics that are to be compacted.
///
/// # Errors
/// As recovering into a new directory. `CorruptRecord` where a log is damaged, unless reading past damage;
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
    let mut planned = plan(path, &how)?;
    if options.on_corrupt == OnCorrupt::Raise {
        planned.reports().try_for_each(refuse_cut)?;
    }
    let mut chosen = Vec::new();
    for (number, loaded) in planned.reports().enumerate() {
        if is_compacted(options, loaded) {
            chosen.push((number, loaded.clone()));
        }
    }
    if !chosen.is_empty() {
        planned.ensure_no_job()?;
    }
    let compaction = Compaction {
        options,
        settings,
        high_watermarks,
        lines: CleanerLines::new(planned.checkpoint(CLEANER)?),
    };
    let partitions = if options.dry_run {
        let loaded = chosen.iter().map(|(_, loaded)| loaded);
        let mut numbers = chosen.iter().map(|(number, _)| *number);
        compaction.each(
            loaded,
            || numbers.next().map(|number| planned.take_plan(number)),
            |cleaner, loaded, plan| compaction.plan(cleaner, loaded, plan),
        )?
    } else {
        let (output, written) = planned.write_with(out, |loaded, plan, disk, to| {
            plan.write_to(disk, to)?;
            let folder = DiskFolder::new(to, disk);
            let is_chosen = is_compacted(options, loaded);
            is_chosen.then(|| plan.into_loaded(&folder)).transpose()
        })?;
        let done = compaction.clean(&chosen, written, out, output.disk())?;
        output.finish()?;
        done
    };
    let mut damaged = Vec::new();
    let recovery = planned.into_report().map(|loaded| {
        damaged.extend(loaded.into_iter().filter(|each| each.bytes_cut > 0));
        partitions
    });
    Ok(CompactReport { recovery, damaged })
}

fn how_to_recover(out: &Path, options: &CompactOptions) -> RecoverySettings {
    let skips = options.on_corrupt == OnCorrupt::Skip;
    RecoverySettings {
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
        is_step: true,
        disk: Disk::default().counting(options.progress.counter()),
        progress: Arc::clone(&options.progress),
        ..RecoverySettings::at(options.now_ms)
    }
}

fn config_of<'a>(options: &'a CompactOptions, partition: &PartitionReport) -> &'a LogConfig {
    let topic = &partition.topic_partition.topic;
    options.topics.get(topic).unwrap_or(&options.config)
}

/// Returns whether a partition is of a compacted topic, in a folder that a broker serves.
fn is_compacted(options: &CompactOptions, partition: &PartitionReport) -> bool {
    config_of(options, partition).cleanup_policy.compact && is_live(&partition.folder)
}

/// Returns whether a folder is one that a broker serves, by its name.
fn is_live(folder: &Path) -> bool {
    let name = FolderName::parse(&folder_name(folder));
    name.is_some_and(|name| name.state == FolderState::Live)
}

/// Records that recovery cuts would be missing without a word.
fn refuse_cut(partition: &PartitionReport) -> Result<()> {
    let cut = partition.bytes_cut;
    if cut == 0 {
        return Ok(());
    }
    let end = partition.log_end_offset;
    let found = format!("{cut} bytes that recovery cuts");
    let error = Error::corrupt("log", 0, format!("whole batches after offset {end}"), found);
    Err(error.for_offset(end).at(&partition.folder))
}

/// The compaction of partitions that were loaded.
struct Compaction<'a> {
    options: &'a CompactOptions,
    settings: CleanerSettings,
    high_watermarks: Arc<PartitionOffsets>,
    lines: CleanerLines,
}

impl Compaction<'_> {
    /// Compacts partitions, several at once, each with its log, which is got when its turn comes.
    fn each<'p, L: Send>(
        &self,
        loaded: impl ExactSizeIterator<Item = &'p PartitionReport> + Clone,
        mut next_log: impl FnMut() -> Option<Result<L>>,
        compact: impl Fn(&mut Cleaner, &'p PartitionReport, L) -> Result<PartitionCompaction> + Sync,
    ) -> Result<Vec<PartitionCompaction>> {
        let progress = &self.options.progress;
        progress.begin(Stage::Compacted, loaded.clone().map(|each| each.size).sum());
        let count = processors().min(loaded.len());
        let mut cleaners = Cleaner::several(count, self.settings, progress)?;
        let (mut rest, mut all) = (loaded, Vec::new());
        in_order(
            &mut cleaners,
            |cleaner, (loaded, log, done): &mut (&PartitionReport, Option<L>, _)| {
                let log = log.take();
                *done = log.map(|log| compact(cleaner, loaded, log)).transpose()?;
                Ok(())
            },
            |_| match (rest.next(), next_log()) {
                (Some(loaded), Some(log)) => Ok(Some((loaded, Some(log?), None))),
                _ => Ok(None),
            },
            |(_, _, done)| {
                all.extend(done.take());
                Ok(())
            },
        )?;
        Ok(all)
    }

    fn write_options(&self, loaded: &PartitionReport) -> WriteOptions {
        WriteOptions::new(config_of(self.options, loaded).clone())
    }

    /// Compacts the partitions that were written into `out`.
    fn clean(
        self,
        chosen: &[(usize, PartitionReport)],
        written: Vec<Option<LoadedLog>>,
        out: &Path,
        disk: &Disk,
    ) -> Result<Vec<PartitionCompaction>> {
        // The checkpoints that are written from here on are no part of the logs.
        let disk = &disk.uncounted();
        // Open for all partitions: the writer of each alone would read the checkpoints, list the log dir and write its
        // marker.
        let dirs = LogDirs::open(&[out.to_path_buf()], &Identity::default(), disk)?;
        let mut written = written.into_iter().flatten();
        let done = self.each(
            chosen.iter().map(|(_, loaded)| loaded),
            || written.next().map(Ok),
            |cleaner, loaded, log| {
                let done = self.clean_partition(cleaner, loaded, log, (&dirs, disk));
                let copy = out.join(folder_name(&loaded.folder));
                done.map_err(|error| error.moved(&copy, &loaded.folder))
            },
        )?;
        self.lines.write(disk, out)?;
        dirs.close()?;
        Ok(done)
    }

    fn clean_partition(
        &self,
        cleaner: &mut Cleaner,
        loaded: &PartitionReport,
        log: LoadedLog,
        (dirs, disk): (&LogDirs, &Disk),
    ) -> Result<PartitionCompaction> {
        let (partition, now_ms) = (&loaded.topic_partition, self.options.now_ms);
        let how = WriteOptions {
            disk: disk.clone(),
            ..self.write_options(loaded)
        };
        let mut writer = PartitionWriter::open_written(dirs, partition, how, log, now_ms)?;
        let done = self.compact_log(cleaner, loaded, writer.log_mut())?;
        writer.close(now_ms)?;
        Ok(done)
    }

    /// Plans the first pass over a log.
    fn plan(
        &self,
        cleaner: &mut Cleaner,
        loaded: &PartitionReport,
        plan: Plan,
    ) -> Result<PartitionCompaction> {
        let how = self.write_options(loaded);
        let mut log = WritableLog::open_dry(plan, how, self.options.now_ms)?;
        log.update_high_watermark(log.log_end_offset())?;
        self.compact_log(cleaner, loaded, &mut log)
    }

    fn compact_log<S: Storage>(
        &self,
        cleaner: &mut Cleaner,
        loaded: &PartitionReport,
        log: &mut WritableLog<S>,
    ) -> Result<PartitionCompaction> {
        let (partition, now_ms) = (&loaded.topic_partition, self.options.now_ms);
        let line = self.lines.line(partition);
        if let Some(&offset) = self.high_watermarks.get(partition) {
            log.update_high_watermark(offset)?;
        }
        log.remove_expired_producers(now_ms);
        let before = log.segments();
        if self.options.roll && before.last().is_some_and(|active| active.size > 0) {
            log.roll(None, now_ms)?;
        }
        cleaner.begin(loaded.size);
        let mut turn = cleaner.turn(log, line, now_ms)?;
        let mut cleanable = turn.cleanable;
        let (mut passes, mut more_passes) = (Vec::new(), false);
        while let Some(stats) = turn.outcome {
            let stats = stats?;
            passes.push(stats);
            if stats.end_offset <= turn.cleanable.first_dirty_offset {
                break;
            }
            if self.options.dry_run {
                more_passes = stats.end_offset < turn.cleanable.first_uncleanable_offset;
                break;
            }
            turn = cleaner.turn(log, line, now_ms)?;
            cleanable.first_uncleanable_offset = turn.cleanable.first_uncleanable_offset;
        }
        cleaner.end();
        let segments_deleted = log.delete_old_segments(now_ms)?;
        log.remove_deleted(TimestampMs::MAX)?;
        let after = log.segments();
        let size = |segments: &[SegmentInfo]| segments.iter().map(|each| each.size).sum();
        let total = |part: fn(&CleanerStats) -> u64| passes.iter().map(part).sum();
        let end = passes.last().map(|last| last.end_offset);
        let pin = cleanable.open_transaction;
        let pin = pin.filter(|_| cleanable.bound == CleanerBound::OpenTransaction);
        Ok(PartitionCompaction {
            folder: loaded.folder.clone(),
            topic_partition: partition.clone(),
            log_start_offset: log.log_start_offset(),
            log_end_offset: log.log_end_offset(),
            first_dirty_offset: cleanable.first_dirty_offset,
            first_uncleanable_offset: cleanable.first_uncleanable_offset,
            compacted_to: end.unwrap_or(cleanable.first_dirty_offset),
            dirty_ratio: Some(cleanable.dirtiness.ratio()).filter(|ratio| ratio.is_finite()),
            passes: passes.len(),
            more_passes,
            records_read: total(|pass| pass.messages_read),
            records_kept: total(|pass| pass.messages_written),
            records_without_key: total(|pass| pass.invalid_messages),
            segments_deleted,
            segments_before: before.len(),
            segments: after.len(),
            size_before: size(&before),
            size: size(&after),
            held_by: cleanable.bound.name(),
            pin_producer_id: pin.map(|(producer_id, _)| producer_id),
            pin_offset: pin.map(|(_, first)| first),
        })
    }
}

#[cfg(test)]
mod tests;
