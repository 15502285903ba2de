//! A second pass over a damaged `.log`: every batch that is whole and in its place, and the ranges between them.
//!
//! [`Resync`] decides which batches those are, as for reading with `on_corrupt="skip"`: verification names the bytes
//! that such a reader loses. The reason for refusing a batch is the message of the first pass at that place.

use std::collections::BTreeMap;

use super::finding::{
    BATCH_CODEC, BATCH_CRC, BATCH_FOREIGN, BATCH_LENGTH, BATCH_MAGIC, BATCH_ORDER, BATCH_RECORDS,
    BATCH_TORN, BATCH_TRANSACTION, Code, Finding, Findings, SEGMENT_MISSING,
};
use super::log::{CompanionFile, LogCheck, Reading};
use super::pool::VerifyPool;
use super::records::BatchCheck;
use super::summary::Summary;
use crate::error::Result;
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::segment::LogSegment;
use crate::segment::resync::{Lost, Reason, Resync, ResyncItem};
use crate::segment::source::Access;
use crate::types::Position;

/// Messages of the first pass, by position in the file.
pub(super) type FirstLook = BTreeMap<Position, String>;

/// Verifies a damaged segment's `.log`.
///
/// # Errors
/// `Io`, `Interrupted`, `Internal`, `OutOfMemory`.
pub(super) fn check(
    segment: &LogSegment,
    (reading, said): (Reading, &FirstLook),
    beside: &mut [&mut dyn CompanionFile],
    (pool, batches): (&VerifyPool, &mut BatchCheck),
    findings: &mut Findings,
) -> Result<Summary> {
    let path = segment.path();
    let mut source = segment.open_by_copy(Access::Records)?;
    let mut steps = Resync::new(source.as_file(), segment.size, segment.bounds())?;
    let mut walk = LogCheck::new(&path, segment, reading).again();
    while let Some(step) = steps.next_step()? {
        match step {
            ResyncItem::Batch(position, _) => {
                // Of a wrapper the step has the first offset, the file the last.
                let head = source.bytes(position, RECORD_BATCH_OVERHEAD)?;
                if let Some(header) = BatchHeader::parse(head)? {
                    let threads = (pool, &mut *batches);
                    walk.accept((position, header), &mut source, beside, threads, findings)?;
                }
            }
            // A write that a crash cut off, or that continues.
            ResyncItem::Lost(lost)
                if segment.is_active
                    && lost.reason == Reason::Torn
                    && lost.end >= source.len()
                    && !said.contains_key(&lost.position) =>
            {
                walk.tail(&mut source, lost.position, findings)?;
            }
            // The same in a closed segment, which a power cut left: there is no room for an offset before the next one.
            ResyncItem::Lost(lost)
                if lost.reason == Reason::Torn
                    && lost.end >= source.len()
                    && lost.first_offset.is_none() =>
            {
                walk.tail(&mut source, lost.position, findings)?;
            }
            ResyncItem::Lost(lost) => {
                walk.summary.is_damaged = true;
                for each in beside.iter_mut() {
                    each.lost((lost.position, lost.end));
                }
                let message = message(&lost, said);
                let finding = Finding::new(code(lost.reason), &path, message).at(lost.position);
                findings.add(Finding {
                    offset: lost.first_offset,
                    ..finding.to(lost.end)
                });
            }
        }
    }
    walk.settle((pool, batches), findings)?;
    for each in beside.iter_mut() {
        each.end(walk.summary.end, &walk.summary, findings);
    }
    Ok(walk.summary)
}

/// Describes the fault, and the offsets that may be lost.
fn message(range: &Lost, said: &FirstLook) -> String {
    let bytes = range.bytes();
    let what = said.get(&range.position).cloned();
    let what = what.unwrap_or_else(|| format!("{bytes} bytes without a batch in its place"));
    match (range.first_offset, range.last_offset) {
        (Some(first), Some(last)) => format!("{what}; offsets {first} to {last} may be lost"),
        (Some(first), None) => format!("{what}; offsets from {first} on may be lost"),
        _ => format!("{what}; no offset is lost"),
    }
}

const fn code(reason: Reason) -> &'static Code {
    match reason {
        Reason::Crc => BATCH_CRC,
        Reason::Length => BATCH_LENGTH,
        Reason::Magic => BATCH_MAGIC,
        Reason::Order => BATCH_ORDER,
        Reason::Transaction => BATCH_TRANSACTION,
        // The latter only readers that convert timestamps meet.
        Reason::Records | Reason::Timestamp => BATCH_RECORDS,
        Reason::Codec => BATCH_CODEC,
        Reason::Torn => BATCH_TORN,
        Reason::Foreign => BATCH_FOREIGN,
        Reason::Missing => SEGMENT_MISSING,
    }
}
