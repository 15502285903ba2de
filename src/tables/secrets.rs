//! Secrets that are hidden unless requested: the salts and keys of SCRAM users, and the values of sensitive
//! configurations.
//!
//! As for Kafka, a configuration that it does not know is sensitive: it may be a plugin's. `configs.txt` lists those that
//! it knows and that are no passwords, by `tests/interop/Configs.java`. A name may follow a listener's prefix
//! (`listener.name.internal.ssl.keystore.location`).
//! Sources: `MetadataNodeRedactionCriteria`, `KafkaConfigSchema.isSensitive`, `ListenerName.configPrefix`.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::value::Fields;

/// Prefix of a listener's own configurations.
const LISTENER_PREFIX: &str = "listener.name.";

static SHOWN: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let lines = include_str!("configs.txt").lines();
    lines.filter(|line| !line.starts_with('#')).collect()
});

/// The fields of a message that are not shown.
pub(super) fn hidden(message: &str, fields: Fields<'_>) -> &'static [&'static str] {
    match message {
        "UserScramCredentialRecord" => &["salt", "storedKey", "serverKey"],
        "ConfigRecord" if is_sensitive(&fields.get("name").text().unwrap_or_default()) => {
            &["value"]
        }
        _ => &[],
    }
}

/// Returns whether the value of this configuration is a secret.
fn is_sensitive(name: &str) -> bool {
    let of_listener = name.strip_prefix(LISTENER_PREFIX).unwrap_or_default();
    let mut suffixes = of_listener
        .match_indices('.')
        .filter_map(|(dot, _)| of_listener.get(dot.saturating_add(1)..));
    !SHOWN.contains(name) && !suffixes.any(|suffix| SHOWN.contains(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sensitive_configurations() {
        for name in [
            "ssl.key.password",
            "ssl.truststore.password",
            "listener.name.internal.scram-sha-256.sasl.jaas.config",
            "listener.name.internal.ssl.keystore.key",
            "rsm.config.chunk.size",
            "no.such.name",
            "",
        ] {
            assert!(is_sensitive(name), "{name}");
        }
        for name in [
            "cleanup.policy",
            "ssl.keystore.location",
            "listener.name.internal.ssl.keystore.location",
            "delegation.token.max.lifetime.ms",
            "consumer.session.timeout.ms",
            "interval.ms",
        ] {
            assert!(!is_sensitive(name), "{name}");
        }
    }
}
