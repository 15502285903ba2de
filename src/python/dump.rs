//! `dump`: kafka-dump-log's text, written to file descriptors.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors::{into_py, of_panic};
use super::interrupt::with_signals;
use crate::api::tables::Topic;
use crate::api::tools::{self, DumpOptions, PrintedAs};

/// The most bytes written at once.
const CHUNK: usize = 1 << 20;

/// Writes by Python's `os.write`, which knows about interruptions and signals and needs no unsafe code here.
struct Descriptor {
    fd: i32,
    /// An exception other than `OSError`, such as `KeyboardInterrupt`.
    raised: Option<PyErr>,
}

impl Descriptor {
    const fn new(fd: i32) -> Self {
        Self { fd, raised: None }
    }
}

impl Write for Descriptor {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let chunk = bytes.get(..CHUNK).unwrap_or(bytes);
        Python::attach(|py| {
            let written = py
                .import("os")
                .and_then(|os| os.call_method1("write", (self.fd, PyBytes::new(py, chunk))))
                .and_then(|written| written.extract::<usize>());
            written.map_err(|raised| {
                let errno = raised
                    .value(py)
                    .getattr("errno")
                    .and_then(|errno| errno.extract::<i32>());
                if let Ok(errno) = errno {
                    io::Error::from_raw_os_error(errno)
                } else {
                    self.raised = Some(raised);
                    io::Error::other("interrupted")
                }
            })
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn decoder(name: &str) -> PyResult<PrintedAs> {
    match name {
        "string" => Ok(PrintedAs::String),
        "integer" => Ok(PrintedAs::Integer),
        "long" => Ok(PrintedAs::Long),
        "bytes" => Ok(PrintedAs::Bytes),
        _ => Err(PyValueError::new_err(format!(
            "decoder: expected string, integer, long or bytes, found {name:?}"
        ))),
    }
}

fn topic(name: &str) -> PyResult<Topic> {
    Topic::of(name).ok_or_else(|| {
        PyValueError::new_err(format!("topic decoder: {name:?} is no internal topic"))
    })
}

/// Dumps files, each with the name to show, to `fd` and findings to `error_fd`; returns whether damage was found.
#[pyfunction]
#[pyo3(signature = (
    files, fd, error_fd, *, print_data_log = false, deep_iteration = false, skip_record_metadata = false,
    verify_index_only = false, index_sanity_check = false, max_bytes = None,
    max_message_size = DumpOptions::MAX_MESSAGE_SIZE, key_decoder = "string", value_decoder = "string",
    topic_decoder = None,
))]
#[expect(
    clippy::too_many_arguments,
    clippy::fn_params_excessive_bools,
    clippy::needless_pass_by_value,
    reason = "keywords on the Python side, one for each of the tool's flags"
)]
pub(super) fn dump(
    py: Python<'_>,
    files: Vec<(PathBuf, PathBuf)>,
    fd: i32,
    error_fd: i32,
    print_data_log: bool,
    deep_iteration: bool,
    skip_record_metadata: bool,
    verify_index_only: bool,
    index_sanity_check: bool,
    max_bytes: Option<u64>,
    max_message_size: i32,
    key_decoder: &str,
    value_decoder: &str,
    topic_decoder: Option<&str>,
) -> PyResult<bool> {
    let options = DumpOptions {
        print_data_log,
        deep_iteration,
        skip_record_metadata,
        verify_index_only,
        index_sanity_check,
        max_bytes,
        max_message_size,
        key_decoder: decoder(key_decoder)?,
        value_decoder: decoder(value_decoder)?,
        topic_decoder: topic_decoder.map(topic).transpose()?,
    };
    let (mut out, mut err) = (Descriptor::new(fd), Descriptor::new(error_fd));
    let (dumped, heard) = py.detach(|| {
        with_signals(|| {
            catch_unwind(AssertUnwindSafe(|| {
                tools::dump(&files, &options, &mut out, &mut err)
            }))
        })
    });
    if let Some(raised) = out.raised.or(err.raised).or(heard) {
        return Err(raised);
    }
    dumped
        .map_err(|panic| of_panic(panic.as_ref()))?
        .map_err(into_py)
}
