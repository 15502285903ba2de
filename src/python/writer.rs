//! Checks of settings and columns, and the writer of a partition.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::ffi::OsStr;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::capsule;
use super::errors::{into_py, of_panic, to_py};
use super::range::PyPartitionRange;
use super::report::append_info;
use crate::api::rows::{check_schema, first_too_large};
use crate::api::{
    Appended, DEFAULT_BATCH_SIZE, Encoder, Identity, LogConfig, PartitionWriter, SyncPolicy, Uuid,
    WholeBatches, WriteOptions, append_rows, append_whole, check_names, encode_options, lock,
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

/// The system's clock, or the caller's.
pub(super) struct Clock(pub(super) Option<Py<PyAny>>);

impl Clock {
    pub(super) fn now_ms(&self) -> PyResult<TimestampMs> {
        match &self.0 {
            Some(clock) => Python::attach(|py| clock.call0(py)?.extract(py)),
            None => Ok(now_ms()),
        }
    }
}

/// A failure outside the interpreter: an error of the core, or an exception of Python code that it called.
enum Failed {
    Ours(Error),
    Raised(PyErr),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Ours(error)
    }
}

impl From<PyErr> for Failed {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

/// The options of a writer.
struct Settled {
    clock: Clock,
    /// Flush everything to disk before an append returns.
    sync_appends: bool,
    batch_size: usize,
    leader_epoch: Option<i32>,
}

/// A partition open for writing, until it is closed.
#[pyclass(name = "LogWriter", frozen, module = "kafkalog._core")]
pub(super) struct PyLogWriter {
    path: PathBuf,
    topic: String,
    partition: i32,
    topic_id: Option<String>,
    settled: Settled,
    /// Boxed: Python's allocator does not provide the alignment that a part of it needs.
    state: Mutex<Option<Box<PartitionWriter>>>,
    /// The thread that holds the state.
    holder: Mutex<Option<ThreadId>>,
}

/// The state, locked by a call.
struct LockedState<'a> {
    state: MutexGuard<'a, Option<Box<PartitionWriter>>>,
    holder: &'a Mutex<Option<ThreadId>>,
}

impl Deref for LockedState<'_> {
    type Target = Option<Box<PartitionWriter>>;

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
        step: impl FnOnce(&mut PartitionWriter) -> std::result::Result<T, Failed> + Send,
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
                Ok(done) => done.map_err(|failed| match failed {
                    Failed::Ours(error) => to_py(&error.at(&self.path)),
                    Failed::Raised(error) => error,
                }),
                Err(panic) => {
                    *held = None;
                    Err(of_panic(panic.as_ref()))
                }
            }
        })
    }

    fn look<T>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&PartitionWriter) -> T + Send,
    ) -> PyResult<T>
    where
        T: Send,
    {
        py.detach(|| self.held()?.as_deref().map(look).ok_or_else(closed))
    }

    /// Flushes at the end of a call, if the sync policy says so.
    fn settle(&self, writer: &mut PartitionWriter) -> std::result::Result<(), Failed> {
        if self.settled.sync_appends {
            let now_ms = self.settled.clock.now_ms()?;
            writer.log_mut().flush(false, now_ms)?;
        }
        Ok(())
    }
}

/// As [`PartitionWriter::check`].
#[pyfunction]
pub(super) fn check_load(
    py: Python<'_>,
    log_dirs: Vec<PathBuf>,
    topic: &str,
    partition: i32,
    settings: Settings,
) -> PyResult<()> {
    let options = WriteOptions::new(config_of(&settings).map_err(into_py)?);
    let named = TopicPartition::new(topic, partition);
    py.detach(|| PartitionWriter::check(&log_dirs, &named, &options, now_ms()))
        .map_err(into_py)
}

/// An id as Kafka writes it.
fn id_of(option: &str, text: Option<&str>) -> PyResult<Option<Uuid>> {
    let parse = |text: &str| {
        text.parse().map_err(|_| {
            PyValueError::new_err(format!(
                "{option} is 22 characters of base64 for a UUID, not {text:?}"
            ))
        })
    };
    text.map(parse).transpose()
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
        let mut options = WriteOptions::new(config_of(&settings).map_err(into_py)?);
        options.job = job;
        let sync_appends = match sync {
            "config" => false,
            "append" => true,
            "never" => {
                options.sync = SyncPolicy::Never;
                false
            }
            other => {
                return Err(PyValueError::new_err(format!(
                    "sync must be 'config', 'never' or 'append', not '{other}'"
                )));
            }
        };
        let identity = Identity {
            cluster_id,
            node_id,
            directory_id: id_of("directory_id", directory_id.as_deref())?,
        };
        let topic_id = id_of("topic_id", topic_id.as_deref())?;
        let clock = Clock(clock);
        let now_ms = clock.now_ms()?;
        let named = TopicPartition::new(topic.as_str(), partition);
        let opened = py.detach(|| {
            let writer =
                PartitionWriter::open(&log_dirs, &identity, &named, topic_id, options, now_ms)?;
            if let Err(error) = writer.leader_epoch(leader_epoch) {
                writer.close(now_ms)?;
                return Err(error);
            }
            Ok(writer)
        });
        let writer = opened.map_err(into_py)?;
        Ok(Self {
            path: writer.folder().to_path_buf(),
            topic_id: writer.topic_id().map(str::to_owned),
            topic,
            partition,
            settled: Settled {
                clock,
                sync_appends,
                batch_size: batch_bytes,
                leader_epoch,
            },
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
        self.look(py, |writer| writer.log().log_start_offset())
    }

    #[getter]
    fn log_end_offset(&self, py: Python<'_>) -> PyResult<i64> {
        self.look(py, |writer| writer.log().log_end_offset())
    }

    #[getter]
    fn recovery_point(&self, py: Python<'_>) -> PyResult<i64> {
        self.look(py, |writer| writer.log().recovery_point())
    }

    #[getter]
    fn highest_producer_id(&self, py: Python<'_>) -> PyResult<Option<i64>> {
        self.look(py, |writer| writer.log().producers().highest_producer_id())
    }

    #[getter]
    fn latest_leader_epoch(&self, py: Python<'_>) -> PyResult<Option<i32>> {
        self.look(py, |writer| {
            writer.log().epochs().latest().map(|entry| entry.epoch)
        })
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
        let done = self.run(py, |writer| {
            let batch_size = self.settled.batch_size;
            let options = encode_options(writer.log(), batch_size, keep_offsets, ignore_extra)?;
            let mut encoder = Encoder::new(options).numbered_from(first_row);
            // A wrong schema is an error even if there are no rows.
            check_schema(batches.schema(), keep_offsets, ignore_extra)?;
            let epoch = writer.leader_epoch(self.settled.leader_epoch)?;
            let mut done = Appended::default();
            for batch in batches {
                let batch = batch.map_err(|e| Failed::Raised(capsule::raised(e)))?;
                let now_ms = self.settled.clock.now_ms()?;
                append_rows(
                    writer.log_mut(),
                    &mut encoder,
                    &batch,
                    epoch,
                    now_ms,
                    &mut done,
                )?;
            }
            self.settle(writer)?;
            Ok(done)
        })?;
        append_info(py, &done)
    }

    fn append_batches<'py>(
        &self,
        py: Python<'py>,
        source: &PyPartitionRange,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut source = WholeBatches::new(source.0.clone());
        let done = self.run(py, |writer| {
            let mut raised = None;
            let mut done = Appended::default();
            let now_ms = || {
                self.settled.clock.now_ms().map_err(|error| {
                    raised = Some(error);
                    Error::InvalidArgument("the clock failed".to_owned())
                })
            };
            let appended = append_whole(writer.log_mut(), &mut source, now_ms, &mut done);
            if let Some(error) = raised {
                return Err(Failed::Raised(error));
            }
            appended?;
            self.settle(writer)?;
            Ok(done)
        })?;
        append_info(py, &done)
    }

    fn roll(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |writer| {
            let now_ms = self.settled.clock.now_ms()?;
            writer.log_mut().roll(None, now_ms)?;
            Ok(())
        })
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, |writer| {
            let now_ms = self.settled.clock.now_ms()?;
            Ok(writer.flush(now_ms)?)
        })
    }

    fn truncate(&self, py: Python<'_>, offset: i64) -> PyResult<bool> {
        self.run(py, |writer| {
            let now_ms = self.settled.clock.now_ms()?;
            Ok(writer.truncate_to(offset, now_ms)?)
        })
    }

    fn truncate_fully(&self, py: Python<'_>, offset: i64) -> PyResult<()> {
        self.run(py, |writer| {
            let now_ms = self.settled.clock.now_ms()?;
            Ok(writer.truncate_fully_and_start_at(offset, now_ms)?)
        })
    }

    fn delete_records(&self, py: Python<'_>, before: i64) -> PyResult<bool> {
        self.run(py, |writer| {
            Ok(writer.log_mut().increment_log_start(before)?)
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let Some(writer) = self.held()?.take() else {
                return Ok(());
            };
            let now_ms = self.settled.clock.now_ms()?;
            writer.close(now_ms).map_err(into_py)
        })
    }
}
