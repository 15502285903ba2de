//! Input of loading a partition.

use crate::types::{Offset, TimestampMs};

/// Input of loading a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadRequest {
    /// The broker stopped cleanly: nothing is checked.
    pub clean: bool,
    /// First offset not known to be on disk.
    pub recovery_point: Offset,
    /// First offset that may be read, 0 where no checkpoint says more.
    pub log_start_offset: Offset,
    /// The clock.
    pub now_ms: TimestampMs,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
}

impl LoadRequest {
    /// The same, after an unclean stop with nothing flushed: everything is checked, all indexes are rebuilt.
    pub(super) const fn unflushed(self) -> Self {
        Self {
            clean: false,
            recovery_point: 0,
            ..self
        }
    }
}
