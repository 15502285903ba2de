//! Damage: where it ends, and what it was.

use std::cmp::Ordering;

use super::lost::Reason;
use super::search::{BatchSearch, plausible};
use crate::error::Result;
use crate::format::batch::{
    BatchHeader, HEADER_SIZE_UP_TO_MAGIC, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT, MIN_LENGTH,
    RECORD_BATCH_OVERHEAD,
};
use crate::format::cursor::{get_i32, get_i64, get_u8};
use crate::segment::batches::CURRENT_MAGIC;
use crate::types::Position;

impl BatchSearch {
    /// Finds the end of the damage at `position`: a whole batch, or the end of the file.
    ///
    /// A batch may lie within another's payload. So where the damaged one seems to end with the next one's beginning, those
    /// inside it only count if they lead there too.
    pub(super) fn end_of_damage(&mut self, position: Position) -> Result<Position> {
        let mut from = position.saturating_add(1);
        if let Some(end) = self.seems_to_end(position)? {
            let magic = get_u8(self.bytes(position, HEADER_SIZE_UP_TO_MAGIC)?, MAGIC_AT);
            let magic = magic.unwrap_or(CURRENT_MAGIC);
            while let Some((found, _)) = self.next(from, end)? {
                let reached = self.follow(found, end)?;
                let before = found.saturating_sub(position);
                if reached == end || self.is_under(position, before, magic)? {
                    return Ok(found);
                }
                from = reached;
            }
            return Ok(end);
        }
        let found = self.next(from, self.length)?;
        Ok(found.map_or(self.length, |(found, _)| found))
    }

    /// The end of the batch whose header stands at `position`, if another whole one or the end of the file follows.
    fn seems_to_end(&mut self, position: Position) -> Result<Option<Position>> {
        let left = self.length.saturating_sub(position);
        let bounds = self.bounds;
        let head = self.bytes(position, RECORD_BATCH_OVERHEAD)?;
        let Some(header) = plausible(head, left, bounds) else {
            return Ok(None);
        };
        let end = position.saturating_add(header.size as u64);
        if end >= self.length {
            return Ok(Some(end));
        }
        let next = self.batch_at(end)?;
        Ok(next.map(|_| end))
    }

    /// Follows whole batches from `position`, no farther than to or over `end`; returns the position reached.
    fn follow(&mut self, mut position: Position, end: Position) -> Result<Position> {
        while position < end
            && let Some(header) = self.batch_at(position)?
        {
            position = position.saturating_add(header.size as u64);
        }
        Ok(position)
    }

    /// Finds out the fault of the bytes up to `end`, where the next batch begins or the file ends.
    pub(super) fn reason(&mut self, position: Position, end: Position) -> Result<Reason> {
        let length = end.saturating_sub(position);
        let is_last = end >= self.length;
        let (head, there) = self.head(position, length)?;
        if there < HEADER_SIZE_UP_TO_MAGIC {
            return Ok(if is_last {
                Reason::Torn
            } else {
                Reason::Foreign
            });
        }
        if head.iter().all(|&byte| byte == 0) && self.is_zero(position..end)? {
            return Ok(Reason::Torn);
        }
        let head = head.get(..there).unwrap_or_default();
        let magic = get_u8(head, MAGIC_AT).unwrap_or_default();
        let claimed = get_i32(head, LENGTH_AT).unwrap_or_default();
        let size = u64::from(claimed.unsigned_abs()).saturating_add(LOG_OVERHEAD as u64);
        let is_here = get_i64(head, 0).is_some_and(|offset| self.bounds.holds(offset));
        let is_length = claimed >= MIN_LENGTH && size <= self.length.saturating_sub(position);
        if magic != CURRENT_MAGIC && is_length && self.is_under(position, size, CURRENT_MAGIC)? {
            return Ok(Reason::Magic);
        }
        if magic > CURRENT_MAGIC {
            let is_whole = is_here && is_length && size == length;
            return Ok(if is_whole {
                Reason::Magic
            } else {
                Reason::Foreign
            });
        }
        if self.is_under(position, length, magic)? {
            return Ok(Reason::Length);
        }
        Ok(match size.cmp(&length) {
            _ if !is_here => Reason::Foreign,
            _ if claimed < MIN_LENGTH => Reason::Length,
            Ordering::Greater if is_last || is_length => Reason::Torn,
            Ordering::Greater => Reason::Length,
            _ => Reason::Crc,
        })
    }

    /// Returns whether the bytes at `position` are a batch of `size` and `magic` by its checksum, whatever its header
    /// says.
    fn is_under(&mut self, position: Position, size: u64, magic: u8) -> Result<bool> {
        let length = size.checked_sub(LOG_OVERHEAD as u64);
        let length = length.and_then(|length| i32::try_from(length).ok());
        let Some(length) = length.filter(|&length| length >= MIN_LENGTH) else {
            return Ok(false);
        };
        let (mut head, _) = self.head(position, RECORD_BATCH_OVERHEAD as u64)?;
        if let Some(field) = head.get_mut(LENGTH_AT..LOG_OVERHEAD) {
            field.copy_from_slice(&length.to_be_bytes());
        }
        if let Some(field) = head.get_mut(MAGIC_AT) {
            *field = magic;
        }
        match BatchHeader::as_it_stands(&head) {
            Some(header) if !header.is_too_short() => {
                let end = position.saturating_add(size);
                self.has_checksum(position, end, &header)
            }
            _ => Ok(false),
        }
    }

    /// The first bytes at `position`, at most as many as a header has and as there are, and how many those are.
    fn head(
        &mut self,
        position: Position,
        most: u64,
    ) -> Result<([u8; RECORD_BATCH_OVERHEAD], usize)> {
        let mut head = [0; RECORD_BATCH_OVERHEAD];
        let wanted = usize::try_from(most).unwrap_or(usize::MAX).min(head.len());
        let bytes = self.bytes(position, wanted)?;
        for (to, from) in head.iter_mut().zip(bytes) {
            *to = *from;
        }
        Ok((head, bytes.len()))
    }
}
