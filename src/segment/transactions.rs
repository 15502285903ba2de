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

use std::sync::Arc;

use super::LogSegment;
use super::fates::ProducerSet;
use super::skipping::OnCorrupt;
use super::source::{Access, HeaderWalk, SegmentSource};
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::control::ControlType;
use crate::format::entry::AbortedTxn;
use crate::io::mapping::Mapping;
use crate::records::control::control_type;
use crate::types::{NO_PRODUCER_ID, Offset, Position};

/// A transaction begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TxnEvent {
    /// The first batch of a producer after where it had nothing open.
    Began {
        /// The producer.
        producer_id: i64,
        /// The batch's base offset.
        offset: Offset,
    },
    /// A marker.
    Ended {
        /// The producer.
        producer_id: i64,
        /// The marker's offset.
        offset: Offset,
        /// ABORT, not COMMIT.
        is_aborted: bool,
    },
}

impl TxnEvent {
    /// Offset in the log.
    #[must_use]
    pub(crate) const fn offset(&self) -> Offset {
        match self {
            Self::Began { offset, .. } | Self::Ended { offset, .. } => *offset,
        }
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
    let mut walk = HeaderWalk::default();
    let mut open = ProducerSet::default();
    let mut found = Vec::new();
    let mut next_offset = None;
    let mut header = BatchHeader::NONE;
    let mut noted = noted(segment, from).into_iter().peekable();
    while let Some(position) = batches.next_into(&mut header)? {
        let producer_id = header.producer_id;
        batches.source.expect(walk.pass(header.size));
        next_offset = Some(header.next_offset());
        // A batch before this one was lost where the index has a marker.
        while let Some(lost) = noted.next_if(|txn| txn.last_offset < header.base_offset) {
            open.remove(lost.producer_id);
            found.push(lost_abort(&lost));
        }
        if !header.is_control() {
            // Where the index has a marker, the log has something else.
            while noted
                .next_if(|txn| txn.last_offset <= header.last_offset())
                .is_some()
            {}
        }
        if !header.has_producer_id() || header.is_legacy() || header.last_offset() < from {
            continue;
        }
        let offset = header.base_offset;
        if header.is_control() {
            let kind = match control_type_at(&mut batches.source, position, &header) {
                // What it said is lost: the index may know.
                Err(error) if batches.policy.passes_over(&error) => continue,
                kind => kind?,
            };
            // The marker itself decides.
            while noted.next_if(|txn| txn.last_offset <= offset).is_some() {}
            if let Some(kind) = kind
                && kind.ends_transaction()
            {
                open.remove(producer_id);
                found.push(TxnEvent::Ended {
                    producer_id,
                    offset,
                    is_aborted: kind == ControlType::Abort,
                });
            }
        } else if header.is_transactional() && open.insert(producer_id) {
            found.push(TxnEvent::Began {
                producer_id,
                offset,
            });
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
    TxnEvent::Ended {
        producer_id: txn.producer_id,
        offset: txn.last_offset,
        is_aborted: true,
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
