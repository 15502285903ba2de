//! Attribute bits of a batch (magic 2) or message (magic 0, 1).
//!
//! | bit | mask | meaning |
//! |---|---|---|
//! | 0-2 | 0x07 | codec |
//! | 3 | 0x08 | LogAppendTime (magic 1, 2) |
//! | 4 | 0x10 | transactional (magic 2, KIP-98) |
//! | 5 | 0x20 | control batch (magic 2) |
//! | 6 | 0x40 | base timestamp holds the delete horizon (magic 2, KIP-534) |

use crate::types::{Compression, TimestampType};

const CODEC_MASK: u8 = 0x07;
const TIMESTAMP_TYPE: u8 = 0x08;
const TRANSACTIONAL: u8 = 0x10;
const CONTROL: u8 = 0x20;
const DELETE_HORIZON: u8 = 0x40;

/// The low byte of the attributes; the upper byte of magic 2 is unused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes(pub u8);

impl Attributes {
    /// The bits of a batch of magic 2.
    #[must_use]
    pub const fn new(
        compression: Compression,
        timestamp_type: TimestampType,
        is_transactional: bool,
        is_control: bool,
        has_delete_horizon: bool,
    ) -> Self {
        let mut bits = compression.id();
        if matches!(timestamp_type, TimestampType::LogAppendTime) {
            bits |= TIMESTAMP_TYPE;
        }
        if is_transactional {
            bits |= TRANSACTIONAL;
        }
        if is_control {
            bits |= CONTROL;
        }
        if has_delete_horizon {
            bits |= DELETE_HORIZON;
        }
        Self(bits)
    }

    /// The same with another timestamp type.
    #[must_use]
    pub const fn with_timestamp_type(self, timestamp_type: TimestampType) -> Self {
        match timestamp_type {
            TimestampType::LogAppendTime => Self(self.0 | TIMESTAMP_TYPE),
            _ => Self(self.0 & !TIMESTAMP_TYPE),
        }
    }

    /// The same with another codec.
    #[must_use]
    pub const fn with_compression(self, compression: Compression) -> Self {
        Self(self.0 & !CODEC_MASK | compression.id())
    }

    /// Bits 0 to 2 as they stand.
    #[inline]
    #[must_use]
    pub const fn codec_id(self) -> u8 {
        self.0 & CODEC_MASK
    }

    /// The codec, unless the id is one Kafka does not know.
    #[inline]
    #[must_use]
    pub const fn compression(self) -> Option<Compression> {
        Compression::from_id(self.codec_id())
    }

    /// Bit 3.
    #[inline]
    #[must_use]
    pub const fn is_log_append_time(self) -> bool {
        self.0 & TIMESTAMP_TYPE != 0
    }

    /// Bit 4.
    #[inline]
    #[must_use]
    pub const fn is_transactional(self) -> bool {
        self.0 & TRANSACTIONAL != 0
    }

    /// Bit 5.
    #[inline]
    #[must_use]
    pub const fn is_control(self) -> bool {
        self.0 & CONTROL != 0
    }

    /// Bit 6.
    #[inline]
    #[must_use]
    pub const fn has_delete_horizon(self) -> bool {
        self.0 & DELETE_HORIZON != 0
    }
}
