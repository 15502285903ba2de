//! Options that several functions take, parsed.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::api::rows::OnCorrupt;

/// Parses the action on damage.
pub(super) fn on_corrupt_of(name: &str) -> PyResult<OnCorrupt> {
    match name {
        "raise" => Ok(OnCorrupt::Raise),
        "skip" => Ok(OnCorrupt::Skip),
        other => Err(PyValueError::new_err(format!(
            "on_corrupt must be 'raise' or 'skip', not '{other}'"
        ))),
    }
}
