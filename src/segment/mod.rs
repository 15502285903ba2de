//! One segment: a `.log` file and its indexes.
//!
//! | module | what |
//! |---|---|
//! | [`entries`] | selection of the batches that get index entries |
//! | [`files`] | the files of a segment that are not open |
//! | `lazy_index` | index files opened on first use |
//! | [`skipping`] | reading past damage, with an account of the losses |
//! | [`source`] | the bytes of a `.log`: mapped, or copied if they may still change |
//! | `committed` | the transactions that a reader must skip |
//! | [`filter`] | filters for batches and records, beyond offsets |
//! | `offset_set` | a set of offsets |
//! | [`metrics`] | counters of a reader |
//! | [`neighbours`] | the rule by which a batch fits between those around it |
//! | [`reader`] | the records of a `.log`, chunk by chunk |
//! | `checksum_pipeline` | checksums that several threads compute ahead of a walk |
//! | [`batches`] | iterates over batches, by one of three policies; the strict one |
//! | [`lookup`] | batches by offset and by timestamp, indexes as hints |
//! | [`resync`] | iterates over batches past damage, with the losses in between |
//! | [`transactions`] | beginnings and ends of transactions |
//! | [`walk`] | the policy with exactly Kafka's checks |
//! | [`writer`] | a segment that is written: appended to, truncated, recovered; on a disk or under plan |
//! | [`statistics`] | statistics from the headers of a segment |

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::error::Result;
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::index::offset::OffsetIndex;
use crate::index::time::TimeIndex;
use crate::index::txn::TransactionIndex;
use crate::io::mapping::{ClosedFile, ClosedName};
use crate::io::storage::{FileStat, Folder, ReadFolder};
use crate::types::{Offset, Position, TimestampMs};

pub(crate) mod batches;
mod checksum_pipeline;
mod committed;
pub(crate) mod entries;
pub(crate) mod files;
pub(crate) mod filter;
mod lazy_index;
pub(crate) mod lookup;
pub(crate) mod metrics;
pub(crate) mod neighbours;
pub(crate) mod offset_set;
pub(crate) mod reader;
pub(crate) mod resync;
pub(crate) mod skipping;
pub(crate) mod source;
pub(crate) mod statistics;
pub(crate) mod transactions;
pub(crate) mod walk;
pub(crate) mod writer;

use batches::{Batches, Bounds};
use files::name_of;
use skipping::{OnCorrupt, PastDamage};
use source::{Access, SegmentSource};

/// A segment as it was when its folder was listed. No file is open; every lookup opens the files that it needs.
#[derive(Clone, Debug)]
pub struct LogSegment {
    /// The partition folder.
    folder: Folder,
    /// The `.log` file's name.
    pub file_name: String,
    /// Base offset, from the name.
    pub base_offset: Offset,
    /// Bytes of the `.log`.
    pub size: u64,
    /// Modification time of the `.log`; Kafka takes it for the largest timestamp of a segment that has none.
    pub modified_ms: TimestampMs,
    /// The partition's last segment.
    pub is_active: bool,
    /// Base offset of the next segment.
    pub next_base_offset: Option<Offset>,
    /// True if there is an offset index; Kafka recovers a segment that lacks it.
    pub has_offset_index: bool,
    /// True if there is a time index; Kafka gives an empty one to a segment that lacks it.
    pub has_time_index: bool,
    /// Action on damage on the way to an answer.
    pub on_corrupt: OnCorrupt,
    /// The largest timestamp in it, once requested.
    max_timestamp: OnceLock<TimestampMs>,
}

impl LogSegment {
    /// A segment whose `.log` was just listed. Neighbours and indexes are filled in by the folder's lister.
    #[must_use]
    pub fn new(folder: Folder, name: FileName, size: u64, modified_ms: TimestampMs) -> Self {
        Self::named(folder, name.to_string(), name.offset, size, modified_ms)
    }

    /// As [`LogSegment::new`], for a file whose name is not one of a segment's.
    #[must_use]
    pub const fn named(
        folder: Folder,
        file_name: String,
        base_offset: Offset,
        size: u64,
        modified_ms: TimestampMs,
    ) -> Self {
        Self {
            folder,
            file_name,
            base_offset,
            size,
            modified_ms,
            is_active: false,
            next_base_offset: None,
            has_offset_index: false,
            has_time_index: false,
            on_corrupt: OnCorrupt::Raise,
            max_timestamp: OnceLock::new(),
        }
    }

    /// The `.log`, for error messages.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.folder.path_of(&self.file_name)
    }

    /// Bounds that batches in it are checked against.
    #[must_use]
    pub const fn bounds(&self) -> Bounds {
        Bounds {
            base_offset: self.base_offset,
            next_base_offset: self.next_base_offset,
            is_active: self.is_active,
            end: None,
        }
    }

    /// Its batches, past damage if requested, from `position` of `source` on.
    pub(crate) fn batches(&self, source: SegmentSource, position: Position) -> Batches<PastDamage> {
        if let Some(file) = source.file().filter(|_| self.on_corrupt == OnCorrupt::Skip) {
            file.pass_damage();
        }
        let policy = PastDamage::new(self.on_corrupt, self.bounds(), self.size, position);
        Batches::new(source, policy)
    }

    /// Opens the `.log`: mapped where it is closed, else by copy.
    ///
    /// # Errors
    /// As [`SegmentSource::open`].
    pub fn open(&self, access: Access) -> Result<SegmentSource> {
        match self.closed(&self.file_name) {
            Some(name) => SegmentSource::map(name, self.size, access),
            None => self.open_by_copy(access),
        }
    }

    /// Opens the `.log` to be read by copy.
    ///
    /// # Errors
    /// As [`SegmentSource::open`].
    pub fn open_by_copy(&self, access: Access) -> Result<SegmentSource> {
        SegmentSource::open(&*self.folder, &self.file_name, self.size, access)
    }

    /// Length and modification time of the `.log` now.
    ///
    /// # Errors
    /// `Io`, also where it is gone.
    pub(crate) fn stat(&self) -> Result<FileStat> {
        self.folder.stat(&self.file_name)
    }

    /// Name of the file of another kind that belongs to this `.log`.
    #[must_use]
    pub fn sibling_name(&self, kind: FileKind) -> String {
        let state = FileName::parse(&self.file_name).map_or(FileState::Live, |name| name.state);
        name_of(self.base_offset, kind, state)
    }

    /// Returns whether there is a file of another kind that belongs to this `.log`.
    #[must_use]
    pub fn has(&self, kind: FileKind) -> bool {
        self.folder
            .contains(&self.sibling_name(kind))
            .unwrap_or(false)
    }

    /// Length of a file of another kind that belongs to this `.log`, if there is one.
    #[must_use]
    pub fn size_of(&self, kind: FileKind) -> Option<u64> {
        let stat = self.folder.stat(&self.sibling_name(kind));
        stat.ok().map(|stat| stat.length)
    }

    /// The file of another kind that belongs to this `.log`, for error messages.
    #[must_use]
    pub fn sibling(&self, kind: FileKind) -> PathBuf {
        self.folder.path_of(&self.sibling_name(kind))
    }

    /// The largest timestamp in it, if it was requested before.
    #[must_use]
    pub fn known_max_timestamp(&self) -> Option<TimestampMs> {
        self.max_timestamp.get().copied()
    }

    /// The name of one of its files, if they are no longer written, as its folder shows.
    fn closed<'a>(&'a self, name: &'a str) -> Option<ClosedName<'a>> {
        let of = || ClosedName::of(&*self.folder, name, self.next_base_offset);
        (!self.is_active).then(of).flatten()
    }

    /// An index, if there is one that can be opened: mapped where the segment is closed, else by copy.
    fn index<I>(
        &self,
        kind: FileKind,
        open: impl FnOnce(&dyn ReadFolder, &str, Offset) -> Result<I>,
        map: impl FnOnce(&ClosedFile, Offset) -> Result<I>,
    ) -> Option<I> {
        let name = self.sibling_name(kind);
        let opened = match self.closed(&name) {
            Some(closed) => closed.open().and_then(|file| map(&file, self.base_offset)),
            None => open(&*self.folder, &name, self.base_offset),
        };
        opened.ok()
    }

    /// The offset index, if there is one that can be opened: it is a hint.
    #[must_use]
    pub fn offset_index(&self) -> Option<OffsetIndex> {
        let open = || {
            self.index(
                FileKind::OffsetIndex,
                OffsetIndex::open_in,
                OffsetIndex::map,
            )
        };
        self.has_offset_index.then(open).flatten()
    }

    /// The time index, if there is one that can be opened: it is a hint.
    #[must_use]
    pub fn time_index(&self) -> Option<TimeIndex> {
        let open = || self.index(FileKind::TimeIndex, TimeIndex::open_in, TimeIndex::map);
        self.has_time_index.then(open).flatten()
    }

    /// The last timestamp in its time index, if there is one that can be read: a cheap hint at its latest record.
    #[must_use]
    pub fn last_indexed_timestamp(&self) -> Option<TimestampMs> {
        if !self.has_time_index {
            return None;
        }
        let name = self.sibling_name(FileKind::TimeIndex);
        let last = TimeIndex::last_of(&*self.folder, &name, self.base_offset);
        last.ok().flatten().map(|entry| entry.timestamp)
    }

    /// The transaction index, if there is one that can be opened: it is a hint.
    #[must_use]
    pub fn transaction_index(&self) -> Option<TransactionIndex> {
        let (open, map) = (TransactionIndex::open_in, TransactionIndex::map);
        self.index(FileKind::TxnIndex, open, map)
    }
}
