//! Entries of the files beside a `.log`. All big-endian, no headers, no checksums (the snapshot has one).
//!
//! | offset index, 8 bytes | time index, 12 bytes | aborted transaction, 34 bytes | producer, 46 bytes |
//! |---|---|---|---|
//! | i32 offset - base | i64 timestamp | i16 version, 0 | i64 producer id |
//! | i32 position | i32 offset - base | i64 producer id | i16 producer epoch |
//! | | | i64 first offset | i32 last sequence |
//! | | | i64 last offset | i64 last offset |
//! | | | i64 last stable offset | i32 offset delta |
//! | | | | i64 timestamp |
//! | | | | i32 coordinator epoch |
//! | | | | i64 first offset of the open transaction |
//!
//! A producer snapshot is i16 version (1), u32 CRC-32C of everything after it, i32 count, then the producers.
//!
//! Sources: `OffsetIndex`, `TimeIndex`, `AbortedTxn`, `ProducerStateManager`.

use super::crc::crc32c;
use super::cursor::{get_i16, get_i32, get_i64, get_u32};
use crate::error::{Error, Result};
use crate::types::{NO_TIMESTAMP, Offset, Position, TimestampMs};

/// Bytes of an offset index entry.
pub(crate) const OFFSET_ENTRY_SIZE: usize = 4 + 4;
/// Bytes of a time index entry.
pub(crate) const TIME_ENTRY_SIZE: usize = 8 + 4;

/// Entries that both indexes of a segment have room for, by `segment.index.bytes`; the time index keeps its last slot
/// for the roll.
#[must_use]
pub(crate) fn index_room(segment_index_bytes: i32) -> usize {
    let size = usize::try_from(segment_index_bytes).unwrap_or_default();
    (size / OFFSET_ENTRY_SIZE).min((size / TIME_ENTRY_SIZE).saturating_sub(1))
}

/// Bytes of an aborted transaction.
pub(crate) const ABORTED_TXN_SIZE: usize = LAST_STABLE_OFFSET_AT + 8;
const _: () = assert!(OFFSET_ENTRY_SIZE == 8 && TIME_ENTRY_SIZE == 12 && ABORTED_TXN_SIZE == 34);

const PRODUCER_ID_AT: usize = 2;
const FIRST_OFFSET_AT: usize = PRODUCER_ID_AT + 8;
const LAST_OFFSET_AT: usize = FIRST_OFFSET_AT + 8;
const LAST_STABLE_OFFSET_AT: usize = LAST_OFFSET_AT + 8;

/// One entry of an offset index: "the batch with this offset is at this position".
///
/// Brokers up to 1.1 wrote the first offset of the append, 2.0 to 3.9 its largest, 4.0 on the batch's last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetPosition {
    /// Absolute offset.
    pub offset: Offset,
    /// Position in the `.log`; unchecked, so negative in a broken file.
    pub position: i32,
}

/// One entry of a time index: the largest timestamp up to and with this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    /// Milliseconds since the epoch; -1 where there is none.
    pub timestamp: TimestampMs,
    /// Absolute offset.
    pub offset: Offset,
}

/// Offset of an entry relative to `base_offset`; `None` if it does not fit (`AbstractIndex.canAppendOffset`).
#[inline]
#[must_use]
pub(crate) fn relative_offset(base_offset: Offset, offset: Offset) -> Option<i32> {
    let relative = i32::try_from(offset.wrapping_sub(base_offset)).ok();
    relative.filter(|&relative| relative >= 0)
}

impl OffsetPosition {
    /// Encoding in the index of the segment that begins at `base_offset`.
    #[inline]
    #[must_use]
    pub const fn relative(base_offset: Offset, relative_offset: i32, position: i32) -> Self {
        Self {
            offset: base_offset.wrapping_add(relative_offset as i64),
            position,
        }
    }
}

impl TimestampOffset {
    /// Decodes an entry of the index of the segment that begins at `base_offset`.
    #[inline]
    #[must_use]
    pub const fn relative(
        base_offset: Offset,
        timestamp: TimestampMs,
        relative_offset: i32,
    ) -> Self {
        Self {
            timestamp,
            offset: base_offset.wrapping_add(relative_offset as i64),
        }
    }

    /// Answer of an empty index.
    #[must_use]
    pub const fn none(base_offset: Offset) -> Self {
        Self::relative(base_offset, NO_TIMESTAMP, 0)
    }
}

/// One entry of a transaction index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTxn {
    /// Always written as 0.
    pub version: i16,
    /// The producer of the transaction.
    pub producer_id: i64,
    /// Its first offset, perhaps in an earlier segment.
    pub first_offset: Offset,
    /// The offset of the marker that ended it.
    pub last_offset: Offset,
    /// The last stable offset right after it.
    pub last_stable_offset: Offset,
}

impl AbortedTxn {
    /// The newest version there is.
    pub const CURRENT_VERSION: i16 = 0;

    /// Checks that a broker reads this version, of the entry at `position`: up to 4.3 it looks at the high byte
    /// only.
    ///
    /// # Errors
    /// `UnsupportedFormat` for a newer one.
    pub fn ensure_readable(&self, position: Position) -> Result<()> {
        if self.version >> 8 <= Self::CURRENT_VERSION {
            return Ok(());
        }
        let what = "aborted transaction version";
        Err(Error::unsupported(
            what,
            position,
            Self::CURRENT_VERSION,
            self.version,
        ))
    }

    /// Checks what a broker checks of the entry at `position` of the segment that begins at `base_offset`
    /// (`TransactionIndex.sanityCheck`).
    ///
    /// # Errors
    /// `CorruptIndex` for a marker below the base, else as [`AbortedTxn::ensure_readable`].
    pub fn sanity_check(&self, position: Position, base_offset: Offset) -> Result<()> {
        self.ensure_readable(position)?;
        if self.last_offset >= base_offset {
            return Ok(());
        }
        let expected = format_args!("at least the base, {base_offset}");
        let found = self.last_offset;
        Err(Error::corrupt_index(
            "last offset",
            position,
            expected,
            found,
        ))
    }

    /// The entry's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; ABORTED_TXN_SIZE] {
        let mut data = [0; ABORTED_TXN_SIZE];
        let (version, rest) = data.split_at_mut(PRODUCER_ID_AT);
        version.copy_from_slice(&self.version.to_be_bytes());
        let fields = [
            self.producer_id,
            self.first_offset,
            self.last_offset,
            self.last_stable_offset,
        ];
        for (place, field) in rest.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        data
    }

    /// Reads the entry at the start of `data`; `None` where it is cut off.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Self> {
        Some(Self {
            version: get_i16(data, 0)?,
            producer_id: get_i64(data, PRODUCER_ID_AT)?,
            first_offset: get_i64(data, FIRST_OFFSET_AT)?,
            last_offset: get_i64(data, LAST_OFFSET_AT)?,
            last_stable_offset: get_i64(data, LAST_STABLE_OFFSET_AT)?,
        })
    }
}

/// State of one producer in a snapshot: its last batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// The producer.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// Sequence of its last record; -1 where only a marker is known.
    pub last_sequence: i32,
    /// Offset of its last record; -1 where only a marker is known.
    pub last_offset: Offset,
    /// Records in its last batch, less one.
    pub offset_delta: i32,
    /// Timestamp of its last batch.
    pub timestamp: TimestampMs,
    /// Epoch of the coordinator that wrote its last marker, -1 unknown.
    pub coordinator_epoch: i32,
    /// First offset of its open transaction, -1 for none.
    pub current_txn_first_offset: Offset,
}

/// The sequence `delta` before `last`; below 0 it wraps to `i32::MAX` (`DefaultRecordBatch.decrementSequence`).
#[must_use]
pub(crate) const fn sequence_before(last: i32, delta: i32) -> i32 {
    if last < delta {
        i32::MAX
            .wrapping_sub(delta.wrapping_sub(last))
            .wrapping_add(1)
    } else {
        last.wrapping_sub(delta)
    }
}

const SNAPSHOT_VERSION: i16 = 1;
const SNAPSHOT_CRC_AT: usize = 2;
const SNAPSHOT_COUNT_AT: usize = SNAPSHOT_CRC_AT + 4;
const SNAPSHOT_ENTRIES_AT: usize = SNAPSHOT_COUNT_AT + 4;
const PRODUCER_EPOCH_AT: usize = 8;
const LAST_SEQUENCE_AT: usize = PRODUCER_EPOCH_AT + 2;
const PRODUCER_LAST_OFFSET_AT: usize = LAST_SEQUENCE_AT + 4;
const OFFSET_DELTA_AT: usize = PRODUCER_LAST_OFFSET_AT + 8;
const PRODUCER_TIMESTAMP_AT: usize = OFFSET_DELTA_AT + 4;
const COORDINATOR_EPOCH_AT: usize = PRODUCER_TIMESTAMP_AT + 8;
const TXN_FIRST_OFFSET_AT: usize = COORDINATOR_EPOCH_AT + 4;
/// Bytes of one producer in a snapshot.
pub const PRODUCER_STATE_SIZE: usize = TXN_FIRST_OFFSET_AT + 8;
const _: () = assert!(PRODUCER_STATE_SIZE == 46);

impl ProducerState {
    fn parse(data: &[u8]) -> Option<Self> {
        Some(Self {
            producer_id: get_i64(data, 0)?,
            producer_epoch: get_i16(data, PRODUCER_EPOCH_AT)?,
            last_sequence: get_i32(data, LAST_SEQUENCE_AT)?,
            last_offset: get_i64(data, PRODUCER_LAST_OFFSET_AT)?,
            offset_delta: get_i32(data, OFFSET_DELTA_AT)?,
            timestamp: get_i64(data, PRODUCER_TIMESTAMP_AT)?,
            coordinator_epoch: get_i32(data, COORDINATOR_EPOCH_AT)?,
            current_txn_first_offset: get_i64(data, TXN_FIRST_OFFSET_AT)?,
        })
    }

    /// Reads a whole `.snapshot` (`ProducerStateManager.readSnapshot`).
    ///
    /// # Errors
    /// `CorruptIndex` for an unknown version, a wrong checksum, or a count that does not fit.
    pub fn parse_snapshot(data: &[u8]) -> Result<Vec<Self>> {
        let cut = || {
            let expected = format!("at least {SNAPSHOT_ENTRIES_AT} bytes");
            Error::corrupt_index("snapshot header", 0, expected, data.len())
        };
        let version = get_i16(data, 0).ok_or_else(cut)?;
        let crc = get_u32(data, SNAPSHOT_CRC_AT).ok_or_else(cut)?;
        let count = get_i32(data, SNAPSHOT_COUNT_AT).ok_or_else(cut)?;
        if version != SNAPSHOT_VERSION {
            return Err(Error::corrupt_index(
                "snapshot version",
                0,
                SNAPSHOT_VERSION,
                version,
            ));
        }
        let computed = crc32c(data.get(SNAPSHOT_COUNT_AT..).unwrap_or_default());
        if computed != crc {
            return Err(Error::corrupt_index(
                "snapshot crc (CRC-32C)",
                SNAPSHOT_CRC_AT as u64,
                format_args!("{crc:#010x} as stored"),
                format_args!("{computed:#010x} over the bytes"),
            ));
        }
        let entries = data.get(SNAPSHOT_ENTRIES_AT..).unwrap_or_default();
        let whole = entries.chunks_exact(PRODUCER_STATE_SIZE);
        match usize::try_from(count) {
            // Bytes after the last producer are under the checksum, and nothing to Kafka.
            Ok(count) if count <= whole.len() => {
                Ok(whole.take(count).filter_map(Self::parse).collect())
            }
            _ => Err(Error::corrupt_index(
                "snapshot count",
                SNAPSHOT_COUNT_AT as u64,
                format_args!("what {} bytes hold", entries.len()),
                count,
            )),
        }
    }

    fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.producer_id.to_be_bytes());
        to.extend_from_slice(&self.producer_epoch.to_be_bytes());
        to.extend_from_slice(&self.last_sequence.to_be_bytes());
        to.extend_from_slice(&self.last_offset.to_be_bytes());
        to.extend_from_slice(&self.offset_delta.to_be_bytes());
        to.extend_from_slice(&self.timestamp.to_be_bytes());
        to.extend_from_slice(&self.coordinator_epoch.to_be_bytes());
        to.extend_from_slice(&self.current_txn_first_offset.to_be_bytes());
    }

    /// A whole `.snapshot` of these producers (`ProducerStateManager.writeSnapshot`).
    ///
    /// # Errors
    /// `InvalidArgument` for more producers than the count can say.
    pub fn write_snapshot(producers: impl ExactSizeIterator<Item = Self>) -> Result<Vec<u8>> {
        let count = i32::try_from(producers.len()).map_err(|_| {
            Error::InvalidArgument(format!("{} producers in a snapshot", producers.len()))
        })?;
        let size = producers.len().saturating_mul(PRODUCER_STATE_SIZE);
        let mut entries = Vec::with_capacity(size.saturating_add(SNAPSHOT_ENTRIES_AT));
        entries.extend_from_slice(&count.to_be_bytes());
        for producer in producers {
            producer.put(&mut entries);
        }
        let mut data = Vec::with_capacity(entries.len().saturating_add(SNAPSHOT_COUNT_AT));
        data.extend_from_slice(&SNAPSHOT_VERSION.to_be_bytes());
        data.extend_from_slice(&crc32c(&entries).to_be_bytes());
        data.append(&mut entries);
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        digits
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    /// `TransactionIndexTest`'s entry.
    #[test]
    fn an_aborted_transaction() {
        let data = hex("0000 00000000000f01c5 0000000000000089 000000000000012b 00000000000000c8");
        assert_eq!(
            AbortedTxn::parse(&data),
            Some(AbortedTxn {
                version: 0,
                producer_id: 983_493,
                first_offset: 137,
                last_offset: 299,
                last_stable_offset: 200
            })
        );
        assert_eq!(AbortedTxn::parse(&data[..33]), None);
        assert_eq!(AbortedTxn::parse(&data).unwrap().encode(), data[..]);
    }

    const SNAPSHOT: &str = "0001ea6551fb000000010000000000000001000c0000000500000000000000640000\
                            0002000000000001e2400000000dffffffffffffffff";

    /// `ProducerStateManagerTest`'s snapshot.
    #[test]
    fn a_snapshot() {
        assert_eq!(
            ProducerState::parse_snapshot(&hex(SNAPSHOT)).unwrap(),
            [ProducerState {
                producer_id: 1,
                producer_epoch: 12,
                last_sequence: 5,
                last_offset: 100,
                offset_delta: 2,
                timestamp: 123_456,
                coordinator_epoch: 13,
                current_txn_first_offset: -1
            }]
        );
    }

    #[test]
    fn a_snapshot_written_is_the_snapshot_read() {
        let producers = ProducerState::parse_snapshot(&hex(SNAPSHOT)).unwrap();
        let written = ProducerState::write_snapshot(producers.into_iter()).unwrap();
        assert_eq!(written, hex(SNAPSHOT));
        let none = ProducerState::write_snapshot(std::iter::empty()).unwrap();
        assert_eq!(none.len(), 10);
        assert_eq!(ProducerState::parse_snapshot(&none).unwrap(), []);
    }

    #[test]
    fn sequences_wrap_backwards() {
        assert_eq!(sequence_before(5, 2), 3);
        assert_eq!(sequence_before(5, 5), 0);
        assert_eq!(sequence_before(0, 1), i32::MAX);
        assert_eq!(sequence_before(4, 10), i32::MAX - 5);
    }

    #[test]
    fn every_flipped_bit_of_a_snapshot_is_seen() {
        let good = hex(SNAPSHOT);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(ProducerState::parse_snapshot(&bad).is_err(), "bit {bit}");
        }
        for end in 0..good.len() {
            assert!(ProducerState::parse_snapshot(&good[..end]).is_err());
        }
    }
}
