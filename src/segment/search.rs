//! Looking for an offset from batch to batch.

use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::types::{Offset, Position};

/// Of the batches that `next` gives, in order, the first one that holds `target` or what follows it, by base offsets as far
/// as they tell (`FileRecords.searchForOffsetFromPosition`).
///
/// # Errors
/// Those of `next`.
pub fn search_for_offset(
    target: Offset,
    mut next: impl FnMut() -> Result<Option<(Position, BatchHeader)>>,
) -> Result<Option<Position>> {
    let mut before: Option<(Position, BatchHeader)> = None;
    loop {
        let batch = next()?;
        match &batch {
            Some((position, header)) if header.base_offset == target => return Ok(Some(*position)),
            Some((_, header)) if header.base_offset < target => before = batch,
            _ => {
                let held = before.filter(|(_, header)| header.last_offset() >= target);
                return Ok(held.or(batch).map(|(position, _)| position));
            }
        }
    }
}
