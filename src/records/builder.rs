//! Builds one batch of magic 2 from records (`MemoryRecordsBuilder`). Uncompressed, it has the same bytes as Kafka's
//! for the same records.

use std::ops::Range;

use crate::compress::{Codec, Compressor};
use crate::error::{Error, Result};
use crate::format::attributes::Attributes;
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::format::control::ControlType;
#[cfg(any(feature = "internal", feature = "python"))]
use crate::format::control::EndTransactionMarker;
use crate::format::record::{Header, NewRecord, key_text};
use crate::records::RecordSlot;
use crate::types::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE,
    NO_TIMESTAMP, Offset, TimestampMs, TimestampType,
};

/// Properties of a batch besides its records. The default is a plain producer's: nothing known, nothing compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// Offset that the deltas count from; a leader's log assigns another one later.
    pub base_offset: Offset,
    /// Codec and level.
    pub codec: Codec,
    /// Source of the timestamps: CreateTime or LogAppendTime.
    pub timestamp_type: TimestampType,
    /// The batch's timestamp under LogAppendTime.
    pub log_append_time: TimestampMs,
    /// Leader epoch, -1 unknown.
    pub partition_leader_epoch: i32,
    /// Producer id, -1 none.
    pub producer_id: i64,
    /// Producer epoch, -1 none.
    pub producer_epoch: i16,
    /// Sequence of the first record, -1 none.
    pub base_sequence: i32,
    /// Part of a transaction.
    pub is_transactional: bool,
    /// Control records instead of records.
    pub is_control: bool,
    /// Time from which tombstones and markers may be removed; the timestamps then count from it (KIP-534).
    pub delete_horizon_ms: Option<TimestampMs>,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            base_offset: 0,
            codec: Codec::NONE,
            timestamp_type: TimestampType::CreateTime,
            log_append_time: NO_TIMESTAMP,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            is_transactional: false,
            is_control: false,
            delete_horizon_ms: None,
        }
    }
}

impl BatchOptions {
    /// Refuses options that a reader could not make sense of (`MemoryRecordsBuilder.validateProducerState`).
    ///
    /// # Errors
    /// `InvalidArgument` for options that contradict each other.
    pub fn check(&self) -> Result<()> {
        let (id, epoch, sequence) = (self.producer_id, self.producer_epoch, self.base_sequence);
        let fault = if self.timestamp_type == TimestampType::NoTimestamp {
            "a batch of magic 2 needs a timestamp type: found none".to_owned()
        } else if self.is_transactional && id == NO_PRODUCER_ID {
            "transactional records need a producer id: found none".to_owned()
        } else if id != NO_PRODUCER_ID && epoch == NO_PRODUCER_EPOCH {
            format!("producer id {id} needs a producer epoch: found none")
        } else if id != NO_PRODUCER_ID && sequence < 0 && !self.is_control {
            format!("producer id {id} needs a base sequence: found {sequence}")
        } else if self.base_offset < 0 {
            format!("a base offset is 0 or more: found {}", self.base_offset)
        } else {
            return Ok(());
        };
        Err(Error::InvalidArgument(fault))
    }
}

/// Takes records in and gives a batch out.
#[derive(Debug)]
pub struct BatchBuilder {
    options: BatchOptions,
    records: Vec<u8>,
    base_timestamp: Option<TimestampMs>,
    max_timestamp: TimestampMs,
    last_offset: Option<Offset>,
    count: i32,
}

impl BatchBuilder {
    /// An empty batch.
    ///
    /// # Errors
    /// Those of [`BatchOptions::check`].
    pub fn new(options: BatchOptions) -> Result<Self> {
        options.check()?;
        Ok(Self::unchecked(options))
    }

    const fn unchecked(options: BatchOptions) -> Self {
        Self {
            options,
            records: Vec::new(),
            base_timestamp: options.delete_horizon_ms,
            max_timestamp: NO_TIMESTAMP,
            last_offset: None,
            count: 0,
        }
    }

    /// Begins another batch in the same memory; records not finished are gone. The options are those of a batch in a
    /// log, and are not checked.
    pub(crate) fn restart(&mut self, options: BatchOptions) {
        let mut records = std::mem::take(&mut self.records);
        records.clear();
        *self = Self {
            records,
            ..Self::unchecked(options)
        };
    }

    /// The batch's size were it finished now without compression.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.records.len().saturating_add(RECORD_BATCH_OVERHEAD)
    }

    /// The offset after the last record.
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        match self.last_offset {
            Some(last) => last.saturating_add(1),
            None => self.options.base_offset,
        }
    }

    /// Appends a record.
    ///
    /// # Errors
    /// `InvalidRecord` for an offset that does not rise or is too far from the base, a timestamp below 0 that is not
    /// -1, a header key that is not UTF-8, a record or a batch beyond 2 GiB. The batch is then as it was.
    pub fn append(
        &mut self,
        offset: Offset,
        timestamp: TimestampMs,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) -> Result<()> {
        if self.options.is_control {
            return Err(Error::InvalidArgument(
                "a control batch takes control records only".to_owned(),
            ));
        }
        self.ensure_taken(offset, timestamp)?;
        if let Some(header) = headers.iter().find(|h| std::str::from_utf8(h.key).is_err()) {
            let key = header.key.escape_ascii().to_string();
            return Err(Error::unplaced(
                "header key",
                "UTF-8",
                format_args!("{key:?} in record {}", self.count),
            ));
        }
        self.put(offset, timestamp, key, value, headers)
    }

    /// Appends a control record after the last one.
    ///
    /// # Errors
    /// As [`BatchBuilder::append`]; `InvalidArgument` outside a control batch or for an unknown kind.
    pub fn append_control(
        &mut self,
        timestamp: TimestampMs,
        kind: ControlType,
        value: &[u8],
    ) -> Result<()> {
        if !self.options.is_control || kind == ControlType::Unknown {
            let is_control = self.options.is_control;
            return Err(Error::InvalidArgument(format!(
                "control record {kind}: expected a known kind in a control batch, found is_control {is_control}"
            )));
        }
        let (offset, key) = (self.next_offset(), kind.key());
        self.ensure_taken(offset, timestamp)?;
        self.put(offset, timestamp, Some(&key), Some(value), &[])
    }

    /// Appends a record of an append, decoded from `source`, after the last one.
    ///
    /// # Errors
    /// As [`BatchBuilder::append`], save that a header key that is not UTF-8 becomes what Java reads ([`key_text`]).
    #[cfg(feature = "internal")]
    pub(crate) fn append_slot(&mut self, source: &[u8], slot: &RecordSlot) -> Result<()> {
        let offset = self.next_offset();
        self.ensure_taken(offset, slot.timestamp)?;
        self.copy_slot(offset, source, slot)
    }

    /// Appends a record that is in a log, decoded from `source`, with any timestamp and any order of offsets: consumers
    /// read it. (Kafka's cleaner leaves the whole partition unchanged if `MemoryRecordsBuilder` refuses a record; no
    /// record is dropped there either.) Control records are copied into a control batch unchanged.
    ///
    /// # Errors
    /// `InvalidRecord` for an offset too far from the base, a batch beyond 2 GiB.
    pub(crate) fn copy_slot(
        &mut self,
        offset: Offset,
        source: &[u8],
        slot: &RecordSlot,
    ) -> Result<()> {
        let (key, value) = (slot.key(source), slot.value(source));
        if slot.headers_count == 0 {
            return self.put(offset, slot.timestamp, key, value, &[]);
        }
        let read: Vec<_> = slot
            .headers(source)
            .map(|header| (key_text(header.key), header.value))
            .collect();
        let headers: Vec<_> = read
            .iter()
            .map(|(key, value)| Header {
                key: key.as_bytes(),
                value: *value,
            })
            .collect();
        self.put(offset, slot.timestamp, key, value, &headers)
    }

    /// Refuses what a producer may not send (`MemoryRecordsBuilder.appendWithOffset`).
    fn ensure_taken(&self, offset: Offset, timestamp: TimestampMs) -> Result<()> {
        let least = self.next_offset();
        if offset < least {
            return Err(self.offset_refused(least, offset));
        }
        if timestamp < NO_TIMESTAMP {
            return Err(Error::unplaced(
                "record timestamp",
                "0 or more, or -1 for none",
                format_args!("{timestamp} in record {}", self.count),
            ));
        }
        Ok(())
    }

    fn offset_refused(&self, least: Offset, offset: Offset) -> Error {
        let most = self.options.base_offset.saturating_add(i64::from(i32::MAX));
        Error::unplaced(
            "record offset",
            format_args!("{least} to {most}"),
            format_args!("{offset} in record {}", self.count),
        )
    }

    fn put(
        &mut self,
        offset: Offset,
        timestamp: TimestampMs,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header<'_>],
    ) -> Result<()> {
        let index = self.count;
        let count = index.checked_add(1).ok_or_else(|| {
            Error::unplaced("records", format_args!("at most {}", i32::MAX), "more")
        })?;
        let base_offset = self.options.base_offset;
        let delta = offset.checked_sub(base_offset).map(i32::try_from);
        let Some(Ok(offset_delta)) = delta else {
            return Err(self.offset_refused(base_offset, offset));
        };
        let base_timestamp = self.base_timestamp.unwrap_or(timestamp);
        let record = NewRecord {
            // Java's subtraction wraps, and the reader's addition back.
            timestamp_delta: timestamp.wrapping_sub(base_timestamp),
            offset_delta,
            key,
            value,
            headers,
        };
        let body = record.body_len()?;
        if self.size().saturating_add(body.unsigned_abs() as usize) > MAX_BATCH_BYTES {
            return Err(Error::unplaced(
                "batch size",
                format_args!("at most {MAX_BATCH_BYTES}"),
                format_args!("{} and {body} more in record {index}", self.size()),
            ));
        }
        record.put(&mut self.records)?;
        self.base_timestamp = Some(base_timestamp);
        self.max_timestamp = if index == 0 {
            timestamp
        } else {
            self.max_timestamp.max(timestamp)
        };
        self.last_offset = self.last_offset.max(Some(offset));
        self.count = count;
        Ok(())
    }

    /// Says that the batch reaches up to this offset, as one that was compacted: its last records may be gone
    /// (`MemoryRecordsBuilder.overrideLastOffset`).
    ///
    /// # Errors
    /// `InvalidRecord` for an offset below the base or too far from it.
    pub fn reach(&mut self, last_offset: Offset) -> Result<()> {
        let least = self.options.base_offset;
        match last_offset
            .checked_sub(self.options.base_offset)
            .map(i32::try_from)
        {
            Some(Ok(_)) if last_offset >= least => {
                self.last_offset = Some(last_offset);
                Ok(())
            }
            _ => Err(Error::unplaced(
                "last offset",
                format_args!(
                    "{least} or more, at most {} after the base offset",
                    i32::MAX
                ),
                last_offset,
            )),
        }
    }

    /// Appends the batch to `out` and says where; `None`, and nothing appended, if it has no records. The builder is
    /// empty afterwards, with the same options.
    ///
    /// # Errors
    /// `InvalidRecord` where there is no memory to compress in, or the batch would be beyond 2 GiB; `out` is then as it
    /// was.
    pub fn finish(
        &mut self,
        compressor: &mut Compressor,
        out: &mut Vec<u8>,
    ) -> Result<Option<Range<usize>>> {
        let begun = out.len();
        if self.count == 0 {
            return Ok(None);
        }
        let done = self.write(compressor, out);
        if done.is_err() {
            out.truncate(begun);
        }
        done?;
        self.restart(self.options);
        Ok(Some(begun..out.len()))
    }

    fn write(&self, compressor: &mut Compressor, out: &mut Vec<u8>) -> Result<()> {
        let begun = out.len();
        out.try_reserve(self.size())
            .map_err(|_| Error::no_memory(self.size()))?;
        out.extend_from_slice(&[0; RECORD_BATCH_OVERHEAD]);
        match self.options.codec.compression() {
            Compression::None => out.extend_from_slice(&self.records),
            _ => compressor.compress(self.options.codec, &self.records, out)?,
        }
        let batch = out.get_mut(begun..).unwrap_or_default();
        self.header().seal(batch)?;
        Ok(())
    }

    /// Header so far, without size and checksum.
    fn header(&self) -> BatchHeader {
        let options = &self.options;
        let delta = self
            .next_offset()
            .wrapping_sub(1)
            .wrapping_sub(options.base_offset);
        BatchHeader {
            base_offset: options.base_offset,
            size: 0,
            partition_leader_epoch: options.partition_leader_epoch,
            magic: 2,
            crc: 0,
            attributes: Attributes::new(
                options.codec.compression(),
                options.timestamp_type,
                options.is_transactional,
                options.is_control,
                options.delete_horizon_ms.is_some(),
            ),
            last_offset_delta: i32::try_from(delta).unwrap_or(i32::MAX),
            base_timestamp: self.base_timestamp.unwrap_or(NO_TIMESTAMP),
            max_timestamp: match options.timestamp_type {
                TimestampType::LogAppendTime => options.log_append_time,
                _ => self.max_timestamp,
            },
            producer_id: options.producer_id,
            producer_epoch: options.producer_epoch,
            base_sequence: options.base_sequence,
            records_count: Some(self.count),
        }
    }
}

/// No batch is larger, so that its length and its records' places fit Kafka's numbers with room to spare.
const MAX_BATCH_BYTES: usize = i32::MAX as usize - (64 << 10);

/// The batch that ends a transaction (`MemoryRecords.withEndTransactionMarker`), appended to `out`. Of `options`, base
/// offset, leader epoch, producer id and producer epoch count.
///
/// # Errors
/// `InvalidArgument` without a producer id and epoch, or for a kind that ends no transaction; `InvalidRecord` for a
/// timestamp below 0 that is not -1.
#[cfg(any(feature = "internal", feature = "python"))]
pub fn end_transaction(
    options: BatchOptions,
    timestamp: TimestampMs,
    kind: ControlType,
    coordinator_epoch: i32,
    out: &mut Vec<u8>,
) -> Result<()> {
    if !kind.ends_transaction() {
        return Err(Error::InvalidArgument(format!(
            "{kind} ends no transaction"
        )));
    }
    let mut builder = BatchBuilder::new(BatchOptions {
        codec: Codec::NONE,
        timestamp_type: TimestampType::CreateTime,
        base_sequence: NO_SEQUENCE,
        is_transactional: true,
        is_control: true,
        delete_horizon_ms: None,
        ..options
    })?;
    builder.append_control(
        timestamp,
        kind,
        &EndTransactionMarker::value(coordinator_epoch),
    )?;
    builder.finish(&mut Compressor::new(), out)?;
    Ok(())
}

/// The batch without records that compaction leaves of one (`DefaultRecordBatch.writeEmptyHeader`), appended to `out`:
/// it holds the producer's last sequence and the last offset. Of `options`, all but codec and horizon count.
///
/// # Errors
/// `InvalidRecord` for a last offset that is not at most 31 bits from the base.
pub fn empty_batch(
    options: BatchOptions,
    last_offset: Offset,
    max_timestamp: TimestampMs,
    out: &mut Vec<u8>,
) -> Result<()> {
    let delta = last_offset
        .checked_sub(options.base_offset)
        .and_then(|delta| i32::try_from(delta).ok())
        .filter(|&delta| delta >= 0);
    let Some(last_offset_delta) = delta else {
        return Err(Error::unplaced(
            "last offset",
            format_args!("{} or a little more", options.base_offset),
            last_offset,
        ));
    };
    let header = BatchHeader {
        base_offset: options.base_offset,
        size: 0,
        partition_leader_epoch: options.partition_leader_epoch,
        magic: 2,
        crc: 0,
        attributes: Attributes::new(
            Compression::None,
            options.timestamp_type,
            options.is_transactional,
            options.is_control,
            false,
        ),
        last_offset_delta,
        base_timestamp: NO_TIMESTAMP,
        max_timestamp,
        producer_id: options.producer_id,
        producer_epoch: options.producer_epoch,
        base_sequence: options.base_sequence,
        records_count: Some(0),
    };
    let mut batch = [0; RECORD_BATCH_OVERHEAD];
    header.seal(&mut batch)?;
    out.extend_from_slice(&batch);
    Ok(())
}

#[cfg(test)]
mod tests;
