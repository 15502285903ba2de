//! The batches of a log under plan, for its producers' state.

use super::segments::PlannedSegmentList;
use crate::error::Result;
use crate::producers::replay::{Replay, ReplayedLog};
use crate::types::Offset;

/// The segments of a folder under plan, for replaying.
#[derive(Debug)]
pub(super) struct PlannedBatches<'a> {
    pub(super) segments: &'a mut PlannedSegmentList,
}

impl ReplayedLog for PlannedBatches<'_> {
    fn base_offsets(&self) -> Vec<Offset> {
        self.segments.base_offsets()
    }

    fn replay(
        &mut self,
        base_offset: Offset,
        start: Offset,
        end: Option<Offset>,
        replay: &mut Replay<'_>,
    ) -> Result<()> {
        let Some(segment) = self.segments.get_mut(base_offset) else {
            return Ok(());
        };
        let end = match end {
            Some(end) => segment.translate_offset(end)?,
            None => None,
        };
        let end = end.unwrap_or(segment.size());
        let Some(mut batches) = segment.read(start, end)? else {
            return Ok(());
        };
        while let Some((position, header)) = batches.next()? {
            let taken = replay.take(&header, || batches.source.marker(position, &header));
            taken.map_err(|error| error.at(batches.source.path()))?;
        }
        Ok(())
    }
}
