//! Reports of calls, as the dataclasses that Python documents: built by field name, in this one place.

use std::path::Path;

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::api::Appended;
use crate::api::tools::{
    CheckpointChange, CleanerBound, CleanerStats, CompactReport, FileChange, LeftOut, Note,
    PartitionCompaction, PartitionReport, PartitionRetention, RecoveryReport, RetainReport,
    RewriteReport, Rule, SegmentAge,
};

/// An instance of a Python class, by keywords.
macro_rules! instance {
    ($py:ident, $module:literal, $class:literal, { $($name:ident: $value:expr),+ $(,)? }) => {{
        let keywords = PyDict::new($py);
        $(keywords.set_item(stringify!($name), $value)?;)+
        $py.import($module)?.getattr($class)?.call((), Some(&keywords))
    }};
}

pub(super) fn append_info<'py>(py: Python<'py>, done: &Appended) -> PyResult<Bound<'py, PyAny>> {
    instance!(py, "kafkalog.writer", "AppendInfo", {
        first_offset: done.first_offset,
        last_offset: done.last_offset,
        records: done.records,
        batches: done.batches,
        bytes: done.bytes,
        rolled: done.rolled,
        max_timestamp: done.max_timestamp,
        duplicates: done.duplicates,
        seeming_unit: done.seeming_unit,
    })
}

pub(super) fn recovery<'py>(
    py: Python<'py>,
    report: &RecoveryReport,
) -> PyResult<Bound<'py, PyAny>> {
    instance!(py, "kafkalog.tools.reports", "RecoveryReport", {
        path: report.path.as_os_str(),
        out: report.out.as_deref().map(Path::as_os_str),
        dry_run: report.dry_run,
        clean: report.clean,
        partitions: tuple(py, &report.partitions, partition)?,
        checkpoints: tuple(py, &report.checkpoints, checkpoint)?,
        skipped: PyTuple::new(py, report.skipped.iter().map(|path| path.as_os_str()))?,
        left_out: tuple(py, &report.left_out, left_out)?,
    })
}

pub(super) fn partition<'py>(
    py: Python<'py>,
    report: &PartitionReport,
) -> PyResult<Bound<'py, PyAny>> {
    instance!(py, "kafkalog.tools.reports", "PartitionRecovery", {
        path: report.folder.as_os_str(),
        topic: &report.topic_partition.topic,
        partition: report.topic_partition.partition,
        recovered_from: report.recovered_from,
        log_start_offset: report.log_start_offset,
        log_end_offset: report.log_end_offset,
        segments: report.segments,
        size: report.size,
        highest_producer_id: report.highest_producer_id,
        latest_leader_epoch: report.latest_leader_epoch,
        bytes_cut: report.bytes_cut(),
        notes: tuple(py, &report.notes, note)?,
        files: tuple(py, &report.files, file)?,
    })
}

fn tuple<'py, T>(
    py: Python<'py>,
    parts: &[T],
    convert: impl Fn(Python<'py>, &T) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let parts = parts.iter().map(|part| convert(py, part));
    PyTuple::new(py, parts.collect::<PyResult<Vec<_>>>()?)
}

fn note<'py>(py: Python<'py>, note: &Note) -> PyResult<Bound<'py, PyAny>> {
    instance!(py, "kafkalog.tools.reports", "RecoveryNote", {
        kind: kind(note),
        text: note.to_string(),
    })
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
    instance!(py, "kafkalog.tools.reports", "LeftOut", {
        path: left.path.as_os_str(),
        reason: &left.reason,
    })
}

fn file<'py>(py: Python<'py>, change: &FileChange) -> PyResult<Bound<'py, PyAny>> {
    instance!(py, "kafkalog.tools.reports", "FileChange", {
        name: &change.name,
        before: change.before,
        after: change.after,
        is_same: change.is_same,
    })
}

fn checkpoint<'py>(py: Python<'py>, change: &CheckpointChange) -> PyResult<Bound<'py, PyAny>> {
    instance!(py, "kafkalog.tools.reports", "CheckpointChange", {
        file: change.file,
        topic: &change.partition.topic,
        partition: change.partition.partition,
        before: change.before,
        after: change.after,
    })
}

pub(super) fn retention<'py>(
    py: Python<'py>,
    report: &RetainReport,
    now_ms: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let recovery = &report.recovery;
    instance!(py, "kafkalog.tools.copy_reports", "RetainReport", {
        path: recovery.path.as_os_str(),
        out: (!recovery.dry_run).then(|| recovery.out.as_deref().map(Path::as_os_str)),
        dry_run: recovery.dry_run,
        now_ms: now_ms,
        partitions: tuple(py, &report.partitions, retained)?,
        checkpoints: tuple(py, &recovery.checkpoints, checkpoint)?,
        skipped: PyTuple::new(py, recovery.skipped.iter().map(|path| path.as_os_str()))?,
        left_out: tuple(py, &recovery.left_out, left_out)?,
    })
}

fn retained<'py>(py: Python<'py>, partition: &PartitionRetention) -> PyResult<Bound<'py, PyAny>> {
    let (before, after) = partition.log_start_offset;
    instance!(py, "kafkalog.tools.copy_reports", "PartitionRetention", {
        path: partition.folder.as_os_str(),
        topic: &partition.topic_partition.topic,
        partition: partition.topic_partition.partition,
        log_start_before: before,
        log_start_offset: after,
        log_end_offset: partition.log_end_offset,
        high_watermark: partition.high_watermark,
        segments: partition.segments,
        size: partition.size,
        deleted: tuple(py, &partition.deleted, deleted)?,
    })
}

pub(super) fn compaction<'py>(
    py: Python<'py>,
    report: &CompactReport,
    now_ms: i64,
) -> PyResult<Bound<'py, PyAny>> {
    let recovery = &report.recovery;
    let lost = recovery
        .partitions
        .iter()
        .filter(|each| each.bytes_cut() > 0);
    let lost: Vec<_> = lost.cloned().collect();
    instance!(py, "kafkalog.tools.copy_reports", "CompactReport", {
        path: recovery.path.as_os_str(),
        out: (!recovery.dry_run).then(|| recovery.out.as_deref().map(Path::as_os_str)),
        dry_run: recovery.dry_run,
        now_ms: now_ms,
        partitions: tuple(py, &report.partitions, compacted)?,
        damaged: tuple(py, &lost, partition)?,
        skipped: PyTuple::new(py, recovery.skipped.iter().map(|path| path.as_os_str()))?,
        left_out: tuple(py, &recovery.left_out, left_out)?,
    })
}

fn compacted<'py>(py: Python<'py>, partition: &PartitionCompaction) -> PyResult<Bound<'py, PyAny>> {
    let total = |part: fn(&CleanerStats) -> u64| partition.passes.iter().map(part).sum::<u64>();
    let end = partition.passes.last().map(|last| last.end_offset);
    let bound = partition.cleanable.bound;
    let pin = partition.cleanable.open_transaction;
    let pin = pin.filter(|_| bound == CleanerBound::OpenTransaction);
    instance!(py, "kafkalog.tools.copy_reports", "PartitionCompaction", {
        path: partition.folder.as_os_str(),
        topic: &partition.topic_partition.topic,
        partition: partition.topic_partition.partition,
        log_start_offset: partition.log_start_offset,
        log_end_offset: partition.log_end_offset,
        first_dirty_offset: partition.cleanable.first_dirty_offset,
        first_uncleanable_offset: partition.cleanable.first_uncleanable_offset,
        compacted_to: end.unwrap_or(partition.cleanable.first_dirty_offset),
        dirty_ratio: Some(partition.cleanable.dirtiness.ratio()).filter(|ratio| ratio.is_finite()),
        passes: partition.passes.len(),
        more_passes: partition.has_more_passes,
        records_read: total(|pass| pass.messages_read),
        records_kept: total(|pass| pass.messages_written),
        records_without_key: total(|pass| pass.invalid_messages),
        segments_deleted: partition.segments_deleted,
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
    instance!(py, "kafkalog.tools.copy_reports", "DeletedSegment", {
        base_offset: segment.base_offset,
        size: segment.size,
        rule: rule.name(),
        largest_timestamp: segment.largest_timestamp,
        from_mtime: segment.is_from_mtime,
    })
}

pub(super) fn rewriting<'py>(
    py: Python<'py>,
    report: &RewriteReport,
) -> PyResult<Bound<'py, PyAny>> {
    let partition = |loaded: &PartitionReport| {
        let done = report.partitions.get(&loaded.folder);
        let done = done.cloned().unwrap_or_default();
        instance!(py, "kafkalog.tools.copy_reports", "PartitionRewrite", {
            path: loaded.folder.as_os_str(),
            topic: &loaded.topic_partition.topic,
            partition: loaded.topic_partition.partition,
            log_start_offset: loaded.log_start_offset,
            log_end_offset: loaded.log_end_offset,
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
    let partitions = report.recovery.partitions.iter().map(partition);
    let partitions = PyTuple::new(py, partitions.collect::<PyResult<Vec<_>>>()?)?;
    let left = tuple(py, &report.recovery.left_out, left_out)?;
    (partitions, left).into_bound_py_any(py)
}
