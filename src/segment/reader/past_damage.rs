//! The reader's differences if it continues after damage ([`crate::segment::skipping`]).

use super::{ReadState, SegmentReader};
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::records::chunk::Chunk;
use crate::segment::batches::Bounds;
use crate::segment::resync::Reason;
use crate::segment::skipping::{self, OnCorrupt, Skipping, Unread, is_damage};
use crate::types::{Offset, Position};

impl SegmentReader {
    /// Continues after damage, if the options say so. For a piece of a segment whose headers are known to be in order,
    /// the first offsets of this and of the next piece are given.
    #[must_use]
    pub(crate) fn skipping(
        mut self,
        bounds: Bounds,
        piece: Option<(Offset, Option<Offset>)>,
    ) -> Self {
        if self.options.on_corrupt == OnCorrupt::Skip {
            if let Some(file) = self.source.file() {
                file.pass_damage();
            }
            let (size, position) = (self.source.planned_len(), self.cursor.position());
            if let Some((start, _)) = piece {
                self.cursor.seek(position, start);
            }
            let mut skipping = Skipping::new(bounds, size, position, self.wanted);
            if let Some((_, next)) = piece {
                skipping = skipping.of_piece(bounds.end.zip(next));
            }
            self.skipping = Some(skipping);
        }
        self
    }

    /// The offsets between the end of the segment and the beginning of the next one, if no damage accounts for them.
    #[must_use]
    pub(crate) fn gap_after(&self) -> Option<(Offset, Offset)> {
        let skipping = self.skipping.as_ref().filter(|_| !self.ended)?;
        skipping.gap_after(self.cursor.next_offset())
    }

    /// The checksum of a batch is not that of its bytes: skips it, or goes back, or fails.
    #[cold]
    pub(super) fn lose_unsound(
        &mut self,
        state: &mut ReadState,
        position: Position,
        header: &BatchHeader,
        error: Error,
    ) -> Result<bool> {
        if self.skipping.is_none() || !is_damage(&error) {
            return Err(error);
        }
        state.metrics.give_back(header);
        let floor = self.cursor.floor_before();
        if !self.look_at_all(state, position, floor)? {
            self.lose(position, Reason::Crc, floor);
        }
        Ok(true)
    }

    /// A batch with a right checksum does not open: skips it, or goes back, or fails.
    #[cold]
    pub(super) fn lose_undecodable(
        &mut self,
        state: &mut ReadState,
        position: Position,
        header: &BatchHeader,
        error: Error,
    ) -> Result<bool> {
        if self.skipping.is_none() || !is_damage(&error) {
            return Err(error);
        }
        state.metrics.give_back(header);
        let floor = self.cursor.floor_before();
        // A wrapper whose messages begin too low, like anything else about offsets, is not for the reader to decide.
        let is_order = matches!(error, Error::CorruptRecord(_)) && header.is_wrapper();
        if !(is_order && self.look_at_all(state, position, floor)?) {
            self.lose(position, Reason::of_decoding(&error), floor);
        }
        Ok(true)
    }

    /// The batch that came last, at `position`, is lost.
    fn lose(&mut self, position: Position, reason: Reason, floor: Offset) {
        self.current = None;
        let end = self.cursor.position();
        if let Some(skipping) = &mut self.skipping {
            skipping.lose(position, end, reason, floor);
        }
    }

    /// Puts the next header into `header`, past damage if that is wanted; gives its position.
    #[inline]
    pub(super) fn next_header(
        &mut self,
        state: &mut ReadState,
        header: &mut BatchHeader,
    ) -> Result<Option<Position>> {
        skipping::next_into(
            &mut self.skipping,
            &mut self.cursor,
            &mut self.source,
            header,
            &mut state.known,
            &mut state.metrics,
            &mut self.unread,
        )
    }

    /// Examines the whole segment, and goes back to `position`; false where that was done before.
    fn look_at_all(
        &mut self,
        state: &mut ReadState,
        position: Position,
        floor: Offset,
    ) -> Result<bool> {
        match &mut self.skipping {
            Some(skipping) if !skipping.has_survey() => {
                skipping.look_at_all(&self.source, &mut state.known)?;
            }
            _ => return Ok(false),
        }
        self.cursor.seek(position, floor);
        self.pending = None;
        self.ended = false;
        Ok(true)
    }

    /// The batch that came last begins with `offset`, and is in its place.
    #[inline]
    pub(super) fn found(&mut self, state: &mut ReadState, offset: Offset) {
        if let Some(skipping) = &mut self.skipping {
            if skipping.is_after_loss() {
                state.given.clear();
            }
            skipping.find(offset, &mut state.lost, &mut state.metrics);
        }
    }

    /// The batch that came last begins with `offset`, and all of it was decoded.
    #[inline]
    pub(super) fn gave(&mut self, state: &mut ReadState, offset: Offset) {
        if let Some(skipping) = &mut self.skipping {
            skipping.find(offset, &mut state.lost, &mut state.metrics);
            skipping.give(self.cursor.position());
        }
    }

    /// Returns whether the chunk takes the whole batch, which it must where records that cannot be decoded take the
    /// others of their batch along. An empty one takes any: those that do not fit it are given in parts or decoded
    /// twice.
    #[inline]
    pub(super) fn has_room(&self, chunk: &Chunk, header: &BatchHeader) -> bool {
        if self.skipping.is_none() || chunk.is_empty() {
            return true;
        }
        let count = header.records_count.map_or(0, i32::unsigned_abs);
        usize::try_from(count).is_ok_and(|count| count <= chunk.room())
    }

    /// The records of the current batch cannot be decoded: skips it, or fails. What was given of it, past damage,
    /// is taken back.
    #[cold]
    pub(super) fn lose_current(
        &mut self,
        state: &mut ReadState,
        chunk: &mut Chunk,
        error: Error,
    ) -> Result<bool> {
        let Some(current) = self.current.take() else {
            return Err(error);
        };
        if current.in_parts.is_some() {
            chunk.withdraw(current.position);
        }
        if self.skipping.is_none() || !is_damage(&error) {
            return Err(error);
        }
        let floor = self.cursor.floor_before();
        self.lose(current.position, Reason::Records, floor);
        state.metrics.give_back(&current.header);
        state.metrics.batches = state.metrics.batches.saturating_sub(1);
        Ok(true)
    }

    /// Passes over the batch that came last on its header alone.
    pub(super) fn leave_unread(&mut self, position: Position, header: &BatchHeader) {
        self.unread = Some(Unread {
            position,
            header: header.clone(),
            floor: self.cursor.floor_before(),
        });
    }

    /// Returns whether damage is skipped, and offsets are missing before the batch that came last.
    pub(super) const fn is_past_gap(&self, header: &BatchHeader) -> bool {
        self.skipping.is_some() && header.base_offset != self.cursor.floor_before()
    }

    /// Compares the checksum of the last unread batch: it ends right before the first wanted one, if its last offset is
    /// right. False if the reader has gone back to it.
    #[inline]
    pub(super) fn check_unread(&mut self, state: &mut ReadState) -> Result<bool> {
        if self.unread.is_none() {
            return Ok(true);
        }
        self.check_last_unread(state)
    }

    #[cold]
    fn check_last_unread(&mut self, state: &mut ReadState) -> Result<bool> {
        let Some(unread) = self.unread.take() else {
            return Ok(true);
        };
        let Unread {
            position,
            header,
            floor,
        } = unread;
        let is_vouched = self.skipping.as_ref().is_some_and(Skipping::has_survey);
        if !self.options.check_crcs || is_vouched {
            return Ok(true);
        }
        match self.check_in_pieces(position, &header) {
            Err(error) if self.skipping.is_some() && is_damage(&error) => {
                state.metrics.give_back_unread(&header);
                self.look_at_all(state, position, floor)
                    .map(|is_back| !is_back)
            }
            checked => checked.map(|()| true),
        }
    }
}
