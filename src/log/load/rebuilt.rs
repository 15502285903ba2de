//! Rebuilt indexes that a plan did not keep, made again.

use super::content::{Content, Places, Rebuild};
use super::scan::LogScan;
use super::segment::IndexSettings;
use crate::error::Result;
use crate::format::entry::TimestampOffset;
use crate::format::file_name::FileKind;
use crate::segment::source::Access;
use crate::types::{NO_TIMESTAMP, Offset, Position};

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
    let mut put = |entry: TimestampOffset, position: Position| {
        let relative = entry.offset.wrapping_sub(base_offset);
        let relative = i32::try_from(relative).unwrap_or(i32::MAX).to_be_bytes();
        if kind == FileKind::OffsetIndex {
            let position = i32::try_from(position).unwrap_or(i32::MAX);
            bytes.extend_from_slice(&relative);
            bytes.extend_from_slice(&position.to_be_bytes());
        } else {
            bytes.extend_from_slice(&entry.timestamp.to_be_bytes());
            bytes.extend_from_slice(&relative);
        }
    };
    let mut max = TimestampOffset {
        timestamp: NO_TIMESTAMP,
        offset: base_offset,
    };
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
                put(TimestampOffset { offset, ..max }, position);
            } else if max.timestamp > last_time {
                put(max, position);
                last_time = max.timestamp;
            }
            last_indexed = position;
        }
    }
    if kind == FileKind::TimeIndex && max.timestamp > last_time {
        put(max, 0);
    }
    Ok(bytes)
}
