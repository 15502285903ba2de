//! Reports of calls, as the dataclasses that Python documents: built by field name, in this one place.

use std::path::{Path, PathBuf};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::api::Appended;
use crate::api::tools::{
    CheckpointChange, CleanerBound, CleanerStats, CompactReport, FileChange, LeftOut, Note,
    PartitionCompaction, PartitionReport, PartitionRetention, RecoveryReport, RetainReport,
    RewriteReport, Rule, SegmentAge,
};

/// An instance of a class of `kafkalog`, by keywords: fields of the same names, then others.
macro_rules! instance {
    ($py:ident, $class:literal, $from:expr => [$($field:ident),*], { $($name:ident: $value:expr),* $(,)? }) => {{
        let keywords = PyDict::new($py);
        $(keywords.set_item(stringify!($field), &$from.$field)?;)*
        $(keywords.set_item(stringify!($name), $value)?;)*
        $py.import("kafkalog")?.getattr($class)?.call((), Some(&keywords))
    }};
}

/// Of a report on a partition also its place.
macro_rules! on_partition {
    ($py:ident, $class:literal, $from:expr => $fields:tt, { $($more:tt)* }) => {
        instance!($py, $class, $from => $fields, {
            path: $from.folder.as_os_str(),
            topic: &$from.topic_partition.topic,
            partition: $from.topic_partition.partition,
            $($more)*
        })
    };
}

/// Of a report on a copy also the fields that all of them have.
macro_rules! on_copy {
    ($py:ident, $class:literal, $from:expr, { $($more:tt)* }) => {
        instance!($py, $class, $from.recovery => [dry_run], {
            path: $from.recovery.path.as_os_str(),
            out: (!$from.recovery.dry_run).then(|| $from.recovery.out.as_deref().map(Path::as_os_str)),
            skipped: paths($py, &$from.recovery.skipped)?,
            left_out: tuple($py, &$from.recovery.left_out, left_out)?,
            $($more)*
        })
    };
}

fn tuple<'py, T>(
    py: Python<'py>,
    parts: &[T],
    convert: impl Fn(Python<'py>, &T) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let parts = parts.iter().map(|part| convert(py, part));
    PyTuple::new(py, parts.collect::<PyResult<Vec<_>>>()?)
}

fn paths<'py>(py: Python<'py>, paths: &[PathBuf]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, paths.iter().map(|path| path.as_os_str()))
}

pub(super) fn append_info<'py>(py: Python<'py>, done: &Appended) -> PyResult<Bound<'py, PyAny>> {
    instance!(py, "AppendInfo", done => [
        first_offset, last_offset, records, batches, bytes, rolled, max_timestamp, duplicates, seeming_unit
    ], {})
}

pub(super) fn recovery<'py>(
    py: Python<'py>,
    report: &RecoveryReport,
) -> PyResult<Bound<'py, PyAny>> {
    instance!(py, "RecoveryReport", report => [dry_run, clean], {
        path: report.path.as_os_str(),
        out: report.out.as_deref().map(Path::as_os_str),
        partitions: tuple(py, &report.partitions, partition)?,
        checkpoints: tuple(py, &report.checkpoints, checkpoint)?,
        skipped: paths(py, &report.skipped)?,
        left_out: tuple(py, &report.left_out, left_out)?,
    })
}

pub(super) fn partition<'py>(
    py: Python<'py>,
    report: &PartitionReport,
) -> PyResult<Bound<'py, PyAny>> {
    on_partition!(py, "PartitionRecovery", report => [
        recovered_from, log_start_offset, log_end_offset, segments, size, highest_producer_id, latest_leader_epoch
    ], {
        bytes_cut: report.bytes_cut(),
        notes: tuple(py, &report.notes, note)?,
        files: tuple(py, &report.files, file)?,
    })
}

fn note<'py>(py: Python<'py>, note: &Note) -> PyResult<Bound<'py, PyAny>> {
    instance!(py, "RecoveryNote", note => [], { kind: kind(note), text: note.to_string() })
}

const fn kind(note: &Note) -> &'static str {
    match note {
        Note::Recovered { .. } => "recovered",
        Note::Dropped { .. } => "dropped",
        Note::Deleted { .. } => "deleted",
        Note::Split { .. } => "split",
        Note::Swapped { .. } => "swapped",
        Note::Lost(_) => "lost",
        Note::Salvaged { .. } => "salvaged",
        Note::LeftOut { .. } => "left out",
        Note::SetAside { .. } => "set aside",
        Note::IndexFull { .. } => "index full",
        Note::OutOfOrder { .. } => "out of order",
    }
}

fn left_out<'py>(py: Python<'py>, left: &LeftOut) -> PyResult<Bound<'py, PyAny>> {
    instance!(py, "LeftOut", left => [reason], { path: left.path.as_os_str() })
}

fn file<'py>(py: Python<'py>, change: &FileChange) -> PyResult<Bound<'py, PyAny>> {
    instance!(py, "FileChange", change => [name, before, after, is_same], {})
}

fn checkpoint<'py>(py: Python<'py>, change: &CheckpointChange) -> PyResult<Bound<'py, PyAny>> {
    instance!(py, "CheckpointChange", change => [file, before, after], {
        topic: &change.partition.topic,
        partition: change.partition.partition,
    })
}

pub(super) fn retention<'py>(
    py: Python<'py>,
    report: &RetainReport,
    now_ms: i64,
) -> PyResult<Bound<'py, PyAny>> {
    on_copy!(py, "RetainReport", report, {
        now_ms: now_ms,
        partitions: tuple(py, &report.partitions, retained)?,
        checkpoints: tuple(py, &report.recovery.checkpoints, checkpoint)?,
    })
}

fn retained<'py>(py: Python<'py>, partition: &PartitionRetention) -> PyResult<Bound<'py, PyAny>> {
    on_partition!(py, "PartitionRetention", partition => [log_end_offset, high_watermark, segments, size], {
        log_start_before: partition.log_start_offset.0,
        log_start_offset: partition.log_start_offset.1,
        deleted: tuple(py, &partition.deleted, deleted)?,
    })
}

pub(super) fn compaction<'py>(
    py: Python<'py>,
    report: &CompactReport,
    now_ms: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let lost = report
        .recovery
        .partitions
        .iter()
        .filter(|each| each.bytes_cut() > 0);
    let lost: Vec<_> = lost.cloned().collect();
    on_copy!(py, "CompactReport", report, {
        now_ms: now_ms,
        partitions: tuple(py, &report.partitions, compacted)?,
        damaged: tuple(py, &lost, partition)?,
    })
}

fn compacted<'py>(py: Python<'py>, partition: &PartitionCompaction) -> PyResult<Bound<'py, PyAny>> {
    let total = |part: fn(&CleanerStats) -> u64| partition.passes.iter().map(part).sum::<u64>();
    let end = partition.passes.last().map(|last| last.end_offset);
    let bound = partition.cleanable.bound;
    let pin = partition.cleanable.open_transaction;
    let pin = pin.filter(|_| bound == CleanerBound::OpenTransaction);
    on_partition!(py, "PartitionCompaction", partition => [log_start_offset, log_end_offset, segments_deleted], {
        first_dirty_offset: partition.cleanable.first_dirty_offset,
        first_uncleanable_offset: partition.cleanable.first_uncleanable_offset,
        compacted_to: end.unwrap_or(partition.cleanable.first_dirty_offset),
        dirty_ratio: Some(partition.cleanable.dirtiness.ratio()).filter(|ratio| ratio.is_finite()),
        passes: partition.passes.len(),
        more_passes: partition.has_more_passes,
        records_read: total(|pass| pass.messages_read),
        records_kept: total(|pass| pass.messages_written),
        records_without_key: total(|pass| pass.invalid_messages),
        segments_before: partition.segments.0,
        segments: partition.segments.1,
        size_before: partition.size.0,
        size: partition.size.1,
        held_by: bound.name(),
        pin_producer_id: pin.map(|(producer_id, _)| producer_id),
        pin_offset: pin.map(|(_, first)| first),
    })
}

fn deleted<'py>(
    py: Python<'py>,
    (segment, rule): &(SegmentAge, Rule),
) -> PyResult<Bound<'py, PyAny>> {
    instance!(py, "DeletedSegment", segment => [base_offset, size, largest_timestamp], {
        rule: rule.name(),
        from_mtime: segment.is_from_mtime,
    })
}

pub(super) fn rewriting<'py>(
    py: Python<'py>,
    report: &RewriteReport,
) -> PyResult<Bound<'py, PyAny>> {
    let partition = |py, loaded: &PartitionReport| {
        let done = report.partitions.get(&loaded.folder);
        let done = done.cloned().unwrap_or_default();
        on_partition!(py, "PartitionRewrite", loaded => [log_start_offset, log_end_offset], {
            records_dropped: done.records_dropped,
            batches_copied: done.batches_copied,
            batches_rewritten: done.batches_rewritten,
            batches_emptied: done.batches_emptied,
            batches_dropped: done.batches_dropped,
            bytes_before: done.bytes_before,
            bytes_after: done.bytes_after,
            bytes_lost: loaded.bytes_cut(),
        })
    };
    let partitions = tuple(py, &report.recovery.partitions, partition)?;
    let left = tuple(py, &report.recovery.left_out, left_out)?;
    (partitions, left).into_bound_py_any(py)
}
