//! The mapping from [`Error`] to Python exceptions.
//!
//! The classes live in `kafkalog.errors`, in Python, so that they pickle: Spark ships them from worker to driver.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::api::rows::{OnCorrupt, is_damage};
use crate::error::{DamagedRange, Error, Fault, Location, Refusal};

/// The exception for an error.
pub(super) fn to_py(error: &Error) -> PyErr {
    let text = error.to_string();
    Python::attach(|py| convert(py, error, text).unwrap_or_else(|failed| failed))
}

/// The exception for an error that ended a read: one about damage says how to continue.
pub(super) fn of_read(error: &Error, on_corrupt: Option<OnCorrupt>) -> PyErr {
    let text = format!("{error}{}", way_on(error, on_corrupt));
    Python::attach(|py| convert(py, error, text).unwrap_or_else(|failed| failed))
}

/// Returns the hint that is added to an error that `on_corrupt="skip"` would have avoided. The shell has an option of
/// the same name.
pub(super) fn way_on(error: &Error, on_corrupt: Option<OnCorrupt>) -> &'static str {
    if on_corrupt == Some(OnCorrupt::Raise) && is_damage(error) {
        "; on_corrupt=\"skip\" continues after it"
    } else {
        ""
    }
}

/// For `map_err`.
#[expect(clippy::needless_pass_by_value, reason = "the shape `map_err` wants")]
pub(super) fn into_py(error: Error) -> PyErr {
    to_py(&error)
}

/// Converts the faults of skipped partitions to exceptions that the caller raises or reports.
pub(super) fn exceptions(py: Python<'_>, errors: Vec<Error>) -> Vec<Py<PyAny>> {
    let values = errors
        .into_iter()
        .map(|error| into_py(error).into_value(py));
    values.map(Py::into_any).collect()
}

fn convert(py: Python<'_>, error: &Error, text: String) -> PyResult<PyErr> {
    Ok(match error {
        Error::CorruptRecord(fault) => of_fault(py, "CorruptRecordError", &text, fault)?,
        Error::CorruptIndex(fault) => of_fault(py, "CorruptIndexError", &text, fault)?,
        Error::InvalidRecord(fault) => of_fault(py, "InvalidRecordError", &text, fault)?,
        Error::UnsupportedFormat(fault) => of_fault(py, "UnsupportedFormatError", &text, fault)?,
        Error::ProducerRefused(fault) => new(
            py,
            "InvalidRecordError",
            (
                text,
                fault.path.as_deref().map(Path::as_os_str),
                None::<u64>,
                Some(fault.offset),
            ),
        )?,
        Error::OffsetOutOfRange { path, offset, .. } => new(
            py,
            "OffsetOutOfRangeError",
            (text, Some(path.as_os_str()), None::<u64>, Some(*offset)),
        )?,
        Error::Refused {
            refusal,
            path,
            offset,
            ..
        } => {
            let class = match refusal {
                Refusal::Failed | Refusal::SegmentExists => "KafkaLogError",
                Refusal::PendingJob => "LogLockedError",
                _ => "InvalidRecordError",
            };
            let path = path.as_deref().map(Path::as_os_str);
            new(py, class, (text, path, None::<u64>, *offset))?
        }
        Error::LogLocked { path } => new(
            py,
            "LogLockedError",
            (text, Some(path.as_os_str()), None::<u64>, None::<i64>),
        )?,
        Error::DuplicatePartition { first, .. } => new(
            py,
            "KafkaLogError",
            (text, Some(first.as_os_str()), None::<u64>, None::<i64>),
        )?,
        Error::UnknownTopicOrPartition(_) => new(py, "UnknownTopicOrPartitionError", (text,))?,
        Error::Io { .. } if error.is_out_of_memory() => PyMemoryError::new_err(text),
        Error::OutOfMemory { .. } => PyMemoryError::new_err(text),
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        Error::Io { path, source } => match errno(py, source)? {
            // OSError itself picks FileNotFoundError, PermissionError and so on by errno.
            Some(errno) => {
                let reason = if source.get_ref().is_some() {
                    PyString::new(py, &source.to_string())
                } else {
                    let reason = py.import("os")?.call_method1("strerror", (errno,))?;
                    reason.cast_into::<PyString>()?
                };
                PyOSError::new_err((errno, reason.unbind(), path.as_os_str().to_owned()))
            }
            None => PyOSError::new_err(text),
        },
        Error::InvalidArgument(_) => PyValueError::new_err(text),
        Error::Internal(fault) => {
            let path = fault.path.as_deref().map(Path::as_os_str);
            new(py, "InternalError", (text, path, None::<u64>, None::<i64>))?
        }
    })
}

/// The system's errno; for a fault that the core itself detected, the matching one.
fn errno(py: Python<'_>, error: &io::Error) -> PyResult<Option<i32>> {
    let name = match (error.raw_os_error(), error.kind()) {
        (None, io::ErrorKind::NotFound) => "ENOENT",
        (None, io::ErrorKind::AlreadyExists) => "EEXIST",
        (None, io::ErrorKind::NotSeekable) => "ESPIPE",
        (None, io::ErrorKind::PermissionDenied) => "EACCES",
        (None, io::ErrorKind::TimedOut) => "ETIMEDOUT",
        (known, _) => return Ok(known),
    };
    py.import("errno")?.getattr(name)?.extract().map(Some)
}

fn of_fault(py: Python<'_>, class: &str, text: &str, fault: &Fault) -> PyResult<PyErr> {
    let location = &fault.location;
    let path = location.path.as_deref().map(Path::as_os_str);
    new(py, class, (text, path, location.position, location.offset))
}

/// The damage that a read of a tier met, from a `kafkalog.tiers.layout.DamagedError`.
pub(super) fn damaged_range(raised: &Bound<'_, PyAny>) -> PyResult<DamagedRange> {
    let location = Location {
        path: raised.getattr("path")?.extract::<Option<PathBuf>>()?,
        position: raised.getattr("position")?.extract()?,
        offset: None,
    };
    let text = raised.str()?.to_string();
    let before = format!("{location}: ");
    let text = text.strip_prefix(&before).unwrap_or(&text);
    let class = raised.getattr("error")?.get_type().name()?;
    Ok(DamagedRange {
        range: raised.getattr("start")?.extract()?..raised.getattr("end")?.extract()?,
        error: match class.to_str()? {
            "UnsupportedFormatError" => Error::UnsupportedFormat,
            _ => Error::CorruptRecord,
        },
        fault: Arc::new(Fault::from_text(location, text)),
    })
}

fn new<'py>(
    py: Python<'py>,
    class: &str,
    args: impl pyo3::call::PyCallArgs<'py>,
) -> PyResult<PyErr> {
    let class = py.import("kafkalog.errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call1(args)?))
}

/// A panic as an exception: a bug of ours, reported instead of ending the process.
pub(super) fn of_panic(panic: &(dyn std::any::Any + Send)) -> PyErr {
    to_py(&Error::panicked(panic))
}
