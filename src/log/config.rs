//! A topic's settings, by Kafka's names, defaults, bounds and messages (`LogConfig`, `TopicConfig`, `ConfigDef`, 4.3).
//!
//! Values come as text, as in Kafka's own configuration files; [`LogConfig::set`] takes Kafka's spelling
//! (`segment.bytes`) and Python's (`segment_bytes`). Settings that say nothing about files (quotas, tiered storage,
//! elections) are kept and checked all the same, so that a topic's whole configuration can be passed on.

use std::fmt::Display;
use std::str::FromStr;

use crate::compress::Codec;
use crate::error::{Error, Result};
use crate::records::validate::LeaderRules;
use crate::types::{Compression, TimestampType};

/// `compression.type`: what batches are stored with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrokerCompression {
    /// With what the producer chose.
    #[default]
    Producer,
    /// With this, whatever the producer chose.
    Fixed(Compression),
}

impl BrokerCompression {
    const NAMES: [&'static str; 6] = ["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];

    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "producer" => Self::Producer,
            "uncompressed" => Self::Fixed(Compression::None),
            "gzip" => Self::Fixed(Compression::Gzip),
            "snappy" => Self::Fixed(Compression::Snappy),
            "lz4" => Self::Fixed(Compression::Lz4),
            "zstd" => Self::Fixed(Compression::Zstd),
            _ => return None,
        })
    }

    /// Kafka's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Fixed(Compression::None) => "uncompressed",
            Self::Fixed(codec) => codec.name(),
        }
    }

    /// What a batch that came with `source` is stored with (`BrokerCompressionType.targetCompression`).
    #[must_use]
    pub const fn target(self, source: Compression) -> Compression {
        match self {
            Self::Producer => source,
            Self::Fixed(codec) => codec,
        }
    }
}

/// A topic's settings. What is not set has Kafka's default.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "Kafka's settings are what they are"
)]
pub struct LogConfig {
    /// `segment.bytes`: the most a `.log` may hold. Kafka's bound of 1 MiB holds for [`LogConfig::set`]; its tests
    /// go below by `internal.segment.bytes`, which is taken here too.
    pub segment_bytes: i32,
    /// `segment.ms`: age at which a segment is rolled.
    pub segment_ms: i64,
    /// `segment.jitter.ms`: how much earlier than that at most, by chance.
    pub segment_jitter_ms: i64,
    /// `segment.index.bytes`: length of the indexes of the active segment.
    pub segment_index_bytes: i32,
    /// `index.interval.bytes`: bytes between index entries.
    pub index_interval_bytes: i32,
    /// `flush.messages`: records after which the log is brought to the disk.
    pub flush_messages: i64,
    /// `flush.ms`: time after which the log is brought to the disk.
    pub flush_ms: i64,
    /// `retention.bytes`: the partition's size above which old segments go; -1 for any.
    pub retention_bytes: i64,
    /// `retention.ms`: age at which segments go; -1 for never.
    pub retention_ms: i64,
    /// `max.message.bytes`: the largest batch a leader takes.
    pub max_message_bytes: i32,
    /// `delete.retention.ms`: how long tombstones outlive a compaction.
    pub delete_retention_ms: i64,
    /// `min.compaction.lag.ms`: age below which a record is not compacted.
    pub min_compaction_lag_ms: i64,
    /// `max.compaction.lag.ms`: age above which a record is compacted whatever the ratio.
    pub max_compaction_lag_ms: i64,
    /// `min.cleanable.dirty.ratio`: share of uncompacted bytes above which a log is compacted.
    pub min_cleanable_dirty_ratio: f64,
    /// `file.delete.delay.ms`: how long deleted files stay under another name.
    pub file_delete_delay_ms: i64,
    /// `cleanup.policy` names `compact`.
    pub compact: bool,
    /// `cleanup.policy` names `delete`.
    pub delete: bool,
    /// `compression.type`.
    pub compression_type: BrokerCompression,
    /// `compression.gzip.level`.
    pub compression_gzip_level: i32,
    /// `compression.lz4.level`.
    pub compression_lz4_level: i32,
    /// `compression.zstd.level`.
    pub compression_zstd_level: i32,
    /// `preallocate`: give a new `.log` its full length at once.
    pub preallocate: bool,
    /// `message.timestamp.type`.
    pub message_timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far a timestamp may lie behind the clock.
    pub message_timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far ahead of it.
    pub message_timestamp_after_max_ms: i64,
    /// `unclean.leader.election.enable`.
    pub unclean_leader_election_enable: bool,
    /// `min.insync.replicas`.
    pub min_insync_replicas: i32,
    /// `leader.replication.throttled.replicas`.
    pub leader_replication_throttled_replicas: Vec<String>,
    /// `follower.replication.throttled.replicas`.
    pub follower_replication_throttled_replicas: Vec<String>,
    /// `remote.storage.enable`.
    pub remote_storage_enable: bool,
    /// `remote.log.copy.disable`.
    pub remote_log_copy_disable: bool,
    /// `remote.log.delete.on.disable`.
    pub remote_log_delete_on_disable: bool,
    /// `local.retention.ms`; -2 for as `retention.ms`.
    pub local_retention_ms: i64,
    /// `local.retention.bytes`; -2 for as `retention.bytes`.
    pub local_retention_bytes: i64,
}

const MINUTE_MS: i64 = 60 * 1000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Kafka's bound for `segment.bytes` since 4.1.
const MIN_SEGMENT_BYTES: i32 = 1 << 20;

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * DAY_MS,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            retention_bytes: -1,
            retention_ms: 7 * DAY_MS,
            // One MiB and LOG_OVERHEAD.
            max_message_bytes: (1 << 20) + 12,
            delete_retention_ms: DAY_MS,
            min_compaction_lag_ms: 0,
            max_compaction_lag_ms: i64::MAX,
            min_cleanable_dirty_ratio: 0.5,
            file_delete_delay_ms: MINUTE_MS,
            compact: false,
            delete: true,
            compression_type: BrokerCompression::Producer,
            compression_gzip_level: -1,
            compression_lz4_level: 9,
            compression_zstd_level: 3,
            preallocate: false,
            message_timestamp_type: TimestampType::CreateTime,
            message_timestamp_before_max_ms: i64::MAX,
            message_timestamp_after_max_ms: HOUR_MS,
            unclean_leader_election_enable: false,
            min_insync_replicas: 1,
            leader_replication_throttled_replicas: Vec::new(),
            follower_replication_throttled_replicas: Vec::new(),
            remote_storage_enable: false,
            remote_log_copy_disable: false,
            remote_log_delete_on_disable: false,
            local_retention_ms: -2,
            local_retention_bytes: -2,
        }
    }
}

/// `ConfigException`'s words.
fn bad(name: &str, value: impl Display, why: impl Display) -> Error {
    Error::InvalidArgument(format!(
        "Invalid value {value} for configuration {name}: {why}"
    ))
}

fn number<T: FromStr>(name: &str, value: &str, kind: &str) -> Result<T> {
    let trimmed = value.trim();
    trimmed
        .parse()
        .map_err(|_| bad(name, value, format_args!("Not a number of type {kind}")))
}

fn between<T: PartialOrd + Display>(
    name: &str,
    value: T,
    least: Option<T>,
    most: Option<T>,
) -> Result<T> {
    match (least, most) {
        (Some(least), _) if value < least => {
            Err(bad(name, value, format!("Value must be at least {least}")))
        }
        (_, Some(most)) if value > most => Err(bad(
            name,
            value,
            format!("Value must be no more than {most}"),
        )),
        _ => Ok(value),
    }
}

fn int(name: &str, value: &str, least: i32, most: i32) -> Result<i32> {
    let value = number(name, value, "INT")?;
    between(name, value, Some(least), Some(most))
}

fn long(name: &str, value: &str, least: i64) -> Result<i64> {
    between(name, number(name, value, "LONG")?, Some(least), None)
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

/// A comma separated list as Kafka splits it; an empty one has no elements, not an empty one.
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
    /// Kafka's names of all settings, sorted.
    pub const NAMES: [&'static str; 34] = [
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
        "internal.segment.bytes",
    ];

    /// Kafka's defaults with these set, checked together.
    ///
    /// # Errors
    /// As [`LogConfig::set`] and [`LogConfig::validate`].
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self> {
        let mut config = Self::default();
        let mut internal = None;
        for (name, value) in pairs {
            // It wins over `segment.bytes` in whatever order they come.
            if matches!(name, "internal.segment.bytes" | "internal_segment_bytes") {
                internal = Some(value);
            } else {
                config.set(name, value)?;
            }
        }
        if let Some(value) = internal {
            config.set("internal.segment.bytes", value)?;
        }
        config.validate()?;
        Ok(config)
    }

    /// Sets one by Kafka's name, or by Python's.
    ///
    /// # Errors
    /// `InvalidArgument` with Kafka's words for an unknown name, text that is no number, or a value out of bounds.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        const ALL: i32 = i32::MAX;
        let spelled = name.replace('_', ".");
        match spelled.as_str() {
            "segment.bytes" => self.segment_bytes = int(name, value, MIN_SEGMENT_BYTES, ALL)?,
            "internal.segment.bytes" => self.segment_bytes = number(name, value, "INT")?,
            "segment.ms" => self.segment_ms = long(name, value, 1)?,
            "segment.jitter.ms" => self.segment_jitter_ms = long(name, value, 0)?,
            "segment.index.bytes" => self.segment_index_bytes = int(name, value, 4, ALL)?,
            "index.interval.bytes" => self.index_interval_bytes = int(name, value, 0, ALL)?,
            "flush.messages" => self.flush_messages = long(name, value, 1)?,
            "flush.ms" => self.flush_ms = long(name, value, 0)?,
            "retention.bytes" => self.retention_bytes = number(name, value, "LONG")?,
            "retention.ms" => self.retention_ms = long(name, value, -1)?,
            "max.message.bytes" => self.max_message_bytes = int(name, value, 0, ALL)?,
            "delete.retention.ms" => self.delete_retention_ms = long(name, value, 0)?,
            "min.compaction.lag.ms" => self.min_compaction_lag_ms = long(name, value, 0)?,
            "max.compaction.lag.ms" => self.max_compaction_lag_ms = long(name, value, 1)?,
            "min.cleanable.dirty.ratio" => {
                let ratio: f64 = number(name, value, "DOUBLE")?;
                self.min_cleanable_dirty_ratio = between(name, ratio, Some(0.0), Some(1.0))?;
            }
            "file.delete.delay.ms" => self.file_delete_delay_ms = long(name, value, 0)?,
            "cleanup.policy" => self.set_cleanup_policy(name, value)?,
            "compression.type" => {
                self.compression_type =
                    BrokerCompression::from_name(value.trim()).ok_or_else(|| {
                        let names = BrokerCompression::NAMES.join(", ");
                        bad(name, value, format!("String must be one of: {names}"))
                    })?;
            }
            "compression.gzip.level" => {
                let level: i32 = number(name, value, "INT")?;
                if level != -1 && !(1..=9).contains(&level) {
                    let why = "Value must be between 1 and 9 or equal to -1";
                    return Err(bad(name, level, why));
                }
                self.compression_gzip_level = level;
            }
            "compression.lz4.level" => self.compression_lz4_level = int(name, value, 1, 17)?,
            "compression.zstd.level" => {
                self.compression_zstd_level = int(name, value, -131_072, 22)?;
            }
            "preallocate" => self.preallocate = boolean(name, value)?,
            "message.timestamp.type" => {
                self.message_timestamp_type = match value.trim() {
                    "CreateTime" => TimestampType::CreateTime,
                    "LogAppendTime" => TimestampType::LogAppendTime,
                    _ => {
                        let why = "String must be one of: CreateTime, LogAppendTime";
                        return Err(bad(name, value, why));
                    }
                };
            }
            "message.timestamp.before.max.ms" => {
                self.message_timestamp_before_max_ms = long(name, value, 0)?;
            }
            "message.timestamp.after.max.ms" => {
                self.message_timestamp_after_max_ms = long(name, value, 0)?;
            }
            "unclean.leader.election.enable" => {
                self.unclean_leader_election_enable = boolean(name, value)?;
            }
            "min.insync.replicas" => self.min_insync_replicas = int(name, value, 1, ALL)?,
            "leader.replication.throttled.replicas" => {
                self.leader_replication_throttled_replicas = throttled(name, value)?;
            }
            "follower.replication.throttled.replicas" => {
                self.follower_replication_throttled_replicas = throttled(name, value)?;
            }
            "remote.storage.enable" => self.remote_storage_enable = boolean(name, value)?,
            "remote.log.copy.disable" => self.remote_log_copy_disable = boolean(name, value)?,
            "remote.log.delete.on.disable" => {
                self.remote_log_delete_on_disable = boolean(name, value)?;
            }
            "local.retention.ms" => self.local_retention_ms = long(name, value, -2)?,
            "local.retention.bytes" => self.local_retention_bytes = long(name, value, -2)?,
            _ => {
                let text = format!("Unknown topic config name: {name}");
                return Err(Error::InvalidArgument(text));
            }
        }
        Ok(())
    }

    fn set_cleanup_policy(&mut self, name: &str, value: &str) -> Result<()> {
        let policies = list(value);
        for policy in &policies {
            match policy.as_str() {
                "compact" | "delete" => {}
                "" => {
                    let text = format!("Configuration '{name}' values must not be empty.");
                    return Err(Error::InvalidArgument(text));
                }
                other => {
                    let why = "String must be one of: compact, delete";
                    return Err(bad(name, other, why));
                }
            }
        }
        // Twice is once (`ConfigDef.parseValue`).
        let has = |policy: &str| policies.iter().any(|p| p == policy);
        (self.compact, self.delete) = (has("compact"), has("delete"));
        Ok(())
    }

    /// What settings must not be together.
    ///
    /// # Errors
    /// `InvalidArgument` with Kafka's words.
    pub fn validate(&self) -> Result<()> {
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms {
            return Err(Error::InvalidArgument(format!(
                "conflict topic config setting min.compaction.lag.ms ({}) > max.compaction.lag.ms ({})",
                self.min_compaction_lag_ms, self.max_compaction_lag_ms
            )));
        }
        Ok(())
    }

    /// The age at which a segment is rolled: compacted topics must not wait longer than records may stay uncompacted.
    #[must_use]
    pub fn max_segment_ms(&self) -> i64 {
        if self.compact && self.max_compaction_lag_ms > 0 {
            self.max_compaction_lag_ms.min(self.segment_ms)
        } else {
            self.segment_ms
        }
    }

    /// The length a new `.log` gets at once.
    #[must_use]
    pub fn initial_file_size(&self) -> u64 {
        if self.preallocate {
            u64::try_from(self.segment_bytes).unwrap_or_default()
        } else {
            0
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

    /// What a leader takes, and what it makes of it.
    ///
    /// # Errors
    /// `InvalidArgument` for a level out of bounds.
    pub fn leader_rules(&self) -> Result<LeaderRules> {
        Ok(LeaderRules {
            codec: self.codec()?,
            compact: self.compact,
            timestamp_type: self.message_timestamp_type,
            timestamp_before_max_ms: self.message_timestamp_before_max_ms,
            timestamp_after_max_ms: self.message_timestamp_after_max_ms,
        })
    }

    /// What batches are encoded by: a leader's rules, or a follower's where they keep their offsets.
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

    /// The codec every batch is stored with; `None` where the producer's is kept.
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

    /// How much earlier a new segment is rolled than `segment.ms`, from any random number: `LogConfig.randomSegmentJitter`,
    /// which draws from 31 bits however large the setting is.
    #[must_use]
    pub fn segment_jitter(&self, random: u64) -> i64 {
        let most = self.segment_jitter_ms.min(self.segment_ms);
        let drawn = i64::try_from(random >> 33).unwrap_or_default();
        drawn.checked_rem(most).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
