//! Explaining: a row for each segment, as an Arrow stream.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::path::PathBuf;

use pyo3::prelude::*;

use super::errors::{exceptions, into_py};
use super::rows::{Partial, PyRows};
use super::tools::{by_topic, run};
use super::writer::{Settings, config_of};
use crate::api::tools::{self, ExplainOptions, segments_table, usage};

/// Explains why each segment of a log dir or a partition is still here.
#[pyfunction]
#[pyo3(signature = (path, *, now_ms, settings=Vec::new(), topics=Vec::new()))]
pub(super) fn explain(
    py: Python<'_>,
    path: PathBuf,
    now_ms: i64,
    settings: Settings,
    topics: Vec<(String, Settings)>,
) -> PyResult<Partial> {
    let options = ExplainOptions {
        config: config_of(&settings).map_err(into_py)?,
        topics: by_topic(topics).map_err(into_py)?,
        now_ms,
    };
    let step = || {
        let (rows, unread) = tools::explain(&path, &options)?;
        Ok((segments_table(&rows, now_ms)?, unread))
    };
    let (rows, unread) = run(py, step)?;
    Ok((PyRows(rows), exceptions(py, unread)))
}

/// Adds up what takes up the disk, a row for each kind of file.
#[pyfunction]
pub(super) fn disk_usage(py: Python<'_>, path: PathBuf) -> PyResult<PyRows> {
    run(py, || usage(&path)).map(PyRows)
}
