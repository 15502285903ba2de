//! Offset and time indexes, each entry compared with the log (`dumpIndex`, `dumpTimeIndex`).
//!
//! Like Kafka's tool, it takes every whole slot of the file for an entry, also zeros after the last one, and looks
//! offsets up among them; it ends at the first entry, other than the very first, whose offset is the base.

use super::Options;
use super::findings::DumpFindings;
use super::log::largest_timestamp;
use super::records::LenientDecoder;
use super::target::{DumpTarget, open};
use super::text::{TextOutput, put};
use super::walk::{BatchFrame, frame_at};
use crate::error::{Error, Result};
use crate::format::entry::{OFFSET_ENTRY_SIZE, OffsetPosition, TIME_ENTRY_SIZE, TimestampOffset};
use crate::format::file_name::FileKind;
use crate::index::read::IndexEntry;
use crate::index::search;
use crate::segment::source::{Access, SegmentSource};
use crate::types::{NO_TIMESTAMP, Offset, Position};

/// Words of an offset index entry.
const OFFSET_WORDS: usize = OFFSET_ENTRY_SIZE / 4;

/// An index file as slots.
struct RawSlots {
    bytes: SegmentSource,
    size: usize,
    base_offset: Offset,
}

impl RawSlots {
    fn open(target: &DumpTarget, kind: FileKind, size: usize, access: Access) -> Result<Self> {
        let bytes = if target.name.ends_with(kind.suffix()) {
            open(&target.path, access)?
        } else {
            target.open_beside(kind.suffix(), access)?
        };
        Ok(Self {
            bytes,
            size,
            base_offset: target.base_offset()?,
        })
    }

    /// Whole slots.
    const fn len(&self) -> u64 {
        match self.bytes.len().checked_div(self.size as u64) {
            Some(slots) => slots,
            None => 0,
        }
    }

    const fn position_of(&self, slot: u64) -> Position {
        slot.saturating_mul(self.size as u64)
    }

    fn entry<E: IndexEntry<N>, const N: usize>(&mut self, slot: u64) -> Result<Option<E>> {
        let bytes = self.bytes.bytes(self.position_of(slot), self.size)?;
        let slot = bytes.first_chunk();
        Ok(slot.map(|slot| E::decode(self.base_offset, slot)))
    }

    /// Slot `n` of an offset index; `None` beyond the end.
    fn offset_entry(&mut self, n: u64) -> Result<Option<OffsetPosition>> {
        self.entry(n)
    }

    /// Slot `n` of a time index; `None` beyond the end.
    fn time_entry(&mut self, n: u64) -> Result<Option<TimestampOffset>> {
        self.entry(n)
    }

    /// Finds the position of the last batch at or below `target`, by Kafka's search; 0 if no entry gives one.
    fn lookup(&mut self, target: Offset) -> Result<i32> {
        let entries = usize::try_from(self.len()).unwrap_or(usize::MAX);
        let offset_of = |n| {
            let entry = self.offset_entry(n as u64)?;
            Ok::<_, Error>(entry.map_or(Offset::MAX, |entry| entry.offset))
        };
        let Some(n) = search::floor::<OFFSET_WORDS, _>(entries, target, offset_of)? else {
            return Ok(0);
        };
        let entry = self.offset_entry(n as u64)?;
        Ok(entry.map_or(0, |entry| entry.position))
    }

    /// Checks what a broker checks when it starts (`sanityCheck`): `ordered` says whether the entries make sense.
    fn sanity_check(&self, last_offset: Offset, ordered: Result<(), Error>) -> Result<()> {
        let path = self.bytes.path();
        if self.len() > 0 && last_offset < self.base_offset {
            let position = self.position_of(self.len().saturating_sub(1));
            let expected = format!("at least the base {}", self.base_offset);
            let error = Error::corrupt_index("last offset", position, expected, last_offset);
            return Err(error.at(path));
        }
        ordered.map_err(|e| e.at(path))?;
        let length = self.bytes.len();
        if self.position_of(self.len()) != length {
            let expected = format!("a multiple of {}", self.size);
            return Err(Error::corrupt_index("index size", length, expected, length).at(path));
        }
        Ok(())
    }
}

/// Offset index: an entry a line, each compared with the batch it points to.
///
/// # Errors
/// `CorruptIndex` where an entry points to no batch or the sanity check fails, `CorruptRecord`, `Io`.
pub(super) fn dump_index(
    target: &DumpTarget,
    options: &Options,
    text: &mut TextOutput<'_>,
    findings: &mut DumpFindings,
) -> Result<()> {
    target.base_offset()?;
    let mut log = target.open_beside(FileKind::Log.suffix(), Access::Headers)?;
    let mut index = RawSlots::open(
        target,
        FileKind::OffsetIndex,
        OFFSET_ENTRY_SIZE,
        Access::Records,
    )?;
    if index.len() == 0 {
        put!(text, target.shown.as_str(), " is empty.");
        return text.end_line();
    }
    if options.index_sanity_check {
        let last = index.len().saturating_sub(1);
        let last = index.offset_entry(last)?.map_or(0, |entry| entry.offset);
        index.sanity_check(last, Ok(()))?;
        put!(text, target.shown.as_str(), " passed sanity check.");
        return text.end_line();
    }
    let mut n = 0u64;
    while let Some(entry) = index.offset_entry(n)? {
        if n > 0 && entry.offset == index.base_offset {
            break;
        }
        let frame = frame_for(&mut log, &index, n, entry, options.max_message_size)?;
        let last_offset = frame.last_offset(&mut log)?;
        if last_offset != entry.offset {
            findings.index_mismatch(&target.absolute, entry.offset, last_offset);
        }
        if !options.verify_index_only {
            put!(
                text,
                "offset: ",
                entry.offset,
                " position: ",
                entry.position
            );
            text.end_line()?;
        }
        n = n.saturating_add(1);
    }
    Ok(())
}

/// The batch that slot `n` points to, whole within `window` bytes.
fn frame_for(
    log: &mut SegmentSource,
    index: &RawSlots,
    n: u64,
    entry: OffsetPosition,
    window: i32,
) -> Result<BatchFrame> {
    let size = log.len();
    let fault = |expected: String, found: String| {
        // The position stands after the offset.
        let at = index.position_of(n).saturating_add(4);
        let error = Error::corrupt_index("indexed position", at, expected, found);
        error.for_offset(entry.offset).at(index.bytes.path())
    };
    let position = in_log(entry.position, size)
        .ok_or_else(|| fault(format!("within 0 to {size}"), entry.position.to_string()))?;
    let end = position.saturating_add(u64::try_from(window).unwrap_or_default());
    frame_at(log, position, end)?.ok_or_else(|| {
        let expected = format!("a position with a whole batch in the next {window} bytes");
        fault(expected, entry.position.to_string())
    })
}

/// A position in a log of `size` bytes, or its end.
fn in_log(position: i32, size: u64) -> Option<Position> {
    u64::try_from(position)
        .ok()
        .filter(|&position| position <= size)
}

/// Time index: an entry a line, each compared with the largest timestamp of the batch that ends with its offset.
///
/// # Errors
/// `CorruptIndex` where the sanity check fails or an index points outside the log, `CorruptRecord`, `Io`.
pub(super) fn dump_time_index(
    target: &DumpTarget,
    options: &Options,
    text: &mut TextOutput<'_>,
    findings: &mut DumpFindings,
) -> Result<()> {
    target.base_offset()?;
    let log = target.open_beside(FileKind::Log.suffix(), Access::Records)?;
    let index = RawSlots::open(
        target,
        FileKind::OffsetIndex,
        OFFSET_ENTRY_SIZE,
        Access::Headers,
    )?;
    let mut times = RawSlots::open(
        target,
        FileKind::TimeIndex,
        TIME_ENTRY_SIZE,
        Access::Records,
    )?;
    if options.index_sanity_check {
        time_sanity_check(&mut times)?;
        put!(text, target.shown.as_str(), " passed sanity check.");
        return text.end_line();
    }
    let mut search = IndexSearch::new(log, index);
    let mut records = LenientDecoder::default();
    let mut previous = NO_TIMESTAMP;
    let mut n = 0u64;
    while let Some(entry) = times.time_entry(n)? {
        if n > 0 && entry.offset == times.base_offset {
            break;
        }
        match search.batch_for(entry.offset)? {
            None => findings.not_found(&target.absolute, entry.offset, -1),
            Some((_, last)) if last != entry.offset => {
                findings.not_found(&target.absolute, entry.offset, last);
            }
            Some((frame, _)) => {
                let largest = largest_timestamp(&mut search.log, &frame, &mut records)?;
                if largest != entry.timestamp {
                    findings.time_mismatch(&target.absolute, entry.timestamp, largest);
                }
                if previous >= entry.timestamp {
                    findings.out_of_order(&target.absolute, entry.timestamp, previous);
                }
            }
        }
        if !options.verify_index_only {
            put!(
                text,
                "timestamp: ",
                entry.timestamp,
                " offset: ",
                entry.offset
            );
            text.end_line()?;
        }
        previous = entry.timestamp;
        n = n.saturating_add(1);
    }
    Ok(())
}

fn time_sanity_check(times: &mut RawSlots) -> Result<()> {
    let last_slot = times.len().saturating_sub(1);
    let (Some(first), Some(last)) = (times.time_entry(0)?, times.time_entry(last_slot)?) else {
        return times.sanity_check(times.base_offset, Ok(()));
    };
    let ordered = if last.timestamp < first.timestamp {
        let expected = format!("at least the first, {}", first.timestamp);
        let at = times.position_of(last_slot);
        Err(Error::corrupt_index(
            "last timestamp",
            at,
            expected,
            last.timestamp,
        ))
    } else {
        Ok(())
    };
    times.sanity_check(last.offset, ordered)
}

/// Finds batches by offset as the tool does: looked up in the index, then forward through the log.
///
/// The tool walks from there to the end of the log each time, and dies of damage anywhere on that way. We walk it once:
/// a walk that begins on a batch of the last one ends as that did.
struct IndexSearch {
    log: SegmentSource,
    index: RawSlots,
    /// A batch of the chain that is known to be sound to its end; nothing is known yet where it is `None`.
    chain: Option<Position>,
    /// The last search: where it began, for which offset, and where it ended.
    last: Option<(Position, Offset, Position)>,
}

impl IndexSearch {
    const fn new(log: SegmentSource, index: RawSlots) -> Self {
        Self {
            log,
            index,
            chain: None,
            last: None,
        }
    }

    /// The first batch that ends at or after `target`, and its last offset.
    fn batch_for(&mut self, target: Offset) -> Result<Option<(BatchFrame, Offset)>> {
        let size = self.log.len();
        let found = self.index.lookup(target)?;
        let from = in_log(found, size).ok_or_else(|| {
            let expected = format!("within 0 to {size}");
            Error::corrupt_index("indexed position", 0, expected, found)
                .for_offset(target)
                .at(self.index.bytes.path())
        })?;
        self.walk_to_the_end(from)?;
        let mut position = match self.last {
            Some((start, offset, end)) if start == from && offset <= target => end,
            _ => from,
        };
        let end = self.log.len();
        let mut matching = None;
        while let Some(frame) = frame_at(&mut self.log, position, end)? {
            let last = frame.last_offset(&mut self.log)?;
            if last >= target {
                matching = Some((frame, last));
                break;
            }
            position = position.saturating_add(frame.size as u64);
        }
        self.last = Some((from, target, position));
        Ok(matching)
    }

    /// Makes sure that the log can be walked from `from` to its end.
    fn walk_to_the_end(&mut self, from: Position) -> Result<()> {
        let end = self.log.len();
        if let Some(mut position) = self.chain.filter(|&known| known <= from) {
            while position < from {
                match frame_at(&mut self.log, position, end)? {
                    Some(frame) => position = position.saturating_add(frame.size as u64),
                    None => break,
                }
            }
            if position == from {
                self.chain = Some(from);
                return Ok(());
            }
        }
        let mut position = from;
        while let Some(frame) = frame_at(&mut self.log, position, end)? {
            position = position.saturating_add(frame.size as u64);
        }
        self.chain = Some(from);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index of `entries` (offset 10 n + 10 at position 100 n + 100) and a tail of zeros.
    fn slots(folder: &std::path::Path, entries: i32, zeros: usize) -> RawSlots {
        let path = folder.join("00000000000000000005.index");
        let written = (1..=entries)
            .flat_map(|n| [n.wrapping_mul(10), n.wrapping_mul(100)])
            .flat_map(i32::to_be_bytes);
        let tail = std::iter::repeat_n([0; OFFSET_ENTRY_SIZE], zeros).flatten();
        std::fs::write(&path, written.chain(tail).collect::<Vec<u8>>()).unwrap();
        let target = DumpTarget::new(&path);
        RawSlots::open(
            &target,
            FileKind::OffsetIndex,
            OFFSET_ENTRY_SIZE,
            Access::Headers,
        )
        .unwrap()
    }

    #[test]
    fn the_greatest_entry_at_or_below() {
        let folder = tempfile::tempdir().unwrap();
        for entries in [0, 1, 2, 1024, 1025, 1026, 3000] {
            let mut index = slots(folder.path(), entries, 0);
            for target in [0, 5, 14, 15, 16, 24, 25, 26, 10_255, 10_265, 19_999, 50_000] {
                let n = ((target - 5) / 10).clamp(0, entries);
                assert_eq!(
                    index.lookup(i64::from(target)).unwrap(),
                    100 * n,
                    "{target} of {entries}"
                );
            }
        }
    }

    /// The zeros of a preallocated file stand for the base offset and are believed where Kafka looks first.
    #[test]
    fn zeros_after_the_entries_mislead_us_as_they_mislead_kafka() {
        let folder = tempfile::tempdir().unwrap();
        let mut long_tail = slots(folder.path(), 2000, 1200);
        assert_eq!(long_tail.lookup(10_005).unwrap(), 0);
        assert_eq!(long_tail.lookup(5).unwrap(), 0);
        let mut short_tail = slots(folder.path(), 2000, 10);
        assert_eq!(short_tail.lookup(1005).unwrap(), 10_000);
        // Below the slot where the hot section begins the search never sees the tail.
        assert_eq!(short_tail.lookup(9_805).unwrap(), 98_000);
    }
}
