//! The text of records and rows, for `cat` and `export`, and the search of `grep` in it.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::sync::Arc;

use arrow_array::RecordBatch;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::capsule;
use super::errors::into_py;
use crate::api::rows::RecordSearch;
use crate::api::tools::{PrintedSearch, RecordText, RowText};
use crate::error::Result;

/// Formatter of `cat` for records: by a format string, or as JSON without one.
#[pyclass(name = "RecordText", frozen, module = "kafkalog._core")]
#[derive(Debug)]
pub(super) struct PyRecordText(RecordText);

#[pymethods]
impl PyRecordText {
    #[new]
    #[pyo3(signature = (template=None, *, null="", is_json_text=false, errors_of=""))]
    fn new(
        template: Option<&str>,
        null: &str,
        is_json_text: bool,
        errors_of: &str,
    ) -> PyResult<Self> {
        let text = match template {
            Some(template) => RecordText::parse(template, null).map_err(into_py)?,
            None => RecordText::json(),
        };
        let (key, value) = (
            matches!(errors_of, "key" | "both"),
            matches!(errors_of, "value" | "both"),
        );
        Ok(Self(
            text.of_json_text(is_json_text).with_errors(key, value),
        ))
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

    /// The text of the records of a batch of those columns, or of some of its rows.
    #[pyo3(signature = (batch, rows=None))]
    fn of<'py>(
        &self,
        py: Python<'py>,
        batch: &Bound<'py, PyAny>,
        rows: Option<Vec<usize>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        text_of(py, batch, |batch| self.0.of(batch, rows.as_deref()))
    }
}

/// Search of `grep` in decoded keys and values.
#[pyclass(name = "PrintedSearch", frozen, module = "kafkalog._core")]
#[derive(Debug)]
pub(super) struct PyPrintedSearch(PrintedSearch);

#[pymethods]
impl PyPrintedSearch {
    #[new]
    #[pyo3(signature = (*, containing=None, matching=None, search_in, is_inverted=false, is_json_text=false))]
    fn new(
        containing: Option<Vec<u8>>,
        matching: Option<&str>,
        search_in: Vec<String>,
        is_inverted: bool,
        is_json_text: bool,
    ) -> PyResult<Self> {
        let found = RecordSearch::parse(containing.as_deref(), matching, &search_in);
        let search = found
            .map_err(into_py)?
            .ok_or_else(|| PyValueError::new_err("give one of containing and matching"))?;
        Ok(Self(PrintedSearch {
            search: Arc::new(search.inverted(is_inverted)),
            is_json_text,
        }))
    }

    /// The rows of a batch that are wanted.
    fn rows(&self, py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
        let batches = capsule::batches_of(batch)?;
        py.detach(|| {
            let (mut rows, mut before) = (Vec::new(), 0usize);
            for batch in batches {
                let batch = batch.map_err(capsule::raised)?;
                let found = self.0.rows(&batch).map_err(into_py)?;
                rows.extend(found.iter().map(|row| row.saturating_add(before)));
                before = before.saturating_add(batch.num_rows());
            }
            Ok(rows)
        })
    }
}

/// Formatter of `export` for rows: as JSON lines or CSV.
#[pyclass(name = "RowText", frozen, module = "kafkalog._core")]
#[derive(Debug)]
pub(super) struct PyRowText(RowText);

#[pymethods]
impl PyRowText {
    #[new]
    #[pyo3(signature = (form, *, text=false, json=Vec::new()))]
    fn new(form: &str, text: bool, json: Vec<String>) -> Self {
        Self(RowText {
            separator: match form {
                "csv" => Some(b','),
                "tsv" => Some(b'\t'),
                _ => None,
            },
            as_text: text,
            json,
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
