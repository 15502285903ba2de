//! The locks of log dirs, held across the writers of a job.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::prelude::*;

use super::errors::into_py;
use crate::api::{Disk, Identity, LogDirs, lock};

/// Log dirs that this process has locked.
#[pyclass(frozen, module = "kafkalog._core")]
pub(super) struct HeldLogDirs {
    dirs: Mutex<Option<LogDirs>>,
}

#[pymethods]
impl HeldLogDirs {
    #[new]
    fn new(py: Python<'_>, log_dirs: Vec<PathBuf>) -> PyResult<Self> {
        let opened = py.detach(|| LogDirs::open(&log_dirs, &Identity::default(), &Disk::default()));
        Ok(Self {
            dirs: Mutex::new(Some(opened.map_err(into_py)?)),
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let mut dirs = lock(&self.dirs);
            dirs.take().map_or(Ok(()), LogDirs::close).map_err(into_py)
        })
    }
}
