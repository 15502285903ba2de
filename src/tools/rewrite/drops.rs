//! Selection of the records to drop, and the effect on their batches.

use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::records::RecordSlot;
use crate::records::filtered::{BatchRetention, BatchVerdict, RecordFilter};
use crate::types::{Compression, Offset};

/// Offsets of records that go: half-open ranges, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drops(Vec<(Offset, Offset)>);

impl Drops {
    /// Takes ranges in any order; they may overlap.
    ///
    /// # Errors
    /// `InvalidArgument` for a range that ends before it begins, or begins below 0.
    pub fn new(mut ranges: Vec<(Offset, Offset)>) -> Result<Self> {
        if let Some((start, end)) = ranges.iter().find(|(start, end)| end < start || *start < 0) {
            let text = format!(
                "offsets {start} to {end}: expected a start of 0 or more, and an end not below it"
            );
            return Err(Error::InvalidArgument(text));
        }
        ranges.retain(|(start, end)| start < end);
        ranges.sort_unstable();
        let mut merged: Vec<(Offset, Offset)> = Vec::new();
        for (start, end) in ranges {
            match merged.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        Ok(Self(merged))
    }

    /// Returns whether any offset from `first` to `last`, inclusive, goes.
    fn touches(&self, first: Offset, last: Offset) -> bool {
        let at = self.0.partition_point(|&(_, end)| end <= first);
        self.0.get(at).is_some_and(|&(start, _)| start <= last)
    }
}

/// The filter of one partition.
pub(super) struct Dropping<'a> {
    drops: Option<&'a Drops>,
    /// The codec that batches are to have; `None`: their own.
    codec: Option<Compression>,
    raises: bool,
    log_end_offset: Offset,
    next_offset: Offset,
    /// The batch that comes next is the last one of its segment.
    pub(super) ends_segment: bool,
}

impl<'a> Dropping<'a> {
    pub(super) const fn new(
        drops: Option<&'a Drops>,
        codec: Option<Compression>,
        raises: bool,
        log_end_offset: Offset,
    ) -> Self {
        Self {
            drops,
            codec,
            raises,
            log_end_offset,
            next_offset: 0,
            ends_segment: false,
        }
    }

    /// The batch that comes next follows on this offset.
    pub(super) const fn go_on_at(&mut self, next_offset: Offset) {
        self.next_offset = next_offset;
    }

    fn touches(&self, first: Offset, last: Offset) -> bool {
        self.drops.is_some_and(|drops| drops.touches(first, last))
    }
}

impl RecordFilter for Dropping<'_> {
    fn batch(&mut self, _: &[u8], header: &BatchHeader) -> Result<BatchVerdict> {
        // The header of a wrapper names the last offset alone.
        let first = header.base_offset.min(self.next_offset);
        self.next_offset = header.next_offset();
        if header.is_control() || header.records_count == Some(0) {
            return Ok(BatchRetention::Keep.into());
        }
        let changes = (self.raises && header.is_legacy())
            || self
                .codec
                .is_some_and(|codec| header.compression().ok() != Some(codec));
        let first = if header.is_legacy() {
            first
        } else {
            header.base_offset
        };
        if !changes && !self.touches(first, header.last_offset()) {
            return Ok(BatchRetention::Keep.into());
        }
        // Without its last batch a segment would end before the next one begins, as if a segment were missing.
        let counts = header.has_producer_id()
            || self.ends_segment
            || header.next_offset() >= self.log_end_offset;
        Ok(if counts {
            BatchRetention::RetainEmpty.into()
        } else {
            BatchRetention::DeleteEmpty.into()
        })
    }

    fn records(
        &mut self,
        _: &BatchHeader,
        _: &[u8],
        slots: &[RecordSlot],
        stays: &mut [bool],
    ) -> Result<()> {
        for (slot, stays) in slots.iter().zip(stays) {
            *stays = !self.touches(slot.offset, slot.offset);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_sorted_and_merged() {
        let drops = Drops::new(vec![(10, 12), (3, 5), (0, 0), (4, 7), (12, 13), (20, 20)]).unwrap();
        let gone: Vec<Offset> = (0..30)
            .filter(|&offset| drops.touches(offset, offset))
            .collect();
        assert_eq!(gone, [3, 4, 5, 6, 10, 11, 12]);
        for (first, last, touched) in [
            (0, 2, false),
            (0, 3, true),
            (7, 9, false),
            (6, 9, true),
            (5, 30, true),
        ] {
            assert_eq!(drops.touches(first, last), touched, "{first} to {last}");
        }
        for bad in [(5, 4), (-1, 3)] {
            assert!(Drops::new(vec![bad]).is_err());
        }
    }
}
