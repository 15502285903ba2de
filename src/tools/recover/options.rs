//! Options of a recovery.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::io::disk::Disk;
use crate::load::OnLoss;
use crate::log::config::LogConfig;
use crate::log::dir::PartitionFolder;
use crate::producers::DEFAULT_PRODUCER_ID_EXPIRATION_MS;
use crate::tools::progress::Progress;
use crate::types::{Offset, TimestampMs, now_ms};

/// Options of a recovery.
///
/// By default: in place, according to the log dir's marker and checkpoints, and refusing to lose whole batches.
#[derive(Clone, Debug)]
#[must_use]
pub struct RecoverySettings {
    /// True if the broker stopped cleanly; `None`: as the marker of the log dir says.
    pub clean: Option<bool>,
    /// First offset not known to be on disk, of every partition; `None`: as the checkpoint says, 0 without one.
    pub recovery_point: Option<Offset>,
    /// First offset that may be read, of every partition; `None`: as the checkpoint says, 0 without one.
    pub log_start_offset: Option<Offset>,
    /// Topic settings: those of the indexes count.
    pub config: LogConfig,
    /// The settings of topics that have others.
    pub topics: BTreeMap<String, LogConfig>,
    /// The clock, for producers that have expired.
    pub now_ms: TimestampMs,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
    /// Reasons why partitions are not in the result, by the names of their folders.
    pub left_out: BTreeMap<String, String>,
    /// Nothing is copied into the result that may contain a record and was not read.
    pub erases: bool,
    /// The result is for another tool: always a log dir, whose note that it is not finished stays until it is verified.
    pub is_step: bool,
    /// Action if batches would be lost.
    pub on_loss: OnLoss,
    /// Report only.
    pub dry_run: bool,
    /// A directory to be made, for the result; the source stays as it is. `None`: in place.
    pub out: Option<PathBuf>,
    /// The writing side of the file system.
    pub disk: Disk,
    /// Progress of writing `out`.
    pub progress: Arc<Progress>,
}

impl RecoverySettings {
    /// The defaults, at the time of the system's clock.
    pub fn new() -> Self {
        Self::at(now_ms())
    }

    /// Kafka's defaults, at this time.
    pub fn at(now_ms: TimestampMs) -> Self {
        Self {
            clean: None,
            recovery_point: None,
            log_start_offset: None,
            config: LogConfig::default(),
            topics: BTreeMap::new(),
            now_ms,
            producer_id_expiration_ms: DEFAULT_PRODUCER_ID_EXPIRATION_MS,
            left_out: BTreeMap::new(),
            erases: false,
            is_step: false,
            on_loss: OnLoss::default(),
            dry_run: false,
            out: None,
            disk: Disk::default(),
            progress: Arc::default(),
        }
    }

    /// Sets whether the broker stopped cleanly; by default as the log dir's marker says.
    pub const fn clean(mut self, clean: bool) -> Self {
        self.clean = Some(clean);
        self
    }

    /// The first offset not known to be on the device, in every partition; by default as the checkpoint says.
    pub const fn recovery_point(mut self, offset: Offset) -> Self {
        self.recovery_point = Some(offset);
        self
    }

    /// The first offset that a consumer may read, in every partition; by default as the checkpoint says.
    pub const fn log_start_offset(mut self, offset: Offset) -> Self {
        self.log_start_offset = Some(offset);
        self
    }

    /// The topics' settings; only those of the indexes are used.
    pub fn config(mut self, config: LogConfig) -> Self {
        self.config = config;
        self
    }

    /// The time by which producers expire; by default the system's clock.
    pub const fn now_ms(mut self, now_ms: TimestampMs) -> Self {
        self.now_ms = now_ms;
        self
    }

    /// Sets the action if Kafka would not load the log, or would discard whole batches.
    pub const fn on_loss(mut self, on_loss: OnLoss) -> Self {
        self.on_loss = on_loss;
        self
    }

    /// Reports what would be done and writes nothing.
    pub const fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Writes the result into this new directory and leaves the source unchanged.
    pub fn out(mut self, directory: impl Into<PathBuf>) -> Self {
        self.out = Some(directory.into());
        self
    }

    pub(super) fn config_of(&self, partition: &PartitionFolder) -> &LogConfig {
        let topic = &partition.name.topic_partition.topic;
        self.topics.get(topic).unwrap_or(&self.config)
    }
}

impl Default for RecoverySettings {
    fn default() -> Self {
        Self::new()
    }
}
