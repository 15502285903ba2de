//! The files of a segment that nobody holds open, and headers read one by one.

use std::path::Path;

use crate::error::{Error, Result};
use crate::format::batch::{BatchHeader, HEADER_SIZE_UP_TO_MAGIC, RECORD_BATCH_OVERHEAD};
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::io::disk::Disk;
use crate::types::{Offset, Position};

/// The kinds of files a segment has, in the order Kafka renames and removes them.
pub const SEGMENT_FILES: [FileKind; 4] = [
    FileKind::Log,
    FileKind::OffsetIndex,
    FileKind::TimeIndex,
    FileKind::TxnIndex,
];

/// Renames those files of a segment that there are (`LogSegment.changeFileSuffixes`).
///
/// # Errors
/// `Io`.
pub fn rename_segment(
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

/// Brings the files of a segment that nobody writes to any more to the disk, data first.
///
/// # Errors
/// `Io`.
pub fn sync_segment(disk: &Disk, folder: &Path, base_offset: Offset) -> Result<()> {
    for kind in SEGMENT_FILES {
        let path = folder.join(FileName::new(base_offset, kind).to_string());
        if path.exists() {
            let file = disk.open_or_create(&path)?;
            disk.sync(&file, &path)?;
        }
    }
    Ok(())
}

/// The header of the batch at `position` of a `.log` that ends at `end`; `None` where the batch is not there whole
/// (`FileLogInputStream`).
///
/// # Errors
/// `CorruptRecord` for a header that makes no sense, and what `read` says.
pub fn header_at(
    read: impl FnOnce(&mut [u8], Position) -> Result<usize>,
    end: Position,
    position: Position,
    path: &Path,
) -> Result<Option<BatchHeader>> {
    let left = end.saturating_sub(position);
    if left <= HEADER_SIZE_UP_TO_MAGIC as u64 {
        return Ok(None);
    }
    let mut head = [0; RECORD_BATCH_OVERHEAD];
    let read = read(&mut head, position)?;
    let head = head.get(..read).unwrap_or_default();
    let place = |error: Error| error.shift(position).at(path);
    match BatchHeader::peek_size(head).map_err(place)? {
        Some(size) if size as u64 <= left => BatchHeader::parse(head).map_err(place),
        _ => Ok(None),
    }
}
