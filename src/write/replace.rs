//! Replaces segments by others with fewer records (`UnifiedLog.replaceSegments`), and gives a cleaner the facts about a
//! log.
//!
//! # Crashes
//! | crash before | a load finds | and uses |
//! |---|---|---|
//! | the last new segment was renamed to `.swap` | `.cleaned` files | the old segments |
//! | the last one got its final name | `.swap` files only | the new segments |
//!
//! New segments become `.swap` from the last one to the first, so that none exists without those after it.

use std::collections::BTreeSet;

use super::WritableLog;
use super::segments::SegmentInfo;
use crate::error::{Error, Result};
use crate::format::entry::AbortedTxn;
use crate::format::file_name::{FileKind, FileState};
use crate::index::txn::{WritableTransactionIndex, collect_aborted};
use crate::io::storage::Storage;
use crate::segment::files::{SEGMENT_FILES, name_of};
use crate::segment::writer::WritableSegment;
use crate::types::{Offset, TimestampMs};

impl<S: Storage> WritableLog<S> {
    /// The segments that hold offsets from `from` to before `to`, the active one included (`LogSegments.values`).
    #[must_use]
    pub(crate) fn segments_between(&self, from: Offset, to: Offset) -> Vec<SegmentInfo> {
        if from >= to {
            return Vec::new();
        }
        let bases = self.segments.bases(from, to).into_iter();
        bases
            .map(|base_offset| SegmentInfo {
                base_offset,
                size: self.segments.size(base_offset),
            })
            .collect()
    }

    /// The segments from the one that holds `from` on, without the active one (`LogSegments.nonActiveLogSegmentsFrom`).
    #[must_use]
    pub(crate) fn inactive_from(&self, from: Offset) -> Vec<SegmentInfo> {
        self.segments_between(from, self.segments.active.base_offset())
    }

    /// The base offset of the active segment.
    #[must_use]
    pub(crate) const fn active_base_offset(&self) -> Offset {
        self.segments.active.base_offset()
    }

    /// The base offset of the segment after a closed one.
    #[must_use]
    pub(crate) fn base_offset_after(&self, base_offset: Offset) -> Offset {
        self.segments.base_offset_after(base_offset)
    }

    /// Opens the files of a segment that is not the active one.
    ///
    /// # Errors
    /// `Io`; those of [`WritableSegment::open_known`].
    pub(crate) fn open_closed(&self, base_offset: Offset) -> Result<WritableSegment<S>> {
        let settings = self.config().segment_settings();
        match self.segments.closed.get(&base_offset) {
            Some(&known) => {
                WritableSegment::open_known(&self.storage, base_offset, settings, known)
            }
            None => Err(Error::InvalidArgument(format!(
                "{}: no closed segment at offset {base_offset}",
                self.folder().display()
            ))),
        }
    }

    /// Modification time of a segment's `.log`.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn segment_modified_ms(&self, base_offset: Offset) -> Result<TimestampMs> {
        let name = name_of(base_offset, FileKind::Log, FileState::Live);
        Ok(self.storage.stat(&name)?.modified_ms)
    }

    /// Begins a segment for the records that stay of others (`UnifiedLog.createNewCleanedSegment`).
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn create_cleaned(
        &self,
        base_offset: Offset,
        now_ms: TimestampMs,
    ) -> Result<WritableSegment<S>> {
        let storage = &self.storage;
        for kind in SEGMENT_FILES {
            storage.remove(&name_of(base_offset, kind, FileState::Cleaned))?;
        }
        let settings = self.config().segment_settings();
        WritableSegment::open_as(storage, (base_offset, FileState::Cleaned), settings, now_ms)
    }

    /// Removes the files of segments that were begun and replace no other.
    pub(crate) fn drop_cleaned(&self, begun: Vec<WritableSegment<S>>) {
        for segment in begun {
            let base_offset = segment.base_offset();
            segment.close_handlers();
            for kind in SEGMENT_FILES {
                // The error that led here is reported; loading removes the remains.
                let _ = self
                    .storage
                    .remove(&name_of(base_offset, kind, FileState::Cleaned));
            }
        }
    }

    /// Ends a cleaned segment, with the modification time of what it replaces: retention and old tombstones go by it.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn finish_cleaned(
        &self,
        segment: &mut WritableSegment<S>,
        modified_ms: TimestampMs,
    ) -> Result<()> {
        segment.on_become_inactive()?;
        segment.flush()?;
        for kind in [FileKind::Log, FileKind::OffsetIndex, FileKind::TimeIndex] {
            self.storage
                .set_modified_ms(&segment.name(kind), modified_ms)?;
        }
        Ok(())
    }

    /// Puts finished segments, in order, in the place of the old ones, whose files wait to be removed.
    ///
    /// # Errors
    /// `Io`; `Refused` for a log that has failed.
    pub(crate) fn replace_segments(
        &mut self,
        mut new: Vec<WritableSegment<S>>,
        old: &[Offset],
        now_ms: TimestampMs,
    ) -> Result<()> {
        self.guarded(|log| {
            for segment in new.iter_mut().rev() {
                segment.rename(FileState::Swap)?;
            }
            for &base_offset in old {
                log.rename_to_deleted(base_offset, now_ms)?;
                log.segments.closed.remove(&base_offset);
            }
            let bases: BTreeSet<Offset> = new.iter().map(WritableSegment::base_offset).collect();
            for mut segment in new {
                segment.rename(FileState::Live)?;
                let known = segment.known();
                log.segments.closed.insert(segment.base_offset(), known);
                segment.close_handlers();
            }
            log.storage.sync_names()?;
            for &base_offset in old.iter().filter(|base| !bases.contains(base)) {
                log.delete_snapshot(base_offset, now_ms)?;
            }
            Ok(())
        })
    }

    /// The aborted transactions that touch offsets from `from` to before `to` (`LocalLog.collectAbortedTransactions`).
    ///
    /// # Errors
    /// `Io`; `UnsupportedFormat` for an entry that a broker does not read.
    pub(crate) fn aborted_between(&self, from: Offset, to: Offset) -> Result<Vec<AbortedTxn>> {
        let mut found = Vec::new();
        for base_offset in self.segments.bases(from, Offset::MAX) {
            let name = name_of(base_offset, FileKind::TxnIndex, FileState::Live);
            let index =
                WritableTransactionIndex::open_writable_in(&self.storage, &name, base_offset)?;
            let part = collect_aborted(index.all()?, from, to);
            found.extend(part.txns);
            if part.is_complete {
                break;
            }
        }
        Ok(found)
    }
}
