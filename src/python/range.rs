//! Planned ranges as Python holds, pickles and divides them.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::api::KeptMap;
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

/// Producer, first and last offset of each transaction, as JSON can hold them.
type AbortedBounds = Option<Vec<[i64; 3]>>;

fn aborted_from(given: AbortedBounds) -> Option<Arc<[AbortedRange]>> {
    let ranges = given?.into_iter();
    let range = |[producer_id, first_offset, last_offset]: [i64; 3]| AbortedRange {
        producer_id,
        last_offset,
        first_offset,
    };
    Some(ranges.map(range).collect())
}

fn aborted_to(aborted: Option<&Arc<[AbortedRange]>>) -> AbortedBounds {
    let numbers = |r: &AbortedRange| [r.producer_id, r.first_offset, r.last_offset];
    aborted.map(|all| all.iter().map(numbers).collect())
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
        Self(SegmentRange {
            base_offset,
            file_name,
            size,
            is_active,
            start_position,
            next_base_offset,
            aborted: aborted_from(aborted),
            start_offset: start_offset.unwrap_or(base_offset),
            end: end_position
                .zip(end_offset)
                .map(|(position, offset)| Cut { position, offset }),
            map: KeptMap::default(),
        })
    }

    fn __getnewargs_ex__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        let keywords = PyDict::new(py);
        keywords.set_item("base_offset", self.0.base_offset)?;
        keywords.set_item("file_name", &self.0.file_name)?;
        keywords.set_item("size", self.0.size)?;
        keywords.set_item("is_active", self.0.is_active)?;
        keywords.set_item("start_position", self.0.start_position)?;
        keywords.set_item("next_base_offset", self.0.next_base_offset)?;
        keywords.set_item("aborted", self.aborted())?;
        keywords.set_item("start_offset", self.0.start_offset)?;
        keywords.set_item("end_position", self.end_position())?;
        keywords.set_item("end_offset", self.end_offset())?;
        Ok((PyTuple::empty(py), keywords))
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
        aborted_to(self.0.aborted.as_ref())
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
            folder: folder.into(),
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

    /// As `range_from_plain` takes it: tuples, texts and numbers, which pickle small and are JSON.
    fn to_plain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let Self(own) = self;
        let segments = own.segments.iter().map(|each| segment_to_plain(py, each));
        let segments = PyList::new(py, segments.collect::<PyResult<Vec<_>>>()?)?;
        (
            own.folder.as_os_str(),
            &own.topic,
            own.partition,
            own.start_offset,
            own.end_offset,
            segments,
            own.timestamps.min,
            own.timestamps.max,
        )
            .into_pyobject(py)
    }

    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyTuple>,))> {
        let restore = py.import("kafkalog._core")?.getattr("range_from_plain")?;
        Ok((restore, (self.to_plain(py)?,)))
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
        self.0.folder.as_os_str()
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

/// A planned range from what `PyPartitionRange.to_plain` gave; lists, as of JSON, do for tuples.
#[pyfunction]
pub(super) fn range_from_plain(plain: &Bound<'_, PyAny>) -> PyResult<PyPartitionRange> {
    type Plain<'py> = (
        OsString,
        String,
        i32,
        i64,
        Option<i64>,
        Vec<Bound<'py, PyAny>>,
        Option<i64>,
        Option<i64>,
    );
    let (folder, topic, partition, start_offset, end_offset, segments, min, max): Plain<'_> =
        as_tuple(plain)?.extract()?;
    Ok(PyPartitionRange(PartitionRange {
        folder: folder.into(),
        topic,
        partition,
        start_offset,
        end_offset,
        timestamps: TimestampBounds { min, max },
        chosen: None,
        segments: segments
            .iter()
            .map(segment_from_plain)
            .collect::<PyResult<_>>()?,
    }))
}

fn as_tuple<'py>(plain: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    match plain.cast::<PyList>() {
        Ok(list) => Ok(list.to_tuple()),
        Err(_) => Ok(plain.cast::<PyTuple>()?.clone()),
    }
}

/// Base offset, size, next base offset: of a closed segment that is read whole, as most are; a plan may have a million.
type Whole = (i64, u64, Option<i64>);
/// Any other: base offset, name, size, whether it is active, start position, next base offset, aborted transactions,
/// start offset, end position and end offset.
type PlainSegment = (
    i64,
    String,
    u64,
    bool,
    u64,
    Option<i64>,
    AbortedBounds,
    i64,
    Option<u64>,
    Option<i64>,
);
const WHOLE_LEN: usize = 3;

fn name_of(base_offset: i64) -> String {
    format!("{base_offset:020}.log")
}

fn segment_to_plain<'py>(py: Python<'py>, segment: &SegmentRange) -> PyResult<Bound<'py, PyTuple>> {
    let is_whole = !segment.is_active
        && segment.start_position == 0
        && segment.start_offset == segment.base_offset
        && segment.end.is_none()
        && segment.aborted.is_none()
        && segment.file_name == name_of(segment.base_offset);
    if is_whole {
        let plain: Whole = (segment.base_offset, segment.size, segment.next_base_offset);
        return plain.into_pyobject(py);
    }
    (
        segment.base_offset,
        &segment.file_name,
        segment.size,
        segment.is_active,
        segment.start_position,
        segment.next_base_offset,
        aborted_to(segment.aborted.as_ref()),
        segment.start_offset,
        segment.end.map(|cut| cut.position),
        segment.end.map(|cut| cut.offset),
    )
        .into_pyobject(py)
}

fn segment_from_plain(plain: &Bound<'_, PyAny>) -> PyResult<SegmentRange> {
    let plain = as_tuple(plain)?;
    if plain.len() == WHOLE_LEN {
        let (base_offset, size, next_base_offset): Whole = plain.extract()?;
        return Ok(SegmentRange {
            base_offset,
            file_name: name_of(base_offset),
            size,
            is_active: false,
            start_position: 0,
            next_base_offset,
            aborted: None,
            start_offset: base_offset,
            end: None,
            map: KeptMap::default(),
        });
    }
    let (
        base_offset,
        file_name,
        size,
        is_active,
        start_position,
        next_base_offset,
        aborted,
        start_offset,
        end_position,
        end_offset,
    ): PlainSegment = plain.extract()?;
    let segment = PySegmentRange::new(
        base_offset,
        file_name,
        size,
        is_active,
        start_position,
        next_base_offset,
        aborted,
        Some(start_offset),
        end_position,
        end_offset,
    );
    Ok(segment.0)
}
