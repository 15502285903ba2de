//! Columns of keys and values.

use arrow_array::ArrayRef;
use arrow_schema::Field;

use super::layout::{Layout, binary};
use super::payload::{Gathered, PayloadPart};
use super::rows::{RowBytes, Rows};
use super::sources::DataBuffers;
use super::value_column::{AppendError, ValueColumn};
use super::views::Views;
use crate::error::{Error, Result};
use crate::records::RecordSlot;

/// A column of keys or values, as they are.
pub(super) fn payload(layout: Layout, part: PayloadPart) -> Box<dyn ValueColumn> {
    let bytes = match layout {
        Layout::Binary => Payloads::Gathered(Gathered::new(1024, 1024)),
        Layout::View => Payloads::Views(Views::new(1024)),
    };
    Box::new(PayloadColumn { part, bytes })
}

/// Bytes that these records add to a column of their keys or values.
pub(super) fn payload_bytes(part: PayloadPart, slots: &[RecordSlot]) -> usize {
    let total = |len: fn(&RecordSlot) -> i32| {
        slots.iter().fold(0u64, |total, slot| {
            total.wrapping_add(len(slot).max(0).unsigned_abs().into())
        })
    };
    let total = match part {
        PayloadPart::Key => total(|slot| slot.key_len),
        PayloadPart::Value => total(|slot| slot.value_len),
    };
    let total = usize::try_from(total).unwrap_or(usize::MAX);
    total.saturating_add(slots.len().saturating_mul(4))
}

#[derive(Debug)]
struct PayloadColumn {
    part: PayloadPart,
    bytes: Payloads,
}

#[derive(Debug)]
enum Payloads {
    Gathered(Gathered),
    Views(Views),
}

impl ValueColumn for PayloadColumn {
    fn field(&self, name: &str) -> Field {
        let layout = match self.bytes {
            Payloads::Gathered(_) => Layout::Binary,
            Payloads::Views(_) => Layout::View,
        };
        Field::new(name, binary(layout), true)
    }

    fn append(&mut self, rows: &mut Rows<'_>) -> Result<(), AppendError> {
        match (&mut self.bytes, rows.bytes) {
            (Payloads::Gathered(column), bytes) => {
                column.append(rows.slots, bytes.as_slice(), self.part)?;
            }
            (Payloads::Views(column), RowBytes::Kept(source)) => {
                if column.append(rows.slots, source, self.part)? {
                    rows.point();
                }
            }
            (Payloads::Views(_), RowBytes::Copied(_)) => {
                return Err(Error::internal("views of bytes that are not kept").into());
            }
        }
        Ok(())
    }

    fn bytes(&self, slots: &[RecordSlot], _: &[u8], _: usize) -> usize {
        payload_bytes(self.part, slots)
    }

    fn keeps_source(&self) -> bool {
        matches!(self.bytes, Payloads::Views(_))
    }

    fn finish(&mut self, buffers: &DataBuffers) -> Result<ArrayRef> {
        match &mut self.bytes {
            Payloads::Gathered(column) => column.finish(),
            Payloads::Views(column) => column.finish(buffers),
        }
    }

    fn truncate(&mut self, rows: usize) {
        match &mut self.bytes {
            Payloads::Gathered(column) => column.truncate(rows),
            Payloads::Views(column) => column.truncate(rows),
        }
    }
}
