//! Files with several names: hard links, as `rescue --link` and `cp -l` make them.
//!
//! A write through one name changes the file under all of them. A writer therefore makes a copy first, and gives it the
//! name. Kafka does not: it appends to the active segment, and cuts a closed one where a follower truncates.

use std::fs::File;
#[cfg(unix)]
use std::fs::Metadata;
#[cfg(unix)]
use std::io;
use std::path::Path;

use super::disk::Disk;
use crate::error::Result;

/// Gives a file that has other names bytes of its own; returns the new file, open for reading and writing, or `None`
/// where it has no other name.
///
/// # Errors
/// `Io`; the name is still the old file's unless the last step, syncing the folder, is what failed.
#[cfg(unix)]
pub(crate) fn detach(disk: &Disk, file: &File, path: &Path) -> Result<Option<File>> {
    use std::os::unix::fs::MetadataExt;

    use super::atomic::{beside, folder_of};
    use crate::error::Error;

    let found = file.metadata().map_err(Error::io(path))?;
    if found.nlink() <= 1 {
        return Ok(None);
    }
    let new = beside(path);
    let made = copy(disk, path, &found, &new).and_then(|own| {
        disk.rename(&new, path)?;
        Ok(own)
    });
    let own = made.inspect_err(|_| {
        // It is useless, and takes room that may be lacking. The error that counts is the first one.
        let _ = disk.remove(&new);
    })?;
    disk.sync_folder(folder_of(path))?;
    Ok(Some(own))
}

/// Copies a file's bytes, permissions and modification time.
#[cfg(unix)]
fn copy(disk: &Disk, path: &Path, found: &Metadata, new: &Path) -> Result<File> {
    use super::file::open;
    use crate::error::Error;

    disk.remove(new)?;
    let own = disk.open_or_create(new)?;
    let (mut from, _) = open(path).map_err(Error::io(path))?;
    io::copy(&mut from, &mut &own).map_err(Error::io(new))?;
    own.set_permissions(found.permissions())
        .map_err(Error::io(new))?;
    // Retention falls back on it.
    if let Ok(modified) = found.modified() {
        let _ = own.set_modified(modified);
    }
    disk.sync(&own, new)?;
    Ok(own)
}

/// As on Unix, but that the system does not say how many names a file has.
#[cfg(not(unix))]
pub(crate) fn detach(_disk: &Disk, _file: &File, _path: &Path) -> Result<Option<File>> {
    Ok(None)
}

#[cfg(all(test, unix))]
mod tests;
