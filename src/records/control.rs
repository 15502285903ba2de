//! The marker in a control batch that ends a transaction (`EndTransactionMarker.deserialize`).

use super::RecordSlot;
use super::batch::BatchDecoder;
use crate::error::{Error, FaultKind, Result};
use crate::format::batch::BatchHeader;
use crate::format::control::{ControlType, EndTransactionMarker};
use crate::types::TimestampMs;

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
        if header.records_count == Some(0) {
            return Ok(None);
        }
        let mut decoder = BatchDecoder::default();
        let mut records = decoder.open(batch, header)?;
        let mut slots = [RecordSlot::default()];
        let Some([record]) = records.next(&mut slots)? else {
            return Ok(None);
        };
        Self::of_record(record, records.bytes())
            .map(Some)
            .map_err(|error| records.locate(error))
    }

    fn of_record(record: &RecordSlot, bytes: &[u8]) -> Result<Self> {
        let (key_at, value_at) = (record.key_start.into(), record.value_start.into());
        let kind = ControlType::parse(record.key(bytes).unwrap_or_default())
            .map_err(|error| error.shift(key_at))?;
        if !kind.ends_transaction() {
            let what = "control record type";
            let error = Error::invalid(what, key_at, "COMMIT or ABORT", kind);
            return Err(error.of_kind(FaultKind::ControlType));
        }
        let marker = EndTransactionMarker::parse(record.value(bytes).unwrap_or_default())
            .map_err(|error| error.shift(value_at))?;
        Ok(Self {
            is_abort: kind == ControlType::Abort,
            coordinator_epoch: marker.coordinator_epoch,
            timestamp: record.timestamp,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
