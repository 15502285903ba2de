//! Loading a partition folder as a broker does at start-up (`LogLoader`, `UnifiedLog.create`), as a plan.
//!
//! | module | what |
//! |---|---|
//! | [`folder`] | the folder under plan: the disk's files, and the actions over them |
//! | [`scan`] | header to header, as Kafka walks a file |
//! | `index`, `segment` | Kafka's classes of these names over a folder under plan |
//! | `producers` | producer state replayed from the batches |
//! | [`apply`] | a plan carried out, in place or into another folder |
//!
//! [`plan`] reads the folder and writes nothing: a dry run is a plan that is not carried out. What it finds in the end is
//! what a broker would have loaded, [`LoadedLog`]; or the reason why it would not start, with the actions it would have
//! taken until then. Indexes of one segment at a time are in memory, and up to 64 MiB of those that are to be written.

mod apply;
pub mod folder;
mod index;
mod producers;
pub mod scan;
mod segment;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::folder::{Action, Content, FileChange, Folder};
use self::producers::{PlannedSnapshots, rebuild_producer_state};
use self::segment::{IndexSettings, MAX_TXN_INDEX, Segment};
use crate::error::{Error, Result};
use crate::format::checkpoint::{
    LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, parse_epochs, parse_partition_metadata,
    write_epochs,
};
use crate::format::entry::{ABORTED_TXN_SIZE, AbortedTxn, TimestampOffset};
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::io::atomic::TMP_SUFFIX;
use crate::log::config::LogConfig;
use crate::log::epochs::LeaderEpochs;
use crate::log::producer_state::ProducerStateManager;
use crate::segment::files::SEGMENT_FILES;
use crate::segment::source::Access;
use crate::types::{Offset, TimestampMs};

/// The most that is read of a checkpoint.
const MAX_TEXT: u64 = 256 << 20;
/// KRaft's own, which it removes itself.
const SNAPSHOT_DELETED: &str = ".checkpoint.deleted";

/// What loading a partition has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadRequest {
    /// The broker stopped cleanly: nothing is checked.
    pub clean: bool,
    /// First offset not known to be on disk.
    pub recovery_point: Offset,
    /// First offset that may be read, 0 where no checkpoint says more.
    pub log_start_offset: Offset,
    /// The clock.
    pub now_ms: TimestampMs,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
}

/// A segment that was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedSegment {
    /// Its base offset.
    pub base_offset: Offset,
    /// Bytes of its `.log` that count.
    pub size: u64,
    /// Its largest timestamp, where loading had to look at it: what truncation takes for the start, in Kafka.
    pub max_timestamp: Option<TimestampOffset>,
}

/// What a broker has after loading.
#[derive(Debug)]
pub struct LoadedLog {
    /// First offset that may be read.
    pub log_start_offset: Offset,
    /// The next offset to be written.
    pub log_end_offset: Offset,
    /// First offset not known to be on disk.
    pub recovery_point: Offset,
    /// In order; there is at least one.
    pub segments: Vec<LoadedSegment>,
    /// Leader epochs.
    pub epochs: LeaderEpochs,
    /// Producers; their snapshots are those of the plan.
    pub producers: ProducerStateManager,
    /// The topic's id, if `partition.metadata` has one.
    pub topic_id: Option<String>,
}

/// Something worth saying that loading would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A segment was checked batch by batch, and its indexes were made anew.
    Recovered {
        /// Its base offset.
        base_offset: Offset,
        /// Batches that stay.
        batches: u64,
        /// Bytes cut at the end.
        truncated: u64,
        /// Why they were cut.
        reason: Option<String>,
    },
    /// A batch goes back behind an index entry: Kafka drops the segment whole, sound batches and all.
    Dropped {
        /// Its base offset.
        base_offset: Offset,
        /// Bytes of it.
        size: u64,
        /// What stands where.
        reason: String,
    },
    /// A segment was deleted.
    Deleted {
        /// Its base offset.
        base_offset: Offset,
        /// Bytes of its `.log`.
        size: u64,
        /// Why.
        reason: String,
    },
    /// A segment whose last batch is too far from its base was split.
    Split {
        /// Its base offset.
        base_offset: Offset,
        /// The base offsets of what it became.
        into: Vec<Offset>,
    },
    /// A file that compaction or a split had finished took its place.
    Swapped {
        /// The file.
        name: String,
    },
    /// The index leads to no batch: Kafka puts the log end at the active segment's base, over batches that are there.
    Hidden {
        /// The active segment's base.
        base_offset: Offset,
        /// Bytes of its `.log`.
        size: u64,
        /// The offset behind its last whole batch.
        next_offset: Offset,
    },
    /// A `.log` that has batches, under a name that Kafka reads as another's.
    Unread {
        /// The file.
        name: String,
    },
    /// By salvage alone: a `.log` was made of the whole batches that were there.
    Salvaged {
        /// The base offset of what it was made of.
        base_offset: Offset,
        /// Batches kept.
        batches: u64,
        /// Bytes left out.
        lost: u64,
    },
    /// By salvage alone: a file that keeps Kafka from loading the log has another name now, or is gone.
    SetAside {
        /// The file.
        name: String,
        /// Why.
        reason: String,
    },
}

impl Note {
    /// Whether a user would rather be asked: sound batches go, or are written over by what comes next.
    #[must_use]
    pub const fn is_loss(&self) -> bool {
        matches!(
            self,
            Self::Dropped { .. } | Self::Hidden { .. } | Self::Unread { .. }
        )
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recovered {
                base_offset,
                batches,
                truncated,
                reason,
            } => {
                write!(
                    f,
                    "segment {base_offset}: {batches} batches checked, indexes rebuilt"
                )?;
                match reason {
                    Some(reason) => write!(f, ", {truncated} bytes cut: {reason}"),
                    None => Ok(()),
                }
            }
            Self::Dropped {
                base_offset,
                size,
                reason,
            } => write!(
                f,
                "segment {base_offset}: all {size} bytes dropped: {reason}"
            ),
            Self::Deleted {
                base_offset,
                size,
                reason,
            } => write!(f, "segment {base_offset}: deleted, {size} bytes: {reason}"),
            Self::Split { base_offset, into } => {
                write!(
                    f,
                    "segment {base_offset}: split into {into:?}, as its offsets reach too far"
                )
            }
            Self::Swapped { name } => {
                write!(
                    f,
                    "{name}: what compaction or a split had finished took its place"
                )
            }
            Self::Hidden {
                base_offset,
                size,
                next_offset,
            } => write!(
                f,
                "segment {base_offset}: an unsound index hides its {size} bytes, batches up to offset {next_offset}"
            ),
            Self::Unread { name } => write!(
                f,
                "{name}: not read, as its name is not padded to 20 digits"
            ),
            Self::Salvaged {
                base_offset,
                batches,
                lost,
            } => write!(
                f,
                "segment {base_offset}: {batches} batches kept, {lost} bytes that are none left out"
            ),
            Self::SetAside { name, reason } => write!(f, "{name}: set aside: {reason}"),
        }
    }
}

/// What ends Kafka's recovery of a segment other than a batch to be cut.
#[derive(Debug)]
enum Trouble {
    /// `InvalidOffsetException`: offsets go back where an index entry is due.
    InvalidOffset(Error),
    /// `LogSegmentOffsetOverflowException`, in the segment with this base.
    Overflow(Offset, Error),
    /// Anything else.
    Fatal(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

impl Trouble {
    fn into_error(self) -> Error {
        let (Self::InvalidOffset(error) | Self::Overflow(_, error) | Self::Fatal(error)) = self;
        error
    }
}

/// What loading a folder would do.
#[derive(Debug)]
pub struct Plan {
    folder: Arc<Mutex<Folder>>,
    /// What a broker would then have, or why it would not start.
    pub outcome: Result<LoadedLog>,
    /// What is worth saying.
    pub notes: Vec<Note>,
    segments: BTreeMap<Offset, Segment>,
    deleted: Vec<String>,
}

/// The folder, whoever holds it.
fn lock(folder: &Mutex<Folder>) -> MutexGuard<'_, Folder> {
    folder.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plans the loading of the partition folder `path`.
///
/// # Errors
/// `Io` where the folder cannot be listed. Whatever else is wrong is the plan's outcome.
pub fn plan(path: &Path, config: &LogConfig, request: LoadRequest) -> Result<Plan> {
    let folder = Arc::new(Mutex::new(Folder::open(path)?));
    let mut loader = Loader {
        folder: Arc::clone(&folder),
        config,
        settings: IndexSettings::of(config),
        request,
        segments: BTreeMap::new(),
        epochs: LeaderEpochs::in_memory(&[])?,
        epochs_written: None,
        notes: Vec::new(),
        deleted: Vec::new(),
        unlisted: None,
        splits: Vec::new(),
    };
    let outcome = loader.load();
    let outcome = loader.write_epochs().and(outcome);
    Ok(Plan {
        folder,
        outcome,
        notes: loader.notes,
        segments: loader.segments,
        deleted: loader.deleted,
    })
}

impl Plan {
    /// Plans, after loading, a clean close as at a broker's shutdown: `LogManager.shutdown` for one log.
    ///
    /// # Errors
    /// `Io`.
    pub fn close(&mut self) -> Result<()> {
        let Ok(log) = &mut self.outcome else {
            return Ok(());
        };
        // Flushing opens the indexes from the recovery point on.
        let from = floor(&self.segments, log.recovery_point).unwrap_or(Offset::MIN);
        for (_, segment) in self.segments.range_mut(from..) {
            segment.open_indexes(&mut lock(&self.folder))?;
        }
        log.recovery_point = log.log_end_offset;
        log.producers.take_snapshot(true)?;
        for segment in self.segments.values_mut() {
            segment.close(&mut lock(&self.folder))?;
        }
        Ok(())
    }

    /// Plans that the log is opened for writing: the active segment's indexes are cut to their entries, so that whoever
    /// opens them sees how many there are, and makes them full length again.
    ///
    /// # Errors
    /// `Io`.
    pub fn hand_over(&mut self) -> Result<()> {
        match self.segments.iter_mut().next_back() {
            Some((_, active)) => active.trim_indexes(&mut lock(&self.folder)),
            None => Ok(()),
        }
    }

    /// Plans the unlinking of what was only renamed, as after `file.delete.delay.ms`.
    pub fn unlink_deleted(&mut self) {
        let mut folder = lock(&self.folder);
        for name in self.deleted.drain(..) {
            folder.delete(&name);
        }
    }

    /// The steps, in order.
    #[must_use]
    pub fn actions(&self) -> Vec<Action> {
        lock(&self.folder).actions().to_vec()
    }

    /// Every file that will be there, and its length.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, u64> {
        let folder = lock(&self.folder);
        let files = folder.files().iter();
        files
            .map(|(name, content)| (name.clone(), content.length()))
            .collect()
    }

    /// What becomes of the files, by name.
    #[must_use]
    pub fn changes(&self) -> Vec<FileChange> {
        lock(&self.folder).changes()
    }
}

fn floor(segments: &BTreeMap<Offset, Segment>, offset: Offset) -> Option<Offset> {
    segments.range(..=offset).next_back().map(|(&base, _)| base)
}

/// The segments that `LogSegments.values(from, to)` names.
fn values(segments: &BTreeMap<Offset, Segment>, from: Offset, to: Offset) -> Vec<Offset> {
    let from = floor(segments, from).unwrap_or(Offset::MIN);
    if from >= to {
        return Vec::new();
    }
    segments.range(from..to).map(|(&base, _)| base).collect()
}

/// The offset a file's name begins with, up to the first dot, as Kafka reads it (`LogFileUtils.offsetFromFileName`).
fn offset_of(name: &str) -> Option<Offset> {
    name.split_once('.')?.0.parse().ok()
}

/// As [`offset_of`], where Kafka fails on a name without one.
fn offset_in(folder: &Folder, name: &str) -> Result<Offset> {
    offset_of(name).ok_or_else(|| {
        let found = format!("{name:?}");
        Error::corrupt_index("file name", 0, "an offset before the first dot", found)
            .at(&folder.path_of(name))
    })
}

fn is_index(name: &str) -> bool {
    let kinds = [
        FileKind::OffsetIndex,
        FileKind::TimeIndex,
        FileKind::TxnIndex,
    ];
    kinds.iter().any(|kind| name.ends_with(kind.suffix()))
}

struct Loader<'a> {
    folder: Arc<Mutex<Folder>>,
    config: &'a LogConfig,
    settings: IndexSettings,
    request: LoadRequest,
    segments: BTreeMap<Offset, Segment>,
    epochs: LeaderEpochs,
    /// What the checkpoint will hold, once something was written to it.
    epochs_written: Option<Vec<u8>>,
    notes: Vec<Note>,
    /// Files that were only renamed.
    deleted: Vec<String>,
    /// A segment to be split that was not among the segments yet: Kafka leaves its files where new ones do not
    /// replace them.
    unlisted: Option<Offset>,
    /// Segments that were split.
    splits: Vec<Offset>,
}

impl Loader<'_> {
    fn load(&mut self) -> Result<LoadedLog> {
        self.read_epochs()?;
        let snapshots = PlannedSnapshots::new(&self.folder);
        let expiration_ms = self.request.producer_id_expiration_ms;
        let mut producers = ProducerStateManager::open(Arc::new(snapshots), expiration_ms)?;
        self.remove_temporary_files()?;
        self.complete_swaps()?;
        loop {
            match self.load_segment_files() {
                Ok(()) => break,
                Err(Trouble::Overflow(base, error)) => self.split(base, error)?,
                Err(trouble) => return Err(trouble.into_error()),
            }
        }
        let (recovery_point, log_end_offset) = if self.is_delete_folder() {
            if self.segments.is_empty() {
                self.add_segment(0)?;
            }
            (0, 0)
        } else {
            let offsets = loop {
                match self.recover_log(&mut producers) {
                    Ok(offsets) => break offsets,
                    Err(Trouble::Overflow(base, error)) => self.split(base, error)?,
                    Err(trouble) => return Err(trouble.into_error()),
                }
            };
            if let Some((_, active)) = self.segments.iter_mut().next_back() {
                active.resize_indexes(&mut lock(&self.folder))?;
            }
            offsets
        };
        let mut flush_epochs = self.epochs.truncate_from_end(log_end_offset);
        let first_base = self.segments.keys().next().copied().unwrap_or_default();
        let log_start_offset = self.request.log_start_offset.max(first_base);
        flush_epochs |= self
            .epochs
            .truncate_from_start(self.request.log_start_offset);
        let bases: Vec<Offset> = self.segments.keys().copied().collect();
        producers.remove_stray_snapshots(&bases)?;
        rebuild_producer_state(
            &self.folder,
            &mut producers,
            &mut self.segments,
            (log_start_offset, log_end_offset),
            self.request.now_ms,
            self.request.clean,
        )?;
        let topic_id = self.topic_id()?;
        if flush_epochs {
            self.note_epochs();
        }
        let segments = self.segments.values();
        Ok(LoadedLog {
            log_start_offset,
            log_end_offset,
            recovery_point: recovery_point.max(log_start_offset),
            segments: segments
                .map(|segment| LoadedSegment {
                    base_offset: segment.base_offset,
                    size: segment.size,
                    max_timestamp: segment.max_timestamp,
                })
                .collect(),
            epochs: self.epochs.clone(),
            producers,
            topic_id,
        })
    }

    fn is_delete_folder(&self) -> bool {
        let folder = lock(&self.folder);
        folder.path().to_string_lossy().ends_with("-delete")
    }

    fn read_epochs(&mut self) -> Result<()> {
        let mut folder = lock(&self.folder);
        if !folder.contains(LEADER_EPOCH_CHECKPOINT) {
            folder.write(LEADER_EPOCH_CHECKPOINT, Content::empty())?;
        }
        let text = folder.read(LEADER_EPOCH_CHECKPOINT, MAX_TEXT)?;
        let entries = parse_epochs(&text);
        let path = folder.path_of(LEADER_EPOCH_CHECKPOINT);
        self.epochs = LeaderEpochs::in_memory(&entries.map_err(|error| error.at(&path))?)?;
        Ok(())
    }

    fn note_epochs(&mut self) {
        self.epochs_written = Some(write_epochs(self.epochs.entries()));
    }

    /// The checkpoint is written once, whatever Kafka does in between.
    fn write_epochs(&mut self) -> Result<()> {
        if let Some(text) = self.epochs_written.take() {
            let mut folder = lock(&self.folder);
            folder.delete(&format!("{LEADER_EPOCH_CHECKPOINT}{TMP_SUFFIX}"));
            folder.write(LEADER_EPOCH_CHECKPOINT, Content::bytes(text))?;
        }
        Ok(())
    }

    /// What was on its way out goes; of compactions and splits, what was not finished.
    fn remove_temporary_files(&mut self) -> Result<()> {
        let mut folder = lock(&self.folder);
        let (mut cleaned, mut swaps) = (Vec::new(), Vec::new());
        let mut first_cleaned = Offset::MAX;
        for name in folder.names() {
            if name.ends_with(FileState::Deleted.suffix()) && !name.ends_with(SNAPSHOT_DELETED) {
                folder.delete(&name);
            } else if name.ends_with(FileState::Cleaned.suffix()) {
                first_cleaned = first_cleaned.min(offset_in(&folder, &name)?);
                cleaned.push(name);
            } else if name.ends_with(FileState::Swap.suffix()) {
                swaps.push(name);
            }
        }
        for name in swaps {
            // Part of a split that never came to its end.
            if offset_in(&folder, &name)? >= first_cleaned {
                folder.delete(&name);
            }
        }
        for name in cleaned {
            folder.delete(&name);
        }
        Ok(())
    }

    /// What compaction or a split had finished takes the place of what it was made from.
    fn complete_swaps(&mut self) -> Result<()> {
        let mut folder = lock(&self.folder);
        let swap = FileState::Swap.suffix();
        let (mut low, mut high) = (Offset::MAX, Offset::MIN);
        for name in folder.names() {
            let Some(live) = name.strip_suffix(swap) else {
                continue;
            };
            if !live.ends_with(FileKind::Log.suffix()) {
                continue;
            }
            let base = offset_in(&folder, &name)?;
            let mut segment = Segment::open(&mut folder, base, self.settings, FileState::Swap)?;
            low = low.min(base);
            high = high.max(segment.read_next_offset(&mut folder)?);
        }
        for name in folder.names() {
            let replaced = offset_of(&name).is_some_and(|offset| (low..high).contains(&offset));
            if replaced && !name.ends_with(swap) {
                folder.delete(&name);
            }
        }
        for name in folder.names() {
            if let Some(live) = name.strip_suffix(swap) {
                folder.rename(&name, live);
                self.notes.push(Note::Swapped {
                    name: live.to_owned(),
                });
            }
        }
        Ok(())
    }

    fn load_segment_files(&mut self) -> Result<(), Trouble> {
        for segment in self.segments.values_mut() {
            segment.close(&mut lock(&self.folder))?;
        }
        self.segments.clear();
        let names = lock(&self.folder).names();
        for name in names {
            if is_index(&name) {
                let mut folder = lock(&self.folder);
                let offset = offset_in(&folder, &name)?;
                if !folder.contains(&FileName::new(offset, FileKind::Log).to_string()) {
                    folder.delete(&name);
                }
            } else if name.ends_with(FileKind::Log.suffix()) {
                let base = offset_in(&lock(&self.folder), &name)?;
                let read = FileName::new(base, FileKind::Log).to_string();
                if name != read && lock(&self.folder).length(&name) > 0 {
                    self.notes.push(Note::Unread { name });
                }
                self.load_segment(base)?;
            }
        }
        Ok(())
    }

    fn load_segment(&mut self, base_offset: Offset) -> Result<(), Trouble> {
        let mut folder = lock(&self.folder);
        let of = |kind| FileName::new(base_offset, kind).to_string();
        let lacks_time_index = !folder.contains(&of(FileKind::TimeIndex));
        let mut segment = Segment::open(&mut folder, base_offset, self.settings, FileState::Live)?;
        let mut is_sound = folder.contains(&of(FileKind::OffsetIndex));
        if is_sound {
            if lacks_time_index {
                segment.clear_time_index(&mut folder)?;
            }
            is_sound = txn_index_is_sound(&folder, &of(FileKind::TxnIndex), base_offset)?;
        }
        drop(folder);
        if is_sound {
            self.segments.insert(base_offset, segment);
            return Ok(());
        }
        // The state before it is made while it is not among the segments.
        let producers = self.producers_up_to(base_offset)?;
        self.segments.insert(base_offset, segment);
        self.recover_segment(base_offset, producers)
            .map(drop)
            .map_err(|trouble| match trouble {
                Trouble::Overflow(base, error) => {
                    self.unlisted = Some(base);
                    Trouble::Overflow(base, error)
                }
                // Only the recovery of what was not flushed drops a segment for this.
                Trouble::InvalidOffset(error) | Trouble::Fatal(error) => Trouble::Fatal(error),
            })
    }

    fn producers_up_to(&mut self, offset: Offset) -> Result<ProducerStateManager> {
        let snapshots = Arc::new(PlannedSnapshots::new(&self.folder));
        let expiration_ms = self.request.producer_id_expiration_ms;
        let mut producers = ProducerStateManager::open(snapshots, expiration_ms)?;
        rebuild_producer_state(
            &self.folder,
            &mut producers,
            &mut self.segments,
            (self.request.log_start_offset, offset),
            self.request.now_ms,
            false,
        )?;
        Ok(producers)
    }

    /// Checks a segment's batches and makes its indexes anew; returns the bytes cut.
    fn recover_segment(
        &mut self,
        base_offset: Offset,
        mut producers: ProducerStateManager,
    ) -> Result<u64, Trouble> {
        let Some(segment) = self.segments.get_mut(&base_offset) else {
            return Ok(0);
        };
        let before = self.epochs.entries().to_vec();
        let recovered = segment.recover(&mut lock(&self.folder), &mut producers, &mut self.epochs);
        if self.epochs.entries() != before {
            self.note_epochs();
        }
        let recovered = recovered?;
        self.notes.push(Note::Recovered {
            base_offset,
            batches: recovered.batches,
            truncated: recovered.truncated,
            reason: recovered.reason,
        });
        producers.take_snapshot(true)?;
        Ok(recovered.truncated)
    }

    /// Recovers what was not flushed; gives the recovery point and the log end.
    fn recover_log(
        &mut self,
        producers: &mut ProducerStateManager,
    ) -> Result<(Offset, Offset), Trouble> {
        if !self.request.clean {
            self.recover_unflushed(producers)?;
        }
        let request = self.request;
        let mut log_end = None;
        if let Some((_, last)) = self.segments.iter_mut().next_back() {
            let end = last.read_next_offset(&mut lock(&self.folder))?;
            if end >= request.log_start_offset {
                log_end = Some(end);
            } else {
                let reason = format!(
                    "the log ends at {end}, below its start {} by the checkpoint",
                    request.log_start_offset
                );
                let all: Vec<Offset> = self.segments.keys().copied().collect();
                self.delete_segments(&all, &reason)?;
                self.epochs.clear();
                self.note_epochs();
                producers.truncate_fully_and_start_at(request.log_start_offset)?;
            }
        }
        if self.segments.is_empty() {
            self.add_segment(request.log_start_offset)?;
        }
        let is_known = log_end.is_some();
        let end = match log_end {
            Some(end) => end,
            None => match self.segments.iter_mut().next_back() {
                Some((_, last)) => last.read_next_offset(&mut lock(&self.folder))?,
                None => request.log_start_offset,
            },
        };
        self.note_hidden(end)?;
        if request.clean && is_known {
            Ok((end, end))
        } else {
            Ok((request.recovery_point.min(end), end))
        }
    }

    fn recover_unflushed(&mut self, producers: &mut ProducerStateManager) -> Result<(), Trouble> {
        let from = self.request.recovery_point;
        let unflushed = if from == Offset::MAX {
            Vec::new()
        } else {
            values(&self.segments, from, Offset::MAX)
        };
        let mut left = unflushed.into_iter();
        while let Some(base) = left.next() {
            let before = self.producers_up_to(base)?;
            let truncated = match self.recover_segment(base, before) {
                Err(Trouble::InvalidOffset(error)) => self.drop_segment(base, &error)?,
                recovered => recovered?,
            };
            if truncated > 0 {
                let rest: Vec<Offset> = left.collect();
                let reason = format!("segment {base} before it was cut");
                self.delete_segments(&rest, &reason)?;
                self.delete_snapshots(producers, &rest)?;
                break;
            }
        }
        Ok(())
    }

    /// Empties a segment whose offsets go back (`LogLoader.recoverLog`).
    fn drop_segment(&mut self, base_offset: Offset, error: &Error) -> Result<u64> {
        let Some(segment) = self.segments.get_mut(&base_offset) else {
            return Ok(0);
        };
        self.notes.push(Note::Dropped {
            base_offset,
            size: segment.size,
            reason: error.to_string(),
        });
        segment.truncate_to(&mut lock(&self.folder), base_offset)
    }

    /// Renames segments' files to `.deleted`.
    fn delete_segments(&mut self, bases: &[Offset], reason: &str) -> Result<()> {
        for base in bases {
            let Some(mut segment) = self.segments.remove(base) else {
                continue;
            };
            self.notes.push(Note::Deleted {
                base_offset: *base,
                size: segment.size,
                reason: reason.to_owned(),
            });
            let mut folder = lock(&self.folder);
            segment.rename(&mut folder, FileState::Deleted)?;
            for kind in SEGMENT_FILES {
                self.deleted.push(segment.name(kind));
            }
        }
        Ok(())
    }

    /// Renames segments' snapshots to `.deleted`.
    fn delete_snapshots(
        &mut self,
        producers: &mut ProducerStateManager,
        bases: &[Offset],
    ) -> Result<()> {
        for &base in bases {
            if producers.mark_snapshot_deleted(base)? {
                let name = FileName {
                    offset: base,
                    kind: FileKind::Snapshot,
                    state: FileState::Deleted,
                };
                self.deleted.push(name.to_string());
            }
        }
        Ok(())
    }

    fn add_segment(&mut self, base_offset: Offset) -> Result<()> {
        let mut folder = lock(&self.folder);
        let mut segment = Segment::open(&mut folder, base_offset, self.settings, FileState::Live)?;
        if self.config.preallocate {
            let name = segment.name(FileKind::Log);
            folder.set_length(&name, self.config.initial_file_size());
            segment.size = 0;
        }
        drop(folder);
        self.segments.insert(base_offset, segment);
        Ok(())
    }

    /// A log that ends before its last whole batch is no log a user wants to write to.
    fn note_hidden(&mut self, log_end: Offset) -> Result<()> {
        let Some((&base_offset, active)) = self.segments.iter().next_back() else {
            return Ok(());
        };
        if log_end != base_offset || active.size == 0 {
            return Ok(());
        }
        let mut scan = active.scan(&lock(&self.folder), 0, Access::Headers)?;
        let mut next_offset = base_offset;
        while let Ok(Some((position, header))) = scan.next() {
            let last = header.last_offset();
            let rises = header.base_offset >= next_offset && last >= header.base_offset;
            if !rises || scan.ensure_valid(position, &header).is_err() {
                break;
            }
            next_offset = last.saturating_add(1);
        }
        if next_offset > log_end {
            self.notes.push(Note::Hidden {
                base_offset,
                size: active.size,
                next_offset,
            });
        }
        Ok(())
    }

    /// Splits a segment whose offsets reach too far from its base (`LocalLog.splitOverflowedSegment`).
    fn split(&mut self, base: Offset, error: Error) -> Result<()> {
        let is_listed = self.unlisted.take() != Some(base);
        // Kafka would go round and round.
        if self.splits.contains(&base) {
            return Err(error);
        }
        self.splits.push(base);
        let mut folder = lock(&self.folder);
        let mut old = match self.segments.remove(&base) {
            Some(segment) => segment,
            None => Segment::open(&mut folder, base, self.settings, FileState::Live)?,
        };
        // Kafka asks the last batch alone, and gives up where that one fits.
        if !old.has_overflow(&mut folder)? {
            return Err(error);
        }
        let log = folder.get(&old.name(FileKind::Log)).cloned();
        let log = log.unwrap_or_else(Content::empty);
        let mut scan = old.scan(&folder, 0, Access::Headers)?;
        let mut new: Vec<Segment> = Vec::new();
        loop {
            let position = scan.position();
            if position >= old.size {
                break;
            }
            let Some((_, first)) = scan.next()? else {
                return Err(error);
            };
            scan.seek(position);
            let first = first.base_offset;
            let mut segment = Segment::open(&mut folder, first, self.settings, FileState::Cleaned)?;
            let taken = segment
                .fill(&mut folder, &mut scan, &log)
                .map_err(Trouble::into_error)?;
            if taken == 0 {
                return Err(error);
            }
            new.push(segment);
        }
        for segment in new.iter_mut().rev() {
            segment.rename(&mut folder, FileState::Swap)?;
        }
        if is_listed {
            old.rename(&mut folder, FileState::Deleted)?;
            let names = SEGMENT_FILES.map(|kind| old.name(kind));
            self.deleted.extend(names);
        }
        let into: Vec<Offset> = new.iter().map(|segment| segment.base_offset).collect();
        for mut segment in new {
            segment.rename(&mut folder, FileState::Live)?;
            self.segments.insert(segment.base_offset, segment);
        }
        if is_listed && !into.contains(&base) {
            let name = FileName::new(base, FileKind::Snapshot).to_string();
            if folder.rename(&name, &format!("{name}{}", FileState::Deleted.suffix())) {
                self.deleted
                    .push(format!("{name}{}", FileState::Deleted.suffix()));
            }
        }
        drop(folder);
        self.notes.push(Note::Split {
            base_offset: base,
            into,
        });
        Ok(())
    }

    fn topic_id(&self) -> Result<Option<String>> {
        let folder = lock(&self.folder);
        if !folder.contains(PARTITION_METADATA) {
            return Ok(None);
        }
        let text = folder.read(PARTITION_METADATA, MAX_TEXT)?;
        let path = folder.path_of(PARTITION_METADATA);
        parse_partition_metadata(&text)
            .map(Some)
            .map_err(|error| error.at(&path))
    }
}

/// The one index check that loading makes (`TransactionIndex.sanityCheck`).
///
/// # Errors
/// `CorruptIndex` for a version Kafka does not read, which stops the loading.
fn txn_index_is_sound(folder: &Folder, name: &str, base_offset: Offset) -> Result<bool> {
    let bytes = folder.read(name, MAX_TXN_INDEX)?;
    for (n, entry) in bytes.chunks_exact(ABORTED_TXN_SIZE).enumerate() {
        let Some(txn) = AbortedTxn::parse(entry) else {
            break;
        };
        if !txn.is_readable() {
            let at = n.saturating_mul(ABORTED_TXN_SIZE) as u64;
            let what = "aborted transaction version";
            let expected = AbortedTxn::CURRENT_VERSION;
            let error = Error::corrupt_index(what, at, expected, txn.version);
            return Err(error.at(&folder.path_of(name)));
        }
        if txn.last_offset < base_offset {
            return Ok(false);
        }
    }
    Ok(true)
}
