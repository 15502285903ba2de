//! Kafka's internal topics: their records, the state that they add up to, and records and snapshots to write.

use crate::error::Result;
use crate::format::control::ControlType;
use crate::records::builder::{BatchOptions, end_transaction};
use crate::types::{Offset, TimestampMs};

pub(crate) use crate::tables::coverage::Coverage;
pub(crate) use crate::tables::metadata_log::{Chosen, LogEnd, choose};
pub(crate) use crate::tables::metadata_state::AllRefused;
pub(crate) use crate::tables::new_record::{KeyAndValue, encode};
pub(crate) use crate::tables::new_snapshot::{NewSnapshot, Spelled, write as write_snapshot};
pub(crate) use crate::tables::offset_rows::WantedRows;
pub(crate) use crate::tables::open_transactions::open_transactions;
pub(crate) use crate::tables::plan::plan;
pub(crate) use crate::tables::producers::producers;
pub(crate) use crate::tables::schema_rows::schemas;
pub(crate) use crate::tables::topic::{Show, Topic};

/// Encodes the batch that aborts the open transaction of a producer (id and epoch), as the leader of the partition
/// writes it for a coordinator.
///
/// # Errors
/// Those of [`end_transaction`].
pub(crate) fn abort_marker(
    base_offset: Offset,
    partition_leader_epoch: i32,
    (producer_id, producer_epoch): (i64, i16),
    coordinator_epoch: i32,
    timestamp: TimestampMs,
) -> Result<Vec<u8>> {
    let options = BatchOptions {
        base_offset,
        partition_leader_epoch,
        producer_id,
        producer_epoch,
        ..BatchOptions::default()
    };
    let mut batch = Vec::new();
    end_transaction(
        options,
        timestamp,
        ControlType::Abort,
        coordinator_epoch,
        &mut batch,
    )?;
    Ok(batch)
}
