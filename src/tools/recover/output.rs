//! The directory of a result: new, outside its source, and emptied again if the work fails, because a partial result
//! would look like a log.
//!
//! A killed process leaves its files. [`UNFINISHED`] is created before the first file, and removed after the last one
//! is on the device; the next run with the same source removes the remains and starts over.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::format::file_name::{FolderName, FolderState};
use crate::io::atomic;
use crate::io::disk::Disk;
use crate::io::file::{open, read_small};
use crate::io::interrupt;
use crate::log::dir::{PartitionFolder, PathKind, folder_name};
use crate::log::output::{UNFINISHED, check_output};

/// An output is a new or empty directory, and does not lie among logs ([`check_output`]).
pub(crate) fn check_out(path: &Path, out: &Path) -> Result<()> {
    ensure_free(path, out)?;
    let name = match PathKind::of(path)? {
        PathKind::Partition(_) => Some(folder_name(path)),
        PathKind::LogDir | PathKind::File => None,
    };
    check_output(out, [path], name.as_deref())
}

/// Refuses a partition that is to stand in a log dir of its own, and has no name by which a broker would find it there:
/// the path is a copy with another name, or a link.
pub(super) fn check_named(is_in_log_dir: bool, partition: &PartitionFolder) -> Result<()> {
    let name = FolderName::parse(&folder_name(&partition.path));
    if is_in_log_dir || name.is_some_and(|name| name.state == FolderState::Live) {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "{}: expected a folder named as its partition, <topic>-<number>",
        partition.path.display()
    )))
}

/// Refuses a directory that holds anything but what a killed run with the same source left.
fn ensure_free(source: &Path, out: &Path) -> Result<()> {
    let is_empty = match fs::read_dir(out) {
        // A kill may come before the note has its name.
        Ok(mut entries) => entries.all(|entry| {
            entry.is_ok_and(|entry| entry.path() == atomic::beside(&out.join(UNFINISHED)))
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => true,
        Err(e) => return Err(Error::io(out)(e)),
    };
    let note = note_of(source);
    let is_ours = |left| left == note;
    if is_empty || read_small(&out.join(UNFINISHED), note.len() as u64).is_ok_and(is_ours) {
        return Ok(());
    }
    let advice = "File exists: choose another path for the result, or remove the one that exists";
    Err(Error::io(out)(io::Error::new(
        io::ErrorKind::AlreadyExists,
        advice,
    )))
}

/// Content of the note of an unfinished output: its source.
fn note_of(source: &Path) -> Vec<u8> {
    let path = source
        .canonicalize()
        .unwrap_or_else(|_| source.to_path_buf());
    let path = path.display();
    format!("kafkalog: not finished; run the same command again\n{path}\n").into_bytes()
}

/// Removes everything in a directory, the note of an unfinished output last.
fn empty(out: &Path) -> io::Result<()> {
    for entry in fs::read_dir(out)? {
        let entry = entry?;
        if entry.file_name() == UNFINISHED {
            continue;
        }
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    match fs::remove_file(out.join(UNFINISHED)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Takes away what was written, unless all of it was.
struct Unfinished<'a> {
    out: &'a Path,
    was_there: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // The error that ended the work is reported; this one would hide it.
        let _ = empty(self.out);
        if !self.was_there {
            let _ = fs::remove_dir(self.out);
        }
    }
}

/// A directory that is being filled with a result: finished, or emptied again when it is dropped.
pub(in crate::tools) struct Output<'a> {
    /// Syncs on a thread; dropped before the directory is emptied.
    disk: Disk,
    unfinished: Unfinished<'a>,
    keeps_note: bool,
}

impl<'a> Output<'a> {
    /// Makes an empty directory that says that it is not finished; the note stays afterwards if `keeps_note`.
    ///
    /// # Errors
    /// `Io`, also where another process has written there since [`check_out`].
    pub(in crate::tools) fn begin(
        source: &Path,
        out: &'a Path,
        disk: &Disk,
        keeps_note: bool,
    ) -> Result<Self> {
        ensure_free(source, out)?;
        let was_there = out.exists();
        if was_there {
            empty(out).map_err(Error::io(out))?;
        }
        let unfinished = Unfinished { out, was_there };
        disk.create_folders(out)?;
        atomic::replace(disk, &out.join(UNFINISHED), &note_of(source))?;
        Ok(Self {
            disk: disk.syncing_beside(),
            unfinished,
            keeps_note,
        })
    }

    /// The disk to write it with.
    pub(in crate::tools) const fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Ends it once all of it is on the device.
    ///
    /// # Errors
    /// `Io` where a sync fails; `Interrupted`.
    pub(in crate::tools) fn finish(self) -> Result<()> {
        let (disk, out) = (self.disk.settled()?, self.unfinished.out);
        interrupt::check()?;
        if !self.keeps_note {
            disk.remove(&out.join(UNFINISHED))?;
            disk.sync_folder(out)?;
        }
        std::mem::forget(self.unfinished);
        Ok(())
    }
}

/// Copies a file.
pub(super) fn copy(disk: &Disk, from: &Path, to: &Path) -> Result<()> {
    interrupt::check()?;
    let (mut source, target) = (open(from).map_err(Error::io(from))?.0, disk.create(to)?);
    std::io::copy(&mut source, &mut &target).map_err(Error::io(to))?;
    disk.sync(&target, to)
}
