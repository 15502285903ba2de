//! The only function that opens files, and reads of a range of one.
//!
//! Only regular files are opened: a pipe would block until another process comes, a device may have no end.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};

/// Opens a file for reading, and returns its metadata.
///
/// # Errors
/// As [`open_as`].
pub(crate) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    open_as(path, File::options().read(true))
}

/// Opens a file, and returns its metadata.
///
/// # Errors
/// What the operating system reports; for what is not a regular file, what it would report at the first read.
pub(crate) fn open_as(path: &Path, options: &mut OpenOptions) -> io::Result<(File, Metadata)> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    match options.open(path) {
        // Of many small files, looking at the name first would be half the cost.
        Ok(file) => {
            let about = ensure_file(file.metadata()?)?;
            Ok((file, about))
        }
        // A folder, a socket, or a pipe that nobody reads: the system says less of it.
        Err(error) => match fs::metadata(path) {
            Ok(about) => ensure_file(about).and(Err(error)),
            Err(_) => Err(error),
        },
    }
}

/// Opens a file for reading and writing; it is created where there is none.
///
/// # Errors
/// As [`open_as`].
pub(crate) fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    open_as(path, &mut options).map(|(file, _)| file)
}

/// Reads the metadata of a file.
///
/// # Errors
/// What the operating system reports; for what is no file, what it would report at the first read.
pub(crate) fn about(path: &Path) -> io::Result<Metadata> {
    ensure_file(fs::metadata(path)?)
}

fn ensure_file(about: Metadata) -> io::Result<Metadata> {
    if about.is_file() {
        return Ok(about);
    }
    #[cfg(unix)]
    if about.is_dir() {
        return Err(rustix::io::Errno::ISDIR.into());
    }
    let what = "a pipe, a socket or a device, not a file";
    Err(io::Error::new(io::ErrorKind::NotSeekable, what))
}

/// Bytes that the file system has set aside for a file.
#[cfg(unix)]
pub(crate) fn allocated(meta: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    /// Of `st_blocks`, whatever the file system's blocks are.
    const BLOCK: u64 = 512;
    meta.blocks().saturating_mul(BLOCK)
}

/// The length stands in for it.
#[cfg(not(unix))]
pub(crate) fn allocated(meta: &Metadata) -> u64 {
    meta.len()
}

/// Device and inode of a file that has several names; `None` of one that has one.
#[cfg(unix)]
pub(crate) fn several_names(meta: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    (!meta.is_dir() && meta.nlink() > 1).then(|| (meta.dev(), meta.ino()))
}

/// Not known here.
#[cfg(not(unix))]
pub(crate) const fn several_names(_meta: &Metadata) -> Option<(u64, u64)> {
    None
}

/// Modification time of a file, in milliseconds since the epoch.
///
/// # Errors
/// `Unsupported` where the file system does not note it.
pub(crate) fn modified_ms(meta: &Metadata) -> io::Result<i64> {
    Ok(since_epoch_ms(meta.modified()?))
}

/// A time in milliseconds since the epoch.
pub(crate) fn since_epoch_ms(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis())
            .unwrap_or(i64::MAX)
            .saturating_neg(),
    }
}

/// All bytes of a small file.
///
/// # Errors
/// `Io`, also where there is no such file; `CorruptIndex` above `limit`.
pub(crate) fn read_small(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let (file, about) = open(path).map_err(Error::io(path))?;
    ensure_small(path, about.len(), limit)?;
    let mut bytes = Vec::new();
    let length = usize::try_from(about.len()).unwrap_or(usize::MAX);
    read_into(&mut bytes, length, |bytes| read_at(&file, bytes, 0)).map_err(Error::io(path))?;
    Ok(bytes)
}

/// Checks that a file is not longer than its kind may be.
///
/// # Errors
/// `CorruptIndex` where it is.
pub(crate) fn ensure_small(path: &Path, length: u64, limit: u64) -> Result<()> {
    if length <= limit {
        return Ok(());
    }
    let expected = format!("at most {limit} bytes");
    Err(Error::corrupt_index("file length", limit, expected, length).at(path))
}

/// Replaces `buffer` by what `read` makes of `len` bytes, or fewer. What it held is written over, so that only memory
/// it gains is zeroed first, and one call reads all (`read_to_end` begins with 8 KiB and doubles).
///
/// # Errors
/// Those of `read`; no memory.
pub(crate) fn read_into(
    buffer: &mut Vec<u8>,
    len: usize,
    read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
) -> io::Result<()> {
    if buffer.len() < len {
        buffer.try_reserve_exact(len.saturating_sub(buffer.len()))?;
    }
    buffer.resize(len, 0);
    let read = read(buffer)?;
    buffer.truncate(read);
    Ok(())
}

/// Reads at `position` until `buffer` is full or the file ends; returns the bytes read.
///
/// # Errors
/// What the operating system reports, interruptions aside.
pub(crate) fn read_at(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    let mut done = 0usize;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match read_some(file, rest, position.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(n) => done = done.saturating_add(n),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

#[cfg(unix)]
fn read_some(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, position)
}

#[cfg(windows)]
fn read_some(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, position)
}
