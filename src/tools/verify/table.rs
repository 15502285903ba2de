//! Findings as an Arrow table, one row each.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};

use super::finding::Finding;
use crate::error::{Error, Result};

/// The rows.
///
/// # Errors
/// `Internal`.
pub(crate) fn table(findings: &[Finding]) -> Result<RecordBatch> {
    let rows = findings;
    let number = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok());
    let text = |values: Vec<Option<&str>>| -> ArrayRef { Arc::new(StringArray::from(values)) };
    let numbers = |values: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let partition = |row: &Finding| row.topic_partition.as_ref().map(|key| key.partition);
    let files: Vec<_> = rows.iter().map(|row| row.file.to_string_lossy()).collect();
    let columns: [(&str, ArrayRef, bool); 10] = [
        (
            "file",
            text(files.iter().map(|file| Some(&**file)).collect()),
            false,
        ),
        (
            "position",
            numbers(rows.iter().map(|row| number(row.position)).collect()),
            true,
        ),
        (
            "endPosition",
            numbers(rows.iter().map(|row| number(row.end)).collect()),
            true,
        ),
        (
            "severity",
            text(
                rows.iter()
                    .map(|row| Some(row.code.severity.name()))
                    .collect(),
            ),
            false,
        ),
        (
            "code",
            text(rows.iter().map(|row| Some(row.code.name)).collect()),
            false,
        ),
        (
            "topic",
            text(
                rows.iter()
                    .map(|row| row.topic_partition.as_ref().map(|key| key.topic.as_str()))
                    .collect(),
            ),
            true,
        ),
        (
            "partition",
            Arc::new(rows.iter().map(partition).collect::<Int32Array>()),
            true,
        ),
        (
            "offset",
            numbers(rows.iter().map(|row| row.offset).collect()),
            true,
        ),
        (
            "message",
            text(rows.iter().map(|row| Some(row.message.as_str())).collect()),
            false,
        ),
        (
            "advice",
            text(rows.iter().map(|row| Some(row.code.advice)).collect()),
            false,
        ),
    ];
    let field = |(name, array, is_null): &(&str, ArrayRef, bool)| {
        let data_type: DataType = array.data_type().clone();
        Field::new(*name, data_type, *is_null)
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.into_iter().map(|(_, array, _)| array).collect();
    RecordBatch::try_new(Arc::new(schema), arrays)
        .map_err(|error| Error::internal(format_args!("Arrow refused a column: {error}")))
}
