//! `.index`: each entry compared with the log, by its meaning.
//!
//! Brokers wrote three kinds of entries (see [`OffsetPosition`]); all give readers the same guarantee: a scan from the
//! entry's position meets every record from its offset on.
//!
//! | rule | |
//! |---|---|
//! | offsets and positions rise, from above the base and from above 0 | zeros after the last entry are unused space, not entries |
//! | the position is where a batch begins | |
//! | everything before it has a smaller offset than the entry | |
//! | the offset is in the log | Kafka looks there for the log's end |
//!
//! Kafka's own tool expects the last offset of the batch, and so reports healthy entries of 0.8 to 3.9.

use std::path::PathBuf;

use super::finding::{
    Code, Finding, Findings, INDEX_BEYOND_LOG, INDEX_OFFSET, INDEX_ORDER, INDEX_POSITION,
    UNREADABLE,
};
use super::index_entries::IndexFill;
use super::log::CompanionFile;
use super::summary::Summary;
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::entry::{OFFSET_ENTRY_SIZE, OffsetPosition};
use crate::format::file_name::FileKind;
use crate::index::offset::OffsetIndex;
use crate::segment::LogSegment;
use crate::segment::source::SegmentSource;
use crate::types::{Offset, Position};

/// The entries of one index.
#[derive(Debug)]
pub(super) struct OffsetIndexCheck {
    path: PathBuf,
    filled: IndexFill,
    index: OffsetIndex,
    /// Entries may tell of batches that were written since.
    may_be_ahead: bool,
    /// Entries up to the first that is out of order.
    usable: usize,
    next: usize,
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
        let path = segment.sibling(FileKind::OffsetIndex);
        let index = match OffsetIndex::open(&path, segment.base_offset) {
            Ok(index) => index,
            Err(error) => {
                findings.add(Finding::of_error(UNREADABLE, &path, &error));
                return None;
            }
        };
        let filled = IndexFill {
            size: OFFSET_ENTRY_SIZE,
            length: index.length(),
            entries: index.entries(),
            max_entries: index.max_entries(),
        };
        filled.check(&path, segment.is_active, findings);
        let mut usable = 0usize;
        let mut previous = OffsetPosition {
            offset: segment.base_offset.saturating_sub(1),
            position: 0,
        };
        for entry in index.iter() {
            if entry.offset <= previous.offset || entry.position <= previous.position {
                let expected = format!(
                    "an offset above {} and a position above {}",
                    previous.offset, previous.position
                );
                let message = format!(
                    "entry: expected {expected}, found {} at {}",
                    entry.offset, entry.position
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
            index,
            may_be_ahead,
            usable,
            next: 0,
            before: None,
        })
    }

    fn entry(&self) -> Option<(OffsetPosition, Position)> {
        let entry = (self.next < self.usable).then(|| self.index.entry(self.next))??;
        let position = u64::try_from(entry.position).unwrap_or_default();
        Some((entry, position))
    }

    fn tell(
        &self,
        code: &'static Code,
        entry: OffsetPosition,
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
                self.tell(INDEX_POSITION, entry, message, findings);
            } else if let Some(before) = self.before.filter(|&before| entry.offset <= before) {
                let message = format!(
                    "offset: expected above {before}, which stands before byte {at}, found {}",
                    entry.offset
                );
                self.tell(INDEX_OFFSET, entry, message, findings);
            }
            self.pass();
        }
        self.before = Some(header.last_offset());
        Ok(())
    }

    fn lost(&mut self, (_, end): (Position, Position)) {
        while self.entry().is_some_and(|(_, at)| at < end) {
            self.pass();
        }
    }

    fn end(&mut self, position: Position, summary: &Summary, findings: &mut Findings) {
        if self.may_be_ahead {
            return;
        }
        let mut beyond = None;
        while let Some((entry, _)) = self.entry() {
            beyond.get_or_insert((self.next, entry));
            self.pass();
        }
        if let Some((first, entry)) = beyond {
            let message = format!(
                "position: expected below {position}, where the last batch ends, found {}",
                entry.position
            );
            self.next = first;
            self.tell(INDEX_BEYOND_LOG, entry, message, findings);
            return;
        }
        let last = self.usable.checked_sub(1);
        if let Some(entry) = last.and_then(|last| self.index.entry(last))
            && entry.offset >= summary.next_offset
            && !summary.is_damaged
        {
            let message = format!(
                "offset: expected below the end of the segment, {}, found {}",
                summary.next_offset, entry.offset
            );
            self.next = last.unwrap_or_default();
            self.tell(INDEX_BEYOND_LOG, entry, message, findings);
        }
    }
}
