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
use crate::types::{Offset, TimestampMs};

/// Options of a recovery.
#[derive(Clone, Debug)]
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
    /// Kafka's defaults, at this time.
    #[must_use]
    pub fn at(now_ms: TimestampMs) -> Self {
        Self {
            clean: None,
            recovery_point: None,
            log_start_offset: None,
            config: LogConfig::default(),
            topics: BTreeMap::new(),
            now_ms,
            producer_id_expiration_ms: DEFAULT_PRODUCER_ID_EXPIRATION_MS,
            on_loss: OnLoss::default(),
            dry_run: false,
            out: None,
            disk: Disk::default(),
            progress: Arc::default(),
        }
    }

    pub(super) fn config_of(&self, partition: &PartitionFolder) -> &LogConfig {
        let topic = &partition.name.topic_partition.topic;
        self.topics.get(topic).unwrap_or(&self.config)
    }
}
