//! A topic's rules for the records that a leader appends (`LogValidator`).

use crate::compress::Codec;
use crate::error::{Error, Refusal};
use crate::types::{NO_TIMESTAMP, TimestampMs, TimestampType, wrong_unit};

/// A topic's settings that decide what a leader takes, and what it makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderRules {
    /// `compression.type` and its level; `None` for `producer`.
    pub codec: Option<Codec>,
    /// `cleanup.policy` names `compact`: records need keys.
    pub compact: bool,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
}

impl LeaderRules {
    /// Names the first setting in which rules that batches were encoded by differ.
    pub(crate) fn difference(&self, found: &Self) -> String {
        let settings = |rules: &Self| {
            let codec = rules.codec.map(Codec::compression);
            [
                codec.map_or_else(|| "producer".to_owned(), |codec| codec.to_string()),
                format!("{:?}", rules.timestamp_type),
                rules.compact.to_string(),
                rules.timestamp_before_max_ms.to_string(),
                rules.timestamp_after_max_ms.to_string(),
            ]
        };
        let names = [
            "compression.type",
            "message.timestamp.type",
            "compaction",
            "message.timestamp.before.max.ms",
            "message.timestamp.after.max.ms",
        ];
        let mut all = names
            .iter()
            .zip(settings(self).into_iter().zip(settings(found)));
        let differs = all.find(|(_, (expected, found))| expected != found);
        differs.map_or_else(
            || "compression level".to_owned(),
            |(name, (expected, found))| format!("{name}: expected {expected}, found {found}"),
        )
    }
}

/// Kafka's defaults.
impl Default for LeaderRules {
    fn default() -> Self {
        Self {
            codec: None,
            compact: false,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 60 * 60 * 1000,
        }
    }
}

impl LeaderRules {
    /// Returns the rules for a follower, which accepts all records: it requires no keys, checks no clock, and leaves
    /// timestamps unchanged (`UnifiedLog.appendAsFollower`); only batches that it encodes itself are compressed by the
    /// topic's setting.
    #[must_use]
    pub fn of_follower(self) -> Self {
        Self {
            codec: self.codec,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
            ..Self::default()
        }
    }

    /// Returns whether a record's timestamp is in bounds (`LogValidator.validateTimestamp`); none at all always is, and
    /// under LogAppendTime every one.
    #[inline]
    #[must_use]
    pub const fn takes_timestamp(&self, timestamp: TimestampMs, now_ms: TimestampMs) -> bool {
        // As in Java the difference wraps.
        let after = now_ms.wrapping_sub(timestamp);
        !matches!(self.timestamp_type, TimestampType::CreateTime)
            || timestamp == NO_TIMESTAMP
            || (after <= self.timestamp_before_max_ms
                && after.wrapping_neg() <= self.timestamp_after_max_ms)
    }

    /// The timestamps in bounds, for a message.
    fn bounds(&self, now_ms: TimestampMs) -> (TimestampMs, TimestampMs) {
        (
            now_ms.saturating_sub(self.timestamp_before_max_ms),
            now_ms.saturating_add(self.timestamp_after_max_ms),
        )
    }

    /// The refusal of `timestamp` in the record of this number.
    #[cold]
    #[must_use]
    pub fn timestamp_refused(
        &self,
        timestamp: TimestampMs,
        index: usize,
        now_ms: TimestampMs,
    ) -> Error {
        let (least, most) = self.bounds(now_ms);
        let (name, value) = if timestamp > most {
            ("after", self.timestamp_after_max_ms)
        } else {
            ("before", self.timestamp_before_max_ms)
        };
        let unit = wrong_unit(timestamp, now_ms);
        let unit = unit.map_or_else(String::new, |unit| format!(", which seems to be {unit}"));
        Error::refused(
            Refusal::InvalidTimestamp,
            format!(
                "timestamp: expected {least} to {most}, found {timestamp} in record {index}{unit}; \
                 message.timestamp.{name}.max.ms is {value}"
            ),
        )
    }

    /// The refusal of the record of this number, which has no key.
    #[cold]
    #[must_use]
    pub fn key_refused(index: usize) -> Error {
        Error::unplaced(
            "key",
            "one in each record, as the topic is compacted",
            format_args!("none in record {index}"),
        )
    }
}
