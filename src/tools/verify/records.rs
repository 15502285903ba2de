//! One batch: its checksum, and every record in it decoded.
//!
//! A batch that Kafka's readers accept is healthy, whatever its writer meant. Beyond their checks, records are compared
//! with their header: offsets rise within it, the largest timestamp is the header's, and a null has length -1.

use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::control::{ControlType, EndTransactionMarker};
use crate::records::RecordSlot;
use crate::records::batch::BatchDecoder;
use crate::types::{Offset, TimestampMs};

use super::finding::{BATCH_NULL_LENGTH, BATCH_OFFSETS, BATCH_TIMESTAMP, Code};

/// Records decoded at a time.
const SLOTS: usize = 1024;
/// The varint of -1, the only length of a null that Kafka writes.
const NULL: u8 = 1;

/// A record that decodes but violates an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordFinding {
    /// Code of the finding.
    pub code: &'static Code,
    /// The record.
    pub offset: Offset,
    /// Description of the fault.
    pub message: String,
}

/// Checks batches; keeps what it needs for the next one.
#[derive(Debug, Default)]
pub(super) struct BatchCheck {
    decoder: BatchDecoder,
    slots: Vec<RecordSlot>,
}

impl BatchCheck {
    /// Checks a whole batch; oddities of its records are added to `doubts`, once per kind.
    ///
    /// # Errors
    /// What makes the batch unreadable, at positions within it; `Interrupted`, `OutOfMemory`.
    pub(super) fn check(
        &mut self,
        batch: &[u8],
        header: &BatchHeader,
        doubts: &mut Vec<RecordFinding>,
    ) -> Result<()> {
        header.ensure_valid(batch)?;
        let mut seen = RecordSummary::new(header);
        let mut records = self.decoder.open(batch, header)?;
        self.slots.resize(SLOTS, RecordSlot::default());
        while let Some(slots) = records.next(&mut self.slots)? {
            seen.offsets(slots);
            if !header.is_legacy() {
                seen.timestamps(slots);
                seen.nulls(records.bytes(), slots);
            }
            if header.is_control() {
                slots
                    .iter()
                    .try_for_each(|slot| control(records.bytes(), slot).map_err(|e| e.inside(0)))?;
            }
        }
        seen.finish(header);
        doubts.append(&mut seen.doubts);
        Ok(())
    }
}

/// A control record says what kind it is; an end of a transaction has a coordinator epoch.
fn control(source: &[u8], slot: &RecordSlot) -> Result<()> {
    let kind = ControlType::parse(slot.key(source).unwrap_or_default())?;
    if kind.ends_transaction() {
        EndTransactionMarker::parse(slot.value(source).unwrap_or_default())?;
    }
    Ok(())
}

/// Summary of the records of a batch.
#[derive(Debug)]
struct RecordSummary {
    base: Offset,
    last: Offset,
    previous: Option<Offset>,
    largest: Option<TimestampMs>,
    doubts: Vec<RecordFinding>,
}

impl RecordSummary {
    const fn new(header: &BatchHeader) -> Self {
        Self {
            // Of a wrapper the header has the last offset only.
            base: if header.is_legacy() {
                0
            } else {
                header.base_offset
            },
            last: header.last_offset(),
            previous: None,
            largest: None,
            doubts: Vec::new(),
        }
    }

    fn doubt(&mut self, code: &'static Code, offset: Offset, message: impl FnOnce() -> String) {
        if self.doubts.iter().all(|doubt| doubt.code != code) {
            self.doubts.push(RecordFinding {
                code,
                offset,
                message: message(),
            });
        }
    }

    fn offsets(&mut self, slots: &[RecordSlot]) {
        for slot in slots {
            let least = self
                .previous
                .map_or(self.base, |previous| previous.saturating_add(1));
            if slot.offset < least || slot.offset > self.last {
                let (most, found) = (self.last, slot.offset);
                self.doubt(BATCH_OFFSETS, found, || {
                    format!("record offset: expected {least} to {most}, found {found}")
                });
            }
            self.previous = Some(slot.offset);
        }
    }

    fn timestamps(&mut self, slots: &[RecordSlot]) {
        let largest = slots.iter().map(|slot| slot.timestamp).max();
        self.largest = self.largest.max(largest);
    }

    fn nulls(&mut self, source: &[u8], slots: &[RecordSlot]) {
        let is_odd = |start: u32, len: i32| {
            let before = usize::try_from(start).unwrap_or(usize::MAX).checked_sub(1);
            len < 0 && before.and_then(|at| source.get(at)) != Some(&NULL)
        };
        let odd = slots.iter().find(|slot| {
            is_odd(slot.key_start, slot.key_len) || is_odd(slot.value_start, slot.value_len)
        });
        if let Some(slot) = odd {
            self.doubt(BATCH_NULL_LENGTH, slot.offset, || {
                "length of a key or value: expected -1 or more, found less".to_owned()
            });
        }
    }

    fn finish(&mut self, header: &BatchHeader) {
        if let Some(largest) = self.largest
            && largest != header.max_timestamp
        {
            self.doubt(BATCH_TIMESTAMP, header.base_offset, || {
                let stated = header.max_timestamp;
                format!(
                    "max timestamp: expected {largest}, the largest of the records, found {stated}"
                )
            });
        }
    }
}
