//! Verifying: findings as an Arrow stream.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;

use super::errors::into_py;
use super::rows::PyRows;
use super::tools::run;
use crate::api::tools::{self, CODES, Code, Level, Progress, VerifyOptions, findings_table};

/// Progress of a verification, readable from another thread.
#[pyclass(frozen, module = "kafkalog._core")]
#[derive(Debug, Default)]
pub(super) struct VerifyProgress {
    inner: Arc<Progress>,
}

#[pymethods]
impl VerifyProgress {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Partition folders; 0 before they are known.
    #[getter]
    fn partitions(&self) -> u64 {
        self.inner.partitions()
    }

    /// Bytes of logs that were verified.
    #[getter]
    fn done(&self) -> u64 {
        self.inner.done()
    }

    /// Bytes of all logs; 0 before they are known.
    #[getter]
    fn total(&self) -> u64 {
        self.inner.total()
    }
}

/// Verifies log dirs, partition folders and files.
#[pyfunction]
#[pyo3(signature = (paths, *, level=None, headers_only=false, threads=0, progress=None))]
pub(super) fn verify(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    level: Option<&str>,
    headers_only: bool,
    threads: usize,
    progress: Option<Bound<'_, VerifyProgress>>,
) -> PyResult<PyRows> {
    let options = VerifyOptions {
        level: level.map(Level::parse).transpose().map_err(into_py)?,
        headers_only,
        threads,
        progress: progress.map_or_else(Arc::default, |given| Arc::clone(&given.get().inner)),
    };
    let step = || tools::verify(&paths, &options).and_then(|found| findings_table(&found));
    run(py, step).map(PyRows)
}

/// Every code with its severity and advice.
#[pyfunction]
pub(super) fn verify_codes() -> Vec<(&'static str, &'static str, &'static str)> {
    let row = |code: &&'static Code| (code.name, code.severity.name(), code.advice);
    CODES.iter().map(row).collect()
}
