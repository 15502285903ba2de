//! Selection of the segments that retention deletes (`UnifiedLog.deleteOldSegments`).
//!
//! | rule | a segment is deleted while | needs `delete` in `cleanup.policy` |
//! |---|---|---|
//! | log start | the next segment begins at or below the log start offset | no |
//! | size | the log keeps `retention.bytes` without it | yes |
//! | time | its largest timestamp is more than `retention.ms` ago | yes |
//!
//! The rules come in this order, each over what the one before left, from the oldest segment on. Each stops at the
//! first segment that does not qualify, that reaches beyond the high watermark, or that is the last one and empty. So a
//! single young segment keeps all those after it.

use serde::Serialize;

use super::config::LogConfig;
use crate::types::{Offset, TimestampMs};

/// Properties of a segment that retention examines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentAge {
    /// The offset it is named by.
    pub base_offset: Offset,
    /// Bytes of its `.log`.
    pub size: u64,
    /// Its largest timestamp: the last time entry's, or the modification time of the `.log` where there is none
    /// (`LogSegment.largestTimestamp`).
    pub largest_timestamp: TimestampMs,
    /// True if that is the modification time.
    #[serde(rename = "from_mtime")]
    pub is_from_mtime: bool,
}

/// Start and end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetainedLog {
    /// First offset that may be read.
    pub log_start_offset: Offset,
    /// Nothing above it is deleted: it may not be replicated.
    pub high_watermark: Offset,
    /// The next offset to be written.
    pub log_end_offset: Offset,
}

/// Rule by which a segment is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It ends before the log start offset.
    LogStart,
    /// `retention.bytes`.
    Size,
    /// `retention.ms`.
    Time,
}

impl Rule {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LogStart => "log_start",
            Self::Size => "size",
            Self::Time => "time",
        }
    }
}

/// The rules by which the first segments go, one for each of them. Where all go, an empty one takes their place.
#[must_use]
pub(crate) fn expired(
    segments: &[SegmentAge],
    config: &LogConfig,
    log: &RetainedLog,
    now_ms: TimestampMs,
) -> Vec<Rule> {
    let mut sweep = Sweep {
        segments,
        log,
        gone: Vec::new(),
    };
    sweep.delete(Rule::LogStart, |_, next| {
        next.is_some_and(|next| next.base_offset <= log.log_start_offset)
    });
    if !config.cleanup_policy.delete {
        return sweep.gone;
    }
    if let Ok(limit) = u64::try_from(config.retention_bytes) {
        let total = sweep.left().map(|segment| segment.size);
        let total = total.fold(0u64, u64::saturating_add);
        // `None`: the log is smaller than the limit.
        let mut excess = total.checked_sub(limit);
        sweep.delete(Rule::Size, |segment, _| {
            let left = excess.and_then(|excess| excess.checked_sub(segment.size));
            excess = left.or(excess);
            left.is_some()
        });
    }
    if config.retention_ms >= 0 {
        sweep.delete(Rule::Time, |segment, _| {
            now_ms.saturating_sub(segment.largest_timestamp) > config.retention_ms
        });
    }
    sweep.gone
}

/// Segments from the oldest on.
struct Sweep<'a> {
    segments: &'a [SegmentAge],
    log: &'a RetainedLog,
    gone: Vec<Rule>,
}

impl Sweep<'_> {
    fn left(&self) -> impl Iterator<Item = &SegmentAge> {
        self.segments.iter().skip(self.gone.len())
    }

    /// Deletes while the rule says so (`UnifiedLog.deletableSegments`).
    fn delete(
        &mut self,
        rule: Rule,
        mut goes: impl FnMut(&SegmentAge, Option<&SegmentAge>) -> bool,
    ) {
        loop {
            let (at, segments) = (self.gone.len(), self.segments);
            let Some(segment) = segments.get(at) else {
                return;
            };
            let next = segments.get(at.saturating_add(1));
            let end = next.map_or(self.log.log_end_offset, |next| next.base_offset);
            let is_empty_last = next.is_none() && segment.size == 0;
            if self.log.high_watermark < end || !goes(segment, next) || is_empty_last {
                return;
            }
            self.gone.push(rule);
        }
    }
}
