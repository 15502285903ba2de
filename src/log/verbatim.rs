//! Planned ranges as whole batches, byte for byte: what a follower fetches from its leader.
//!
//! Batches are never cut, so the first may begin below the range and the last may reach beyond it, as in a fetch.
//! Checksums are left to whoever appends.

use std::io::ErrorKind;

use crate::error::{Error, Result};
use crate::log::planned::{OpenSegment, Opening, PlannedSegments, Turn};
use crate::log::range::PartitionRange;
use crate::segment::batches::BatchCursor;
use crate::segment::source::{Access, Copying};
use crate::types::{Offset, Position};

/// Hands out the batches of a partition in runs.
#[derive(Debug)]
pub struct WholeBatches {
    start_offset: Offset,
    segments: PlannedSegments,
    open: Option<Open>,
    bytes: u64,
}

#[derive(Debug)]
struct Open {
    opened: Box<OpenSegment>,
    cursor: BatchCursor,
    /// Where the last run begins.
    run: Position,
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
    pub fn new(range: PartitionRange) -> Self {
        let opening = Opening {
            copying: Copying::Always,
            access: Access::Records,
        };
        Self {
            start_offset: range.start_offset,
            segments: PlannedSegments::new(vec![range], opening),
            open: None,
            bytes: 0,
        }
    }

    /// The first offset that counts.
    #[must_use]
    pub const fn start_offset(&self) -> Offset {
        self.start_offset
    }

    /// Bytes handed out.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next batches of one segment, together at most `most` bytes, yet at least one; `None` at the end.
    ///
    /// # Errors
    /// What walking the headers finds; `Io`, also where retention took a segment before its turn.
    pub fn next_run(&mut self, most: usize) -> Result<Option<Run<'_>>> {
        let found = loop {
            let Some(open) = &mut self.open else {
                if !self.next_segment()? {
                    return Ok(None);
                }
                continue;
            };
            if let Some(found) = find_run(open, most)? {
                break found;
            }
            self.segments.advance(open.cursor.next_offset());
            self.open = None;
        };
        let Some(open) = &mut self.open else {
            return Ok(None);
        };
        self.bytes = self.bytes.saturating_add(found.size as u64);
        open.run = found.position;
        let bytes = open.opened.source.bytes(found.position, found.size)?;
        Ok(Some(Run {
            bytes,
            base_offset: found.base_offset,
        }))
    }

    /// Says of what was found wrong in the last run's bytes where they lie.
    #[must_use]
    pub fn locate(&self, error: Error) -> Error {
        match (&self.open, error.as_fault()) {
            (Some(open), Some(fault)) if fault.location.path.is_none() => {
                error.shift(open.run).at(open.opened.source.path())
            }
            _ => error,
        }
    }

    fn next_segment(&mut self) -> Result<bool> {
        match self.segments.next_turn()? {
            Some(Turn::Open(opened)) => {
                let bounds = opened.segment.bounds();
                let cursor = BatchCursor::new(bounds, opened.segment.start_position);
                self.open = Some(Open {
                    run: opened.segment.start_position,
                    opened,
                    cursor,
                });
                Ok(true)
            }
            Some(Turn::Gone(segment)) => {
                let path = self.segments.range().folder.join(segment.file_name);
                Err(Error::io(path)(ErrorKind::NotFound.into()))
            }
            None => Ok(false),
        }
    }
}

struct Found {
    position: Position,
    base_offset: Offset,
    size: usize,
}

fn find_run(open: &mut Open, most: usize) -> Result<Option<Found>> {
    let (start, end) = open.opened.wanted;
    let mut run: Option<Found> = None;
    loop {
        let before = open.cursor.clone();
        let Some((position, header)) = open.cursor.next(&mut open.opened.source)? else {
            return Ok(run);
        };
        if header.last_offset() < start {
            continue;
        }
        let is_beyond = open.cursor.least_offset(&header) >= end;
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
                open.cursor = before;
                return Ok(run);
            }
        }
    }
}
