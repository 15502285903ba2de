//! What is not shown unless it is asked for: the salts and keys of SCRAM users, and the values of sensitive configurations.
//!
//! A configuration is sensitive if Kafka's type for it is `PASSWORD` (its name may follow a listener's prefix,
//! `listener.name.internal.ssl.key.password`), or if it is one of a plugin's whose name says so.
//! Sources: `MetadataNodeRedactionCriteria`, `SslConfigs`, `SaslConfigs`, `KafkaConfig`.

use super::value::Fields;

/// Names of type `PASSWORD`, as they are or behind a prefix.
const PASSWORDS: [&str; 12] = [
    "delegation.token.master.key",
    "delegation.token.secret.key",
    "password.encoder.old.secret",
    "password.encoder.secret",
    "sasl.jaas.config",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.truststore.certificates",
];
/// What the names of other secrets have in them.
const WORDS: [&str; 8] = [
    "access.key",
    "account.key",
    "credential",
    "passphrase",
    "password",
    "private.key",
    "secret",
    "token.value",
];

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

/// Whether the value of this configuration is a secret.
fn is_sensitive(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_password = |password: &str| {
        name.strip_suffix(password)
            .is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'))
    };
    PASSWORDS.into_iter().any(is_password) || WORDS.into_iter().any(|word| name.contains(word))
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
            "rsm.config.s3.Secret.access.key",
        ] {
            assert!(is_sensitive(name), "{name}");
        }
        for name in [
            "cleanup.policy",
            "ssl.keystore.location",
            "ssl.keymanager.algorithm",
            "delegation.token.max.lifetime.ms",
            "sasl.mechanism.inter.broker.protocol",
        ] {
            assert!(!is_sensitive(name), "{name}");
        }
    }
}
