//! Indexes, transaction indexes and producer snapshots rebuilt from a partition's batches, as a broker of a given
//! version makes them when it recovers a log.
//!
//! | version | difference |
//! |---|---|
//! | below 0.10.1 | no time indexes (KIP-33) |
//! | below 0.11 | no transaction indexes, no snapshots (KIP-98) |
//! | below 2.0 | entries of the offset index name their batch's first offset, from 2.0 on its last |
//!
//! The `.log` files are not changed: a damaged one is refused, because recovery would truncate it.

use std::fmt;
use std::path::{Path, PathBuf};

use super::recover::output::{Output, check_out};
use super::recover::report::PartitionReport;
use super::recover::{claim, refusal};
use crate::error::{Error, Result};
use crate::format::file_name::FileKind;
use crate::io::disk::Disk;
use crate::io::interrupt;
use crate::load::{EntryOffset, LoadRequest, Note, plan_rebuild};
use crate::log::config::LogConfig;
use crate::log::dir::{DirState, PartitionFolder, PathKind, dir_above};
use crate::types::TimestampMs;

/// A Kafka version, as far as it matters for indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u32, u32, u32);

impl Level {
    /// The newest.
    pub const LATEST: Self = Self(4, 4, 0);
    /// Magic 1 (KIP-32).
    pub(super) const MAGIC_1: Self = Self(0, 10, 0);
    const TIME_INDEX: Self = Self(0, 10, 1);
    /// Magic 2, transactions (KIP-98).
    pub(super) const TRANSACTIONS: Self = Self(0, 11, 0);
    /// KIP-110.
    pub(super) const ZSTD: Self = Self(2, 1, 0);
    /// KIP-534.
    pub(super) const DELETE_HORIZON: Self = Self(3, 1, 0);
    const LAST_OFFSETS: Self = Self(2, 0, 0);

    /// Reads `4.3`, `0.10.1` or the like.
    ///
    /// # Errors
    /// `InvalidArgument` for anything else, or a version that is not out yet.
    pub fn parse(text: &str) -> Result<Self> {
        let mut numbers = text.split('.').map(str::parse::<u32>);
        let mut next = || numbers.next().transpose();
        let level = match (next(), next(), next(), next()) {
            (Ok(Some(major)), Ok(minor), Ok(patch), Ok(None)) => {
                Some(Self(major, minor.unwrap_or(0), patch.unwrap_or(0)))
            }
            _ => None,
        };
        let known = |level: &Self| (level.0, level.1) <= (Self::LATEST.0, Self::LATEST.1);
        level.filter(known).ok_or_else(|| {
            let text = format!("Kafka version {text:?}: expected one up to 4.4, as \"4.3\"");
            Error::InvalidArgument(text)
        })
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(major, minor, patch) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// Options of rebuilding.
#[derive(Clone, Debug)]
pub struct RebuildOptions {
    /// As a broker of this version.
    pub level: Level,
    /// Topic settings: those of the indexes count.
    pub config: LogConfig,
    /// The clock.
    pub now_ms: TimestampMs,
    /// Report only.
    pub dry_run: bool,
    /// A directory to be made, for the whole partition folder; the source stays as it is. `None`: in place.
    pub out: Option<PathBuf>,
    /// The writing side of the file system.
    pub disk: Disk,
}

impl RebuildOptions {
    /// As the newest broker, at this time.
    #[must_use]
    pub fn at(now_ms: TimestampMs) -> Self {
        Self {
            level: Level::LATEST,
            config: LogConfig::default(),
            now_ms,
            dry_run: false,
            out: None,
            disk: Disk::default(),
        }
    }
}

/// Rebuilds the indexes of the partition folder `path`.
///
/// # Errors
/// `CorruptRecord` for a log that recovery would cut, and whatever else keeps Kafka from loading it; nothing has been
/// changed then. `InvalidArgument` for what is no partition folder, `Io`; `Interrupted` as recovering is.
pub fn rebuild_indexes(path: &Path, options: &RebuildOptions) -> Result<PartitionReport> {
    let name = PathKind::partition(path)?;
    if let Some(out) = &options.out {
        check_out(path, out)?;
    }
    let partition = PartitionFolder {
        name,
        path: path.to_path_buf(),
    };
    let log_dir = dir_above(path);
    let log_starts = DirState::read(&log_dir).log_starts;
    let log_start = log_starts.get(&partition.name.topic_partition).copied();
    let request = LoadRequest {
        clean: false,
        recovery_point: 0,
        log_start_offset: log_start.unwrap_or_default(),
        now_ms: options.now_ms,
        // All producers in the log, however old.
        producer_id_expiration_ms: i64::MAX,
    };
    let in_place = options.out.is_none() && !options.dry_run;
    let _lock = if in_place {
        Some(claim(&log_dir, std::slice::from_ref(&partition))?)
    } else {
        None
    };
    let entry = if options.level < Level::LAST_OFFSETS {
        EntryOffset::First
    } else {
        EntryOffset::Last
    };
    let mut plan = plan_rebuild(path, &options.config, request, entry)?;
    interrupt::check()?;
    if !plan.losses.is_empty() {
        plan = plan.loaded()?;
    }
    if let Err(error) = plan.outcome {
        return Err(refusal(error));
    }
    if let Some(note) = plan.notes.iter().find(|note| cuts(note)) {
        let expected = "whole batches; recover cuts the log, or salvages it";
        return Err(Error::corrupt("log", 0, expected, note).at(path));
    }
    plan.close()?;
    plan.unlink_deleted();
    if options.level < Level::TIME_INDEX {
        plan.remove_all(FileKind::TimeIndex);
    }
    if options.level < Level::TRANSACTIONS {
        plan.remove_all(FileKind::TxnIndex);
        plan.remove_all(FileKind::Snapshot);
    }
    if !options.dry_run {
        match &options.out {
            None => interrupt::with_cancellation(|| false, || plan.apply(&options.disk))?,
            Some(out) => {
                let output = Output::begin(path, out, &options.disk, false)?;
                plan.write_to(output.disk(), out)?;
                output.finish()?;
            }
        }
    }
    PartitionReport::of(&partition, request, &plan)
}

/// Returns whether the `.log` files would not stay as they are.
const fn cuts(note: &Note) -> bool {
    match note {
        Note::Recovered { truncated, .. } => *truncated > 0,
        Note::Swapped { .. } | Note::IndexFull { .. } | Note::OutOfOrder { .. } => false,
        _ => true,
    }
}
