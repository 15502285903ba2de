//! Aborted transactions, by the offset of their markers (`TransactionIndex`, KIP-98).
//!
//! Appended to while the segment is active, never preallocated; a part of an entry at the end is ignored.

use std::path::{Path, PathBuf};

use super::slots::Slots;
use crate::error::{Error, Refusal, Result};
use crate::format::entry::{ABORTED_TXN_SIZE, AbortedTxn};
use crate::io::atomic::folder_of;
use crate::io::disk::Disk;
use crate::io::entry_file::{EntryFile, bytes_of, entries_in, whole};
use crate::io::folder::{DiskFolder, open_file};
use crate::io::mapping::ClosedFile;
use crate::io::storage::{ReadFile as _, ReadFolder, Storage, StoredFile};
use crate::types::Offset;

/// Entries that are read from a file at once.
const AT_ONCE: usize = 1024;

/// The bytes of an entry.
type Slot = [u8; ABORTED_TXN_SIZE];

/// A transaction index; one that is only read, unless said otherwise.
///
/// Of one that is written, entries are there up to where the file ended when it was opened, and what was appended since.
#[derive(Clone, Debug)]
pub struct TransactionIndex<F = Slots<ABORTED_TXN_SIZE>> {
    file: F,
    base_offset: Offset,
    /// The last entry's marker, if it was written or met by a cut since the file was opened (as in Kafka).
    last_offset: Option<Offset>,
}

/// A transaction index in a folder in which it is written.
pub(crate) type WritableTransactionIndex<S = DiskFolder> = TransactionIndex<TransactionFile<S>>;

impl TransactionIndex {
    /// Copies the index of the segment that begins at `base_offset`.
    ///
    /// # Errors
    /// `Io` where the file cannot be read.
    pub fn open(path: &Path, base_offset: Offset) -> Result<Self> {
        let (file, length) = open_file(path)?;
        let slots = Slots::copy(&*file, length, |_, _| false)?;
        Ok(Self::over(slots, base_offset))
    }

    /// As [`TransactionIndex::open`], of a file in any storage.
    ///
    /// # Errors
    /// As there.
    pub fn open_in(folder: &dyn ReadFolder, name: &str, base_offset: Offset) -> Result<Self> {
        let (file, length) = folder.open_with_length(name)?;
        let slots = Slots::copy(&*file, length, |_, _| false)?;
        Ok(Self::over(slots, base_offset))
    }

    /// Maps the index of the closed segment that begins at `base_offset`; one that cannot be mapped is copied.
    ///
    /// # Errors
    /// As [`TransactionIndex::open`].
    pub fn map(file: &ClosedFile, base_offset: Offset) -> Result<Self> {
        let slots = Slots::map(file, |_, _| false)?;
        Ok(Self::over(slots, base_offset))
    }

    /// Returns whether the file ends with a whole entry.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.file.length().checked_rem(ABORTED_TXN_SIZE as u64) == Some(0)
    }

    /// All entries in order, whatever their version.
    pub fn iter(&self) -> impl Iterator<Item = AbortedTxn> + '_ {
        let slots = self.file.written().iter();
        slots.filter_map(|slot| AbortedTxn::parse(slot))
    }
}

impl WritableTransactionIndex {
    /// Opens the index at `path` for writing, as [`TransactionIndex::open_writable_in`].
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn open_writable(disk: &Disk, path: &Path, base_offset: Offset) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let folder = DiskFolder::new(folder_of(path), disk);
        Self::open_writable_in(&folder, &name, base_offset)
    }
}

impl<S: Storage> WritableTransactionIndex<S> {
    /// Opens the index of the segment that begins at `base_offset` for writing. A missing file counts as
    /// empty and is created with the first entry.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn open_writable_in(storage: &S, name: &str, base_offset: Offset) -> Result<Self> {
        let mut file = TransactionFile {
            path: storage.path_of(name),
            storage: storage.clone(),
            name: name.to_owned(),
            file: None,
            length: 0,
        };
        if storage.contains(name)? {
            file.open()?;
        }
        Ok(Self::over(file, base_offset))
    }
}

impl<F: EntryFile<ABORTED_TXN_SIZE>> TransactionIndex<F> {
    const fn over(file: F, base_offset: Offset) -> Self {
        Self {
            file,
            base_offset,
            last_offset: None,
        }
    }

    /// The segment's base offset.
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// Entries written.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.file.entries()
    }

    /// Entry `n`, if there is one.
    ///
    /// # Errors
    /// `Io`.
    pub fn get(&self, n: usize) -> Result<Option<AbortedTxn>> {
        let slot = self.file.get(n)?;
        Ok(slot.and_then(|slot| AbortedTxn::parse(&slot)))
    }

    /// Shows `see` every entry, as a broker reads it ([`AbortedTxn::ensure_readable`]), with its number, until `see`
    /// returns `false`.
    fn scan(&self, mut see: impl FnMut(AbortedTxn, usize) -> Result<bool>) -> Result<()> {
        let mut slots = vec![[0; ABORTED_TXN_SIZE]; AT_ONCE.min(self.entries())];
        let mut n = 0usize;
        loop {
            let read = self.file.read(n, &mut slots)?;
            for slot in slots.iter().take(read) {
                let Some(txn) = AbortedTxn::parse(slot) else {
                    return Ok(());
                };
                let checked = txn.ensure_readable(bytes_of::<ABORTED_TXN_SIZE>(n));
                checked.map_err(|error| error.at(self.file.path()))?;
                if !see(txn, n)? {
                    return Ok(());
                }
                n = n.saturating_add(1);
            }
            if read == 0 {
                return Ok(());
            }
        }
    }

    /// All entries in order.
    ///
    /// # Errors
    /// `Io`; `UnsupportedFormat` for a version that a broker does not read.
    pub fn all(&self) -> Result<Vec<AbortedTxn>> {
        let mut all = Vec::new();
        self.scan(|txn, _| {
            all.push(txn);
            Ok(true)
        })?;
        Ok(all)
    }

    /// Kafka's check of every entry.
    ///
    /// # Errors
    /// `Io`, else as [`AbortedTxn::sanity_check`].
    pub fn sanity_check(&self) -> Result<()> {
        self.scan(|txn, n| {
            let checked = txn.sanity_check(bytes_of::<ABORTED_TXN_SIZE>(n), self.base_offset);
            checked
                .map(|()| true)
                .map_err(|error| error.at(self.file.path()))
        })
    }

    /// Writes an entry after the others.
    ///
    /// # Errors
    /// `Refused` (`OffsetsOutOfOrder`) where its marker is not above the last one's; `Io`.
    pub fn append(&mut self, txn: &AbortedTxn) -> Result<()> {
        if let Some(last) = self.last_offset.filter(|&last| last >= txn.last_offset) {
            let path = self.file.path().display();
            let text = format!("{path}: expected a marker above the last one, {last}");
            let refused = Error::refused(Refusal::OffsetsOutOfOrder, text);
            return Err(refused.for_offset(txn.last_offset));
        }
        self.file.push(txn.encode())?;
        self.last_offset = Some(txn.last_offset);
        Ok(())
    }

    /// Cuts from the first entry whose marker is at or above `offset`.
    ///
    /// # Errors
    /// As [`TransactionIndex::all`].
    pub fn truncate_to(&mut self, offset: Offset) -> Result<()> {
        let (mut cut, mut last) = (None, None);
        self.scan(|txn, n| {
            if txn.last_offset >= offset {
                cut = Some(n);
                return Ok(false);
            }
            last = Some(txn.last_offset);
            Ok(true)
        })?;
        let Some(cut) = cut else {
            return Ok(());
        };
        self.file.truncate(cut)?;
        self.last_offset = last;
        Ok(())
    }

    /// Removes all entries; the file stays, if there is one.
    ///
    /// # Errors
    /// `Io`.
    pub fn reset(&mut self) -> Result<()> {
        self.file.truncate(0)?;
        self.last_offset = None;
        Ok(())
    }

    /// Syncs the entries to the device before it returns.
    ///
    /// # Errors
    /// `Io`.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }

    /// Closes the file; an append would open it again.
    pub fn close(&mut self) {
        self.file.close_handler();
    }
}

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

/// The file of a transaction index that is written.
#[derive(Debug)]
pub(crate) struct TransactionFile<S: Storage> {
    storage: S,
    name: String,
    path: PathBuf,
    file: Option<S::File>,
    /// Bytes up to the end of the last whole entry; a part of one after it is written over.
    length: u64,
}

impl<S: Storage> TransactionFile<S> {
    /// Opens the file; creates it where there is none.
    fn open(&mut self) -> Result<&mut S::File> {
        match &mut self.file {
            Some(file) => Ok(file),
            none => {
                let file = self.storage.open_file(&self.name)?;
                self.length = whole::<ABORTED_TXN_SIZE>(file.length()?);
                Ok(none.insert(file))
            }
        }
    }
}

impl<S: Storage> EntryFile<ABORTED_TXN_SIZE> for TransactionFile<S> {
    fn path(&self) -> &Path {
        &self.path
    }

    fn entries(&self) -> usize {
        self.max_entries()
    }

    fn length(&self) -> u64 {
        self.length
    }

    fn get(&self, n: usize) -> Result<Option<Slot>> {
        let mut slot = [[0; ABORTED_TXN_SIZE]];
        let read = self.read(n, &mut slot)?;
        Ok(slot.first().copied().filter(|_| read > 0))
    }

    fn read(&self, n: usize, slots: &mut [Slot]) -> Result<usize> {
        let left = self.entries().saturating_sub(n);
        let Some(file) = self.file.as_ref().filter(|_| left > 0) else {
            return Ok(0);
        };
        let at = bytes_of::<ABORTED_TXN_SIZE>(n);
        let read = file.read_at(slots.as_flattened_mut(), at);
        let read = read.map_err(Error::io(file.path()))? as u64;
        Ok(entries_in::<ABORTED_TXN_SIZE>(read).min(left))
    }

    fn push(&mut self, slot: Slot) -> Result<()> {
        self.open()?.detach()?;
        let length = self.length;
        self.open()?.write_at(&slot, length)?;
        self.length = self.length.saturating_add(ABORTED_TXN_SIZE as u64);
        Ok(())
    }

    fn truncate(&mut self, entries: usize) -> Result<()> {
        if let Some(file) = &mut self.file {
            let length = bytes_of::<ABORTED_TXN_SIZE>(entries);
            file.detach()?;
            file.set_length(length)?;
            self.length = length;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), StoredFile::sync)
    }

    fn close_handler(&mut self) {
        self.file = None;
    }
}
