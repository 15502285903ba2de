//! A directory that a result is written into: new, outside of its source, and empty again where the work does not come to
//! its end. What is half there would look like a log.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::io::disk::Disk;
use crate::io::interrupt;

/// An output is a new or empty directory outside of its source.
pub(in crate::tools) fn check_out(path: &Path, out: &Path) -> Result<()> {
    ensure_empty(out)?;
    let source = path.canonicalize().map_err(Error::io(path))?;
    if canonical(out).map_err(Error::io(out))?.starts_with(source) {
        let text = format!(
            "{}: the output must not lie inside of its source",
            out.display()
        );
        return Err(Error::InvalidArgument(text));
    }
    Ok(())
}

/// Without links and dots, as far as there is such a path.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    for there in path.ancestors() {
        match there.canonicalize() {
            Ok(real) => return Ok(real.join(path.strip_prefix(there).unwrap_or(&path))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(path)
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
