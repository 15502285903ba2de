//! Planning: from paths, topics and bounds to files and positions.
//!
//! Planning lists folders and file sizes. Bytes are read only if a bound falls inside a segment, or is a timestamp:
//! then headers, at places that the indexes name and the log confirms.
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
//! Under `read_committed` the end is at most the last stable offset, and records aborted below it are planned to be
//! left out ([`super::transactions`]).
//!
//! [`Pruning`] narrows what the bounds above give. It requires nothing: a partition without a record within it has
//! nothing to read.
//!
//! | module | what |
//! |---|---|
//! | `options` | the options of a plan |
//! | `candidate` | the partition folders that paths lead to |
//! | `chooser` | the selection of some of them |
//! | `ends` | start and end of reading one |

use std::collections::BTreeSet;
use std::path::PathBuf;

use self::candidate::{Candidate, candidates};
use self::chooser::{Chooser, name_only_chosen, no_duplicates};
use self::ends::start_of;
use super::range::{PartitionRange, SegmentRange};
use crate::error::{Error, Result};
use crate::io::storage::Folder;
use crate::log::listed::ListedLog;
use crate::segment::filter::AbortedRange;
use crate::segment::lookup::SegmentLookup;
use crate::types::{Offset, TopicPartition};

mod candidate;
mod chooser;
mod ends;
mod options;
#[cfg(test)]
mod tests;

pub(super) use self::ends::{stable_end_of, transactions_of};
#[cfg(feature = "python")]
pub(crate) use self::options::ByPartition;
pub use self::options::{
    Ending, IsolationLevel, Partitions, PlanOptions, Pruning, Starting, Timestamp,
};

/// Number of times that a folder is listed while a broker exchanges files in it.
const LISTINGS: usize = 4;

/// Plans what to read of `paths`: log dirs, partition folders, `.log` files.
///
/// The ranges come by topic and partition. One without segments has nothing to read.
///
/// # Errors
/// `Io` for a path that does not exist; `UnknownTopicOrPartition`; `InvalidArgument` for bounds that make no sense;
/// `DuplicatePartition` where two live folders hold the same partition; faults in bytes that had to be read.
pub fn plan_scan(paths: &[PathBuf], options: &PlanOptions) -> Result<Vec<PartitionRange>> {
    query_each(paths, options, range_of)
}

/// An answer for each partition that the options choose, by topic and partition.
pub(super) fn query_each<T>(
    paths: &[PathBuf],
    options: &PlanOptions,
    question: impl Fn(&ListedLog, &PlanOptions) -> Result<T>,
) -> Result<Vec<T>> {
    let roots: Vec<Folder> = paths.iter().map(Folder::from).collect();
    ask_folders(&roots, options, question)
}

/// As [`query_each`], in any storage.
pub(super) fn ask_folders<T>(
    roots: &[Folder],
    options: &PlanOptions,
    question: impl Fn(&ListedLog, &PlanOptions) -> Result<T>,
) -> Result<Vec<T>> {
    let chooser = Chooser::new(options)?;
    let narrowed: Vec<Folder> = roots
        .iter()
        .map(|root| narrowed(root, options).unwrap_or_else(|| root.clone()))
        .collect();
    let candidates = candidates(&narrowed, options.include_inactive)?;
    let mut chosen: Vec<&Candidate> = candidates.iter().filter(|c| chooser.takes(c)).collect();
    // Files of a folder that is read anyway add nothing.
    let whole: BTreeSet<&PathBuf> = chosen
        .iter()
        .filter(|c| c.files.is_empty())
        .map(|c| &c.place)
        .collect();
    chosen.retain(|c| c.files.is_empty() || !whole.contains(&c.place));
    chosen.sort_by(|a, b| a.order().cmp(&b.order()));
    no_duplicates(&chosen)?;
    if !options.allow_missing {
        chooser.check_named_exist(&candidates, &chosen, roots)?;
        name_only_chosen(options, &chosen)?;
    }
    chosen
        .into_iter()
        .filter_map(|candidate| {
            settled(candidate, options, |log| question(log, options)).transpose()
        })
        .collect()
}

/// A root in which only the named topics need to be listed.
fn narrowed(root: &Folder, options: &PlanOptions) -> Option<Folder> {
    root.narrowed(options.topics.as_ref()?)
}

/// The answer of a folder that may change at the same time: if a listed file is gone, the folder is listed again.
/// `None` if the whole folder is gone, unless it was named.
fn settled<T>(
    candidate: &Candidate,
    options: &PlanOptions,
    question: impl Fn(&ListedLog) -> Result<T>,
) -> Result<Option<T>> {
    let mut tries = LISTINGS;
    loop {
        tries = tries.saturating_sub(1);
        let log = candidate
            .open()
            .map(|log| log.on_corrupt(options.on_corrupt));
        let log = match options.starting_offsets {
            Starting::Oldest => log.map(ListedLog::starting_oldest),
            _ => log,
        };
        match log.and_then(|log| question(&log)) {
            Err(Error::Io { source, .. }) if is_gone(&source) && !candidate.is_there() => {
                if !candidate.is_named {
                    return Ok(None);
                }
                return Err(Error::io(candidate.folder.path())(source));
            }
            Err(Error::Io { source, .. }) if is_gone(&source) && tries > 0 => {}
            result => return result.map(Some),
        }
    }
}

fn is_gone(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound
}

fn range_of(log: &ListedLog, options: &PlanOptions) -> Result<PartitionRange> {
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
    let after = max_offset.map(|max| max.saturating_add(1));
    let end = end.into_iter().chain(after).min();
    let start_offset = start.unwrap_or(Offset::MAX);
    let aborted = transactions
        .as_mut()
        .map(|t| t.aborted(start_offset, end.unwrap_or(Offset::MAX)))
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
        let mut start_position = log.start_position(n, start_offset)?;
        if let Some(min) = timestamps.min {
            let mut lookup = SegmentLookup::open(segment)?;
            if lookup.ends_before(min)? {
                continue;
            }
            start_position = start_position.max(lookup.start_of_times(min)?);
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
            start_position,
            next_base_offset: segment.next_base_offset,
            aborted: aborted
                .as_ref()
                .map(|all| all.iter().filter(reaches_in).copied().collect()),
            start_offset: segment.base_offset,
            end: None,
            version: log.folder().version(&segment.file_name)?,
            map: transactions
                .as_ref()
                .map(|t| t.map_of(segment))
                .unwrap_or_default(),
        });
    }
    let TopicPartition { topic, partition } = log.name().topic_partition.clone();
    Ok(PartitionRange {
        folder: log.folder().clone(),
        topic,
        partition,
        start_offset: start.unwrap_or_else(|| log.log_start_offset()),
        end_offset: end,
        timestamps,
        chosen: None,
        segments,
    })
}
