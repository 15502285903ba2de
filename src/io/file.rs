//! Files opened for reading, and reads of a stretch of one.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Opens a file for reading, and nothing else, and tells what there is to know about it.
///
/// # Errors
/// What the operating system reports; of what is no file too.
pub(crate) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    match open_without_waiting(path) {
        // Of many small files, looking at the name first would be half the cost.
        Ok(file) => {
            let about = ensure_file(file.metadata()?)?;
            Ok((file, about))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(e),
        Err(_) => {
            let about = about(path)?;
            Ok((File::open(path)?, about))
        }
    }
}

/// A pipe would block until another process writes into it.
#[cfg(unix)]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    File::options().read(true).custom_flags(no_wait).open(path)
}

/// Opening waits for nobody here.
#[cfg(not(unix))]
fn open_without_waiting(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// What there is to know about a file.
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
    return Err(if about.is_dir() {
        rustix::io::Errno::ISDIR.into()
    } else {
        rustix::io::Errno::SPIPE.into()
    });
    #[cfg(not(unix))]
    return Err(io::ErrorKind::InvalidInput.into());
}

/// When a file was last modified, in milliseconds since the epoch.
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

/// All bytes of a file, which [`open`] takes.
///
/// # Errors
/// What the operating system reports.
pub(crate) fn read_all(path: &Path) -> io::Result<Vec<u8>> {
    let (file, about) = open(path)?;
    read_to_end(file, about.len())
}

/// All bytes of a file that was just opened, and is about as long as this.
///
/// # Errors
/// What the operating system reports.
pub(crate) fn read_to_end(file: File, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // With less, a first read would only probe whether the end is there.
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(length.saturating_add(64))?;
    // The file by itself would be asked for its length once more, and where it stands.
    io::Read::read_to_end(&mut io::Read::take(file, u64::MAX), &mut bytes)?;
    Ok(bytes)
}

/// Replaces `buffer` by the `len` bytes at `position`, or fewer where the file ends. What it held is written over, so that
/// only memory it gains is zeroed first, and one call reads all (`read_to_end` begins with 8 KiB and doubles).
///
/// # Errors
/// What the operating system reports, interruptions aside.
pub(crate) fn read_into(
    file: &File,
    buffer: &mut Vec<u8>,
    position: u64,
    len: usize,
) -> io::Result<()> {
    if buffer.len() < len {
        buffer.try_reserve_exact(len.saturating_sub(buffer.len()))?;
    }
    buffer.resize(len, 0);
    let read = read_at(file, buffer, position)?;
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
