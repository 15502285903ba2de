//! `.index` and `.timeindex`: each entry compared with the log, by its meaning.
//!
//! Brokers wrote three kinds of entries into offset indexes (see [`OffsetPosition`]); all give readers the same
//! guarantee: a scan from the entry's position meets every record from its offset on.
//!
//! | rule | |
//! |---|---|
//! | offsets and positions rise, from above the base and from above 0 | zeros after the last entry are unused space, not entries |
//! | the position is where a batch begins | |
//! | everything before it has a smaller offset than the entry | |
//! | the offset is in the log | Kafka looks there for the log's end |
//!
//! Kafka's own tool expects the last offset of the batch, and so reports healthy entries of 0.8 to 3.9.
//!
//! An entry (T, O) of a time index says that no record up to and with offset O has a larger timestamp than T, and that
//! the batch with O has T. Brokers up to 3.7 may name the record that has T, later ones the last offset of its batch;
//! both are right.
//!
//! Records of magic 0 have no timestamps, yet entries exist for them: 0.10.2 wrote the producer's, which it then took
//! away, and 1.1 the time of the append.

use std::path::PathBuf;

use super::finding::{
    Code, Finding, Findings, INDEX_BEYOND_LOG, INDEX_LENGTH, INDEX_OFFSET, INDEX_ORDER,
    INDEX_POSITION, INDEX_ZERO_TAIL, TIME_INDEX_EMPTY, TIME_INDEX_INCOMPLETE, UNREADABLE,
};
use super::log::CompanionFile;
use super::summary::Summary;
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::entry::{OFFSET_ENTRY_SIZE, OffsetPosition, TIME_ENTRY_SIZE, TimestampOffset};
use crate::format::file_name::FileKind;
use crate::index::entry_index::{EntryIndex, IndexEntry};
use crate::io::entry_file::bytes_of;
use crate::segment::LogSegment;
use crate::segment::source::SegmentSource;
use crate::types::{NO_TIMESTAMP, Offset, Position, TimestampMs};

/// An entry that is verified.
trait VerifiedEntry<const N: usize>: IndexEntry<N> {
    /// The index's file.
    const KIND: FileKind;

    /// Substitute for the entry before the first.
    fn start(base_offset: Offset) -> Self;

    /// Says what is wrong if it cannot come after `previous`.
    fn disorder(self, previous: Self) -> Option<String>;
}

impl VerifiedEntry<OFFSET_ENTRY_SIZE> for OffsetPosition {
    const KIND: FileKind = FileKind::OffsetIndex;

    fn start(base_offset: Offset) -> Self {
        Self {
            offset: base_offset.saturating_sub(1),
            position: 0,
        }
    }

    fn disorder(self, previous: Self) -> Option<String> {
        (self.offset <= previous.offset || self.position <= previous.position).then(|| {
            format!(
                "entry: expected an offset above {} and a position above {}, found {} at {}",
                previous.offset, previous.position, self.offset, self.position
            )
        })
    }
}

impl VerifiedEntry<TIME_ENTRY_SIZE> for TimestampOffset {
    const KIND: FileKind = FileKind::TimeIndex;

    fn start(base_offset: Offset) -> Self {
        Self::none(base_offset)
    }

    fn disorder(self, previous: Self) -> Option<String> {
        (self.timestamp <= previous.timestamp || self.offset < previous.offset).then(|| {
            format!(
                "entry: expected a timestamp above {} and an offset from {} on, found {} at offset {}",
                previous.timestamp, previous.offset, self.timestamp, self.offset
            )
        })
    }
}

/// The entries of one index, passed in step with the log.
#[derive(Debug)]
struct PassedEntries<E: IndexEntry<N>, const N: usize> {
    path: PathBuf,
    index: EntryIndex<E, N>,
    /// Entries up to the first that is out of order.
    usable: usize,
    next: usize,
}

impl<E: VerifiedEntry<N>, const N: usize> PassedEntries<E, N> {
    /// Opens a segment's index and checks what needs no log; `None` where there is none, or it cannot be read.
    fn open(segment: &LogSegment, findings: &mut Findings) -> Option<Self> {
        let path = segment.sibling(E::KIND);
        let index = match EntryIndex::open(&path, segment.base_offset) {
            Ok(index) => index,
            Err(error) => {
                findings.add(Finding::of_error(UNREADABLE, &path, &error));
                return None;
            }
        };
        let mut opened = Self {
            path,
            index,
            usable: 0,
            next: 0,
        };
        opened.check_length(segment.is_active, findings);
        let mut previous = E::start(segment.base_offset);
        while let Some(entry) = opened.at(opened.usable) {
            if let Some(message) = entry.disorder(previous) {
                findings.add(opened.finding(INDEX_ORDER, opened.usable, entry, message));
                break;
            }
            previous = entry;
            opened.usable = opened.usable.saturating_add(1);
        }
        Some(opened)
    }

    /// Checks the length; only an index in use is expected to have room.
    fn check_length(&self, is_active: bool, findings: &mut Findings) {
        let (length, entries) = (self.index.length(), self.index.entries());
        if length.checked_rem(N as u64) != Some(0) {
            let message = format!("length: expected a multiple of {N}, found {length}");
            findings.add(Finding::new(INDEX_LENGTH, &self.path, message).at(length));
        }
        if !is_active && self.index.max_entries() > entries {
            let message = format!("zeros after {entries} entries");
            let finding = Finding::new(INDEX_ZERO_TAIL, &self.path, message);
            findings.add(finding.at(bytes_of::<N>(entries)).to(length));
        }
    }

    fn at(&self, n: usize) -> Option<E> {
        self.index.iter().nth(n)
    }

    /// The next one.
    fn entry(&self) -> Option<E> {
        (self.next < self.usable).then(|| self.at(self.next))?
    }

    const fn pass(&mut self) {
        self.next = self.next.saturating_add(1);
    }

    /// A finding about entry `n`.
    fn finding(&self, code: &'static Code, n: usize, entry: E, message: String) -> Finding {
        let finding = Finding::new(code, &self.path, message).at(bytes_of::<N>(n));
        let end = bytes_of::<N>(n.saturating_add(1));
        finding.of(entry.offset()).to(end)
    }

    fn tell(&self, code: &'static Code, entry: E, message: String, findings: &mut Findings) {
        findings.add(self.finding(code, self.next, entry, message));
    }

    /// Tells about entry `n`, which names an offset that the segment does not have.
    fn tell_beyond(&self, n: usize, entry: E, summary: &Summary, findings: &mut Findings) {
        let message = format!(
            "offset: expected below the end of the segment, {}, found {}",
            summary.next_offset,
            entry.offset()
        );
        findings.add(self.finding(INDEX_BEYOND_LOG, n, entry, message));
    }
}

/// The check of an offset index.
#[derive(Debug)]
pub(super) struct OffsetIndexCheck {
    entries: PassedEntries<OffsetPosition, OFFSET_ENTRY_SIZE>,
    /// Entries may tell of batches that were written since.
    may_be_ahead: bool,
    /// The last offset before the current batch.
    before: Option<Offset>,
}

impl OffsetIndexCheck {
    /// Opens a segment's index and checks what needs no log; `None` where there is none, or it cannot be read.
    pub(super) fn open(
        segment: &LogSegment,
        may_be_ahead: bool,
        findings: &mut Findings,
    ) -> Option<Self> {
        Some(Self {
            entries: PassedEntries::open(segment, findings)?,
            may_be_ahead,
            before: None,
        })
    }

    fn entry(&self) -> Option<(OffsetPosition, Position)> {
        let entry = self.entries.entry()?;
        let position = u64::try_from(entry.position).unwrap_or_default();
        Some((entry, position))
    }
}

impl CompanionFile for OffsetIndexCheck {
    fn batch(
        &mut self,
        position: Position,
        header: &BatchHeader,
        _source: &mut SegmentSource,
        findings: &mut Findings,
    ) -> Result<()> {
        while let Some((entry, at)) = self.entry().filter(|&(_, at)| at <= position) {
            if at < position {
                let message =
                    format!("position: expected where a batch begins, as {position}, found {at}");
                self.entries.tell(INDEX_POSITION, entry, message, findings);
            } else if let Some(before) = self.before.filter(|&before| entry.offset <= before) {
                let message = format!(
                    "offset: expected above {before}, which stands before byte {at}, found {}",
                    entry.offset
                );
                self.entries.tell(INDEX_OFFSET, entry, message, findings);
            }
            self.entries.pass();
        }
        self.before = Some(header.last_offset());
        Ok(())
    }

    fn lost(&mut self, (_, end): (Position, Position)) {
        while self.entry().is_some_and(|(_, at)| at < end) {
            self.entries.pass();
        }
    }

    fn end(&mut self, position: Position, summary: &Summary, findings: &mut Findings) {
        if self.may_be_ahead {
            return;
        }
        let entries = &mut self.entries;
        if let Some(entry) = entries.entry() {
            let message = format!(
                "position: expected below {position}, where the last batch ends, found {}",
                entry.position
            );
            entries.tell(INDEX_BEYOND_LOG, entry, message, findings);
            return;
        }
        if let Some(last) = entries.usable.checked_sub(1)
            && let Some(entry) = entries.at(last)
            && entry.offset >= summary.next_offset
            && !summary.is_damaged
        {
            entries.tell_beyond(last, entry, summary, findings);
        }
    }
}

/// End of the time index of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexEnd {
    /// With the largest timestamp, written when the segment was closed.
    Closed,
    /// Anywhere: the metadata log's is not completed at a stop.
    Stopped,
    /// Perhaps with entries of batches that were written since.
    Ahead,
}

/// The check of a time index.
#[derive(Debug)]
pub(super) struct TimeIndexCheck {
    entries: PassedEntries<TimestampOffset, TIME_ENTRY_SIZE>,
    ending: IndexEnd,
    /// The largest timestamp before the current batch.
    before: TimestampMs,
    /// A timestamp that no batch so far has: the next one, if its offsets go back, may have it.
    doubted: Option<Finding>,
    /// Batches are missing, whose timestamps are unknown.
    has_holes: bool,
    /// Batches of magic 0 were among them.
    has_untimed: bool,
}

impl TimeIndexCheck {
    /// Opens a segment's index and checks what needs no log; `None` where there is none, or it cannot be read.
    pub(super) fn open(
        segment: &LogSegment,
        may_be_ahead: bool,
        findings: &mut Findings,
    ) -> Option<Self> {
        Some(Self {
            entries: PassedEntries::open(segment, findings)?,
            ending: match (segment.is_active, may_be_ahead) {
                (_, true) => IndexEnd::Ahead,
                (true, false) => IndexEnd::Stopped,
                (false, false) => IndexEnd::Closed,
            },
            before: NO_TIMESTAMP,
            doubted: None,
            has_holes: false,
            has_untimed: false,
        })
    }
}

impl CompanionFile for TimeIndexCheck {
    fn batch(
        &mut self,
        _position: Position,
        header: &BatchHeader,
        _source: &mut SegmentSource,
        findings: &mut Findings,
    ) -> Result<()> {
        let last = header.last_offset();
        if let Some(finding) = self.doubted.take() {
            findings.add(finding);
        }
        let entries = &mut self.entries;
        while let Some(entry) = entries.entry().filter(|entry| entry.offset <= last) {
            let with = self.before.max(header.max_timestamp);
            let is_inside = header.is_legacy() || entry.offset >= header.base_offset;
            if entry.timestamp < self.before || (entry.offset == last && entry.timestamp < with) {
                let largest = if entry.offset == last {
                    with
                } else {
                    self.before
                };
                let message = format!(
                    "timestamp: expected at least {largest}, which the log has up to offset {}, found {}",
                    entry.offset, entry.timestamp
                );
                entries.tell(INDEX_OFFSET, entry, message, findings);
            } else if is_inside && entry.timestamp > with && header.magic > 0 && !self.has_holes {
                let message = format!(
                    "timestamp: expected {with}, the largest in the log up to offset {last}, found {}",
                    entry.timestamp
                );
                let finding = entries.finding(INDEX_OFFSET, entries.next, entry, message);
                if let Some(before) = self.doubted.replace(finding) {
                    findings.add(before);
                }
            }
            entries.pass();
        }
        self.before = self.before.max(header.max_timestamp);
        self.has_untimed |= header.magic == 0;
        Ok(())
    }

    fn lost(&mut self, _: (Position, Position)) {
        self.has_holes = true;
        self.doubted = None;
    }

    fn end(&mut self, _: Position, summary: &Summary, findings: &mut Findings) {
        if let Some(finding) = self.doubted.take() {
            findings.add(finding);
        }
        if summary.is_damaged || self.has_holes || self.ending == IndexEnd::Ahead {
            return;
        }
        let (entries, index) = (&self.entries, &self.entries.index);
        if let Some(entry) = entries.entry() {
            entries.tell_beyond(entries.next, entry, summary, findings);
            return;
        }
        // The last one is written when the segment is closed.
        if self.ending != IndexEnd::Closed
            || summary.max_timestamp < 0
            || entries.usable < index.entries()
        {
            return;
        }
        let last = index.last_entry().timestamp;
        let (largest, count) = (summary.max_timestamp, index.entries());
        if count == 0 {
            let message = format!("no entries, although the largest timestamp is {largest}");
            findings.add(Finding::new(TIME_INDEX_EMPTY, &entries.path, message));
        } else if last < largest && !self.has_untimed {
            let message = format!("last timestamp: expected {largest}, found {last}");
            let at = bytes_of::<TIME_ENTRY_SIZE>(count.saturating_sub(1));
            let finding = Finding::new(TIME_INDEX_INCOMPLETE, &entries.path, message).at(at);
            findings.add(finding.to(bytes_of::<TIME_ENTRY_SIZE>(count)));
        }
    }
}
