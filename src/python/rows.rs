//! A small table that is made at once: findings, producers.

use arrow_array::{RecordBatch, RecordBatchIterator};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::capsule;

/// Rows, an Arrow stream that can be taken any number of times.
#[pyclass(name = "Rows", frozen, module = "kafkalog._core")]
#[derive(Debug)]
pub(super) struct PyRows(pub(super) RecordBatch);

/// The rows of those partitions that could be read, and exceptions for the others.
pub(super) type Partial = (PyRows, Vec<Py<PyAny>>);

#[pymethods]
impl PyRows {
    fn __len__(&self) -> usize {
        self.0.num_rows()
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
