//! Loading a partition folder as a broker does at start-up (`LogLoader`, `UnifiedLog.create`), as a plan.
//!
//! | module | what |
//! |---|---|
//! | [`content`] | the bytes of a file, most of which stay on the disk |
//! | [`folder`] | the folder under plan: the disk's files, and the actions over them |
//! | [`scan`] | header to header, as Kafka walks a file |
//! | `loader`, `recovery` | the steps, in Kafka's order |
//! | `salvage`, `whole` | before them, where no whole batch may be lost |
//! | `index`, `txns`, `rebuilt`, `segment` | Kafka's classes over a folder under plan |
//! | `producers` | producer state replayed from the batches |
//! | `apply` | a plan carried out, in place or into another folder |
//!
//! [`plan`] reads the folder and writes nothing: a dry run is a plan that is not carried out. What it finds in the end is
//! what a broker would have loaded, [`LoadedLog`]; or the reason why it would not start, with the actions it would have
//! taken until then. Indexes of one segment at a time are in memory, and up to 64 MiB of those that are to be written.

mod apply;
pub mod content;
pub mod folder;
mod index;
mod loader;
mod note;
mod producers;
mod rebuilt;
mod recovery;
mod salvage;
pub mod scan;
mod segment;
mod txns;
mod whole;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::folder::{Action, FileChange, Folder};
use self::loader::{Loader, floor};
pub use self::note::Note;
pub use self::segment::EntryOffset;
use self::segment::Segment;
use crate::error::{Error, Result};
use crate::format::entry::TimestampOffset;
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::log::config::LogConfig;
use crate::log::epochs::LeaderEpochs;
use crate::log::producer_state::ProducerStateManager;
use crate::types::{Offset, TimestampMs};

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

impl LoadRequest {
    /// The same, after an unclean stop with nothing flushed: everything is checked, all indexes are made anew.
    const fn unflushed(self) -> Self {
        Self {
            clean: false,
            recovery_point: 0,
            ..self
        }
    }
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
    let mut loader = Loader::new(path, config, request)?;
    let outcome = loader.load();
    Ok(loader.into_plan(outcome))
}

/// Plans the loading of a partition folder of which every batch is kept that is whole and in order: nothing is believed
/// but the batches, whatever the request says of clean stops and recovery points.
///
/// # Errors
/// As [`plan`].
pub fn plan_salvage(path: &Path, config: &LogConfig, request: LoadRequest) -> Result<Plan> {
    let mut loader = Loader::new(path, config, request.unflushed())?;
    let outcome = loader.salvage().and_then(|()| loader.load());
    Ok(loader.into_plan(outcome))
}

/// Plans making all indexes anew, whatever is there: loading as after an unclean stop with nothing flushed, by which a
/// broker rebuilds them, without the old ones.
///
/// # Errors
/// As [`plan`].
pub fn plan_rebuild(
    path: &Path,
    config: &LogConfig,
    request: LoadRequest,
    entry: EntryOffset,
) -> Result<Plan> {
    let mut loader = Loader::new(path, config, request.unflushed())?;
    loader.settings.entry = entry;
    let outcome = loader.discard_broken_indexes().and_then(|()| loader.load());
    Ok(loader.into_plan(outcome))
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

    /// Plans the removal of every live file of a kind.
    pub fn remove_all(&mut self, kind: FileKind) {
        let mut folder = lock(&self.folder);
        for name in folder.names() {
            if FileName::parse(&name)
                .is_some_and(|name| (name.kind, name.state) == (kind, FileState::Live))
            {
                folder.delete(&name);
            }
        }
    }

    /// Bytes in memory that are to be written.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        lock(&self.folder).kept_bytes()
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
