//! Planned ranges, divided into pieces of about the same size for parallel readers.
//!
//! A piece begins where a batch begins, also inside a segment, so that one long segment feeds every reader. Small
//! segments and partitions share a piece. Each piece is found on demand, because finding one costs as much as reading a
//! batch. The pieces in order return the same as the ranges.

use std::collections::VecDeque;
use std::path::PathBuf;

use crate::io::storage::Folder;
use crate::scan::range::{Cut, PartitionRange, SegmentRange};
use crate::segment::lookup::SegmentLookup;
use crate::segment::skipping::{OnCorrupt, is_ordered};

/// Action if no index entry gives the start of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoIndexEntry {
    /// Walk the headers.
    WalkHeaders,
    /// Keep the segment whole: when many are cut and none is read.
    KeepWhole,
}

/// The pieces of ranges, in order.
#[derive(Debug)]
pub struct Pieces {
    ranges: VecDeque<PartitionRange>,
    size: u64,
    no_index_entry: NoIndexEntry,
    on_corrupt: OnCorrupt,
    /// The segment that was cut last, and whose file it is; `None` for one that is not to be cut.
    open: Option<(PathBuf, Option<SegmentLookup<'static>>)>,
}

impl Pieces {
    /// Pieces of about `size` bytes, at least one.
    #[must_use]
    pub fn new(ranges: Vec<PartitionRange>, size: u64, no_index_entry: NoIndexEntry) -> Self {
        Self {
            ranges: ranges.into(),
            size: size.max(1),
            no_index_entry,
            on_corrupt: OnCorrupt::Raise,
            open: None,
        }
    }

    /// For readers that continue after damage: a segment whose headers are not in order stays whole, as only one who
    /// sees all of them can tell what is out of place.
    #[must_use]
    pub fn on_corrupt(mut self, on_corrupt: OnCorrupt) -> Self {
        self.on_corrupt = on_corrupt;
        self
    }

    /// The pieces to come will be of about `size` bytes, at least one.
    pub fn set_size(&mut self, size: u64) {
        self.size = size.max(1);
    }

    /// Finds a place to cut a segment, at or after `position`; `None` if too little would be left.
    fn cut(&mut self, folder: &Folder, segment: &SegmentRange, position: u64) -> Option<Cut> {
        let path = folder.path_of(&segment.file_name);
        if self.open.as_ref().is_none_or(|(open, _)| *open != path) {
            let is_whole = self.on_corrupt == OnCorrupt::Skip && {
                let file = folder.open(&segment.file_name).ok()?;
                file.pass_damage();
                !is_ordered(file, segment.size, segment.bounds()).ok()?
            };
            let lookup = if is_whole {
                None
            } else {
                Some(SegmentLookup::open_owned(segment.segment(folder)).ok()?)
            };
            self.open = Some((path, lookup));
        }
        let walks =
            (self.no_index_entry == NoIndexEntry::WalkHeaders).then_some(segment.start_position);
        let lookup = self.open.as_mut()?.1.as_mut()?;
        // The reader of the file reports its faults.
        let (position, offset) = lookup.cut_at(position, walks).ok().flatten()?;
        let end = segment.end.map_or(segment.size, |cut| cut.position);
        let is_between =
            segment.start_offset < offset && segment.ceiling().is_none_or(|c| offset < c);
        let left = end.saturating_sub(position);
        (is_between && left >= self.size / 4).then_some(Cut { position, offset })
    }
}

impl Iterator for Pieces {
    type Item = Vec<PartitionRange>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut piece: Vec<PartitionRange> = Vec::new();
        let mut room = self.size;
        while let Some(mut range) = self.ranges.pop_front() {
            let mut rest = std::mem::take(&mut range.segments).into_iter();
            let mut taken = Vec::new();
            let mut after = None;
            while room > 0
                && let Some(mut segment) = rest.next()
            {
                let bytes = segment.bytes();
                let place = segment.start_position.saturating_add(room);
                // What would be left over should be worth a piece.
                let cut = (bytes > room.saturating_add(self.size / 4))
                    .then(|| self.cut(&range.folder, &segment, place))
                    .flatten();
                room = room.saturating_sub(bytes.max(1));
                let Some(cut) = cut else {
                    taken.push(segment);
                    continue;
                };
                if range.end_offset.is_some_and(|end| end <= cut.offset) {
                    // Nothing after the cut is wanted.
                    rest = Vec::new().into_iter();
                } else {
                    after = Some(SegmentRange {
                        start_position: cut.position,
                        start_offset: cut.offset,
                        ..segment.clone()
                    });
                }
                segment.end = Some(cut);
                taken.push(segment);
            }
            if !taken.is_empty() {
                piece.push(PartitionRange {
                    segments: taken,
                    ..range.clone()
                });
            }
            range.segments.extend(after.into_iter().chain(rest));
            if !range.segments.is_empty() {
                self.ranges.push_front(range);
            }
            if room == 0 {
                break;
            }
        }
        (!piece.is_empty()).then_some(piece)
    }
}
