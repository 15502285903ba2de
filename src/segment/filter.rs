//! Filters for batches and records of a segment, beyond a range of offsets: aborted transactions, bounds of time, and
//! records that were chosen one by one.
//!
//! | left out | by |
//! |---|---|
//! | a batch of an aborted transaction ([`super::committed`]) | producer id and offsets of its header; its checksum is compared first |
//! | a batch without any record within the bounds | its header, where that proves it |
//! | a record outside the bounds | its timestamp |
//! | a batch or record none of whose offsets was chosen ([`OffsetSet`]) | offsets |
//!
//! # What a header proves about times
//! No record of a batch is later than its largest timestamp, which the broker writes from the records themselves. Under
//! CreateTime it does not give the earliest of its records (the base timestamp is only the first record's), so a batch
//! is provably too late only if all its records have one timestamp: under LogAppendTime, or if there is one record. The
//! header of a legacy wrapper proves nothing about its messages.

use std::sync::Arc;

use crate::format::batch::BatchHeader;
use serde::{Deserialize, Serialize};

use crate::records::RecordSlot;
use crate::segment::offset_set::OffsetSet;
use crate::types::{Offset, TimestampMs};

/// A transaction that was aborted: transactional records of this producer between these offsets do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "[i64; 3]", into = "[i64; 3]")]
pub struct AbortedRange {
    /// The producer of the transaction.
    pub producer_id: i64,
    /// Offset of the marker that ended it.
    pub last_offset: Offset,
    /// Its first offset, or an earlier one after the producer's previous transaction.
    pub first_offset: Offset,
}

/// From producer, first and last offset.
impl From<[i64; 3]> for AbortedRange {
    fn from([producer_id, first_offset, last_offset]: [i64; 3]) -> Self {
        Self {
            producer_id,
            last_offset,
            first_offset,
        }
    }
}

impl From<AbortedRange> for [i64; 3] {
    fn from(range: AbortedRange) -> Self {
        [range.producer_id, range.first_offset, range.last_offset]
    }
}

/// First and last timestamp wanted, both inclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimestampBounds {
    /// Records before are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<TimestampMs>,
    /// Records after are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<TimestampMs>,
}

impl TimestampBounds {
    /// Everything is wanted.
    #[inline]
    #[must_use]
    pub const fn are_open(&self) -> bool {
        self.min.is_none() && self.max.is_none()
    }

    /// Returns whether a record of this timestamp is wanted.
    #[inline]
    #[must_use]
    pub fn contain(&self, timestamp: TimestampMs) -> bool {
        self.min.is_none_or(|min| timestamp >= min) && self.max.is_none_or(|max| timestamp <= max)
    }

    /// Returns whether the header proves that no record of the batch is wanted.
    #[inline]
    #[must_use]
    pub fn exclude(&self, header: &BatchHeader) -> bool {
        !self.are_open() && self.are_missed(header)
    }

    fn are_missed(&self, header: &BatchHeader) -> bool {
        if header.is_wrapper() {
            return false;
        }
        let latest = header.max_timestamp;
        let too_early = self.min.is_some_and(|min| latest < min);
        let have_one = header.is_legacy()
            || header.attributes.is_log_append_time()
            || header.records_count == Some(1);
        too_early || (have_one && !self.contain(latest))
    }
}

/// Conditions on the header of a batch whose records are wanted.
///
/// A batch that is left out is not read, so its checksum is not compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderBounds {
    /// Only control batches, or none.
    pub is_control: Option<bool>,
    /// First and last producer id wanted; -1 is none.
    pub producer_ids: Option<(i64, i64)>,
    /// First and last magic wanted.
    pub magics: Option<(u8, u8)>,
}

impl HeaderBounds {
    /// Returns whether the header proves that no record of the batch is wanted.
    #[inline]
    #[must_use]
    pub fn exclude(&self, header: &BatchHeader) -> bool {
        let outside_producers = self
            .producer_ids
            .is_some_and(|(min, max)| !(min..=max).contains(&header.producer_id));
        let outside_magics = self
            .magics
            .is_some_and(|(min, max)| !(min..=max).contains(&header.magic));
        let is_other_kind = self
            .is_control
            .is_some_and(|wanted| wanted != header.is_control());
        outside_producers || outside_magics || is_other_kind
    }
}

/// Records that are left out of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentFilter {
    /// Sorted by producer, then by offset; `None` where what became of transactions does not matter.
    pub aborted: Option<Arc<[AbortedRange]>>,
    /// Bounds of time.
    pub timestamps: TimestampBounds,
    /// Only these offsets.
    pub chosen: Option<Arc<OffsetSet>>,
}

impl SegmentFilter {
    /// Returns whether the header proves that no record of the batch is wanted.
    #[inline]
    #[must_use]
    pub(crate) fn exclude(&self, header: &BatchHeader) -> bool {
        self.timestamps.exclude(header) || self.has_none_chosen(header)
    }

    fn has_none_chosen(&self, header: &BatchHeader) -> bool {
        self.chosen.as_ref().is_some_and(|chosen| {
            // A legacy wrapper names only its last offset.
            !header.is_wrapper() && !chosen.reaches_into(header.base_offset, header.last_offset())
        })
    }

    /// Returns whether every record of a batch that is not excluded is wanted.
    #[inline]
    #[must_use]
    pub(crate) const fn is_open(&self) -> bool {
        self.timestamps.are_open() && self.chosen.is_none()
    }

    /// Returns whether a record is wanted.
    #[inline]
    #[must_use]
    pub(crate) fn contains(&self, slot: &RecordSlot) -> bool {
        self.timestamps.contain(slot.timestamp)
            && self
                .chosen
                .as_ref()
                .is_none_or(|chosen| chosen.contains(slot.offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::attributes::Attributes;

    fn header(attributes: u8, count: i32, max_timestamp: TimestampMs) -> BatchHeader {
        let mut bytes = [0u8; 61];
        bytes[8..12].copy_from_slice(&49i32.to_be_bytes());
        bytes[16] = 2;
        BatchHeader {
            attributes: Attributes(attributes),
            records_count: Some(count),
            max_timestamp,
            ..BatchHeader::parse(&bytes).unwrap().unwrap()
        }
    }

    #[test]
    fn a_header_proves_no_more_than_it_knows() {
        let bounds = |min, max| TimestampBounds { min, max };
        let (create, append) = (0, 0b1000);
        for (bounds, attributes, count, max, excluded) in [
            (bounds(None, None), create, 5, 7, false),
            (bounds(Some(8), None), create, 5, 7, true),
            (bounds(Some(7), None), create, 5, 7, false),
            (bounds(None, Some(6)), create, 5, 7, false),
            (bounds(None, Some(6)), create, 1, 7, true),
            (bounds(None, Some(7)), create, 1, 7, false),
            (bounds(None, Some(6)), append, 5, 7, true),
            (bounds(Some(1), Some(7)), append, 5, 7, false),
        ] {
            let header = header(attributes, count, max);
            assert_eq!(bounds.exclude(&header), excluded, "{bounds:?} {header:?}");
        }
        let wrapper = BatchHeader {
            magic: 1,
            records_count: None,
            ..header(1, 0, 7)
        };
        assert!(!bounds(Some(8), None).exclude(&wrapper));
        let message = BatchHeader {
            attributes: Attributes(0),
            ..wrapper
        };
        assert!(bounds(Some(8), None).exclude(&message) && bounds(None, Some(6)).exclude(&message));
    }

    #[test]
    fn header_bounds_are_inclusive() {
        let open = HeaderBounds::default();
        let control = 0b10_0000;
        let by = |producer_id, attributes| BatchHeader {
            producer_id,
            ..header(attributes, 1, 0)
        };
        for (bounds, producer_id, attributes, excluded) in [
            (open, 7, control, false),
            (
                HeaderBounds {
                    producer_ids: Some((7, 9)),
                    ..open
                },
                6,
                0,
                true,
            ),
            (
                HeaderBounds {
                    producer_ids: Some((7, 9)),
                    ..open
                },
                7,
                0,
                false,
            ),
            (
                HeaderBounds {
                    producer_ids: Some((7, 9)),
                    ..open
                },
                9,
                0,
                false,
            ),
            (
                HeaderBounds {
                    producer_ids: Some((7, 9)),
                    ..open
                },
                10,
                0,
                true,
            ),
            (
                HeaderBounds {
                    magics: Some((0, 1)),
                    ..open
                },
                7,
                0,
                true,
            ),
            (
                HeaderBounds {
                    magics: Some((2, 2)),
                    ..open
                },
                7,
                0,
                false,
            ),
            (
                HeaderBounds {
                    is_control: Some(true),
                    ..open
                },
                7,
                0,
                true,
            ),
            (
                HeaderBounds {
                    is_control: Some(true),
                    ..open
                },
                7,
                control,
                false,
            ),
            (
                HeaderBounds {
                    is_control: Some(false),
                    ..open
                },
                7,
                control,
                true,
            ),
        ] {
            let header = by(producer_id, attributes);
            assert_eq!(bounds.exclude(&header), excluded, "{bounds:?} {header:?}");
        }
    }
}
