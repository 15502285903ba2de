//! Selection of the `.swap` files that count, if the log that they were made from may still be there.
//!
//! Kafka puts every finished swap in the place of the segments in its range, whatever is in it (`LogLoader`).
//! Compaction and splits leave nothing else behind. A full or dying disk does: a swap that is empty, truncated or of
//! other bytes, next to whole segments. So a live `.log` counts for as long as it holds a whole batch that the swaps do
//! not have.
//!
//! | swap | counts |
//! |---|---|
//! | whole, and holds every whole batch of the live logs in its range | in their place |
//! | holds batches from its base on up to the next live log, where no live log reaches | up to that one |
//! | any other | not at all |
//!
//! Of a compaction that a crash cut short the live logs count, if they are all there; of those that are gone, the swap.
//! Checksums are compared, so every file in question is read; a folder without swaps is not examined.

use std::collections::VecDeque;

use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::file_name::FileName;
use crate::io::storage::ReadFolder;
use crate::segment::resync::{Resync, ResyncItem};
use crate::types::{Offset, Position};

/// A `.log` of a folder, and how many of its bytes count.
pub(crate) type CountedLog = (FileName, u64);

/// The logs that count, by base offset, of `lives` and of `swaps` that are finished; both in that order.
///
/// # Errors
/// `Io`.
pub(crate) fn choose(
    folder: &dyn ReadFolder,
    swaps: &[CountedLog],
    lives: &[CountedLog],
) -> Result<Vec<CountedLog>> {
    if swaps.is_empty() {
        return Ok(lives.to_vec());
    }
    let folder = SwapFolder(folder);
    let (mut whole, mut others) = (Vec::new(), Vec::new());
    let (mut low, mut high) = (Offset::MAX, Offset::MIN);
    for &swap in swaps {
        match folder.end_if_whole(swap)? {
            Some(end) => {
                low = low.min(swap.0.offset);
                high = high.max(end);
                whole.push(swap);
            }
            None => others.push(swap),
        }
    }
    let (replaced, mut chosen): (Vec<CountedLog>, Vec<CountedLog>) =
        (lives.iter()).partition(|(name, _)| (low..high).contains(&name.offset));
    let before = chosen.iter().rfind(|(name, _)| name.offset < low);
    let is_free = match before {
        _ if whole.is_empty() => false,
        Some(&before) => folder.end(before)? <= low,
        None => true,
    };
    if is_free && folder.covers(&whole, &replaced)? {
        chosen.append(&mut whole);
        chosen.sort_by_key(|(name, _)| name.offset);
    } else {
        chosen = lives.to_vec();
        others = swaps.to_vec();
    }
    for swap in others {
        folder.fill(swap, &mut chosen)?;
    }
    Ok(chosen)
}

struct SwapFolder<'a>(&'a dyn ReadFolder);

/// Identity of a batch: offsets and checksum.
type BatchIdentity = (Offset, Offset, u32);

fn identity(header: &BatchHeader) -> BatchIdentity {
    (header.base_offset, header.last_offset(), header.crc)
}

impl SwapFolder<'_> {
    /// A walk over a log whose batches lie below `end`.
    fn walk(&self, (name, length): CountedLog, end: Offset) -> Result<Resync> {
        let file = self.0.open(&name.to_string())?;
        let offsets = (name.offset, end.saturating_sub(1));
        Resync::within(file, length, offsets, name.offset)
    }

    /// The offset after the last batch, if there is one and all bytes are whole batches.
    fn end_if_whole(&self, log: CountedLog) -> Result<Option<Offset>> {
        let (mut walk, mut end) = (self.walk(log, Offset::MAX)?, None);
        while let Some(step) = walk.next_step()? {
            match step {
                ResyncItem::Batch(_, header) => end = Some(header.next_offset()),
                ResyncItem::Lost(_) => return Ok(None),
            }
        }
        Ok(end)
    }

    /// The offset after the last whole batch, or the base.
    fn end(&self, log: CountedLog) -> Result<Offset> {
        let (mut walk, mut end) = (self.walk(log, Offset::MAX)?, log.0.offset);
        while let Some(step) = walk.next_step()? {
            if let ResyncItem::Batch(_, header) = step {
                end = header.next_offset();
            }
        }
        Ok(end)
    }

    /// Returns whether `swaps`, which are whole, hold every whole batch of `lives`.
    fn covers(&self, swaps: &[CountedLog], lives: &[CountedLog]) -> Result<bool> {
        let mut swaps: VecDeque<CountedLog> = swaps.iter().copied().collect();
        let mut open: Option<Resync> = None;
        let mut next = || -> Result<Option<BatchIdentity>> {
            loop {
                if let Some(walk) = &mut open
                    && let Some(step) = walk.next_step()?
                {
                    match step {
                        ResyncItem::Batch(_, header) => return Ok(Some(identity(&header))),
                        ResyncItem::Lost(_) => continue,
                    }
                }
                let Some(swap) = swaps.pop_front() else {
                    return Ok(None);
                };
                open = Some(self.walk(swap, Offset::MAX)?);
            }
        };
        let mut swapped = next()?;
        let ends = lives.iter().skip(1).map(|(name, _)| name.offset);
        for (&live, end) in lives.iter().zip(ends.chain([Offset::MAX])) {
            let mut walk = self.walk(live, end)?;
            while let Some(step) = walk.next_step()? {
                let ResyncItem::Batch(_, header) = step else {
                    continue;
                };
                let wanted = identity(&header);
                while swapped.is_some_and(|found| found < wanted) {
                    swapped = next()?;
                }
                if swapped != Some(wanted) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Adds what a swap holds before the next of the chosen logs, if none of these reaches its base.
    fn fill(&self, swap: CountedLog, chosen: &mut Vec<CountedLog>) -> Result<()> {
        let base_offset = swap.0.offset;
        let at = chosen.partition_point(|(name, _)| name.offset < base_offset);
        let same = chosen
            .get(at)
            .filter(|(name, _)| name.offset == base_offset);
        let is_empty = match same {
            Some(&same) => self.walk(same, Offset::MAX)?.first_whole()?.is_none(),
            None => false,
        };
        let before = at.checked_sub(1).and_then(|before| chosen.get(before));
        let is_taken = match before {
            Some(&before) => self.end(before)? > base_offset,
            None => false,
        };
        if is_taken || (same.is_some() && !is_empty) {
            return Ok(());
        }
        let after = at.saturating_add(usize::from(is_empty));
        let next = chosen.get(after).map(|(name, _)| name.offset);
        if let Some(length) = self.length_below(swap, next)? {
            chosen.splice(at..after, [(swap.0, length)]);
        }
        Ok(())
    }

    /// Bytes of a log's batches below `end`; `None` if it has none.
    fn length_below(&self, log: CountedLog, end: Option<Offset>) -> Result<Option<Position>> {
        let (mut walk, mut is_some) = (self.walk(log, Offset::MAX)?, false);
        while let Some(step) = walk.next_step()? {
            match step {
                ResyncItem::Batch(position, header) => {
                    if end.is_some_and(|end| header.last_offset() >= end) {
                        return Ok(is_some.then_some(position));
                    }
                    is_some = true;
                }
                // After the last segment nothing was replaced: what begins with damage is another log's.
                ResyncItem::Lost(lost) if end.is_none() && lost.position == 0 => return Ok(None),
                ResyncItem::Lost(_) => {}
            }
        }
        Ok(is_some.then_some(log.1))
    }
}
