//! Segments and KRaft snapshots: a line per batch, and below it a line per record (`dumpLog`).

use std::ops::Range;

use super::control::put_control;
use super::decoded::put_record;
use super::findings::DumpFindings;
use super::records::{DumpedRecord, LenientDecoder, More};
use super::target::DumpTarget;
use super::text::{TextOutput, put};
use super::walk::{BatchFrame, frame_at};
use super::{Options, PrintedAs};
use crate::error::{Error, Result};
use crate::format::batch::{
    ATTRIBUTES_AT, BatchHeader, LEGACY_ATTRIBUTES_AT, RECORD_BATCH_OVERHEAD,
};
use crate::format::cursor::{get_i32, get_i64};
use crate::format::put::Put;
use crate::format::text::put_text;
use crate::segment::source::SegmentSource;
use crate::tables::plan::{BOOTSTRAP, SNAPSHOT_EPOCH_DIGITS, SNAPSHOT_OFFSET_DIGITS, snapshot_id};
use crate::types::{NO_TIMESTAMP, Offset, Position, TimestampMs};

/// First characters of a record's line.
const RECORD_INDENT: &str = "| ";

/// The largest timestamp of a batch's records, -1 for none.
///
/// # Errors
/// As [`super::pieces::dump_log`].
pub(super) fn largest_timestamp(
    log: &mut SegmentSource,
    frame: &BatchFrame,
    records: &mut LenientDecoder,
) -> Result<TimestampMs> {
    let header = frame.header(log)?;
    let mut largest = NO_TIMESTAMP;
    records
        .each(
            &header,
            log.bytes(frame.position, frame.size)?,
            &mut |record| {
                largest = largest.max(record.timestamp);
                Ok(())
            },
        )
        .map_err(|e| frame.place(e.for_offset(header.base_offset), log))?;
    Ok(largest)
}

/// Prints the line about the file's name.
pub(super) fn headline(target: &DumpTarget, text: &mut TextOutput<'_>) -> Result<()> {
    if target.suffix() == Some(".log") {
        let base_offset = target.base_offset()?;
        put!(text, "Log starting offset: ", base_offset);
    } else if target.name == BOOTSTRAP {
        put!(text, "KRaft bootstrap snapshot");
    } else {
        let (offset, epoch) = snapshot_id(&target.name).ok_or_else(|| {
            Error::InvalidArgument(format!(
                "{}: file name: expected {SNAPSHOT_OFFSET_DIGITS} digits of an offset, '-', {SNAPSHOT_EPOCH_DIGITS} of an epoch",
                target.shown
            ))
        })?;
        put!(text, "Snapshot end offset: ", offset, ", epoch: ", epoch);
    }
    text.end_line()
}

/// The first half of a batch's line: what its header says by itself.
fn batch_start(
    frame: &BatchFrame,
    log: &mut SegmentSource,
    text: &mut TextOutput<'_>,
) -> Result<BatchHeader> {
    if frame.is_legacy() {
        put!(text, "offset: ", frame.offset);
        return frame.header(log);
    }
    let header = frame.header(log)?;
    put!(
        text,
        "baseOffset: ",
        header.base_offset,
        " lastOffset: ",
        header.last_offset(),
        " count: ",
        header.records_count.unwrap_or_default(),
        " baseSequence: ",
        header.base_sequence,
        " lastSequence: ",
        header.last_sequence(),
        " producerId: ",
        header.producer_id,
        " producerEpoch: ",
        header.producer_epoch,
        " partitionLeaderEpoch: ",
        header.partition_leader_epoch,
        " isTransactional: ",
        header.is_transactional(),
        " isControl: ",
        header.is_control(),
        " deleteHorizonMs: ",
        header.delete_horizon_ms(),
    );
    Ok(header)
}

/// The second half; returns whether the checksum is right.
fn batch_rest(
    frame: &BatchFrame,
    header: &BatchHeader,
    batch: &[u8],
    text: &mut TextOutput<'_>,
) -> Result<bool> {
    let codec = header.attributes.compression().ok_or_else(|| {
        let at = if header.is_legacy() {
            LEGACY_ATTRIBUTES_AT
        } else {
            ATTRIBUTES_AT.saturating_add(1)
        };
        let found = header.attributes.codec_id();
        Error::unsupported("compression codec", at as u64, "0 to 4", found)
    })?;
    let whole = header.is_legacy() || batch.len() >= RECORD_BATCH_OVERHEAD;
    let is_valid = whole && header.computed_crc(batch) == header.crc;
    put!(
        text,
        " position: ",
        frame.position,
        " ",
        header.timestamp_type().name(),
        ": ",
        header.max_timestamp,
        " size: ",
        frame.size,
        " magic: ",
        header.magic,
        " compresscodec: ",
        codec.name(),
        " crc: ",
        header.crc,
        " isvalid: ",
        is_valid,
    );
    text.end_line()?;
    Ok(is_valid)
}

/// Prints batches and their records.
pub(super) struct BatchPrinter<'a> {
    pub(super) target: &'a DumpTarget,
    options: &'a Options,
    records: LenientDecoder,
    sequence: Sequence,
}

/// The offsets of records in the order in which they were met.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sequence {
    /// Of the first record, where none was known before it.
    pub(super) first: Option<Offset>,
    /// Of the last one.
    pub(super) last: Option<Offset>,
}

impl<'a> BatchPrinter<'a> {
    /// Of one file.
    pub(super) fn new(target: &'a DumpTarget, options: &'a Options) -> Self {
        Self {
            target,
            options,
            records: LenientDecoder::default(),
            sequence: Sequence::default(),
        }
    }

    /// The same file and options, with nothing met yet.
    pub(super) fn another(&self) -> Self {
        Self::new(self.target, self.options)
    }

    /// Sets which offset comes before the next record.
    pub(super) const fn follow(&mut self, last: Offset) {
        self.sequence.last = Some(last);
    }

    /// Takes the summary of the records since the last call.
    pub(super) fn take_sequence(&mut self) -> Sequence {
        std::mem::take(&mut self.sequence)
    }

    /// Adds what another one met after this one's last record.
    pub(super) fn join(&mut self, after: Sequence, findings: &mut DumpFindings) {
        if let Some(first) = after.first {
            self.sequence.meet(first, &self.target.absolute, findings);
        }
        self.sequence.last = after.last.or(self.sequence.last);
    }

    /// Prints the batches that begin in `range`; returns where the last one ended.
    ///
    /// # Errors
    /// As [`super::pieces::dump_log`].
    pub(super) fn dump(
        &mut self,
        log: &mut SegmentSource,
        range: Range<Position>,
        text: &mut TextOutput<'_>,
        findings: &mut DumpFindings,
    ) -> Result<Position> {
        let deep = self.options.deep_iteration || self.options.print_data_log;
        let mut position = range.start;
        while let Some(frame) = frame_at(log, position, range.end)? {
            let path = self.target.path.as_path();
            let header = batch_start(&frame, log, text)?;
            let batch = log.bytes(position, frame.size)?;
            let is_valid =
                batch_rest(&frame, &header, batch, text).map_err(|e| e.shift(position).at(path))?;
            findings.damaged |= !is_valid;
            if deep {
                let mut lines = Lines {
                    options: self.options,
                    header: &header,
                    target: self.target,
                    text,
                    findings,
                    sequence: &mut self.sequence,
                };
                self.records
                    .each(&header, batch, &mut |record| lines.record(&record))
                    .map_err(|e| e.shift(position).at(path).for_offset(header.base_offset))?;
            }
            position = position.saturating_add(frame.size as u64);
        }
        Ok(position)
    }
}

impl Sequence {
    /// The next record's offset, which should follow the last one's.
    fn meet(&mut self, offset: Offset, file: &str, findings: &mut DumpFindings) {
        match self.last.replace(offset) {
            Some(last) if offset != last.wrapping_add(1) => findings.gap(file, last, offset),
            Some(_) => {}
            None => self.first = Some(offset),
        }
    }
}

/// Prints the records of one batch.
struct Lines<'a, 'w> {
    options: &'a Options,
    header: &'a BatchHeader,
    target: &'a DumpTarget,
    text: &'a mut TextOutput<'w>,
    findings: &'a mut DumpFindings,
    sequence: &'a mut Sequence,
}

impl Lines<'_, '_> {
    fn record(&mut self, record: &DumpedRecord<'_>) -> Result<()> {
        (self.sequence).meet(record.offset, &self.target.absolute, self.findings);
        let is_control = self.header.is_control();
        let metadata = !self.options.skip_record_metadata;
        if metadata {
            self.metadata(record);
            if is_control {
                put_control(record.key, record.value, self.text.buffer())
                    .map_err(|e| e.for_offset(record.offset))?;
            }
        }
        if self.options.print_data_log && !is_control {
            let prefix = if metadata { " " } else { RECORD_INDENT };
            self.contents(record, prefix)
                .map_err(|e| e.for_offset(record.offset))?;
        }
        self.text.end_line()
    }

    fn metadata(&mut self, record: &DumpedRecord<'_>) {
        let to = self.text.buffer();
        RECORD_INDENT.put(to);
        "offset: ".put(to);
        record.offset.put(to);
        to.push(b' ');
        self.header.timestamp_type().name().put(to);
        ": ".put(to);
        record.timestamp.put(to);
        " keySize: ".put(to);
        record.key_size.put(to);
        " valueSize: ".put(to);
        record.value_size.put(to);
        match &record.more {
            More::Record { sequence, headers } => {
                " sequence: ".put(to);
                (*sequence).put(to);
                " headerKeys: [".put(to);
                for (n, header) in headers.clone().enumerate() {
                    if n > 0 {
                        to.push(b',');
                    }
                    put_text(header.key, to);
                }
                to.push(b']');
            }
            More::Message { crc, is_valid } => {
                self.findings.damaged |= !is_valid;
                " isValid: ".put(to);
                (*is_valid).put(to);
                " crc: ".put(to);
                (*crc).put(to);
            }
        }
    }

    fn contents(&mut self, record: &DumpedRecord<'_>, prefix: &str) -> Result<()> {
        for (what, size, field) in [
            ("message key length", record.key_size, record.key),
            ("message value length", record.value_size, record.value),
        ] {
            if size >= 0 && field.is_none() {
                return Err(Error::invalid(what, 0, "a length within the message", size));
            }
        }
        let to = self.text.buffer();
        if let Some(topic) = self.options.topic_decoder {
            let parts = (record.offset, record.key, record.value);
            return put_record(topic, parts, prefix, to);
        }
        let kept = to.len();
        let mut prefix = prefix;
        if let Some(key) = record.key {
            prefix.put(to);
            "key: ".put(to);
            put_decoded(self.options.key_decoder, key, to).inspect_err(|_| to.truncate(kept))?;
            prefix = " ";
        }
        if let Some(value) = record.value {
            prefix.put(to);
            "payload: ".put(to);
            // Both are decoded before either is printed.
            put_decoded(self.options.value_decoder, value, to)
                .inspect_err(|_| to.truncate(kept))?;
        }
        Ok(())
    }
}

fn put_decoded(decoder: PrintedAs, bytes: &[u8], to: &mut Vec<u8>) -> Result<()> {
    let short = |what: &'static str, width: usize| {
        let expected = format!("at least {width} bytes for the decoder");
        Error::invalid(what, 0, expected, bytes.len())
    };
    match decoder {
        PrintedAs::String => put_text(bytes, to),
        PrintedAs::Integer => get_i32(bytes, 0)
            .ok_or_else(|| short("integer", 4))?
            .put(to),
        PrintedAs::Long => get_i64(bytes, 0).ok_or_else(|| short("long", 8))?.put(to),
        PrintedAs::Bytes => to.extend_from_slice(bytes),
    }
    Ok(())
}
