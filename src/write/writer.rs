//! One partition of a log dir, open for writing: locked, loaded as by a broker, and closed as by a broker.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::format::uuid::Uuid;
use crate::load::{self, LoadRequest, LoadedLog, Note, OnLoss, Plan};
use crate::log::dir::{DirState, PartitionOffsets};
use crate::types::{Offset, TimestampMs, TopicPartition};
use crate::write::storage::{Identity, LogDirs, PartitionDir, PartitionProgress, check_names};
use crate::write::{WritableLog, WriteOptions};

/// A partition and the right to write it.
#[derive(Debug)]
pub struct PartitionWriter {
    log: WritableLog,
    dir: PartitionDir,
    notes: Vec<Note>,
}

impl PartitionWriter {
    /// Opens it; log dirs and folder are made where they are not there. What was not closed cleanly is recovered as at
    /// a broker's start. There are no replicas, so the high watermark is the log end.
    ///
    /// # Errors
    /// Those of [`LogDirs::open`] and [`LogDirs::partition`]; what would keep a broker from loading the log, and then
    /// nothing in its folder is changed.
    pub fn open(
        log_dirs: &[PathBuf],
        identity: &Identity,
        partition: &TopicPartition,
        topic_id: Option<Uuid>,
        options: WriteOptions,
        now_ms: TimestampMs,
    ) -> Result<Self> {
        check_names(partition, topic_id)?;
        let dirs = LogDirs::open(log_dirs, identity, &options.disk)?.for_job(options.job.clone());
        let dir = dirs.partition(partition, topic_id)?;
        dirs.close()?;
        let request = LoadRequest {
            clean: dir.is_clean(),
            recovery_point: dir.recovery_point().unwrap_or(0),
            log_start_offset: dir.log_start_offset().unwrap_or(0),
            now_ms,
            producer_id_expiration_ms: options.producer_id_expiration_ms,
        };
        let plan = load::plan(dir.folder(), &options.config, request, OnLoss::Refuse);
        let plan = match plan.and_then(Plan::loaded) {
            Ok(plan) => plan,
            Err(error) => {
                dir.release()?;
                return Err(error);
            }
        };
        dir.write_topic_id()?;
        let notes = plan.notes.clone();
        let mut log = WritableLog::open_planned(dir.folder(), options, plan, now_ms)?;
        log.update_high_watermark(log.log_end_offset())?;
        Ok(Self { log, dir, notes })
    }

    /// Opens a partition that was just written as it was loaded, and is not loaded again.
    ///
    /// # Errors
    /// Those of [`LogDirs::partition`]; `Io`.
    pub(crate) fn open_written(
        dirs: &LogDirs,
        partition: &TopicPartition,
        options: WriteOptions,
        loaded: LoadedLog,
        now_ms: TimestampMs,
    ) -> Result<Self> {
        let dir = dirs.partition(partition, None)?;
        let mut log = WritableLog::open_written(dir.folder(), options, loaded, now_ms)?;
        log.update_high_watermark(log.log_end_offset())?;
        let notes = Vec::new();
        Ok(Self { log, dir, notes })
    }

    /// Refuses what [`PartitionWriter::open`] refuses to load, without a lock and without a change: a job over many
    /// partitions asks before it opens the first. A partition that does not exist is not checked.
    ///
    /// # Errors
    /// What would keep a broker from loading the log, or cost a whole batch.
    pub fn check(
        log_dirs: &[PathBuf],
        partition: &TopicPartition,
        options: &WriteOptions,
        now_ms: TimestampMs,
    ) -> Result<()> {
        for log_dir in log_dirs {
            let folder = log_dir.join(partition.to_string());
            if !folder.is_dir() {
                continue;
            }
            let state = DirState::read(log_dir);
            let of = |offsets: &PartitionOffsets| offsets.get(partition).copied().unwrap_or(0);
            let request = LoadRequest {
                clean: state.clean_shutdown,
                recovery_point: of(&state.recovery_points),
                log_start_offset: of(&state.log_starts),
                now_ms,
                producer_id_expiration_ms: options.producer_id_expiration_ms,
            };
            load::plan(&folder, &options.config, request, OnLoss::Refuse)?.loaded()?;
        }
        Ok(())
    }

    /// The log.
    #[must_use]
    pub const fn log(&self) -> &WritableLog {
        &self.log
    }

    /// The log, to be written.
    pub const fn log_mut(&mut self) -> &mut WritableLog {
        &mut self.log
    }

    /// The epoch to append in: the one requested, or the log's latest. Epochs never fall in a log.
    ///
    /// # Errors
    /// `InvalidArgument` for an epoch below the log's latest.
    pub(crate) fn leader_epoch(&self, asked: Option<i32>) -> Result<i32> {
        let latest = self.log.epochs().latest().map(|entry| entry.epoch);
        match (asked, latest) {
            (Some(asked), Some(latest)) if asked < latest => Err(Error::InvalidArgument(format!(
                "leader_epoch is {asked}, below the log's latest, {latest}"
            ))),
            _ => Ok(asked.or(latest).unwrap_or(0)),
        }
    }

    /// The partition folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.dir.folder()
    }

    /// The topic's id, where there is one.
    #[must_use]
    pub fn topic_id(&self) -> Option<&str> {
        self.dir.topic_id()
    }

    /// Returns whether this process may write: a forked child may not.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.dir.is_held()
    }

    /// Notes about the loading.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Syncs everything and brings the log dir's checkpoints up to date. Files that a truncation or a roll put
    /// aside are removed once `file.delete.delay.ms` has passed.
    ///
    /// # Errors
    /// `Io`.
    pub fn flush(&mut self, now_ms: TimestampMs) -> Result<()> {
        self.log.flush(false, now_ms)?;
        self.log.remove_deleted(now_ms)?;
        self.dir.checkpoint(&self.progress())
    }

    /// Cuts the log as [`WritableLog::truncate_to`], and the log dir's checkpoints with it (`LogManager.truncateTo`):
    /// what is written from there on is not known to be on the disk.
    ///
    /// # Errors
    /// As there; `Io`.
    pub fn truncate_to(&mut self, offset: Offset, now_ms: TimestampMs) -> Result<bool> {
        let base_offset = self.log.segments().last().map(|s| s.base_offset);
        let is_cut = self.log.truncate_to(offset, now_ms)?;
        if is_cut {
            self.checkpoint_cut(base_offset.is_some_and(|base| offset < base))?;
        }
        Ok(is_cut)
    }

    /// Empties the log as [`WritableLog::truncate_fully_and_start_at`], and brings the checkpoints in line
    /// (`LogManager.truncateFullyAndStartAt`).
    ///
    /// # Errors
    /// As there; `Io`.
    pub fn truncate_fully_and_start_at(
        &mut self,
        offset: Offset,
        now_ms: TimestampMs,
    ) -> Result<()> {
        self.log.truncate_fully_and_start_at(offset, None, now_ms)?;
        self.checkpoint_cut(true)
    }

    fn checkpoint_cut(&self, may_be_compacted: bool) -> Result<()> {
        let active = self.log.segments().last().map(|s| s.base_offset);
        if let (true, true, Some(base)) = (
            may_be_compacted,
            self.log.config().cleanup_policy.compact,
            active,
        ) {
            self.dir.truncate_cleaner(base)?;
        }
        self.dir.checkpoint(&self.progress())
    }

    /// Closes cleanly. A log that failed is left for recovery.
    ///
    /// # Errors
    /// `Io`; `Refused` for a log that had failed; `InvalidArgument` in a forked child, where the files are the
    /// parent's.
    pub fn close(self, now_ms: TimestampMs) -> Result<()> {
        if !self.is_held() {
            return Err(Error::InvalidArgument(
                "this writer belongs to the process that opened it".to_owned(),
            ));
        }
        let mut progress = self.progress();
        let end = self.log.end_when_loaded();
        progress.recovery_point = self.log.close(now_ms)?.min(end);
        self.dir.close(&progress)
    }

    fn progress(&self) -> PartitionProgress {
        let end = self.log.end_when_loaded();
        let start = self.log.log_start_offset().min(end);
        let first = self.log.segments().first().map(|s| s.base_offset);
        PartitionProgress {
            recovery_point: self.log.recovery_point().min(end),
            log_start_offset: first.is_some_and(|base| start > base).then_some(start),
            high_watermark: self.log.high_watermark().min(end),
        }
    }
}
