//! Rebuilt indexes that a plan did not keep, made again.

use super::settings::IndexSettings;
use crate::io::overlay::content::{Content, Origins, Rebuild};
use crate::segment::walk::LogWalk;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::format::entry::{OffsetPosition, TimestampOffset, relative_offset};
use crate::format::file_name::FileKind;
use crate::index::writable::Entry;
use crate::segment::entries::{EntryInterval, largest_timestamp};
use crate::segment::source::Access;
use crate::types::{NO_TIMESTAMP, Offset};

/// An index made from the valid batches of its `.log`, a second time.
#[derive(Debug)]
pub(super) struct RebuiltIndex {
    pub(super) log: Content,
    pub(super) base_offset: Offset,
    pub(super) settings: IndexSettings,
    pub(super) kind: FileKind,
}

impl Rebuild for RebuiltIndex {
    fn bytes(&self, origins: &Origins) -> Result<Vec<u8>> {
        rebuild(
            origins,
            &self.log,
            self.base_offset,
            self.settings,
            self.kind,
        )
    }
}

fn rebuild(
    origins: &Origins,
    log: &Content,
    base_offset: Offset,
    settings: IndexSettings,
    kind: FileKind,
) -> Result<Vec<u8>> {
    let file = log.open(origins, PathBuf::new())?;
    let mut scan = LogWalk::new(file, 0, log.length(), Access::Headers)?;
    let mut bytes = Vec::new();
    let mut put = |words: &[u32]| bytes.extend(words.iter().copied().flat_map(u32::to_be_bytes));
    let mut max = TimestampOffset::none(base_offset);
    let mut entries = EntryInterval::new(settings.interval);
    let mut last_time = NO_TIMESTAMP;
    while let Some((position, header)) = scan.next_batch()? {
        max = largest_timestamp(max, &header);
        if entries.is_due() {
            if kind == FileKind::OffsetIndex {
                let offset = scan.entry_offset(position, &header, settings.entry)?;
                let position = i32::try_from(position).map_err(|_| moved(offset))?;
                let relative = relative_offset(base_offset, offset).ok_or_else(|| moved(offset))?;
                put(&OffsetPosition { offset, position }.encode(relative));
            } else if max.timestamp > last_time {
                put(&time_entry(base_offset, max)?);
                last_time = max.timestamp;
            }
            entries.restart();
        }
        entries.count(&header);
    }
    if kind == FileKind::TimeIndex && max.timestamp > last_time {
        put(&time_entry(base_offset, max)?);
    }
    Ok(bytes)
}

fn time_entry(base_offset: Offset, max: TimestampOffset) -> Result<[u32; 3]> {
    let relative = relative_offset(base_offset, max.offset);
    Ok(max.encode(relative.ok_or_else(|| moved(max.offset))?))
}

/// The first pass took every batch of this `.log`, so a second one that does not saw other bytes.
fn moved(offset: Offset) -> Error {
    let expected = "the batches it had when the recovery was planned";
    Error::corrupt("log", 0, expected, "others").for_offset(offset)
}
