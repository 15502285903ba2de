//! Every change to the file system, one step at a time; tests can make each step fail.
//!
//! Every writer gets a [`Disk`]. A crash can occur between any two steps: creating, writing, syncing, renaming,
//! truncating, removing, syncing a folder. [`Faults`] is called before each step and may refuse it, as a full or a
//! dying disk does, or allow only a part of a write.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use super::file::{open_as, open_or_create};
use super::syncing::Syncing;
use crate::error::{Error, Result};

/// A step that is about to be taken on a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DiskStep {
    /// A file or folder comes into being, or an old file is emptied.
    Create,
    /// Bytes are added.
    Write {
        /// Bytes to write.
        len: usize,
    },
    /// A file's length is set.
    SetLength {
        /// The new length.
        len: u64,
    },
    /// A file goes to the device.
    Sync,
    /// A file or folder takes this name.
    Rename,
    /// A file goes.
    Remove,
    /// A folder's names go to the device.
    SyncFolder,
}

/// A step that fails.
#[derive(Debug)]
pub struct InjectedFailure {
    /// Of a write, the bytes that still get through.
    pub written: usize,
    /// The error that the operating system would return.
    pub error: io::Error,
}

impl From<io::Error> for InjectedFailure {
    fn from(error: io::Error) -> Self {
        Self { written: 0, error }
    }
}

/// Failures to order.
pub trait Faults: fmt::Debug + Send + Sync {
    /// Called before `step` is taken at `path`.
    ///
    /// # Errors
    /// Where the step is to fail.
    fn before(&self, step: DiskStep, path: &Path) -> Result<(), InjectedFailure>;
}

/// The writing side of the file system. By default nothing fails but what really does.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    faults: Option<Arc<dyn Faults>>,
    /// The thread that syncs during the work.
    syncing: Option<Arc<Syncing>>,
    /// Counts the bytes of files that are written from their beginning to their end.
    counter: Option<Arc<AtomicU64>>,
}

impl Disk {
    /// A disk that fails when `faults` says so.
    #[must_use]
    #[cfg(feature = "internal")]
    pub fn with_faults(faults: Arc<dyn Faults>) -> Self {
        Self {
            faults: Some(faults),
            syncing: None,
            counter: None,
        }
    }

    /// A disk that also counts the bytes of [`Disk::write`]: those that are copied, not those that are appended to
    /// logs.
    #[must_use]
    pub(crate) fn counting(self, counter: Arc<AtomicU64>) -> Self {
        Self {
            counter: Some(counter),
            ..self
        }
    }

    /// The same disk, which counts no more.
    #[must_use]
    pub(crate) fn uncounted(&self) -> Self {
        Self {
            counter: None,
            ..self.clone()
        }
    }

    /// The same disk for output that counts only once it is complete: syncs are handed to a thread, and all are done,
    /// not in their order, after [`Disk::settled`].
    #[must_use]
    pub(crate) fn syncing_beside(&self) -> Self {
        Self {
            syncing: Syncing::start().map(Arc::new),
            ..self.clone()
        }
    }

    /// Waits for the syncs of the thread; returns the disk without it.
    ///
    /// # Errors
    /// `Io`: the first that failed.
    pub(crate) fn settled(&self) -> Result<Self> {
        if let Some(syncing) = &self.syncing {
            syncing.settle()?;
        }
        Ok(Self {
            syncing: None,
            ..self.clone()
        })
    }

    /// Asks whether `step` may be taken: for steps that are taken elsewhere (a map that is flushed).
    ///
    /// # Errors
    /// `Io` where it is to fail.
    #[inline]
    pub fn before(&self, step: DiskStep, path: &Path) -> Result<()> {
        match &self.faults {
            None => Ok(()),
            Some(faults) => faults
                .before(step, path)
                .map_err(|failure| Error::io(path)(failure.error)),
        }
    }

    /// Creates a file, or empties the one that is there.
    ///
    /// # Errors
    /// `Io`.
    pub fn create(&self, path: &Path) -> Result<File> {
        self.before(DiskStep::Create, path)?;
        let opened = open_as(
            path,
            File::options().write(true).create(true).truncate(true),
        );
        opened.map(|(file, _)| file).map_err(Error::io(path))
    }

    /// Opens a file for reading and writing; it is created where there is none.
    ///
    /// # Errors
    /// `Io`.
    pub fn open_or_create(&self, path: &Path) -> Result<File> {
        self.before(DiskStep::Create, path)?;
        open_or_create(path).map_err(Error::io(path))
    }

    /// Creates a folder and those above it, with their names on the device; one that is there is fine.
    ///
    /// # Errors
    /// `Io`.
    pub fn create_folders(&self, path: &Path) -> Result<()> {
        let missing = path.ancestors().take_while(|folder| !folder.is_dir());
        let named_in = missing.filter_map(Path::parent).map(|above| {
            let is_here = above.as_os_str().is_empty();
            if is_here { Path::new(".") } else { above }
        });
        let named_in: Vec<_> = named_in.collect();
        self.before(DiskStep::Create, path)?;
        fs::create_dir_all(path).map_err(Error::io(path))?;
        named_in
            .into_iter()
            .rev()
            .try_for_each(|above| self.sync_folder(above))
    }

    /// Writes all of `bytes` where `file` stands.
    ///
    /// # Errors
    /// `Io`; a part of the bytes may have been written then.
    pub fn write(&self, mut file: &File, path: &Path, bytes: &[u8]) -> Result<()> {
        if let Some(faults) = &self.faults
            && let Err(failure) = faults.before(DiskStep::Write { len: bytes.len() }, path)
        {
            let part = bytes.get(..failure.written).unwrap_or(bytes);
            file.write_all(part).map_err(Error::io(path))?;
            return Err(Error::io(path)(failure.error));
        }
        file.write_all(bytes).map_err(Error::io(path))?;
        if let Some(counter) = &self.counter {
            counter.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes all of `bytes` at `position`, wherever `file` stands.
    ///
    /// # Errors
    /// `Io`; a part of the bytes may have been written then.
    pub fn write_at(&self, file: &File, path: &Path, bytes: &[u8], position: u64) -> Result<()> {
        if let Some(faults) = &self.faults
            && let Err(failure) = faults.before(DiskStep::Write { len: bytes.len() }, path)
        {
            let part = bytes.get(..failure.written).unwrap_or(bytes);
            write_all_at(file, part, position).map_err(Error::io(path))?;
            return Err(Error::io(path)(failure.error));
        }
        write_all_at(file, bytes, position).map_err(Error::io(path))
    }

    /// Gives a file blocks beyond its end, which its length does not show; returns whether it got them. It may well
    /// not: the disk has none to spare, or no such thing.
    #[must_use]
    pub fn make_room(file: &File, position: u64, len: u64) -> bool {
        #[cfg(target_os = "linux")]
        {
            let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(file, flags, position, len).is_ok()
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (file, position, len);
            false
        }
    }

    /// Frees blocks that a file has beyond its end, where they come to `least` bytes or more: a crash leaves what
    /// [`Disk::make_room`] gave. Length and time stay as they are. Returns whether there were any; a file system that
    /// does not free them keeps them.
    ///
    /// # Errors
    /// `Io`.
    pub fn free_room(&self, file: &File, path: &Path, least: u64) -> Result<bool> {
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::fs::MetadataExt;
            /// Unit of `st_blocks`, in bytes.
            const BLOCK: u64 = 512;
            let found = file.metadata().map_err(Error::io(path))?;
            let beyond = found
                .blocks()
                .saturating_mul(BLOCK)
                .saturating_sub(found.len());
            if beyond < least {
                return Ok(false);
            }
            self.set_length(file, path, found.len())?;
            let modified = found.modified().map_err(Error::io(path))?;
            file.set_modified(modified).map_err(Error::io(path))?;
            Ok(true)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (file, path, least);
            Ok(false)
        }
    }

    /// Cuts or lengthens a file; what is added reads as zeros.
    ///
    /// # Errors
    /// `Io`.
    pub fn set_length(&self, file: &File, path: &Path, len: u64) -> Result<()> {
        self.before(DiskStep::SetLength { len }, path)?;
        file.set_len(len).map_err(Error::io(path))
    }

    /// Gives a file this modification time, in milliseconds since the epoch.
    ///
    /// # Errors
    /// `Io`.
    pub fn set_modified_ms(path: &Path, ms: i64) -> Result<()> {
        let since = Duration::from_millis(ms.unsigned_abs());
        let time = if ms < 0 {
            UNIX_EPOCH.checked_sub(since)
        } else {
            UNIX_EPOCH.checked_add(since)
        };
        let time = time.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput));
        let file = open_as(path, File::options().write(true));
        time.and_then(|time| file?.0.set_modified(time))
            .map_err(Error::io(path))
    }

    /// Asks the system to begin writing a range of a file to the device, and does not wait for it. Only output whose
    /// syncs are done beside the work asks: a log that is not synced soon would pay for the device's work in its
    /// appends.
    pub fn write_back(&self, file: &File, position: u64, len: u64) {
        #[cfg(target_os = "linux")]
        if self.syncing.is_some()
            && let Some(len) = std::num::NonZeroU64::new(len)
        {
            // It begins to write what it may not drop yet (generic_fadvise), as `sync_file_range` does, which is unsafe
            // code.
            let _ = rustix::fs::fadvise(file, position, Some(len), rustix::fs::Advice::DontNeed);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (file, position, len);
    }

    /// Syncs a file's bytes and length to the device before it returns.
    ///
    /// # Errors
    /// `Io`.
    pub fn sync(&self, file: &File, path: &Path) -> Result<()> {
        self.before(DiskStep::Sync, path)?;
        self.sync_open(file, path)
    }

    fn sync_open(&self, file: &File, path: &Path) -> Result<()> {
        match &self.syncing {
            Some(syncing) => syncing.add(file, path),
            None => file.sync_all().map_err(Error::io(path)),
        }
    }

    /// As [`Disk::sync`], of a file that was written through a map, by `flush` unless that is done beside the work
    /// (Linux writes what was stored in a map when it syncs the file).
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn sync_mapped(
        &self,
        file: &File,
        path: &Path,
        flush: impl FnOnce() -> io::Result<()>,
    ) -> Result<()> {
        self.before(DiskStep::Sync, path)?;
        if self.syncing.is_some() && cfg!(target_os = "linux") {
            return self.sync_open(file, path);
        }
        flush().map_err(Error::io(path))
    }

    /// Gives a file or folder another name, in place of a file that has it.
    ///
    /// # Errors
    /// `Io`.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.before(DiskStep::Rename, to)?;
        fs::rename(from, to).map_err(Error::io(from))
    }

    /// Removes a file; returns whether there was one.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove(&self, path: &Path) -> Result<bool> {
        self.before(DiskStep::Remove, path)?;
        match fs::remove_file(path) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(Error::io(path)(e)),
        }
    }

    /// Syncs the names in a folder to the device before it returns (`Utils.flushDir`; Windows has no such thing).
    ///
    /// # Errors
    /// `Io`.
    pub fn sync_folder(&self, path: &Path) -> Result<()> {
        self.before(DiskStep::SyncFolder, path)?;
        if cfg!(windows) {
            return Ok(());
        }
        let folder = File::open(path).map_err(Error::io(path))?;
        self.sync_open(&folder, path)
    }
}

#[cfg(unix)]
fn write_all_at(file: &File, bytes: &[u8], position: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, position)
}

#[cfg(windows)]
fn write_all_at(file: &File, mut bytes: &[u8], mut position: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = std::os::windows::fs::FileExt::seek_write(file, bytes, position)?;
        if n == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(n..).unwrap_or_default();
        position = position.saturating_add(n as u64);
    }
    Ok(())
}
