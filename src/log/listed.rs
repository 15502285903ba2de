//! A partition's log as one listing of its folder shows it: what a broker would have after loading. Nothing is changed.
//!
//! This computes what Kafka's loader would do. Finished swaps count. Log start and high watermark come from the
//! checkpoints of the log dir above. Segments that the loader would recover (unclean stop, at or above the recovery
//! point, or without an offset index) take their timestamps from the log.
//!
//! Sources: `LogLoader`, `UnifiedLog.fetchOffsetByTimestamp`, `UnifiedLog.read`.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use super::dir::{DirState, LOG_START, PartitionOffsets, PathKind, folder_name, read_parsed_in};
use super::listing;
use crate::error::{Error, Result};
use crate::format::checkpoint::{
    EpochEntry, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, parse_epochs, parse_partition_metadata,
};
use crate::format::file_name::{
    CLUSTER_METADATA_TOPIC, FileKind, FileName, FileState, FolderName, is_metadata_snapshot,
};
use crate::io::interrupt;
use crate::io::storage::{FileStat, Folder};
use crate::io::threads::{Cancellation, POLL_INTERVAL, guarded};
use crate::segment::LogSegment;
use crate::segment::lookup::{SegmentLookup, TimestampedRecord};
use crate::segment::skipping::OnCorrupt;
use crate::segment::statistics::SegmentStatistics;
use crate::types::{NO_TIMESTAMP, Offset, Position, TimestampMs};

/// Segments of a store that are asked at the same time: as many as it has requests in flight.
const ASKED_AT_ONCE: usize = 16;

/// Place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Base offset of the segment.
    pub segment_base_offset: Offset,
    /// Position of its batch in the `.log`.
    pub position: Position,
    /// Its offset.
    pub offset: Offset,
}

/// A record found by its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetAndTimestamp {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp.
    pub timestamp: TimestampMs,
    /// Its batch's leader epoch, where known.
    pub leader_epoch: Option<i32>,
}

/// One partition's log as it was when its folder was listed. Its files may be gone by now: see
/// [`PartitionLog`](super::partition::PartitionLog).
#[derive(Clone, Debug)]
pub struct ListedLog {
    folder: Folder,
    name: FolderName,
    segments: Vec<LogSegment>,
    /// Number of segments, from the first, that Kafka would load without recovering them.
    trusted: usize,
    log_start_offset: Offset,
    high_watermark: Option<Offset>,
    has_high_watermarks: bool,
    log_end_offset: OnceLock<Offset>,
    /// Kept by `scan::transactions`.
    pub(crate) last_stable_offset: OnceLock<Offset>,
    /// The whole log, if only some of its files are read.
    around: Option<Arc<Self>>,
}

impl ListedLog {
    /// Opens a partition folder and reads the checkpoints of the log dir above it.
    ///
    /// # Errors
    /// `Io` if the folder does not exist, `InvalidArgument` if it is not a partition folder, `CorruptRecord` for a
    /// broken swap.
    pub fn open(folder: Folder) -> Result<Self> {
        let name = PathKind::partition(&folder)?;
        let dir = DirState::read(folder.above());
        Self::open_in(folder, name, &dir)
    }

    /// Opens a partition folder, given what the log dir above says.
    ///
    /// # Errors
    /// As [`ListedLog::open`].
    pub fn open_in(folder: Folder, name: FolderName, dir: &DirState) -> Result<Self> {
        let segments = listing::segments(&folder)?;
        let of = |offsets: &PartitionOffsets| offsets.get(&name.topic_partition).copied();
        // The raft layer opens its log as unclean and from 0, whatever the checkpoints say.
        let is_metadata = name.topic_partition.topic == CLUSTER_METADATA_TOPIC;
        let recovery_point = of(&dir.recovery_points).filter(|_| !is_metadata);
        let log_start = of(&dir.log_starts).filter(|_| !is_metadata);
        let trusted = if dir.clean_shutdown && !is_metadata {
            segments.len()
        } else {
            let recovery_point = recovery_point.unwrap_or(0);
            segments
                .partition_point(|s| s.base_offset <= recovery_point)
                .saturating_sub(1)
        };
        let first = segments.first().map_or(0, |s| s.base_offset);
        Ok(Self {
            folder,
            segments,
            trusted,
            log_start_offset: log_start.unwrap_or(0).max(first),
            high_watermark: dir.high_watermarks.as_deref().and_then(of),
            // Nor does it checkpoint its high watermark there.
            has_high_watermarks: dir.high_watermarks.is_some() && !is_metadata,
            log_end_offset: OnceLock::new(),
            last_stable_offset: OnceLock::new(),
            around: None,
            name,
        })
    }

    /// Some files of a partition folder, named by themselves: all that is in them counts, whatever the log start
    /// offset.
    ///
    /// # Errors
    /// `Io` where one is not there, `InvalidArgument` where one is no segment's, or two begin at the same offset.
    pub fn from_files(
        folder: Folder,
        name: FolderName,
        files: &[String],
        dir: &DirState,
    ) -> Result<Self> {
        let mut log = Self::open_in(folder, name, dir)?;
        let trusted = log.trusted;
        let from = |s: &LogSegment| {
            log.segments
                .get(trusted)
                .is_none_or(|t| s.base_offset < t.base_offset)
        };
        let mut named = files
            .iter()
            .map(|file| named_segment(&log.folder, file, &log.segments))
            .collect::<Result<Vec<_>>>()?;
        named.sort_by_key(|s| s.base_offset);
        let twice = named.iter().zip(named.iter().skip(1));
        for (a, b) in twice {
            if a.base_offset == b.base_offset {
                let text = format!(
                    "{} and {} begin at the same offset",
                    a.file_name, b.file_name
                );
                return Err(Error::InvalidArgument(text));
            }
        }
        let around = log.with(&named, from);
        log.trusted = named.iter().take_while(|s| from(s)).count();
        log.around = Some(Arc::new(around));
        log.log_start_offset = named.first().map_or(0, |s| s.base_offset);
        log.segments = named;
        Ok(log)
    }

    /// The same, which answers past damage or not.
    #[must_use]
    pub(crate) fn on_corrupt(mut self, on_corrupt: OnCorrupt) -> Self {
        for segment in &mut self.segments {
            segment.on_corrupt = on_corrupt;
        }
        if let Some(around) = self.around.take() {
            let around = Arc::unwrap_or_clone(around);
            self.around = Some(Arc::new(around.on_corrupt(on_corrupt)));
        }
        self
    }

    /// This log with `named` among its segments, in the place of those of the same base offset.
    fn with(&self, named: &[LogSegment], is_trusted: impl Fn(&LogSegment) -> bool) -> Self {
        let is_named = |s: &LogSegment| named.iter().any(|n| n.base_offset == s.base_offset);
        let others = self.segments.iter().filter(|s| !is_named(s));
        let mut segments: Vec<LogSegment> = others.chain(named).cloned().collect();
        segments.sort_by_key(|s| s.base_offset);
        Self {
            trusted: segments.iter().take_while(|s| is_trusted(s)).count(),
            log_start_offset: segments.first().map_or(0, |s| s.base_offset),
            segments,
            ..self.clone()
        }
    }

    /// The log that tells of transactions: this one, or the one around it.
    pub(crate) fn whole(&self) -> &Self {
        self.around.as_deref().unwrap_or(self)
    }

    /// Returns whether Kafka would load segment `n` without recovering it.
    pub(crate) fn is_trusted(&self, n: usize) -> bool {
        let has_index = self.segments.get(n).is_some_and(|s| s.has_offset_index);
        n < self.trusted && has_index
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder's files.
    pub(crate) const fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Topic, partition and state, from the folder's name.
    #[must_use]
    pub const fn name(&self) -> &FolderName {
        &self.name
    }

    /// The segments in order.
    #[must_use]
    pub fn segments(&self) -> &[LogSegment] {
        &self.segments
    }

    /// The first offset that may be read.
    #[must_use]
    pub const fn log_start_offset(&self) -> Offset {
        self.log_start_offset
    }

    /// The checkpointed high watermark.
    #[must_use]
    pub const fn high_watermark(&self) -> Option<Offset> {
        self.high_watermark
    }

    /// Returns whether the log dir above has a high watermark checkpoint at all.
    #[must_use]
    pub const fn has_high_watermarks(&self) -> bool {
        self.has_high_watermarks
    }

    /// The offset after the last whole batch.
    ///
    /// # Errors
    /// `Io`, or a fault in a header of the active segment; `CorruptIndex` as [`ListedLog::check_log_start`].
    pub fn log_end_offset(&self) -> Result<Offset> {
        let end = if let Some(&known) = self.log_end_offset.get() {
            known
        } else {
            let end = match self.segments.last() {
                Some(active) => SegmentLookup::open(active)?.next_offset()?,
                None => self.log_start_offset,
            };
            *self.log_end_offset.get_or_init(|| end)
        };
        let first = self.segments.first().map_or(end, |s| s.base_offset);
        if first < end && end < self.log_start_offset {
            return Err(self.starts_beyond(end));
        }
        // A log without a batch starts where the checkpoint says.
        Ok(end.max(self.log_start_offset))
    }

    /// A walk to the end of the active segment has shown the offset after its last batch.
    pub(crate) fn note_log_end(&self, next_offset: Offset) {
        self.log_end_offset.get_or_init(|| next_offset);
    }

    /// Refuses a log start beyond the log's end: it would hide every record. A broker would delete them
    /// (`LogLoader.recoverLog`). No file is examined where the start lies in a segment before the last one.
    ///
    /// # Errors
    /// `CorruptIndex`; what [`ListedLog::log_end_offset`] finds.
    pub(crate) fn check_log_start(&self) -> Result<()> {
        match self.segments.last() {
            Some(last) if last.base_offset < self.log_start_offset => {
                self.log_end_offset().map(drop)
            }
            _ => Ok(()),
        }
    }

    /// The same; where its log start hides every record, from its first segment on.
    #[must_use]
    pub(crate) fn starting_oldest(mut self) -> Self {
        if let Err(Error::CorruptIndex(_)) = self.check_log_start() {
            self.log_start_offset = self.segments.first().map_or(0, |s| s.base_offset);
        }
        self
    }

    fn starts_beyond(&self, end: Offset) -> Error {
        let name = &self.name.topic_partition;
        let expected = format!("at most {end}, where {name} ends");
        let found = format!(
            "{}, which hides every record; starting_offsets=\"oldest\" reads what the files hold",
            self.log_start_offset
        );
        let checkpoint = self.folder.above().path_of(LOG_START);
        Error::corrupt_line("log start offset", expected, found).at(&checkpoint)
    }

    /// The topic's id, where the folder has it.
    ///
    /// # Errors
    /// `Io`, or `CorruptIndex` where Kafka would refuse the file.
    pub fn topic_id(&self) -> Result<Option<String>> {
        read_parsed_in(&*self.folder, PARTITION_METADATA, parse_partition_metadata)
    }

    /// The leader epochs as they are on disk.
    ///
    /// # Errors
    /// `Io`, or `CorruptIndex` where Kafka would refuse the file.
    pub fn leader_epochs(&self) -> Result<Vec<EpochEntry>> {
        let epochs = read_parsed_in(&*self.folder, LEADER_EPOCH_CHECKPOINT, parse_epochs)?;
        Ok(epochs.unwrap_or_default())
    }

    /// Every file of the folder that is not one of its segments' logs, with its length, by name.
    ///
    /// # Errors
    /// `Io` where the folder cannot be listed.
    pub fn other_files(&self) -> Result<Vec<(String, u64)>> {
        let mut found = Vec::new();
        for entry in self.folder.entries()? {
            let entry = entry?;
            let name = entry.text();
            if self.segments.iter().all(|s| s.file_name != name)
                && let Some(stat) = entry.stat()?
            {
                found.push((name, stat.length));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Every segment and what its batch headers add up to.
    ///
    /// # Errors
    /// `Io`, or a fault in a header.
    pub fn statistics(
        &self,
        on_corrupt: OnCorrupt,
    ) -> Result<Vec<(LogSegment, SegmentStatistics)>> {
        let sums = |segment: &LogSegment| {
            let mut segment = segment.clone();
            segment.on_corrupt = on_corrupt;
            let sums = SegmentStatistics::of(&segment)?;
            Ok((segment, sums))
        };
        let all = self.segments.iter().map(sums).collect::<Result<Vec<_>>>()?;
        if let (OnCorrupt::Raise, Some((active, sums))) = (on_corrupt, all.last()) {
            let next = sums.last_offset.map(|last| last.wrapping_add(1));
            self.note_log_end(next.unwrap_or(active.base_offset));
        }
        Ok(all)
    }

    /// The number of the last segment that begins at or below `offset`; 0 where none does.
    pub(crate) fn floor(&self, offset: Offset) -> usize {
        self.segments
            .partition_point(|s| s.base_offset <= offset)
            .saturating_sub(1)
    }

    fn out_of_range(&self, offset: Offset) -> Result<Error> {
        Ok(Error::OffsetOutOfRange {
            path: self.path().to_path_buf(),
            offset,
            log_start_offset: self.log_start_offset,
            log_end_offset: self.log_end_offset()?,
        })
    }

    /// The first record at or after `offset`, control records included; `None` where no record follows.
    ///
    /// # Errors
    /// `OffsetOutOfRange` below the log start or beyond the log end; `Io`; faults in the bytes on the way.
    pub fn lookup(&self, offset: Offset) -> Result<Option<Lookup>> {
        if offset < self.log_start_offset || offset > self.log_end_offset()? {
            return Err(self.out_of_range(offset)?);
        }
        for segment in self.segments.iter().skip(self.floor(offset)) {
            let mut lookup = SegmentLookup::open(segment)?;
            if let Some((position, offset)) = lookup.record_at_or_after(offset)? {
                return Ok(Some(Lookup {
                    segment_base_offset: segment.base_offset,
                    position,
                    offset,
                }));
            }
        }
        Ok(None)
    }

    /// The base offset of the first batch that ends at or after `offset`; `None` where no batch follows.
    pub(crate) fn batch_at_or_after(&self, offset: Offset) -> Result<Option<Offset>> {
        for segment in self.segments.iter().skip(self.floor(offset)) {
            if let Some((_, header)) = SegmentLookup::open(segment)?.find(offset)? {
                return Ok(Some(header.base_offset));
            }
        }
        Ok(None)
    }

    /// Finds the position in segment `n` at which to begin reading records from `offset` on.
    pub(crate) fn start_position(&self, n: usize, offset: Offset) -> Result<Position> {
        match self.segments.get(n) {
            Some(segment) if offset > segment.base_offset => {
                SegmentLookup::open(segment)?.start_position(offset)
            }
            _ => Ok(0),
        }
    }

    /// The largest timestamp of segment `n` as Kafka has it after loading, -1 for none.
    ///
    /// # Errors
    /// `Io`, or a fault in a header on the way.
    pub fn max_timestamp_of(&self, n: usize) -> Result<TimestampMs> {
        let Some(segment) = self.segments.get(n) else {
            return Ok(NO_TIMESTAMP);
        };
        if let Some(known) = segment.known_max_timestamp() {
            return Ok(known);
        }
        let recovered = !self.is_trusted(n);
        SegmentLookup::open(segment)?.max_timestamp(recovered)
    }

    /// Learns the largest timestamps of the segments from `n` on, in a store: each takes three requests, one after the
    /// other, so several segments are asked at the same time. A fault is found again by who needs the timestamp.
    fn learn_max_timestamps(&self, n: usize) -> Result<()> {
        let is_known = |segment: &LogSegment| segment.known_max_timestamp().is_some();
        if self.folder.has_maps() || self.segments.get(n).is_none_or(is_known) {
            return Ok(());
        }
        let cancellation = Cancellation::default();
        thread::scope(|scope| {
            let (ends_with_all, all_ended) = channel::<()>();
            for n in (n..self.segments.len()).take(ASKED_AT_ONCE) {
                let ends = ends_with_all.clone();
                cancellation.spawn(scope, "kafkalog-lookup", move || {
                    let _ = guarded(|| self.max_timestamp_of(n));
                    drop(ends);
                });
            }
            drop(ends_with_all);
            while all_ended.recv_timeout(POLL_INTERVAL) != Err(RecvTimeoutError::Disconnected) {
                interrupt::check().inspect_err(|_| cancellation.cancel())?;
            }
            Ok(())
        })
    }

    /// Kafka's answer (`ListOffsets`) to which record is the first at or after `timestamp`.
    ///
    /// Kafka looks only into the first segment whose largest timestamp is at or after it, the file's modification time
    /// standing in where a segment has none; so the answer can be `None` although a later segment has such records.
    /// `exact` asks every segment for its records instead.
    ///
    /// # Errors
    /// `InvalidArgument` for a negative timestamp; `Io`; faults in the bytes on the way.
    pub fn offset_for_timestamp(
        &self,
        timestamp: TimestampMs,
        exact: bool,
    ) -> Result<Option<OffsetAndTimestamp>> {
        if timestamp < 0 {
            let text = format!("timestamp {timestamp}: must not be negative");
            return Err(Error::InvalidArgument(text));
        }
        self.check_log_start()?;
        let first = if exact {
            self.floor(self.log_start_offset)
        } else {
            0
        };
        for (n, segment) in self.segments.iter().enumerate().skip(first) {
            if !exact {
                self.learn_max_timestamps(n)?;
                let max = self.max_timestamp_of(n)?;
                let largest = if max >= 0 { max } else { segment.modified_ms };
                if largest < timestamp {
                    continue;
                }
            }
            let mut lookup = SegmentLookup::open(segment)?;
            let found = lookup.record_for_timestamp(timestamp, self.log_start_offset, !exact)?;
            if !exact || found.is_some() {
                return Ok(found.map(Into::into));
            }
        }
        Ok(None)
    }

    /// Kafka's answer to which record has the largest timestamp; the first such one.
    ///
    /// # Errors
    /// `Io`; faults in the bytes on the way.
    pub fn offset_of_max_timestamp(&self) -> Result<Option<OffsetAndTimestamp>> {
        self.check_log_start()?;
        let mut best: Option<(TimestampMs, &LogSegment)> = None;
        for (n, segment) in self.segments.iter().enumerate() {
            self.learn_max_timestamps(n)?;
            let max = self.max_timestamp_of(n)?;
            if max >= 0 && best.is_none_or(|(so_far, _)| max > so_far) {
                best = Some((max, segment));
            }
        }
        let Some((max, segment)) = best else {
            return Ok(None);
        };
        let found = SegmentLookup::open(segment)?.record_for_timestamp(max, Offset::MIN, true)?;
        Ok(found.map(Into::into))
    }
}

impl From<TimestampedRecord> for OffsetAndTimestamp {
    fn from(found: TimestampedRecord) -> Self {
        Self {
            offset: found.offset,
            timestamp: found.timestamp,
            leader_epoch: Some(found.leader_epoch).filter(|&epoch| epoch >= 0),
        }
    }
}

/// One of the files of `folder` that were named by themselves.
fn named_segment(folder: &Folder, file_name: &str, all: &[LogSegment]) -> Result<LogSegment> {
    if let Some(segment) = all.iter().find(|s| s.file_name == file_name) {
        return Ok(segment.clone());
    }
    let FileStat {
        length: size,
        modified_ms,
    } = folder.stat(file_name)?;
    let folder = folder.clone();
    match FileName::parse(file_name) {
        Some(name) if name.kind == FileKind::Log => {
            let mut segment = LogSegment::new(folder, name, size, modified_ms);
            // What is half written may end torn.
            segment.is_active = name.state == FileState::Cleaned;
            segment.has_offset_index = segment.has(FileKind::OffsetIndex);
            segment.has_time_index = segment.has(FileKind::TimeIndex);
            Ok(segment)
        }
        None if is_metadata_snapshot(file_name) => {
            // A KRaft snapshot's name gives its end; its own offsets begin at 0.
            let file_name = file_name.to_owned();
            Ok(LogSegment::named(folder, file_name, 0, size, modified_ms))
        }
        _ => Err(holds_no_records(&folder.path_of(file_name))),
    }
}

/// Refuses a file that by its name holds no records: neither a segment's `.log`, whatever its state, nor a KRaft
/// snapshot.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn ensure_holds_records(path: &Path) -> Result<()> {
    let file_name = folder_name(path);
    let is_log = FileName::parse(&file_name).is_some_and(|name| name.kind == FileKind::Log);
    if is_log || is_metadata_snapshot(&file_name) {
        return Ok(());
    }
    Err(holds_no_records(path))
}

fn holds_no_records(path: &Path) -> Error {
    Error::InvalidArgument(format!(
        "{}: neither a log dir, nor a partition folder, nor a segment's .log; only scan, dataset, cat, dump, export, stats \
         and verify read a segment under another name, compressed or in a .tar, from a disk, one at a time. For Spark, in a \
         store, and beside other paths, decompress or unpack it, and name the segment TOPIC-PARTITION/BASE-OFFSET.log, its \
         first offset in 20 digits",
        path.display()
    ))
}
