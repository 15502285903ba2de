//! Rebuilt indexes that a plan did not keep, made again.

use super::content::{Content, Places, Rebuild};
use super::scan::LogScan;
use super::settings::IndexSettings;
use crate::error::Result;
use crate::format::entry::{OffsetPosition, TimestampOffset, relative_offset};
use crate::format::file_name::FileKind;
use crate::index::writable::Entry;
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
    fn bytes(&self, places: &Places) -> Result<Vec<u8>> {
        rebuild(
            places,
            &self.log,
            self.base_offset,
            self.settings,
            self.kind,
        )
    }
}

fn rebuild(
    places: &Places,
    log: &Content,
    base_offset: Offset,
    settings: IndexSettings,
    kind: FileKind,
) -> Result<Vec<u8>> {
    let mut scan = LogScan::open(places, log, 0, log.length(), Access::Headers)?;
    let mut bytes = Vec::new();
    let relative = |offset| relative_offset(base_offset, offset).unwrap_or(i32::MAX);
    let mut put = |words: &[u32]| bytes.extend(words.iter().copied().flat_map(u32::to_be_bytes));
    let mut max = TimestampOffset::none(base_offset);
    let (mut last_indexed, mut last_time) = (0, NO_TIMESTAMP);
    while let Some((position, header)) = scan.next_batch()? {
        let offset = header.last_offset();
        if header.max_timestamp > max.timestamp {
            max = TimestampOffset {
                timestamp: header.max_timestamp,
                offset,
            };
        }
        let since = position.saturating_sub(last_indexed);
        if i64::try_from(since).unwrap_or(i64::MAX) > i64::from(settings.interval) {
            if kind == FileKind::OffsetIndex {
                let offset = scan.entry_offset(position, &header, settings.entry)?;
                let position = i32::try_from(position).unwrap_or(i32::MAX);
                put(&OffsetPosition { offset, position }.encode(relative(offset)));
            } else if max.timestamp > last_time {
                put(&max.encode(relative(max.offset)));
                last_time = max.timestamp;
            }
            last_indexed = position;
        }
    }
    if kind == FileKind::TimeIndex && max.timestamp > last_time {
        put(&max.encode(relative(max.offset)));
    }
    Ok(bytes)
}
