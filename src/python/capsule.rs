//! Arrow's PyCapsule interface: exports `arrow_schema` and `arrow_array_stream`, imports streams, arrays and bytes.

#![expect(
    unsafe_code,
    reason = "one of the crate's few homes for unsafe: pointers in capsules"
)]

use std::ffi::CStr;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{
    Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StructArray, UInt8Array,
};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Schema, TimeUnit};
use bytes::Bytes;
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyCapsule;

use crate::api::rows::{Column, ColumnOptions, Layout, TimestampUnit};

const SCHEMA: &CStr = c"arrow_schema";
const STREAM: &CStr = c"arrow_array_stream";
const ARRAY: &CStr = c"arrow_array";

/// Exports a schema; the capsule's destructor releases what the consumer did not take.
pub(super) fn of_schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let exported =
        FFI_ArrowSchema::try_from(schema).map_err(|e| PyValueError::new_err(e.to_string()))?;
    PyCapsule::new_with_value(py, exported, SCHEMA)
}

/// Exports a stream, likewise.
pub(super) fn of_stream(
    py: Python<'_>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), STREAM)
}

/// The schema in a capsule.
fn schema_in(requested: &Bound<'_, PyAny>) -> PyResult<Schema> {
    let capsule = requested.cast::<PyCapsule>()?;
    let pointer = capsule
        .pointer_checked(Some(SCHEMA))?
        .cast::<FFI_ArrowSchema>();
    // SAFETY: the name was checked, so by Arrow's PyCapsule interface the pointer is to a schema that lives as long as
    // the capsule, which `requested` holds.
    let schema = unsafe { pointer.as_ref() };
    // A consumed schema has dangling pointers.
    if schema.release().is_none() {
        return Err(PyValueError::new_err(
            "the requested schema was consumed before",
        ));
    }
    Schema::try_from(schema).map_err(refused)
}

/// Returns whether these columns are what was requested.
pub(super) fn is_requested(requested: &Bound<'_, PyAny>, schema: &Schema) -> PyResult<bool> {
    Ok(schema_in(requested)?.fields() == schema.fields())
}

/// Adopts columns (a subset, in any order), layout and timestamp unit of a requested schema whose columns are among
/// these; any other schema is ignored, as the interface allows.
pub(super) fn honour(requested: &Bound<'_, PyAny>, columns: &mut ColumnOptions) -> PyResult<()> {
    let requested = schema_in(requested)?;
    let names: Vec<_> = requested.fields().iter().map(|f| f.name()).collect();
    let wanted = Column::parse_all(&names).unwrap_or_default();
    if wanted.is_empty() || wanted.iter().any(|c| !columns.columns.contains(c)) {
        return Ok(());
    }
    columns.columns = wanted;
    let fields = requested.flattened_fields();
    let types = || fields.iter().map(|field| field.data_type());
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

/// The batches of an object that exports a stream, or one array of structs.
pub(super) fn batches_of(data: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    if data.hasattr("__arrow_c_stream__")? {
        let capsule = data.call_method0("__arrow_c_stream__")?;
        let capsule = without_odd_nulls(capsule)?;
        return Ok(Box::new(stream_in(capsule.cast::<PyCapsule>()?)?));
    }
    if data.hasattr("__arrow_c_array__")? {
        let pair = data.call_method0("__arrow_c_array__")?;
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = pair.extract()?;
        let batch = rows_in(array_in(&schema, &array)?)?;
        let schema = batch.schema();
        return Ok(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
    }
    Err(PyTypeError::new_err("neither an Arrow stream nor an array"))
}

/// Bytes of a Python object, and the object that keeps them. The buffer goes first: with the object still there, giving
/// it up needs no interpreter.
struct SharedBuffer {
    buffer: Buffer,
    _owner: Py<PyAny>,
}

impl AsRef<[u8]> for SharedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

/// The bytes of `bytes`, or of an object with Python's buffer protocol, where they lie. They must not change any more.
///
/// The stable ABI has the protocol from Python 3.11 on; pyarrow knows it in all.
pub(super) fn shared_bytes(data: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(bytes) = data.extract::<PyBackedBytes>() {
        return Ok(Bytes::from_owner(bytes));
    }
    let pyarrow = data.py().import("pyarrow")?;
    let buffer = pyarrow.call_method1("py_buffer", (data,))?;
    let given = (
        pyarrow.call_method0("uint8")?,
        buffer.getattr("size")?,
        (data.py().None(), &buffer),
    );
    let pair = pyarrow
        .getattr("Array")?
        .call_method1("from_buffers", given)?
        .call_method0("__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = pair.extract()?;
    let data = array_in(&schema, &array)?;
    let (buffer, owner) = (UInt8Array::from(data).into_parts().1, buffer.unbind());
    Ok(Bytes::from_owner(SharedBuffer {
        buffer: buffer.into_inner(),
        _owner: owner,
    }))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape `map_err` wants")]
fn refused(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// An error of a stream's producer as its consumer sees it: errno and text, in one line.
#[expect(clippy::needless_pass_by_value, reason = "the shape `map_err` wants")]
pub(super) fn raised(error: ArrowError) -> PyErr {
    let text = error.to_string();
    let text = text.lines().next().unwrap_or_default();
    // pyarrow appends a Python traceback.
    let text = text.split(" Detail: Python exception:").next();
    PyOSError::new_err(format!(
        "the Arrow stream failed: {}",
        text.unwrap_or_default()
    ))
}

/// Passes a stream with columns of type null through pyarrow: Polars (2.1) exports a buffer for them where Arrow has
/// none, which pyarrow ignores and arrow-rs refuses.
fn without_odd_nulls(capsule: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let pointer = capsule
        .cast::<PyCapsule>()?
        .pointer_checked(Some(STREAM))?
        .cast::<FFI_ArrowArrayStream>();
    // SAFETY: the name was checked, so by Arrow's PyCapsule interface the pointer is to a stream that nothing else uses
    // and that lives as long as the capsule.
    let stream = unsafe { pointer.as_ref() };
    // A consumed stream has no release function, and its other functions must not be called.
    let get_schema = stream.release().and(stream.get_schema());
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: Arrow's C stream interface: the function of a stream not yet released takes it, and room for a schema.
    let failed =
        get_schema.is_none_or(|get| unsafe { get(pointer.as_ptr(), &raw mut schema) } != 0);
    let has_nulls = |schema: Schema| {
        let fields = schema.flattened_fields();
        fields
            .iter()
            .any(|field| field.data_type() == &DataType::Null)
    };
    // Errors are reported when the stream is read.
    if failed || !Schema::try_from(&schema).is_ok_and(has_nulls) {
        return Ok(capsule);
    }
    let readers = capsule
        .py()
        .import("pyarrow")?
        .getattr("RecordBatchReader")?;
    readers
        .call_method1("_import_from_c_capsule", (capsule,))?
        .call_method0("__arrow_c_stream__")
}

fn stream_in(capsule: &Bound<'_, PyCapsule>) -> PyResult<RecordBatchStreamReader> {
    let pointer = capsule
        .pointer_checked(Some(STREAM))?
        .cast::<FFI_ArrowArrayStream>();
    // SAFETY: the name was checked, so by Arrow's PyCapsule interface the pointer is to a stream that nothing else uses
    // and that lives as long as the capsule; it is moved out, and a released one is left for the destructor.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(pointer.as_ptr()) };
    RecordBatchStreamReader::try_new(stream).map_err(|error| {
        PyValueError::new_err(format!("expected a stream of rows (structs): {error}"))
    })
}

fn array_in(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<ArrayData> {
    let schema = schema
        .pointer_checked(Some(SCHEMA))?
        .cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: the name was checked, so by Arrow's PyCapsule interface the pointer is to a schema that lives as long as
    // its capsule, which the caller holds.
    let schema = unsafe { schema.as_ref() };
    // SAFETY: as for a stream: the array is moved out, and a released one is left.
    let array = unsafe { FFI_ArrowArray::from_raw(array.as_ptr()) };
    if array.is_released() || schema.release().is_none() {
        return Err(PyValueError::new_err("the array was consumed before"));
    }
    // SAFETY: both come from one call of `__arrow_c_array__`, whose contract is that they describe one array.
    unsafe { from_ffi(array, schema) }.map_err(refused)
}

/// The rows of an array of structs.
fn rows_in(data: ArrayData) -> PyResult<RecordBatch> {
    if !matches!(data.data_type(), DataType::Struct(_)) {
        let text = format!(
            "expected an array of structs, found one of {}",
            data.data_type()
        );
        return Err(PyValueError::new_err(text));
    }
    let rows = StructArray::from(data);
    if rows.null_count() > 0 {
        let text = format!("{} of the array's rows are null", rows.null_count());
        return Err(PyValueError::new_err(text));
    }
    Ok(RecordBatch::from(rows))
}
