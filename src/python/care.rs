//! Mending whole logs: reports as plain values.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use pyo3::prelude::*;

use super::errors::{into_py, of_panic};
use super::interrupt::heeding;
use super::writer::{Clock, Settings, config_of};
use crate::error::Result;
use crate::load::Note;
use crate::producers::DEFAULT_PRODUCER_ID_EXPIRATION_MS;
use crate::tools::rebuild::{self, Level, RebuildOptions};
use crate::tools::recover::report::{PartitionReport, RecoveryReport};
use crate::tools::recover::{self as recovering, OnLoss, RecoverOptions};
use crate::types::TopicPartition;
use crate::write::checkpoints::CheckpointChange;

/// Kind and text.
type NoteTuple = (&'static str, String);
/// Name, length before and after, whether it is the same.
type FileTuple = (String, Option<u64>, Option<u64>, bool);
/// Folder, topic, partition, recovered from, log start, log end, segments, bytes, bytes cut, notes, files.
type PartitionTuple = (
    OsString,
    String,
    i32,
    i64,
    i64,
    i64,
    usize,
    u64,
    u64,
    Vec<NoteTuple>,
    Vec<FileTuple>,
);
/// File, topic, partition, offset before and after.
type CheckpointTuple = (&'static str, String, i32, Option<i64>, Option<i64>);
/// Path, output, dry run, clean, partitions, checkpoints, skipped folders.
type ReportTuple = (
    OsString,
    Option<OsString>,
    bool,
    bool,
    Vec<PartitionTuple>,
    Vec<CheckpointTuple>,
    Vec<OsString>,
);

fn text(path: &Path) -> OsString {
    path.as_os_str().to_owned()
}

const fn kind(note: &Note) -> &'static str {
    match note {
        Note::Recovered { .. } => "recovered",
        Note::Dropped { .. } => "dropped",
        Note::Deleted { .. } => "deleted",
        Note::Split { .. } => "split",
        Note::Swapped { .. } => "swapped",
        Note::Hidden { .. } => "hidden",
        Note::Unread { .. } => "unread",
        Note::Salvaged { .. } => "salvaged",
        Note::SetAside { .. } => "set aside",
    }
}

fn partition(report: &PartitionReport) -> PartitionTuple {
    let notes = report.notes.iter();
    let files = report.files.iter();
    (
        text(&report.folder),
        report.topic_partition.topic.clone(),
        report.topic_partition.partition,
        report.recovered_from,
        report.log_start_offset,
        report.log_end_offset,
        report.segments,
        report.size,
        report.bytes_cut(),
        notes.map(|note| (kind(note), note.to_string())).collect(),
        files
            .map(|file| (file.name.clone(), file.before, file.after, file.is_same))
            .collect(),
    )
}

fn checkpoint(change: &CheckpointChange) -> CheckpointTuple {
    let TopicPartition { topic, partition } = change.partition.clone();
    (change.file, topic, partition, change.before, change.after)
}

fn report(report: &RecoveryReport) -> ReportTuple {
    (
        text(&report.path),
        report.out.as_deref().map(text),
        report.dry_run,
        report.clean,
        report.partitions.iter().map(partition).collect(),
        report.checkpoints.iter().map(checkpoint).collect(),
        report.skipped.iter().map(|path| text(path)).collect(),
    )
}

/// Runs without the interpreter, heeding signals; a panic becomes an error.
fn run<T: Send>(py: Python<'_>, step: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    py.detach(|| match heeding(|| catch_unwind(AssertUnwindSafe(step))) {
        (_, Some(raised)) => Err(raised),
        (Ok(done), None) => done.map_err(into_py),
        (Err(panic), None) => Err(of_panic(panic.as_ref())),
    })
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
pub(super) fn recover(
    py: Python<'_>,
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
) -> PyResult<ReportTuple> {
    let options = RecoverOptions {
        clean,
        recovery_point,
        log_start_offset,
        config: config_of(&settings).map_err(into_py)?,
        on_loss: match on_loss {
            "salvage" => OnLoss::Salvage,
            "kafka" => OnLoss::AsKafka,
            _ => OnLoss::Refuse,
        },
        producer_id_expiration_ms,
        dry_run,
        out,
        ..RecoverOptions::at(Clock(clock).now_ms()?)
    };
    run(py, || recovering::recover(&path, &options)).map(|done| report(&done))
}

/// Makes the indexes of a partition folder anew, as a broker of a version would.
#[pyfunction]
#[pyo3(signature = (path, *, level="4.3", out=None, dry_run=false, settings=Vec::new(), clock=None))]
pub(super) fn rebuild_indexes(
    py: Python<'_>,
    path: PathBuf,
    level: &str,
    out: Option<PathBuf>,
    dry_run: bool,
    settings: Settings,
    clock: Option<Py<PyAny>>,
) -> PyResult<PartitionTuple> {
    let options = RebuildOptions {
        level: Level::parse(level).map_err(into_py)?,
        config: config_of(&settings).map_err(into_py)?,
        dry_run,
        out,
        ..RebuildOptions::at(Clock(clock).now_ms()?)
    };
    run(py, || rebuild::rebuild_indexes(&path, &options)).map(|done| partition(&done))
}
