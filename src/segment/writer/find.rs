//! Batches by offset, where a segment ends, and cutting it there.

use super::WritableSegment;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::format::entry::TimestampOffset;
use crate::io::storage::Storage;
use crate::segment::batches::Batches;
use crate::segment::source::Access;
use crate::segment::walk::KafkaPolicy;
use crate::types::{NO_TIMESTAMP, Offset, Position, TimestampMs};

impl<S: Storage> WritableSegment<S> {
    /// Finds the batch that holds `offset` or the first offset after it (`LogSegment.translateOffset`).
    ///
    /// # Errors
    /// Those of opening the offset index, and of [`Batches::search`].
    pub fn translate_offset(&mut self, offset: Offset) -> Result<Option<Position>> {
        let entry = self.offset_index.get()?.lookup(offset)?;
        let from = Position::try_from(entry.position).unwrap_or_default();
        self.walk(from, self.size(), Access::Headers)?
            .search(offset)
    }

    /// The offset after the last batch, as far as the index leads to it (`LogSegment.readNextOffset`).
    ///
    /// # Errors
    /// As [`WritableSegment::translate_offset`].
    pub(crate) fn read_next_offset(&mut self) -> Result<Offset> {
        let last = self.last_indexed_batch()?;
        Ok(last.map_or(self.base_offset, |(_, header)| header.next_offset()))
    }

    /// The last batch to which the index leads.
    fn last_indexed_batch(&mut self) -> Result<Option<(Position, BatchHeader)>> {
        let last_indexed = self.offset_index.get()?.last_offset();
        let Some(from) = self.translate_offset(last_indexed)? else {
            return Ok(None);
        };
        let mut batches = self.walk(from, self.size(), Access::Headers)?;
        let mut last = None;
        while let Some(batch) = batches.next()? {
            last = Some(batch);
        }
        Ok(last)
    }

    /// Returns whether the index leads to a last batch that is whole, ends before `next_offset`, and is followed by no
    /// byte.
    ///
    /// # Errors
    /// As [`WritableSegment::translate_offset`].
    pub(crate) fn ends_whole(&mut self, next_offset: Offset) -> Result<bool> {
        let size = self.size();
        if size == 0 || self.checked >= size {
            return Ok(true);
        }
        let Some((position, header)) = self.last_indexed_batch()? else {
            return Ok(false);
        };
        let end = position.saturating_add(header.size as u64);
        if end != size || header.next_offset() != next_offset {
            return Ok(false);
        }
        let mut last = self.walk(position, size, Access::Records)?;
        match last.ensure_valid(position, &header) {
            Ok(()) => Ok(true),
            Err(Error::CorruptRecord(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the last batch's offset is too far from the base (`LogSegment.hasOverflow`).
    ///
    /// # Errors
    /// As [`WritableSegment::translate_offset`].
    pub(crate) fn has_overflow(&mut self) -> Result<bool> {
        let next = self.read_next_offset()?;
        Ok(next > self.base_offset && !self.holds(next.wrapping_sub(1)))
    }

    /// The batches of `LogSegment.read(start_offset)` up to `max_position`.
    ///
    /// # Errors
    /// As [`WritableSegment::translate_offset`]; `CorruptRecord` where they begin after `max_position`.
    pub(crate) fn read(
        &mut self,
        start_offset: Offset,
        max_position: Position,
    ) -> Result<Option<Batches<KafkaPolicy>>> {
        let Some(from) = self.translate_offset(start_offset)? else {
            return Ok(None);
        };
        if from > max_position {
            let expected = format!("at most {max_position}, where the log ends");
            let error = Error::corrupt("batch position", from, expected, from);
            return Err(error.at(self.path()));
        }
        self.walk(from, max_position, Access::Headers).map(Some)
    }

    /// Cuts the segment at the batch that holds `offset` (`LogSegment.truncateTo`); returns the bytes cut.
    ///
    /// # Errors
    /// `Io`, those of opening the indexes and of [`WritableSegment::translate_offset`].
    pub fn truncate_to(&mut self, offset: Offset, now_ms: TimestampMs) -> Result<u64> {
        let position = self.translate_offset(offset)?;
        let index = self.offset_index.get()?;
        index.truncate_to(offset)?;
        // Up to Kafka 1.1 an entry names the first offset of its batch: that of the batch that is cut goes with it.
        while let Some(position) = position.filter(|_| index.entries() > 0)
            && u64::try_from(index.last_entry().position).is_ok_and(|at| at >= position)
        {
            index.truncate_to(index.last_entry().offset)?;
        }
        self.time_index.get()?.truncate_to(offset)?;
        self.txn_index.truncate_to(offset)?;
        self.resize_indexes()?;
        let cut = match position {
            Some(position) => self.log.truncate(position)?,
            None => 0,
        };
        if self.size() == 0 {
            self.created_ms = now_ms;
            self.first_batch_timestamp = None;
        }
        self.entries.restart();
        if self.max_timestamp()?.timestamp >= 0 {
            self.max_timestamp = Some(self.read_largest_timestamp()?);
        }
        Ok(cut)
    }

    /// The last time entry, or the largest timestamp of a batch after it that is above it.
    fn read_largest_timestamp(&mut self) -> Result<TimestampOffset> {
        let mut last = self.time_index.get()?.last_entry();
        let from = self.offset_index.get()?.lookup(last.offset)?.position;
        let from = Position::try_from(from).unwrap_or_default();
        let mut batches = self.walk(from, self.size(), Access::Headers)?;
        let mut largest = NO_TIMESTAMP.max(last.timestamp);
        while let Some((_, header)) = batches.next()? {
            if header.max_timestamp > largest {
                largest = header.max_timestamp;
                last = TimestampOffset {
                    timestamp: largest,
                    offset: header.last_offset(),
                };
            }
        }
        Ok(last)
    }
}
