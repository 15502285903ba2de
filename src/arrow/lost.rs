//! What reading past damage left out, as a table.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::scan::lost::LostRange;

/// The schema of [`lost_batch`].
#[must_use]
pub(crate) fn lost_schema() -> SchemaRef {
    let field = |(name, kind)| Field::new(name, kind, true);
    let fields = [
        ("topic", DataType::Utf8),
        ("partition", DataType::Int32),
        ("segment", DataType::Utf8),
        ("position", DataType::Int64),
        ("endPosition", DataType::Int64),
        ("firstOffset", DataType::Int64),
        ("lastOffset", DataType::Int64),
        ("reason", DataType::Utf8),
    ];
    Arc::new(Schema::new(fields.map(field).to_vec()))
}

/// One row for each range.
///
/// # Errors
/// None but a bug.
pub(crate) fn lost_batch(ranges: &[LostRange]) -> Result<RecordBatch> {
    let numbers = |of: fn(&LostRange) -> Option<i64>| -> ArrayRef {
        Arc::new(ranges.iter().map(of).collect::<Int64Array>())
    };
    let text = |of: fn(&LostRange) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(ranges.iter().map(of)))
    };
    let partitions = ranges.iter().map(|range| range.partition);
    let columns: Vec<ArrayRef> = vec![
        text(|range| &range.topic),
        Arc::new(Int32Array::from_iter_values(partitions)),
        text(|range| &range.segment),
        numbers(|range| i64::try_from(range.lost.position).ok()),
        numbers(|range| i64::try_from(range.lost.end).ok()),
        numbers(|range| range.lost.first_offset),
        numbers(|range| range.lost.last_offset),
        text(|range| range.lost.reason.name()),
    ];
    RecordBatch::try_new(lost_schema(), columns)
        .map_err(|e| Error::internal(format_args!("Arrow refused a column: {e}")))
}
