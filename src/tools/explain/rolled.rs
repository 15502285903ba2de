//! Reasons why segments were ended (`LogSegment.shouldRoll`), as far as today's files and settings show: of the reasons
//! that held when the next segment's first batch came, the first one in Kafka's order.

use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::entry::relative_offset;
use crate::format::file_name::FileKind;
use crate::log::config::LogConfig;
use crate::log::listed::ListedLog;
use crate::segment::LogSegment;
use crate::segment::lookup::SegmentLookup;
use crate::types::Offset;

/// Bytes of an entry in the offset index, and in the time index.
const OFFSET_ENTRY: u64 = 8;
const TIME_ENTRY: u64 = 12;

/// The reason of each segment; `None` of the active one. `unknown` where none held: an administrator or a compaction
/// ended it, or the settings were others.
pub(super) fn reasons(
    log: &ListedLog,
    first: &[Option<BatchHeader>],
    config: &LogConfig,
) -> Vec<Option<&'static str>> {
    let segments = log.segments();
    let of = |(n, segment): (usize, &LogSegment)| {
        let after = n.saturating_add(1);
        if after >= segments.len() {
            return None;
        }
        let (own, next) = (first.get(n)?.as_ref(), first.get(after)?.as_ref());
        Some(next.map_or("unknown", |next| reason(segment, own, next, config)))
    };
    segments.iter().enumerate().map(of).collect()
}

/// The first batch of each segment; `None` of an empty one.
///
/// # Errors
/// `Io`, or a fault in the first header of a segment.
pub(super) fn first_batches(log: &ListedLog) -> Result<Vec<Option<BatchHeader>>> {
    log.segments().iter().map(first_batch).collect()
}

fn first_batch(segment: &LogSegment) -> Result<Option<BatchHeader>> {
    if segment.size == 0 {
        return Ok(None);
    }
    let found = SegmentLookup::open(segment)?.find(Offset::MIN)?;
    Ok(found.map(|(_, header)| header))
}

fn reason(
    segment: &LogSegment,
    first: Option<&BatchHeader>,
    next: &BatchHeader,
    config: &LogConfig,
) -> &'static str {
    let most = u64::try_from(config.segment_bytes).unwrap_or_default();
    if segment.size.saturating_add(next.size as u64) > most {
        return "size";
    }
    let lag = if config.cleanup_policy.compact {
        config.max_compaction_lag_ms
    } else {
        i64::MAX
    };
    // The jitter of a segment is drawn when it begins, and kept nowhere.
    let age = config.segment_ms.min(lag);
    let age = age.saturating_sub(config.segment_jitter_ms.min(age));
    let started = first.map(|first| first.max_timestamp).filter(|&t| t >= 0);
    if started.is_some_and(|started| next.max_timestamp.saturating_sub(started) > age) {
        return "time";
    }
    let index_bytes = u64::try_from(config.segment_index_bytes).unwrap_or_default();
    let room = |kind, entry: u64| {
        let taken = segment.size_of(kind).unwrap_or_default();
        let entries = |bytes: u64| bytes.checked_div(entry).unwrap_or_default();
        entries(index_bytes).saturating_sub(entries(taken))
    };
    // Kafka keeps one time entry for the end.
    if room(FileKind::OffsetIndex, OFFSET_ENTRY) == 0 || room(FileKind::TimeIndex, TIME_ENTRY) <= 1
    {
        return "index_full";
    }
    if relative_offset(segment.base_offset, next.last_offset()).is_none() {
        return "offset_overflow";
    }
    "unknown"
}
