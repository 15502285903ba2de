//! What was not flushed is recovered; segments that must go or be split (`LogLoader.recoverLog`, `LocalLog`).

use super::failure::LoadFailure;
use super::loader::Loader;
use super::note::Note;
use super::segment::Segment;
use crate::error::{Error, Result};
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::io::overlay::Overlay;
use crate::io::overlay::content::Content;
use crate::io::storage::Storage as _;
use crate::producers::ProducerStateManager;
use crate::producers::replay::Rebuilding;
use crate::segment::files::SEGMENT_FILES;
use crate::segment::source::Access;
use crate::types::Offset;

impl Loader<'_> {
    pub(super) fn producers_up_to(&mut self, offset: Offset) -> Result<ProducerStateManager> {
        let mut producers = self.open_producers()?;
        let to = Rebuilding {
            log_start_offset: self.request.log_start_offset,
            log_end_offset: offset,
            now_ms: self.request.now_ms,
            was_clean: false,
        };
        self.rebuild_producers(&mut producers, to)?;
        Ok(producers)
    }

    /// Checks a segment's batches and rebuilds its indexes; returns the bytes cut.
    pub(super) fn recover_segment(
        &mut self,
        base_offset: Offset,
        mut producers: ProducerStateManager,
    ) -> Result<u64, LoadFailure> {
        let Some(segment) = self.segments.get_mut(base_offset) else {
            return Ok(0);
        };
        let before = self.epochs.entries().to_vec();
        let recovered = segment.recover(&self.folder, &mut producers, &mut self.epochs);
        if self.epochs.entries() != before {
            self.note_epochs();
        }
        let recovered = recovered?;
        self.notes.push(Note::Recovered {
            base_offset,
            batches: recovered.batches,
            truncated: recovered.truncated,
            reason: recovered.reason,
        });
        producers.take_snapshot(true)?;
        Ok(recovered.truncated)
    }

    /// Recovers what was not flushed; gives the recovery point and the log end.
    pub(super) fn recover_log(
        &mut self,
        producers: &mut ProducerStateManager,
    ) -> Result<(Offset, Offset), LoadFailure> {
        if !self.request.clean {
            self.recover_unflushed(producers)?;
        }
        let request = self.request;
        let mut log_end = None;
        if let Some(last) = self.segments.active_mut() {
            let end = last.read_next_offset(&self.folder)?;
            if end >= request.log_start_offset {
                log_end = Some(end);
            } else {
                let reason = format!(
                    "the log ends at {end}, below its start {} by the checkpoint",
                    request.log_start_offset
                );
                let all = self.segments.base_offsets();
                self.delete_segments(&all, &reason)?;
                self.epochs.clear();
                self.note_epochs();
                producers.truncate_fully_and_start_at(request.log_start_offset)?;
            }
        }
        if self.segments.is_empty() {
            self.add_segment(request.log_start_offset)?;
        }
        let is_known = log_end.is_some();
        let end = match log_end {
            Some(end) => end,
            None => match self.segments.active_mut() {
                Some(last) => last.read_next_offset(&self.folder)?,
                None => request.log_start_offset,
            },
        };
        self.note_hidden(end)?;
        if request.clean && is_known {
            Ok((end, end))
        } else {
            Ok((request.recovery_point.min(end), end))
        }
    }

    fn recover_unflushed(
        &mut self,
        producers: &mut ProducerStateManager,
    ) -> Result<(), LoadFailure> {
        let from = self.request.recovery_point;
        let mut left = self.segments.values(from, Offset::MAX).into_iter();
        while let Some(base) = left.next() {
            let before = self.producers_up_to(base)?;
            let truncated = match self.recover_segment(base, before) {
                Err(LoadFailure::InvalidOffset(error)) => self.drop_segment(base, &error)?,
                recovered => recovered?,
            };
            if truncated > 0 {
                let rest: Vec<Offset> = left.collect();
                let reason = format!("segment {base} before it was cut");
                self.delete_segments(&rest, &reason)?;
                self.delete_snapshots(producers, &rest)?;
                let log = FileName::new(base, FileKind::Log).to_string();
                self.folder.cut_last(&log);
                break;
            }
        }
        Ok(())
    }

    /// Empties a segment whose offsets go back (`LogLoader.recoverLog`).
    fn drop_segment(&mut self, base_offset: Offset, error: &Error) -> Result<u64> {
        let Some(segment) = self.segments.get_mut(base_offset) else {
            return Ok(0);
        };
        self.notes.push(Note::Dropped {
            base_offset,
            size: segment.size,
            reason: error.to_string(),
        });
        segment.truncate_to(&self.folder, base_offset)
    }

    /// Renames segments' files to `.deleted`.
    fn delete_segments(&mut self, bases: &[Offset], reason: &str) -> Result<()> {
        for base in bases {
            let Some(mut segment) = self.segments.remove(*base) else {
                continue;
            };
            self.notes.push(Note::Deleted {
                base_offset: *base,
                size: segment.size,
                reason: reason.to_owned(),
            });
            let folder = self.folder.clone();
            segment.rename(&folder, FileState::Deleted)?;
            for kind in SEGMENT_FILES {
                self.deleted.push(segment.name(kind));
            }
        }
        Ok(())
    }

    /// Renames segments' snapshots to `.deleted`.
    fn delete_snapshots(
        &mut self,
        producers: &mut ProducerStateManager,
        bases: &[Offset],
    ) -> Result<()> {
        for &base in bases {
            if producers.mark_snapshot_deleted(base)? {
                let name = FileName {
                    offset: base,
                    kind: FileKind::Snapshot,
                    state: FileState::Deleted,
                };
                self.deleted.push(name.to_string());
            }
        }
        Ok(())
    }

    pub(super) fn add_segment(&mut self, base_offset: Offset) -> Result<()> {
        let folder = self.folder.clone();
        let mut segment = Segment::open(&folder, base_offset, self.settings, FileState::Live)?;
        if self.config.preallocate {
            let name = segment.name(FileKind::Log);
            folder.set_length(&name, self.config.initial_file_size());
            segment.size = 0;
        }

        self.segments.insert(segment);
        Ok(())
    }

    /// A log that ends before its last whole batch is no log a user wants to write to.
    fn note_hidden(&mut self, log_end: Offset) -> Result<()> {
        let Some(active) = self.segments.active() else {
            return Ok(());
        };
        let base_offset = active.base_offset;
        if log_end != base_offset || active.size == 0 {
            return Ok(());
        }
        let mut scan = active.scan(&self.folder, 0, Access::Headers)?;
        let mut next_offset = base_offset;
        while let Ok(Some((position, header))) = scan.next_batch() {
            let last = header.last_offset();
            let rises = header.base_offset >= next_offset && last >= header.base_offset;
            if !rises || scan.ensure_valid(position, &header).is_err() {
                break;
            }
            next_offset = last.saturating_add(1);
        }
        if next_offset > log_end {
            self.notes.push(Note::Hidden {
                base_offset,
                size: active.size,
                next_offset,
            });
        }
        Ok(())
    }

    /// Splits a segment whose offsets reach too far from its base (`LocalLog.splitOverflowedSegment`).
    pub(super) fn split(&mut self, base: Offset, error: Error) -> Result<()> {
        let is_listed = self.unlisted.take() != Some(base);
        // Kafka would go round and round.
        if self.splits.contains(&base) {
            return Err(error);
        }
        self.splits.push(base);
        let folder = self.folder.clone();
        let mut old = match self.segments.remove(base) {
            Some(segment) => segment,
            None => Segment::open(&folder, base, self.settings, FileState::Live)?,
        };
        // Kafka asks the last batch alone, and gives up where that one fits.
        if !old.has_overflow(&folder)? {
            return Err(error);
        }
        let Some(mut new) = self.parts_of(&folder, &old)? else {
            return Err(error);
        };
        for segment in new.iter_mut().rev() {
            segment.rename(&folder, FileState::Swap)?;
        }
        if is_listed {
            old.rename(&folder, FileState::Deleted)?;
            let names = SEGMENT_FILES.map(|kind| old.name(kind));
            self.deleted.extend(names);
        }
        let into: Vec<Offset> = new.iter().map(|segment| segment.base_offset).collect();
        for mut segment in new {
            segment.rename(&folder, FileState::Live)?;
            self.segments.insert(segment);
        }
        if is_listed && !into.contains(&base) {
            let name = FileName::new(base, FileKind::Snapshot).to_string();
            let deleted = format!("{name}{}", FileState::Deleted.suffix());
            if folder.rename(&name, &deleted)? {
                self.deleted.push(deleted);
            }
        }

        self.notes.push(Note::Split {
            base_offset: base,
            into,
        });
        Ok(())
    }

    /// New segments of the batches of one, each from the first one on that does not fit into the one before; `None` where
    /// a batch is not whole, or fits into none.
    fn parts_of(&self, folder: &Overlay, old: &Segment) -> Result<Option<Vec<Segment>>> {
        let log = folder.get(&old.name(FileKind::Log));
        let log = log.unwrap_or_else(Content::empty);
        let mut scan = old.scan(folder, 0, Access::Headers)?;
        let mut parts = Vec::new();
        loop {
            let position = scan.position();
            if position >= old.size {
                return Ok(Some(parts));
            }
            let Some((_, first)) = scan.next_batch()? else {
                return Ok(None);
            };
            scan.seek(position);
            let (base, state) = (scan.first_offset(position, &first)?, FileState::Cleaned);
            let mut part = Segment::open(folder, base, self.settings, state)?;
            let taken = part
                .fill(folder, &mut scan, &log)
                .map_err(LoadFailure::into_error)?;
            if taken == 0 {
                return Ok(None);
            }
            parts.push(part);
        }
    }
}
