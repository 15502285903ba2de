//! Beginnings and ends of transactions in a segment, from headers and the records of markers (`ProducerAppendInfo`).
//!
//! | batch | meaning |
//! |---|---|
//! | transactional, no control batch | its producer has a transaction open from here on, if it had none |
//! | control batch of a producer, COMMIT or ABORT | the producer's open transaction ends here |
//! | control batch without a record | nothing: the cleaner has removed the whole transaction |
//!
//! When reading past damage, a lost ABORT marker is taken from the segment's transaction index: nothing in the log
//! contradicts it. A lost COMMIT marker is in no other file.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::LogSegment;
use super::skipping::OnCorrupt;
use super::source::{Access, SegmentSource, WindowSize};
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::control::ControlType;
use crate::format::entry::AbortedTxn;
use crate::io::mapping::Mapping;
use crate::records::control::control_type;
use crate::types::{NO_PRODUCER_ID, Offset, Position};

/// A transaction begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TxnEvent {
    /// The producer.
    pub(crate) producer_id: i64,
    /// Base offset of its first batch after where it had nothing open, or of the marker.
    pub(crate) offset: Offset,
    /// For a marker, true if it is ABORT, not COMMIT.
    pub(crate) is_abort: Option<bool>,
}

/// Number of producers that [`OpenTransactions`] finds without a search, and the mask of an id for its place.
const RECENT: usize = 32;
const MASK: i64 = 31;

/// Open transactions by producer, with a direct-mapped cache: most batches come from few producers.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenTransactions {
    first_offsets: BTreeMap<i64, Offset>,
    /// Some of the producers, each in the place that its id gives it.
    recent: [Option<i64>; RECENT],
}

impl OpenTransactions {
    fn place(producer_id: i64) -> usize {
        usize::try_from(producer_id & MASK).unwrap_or_default()
    }

    /// Opens a producer's transaction, unless it has one open; returns whether it had none.
    #[inline]
    pub(crate) fn begin(&mut self, producer_id: i64, offset: Offset) -> bool {
        if let Some(recent) = self.recent.get_mut(Self::place(producer_id))
            && recent.replace(producer_id) == Some(producer_id)
        {
            return false;
        }
        let mut is_new = false;
        self.first_offsets.entry(producer_id).or_insert_with(|| {
            is_new = true;
            offset
        });
        is_new
    }

    /// Ends a producer's transaction; returns the first offset of the one that was open.
    pub(crate) fn end(&mut self, producer_id: i64) -> Option<Offset> {
        if let Some(recent) = self.recent.get_mut(Self::place(producer_id)) {
            recent.take_if(|recent| *recent == producer_id);
        }
        self.first_offsets.remove(&producer_id)
    }

    /// Takes in the next batch; `is_abort` is what it says as the marker of a transaction.
    #[inline]
    pub(crate) fn pass(
        &mut self,
        header: &BatchHeader,
        is_abort: Option<bool>,
    ) -> Option<TxnEvent> {
        if !header.has_producer_id() {
            return None;
        }
        let event = TxnEvent {
            producer_id: header.producer_id,
            offset: header.base_offset,
            is_abort,
        };
        let is_event = if is_abort.is_some() {
            self.end(event.producer_id);
            true
        } else {
            let is_data = header.is_transactional() && !header.is_control();
            is_data && self.begin(event.producer_id, event.offset)
        };
        is_event.then_some(event)
    }

    /// Follows an event; returns the first offset of a transaction that ends.
    pub(crate) fn apply(&mut self, event: &TxnEvent) -> Option<Offset> {
        if event.is_abort.is_some() {
            return self.end(event.producer_id);
        }
        self.begin(event.producer_id, event.offset);
        None
    }

    /// Returns whether the producer has a transaction open.
    pub(crate) fn contains(&self, producer_id: i64) -> bool {
        self.first_offsets.contains_key(&producer_id)
    }

    /// The first offset of the oldest one.
    pub(crate) fn first_offset(&self) -> Option<Offset> {
        self.first_offsets.values().min().copied()
    }
}

/// Result of a walk over headers.
#[derive(Debug)]
pub(crate) struct Walked {
    /// In order.
    pub(crate) events: Vec<TxnEvent>,
    /// The offset after the last batch, if one was met.
    pub(crate) next_offset: Option<Offset>,
    /// The segment's map, where it was mapped.
    pub(crate) map: Option<Arc<Mapping>>,
}

/// The events of `segment` from the batch at `position` on, batches that end below `from` left out.
///
/// A transaction that was open before begins here with its first batch here.
///
/// # Errors
/// `Io`, or a fault in a header or a marker on the way.
pub(crate) fn events(segment: &LogSegment, position: Position, from: Offset) -> Result<Walked> {
    // Every page is touched where batches are small, and a map's fault brings sixteen of them.
    let mut batches = segment.batches(segment.open(Access::Records)?, position);
    let mut walk = WindowSize::default();
    let mut open = OpenTransactions::default();
    let mut found = Vec::new();
    let mut next_offset = None;
    let mut header = BatchHeader::NONE;
    let mut noted = noted(segment, from).into_iter().peekable();
    while let Some(position) = batches.next_into(&mut header)? {
        batches.source.expect(walk.observe(header.size));
        next_offset = Some(header.next_offset());
        // A batch before this one was lost where the index has a marker.
        while let Some(lost) = noted.next_if(|txn| txn.last_offset < header.base_offset) {
            open.end(lost.producer_id);
            found.push(lost_abort(&lost));
        }
        if !header.is_control() {
            // Where the index has a marker, the log has something else.
            while noted
                .next_if(|txn| txn.last_offset <= header.last_offset())
                .is_some()
            {}
        }
        if !header.has_producer_id() || header.last_offset() < from {
            continue;
        }
        let mut is_abort = None;
        if header.is_control() {
            let kind = match control_type_at(&mut batches.source, position, &header) {
                // What it said is lost: the index may know.
                Err(error) if batches.policy.passes_over(&error) => continue,
                kind => kind?,
            };
            // The marker itself decides.
            while noted
                .next_if(|txn| txn.last_offset <= header.base_offset)
                .is_some()
            {}
            let ends = kind.filter(|kind| kind.ends_transaction());
            is_abort = ends.map(|kind| kind == ControlType::Abort);
        }
        if let Some(event) = open.pass(&header, is_abort) {
            found.push(event);
        }
    }
    // A marker that is the log's last batch: it is below the end that damage leaves to the log.
    found.extend(noted.map(|lost| lost_abort(&lost)));
    Ok(Walked {
        events: found,
        next_offset,
        map: batches.source.into_map(),
    })
}

/// The aborted transactions that the index of a segment notes from `from` on; none unless reading past damage.
fn noted(segment: &LogSegment, from: Offset) -> Vec<AbortedTxn> {
    let index = (segment.on_corrupt == OnCorrupt::Skip).then(|| segment.transaction_index());
    let Some(index) = index.flatten() else {
        return Vec::new();
    };
    let end = segment.next_base_offset.unwrap_or(Offset::MAX);
    let mut floor = from.max(segment.base_offset);
    let mut noted: Vec<_> = index.iter().collect();
    noted.retain(|txn| {
        let fits = txn.producer_id > NO_PRODUCER_ID
            && (floor..end).contains(&txn.last_offset)
            && txn.first_offset < txn.last_offset;
        if fits {
            floor = txn.last_offset.saturating_add(1);
        }
        fits
    });
    noted
}

const fn lost_abort(txn: &AbortedTxn) -> TxnEvent {
    TxnEvent {
        producer_id: txn.producer_id,
        offset: txn.last_offset,
        is_abort: Some(true),
    }
}

/// Reads the type of the first record of the control batch at `position`, once the batch's checksum is right; `None` if
/// there is none.
pub(super) fn control_type_at(
    source: &mut SegmentSource,
    position: Position,
    header: &BatchHeader,
) -> Result<Option<ControlType>> {
    let batch = source.bytes(position, header.size)?;
    control_type(batch, header).map_err(|error| {
        let error = error.for_offset(header.base_offset);
        source.locate(position, error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::attributes::Attributes;

    /// Batches by attributes, producer and what they say as a marker; the events, and what is open after all of them.
    #[test]
    fn batches_begin_and_end_transactions() {
        let (plain, data, control) = (0, 0b1_0000, 0b11_0000);
        let mut open = OpenTransactions::default();
        for (offset, (attributes, producer_id, is_abort, is_event)) in (0..).zip([
            (plain, 7, None, false),
            (data, NO_PRODUCER_ID, None, false),
            (data, 7, None, true),
            (data, 7, None, false),
            (data, 8, None, true),
            // Of another type, or without a record.
            (control, 7, None, false),
            (control, 7, Some(false), true),
            (data, 7, None, true),
            // Of a transaction that began before.
            (control, 9, Some(true), true),
            (data, 39, None, true),
        ]) {
            let header = BatchHeader {
                base_offset: offset,
                producer_id,
                attributes: Attributes(attributes),
                ..BatchHeader::NONE
            };
            let event = TxnEvent {
                producer_id,
                offset,
                is_abort,
            };
            let found = open.pass(&header, is_abort);
            assert_eq!(found, is_event.then_some(event), "{offset}");
        }
        assert_eq!(open.first_offset(), Some(4));
        assert_eq!(
            [7, 8, 9, 39].map(|id| open.end(id)),
            [Some(7), Some(4), None, Some(9)]
        );
    }

    /// As a plain map, with ids that share a place.
    #[test]
    fn open_transactions_by_producer() {
        let (mut open, mut plain) = (OpenTransactions::default(), BTreeMap::new());
        let mut state = 1u64;
        for step in 0..19_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let id = i64::try_from((state >> 33) % 100).unwrap() - 1;
            if (state >> 60).is_multiple_of(4) {
                assert_eq!(open.end(id), plain.remove(&id), "{step}");
            } else {
                let is_new = !plain.contains_key(&id);
                plain.entry(id).or_insert(step);
                assert_eq!(open.begin(id, step), is_new, "{step}");
            }
            assert_eq!(open.contains(id), plain.contains_key(&id), "{step}");
            assert_eq!(open.first_offset(), plain.values().min().copied(), "{step}");
        }
        assert!(plain.len() > 10);
    }
}
