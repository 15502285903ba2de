//! Log dirs, partitions and plans.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::errors::{into_py, of_read};
use super::interrupt;
use super::options::on_corrupt_of;
use super::range::{PyPartitionRange, ranges_of};
use super::statistics::plain_sums;
use crate::api::plan::{
    self as planning, ByPartition, Ending, IsolationLevel, NoIndexEntry, PartitionBounds,
    Partitions, Pieces, PlanOptions, Pruning, Starting, Timestamp, TimestampBounds,
};
use crate::api::tools::{self, PartitionStatistics};
use crate::api::{
    CHECKPOINTS, DirState, Folder, ListedLog, LogDir, OffsetAndTimestamp, PartitionFolder,
    PartitionLog, local,
};
use crate::error::Result;
use crate::types::TopicPartition;

type Nested = BTreeMap<String, BTreeMap<i32, i64>>;

fn by_partition(nested: Nested) -> ByPartition {
    nested
        .into_iter()
        .flat_map(|(topic, offsets)| {
            offsets
                .into_iter()
                .map(move |(partition, offset)| (TopicPartition::new(&*topic, partition), offset))
        })
        .collect()
}

/// An argument of one of several types, or an error that names them.
macro_rules! shape {
    ($name:ident { $($variant:ident($type:ty)),+ } $expected:literal) => {
        pub(super) enum $name { $($variant($type)),+ }

        impl<'py> FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                $(if let Ok(value) = object.extract::<$type>() {
                    return Ok(Self::$variant(value));
                })+
                Err(PyTypeError::new_err(concat!("expected ", $expected)))
            }
        }
    };
}

shape!(PartitionsArg { Numbers(BTreeSet<i32>), List(Vec<i32>), ByTopic(BTreeMap<String, Vec<i32>>) }
       "a list of partition numbers or {topic: [numbers]}");
shape!(BoundArg { Word(String), Offset(i64), Offsets(Nested) }
       "a word, an offset or {topic: {partition: offset}}");
shape!(TimestampArg { At(i64), ByPartition(Nested) }
       "milliseconds or {topic: {partition: milliseconds}}");

fn partitions_of(given: Option<PartitionsArg>) -> Partitions {
    match given {
        None => Partitions::All,
        Some(PartitionsArg::Numbers(numbers)) => Partitions::Numbers(numbers),
        Some(PartitionsArg::List(numbers)) => Partitions::Numbers(numbers.into_iter().collect()),
        Some(PartitionsArg::ByTopic(map)) => Partitions::ByTopic(
            map.into_iter()
                .map(|(topic, numbers)| (topic, numbers.into_iter().collect()))
                .collect(),
        ),
    }
}

fn starting_of(given: Option<BoundArg>) -> PyResult<Starting> {
    Ok(match given {
        None => Starting::Earliest,
        Some(BoundArg::Offset(offset)) => Starting::Offset(offset),
        Some(BoundArg::Offsets(map)) => Starting::Offsets(by_partition(map)),
        Some(BoundArg::Word(word)) => match word.as_str() {
            "earliest" => Starting::Earliest,
            "oldest" => Starting::Oldest,
            _ => {
                let text = format!("starting offsets {word:?}: expected 'earliest' or 'oldest'");
                return Err(PyValueError::new_err(text));
            }
        },
    })
}

fn ending_of(given: Option<BoundArg>) -> PyResult<Ending> {
    Ok(match given {
        None => Ending::Latest,
        Some(BoundArg::Offset(offset)) => Ending::Offset(offset),
        Some(BoundArg::Offsets(map)) => Ending::Offsets(by_partition(map)),
        Some(BoundArg::Word(word)) => match word.as_str() {
            "latest" => Ending::Latest,
            "high_watermark" => Ending::HighWatermark,
            _ => {
                let text =
                    format!("ending offsets {word:?}: expected 'latest' or 'high_watermark'");
                return Err(PyValueError::new_err(text));
            }
        },
    })
}

fn timestamp_of(given: TimestampArg) -> Timestamp {
    match given {
        TimestampArg::At(timestamp) => Timestamp::At(timestamp),
        TimestampArg::ByPartition(map) => Timestamp::ByPartition(by_partition(map)),
    }
}

fn isolation_of(given: &str) -> PyResult<IsolationLevel> {
    match given {
        "read_uncommitted" => Ok(IsolationLevel::ReadUncommitted),
        "read_committed" => Ok(IsolationLevel::ReadCommitted),
        _ => Err(PyValueError::new_err(format!(
            "isolation level {given:?}: expected 'read_uncommitted' or 'read_committed'"
        ))),
    }
}

/// Plans a read.
#[pyfunction]
#[pyo3(signature = (
    paths, *, topics=None, topic_pattern=None, partitions=None, starting_offsets=None, ending_offsets=None,
    starting_timestamp=None, ending_timestamp=None, isolation_level="read_uncommitted", min_offset=None, max_offset=None,
    min_timestamp=None, max_timestamp=None, include_inactive=false, allow_missing=false, on_corrupt="raise"
))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of a Python function"
)]
pub(super) fn plan(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    topics: Option<Vec<String>>,
    topic_pattern: Option<String>,
    partitions: Option<PartitionsArg>,
    starting_offsets: Option<BoundArg>,
    ending_offsets: Option<BoundArg>,
    starting_timestamp: Option<TimestampArg>,
    ending_timestamp: Option<TimestampArg>,
    isolation_level: &str,
    min_offset: Option<i64>,
    max_offset: Option<i64>,
    min_timestamp: Option<i64>,
    max_timestamp: Option<i64>,
    include_inactive: bool,
    allow_missing: bool,
    on_corrupt: &str,
) -> PyResult<Vec<PyPartitionRange>> {
    let options = PlanOptions {
        topics: topics.map(|topics| topics.into_iter().collect()),
        topic_pattern,
        partitions: partitions_of(partitions),
        starting_offsets: starting_of(starting_offsets)?,
        ending_offsets: ending_of(ending_offsets)?,
        starting_timestamp: starting_timestamp.map(timestamp_of),
        ending_timestamp: ending_timestamp.map(timestamp_of),
        isolation_level: isolation_of(isolation_level)?,
        pruning: Pruning {
            min_offset,
            max_offset,
            timestamps: TimestampBounds {
                min: min_timestamp,
                max: max_timestamp,
            },
        },
        include_inactive,
        allow_missing,
        on_corrupt: on_corrupt_of(on_corrupt)?,
    };
    let ranges = interrupt::detach(py, || Ok(planning::plan_scan(&paths, &options)))?;
    let ranges = ranges.map_err(|error| of_read(&error, Some(options.on_corrupt)))?;
    Ok(ranges.into_iter().map(PyPartitionRange).collect())
}

type BoundsTuple = (OsString, String, i32, i64, i64);

/// Folder, topic, partition, log start offset and end offset of each partition.
#[pyfunction]
#[pyo3(signature = (
    paths, *, topics=None, topic_pattern=None, partitions=None, ending_offsets=None,
    isolation_level="read_uncommitted", include_inactive=false, allow_missing=false, oldest=false
))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of a Python function"
)]
pub(super) fn bounds(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    topics: Option<Vec<String>>,
    topic_pattern: Option<String>,
    partitions: Option<PartitionsArg>,
    ending_offsets: Option<BoundArg>,
    isolation_level: &str,
    include_inactive: bool,
    allow_missing: bool,
    oldest: bool,
) -> PyResult<Vec<BoundsTuple>> {
    let options = PlanOptions {
        topics: topics.map(|topics| topics.into_iter().collect()),
        topic_pattern,
        partitions: partitions_of(partitions),
        ending_offsets: ending_of(ending_offsets)?,
        isolation_level: isolation_of(isolation_level)?,
        include_inactive,
        allow_missing,
        starting_offsets: if oldest {
            Starting::Oldest
        } else {
            Starting::Earliest
        },
        ..PlanOptions::default()
    };
    let found = interrupt::detach(py, || planning::bounds(&paths, &options))?;
    let plain = |b: PartitionBounds| {
        let folder = b.folder.into_os_string();
        (folder, b.topic, b.partition, b.start_offset, b.end_offset)
    };
    Ok(found.into_iter().map(plain).collect())
}

/// The path of a `file:` URL, or the path itself; other URLs are refused.
#[pyfunction]
pub(super) fn local_path(path: PathBuf) -> PyResult<OsString> {
    let local = local(&path).map_err(into_py)?;
    Ok(local.into_owned().into_os_string())
}

/// Refuses an output path that lies where a broker looks for logs.
#[pyfunction]
pub(super) fn check_output(py: Python<'_>, out: PathBuf, sources: Vec<PathBuf>) -> PyResult<()> {
    py.detach(|| tools::check_output(&out, &sources, None))
        .map_err(into_py)
}

/// Refuses a log dir to be written that lies among logs.
#[pyfunction]
pub(super) fn check_log_dir(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    py.detach(|| tools::check_log_dir(&path)).map_err(into_py)
}

/// Divides planned ranges into pieces of about this many bytes, at batches that an index entry names and the log
/// confirms.
#[pyfunction]
pub(super) fn pieces(
    py: Python<'_>,
    planned: Vec<Py<PyPartitionRange>>,
    piece_bytes: u64,
) -> Vec<Vec<PyPartitionRange>> {
    let ranges = ranges_of(&planned);
    let pieces: Vec<_> =
        py.detach(|| Pieces::new(ranges, piece_bytes, NoIndexEntry::KeepWhole).collect());
    pieces
        .into_iter()
        .map(|piece| piece.into_iter().map(PyPartitionRange).collect())
        .collect()
}

/// Divides a planned range at these offsets.
#[pyfunction]
pub(super) fn divide(
    py: Python<'_>,
    planned: &PyPartitionRange,
    borders: Vec<i64>,
) -> PyResult<Vec<PyPartitionRange>> {
    let parts = interrupt::detach(py, || planning::divide(&planned.0, &borders))?;
    Ok(parts.into_iter().map(PyPartitionRange).collect())
}

/// A log dir as it was when it was opened.
#[pyclass(name = "LogDir", frozen, module = "kafkalog._core")]
pub(super) struct PyLogDir {
    dir: LogDir,
}

#[pymethods]
impl PyLogDir {
    #[new]
    #[pyo3(signature = (path, *, allow_others=false))]
    fn new(py: Python<'_>, path: PathBuf, allow_others: bool) -> PyResult<Self> {
        let dir = interrupt::detach(py, || {
            if allow_others {
                LogDir::list(&path)
            } else {
                LogDir::open(&path)
            }
        })?;
        Ok(Self { dir })
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.dir.path().as_os_str()
    }

    #[getter]
    fn meta(&self, py: Python<'_>) -> PyResult<Option<BTreeMap<String, String>>> {
        interrupt::detach(py, || self.dir.meta_properties())
    }

    #[getter]
    fn checkpoints(&self, py: Python<'_>) -> PyResult<CheckpointEntries> {
        let read = |name: &'static str| {
            let offsets = self.dir.checkpoint(name)?;
            Ok(offsets.map(|offsets| {
                let entries = offsets
                    .into_iter()
                    .map(|(tp, offset)| (tp.topic, tp.partition, offset));
                (name, entries.collect())
            }))
        };
        let all: Vec<_> = interrupt::detach(py, || {
            CHECKPOINTS
                .into_iter()
                .map(read)
                .collect::<Result<Vec<_>>>()
        })?;
        Ok(all.into_iter().flatten().collect())
    }

    #[getter]
    fn clean_shutdown(&self, py: Python<'_>) -> PyResult<bool> {
        interrupt::detach(py, || Ok(self.dir.is_clean()))
    }

    fn folders(&self) -> Vec<(OsString, String, i32, &'static str)> {
        let plain = |f: &PartitionFolder| {
            let TopicPartition { topic, partition } = f.name.topic_partition.clone();
            let path = f.path.clone().into_os_string();
            (path, topic, partition, f.name.state.name())
        };
        self.dir.folders().iter().map(plain).collect()
    }

    fn identities(&self, py: Python<'_>) -> PyResult<Vec<ReplicaIdentity>> {
        interrupt::detach(py, || {
            let state = self.dir.state();
            let folders = self.dir.folders().iter();
            Ok(folders.map(|folder| identity(folder, &state)).collect())
        })
    }
}

/// Topic id, log start offset, high watermark, leader epochs, base offset and size of each segment, and what could not
/// be read.
type ReplicaIdentity = (
    Option<String>,
    i64,
    Option<i64>,
    Vec<(i32, i64)>,
    Vec<(i64, u64)>,
    Vec<String>,
);

/// Reads a folder's small files. One that is damaged does not hide the others.
fn identity(folder: &PartitionFolder, state: &DirState) -> ReplicaIdentity {
    let log = match ListedLog::open_in(Folder::at(&folder.path), folder.name.clone(), state) {
        Ok(log) => log,
        Err(error) => return (None, 0, None, vec![], vec![], vec![error.to_string()]),
    };
    let mut wrong = Vec::new();
    let topic_id = log.topic_id().unwrap_or_else(|error| {
        wrong.push(error.to_string());
        None
    });
    let epochs = log.leader_epochs().unwrap_or_else(|error| {
        wrong.push(error.to_string());
        Vec::new()
    });
    (
        topic_id,
        log.log_start_offset(),
        log.high_watermark(),
        epochs.iter().map(|e| (e.epoch, e.start_offset)).collect(),
        log.segments()
            .iter()
            .map(|s| (s.base_offset, s.size))
            .collect(),
        wrong,
    )
}

type CheckpointEntries = BTreeMap<&'static str, Vec<(String, i32, i64)>>;
type Answer = (i64, i64, Option<i32>);

fn answer(found: OffsetAndTimestamp) -> Answer {
    (found.offset, found.timestamp, found.leader_epoch)
}

/// Facts about the partitions of a log dir, for opening many of them.
#[pyclass(name = "DirState", frozen, module = "kafkalog._core")]
pub(super) struct PyDirState(pub(super) DirState);

#[pymethods]
impl PyDirState {
    #[new]
    fn new(py: Python<'_>, log_dir: PathBuf) -> PyResult<Self> {
        interrupt::detach(py, || Ok(DirState::read(&log_dir))).map(Self)
    }
}

/// A partition folder as it was when it was opened.
#[pyclass(name = "PartitionLog", frozen, module = "kafkalog._core")]
pub(super) struct PyPartitionLog {
    log: PartitionLog,
}

#[pymethods]
impl PyPartitionLog {
    #[new]
    #[pyo3(signature = (path, log_dir=None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        log_dir: Option<PyRef<'_, PyDirState>>,
    ) -> PyResult<Self> {
        let state = log_dir.as_ref().map(|state| &state.0);
        let log = interrupt::detach(py, || match state {
            Some(state) => PartitionLog::open_in(&path, state),
            None => PartitionLog::open(&path),
        })?;
        Ok(Self { log })
    }

    #[getter]
    fn path(&self) -> &OsStr {
        self.log.path().as_os_str()
    }

    #[getter]
    fn topic(&self) -> &str {
        self.log.topic()
    }

    #[getter]
    fn partition(&self) -> i32 {
        self.log.partition()
    }

    #[getter]
    fn state(&self) -> &'static str {
        self.log.name().state.name()
    }

    #[getter]
    fn topic_id(&self, py: Python<'_>) -> PyResult<Option<String>> {
        interrupt::detach(py, || self.log.topic_id())
    }

    #[getter]
    fn log_start_offset(&self) -> i64 {
        self.log.log_start_offset()
    }

    #[getter]
    fn log_end_offset(&self, py: Python<'_>) -> PyResult<i64> {
        interrupt::detach(py, || self.log.log_end_offset())
    }

    #[getter]
    fn last_stable_offset(&self, py: Python<'_>) -> PyResult<i64> {
        interrupt::detach(py, || self.log.last_stable_offset())
    }

    #[getter]
    fn high_watermark(&self) -> Option<i64> {
        self.log.high_watermark()
    }

    #[getter]
    fn leader_epochs(&self, py: Python<'_>) -> PyResult<Vec<(i32, i64)>> {
        let epochs = interrupt::detach(py, || self.log.leader_epochs())?;
        Ok(epochs
            .into_iter()
            .map(|e| (e.epoch, e.start_offset))
            .collect())
    }

    fn segments(&self) -> Vec<(i64, String, u64, bool, i64)> {
        let segments = self.log.segments().iter();
        segments
            .map(|s| {
                (
                    s.base_offset,
                    s.file_name.clone(),
                    s.size,
                    s.is_active,
                    s.modified_ms,
                )
            })
            .collect()
    }

    fn other_files(&self, py: Python<'_>) -> PyResult<Vec<(String, u64)>> {
        interrupt::detach(py, || self.log.other_files())
    }

    fn lookup(&self, py: Python<'_>, offset: i64) -> PyResult<Option<(i64, u64, i64)>> {
        let found = interrupt::detach(py, || self.log.lookup(offset))?;
        Ok(found.map(|f| (f.segment_base_offset, f.position, f.offset)))
    }

    #[pyo3(signature = (timestamp, exact=false))]
    fn offset_for_timestamp(
        &self,
        py: Python<'_>,
        timestamp: i64,
        exact: bool,
    ) -> PyResult<Option<Answer>> {
        let found = interrupt::detach(py, || {
            if exact {
                self.log.exact_offset_for_timestamp(timestamp)
            } else {
                self.log.offset_for_timestamp(timestamp)
            }
        });
        found.map(|found| found.map(answer))
    }

    fn offset_of_max_timestamp(&self, py: Python<'_>) -> PyResult<Option<Answer>> {
        interrupt::detach(py, || self.log.offset_of_max_timestamp()).map(|found| found.map(answer))
    }

    #[pyo3(signature = (*, on_corrupt="raise"))]
    fn statistics<'py>(&self, py: Python<'py>, on_corrupt: &str) -> PyResult<Bound<'py, PyAny>> {
        let on_corrupt = on_corrupt_of(on_corrupt)?;
        let sums = interrupt::detach(py, || Ok(PartitionStatistics::of(&self.log, on_corrupt)))?;
        let sums = sums.map_err(|error| of_read(&error, Some(on_corrupt)))?;
        plain_sums(py, &sums, true)
    }
}
