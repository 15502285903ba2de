//! Truncation, and files that wait to be removed (`UnifiedLog.truncateTo`, `truncateFullyAndStartAt`).

use super::WritableLog;
use super::roll::next_settings;
use crate::error::{Error, Result};
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::io::storage::Storage;
use crate::segment::files::{SEGMENT_FILES, rename_segment};
use crate::segment::writer::WritableSegment;
use crate::types::{Offset, TimestampMs};

/// A file renamed to `.deleted`.
#[derive(Debug)]
pub(super) struct Deleted {
    name: String,
    /// Time at which it is removed.
    due_ms: TimestampMs,
}

impl<S: Storage> WritableLog<S> {
    /// Cuts the log so that it ends at `offset`; returns whether there was anything to cut. A batch that contains the
    /// offset is removed whole, yet the log ends at the requested offset. Below the first segment everything is
    /// removed.
    ///
    /// # Errors
    /// `InvalidArgument` for a negative offset; `Io`; `Refused` for a log that has failed.
    pub fn truncate_to(&mut self, offset: Offset, now_ms: TimestampMs) -> Result<bool> {
        if offset < 0 {
            return Err(Error::InvalidArgument(format!(
                "cannot truncate to the negative offset {offset}"
            )));
        }
        self.guarded(|log| {
            if offset >= log.log_end_offset {
                // An epoch may have been noted whose first append never came.
                let end = log.log_end_offset;
                log.truncate_epochs_from_end(end)?;
                return Ok(false);
            }
            if log.segments.first_base_offset() > offset {
                log.start_at(offset, None, now_ms)?;
                return Ok(true);
            }
            let going = log.remove_segments_above(offset, now_ms)?;
            log.segments.active.truncate_to(offset, now_ms)?;
            log.set_log_end(offset);
            let end = log.segments.active.read_next_offset()?;
            log.lower_end = (end < offset).then_some(end);
            for base_offset in going {
                log.delete_snapshot(base_offset, now_ms)?;
            }
            log.truncate_epochs_from_end(offset)?;
            log.log_start_offset = log.log_start_offset.min(offset);
            log.rebuild_producers(offset, now_ms)?;
            log.hold_high_watermark();
            Ok(true)
        })
    }

    /// Removes everything; the log continues at `offset`, and begins there or at `log_start_offset`.
    ///
    /// # Errors
    /// `InvalidArgument` for a negative offset; `Io`; `Refused` for a log that has failed.
    pub fn truncate_fully_and_start_at(
        &mut self,
        offset: Offset,
        log_start_offset: Option<Offset>,
        now_ms: TimestampMs,
    ) -> Result<()> {
        if offset < 0 {
            return Err(Error::InvalidArgument(format!(
                "a log cannot start at the negative offset {offset}"
            )));
        }
        self.guarded(|log| log.start_at(offset, log_start_offset, now_ms))
    }

    fn start_at(
        &mut self,
        offset: Offset,
        log_start_offset: Option<Offset>,
        now_ms: TimestampMs,
    ) -> Result<()> {
        for base_offset in std::mem::take(&mut self.segments.closed).into_keys() {
            self.rename_to_deleted(base_offset, now_ms)?;
        }
        self.replace_active(offset, now_ms)?;
        self.storage.sync_names()?;
        self.set_log_end(offset);
        self.epochs.clear();
        self.epochs.flush()?;
        self.producers.truncate_fully_and_start_at(offset)?;
        self.log_start_offset = log_start_offset.unwrap_or(offset);
        self.rebuild_producers(offset, now_ms)?;
        self.update_high_watermark(offset)?;
        Ok(())
    }

    fn truncate_epochs_from_end(&mut self, offset: Offset) -> Result<()> {
        if self.epochs.truncate_from_end(offset) {
            self.epochs.flush()?;
        }
        Ok(())
    }

    /// Segments that begin above the offset go; the one below them is the active one then. Returns those that went.
    fn remove_segments_above(
        &mut self,
        offset: Offset,
        now_ms: TimestampMs,
    ) -> Result<Vec<Offset>> {
        let infos = self.segments.infos();
        let going: Vec<Offset> = infos
            .iter()
            .map(|info| info.base_offset)
            .filter(|&base| base > offset)
            .collect();
        let staying = self.segments.closed.range(..=offset).next_back();
        if let Some((&base_offset, &known)) = staying
            && !going.is_empty()
        {
            // From the end: a crash in between leaves no hole.
            for &base in going.iter().rev() {
                self.rename_to_deleted(base, now_ms)?;
            }
            // Else they may be there again when the power goes, after a cut and what was appended there since.
            self.storage.sync_names()?;
            let settings = next_settings(&mut self.options);
            self.segments.active =
                WritableSegment::open_known(&self.storage, base_offset, settings, known)?;
            self.segments.closed.retain(|&base, _| base < base_offset);
        }
        Ok(going)
    }

    /// Gives a segment's files names that say they go, and notes when.
    pub(super) fn rename_to_deleted(
        &mut self,
        base_offset: Offset,
        now_ms: TimestampMs,
    ) -> Result<()> {
        let (live, deleted) = (FileState::Live, FileState::Deleted);
        rename_segment(&self.storage, base_offset, live, deleted)?;
        for kind in SEGMENT_FILES {
            self.note_deleted(base_offset, kind, now_ms);
        }
        Ok(())
    }

    /// Deletes a producer snapshot with its segment.
    pub(super) fn delete_snapshot(
        &mut self,
        base_offset: Offset,
        now_ms: TimestampMs,
    ) -> Result<()> {
        if self.producers.mark_snapshot_deleted(base_offset)? {
            self.note_deleted(base_offset, FileKind::Snapshot, now_ms);
        }
        Ok(())
    }

    fn note_deleted(&mut self, base_offset: Offset, kind: FileKind, now_ms: TimestampMs) {
        let name = FileName {
            offset: base_offset,
            kind,
            state: FileState::Deleted,
        };
        self.delete_later(&name.to_string(), now_ms);
    }

    /// Deletes a file after `file.delete.delay.ms`.
    pub(super) fn delete_later(&mut self, name: &str, now_ms: TimestampMs) {
        self.deleted.push(Deleted {
            name: name.to_owned(),
            due_ms: now_ms.saturating_add(self.options.config.file_delete_delay_ms),
        });
    }

    /// Removes the files whose `file.delete.delay.ms` has passed by this time; all of them by [`TimestampMs::MAX`].
    /// What is left at a crash the next loading removes.
    ///
    /// # Errors
    /// `Io`.
    pub fn remove_deleted(&mut self, now_ms: TimestampMs) -> Result<()> {
        let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut self.deleted)
            .into_iter()
            .partition(|file| file.due_ms <= now_ms);
        self.deleted = later;
        self.guarded(|log| {
            for file in due {
                log.storage.remove(&file.name)?;
            }
            Ok(())
        })
    }
}
