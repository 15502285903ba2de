//! The rule by which a batch fits between its neighbours.
//!
//! No checksum covers base offset and leader epoch, and a writer may set a last offset that is wrong. So they are compared
//! with the batches around: offsets rise, leader epochs do not fall, and all lies between the base of the segment and
//! that of the next one.

use crate::error::{Error, FaultKind, Result};
use crate::format::batch::{BatchHeader, LOG_OVERHEAD};
use crate::types::{NO_PARTITION_LEADER_EPOCH, Offset};

/// As the highest leader epoch before: any may follow.
pub(crate) const ANY_EPOCH: i32 = i32::MIN;

/// Bounds of a batch, by those before it and the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Neighbours {
    /// The lowest base offset: the one after the batch before, or the segment's.
    pub(crate) floor: Offset,
    /// The highest leader epoch before; -1 for none, and [`ANY_EPOCH`] where they are not compared.
    pub(crate) epoch: i32,
    /// Base offset of the next segment, if there is one.
    pub(crate) next_base_offset: Option<Offset>,
}

impl Neighbours {
    /// Bounds of the first batch of a segment.
    pub(crate) const fn new(base_offset: Offset, next_base_offset: Option<Offset>) -> Self {
        Self {
            floor: base_offset,
            epoch: NO_PARTITION_LEADER_EPOCH,
            next_base_offset,
        }
    }

    /// Bounds of a batch somewhere after this one.
    pub(crate) const fn after(header: &BatchHeader) -> Self {
        Self {
            floor: header.next_offset(),
            epoch: header.partition_leader_epoch,
            next_base_offset: None,
        }
    }

    /// Continues after this batch.
    #[inline]
    pub(crate) const fn pass(&mut self, header: &BatchHeader) {
        self.floor = header.next_offset();
        if header.partition_leader_epoch > self.epoch {
            self.epoch = header.partition_leader_epoch;
        }
    }

    /// Returns whether a batch may have this offset.
    #[inline]
    pub(crate) fn holds(&self, offset: Offset) -> bool {
        offset >= self.floor && self.next_base_offset.is_none_or(|next| offset < next)
    }

    /// Returns whether a batch of this leader epoch may follow.
    #[inline]
    pub(crate) const fn admits_epoch(&self, epoch: i32) -> bool {
        epoch == NO_PARTITION_LEADER_EPOCH || epoch >= self.epoch
    }

    /// Returns whether the batch fits.
    #[expect(clippy::inline_always, reason = "as `BatchHeader::parse`")]
    #[inline(always)]
    pub(crate) fn admits(&self, header: &BatchHeader) -> bool {
        let (base, last) = (header.base_offset, header.last_offset());
        // A segment may span more than 2^31 offsets: those of cleaners before KAFKA-6264 do, Kafka reads them, and
        // splits them at its next start.
        base >= self.floor
            && self.next_base_offset.is_none_or(|next| last < next)
            && header.next_offset() > base
            && self.admits_epoch(header.partition_leader_epoch)
    }

    /// Checks that the batch fits; positions count from its beginning.
    ///
    /// # Errors
    /// `CorruptRecord` where it does not.
    #[expect(clippy::inline_always, reason = "as `BatchHeader::parse`")]
    #[inline(always)]
    pub(crate) fn ensure_fits(&self, header: &BatchHeader) -> Result<()> {
        if self.admits(header) {
            Ok(())
        } else {
            Err(self.misfit(header))
        }
    }

    /// The error for a batch that does not fit.
    #[cold]
    fn misfit(&self, header: &BatchHeader) -> Error {
        let (base, last) = (header.base_offset, header.last_offset());
        let (what, at, expected, found) = match self.next_base_offset {
            _ if base < self.floor => {
                let expected = format!("at least {}, after what comes before", self.floor);
                ("base offset", 0, expected, base)
            }
            Some(next) if last >= next => {
                let expected = format!("below {next}, where the next segment begins");
                ("last offset", 0, expected, last)
            }
            _ if header.next_offset() <= base => {
                let expected = format!("{base} or more, and an offset after it");
                ("last offset", 0, expected, last)
            }
            _ => {
                let (what, epoch) = ("partition leader epoch", header.partition_leader_epoch);
                let expected = format!("at least {}, as before", self.epoch);
                (what, LOG_OVERHEAD as u64, expected, epoch.into())
            }
        };
        Error::corrupt_of(FaultKind::Order, what, at, expected, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_fits_or_says_why_not() {
        let between = Neighbours {
            floor: 10,
            epoch: 3,
            next_base_offset: Some(20),
        };
        let header = |base_offset, last_offset_delta, partition_leader_epoch| BatchHeader {
            base_offset,
            partition_leader_epoch,
            last_offset_delta,
            ..BatchHeader::NONE
        };
        let endless = Neighbours {
            next_base_offset: None,
            ..between
        };
        for (bounds, header, expected) in [
            (between, header(10, 9, 3), None),
            (between, header(12, 0, -1), None),
            (
                between,
                header(9, 2, 3),
                Some("base offset: expected at least 10"),
            ),
            (
                between,
                header(10, 10, 3),
                Some("last offset: expected below 20"),
            ),
            (
                between,
                header(10, 0, 2),
                Some("leader epoch: expected at least 3"),
            ),
            (
                between,
                header(10, 0, -2),
                Some("leader epoch: expected at least 3"),
            ),
            (
                endless,
                header(Offset::MAX, 0, 3),
                Some("and an offset after it"),
            ),
            (
                Neighbours {
                    epoch: ANY_EPOCH,
                    ..between
                },
                header(10, 0, 0),
                None,
            ),
        ] {
            assert_eq!(bounds.admits(&header), expected.is_none(), "{header:?}");
            let error = bounds.ensure_fits(&header).err().map(|e| e.to_string());
            let said = error.unwrap_or_default();
            assert!(said.contains(expected.unwrap_or_default()), "{said}");
        }
        let mut next = endless;
        next.pass(&header(12, 2, 7));
        assert_eq!(next, Neighbours::after(&header(12, 2, 7)));
    }
}
