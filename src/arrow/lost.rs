//! Table of the losses of a read that continues after damage.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::scan::lost::LostRange;
use crate::scan::range::{known_partition, known_topic};

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
    let text = |of: fn(&LostRange) -> Option<&str>| -> ArrayRef {
        Arc::new(ranges.iter().map(of).collect::<StringArray>())
    };
    let partitions = ranges.iter().map(|range| known_partition(range.partition));
    let columns: Vec<ArrayRef> = vec![
        text(|range| known_topic(&range.topic)),
        Arc::new(partitions.collect::<Int32Array>()),
        text(|range| Some(&range.segment)),
        numbers(|range| i64::try_from(range.lost.position).ok()),
        numbers(|range| i64::try_from(range.lost.end).ok()),
        numbers(|range| range.lost.first_offset),
        numbers(|range| range.lost.last_offset),
        text(|range| Some(range.lost.reason.name())),
    ];
    RecordBatch::try_new(lost_schema(), columns)
        .map_err(|e| Error::internal(format_args!("Arrow refused a column: {e}")))
}
