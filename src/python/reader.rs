//! `RecordStream`: planned ranges as a one-shot Arrow C stream.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pythonize::pythonize;

use super::capsule;
use super::decoding::PyDecoding;
use super::errors::{into_py, of_read, way_on};
use super::interrupt;
use super::options::on_corrupt_of;
use super::range::{PyPartitionRange, ranges_of};
use crate::api::rows::{
    Column, ColumnOptions, HeaderBounds, Latest, Layout, LostRange, OnCorrupt, ReadOptions,
    RecordSearch, TimestampUnit, lost_batch, lost_schema,
};
use crate::api::tables::AllRefused;
use crate::api::{RecordReader, Request, ScanMetrics, lock};
use crate::error::{Error, Result};

/// Shared by the stream and the object that it was taken from.
#[derive(Default)]
struct StreamState {
    metrics: ScanMetrics,
    refused: Arc<AllRefused>,
    lost: Vec<LostRange>,
    failure: Option<Arc<ReadFailure>>,
    /// True if the reader will ask for the failure and raise it.
    is_asked_for_it: bool,
}

enum ReadFailure {
    /// An error, with the reader's action on damage.
    Error(Error, Option<OnCorrupt>),
    /// The exception of a signal handler.
    Raised(PyErr),
    /// Reading on after that: an error, since rows would be missing.
    Interrupted,
}

impl fmt::Display for ReadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(error, on_corrupt) => {
                write!(f, "{error}{}", way_on(error, *on_corrupt))
            }
            Self::Raised(raised) => write!(f, "interrupted: {raised}"),
            Self::Interrupted => f.write_str("this reader was interrupted; scan again"),
        }
    }
}

/// The stream as arrow-rs exports it. It catches panics: in an `extern "C"` callback one would abort the process.
struct Stream {
    schema: SchemaRef,
    /// Opens its files when the first batch is requested; `None` at the end.
    reader: Option<RecordReader>,
    shared: Arc<Mutex<StreamState>>,
    is_interrupted: bool,
    on_corrupt: Option<OnCorrupt>,
}

impl Stream {
    /// Opened on the first call: no thread is started and no file opened before that.
    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        let Some(reader) = &mut self.reader else {
            return Ok(None);
        };
        let next = reader.next_batch();
        let mut shared = lock(&self.shared);
        shared.metrics = reader.metrics();
        shared.refused = reader.refused();
        if shared.lost.len() != reader.lost_ranges().len() || !matches!(next, Ok(Some(_))) {
            shared.lost = reader.lost_ranges().to_vec();
        }
        drop(shared);
        if !matches!(next, Ok(Some(_))) {
            self.reader = None;
        }
        next
    }
}

impl Iterator for Stream {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let failure = if self.is_interrupted {
            ReadFailure::Interrupted
        } else {
            let advance = || catch_unwind(AssertUnwindSafe(|| self.advance()));
            match interrupt::with_signals(advance) {
                (_, Some(raised)) => {
                    self.reader = None;
                    self.is_interrupted = true;
                    ReadFailure::Raised(raised)
                }
                (Ok(Ok(batch)), None) => return batch.map(Ok),
                (Ok(Err(error)), None) => ReadFailure::Error(error, self.on_corrupt),
                (Err(panic), None) => {
                    self.reader = None;
                    ReadFailure::Error(Error::panicked(panic.as_ref()), self.on_corrupt)
                }
            }
        };
        Some(Err(self.tell(failure)))
    }
}

impl Stream {
    /// Keeps a failure for [`RecordStream::error`]; the C stream carries only its text.
    fn tell(&self, failure: ReadFailure) -> ArrowError {
        let text = failure.to_string();
        let is_memory =
            matches!(&failure, ReadFailure::Error(error, _) if error.is_out_of_memory());
        let shared = || lock(&self.shared);
        let is_asked_for_it = shared().is_asked_for_it;
        // Lock order: a thread with the interpreter may wait for this lock, so this lock must not be held while waiting
        // for the interpreter.
        if let (ReadFailure::Raised(raised), false) = (&failure, is_asked_for_it) {
            Python::attach(|py| interrupt::again(py, raised));
        }
        shared().failure = Some(Arc::new(failure));
        if is_memory {
            return ArrowError::MemoryError(text);
        }
        ArrowError::CDataInterface(text)
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// A one-shot Arrow C stream.
#[pyclass(frozen, module = "kafkalog._core")]
pub(super) struct RecordStream {
    request: Mutex<Option<Request>>,
    schema: SchemaRef,
    shared: Arc<Mutex<StreamState>>,
}

impl RecordStream {
    pub(super) fn new(request: Request) -> Self {
        Self {
            schema: request.schema(),
            request: Mutex::new(Some(request)),
            shared: Arc::default(),
        }
    }
}

#[pymethods]
impl RecordStream {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::of_schema(py, &self.schema)
    }

    /// Returns whether the stream will have exactly the requested schema.
    fn honours(&self, requested_schema: &Bound<'_, PyAny>) -> PyResult<bool> {
        let request = lock(&self.request);
        let Some(Request::Records { columns, .. }) = &*request else {
            return Ok(false);
        };
        let mut columns = columns.clone();
        capsule::honour(requested_schema, &mut columns)?;
        capsule::is_requested(requested_schema, &columns.schema())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let request = lock(&self.request).take();
        let mut request = request
            .ok_or_else(|| PyValueError::new_err("this reader was read already, or is closed"))?;
        if let (Some(wanted), Request::Records { columns, .. }) = (requested_schema, &mut request) {
            capsule::honour(wanted, columns)?;
        }
        let stream = Stream {
            schema: request.schema(),
            on_corrupt: request.on_corrupt(),
            reader: Some(RecordReader::new(request)),
            shared: Arc::clone(&self.shared),
            is_interrupted: false,
        };
        capsule::of_stream(py, Box::new(stream))
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let metrics = lock(&self.shared).metrics;
        Ok(pythonize(py, &metrics)?)
    }

    /// Records of internal topics that could not be decoded so far.
    fn undecoded(&self) -> u64 {
        lock(&self.shared).metrics.undecoded
    }

    /// Records that a replay could not apply so far: how many, and the first of them by name.
    fn refused(&self) -> (u64, Vec<String>) {
        let shared = lock(&self.shared);
        let named = shared.refused.named.iter().map(ToString::to_string);
        (shared.refused.count, named.collect())
    }

    /// Returns what was skipped as damaged so far, as a stream of one batch.
    fn lost<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let ranges = |shared: &StreamState| shared.lost.clone();
        let lost = ranges(&lock(&self.shared));
        let batch = lost_batch(&lost).map_err(into_py)?;
        let rows = RecordBatchIterator::new([Ok(batch)], lost_schema());
        capsule::of_stream(py, Box::new(rows))
    }

    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let shared = || lock(&self.shared);
        // Creating an exception runs Python code, so other threads may run in between.
        let failure = shared().failure.clone()?;
        let error = match &*failure {
            ReadFailure::Error(error, on_corrupt) => of_read(error, *on_corrupt),
            ReadFailure::Raised(raised) => raised.clone_ref(py),
            ReadFailure::Interrupted => PyValueError::new_err(failure.to_string()),
        };
        Some(error.into_value(py).into_any())
    }

    /// Sets whether the reader of the stream will ask for its [`RecordStream::error`].
    #[pyo3(signature = (*, will))]
    fn will_ask(&self, will: bool) {
        let mut shared = lock(&self.shared);
        shared.is_asked_for_it = will;
    }

    fn take_batch_ranges(&self) -> PyResult<Vec<PyPartitionRange>> {
        let mut request = lock(&self.request);
        match request.take() {
            Some(Request::Batches { ranges, .. }) => {
                Ok(ranges.into_iter().map(PyPartitionRange).collect())
            }
            Some(records) => {
                *request = Some(records);
                Err(PyValueError::new_err(
                    "this reader gives records; scan_batches gives batches",
                ))
            }
            None => Err(PyValueError::new_err(
                "this reader was read already, or is closed",
            )),
        }
    }

    fn close(&self) {
        lock(&self.request).take();
    }
}

/// Reads columns of the records in `ranges` as a stream.
#[pyfunction]
#[pyo3(signature = (ranges, *, columns=None, include_control=false, check_crcs=true, on_corrupt="raise",
                    layout="binary", timestamp_unit="ms", batch_rows=65_536, batch_bytes=2_097_152, threads=1,
                    latest_per_key=false, tombstones=false, containing=None, matching=None, search_in=None,
                    is_inverted=false, limit=None, decoding=None, is_control=None, producer_ids=None, magics=None))]
#[expect(
    clippy::too_many_arguments,
    clippy::fn_params_excessive_bools,
    reason = "keyword arguments of one Python function"
)]
pub(super) fn scan_ranges(
    ranges: Vec<Py<PyPartitionRange>>,
    columns: Option<Vec<String>>,
    include_control: bool,
    check_crcs: bool,
    on_corrupt: &str,
    layout: &str,
    timestamp_unit: &str,
    batch_rows: usize,
    batch_bytes: usize,
    threads: usize,
    latest_per_key: bool,
    tombstones: bool,
    containing: Option<Vec<u8>>,
    matching: Option<&str>,
    search_in: Option<Vec<String>>,
    is_inverted: bool,
    limit: Option<usize>,
    decoding: Option<Py<PyDecoding>>,
    is_control: Option<bool>,
    producer_ids: Option<(i64, i64)>,
    magics: Option<(u8, u8)>,
) -> PyResult<RecordStream> {
    let layout = match layout {
        "binary" => Layout::Binary,
        "view" => Layout::View,
        other => {
            return Err(PyValueError::new_err(format!(
                "layout must be 'binary' or 'view', not '{other}'"
            )));
        }
    };
    let unit = match timestamp_unit {
        "ms" => TimestampUnit::Millisecond,
        "us" => TimestampUnit::Microsecond,
        other => {
            return Err(PyValueError::new_err(format!(
                "timestamp_unit must be 'ms' or 'us', not '{other}'"
            )));
        }
    };
    if threads == 0 || batch_rows == 0 || batch_bytes == 0 {
        return Err(PyValueError::new_err(
            "threads, batch_rows and batch_bytes must be at least 1",
        ));
    }
    let columns = match columns {
        Some(names) => Column::parse_all(&names).map_err(into_py)?,
        None => Column::defaults().to_vec(),
    };
    let columns = ColumnOptions {
        columns,
        layout,
        unit,
        batch_rows,
        batch_bytes,
        decoding: decoding.map(|decoding| Arc::clone(&decoding.get().0)),
    };
    columns.check().map_err(into_py)?;
    Ok(RecordStream::new(Request::Records {
        ranges: ranges_of(&ranges),
        options: ReadOptions {
            check_crcs,
            include_control,
            headers: HeaderBounds {
                is_control,
                producer_ids,
                magics,
            },
            on_corrupt: on_corrupt_of(on_corrupt)?,
            ..ReadOptions::default()
        },
        columns,
        threads,
        latest: latest_per_key.then_some(Latest { tombstones }),
        search: search_of(containing, matching, search_in)?
            .map(|search| Arc::new(search.inverted(is_inverted))),
        limit,
    }))
}

/// Raises `ValueError` for arguments of a search that make no sense.
#[pyfunction]
#[pyo3(signature = (containing, matching, search_in))]
pub(super) fn check_search(
    containing: Option<Vec<u8>>,
    matching: Option<&str>,
    search_in: Vec<String>,
) -> PyResult<()> {
    search_of(containing, matching, Some(search_in)).map(drop)
}

fn search_of(
    containing: Option<Vec<u8>>,
    matching: Option<&str>,
    search_in: Option<Vec<String>>,
) -> PyResult<Option<RecordSearch>> {
    let search_in = search_in.unwrap_or_else(|| vec!["value".to_owned()]);
    RecordSearch::parse(containing.as_deref(), matching, &search_in).map_err(into_py)
}

/// Reads one row per Kafka batch of `ranges` as a stream.
#[pyfunction]
#[pyo3(signature = (ranges, *, check_crcs=true, on_corrupt="raise"))]
pub(super) fn scan_batch_ranges(
    ranges: Vec<Py<PyPartitionRange>>,
    check_crcs: bool,
    on_corrupt: &str,
) -> PyResult<RecordStream> {
    Ok(RecordStream::new(Request::Batches {
        ranges: ranges_of(&ranges),
        check_crcs,
        on_corrupt: on_corrupt_of(on_corrupt)?,
    }))
}
