//! The internal topics' records, decoded.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;

use super::errors::{exceptions, into_py, of_read};
use super::interrupt;
use super::options::on_corrupt_of;
use super::reader::RecordStream;
use super::rows::{Partial, PyRows};
use crate::api::Request;
use crate::api::rows::lost_batch;
use crate::api::tables::{self, Chosen, Coverage, LogEnd, Show, Topic, WantedRows, choose, plan};

/// Reads and decodes the records of internal topics as a stream; with `embedded` also what consumers wrote into the
/// records of their classic group.
#[pyfunction]
#[pyo3(signature = (paths, *, topics=None, secrets=false, embedded=false))]
#[expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]
pub(super) fn table_records(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    topics: Option<Vec<String>>,
    secrets: bool,
    embedded: bool,
) -> PyResult<RecordStream> {
    let ranges = interrupt::detach(py, || plan(&paths, topics.as_deref()))?;
    let show = Show { secrets, embedded };
    Ok(RecordStream::new(Request::Tables { ranges, show }))
}

/// Files that were skipped, what is missing even so, the number of records that cannot be applied, and their
/// descriptions.
type ReplayNotes = (Vec<String>, Option<String>, u64, Vec<String>);

/// Reads what there is to replay of a metadata log, with `history` as many changes as there are: the newest snapshot
/// that is whole, and the log from its end on. What is missing is an error, unless a `partial` state is wanted.
#[pyfunction]
#[pyo3(signature = (paths, *, history=false, secrets=false, partial=false))]
#[expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]
pub(super) fn table_metadata(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    history: bool,
    secrets: bool,
    partial: bool,
) -> PyResult<(RecordStream, ReplayNotes)> {
    let wanted = if history {
        LogEnd::History
    } else {
        LogEnd::State
    };
    let chosen = interrupt::detach(py, || {
        let mut chosen = choose(&paths, wanted)?;
        match chosen.gap.take() {
            Some(gap) if !partial => Err(gap.into_error()),
            gap => Ok(Chosen { gap, ..chosen }),
        }
    })?;
    let passed = chosen.passed.iter().map(ToString::to_string).collect();
    let gap = chosen.gap.map(|gap| gap.message());
    let refused = Arc::new(chosen.state.refused);
    let named = refused.named.iter().map(ToString::to_string).collect();
    let said = (passed, gap, refused.count, named);
    let show = Show {
        secrets,
        embedded: false,
    };
    let request = Request::Metadata {
        ranges: chosen.ranges,
        show,
        refused,
    };
    Ok((RecordStream::new(request), said))
}

/// Replays the offsets of `__consumer_offsets` as a stream: with `history` every change, else without `pending` only
/// those that were committed.
#[pyfunction]
#[pyo3(signature = (paths, *, history=false, pending=true))]
#[expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]
pub(super) fn table_offsets(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    history: bool,
    pending: bool,
) -> PyResult<RecordStream> {
    let wanted = match (history, pending) {
        (true, _) => WantedRows::History,
        (false, true) => WantedRows::Current,
        (false, false) => WantedRows::Committed,
    };
    let topics = [Topic::ConsumerOffsets.name().to_owned()];
    let ranges = interrupt::detach(py, || plan(&paths, Some(&topics)))?;
    Ok(RecordStream::new(Request::Offsets { ranges, wanted }))
}

/// Every producer of every partition.
#[pyfunction]
#[expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]
pub(super) fn table_producers(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<Partial> {
    let (rows, unread) = interrupt::detach(py, || tables::producers(&paths))?;
    Ok((PyRows(rows), exceptions(py, unread)))
}

/// Every open transaction of every partition.
#[pyfunction]
#[expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]
pub(super) fn table_open_transactions(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<Partial> {
    let (rows, unread) = interrupt::detach(py, || tables::open_transactions(&paths))?;
    Ok((PyRows(rows), exceptions(py, unread)))
}

/// The notes of a replay of schemas: ids with several texts, records that were left out (how many, and the first of them by
/// name), ranges that were skipped as damaged.
type SchemaNotes = (Vec<String>, u64, Vec<String>, PyRows);

/// Replays the topic of a schema registry: its schemas, or with `history` every change of one.
#[pyfunction]
#[pyo3(signature = (paths, *, topic, history=false, on_corrupt="raise"))]
#[expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]
pub(super) fn table_schemas(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    topic: &str,
    history: bool,
    on_corrupt: &str,
) -> PyResult<(Vec<PyRows>, SchemaNotes)> {
    let on_corrupt = on_corrupt_of(on_corrupt)?;
    let schemas = || Ok(tables::schemas(&paths, topic, on_corrupt, history));
    let (rows, replayed) =
        interrupt::detach(py, schemas)?.map_err(|error| of_read(&error, Some(on_corrupt)))?;
    let named = replayed.refused.named.iter().map(ToString::to_string);
    let lost = lost_batch(&replayed.lost).map_err(into_py)?;
    let notes = (
        replayed.duplicates,
        replayed.refused.count,
        named.collect(),
        PyRows(lost),
    );
    Ok((rows.into_iter().map(PyRows).collect(), notes))
}

/// Finds which partitions of an internal topic are in log dirs, out of how many, and whether the metadata log says so.
#[pyfunction]
#[expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]
pub(super) fn table_coverage(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    topic: &str,
) -> PyResult<(Vec<i32>, i32, bool)> {
    let Some(topic) = Topic::of(topic) else {
        return Ok((Vec::new(), 0, false));
    };
    let found = interrupt::detach(py, || Coverage::of(&paths, topic))?;
    Ok((found.here, found.count, found.is_noted))
}
