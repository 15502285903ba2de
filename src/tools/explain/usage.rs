//! Disk usage: every file and folder below a path, by kind, as `du` counts them.
//!
//! `du` counts an inode once however many names it has, does not follow links, and counts folders themselves. Apparent
//! size is the length; allocated size is what the file system has reserved: less for a sparse file, more for a small
//! one. In a store objects take up their length, and there are no folders.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};

use super::kinds::{FolderPlace, Siblings, UsageKind, in_log_dir};
use crate::error::{Error, Result};
use crate::format::entry::{OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE};
use crate::format::file_name::{FileKind, FileName};
use crate::index::offset::OffsetIndex;
use crate::index::time::TimeIndex;
use crate::io::interrupt;
use crate::io::storage::{EntrySpace, Folder, FolderEntry, ReadFolder};
use crate::log::dir::{LogDir, PathKind, REMOTE_INDEXES};
use crate::tables::producers::table;
use crate::write::storage::OWN_FILES;

/// Adds up what lies in a log dir or a partition's folder: a row for each kind.
///
/// # Errors
/// `Io` for a path that does not exist or cannot be listed; `InvalidArgument` for one that holds no logs. Files that go
/// meanwhile are not counted; a folder below that cannot be listed is a kind of its own.
pub(crate) fn usage(path: &Path) -> Result<RecordBatch> {
    let mut partitions = BTreeMap::new();
    let root = match PathKind::of(path)? {
        PathKind::Partition(name) => FolderPlace::of(&name),
        PathKind::LogDir => {
            let dir = LogDir::open(path)?;
            let folders = dir.folders().iter();
            partitions
                .extend(folders.map(|folder| (folder.path.clone(), FolderPlace::of(&folder.name))));
            FolderPlace::LogDir
        }
        PathKind::File => {
            let text = format!("{}: not a log dir or partition folder", path.display());
            return Err(Error::InvalidArgument(text));
        }
    };
    let mut usage = Usage::default();
    let top = Folder::at(path);
    if let Some(space) = top.space()? {
        usage.add(UsageKind::Folder, space, 0);
    }
    let mut to_list = vec![(top, root)];
    while let Some((folder, place)) = to_list.pop() {
        interrupt::check()?;
        let listed = match list(&*folder) {
            Ok(listed) => listed,
            Err(error) if folder.path() == path => return Err(error),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => continue,
            Err(Error::Io { .. }) => {
                let unreadable = usage.sizes.entry(UsageKind::Unreadable).or_default();
                unreadable.files = unreadable.files.saturating_add(1);
                continue;
            }
            Err(error) => return Err(error),
        };
        let siblings = Siblings::of(&listed.iter().map(|(name, ..)| name.as_str()));
        for &(ref name, is_folder, space) in &listed {
            if is_folder {
                let below = folder.folder(name);
                let inside = match place {
                    FolderPlace::All(kind) => FolderPlace::All(kind),
                    FolderPlace::Partition { .. } => FolderPlace::All(UsageKind::Foreign),
                    FolderPlace::LogDir if name == REMOTE_INDEXES => {
                        FolderPlace::All(UsageKind::RemoteIndexes)
                    }
                    FolderPlace::LogDir if name.starts_with(OWN_FILES) => {
                        FolderPlace::All(UsageKind::Own)
                    }
                    FolderPlace::LogDir => {
                        let known = partitions.get(below.path()).copied();
                        known.unwrap_or(FolderPlace::All(UsageKind::Foreign))
                    }
                };
                let kind = match inside {
                    FolderPlace::All(kind) => kind,
                    FolderPlace::LogDir | FolderPlace::Partition { .. } => UsageKind::Folder,
                };
                if let Some(space) = space {
                    usage.add(kind, space, kind.freeable(space.length));
                }
                to_list.push((below, inside));
                continue;
            }
            let Some(space) = space else {
                continue;
            };
            let kind = match place {
                FolderPlace::All(kind) => kind,
                FolderPlace::LogDir => in_log_dir(name),
                FolderPlace::Partition { is_metadata } => siblings.kind(name, is_metadata),
            };
            let freeable = match kind {
                UsageKind::ActiveIndex => unused(&*folder, name, space),
                _ => kind.freeable(space.length),
            };
            usage.add(kind, space, freeable);
        }
    }
    usage.table()
}

/// Name and space of each entry of a folder, and whether it is a folder itself, which a link is not.
fn list(folder: &dyn ReadFolder) -> Result<Vec<(String, bool, Option<EntrySpace>)>> {
    let about = |entry: FolderEntry<'_>| {
        let is_folder = entry.is_folder() && !entry.is_link();
        Ok((entry.text(), is_folder, entry.space()?))
    };
    folder.entries()?.map(|entry| about(entry?)).collect()
}

/// Bytes allocated for the zeros after the entries of an active segment's index: none if the file is sparse.
fn unused(folder: &dyn ReadFolder, name: &str, space: EntrySpace) -> u64 {
    let Some(FileName { offset, kind, .. }) = FileName::parse(name) else {
        return 0;
    };
    let used = match kind {
        FileKind::OffsetIndex => OffsetIndex::open_in(folder, name, offset)
            .map(|index| index.entries().saturating_mul(OFFSET_ENTRY_SIZE)),
        _ => TimeIndex::open_in(folder, name, offset)
            .map(|index| index.entries().saturating_mul(TIME_ENTRY_SIZE)),
    };
    let set_aside = space.allocated.min(space.length);
    used.map_or(0, |used| set_aside.saturating_sub(used as u64))
}

/// The sizes of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct KindSizes {
    files: u64,
    bytes: u64,
    allocated: u64,
    freeable: u64,
}

/// The sizes of all kinds.
#[derive(Debug, Default)]
struct Usage {
    sizes: BTreeMap<UsageKind, KindSizes>,
    /// Files with several names that were counted.
    seen: BTreeSet<(u64, u64)>,
}

impl Usage {
    fn add(&mut self, kind: UsageKind, space: EntrySpace, freeable: u64) {
        if space.inode.is_some_and(|inode| !self.seen.insert(inode)) {
            return;
        }
        let sizes = self.sizes.entry(kind).or_default();
        sizes.files = sizes.files.saturating_add(1);
        sizes.bytes = sizes.bytes.saturating_add(space.length);
        sizes.allocated = sizes.allocated.saturating_add(space.allocated);
        sizes.freeable = sizes.freeable.saturating_add(freeable);
    }

    fn table(&self) -> Result<RecordBatch> {
        let texts = |value: fn(UsageKind) -> &'static str| -> ArrayRef {
            let kinds = self.sizes.keys().copied();
            Arc::new(kinds.map(|kind| Some(value(kind))).collect::<StringArray>())
        };
        let longs = |value: fn(&KindSizes) -> u64| -> ArrayRef {
            let sizes = self.sizes.values().map(value);
            let sizes = sizes.map(|size| i64::try_from(size).unwrap_or(i64::MAX));
            Arc::new(sizes.collect::<Int64Array>())
        };
        table(vec![
            ("kind", texts(|kind| kind.about().name)),
            ("files", longs(|sizes| sizes.files)),
            ("bytes", longs(|sizes| sizes.bytes)),
            ("allocatedBytes", longs(|sizes| sizes.allocated)),
            ("bytesFreeable", longs(|sizes| sizes.freeable)),
            ("removedBy", texts(|kind| kind.about().removed_by)),
            ("advice", texts(|kind| kind.about().advice)),
        ])
    }
}
