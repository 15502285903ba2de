//! The partition of a key.

use std::num::NonZeroU32;
use std::sync::Arc;

use arrow_array::Int32Array;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::capsule;
use super::errors::into_py;
use super::rows::PyRows;
use crate::api::rows;

/// The partitions of the keys in the column `key`, as a column `partition`.
#[pyfunction]
pub(super) fn partition_for_key(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    partitions: NonZeroU32,
) -> PyResult<PyRows> {
    let batches = capsule::batches_of(data)?;
    let found: PyResult<Vec<Int32Array>> = py.detach(|| {
        batches
            .map(|batch| {
                let batch = batch.map_err(capsule::raised)?;
                let keys = batch.column_by_name("key");
                let keys = keys.ok_or_else(|| PyValueError::new_err("no column 'key'"))?;
                rows::partition_for_key(keys, partitions).map_err(into_py)
            })
            .collect()
    });
    let partitions: Int32Array = found?.iter().flatten().collect();
    PyRows::of_columns([("partition", Arc::new(partitions) as _)])
}
