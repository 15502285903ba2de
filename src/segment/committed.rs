//! Tracks which transactions a `read_committed` reader must skip.
//!
//! Like Kafka's consumer it follows the aborted transactions as offsets rise
//! (`CompletedFetch.consumeAbortedTransactionsUpTo`): a transaction is open from its first offset until its marker.
//!
//! # The plan is checked against the log
//! Aborted transactions may have been planned from an index, and an index may have lost entries. So a reader remembers
//! the producers whose transactional records it returned: a marker that aborts them is an error, never a silent extra
//! row. If bytes in between are not read (segments left out for their timestamps, damage), markers may have been among
//! them, and the reader forgets these producers.

use std::collections::BTreeMap;

use super::filter::AbortedRange;
use super::transactions::OpenTransactions;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::format::control::ControlType;
use crate::types::Offset;

/// Tracks which of the aborted transactions are open, batch after batch.
#[derive(Debug)]
pub(super) struct AbortedCursor {
    /// By first offset.
    all: Vec<AbortedRange>,
    /// Number of them that have begun.
    begun: usize,
    /// Offsets of the markers of those, by producer; some may have been passed.
    open: BTreeMap<i64, Offset>,
    /// Base offset of the last batch.
    reached: Offset,
}

impl AbortedCursor {
    /// Before the first batch.
    #[must_use]
    pub(super) fn new(aborted: &[AbortedRange]) -> Self {
        let mut all = aborted.to_vec();
        all.sort_unstable_by_key(|range| (range.first_offset, range.last_offset));
        Self {
            all,
            begun: 0,
            open: BTreeMap::new(),
            reached: Offset::MIN,
        }
    }

    /// Returns whether the batch belongs to an aborted transaction. Control batches never do: they are about
    /// transactions.
    #[inline]
    pub(super) fn covers(&mut self, header: &BatchHeader) -> bool {
        if !header.is_transactional() || header.is_control() {
            return false;
        }
        if header.base_offset < self.reached {
            // The reader went back, past damage.
            self.begun = 0;
            self.open.clear();
        }
        self.reached = header.base_offset;
        while let Some(range) = self.all.get(self.begun)
            && range.first_offset <= header.last_offset()
        {
            self.begun = self.begun.saturating_add(1);
            if range.last_offset > header.base_offset {
                self.open.insert(range.producer_id, range.last_offset);
            }
        }
        if self.open.is_empty() {
            return false;
        }
        match self.open.get(&header.producer_id) {
            Some(&marker) if marker > header.base_offset => true,
            Some(_) => {
                self.open.remove(&header.producer_id);
                false
            }
            None => false,
        }
    }
}

/// Producers whose transactional records were given, and whose transaction has not ended since.
#[derive(Clone, Debug, Default)]
pub(crate) struct EmittedTransactions(OpenTransactions);

impl EmittedTransactions {
    /// Forgets all: markers may have been skipped since, or another partition begins.
    pub(crate) fn clear(&mut self) {
        self.0 = OpenTransactions::default();
    }

    /// A batch whose records are given.
    #[inline]
    pub(crate) fn give(&mut self, header: &BatchHeader) {
        let is_empty = header.records_count == Some(0);
        if header.is_transactional() && !header.is_control() && !is_empty {
            self.0.begin(header.producer_id, header.base_offset);
        }
    }

    /// A control batch of a producer.
    ///
    /// # Errors
    /// `CorruptIndex` where it aborts what was given; its position counts from the batch's beginning.
    pub(crate) fn end(&mut self, header: &BatchHeader, kind: ControlType) -> Result<()> {
        let was_given = kind.ends_transaction() && self.0.end(header.producer_id).is_some();
        if !was_given || kind == ControlType::Commit {
            return Ok(());
        }
        let expected = format!(
            "an entry for the transaction of producer {} that this marker aborts",
            header.producer_id
        );
        Err(Error::corrupt_index(
            "transaction index",
            0,
            expected,
            "none",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::attributes::Attributes;

    fn header(attributes: u8, count: i32) -> BatchHeader {
        BatchHeader {
            attributes: Attributes(attributes),
            records_count: Some(count),
            ..BatchHeader::NONE
        }
    }

    #[test]
    fn aborted_is_what_lies_between_first_offset_and_marker() {
        let range = |producer_id, first_offset, last_offset| AbortedRange {
            producer_id,
            last_offset,
            first_offset,
        };
        let all = [range(1, 10, 20), range(1, 30, 40), range(2, 0, 100)];
        let mut cursor = AbortedCursor::new(&all);
        let (transactional, control) = (0b1_0000, 0b10_0000);
        let mut aborted = |producer_id, base_offset, attributes| {
            cursor.covers(&BatchHeader {
                producer_id,
                base_offset,
                last_offset_delta: 2,
                ..header(attributes, 3)
            })
        };
        for (base, expected) in [
            (5, false),
            (7, false),
            (10, true),
            (17, true),
            (20, false),
            (21, false),
            (27, false),
            (30, true),
            (40, false),
        ] {
            assert_eq!(aborted(1, base, transactional), expected, "{base}");
        }
        assert!(aborted(2, 50, transactional) && !aborted(3, 50, transactional));
        assert!(!aborted(2, 50, 0) && !aborted(2, 50, transactional | control));
    }

    /// A log of seven producers whose transactions lie between each other, each with its fate; read from any batch on,
    /// and from there again.
    #[test]
    fn every_batch_has_the_fate_of_its_transaction() {
        let mut state = 7u64;
        let mut below = |n: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % n
        };
        let (mut batches, mut ranges) = (Vec::new(), Vec::new());
        let mut open: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        let mut offset = 0;
        while batches.len() < 1000 {
            let producer_id = i64::try_from(below(7)).unwrap();
            if below(4) > 0 {
                let last_offset_delta = i32::try_from(below(5)).unwrap();
                open.entry(producer_id).or_default().push(batches.len());
                let header = BatchHeader {
                    base_offset: offset,
                    last_offset_delta,
                    producer_id,
                    ..header(0b1_0000, last_offset_delta + 1)
                };
                batches.push((header, false));
                offset += i64::from(last_offset_delta) + 1;
                continue;
            }
            let ended = open.remove(&producer_id).unwrap_or_default();
            if let Some(&first) = ended.first()
                && below(2) == 0
            {
                ranges.push(AbortedRange {
                    producer_id,
                    last_offset: offset,
                    first_offset: batches[first].0.base_offset,
                });
                for batch in ended {
                    batches[batch].1 = true;
                }
            }
            offset += 1;
        }
        ranges.sort_unstable();
        let aborted = batches.iter().filter(|(_, is_aborted)| *is_aborted);
        assert!(ranges.len() > 20 && aborted.count() > 200);
        for from in [0, 1, 10, 333, 999] {
            let mut cursor = AbortedCursor::new(&ranges);
            for round in 0..2 {
                for (header, is_aborted) in &batches[from..] {
                    let place = header.base_offset;
                    assert_eq!(
                        cursor.covers(header),
                        *is_aborted,
                        "{place}, {from} {round}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_marker_may_not_abort_what_was_given() {
        let batch = |producer_id, attributes| BatchHeader {
            producer_id,
            ..header(attributes, 1)
        };
        let (transactional, marker) = (0b1_0000, 0b11_0000);
        let mut given = EmittedTransactions::default();
        given.give(&batch(1, transactional));
        given.give(&batch(2, 0));
        assert!(given.end(&batch(2, marker), ControlType::Abort).is_ok());
        assert!(given.end(&batch(1, marker), ControlType::Commit).is_ok());
        assert!(given.end(&batch(1, marker), ControlType::Abort).is_ok());
        given.give(&batch(1, transactional));
        assert!(given.end(&batch(3, marker), ControlType::Abort).is_ok());
        let error = given
            .end(&batch(1, marker), ControlType::Abort)
            .unwrap_err();
        assert!(matches!(error, Error::CorruptIndex(_)), "{error}");
    }
}
