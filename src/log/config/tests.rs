//! Names, bounds and messages of the settings.

use super::*;

fn text(error: &Error) -> String {
    error.to_string()
}

fn refused(name: &str, value: &str) -> String {
    text(&LogConfig::default().set(name, value).unwrap_err())
}

/// The messages are those of Kafka 4.3's `ConfigDef`.
#[test]
fn bounds_and_messages() {
    for (name, value, message) in [
        (
            "segment.bytes",
            "1048575",
            "Invalid value 1048575 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            "segment.bytes",
            "2147483648",
            "Invalid value 2147483648 for configuration segment.bytes: Not a number of type INT",
        ),
        (
            "segment_ms",
            "0",
            "Invalid value 0 for configuration segment_ms: Value must be at least 1",
        ),
        (
            "min.cleanable.dirty.ratio",
            "1.5",
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "compression.type",
            "zip",
            "Invalid value zip for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            "cleanup.policy",
            "compact,",
            "Configuration 'cleanup.policy' values must not be empty.",
        ),
        (
            "cleanup.policy",
            "purge",
            "Invalid value purge for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "segment.size",
            "1",
            "Unknown topic config name: segment.size",
        ),
    ] {
        assert_eq!(refused(name, value), message);
    }
    for (name, least) in [
        ("segment.index.bytes", 4),
        ("index.interval.bytes", 0),
        ("flush.messages", 1),
        ("flush.ms", 0),
        ("retention.ms", -1),
        ("max.message.bytes", 0),
        ("delete.retention.ms", 0),
        ("min.compaction.lag.ms", 0),
        ("max.compaction.lag.ms", 1),
        ("file.delete.delay.ms", 0),
        ("message.timestamp.before.max.ms", 0),
        ("message.timestamp.after.max.ms", 0),
        ("min.insync.replicas", 1),
        ("local.retention.ms", -2),
        ("local.retention.bytes", -2),
        ("segment.jitter.ms", 0),
        ("compression.lz4.level", 1),
        ("compression.zstd.level", -131_072),
    ] {
        let mut config = LogConfig::default();
        config.set(name, &i64::from(least).to_string()).unwrap();
        assert!(refused(name, &(least - 1).to_string()).contains("at least"));
    }
}

#[test]
fn every_name_can_be_set() {
    for &name in LogConfig::NAMES.iter().chain(&[INTERNAL_SEGMENT_BYTES]) {
        let value = match name {
            "internal.segment.bytes" | "segment.index.bytes" => "100",
            "min.insync.replicas" => "2",
            "cleanup.policy" => "compact, delete",
            "compression.type" => "zstd",
            "message.timestamp.type" => "LogAppendTime",
            "segment.bytes" => "1048576",
            "preallocate"
            | "unclean.leader.election.enable"
            | "remote.storage.enable"
            | "remote.log.copy.disable"
            | "remote.log.delete.on.disable" => "TRUE",
            "leader.replication.throttled.replicas" => "0:1,1:2",
            "follower.replication.throttled.replicas" => "*",
            _ => "1",
        };
        let mut config = LogConfig::default();
        config.set(name, value).unwrap();
        assert_ne!(config, LogConfig::default(), "{name}");
        let mut same = LogConfig::default();
        same.set(&name.replace('.', "_"), value).unwrap();
        assert_eq!(config, same);
    }
}

/// A default in Python's spelling as the text that the core takes.
fn python_value(text: &str) -> String {
    let number = |text: &str| text.replace('_', "").parse::<i64>();
    match text {
        "_INT64_MAX" => i64::MAX.to_string(),
        "True" | "False" => text.to_lowercase(),
        _ => match text.split_once(" << ") {
            Some((n, bits)) => (number(n).unwrap() << number(bits).unwrap()).to_string(),
            None => number(text).map_or(text.trim_matches('"').to_owned(), |n| n.to_string()),
        },
    }
}

#[test]
fn python_has_the_same_settings_and_defaults() {
    let fields = include_str!("../../../python/kafkalog/config.py").lines();
    let fields = fields.filter_map(|line| {
        let (name, default) = line.strip_prefix("    ")?.split_once(": ")?;
        let (kind, default) = default.split_once(" = ")?;
        let is_field = ["int", "bool", "str", "float"].contains(&kind);
        is_field.then(|| (name.replace('_', "."), python_value(default)))
    });
    let fields: Vec<_> = fields.collect();
    for (name, value) in &fields {
        let mut config = LogConfig::default();
        config.set(name, value).unwrap();
        assert_eq!(config, LogConfig::default(), "{name} = {value}");
    }
    let mut names: Vec<_> = fields.iter().map(|(name, _)| name.as_str()).collect();
    let mut ours = LogConfig::NAMES.to_vec();
    names.sort_unstable();
    ours.sort_unstable();
    assert_eq!(names, ours);
}

#[test]
fn the_leaders_rules() {
    let rules = LogConfig::default().leader_rules().unwrap();
    assert_eq!(rules, LeaderRules::default());
}

#[test]
fn settings_that_depend_on_each_other() {
    let pairs = [
        ("internal.segment.bytes", "100"),
        ("segment.bytes", "1048576"),
    ];
    assert_eq!(LogConfig::from_pairs(pairs).unwrap().segment_bytes, 100);
    let lags = [
        ("min.compaction.lag.ms", "10"),
        ("max.compaction.lag.ms", "9"),
    ];
    assert_eq!(
        text(&LogConfig::from_pairs(lags).unwrap_err()),
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (9)"
    );
    let lagging = [
        ("cleanup.policy", "compact"),
        ("max.compaction.lag.ms", "9"),
    ];
    let config = LogConfig::from_pairs(lagging).unwrap();
    assert_eq!(
        (config.max_segment_ms(), config.cleanup_policy.delete),
        (9, false)
    );
    assert_eq!(config.segment_jitter(u64::MAX), 0);
    let jitter = LogConfig::from_pairs([("segment.jitter.ms", "10")]).unwrap();
    let drawn = |n: u64| jitter.segment_jitter((n * 977) << 33);
    assert!((0..1000).all(|n| (0..10).contains(&drawn(n))));
    assert!((0..1000).any(|n| drawn(n) == 9));
    let years = [
        ("segment.ms", "63072000000"),
        ("segment.jitter.ms", "31536000000"),
    ];
    let years = LogConfig::from_pairs(years).unwrap();
    assert_eq!(years.segment_jitter(u64::MAX), i64::from(i32::MAX));
}
