//! Reads of a stretch of a file.

use std::fs::File;
use std::io;

/// Replaces `buffer` by the `len` bytes at `position`, or fewer where the file ends. What it held is written over, so that
/// only memory it gains is zeroed first, and one call reads all (`read_to_end` begins with 8 KiB and doubles).
///
/// # Errors
/// What the operating system reports, interruptions aside.
pub fn read_into(file: &File, buffer: &mut Vec<u8>, position: u64, len: usize) -> io::Result<()> {
    if buffer.len() < len {
        buffer.reserve_exact(len.saturating_sub(buffer.len()));
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
pub fn read_at(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
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
