//! Looking for an offset from batch to batch.

use crate::error::Result;
use crate::types::{Offset, Position};

/// A batch's place in the log and its offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchSpan {
    /// Position of its first byte.
    pub position: Position,
    /// Its first offset; of a wrapper, the first inside.
    pub first_offset: Offset,
    /// Its last offset.
    pub last_offset: Offset,
}

/// Of the batches that `next` gives, in order, the first one that holds `target` or what follows it, by first offsets as
/// far as they tell (`FileRecords.searchForOffsetFromPosition`).
///
/// # Errors
/// Those of `next`.
pub(crate) fn search_for_offset(
    target: Offset,
    mut next: impl FnMut() -> Result<Option<BatchSpan>>,
) -> Result<Option<Position>> {
    let mut before: Option<BatchSpan> = None;
    loop {
        let batch = next()?;
        match batch {
            Some(batch) if batch.first_offset == target => return Ok(Some(batch.position)),
            Some(batch) if batch.first_offset < target => before = Some(batch),
            _ => {
                let held = before.filter(|before| before.last_offset >= target);
                return Ok(held.or(batch).map(|found| found.position));
            }
        }
    }
}
