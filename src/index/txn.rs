//! Aborted transactions, by the offset of their markers (`TransactionIndex`, KIP-98).
//!
//! Appended to while the segment is active, never preallocated; a part of an entry at the end is ignored.

use std::path::{Path, PathBuf};

use super::slots::Slots;
use crate::error::{Error, Refusal, Result};
use crate::format::entry::{ABORTED_TXN_SIZE, AbortedTxn};
use crate::io::atomic::folder_of;
use crate::io::disk::Disk;
use crate::io::entry_file::EntryFile as _;
use crate::io::folder::{DiskFolder, DiskReader};
use crate::io::mapping::ClosedFile;
use crate::io::storage::{ReadFile as _, ReadFolder, Storage, StoredFile as _};
use crate::types::Offset;

/// A read-only transaction index.
#[derive(Clone, Debug)]
pub struct TransactionIndex {
    slots: Slots<ABORTED_TXN_SIZE>,
    base_offset: Offset,
}

impl TransactionIndex {
    /// Copies the index of the segment that begins at `base_offset`.
    ///
    /// # Errors
    /// `Io` where the file cannot be read.
    pub fn open(path: &Path, base_offset: Offset) -> Result<Self> {
        let (file, length) = DiskReader::open_with_length(path)?;
        let slots = Slots::copy(&file, length, |_, _| false)?;
        Ok(Self { slots, base_offset })
    }

    /// As [`TransactionIndex::open`], of a file in any storage.
    ///
    /// # Errors
    /// As there.
    pub fn open_in(folder: &dyn ReadFolder, name: &str, base_offset: Offset) -> Result<Self> {
        let (file, length) = folder.open_with_length(name)?;
        let slots = Slots::copy(&*file, length, |_, _| false)?;
        Ok(Self { slots, base_offset })
    }

    /// Maps the index of the closed segment that begins at `base_offset`; one that cannot be mapped is copied.
    ///
    /// # Errors
    /// As [`TransactionIndex::open`].
    pub fn map(file: &ClosedFile, base_offset: Offset) -> Result<Self> {
        let slots = Slots::map(file, |_, _| false)?;
        Ok(Self { slots, base_offset })
    }

    /// The segment's base offset.
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// Entries written.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.slots.entries()
    }

    /// Returns whether the file ends with a whole entry.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.slots.length().checked_rem(ABORTED_TXN_SIZE as u64) == Some(0)
    }

    /// Entry `n`, if there is one.
    #[must_use]
    pub fn entry(&self, n: usize) -> Option<AbortedTxn> {
        self.slots
            .written()
            .get(n)
            .and_then(|slot| AbortedTxn::parse(slot))
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = AbortedTxn> + '_ {
        self.slots
            .written()
            .iter()
            .filter_map(|slot| AbortedTxn::parse(slot))
    }

    /// Kafka's check of every entry.
    ///
    /// # Errors
    /// As [`AbortedTxn::sanity_check`].
    pub fn sanity_check(&self) -> Result<()> {
        for (n, txn) in self.iter().enumerate() {
            let position = (n as u64).saturating_mul(ABORTED_TXN_SIZE as u64);
            let checked = txn.sanity_check(position, self.base_offset);
            checked.map_err(|error| error.at(self.slots.path()))?;
        }
        Ok(())
    }
}

/// Entries that are read from a file at once.
const AT_ONCE: usize = 1024;

/// Aborted transactions that a fetch has to know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AbortedTxns {
    /// Those of this segment.
    pub txns: Vec<AbortedTxn>,
    /// True if later segments hold none.
    pub is_complete: bool,
}

/// Of a segment's entries, those that touch offsets from `fetch_offset` to before `upper_bound`; what comes after an
/// entry whose last stable offset reaches that far began later.
#[must_use]
pub(crate) fn collect_aborted(
    entries: impl IntoIterator<Item = AbortedTxn>,
    fetch_offset: Offset,
    upper_bound: Offset,
) -> AbortedTxns {
    let mut found = AbortedTxns {
        txns: Vec::new(),
        is_complete: false,
    };
    for txn in entries {
        if txn.last_offset >= fetch_offset && txn.first_offset < upper_bound {
            found.txns.push(txn);
        }
        if txn.last_stable_offset >= upper_bound {
            found.is_complete = true;
            break;
        }
    }
    found
}

/// A transaction index that is written; its file comes into being with its first entry.
///
/// Entries are read as a broker reads them ([`AbortedTxn::ensure_readable`]), up to where the file ended when it was
/// opened, and what was appended since.
#[derive(Debug)]
pub(crate) struct TransactionIndexFile<S: Storage = DiskFolder> {
    storage: S,
    name: String,
    base_offset: Offset,
    file: Option<S::File>,
    /// Bytes up to the end of the last whole entry; a part of one after it is written over.
    length: u64,
    /// The last entry's marker, if it was written or met by a cut since the file was opened (as in Kafka).
    last_offset: Option<Offset>,
}

impl TransactionIndexFile {
    /// Opens the index at `path`, as [`TransactionIndexFile::open_in`].
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn open(disk: &Disk, path: &Path, base_offset: Offset) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let folder = DiskFolder::new(folder_of(path), disk);
        Self::open_in(&folder, &name, base_offset)
    }
}

impl<S: Storage> TransactionIndexFile<S> {
    /// Opens the index of the segment that begins at `base_offset`; one that is not there is empty.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn open_in(storage: &S, name: &str, base_offset: Offset) -> Result<Self> {
        let mut index = Self {
            storage: storage.clone(),
            name: name.to_owned(),
            base_offset,
            file: None,
            length: 0,
            last_offset: None,
        };
        if storage.contains(name)? {
            index.open_file()?;
        }
        Ok(index)
    }

    /// Opens the file; creates it where there is none.
    fn open_file(&mut self) -> Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        let file = self.storage.open_file(&self.name)?;
        let length = file.length()?;
        let part = length.checked_rem(ABORTED_TXN_SIZE as u64);
        self.length = length.saturating_sub(part.unwrap_or_default());
        self.file = Some(file);
        Ok(())
    }

    /// The file, whether it is there or not.
    #[must_use]
    pub(crate) fn path(&self) -> PathBuf {
        self.storage.path_of(&self.name)
    }

    /// The segment's base offset.
    #[must_use]
    pub(crate) const fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// Entries in the file.
    #[must_use]
    pub(crate) fn entries(&self) -> usize {
        let entries = self.length.checked_div(ABORTED_TXN_SIZE as u64);
        usize::try_from(entries.unwrap_or_default()).unwrap_or(usize::MAX)
    }

    /// Writes an entry after the others.
    ///
    /// # Errors
    /// `Refused` (`OffsetsOutOfOrder`) where its marker is not above the last one's; `Io`.
    pub(crate) fn append(&mut self, txn: &AbortedTxn) -> Result<()> {
        if let Some(last) = self.last_offset.filter(|&last| last >= txn.last_offset) {
            let path = self.path();
            let path = path.display();
            let text = format!("{path}: expected a marker above the last one, {last}");
            let refused = Error::refused(Refusal::OffsetsOutOfOrder, text);
            return Err(refused.for_offset(txn.last_offset));
        }
        self.open_file()?;
        if let Some(file) = &mut self.file {
            file.detach()?;
            file.write_at(&txn.encode(), self.length)?;
        }
        self.length = self.length.saturating_add(ABORTED_TXN_SIZE as u64);
        self.last_offset = Some(txn.last_offset);
        Ok(())
    }

    /// Shows `see` every entry and its position, until it says that it has seen enough (`false`).
    fn scan(&self, mut see: impl FnMut(AbortedTxn, u64) -> Result<bool>) -> Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut position = 0u64;
        let mut bytes = vec![0; ABORTED_TXN_SIZE.saturating_mul(AT_ONCE)];
        while position < self.length {
            let read = file
                .read_at(&mut bytes, position)
                .map_err(Error::io(file.path()))?;
            let whole = bytes.get(..read).unwrap_or(&bytes);
            if whole.len() < ABORTED_TXN_SIZE {
                break;
            }
            for entry in whole.chunks_exact(ABORTED_TXN_SIZE) {
                let Some(txn) = AbortedTxn::parse(entry).filter(|_| position < self.length) else {
                    return Ok(());
                };
                let checked = txn.ensure_readable(position);
                checked.map_err(|error| error.at(file.path()))?;
                if !see(txn, position)? {
                    return Ok(());
                }
                position = position.saturating_add(ABORTED_TXN_SIZE as u64);
            }
        }
        Ok(())
    }

    /// All entries in order.
    ///
    /// # Errors
    /// `Io`; `UnsupportedFormat` for a version that a broker does not read.
    pub(crate) fn all(&self) -> Result<Vec<AbortedTxn>> {
        let mut all = Vec::new();
        self.scan(|txn, _| {
            all.push(txn);
            Ok(true)
        })?;
        Ok(all)
    }

    /// Entry `n`, if there is one.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn entry(&self, n: usize) -> Result<Option<AbortedTxn>> {
        let Some(file) = self.file.as_ref().filter(|_| n < self.entries()) else {
            return Ok(None);
        };
        let mut bytes = [0; ABORTED_TXN_SIZE];
        let at = (n as u64).saturating_mul(ABORTED_TXN_SIZE as u64);
        let read = file
            .read_at(&mut bytes, at)
            .map_err(Error::io(file.path()))?;
        Ok(bytes.get(..read).and_then(AbortedTxn::parse))
    }

    /// Cuts from the first entry whose marker is at or above `offset`.
    ///
    /// # Errors
    /// As [`TransactionIndexFile::all`].
    pub(crate) fn truncate_to(&mut self, offset: Offset) -> Result<()> {
        let (mut cut, mut last) = (None, None);
        self.scan(|txn, position| {
            if txn.last_offset >= offset {
                cut = Some(position);
                return Ok(false);
            }
            last = Some(txn.last_offset);
            Ok(true)
        })?;
        let Some(cut) = cut else {
            return Ok(());
        };
        self.cut(cut)?;
        self.last_offset = last;
        Ok(())
    }

    fn cut(&mut self, length: u64) -> Result<()> {
        if let Some(file) = &mut self.file {
            file.detach()?;
            file.set_length(length)?;
            self.length = length;
        }
        Ok(())
    }

    /// Removes all entries; the file stays, if there is one.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn reset(&mut self) -> Result<()> {
        self.cut(0)?;
        self.last_offset = None;
        Ok(())
    }

    /// Kafka's check of every entry.
    ///
    /// # Errors
    /// `Io`, else as [`AbortedTxn::sanity_check`].
    pub(crate) fn sanity_check(&self) -> Result<()> {
        self.scan(|txn, position| {
            let checked = txn.sanity_check(position, self.base_offset);
            checked
                .map(|()| true)
                .map_err(|error| error.at(&self.path()))
        })
    }

    /// Syncs the entries to the device before it returns.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn flush(&self) -> Result<()> {
        match &self.file {
            Some(file) => file.sync(),
            None => Ok(()),
        }
    }

    /// Closes the file; an append would open it again.
    pub(crate) fn close(&mut self) {
        self.file = None;
    }
}
