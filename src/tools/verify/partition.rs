//! One partition folder: its files, its segments one by one, and contradictions between them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::checkpoints::Extent;
use super::epochs::{self, EpochWalk};
use super::finding::{
    BATCH_TRANSACTION, FILE_NAME, Finding, Findings, INDEX_MISSING, INDEX_ORPHAN, LEFTOVER,
    SEGMENT_MISSING, SNAPSHOT_STRAY, SWAP_LACKS_BATCHES, SWAP_UNREADABLE, UNKNOWN_FILE, code_of,
};
use super::identity::{self, QUORUM_STATE};
use super::index::{OffsetIndexCheck, TimeIndexCheck};
use super::log::{self, CompanionFile, Reading};
use super::metadata_snapshot;
use super::past_damage::{self, FirstLook};
use super::pool::VerifyPool;
use super::producers::{ProducerHistory, ProducerWalk, SegmentProducers};
use super::records::BatchCheck;
use super::snapshot;
use super::summary::Summary;
use super::txn_index::TxnEntries;
use crate::error::Result;
use crate::format::checkpoint::{EpochEntry, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA};
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::io::overlay::Overlay;
use crate::io::storage::Folder;
use crate::log::config::LogConfig;
use crate::log::dir::{DirState, PartitionFolder};
use crate::log::gaps;
use crate::log::listed::ListedLog;
use crate::segment::LogSegment;
use crate::segment::writer::WritableSegment;
use crate::types::NO_TIMESTAMP;
use crate::types::Offset;

/// A partition folder as it was listed.
#[derive(Debug)]
pub(super) struct Partition {
    /// Partition and path.
    pub folder: PartitionFolder,
    /// The topic's id, if the folder says.
    pub topic_id: Option<String>,
    /// Segments of the log; empty if it could not be listed.
    pub segments: Vec<LogSegment>,
    /// Snapshots of the metadata log.
    pub metadata_snapshots: Vec<String>,
    /// Names of producer snapshots by offset.
    snapshots: BTreeMap<Offset, String>,
    /// Read before the segments were listed: a broker writes them ahead of the log.
    epochs: Option<(PathBuf, Vec<EpochEntry>)>,
    log_start_offset: Offset,
    reading: Reading,
    findings: Findings,
}

/// Result for one segment.
#[derive(Debug)]
pub(super) struct CheckedSegment {
    summary: Summary,
    epochs: EpochWalk,
    producers: SegmentProducers,
    findings: Vec<Finding>,
}

impl Partition {
    /// Lists the folder and checks the files that are no segment's.
    ///
    /// # Errors
    /// `Io` where the folder cannot be listed.
    pub(super) fn open(folder: PartitionFolder, dir: &DirState, reading: Reading) -> Result<Self> {
        let mut findings = Findings::about(&folder.name.topic_partition);
        let path = folder.path.clone();
        let epochs = epochs::read(&path, &mut findings);
        let log = ListedLog::open_in(Folder::at(&path), folder.name.clone(), dir);
        let (log_start_offset, segments) = match log {
            Ok(log) => (log.log_start_offset(), log.segments().to_vec()),
            Err(error) if error.is_of_the_files() => {
                findings.add(Finding::of_error(code_of(&error), &path, &error));
                (0, Vec::new())
            }
            Err(error) => return Err(error),
        };
        let mut partition = Self {
            topic_id: identity::topic_id(&path, &mut findings),
            folder,
            segments,
            metadata_snapshots: Vec::new(),
            snapshots: BTreeMap::new(),
            epochs,
            log_start_offset,
            reading,
            findings,
        };
        let mut names = Vec::new();
        let listed = Folder::at(&path);
        let entries = match listed.entries() {
            // Found already, where the log was listed.
            Err(error) if error.is_denied() => return Ok(partition),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            names.push((entry.raw_name().to_owned(), entry.is_folder()));
        }
        names.sort();
        let parsed = names
            .iter()
            .filter_map(|(name, _)| FileName::parse(name.to_str()?));
        let cleaned = parsed.filter(|name| name.state == FileState::Cleaned);
        let unfinished = cleaned.map(|name| name.offset).min();
        for (name, is_dir) in &names {
            match name.to_str() {
                Some(name) if !is_dir => partition.note(&path, name, unfinished),
                _ => {
                    let finding =
                        Finding::new(UNKNOWN_FILE, &path.join(name), "a folder or an odd name");
                    partition.findings.add(finding);
                }
            }
        }
        partition.note_missing();
        Ok(partition)
    }

    /// Tells of a finished swap that a load cannot put in its place.
    fn note_swap(&mut self, path: &Path, base_offset: Offset) {
        let ended = Overlay::new(Folder::at(&self.folder.path)).and_then(|plan| {
            let settings = LogConfig::default().segment_settings();
            let name = (base_offset, FileState::Swap);
            WritableSegment::open_as(&plan, name, settings, NO_TIMESTAMP)?.read_next_offset()
        });
        if let Err(error) = ended
            && error.is_of_the_files()
        {
            self.findings
                .add(Finding::of_error(SWAP_UNREADABLE, path, &error));
        }
    }

    /// Takes a file in by its name; from `unfinished` on no swap was ready.
    fn note(&mut self, folder: &Path, name: &str, unfinished: Option<Offset>) {
        let path = folder.join(name);
        if let Some(found) = FileName::parse(name)
            && (found.kind, found.state) == (FileKind::Log, FileState::Swap)
            && unfinished.is_none_or(|offset| found.offset < offset)
        {
            self.note_swap(&path, found.offset);
        }
        let is_used = self.segments.iter().any(|s| s.file_name == name);
        let mut leftover = |what: &str| self.findings.add(Finding::new(LEFTOVER, &path, what));
        if let Some(found) = FileName::parse(name) {
            match found.state {
                FileState::Live => self.note_live(&path, found),
                FileState::Deleted => leftover("to be deleted"),
                FileState::Cleaned => leftover("half written by compaction or a split"),
                FileState::Swap
                    if found.kind == FileKind::Log
                        && !is_used
                        && unfinished.is_none_or(|offset| found.offset < offset) =>
                {
                    let message = "not whole, or without batches of the segments in its place";
                    let finding = Finding::new(SWAP_LACKS_BATCHES, &path, message);
                    self.findings.add(finding.of(found.offset));
                }
                FileState::Swap => {
                    leftover("written by compaction or a split, not yet in its place");
                }
            }
        } else if metadata_snapshot::is_name(name) {
            self.metadata_snapshots.push(name.to_owned());
        } else if name == QUORUM_STATE {
            identity::quorum_state(&path, &mut self.findings);
        } else if matches!(name, LEADER_EPOCH_CHECKPOINT | PARTITION_METADATA) {
        } else if [
            ".tmp",
            ".checkpoint.part",
            ".checkpoint.deleted",
            ".deleted",
        ]
        .iter()
        .any(|suffix| name.ends_with(suffix))
        {
            leftover("half written, or to be deleted");
        } else if is_taken_for_a_segments(name) {
            let message = "file name: expected 20 digits before the first dot";
            self.findings.add(Finding::new(FILE_NAME, &path, message));
        } else {
            self.findings
                .add(Finding::new(UNKNOWN_FILE, &path, "an unknown file"));
        }
    }

    fn note_live(&mut self, path: &Path, name: FileName) {
        if name.kind == FileKind::Snapshot {
            self.snapshots.insert(name.offset, name.to_string());
            return;
        }
        let has_log = self
            .segments
            .iter()
            .any(|segment| segment.base_offset == name.offset);
        if !has_log && name.kind != FileKind::Log {
            let message = format!("no .log of base offset {}", name.offset);
            self.findings
                .add(Finding::new(INDEX_ORPHAN, path, message).of(name.offset));
        }
    }

    /// Index files that should be there, and snapshots that should not.
    fn note_missing(&mut self) {
        for segment in &self.segments {
            // The active one's may not have been needed yet.
            let missing = [
                (FileKind::OffsetIndex, segment.has_offset_index),
                (FileKind::TimeIndex, segment.has_time_index),
            ];
            for (kind, is_there) in missing {
                if !is_there && !segment.is_active {
                    let finding =
                        Finding::new(INDEX_MISSING, &segment.sibling(kind), "no such file");
                    self.findings.add(finding.of(segment.base_offset));
                }
            }
        }
        let bases = self.segments.iter().map(|segment| segment.base_offset);
        let bases: Vec<Offset> = bases.collect();
        let last = bases.last().copied().unwrap_or_default();
        let strays = self.snapshots.iter().rev().enumerate();
        for (n, (offset, name)) in strays {
            let is_newest = n == 0 && *offset >= last;
            if !is_newest && bases.binary_search(offset).is_err() {
                let message = "no segment begins at its offset";
                let finding = Finding::new(SNAPSHOT_STRAY, &self.folder.path.join(name), message);
                self.findings.add(finding.of(*offset));
            }
        }
    }

    /// Verifies segment `n` and the files beside it.
    ///
    /// # Errors
    /// `Interrupted`, `Internal`, `OutOfMemory`.
    pub(super) fn check_segment(
        &self,
        n: usize,
        (pool, batches): (&VerifyPool, &mut BatchCheck),
    ) -> Result<Option<CheckedSegment>> {
        let Some(segment) = self.segments.get(n) else {
            return Ok(None);
        };
        let first = self.look(segment, None, (pool, &mut *batches))?;
        let log = segment.path();
        let of_batches = first
            .findings
            .iter()
            .filter(|finding| finding.file == log && finding.code.name.starts_with("batch-"))
            .filter(|finding| finding.code != BATCH_TRANSACTION);
        let said: FirstLook = of_batches
            .filter_map(|finding| Some((finding.position?, finding.message.clone())))
            .collect();
        if !first.summary.is_damaged || said.is_empty() {
            return Ok(Some(first));
        }
        match self.look(segment, Some(&said), (pool, batches)) {
            Err(error) if !error.is_of_the_files() => Err(error),
            // It can no longer be read.
            Err(_) => Ok(Some(first)),
            Ok(second) => Ok(Some(second)),
        }
    }

    /// Looks at a segment, for the second time where something was said of it.
    fn look(
        &self,
        segment: &LogSegment,
        said: Option<&FirstLook>,
        threads: (&VerifyPool, &mut BatchCheck),
    ) -> Result<CheckedSegment> {
        let mut findings = Findings::about(&self.folder.name.topic_partition);
        let next = segment.next_base_offset;
        let cuts = self
            .snapshots
            .keys()
            .copied()
            .filter(|&cut| cut > segment.base_offset && next.is_none_or(|next| cut <= next));
        // Under a running broker the files beside it may be ahead of the log as it was listed, and a crash may have cut
        // it: a start recovers them.
        let may_be_ahead = segment.is_active && !self.reading.is_clean;
        let entries = TxnEntries::open(segment, may_be_ahead, &mut findings);
        let mut producers = ProducerWalk::new(segment, cuts.collect(), entries);
        let mut epochs = EpochWalk::default();
        let mut offsets = segment
            .has_offset_index
            .then(|| OffsetIndexCheck::open(segment, may_be_ahead, &mut findings))
            .flatten();
        let mut times = segment
            .has_time_index
            .then(|| TimeIndexCheck::open(segment, may_be_ahead, &mut findings))
            .flatten();
        let mut beside: Vec<&mut dyn CompanionFile> = vec![&mut producers, &mut epochs];
        if let Some(offsets) = &mut offsets {
            beside.push(offsets);
        }
        if let Some(times) = &mut times {
            beside.push(times);
        }
        let summary = match said {
            None => log::check(segment, self.reading, &mut beside, threads, &mut findings)?,
            Some(said) => {
                let reading = (self.reading, said);
                past_damage::check(segment, reading, &mut beside, threads, &mut findings)?
            }
        };
        Ok(CheckedSegment {
            summary,
            epochs,
            producers: producers.finish(),
            findings: findings.finish(),
        })
    }

    /// Verifies a snapshot of the metadata log.
    ///
    /// # Errors
    /// `Interrupted`, `Internal`, `OutOfMemory`.
    pub(super) fn check_metadata_snapshot(
        &self,
        name: &str,
        threads: (&VerifyPool, &mut BatchCheck),
    ) -> Result<Vec<Finding>> {
        let mut findings = Findings::about(&self.folder.name.topic_partition);
        let folder = &self.folder.path;
        metadata_snapshot::check(folder, name, self.reading, threads, &mut findings)?;
        Ok(findings.finish())
    }

    /// Names the offsets between the last batch of a segment and the next segment, if no damage and no compaction
    /// accounts for them. Only what a broker serves counts.
    fn compare_neighbours(&self, checked: &[CheckedSegment], findings: &mut Findings) {
        for (segment, CheckedSegment { summary, .. }) in self.segments.iter().zip(checked) {
            let Some(next) = segment.next_base_offset else {
                continue;
            };
            let from = summary.next_offset.max(self.log_start_offset);
            // Bytes after the last batch are a finding of their own.
            if from >= next || summary.end != segment.size {
                continue;
            }
            let name = &self.folder.name.topic_partition;
            if gaps::may_be_compacted(&Folder::at(&self.folder.path), name, next) {
                continue;
            }
            let (path, what) = if segment.size == 0 {
                (segment.path(), "the file is empty")
            } else {
                let missing = FileName::new(from, FileKind::Log).to_string();
                (self.folder.path.join(missing), "no such file")
            };
            let message = format!(
                "{what}; offsets {from} to {} are lost",
                next.saturating_sub(1)
            );
            findings.add(Finding::new(SEGMENT_MISSING, &path, message).of(from));
        }
    }

    /// Holds the segments' results, in their order, against the files about the whole log.
    ///
    /// # Errors
    /// `OutOfMemory`, `Interrupted`.
    pub(super) fn finish(mut self, checked: Vec<CheckedSegment>) -> Result<(Extent, Vec<Finding>)> {
        let mut findings = std::mem::take(&mut self.findings);
        let mut found = Vec::new();
        let folder = &self.folder.path;
        let extent = Extent {
            log_end: checked
                .last()
                .filter(|last| !last.summary.is_damaged)
                .map(|last| last.summary.next_offset),
        };
        let mut snapshots = BTreeMap::new();
        for (&offset, name) in &self.snapshots {
            if let Some(states) = snapshot::read(folder, name, &mut findings)? {
                snapshots.insert(offset, (folder.join(name), states));
            }
        }
        self.compare_neighbours(&checked, &mut findings);
        let first = self.segments.first().map_or(0, |first| first.base_offset);
        let mut history = ProducerHistory::from(first);
        let mut runs = Vec::new();
        for segment in checked {
            found.extend(segment.findings);
            runs.extend(segment.epochs.runs);
            let mut about_snapshots = Findings::about(&self.folder.name.topic_partition);
            let compare = |offset: Offset, history: &ProducerHistory| {
                if let Some((path, states)) = snapshots.get(&offset) {
                    snapshot::compare(path, offset, states, history, &mut about_snapshots);
                }
            };
            history.take(segment.producers, compare, &mut findings);
            found.extend(about_snapshots.finish());
        }
        if let Some((path, entries)) = &self.epochs {
            let first = entries.first().map_or(0, |first| first.start_offset);
            let start = if self.reading.is_clean {
                self.log_start_offset
            } else {
                // The checkpoint of a killed broker may be older than what it removed.
                self.log_start_offset.max(first)
            };
            let bounds = (start, extent.log_end);
            epochs::compare(path, entries, &runs, bounds, &mut findings);
        }
        found.extend(findings.finish());
        Ok((extent, found))
    }
}

/// Returns whether Kafka's loader takes a file of this name for one of a segment's, whatever stands before the suffix.
fn is_taken_for_a_segments(name: &str) -> bool {
    let kinds = [
        FileKind::Log,
        FileKind::OffsetIndex,
        FileKind::TimeIndex,
        FileKind::TxnIndex,
        FileKind::Snapshot,
    ];
    let stem = [".cleaned", ".swap"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix));
    let stem = stem.unwrap_or(name);
    kinds.iter().any(|kind| stem.ends_with(kind.suffix()))
}
