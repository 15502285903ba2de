//! The files of a segment that are not open.

use crate::error::Result;
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::io::appender::free_room;
use crate::io::storage::{Storage, StoredFile as _};
use crate::types::Offset;

/// The kinds of files a segment has, in the order Kafka renames and removes them.
pub(crate) const SEGMENT_FILES: [FileKind; 4] = [
    FileKind::Log,
    FileKind::OffsetIndex,
    FileKind::TimeIndex,
    FileKind::TxnIndex,
];

/// The name of a segment's file.
#[must_use]
pub(crate) fn name_of(offset: Offset, kind: FileKind, state: FileState) -> String {
    let name = FileName {
        offset,
        kind,
        state,
    };
    name.to_string()
}

/// Renames those files of a segment that exist (`LogSegment.changeFileSuffixes`).
///
/// # Errors
/// `Io`.
pub(crate) fn rename_segment(
    storage: &impl Storage,
    base_offset: Offset,
    from: FileState,
    to: FileState,
) -> Result<()> {
    for kind in SEGMENT_FILES {
        let old = name_of(base_offset, kind, from);
        if storage.contains(&old)? {
            storage.rename(&old, &name_of(base_offset, kind, to))?;
        }
    }
    Ok(())
}

/// Frees the room ahead that a crash left a segment's `.log` with.
///
/// # Errors
/// `Io`.
pub(crate) fn free_segment_room(storage: &impl Storage, base_offset: Offset) -> Result<()> {
    let name = name_of(base_offset, FileKind::Log, FileState::Live);
    if storage.contains(&name)? {
        free_room(&storage.open_file(&name)?)?;
    }
    Ok(())
}

/// Syncs the files of a segment that is no longer written, data first.
///
/// # Errors
/// `Io`.
pub(crate) fn sync_segment(storage: &impl Storage, base_offset: Offset) -> Result<()> {
    for kind in SEGMENT_FILES {
        let name = name_of(base_offset, kind, FileState::Live);
        if storage.contains(&name)? {
            storage.open_file(&name)?.sync()?;
        }
    }
    Ok(())
}
