//! Schemas of a registry as Arrow.
//!
//! | column | type | null |
//! |---|---|---|
//! | context, subject, version | string, string, int32 | |
//! | id, guid, schemaType, schema | int32, string, string, string | for the deletion of a schema that is not known |
//! | references | list\<struct\<name, subject, version\>\> | likewise |
//! | metadata, ruleSet | string: JSON | where the schema has none |
//! | deleted, keyFormat | string | |
//! | logOffset, logTimestamp | int64, timestamp\[ms, UTC\] | the time, where the record has none |

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields};

use super::producers::{known_time, table, times};
use super::schemas::{ReplayedSchemas, plan, replay};
use crate::error::{Error, Result};
use crate::segment::skipping::OnCorrupt;
use crate::values::schemas::RegisteredSchema;

/// About the most bytes of a record batch, unless one schema alone has more; a column holds less than 2 GiB.
const BYTES: usize = 64 << 20;

/// The schemas of a registry's topic, or with `with_history` every change of one, and what the replay met.
///
/// # Errors
/// As [`plan`] and [`replay`].
pub(crate) fn schemas(
    paths: &[PathBuf],
    topic: &str,
    on_corrupt: OnCorrupt,
    with_history: bool,
) -> Result<(Vec<RecordBatch>, ReplayedSchemas)> {
    let ranges = plan(paths, topic, on_corrupt, false)?;
    let replayed = replay(ranges, on_corrupt, with_history)?;
    let rows = if with_history {
        &replayed.history
    } else {
        replayed.schemas.rows()
    };
    let mut batches = Vec::new();
    let mut left = rows;
    while !left.is_empty() || batches.is_empty() {
        let mut bytes = 0usize;
        let fits = left.iter().take_while(|row| {
            let has_room = bytes < BYTES;
            bytes = bytes.saturating_add(size_of(row));
            has_room
        });
        let (some, rest) = left.split_at(fits.count());
        batches.push(batch(some)?);
        left = rest;
    }
    Ok((batches, replayed))
}

/// About the bytes of a row.
fn size_of(row: &RegisteredSchema) -> usize {
    let references = row.references.iter();
    let references = references.map(|each| each.name.len().saturating_add(each.subject.len()));
    let json = [&row.metadata, &row.rule_set]
        .into_iter()
        .flatten()
        .map(String::len);
    let parts = [256, row.text.len(), row.subject.len()].into_iter();
    parts
        .chain(references)
        .chain(json)
        .fold(0, usize::saturating_add)
}

fn batch(rows: &[RegisteredSchema]) -> Result<RecordBatch> {
    let text = |of: fn(&RegisteredSchema) -> Option<&str>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<StringArray>())
    };
    let known = |row: &RegisteredSchema| row.guid.is_some();
    let versions = rows.iter().map(|row| row.version);
    let ids = rows
        .iter()
        .map(|row| row.id.and_then(|id| i32::try_from(id).ok()));
    let guids = rows.iter().map(|row| row.guid.map(|guid| guid.to_string()));
    let offsets = rows.iter().map(|row| row.log_offset);
    let log_times = rows.iter().map(|row| known_time(row.log_timestamp));
    table(vec![
        ("context", text(|row| Some(row.context()))),
        ("subject", text(|row| Some(&row.subject))),
        ("version", Arc::new(Int32Array::from_iter_values(versions))),
        ("id", Arc::new(ids.collect::<Int32Array>())),
        ("guid", Arc::new(guids.collect::<StringArray>())),
        ("schemaType", text(|row| row.guid.map(|_| row.kind.name()))),
        ("schema", text(|row| row.guid.map(|_| &*row.text))),
        (
            "references",
            references(rows, rows.iter().map(known).collect())?,
        ),
        ("metadata", text(|row| row.metadata.as_deref())),
        ("ruleSet", text(|row| row.rule_set.as_deref())),
        ("deleted", text(|row| Some(row.deleted.name()))),
        ("keyFormat", text(|row| Some(row.key_format.name()))),
        ("logOffset", Arc::new(Int64Array::from_iter_values(offsets))),
        ("logTimestamp", times(log_times.collect())),
    ])
}

fn references(rows: &[RegisteredSchema], known: Vec<bool>) -> Result<ArrayRef> {
    let all = || rows.iter().flat_map(|row| &row.references);
    let fields = Fields::from(vec![
        Field::new("name", DataType::Utf8, true),
        Field::new("subject", DataType::Utf8, true),
        Field::new("version", DataType::Int32, true),
    ]);
    let parts: Vec<ArrayRef> = vec![
        Arc::new(all().map(|each| Some(&each.name)).collect::<StringArray>()),
        Arc::new(
            all()
                .map(|each| Some(&each.subject))
                .collect::<StringArray>(),
        ),
        Arc::new(all().map(|each| each.version).collect::<Int32Array>()),
    ];
    let refused = |error| Error::internal(format_args!("Arrow refused a column: {error}"));
    let items = StructArray::try_new(fields, parts, None).map_err(refused)?;
    let ends = OffsetBuffer::from_lengths(rows.iter().map(|row| row.references.len()));
    let item = Arc::new(Field::new("item", items.data_type().clone(), true));
    let nulls = Some(NullBuffer::from(known)).filter(|nulls| nulls.null_count() > 0);
    let list = ListArray::try_new(item, ends, Arc::new(items), nulls).map_err(refused)?;
    Ok(Arc::new(list))
}
