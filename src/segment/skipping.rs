//! Reading past damage, with an account of the losses.
//!
//! A reader iterates over headers as usual. The segment is examined as a whole only if something is wrong, or if a
//! later batch may prove it wrong:
//!
//! | met | then |
//! |---|---|
//! | a header that is wrong, a checksum that differs, a torn end | [`Resync`] walks the whole segment, and the reader skips what it found lost |
//! | a gap: the batch begins above the end of the one before | all headers are walked once; if they rise to the end, it is one of compaction's, else as above |
//! | a leader epoch that rises | the next header must be under no lower one, or the file end there, else as above |
//! | records that cannot be decoded | the batch is lost; none of its records is returned |
//!
//! So an undamaged segment is read once, and where the walk of [`Resync`] decides, it decides the same for every reader
//! of the segment, wherever it begins.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::batches::{BatchCursor, Bounds, Policy};
use super::metrics::Metrics;
use super::resync::{HeaderChain, Lost, Reason, Resync, confirms_epoch};
use super::source::SegmentSource;
use crate::error::{Error, FaultKind, Result};
use crate::format::batch::BatchHeader;
use crate::io::storage::ReadFile;
use crate::records::RecordSlot;
use crate::records::walk::RecordDecoder;
use crate::types::{Offset, Position};

/// Action on damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCorrupt {
    /// It ends the read with an error.
    #[default]
    Raise,
    /// The read continues after it, and accounts for it.
    Skip,
}

/// Returns whether every header of a segment is well-formed and begins after the one before, up to the end.
///
/// # Errors
/// `Io`, `Interrupted`.
pub(crate) fn is_ordered(file: Arc<dyn ReadFile>, size: u64, bounds: Bounds) -> Result<bool> {
    Ok(HeaderChain::of(file, size, bounds)?.is_some())
}

/// Facts about the file that was examined last.
#[derive(Debug, Default)]
pub(crate) struct FileSurvey {
    file: Option<(PathBuf, u64)>,
    is_ordered: Option<bool>,
    lost: Option<Arc<[Lost]>>,
}

impl FileSurvey {
    fn turn_to(&mut self, path: &Path, size: u64) {
        if self
            .file
            .as_ref()
            .is_none_or(|(known, its)| known != path || *its != size)
        {
            *self = Self {
                file: Some((path.to_path_buf(), size)),
                ..Self::default()
            };
        }
    }
}

/// A batch that was skipped on its header, which its checksum has not confirmed.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) position: Position,
    pub(super) header: BatchHeader,
    /// The offset that it was compared with.
    pub(super) floor: Offset,
}

/// State of a step from one header to the next.
#[derive(Debug)]
struct Walking<'a> {
    cursor: &'a mut BatchCursor,
    source: &'a mut SegmentSource,
    /// Destination of the next header.
    header: &'a mut BatchHeader,
    known: &'a mut FileSurvey,
    metrics: &'a mut Metrics,
    /// The last batch, if its checksum was not compared.
    unread: &'a mut Option<Unread>,
}

/// As [`BatchCursor::next_into`], past damage if requested. On undamaged bytes this is the cursor's own step
/// and one comparison; what happens seldom is called, not inlined.
///
/// # Errors
/// As [`BatchCursor::next_into`]; past damage only those that are not about the bytes.
#[expect(clippy::inline_always, reason = "as `BatchHeader::parse`")]
#[inline(always)]
pub(super) fn next_into(
    skipping: &mut Option<Skipping>,
    cursor: &mut BatchCursor,
    source: &mut SegmentSource,
    header: &mut BatchHeader,
    known: &mut FileSurvey,
    metrics: &mut Metrics,
    unread: &mut Option<Unread>,
) -> Result<Option<Position>> {
    let Some(skipping) = skipping else {
        return cursor.next_into(source, header);
    };
    let next = if skipping.has_survey() {
        None
    } else {
        let next = cursor.next_into(source, header);
        if let Ok(Some(position)) = next
            && skipping.follows(cursor, header)
        {
            skipping.last = Some(position);
            return Ok(Some(position));
        }
        Some(next)
    };
    let steps = &mut Walking {
        cursor,
        source,
        header,
        known,
        metrics,
        unread,
    };
    match next {
        Some(next) => skipping.settle(next, steps),
        None => skipping.next_surveyed(steps),
    }
}

/// The part of a segment's reader that passes over damage.
#[derive(Debug)]
pub(super) struct Skipping {
    /// Of the whole segment.
    bounds: Bounds,
    /// The piece that is read ends here, and the next begins with this offset.
    end: Option<(Position, Offset)>,
    size: u64,
    /// Offsets outside do not matter.
    wanted: (Offset, Offset),
    /// The first batch was not seen beside the one before it.
    begins_inside: bool,
    /// Losses that the walk over the whole segment found.
    survey: Option<Arc<[Lost]>>,
    /// Passed since the last batch, and the offset after that one.
    open: Option<(Lost, Offset)>,
    /// The end of the last batch that was given, or where the reader began.
    given: Position,
    /// Position of the last batch of this walk, as long as there is no survey.
    last: Option<Position>,
    /// The end of what was lost last, if anything was.
    accounted: Option<Position>,
}

impl Skipping {
    /// For a reader that begins at `position`.
    pub(super) fn new(
        bounds: Bounds,
        size: u64,
        position: Position,
        wanted: (Offset, Offset),
    ) -> Self {
        Self {
            end: None,
            bounds: Bounds {
                end: None,
                ..bounds
            },
            size,
            wanted,
            begins_inside: position > 0,
            survey: None,
            open: None,
            given: position,
            last: None,
            accounted: None,
        }
    }

    /// Of a segment whose headers are known to be in order, the piece that ends where the next one begins, if one does,
    /// with its first offset.
    #[must_use]
    pub(super) fn of_piece(mut self, end: Option<(Position, Offset)>) -> Self {
        self.begins_inside = false;
        self.end = end;
        self
    }

    /// A batch was given that ends at `end`.
    #[inline]
    pub(super) fn give(&mut self, end: Position) {
        self.given = end;
    }

    /// The walk over the whole segment was needed: everything it did not find lost is sound.
    pub(super) const fn has_survey(&self) -> bool {
        self.survey.is_some()
    }

    /// Returns whether the batch that the cursor came to follows the one before it without a gap and under no higher
    /// leader epoch: then no later batch can show that it is wrong.
    #[inline]
    const fn follows(&self, cursor: &BatchCursor, header: &BatchHeader) -> bool {
        !self.begins_inside
            && header.base_offset == cursor.floor_before()
            && header.partition_leader_epoch <= cursor.epoch_before()
    }

    /// Decides about a step of the cursor that [`Skipping::follows`] leaves open. A wrong length of the batch before
    /// may have led to the damage, if the reader left its checksum alone: then the walk goes back to that one if it is
    /// `unread`, else on where it really ends.
    ///
    /// # Errors
    /// Those that are not about the bytes.
    #[inline(never)]
    fn settle(
        &mut self,
        next: Result<Option<Position>>,
        steps: &mut Walking<'_>,
    ) -> Result<Option<Position>> {
        let end = self.end.map_or(self.size, |(end, _)| end);
        let (position, floor) = match next {
            Ok(Some(position)) => {
                if self.is_in_order(steps)? {
                    self.last = Some(position);
                    return Ok(Some(position));
                }
                (position, steps.cursor.floor_before())
            }
            Ok(None) if steps.cursor.position() >= end => return Ok(None),
            Err(error) if error.as_fault().is_none() => return Err(error),
            Ok(None) | Err(_) => (steps.cursor.position(), steps.cursor.next_offset()),
        };
        self.look_at_all(steps.source, steps.known)?;
        if let Some(unread) = steps.unread.take() {
            steps.metrics.give_back_unread(&unread.header);
            steps.cursor.seek(unread.position, unread.floor);
        } else if let Some(lost) = self.last.and_then(|last| self.lost_at(last)) {
            let floor = lost.first_offset.unwrap_or(floor).min(floor);
            steps.cursor.seek(lost.end, floor);
        } else {
            steps.cursor.seek(position, floor);
        }
        self.next_surveyed(steps)
    }

    /// The next batch that the walk over the whole segment did not find lost.
    #[inline(never)]
    fn next_surveyed(&mut self, steps: &mut Walking<'_>) -> Result<Option<Position>> {
        loop {
            let cursor = &mut *steps.cursor;
            let (position, floor) = (cursor.position(), cursor.next_offset());
            let Some(lost) = self.lost_at(position) else {
                return cursor.next_vouched(steps.source, steps.header);
            };
            let begin = lost.position.max(self.given).min(position);
            // A batch that was skipped by its header may have led the cursor here.
            let floor = if begin < position {
                let skipped = position.saturating_sub(begin);
                steps.metrics.bytes = steps.metrics.bytes.saturating_sub(skipped);
                lost.first_offset.unwrap_or(floor).min(floor)
            } else {
                floor
            };
            self.lose(begin, lost.end, lost.reason, floor);
            self.given = lost.end;
            cursor.seek(lost.end, floor);
        }
    }

    /// Returns whether no later batch shows that the current one has a wrong offset or epoch.
    fn is_in_order(&mut self, steps: &mut Walking<'_>) -> Result<bool> {
        let Walking {
            cursor,
            source,
            header,
            known,
            ..
        } = steps;
        let begins_inside = std::mem::take(&mut self.begins_inside);
        let is_gap = header.base_offset != cursor.floor_before();
        if is_gap || begins_inside {
            known.turn_to(source.path(), self.size);
            if known.is_ordered.is_none() {
                known.is_ordered = Some(is_ordered(source.as_file(), self.size, self.bounds)?);
            }
            return Ok(known.is_ordered == Some(true));
        }
        if header.partition_leader_epoch <= cursor.epoch_before() {
            return Ok(true);
        }
        confirms_epoch(source, cursor.position(), header.partition_leader_epoch)
    }

    /// Walks the whole segment, once.
    pub(super) fn look_at_all(
        &mut self,
        source: &SegmentSource,
        known: &mut FileSurvey,
    ) -> Result<()> {
        known.turn_to(source.path(), self.size);
        if known.lost.is_none() {
            known.lost = Some(Resync::survey(source.as_file(), self.size, self.bounds)?.into());
        }
        self.survey.clone_from(&known.lost);
        Ok(())
    }

    /// Loss at `position`, within the piece that is read.
    fn lost_at(&self, position: Position) -> Option<Lost> {
        let all = self.survey.as_ref()?;
        let next = all.partition_point(|lost| lost.end <= position);
        let mut lost = *all.get(next).filter(|lost| lost.position <= position)?;
        lost.end = self.end.map_or(lost.end, |(end, _)| lost.end.min(end));
        (lost.end > position).then_some(lost)
    }

    /// Accounts for bytes that give no record; all below `floor` was found.
    pub(super) fn lose(
        &mut self,
        position: Position,
        end: Position,
        reason: Reason,
        floor: Offset,
    ) {
        self.accounted = Some(end);
        match &mut self.open {
            Some((open, _)) if open.end == position => open.end = end,
            _ => self.open = Some((Lost::new(position, end, reason), floor)),
        }
    }

    /// Returns whether bytes were skipped since the last batch that was found.
    #[inline]
    pub(super) const fn is_after_loss(&self) -> bool {
        self.open.is_some()
    }

    /// A batch was found that begins with `offset`: what was lost before it is known.
    #[inline]
    pub(super) fn find(&mut self, offset: Offset, out: &mut Vec<Lost>, metrics: &mut Metrics) {
        if self.is_after_loss() {
            self.close(Some(offset), out, metrics);
        }
    }

    /// The segment, or the piece of it, has ended.
    pub(super) fn finish(&mut self, out: &mut Vec<Lost>, metrics: &mut Metrics) {
        let next = self
            .end
            .map(|(_, next)| next)
            .or(self.bounds.next_base_offset);
        self.close(next, out, metrics);
    }

    #[cold]
    fn close(&mut self, next: Option<Offset>, out: &mut Vec<Lost>, metrics: &mut Metrics) {
        let Some((lost, floor)) = self.open.take() else {
            return;
        };
        let lost = lost.between(floor, next);
        if lost.touches(floor, self.wanted) {
            metrics.lose(lost.bytes());
            out.push(lost);
        }
    }

    /// The offsets that lie between the end of the whole segment and the beginning of the next one, if nothing that is
    /// lost accounts for them.
    pub(super) fn gap_after(&self, next_offset: Offset) -> Option<(Offset, Offset)> {
        let next = self
            .bounds
            .next_base_offset
            .filter(|_| self.end.is_none())?;
        (next_offset < next && self.accounted != Some(self.size)).then_some((next_offset, next))
    }
}

/// The policy of a strict [`BatchCursor`], past damage if requested.
#[derive(Debug)]
pub(crate) struct PastDamage {
    cursor: BatchCursor,
    skipping: Option<Skipping>,
    known: FileSurvey,
}

impl PastDamage {
    /// Of a segment of `size` bytes, from `position` on.
    pub(super) fn new(
        on_corrupt: OnCorrupt,
        bounds: Bounds,
        size: u64,
        position: Position,
    ) -> Self {
        let all = (Offset::MIN, Offset::MAX);
        let skips = on_corrupt == OnCorrupt::Skip;
        Self {
            cursor: BatchCursor::new(bounds, position),
            skipping: skips.then(|| Skipping::new(bounds, size, 0, all)),
            known: FileSurvey::default(),
        }
    }

    /// Continues with the batch at `position`.
    pub(super) fn begin(&mut self, bounds: Bounds, position: Position) {
        self.cursor = BatchCursor::new(bounds, position);
    }

    /// Returns whether an error is only that of one batch, after which the next one may be requested.
    pub(crate) fn passes_over(&self, error: &Error) -> bool {
        self.skipping.is_some() && is_damage(error)
    }
}

impl Policy for PastDamage {
    fn position(&self) -> Position {
        self.cursor.position()
    }

    /// # Errors
    /// As [`BatchCursor::next`]; past damage only those that are not about the bytes.
    #[inline]
    fn next_into(
        &mut self,
        source: &mut SegmentSource,
        header: &mut BatchHeader,
    ) -> Result<Option<Position>> {
        next_into(
            &mut self.skipping,
            &mut self.cursor,
            source,
            header,
            &mut self.known,
            &mut Metrics::default(),
            &mut None,
        )
    }
}

/// Checks that all records of a batch can be decoded, before the first one is given where the others do not
/// fit the chunk and it could not be taken back.
pub(crate) fn ensure_decodes(walk: &RecordDecoder, source: &[u8]) -> Result<()> {
    let mut walk = walk.clone();
    let mut slots = [RecordSlot::default(); 256];
    // Once also where there are no records: no bytes may be there then.
    loop {
        walk.step(source, &mut slots)?;
        if walk.remaining() == 0 {
            return Ok(());
        }
    }
}

/// Returns whether the bytes are at fault, so that a reader may continue after them.
pub(crate) fn is_damage(error: &Error) -> bool {
    matches!(
        error,
        Error::CorruptRecord(_) | Error::InvalidRecord(_) | Error::UnsupportedFormat(_)
    ) && error.fault_kind() != FaultKind::Undecoded
}
