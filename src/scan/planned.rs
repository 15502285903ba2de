//! The segments of planned ranges, opened one after the other.
//!
//! From the replacement of a segment that a broker exchanged (`super::replaced_segments`), only the offsets of that segment are
//! read, so that no record is returned twice, here or by another thread or task that reads the following segments.

use std::vec::IntoIter;

use crate::error::Result;
use crate::scan::range::{PartitionRange, SegmentRange};
pub(crate) use crate::scan::replaced_segments::Opening;
use crate::scan::replaced_segments::{open_planned, replacement};
use crate::segment::source::{MapPolicy, SegmentSource};
use crate::types::{Offset, Position};

/// Opens planned segments in order.
#[derive(Debug)]
pub(crate) struct PlannedSegments {
    ranges: IntoIter<PartitionRange>,
    /// The current one; its segments are in `segments`, as far as they are to come.
    range: PartitionRange,
    segments: IntoIter<SegmentRange>,
    opening: Opening,
    /// The source that was read last: the next range is often a piece of the same file.
    last: Option<SegmentSource>,
    /// End of the segment of the last turn, if it was read as planned; `None` also before the first of a range.
    ended: Option<Ended>,
    /// Offsets of the current partition below this were given, or are not wanted.
    floor: Offset,
    /// The open segment gives nothing at or above this.
    ceiling: Offset,
}

/// The end of a planned segment: what comes right after it.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// The rest of the file, from this position on.
    At(String, Position),
    /// The segment of this base offset.
    Before(Offset),
}

impl Ended {
    /// `None` where nothing can come after it.
    fn of(segment: &SegmentRange) -> Option<Self> {
        match segment.end {
            Some(cut) => Some(Self::At(segment.file_name.clone(), cut.position)),
            None => segment.next_base_offset.map(Self::Before),
        }
    }

    /// Returns whether `segment` begins there.
    fn meets(&self, segment: &SegmentRange) -> bool {
        match self {
            Self::At(file, at) => *file == segment.file_name && *at == segment.start_position,
            Self::Before(base) => *base == segment.base_offset && segment.start_position == 0,
        }
    }
}

/// Next planned segment, opened, or its replacement.
#[derive(Debug)]
pub(crate) enum NextSegment {
    /// The segment, or its replacement.
    Open(Box<OpenSegment>),
    /// Retention took it.
    Gone(SegmentRange),
}

/// A segment to be read.
#[derive(Debug)]
pub(crate) struct OpenSegment {
    /// As planned, or the one that stands in.
    pub segment: SegmentRange,
    /// Its bytes.
    pub source: SegmentSource,
    /// First offset, and the offset at which to end.
    pub wanted: (Offset, Offset),
    /// It begins where the one before it ended. Otherwise what lies between was not read, such as the end of a
    /// transaction.
    pub continues: bool,
}

impl PlannedSegments {
    /// Creates the list of the segments of `ranges`.
    #[must_use]
    pub(crate) fn new(ranges: Vec<PartitionRange>, opening: Opening) -> Self {
        Self {
            ranges: ranges.into_iter(),
            range: PartitionRange::default(),
            segments: Vec::new().into_iter(),
            opening,
            last: None,
            ended: None,
            floor: Offset::MIN,
            ceiling: Offset::MAX,
        }
    }

    /// Restarts with other ranges.
    pub(crate) fn restart(&mut self, ranges: Vec<PartitionRange>) {
        self.ranges = ranges.into_iter();
        self.segments = Vec::new().into_iter();
    }

    /// Ends the iteration.
    pub(crate) fn end(&mut self) {
        self.restart(Vec::new());
    }

    /// Sets which of the following segments are mapped.
    pub(crate) const fn set_map_policy(&mut self, map_policy: MapPolicy) {
        self.opening.map_policy = map_policy;
    }

    /// The range of the last turn.
    #[must_use]
    pub(crate) const fn range(&self) -> &PartitionRange {
        &self.range
    }

    /// All of the open segment was read: up to this offset.
    pub(crate) fn advance(&mut self, next_offset: Offset) {
        self.floor = self.floor.max(next_offset.min(self.ceiling));
    }

    /// Takes back a source that was opened here.
    pub(crate) fn keep(&mut self, source: SegmentSource) {
        self.last = Some(source);
    }

    /// The next one; `None` at the end.
    ///
    /// # Errors
    /// `Io` where a file is there but cannot be opened; `CorruptRecord` for one longer than Kafka's positions reach.
    pub(crate) fn next_turn(&mut self) -> Result<Option<NextSegment>> {
        loop {
            let Some(segment) = self.segments.next() else {
                let Some(mut range) = self.ranges.next() else {
                    return Ok(None);
                };
                self.segments = std::mem::take(&mut range.segments).into_iter();
                self.floor = range.start_offset;
                self.ended = None;
                self.range = range;
                continue;
            };
            if segment.ceiling().is_some_and(|next| next <= self.floor) {
                continue;
            }
            let folder = &self.range.folder;
            let end = self.range.end_offset.unwrap_or(Offset::MAX);
            let planned = open_planned(&**folder, &segment, self.opening, &mut self.last)?;
            let ended = self.ended.take();
            let continues = planned.is_some() && ended.is_some_and(|ended| ended.meets(&segment));
            let (segment, source) = if let Some(source) = planned {
                self.ceiling = Offset::MAX;
                self.ended = Ended::of(&segment);
                (segment, source)
            } else if let Some((found, source)) =
                replacement(folder, &segment, self.floor, self.opening)?
            {
                self.floor = self.floor.max(segment.start_offset);
                self.ceiling = segment.ceiling().unwrap_or(Offset::MAX);
                (found, source)
            } else {
                return Ok(Some(NextSegment::Gone(segment)));
            };
            return Ok(Some(NextSegment::Open(Box::new(OpenSegment {
                segment,
                source,
                wanted: (self.floor, end.min(self.ceiling)),
                continues,
            }))));
        }
    }
}
