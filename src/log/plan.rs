//! What is to be read: from paths, topics and bounds to files and positions.
//!
//! Planning lists folders and looks at file sizes. Bytes are read only where a bound falls inside a segment, or where a
//! bound is a timestamp: then headers, at places the indexes name and the log confirms.
//!
//! | start | is |
//! |---|---|
//! | earliest, -2 | the log start offset, as for a consumer |
//! | oldest | the first offset in the files, even below it |
//! | an offset | that one, or the log start offset if that is higher |
//! | a timestamp | Kafka's answer to `ListOffsets`; where there is none, nothing is read |
//!
//! | end | is |
//! |---|---|
//! | latest, -1 | the end of the files as they are now |
//! | high watermark | as checkpointed; 0 where the checkpoint does not name the partition |
//! | an offset | up to but without that one |
//! | a timestamp | up to but without Kafka's answer; where there is none, the end |
//!
//! Under `read_committed` the end is at most the last stable offset, and what was aborted below it is planned to be left
//! out ([`super::transactions`]).
//!
//! [`Pruning`] narrows what the bounds above give. It never asks for anything, so a partition without a record within it
//! has nothing to read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regex::Regex;

use super::dir::{DirState, LogDir, PartitionFolder, PathKind, dir_above};
use super::partition::PartitionLog;
use super::range::{PartitionRange, SegmentRange};
use super::transactions::Transactions;
use crate::error::{Error, Result};
use crate::format::file_name::{FolderState, INTERNAL_TOPIC_PREFIX};
use crate::segment::filter::{AbortedRange, TimestampBounds};
use crate::segment::lookup::SegmentLookup;
use crate::types::{Offset, TimestampMs, TopicPartition};

/// Kafka's number for the log start (`ListOffsetsRequest.EARLIEST_TIMESTAMP`).
pub const EARLIEST: Offset = -2;
/// Kafka's number for the log end (`ListOffsetsRequest.LATEST_TIMESTAMP`).
pub const LATEST: Offset = -1;
/// How often a folder is looked at while a broker exchanges files in it.
const LISTINGS: usize = 4;
/// How many names an error lists.
const NAMES_LISTED: usize = 20;

/// Which partitions of the topics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Partitions {
    /// All.
    #[default]
    All,
    /// These, of every topic.
    Numbers(BTreeSet<i32>),
    /// These; a topic that is not named has none.
    ByTopic(BTreeMap<String, BTreeSet<i32>>),
}

/// Offsets or timestamps by partition.
pub type ByPartition = BTreeMap<TopicPartition, i64>;

/// Where to begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Starting {
    /// At the log start offset.
    #[default]
    Earliest,
    /// At the first offset in the files.
    Oldest,
    /// At this offset, in every partition.
    Offset(Offset),
    /// At these offsets; partitions that are not named from the log start.
    Offsets(ByPartition),
}

/// Where to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ending {
    /// With the last whole batch.
    #[default]
    Latest,
    /// At the checkpointed high watermark.
    HighWatermark,
    /// Before this offset, in every partition.
    Offset(Offset),
    /// Before these offsets; partitions that are not named with the last whole batch.
    Offsets(ByPartition),
}

/// A bound by time; it takes the place of the bound by offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timestamp {
    /// For every partition.
    At(TimestampMs),
    /// For these; others keep their bound by offset.
    ByPartition(ByPartition),
}

impl Timestamp {
    fn of(bound: Option<&Self>, partition: &TopicPartition) -> Option<TimestampMs> {
        match bound? {
            Self::At(timestamp) => Some(*timestamp),
            Self::ByPartition(map) => map.get(partition).copied(),
        }
    }
}

/// Which records of transactions are read (`IsolationLevel`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsolationLevel {
    /// All, whatever became of their transactions.
    #[default]
    ReadUncommitted,
    /// Those of committed ones, and of none.
    ReadCommitted,
}

/// Bounds that every record has to be within, all of them inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruning {
    /// Smallest offset.
    pub min_offset: Option<Offset>,
    /// Largest offset.
    pub max_offset: Option<Offset>,
    /// Smallest and largest timestamp.
    pub timestamps: TimestampBounds,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// These topics, which must be there.
    pub topics: Option<BTreeSet<String>>,
    /// Topics whose whole name matches.
    pub topic_pattern: Option<String>,
    /// Which partitions of them.
    pub partitions: Partitions,
    /// Where to begin.
    pub starting_offsets: Starting,
    /// Where to end.
    pub ending_offsets: Ending,
    /// Where to begin, by time.
    pub starting_timestamp: Option<Timestamp>,
    /// Where to end, by time.
    pub ending_timestamp: Option<Timestamp>,
    /// Which records of transactions.
    pub isolation_level: IsolationLevel,
    /// Further bounds.
    pub pruning: Pruning,
    /// Also `-delete`, `-future` and `-stray` folders of a log dir.
    pub include_inactive: bool,
    /// Topics and partitions that are named and not there are passed over.
    pub allow_missing: bool,
}

/// Plans what to read of `paths`: log dirs, partition folders, `.log` files.
///
/// The ranges come by topic and partition. One without segments has nothing to read.
///
/// # Errors
/// `Io` where a path is not there; `InvalidArgument` for a topic or partition that is not there, or bounds that make no
/// sense; `DuplicatePartition` where two live folders hold the same partition; what is wrong with bytes that had to be read.
pub fn plan(paths: &[PathBuf], options: &PlanOptions) -> Result<Vec<PartitionRange>> {
    ask_all(paths, options, range_of)
}

/// An answer for each partition that the options choose, by topic and partition.
pub(super) fn ask_all<T>(
    paths: &[PathBuf],
    options: &PlanOptions,
    question: impl Fn(&PartitionLog, &PlanOptions) -> Result<T>,
) -> Result<Vec<T>> {
    let chooser = Chooser::new(options)?;
    let candidates = candidates(paths, options.include_inactive)?;
    let mut chosen: Vec<&Candidate> = candidates.iter().filter(|c| chooser.takes(c)).collect();
    chosen.sort_by(|a, b| (&a.folder, &a.files).cmp(&(&b.folder, &b.files)));
    no_duplicates(&chosen)?;
    if !options.allow_missing {
        chooser.miss_nothing(&candidates, &chosen)?;
        name_only_chosen(options, &chosen)?;
    }
    chosen
        .into_iter()
        .filter_map(|candidate| settled(candidate, |log| question(log, options)).transpose())
        .collect()
}

/// The answer of a folder that may change while it is looked at: files that went away between listing and looking send us
/// back to listing. `None` where the whole folder went away, unless it was named.
fn settled<T>(
    candidate: &Candidate,
    question: impl Fn(&PartitionLog) -> Result<T>,
) -> Result<Option<T>> {
    let mut tries = LISTINGS;
    loop {
        tries = tries.saturating_sub(1);
        match candidate.open().and_then(|log| question(&log)) {
            Err(Error::Io { source, .. }) if is_gone(&source) && !candidate.is_there() => {
                if !candidate.is_named {
                    return Ok(None);
                }
                return Err(Error::io(&candidate.folder.path)(source));
            }
            Err(Error::Io { source, .. }) if is_gone(&source) && tries > 0 => {}
            result => return result.map(Some),
        }
    }
}

fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

/// A partition folder that may be chosen, or some files of one.
#[derive(Debug)]
struct Candidate {
    folder: PartitionFolder,
    /// Files named by themselves; empty for the whole folder.
    files: Vec<PathBuf>,
    /// Named by path, not found in a log dir.
    is_named: bool,
    dir: Arc<DirState>,
}

impl Candidate {
    fn open(&self) -> Result<PartitionLog> {
        let PartitionFolder { name, path } = &self.folder;
        if self.files.is_empty() {
            PartitionLog::open_in(path, name.clone(), &self.dir)
        } else {
            PartitionLog::of_files(path, name.clone(), &self.files, &self.dir)
        }
    }

    fn is_there(&self) -> bool {
        self.folder.path.is_dir()
    }

    const fn partition(&self) -> &TopicPartition {
        &self.folder.name.topic_partition
    }
}

fn candidates(paths: &[PathBuf], include_inactive: bool) -> Result<Vec<Candidate>> {
    let mut found: Vec<Candidate> = Vec::new();
    let mut seen = BTreeSet::new();
    for path in paths {
        let kind = PathKind::of(path)?;
        // The same place twice is one place.
        if !seen.insert(path.canonicalize().map_err(Error::io(path))?) {
            continue;
        }
        match kind {
            PathKind::LogDir => {
                let dir = LogDir::open(path)?;
                let state = Arc::new(dir.state());
                let live =
                    |f: &&PartitionFolder| include_inactive || f.name.state == FolderState::Live;
                for folder in dir.folders().iter().filter(live) {
                    if seen.insert(folder.path.canonicalize().unwrap_or_default()) {
                        found.push(Candidate {
                            folder: folder.clone(),
                            files: Vec::new(),
                            is_named: false,
                            dir: Arc::clone(&state),
                        });
                    }
                }
            }
            PathKind::Partition(name) => found.push(Candidate {
                folder: PartitionFolder {
                    name,
                    path: path.clone(),
                },
                files: Vec::new(),
                is_named: true,
                dir: Arc::new(DirState::read(&dir_above(path))),
            }),
            PathKind::File => add_file(&mut found, path),
        }
    }
    Ok(found)
}

/// Files of one folder are read together.
fn add_file(found: &mut Vec<Candidate>, path: &Path) {
    let folder = dir_above(path);
    let together = |c: &&mut Candidate| !c.files.is_empty() && c.folder.path == folder;
    if let Some(candidate) = found.iter_mut().find(together) {
        candidate.files.push(path.to_path_buf());
        return;
    }
    let name = PathKind::name_of(&folder);
    found.push(Candidate {
        dir: Arc::new(DirState::read(&dir_above(&folder))),
        folder: PartitionFolder { name, path: folder },
        files: vec![path.to_path_buf()],
        is_named: true,
    });
}

/// Which candidates the options choose.
struct Chooser<'a> {
    options: &'a PlanOptions,
    pattern: Option<Regex>,
}

impl<'a> Chooser<'a> {
    fn new(options: &'a PlanOptions) -> Result<Self> {
        let compiled = options.topic_pattern.as_ref().map(|pattern| {
            // The whole name must match, as with Java's `Matcher.matches`.
            Regex::new(&format!("^(?:{pattern})$"))
                .map_err(|e| Error::InvalidArgument(format!("topic pattern {pattern:?}: {e}")))
        });
        Ok(Self {
            options,
            pattern: compiled.transpose()?,
        })
    }

    /// The topics that must be there.
    fn named(&self) -> BTreeSet<&str> {
        let listed = self.options.topics.iter().flatten().map(String::as_str);
        let by_topic = match &self.options.partitions {
            Partitions::ByTopic(map) => Some(map.keys().map(String::as_str)),
            _ => None,
        };
        listed.chain(by_topic.into_iter().flatten()).collect()
    }

    fn takes(&self, candidate: &Candidate) -> bool {
        let TopicPartition { topic, partition } = candidate.partition();
        let listed = self.options.topics.as_ref().map(|t| t.contains(topic));
        let matched = self.pattern.as_ref().map(|p| p.is_match(topic));
        let (by_topic, number) = match &self.options.partitions {
            Partitions::All => (None, true),
            Partitions::Numbers(numbers) => (None, numbers.contains(partition)),
            Partitions::ByTopic(map) => (
                Some(map.contains_key(topic)),
                map.get(topic).is_some_and(|n| n.contains(partition)),
            ),
        };
        let by_name = match (listed, matched) {
            (None, None) => {
                by_topic == Some(true)
                    || candidate.is_named
                    || !topic.starts_with(INTERNAL_TOPIC_PREFIX)
            }
            (listed, matched) => listed.unwrap_or(false) || matched.unwrap_or(false),
        };
        by_name && number
    }

    /// What was named must be there.
    fn miss_nothing(&self, candidates: &[Candidate], chosen: &[&Candidate]) -> Result<()> {
        let topics: BTreeSet<&str> = candidates
            .iter()
            .map(|c| c.partition().topic.as_str())
            .collect();
        if let Some(topic) = self.named().into_iter().find(|t| !topics.contains(t)) {
            let there = listed(topics.iter().map(ToString::to_string));
            let text = format!("topic {topic:?} is not there; there are: {there}");
            return Err(Error::InvalidArgument(text));
        }
        let partitions_there: BTreeSet<&TopicPartition> =
            chosen.iter().map(|c| c.partition()).collect();
        let numbers_there: BTreeSet<i32> = partitions_there.iter().map(|p| p.partition).collect();
        let missing = match &self.options.partitions {
            Partitions::All => None,
            Partitions::Numbers(numbers) => numbers
                .iter()
                .find(|n| !numbers_there.contains(n))
                .map(ToString::to_string),
            Partitions::ByTopic(map) => map
                .iter()
                .flat_map(|(topic, numbers)| {
                    numbers.iter().map(move |&n| TopicPartition::new(topic, n))
                })
                .find(|wanted| !partitions_there.contains(wanted))
                .map(|wanted| wanted.to_string()),
        };
        let Some(missing) = missing else {
            return Ok(());
        };
        let named = self.named();
        let there = candidates
            .iter()
            .filter(|c| named.is_empty() || named.contains(c.partition().topic.as_str()))
            .map(|c| c.partition().to_string());
        let text = format!(
            "partition {missing} is not there; there are: {}",
            listed(there)
        );
        Err(Error::InvalidArgument(text))
    }
}

fn listed(names: impl Iterator<Item = String>) -> String {
    let names: BTreeSet<String> = names.collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    let more = names.len().saturating_sub(NAMES_LISTED);
    let first: Vec<String> = names.into_iter().take(NAMES_LISTED).collect();
    match more {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

fn no_duplicates(chosen: &[&Candidate]) -> Result<()> {
    let mut seen: BTreeMap<&TopicPartition, &Path> = BTreeMap::new();
    for candidate in chosen {
        if candidate.folder.name.state != FolderState::Live {
            continue;
        }
        if let Some(first) = seen.insert(candidate.partition(), &candidate.folder.path) {
            return Err(Error::DuplicatePartition {
                partition: candidate.partition().to_string(),
                first: first.to_path_buf(),
                second: candidate.folder.path.clone(),
            });
        }
    }
    Ok(())
}

/// A bound for a partition that is not read is a mistake.
fn name_only_chosen(options: &PlanOptions, chosen: &[&Candidate]) -> Result<()> {
    let starting = match &options.starting_offsets {
        Starting::Offsets(map) => Some(("starting offsets", map)),
        _ => None,
    };
    let ending = match &options.ending_offsets {
        Ending::Offsets(map) => Some(("ending offsets", map)),
        _ => None,
    };
    let by_time = |what, bound: &'_ Option<Timestamp>| match bound {
        Some(Timestamp::ByPartition(map)) => Some((what, map.clone())),
        _ => None,
    };
    let times = [
        by_time("starting timestamps", &options.starting_timestamp),
        by_time("ending timestamps", &options.ending_timestamp),
    ];
    let times = times.iter().flatten().map(|(what, map)| (*what, map));
    let there: BTreeSet<&TopicPartition> = chosen.iter().map(|c| c.partition()).collect();
    for (what, map) in starting.into_iter().chain(ending).chain(times) {
        if let Some(wrong) = map.keys().find(|named| !there.contains(named)) {
            let there = listed(there.iter().map(ToString::to_string));
            let text = format!("{what} name {wrong}, which is not read; there are: {there}");
            return Err(Error::InvalidArgument(text));
        }
    }
    Ok(())
}

/// An offset as given: Kafka's numbers for the ends stand, other negative ones make no sense.
fn checked(offset: Offset) -> Result<Offset> {
    if offset < EARLIEST {
        let text = format!("offset {offset}: expected 0 or more, -1 (latest) or -2 (earliest)");
        return Err(Error::InvalidArgument(text));
    }
    Ok(offset)
}

/// Where to begin; `None` where nothing is to be read.
fn start_of(log: &PartitionLog, options: &PlanOptions) -> Result<Option<Offset>> {
    let partition = &log.name().topic_partition;
    if let Some(timestamp) = Timestamp::of(options.starting_timestamp.as_ref(), partition) {
        let found = log.offset_for_timestamp(timestamp, false)?;
        return Ok(found.map(|found| found.offset));
    }
    let offset = match &options.starting_offsets {
        Starting::Earliest => EARLIEST,
        Starting::Oldest => {
            return Ok(log.segments().first().map(|first| first.base_offset));
        }
        Starting::Offset(offset) => *offset,
        Starting::Offsets(map) => map.get(partition).copied().unwrap_or(EARLIEST),
    };
    Ok(match checked(offset)? {
        LATEST => None,
        offset => Some(offset.max(log.log_start_offset())),
    })
}

/// Where to end; `None` for the end of the files.
pub(super) fn end_of(log: &PartitionLog, options: &PlanOptions) -> Result<Option<Offset>> {
    let partition = &log.name().topic_partition;
    if let Some(timestamp) = Timestamp::of(options.ending_timestamp.as_ref(), partition) {
        let found = log.offset_for_timestamp(timestamp, false)?;
        return Ok(found.map(|found| found.offset));
    }
    let offset = match &options.ending_offsets {
        Ending::Latest => LATEST,
        Ending::HighWatermark => {
            return match log.high_watermark() {
                Some(offset) => Ok(Some(offset)),
                None if log.has_high_watermarks() => Ok(Some(0)),
                None => Err(Error::InvalidArgument(format!(
                    "{}: no high watermark, as the log dir above has no {}",
                    log.path().display(),
                    super::dir::REPLICATION
                ))),
            };
        }
        Ending::Offset(offset) => *offset,
        Ending::Offsets(map) => map.get(partition).copied().unwrap_or(LATEST),
    };
    Ok(match checked(offset)? {
        LATEST => None,
        EARLIEST => Some(log.log_start_offset()),
        offset => Some(offset),
    })
}

/// Where to end, and under `read_committed` no further than all is decided; `None` for the end of the files.
pub(super) fn stable_end_of(
    log: &PartitionLog,
    options: &PlanOptions,
    transactions: Option<&mut Transactions<'_>>,
) -> Result<Option<Offset>> {
    let end = end_of(log, options)?;
    let Some(transactions) = transactions else {
        return Ok(end);
    };
    let partition = &log.name().topic_partition;
    let by_time = Timestamp::of(options.ending_timestamp.as_ref(), partition).is_some();
    let is_high_watermark = !by_time && options.ending_offsets == Ending::HighWatermark;
    let stable = transactions.last_stable_offset(end.filter(|_| is_high_watermark))?;
    Ok(Some(end.map_or(stable, |end| end.min(stable))))
}

/// The transactions of a log, where they matter.
pub(super) fn transactions_of<'a>(
    log: &'a PartitionLog,
    options: &PlanOptions,
) -> Result<Option<Transactions<'a>>> {
    match options.isolation_level {
        IsolationLevel::ReadUncommitted => Ok(None),
        IsolationLevel::ReadCommitted => Transactions::of(log.whole()).map(Some),
    }
}

fn range_of(log: &PartitionLog, options: &PlanOptions) -> Result<PartitionRange> {
    let Pruning {
        min_offset,
        max_offset,
        timestamps,
    } = options.pruning;
    let start = start_of(log, options)?.map(|start| min_offset.map_or(start, |min| min.max(start)));
    let mut transactions = match start {
        Some(_) => transactions_of(log, options)?,
        None => None,
    };
    let end = stable_end_of(log, options, transactions.as_mut())?;
    let behind = max_offset.map(|max| max.saturating_add(1));
    let end = end.into_iter().chain(behind).min();
    let start_offset = start.unwrap_or(Offset::MAX);
    let aborted = transactions
        .map(|mut t| t.aborted(start_offset, end.unwrap_or(Offset::MAX)))
        .transpose()?;
    let mut segments = Vec::new();
    for (n, segment) in log.segments().iter().enumerate() {
        let lies_below = segment
            .next_base_offset
            .is_some_and(|next| next <= start_offset);
        let lies_above = end.is_some_and(|end| segment.base_offset >= end || start_offset >= end);
        if start.is_none() || lies_below || lies_above {
            continue;
        }
        if let Some(min) = timestamps.min
            && SegmentLookup::open(segment)?.ends_before(min)?
        {
            continue;
        }
        let reaches_in = |range: &&AbortedRange| {
            range.last_offset >= segment.base_offset
                && segment
                    .next_base_offset
                    .is_none_or(|next| range.first_offset < next)
        };
        segments.push(SegmentRange {
            base_offset: segment.base_offset,
            file_name: segment.file_name.clone(),
            size: segment.size,
            is_active: segment.is_active,
            start_position: log.start_position(n, start_offset)?,
            next_base_offset: segment.next_base_offset,
            aborted: aborted
                .as_ref()
                .map(|all| all.iter().filter(reaches_in).copied().collect()),
            start_offset: segment.base_offset,
            end: None,
        });
    }
    let TopicPartition { topic, partition } = log.name().topic_partition.clone();
    Ok(PartitionRange {
        folder: log.path().to_path_buf(),
        topic,
        partition,
        start_offset: start.unwrap_or_else(|| log.log_start_offset()),
        end_offset: end,
        timestamps,
        segments,
    })
}
