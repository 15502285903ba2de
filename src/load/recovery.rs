//! Recovery of unflushed segments, some of which must be removed or split (`LogLoader.recoverLog`, `LocalLog`).

use super::loader::Loader;
use super::loss::behind_damage;
use super::note::Note;
use super::rebuilt::forget_indexes;
use super::segments::PlannedSegment;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::format::entry::AbortedTxn;
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::io::overlay::content::Content;
use crate::io::storage::{ReadFolder as _, Storage as _};
use crate::log::epochs::LeaderEpochs;
use crate::producers::ProducerStateManager;
use crate::producers::replay::{Rebuilding, ReplayedLog as _};
use crate::segment::batches::Batches;
use crate::segment::files::SEGMENT_FILES;
use crate::segment::neighbours::Neighbours;
use crate::segment::source::Access;
use crate::segment::walk::KafkaPolicy;
use crate::segment::writer::{RecoveryFailure, SegmentSettings};
use crate::types::{AppendOrigin, Offset, Position};

impl Loader<'_> {
    pub(super) fn producers_up_to(&mut self, offset: Offset) -> Result<ProducerStateManager> {
        let mut producers = self.open_producers()?;
        let to = Rebuilding {
            log_start_offset: self.request.log_start_offset,
            log_end_offset: offset,
            now_ms: self.request.now_ms,
            was_clean: false,
        };
        producers.rebuild(&mut self.segments, to)?;
        Ok(producers)
    }

    /// Checks a segment's batches and rebuilds its indexes; returns the bytes cut.
    pub(super) fn recover_segment(
        &mut self,
        base_offset: Offset,
        mut producers: ProducerStateManager,
    ) -> Result<u64, RecoveryFailure> {
        let Some(segment) = self.segments.get_mut(base_offset) else {
            return Ok(0);
        };
        let epochs = &mut self.epochs;
        let before = epochs.entries().to_vec();
        let (mut order, mut out_of_order) = (Neighbours::new(base_offset, None), None);
        let recovered = segment.recover(|batches, position, header| {
            // Of a wrapper the header names the last offset, which is no lower than the first.
            let offset = header.base_offset;
            if !order.holds(offset) && out_of_order.is_none() {
                out_of_order = Some(Note::OutOfOrder {
                    base_offset,
                    position,
                    offset,
                    expected: order.floor,
                });
            }
            order.pass(header);
            replay(epochs, &mut producers, batches, position, header)
        });
        if self.epochs.entries() != before {
            self.note_epochs();
        }
        let recovered = recovered?;
        if let Some(segment) = self.segments.get_mut(base_offset) {
            forget_indexes(&self.folder, segment);
            let size = segment.size();
            let stays =
                |note: &Note| matches!(note, Note::OutOfOrder { position, .. } if *position < size);
            self.notes.extend(out_of_order.filter(stays));
        }
        self.notes.push(Note::Recovered {
            base_offset,
            batches: recovered.batches,
            truncated: recovered.truncated,
            reason: recovered.reason,
        });
        if recovered.full_from.is_some() {
            self.notes.push(Note::IndexFull {
                base_offset,
                position: recovered.full_from,
            });
        }
        producers.take_snapshot(true)?;
        Ok(recovered.truncated)
    }

    /// Recovers what was not flushed; gives the recovery point and the log end.
    pub(super) fn recover_log(
        &mut self,
        producers: &mut ProducerStateManager,
    ) -> Result<(Offset, Offset), RecoveryFailure> {
        if !self.request.clean {
            self.recover_unflushed(producers)?;
        }
        let request = self.request;
        let mut log_end = None;
        if let Some(last) = self.segments.active_mut() {
            let end = last.read_next_offset()?;
            if end >= request.log_start_offset {
                log_end = Some(end);
            } else {
                let start = request.log_start_offset;
                let reason = format!("below the log start {start} that the checkpoint names");
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
                Some(last) => last.read_next_offset()?,
                None => request.log_start_offset,
            },
        };
        if request.clean && is_known {
            Ok((end, end))
        } else {
            Ok((request.recovery_point.min(end), end))
        }
    }

    fn recover_unflushed(
        &mut self,
        producers: &mut ProducerStateManager,
    ) -> Result<(), RecoveryFailure> {
        let from = self.request.recovery_point;
        let mut left = self.segments.values(from, Offset::MAX).into_iter();
        while let Some(base) = left.next() {
            let before = self.producers_up_to(base)?;
            let truncated = match self.recover_segment(base, before) {
                Err(RecoveryFailure::InvalidOffset(error)) => self.drop_segment(base, &error)?,
                recovered => recovered?,
            };
            if truncated > 0 {
                let rest: Vec<Offset> = left.collect();
                let cut = self.segments.get_mut(base).map_or(0, |cut| cut.size());
                let reason = behind_damage(base, cut);
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
            size: segment.size(),
            reason: error.to_string(),
        });
        segment.truncate_to(base_offset, self.request.now_ms)
    }

    /// Renames segments' files to `.deleted`.
    fn delete_segments(&mut self, bases: &[Offset], reason: &str) -> Result<()> {
        for base in bases {
            let Some(mut segment) = self.segments.remove(*base) else {
                continue;
            };
            self.notes.push(Note::Deleted {
                base_offset: *base,
                size: segment.size(),
                reason: reason.to_owned(),
            });
            segment.rename(FileState::Deleted)?;
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
        let settings = SegmentSettings {
            initial_length: self.config.initial_file_size(),
            ..self.settings
        };
        let now_ms = self.request.now_ms;
        let segment = PlannedSegment::open(&self.folder, base_offset, settings, now_ms)?;
        self.segments.insert(segment);
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
        let mut old = match self.segments.remove(base) {
            Some(segment) => segment,
            None => self.open_segment(base, FileState::Live)?,
        };
        // Kafka asks the last batch alone, and gives up where that one fits.
        if !old.has_overflow()? {
            return Err(error);
        }
        let Some(mut new) = self.parts_of(&old)? else {
            return Err(error);
        };
        for segment in new.iter_mut().rev() {
            segment.rename(FileState::Swap)?;
        }
        if is_listed {
            old.rename(FileState::Deleted)?;
            let names = SEGMENT_FILES.map(|kind| old.name(kind));
            self.deleted.extend(names);
        }
        let into: Vec<Offset> = new.iter().map(PlannedSegment::base_offset).collect();
        for mut segment in new {
            segment.rename(FileState::Live)?;
            self.segments.insert(segment);
        }
        if is_listed && !into.contains(&base) {
            let name = FileName::new(base, FileKind::Snapshot).to_string();
            let deleted = format!("{name}{}", FileState::Deleted.suffix());
            if self.folder.rename(&name, &deleted)? {
                self.deleted.push(deleted);
            }
        }

        self.notes.push(Note::Split {
            base_offset: base,
            into,
        });
        Ok(())
    }

    /// New segments of the batches of one, each from the first one on that does not fit into the one before; `None`
    /// where a batch is not whole, or fits into none.
    fn parts_of(&self, old: &PlannedSegment) -> Result<Option<Vec<PlannedSegment>>> {
        let folder = &self.folder;
        let log = folder.get(&old.name(FileKind::Log));
        let log = log.unwrap_or_else(Content::empty);
        let mut scan = old.walk(0, old.size(), Access::Headers)?;
        let mut parts = Vec::new();
        loop {
            let position = scan.position();
            if position >= old.size() {
                return Ok(Some(parts));
            }
            let Some((_, first)) = scan.next()? else {
                return Ok(None);
            };
            scan.seek(position);
            let base = scan.source.first_offset(position, &first)?;
            let mut part = self.open_segment(base, FileState::Cleaned)?;
            let taken = part.fill(&mut scan, |name, range| {
                let length = range.end.saturating_sub(range.start);
                let content = log.part(range.start, length).ok_or_else(|| {
                    let expected = format!("{length} bytes from {}", range.start);
                    let error = Error::corrupt("segment", range.start, expected, log.length());
                    error.at(&folder.path_of(name))
                })?;
                folder.write(name, content)
            });
            let taken = taken.map_err(RecoveryFailure::into_error)?;
            if taken == 0 {
                return Ok(None);
            }
            parts.push(part);
        }
    }
}

/// Applies a recovered batch to the leader epochs and to its producer's state; returns the aborted transaction that it
/// ends.
fn replay(
    epochs: &mut LeaderEpochs,
    producers: &mut ProducerStateManager,
    batches: &mut Batches<KafkaPolicy>,
    position: Position,
    header: &BatchHeader,
) -> Result<Option<AbortedTxn>> {
    let mut aborted = None;
    if !header.is_legacy() {
        let epoch = header.partition_leader_epoch;
        if epoch >= 0 && epochs.latest().is_none_or(|latest| epoch > latest.epoch) {
            epochs.assign(epoch, header.base_offset)?;
        }
        if header.has_producer_id() {
            let origin = AppendOrigin::Replication;
            let mut append = producers.prepare_update(header.producer_id, origin);
            let completed = append.replay(batches, position, header)?;
            producers.update(append);
            if let Some(completed) = completed {
                if completed.is_aborted {
                    aborted = Some(completed.entry(producers.last_stable_offset(&completed)));
                }
                producers.complete_txn(&completed)?;
            }
        }
    }
    producers.update_map_end_offset(header.last_offset().wrapping_add(1));
    Ok(aborted)
}
