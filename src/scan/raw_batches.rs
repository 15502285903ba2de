//! Planned ranges as whole batches, byte for byte: what a follower fetches from its leader.
//!
//! Batches are never cut, so the first may begin below the range and the last may reach beyond it, as in a fetch. A
//! group ends with a control batch: a log that takes a transaction's end together with transactions that begin after it
//! notes for it a last stable offset that is too high (`UnifiedLog.append`), and later aborts are hidden from
//! consumers. Checksums are left to the log that appends them.

use crate::error::{Error, Result};
use crate::format::batch::RECORD_BATCH_OVERHEAD;
use crate::scan::batches::OpenBatches;
use crate::scan::planned::{NextSegment, Opening, PlannedSegments};
use crate::scan::range::PartitionRange;
use crate::segment::source::{Access, MapPolicy, SegmentSource};
use crate::types::{Offset, Position};

/// Hands out the batches of a partition in groups.
#[derive(Debug)]
pub struct WholeBatches {
    start_offset: Offset,
    segments: PlannedSegments,
    open: Option<OpenBatches>,
    /// Position of the last run.
    run: Position,
    bytes: u64,
}

/// Consecutive batches.
#[derive(Clone, Copy, Debug)]
pub struct BatchGroup<'a> {
    /// Their bytes.
    pub bytes: &'a [u8],
    /// The first one's base offset, as its header says it.
    pub base_offset: Offset,
}

impl WholeBatches {
    /// Creates a reader of `range`.
    #[must_use]
    pub fn new(range: PartitionRange) -> Self {
        let opening = Opening {
            map_policy: MapPolicy::Never,
            access: Access::Records,
        };
        Self {
            start_offset: range.start_offset,
            segments: PlannedSegments::new(vec![range], opening),
            open: None,
            run: 0,
            bytes: 0,
        }
    }

    /// The first offset that counts.
    #[must_use]
    pub const fn start_offset(&self) -> Offset {
        self.start_offset
    }

    /// Bytes handed out.
    #[cfg(feature = "internal")]
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next batches of one segment, together at most `most` bytes, yet at least one; `None` at the end.
    ///
    /// # Errors
    /// What walking the headers finds; `Io`, also where retention took a segment before its turn.
    pub fn next_group(&mut self, most: usize) -> Result<Option<BatchGroup<'_>>> {
        let found = loop {
            let Some(open) = &mut self.open else {
                if !self.next_segment()? {
                    return Ok(None);
                }
                continue;
            };
            if let Some(found) = find_group(open, most)? {
                break found;
            }
            self.segments.advance(open.next_offset());
            self.open = None;
        };
        let Some(open) = &mut self.open else {
            return Ok(None);
        };
        self.bytes = self.bytes.saturating_add(found.size as u64);
        self.run = found.position;
        let bytes = open.opened.source.bytes(found.position, found.size)?;
        Ok(Some(BatchGroup {
            bytes,
            base_offset: found.base_offset,
        }))
    }

    /// Adds file and position to an error about the last group's bytes.
    #[must_use]
    pub fn locate(&self, error: Error) -> Error {
        match &self.open {
            Some(open) => error.shift(self.run).at(open.opened.source.path()),
            None => error,
        }
    }

    fn next_segment(&mut self) -> Result<bool> {
        match self.segments.next_turn()? {
            Some(NextSegment::Open(opened)) => {
                self.open = Some(OpenBatches::new(opened));
                Ok(true)
            }
            Some(NextSegment::Gone(segment)) => {
                let path = self.segments.range().folder.path_of(&segment.file_name);
                Err(Error::replaced(path))
            }
            None => Ok(false),
        }
    }
}

struct FoundBatches {
    position: Position,
    base_offset: Offset,
    size: usize,
}

impl FoundBatches {
    /// Returns whether the header after it is in memory.
    const fn is_followed(&self, source: &SegmentSource) -> bool {
        let next = self.position.saturating_add(self.size as u64);
        source.holds(next, RECORD_BATCH_OVERHEAD)
    }
}

/// The batches at the cursor, up to the last one that is in memory with the first: a look at the next header would
/// replace the window, and the group would be read twice.
fn find_group(open: &mut OpenBatches, most: usize) -> Result<Option<FoundBatches>> {
    let (start, _) = open.opened.wanted;
    let mut run: Option<FoundBatches> = None;
    while run
        .as_ref()
        .is_none_or(|run| run.is_followed(&open.opened.source))
    {
        let before = open.cursor.clone();
        let Some((position, header)) = open.next_batch()? else {
            break;
        };
        if header.last_offset() < start {
            continue;
        }
        match &mut run {
            None => {
                run = Some(FoundBatches {
                    position,
                    base_offset: header.base_offset,
                    size: header.size,
                });
                open.opened.source.bytes(position, header.size)?;
            }
            Some(run) if run.size.saturating_add(header.size) <= most => {
                run.size = run.size.saturating_add(header.size);
            }
            Some(_) => {
                // It begins the next run.
                open.cursor = before;
                break;
            }
        }
        if header.is_control() {
            break;
        }
    }
    Ok(run)
}
