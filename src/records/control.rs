//! The marker in a control batch that ends a transaction (`EndTransactionMarker.deserialize`).

use super::block::{self, Payload};
use crate::compress::{DecodeLimit, Decompressor};
use crate::error::{Error, FaultKind, Result};
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::format::control::{ControlType, EndTransactionMarker};
use crate::format::record::Record;
use crate::types::{TimestampMs, TimestampType};

/// How a transaction ended.
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
    /// `InvalidRecord` where that record ends no transaction or is broken, and those of [`block::open`]; positions count
    /// from the beginning of the batch.
    pub fn of(batch: &[u8], header: &BatchHeader) -> Result<Option<Self>> {
        if header.records_count == Some(0) {
            return Ok(None);
        }
        let mut arena = Vec::new();
        let limit = DecodeLimit::default();
        let block = block::open(
            batch,
            header,
            &mut Decompressor::default(),
            &mut arena,
            limit,
        )?;
        let (data, at) = match block.payload {
            Payload::Source => (batch, block.range.start),
            Payload::Arena => (arena.as_slice(), block.range.start),
        };
        Self::of_record(header, data, at)
            .map(Some)
            .map_err(|error| match block.payload {
                Payload::Source => error,
                Payload::Arena => error.inside(RECORD_BATCH_OVERHEAD as u64),
            })
    }

    fn of_record(header: &BatchHeader, data: &[u8], at: usize) -> Result<Self> {
        let record = Record::parse(data, at)?;
        let kind = ControlType::parse(record.key.of(data).unwrap_or_default())
            .map_err(|error| error.shift(record.key.start as u64))?;
        if !kind.ends_transaction() {
            return Err(Error::invalid(
                "control record type",
                record.key.start as u64,
                "COMMIT or ABORT",
                kind,
            )
            .of_kind(FaultKind::ControlType));
        }
        let marker = EndTransactionMarker::parse(record.value.of(data).unwrap_or_default())
            .map_err(|error| error.shift(record.value.start as u64))?;
        let timestamp = match header.timestamp_type() {
            TimestampType::LogAppendTime => header.max_timestamp,
            _ => header.base_timestamp.wrapping_add(record.timestamp_delta),
        };
        Ok(Self {
            is_abort: kind == ControlType::Abort,
            coordinator_epoch: marker.coordinator_epoch,
            timestamp,
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
