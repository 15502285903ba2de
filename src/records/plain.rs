//! The plain decoder of magic 2: one field at a time, every step checked, after `DefaultRecordBatch.iterator`.
//!
//! The oracle of the fast decoder ([`super::walk`]), compiled with the feature `internal` only.

use super::RecordSlot;
use super::block::{self, Payload};
use super::legacy;
use crate::compress::{DecodeLimit, Decompressor};
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::format::record::Record;

/// Appends a slot for every record between `records_start` and `records_end` of `source`.
///
/// # Errors
/// `InvalidRecord` where a record is broken, or the records and the header's count differ; its position counts from
/// the beginning of `source`. The records before it are in `out`.
#[cfg(feature = "internal")]
pub fn walk(
    source: &[u8],
    records_start: usize,
    records_end: usize,
    header: &BatchHeader,
    out: &mut Vec<RecordSlot>,
) -> Result<()> {
    let data = source.get(..records_end).ok_or_else(|| {
        Error::invalid(
            "records",
            records_start as u64,
            format_args!("bytes up to {records_end}"),
            source.len(),
        )
    })?;
    walk_shifted(data, records_start, header, 0, out)
}

/// As [`walk`], of all of `data`, whose first byte lies at `shift` in what the slots are about.
fn walk_shifted(
    data: &[u8],
    records_start: usize,
    header: &BatchHeader,
    shift: usize,
    out: &mut Vec<RecordSlot>,
) -> Result<()> {
    let count = header.records_count.unwrap_or(0);
    if count < 0 {
        return Err(Error::invalid(
            "records count",
            records_start as u64,
            "0 or more",
            count,
        ));
    }
    let mut at = records_start;
    for seen in 0..count {
        if at >= data.len() {
            return Err(Error::invalid(
                "records count",
                at as u64,
                format_args!("{count} records as the header says"),
                format_args!("the end after {seen}"),
            ));
        }
        let record = Record::parse(data, at)?;
        let timestamp = if header.attributes.is_log_append_time() {
            header.max_timestamp
        } else {
            header.base_timestamp.wrapping_add(record.timestamp_delta)
        };
        out.push(block::slot(
            header
                .base_offset
                .wrapping_add(i64::from(record.offset_delta)),
            timestamp,
            (record.key, record.value),
            (record.headers_start, record.headers_count),
            shift,
        )?);
        at = record.end;
    }
    if at < data.len() {
        return Err(Error::invalid(
            "records count",
            at as u64,
            format_args!("the end after {count} records as the header says"),
            format_args!("{} bytes more", data.len().saturating_sub(at)),
        ));
    }
    Ok(())
}

/// Appends a slot for every record of a whole batch of any magic, which begins at `batch_start` of the source.
/// The checksum is the caller's to check.
///
/// # Errors
/// Those of [`walk`], [`block::open`] and [`legacy::walk`]; positions count from the beginning of the batch.
pub fn batch(
    batch: &[u8],
    batch_start: u32,
    header: &BatchHeader,
    decompressor: &mut Decompressor,
    arena: &mut Vec<u8>,
    limit: DecodeLimit,
    out: &mut Vec<RecordSlot>,
) -> Result<Payload> {
    if header.is_legacy() {
        return legacy::walk(batch, batch_start, header, decompressor, arena, limit, out);
    }
    let block = block::open(batch, header, decompressor, arena, limit)?;
    match block.payload {
        Payload::Source => {
            let shift = usize::try_from(batch_start).unwrap_or(usize::MAX);
            walk_shifted(batch, block.range.start, header, shift, out)?;
        }
        Payload::Arena => {
            let shift = block.range.start;
            let records = arena.get(block.range).unwrap_or_default();
            walk_shifted(records, 0, header, shift, out).map_err(|error| error.inside(0))?;
        }
    }
    Ok(block.payload)
}

#[cfg(test)]
mod tests;
