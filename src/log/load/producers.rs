//! The batches of a log under plan, for its producers' state.

use std::ops::Range;

use super::folder::SharedFolder;
use super::segments::Segments;
use crate::error::Result;
use crate::log::producer_state::replay::{Replay, ReplayedLog};
use crate::types::Offset;

/// The segments of a folder under plan, to be replayed.
#[derive(Debug)]
pub(super) struct PlannedBatches<'a> {
    pub(super) folder: &'a SharedFolder,
    pub(super) segments: &'a mut Segments,
}

impl ReplayedLog for PlannedBatches<'_> {
    fn base_offsets(&self) -> Vec<Offset> {
        self.segments.base_offsets()
    }

    fn replay(
        &mut self,
        base_offset: Offset,
        offsets: Range<Offset>,
        replay: &mut Replay<'_>,
    ) -> Result<()> {
        let holds_end = self.segments.floor(offsets.end) == Some(base_offset);
        let Some(segment) = self.segments.get_mut(base_offset) else {
            return Ok(());
        };
        let folder = &mut self.folder.lock();
        let mut end = segment.size;
        if holds_end {
            end = segment
                .translate_offset(folder, offsets.end)?
                .unwrap_or(end);
        }
        let Some(mut batches) = segment.read(folder, offsets.start, end)? else {
            return Ok(());
        };
        while let Some((position, header)) = batches.next_batch()? {
            replay.take(&header, || batches.marker(position, &header))?;
        }
        Ok(())
    }
}
