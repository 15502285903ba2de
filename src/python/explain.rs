//! Explaining: a row for each segment, as an Arrow stream.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::path::PathBuf;

use pyo3::prelude::*;

use super::errors::into_py;
use super::rows::Rows;
use super::tools::{by_topic, run};
use super::writer::{Settings, config_of};
use crate::tools::explain::table::table;
use crate::tools::explain::{self as explaining, ExplainOptions};

/// Explains why each segment of a log dir or a partition is still here.
#[pyfunction]
#[pyo3(signature = (path, *, now_ms, settings=Vec::new(), topics=Vec::new()))]
pub(super) fn explain(
    py: Python<'_>,
    path: PathBuf,
    now_ms: i64,
    settings: Settings,
    topics: Vec<(String, Settings)>,
) -> PyResult<Rows> {
    let options = ExplainOptions {
        config: config_of(&settings).map_err(into_py)?,
        topics: by_topic(topics).map_err(into_py)?,
        now_ms,
    };
    let step = || explaining::explain(&path, &options).and_then(|rows| table(&rows, now_ms));
    run(py, step).map(Rows)
}
