//! A partition log open for writing (`UnifiedLog` over `LocalLog`).
//!
//! | module | what |
//! |---|---|
//! | [`append`] | as a follower, which keeps offsets; the steps of every append |
//! | [`checkpoints`] | the offset checkpoints of a log dir, after its logs were loaded |
//! | [`checks`] | checks of batches before they are appended |
//! | `encoded` | batches that were encoded here, as many as fit into one write |
//! | `leader` | only for tests and Kafka's traces: as a leader, which assigns offsets |
//! | `offsets` | high watermark, log start, leader epochs, the last stable offset |
//! | `open` | loading, then opening |
//! | `rebuild` | producer state, replayed from the batches after a snapshot |
//! | `replace` | segments in place of others, with fewer records |
//! | `retain` | segments that retention deletes |
//! | `roll` | the next segment; flushing |
//! | [`segments`] | the active segment, and facts about the others |
//! | [`storage`] | log dirs opened for writing |
//! | `truncate` | cutting the log, and files that wait to be removed |
//! | [`writer`] | one partition of a log dir, open for writing |
//!
//! # Clocks
//! Every call that needs the time takes it as an argument: replays and tests have their own.
//!
//! # Failures
//! A refusal ([`Error::Refused`], `InvalidRecord`, ...) leaves the log as it was. After a disk error the log accepts
//! nothing more ([`Refusal::Failed`]): the writes of the failed call are rolled back as far as the disk allows, nothing
//! else is written, and recovery finds the last acknowledged append in the folder. Data, index entries, epochs and
//! snapshots are written in this order, so recovery never sees a partial record as whole.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU64;
use std::path::Path;

use crate::error::{Error, Refusal, Result};
use crate::io::appender::SyncPolicy;
use crate::io::disk::Disk;
use crate::io::folder::DiskFolder;
use crate::io::storage::Storage;
use crate::log::config::LogConfig;
use crate::log::epochs::LeaderEpochs;
use crate::producers::{DEFAULT_PRODUCER_ID_EXPIRATION_MS, ProducerStateManager};
use crate::segment::files::sync_segment;
use crate::segment::writer::WritableSegment;
use crate::types::{Offset, TimestampMs};

pub(crate) mod append;
pub(crate) mod checkpoints;
pub(crate) mod checks;
mod encoded;
#[cfg(feature = "internal")]
mod leader;
mod offsets;
mod open;
mod rebuild;
mod replace;
mod retain;
mod roll;
pub(crate) mod segments;
pub(crate) mod storage;
mod truncate;
pub(crate) mod writer;

#[cfg(test)]
mod tests;

pub use append::AppendInfo;
#[cfg(feature = "internal")]
pub use leader::LeaderAppend;
pub(crate) use segments::SegmentInfo;
use segments::WritableSegments;
use truncate::Deleted;

/// Options for opening and keeping a log.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// The topic's settings.
    pub config: LogConfig,
    /// Policy for syncing appends; [`WriteOptions::new`] uses `flush.messages` and `flush.ms`.
    pub sync: SyncPolicy,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
    /// The way to the file system.
    pub disk: Disk,
    /// Seed of the random part of `segment.jitter.ms`; [`WriteOptions::new`] uses another one each time.
    pub seed: u64,
    /// The job that appends, where it is one that notes what it does ([`storage`]).
    pub job: Option<String>,
    /// At multiples of this in a `.log` do writes of many batches end.
    pub write_bytes: NonZeroU64,
}

/// The page cache takes a write that covers a naturally aligned power of two in one large folio, instead of a page or a
/// few at a time; the more, the rarer what every write costs. Still more stays in no processor's cache between the
/// encoding and the writing: twice as much was no quicker, half of it 5 % slower.
pub(crate) const DEFAULT_WRITE_BYTES: NonZeroU64 = NonZeroU64::new(512 << 10).unwrap();

impl WriteOptions {
    /// These settings, synced as they say.
    #[must_use]
    pub fn new(config: LogConfig) -> Self {
        let sync = SyncPolicy::Every {
            records: config.flush_messages,
            ms: config.flush_ms,
        };
        Self {
            config,
            sync,
            producer_id_expiration_ms: DEFAULT_PRODUCER_ID_EXPIRATION_MS,
            disk: Disk::default(),
            // Logs opened together are not to roll together: that is what the jitter is for.
            seed: RandomState::new().hash_one(()),
            job: None,
            write_bytes: DEFAULT_WRITE_BYTES,
        }
    }
}

/// A partition log open for writing.
#[derive(Debug)]
pub struct WritableLog<S: Storage = DiskFolder> {
    /// The partition folder.
    storage: S,
    options: WriteOptions,
    segments: WritableSegments<S>,
    log_start_offset: Offset,
    log_end_offset: Offset,
    /// End that the log would have if it were loaded again, if that is below the log end.
    lower_end: Option<Offset>,
    recovery_point: Offset,
    high_watermark: Offset,
    first_unstable: Option<offsets::FirstUnstable>,
    last_flush_ms: TimestampMs,
    epochs: LeaderEpochs,
    producers: ProducerStateManager,
    deleted: Vec<Deleted>,
    /// Failure after which the log refuses everything.
    failure: Option<String>,
}

impl<S: Storage> WritableLog<S> {
    /// The partition folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.storage.path()
    }

    /// The topic's settings.
    #[must_use]
    pub const fn config(&self) -> &LogConfig {
        &self.options.config
    }

    /// The first offset that may be read.
    #[must_use]
    pub const fn log_start_offset(&self) -> Offset {
        self.log_start_offset
    }

    /// The next offset to be written.
    #[must_use]
    pub const fn log_end_offset(&self) -> Offset {
        self.log_end_offset
    }

    /// Returns the end that the log would have if it were loaded again: no file says that it was cut at an offset
    /// inside a batch.
    pub(crate) fn end_when_loaded(&self) -> Offset {
        self.lower_end.unwrap_or(self.log_end_offset)
    }

    /// The first offset that may not be on the disk.
    #[must_use]
    pub const fn recovery_point(&self) -> Offset {
        self.recovery_point
    }

    /// All segments, in order; the last one is the active one.
    #[must_use]
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.segments.infos()
    }

    /// The active segment.
    pub const fn active_segment(&mut self) -> &mut WritableSegment<S> {
        &mut self.segments.active
    }

    /// The producers at the log end.
    #[must_use]
    pub const fn producers(&self) -> &ProducerStateManager {
        &self.producers
    }

    /// The leader epochs.
    #[must_use]
    pub const fn epochs(&self) -> &LeaderEpochs {
        &self.epochs
    }

    /// Refuses if the log has failed.
    fn check_failed(&self) -> Result<()> {
        match &self.failure {
            None => Ok(()),
            Some(why) => Err(Error::refused(
                Refusal::Failed,
                format!(
                    "{}: the log takes nothing more after: {why}",
                    self.folder().display()
                ),
            )),
        }
    }

    /// Runs a step that changes files; an error of the disk makes the log refuse everything from then on.
    fn guarded<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.check_failed()?;
        let outcome = step(self);
        if let Err(error @ Error::Io { .. }) = &outcome {
            self.failure = Some(error.to_string());
        }
        outcome
    }

    /// Closes cleanly: syncs everything, writes a producer snapshot at the log end and the last time entry, trims files
    /// to their content, and removes files that waited long enough. Returns the recovery point: the log end. A failed
    /// log is only released.
    ///
    /// # Errors
    /// `Io`; the folder is then as after a crash. `Refused` for a log that had failed.
    pub fn close(mut self, now_ms: TimestampMs) -> Result<Offset> {
        let flushed = self.flush(true, now_ms);
        if let Err(error) = flushed.and_then(|()| self.remove_deleted(now_ms)) {
            self.crash();
            return Err(error);
        }
        self.producers.take_snapshot(true)?;
        let base_offset = self.segments.active.base_offset();
        self.segments.active.close()?;
        // The last time entry, and lengths: after a clean shutdown nothing is checked.
        sync_segment(&self.storage, base_offset)?;
        self.storage.sync_names()?;
        Ok(self.recovery_point)
    }

    /// Lets go of the files as they are, as a crash does.
    pub fn crash(self) {
        self.segments.active.close_handlers();
    }
}
