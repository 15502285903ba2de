//! Magic 0 and 1: a message, or a wrapper whose value holds messages compressed together
//! (`AbstractLegacyRecordBatch.DeepRecordsIterator`).
//!
//! | | magic 0 | magic 1 |
//! |---|---|---|
//! | inner offsets | absolute | relative (KIP-31): absolute = inner + wrapper's - last inner's |
//! | inner timestamps | none; of messages of magic 1 their own | their own, or the wrapper's under LogAppendTime (KIP-32) |
//!
//! A wrapper's offset is that of its last message. Some producers left it 0; then inner offsets are unchanged. Under
//! magic 0 they always are, even if the last one is not the wrapper's. Checksums of inner messages are not checked: the
//! wrapper's covers their bytes. A message cut off at the end of the decompressed bytes is dropped, as Kafka drops it.

use super::RecordSlot;
use super::block::{self, Payload};
use crate::compress::{DecodeLimit, Decompressor};
use crate::error::{Error, Result};
use crate::format::batch::{BatchHeader, LEGACY_ATTRIBUTES_AT};
use crate::format::message::Message;
use crate::types::{Compression, Offset};

/// Appends a slot for every record of a whole batch of magic 0 or 1, which begins at `batch_start` of the source.
///
/// # Errors
/// `InvalidRecord` and `CorruptRecord` where the messages or the stream are broken; positions count from the beginning
/// of the batch. Nothing is appended then.
pub(crate) fn walk(
    batch: &[u8],
    batch_start: u32,
    header: &BatchHeader,
    decompressor: &mut Decompressor,
    arena: &mut Vec<u8>,
    limit: DecodeLimit,
    out: &mut Vec<RecordSlot>,
) -> Result<Payload> {
    let outer = Message::parse(batch)?
        .ok_or_else(|| Error::corrupt("message", 0, "a whole message", batch.len()))?;
    let codec = header.compression()?;
    if codec == Compression::None {
        let shift = usize::try_from(batch_start).unwrap_or(usize::MAX);
        out.push(block::slot(
            header.base_offset,
            outer.timestamp,
            (outer.key, outer.value),
            (outer.value.end(), 0),
            shift,
        )?);
        return Ok(Payload::Source);
    }
    let compressed = outer.value.of(batch).ok_or_else(|| {
        Error::invalid(
            "wrapper value",
            outer.value.start as u64,
            "compressed messages",
            "null",
        )
    })?;
    let at = outer.value.start;
    let range = block::inflate(compressed, at, header, codec, decompressor, arena, limit)?;
    let shift = range.start;
    let begun = out.len();
    let inner = arena.get(range).unwrap_or_default();
    let result = walk_inner(inner, shift, header, out);
    if result.is_err() {
        out.truncate(begun);
    }
    // Positions in decompressed bytes mean nothing in the file.
    result.map_err(|error| error.inside(0))?;
    Ok(Payload::Arena)
}

/// Appends the messages of a wrapper, whose decompressed bytes lie at `shift` of the arena.
fn walk_inner(
    inner: &[u8],
    shift: usize,
    wrapper: &BatchHeader,
    out: &mut Vec<RecordSlot>,
) -> Result<()> {
    let begun = out.len();
    let mut at = 0usize;
    while let Some(message) = Message::parse(inner.get(at..).unwrap_or_default())
        .map_err(|error| error.shift(at as u64))?
    {
        if message.attributes.codec_id() != 0 {
            return Err(Error::invalid(
                "inner message codec",
                at.saturating_add(LEGACY_ATTRIBUTES_AT) as u64,
                "none",
                message.attributes.codec_id(),
            ));
        }
        let from_wrapper = wrapper.magic == 1 && wrapper.attributes.is_log_append_time();
        let timestamp = if message.magic == 1 && from_wrapper {
            wrapper.max_timestamp
        } else {
            message.timestamp
        };
        out.try_reserve(1)
            .map_err(|_| Error::no_memory(size_of::<RecordSlot>()))?;
        out.push(block::slot(
            message.offset,
            timestamp,
            (message.key, message.value),
            (message.value.end(), 0),
            shift.saturating_add(at),
        )?);
        at = at.saturating_add(message.size);
    }
    let slots = out.get_mut(begun..).unwrap_or_default();
    let Some(last) = slots.last().map(|slot| slot.offset) else {
        return Err(Error::invalid(
            "wrapper value",
            0,
            "at least one message",
            format_args!("{} bytes without any", inner.len()),
        ));
    };
    for slot in slots {
        slot.offset = slot.offset.wrapping_add(base(wrapper, last)?);
    }
    Ok(())
}

/// Computes the number to add to the inner offsets, of which `last` is the last.
fn base(wrapper: &BatchHeader, last: Offset) -> Result<Offset> {
    match wrapper.base_offset {
        _ if wrapper.magic == 0 => Ok(0),
        0 => Ok(0),
        offset => match offset.checked_sub(last) {
            Some(base) if base >= 0 => Ok(base),
            _ => Err(Error::invalid(
                "last inner offset",
                0,
                format_args!("at most {offset}, the wrapper's"),
                last,
            )),
        },
    }
}

/// The offset of the first record of a whole batch of any magic; a wrapper is decompressed for it.
///
/// # Errors
/// Those of [`walk`], of a wrapper.
pub fn first_offset(batch: &[u8], header: &BatchHeader, limit: DecodeLimit) -> Result<Offset> {
    if !header.is_wrapper() {
        return Ok(header.base_offset);
    }
    let (mut decompressor, mut arena, mut slots) = (Decompressor::new(), Vec::new(), Vec::new());
    walk(
        batch,
        0,
        header,
        &mut decompressor,
        &mut arena,
        limit,
        &mut slots,
    )?;
    Ok(slots.first().map_or(header.base_offset, |slot| slot.offset))
}

#[cfg(test)]
mod tests;
