//! `.timeindex`: each entry compared with the log, by its meaning.
//!
//! An entry (T, O) says that no record up to and with offset O has a larger timestamp than T, and that the batch with O
//! has T. Brokers up to 3.7 may name the record that has T, later ones the last offset of its batch; both are right.
//!
//! Records of magic 0 have no timestamps, yet entries exist for them: 0.10.2 wrote the producer's, which it then took
//! away, and 1.1 the time of the append.

use std::path::PathBuf;

use super::finding::{
    Code, Finding, Findings, INDEX_BEYOND_LOG, INDEX_OFFSET, INDEX_ORDER, TIME_INDEX_EMPTY,
    TIME_INDEX_INCOMPLETE, UNREADABLE,
};
use super::index_entries::IndexFill;
use super::log::CompanionFile;
use super::summary::Summary;
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::entry::{TIME_ENTRY_SIZE, TimestampOffset};
use crate::format::file_name::FileKind;
use crate::index::time::TimeIndex;
use crate::segment::LogSegment;
use crate::segment::source::SegmentSource;
use crate::types::{NO_TIMESTAMP, Position, TimestampMs};

/// End of the index of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexEnd {
    /// With the largest timestamp, written when the segment was closed.
    Closed,
    /// Anywhere: the metadata log's is not completed at a stop.
    Stopped,
    /// Perhaps with entries of batches that were written since.
    Ahead,
}

/// The entries of one index.
#[derive(Debug)]
pub(super) struct TimeIndexCheck {
    path: PathBuf,
    filled: IndexFill,
    index: TimeIndex,
    ending: IndexEnd,
    /// Entries up to the first that is out of order.
    usable: usize,
    next: usize,
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
        let path = segment.sibling(FileKind::TimeIndex);
        let index = match TimeIndex::open(&path, segment.base_offset) {
            Ok(index) => index,
            Err(error) => {
                findings.add(Finding::of_error(UNREADABLE, &path, &error));
                return None;
            }
        };
        let filled = IndexFill {
            size: TIME_ENTRY_SIZE,
            length: index.length(),
            entries: index.entries(),
            max_entries: index.max_entries(),
        };
        filled.check(&path, segment.is_active, findings);
        let mut usable = 0usize;
        let mut previous = TimestampOffset::none(segment.base_offset);
        for entry in index.iter() {
            if entry.timestamp <= previous.timestamp || entry.offset < previous.offset {
                let message = format!(
                    "entry: expected a timestamp above {} and an offset from {} on, found {} at offset {}",
                    previous.timestamp, previous.offset, entry.timestamp, entry.offset
                );
                let entry = (usable, entry.offset);
                findings.add(filled.finding(INDEX_ORDER, &path, entry, message));
                break;
            }
            previous = entry;
            usable = usable.saturating_add(1);
        }
        Some(Self {
            path,
            filled,
            ending: match (segment.is_active, may_be_ahead) {
                (_, true) => IndexEnd::Ahead,
                (true, false) => IndexEnd::Stopped,
                (false, false) => IndexEnd::Closed,
            },
            usable,
            next: 0,
            before: NO_TIMESTAMP,
            doubted: None,
            has_holes: false,
            has_untimed: false,
            index,
        })
    }

    fn entry(&self) -> Option<TimestampOffset> {
        (self.next < self.usable).then(|| self.index.entry(self.next))?
    }

    fn tell(
        &self,
        code: &'static Code,
        entry: TimestampOffset,
        message: String,
        findings: &mut Findings,
    ) {
        let entry = (self.next, entry.offset);
        findings.add(self.filled.finding(code, &self.path, entry, message));
    }

    const fn pass(&mut self) {
        self.next = self.next.saturating_add(1);
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
        while let Some(entry) = self.entry().filter(|entry| entry.offset <= last) {
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
                self.tell(INDEX_OFFSET, entry, message, findings);
            } else if is_inside && entry.timestamp > with && header.magic > 0 && !self.has_holes {
                let message = format!(
                    "timestamp: expected {with}, the largest in the log up to offset {last}, found {}",
                    entry.timestamp
                );
                let place = (self.next, entry.offset);
                let finding = self
                    .filled
                    .finding(INDEX_OFFSET, &self.path, place, message);
                if let Some(before) = self.doubted.replace(finding) {
                    findings.add(before);
                }
            }
            self.pass();
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
        if let Some(entry) = self.entry() {
            let message = format!(
                "offset: expected below the end of the segment, {}, found {}",
                summary.next_offset, entry.offset
            );
            self.tell(INDEX_BEYOND_LOG, entry, message, findings);
            return;
        }
        // The last one is written when the segment is closed.
        if self.ending != IndexEnd::Closed
            || summary.max_timestamp < 0
            || self.usable < self.index.entries()
        {
            return;
        }
        let last = self.index.last_entry().timestamp;
        let (largest, entries) = (summary.max_timestamp, self.index.entries());
        if entries == 0 {
            let message = format!("no entries, although the largest timestamp is {largest}");
            findings.add(Finding::new(TIME_INDEX_EMPTY, &self.path, message));
        } else if last < largest && !self.has_untimed {
            let message = format!("last timestamp: expected {largest}, found {last}");
            let at = self.filled.place(entries.saturating_sub(1));
            let finding = Finding::new(TIME_INDEX_INCOMPLETE, &self.path, message).at(at);
            findings.add(finding.to(self.filled.place(entries)));
        }
    }
}
