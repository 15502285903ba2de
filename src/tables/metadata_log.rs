//! Selection of the snapshot from which a metadata log is replayed: the newest intact one after whose end the log is
//! intact too.
//!
//! | the log | Kafka | here |
//! |---|---|---|
//! | is damaged below a whole snapshot | starts from the snapshot | the same; the damage is named |
//! | is whole, its newest snapshot is not | does not start | an older snapshot and the log after it, which hold the same |
//! | begins after the end of every snapshot | does not start (`KafkaMetadataLog`, KAFKA-14240) | a [`Gap`] |
//! | is damaged after every whole snapshot | ends there | a [`Gap`] |
//!
//! Offsets of a metadata log follow each other: it is never compacted, and control records count. A torn batch at its
//! end is cut off by recovery, and was never committed. Batches lost from the end leave no trace, unless another file
//! shows that they existed ([`super::metadata_end`]).

use std::cmp::Reverse;
use std::path::{Path, PathBuf};

use super::entries::{RawRecord, TableRecords};
use super::metadata_end::{Passed, shown_beyond};
use super::metadata_state::MetadataState;
use super::plan::{BOOTSTRAP, plan, snapshot_id};
use super::topic::Topic;
use crate::error::{Error, Result};
use crate::format::control::ControlType;
use crate::format::file_name::CLUSTER_METADATA_TOPIC;
use crate::io::folder::is_folder;
use crate::log::dir::PathKind;
use crate::scan::lost::LostRange;
use crate::scan::range::PartitionRange;
use crate::segment::reader::ReadOptions;
use crate::segment::resync::Reason;
use crate::segment::skipping::OnCorrupt;
use crate::types::{Offset, Position};

/// Options for reading the chosen ranges: their offsets are known to follow each other where they have to.
pub(crate) fn reading() -> ReadOptions {
    ReadOptions {
        on_corrupt: OnCorrupt::Skip,
        ..ReadOptions::default()
    }
}

/// Changes that neither a whole snapshot nor the log has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The position at which the log continues, or is damaged.
    pub(crate) file: PathBuf,
    position: Option<Position>,
    /// The first offset that is missing.
    pub(crate) first: Offset,
    /// The offset with which the log continues, if it does.
    end: Option<Offset>,
    reason: String,
}

impl Gap {
    /// Returns whether a snapshot up to an offset has the missing changes; if no batch follows, it has everything that
    /// was ever committed.
    fn is_covered_by(&self, known: Offset) -> bool {
        self.end.map_or(known > self.first, |end| known >= end)
    }

    fn passed(&self) -> Passed {
        Passed {
            file: self.file.clone(),
            why: format!("{}; a later snapshot has the changes", self.reason),
        }
    }

    /// Describes the missing changes and the reason.
    pub(crate) fn message(&self) -> String {
        let Self { first, reason, .. } = self;
        let until =
            (self.end).map_or_else(String::new, |end| format!(" to {}", end.saturating_sub(1)));
        format!(
            "the changes from offset {first}{until} are in no whole snapshot and not in the log: {reason}"
        )
    }

    /// Converts it into an error, for callers that need the whole state.
    pub(crate) fn into_error(self) -> Error {
        let expected = "a whole snapshot that ends at it or later, or a whole log from the end of one on (restore the files \
             from another controller; tables.records decodes the records that are left, and rescue uses them)";
        let error = Error::corrupt(
            "metadata log",
            self.position.unwrap_or_default(),
            expected,
            self.message(),
        );
        error.at(&self.file).for_offset(self.first)
    }
}

/// End of the log that a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogEnd {
    /// The state now, from as few records as possible.
    State,
    /// As many changes as there are.
    History,
}

/// Selected snapshot and log.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// A snapshot, if there is one, and the log from its end on.
    pub(crate) ranges: Vec<PartitionRange>,
    /// Files that were skipped.
    pub(crate) passed: Vec<Passed>,
    /// Evidence that the log once extended further; it is among what was skipped.
    pub(crate) cut: Option<Passed>,
    /// Missing changes; the ranges then hold the rest.
    pub(crate) gap: Option<Gap>,
    /// State after the replay.
    pub(crate) state: MetadataState,
    /// The offset after the last record.
    pub(crate) end: Offset,
}

/// Chooses what to replay of the metadata log in `paths`: a log dir, its folder, or files of it.
///
/// # Errors
/// As [`plan`]; `Io`, `Interrupted`, `OutOfMemory`. Damage is part of the answer.
pub(crate) fn choose(paths: &[PathBuf], wanted: LogEnd) -> Result<Chosen> {
    let topic = Topic::ClusterMetadata.name().to_owned();
    let (snapshots, logs): (Vec<_>, Vec<_>) = plan(paths, Some(&[topic]))?
        .into_iter()
        .partition(|range| name_of(range).is_some_and(is_snapshot));
    let is_bootstrap = |range: &PartitionRange| name_of(range) == Some(BOOTSTRAP);
    let (bootstraps, snapshots): (Vec<_>, Vec<_>) = snapshots.into_iter().partition(is_bootstrap);
    let log = LogWithGaps::read(logs)?;
    let mut starts: Vec<Start> = snapshots.into_iter().filter_map(Start::of).collect();
    starts.push(Start::NOTHING);
    // The newest first, as `OffsetAndEpoch` compares them.
    starts.sort_by_key(|start| Reverse((start.epoch, start.end)));
    // A log that ends below a snapshot has no changes after it.
    let wanted = if starts.iter().any(|start| start.end > log.end) || log.end == 0 {
        LogEnd::State
    } else {
        wanted
    };
    if wanted == LogEnd::History {
        starts.sort_by_key(|start| start.end);
    }
    let mut passed = Vec::new();
    // The end of the newest snapshot that is not whole.
    let mut damaged_end = 0;
    let (mut start, mut gap) = (Start::NOTHING, None);
    for each in starts {
        if let Some(range) = &each.range
            && let Some(why) = fault_of(range)?
        {
            passed.push(why);
            damaged_end = damaged_end.max(each.end);
            continue;
        }
        gap = log.gap_after(each.end);
        start = each;
        // What the newest one does not cover no older one does.
        if gap.is_none() || wanted == LogEnd::State {
            break;
        }
    }
    let begin = start.end;
    let mut ranges = Vec::new();
    for bootstrap in bootstraps.into_iter().filter(|_| begin == 0) {
        match fault_of(&bootstrap)? {
            Some(why) => passed.push(why),
            None => ranges.push(bootstrap),
        }
    }
    ranges.extend(start.range);
    let end = log.end.max(begin);
    // What a snapshot has that the log does not go up to, or the very first records.
    if (damaged_end > end || (end == 0 && ranges.is_empty()))
        && gap.is_none()
        && let Some(Passed { file, why }) = passed.first()
    {
        gap = Some(Gap {
            file: file.clone(),
            position: None,
            first: end,
            end: (damaged_end > end).then_some(damaged_end),
            reason: why.clone(),
        });
    }
    let covered = log.gaps.iter().filter(|gap| gap.is_covered_by(begin));
    passed.extend(covered.map(Gap::passed));
    passed.extend(log.torn.clone());
    // What is damaged or torn at the end is named already.
    let is_named = log.torn.is_some() || log.gaps.iter().any(|gap| gap.end.is_none());
    let folder = folder_of(paths, &log.ranges).filter(|_| !is_named);
    let cut = folder.and_then(|folder| shown_beyond(&folder, log.end));
    passed.extend(cut.clone());
    ranges.extend(log.after(begin));
    let state = replay(&ranges)?;
    Ok(Chosen {
        ranges,
        passed,
        cut,
        gap,
        state,
        end,
    })
}

/// The folder of the metadata log, unless single files are requested.
fn folder_of(paths: &[PathBuf], ranges: &[PartitionRange]) -> Option<PathBuf> {
    let [path] = paths else {
        return None;
    };
    let folder = match ranges.first() {
        Some(range) => range.folder.path().to_path_buf(),
        None => match PathKind::of(path).ok()? {
            PathKind::Partition(_) => path.clone(),
            PathKind::LogDir => path.join(format!("{CLUSTER_METADATA_TOPIC}-0")),
            PathKind::File => return None,
        },
    };
    is_folder(path).then_some(folder)
}

/// Place at which a replay may start.
struct Start {
    /// Offset up to which it holds everything.
    end: Offset,
    epoch: i32,
    /// The snapshot; `None` for the beginning of the log.
    range: Option<PartitionRange>,
}

impl Start {
    const NOTHING: Self = Self {
        end: 0,
        epoch: -1,
        range: None,
    };

    fn of(range: PartitionRange) -> Option<Self> {
        let (end, epoch) = snapshot_id(name_of(&range)?)?;
        let range = Some(range);
        Some(Self { end, epoch, range })
    }
}

fn name_of(range: &PartitionRange) -> Option<&str> {
    range.segments.first().map(|file| file.file_name.as_str())
}

fn is_snapshot(name: &str) -> bool {
    name == BOOTSTRAP || snapshot_id(name).is_some()
}

/// Finds the fault of a snapshot, in which every batch must be intact, the first record a header and the last one a
/// footer.
fn fault_of(range: &PartitionRange) -> Result<Option<Passed>> {
    let path = range.folder.path_of(name_of(range).unwrap_or_default());
    let why = match frame_of(range) {
        Ok((first, last)) => {
            let expected = [
                ("first", ControlType::SnapshotHeader, first),
                ("last", ControlType::SnapshotFooter, last),
            ];
            let wrong = expected
                .into_iter()
                .find(|(_, kind, found)| *found != Some(*kind));
            wrong.map(|(which, kind, found)| {
                let found = found.map_or("none", ControlType::name);
                format!("{which} record: expected {kind}, found {found}")
            })
        }
        Err(error) if error.is_of_the_files() => Some(match (&error, error.as_fault()) {
            (_, Some(fault)) => fault.text(),
            (Error::Io { source, .. }, _) => source.to_string(),
            _ => error.to_string(),
        }),
        Err(error) => return Err(error),
    };
    Ok(why.map(|why| Passed {
        file: path,
        why: format!("not a whole snapshot: {why}"),
    }))
}

/// The kinds of the first and the last record, if they are control records.
fn frame_of(range: &PartitionRange) -> Result<(Option<ControlType>, Option<ControlType>)> {
    let options = ReadOptions {
        include_control: true,
        ..ReadOptions::default()
    };
    let mut entries = TableRecords::new(vec![range.clone()], options);
    let (mut first, mut last) = (None, None);
    while entries.advance()? {
        let mut records = 0usize;
        for entry in entries.iter() {
            last = kind_of(&entry);
            first.get_or_insert(last);
            records = records.saturating_add(1);
        }
        entries.consume(records);
    }
    Ok((first.flatten(), last))
}

fn kind_of(entry: &RawRecord<'_>) -> Option<ControlType> {
    let key = entry.key.filter(|_| entry.header.is_control())?;
    ControlType::parse(key).ok()
}

/// The log, and where offsets are missing in it.
#[derive(Debug, Default)]
struct LogWithGaps {
    ranges: Vec<PartitionRange>,
    gaps: Vec<Gap>,
    /// The first offset, unless there is no segment.
    start: Option<(Offset, PathBuf)>,
    end: Offset,
    /// A batch that is not complete at the end of the last segment.
    torn: Option<Passed>,
    /// Segments that the disk does not give.
    unreadable: Vec<String>,
}

impl LogWithGaps {
    /// Reads all of it.
    fn read(ranges: Vec<PartitionRange>) -> Result<Self> {
        let mut log = Self::default();
        for range in &ranges {
            for segment in &range.segments {
                let file = range.folder.path_of(&segment.file_name);
                if log.start.is_none() {
                    log.start = Some((segment.base_offset, file.clone()));
                    log.end = segment.base_offset;
                }
                let mut alone = range.clone();
                alone.segments = vec![segment.clone()];
                log.read_segment(alone, segment.base_offset, &file)?;
            }
        }
        log.ranges = ranges;
        Ok(log)
    }

    fn read_segment(&mut self, range: PartitionRange, base: Offset, file: &Path) -> Result<()> {
        // Only the end of the log can be torn.
        self.torn = None;
        // The one before was damaged at its end, or one between is not there.
        if base > self.end {
            self.begin_again(base, file, &[]);
        }
        let options = ReadOptions {
            include_control: true,
            ..reading()
        };
        let names: Vec<_> = range
            .segments
            .iter()
            .map(|file| file.file_name.clone())
            .collect();
        let mut entries = TableRecords::new(vec![range], options);
        let mut lost = Vec::new();
        loop {
            let more = match entries.advance() {
                Err(error) if error.is_of_the_files() => {
                    // The disk does not give the rest of it.
                    self.gaps.push(self.gap(file, None, error.to_string()));
                    self.unreadable.extend(names);
                    return Ok(());
                }
                more => more?,
            };
            lost.extend(entries.take_lost());
            if !more {
                break;
            }
            let mut records = 0usize;
            for entry in entries.iter() {
                if entry.offset > self.end {
                    self.begin_again(entry.offset, file, &lost);
                }
                self.end = entry.offset.saturating_add(1);
                records = records.saturating_add(1);
            }
            entries.consume(records);
        }
        let is_at_end = |range: &&LostRange| range.lost.first_offset == Some(self.end);
        if let Some(LostRange { lost, .. }) = lost.iter().find(is_at_end) {
            let reason = format!("bytes {} to {}: {}", lost.position, lost.end, lost.reason);
            if lost.reason == Reason::Torn {
                self.torn = Some(Passed {
                    file: file.to_path_buf(),
                    why: format!(
                        "{reason}; a controller cuts them off at its start, and what it had acknowledged is not in them \
                         unless the file was damaged later"
                    ),
                });
            } else {
                let gap = self.gap(file, Some(lost.position), reason);
                self.gaps.push(gap);
            }
        }
        Ok(())
    }

    fn gap(&self, file: &Path, position: Option<Position>, reason: String) -> Gap {
        Gap {
            file: file.to_path_buf(),
            position,
            first: self.end,
            end: None,
            reason,
        }
    }

    /// The log continues at a higher offset.
    fn begin_again(&mut self, offset: Offset, file: &Path, lost: &[LostRange]) {
        let first = self.end;
        self.end = offset;
        // At the end of the segment before something was lost.
        if let Some(last) = self.gaps.last_mut()
            && last.first == first
            && last.end.is_none()
        {
            last.end = Some(offset);
            return;
        }
        let lost = lost
            .iter()
            .find(|each| each.lost.first_offset == Some(first));
        let reason = match lost {
            Some(LostRange { lost, .. }) => {
                format!("bytes {} to {}: {}", lost.position, lost.end, lost.reason)
            }
            None => format!("the log continues at offset {offset}"),
        };
        self.gaps.push(Gap {
            file: file.to_path_buf(),
            position: lost.map(|each| each.lost.position),
            first,
            end: Some(offset),
            reason,
        });
    }

    /// Finds what is missing of the log from an offset on, up to which everything is known.
    fn gap_after(&self, known: Offset) -> Option<Gap> {
        if let Some((start, file)) = &self.start
            && *start > known
        {
            return Some(Gap {
                file: file.clone(),
                position: None,
                first: known,
                end: Some(*start),
                reason: format!("the log begins at offset {start}"),
            });
        }
        let mut gaps = self.gaps.iter();
        gaps.find(|gap| !gap.is_covered_by(known)).cloned()
    }

    /// Ranges of it to read from an offset on.
    fn after(self, known: Offset) -> Vec<PartitionRange> {
        let mut ranges = self.ranges;
        for range in &mut ranges {
            range.start_offset = range.start_offset.max(known);
            let is_below = |next: Option<Offset>| next.is_some_and(|next| next <= known);
            range.segments.retain(|file| {
                !is_below(file.next_base_offset) && !self.unreadable.contains(&file.file_name)
            });
        }
        // A broker begins the log anew at a snapshot beyond its end.
        if self.end < known {
            ranges.clear();
        }
        ranges
    }
}

/// Replays the records of the ranges.
fn replay(ranges: &[PartitionRange]) -> Result<MetadataState> {
    let mut entries = TableRecords::new(ranges.to_vec(), reading());
    let mut state = MetadataState::default();
    while entries.advance()? {
        let mut records = 0usize;
        for entry in entries.iter() {
            state.take(&entry, &entries.context().segment)?;
            records = records.saturating_add(1);
        }
        entries.consume(records);
    }
    Ok(state)
}
