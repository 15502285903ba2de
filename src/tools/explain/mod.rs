//! Reasons why each segment still exists, and until when: the effect of retention and compaction at a given time.
//!
//! | module | what |
//! |---|---|
//! | here | the verdict of retention, by the one rule of [`crate::log::retention`] |
//! | [`compaction`] | the verdict of compaction, by that of [`crate::log::cleanable`] |
//! | [`rolled`] | the reason why the segment was ended (`LogSegment.shouldRoll`) |
//! | [`table`] | the rows |
//! | [`usage`], [`kinds`] | other disk usage, and how it is removed |
//!
//! Nothing is written or locked; files that a running broker replaces meanwhile are listed again.

mod compaction;
mod kinds;
mod rolled;
pub(crate) mod table;
pub(crate) mod usage;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use self::compaction::{CleanerState, Range};
use crate::error::{Error, Result};
use crate::format::checkpoint::parse_offsets;
use crate::format::file_name::{CLUSTER_METADATA_TOPIC, FileName, FileState, FolderState};
use crate::io::folder::is_folder;
use crate::io::interrupt;
use crate::io::overlay::Overlay;
use crate::log::cleanable::CleanerBound;
use crate::log::config::LogConfig;
use crate::log::dir::{
    CLEANER, DirState, LogDir, PartitionFolder, PartitionOffsets, PathKind, dir_above, read_parsed,
};
use crate::log::listed::ListedLog;
use crate::log::partition::PartitionLog;
use crate::log::retention::{RetainedLog, Rule, SegmentAge, expired};
use crate::segment::LogSegment;
use crate::segment::lookup::SegmentLookup;
use crate::segment::skipping::OnCorrupt;
use crate::segment::writer::{SegmentSettings, WritableSegment};
use crate::types::{Offset, SECONDS, TimestampMs, TopicPartition, wrong_unit};

/// Settings and time of an explanation.
#[derive(Clone, Debug)]
pub(crate) struct ExplainOptions {
    /// The settings of topics that are not in `topics`.
    pub config: LogConfig,
    /// The settings of topics, by name.
    pub topics: BTreeMap<String, LogConfig>,
    /// The clock.
    pub now_ms: TimestampMs,
}

/// Reason why retention does not delete a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// Its own largest timestamp.
    Age,
    /// A segment before it has to stay.
    OlderSegment,
    /// It reaches above the high watermark.
    HighWatermark,
    /// It is the active segment, and empty.
    Active,
    /// Only `retention.bytes` is set, and not reached.
    Size,
    /// Neither limit is set.
    Unlimited,
    /// `cleanup.policy` has no `delete`.
    CleanupPolicy,
    /// Nothing is deleted before it was uploaded, which its files do not show.
    TieredStorage,
}

impl Hold {
    const fn name(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::OlderSegment => "older_segment",
            Self::HighWatermark => "high_watermark",
            Self::Active => "active",
            Self::Size => "size",
            Self::Unlimited => "unlimited",
            Self::CleanupPolicy => "cleanup_policy",
            Self::TieredStorage => "tiered_storage",
        }
    }
}

/// Decision of retention about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retention {
    /// Deleted now.
    Deletable(Rule),
    /// Deleted at this time, if nothing is appended; the segment of this number retains it.
    Waiting(TimestampMs, Hold, usize),
    /// Retained as far as is known.
    Kept(Hold),
}

/// The record that holds a segment.
#[derive(Clone, Copy, Debug)]
struct Pin {
    offset: Offset,
    timestamp: Option<TimestampMs>,
    producer_id: Option<i64>,
    reason: &'static str,
}

/// Facts about one segment.
#[derive(Clone, Debug)]
pub(crate) struct SegmentRow {
    topic_partition: TopicPartition,
    file_name: String,
    is_active: bool,
    age: SegmentAge,
    /// Source of the largest timestamp.
    source: &'static str,
    retention: Retention,
    /// `None` where the topic is not compacted.
    compaction: Option<(&'static str, Option<CleanerBound>)>,
    /// Likewise.
    cleaner: Option<CleanerState>,
    pin: Option<Pin>,
    /// `None` of the active segment.
    rolled_by: Option<&'static str>,
}

/// Explains every live partition of a log dir but the metadata log, or one partition: a row for each segment, and what
/// is wrong with those partitions that cannot be read.
///
/// # Errors
/// `Io` for a path that does not exist, `InvalidArgument` for one that holds no logs.
pub(crate) fn explain(
    path: &Path,
    options: &ExplainOptions,
) -> Result<(Vec<SegmentRow>, Vec<Error>)> {
    let folders = match PathKind::of(path)? {
        PathKind::Partition(name) => vec![PartitionFolder {
            name,
            path: path.to_path_buf(),
        }],
        PathKind::LogDir => {
            let dir = LogDir::open(path)?;
            let counts = |folder: &&PartitionFolder| {
                folder.name.state == FolderState::Live
                    && folder.name.topic_partition.topic != CLUSTER_METADATA_TOPIC
            };
            dir.folders().iter().filter(counts).cloned().collect()
        }
        PathKind::File => {
            let text = format!("{}: not a log dir or partition folder", path.display());
            return Err(Error::InvalidArgument(text));
        }
    };
    let (mut rows, mut unread) = (Vec::new(), Vec::new());
    let Some(first) = folders.first() else {
        return Ok((rows, unread));
    };
    let config_of = |folder: &PartitionFolder| {
        let topic = &folder.name.topic_partition.topic;
        options.topics.get(topic).unwrap_or(&options.config)
    };
    let compacts = |folder| config_of(folder).cleanup_policy.compact;
    let log_dir = dir_above(&first.path);
    let checkpoints = KnownOffsets {
        state: DirState::read(&log_dir),
        cleaned: if folders.iter().any(compacts) {
            read_parsed(&log_dir.join(CLEANER), parse_offsets)?.unwrap_or_default()
        } else {
            PartitionOffsets::default()
        },
    };
    for folder in &folders {
        interrupt::check()?;
        match explain_partition(folder, &checkpoints, config_of(folder), options.now_ms) {
            Ok(found) => rows.extend(found),
            // A broker has deleted it since it was listed.
            Err(Error::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound && !is_folder(&folder.path) => {}
            Err(error) if error.is_of_the_files() => unread.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok((rows, unread))
}

/// Checkpoints of a log dir, read once.
struct KnownOffsets {
    state: DirState,
    /// First offsets not yet compacted; read where a topic is compacted.
    cleaned: PartitionOffsets,
}

fn explain_partition(
    folder: &PartitionFolder,
    checkpoints: &KnownOffsets,
    config: &LogConfig,
    now_ms: TimestampMs,
) -> Result<Vec<SegmentRow>> {
    let log = PartitionLog::open_in(&folder.path, &checkpoints.state)?;
    let open = if config.cleanup_policy.compact {
        compaction::open_transaction(folder, &checkpoints.state)?
    } else {
        None
    };
    let cleaned = checkpoints
        .cleaned
        .get(&folder.name.topic_partition)
        .copied();
    log.with_fresh_listing(|log| {
        // Damage is not reported here.
        let log = &log.clone().on_corrupt(OnCorrupt::Skip);
        let ages = ages(log, config)?;
        let end = log.log_end_offset()?;
        let start = log.log_start_offset();
        let ends = RetainedLog {
            log_start_offset: start,
            high_watermark: log.high_watermark().unwrap_or(end).clamp(start, end),
            log_end_offset: end,
        };
        let first = rolled::first_batches(log)?;
        let compaction = Range::of(cleaned, config, &ends, &ages, open, now_ms)?;
        let cleaning = compaction
            .as_ref()
            .map(|range| range.cleaner(&ages, &first, config, now_ms));
        let verdicts = verdicts(&ages, config, &ends, now_ms);
        let rolled = rolled::reasons(log, &first, config);
        let mut rows = Vec::new();
        for (n, segment) in log.segments().iter().enumerate() {
            let (Some(&age), Some(&retention)) = (ages.get(n), verdicts.get(n)) else {
                continue;
            };
            let compaction = compaction.as_ref().map(|range| range.verdict(n));
            let held = match retention {
                Retention::Waiting(_, _, holder) => pinned(log, &ages, holder, now_ms),
                // A wrong unit is why it goes.
                Retention::Deletable(Rule::Time) => {
                    let pin = pinned(log, &ages, n, now_ms);
                    pin.filter(|pin| pin.reason == SECONDS)
                }
                _ => None,
            };
            let by_transaction = || {
                let (_, by) = compaction?;
                (by? == CleanerBound::OpenTransaction).then_some(open?.pin())
            };
            rows.push(SegmentRow {
                topic_partition: folder.name.topic_partition.clone(),
                file_name: segment.file_name.clone(),
                is_active: segment.is_active,
                source: match (age.is_from_mtime, log.is_trusted(n)) {
                    (true, _) => "mtime",
                    (false, true) => "index",
                    (false, false) => "log",
                },
                age,
                retention,
                compaction,
                cleaner: cleaning,
                pin: held.or_else(by_transaction),
                rolled_by: rolled.get(n).copied().flatten(),
            });
        }
        Ok(rows)
    })
}

/// Ages of the segments as a broker has them after loading the log: the last entry of the time index, even if it is
/// wrong; for a segment that is to be recovered, its batches.
fn ages(log: &ListedLog, config: &LogConfig) -> Result<Vec<SegmentAge>> {
    let folder = Overlay::new(log.folder().clone())?;
    let settings = SegmentSettings {
        initial_length: 0,
        ..config.segment_settings()
    };
    let age = |(n, segment): (usize, &LogSegment)| {
        let is_live =
            FileName::parse(&segment.file_name).is_some_and(|name| name.state == FileState::Live);
        let largest = if is_live && log.is_trusted(n) {
            let base_offset = segment.base_offset;
            let mut loaded = WritableSegment::open(&folder, base_offset, settings, 0)?;
            loaded.max_timestamp()?.timestamp
        } else {
            log.max_timestamp_of(n)?
        };
        Ok(SegmentAge {
            base_offset: segment.base_offset,
            size: segment.size,
            largest_timestamp: if largest >= 0 {
                largest
            } else {
                segment.modified_ms
            },
            is_from_mtime: largest < 0,
        })
    };
    log.segments().iter().enumerate().map(age).collect()
}

/// Decides for each segment what retention does.
fn verdicts(
    ages: &[SegmentAge],
    config: &LogConfig,
    log: &RetainedLog,
    now_ms: TimestampMs,
) -> Vec<Retention> {
    if config.remote_storage_enable {
        return vec![Retention::Kept(Hold::TieredStorage); ages.len()];
    }
    let rules = expired(ages, config, log, now_ms);
    // The segment that all after it wait for, and when it goes; `None` once one never goes.
    let mut waiting: Option<(TimestampMs, usize)> = Some((TimestampMs::MIN, 0));
    let mut verdict = |(n, age): (usize, &SegmentAge)| {
        if let Some(&rule) = rules.get(n) {
            return Retention::Deletable(rule);
        }
        let next = ages.get(n.saturating_add(1));
        let end = next.map_or(log.log_end_offset, |next| next.base_offset);
        if !config.cleanup_policy.delete {
            return Retention::Kept(Hold::CleanupPolicy);
        }
        if config.retention_ms < 0 {
            return Retention::Kept(if config.retention_bytes < 0 {
                Hold::Unlimited
            } else {
                Hold::Size
            });
        }
        let Some((time, holder)) = waiting else {
            return Retention::Kept(Hold::OlderSegment);
        };
        if next.is_none() && age.size == 0 {
            return Retention::Kept(Hold::Active);
        }
        if log.high_watermark < end {
            waiting = None;
            return Retention::Kept(Hold::HighWatermark);
        }
        let due = age.largest_timestamp.saturating_add(config.retention_ms);
        let due = due.saturating_add(1);
        let (time, holder) = if due >= time {
            (due, n)
        } else {
            (time, holder)
        };
        waiting = Some((time, holder));
        let hold = if holder == n {
            Hold::Age
        } else {
            Hold::OlderSegment
        };
        Retention::Waiting(time, hold, holder)
    };
    ages.iter().enumerate().map(&mut verdict).collect()
}

/// The record with the largest timestamp of segment `n`, and the oddity of its timestamp. Damage on the way is ignored
/// here.
fn pinned(log: &ListedLog, ages: &[SegmentAge], n: usize, now_ms: TimestampMs) -> Option<Pin> {
    let (age, segment) = (ages.get(n)?, log.segments().get(n)?);
    if age.is_from_mtime {
        return None;
    }
    let largest = age.largest_timestamp;
    let mut lookup = SegmentLookup::open(segment).ok()?;
    let found = lookup.record_for_timestamp(largest, Offset::MIN, true);
    let found = found.ok().flatten()?;
    Some(Pin {
        offset: found.offset,
        timestamp: Some(found.timestamp),
        producer_id: None,
        reason: oddness(largest, now_ms),
    })
}

/// Describes what a timestamp reveals about its producer.
fn oddness(timestamp: TimestampMs, now_ms: TimestampMs) -> &'static str {
    let is_past = timestamp <= now_ms;
    wrong_unit(timestamp, now_ms).unwrap_or(if is_past { "young" } else { "future_timestamp" })
}
