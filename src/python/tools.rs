//! Recovering logs, rebuilding indexes, compaction and retention.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pythonize::pythonize;

use super::errors::{into_py, of_panic};
use super::interrupt::{ProgressCallback, with_progress};
use super::writer::{Settings, config_of, now_of};
use crate::api::LogConfig;
use crate::api::rows::OnCorrupt;
use crate::api::tools::{
    self, CompactOptions, DEFAULT_PRODUCER_ID_EXPIRATION_MS, Drops, Level, OnLoss, Progress,
    RebuildOptions, RecoverySettings, RetainOptions, RewriteOptions,
};
use crate::error::Result;

/// Runs without the interpreter, but with its signal handlers; a panic becomes an error.
pub(super) fn run<T: Send>(py: Python<'_>, step: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    run_telling(py, None, &Arc::default(), step)
}

/// As [`run`], and tells a function meanwhile the progress.
fn run_telling<T: Send>(
    py: Python<'_>,
    function: Option<Py<PyAny>>,
    progress: &Arc<Progress>,
    step: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    let callback = |function: &Py<PyAny>| ProgressCallback {
        function: function.clone_ref(py),
        progress: Arc::clone(progress),
    };
    let (during, after) = (
        function.as_ref().map(callback),
        function.as_ref().map(callback),
    );
    let done =
        py.detach(
            || match with_progress(during, || catch_unwind(AssertUnwindSafe(step))) {
                (_, Some(raised)) => Err(raised),
                (Ok(done), None) => done.map_err(into_py),
                (Err(panic), None) => Err(of_panic(panic.as_ref())),
            },
        )?;
    after.map_or(Ok(()), |callback| callback.tell_all(py))?;
    Ok(done)
}

fn loss_of(word: &str) -> OnLoss {
    match word {
        "salvage" => OnLoss::Salvage,
        "as_kafka" => OnLoss::AsKafka,
        _ => OnLoss::Refuse,
    }
}

/// Recovers a log dir or a partition folder as a broker's start does.
#[pyfunction]
#[pyo3(signature = (
    path, *, clean=None, recovery_point=None, log_start_offset=None, out=None, on_loss="refuse", dry_run=false,
    settings=Vec::new(), producer_id_expiration_ms=DEFAULT_PRODUCER_ID_EXPIRATION_MS, clock=None
))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of a Python function"
)]
pub(super) fn recover<'py>(
    py: Python<'py>,
    path: PathBuf,
    clean: Option<bool>,
    recovery_point: Option<i64>,
    log_start_offset: Option<i64>,
    out: Option<PathBuf>,
    on_loss: &str,
    dry_run: bool,
    settings: Settings,
    producer_id_expiration_ms: i64,
    clock: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = RecoverySettings {
        clean,
        recovery_point,
        log_start_offset,
        config: config_of(&settings).map_err(into_py)?,
        on_loss: loss_of(on_loss),
        producer_id_expiration_ms,
        dry_run,
        out,
        ..RecoverySettings::at(now_of(py, clock)?)
    };
    let done = run(py, || tools::recover(&path, &options))?;
    Ok(pythonize(py, &done)?)
}

/// Copies a log dir or a partition into a new log dir, where compacted topics hold the last record of each key.
#[pyfunction]
#[pyo3(signature = (
    path, out, *, now_ms, map_bytes, dry_run=false, on_corrupt="raise", roll=false, settings=Vec::new(), topics=Vec::new(),
    progress=None
))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of a Python function"
)]
pub(super) fn compact<'py>(
    py: Python<'py>,
    path: PathBuf,
    out: PathBuf,
    now_ms: i64,
    map_bytes: usize,
    dry_run: bool,
    on_corrupt: &str,
    roll: bool,
    settings: Settings,
    topics: Vec<(String, Settings)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = CompactOptions {
        config: config_of(&settings).map_err(into_py)?,
        topics: by_topic(topics).map_err(into_py)?,
        now_ms,
        dry_run,
        on_corrupt: match on_corrupt {
            "skip" => OnCorrupt::Skip,
            _ => OnCorrupt::Raise,
        },
        roll,
        map_bytes,
        progress: Arc::default(),
    };
    let done = run_telling(py, progress, &options.progress, || {
        tools::compact(&path, &out, &options)
    })?;
    Ok(pythonize(py, &done)?)
}

/// The settings of topics that have their own.
pub(super) fn by_topic(topics: Vec<(String, Settings)>) -> Result<BTreeMap<String, LogConfig>> {
    let topics = topics.into_iter();
    topics
        .map(|(topic, settings)| Ok((topic, config_of(&settings)?)))
        .collect()
}

/// Copies a log dir or a partition into a new log dir, without what retention deletes at this time.
#[pyfunction]
#[pyo3(signature = (path, out, *, now_ms, dry_run=false, settings=Vec::new(), topics=Vec::new(), progress=None))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of a Python function"
)]
pub(super) fn retain(
    py: Python<'_>,
    path: PathBuf,
    out: PathBuf,
    now_ms: i64,
    dry_run: bool,
    settings: Settings,
    topics: Vec<(String, Settings)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyAny>> {
    let options = RetainOptions {
        config: config_of(&settings).map_err(into_py)?,
        topics: by_topic(topics).map_err(into_py)?,
        now_ms,
        dry_run,
        progress: Arc::default(),
    };
    let done = run_telling(py, progress, &options.progress, || {
        tools::retain(&path, &out, &options)
    })?;
    Ok(pythonize(py, &done)?)
}

/// Refuses an output that lies among logs, or holds anything but what a killed run with the same source left.
#[pyfunction]
pub(super) fn check_free(py: Python<'_>, source: PathBuf, out: PathBuf) -> PyResult<()> {
    run(py, || tools::check_out(&source, &out))
}

/// Half-open ranges of offsets.
type OffsetRanges = Vec<(i64, i64)>;

/// Writes a log dir or a partition into a new log dir, without the records of these offsets or with other settings;
/// folders by their names, those left out with the reason.
#[pyfunction]
#[pyo3(signature = (
    path, out, *, now_ms, drops=Vec::new(), left_out=Vec::new(), rerolls=false, raises=false, dry_run=false,
    on_loss="refuse", settings=Vec::new(), topics=Vec::new(), progress=None
))]
#[expect(
    clippy::too_many_arguments,
    reason = "keyword arguments of a Python function"
)]
pub(super) fn rewrite<'py>(
    py: Python<'py>,
    path: PathBuf,
    out: PathBuf,
    now_ms: i64,
    drops: Vec<(String, OffsetRanges)>,
    left_out: Vec<(String, String)>,
    rerolls: bool,
    raises: bool,
    dry_run: bool,
    on_loss: &str,
    settings: Settings,
    topics: Vec<(String, Settings)>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let dropped = |(folder, ranges): (String, OffsetRanges)| Ok((folder, Drops::new(ranges)?));
    let options = RewriteOptions {
        config: config_of(&settings).map_err(into_py)?,
        topics: by_topic(topics).map_err(into_py)?,
        rerolls,
        raises,
        dry_run,
        left_out: left_out.into_iter().collect(),
        drops: drops
            .into_iter()
            .map(dropped)
            .collect::<Result<_>>()
            .map_err(into_py)?,
        on_loss: loss_of(on_loss),
        ..RewriteOptions::at(now_ms)
    };
    let done = run_telling(py, progress, &options.progress, || {
        tools::rewrite(&path, &out, &options)
    })?;
    Ok(pythonize(py, &done)?)
}

/// Rebuilds the indexes of a partition folder as a broker of a version would.
#[pyfunction]
#[pyo3(signature = (path, *, level="4.3", out=None, dry_run=false, settings=Vec::new(), clock=None))]
pub(super) fn rebuild_indexes<'py>(
    py: Python<'py>,
    path: PathBuf,
    level: &str,
    out: Option<PathBuf>,
    dry_run: bool,
    settings: Settings,
    clock: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = RebuildOptions {
        level: Level::parse(level).map_err(into_py)?,
        config: config_of(&settings).map_err(into_py)?,
        dry_run,
        out,
        ..RebuildOptions::at(now_of(py, clock)?)
    };
    let done = run(py, || tools::rebuild_indexes(&path, &options))?;
    Ok(pythonize(py, &done)?)
}
