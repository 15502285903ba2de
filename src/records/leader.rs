//! Validation by a leader of batches before they are appended (`LogValidator`): checks their records, assigns offsets,
//! an epoch and the timestamp type, and re-encodes them if codec or format require it.
//!
//! | received | appended to the log |
//! |---|---|
//! | magic 2, the topic's codec | the same bytes with another base offset, epoch, timestamp type, largest timestamp |
//! | magic 2, another codec; offsets with gaps | its records in one new batch |
//! | magic 0 or 1 | the records of all messages in one new batch of magic 2 |
//! | a control batch, not compressed | as the first line, whatever the codec |
//!
//! The checksums of batches are checked by the log before (`UnifiedLog.analyzeAndValidateRecords`), as sizes are; those
//! of messages inside a wrapper here. Where Kafka skips over keys and values of a compressed batch without adding up
//! their lengths, everything is read here: a batch in the log was whole when it was received.
//!
//! Compiled with the feature `internal` only: Kafka's own traces are replayed through it, and it is the oracle of the
//! encoder from Arrow, whose batches need no validation.

use super::RecordSlot;
use super::block::Payload;
use super::builder::{BatchBuilder, BatchOptions};
use super::plain;
use super::validate::LeaderRules;
use crate::compress::{Codec, Compressor, DecodeLimit, Decompressor};
use crate::error::{Error, Refusal, Result};
use crate::format::batch::{self, BatchHeader};
use crate::format::message::Message;
use crate::types::{AppendOrigin, Compression, NO_TIMESTAMP, Offset, TimestampMs, TimestampType};

/// Place and time of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The log end offset.
    pub base_offset: Offset,
    /// The leader's epoch.
    pub leader_epoch: i32,
    /// The clock.
    pub now_ms: TimestampMs,
    /// Origin of the append.
    pub origin: AppendOrigin,
}

/// Result of validating an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validated {
    /// The offset after the last record.
    pub next_offset: Offset,
    /// The largest timestamp, -1 if there is none; under LogAppendTime the clock.
    pub max_timestamp: TimestampMs,
    /// The clock, under LogAppendTime.
    pub log_append_time: Option<TimestampMs>,
    /// The bytes are new ones: their sizes have to be compared with `max.message.bytes` once more.
    pub is_reencoded: bool,
}

/// Validates appends; keeps its contexts and memory between them.
#[derive(Debug, Default)]
pub struct LeaderValidator {
    decompressor: Decompressor,
    compressor: Compressor,
    arena: Vec<u8>,
    slots: Vec<RecordSlot>,
    limit: DecodeLimit,
}

impl LeaderValidator {
    /// Without contexts yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Prepares the batches in `records` for the log; they can then be written. On failure they are unchanged.
    ///
    /// # Errors
    /// `InvalidRecord`: no batch, more than one (of magic 2, or compressed), a count or offsets that contradict each
    /// other, control records from a client, a producer without sequence, broken records, records without key in a
    /// compacted topic. `Refused` for timestamps out of bounds. `CorruptRecord` and `UnsupportedFormat` for bytes that
    /// are no batches, or messages in a wrapper whose checksum is wrong.
    pub fn validate(
        &mut self,
        records: &mut Vec<u8>,
        rules: &LeaderRules,
        placement: &Placement,
    ) -> Result<Validated> {
        let batches = split(records)?;
        let Some((_, first)) = batches.first() else {
            return Err(Error::unplaced("append", "a batch", "none at all"));
        };
        let first = first.clone();
        let mut source = Compression::None;
        for (_, header) in &batches {
            match header.compression()? {
                Compression::None => {}
                codec => source = codec,
            }
        }
        if batches.len() > 1 && (first.magic >= 2 || source != Compression::None) {
            return Err(Error::unplaced(
                "append",
                "one batch",
                format_args!("{} of them", batches.len()),
            ));
        }
        let target = rules.codec.unwrap_or(Codec::new(source));
        let keeps_codec = source == target.compression();
        let is_plain_control = source == Compression::None && first.is_control();
        let parts = self.decode(records, &batches, rules, placement)?;
        // Some old clients number the records of a batch wrongly; a compressed batch is then rebuilt.
        let is_numbered = source == Compression::None
            || (0i64..).zip(&self.slots).all(|(n, slot)| slot.offset == n);
        let in_place = first.magic == 2 && (keeps_codec || is_plain_control) && is_numbered;
        let next_offset = i64::try_from(self.slots.len())
            .ok()
            .and_then(|count| placement.base_offset.checked_add(count))
            .ok_or_else(|| Error::unplaced("offsets", "below 2^63", placement.base_offset))?;
        let log_append_time =
            (rules.timestamp_type == TimestampType::LogAppendTime).then_some(placement.now_ms);
        let timestamps = self.slots.iter().map(|slot| slot.timestamp);
        let max_timestamp =
            log_append_time.unwrap_or_else(|| timestamps.fold(NO_TIMESTAMP, TimestampMs::max));
        if in_place {
            let base = next_offset
                .wrapping_sub(1)
                .wrapping_sub(i64::from(first.last_offset_delta));
            batch::assign(records, base, placement.leader_epoch);
            batch::set_max_timestamp(records, &first, rules.timestamp_type, max_timestamp);
        } else {
            *records = self.rebuild(records, &first, &parts, target, rules, placement)?;
        }
        Ok(Validated {
            next_offset,
            max_timestamp,
            log_append_time,
            is_reencoded: !in_place,
        })
    }

    /// Decodes all batches into `self.slots`, checked; gives where each one's slots end, and what they are about.
    fn decode(
        &mut self,
        records: &[u8],
        batches: &[(usize, BatchHeader)],
        rules: &LeaderRules,
        placement: &Placement,
    ) -> Result<Vec<(usize, Payload)>> {
        self.arena.clear();
        self.slots.clear();
        let mut parts = Vec::with_capacity(batches.len());
        for (at, header) in batches {
            let first = batches.first().map_or(header, |(_, first)| first);
            check_batch(header, first, placement.origin)?;
            let begun = self.slots.len();
            let payload = plain::batch(
                part(records, *at, header),
                u32::try_from(*at).map_err(|_| too_large(records.len()))?,
                header,
                &mut self.decompressor,
                &mut self.arena,
                self.limit,
                &mut self.slots,
            )
            .map_err(|error| error.shift(*at as u64))?;
            if header.is_legacy() && payload == Payload::Arena {
                check_inner_messages(&self.arena, header)
                    .map_err(|error| error.inside(*at as u64))?;
            }
            let slots = self.slots.get(begun..).unwrap_or_default();
            check_records(slots, header, rules, placement.now_ms)?;
            parts.push((self.slots.len(), payload));
        }
        Ok(parts)
    }

    /// All records in one new batch (`buildRecordsAndAssignOffsets`).
    fn rebuild(
        &mut self,
        records: &[u8],
        first: &BatchHeader,
        parts: &[(usize, Payload)],
        codec: Codec,
        rules: &LeaderRules,
        placement: &Placement,
    ) -> Result<Vec<u8>> {
        let mut builder = BatchBuilder::new(BatchOptions {
            base_offset: placement.base_offset,
            codec,
            timestamp_type: rules.timestamp_type,
            log_append_time: placement.now_ms,
            partition_leader_epoch: placement.leader_epoch,
            producer_id: first.producer_id,
            producer_epoch: first.producer_epoch,
            base_sequence: first.base_sequence,
            is_transactional: first.is_transactional(),
            is_control: false,
            delete_horizon_ms: None,
        })?;
        let mut begun = 0;
        for &(end, payload) in parts {
            let source = match payload {
                Payload::Source => records,
                Payload::Arena => &self.arena,
            };
            for slot in self.slots.get(begun..end).unwrap_or_default() {
                builder.append_slot(source, slot)?;
            }
            begun = end;
        }
        let mut out = Vec::new();
        builder.finish(&mut self.compressor, &mut out)?;
        Ok(out)
    }
}

/// The batches in `records`, all of them whole.
fn split(records: &[u8]) -> Result<Vec<(usize, BatchHeader)>> {
    let mut batches = Vec::new();
    let mut at = 0usize;
    while let Some(rest) = records.get(at..).filter(|rest| !rest.is_empty()) {
        let header = BatchHeader::parse(rest).map_err(|error| error.shift(at as u64))?;
        let Some(header) = header.filter(|header| header.size <= rest.len()) else {
            return Err(Error::corrupt(
                "append",
                at as u64,
                "whole batches",
                format_args!("{} bytes of one", rest.len()),
            ));
        };
        let size = header.size;
        batches.push((at, header));
        at = at.saturating_add(size);
    }
    Ok(batches)
}

fn part<'a>(records: &'a [u8], at: usize, header: &BatchHeader) -> &'a [u8] {
    records
        .get(at..at.saturating_add(header.size))
        .unwrap_or_default()
}

#[cold]
fn too_large(size: usize) -> Error {
    Error::unplaced("append", "below 4 GiB", size)
}

/// `LogValidator.validateBatch`
fn check_batch(header: &BatchHeader, first: &BatchHeader, origin: AppendOrigin) -> Result<()> {
    let refused = |what, expected: &dyn std::fmt::Display, found: &dyn std::fmt::Display| {
        Err(Error::unplaced(what, expected, found))
    };
    if header.magic != first.magic {
        return refused(
            "magic",
            &format_args!("{} as in the first batch", first.magic),
            &header.magic,
        );
    }
    if origin != AppendOrigin::Client {
        return Ok(());
    }
    if let Some(count) = header.records_count {
        if count <= 0 {
            return refused("records count", &"1 or more", &count);
        }
        if header.last_offset_delta != count.saturating_sub(1) {
            return refused(
                "records count",
                &format_args!(
                    "{} as the offsets say",
                    i64::from(header.last_offset_delta).saturating_add(1)
                ),
                &count,
            );
        }
    }
    if header.is_control() {
        return refused(
            "control batch",
            &"records from a client",
            &"control records",
        );
    }
    if header.has_producer_id() && header.base_sequence < 0 {
        return refused(
            "base sequence",
            &format_args!("0 or more from producer {}", header.producer_id),
            &header.base_sequence,
        );
    }
    Ok(())
}

/// The messages of a wrapper, which lie decompressed in `arena`: each of the wrapper's magic, and its checksum right.
fn check_inner_messages(arena: &[u8], wrapper: &BatchHeader) -> Result<()> {
    let mut at = 0usize;
    while let Some(rest) = arena.get(at..)
        && let Some(message) = Message::parse(rest).map_err(|error| error.shift(at as u64))?
    {
        if message.magic != wrapper.magic {
            return Err(Error::invalid(
                "inner message magic",
                at as u64,
                format_args!("{} as the wrapper's", wrapper.magic),
                message.magic,
            ));
        }
        if let Some(header) = BatchHeader::parse(rest)? {
            header
                .ensure_valid(rest.get(..message.size).unwrap_or_default())
                .map_err(|error| error.shift(at as u64))?;
        }
        at = at.saturating_add(message.size);
    }
    Ok(())
}

/// Keys and timestamps of a batch's records (`LogValidator.validateRecord`). As in Kafka a timestamp out of bounds
/// decides what the refusal is, wherever it stands.
fn check_records(
    slots: &[RecordSlot],
    header: &BatchHeader,
    rules: &LeaderRules,
    now_ms: TimestampMs,
) -> Result<()> {
    let mut keyless = None;
    for (index, slot) in slots.iter().enumerate() {
        if rules.compact && slot.key_len < 0 {
            keyless.get_or_insert(index);
        } else if !rules.takes_timestamp(slot.timestamp, now_ms) {
            return Err(rules.timestamp_refused(slot.timestamp, index, now_ms));
        } else if (rules.timestamp_type != TimestampType::CreateTime
            || slot.timestamp == NO_TIMESTAMP)
            && header.timestamp_type() == TimestampType::LogAppendTime
        {
            return Err(Error::refused(
                Refusal::InvalidTimestamp,
                "timestamp type: expected CreateTime from a producer, found LogAppendTime",
            ));
        }
    }
    match keyless {
        Some(index) => Err(LeaderRules::key_refused(index)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
