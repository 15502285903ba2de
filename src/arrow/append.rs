//! Appending in many pieces: Arrow rows as a leader, another log's batches as a follower.

use arrow_array::RecordBatch;
use serde::Serialize;

use crate::arrow::encode::{EncodeOptions, Encoder};
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::format::entry::index_room;
use crate::log::config::LogConfig;
use crate::scan::raw_batches::WholeBatches;
use crate::types::{NO_TIMESTAMP, Offset, TimestampMs, wrong_unit};
use crate::write::{AppendInfo, WritableLog};

/// About what a follower appends at once: a system call costs more than copying 16 KB.
const GROUP: usize = 256 << 10;
/// A follower appends at most this part of a segment at once, so that segments are filled.
const GROUPS_IN_A_SEGMENT: usize = 16;

/// The sum of several appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Appended {
    /// Offset of the first record; -1 for none.
    pub first_offset: Offset,
    /// Offset of the last record; -1 for none.
    pub last_offset: Offset,
    /// Records.
    pub records: u64,
    /// Kafka's batches.
    pub batches: u64,
    /// Bytes of the log.
    pub bytes: u64,
    /// Segments begun.
    pub rolled: u64,
    /// The largest timestamp; -1 for none.
    pub max_timestamp: TimestampMs,
    /// Batches that were in the log already.
    pub duplicates: u64,
    /// The unit that timestamps seem to be in, if it is not milliseconds: `seconds`, `microseconds`, `nanoseconds`.
    pub seeming_unit: Option<&'static str>,
}

impl Default for Appended {
    fn default() -> Self {
        Self {
            first_offset: -1,
            last_offset: -1,
            records: 0,
            batches: 0,
            bytes: 0,
            rolled: 0,
            max_timestamp: NO_TIMESTAMP,
            duplicates: 0,
            seeming_unit: None,
        }
    }
}

impl Appended {
    fn add(&mut self, info: &AppendInfo, now_ms: TimestampMs) {
        if info.is_duplicate {
            self.duplicates = self.duplicates.saturating_add(info.batches);
            return;
        }
        if info.size == 0 {
            return;
        }
        if self.batches == 0 {
            self.first_offset = info.first_offset;
        }
        self.last_offset = info.last_offset;
        self.records = self.records.saturating_add(info.records);
        self.batches = self.batches.saturating_add(info.batches);
        self.bytes = self.bytes.saturating_add(info.size);
        self.rolled = self.rolled.saturating_add(u64::from(info.rolled.is_some()));
        self.max_timestamp = self.max_timestamp.max(info.max_timestamp);
        let seeming = || wrong_unit(info.max_timestamp, now_ms);
        self.seeming_unit = self.seeming_unit.or_else(seeming);
    }
}

/// Options by which rows become batches of this log.
///
/// # Errors
/// `InvalidArgument` for a codec's level out of bounds.
pub fn encode_options(
    log: &WritableLog,
    batch_size: usize,
    keeps_offsets: bool,
    ignore_extra: bool,
) -> Result<EncodeOptions> {
    Ok(EncodeOptions {
        rules: log.config().encode_rules(keeps_offsets)?,
        batch_size,
        max_message_bytes: usize::try_from(log.config().max_message_bytes).unwrap_or_default(),
        ignore_extra,
        keeps_offsets,
    })
}

/// Appends rows, each batch as if alone. `done` counts what is in the log, even if an error ends this.
///
/// # Errors
/// As [`Encoder::rows`], its batches and [`WritableLog::append_encoded`].
pub fn append_rows(
    log: &mut WritableLog,
    encoder: &mut Encoder,
    rows: &RecordBatch,
    leader_epoch: i32,
    now_ms: TimestampMs,
    done: &mut Appended,
) -> Result<()> {
    let mut rows = encoder.rows(rows)?;
    while let Some(mut batches) = rows.next_batches(now_ms, log.left_to_write())? {
        loop {
            let info = log.append_encoded(&mut batches, leader_epoch, now_ms)?;
            log.update_high_watermark(log.log_end_offset())?;
            done.add(&info, now_ms);
            if batches.is_empty() || batches.begun() > 0 {
                break;
            }
        }
    }
    Ok(())
}

/// Bytes to append at once: a single batch if an index can be full before its segment, as that is checked only before an
/// append (`LogSegment.shouldRoll`).
fn group_size(config: &LogConfig) -> usize {
    let number = |setting: i32| usize::try_from(setting).unwrap_or_default();
    let segment = number(config.segment_bytes);
    let entries = index_room(config.segment_index_bytes);
    if entries.saturating_mul(number(config.index_interval_bytes)) < segment {
        0
    } else {
        GROUP.min(segment / GROUPS_IN_A_SEGMENT)
    }
}

/// Appends whole batches. An empty log begins where the source does.
///
/// # Errors
/// Those of the source, and of [`WritableLog::append_as_follower`]. `InvalidArgument` for batches of a leader epoch below
/// the log's latest: Kafka's follower takes them, but nothing tells them from a flipped bit when they are read.
pub(crate) fn append_whole(
    log: &mut WritableLog,
    source: &mut WholeBatches,
    mut now_ms: impl FnMut() -> Result<TimestampMs>,
    done: &mut Appended,
) -> Result<()> {
    let most = group_size(log.config());
    let start_offset = source.start_offset();
    let is_empty = log.segments().iter().all(|segment| segment.size == 0);
    if is_empty && start_offset > log.log_end_offset() {
        log.truncate_fully_and_start_at(start_offset, None, now_ms()?)?;
    }
    let mut is_first = is_empty;
    while let Some(group) = source.next_group(most)? {
        let now_ms = now_ms()?;
        let end = log.log_end_offset();
        if is_first
            && group.base_offset < end
            && BatchHeader::as_it_stands(group.bytes).is_some_and(|h| h.last_offset() >= end)
        {
            // The batch that holds the first offset begins below it (`Partition.appendRecordsToFollowerOrFutureReplica`).
            log.truncate_fully_and_start_at(group.base_offset, Some(start_offset), now_ms)?;
        }
        is_first = false;
        // Within a source they do not fall, and between segments they may.
        if log.active_segment().size() > 0
            && let (Some(first), Some(latest)) = (
                BatchHeader::as_it_stands(group.bytes),
                log.epochs().latest(),
            )
            && first.base_offset >= log.log_end_offset()
            && (0..latest.epoch).contains(&first.partition_leader_epoch)
        {
            return Err(Error::InvalidArgument(format!(
                "the batch at offset {} is of leader epoch {}, below the log's latest, {}",
                first.base_offset, first.partition_leader_epoch, latest.epoch
            )));
        }
        let info = log
            .append_as_follower(group.bytes, i32::MAX, now_ms)
            .map_err(|error| source.locate(error))?;
        log.update_high_watermark(log.log_end_offset())?;
        done.add(&info, now_ms);
    }
    Ok(())
}
