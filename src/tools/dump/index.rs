//! Offset and time indexes, each entry compared with the log (`dumpIndex`, `dumpTimeIndex`).
//!
//! Like Kafka's tool, it takes every whole slot of the file for an entry, also zeros after the last one, and looks
//! offsets up among them; it ends at the first entry, other than the very first, whose offset is the base.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use super::Options;
use super::findings::DumpFindings;
use super::log::largest_timestamp;
use super::records::LenientDecoder;
use super::target::{DumpTarget, open};
use super::text::{TextOutput, put};
use super::walk::{BatchFrame, frame_at};
use crate::error::{Error, Result};
use crate::format::entry::{OFFSET_ENTRY_SIZE, OffsetPosition, TIME_ENTRY_SIZE};
use crate::format::file_name::FileKind;
use crate::index::entry_index::{EntryIndex, IndexEntry};
use crate::index::offset::OffsetIndex;
use crate::index::time::TimeIndex;
use crate::io::entry_file::{EntryFile, bytes_of};
use crate::segment::source::{Access, SegmentSource};
use crate::types::{NO_TIMESTAMP, Offset, Position};

/// An index file that is read window by window; every whole slot is an entry.
#[derive(Debug)]
struct RawSlots<const N: usize> {
    path: PathBuf,
    bytes: RefCell<SegmentSource>,
}

type RawOffsets = OffsetIndex<RawSlots<OFFSET_ENTRY_SIZE>>;
type RawTimes = TimeIndex<RawSlots<TIME_ENTRY_SIZE>>;

impl<const N: usize> EntryFile<N> for RawSlots<N> {
    fn path(&self) -> &Path {
        &self.path
    }

    fn entries(&self) -> usize {
        self.max_entries()
    }

    fn length(&self) -> u64 {
        self.bytes.borrow().len()
    }

    fn get(&self, n: usize) -> Result<Option<[u8; N]>> {
        let mut bytes = self.bytes.borrow_mut();
        let slot = bytes.bytes(bytes_of::<N>(n), N)?;
        Ok(slot.first_chunk().copied())
    }
}

fn open_index<E: IndexEntry<N>, const N: usize>(
    target: &DumpTarget,
    kind: FileKind,
    access: Access,
) -> Result<EntryIndex<E, N, RawSlots<N>>> {
    let bytes = if target.name.ends_with(kind.suffix()) {
        open(&target.path, access)?
    } else {
        target.open_beside(kind.suffix(), access)?
    };
    let slots = RawSlots {
        path: bytes.path().to_path_buf(),
        bytes: RefCell::new(bytes),
    };
    EntryIndex::over(slots, target.base_offset()?)
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
    let index: RawOffsets = open_index(target, FileKind::OffsetIndex, Access::Records)?;
    if index.entries() == 0 {
        put!(text, target.shown.as_str(), " is empty.");
        return text.end_line();
    }
    if options.index_sanity_check {
        index.sanity_check()?;
        put!(text, target.shown.as_str(), " passed sanity check.");
        return text.end_line();
    }
    let mut n = 0usize;
    while let Some(entry) = index.get(n)? {
        if n > 0 && entry.offset == index.base_offset() {
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
    index: &RawOffsets,
    n: usize,
    entry: OffsetPosition,
    window: i32,
) -> Result<BatchFrame> {
    let size = log.len();
    let fault = |expected: String, found: String| {
        // The position stands after the offset.
        let at = bytes_of::<OFFSET_ENTRY_SIZE>(n).saturating_add(4);
        let error = Error::corrupt_index("indexed position", at, expected, found);
        error.for_offset(entry.offset).at(index.path())
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
    let index = open_index(target, FileKind::OffsetIndex, Access::Headers)?;
    let times: RawTimes = open_index(target, FileKind::TimeIndex, Access::Records)?;
    if options.index_sanity_check {
        times.sanity_check()?;
        put!(text, target.shown.as_str(), " passed sanity check.");
        return text.end_line();
    }
    let mut search = IndexSearch::new(log, index);
    let mut records = LenientDecoder::default();
    let mut previous = NO_TIMESTAMP;
    let mut n = 0usize;
    while let Some(entry) = times.get(n)? {
        if n > 0 && entry.offset == times.base_offset() {
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

/// Finds batches by offset as the tool does: looked up in the index, then forward through the log.
///
/// The tool walks from there to the end of the log each time, and dies of damage anywhere on that way. We walk it once:
/// a walk that begins on a batch of the last one ends as that did.
struct IndexSearch {
    log: SegmentSource,
    index: RawOffsets,
    /// A batch of the chain that is known to be sound to its end; nothing is known yet where it is `None`.
    chain: Option<Position>,
    /// The last search: where it began, for which offset, and where it ended.
    last: Option<(Position, Offset, Position)>,
}

impl IndexSearch {
    const fn new(log: SegmentSource, index: RawOffsets) -> Self {
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
        let found = self.index.lookup(target)?.position;
        let from = in_log(found, size).ok_or_else(|| {
            let expected = format!("within 0 to {size}");
            Error::corrupt_index("indexed position", 0, expected, found)
                .for_offset(target)
                .at(self.index.path())
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
    fn slots(folder: &std::path::Path, entries: i32, zeros: usize) -> RawOffsets {
        let path = folder.join("00000000000000000005.index");
        let written = (1..=entries)
            .flat_map(|n| [n.wrapping_mul(10), n.wrapping_mul(100)])
            .flat_map(i32::to_be_bytes);
        let tail = std::iter::repeat_n([0; OFFSET_ENTRY_SIZE], zeros).flatten();
        std::fs::write(&path, written.chain(tail).collect::<Vec<u8>>()).unwrap();
        let target = DumpTarget::new(&path);
        open_index(&target, FileKind::OffsetIndex, Access::Headers).unwrap()
    }

    #[test]
    fn the_greatest_entry_at_or_below() {
        let folder = tempfile::tempdir().unwrap();
        for entries in [0, 1, 2, 1024, 1025, 1026, 3000] {
            let index = slots(folder.path(), entries, 0);
            for target in [0, 5, 14, 15, 16, 24, 25, 26, 10_255, 10_265, 19_999, 50_000] {
                let n = ((target - 5) / 10).clamp(0, entries);
                assert_eq!(
                    index.lookup(i64::from(target)).unwrap().position,
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
        let long_tail = slots(folder.path(), 2000, 1200);
        assert_eq!(long_tail.lookup(10_005).unwrap().position, 0);
        assert_eq!(long_tail.lookup(5).unwrap().position, 0);
        let short_tail = slots(folder.path(), 2000, 10);
        assert_eq!(short_tail.lookup(1005).unwrap().position, 10_000);
        // Below the slot where the hot section begins the search never sees the tail.
        assert_eq!(short_tail.lookup(9_805).unwrap().position, 98_000);
    }
}
