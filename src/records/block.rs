//! Records of a batch as bytes: in the batch itself, or decompressed into the caller's arena.

use std::ops::Range;

use super::RecordSlot;
use crate::compress::{DecodeLimit, Decompressor};
use crate::error::{Error, FaultKind, Result};
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::format::record::ByteRange;
use crate::io::interrupt;
use crate::types::{Compression, Offset, TimestampMs};

/// Origin of the positions in a batch's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The bytes the batch lies in.
    Source,
    /// The arena the batch was decompressed into.
    Arena,
}

/// A batch's records as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The bytes that `range` refers to.
    pub payload: Payload,
    /// In [`Payload::Source`] within the batch, in [`Payload::Arena`] within the whole arena.
    pub range: Range<usize>,
}

/// Finds the records of a whole batch of magic 2, and decompresses them if need be.
///
/// # Errors
/// `UnsupportedFormat` for an unknown magic or codec, `CorruptRecord` for a broken stream or one beyond the limit;
/// positions count from the beginning of the batch.
#[inline]
pub fn open(
    batch: &[u8],
    header: &BatchHeader,
    decompressor: &mut Decompressor,
    arena: &mut Vec<u8>,
    limit: DecodeLimit,
) -> Result<Block> {
    if header.magic != 2 {
        return Err(unknown_magic(header));
    }
    let codec = header.compression()?;
    if codec == Compression::None {
        return Ok(Block {
            payload: Payload::Source,
            range: RECORD_BATCH_OVERHEAD..batch.len(),
        });
    }
    let records = batch.get(RECORD_BATCH_OVERHEAD..).unwrap_or_default();
    // Kafka calls no codec if the header counts no records (`DefaultRecordBatch.iterator`).
    if records.is_empty() && header.records_count == Some(0) {
        return Ok(Block {
            payload: Payload::Arena,
            range: arena.len()..arena.len(),
        });
    }
    let range = inflate(
        records,
        RECORD_BATCH_OVERHEAD,
        header,
        codec,
        decompressor,
        arena,
        limit,
    )?;
    Ok(Block {
        payload: Payload::Arena,
        range,
    })
}

/// Decompresses `src`, which begins `at` bytes into its batch, after what the arena holds.
pub(super) fn inflate(
    src: &[u8],
    at: usize,
    header: &BatchHeader,
    codec: Compression,
    decompressor: &mut Decompressor,
    arena: &mut Vec<u8>,
    limit: DecodeLimit,
) -> Result<Range<usize>> {
    interrupt::check()?;
    let begun = arena.len();
    decompressor
        .decompress(codec, header.magic, src, arena, limit)
        .map_err(|error| error.shift(at as u64))?;
    Ok(begun..arena.len())
}

/// The error for records of a magic above 2: Kafka walks such batches as magic 2, but their records are unknown.
#[cold]
pub(super) fn unknown_magic(header: &BatchHeader) -> Error {
    Error::unsupported(
        "magic",
        crate::format::batch::MAGIC_AT as u64,
        "0, 1 or 2",
        header.magic,
    )
    .of_kind(FaultKind::Magic)
}

/// A slot of fields whose places count from `shift`.
pub(super) fn slot(
    offset: Offset,
    timestamp: TimestampMs,
    (key, value): (ByteRange, ByteRange),
    (headers_start, headers_count): (usize, u32),
    shift: usize,
) -> Result<RecordSlot> {
    let start = |at: usize| {
        at.checked_add(shift)
            .and_then(|at| u32::try_from(at).ok())
            .ok_or_else(|| too_far(at))
    };
    let len = |field: ByteRange| match field.len {
        Some(len) => i32::try_from(len).map_err(|_| too_far(field.start)),
        None => Ok(-1),
    };
    Ok(RecordSlot {
        offset,
        timestamp,
        key_start: start(key.start)?,
        key_len: len(key)?,
        value_start: start(value.start)?,
        value_len: len(value)?,
        headers_start: start(headers_start)?,
        headers_count,
    })
}

#[cold]
fn too_far(at: usize) -> Error {
    Error::invalid("record position", at as u64, "below 4 GiB", "beyond it")
}
