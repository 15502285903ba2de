//! The steps of loading, in Kafka's order (`LogLoader.load`).

use std::ops::Range;
use std::sync::Arc;

use super::loaded::LoadedLog;
use super::note::Note;
use super::plan::Plan;
use super::request::LoadRequest;
use super::segments::{PlannedSegment, PlannedSegmentList};
use crate::error::{Error, Result};
use crate::format::checkpoint::{
    LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, parse_epochs, parse_partition_metadata,
    write_epochs,
};
use crate::format::file_name::{FileKind, FileName, FileState, leading_offset, offset_of_file};
use crate::index::txn::WritableTransactionIndex;
use crate::io::atomic::TMP_SUFFIX;
use crate::io::overlay::Overlay;
use crate::io::overlay::content::Content;
use crate::io::storage::{Folder, ReadFolder as _, Storage as _};
use crate::log::config::LogConfig;
use crate::log::dir::text_limit;
use crate::log::epochs::LeaderEpochs;
use crate::producers::ProducerStateManager;
use crate::producers::replay::{Rebuilding, ReplayedLog as _};
use crate::producers::snapshots::Snapshots;
use crate::segment::writer::{RecoveryFailure, SegmentSettings};
use crate::types::Offset;

/// KRaft's own, which it removes itself.
const SNAPSHOT_DELETED: &str = ".checkpoint.deleted";

/// The one index check that loading makes (`TransactionIndex.sanityCheck`).
///
/// # Errors
/// `UnsupportedFormat` for a version Kafka does not read, which stops the loading; `Io`.
pub(super) fn txn_index_is_sound(
    folder: &Overlay,
    name: &str,
    base_offset: Offset,
) -> Result<bool> {
    match WritableTransactionIndex::open_writable_in(folder, name, base_offset)?.sanity_check() {
        Ok(()) => Ok(true),
        Err(Error::CorruptIndex(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn is_index(name: &str) -> bool {
    let kinds = [
        FileKind::OffsetIndex,
        FileKind::TimeIndex,
        FileKind::TxnIndex,
    ];
    kinds.iter().any(|kind| name.ends_with(kind.suffix()))
}

/// A folder being loaded.
pub(super) struct Loader<'a> {
    pub(super) folder: Overlay,
    pub(super) config: &'a LogConfig,
    /// Without `preallocate`, which is for new segments alone.
    pub(super) settings: SegmentSettings,
    pub(super) request: LoadRequest,
    pub(super) segments: PlannedSegmentList,
    pub(super) epochs: LeaderEpochs,
    /// New content of the checkpoint, once something was written to it.
    pub(super) epochs_written: Option<Vec<u8>>,
    pub(super) notes: Vec<Note>,
    /// Files that were only renamed.
    pub(super) deleted: Vec<String>,
    /// A segment to be split that was not among the segments yet: Kafka leaves its files where new ones do not
    /// replace them.
    pub(super) unlisted: Option<Offset>,
    /// Segments that were split.
    pub(super) splits: Vec<Offset>,
}

impl<'a> Loader<'a> {
    pub(super) fn new(folder: Folder, config: &'a LogConfig, request: LoadRequest) -> Result<Self> {
        Ok(Self {
            folder: Overlay::new(folder)?,
            config,
            settings: SegmentSettings {
                initial_length: 0,
                ..config.segment_settings()
            },
            request,
            segments: PlannedSegmentList::default(),
            epochs: LeaderEpochs::in_memory(&[])?,
            epochs_written: None,
            notes: Vec::new(),
            deleted: Vec::new(),
            unlisted: None,
            splits: Vec::new(),
        })
    }

    pub(super) fn into_plan(mut self, outcome: Result<LoadedLog>) -> Plan {
        let outcome = self.write_epochs().and(outcome);
        Plan {
            folder: self.folder,
            outcome,
            losses: Vec::new(),
            notes: self.notes,
            segments: self.segments,
            deleted: self.deleted,
        }
    }
}

impl Loader<'_> {
    pub(super) fn load(&mut self) -> Result<LoadedLog> {
        self.read_epochs()?;
        let mut producers = self.open_producers()?;
        self.remove_temporary_files()?;
        self.complete_swaps()?;
        self.splitting(Self::load_segment_files)?;
        let (recovery_point, log_end_offset) = self.recover(&mut producers)?;
        let mut flush_epochs = self.epochs.truncate_from_end(log_end_offset);
        let bases = self.segments.base_offsets();
        let first_base = bases.first().copied().unwrap_or_default();
        let log_start_offset = self.request.log_start_offset.max(first_base);
        flush_epochs |= self
            .epochs
            .truncate_from_start(self.request.log_start_offset);
        producers.remove_stray_snapshots(&bases)?;
        let to = Rebuilding {
            log_start_offset,
            log_end_offset,
            now_ms: self.request.now_ms,
            was_clean: self.request.clean,
        };
        producers.rebuild(&mut self.segments, to)?;
        self.look_up_first_unstable(&producers, log_start_offset)?;
        self.check_topic_id()?;
        if flush_epochs {
            self.note_epochs();
        }
        Ok(LoadedLog {
            log_start_offset,
            log_end_offset,
            recovery_point: recovery_point.max(log_start_offset),
            segments: self.segments.listed(),
            epochs: self.epochs.clone(),
            producers,
        })
    }

    pub(super) fn open_segment(
        &self,
        base_offset: Offset,
        state: FileState,
    ) -> Result<PlannedSegment> {
        let now_ms = self.request.now_ms;
        PlannedSegment::open_as(&self.folder, (base_offset, state), self.settings, now_ms)
    }

    /// Gives the recovery point and the log end, after the recovery of what was not flushed.
    fn recover(&mut self, producers: &mut ProducerStateManager) -> Result<(Offset, Offset)> {
        if self.is_delete_folder() {
            if self.segments.is_empty() {
                self.add_segment(0)?;
            }
            return Ok((0, 0));
        }
        let offsets = self.splitting(|loader| loader.recover_log(producers))?;
        if let Some(active) = self.segments.active_mut() {
            let base_offset = active.base_offset();
            if !active.resize_indexes()? {
                self.notes.push(Note::IndexFull {
                    base_offset,
                    position: None,
                });
            }
        }
        Ok(offsets)
    }

    /// Takes a step, and takes it again after each segment that was in its way, as its offsets reach too far, was split.
    fn splitting<T>(
        &mut self,
        mut step: impl FnMut(&mut Self) -> Result<T, RecoveryFailure>,
    ) -> Result<T> {
        loop {
            match step(self) {
                Err(RecoveryFailure::Overflow(base, error)) => self.split(base, error)?,
                outcome => return outcome.map_err(RecoveryFailure::into_error),
            }
        }
    }

    pub(super) fn open_producers(&self) -> Result<ProducerStateManager> {
        let snapshots = Snapshots::over(self.folder.clone());
        ProducerStateManager::open(Arc::new(snapshots), self.request.producer_id_expiration_ms)
    }

    /// Kafka looks up where the oldest open transaction begins (`maybeIncrementFirstUnstableOffset`). That opens an index,
    /// which closing the log then cuts to whole entries.
    fn look_up_first_unstable(
        &mut self,
        producers: &ProducerStateManager,
        log_start_offset: Offset,
    ) -> Result<()> {
        let Some(first) = producers.first_unstable_offset() else {
            return Ok(());
        };
        let offset = first.max(log_start_offset);
        for base in self.segments.values(offset, Offset::MAX) {
            if let Some(segment) = self.segments.get_mut(base)
                && segment.translate_offset(offset)?.is_some()
            {
                break;
            }
        }
        Ok(())
    }

    fn is_delete_folder(&self) -> bool {
        let folder = self.folder.clone();
        folder.path().to_string_lossy().ends_with("-delete")
    }

    fn read_epochs(&mut self) -> Result<()> {
        let folder = self.folder.clone();
        if !folder.contains(LEADER_EPOCH_CHECKPOINT) {
            folder.write(LEADER_EPOCH_CHECKPOINT, Content::empty())?;
        }
        let text = folder.read(LEADER_EPOCH_CHECKPOINT, text_limit(LEADER_EPOCH_CHECKPOINT))?;
        let entries = parse_epochs(&text);
        let path = folder.path_of(LEADER_EPOCH_CHECKPOINT);
        self.epochs = LeaderEpochs::in_memory(&entries.map_err(|error| error.at(&path))?)?;
        Ok(())
    }

    pub(super) fn note_epochs(&mut self) {
        self.epochs_written = Some(write_epochs(self.epochs.entries()));
    }

    /// The checkpoint is written once, whatever Kafka does in between.
    fn write_epochs(&mut self) -> Result<()> {
        if let Some(text) = self.epochs_written.take() {
            let folder = self.folder.clone();
            folder.delete(&format!("{LEADER_EPOCH_CHECKPOINT}{TMP_SUFFIX}"));
            folder.write(LEADER_EPOCH_CHECKPOINT, Content::bytes(text))?;
        }
        Ok(())
    }

    /// Removes files that were being deleted, and unfinished results of compactions and splits.
    pub(super) fn remove_temporary_files(&mut self) -> Result<()> {
        let folder = self.folder.clone();
        let (mut cleaned, mut swaps) = (Vec::new(), Vec::new());
        let mut first_cleaned = Offset::MAX;
        for name in folder.names() {
            if name.ends_with(FileState::Deleted.suffix()) && !name.ends_with(SNAPSHOT_DELETED) {
                folder.delete(&name);
            } else if name.ends_with(FileState::Cleaned.suffix()) {
                first_cleaned = first_cleaned.min(offset_of_file(&folder.path_of(&name))?);
                cleaned.push(name);
            } else if name.ends_with(FileState::Swap.suffix()) {
                swaps.push(name);
            }
        }
        for name in swaps {
            // Part of a split that never came to its end.
            if offset_of_file(&folder.path_of(&name))? >= first_cleaned {
                folder.delete(&name);
            }
        }
        for name in cleaned {
            folder.delete(&name);
        }
        Ok(())
    }

    /// Puts the finished results of compaction or a split in the place of their sources.
    fn complete_swaps(&mut self) -> Result<()> {
        let folder = self.folder.clone();
        let swap = FileState::Swap.suffix();
        let (mut low, mut high) = (Offset::MAX, Offset::MIN);
        for name in folder.names() {
            let Some(live) = name.strip_suffix(swap) else {
                continue;
            };
            if !live.ends_with(FileKind::Log.suffix()) {
                continue;
            }
            let base = offset_of_file(&folder.path_of(&name))?;
            let mut segment = self.open_segment(base, FileState::Swap)?;
            low = low.min(base);
            high = high.max(segment.read_next_offset()?);
        }
        self.swap_in(low..high)
    }

    /// Swaps take their places, in which the files of the offsets in `replaced` are.
    pub(super) fn swap_in(&mut self, replaced: Range<Offset>) -> Result<()> {
        let folder = self.folder.clone();
        let swap = FileState::Swap.suffix();
        for name in folder.names() {
            let is_replaced =
                leading_offset(&name).is_some_and(|offset| replaced.contains(&offset));
            if is_replaced && !name.ends_with(swap) {
                folder.delete(&name);
            }
        }
        for name in folder.names() {
            if let Some(live) = name.strip_suffix(swap) {
                folder.rename(&name, live)?;
                self.notes.push(Note::Swapped {
                    name: live.to_owned(),
                });
            }
        }
        Ok(())
    }

    fn load_segment_files(&mut self) -> Result<(), RecoveryFailure> {
        for segment in self.segments.iter_mut() {
            segment.close()?;
        }
        self.segments.clear();
        let names = self.folder.names();
        for name in names {
            if is_index(&name) {
                let folder = self.folder.clone();
                let offset = offset_of_file(&folder.path_of(&name))?;
                if !folder.contains(&FileName::new(offset, FileKind::Log).to_string()) {
                    folder.delete(&name);
                }
            } else if name.ends_with(FileKind::Log.suffix()) {
                let base = offset_of_file(&self.folder.path_of(&name))?;
                self.load_segment(base)?;
            }
        }
        Ok(())
    }

    fn load_segment(&mut self, base_offset: Offset) -> Result<(), RecoveryFailure> {
        let folder = self.folder.clone();
        let of = |kind| FileName::new(base_offset, kind).to_string();
        let lacks_time_index = !folder.contains(&of(FileKind::TimeIndex));
        let mut segment = self.open_segment(base_offset, FileState::Live)?;
        let mut is_sound = folder.contains(&of(FileKind::OffsetIndex));
        if is_sound {
            if lacks_time_index {
                // One that was only just created has no length.
                segment.time_index()?.resize(0)?;
            }
            is_sound = txn_index_is_sound(&folder, &of(FileKind::TxnIndex), base_offset)?;
        }

        if is_sound {
            self.segments.insert(segment);
            return Ok(());
        }
        // The state before it is made while it is not among the segments.
        let producers = self.producers_up_to(base_offset)?;
        self.segments.insert(segment);
        self.recover_segment(base_offset, producers)
            .map(drop)
            .map_err(|failure| match failure {
                RecoveryFailure::Overflow(base, error) => {
                    self.unlisted = Some(base);
                    RecoveryFailure::Overflow(base, error)
                }
                // Only the recovery of what was not flushed drops a segment for this.
                RecoveryFailure::InvalidOffset(error) | RecoveryFailure::Fatal(error) => {
                    RecoveryFailure::Fatal(error)
                }
            })
    }

    fn check_topic_id(&self) -> Result<()> {
        if !self.folder.contains(PARTITION_METADATA) {
            return Ok(());
        }
        let text = self
            .folder
            .read(PARTITION_METADATA, text_limit(PARTITION_METADATA))?;
        parse_partition_metadata(&text)
            .map(drop)
            .map_err(|error| error.at(&self.folder.path_of(PARTITION_METADATA)))
    }
}
