//! A segment that is written (`LogSegment`): a `.log`, and the indexes that follow it, in any [`Storage`].
//!
//! | module | what |
//! |---|---|
//! | here | opening, appending, closing |
//! | `find` | batches by offset, where the segment ends, truncating |
//! | `recover` | indexes rebuilt from the batches |
//! | [`roll`] | why an append goes to the next segment |
//!
//! # Entries
//! Every batch is examined separately, whatever append it came in. If it gets entries ([`super::entries`]), they are
//! (its last offset, its position), and in the time index the largest timestamp so far with the last offset of the
//! batch that reached it.
//!
//! # Index files
//! They are created on first use, at full length, and trimmed to their entries when the segment is rolled or closed. A
//! newly rolled active segment may therefore be a `.log` alone. Data comes before its index entries, in writing and in
//! syncing.

use std::path::Path;

use super::batches::Batches;
use super::entries::{EntryInterval, EntryOffset, largest_timestamp};
use super::files::{name_of, rename_segment};
use super::lazy_index::LazyIndex;
use super::source::Access;
use super::walk::KafkaPolicy;
use crate::error::{Error, Refusal, Result};
use crate::format::batch::BatchHeader;
use crate::format::entry::{
    AbortedTxn, OFFSET_ENTRY_SIZE, OffsetPosition, TIME_ENTRY_SIZE, TimestampOffset,
    relative_offset,
};
use crate::format::file_name::{FileKind, FileState};
use crate::index::offset::OffsetIndex;
use crate::index::time::TimeIndex;
use crate::index::txn::WritableTransactionIndex;
use crate::io::appender::{AppendedBytes, Appender};
use crate::io::entry_file::EntryFile;
use crate::io::folder::DiskFolder;
use crate::io::storage::Storage;
use crate::types::{Offset, Position, TimestampMs};

mod find;
mod recover;
pub(crate) mod roll;

pub(crate) use recover::RecoveryFailure;

/// Topic settings that a segment needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSettings {
    /// `segment.index.bytes`.
    pub max_index_size: usize,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u64,
    /// The offset of its batch that an entry made by recovery names.
    pub entry: EntryOffset,
    /// Milliseconds by which this segment is rolled earlier than `segment.ms`.
    pub roll_jitter_ms: i64,
    /// Zeros that a new `.log` gets (`preallocate`), 0 for none.
    pub initial_length: u64,
}

/// Facts about a segment whose files are not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Bytes of the log in it.
    pub size: u64,
    /// The largest timestamp and the last offset of its batch, once requested: Kafka remembers it, and so
    /// truncation of a segment that was only ever listed comes to another last time entry.
    pub max_timestamp: Option<TimestampOffset>,
    /// The clock when it was opened.
    pub created_ms: TimestampMs,
}

/// A segment open for writing.
#[derive(Debug)]
pub struct WritableSegment<S: Storage = DiskFolder> {
    storage: S,
    base_offset: Offset,
    state: FileState,
    settings: SegmentSettings,
    log: Appender<S::File>,
    offset_index: LazyIndex<S, OffsetPosition, OFFSET_ENTRY_SIZE>,
    time_index: LazyIndex<S, TimestampOffset, TIME_ENTRY_SIZE>,
    txn_index: WritableTransactionIndex<S>,
    /// The clock when it was opened, or when it was last cut to nothing.
    created_ms: TimestampMs,
    /// The largest timestamp of the first batch, once requested: what time-based rolling counts from.
    first_batch_timestamp: Option<TimestampMs>,
    /// The largest timestamp, and the last offset of the batch that reached it; from the time index at first.
    max_timestamp: Option<TimestampOffset>,
    entries: EntryInterval,
    /// Up to here a recovery has checked the batches' checksums: a segment found without indexes is recovered at once,
    /// and again with those that were not flushed.
    checked: Position,
}

impl<S: Storage> WritableSegment<S> {
    /// Opens the segment of this base offset; a `.log` that does not exist is created.
    ///
    /// # Errors
    /// `Io`; `CorruptRecord` for a `.log` longer than Kafka's positions reach.
    pub fn open(
        storage: &S,
        base_offset: Offset,
        settings: SegmentSettings,
        now_ms: TimestampMs,
    ) -> Result<Self> {
        Self::open_as(storage, (base_offset, FileState::Live), settings, now_ms)
    }

    /// Opens the segment whose files have the names of this base offset and state.
    ///
    /// # Errors
    /// As [`WritableSegment::open`].
    pub(crate) fn open_as(
        storage: &S,
        (base_offset, state): (Offset, FileState),
        settings: SegmentSettings,
        now_ms: TimestampMs,
    ) -> Result<Self> {
        let name = |kind| name_of(base_offset, kind, state);
        let path = name(FileKind::Log);
        let is_new = !storage.contains(&path)?;
        let file = storage.open_file(&path)?;
        let log = if is_new {
            Appender::create(file, settings.initial_length)?
        } else {
            Appender::open(file)?
        };
        let size = settings.max_index_size;
        let (offsets, times) = (name(FileKind::OffsetIndex), name(FileKind::TimeIndex));
        let txns = name(FileKind::TxnIndex);
        Ok(Self {
            storage: storage.clone(),
            base_offset,
            state,
            settings,
            log,
            offset_index: LazyIndex::new(storage, offsets, base_offset, size),
            time_index: LazyIndex::new(storage, times, base_offset, size),
            txn_index: WritableTransactionIndex::open_writable_in(storage, &txns, base_offset)?,
            created_ms: now_ms,
            first_batch_timestamp: None,
            max_timestamp: None,
            entries: EntryInterval::new(settings.index_interval_bytes),
            checked: 0,
        })
    }

    /// Opens a segment of which this is known.
    ///
    /// # Errors
    /// As [`WritableSegment::open`].
    pub fn open_known(
        storage: &S,
        base_offset: Offset,
        settings: SegmentSettings,
        known: SegmentSummary,
    ) -> Result<Self> {
        let mut segment = Self::open(storage, base_offset, settings, known.created_ms)?;
        segment.log.ends_at(known.size);
        segment.max_timestamp = known.max_timestamp;
        Ok(segment)
    }

    /// Facts that are needed to open it again.
    #[must_use]
    pub const fn known(&self) -> SegmentSummary {
        SegmentSummary {
            size: self.size(),
            max_timestamp: self.max_timestamp,
            created_ms: self.created_ms,
        }
    }

    /// The offset it is named by.
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// The settings it was opened with.
    #[must_use]
    pub const fn settings(&self) -> SegmentSettings {
        self.settings
    }

    /// The name of one of its files.
    #[must_use]
    pub(crate) fn name(&self, kind: FileKind) -> String {
        name_of(self.base_offset, kind, self.state)
    }

    /// Bytes of the log in it.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.log.end()
    }

    /// Bytes of the log in it, and of a batch after them that is only begun.
    #[must_use]
    pub const fn written(&self) -> u64 {
        self.log.written()
    }

    /// The `.log`.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.log.path()
    }

    /// The offset index, opened or created now if it was not before.
    ///
    /// # Errors
    /// `Io`, `InvalidArgument` for a size that holds no entry.
    pub fn offset_index(&mut self) -> Result<&mut OffsetIndex<S::IndexFile<OFFSET_ENTRY_SIZE>>> {
        self.offset_index.get()
    }

    /// The time index, opened or created now if it was not before.
    ///
    /// # Errors
    /// `Io`, `InvalidArgument` for a size that holds no entry.
    pub fn time_index(&mut self) -> Result<&mut TimeIndex<S::IndexFile<TIME_ENTRY_SIZE>>> {
        self.time_index.get()
    }

    /// Gives both indexes their full length, as the loader does to the active segment's. Entries that have no room then
    /// go, as they are hints, and the next append goes to another segment. (Kafka does not open the log.) Returns
    /// whether all had room.
    ///
    /// # Errors
    /// `Io`, `InvalidArgument` for a size that holds no entry.
    pub fn resize_indexes(&mut self) -> Result<bool> {
        let offsets = self.offset_index.get()?.fit()?;
        let index = self.time_index.get()?;
        let last = index.last_entry();
        let times = index.fit()?;
        if !times {
            add_last(index, last)?;
        }
        Ok(offsets && times)
    }

    /// The largest timestamp so far, and the last offset of the batch that reached it; -1 and the base where there is
    /// none. What the time index says, until something was appended.
    ///
    /// # Errors
    /// Those of opening the time index.
    pub fn max_timestamp(&mut self) -> Result<TimestampOffset> {
        if let Some(known) = self.max_timestamp {
            return Ok(known);
        }
        let last = self.time_index.get()?.last_entry();
        Ok(*self.max_timestamp.insert(last))
    }

    /// Returns whether its indexes can name this offset.
    fn holds(&self, offset: Offset) -> bool {
        relative_offset(self.base_offset, offset).is_some()
    }

    /// The batches of the first `end` bytes, from `from` on.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn walk(
        &self,
        from: Position,
        end: Position,
        access: Access,
    ) -> Result<Batches<KafkaPolicy>> {
        let file = self.storage.open(&self.name(FileKind::Log))?;
        Batches::of_file(file, from, end, access)
    }

    /// Appends whole batches and makes the index entries that are due; says where they begin.
    ///
    /// # Errors
    /// `Refused` (`SegmentOffsetOverflow`) for offsets too far from the base, with nothing written; `Refused`
    /// (`IndexFull`) where an index fills up in the middle, and then the bytes are written (as in Kafka, which rolls
    /// before the next append); `Io`.
    pub fn append(
        &mut self,
        last_offset: Offset,
        bytes: AppendedBytes<'_>,
        batches: &[BatchHeader],
    ) -> Result<Position> {
        self.offset_index.get()?;
        if !self.holds(last_offset) {
            return Err(Error::refused(
                Refusal::SegmentOffsetOverflow,
                format!(
                    "offset {last_offset} does not fit into the segment of base offset {}",
                    self.base_offset
                ),
            ));
        }
        let start = self.log.append(bytes)?;
        let mut position = start;
        for batch in batches {
            if let Some(max) = self.count(batch)? {
                self.add_entries(position, batch.last_offset(), max)?;
            }
            position = position.saturating_add(batch.size as u64);
        }
        Ok(start)
    }

    /// Counts a batch; returns the largest timestamp so far if the batch gets index entries.
    #[inline]
    fn count(&mut self, batch: &BatchHeader) -> Result<Option<TimestampOffset>> {
        let max = largest_timestamp(self.max_timestamp()?, batch);
        self.max_timestamp = Some(max);
        let is_due = self.entries.is_due();
        if is_due {
            self.entries.restart();
        }
        self.entries.count(batch);
        Ok(is_due.then_some(max))
    }

    /// Index entries for the batch at `position`, which stands for `offset` in the offset index.
    fn add_entries(
        &mut self,
        position: Position,
        offset: Offset,
        max: TimestampOffset,
    ) -> Result<()> {
        let position = i32::try_from(position).unwrap_or(i32::MAX);
        self.offset_index.get()?.append(offset, position)?;
        self.time_index
            .get()?
            .maybe_append(max.timestamp, max.offset, false)
    }

    /// Drops what an append wrote before it failed, as far as the disk lets us: best effort, for a log that takes
    /// no more appends.
    pub fn take_back(&mut self, position: Position) {
        let _ = self.log.truncate(position);
    }

    /// Notes an aborted transaction.
    ///
    /// # Errors
    /// `Io`; `Refused` (`OffsetsOutOfOrder`) for one that does not end after the last one noted.
    pub fn append_aborted(&mut self, aborted: &AbortedTxn) -> Result<()> {
        self.txn_index.append(aborted)
    }

    /// The aborted transactions noted in it, also once it is closed.
    ///
    /// # Errors
    /// `Io`; `UnsupportedFormat` for a version that a broker does not read.
    pub(crate) fn aborted(&self) -> Result<Vec<AbortedTxn>> {
        let name = self.name(FileKind::TxnIndex);
        WritableTransactionIndex::open_writable_in(&self.storage, &name, self.base_offset)?.all()
    }

    /// Writes the last time entry and cuts every file to its content: nothing will be appended to it any more.
    ///
    /// # Errors
    /// `Io`.
    pub fn on_become_inactive(&mut self) -> Result<()> {
        let max = self.max_timestamp()?;
        self.time_index
            .get()?
            .maybe_append(max.timestamp, max.offset, true)?;
        self.trim_indexes()?;
        self.log.trim()
    }

    /// Cuts both indexes to their entries.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn trim_indexes(&mut self) -> Result<()> {
        self.offset_index.get()?.trim_to_valid_size()?;
        self.time_index.get()?.trim_to_valid_size()
    }

    /// Syncs all of it to the device, data before indexes. Index files that were not used yet are created, as in Kafka.
    ///
    /// # Errors
    /// `Io`.
    pub fn flush(&mut self) -> Result<()> {
        self.log.sync()?;
        self.flush_indexes()?;
        self.txn_index.flush()
    }

    fn flush_indexes(&mut self) -> Result<()> {
        self.offset_index.get()?.flush()?;
        self.time_index.get()?.flush()
    }

    /// Writes the last time entry, cuts every file to its content, and closes the indexes. Index files that were not
    /// used are left alone.
    ///
    /// # Errors
    /// `Io`.
    pub fn close(&mut self) -> Result<()> {
        if let Some(max) = self.max_timestamp {
            add_last(self.time_index.get()?, max)?;
        }
        self.log.sync()?;
        self.log.trim()?;
        self.offset_index.close()?;
        self.time_index.close()?;
        self.txn_index.close();
        Ok(())
    }

    /// Closes the files as they are.
    pub fn close_handlers(mut self) {
        self.close_indexes();
    }

    /// Closes the indexes as they are; the next use of one opens it again.
    pub(crate) fn close_indexes(&mut self) {
        self.offset_index.close_handler();
        self.time_index.close_handler();
    }

    /// Gives its files the names of another state, and continues under them (`LogSegment.changeFileSuffixes`).
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn rename(&mut self, to: FileState) -> Result<()> {
        let (base, from) = (self.base_offset, self.state);
        self.offset_index
            .rename(name_of(base, FileKind::OffsetIndex, to))?;
        self.time_index
            .rename(name_of(base, FileKind::TimeIndex, to))?;
        rename_segment(&self.storage, base, from, to)?;
        self.state = to;
        let txns = self.name(FileKind::TxnIndex);
        self.txn_index = WritableTransactionIndex::open_writable_in(&self.storage, &txns, base)?;
        let size = self.size();
        self.reopen_log()?;
        self.log.ends_at(size);
        Ok(())
    }

    /// Opens the `.log` again, all of it: it has another name, or was written by another process.
    fn reopen_log(&mut self) -> Result<()> {
        let file = self.storage.open_file(&self.name(FileKind::Log))?;
        self.log = Appender::open(file)?;
        Ok(())
    }
}

/// Adds the entry that names the largest timestamp. An index that is full or ends further on goes without it.
fn add_last<F: EntryFile<TIME_ENTRY_SIZE>>(
    index: &mut TimeIndex<F>,
    last: TimestampOffset,
) -> Result<()> {
    match index.maybe_append(last.timestamp, last.offset, true) {
        Err(Error::Refused { .. }) => Ok(()),
        added => added,
    }
}
