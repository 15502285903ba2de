//! Planned ranges as Python holds, pickles and divides them.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::ffi::{OsStr, OsString};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::api::Folder;
use crate::api::plan::{
    AbortedRange, Cut, NO_PARTITION, PartitionRange, SegmentRange, TimestampBounds,
};

/// One `.log` file, or a piece of it, as it was at planning.
#[pyclass(name = "SegmentRange", frozen, eq, module = "kafkalog._core")]
#[derive(PartialEq, Eq)]
pub(super) struct PySegmentRange(SegmentRange);

/// Consecutive segments of one partition, and which records of them count.
#[pyclass(name = "PartitionRange", frozen, eq, module = "kafkalog._core")]
#[derive(PartialEq, Eq)]
pub(super) struct PyPartitionRange(pub(super) PartitionRange);

/// The core's ranges in these.
pub(super) fn ranges_of(planned: &[Py<PyPartitionRange>]) -> Vec<PartitionRange> {
    planned.iter().map(|each| each.get().0.clone()).collect()
}

/// Producer, first and last offset of each transaction.
type AbortedBounds = Option<Vec<[i64; 3]>>;

/// Pickles a range as the call of a function of this module with its JSON.
fn reduced<'py>(
    py: Python<'py>,
    restore: &str,
    range: &impl Serialize,
) -> PyResult<(Bound<'py, PyAny>, (String,))> {
    let restore = py.import("kafkalog._core")?.getattr(restore)?;
    Ok((restore, (json_of(range)?,)))
}

fn json_of(range: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(range).map_err(|e| PyValueError::new_err(e.to_string()))
}

fn range_of<'a, T: Deserialize<'a>>(json: &'a str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|e| PyValueError::new_err(format!("{e}: {json}")))
}

/// Restores a planned range from its JSON.
#[pyfunction]
pub(super) fn range_from_json(json: &str) -> PyResult<PyPartitionRange> {
    range_of(json).map(PyPartitionRange)
}

/// Restores a segment of a planned range from its JSON.
#[pyfunction]
pub(super) fn segment_from_json(json: &str) -> PyResult<PySegmentRange> {
    range_of(json).map(PySegmentRange)
}

#[pymethods]
impl PySegmentRange {
    #[new]
    #[pyo3(signature = (
        *, base_offset, file_name, size, is_active=false, start_position=0, next_base_offset=None, aborted=None,
        start_offset=None, end_position=None, end_offset=None
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python class"
    )]
    fn new(
        base_offset: i64,
        file_name: String,
        size: u64,
        is_active: bool,
        start_position: u64,
        next_base_offset: Option<i64>,
        aborted: AbortedBounds,
        start_offset: Option<i64>,
        end_position: Option<u64>,
        end_offset: Option<i64>,
    ) -> Self {
        let aborted = aborted.map(|all| all.into_iter().map(AbortedRange::from).collect());
        let end = end_position.zip(end_offset);
        Self(SegmentRange {
            file_name,
            is_active,
            start_position,
            aborted,
            start_offset: start_offset.unwrap_or(base_offset),
            end: end.map(|(position, offset)| Cut { position, offset }),
            ..SegmentRange::whole(base_offset, size, next_base_offset)
        })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        reduced(py, "segment_from_json", &self.0)
    }

    fn __repr__(&self) -> String {
        let Self(own) = self;
        let end = own.end.map_or(own.size, |cut| cut.position);
        let name = &own.file_name;
        format!(
            "<SegmentRange {name}, bytes {} to {end}>",
            own.start_position
        )
    }

    #[getter]
    const fn base_offset(&self) -> i64 {
        self.0.base_offset
    }

    #[getter]
    fn file_name(&self) -> &str {
        &self.0.file_name
    }

    #[getter]
    const fn size(&self) -> u64 {
        self.0.size
    }

    #[getter]
    const fn is_active(&self) -> bool {
        self.0.is_active
    }

    #[getter]
    const fn start_position(&self) -> u64 {
        self.0.start_position
    }

    #[getter]
    const fn next_base_offset(&self) -> Option<i64> {
        self.0.next_base_offset
    }

    #[getter]
    fn aborted(&self) -> AbortedBounds {
        let aborted = self.0.aborted.as_deref()?;
        Some(aborted.iter().copied().map(Into::into).collect())
    }

    #[getter]
    const fn start_offset(&self) -> i64 {
        self.0.start_offset
    }

    #[getter]
    fn end_position(&self) -> Option<u64> {
        self.0.end.map(|cut| cut.position)
    }

    #[getter]
    fn end_offset(&self) -> Option<i64> {
        self.0.end.map(|cut| cut.offset)
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}

#[pymethods]
impl PyPartitionRange {
    #[new]
    #[pyo3(signature = (
        *, folder, topic, partition, segments, start_offset=0, end_offset=None, min_timestamp=None, max_timestamp=None
    ))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of a Python class"
    )]
    fn new(
        folder: OsString,
        topic: String,
        partition: i32,
        segments: Vec<Py<PySegmentRange>>,
        start_offset: i64,
        end_offset: Option<i64>,
        min_timestamp: Option<i64>,
        max_timestamp: Option<i64>,
    ) -> Self {
        Self(PartitionRange {
            folder: Folder::at(folder),
            topic,
            partition,
            start_offset,
            end_offset,
            timestamps: TimestampBounds {
                min: min_timestamp,
                max: max_timestamp,
            },
            chosen: None,
            segments: segments.iter().map(|each| each.get().0.clone()).collect(),
        })
    }

    /// The JSON that `range_from_json` takes.
    fn to_json(&self) -> PyResult<String> {
        json_of(&self.0)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        reduced(py, "range_from_json", &self.0)
    }

    fn __repr__(&self) -> String {
        let Self(own) = self;
        format!(
            "<PartitionRange {}-{}, {} segments, {} bytes>",
            own.topic,
            own.partition,
            own.segments.len(),
            own.bytes()
        )
    }

    /// The same with other segments.
    fn with_segments(&self, segments: Vec<Py<PySegmentRange>>) -> Self {
        Self(PartitionRange {
            segments: segments.iter().map(|each| each.get().0.clone()).collect(),
            folder: self.0.folder.clone(),
            topic: self.0.topic.clone(),
            chosen: self.0.chosen.clone(),
            ..self.0
        })
    }

    /// The same of another topic and partition; None for what is unknown, whose column is null.
    fn with_name(&self, topic: Option<String>, partition: Option<i32>) -> Self {
        Self(PartitionRange {
            topic: topic.unwrap_or_default(),
            partition: partition.unwrap_or(NO_PARTITION),
            ..self.0.clone()
        })
    }

    #[getter]
    fn folder(&self) -> &OsStr {
        self.0.folder.path().as_os_str()
    }

    #[getter]
    fn topic(&self) -> &str {
        &self.0.topic
    }

    #[getter]
    const fn partition(&self) -> i32 {
        self.0.partition
    }

    #[getter]
    const fn start_offset(&self) -> i64 {
        self.0.start_offset
    }

    #[getter]
    const fn end_offset(&self) -> Option<i64> {
        self.0.end_offset
    }

    #[getter]
    fn segments(&self) -> Vec<PySegmentRange> {
        self.0
            .segments
            .iter()
            .cloned()
            .map(PySegmentRange)
            .collect()
    }

    #[getter]
    const fn segment_count(&self) -> usize {
        self.0.segments.len()
    }

    #[getter]
    const fn min_timestamp(&self) -> Option<i64> {
        self.0.timestamps.min
    }

    #[getter]
    const fn max_timestamp(&self) -> Option<i64> {
        self.0.timestamps.max
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}
