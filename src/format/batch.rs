//! The batch header, for all three formats (`DefaultRecordBatch`, `AbstractLegacyRecordBatch`, `FileLogInputStream`).
//!
//! Magic 2, 61 bytes, then the records:
//!
//! | at | size | field | |
//! |---|---|---|---|
//! | 0 | 8 | base offset | outside the checksum |
//! | 8 | 4 | length | of what follows; outside the checksum |
//! | 12 | 4 | partition leader epoch | outside the checksum |
//! | 16 | 1 | magic | outside the checksum |
//! | 17 | 4 | crc | CRC-32C from 21 to the end |
//! | 21 | 2 | attributes | |
//! | 23 | 4 | last offset delta | |
//! | 27 | 8 | base timestamp | or the delete horizon |
//! | 35 | 8 | max timestamp | |
//! | 43 | 8 | producer id | |
//! | 51 | 2 | producer epoch | |
//! | 53 | 4 | base sequence | |
//! | 57 | 4 | records count | |
//!
//! Magic 0 and 1, one message (a wrapper counts as one):
//!
//! | at | size | field | |
//! |---|---|---|---|
//! | 0 | 8 | offset | of a wrapper: of its last message |
//! | 8 | 4 | size | of what follows |
//! | 12 | 4 | crc | CRC-32 from 16 to the end |
//! | 16 | 1 | magic | |
//! | 17 | 1 | attributes | |
//! | 18 | 8 | timestamp | magic 1 only |
//! | 18 or 26 | 4 | key length, key, value length, value | |

mod write;

pub(crate) use write::assign;
#[cfg(feature = "internal")]
pub(crate) use write::set_max_timestamp;

use std::fmt::Display;

use super::attributes::Attributes;
use super::crc::{Crc, crc32, crc32c};
use super::cursor::{bytes, get_i8, get_i32, get_i64, get_u8, get_u32};
use crate::error::{Error, FaultKind, Result};
use crate::types::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE,
    NO_TIMESTAMP, Offset, TimestampMs, TimestampType,
};

/// Offset and length: what every format begins with (`Records.LOG_OVERHEAD`).
pub const LOG_OVERHEAD: usize = LENGTH_AT + 4;
/// Position of the length field.
pub const LENGTH_AT: usize = 8;
/// Position of the magic byte, in every format.
pub(crate) const MAGIC_AT: usize = 16;
/// Bytes needed to read the magic (`Records.HEADER_SIZE_UP_TO_MAGIC`).
pub(crate) const HEADER_SIZE_UP_TO_MAGIC: usize = MAGIC_AT + 1;

const EPOCH_AT: usize = LOG_OVERHEAD;
/// Magic 2: position of the checksum.
pub const CRC_AT: usize = HEADER_SIZE_UP_TO_MAGIC;
/// Magic 2: where the checksummed bytes begin.
pub const ATTRIBUTES_AT: usize = CRC_AT + 4;
const LAST_OFFSET_DELTA_AT: usize = ATTRIBUTES_AT + 2;
const BASE_TIMESTAMP_AT: usize = LAST_OFFSET_DELTA_AT + 4;
const MAX_TIMESTAMP_AT: usize = BASE_TIMESTAMP_AT + 8;
const PRODUCER_ID_AT: usize = MAX_TIMESTAMP_AT + 8;
const PRODUCER_EPOCH_AT: usize = PRODUCER_ID_AT + 8;
const BASE_SEQUENCE_AT: usize = PRODUCER_EPOCH_AT + 2;
/// Magic 2: position of the number of records.
pub(crate) const RECORDS_COUNT_AT: usize = BASE_SEQUENCE_AT + 4;
/// Magic 2: header size, where the records begin (`RECORD_BATCH_OVERHEAD`).
pub const RECORD_BATCH_OVERHEAD: usize = RECORDS_COUNT_AT + 4;
const _: () = assert!(RECORD_BATCH_OVERHEAD == 61);

/// Magic 0 and 1: position of the checksum.
pub(crate) const LEGACY_CRC_AT: usize = LOG_OVERHEAD;
/// Magic 0 and 1: position of the attributes.
pub(crate) const LEGACY_ATTRIBUTES_AT: usize = MAGIC_AT + 1;
/// Magic 1: position of the timestamp.
pub(crate) const LEGACY_TIMESTAMP_AT: usize = LEGACY_ATTRIBUTES_AT + 1;
/// Smallest length field Kafka accepts (`LegacyRecord.RECORD_OVERHEAD_V0`): crc, magic, attributes, two null lengths.
pub(crate) const MIN_LENGTH: i32 = 14;

/// Header of one batch, with the values of the file.
///
/// For magic 0 and 1 `base_offset` is the message's offset field, so of a wrapper it is the *last* offset: the first
/// one is known only after decompression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// First offset (magic 2), or the offset field (magic 0, 1).
    pub base_offset: Offset,
    /// All bytes of the batch, header included.
    pub size: usize,
    /// Leader epoch, -1 unknown.
    pub partition_leader_epoch: i32,
    /// 0, 1 or 2; anything above is walked as 2, as Kafka does, and refused when its records are requested.
    pub magic: u8,
    /// Stored checksum.
    pub crc: u32,
    /// Attribute bits.
    pub attributes: Attributes,
    /// Last offset minus base offset.
    pub last_offset_delta: i32,
    /// Timestamp the deltas count from, or the delete horizon.
    pub base_timestamp: TimestampMs,
    /// Largest timestamp, or the append time.
    pub max_timestamp: TimestampMs,
    /// Producer id, -1 none.
    pub producer_id: i64,
    /// Producer epoch, -1 none.
    pub producer_epoch: i16,
    /// Sequence of the first record, -1 none.
    pub base_sequence: i32,
    /// Number of records; `None` for magic 0 and 1.
    pub records_count: Option<i32>,
}

impl BatchHeader {
    /// Of no batch: what a walk's header is before its first step.
    pub(crate) const NONE: Self = Self {
        base_offset: 0,
        size: 0,
        partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
        magic: 2,
        crc: 0,
        attributes: Attributes(0),
        last_offset_delta: 0,
        base_timestamp: NO_TIMESTAMP,
        max_timestamp: NO_TIMESTAMP,
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_PRODUCER_EPOCH,
        base_sequence: NO_SEQUENCE,
        records_count: None,
    };

    /// The whole size of the batch that begins at `data`, if its length field is there.
    ///
    /// # Errors
    /// `CorruptRecord` for a length below [`MIN_LENGTH`].
    #[inline]
    pub fn peek_size(data: &[u8]) -> Result<Option<usize>> {
        let Some(length) = get_i32(data, LENGTH_AT) else {
            return Ok(None);
        };
        match usize::try_from(length) {
            Ok(size) if length >= MIN_LENGTH => Ok(size.checked_add(LOG_OVERHEAD)),
            _ => Err(wrong_length(format_args!("at least {MIN_LENGTH}"), length)),
        }
    }

    /// The whole size of the batch that begins at `head` in a file that has `left` bytes from there on, as Kafka walks
    /// it (`FileLogInputStream.nextBatch`); `None` where the batch is incomplete. The very last 17 bytes are never
    /// examined.
    ///
    /// # Errors
    /// As [`BatchHeader::peek_size`].
    pub fn size_in_file(head: &[u8], left: u64) -> Result<Option<usize>> {
        if left <= HEADER_SIZE_UP_TO_MAGIC as u64 {
            return Ok(None);
        }
        let size = Self::peek_size(head)?;
        Ok(size.filter(|&size| size as u64 <= left))
    }

    /// The header that begins at `head` in a file that has `left` bytes from there on, as Kafka walks it and no
    /// stricter: every magic from 2 on is read as 2, and one below 0 as 1, whose checksum it then fails. `None` as of
    /// [`BatchHeader::size_in_file`].
    ///
    /// # Errors
    /// As [`BatchHeader::peek_size`]; `CorruptRecord` where the file ends inside the header.
    pub fn in_file(head: &[u8], left: u64) -> Result<Option<Self>> {
        let Some(size) = Self::size_in_file(head, left)? else {
            return Ok(None);
        };
        let header = match get_i8(head, MAGIC_AT) {
            Some(..0) => Self::parse_legacy(head, size, 1),
            Some(0..2) => Self::as_it_stands(head),
            _ => Self::as_it_stands(head).map(|header| Self { magic: 2, ..header }),
        };
        let expected = format_args!("{RECORD_BATCH_OVERHEAD} bytes");
        let cut_off = || torn("batch header", expected, head.len());
        header.map(Some).ok_or_else(cut_off)
    }

    /// Reads the header that begins at `data`. The batch's body need not be there.
    ///
    /// Returns `None` where the header itself is cut off.
    ///
    /// # Errors
    /// `CorruptRecord` for a length field that cannot hold the header, or a negative count.
    #[expect(
        clippy::inline_always,
        reason = "a header handed over is read back wider than it was stored, which stalls"
    )]
    #[inline(always)]
    pub fn parse(data: &[u8]) -> Result<Option<Self>> {
        let Some(size) = Self::peek_size(data)? else {
            return Ok(None);
        };
        let Some(magic) = get_u8(data, MAGIC_AT) else {
            return Ok(None);
        };
        if magic < 2 {
            Ok(Self::parse_legacy(data, size, magic))
        } else {
            Self::parse_v2(data, size, magic)
        }
    }

    /// Reads the header that begins at `data` without any check, to show damaged bytes.
    ///
    /// Returns `None` where the header is cut off or the length is negative.
    #[must_use]
    pub fn as_it_stands(data: &[u8]) -> Option<Self> {
        let size = usize::try_from(get_i32(data, LENGTH_AT)?).ok()?;
        let size = size.checked_add(LOG_OVERHEAD)?;
        match get_u8(data, MAGIC_AT)? {
            magic @ (0 | 1) => Self::parse_legacy(data, size, magic),
            magic => Some(Self::fields_v2(bytes(data, 0)?, size, magic)),
        }
    }

    #[expect(clippy::inline_always, reason = "as `BatchHeader::parse`")]
    #[inline(always)]
    fn parse_v2(data: &[u8], size: usize, magic: u8) -> Result<Option<Self>> {
        if size < RECORD_BATCH_OVERHEAD {
            let expected = format!(
                "at least {} for magic {magic}",
                RECORD_BATCH_OVERHEAD - LOG_OVERHEAD
            );
            return Err(wrong_length(expected, size.saturating_sub(LOG_OVERHEAD)));
        }
        let Some(h) = bytes::<RECORD_BATCH_OVERHEAD>(data, 0) else {
            return Ok(None);
        };
        let header = Self::fields_v2(h, size, magic);
        match header.records_count {
            Some(count) if count < 0 => Err(Error::corrupt_of(
                FaultKind::RecordsCount,
                "records count",
                RECORDS_COUNT_AT as u64,
                "0 or more",
                count,
            )),
            _ if header.last_offset_delta < 0 => Err(Error::corrupt_of(
                FaultKind::Order,
                "last offset delta",
                LAST_OFFSET_DELTA_AT as u64,
                "0 or more",
                header.last_offset_delta,
            )),
            _ if header.base_offset < 0 => Err(Error::corrupt_of(
                FaultKind::Order,
                "base offset",
                0,
                "0 or more",
                header.base_offset,
            )),
            _ => Ok(Some(header)),
        }
    }

    #[inline]
    fn fields_v2(h: &[u8; RECORD_BATCH_OVERHEAD], size: usize, magic: u8) -> Self {
        const fn part<const N: usize>(h: &[u8; RECORD_BATCH_OVERHEAD], at: usize) -> [u8; N] {
            match h.split_at(at).1.first_chunk::<N>() {
                Some(part) => *part,
                None => [0; N],
            }
        }
        Self {
            base_offset: i64::from_be_bytes(part(h, 0)),
            size,
            partition_leader_epoch: i32::from_be_bytes(part(h, EPOCH_AT)),
            magic,
            crc: u32::from_be_bytes(part(h, CRC_AT)),
            attributes: Attributes(part::<2>(h, ATTRIBUTES_AT)[1]),
            last_offset_delta: i32::from_be_bytes(part(h, LAST_OFFSET_DELTA_AT)),
            base_timestamp: i64::from_be_bytes(part(h, BASE_TIMESTAMP_AT)),
            max_timestamp: i64::from_be_bytes(part(h, MAX_TIMESTAMP_AT)),
            producer_id: i64::from_be_bytes(part(h, PRODUCER_ID_AT)),
            producer_epoch: i16::from_be_bytes(part(h, PRODUCER_EPOCH_AT)),
            base_sequence: i32::from_be_bytes(part(h, BASE_SEQUENCE_AT)),
            records_count: Some(i32::from_be_bytes(part(h, RECORDS_COUNT_AT))),
        }
    }

    fn parse_legacy(data: &[u8], size: usize, magic: u8) -> Option<Self> {
        let max_timestamp = if magic == 1 {
            get_i64(data, LEGACY_TIMESTAMP_AT)?
        } else {
            NO_TIMESTAMP
        };
        Some(Self {
            base_offset: get_i64(data, 0)?,
            size,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            magic,
            crc: get_u32(data, LEGACY_CRC_AT)?,
            attributes: Attributes(get_u8(data, LEGACY_ATTRIBUTES_AT)?),
            last_offset_delta: 0,
            base_timestamp: max_timestamp,
            max_timestamp,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            records_count: None,
        })
    }

    /// Magic 0 or 1.
    #[inline]
    #[must_use]
    pub const fn is_legacy(&self) -> bool {
        self.magic < 2
    }

    /// Returns whether its length leaves no room for the header of its format.
    #[must_use]
    pub const fn is_too_short(&self) -> bool {
        !self.is_legacy() && self.size < RECORD_BATCH_OVERHEAD
    }

    /// A message of magic 0 or 1 that holds others, compressed: of offsets it names only the last.
    #[inline]
    #[must_use]
    pub const fn is_wrapper(&self) -> bool {
        self.is_legacy() && self.attributes.codec_id() != 0
    }

    /// Offset of the last record as it was written.
    #[inline]
    #[must_use]
    pub const fn last_offset(&self) -> Offset {
        self.base_offset.wrapping_add(self.last_offset_delta as i64)
    }

    /// The next offset to ask for. Records may be missing at the end of a compacted batch, so never count from them.
    #[inline]
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        self.last_offset().wrapping_add(1)
    }

    /// Sequence of the last record; wraps after `i32::MAX` to 0 (`DefaultRecordBatch.incrementSequence`).
    #[must_use]
    pub const fn last_sequence(&self) -> i32 {
        self.sequence_at(self.last_offset_delta)
    }

    /// Sequence of the record `delta` after the first.
    #[inline]
    #[must_use]
    pub const fn sequence_at(&self, delta: i32) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            NO_SEQUENCE
        } else if self.base_sequence > i32::MAX.wrapping_sub(delta) {
            delta
                .wrapping_sub(i32::MAX.wrapping_sub(self.base_sequence))
                .wrapping_sub(1)
        } else {
            self.base_sequence.wrapping_add(delta)
        }
    }

    /// Source of the timestamps.
    #[inline]
    #[must_use]
    pub const fn timestamp_type(&self) -> TimestampType {
        match self.magic {
            0 => TimestampType::NoTimestamp,
            _ if self.attributes.is_log_append_time() => TimestampType::LogAppendTime,
            _ => TimestampType::CreateTime,
        }
    }

    /// Transactional; only magic 2 can be.
    #[inline]
    #[must_use]
    pub const fn is_transactional(&self) -> bool {
        !self.is_legacy() && self.attributes.is_transactional()
    }

    /// Returns whether a producer with an id wrote it; Kafka takes any negative one for none
    /// (`AbstractRecordBatch.hasProducerId`).
    #[inline]
    #[must_use]
    pub const fn has_producer_id(&self) -> bool {
        self.producer_id > NO_PRODUCER_ID
    }

    /// Control batch; only magic 2 can be.
    #[inline]
    #[must_use]
    pub const fn is_control(&self) -> bool {
        !self.is_legacy() && self.attributes.is_control()
    }

    /// Time from which the cleaner may remove the batch's tombstones and markers, if it has set one.
    #[inline]
    #[must_use]
    pub const fn delete_horizon_ms(&self) -> Option<TimestampMs> {
        if !self.is_legacy() && self.attributes.has_delete_horizon() {
            Some(self.base_timestamp)
        } else {
            None
        }
    }

    /// The codec.
    ///
    /// # Errors
    /// `UnsupportedFormat` for an id Kafka does not know, or zstd before magic 2.
    #[inline]
    pub fn compression(&self) -> Result<Compression> {
        let at = if self.is_legacy() {
            LEGACY_ATTRIBUTES_AT
        } else {
            ATTRIBUTES_AT + 1
        };
        match self.attributes.compression() {
            Some(Compression::Zstd) if self.is_legacy() => Err(Error::unsupported(
                "compression codec",
                at as u64,
                format_args!("0 to 3 for magic {}", self.magic),
                4,
            )),
            Some(compression) => Ok(compression),
            None => Err(Error::unsupported(
                "compression codec",
                at as u64,
                "0 to 4",
                self.attributes.codec_id(),
            )),
        }
    }

    /// Position of the first byte that the checksum covers.
    #[inline]
    #[must_use]
    pub const fn checksummed_from(&self) -> usize {
        if self.is_legacy() {
            MAGIC_AT
        } else {
            ATTRIBUTES_AT
        }
    }

    /// The checksum of this format, over no bytes yet.
    #[inline]
    #[must_use]
    pub fn begin_crc(&self) -> Crc {
        if self.is_legacy() {
            Crc::legacy()
        } else {
            Crc::castagnoli()
        }
    }

    /// The checksum the bytes of a whole batch have.
    #[inline]
    #[must_use]
    pub fn computed_crc(&self, batch: &[u8]) -> u32 {
        let bytes = batch.get(self.checksummed_from()..).unwrap_or_default();
        if self.is_legacy() {
            crc32(bytes)
        } else {
            crc32c(bytes)
        }
    }

    /// Compares the checksum.
    ///
    /// # Errors
    /// `CorruptRecord` where it differs.
    #[inline]
    pub fn ensure_valid(&self, batch: &[u8]) -> Result<()> {
        let computed = self.computed_crc(batch);
        if computed == self.crc {
            Ok(())
        } else {
            Err(self.crc_fault(computed))
        }
    }

    /// The error for bytes whose checksum is `computed`.
    #[cold]
    #[must_use]
    pub fn crc_fault(&self, computed: u32) -> Error {
        let (name, at) = if self.is_legacy() {
            ("crc (CRC-32)", LEGACY_CRC_AT)
        } else {
            ("crc (CRC-32C)", CRC_AT)
        };
        Error::corrupt_of(
            FaultKind::Crc,
            name,
            at as u64,
            format_args!("{:#010x} as stored", self.crc),
            format_args!("{computed:#010x} over the bytes"),
        )
    }
}

/// The error for bytes that end before `what` does.
#[cold]
pub(crate) fn torn(what: &'static str, expected: impl Display, found: impl Display) -> Error {
    Error::corrupt_of(FaultKind::Torn, what, 0, expected, found)
}

/// The error for the length of a batch.
#[cold]
pub(crate) fn wrong_length(expected: impl Display, found: impl Display) -> Error {
    let (what, at) = ("batch length", LENGTH_AT as u64);
    Error::corrupt_of(FaultKind::Length, what, at, expected, found)
}

#[cfg(test)]
mod tests;
