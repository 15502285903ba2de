//! Arrow's PyCapsule interface, out only: `arrow_schema` and `arrow_array_stream`.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: pointers in capsules"
)]

use std::ffi::CStr;

use arrow_array::RecordBatchReader;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::{DataType, Schema, TimeUnit};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow::columns::ColumnOptions;
use crate::arrow::schema::{Layout, TimestampUnit};

const SCHEMA: &CStr = c"arrow_schema";
const STREAM: &CStr = c"arrow_array_stream";

/// A schema; the capsule's destructor releases what the consumer did not take.
pub(super) fn of_schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let exported =
        FFI_ArrowSchema::try_from(schema).map_err(|e| PyValueError::new_err(e.to_string()))?;
    PyCapsule::new_with_value(py, exported, SCHEMA)
}

/// A stream; the same.
pub(super) fn of_stream(
    py: Python<'_>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// Takes layout and timestamp unit from a requested schema, where its columns are ours; what we cannot give is left as
/// it is, as the interface asks.
pub(super) fn honour(requested: &Bound<'_, PyAny>, columns: &mut ColumnOptions) -> PyResult<()> {
    let capsule = requested.cast::<PyCapsule>()?;
    let pointer = capsule
        .pointer_checked(Some(SCHEMA))?
        .cast::<FFI_ArrowSchema>();
    // SAFETY: the name was checked, so by Arrow's PyCapsule interface the pointer is to a schema that lives as long as
    // the capsule, which `requested` holds.
    let requested = unsafe { pointer.as_ref() };
    let requested =
        Schema::try_from(requested).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let names = requested.fields().iter().map(|field| field.name().as_str());
    if !names.eq(columns.columns.iter().map(|column| column.name())) {
        return Ok(());
    }
    let types = || requested.fields().iter().map(|field| field.data_type());
    if types().any(|t| matches!(t, DataType::BinaryView | DataType::Utf8View)) {
        columns.layout = Layout::View;
    } else if types().any(|t| matches!(t, DataType::Binary | DataType::Utf8)) {
        columns.layout = Layout::Binary;
    }
    for data_type in types() {
        match data_type {
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                columns.unit = TimestampUnit::Microsecond;
            }
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                columns.unit = TimestampUnit::Millisecond;
            }
            _ => {}
        }
    }
    Ok(())
}
