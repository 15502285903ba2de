//! The header of magic 2 as bytes (`DefaultRecordBatch.writeHeader`), and the fields that a leader changes in a
//! received batch.

use super::{
    ATTRIBUTES_AT, BASE_SEQUENCE_AT, BASE_TIMESTAMP_AT, BatchHeader, CRC_AT, EPOCH_AT,
    LAST_OFFSET_DELTA_AT, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT, MAX_TIMESTAMP_AT, PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT, RECORD_BATCH_OVERHEAD, RECORDS_COUNT_AT,
};
use crate::error::{Error, Result};
use crate::format::crc::crc32c;
use crate::types::Offset;
#[cfg(feature = "internal")]
use crate::types::{TimestampMs, TimestampType};

const MAGIC: u8 = 2;

impl BatchHeader {
    /// Writes this header over the first [`RECORD_BATCH_OVERHEAD`] bytes of `batch`, after which all its records stand,
    /// and returns the checksum, which is computed here as the length is: this header's own `size`, `crc` and `magic`
    /// do not count.
    ///
    /// # Errors
    /// `InvalidRecord` where `batch` is shorter than a header or longer than the length field can say.
    pub fn seal(&self, batch: &mut [u8]) -> Result<u32> {
        let size = batch.len();
        let length = size
            .checked_sub(LOG_OVERHEAD)
            .and_then(|length| i32::try_from(length).ok());
        let (Some(length), Some(head)) = (length, batch.first_chunk_mut()) else {
            return Err(Error::invalid(
                "batch size",
                0,
                format_args!("{RECORD_BATCH_OVERHEAD} to {}", i32::MAX),
                size,
            ));
        };
        self.put(length, head);
        let crc = crc32c(batch.get(ATTRIBUTES_AT..).unwrap_or_default());
        put(batch, CRC_AT, crc.to_be_bytes());
        Ok(crc)
    }

    fn put(&self, length: i32, head: &mut [u8; RECORD_BATCH_OVERHEAD]) {
        put(head, 0, self.base_offset.to_be_bytes());
        put(head, LENGTH_AT, length.to_be_bytes());
        put(head, EPOCH_AT, self.partition_leader_epoch.to_be_bytes());
        put(head, MAGIC_AT, [MAGIC]);
        put(head, ATTRIBUTES_AT, [0, self.attributes.0]);
        put(
            head,
            LAST_OFFSET_DELTA_AT,
            self.last_offset_delta.to_be_bytes(),
        );
        put(head, BASE_TIMESTAMP_AT, self.base_timestamp.to_be_bytes());
        put(head, MAX_TIMESTAMP_AT, self.max_timestamp.to_be_bytes());
        put(head, PRODUCER_ID_AT, self.producer_id.to_be_bytes());
        put(head, PRODUCER_EPOCH_AT, self.producer_epoch.to_be_bytes());
        put(head, BASE_SEQUENCE_AT, self.base_sequence.to_be_bytes());
        let count = self.records_count.unwrap_or_default();
        put(head, RECORDS_COUNT_AT, count.to_be_bytes());
    }
}

#[inline]
fn put<const N: usize>(to: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(field) = to.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *field = bytes;
    }
}

/// Gives the whole batch of magic 2 that begins at `batch` its place in the log. Neither field is checksummed.
pub(crate) fn assign(batch: &mut [u8], base_offset: Offset, partition_leader_epoch: i32) {
    put(batch, 0, base_offset.to_be_bytes());
    put(batch, EPOCH_AT, partition_leader_epoch.to_be_bytes());
}

/// Says who set the timestamps of a batch of magic 2 and what the largest is; `batch` is all of it, `header` what
/// stands there. Where both are as they were, the checksum stays, a wrong one too
/// (`DefaultRecordBatch.setMaxTimestamp`).
#[cfg(feature = "internal")]
pub(crate) fn set_max_timestamp(
    batch: &mut [u8],
    header: &BatchHeader,
    timestamp_type: TimestampType,
    max_timestamp: TimestampMs,
) {
    if header.timestamp_type() == timestamp_type && header.max_timestamp == max_timestamp {
        return;
    }
    let attributes = header.attributes.with_timestamp_type(timestamp_type);
    put(batch, ATTRIBUTES_AT, [0, attributes.0]);
    put(batch, MAX_TIMESTAMP_AT, max_timestamp.to_be_bytes());
    let crc = crc32c(batch.get(ATTRIBUTES_AT..).unwrap_or_default());
    put(batch, CRC_AT, crc.to_be_bytes());
}
