//! The records of one batch, in the order of the tool's iterators.
//!
//! An uncompressed batch gives its records up to the first invalid one; a compressed batch gives all or none, because
//! Kafka decompresses it whole first (`DefaultRecordBatch.iterator`, `AbstractLegacyRecordBatch.DeepRecordsIterator`).
//! Positions in errors count from the start of the batch.

use crate::compress::{DecodeLimit, Decompressor};
use crate::error::{Error, Result};
use crate::format::attributes::Attributes;
use crate::format::batch::{
    BatchHeader, LEGACY_ATTRIBUTES_AT, LEGACY_CRC_AT, LEGACY_TIMESTAMP_AT, LENGTH_AT, MAGIC_AT,
};
use crate::format::cursor::{get_i32, get_i64, get_u8, get_u32};
use crate::format::record::HeaderIter;
use crate::records::RecordSlot;
use crate::records::batch::BatchDecoder;
use crate::types::{Compression, NO_SEQUENCE, NO_TIMESTAMP, Offset, TimestampMs, TimestampType};

/// One record of any format.
#[derive(Clone, Debug)]
pub(super) struct DumpedRecord<'a> {
    pub(super) offset: Offset,
    pub(super) timestamp: TimestampMs,
    /// The key's length as it is printed: -1 for null; for a message, the field itself.
    pub(super) key_size: i32,
    pub(super) value_size: i32,
    /// The key; `None` for null, and where a message's stated length leads out of it.
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) more: More<'a>,
}

/// Fields that only some formats have.
#[derive(Clone, Debug)]
pub(super) enum More<'a> {
    /// Magic 0 and 1.
    Message { crc: u32, is_valid: bool },
    /// Magic 2.
    Record {
        sequence: i32,
        headers: HeaderIter<'a>,
    },
}

/// Reads batches' records as far as they make sense; keeps its memory from one to the next.
#[derive(Debug, Default)]
pub(super) struct LenientDecoder {
    /// Of magic 2.
    decoder: BatchDecoder,
    /// Of wrappers.
    decompressor: Decompressor,
    block: Vec<u8>,
}

impl LenientDecoder {
    /// Shows `see` the records of a whole batch, in order.
    ///
    /// # Errors
    /// `CorruptRecord`, `InvalidRecord`, `UnsupportedFormat`, and what `see` returns.
    pub(super) fn each(
        &mut self,
        header: &BatchHeader,
        batch: &[u8],
        see: &mut dyn FnMut(DumpedRecord<'_>) -> Result<()>,
    ) -> Result<()> {
        if header.is_legacy() {
            return self.each_message(header, batch, see);
        }
        if matches!(header.records_count, Some(0) | None) {
            return Ok(());
        }
        // The tool reads a magic above 2 as 2.
        let header = &BatchHeader {
            magic: 2,
            ..header.clone()
        };
        let mut records = self.decoder.open(batch, header)?;
        if header.compression()? != Compression::None {
            records.check()?;
            records = self.decoder.reopen(batch, header)?;
        }
        let bytes = records.bytes();
        let mut slot = [RecordSlot::default()];
        while let Some([slot]) = records.next(&mut slot)? {
            let offset_delta = i32::try_from(slot.offset.wrapping_sub(header.base_offset));
            see(DumpedRecord {
                offset: slot.offset,
                timestamp: slot.timestamp,
                key_size: slot.key_len,
                value_size: slot.value_len,
                key: slot.key(bytes),
                value: slot.value(bytes),
                more: More::Record {
                    sequence: if header.base_sequence < 0 {
                        NO_SEQUENCE
                    } else {
                        header.sequence_at(offset_delta.unwrap_or_default())
                    },
                    headers: slot.headers(bytes),
                },
            })?;
        }
        Ok(())
    }

    fn decompress(&mut self, codec: Compression, magic: u8, data: &[u8]) -> Result<()> {
        /// More than a batch of the usual size needs is given back.
        const KEPT: usize = 16 << 20;
        self.block.clear();
        self.block.shrink_to(KEPT);
        let limit = DecodeLimit::default();
        self.decompressor
            .decompress(codec, magic, data, &mut self.block, limit)
    }

    fn each_message(
        &mut self,
        header: &BatchHeader,
        batch: &[u8],
        see: &mut dyn FnMut(DumpedRecord<'_>) -> Result<()>,
    ) -> Result<()> {
        let outer = Loose::parse(batch)?;
        let codec = header.compression()?;
        if codec == Compression::None {
            return see(outer.record(outer.offset, header.max_timestamp)?);
        }
        let value = outer
            .value()?
            .ok_or_else(|| Error::invalid("wrapper value", 0, "compressed messages", "none"))?;
        let at = batch.len().saturating_sub(value.len()) as u64;
        self.decompress(codec, header.magic, value)
            .map_err(|e| e.shift(at))?;
        let last = last_of(&self.block)
            .map_err(|e| e.inside(0))?
            .ok_or_else(|| Error::invalid("wrapper value", at, "at least one message", "none"))?;
        let base = base_of(header, last)?;
        let append_time = match header.timestamp_type() {
            TimestampType::LogAppendTime => Some(outer.timestamp()?),
            _ => None,
        };
        let mut next = 0usize;
        let inside = |e: Error| e.inside(0);
        while let Some(inner) = Loose::next(&self.block, &mut next).map_err(inside)? {
            let codec_id = inner.attributes().codec_id();
            if codec_id != 0 {
                return Err(Error::invalid("inner message's codec", 0, 0, codec_id));
            }
            let timestamp = match append_time {
                Some(time) if inner.magic == 1 => time,
                _ => inner.timestamp().map_err(inside)?,
            };
            let offset = base.wrapping_add(inner.offset);
            see(inner.record(offset, timestamp).map_err(inside)?)?;
        }
        Ok(())
    }
}

/// Base of an inner message's offset: 0 in magic 0; in magic 1 the wrapper's offset is the last one's, except that some
/// producers left it 0.
fn base_of(wrapper: &BatchHeader, last_inner: Offset) -> Result<Offset> {
    if wrapper.magic == 0 || wrapper.base_offset == 0 {
        Ok(0)
    } else if wrapper.base_offset < last_inner {
        let expected = format!("at least its last message's, {last_inner}");
        let found = wrapper.base_offset;
        Err(Error::invalid("wrapper offset", 0, expected, found))
    } else {
        Ok(wrapper.base_offset.wrapping_sub(last_inner))
    }
}

/// The offset of the last whole message of a block.
fn last_of(block: &[u8]) -> Result<Option<Offset>> {
    let (mut next, mut last) = (0, None);
    while let Some(inner) = Loose::next(block, &mut next)? {
        last = Some(inner.offset);
    }
    Ok(last)
}

/// A message of magic 0 or 1 of which only what is requested is read, as `LegacyRecord` does: one that
/// [`crate::format::message::Message`] refuses can still be shown in part.
#[derive(Clone, Copy, Debug)]
struct Loose<'a> {
    bytes: &'a [u8],
    offset: Offset,
    magic: u8,
}

impl<'a> Loose<'a> {
    /// A message that fills `bytes`.
    fn parse(bytes: &'a [u8]) -> Result<Self> {
        match (get_i64(bytes, 0), get_u8(bytes, MAGIC_AT)) {
            (Some(offset), Some(magic)) => Ok(Self {
                bytes,
                offset,
                magic,
            }),
            _ => Err(short(bytes)),
        }
    }

    /// The whole message at `next`, which moves past it; a part of one at the end is nothing.
    fn next(block: &'a [u8], next: &mut usize) -> Result<Option<Self>> {
        let Some(rest) = block.get(*next..) else {
            return Ok(None);
        };
        let size = BatchHeader::peek_size(rest).map_err(|e| e.shift(*next as u64))?;
        let Some(bytes) = size.and_then(|size| rest.get(..size)) else {
            return Ok(None);
        };
        *next = next.saturating_add(bytes.len());
        Self::parse(bytes).map(Some)
    }

    fn attributes(&self) -> Attributes {
        Attributes(get_u8(self.bytes, LEGACY_ATTRIBUTES_AT).unwrap_or_default())
    }

    fn timestamp(&self) -> Result<TimestampMs> {
        match self.magic {
            0 => Ok(NO_TIMESTAMP),
            _ => get_i64(self.bytes, LEGACY_TIMESTAMP_AT).ok_or_else(|| short(self.bytes)),
        }
    }

    /// Length and bytes of the field at `at`; no bytes where the length leads out of the message.
    fn field(&self, at: usize) -> Result<(i32, Option<&'a [u8]>)> {
        let size = get_i32(self.bytes, at).ok_or_else(|| short(self.bytes))?;
        let start = at.saturating_add(4);
        let end = usize::try_from(size)
            .ok()
            .map(|len| start.saturating_add(len));
        Ok((size, end.and_then(|end| self.bytes.get(start..end))))
    }

    fn key(&self) -> Result<(i32, Option<&'a [u8]>)> {
        self.field(self.key_at())
    }

    const fn key_at(&self) -> usize {
        match self.magic {
            0 => LEGACY_TIMESTAMP_AT,
            _ => LEGACY_TIMESTAMP_AT.saturating_add(8),
        }
    }

    fn sized_value(&self) -> Result<(i32, Option<&'a [u8]>)> {
        let key_size = usize::try_from(self.key()?.0).unwrap_or_default();
        self.field(self.key_at().saturating_add(4).saturating_add(key_size))
    }

    fn value(&self) -> Result<Option<&'a [u8]>> {
        Ok(self.sized_value()?.1)
    }

    fn record(&self, offset: Offset, timestamp: TimestampMs) -> Result<DumpedRecord<'a>> {
        let crc = get_u32(self.bytes, LEGACY_CRC_AT).unwrap_or_default();
        let checked = self.bytes.get(MAGIC_AT..).unwrap_or_default();
        let (key_size, key) = self.key()?;
        let (value_size, value) = self.sized_value()?;
        Ok(DumpedRecord {
            offset,
            timestamp,
            key_size,
            value_size,
            key,
            value,
            more: More::Message {
                crc,
                is_valid: crc32fast::hash(checked) == crc,
            },
        })
    }
}

/// A message whose lengths leave it no room.
#[cold]
fn short(bytes: &[u8]) -> Error {
    Error::corrupt(
        "message size",
        LENGTH_AT as u64,
        "room for its fields",
        bytes.len(),
    )
}
