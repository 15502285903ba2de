//! The segments of an open log (`LogSegments`): the active one, and base offset and size of the others, whose files are
//! not open.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::io::folder::DiskFolder;
use crate::io::storage::Storage;
use crate::segment::writer::{SegmentSummary, WritableSegment};
use crate::types::Offset;

/// A segment as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The offset it is named by.
    pub base_offset: Offset,
    /// Bytes of its `.log`.
    pub size: u64,
}

#[derive(Debug)]
pub(super) struct WritableSegments<S: Storage = DiskFolder> {
    /// By base offset.
    pub(super) closed: BTreeMap<Offset, SegmentSummary>,
    pub(super) active: WritableSegment<S>,
}

impl<S: Storage> WritableSegments<S> {
    pub(super) fn infos(&self) -> Vec<SegmentInfo> {
        let closed = self.closed.iter();
        let mut all: Vec<_> = closed
            .map(|(&base_offset, known)| SegmentInfo {
                base_offset,
                size: known.size,
            })
            .collect();
        all.push(SegmentInfo {
            base_offset: self.active.base_offset(),
            size: self.active.size(),
        });
        all
    }

    pub(super) fn first_base_offset(&self) -> Offset {
        let first = self.closed.keys().next();
        first.copied().unwrap_or_else(|| self.active.base_offset())
    }

    /// Bytes of a segment's `.log`; 0 where there is no such segment.
    pub(super) fn size(&self, base_offset: Offset) -> u64 {
        if base_offset == self.active.base_offset() {
            self.active.size()
        } else {
            self.closed.get(&base_offset).map_or(0, |known| known.size)
        }
    }

    /// The base offset of the segment after a closed one.
    pub(super) fn base_offset_after(&self, base_offset: Offset) -> Offset {
        let later = (Bound::Excluded(base_offset), Bound::Unbounded);
        let mut later = self.closed.range(later).map(|(&base, _)| base);
        later.next().unwrap_or(self.active.base_offset())
    }

    pub(super) fn contains(&self, base_offset: Offset) -> bool {
        self.active.base_offset() == base_offset || self.closed.contains_key(&base_offset)
    }

    /// Base offsets of the segments from the one that holds `from` up to those that begin below `to`.
    pub(super) fn bases(&self, from: Offset, to: Offset) -> Vec<Offset> {
        let infos = self.infos();
        let holding = infos.partition_point(|info| info.base_offset <= from);
        let begin = holding.saturating_sub(1);
        infos
            .into_iter()
            .skip(begin)
            .map(|info| info.base_offset)
            .take_while(|&base| base < to)
            .collect()
    }
}
