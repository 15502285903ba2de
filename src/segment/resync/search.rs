//! The next place at which a whole batch begins, byte by byte.
//!
//! Most places are ruled out by their header alone: a length that fits the file, a magic that exists, offsets that fit
//! the segment. For the others the checksum decides, which costs the same for a long batch as for a short one
//! ([`super::sums`]).

use std::ops::Range;
use std::sync::Arc;

use super::sums::RangeChecksums;
use crate::error::{Error, Result};
use crate::format::batch::{
    ATTRIBUTES_AT, BatchHeader, HEADER_SIZE_UP_TO_MAGIC, LENGTH_AT, MAGIC_AT, MIN_LENGTH,
    RECORD_BATCH_OVERHEAD,
};
use crate::format::cursor::{get_i32, get_i64, get_u8};
use crate::io::file::read_into;
use crate::io::interrupt;
use crate::io::storage::ReadFile;
use crate::segment::batches::CURRENT_MAGIC;
use crate::segment::neighbours::Neighbours;
use crate::segment::source::{Access, SegmentSource};
use crate::types::{Offset, Position};

/// Bytes that are searched at once.
const WINDOW: usize = 256 << 10;

/// Looks for batches where none is expected.
#[derive(Debug)]
pub(super) struct BatchSearch {
    file: Arc<dyn ReadFile>,
    pub(super) length: u64,
    /// Offsets that a batch of the segment may have.
    pub(super) bounds: Neighbours,
    /// Base offset of the segment.
    base_offset: Offset,
    /// The last offset of the batch that was found last.
    last_offset: Offset,
    window: Vec<u8>,
    start: Position,
    far: SegmentSource,
    legacy: Option<RangeChecksums>,
    castagnoli: Option<RangeChecksums>,
    anchor: Position,
}

impl BatchSearch {
    /// Of the first `length` bytes of `file`.
    pub(super) fn new(
        file: Arc<dyn ReadFile>,
        length: u64,
        bounds: Neighbours,
        base_offset: Offset,
    ) -> Result<Self> {
        Ok(Self {
            far: SegmentSource::over(Arc::clone(&file), length, Access::Headers)?,
            file,
            length,
            bounds,
            base_offset,
            last_offset: base_offset,
            window: Vec::new(),
            start: 0,
            legacy: None,
            castagnoli: None,
            anchor: 0,
        })
    }

    /// Nothing before `position` is requested from now on.
    pub(super) fn anchor(&mut self, position: Position) {
        self.anchor = position;
        for sums in [&mut self.legacy, &mut self.castagnoli]
            .into_iter()
            .flatten()
        {
            sums.anchor(position);
        }
    }

    /// A batch was found, the last one up to now.
    pub(super) const fn found(&mut self, header: &BatchHeader) {
        self.last_offset = header.last_offset();
    }

    /// Reads up to `wanted` bytes at `position`.
    pub(super) fn bytes(&mut self, position: Position, wanted: usize) -> Result<&[u8]> {
        self.far.bytes(position, wanted)
    }

    /// Returns whether every byte of `range` that is there is zero.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn is_zero(&mut self, range: Range<Position>) -> Result<bool> {
        self.far.is_zero(range)
    }

    /// Returns whether the bytes of a batch that ends at `end` have the checksum of its header.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn has_checksum(
        &mut self,
        position: Position,
        end: Position,
        header: &BatchHeader,
    ) -> Result<bool> {
        let anchor = self.anchor;
        let (sums, new, from): (_, fn() -> RangeChecksums, _) = if header.is_legacy() {
            (&mut self.legacy, RangeChecksums::legacy, MAGIC_AT)
        } else {
            (
                &mut self.castagnoli,
                RangeChecksums::castagnoli,
                ATTRIBUTES_AT,
            )
        };
        let sums = sums.get_or_insert_with(|| {
            let mut sums = new();
            sums.anchor(anchor);
            sums
        });
        let from = position.saturating_add(from as u64);
        if end < from {
            return Ok(false);
        }
        Ok(sums.of(&mut self.far, from, end)? == Some(header.crc))
    }

    /// The whole batch of the segment that begins at `position`, if one does.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn batch_at(&mut self, position: Position) -> Result<Option<BatchHeader>> {
        let left = self.length.saturating_sub(position);
        let head = self.far.bytes(position, RECORD_BATCH_OVERHEAD)?;
        let Some(header) = plausible(head, left, self.bounds) else {
            return Ok(None);
        };
        let end = position.saturating_add(header.size as u64);
        let is_sound = self.has_checksum(position, end, &header)?;
        Ok(is_sound.then_some(header))
    }

    /// The first whole batch of the segment at or after `from` and before `to`.
    ///
    /// # Errors
    /// `Io`, `Interrupted`.
    pub(super) fn next(
        &mut self,
        mut from: Position,
        to: Position,
    ) -> Result<Option<(Position, BatchHeader)>> {
        while let Some((position, header)) = self.candidate(from, to)? {
            let end = position.saturating_add(header.size as u64);
            if self.has_checksum(position, end, &header)? && self.is_near(end, &header)? {
                return Ok(Some((position, header)));
            }
            from = position.saturating_add(1);
        }
        Ok(None)
    }

    /// Returns whether a segment of this base offset, or one that begins with the batch found last, could hold a whole
    /// batch that ends at `end` (`LogSegment.canConvertToRelativeOffset`). Elsewhere it counts only if the next one
    /// follows: under a right checksum, a message inside a damaged wrapper has any bytes before it for its offset.
    ///
    /// # Errors
    /// `Io`.
    fn is_near(&mut self, end: Position, header: &BatchHeader) -> Result<bool> {
        let from = self.base_offset.max(self.last_offset);
        if header.last_offset() <= from.saturating_add(i64::from(i32::MAX)) {
            return Ok(true);
        }
        let next = self.batch_at(end)?;
        Ok(next.is_some_and(|next| next.base_offset > header.last_offset()))
    }

    /// The first place at or after `from` whose header could be a batch's.
    fn candidate(
        &mut self,
        mut from: Position,
        to: Position,
    ) -> Result<Option<(Position, BatchHeader)>> {
        while from < to {
            let left = self.length.saturating_sub(from);
            if left < HEADER_SIZE_UP_TO_MAGIC as u64 {
                break;
            }
            let needed = left.min(RECORD_BATCH_OVERHEAD as u64);
            let ready = self.start.saturating_add(self.window.len() as u64);
            if from < self.start || from.saturating_add(needed) > ready {
                interrupt::check()?;
                let wanted = usize::try_from(left).unwrap_or(WINDOW).min(WINDOW);
                read_into(&mut self.window, wanted, |window| {
                    self.file.read_at(window, from)
                })
                .map_err(Error::io(self.file.path()))?;
                self.start = from;
                if (self.window.len() as u64) < needed {
                    break;
                }
            }
            let at = usize::try_from(from.saturating_sub(self.start)).unwrap_or(usize::MAX);
            let bytes = self.window.get(at..).unwrap_or_default();
            // Within the last bytes of the file there is no room for a whole header of magic 2.
            let places = bytes
                .len()
                .saturating_sub(usize::try_from(needed).unwrap_or_default());
            let most = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
            for place in 0..=places.min(most.saturating_sub(1)) {
                let head = bytes.get(place..).unwrap_or_default();
                if self.is_ruled_out(head) {
                    continue;
                }
                let position = from.saturating_add(place as u64);
                let left = self.length.saturating_sub(position);
                if let Some(header) = plausible(head, left, self.bounds) {
                    return Ok(Some((position, header)));
                }
            }
            from = from.saturating_add(places as u64).saturating_add(1);
        }
        Ok(None)
    }

    /// By offset, length and magic: two comparisons for nearly every place.
    #[inline]
    fn is_ruled_out(&self, head: &[u8]) -> bool {
        get_i64(head, 0).is_none_or(|offset| !self.bounds.holds(offset))
            || get_u8(head, MAGIC_AT).is_none_or(|magic| magic > CURRENT_MAGIC)
            || get_i32(head, LENGTH_AT).is_none_or(|length| length < MIN_LENGTH)
    }
}

/// The header at `head`, if the file has a whole batch of it with `left` bytes from there on, and it could be one of a
/// segment with these `bounds`.
pub(super) fn plausible(head: &[u8], left: u64, bounds: Neighbours) -> Option<BatchHeader> {
    BatchHeader::size_in_file(head, left).ok()??;
    let header = BatchHeader::parse(head).ok()??;
    let is_possible = header.magic <= CURRENT_MAGIC
        && bounds.admits(&header)
        && header.records_count.is_none_or(|count| {
            i64::from(count) <= i64::from(header.last_offset_delta).saturating_add(1)
        });
    is_possible.then_some(header)
}
