//! The text of records and rows, for `cat` and `export`.

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::capsule;
use super::errors::into_py;
use crate::api::tools::{RecordText, RowText};
use crate::error::Result;

/// Formatter of `cat` for records: by a format string, or as JSON without one.
#[pyclass(name = "RecordText", frozen, module = "kafkalog._core")]
#[derive(Debug)]
pub(super) struct PyRecordText(RecordText);

#[pymethods]
impl PyRecordText {
    #[new]
    #[pyo3(signature = (template=None, *, null="", is_json_text=false))]
    fn new(template: Option<&str>, null: &str, is_json_text: bool) -> PyResult<Self> {
        let text = match template {
            Some(template) => RecordText::parse(template, null).map_err(into_py)?,
            None => RecordText::json(),
        };
        Ok(Self(text.of_json_text(is_json_text)))
    }

    /// The columns to read, as views.
    #[getter]
    fn columns(&self) -> Vec<&'static str> {
        self.0
            .columns()
            .iter()
            .map(|column| column.name())
            .collect()
    }

    /// The text of the records of a batch of those columns.
    fn of<'py>(&self, py: Python<'py>, batch: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        text_of(py, batch, |batch| self.0.of(batch))
    }
}

/// Formatter of `export` for rows: as JSON lines or CSV.
#[pyclass(name = "RowText", frozen, module = "kafkalog._core")]
#[derive(Debug)]
pub(super) struct PyRowText(RowText);

#[pymethods]
impl PyRowText {
    #[new]
    #[pyo3(signature = (form, *, text=false))]
    fn new(form: &str, text: bool) -> Self {
        Self(RowText {
            separator: match form {
                "csv" => Some(b','),
                "tsv" => Some(b'\t'),
                _ => None,
            },
            as_text: text,
        })
    }

    /// The text of the rows of a batch.
    fn of<'py>(&self, py: Python<'py>, batch: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        text_of(py, batch, |batch| self.0.of(batch))
    }
}

fn text_of<'py>(
    py: Python<'py>,
    batch: &Bound<'py, PyAny>,
    of: impl Fn(&RecordBatch) -> Result<Vec<u8>> + Sync,
) -> PyResult<Bound<'py, PyBytes>> {
    let batches = capsule::batches_of(batch)?;
    let text = py.detach(|| {
        let mut text = Vec::new();
        for batch in batches {
            let batch = batch.map_err(capsule::raised)?;
            text.append(&mut of(&batch).map_err(into_py)?);
        }
        Ok::<_, PyErr>(text)
    })?;
    Ok(PyBytes::new(py, &text))
}
