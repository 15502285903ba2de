//! Recovering a log dir or a partition.

use std::path::{Path, PathBuf};

use super::config::LogConfig;
use super::{absolute, now_ms};
use crate::error::Result;
use crate::load::OnLoss;
use crate::tools::recover as tool;
use crate::tools::recover::report::RecoveryReport;
use crate::types::{Offset, TimestampMs};

/// Options of a recovery.
///
/// By default: in place, according to the log dir's marker and checkpoints, and refusing to lose whole batches.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RecoverOptions {
    clean: Option<bool>,
    recovery_point: Option<Offset>,
    log_start_offset: Option<Offset>,
    config: LogConfig,
    now_ms: Option<TimestampMs>,
    on_loss: OnLoss,
    dry_run: bool,
    out: Option<PathBuf>,
}

impl RecoverOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the broker stopped cleanly; by default as the log dir's marker says.
    pub fn clean(mut self, clean: bool) -> Self {
        self.clean = Some(clean);
        self
    }

    /// The first offset not known to be on the device, in every partition; by default as the checkpoint says.
    pub fn recovery_point(mut self, offset: Offset) -> Self {
        self.recovery_point = Some(offset);
        self
    }

    /// The first offset that a consumer may read, in every partition; by default as the checkpoint says.
    pub fn log_start_offset(mut self, offset: Offset) -> Self {
        self.log_start_offset = Some(offset);
        self
    }

    /// The topics' settings; only those of the indexes are used.
    pub fn config(mut self, config: LogConfig) -> Self {
        self.config = config;
        self
    }

    /// The time by which producers expire; by default the system's clock.
    pub fn now_ms(mut self, now_ms: TimestampMs) -> Self {
        self.now_ms = Some(now_ms);
        self
    }

    /// Sets the action if Kafka would not load the log, or would discard whole batches.
    pub fn on_loss(mut self, on_loss: OnLoss) -> Self {
        self.on_loss = on_loss;
        self
    }

    /// Reports what would be done and writes nothing.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Writes the result into this new directory and leaves the source unchanged.
    pub fn out(mut self, directory: impl Into<PathBuf>) -> Self {
        self.out = Some(directory.into());
        self
    }
}

/// Recovers a log dir or one partition folder, with the outcome of a broker's own start after a crash.
///
/// ```
/// # fn main() -> Result<(), kafkalog::Error> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/kill-9/data-1");
/// use kafkalog::{RecoverOptions, recover};
///
/// let report = recover(path, &RecoverOptions::new().dry_run(true))?;
/// for partition in &report.partitions {
///     println!("{}: {} bytes cut", partition.topic_partition, partition.bytes_cut());
///     for note in &partition.notes {
///         println!("  {note}");
///     }
/// }
/// # assert!(!report.partitions.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If a partition is refused ([`OnLoss`]), the error names all refused partitions, and nothing has changed.
/// [`Error::LogLocked`](crate::Error::LogLocked) if a broker or a writer holds the log dir;
/// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a directory for the result that lies inside the
/// source; [`Error::Io`](crate::Error::Io).
pub fn recover(path: impl AsRef<Path>, options: &RecoverOptions) -> Result<RecoveryReport> {
    let how = tool::RecoverySettings {
        clean: options.clean,
        recovery_point: options.recovery_point,
        log_start_offset: options.log_start_offset,
        config: options.config.clone().into_inner(),
        on_loss: options.on_loss,
        dry_run: options.dry_run,
        out: options.out.as_deref().map(absolute).transpose()?,
        ..tool::RecoverySettings::at(options.now_ms.unwrap_or_else(now_ms))
    };
    tool::recover(&absolute(path.as_ref())?, &how)
}
