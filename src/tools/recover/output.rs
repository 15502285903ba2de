//! A directory that a result is written into: new, outside of its source, and empty again where the work does not come to
//! its end. What is half there would look like a log.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::{Error, Result};
use crate::io::disk::Disk;
use crate::io::interrupt;
use crate::log::dir::{PathKind, folder_name};
use crate::log::output::check_output;

/// An output is a new or empty directory, and does not lie among logs ([`check_output`]).
pub(in crate::tools) fn check_out(path: &Path, out: &Path) -> Result<()> {
    ensure_empty(out)?;
    let name = match PathKind::of(path)? {
        PathKind::Partition(_) => Some(folder_name(path)),
        PathKind::LogDir | PathKind::File => None,
    };
    check_output(out, [path], name.as_deref())
}

fn ensure_empty(out: &Path) -> Result<()> {
    let is_empty = match fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_none(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => true,
        Err(e) => return Err(Error::io(out)(e)),
    };
    if is_empty {
        return Ok(());
    }
    Err(Error::io(out)(io::ErrorKind::AlreadyExists.into()))
}

/// Takes away what was written, unless all of it was.
struct Unfinished<'a> {
    out: &'a Path,
    was_there: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // What it ends with is the error that is told; there is none to tell besides.
        if !self.was_there {
            let _ = fs::remove_dir_all(self.out);
            return;
        }
        for entry in fs::read_dir(self.out).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = match entry.file_type() {
                Ok(kind) if kind.is_dir() => fs::remove_dir_all(path),
                _ => fs::remove_file(path),
            };
        }
    }
}

/// Does what fills `out`: whole, or not at all.
///
/// # Errors
/// Those of the work; `Io` where somebody else has put something there since [`check_out`]; `Interrupted`.
pub(in crate::tools) fn fill(out: &Path, work: impl FnOnce() -> Result<()>) -> Result<()> {
    ensure_empty(out)?;
    let unfinished = Unfinished {
        out,
        was_there: out.exists(),
    };
    work()?;
    interrupt::check()?;
    std::mem::forget(unfinished);
    Ok(())
}

/// Copies a file, or a folder with all that is in it.
pub(super) fn copy(disk: &Disk, from: &Path, to: &Path) -> Result<()> {
    interrupt::check()?;
    if from.is_dir() {
        disk.create_folders(to)?;
        for entry in fs::read_dir(from).map_err(Error::io(from))? {
            let entry = entry.map_err(Error::io(from))?;
            copy(disk, &entry.path(), &to.join(entry.file_name()))?;
        }
        return disk.sync_folder(to);
    }
    let (mut source, target) = (
        fs::File::open(from).map_err(Error::io(from))?,
        disk.create(to)?,
    );
    std::io::copy(&mut source, &mut &target).map_err(Error::io(to))?;
    disk.sync(&target, to)
}
