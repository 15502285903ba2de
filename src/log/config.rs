//! A topic's settings, with the names, defaults, bounds and messages of Kafka 4.3 (`LogConfig`, `TopicConfig`,
//! `ConfigDef`).
//!
//! One table (`settings!`) holds them all. Values come as text, as in Kafka's configuration files; [`LogConfig::set`]
//! takes Kafka's spelling (`segment.bytes`) and Python's (`segment_bytes`). Settings that do not concern files (quotas,
//! tiered storage, elections) are checked and kept too, so that a topic's whole configuration can be passed on.

use std::fmt::Display;
use std::str::FromStr;

use crate::compress::Codec;
use crate::error::{Error, Result};
use crate::records::validate::LeaderRules;
use crate::segment::entries::EntryOffset;
use crate::segment::writer::SegmentSettings;
use crate::types::{Compression, TimestampType};

/// `compression.type`: the codec of stored batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrokerCompression {
    /// The producer's choice.
    #[default]
    Producer,
    /// This codec, whatever the producer chose.
    Fixed(Compression),
}

impl BrokerCompression {
    /// In the order of Kafka's message.
    const ALL: [Self; 6] = [
        Self::Fixed(Compression::None),
        Self::Fixed(Compression::Zstd),
        Self::Fixed(Compression::Lz4),
        Self::Fixed(Compression::Snappy),
        Self::Fixed(Compression::Gzip),
        Self::Producer,
    ];

    /// Kafka's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Fixed(Compression::None) => "uncompressed",
            Self::Fixed(codec) => codec.name(),
        }
    }
}

/// `cleanup.policy`: what may remove old records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// The policy names `compact`.
    pub compact: bool,
    /// The policy names `delete`.
    pub delete: bool,
}

const MINUTE_MS: i64 = 60 * 1000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Kafka's bound for `segment.bytes` since 4.1.
const MIN_SEGMENT_BYTES: i32 = 1 << 20;
/// Kafka's name for `segment.bytes` without that bound, for tests. It wins over `segment.bytes`.
const INTERNAL_SEGMENT_BYTES: &str = "internal.segment.bytes";

/// Declares [`LogConfig`] from rows of name, field, type, default and parser.
macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:literal $field:ident: $type:ty = $default:expr, $parse:expr;)+) => {
        /// A topic's settings, by Kafka's names. Settings that are not given have the defaults of Kafka 4.3.
        ///
        /// ```
        /// # fn main() -> Result<(), kafkalog::Error> {
        /// let config = kafkalog::LogConfig::default()
        ///     .with("segment.bytes", "268435456")?
        ///     .with("compression.type", "zstd")?;
        /// # Ok(())
        /// # }
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        pub struct LogConfig {
            $(#[doc = concat!("`", $name, "`:")] $(#[doc = $doc])+ pub $field: $type,)+
        }

        impl Default for LogConfig {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl LogConfig {
            /// Kafka's names of all settings.
            #[cfg(test)]
            pub(super) const NAMES: &'static [&'static str] = &[$($name),+];

            /// Sets one setting, by Kafka's name or with underscores in place of the dots.
            ///
            /// # Errors
            /// `InvalidArgument` with Kafka's message for an unknown name, text that is not a number, or a value out of
            /// bounds.
            pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
                match name.replace('_', ".").as_str() {
                    $($name => self.$field = ($parse)(name, value)?,)+
                    INTERNAL_SEGMENT_BYTES => self.segment_bytes = any(name, value)?,
                    _ => {
                        let text = format!("Unknown topic config name: {name}");
                        return Err(Error::InvalidArgument(text));
                    }
                }
                Ok(())
            }
        }
    };
}

settings! {
    /// the largest size of a `.log`. Segments below Kafka's bound of 1 MiB need `internal.segment.bytes`.
    "segment.bytes" segment_bytes: i32 = 1 << 30, at_least(MIN_SEGMENT_BYTES);
    /// age at which a segment is rolled.
    "segment.ms" segment_ms: i64 = 7 * DAY_MS, at_least(1);
    /// the largest random amount by which a segment is rolled earlier than that.
    "segment.jitter.ms" segment_jitter_ms: i64 = 0, at_least(0);
    /// size of the active segment's indexes.
    "segment.index.bytes" segment_index_bytes: i32 = 10 << 20, at_least(4);
    /// bytes between index entries.
    "index.interval.bytes" index_interval_bytes: i32 = 4096, at_least(0);
    /// records after which the log is flushed.
    "flush.messages" flush_messages: i64 = i64::MAX, at_least(1);
    /// time after which the log is flushed.
    "flush.ms" flush_ms: i64 = i64::MAX, at_least(0);
    /// partition size above which old segments are deleted; -1 for no limit.
    "retention.bytes" retention_bytes: i64 = -1, any;
    /// age above which segments are deleted; -1 for no limit.
    "retention.ms" retention_ms: i64 = 7 * DAY_MS, at_least(-1);
    /// the largest batch a leader accepts. The default is 1 MiB and `LOG_OVERHEAD`.
    "max.message.bytes" max_message_bytes: i32 = (1 << 20) + 12, at_least(0);
    /// how long a compacted log keeps tombstones.
    "delete.retention.ms" delete_retention_ms: i64 = DAY_MS, at_least(0);
    /// age below which a record is not compacted.
    "min.compaction.lag.ms" min_compaction_lag_ms: i64 = 0, at_least(0);
    /// age above which a record is compacted whatever the dirty ratio is.
    "max.compaction.lag.ms" max_compaction_lag_ms: i64 = i64::MAX, at_least(1);
    /// share of uncompacted bytes above which a log is compacted.
    "min.cleanable.dirty.ratio" min_cleanable_dirty_ratio: f64 = 0.5, within(0.0, 1.0);
    /// how long renamed files stay before they are deleted.
    "file.delete.delay.ms" file_delete_delay_ms: i64 = MINUTE_MS, at_least(0);
    /// what may remove old records.
    "cleanup.policy" cleanup_policy: CleanupPolicy = CleanupPolicy { compact: false, delete: true }, cleanup_policy;
    /// the codec of stored batches.
    "compression.type" compression_type: BrokerCompression = BrokerCompression::Producer, compression_type;
    /// level of gzip; -1 for zlib's own default.
    "compression.gzip.level" compression_gzip_level: i32 = -1, gzip_level;
    /// level of lz4.
    "compression.lz4.level" compression_lz4_level: i32 = 9, within(1, 17);
    /// level of zstd.
    "compression.zstd.level" compression_zstd_level: i32 = 3, within(-131_072, 22);
    /// give a new `.log` its full size at once.
    "preallocate" preallocate: bool = false, boolean;
    /// who sets the timestamps of records.
    "message.timestamp.type" message_timestamp_type: TimestampType = TimestampType::CreateTime, timestamp_type;
    /// how far a timestamp may be before the clock.
    "message.timestamp.before.max.ms" message_timestamp_before_max_ms: i64 = i64::MAX, at_least(0);
    /// how far a timestamp may be after the clock.
    "message.timestamp.after.max.ms" message_timestamp_after_max_ms: i64 = HOUR_MS, at_least(0);
    /// kept; does not concern files.
    "unclean.leader.election.enable" unclean_leader_election_enable: bool = false, boolean;
    /// kept; does not concern files.
    "min.insync.replicas" min_insync_replicas: i32 = 1, at_least(1);
    /// kept; does not concern files.
    "leader.replication.throttled.replicas" leader_replication_throttled_replicas: Vec<String> = Vec::new(), throttled;
    /// kept; does not concern files.
    "follower.replication.throttled.replicas" follower_replication_throttled_replicas: Vec<String> = Vec::new(), throttled;
    /// kept; nothing is written to tiered storage.
    "remote.storage.enable" remote_storage_enable: bool = false, boolean;
    /// kept; nothing is written to tiered storage.
    "remote.log.copy.disable" remote_log_copy_disable: bool = false, boolean;
    /// kept; nothing is written to tiered storage.
    "remote.log.delete.on.disable" remote_log_delete_on_disable: bool = false, boolean;
    /// kept; -2 for the value of `retention.ms`.
    "local.retention.ms" local_retention_ms: i64 = -2, at_least(-2);
    /// kept; -2 for the value of `retention.bytes`.
    "local.retention.bytes" local_retention_bytes: i64 = -2, at_least(-2);
}

/// The message of Kafka's `ConfigException`.
fn bad(name: &str, value: impl Display, why: impl Display) -> Error {
    Error::InvalidArgument(format!(
        "Invalid value {value} for configuration {name}: {why}"
    ))
}

/// A number, by the name that Kafka's messages have for its type.
trait Number: FromStr + PartialOrd + Copy + Display {
    const KIND: &'static str;
}

impl Number for i32 {
    const KIND: &'static str = "INT";
}

impl Number for i64 {
    const KIND: &'static str = "LONG";
}

impl Number for f64 {
    const KIND: &'static str = "DOUBLE";
}

fn any<T: Number>(name: &str, value: &str) -> Result<T> {
    let number = value.trim().parse();
    number.map_err(|_| {
        bad(
            name,
            value,
            format_args!("Not a number of type {}", T::KIND),
        )
    })
}

fn at_least<T: Number>(least: T) -> impl Fn(&str, &str) -> Result<T> {
    move |name, value| match any(name, value)? {
        number if number < least => Err(bad(
            name,
            number,
            format_args!("Value must be at least {least}"),
        )),
        number => Ok(number),
    }
}

fn within<T: Number>(least: T, most: T) -> impl Fn(&str, &str) -> Result<T> {
    move |name, value| match at_least(least)(name, value)? {
        number if number > most => Err(bad(
            name,
            number,
            format_args!("Value must be no more than {most}"),
        )),
        number => Ok(number),
    }
}

fn gzip_level(name: &str, value: &str) -> Result<i32> {
    match any(name, value)? {
        level if level == -1 || (1..=9).contains(&level) => Ok(level),
        level => Err(bad(
            name,
            level,
            "Value must be between 1 and 9 or equal to -1",
        )),
    }
}

/// The one of `all` with this name.
fn one_of<T: Copy>(
    name: &str,
    value: &str,
    all: &[T],
    name_of: fn(T) -> &'static str,
) -> Result<T> {
    let trimmed = value.trim();
    let found = all.iter().copied().find(|&each| name_of(each) == trimmed);
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|&each| name_of(each)).collect();
        bad(
            name,
            value,
            format_args!("String must be one of: {}", names.join(", ")),
        )
    })
}

fn compression_type(name: &str, value: &str) -> Result<BrokerCompression> {
    one_of(
        name,
        value,
        &BrokerCompression::ALL,
        BrokerCompression::name,
    )
}

fn timestamp_type(name: &str, value: &str) -> Result<TimestampType> {
    let all = [TimestampType::CreateTime, TimestampType::LogAppendTime];
    one_of(name, value, &all, TimestampType::name)
}

fn cleanup_policy(name: &str, value: &str) -> Result<CleanupPolicy> {
    let policies = list(value);
    for policy in &policies {
        match policy.as_str() {
            "compact" | "delete" => {}
            "" => {
                let text = format!("Configuration '{name}' values must not be empty.");
                return Err(Error::InvalidArgument(text));
            }
            other => return Err(bad(name, other, "String must be one of: compact, delete")),
        }
    }
    // A policy may be named twice (`ConfigDef.parseValue`).
    let has = |policy: &str| policies.iter().any(|p| p == policy);
    Ok(CleanupPolicy {
        compact: has("compact"),
        delete: has("delete"),
    })
}

fn boolean(name: &str, value: &str) -> Result<bool> {
    match value.trim() {
        v if v.eq_ignore_ascii_case("true") => Ok(true),
        v if v.eq_ignore_ascii_case("false") => Ok(false),
        _ => Err(bad(
            name,
            value,
            "Expected value to be either true or false",
        )),
    }
}

/// A comma-separated list as Kafka splits it. Empty text is a list without elements.
fn list(value: &str) -> Vec<String> {
    let value = value.trim();
    if value.is_empty() {
        return Vec::new();
    }
    value.split(',').map(|s| s.trim().to_owned()).collect()
}

fn throttled(name: &str, value: &str) -> Result<Vec<String>> {
    let is_replica = |text: &String| {
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        text.is_empty()
            || text
                .split_once(':')
                .is_some_and(|(partition, broker)| digits(partition) && digits(broker))
    };
    let replicas = list(value);
    if replicas.iter().all(is_replica) || replicas.concat() == "*" {
        return Ok(replicas);
    }
    let why = format!(
        "{name} must be the literal '*' or a list of replicas in the following format: \
         [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    );
    Err(bad(name, value, why))
}

impl LogConfig {
    /// Sets one setting, as [`LogConfig::set`].
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an unknown name or a value outside Kafka's bounds.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self> {
        self.set(name, value)?;
        Ok(self)
    }

    /// Kafka's defaults with these settings, checked together.
    ///
    /// # Errors
    /// As [`LogConfig::set`] and [`LogConfig::validate`].
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let is_internal = |name: &str| name.replace('_', ".") == INTERNAL_SEGMENT_BYTES;
        let (last, first): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|(name, _)| is_internal(name));
        let mut config = Self::default();
        for (name, value) in first.into_iter().chain(last) {
            config.set(name, value)?;
        }
        config.validate()?;
        Ok(config)
    }

    /// Checks that the settings do not contradict each other.
    ///
    /// # Errors
    /// `InvalidArgument` with Kafka's message.
    pub fn validate(&self) -> Result<()> {
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms {
            return Err(Error::InvalidArgument(format!(
                "conflict topic config setting min.compaction.lag.ms ({}) > max.compaction.lag.ms ({})",
                self.min_compaction_lag_ms, self.max_compaction_lag_ms
            )));
        }
        Ok(())
    }

    /// The age at which a segment is rolled. In a compacted topic no record may stay uncompacted longer than
    /// `max.compaction.lag.ms`.
    #[must_use]
    pub fn max_segment_ms(&self) -> i64 {
        if self.cleanup_policy.compact && self.max_compaction_lag_ms > 0 {
            self.max_compaction_lag_ms.min(self.segment_ms)
        } else {
            self.segment_ms
        }
    }

    /// The size that a new `.log` is preallocated to.
    #[must_use]
    pub fn initial_file_size(&self) -> u64 {
        if self.preallocate {
            u64::try_from(self.segment_bytes).unwrap_or_default()
        } else {
            0
        }
    }

    /// The settings that a segment needs, without the random part of `segment.jitter.ms`.
    #[must_use]
    pub fn segment_settings(&self) -> SegmentSettings {
        SegmentSettings {
            max_index_size: usize::try_from(self.segment_index_bytes).unwrap_or_default(),
            index_interval_bytes: u64::try_from(self.index_interval_bytes).unwrap_or_default(),
            entry: EntryOffset::Last,
            roll_jitter_ms: 0,
            initial_length: self.initial_file_size(),
        }
    }

    /// The level for a codec, where it has levels.
    #[must_use]
    pub const fn compression_level(&self, codec: Compression) -> Option<i32> {
        match codec {
            Compression::Gzip => Some(self.compression_gzip_level),
            Compression::Lz4 => Some(self.compression_lz4_level),
            Compression::Zstd => Some(self.compression_zstd_level),
            Compression::None | Compression::Snappy => None,
        }
    }

    /// A leader's rules for batches.
    ///
    /// # Errors
    /// `InvalidArgument` for a level out of bounds.
    pub fn leader_rules(&self) -> Result<LeaderRules> {
        Ok(LeaderRules {
            codec: self.codec()?,
            compact: self.cleanup_policy.compact,
            timestamp_type: self.message_timestamp_type,
            timestamp_before_max_ms: self.message_timestamp_before_max_ms,
            timestamp_after_max_ms: self.message_timestamp_after_max_ms,
        })
    }

    /// The rules that batches are encoded by: a leader's, or a follower's where records keep their offsets.
    ///
    /// # Errors
    /// As [`LogConfig::leader_rules`].
    pub fn encode_rules(&self, keeps_offsets: bool) -> Result<LeaderRules> {
        let rules = self.leader_rules()?;
        Ok(if keeps_offsets {
            rules.of_follower()
        } else {
            rules
        })
    }

    /// The codec that every batch is stored with; `None` to keep the producer's.
    ///
    /// # Errors
    /// `InvalidArgument` for a level the codec does not have.
    pub fn codec(&self) -> Result<Option<Codec>> {
        match self.compression_type {
            BrokerCompression::Producer => Ok(None),
            BrokerCompression::Fixed(codec) => match self.compression_level(codec) {
                Some(level) => Codec::with_level(codec, level).map(Some),
                None => Ok(Some(Codec::new(codec))),
            },
        }
    }

    /// Milliseconds by which a new segment is rolled earlier than `segment.ms`, from a random number
    /// (`LogConfig.randomSegmentJitter`, which uses 31 bits however large the setting is).
    #[must_use]
    pub fn segment_jitter(&self, random: u64) -> i64 {
        let most = self.segment_jitter_ms.min(self.segment_ms);
        let drawn = i64::try_from(random >> 33).unwrap_or_default();
        drawn.checked_rem(most).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
