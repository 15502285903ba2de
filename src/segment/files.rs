//! The files of a segment that nobody holds open.

use std::path::Path;

use crate::error::Result;
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::io::appender::free_room;
use crate::io::disk::Disk;
use crate::types::Offset;

/// The kinds of files a segment has, in the order Kafka renames and removes them.
pub(crate) const SEGMENT_FILES: [FileKind; 4] = [
    FileKind::Log,
    FileKind::OffsetIndex,
    FileKind::TimeIndex,
    FileKind::TxnIndex,
];

/// Renames those files of a segment that there are (`LogSegment.changeFileSuffixes`).
///
/// # Errors
/// `Io`.
pub(crate) fn rename_segment(
    disk: &Disk,
    folder: &Path,
    base_offset: Offset,
    from: FileState,
    to: FileState,
) -> Result<()> {
    for kind in SEGMENT_FILES {
        let name = |state| {
            let offset = base_offset;
            folder.join(
                FileName {
                    offset,
                    kind,
                    state,
                }
                .to_string(),
            )
        };
        let old = name(from);
        if old.exists() {
            disk.rename(&old, &name(to))?;
        }
    }
    Ok(())
}

/// Gives back the room ahead that a crash left a segment's `.log` with.
///
/// # Errors
/// `Io`.
pub(crate) fn free_segment_room(disk: &Disk, folder: &Path, base_offset: Offset) -> Result<()> {
    let path = folder.join(FileName::new(base_offset, FileKind::Log).to_string());
    if path.exists() {
        let file = disk.open_or_create(&path)?;
        free_room(disk, &file, &path)?;
    }
    Ok(())
}

/// Brings the files of a segment that nobody writes to any more to the disk, data first.
///
/// # Errors
/// `Io`.
pub(crate) fn sync_segment(disk: &Disk, folder: &Path, base_offset: Offset) -> Result<()> {
    for kind in SEGMENT_FILES {
        let path = folder.join(FileName::new(base_offset, kind).to_string());
        if path.exists() {
            let file = disk.open_or_create(&path)?;
            disk.sync(&file, &path)?;
        }
    }
    Ok(())
}
