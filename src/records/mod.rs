//! From a whole batch to its records: format and compression together.
//!
//! A record is not copied. It becomes a [`RecordSlot`]: its numbers, and where its key, value and headers lie in a
//! source (a mapped segment, or an [`arena`] of decompressed records).
//!
//! [`batch`] opens a batch and walks its records, for all but the reader's hot loop, which has [`chunk`]s of many
//! batches.
//!
//! [`search`] leaves the records of a chunk that match a pattern.
//!
//! In the other direction, [`builder`] builds batches from records; [`filtered`] removes records from batches of a log.

pub(crate) mod arena;
pub(crate) mod batch;
pub(crate) mod block;
pub(crate) mod builder;
pub(crate) mod chunk;
pub(crate) mod control;
pub(crate) mod encoded;
pub(crate) mod filtered;
#[cfg(feature = "internal")]
pub(crate) mod leader;
pub(crate) mod legacy;
pub(crate) mod parts;
#[cfg(feature = "internal")]
pub(crate) mod plain;
pub(crate) mod search;
pub(crate) mod validate;
pub(crate) mod walk;

use crate::format::record::HeaderIter;
use crate::types::{Offset, TimestampMs};

/// One record: numbers resolved, payloads as places in a source of bytes (a segment window or a decompressed block).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordSlot {
    /// Absolute offset.
    pub offset: Offset,
    /// Absolute timestamp; the batch's own under LogAppendTime.
    pub timestamp: TimestampMs,
    /// Position of the key's bytes in the source.
    pub key_start: u32,
    /// Length of the key, -1 for null.
    pub key_len: i32,
    /// Position of the value's bytes in the source.
    pub value_start: u32,
    /// Length of the value, -1 for null.
    pub value_len: i32,
    /// Position of the first header in the source.
    pub headers_start: u32,
    /// Number of headers.
    pub headers_count: u32,
}

impl RecordSlot {
    /// The key in the source it was decoded from; `None` for null.
    #[inline]
    #[must_use]
    pub fn key<'a>(&self, source: &'a [u8]) -> Option<&'a [u8]> {
        part(source, self.key_start, self.key_len)
    }

    /// The value in the source it was decoded from; `None` for null.
    #[inline]
    #[must_use]
    pub fn value<'a>(&self, source: &'a [u8]) -> Option<&'a [u8]> {
        part(source, self.value_start, self.value_len)
    }

    /// The headers in the source it was decoded from.
    #[must_use]
    pub(crate) fn headers<'a>(&self, source: &'a [u8]) -> HeaderIter<'a> {
        let start = usize::try_from(self.headers_start).unwrap_or(usize::MAX);
        HeaderIter::new(source, start, self.headers_count)
    }
}

#[inline]
fn part(source: &[u8], start: u32, len: i32) -> Option<&[u8]> {
    let (start, len) = (usize::try_from(start).ok()?, usize::try_from(len).ok()?);
    source.get(start..start.checked_add(len)?)
}
