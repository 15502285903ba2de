//! Carries out a plan: in its own folder, or into another one.

use std::fs::{self, File};
use std::path::Path;

use super::plan::Plan;
use crate::error::{Error, Result};
use crate::io::atomic::beside;
use crate::io::disk::Disk;
use crate::io::file::{open, open_as, read_at, read_into};
use crate::io::folder::DiskFolder;
use crate::io::interrupt;
use crate::io::links::detach;
use crate::io::overlay::Action;
use crate::io::overlay::content::{ByteSource, Content, Origins};
use crate::io::storage::{ReadFolder as _, became_shorter};
use crate::log::dir::length_limit;
use crate::segment::files::sync_segment;
use crate::segment::writer::WritableSegment;
use crate::types::Offset;

/// Bytes of a file that are copied at once.
const CHUNK: usize = 1 << 20;

impl Plan {
    /// Takes the steps in the folder itself, in their order: one that a crash falls between leaves a folder whose next
    /// loading comes to the same end. Everything is on the device when this returns.
    ///
    /// # Errors
    /// `Io`.
    pub fn apply(&self, disk: &Disk) -> Result<()> {
        let folder = self.folder.clone();
        let mut origins = folder.origins();
        if !folder.path().is_dir() {
            disk.create_folders(folder.path())?;
        }
        for action in folder.actions() {
            carry_out(disk, &mut origins, &action)?;
        }
        disk.sync_folder(folder.path())
    }

    /// Syncs the unchanged files, after the steps were taken: segments from the one with `from` on, which is the first
    /// offset not known to be on the device.
    ///
    /// # Errors
    /// `Io`.
    pub fn flush(&self, disk: &Disk, from: Offset) -> Result<()> {
        let folder = DiskFolder::new(self.folder.path(), disk);
        let mut bases = self.segments.onward(from).map(WritableSegment::base_offset);
        bases.try_for_each(|base| sync_segment(&folder, base))?;
        disk.sync_folder(folder.path())
    }

    /// Writes the folder as it will be to `to`; the one the plan was made of stays as it is.
    ///
    /// # Errors
    /// `Io`.
    pub fn write_to(&self, disk: &Disk, to: &Path) -> Result<()> {
        self.write_some(disk, to, |_| true)
    }

    /// As [`Plan::write_to`], but only files with these names, and none that is longer than its kind may be.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn write_some(
        &self,
        disk: &Disk,
        to: &Path,
        which: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let origins = self.folder.origins();
        disk.create_folders(to)?;
        let files = self.folder.files().into_iter();
        for (name, content) in files.filter(|(name, _)| which(name)) {
            if length_limit(&name).is_some_and(|limit| content.length() > limit) {
                continue;
            }
            write(disk, &origins, &to.join(name), &content)?;
        }
        disk.sync_folder(to)
    }
}

fn carry_out(disk: &Disk, origins: &mut Origins, action: &Action) -> Result<()> {
    let path = |name: &str| origins.folder().join(name);
    match action {
        Action::Delete { name } => disk.remove(&path(name)).map(drop),
        Action::Rename { from, to } => {
            disk.rename(&path(from), &path(to))?;
            origins.rename(from, to);
            Ok(())
        }
        Action::SetLength { name, to, .. } => {
            let path = path(name);
            let file = open_as(&path, File::options().write(true));
            let (file, _) = file.map_err(Error::io(&path))?;
            let file = detach(disk, &file, &path)?.unwrap_or(file);
            disk.set_length(&file, &path, *to)?;
            disk.sync(&file, &path)
        }
        Action::Write { name, content } => {
            let path = path(name);
            let new = beside(&path);
            write(disk, origins, &new, content)?;
            disk.rename(&new, &path)
        }
    }
}

/// Writes a file whole.
fn write(disk: &Disk, origins: &Origins, path: &Path, content: &Content) -> Result<()> {
    let file = disk.create(path)?;
    match content.source() {
        ByteSource::Base { name, from } => {
            let parts = [(*from, content.kept())];
            copy_parts(disk, &file, path, &origins.path(name), &parts)?;
        }
        ByteSource::Parts { name, parts } => {
            copy_parts(disk, &file, path, &origins.path(name), parts)?;
        }
        ByteSource::Bytes(_) | ByteSource::Rebuilt(_) | ByteSource::Counted => {
            let wanted = usize::try_from(content.kept()).unwrap_or(usize::MAX);
            disk.write(&file, path, &content.read(origins, 0, wanted)?)?;
        }
    }
    if content.kept() != content.length() {
        disk.set_length(&file, path, content.length())?;
    }
    if content.length() == 0 {
        // There as soon as its name is, which is synced with the folder: a new log is four of these.
        return Ok(());
    }
    disk.sync(&file, path)
}

/// Copies parts of `source`, one after the other, and its modification time, as retention falls back on it.
fn copy_parts(
    disk: &Disk,
    file: &File,
    path: &Path,
    source: &Path,
    parts: &[(u64, u64)],
) -> Result<()> {
    let (from, _) = open(source).map_err(Error::io(source))?;
    let mut chunk = Vec::new();
    for &(begin, length) in parts {
        let end = begin.saturating_add(length);
        let mut at = begin;
        while at < end {
            interrupt::check()?;
            let left = usize::try_from(end.saturating_sub(at)).unwrap_or(CHUNK);
            read_into(&mut chunk, left.min(CHUNK), |chunk| {
                read_at(&from, chunk, at)
            })
            .map_err(Error::io(source))?;
            if chunk.is_empty() {
                return Err(Error::io(source)(became_shorter()));
            }
            disk.write(file, path, &chunk)?;
            at = at.saturating_add(chunk.len() as u64);
        }
    }
    if let Ok(modified) = fs::metadata(source).and_then(|meta| meta.modified()) {
        let _ = file.set_modified(modified);
    }
    Ok(())
}
