//! Control batches: the type of their first record, and the marker that ends a transaction
//! (`ControlRecordType.parse`, `EndTransactionMarker.deserialize`).

use super::RecordSlot;
use super::batch::BatchDecoder;
use crate::compress::DecodeLimit;
use crate::error::{Error, FaultKind, Result};
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::format::control::{ControlType, EndTransactionMarker};
use crate::types::TimestampMs;

/// Most bytes of a control batch that are read from a file, and that its records may decompress to. A marker has 78, and
/// brokers do not compress it.
pub(crate) const MAX_CONTROL_BATCH: usize = 1 << 20;

/// Outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransaction {
    /// Aborted, else committed.
    pub is_abort: bool,
    /// Epoch of the coordinator that wrote the marker.
    pub coordinator_epoch: i32,
    /// The marker's own timestamp.
    pub timestamp: TimestampMs,
}

impl EndTransaction {
    /// Reads the first record of a whole control batch; `None` where it has none, as compaction leaves it.
    ///
    /// # Errors
    /// `InvalidRecord` where that record ends no transaction or is broken, and those of [`BatchDecoder::open`]; positions
    /// count from the beginning of the batch.
    pub fn of(batch: &[u8], header: &BatchHeader) -> Result<Option<Self>> {
        first_record(batch, header, |kind, record, bytes| {
            if !kind.ends_transaction() {
                let (what, at) = ("control record type", record.key_start.into());
                let error = Error::invalid(what, at, "COMMIT or ABORT", kind);
                return Err(error.of_kind(FaultKind::ControlType));
            }
            let marker = EndTransactionMarker::parse(record.value(bytes).unwrap_or_default())
                .map_err(|error| error.shift(record.value_start.into()))?;
            Ok(Self {
                is_abort: kind == ControlType::Abort,
                coordinator_epoch: marker.coordinator_epoch,
                timestamp: record.timestamp,
            })
        })
    }
}

/// Reads the type of the first record of a whole control batch, once the batch's checksum is right; `None` where there is
/// no record: the cleaner has removed the whole transaction.
///
/// # Errors
/// `CorruptRecord` for a wrong checksum, `InvalidRecord` for a broken record, and those of [`BatchDecoder::open`];
/// positions count from the beginning of the batch.
pub(crate) fn control_type(batch: &[u8], header: &BatchHeader) -> Result<Option<ControlType>> {
    if header.records_count == Some(0) {
        return Ok(None);
    }
    header.ensure_valid(batch)?;
    sound_control_type(batch, header)
}

/// As [`control_type`], of a batch whose checksum is known to be right.
pub(crate) fn sound_control_type(
    batch: &[u8],
    header: &BatchHeader,
) -> Result<Option<ControlType>> {
    match plain_marker_type(batch, header) {
        Some(kind) => Ok(Some(kind)),
        None => first_record(batch, header, |kind, _, _| Ok(kind)),
    }
}

/// Applies `read` to the first record of a whole control batch; `None` where it has none. As in Kafka the others do not
/// count (`CompletedFetch.containsAbortMarker`).
fn first_record<T>(
    batch: &[u8],
    header: &BatchHeader,
    read: impl FnOnce(ControlType, &RecordSlot, &[u8]) -> Result<T>,
) -> Result<Option<T>> {
    if header.records_count == Some(0) {
        return Ok(None);
    }
    let mut decoder = BatchDecoder::with_limit(DecodeLimit(MAX_CONTROL_BATCH));
    let mut records = decoder.open(batch, header)?;
    let mut slots = [RecordSlot::default()];
    let Some([record]) = records.next(&mut slots)? else {
        return Ok(None);
    };
    let bytes = records.bytes();
    let kind = ControlType::parse(record.key(bytes).unwrap_or_default())
        .map_err(|error| error.shift(record.key_start.into()));
    kind.and_then(|kind| read(kind, record, bytes))
        .map(Some)
        .map_err(|error| records.locate(error))
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

    /// `MemoryRecordsTest.testBuildEndTxnMarker`'s batch: 78 bytes.
    fn marker(kind: u8, attributes: u8) -> Vec<u8> {
        let mut batch = Vec::new();
        batch.extend_from_slice(&40i64.to_be_bytes());
        batch.extend_from_slice(&66i32.to_be_bytes());
        batch.extend_from_slice(&7i32.to_be_bytes());
        batch.push(2);
        batch.extend_from_slice(&[0; 4]);
        batch.extend_from_slice(&[0, attributes]);
        batch.extend_from_slice(&0i32.to_be_bytes());
        batch.extend_from_slice(&1000i64.to_be_bytes());
        batch.extend_from_slice(&2000i64.to_be_bytes());
        batch.extend_from_slice(&9i64.to_be_bytes());
        batch.extend_from_slice(&3i16.to_be_bytes());
        batch.extend_from_slice(&(-1i32).to_be_bytes());
        batch.extend_from_slice(&1i32.to_be_bytes());
        batch.extend_from_slice(&[0x20, 0, 0x0a, 0, 8, 0, 0, 0, kind, 12]);
        batch.extend_from_slice(&[0, 0, 0, 0, 1, 0x5b, 0]);
        assert_eq!(batch.len(), 78);
        batch
    }

    fn read(batch: &[u8]) -> Result<Option<EndTransaction>> {
        let header = BatchHeader::parse(batch).unwrap().unwrap();
        EndTransaction::of(batch, &header)
    }

    #[test]
    fn markers() {
        let expected = |is_abort, timestamp| EndTransaction {
            is_abort,
            coordinator_epoch: 347,
            timestamp,
        };
        assert_eq!(
            read(&marker(0, 0x30)).unwrap(),
            Some(expected(true, 1000 + 5))
        );
        assert_eq!(read(&marker(1, 0x38)).unwrap(), Some(expected(false, 2000)));
        let mut empty = marker(1, 0x30);
        empty[57..61].fill(0);
        assert_eq!(read(&empty).unwrap(), None);
    }

    /// Readers of the type and of the whole marker agree, as in Kafka, on a batch whose second record is broken.
    #[test]
    fn the_first_record_decides() {
        let mut batch = marker(1, 0x30);
        batch[57..61].copy_from_slice(&2i32.to_be_bytes());
        batch.extend_from_slice(&[0x20, 0xff]);
        let size = i32::try_from(batch.len() - 12).unwrap();
        batch[8..12].copy_from_slice(&size.to_be_bytes());
        let header = BatchHeader::parse(&batch).unwrap().unwrap();
        let kind = sound_control_type(&batch, &header).unwrap();
        assert_eq!(kind, Some(ControlType::Commit));
        assert!(!read(&batch).unwrap().unwrap().is_abort);
    }

    #[test]
    fn refused() {
        let error = read(&marker(2, 0x30)).unwrap_err().to_string();
        assert_eq!(
            error,
            "<bytes>: byte 66: control record type: expected COMMIT or ABORT, found LEADER_CHANGE"
        );
        let whole = marker(0, 0x30);
        let header = BatchHeader::parse(&whole).unwrap().unwrap();
        for end in 61..78 {
            assert!(EndTransaction::of(&whole[..end], &header).is_err());
        }
    }

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
            assert_eq!(control_type(&batch, &header).unwrap(), Some(kind));
            for at in RECORD_BATCH_OVERHEAD..batch.len() {
                for byte in 0..=u8::MAX {
                    let mut other = batch.clone();
                    other[at] = byte;
                    if let Some(kind) = plain_marker_type(&other, &header) {
                        seen += 1;
                        let decoded = first_record(&other, &header, |kind, _, _| Ok(kind));
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
