//! Planned ranges as whole batches, byte for byte: what a follower fetches from its leader.
//!
//! Batches are never cut, so the first may begin below the range and the last may reach beyond it, as in a fetch.
//! Checksums are left to whoever appends.

use std::collections::VecDeque;

use crate::error::Result;
use crate::log::range::{PartitionRange, SegmentRange};
use crate::segment::batches::{BatchCursor, Bounds};
use crate::segment::source::{Access, SegmentSource};
use crate::types::{Offset, Position};

/// Hands out the batches of a partition in runs.
#[derive(Debug)]
pub struct WholeBatches {
    range: PartitionRange,
    segments: VecDeque<Segment>,
    bytes: u64,
}

/// A segment that is opened when its turn comes.
#[derive(Debug)]
struct Segment {
    planned: SegmentRange,
    open: Option<(SegmentSource, BatchCursor)>,
}

/// Consecutive batches.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Their bytes.
    pub bytes: &'a [u8],
    /// The first one's base offset, as its header says it.
    pub base_offset: Offset,
}

impl WholeBatches {
    /// Will read `range`.
    #[must_use]
    pub fn new(mut range: PartitionRange) -> Self {
        let segments = std::mem::take(&mut range.segments);
        Self {
            range,
            segments: segments.into_iter().map(Segment::planned).collect(),
            bytes: 0,
        }
    }

    /// The first offset that counts.
    #[must_use]
    pub const fn start_offset(&self) -> Offset {
        self.range.start_offset
    }

    /// Bytes handed out.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next batches of one segment, together at most `most` bytes, yet at least one; `None` at the end.
    ///
    /// # Errors
    /// What walking the headers finds; `Io`.
    pub fn next_run(&mut self, most: usize) -> Result<Option<Run<'_>>> {
        let found = loop {
            let Some(segment) = self.segments.front_mut() else {
                return Ok(None);
            };
            let (source, cursor) = segment.opened(&self.range)?;
            if let Some(found) = find_run(source, cursor, &self.range, most)? {
                break found;
            }
            self.segments.pop_front();
        };
        let Some(segment) = self.segments.front_mut() else {
            return Ok(None);
        };
        let (source, _) = segment.opened(&self.range)?;
        self.bytes = self.bytes.saturating_add(found.size as u64);
        let bytes = source.bytes(found.position, found.size)?;
        Ok(Some(Run {
            bytes,
            base_offset: found.base_offset,
        }))
    }
}

struct Found {
    position: Position,
    base_offset: Offset,
    size: usize,
}

fn find_run(
    source: &mut SegmentSource,
    cursor: &mut BatchCursor,
    range: &PartitionRange,
    most: usize,
) -> Result<Option<Found>> {
    let mut run: Option<Found> = None;
    loop {
        let before = cursor.clone();
        let Some((position, header)) = cursor.next(source)? else {
            return Ok(run);
        };
        if header.last_offset() < range.start_offset {
            continue;
        }
        let is_beyond = range
            .end_offset
            .is_some_and(|end| header.base_offset >= end);
        match &mut run {
            None if is_beyond => return Ok(None),
            None => {
                run = Some(Found {
                    position,
                    base_offset: header.base_offset,
                    size: header.size,
                });
            }
            Some(run) if !is_beyond && run.size.saturating_add(header.size) <= most => {
                run.size = run.size.saturating_add(header.size);
            }
            // It begins the next run.
            Some(_) => {
                *cursor = before;
                return Ok(run);
            }
        }
    }
}

impl Segment {
    const fn planned(planned: SegmentRange) -> Self {
        Self {
            planned,
            open: None,
        }
    }

    fn opened(&mut self, range: &PartitionRange) -> Result<(&mut SegmentSource, &mut BatchCursor)> {
        let open = if let Some(open) = self.open.take() {
            open
        } else {
            let planned = &self.planned;
            let path = range.folder.join(&planned.file_name);
            let source = SegmentSource::open(&path, planned.size, true, Access::Records)?;
            let bounds = Bounds {
                base_offset: planned.base_offset,
                next_base_offset: planned.next_base_offset,
                is_active: planned.is_active,
                end: None,
            };
            (source, BatchCursor::new(bounds, planned.start_position))
        };
        let (source, cursor) = self.open.insert(open);
        Ok((source, cursor))
    }
}
