//! What the indexes of a log are made by.

use crate::format::entry::index_room;
use crate::log::config::LogConfig;
use crate::segment::entries::EntryOffset;

/// What a segment needs to know of its log.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexSettings {
    /// `segment.index.bytes`.
    pub(super) max_index_size: i32,
    /// `index.interval.bytes`.
    pub(super) interval: u64,
    /// Which of its batch's offsets an entry names.
    pub(super) entry: EntryOffset,
}

impl IndexSettings {
    pub(super) fn of(config: &LogConfig) -> Self {
        Self {
            max_index_size: config.segment_index_bytes,
            interval: u64::try_from(config.index_interval_bytes).unwrap_or_default(),
            entry: EntryOffset::Last,
        }
    }

    /// Entries that both indexes of a segment have room for.
    pub(super) fn room(self) -> usize {
        index_room(self.max_index_size)
    }
}
