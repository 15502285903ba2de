//! The rows as an Arrow table.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};

use super::{Hold, Pin, Retention, SegmentRow};
use crate::error::Result;
use crate::log::cleanable::CleanerBound;
use crate::log::retention::Rule;
use crate::tables::producers::{table as columns_of, times};
use crate::types::TimestampMs;

impl Retention {
    const fn name(self) -> &'static str {
        match self {
            Self::Deletable(_) => "deletable",
            Self::Waiting(..) => "waiting",
            Self::Kept(_) => "kept",
        }
    }

    const fn rule(self) -> Option<&'static str> {
        match self {
            Self::Deletable(rule) => Some(rule.name()),
            Self::Waiting(..) => Some(Rule::Time.name()),
            Self::Kept(_) => None,
        }
    }

    const fn hold(self) -> Option<Hold> {
        match self {
            Self::Deletable(_) => None,
            Self::Waiting(_, hold, _) | Self::Kept(hold) => Some(hold),
        }
    }

    const fn time(self, now_ms: TimestampMs) -> Option<TimestampMs> {
        match self {
            Self::Deletable(_) => Some(now_ms),
            Self::Waiting(time, _, _) => Some(time),
            Self::Kept(_) => None,
        }
    }
}

/// The rows, of an explanation at this time.
///
/// # Errors
/// `Internal`.
pub(crate) fn table(rows: &[SegmentRow], now_ms: TimestampMs) -> Result<RecordBatch> {
    let texts = |value: &dyn Fn(&SegmentRow) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<StringArray>())
    };
    let words = |value: &dyn Fn(&SegmentRow) -> Option<&'static str>| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<StringArray>())
    };
    let longs = |value: &dyn Fn(&SegmentRow) -> Option<i64>| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<Int64Array>())
    };
    let moments = |value: &dyn Fn(&SegmentRow) -> Option<TimestampMs>| {
        times(rows.iter().map(value).collect())
    };
    let size = |row: &SegmentRow| i64::try_from(row.age.size).ok();
    let free = |row: &SegmentRow| match row.retention {
        Retention::Deletable(_) => size(row),
        _ => Some(0),
    };
    let partitions = rows.iter().map(|row| row.topic_partition.partition);
    let active = rows.iter().map(|row| Some(row.is_active));
    let pin = |row: &SegmentRow| -> Option<Pin> { row.pin };
    let ratios = rows.iter().map(|row| {
        let ratio = row.cleaner?.dirtiness.ratio();
        ratio.is_finite().then_some(ratio)
    });
    let due = rows
        .iter()
        .map(|row| row.cleaner.map(|cleaner| cleaner.is_due));
    columns_of(vec![
        (
            "topic",
            texts(&|row| Some(row.topic_partition.topic.clone())),
        ),
        ("partition", Arc::new(partitions.collect::<Int32Array>())),
        ("segment", texts(&|row| Some(row.file_name.clone()))),
        ("baseOffset", longs(&|row| Some(row.age.base_offset))),
        ("size", longs(&size)),
        ("isActive", Arc::new(active.collect::<BooleanArray>())),
        (
            "largestTimestamp",
            moments(&|row| Some(row.age.largest_timestamp)),
        ),
        ("timestampSource", words(&|row| Some(row.source))),
        ("retention", words(&|row| Some(row.retention.name()))),
        ("retentionRule", words(&|row| row.retention.rule())),
        ("retentionTime", moments(&|row| row.retention.time(now_ms))),
        ("heldBy", words(&|row| row.retention.hold().map(Hold::name))),
        ("bytesFreeable", longs(&free)),
        (
            "compaction",
            words(&|row| row.compaction.map(|(word, _)| word)),
        ),
        (
            "compactionHeldBy",
            words(&|row| {
                row.compaction
                    .and_then(|(_, hold)| hold)
                    .map(CleanerBound::name)
            }),
        ),
        ("dirtyRatio", Arc::new(ratios.collect::<Float64Array>())),
        ("compactionDue", Arc::new(due.collect::<BooleanArray>())),
        (
            "compactedTo",
            longs(&|row| row.cleaner.and_then(|cleaner| cleaner.cleaned)),
        ),
        ("pinReason", words(&|row| pin(row).map(|pin| pin.reason))),
        ("pinOffset", longs(&|row| pin(row).map(|pin| pin.offset))),
        (
            "pinTimestamp",
            moments(&|row| pin(row).and_then(|pin| pin.timestamp)),
        ),
        (
            "pinProducerId",
            longs(&|row| pin(row).and_then(|pin| pin.producer_id)),
        ),
        ("rolledBy", words(&|row| row.rolled_by)),
    ])
}
