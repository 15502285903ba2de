//! First and last offset to read of a partition.

use super::options::{EARLIEST, Ending, IsolationLevel, LATEST, PlanOptions, Starting, Timestamp};
use crate::error::{Error, Result};
use crate::log::dir::REPLICATION;
use crate::log::listed::ListedLog;
use crate::scan::transactions::LogTransactions;
use crate::types::Offset;

/// An offset as given: Kafka's numbers for the ends stand, other negative ones make no sense.
fn checked(offset: Offset) -> Result<Offset> {
    if offset < EARLIEST {
        let text = format!("offset {offset}: expected 0 or more, -1 (latest) or -2 (earliest)");
        return Err(Error::InvalidArgument(text));
    }
    Ok(offset)
}

/// Finds the offset at which to begin; `None` if there is nothing to read.
pub(super) fn start_of(log: &ListedLog, options: &PlanOptions) -> Result<Option<Offset>> {
    let partition = &log.name().topic_partition;
    if let Some(timestamp) = Timestamp::of(options.starting_timestamp.as_ref(), partition) {
        let found = log.offset_for_timestamp(timestamp, false)?;
        return Ok(found.map(|found| found.offset));
    }
    log.check_log_start()?;
    let offset = match &options.starting_offsets {
        Starting::Earliest => EARLIEST,
        Starting::Oldest => {
            return Ok(log.segments().first().map(|first| first.base_offset));
        }
        Starting::Offset(offset) => *offset,
        Starting::Offsets(map) => map.get(partition).copied().unwrap_or(EARLIEST),
    };
    Ok(match checked(offset)? {
        LATEST => None,
        offset => Some(offset.max(log.log_start_offset())),
    })
}

/// Finds the offset at which to end; `None` for the end of the files.
fn end_of(log: &ListedLog, options: &PlanOptions) -> Result<Option<Offset>> {
    let partition = &log.name().topic_partition;
    if let Some(timestamp) = Timestamp::of(options.ending_timestamp.as_ref(), partition) {
        let found = log.offset_for_timestamp(timestamp, false)?;
        return Ok(found.map(|found| found.offset));
    }
    let offset = match &options.ending_offsets {
        Ending::Latest => LATEST,
        Ending::HighWatermark => {
            return match log.high_watermark() {
                Some(offset) => Ok(Some(offset)),
                None if log.has_high_watermarks() => Ok(Some(0)),
                None => Err(Error::InvalidArgument(format!(
                    "{}: no high watermark, as the log dir above has no {}",
                    log.path().display(),
                    REPLICATION
                ))),
            };
        }
        Ending::Offset(offset) => *offset,
        Ending::Offsets(map) => map.get(partition).copied().unwrap_or(LATEST),
    };
    Ok(match checked(offset)? {
        LATEST => None,
        EARLIEST => Some(log.log_start_offset()),
        offset => Some(offset),
    })
}

/// Finds the offset at which to end, under `read_committed` no further than all transactions are decided; `None` for
/// the end of the files.
pub(crate) fn stable_end_of(
    log: &ListedLog,
    options: &PlanOptions,
    transactions: Option<&mut LogTransactions<'_>>,
) -> Result<Option<Offset>> {
    let end = end_of(log, options)?;
    let Some(transactions) = transactions else {
        return Ok(end);
    };
    let partition = &log.name().topic_partition;
    let by_time = Timestamp::of(options.ending_timestamp.as_ref(), partition).is_some();
    let is_high_watermark = !by_time && options.ending_offsets == Ending::HighWatermark;
    let stable = transactions.last_stable_offset(end.filter(|_| is_high_watermark))?;
    // It may lie below the log start, and nothing below that is requested.
    let stable = stable.max(log.log_start_offset());
    Ok(Some(end.map_or(stable, |end| end.min(stable))))
}

/// The transactions of a log, where they matter.
pub(crate) fn transactions_of<'a>(
    log: &'a ListedLog,
    options: &PlanOptions,
) -> Result<Option<LogTransactions<'a>>> {
    match options.isolation_level {
        IsolationLevel::ReadUncommitted => Ok(None),
        IsolationLevel::ReadCommitted => LogTransactions::of(log.whole()).map(Some),
    }
}
