//! One question to many partitions of a log dir.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::path::PathBuf;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use super::errors::of_read;
use super::interrupt;
use super::log::PyDirState;
use super::options::on_corrupt_of;
use super::statistics::plain_sums;
use crate::api::PartitionLog;
use crate::api::rows::OnCorrupt;
use crate::api::tools::{Description, MAX_THREADS, OffsetSpec, PartitionStatistics, query_each};
use crate::error::Result;

/// Puts the question to the folders of a log dir; the answer of one that cannot be read is the exception.
fn ask<'py, T: Send, P: IntoPyObjectExt<'py>>(
    py: Python<'py>,
    (folders, log_dir): (&[PathBuf], Option<&PyDirState>),
    most_threads: usize,
    on_corrupt: Option<OnCorrupt>,
    question: impl Fn(PartitionLog) -> Result<T> + Send + Sync,
    plain: impl Fn(T) -> PyResult<P>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let log_dir = log_dir.map(|state| &state.0);
    let answers = interrupt::detach(py, || query_each(folders, log_dir, most_threads, question))?;
    let object = |answer| match answer {
        Ok(answer) => plain(answer)?.into_bound_py_any(py),
        Err(error) => Ok(of_read(&error, on_corrupt)
            .into_value(py)
            .into_bound(py)
            .into_any()),
    };
    answers.into_iter().map(object).collect()
}

/// The offset of each folder that a number of `ListOffsetsRequest` asks for: -1 the latest, -2 the earliest, -3 that of the
/// largest timestamp, or that of a timestamp in ms.
#[pyfunction]
pub(super) fn list_offsets<'py>(
    py: Python<'py>,
    folders: Vec<PathBuf>,
    log_dir: Option<PyRef<'py, PyDirState>>,
    time: i64,
    is_committed: bool,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let spec = OffsetSpec::from_number(time);
    let question = |log: PartitionLog| spec.find(&log, is_committed);
    let asked = (folders.as_slice(), log_dir.as_deref());
    ask(py, asked, spec.most_threads(), None, question, Ok)
}

/// Describes each folder for `ls`: topic id, log start offset, log end offset, high watermark; of each segment base
/// offset, file name, size, whether it is active, modification time, and the last timestamp in its time index.
#[pyfunction]
pub(super) fn describe_all<'py>(
    py: Python<'py>,
    folders: Vec<PathBuf>,
    log_dir: Option<PyRef<'py, PyDirState>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let plain = |one: Description| {
        let segments = one.log.segments().iter().zip(&one.latest);
        let segments: Vec<_> = segments
            .map(|(s, &latest)| {
                let name = s.file_name.clone();
                (
                    s.base_offset,
                    name,
                    s.size,
                    s.is_active,
                    s.modified_ms,
                    latest,
                )
            })
            .collect();
        Ok((
            one.topic_id,
            one.log.log_start_offset(),
            one.log_end_offset,
            one.log.high_watermark(),
            segments,
        ))
    };
    let asked = (folders.as_slice(), log_dir.as_deref());
    ask(py, asked, MAX_THREADS, None, Description::of, plain)
}

/// Computes statistics of each folder from its batch headers, with `segments` also those of each segment.
#[pyfunction]
pub(super) fn statistics_all<'py>(
    py: Python<'py>,
    folders: Vec<PathBuf>,
    log_dir: Option<PyRef<'py, PyDirState>>,
    on_corrupt: &str,
    segments: bool,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let on_corrupt = on_corrupt_of(on_corrupt)?;
    let question = |log: PartitionLog| PartitionStatistics::of(&log, on_corrupt);
    let plain = |sums: PartitionStatistics| plain_sums(py, &sums, segments);
    let asked = (folders.as_slice(), log_dir.as_deref());
    ask(py, asked, MAX_THREADS, Some(on_corrupt), question, plain)
}
