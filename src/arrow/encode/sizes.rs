//! Size of a batch of one row, computed without encoding it, so that a row that is written elsewhere can be refused
//! early.

use arrow_array::RecordBatch;

use super::bytes::ByteColumn;
use super::columns::InputColumns;
use super::fill::{body_size, len, length, record_size};
use crate::error::Result;
use crate::format::batch::RECORD_BATCH_OVERHEAD;

/// The first row that no batch of `most` bytes has room for, uncompressed, and the bytes of a batch that has it alone.
/// Columns that are not written are left out.
///
/// # Errors
/// `InvalidArgument` for columns that are missing or of a type that does not serve.
pub(crate) fn first_too_large(rows: &RecordBatch, most: usize) -> Result<Option<(usize, usize)>> {
    let columns = InputColumns::new(rows, false, true)?;
    let sizes = (0..columns.rows).map(|row| (row, batch_size(&columns, row)));
    Ok({ sizes }.find(|&(_, size)| size > most))
}

/// The bytes of an uncompressed batch of this row: its timestamp and offset are the batch's, so they differ by 0.
fn batch_size(columns: &InputColumns, row: usize) -> usize {
    let (key, value) = (columns.key.get(row), columns.value.get(row));
    let ((key, key_bytes), (value, value_bytes)) = (length(key), length(value));
    let bytes = key_bytes.len().saturating_add(value_bytes.len());
    let bytes = bytes.saturating_add(headers_size(columns, row));
    let body = body_size([0, 0, key, value], bytes);
    RECORD_BATCH_OVERHEAD.saturating_add(record_size(body))
}

/// The bytes of the row's headers: their count, then each.
fn headers_size(columns: &InputColumns, row: usize) -> usize {
    let Some(headers) = &columns.headers else {
        return len(0);
    };
    let all = headers.get(row);
    let count = len((all.len() as u64).wrapping_shl(1));
    let parts = all.flat_map(|(key, value)| [key, value]);
    parts.fold(count, |size, part| {
        let (raw, bytes) = length(part);
        size.saturating_add(len(raw)).saturating_add(bytes.len())
    })
}
