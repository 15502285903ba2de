//! Checks of settings and columns, and the writer of a partition.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::ffi::OsStr;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pythonize::pythonize;

use super::capsule;
use super::errors::{into_py, of_panic, to_py};
use super::range::PyPartitionRange;
use crate::api::rows::{check_schema, first_too_large};
use crate::api::{
    self, Appended, Clock, DEFAULT_BATCH_SIZE, LogConfig, LogWriter, RowOptions, SyncPolicy,
    WriterOptions, check_names, lock,
};
use crate::error::{Error, Result};
use crate::types::{TimestampMs, TopicPartition, now_ms};

pub(super) type Settings = Vec<(String, String)>;

pub(super) fn config_of(settings: &[(String, String)]) -> Result<LogConfig> {
    LogConfig::from_pairs(settings.iter().map(|(n, v)| (n.as_str(), v.as_str())))
}

/// Checks that these settings are within Kafka's bounds.
#[pyfunction]
pub(super) fn check_config(settings: Settings) -> PyResult<()> {
    config_of(&settings).map(drop).map_err(into_py)
}

/// Checks that this is a valid topic name in Kafka.
#[pyfunction]
pub(super) fn check_topic(name: &str) -> PyResult<()> {
    check_names(&TopicPartition::new(name, 0), None).map_err(into_py)
}

/// Checks that a writer accepts these columns.
#[pyfunction]
#[pyo3(signature = (data, *, keep_offsets=false, ignore_extra=false))]
pub(super) fn check_columns(
    data: &Bound<'_, PyAny>,
    keep_offsets: bool,
    ignore_extra: bool,
) -> PyResult<()> {
    let schema = capsule::batches_of(data)?.schema();
    check_schema(schema, keep_offsets, ignore_extra).map_err(into_py)
}

/// Finds the first row that is too large for a batch of `most` bytes, and the bytes that it needs.
#[pyfunction]
pub(super) fn check_sizes(
    data: &Bound<'_, PyAny>,
    most: usize,
) -> PyResult<Option<(usize, usize)>> {
    let mut before = 0usize;
    for batch in capsule::batches_of(data)? {
        let batch = batch.map_err(capsule::raised)?;
        if let Some((row, size)) = first_too_large(&batch, most).map_err(into_py)? {
            return Ok(Some((before.saturating_add(row), size)));
        }
        before = before.saturating_add(batch.num_rows());
    }
    Ok(None)
}

/// The time now: the system's, or that of the caller's clock.
pub(super) fn now_of(py: Python<'_>, clock: Option<Py<PyAny>>) -> PyResult<TimestampMs> {
    clock.map_or_else(|| Ok(now_ms()), |clock| clock.call0(py)?.extract(py))
}

/// An exception of Python code that the core called, kept for the caller: the core passes on an error in its place.
#[derive(Clone, Default)]
struct RaisedBelow(Arc<Mutex<Option<PyErr>>>);

impl RaisedBelow {
    fn keep(&self, raised: PyErr) -> Error {
        *lock(&self.0) = Some(raised);
        Error::InvalidArgument("Python code failed".to_owned())
    }

    fn or(&self, error: &Error) -> PyErr {
        let raised = lock(&self.0).take();
        raised.unwrap_or_else(|| to_py(error))
    }

    fn clock(&self, clock: Py<PyAny>) -> Clock {
        let raised = self.clone();
        Clock(Arc::new(move || {
            let now = Python::attach(|py| clock.call0(py)?.extract(py));
            now.map_err(|error| raised.keep(error))
        }))
    }
}

/// A partition open for writing, until it is closed.
#[pyclass(name = "LogWriter", frozen, module = "kafkalog._core")]
pub(super) struct PyLogWriter {
    path: PathBuf,
    topic: String,
    partition: i32,
    topic_id: Option<String>,
    raised: RaisedBelow,
    /// Boxed: Python's allocator does not provide the alignment that a part of it needs.
    state: Mutex<Option<Box<LogWriter>>>,
    /// The thread that holds the state.
    holder: Mutex<Option<ThreadId>>,
}

/// The state, locked by a call.
struct LockedState<'a> {
    state: MutexGuard<'a, Option<Box<LogWriter>>>,
    holder: &'a Mutex<Option<ThreadId>>,
}

impl Deref for LockedState<'_> {
    type Target = Option<Box<LogWriter>>;

    fn deref(&self) -> &Self::Target {
        &self.state
    }
}

impl DerefMut for LockedState<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.state
    }
}

impl Drop for LockedState<'_> {
    fn drop(&mut self) {
        *lock(self.holder) = None;
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the writer is closed")
}

impl PyLogWriter {
    /// Locks the state. A call inside a call of the same thread is refused: it would wait for itself.
    fn held(&self) -> PyResult<LockedState<'_>> {
        let holder = || lock(&self.holder);
        let this = Some(thread::current().id());
        if *holder() == this {
            return Err(PyValueError::new_err(
                "the writer is in use by this thread: the clock and the stream of the data cannot call it",
            ));
        }
        let state = lock(&self.state);
        *holder() = this;
        Ok(LockedState {
            state,
            holder: &self.holder,
        })
    }

    /// Runs a step without the interpreter; after a panic, which becomes an error, the writer is closed.
    fn run<T: Send>(
        &self,
        py: Python<'_>,
        step: impl FnOnce(&mut LogWriter) -> Result<T> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut held = self.held()?;
            let writer = held.as_mut().ok_or_else(closed)?;
            if !writer.is_held() {
                return Err(PyValueError::new_err(
                    "this writer belongs to the process that opened it",
                ));
            }
            match catch_unwind(AssertUnwindSafe(|| step(writer))) {
                Ok(done) => done.map_err(|error| self.raised.or(&error.at(&self.path))),
                Err(panic) => {
                    *held = None;
                    Err(of_panic(panic.as_ref()))
                }
            }
        })
    }

    fn look<T>(&self, py: Python<'_>, look: impl FnOnce(&LogWriter) -> T + Send) -> PyResult<T>
    where
        T: Send,
    {
        py.detach(|| self.held()?.as_deref().map(look).ok_or_else(closed))
    }
}

/// As [`api::check_load`].
#[pyfunction]
pub(super) fn check_load(
    py: Python<'_>,
    log_dirs: Vec<PathBuf>,
    topic: &str,
    partition: i32,
    settings: Settings,
) -> PyResult<()> {
    let config = config_of(&settings).map_err(into_py)?;
    let named = TopicPartition::new(topic, partition);
    py.detach(|| api::check_load(&log_dirs, &named, config))
        .map_err(into_py)
}

#[pymethods]
impl PyLogWriter {
    #[new]
    #[pyo3(signature = (
        log_dirs, topic, partition, settings, *, topic_id=None, cluster_id=None, node_id=None, directory_id=None,
        leader_epoch=None, clock=None, sync="config", batch_bytes=DEFAULT_BATCH_SIZE, job=None
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python function"
    )]
    fn new(
        py: Python<'_>,
        log_dirs: Vec<PathBuf>,
        topic: String,
        partition: i32,
        settings: Settings,
        topic_id: Option<String>,
        cluster_id: Option<String>,
        node_id: Option<i32>,
        directory_id: Option<String>,
        leader_epoch: Option<i32>,
        clock: Option<Py<PyAny>>,
        sync: &str,
        batch_bytes: usize,
        job: Option<String>,
    ) -> PyResult<Self> {
        let config = config_of(&settings).map_err(into_py)?;
        let raised = RaisedBelow::default();
        let mut options = WriterOptions {
            topic_id,
            cluster_id,
            node_id,
            directory_id,
            leader_epoch,
            batch_bytes: Some(batch_bytes),
            job,
            clock: clock.map_or_else(Clock::default, |clock| raised.clock(clock)),
            ..WriterOptions::new()
        };
        match sync {
            "config" => {}
            "append" => options.syncs_appends = true,
            "never" => options.sync = Some(SyncPolicy::Never),
            other => {
                return Err(PyValueError::new_err(format!(
                    "sync must be 'config', 'never' or 'append', not '{other}'"
                )));
            }
        }
        let open = || LogWriter::open_with(log_dirs, &topic, partition, config, options);
        let writer = py.detach(open).map_err(|error| raised.or(&error))?;
        Ok(Self {
            path: writer.path().to_path_buf(),
            topic_id: writer.topic_id().map(str::to_owned),
            topic,
            partition,
            raised,
            state: Mutex::new(Some(Box::new(writer))),
            holder: Mutex::new(None),
        })
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.path.as_os_str()
    }

    #[getter]
    fn topic(&self) -> &str {
        &self.topic
    }

    #[getter]
    const fn partition(&self) -> i32 {
        self.partition
    }

    #[getter]
    fn topic_id(&self) -> Option<&str> {
        self.topic_id.as_deref()
    }

    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| Ok(self.held()?.is_none()))
    }

    #[getter]
    fn log_start_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.look(py, LogWriter::log_start_offset)
    }

    #[getter]
    fn log_end_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.look(py, LogWriter::log_end_offset)
    }

    #[getter]
    fn recovery_point(&self, py: Python<'_>) -> PyResult<i64> {
        self.look(py, LogWriter::recovery_point)
    }

    #[getter]
    fn highest_producer_id(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        self.look(py, LogWriter::highest_producer_id)
    }

    #[getter]
    fn latest_leader_epoch(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        self.look(py, LogWriter::latest_leader_epoch)
    }

    #[pyo3(signature = (data, *, keep_offsets=false, ignore_extra=false, first_row=0))]
    fn append<'py>(
        &self,
        py: Python<'py>,
        data: &Bound<'py, PyAny>,
        keep_offsets: bool,
        ignore_extra: bool,
        first_row: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batches = capsule::batches_of(data)?;
        let how = RowOptions {
            keeps_offsets: keep_offsets,
            ignores_extra_columns: ignore_extra,
            first_row,
        };
        let done = self.run(py, |writer| {
            let schema = batches.schema();
            let batches =
                batches.map(|batch| batch.map_err(|e| self.raised.keep(capsule::raised(e))));
            writer.append_all(schema, batches, how)
        })?;
        Ok(pythonize(py, &done)?)
    }

    fn append_batches<'py>(
        &self,
        py: Python<'py>,
        source: &PyPartitionRange,
    ) -> PyResult<Bound<'py, PyAny>> {
        let source = source.0.clone();
        let done = self.run(py, |writer| {
            let mut done = Appended::default();
            writer.append_range(source, &mut done)?;
            Ok(done)
        })?;
        Ok(pythonize(py, &done)?)
    }

    fn roll(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, LogWriter::roll)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, LogWriter::flush)
    }

    fn truncate(&self, py: Python<'_>, offset: i64) -> PyResult<bool> {
        self.run(py, |writer| writer.truncate_to(offset))
    }

    fn truncate_fully(&self, py: Python<'_>, offset: i64) -> PyResult<()> {
        self.run(py, |writer| writer.truncate_fully(offset))
    }

    fn delete_records(&self, py: Python<'_>, before: i64) -> PyResult<bool> {
        self.run(py, |writer| writer.delete_records(before))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let writer = self.held()?.take();
            let closed = writer.map_or(Ok(()), |writer| writer.close());
            closed.map_err(|error| self.raised.or(&error))
        })
    }
}
