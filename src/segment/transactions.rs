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
use super::batches::BatchCursor;
use super::fates::ProducerSet;
use super::skipping::OnCorrupt;
use super::source::{Access, HeaderWalk, SegmentSource};
use crate::compress::DecodeLimit;
use crate::error::{Error, Result};
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::format::control::ControlType;
use crate::format::entry::AbortedTxn;
use crate::io::mapping::Mapping;
use crate::records::RecordSlot;
use crate::records::batch::BatchDecoder;
use crate::types::{NO_PRODUCER_ID, Offset, Position};

/// The most a control batch's record may decompress to; brokers do not even compress it.
const MARKER_LIMIT: DecodeLimit = DecodeLimit(1 << 20);

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
    let mut source = segment.open(Access::Records)?;
    let mut walk = HeaderWalk::default();
    let mut cursor = BatchCursor::new(segment.bounds(), position);
    let mut steps = segment.steps();
    let mut open = ProducerSet::default();
    let mut found = Vec::new();
    let mut next_offset = None;
    let mut header = BatchHeader::NONE;
    let mut noted = noted(segment, from).into_iter().peekable();
    while let Some(position) = steps.next_into(&mut cursor, &mut source, &mut header)? {
        let producer_id = header.producer_id;
        source.expect(walk.pass(header.size));
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
            let kind = match control_type(&mut source, position, &header) {
                // What it said is lost: the index may know.
                Err(error) if steps.passes_over(&error) => continue,
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
        map: source.into_map(),
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

/// Reads the type of the first record of a control batch, once the batch's checksum is right; `None` if there is none.
pub(super) fn control_type(
    source: &mut SegmentSource,
    position: Position,
    header: &BatchHeader,
) -> Result<Option<ControlType>> {
    let batch = source.bytes(position, header.size)?;
    let found = marker_type(batch, header);
    found.map_err(|e: Error| {
        let e = e.shift(position).for_offset(header.base_offset);
        e.at(source.path())
    })
}

/// As [`control_type`], of the whole batch; positions count from its beginning.
pub(crate) fn marker_type(batch: &[u8], header: &BatchHeader) -> Result<Option<ControlType>> {
    if header.records_count == Some(0) {
        return Ok(None);
    }
    header.ensure_valid(batch)?;
    sound_marker_type(batch, header)
}

/// As [`marker_type`], of a batch whose checksum is known to be right.
pub(super) fn sound_marker_type(batch: &[u8], header: &BatchHeader) -> Result<Option<ControlType>> {
    if header.records_count == Some(0) {
        return Ok(None);
    }
    match plain_marker_type(batch, header) {
        Some(kind) => Ok(Some(kind)),
        None => decoded_marker_type(batch, header),
    }
}

fn decoded_marker_type(batch: &[u8], header: &BatchHeader) -> Result<Option<ControlType>> {
    let mut decoder = BatchDecoder::with_limit(MARKER_LIMIT);
    let mut records = decoder.open(batch, header)?;
    let slots = records.all()?;
    let kind =
        |slot: &RecordSlot| ControlType::parse(slot.key(records.bytes()).unwrap_or_default());
    slots.first().map(kind).transpose()
}

/// Reads the type of a marker in the form that every broker writes, 78 bytes that differ in few places; `None` for any
/// other control batch.
///
/// | at | bytes | |
/// |---|---|---|
/// | 61 | `20` | the record's length, 16 |
/// | 62 | `00 00 00` | attributes, timestamp delta, offset delta |
/// | 65 | `08 00 00 00 ..` | the key: 4 bytes, version 0, and the kind |
/// | 70 | `0c ..` | the value: 6 bytes |
/// | 77 | `00` | no headers |
fn plain_marker_type(batch: &[u8], header: &BatchHeader) -> Option<ControlType> {
    let is_plain = header.magic == 2
        && header.attributes.codec_id() == 0
        && header.records_count == Some(1)
        && header.size == batch.len();
    match batch.get(RECORD_BATCH_OVERHEAD..)? {
        &[0x20, 0, 0, 0, 8, 0, 0, 0, kind, 12, _, _, _, _, _, _, 0] if is_plain => {
            Some(ControlType::from_id(kind.into()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::builder::{BatchOptions, end_transaction};

    /// Every marker that differs from a broker's in one byte: what is read at a glance is what the decoder reads.
    #[test]
    fn markers_at_a_glance() {
        let options = BatchOptions {
            producer_id: 9,
            producer_epoch: 3,
            ..BatchOptions::default()
        };
        let mut seen = 0;
        for kind in [ControlType::Abort, ControlType::Commit] {
            let mut batch = Vec::new();
            end_transaction(options, 1000, kind, 7, &mut batch).unwrap();
            let header = BatchHeader::parse(&batch).unwrap().unwrap();
            assert_eq!(plain_marker_type(&batch, &header), Some(kind));
            assert_eq!(marker_type(&batch, &header).unwrap(), Some(kind));
            for at in RECORD_BATCH_OVERHEAD..batch.len() {
                for byte in 0..=u8::MAX {
                    let mut other = batch.clone();
                    other[at] = byte;
                    if let Some(kind) = plain_marker_type(&other, &header) {
                        seen += 1;
                        let decoded = decoded_marker_type(&other, &header);
                        assert_eq!(decoded.unwrap(), Some(kind), "{at}: {byte}");
                    }
                }
            }
            let cut = &batch[..batch.len() - 1];
            assert_eq!(plain_marker_type(cut, &header), None);
            let two = BatchHeader {
                records_count: Some(2),
                ..header.clone()
            };
            assert_eq!(plain_marker_type(&batch, &two), None);
        }
        assert!(seen > 2 * 256, "the kind's byte, and the value's");
    }
}
