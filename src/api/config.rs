//! A topic's settings.

use crate::error::Result;
use crate::log::config;

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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogConfig(config::LogConfig);

impl LogConfig {
    /// Sets one setting. Takes Kafka's spelling (`segment.bytes`) and the one with underscores (`segment_bytes`).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for an unknown name or a value outside Kafka's bounds.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self> {
        self.0.set(name, value)?;
        Ok(self)
    }

    pub(super) fn into_inner(self) -> config::LogConfig {
        self.0
    }
}
