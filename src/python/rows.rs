//! A small table that is made at once: entries of an index, findings, producers.

use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::capsule;

/// Rows, an Arrow stream that can be taken any number of times.
#[pyclass(name = "Rows", frozen, module = "kafkalog._core")]
#[derive(Debug)]
pub(super) struct PyRows(pub(super) RecordBatch);

/// The rows of those partitions that could be read, and exceptions for the others.
pub(super) type Partial = (PyRows, Vec<Py<PyAny>>);

impl PyRows {
    pub(super) fn of_columns(
        columns: impl IntoIterator<Item = (&'static str, ArrayRef)>,
    ) -> PyResult<Self> {
        let columns = columns
            .into_iter()
            .map(|(name, column)| (name, column, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns);
        batch
            .map(Self)
            .map_err(|e| PyValueError::new_err(e.to_string()))
    }
}

#[pymethods]
impl PyRows {
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::of_schema(py, &self.0.schema())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets the consumer cast.
        drop(requested_schema);
        let batches = std::iter::once(Ok(self.0.clone()));
        let reader = RecordBatchIterator::new(batches, self.0.schema());
        capsule::of_stream(py, Box::new(reader))
    }
}
