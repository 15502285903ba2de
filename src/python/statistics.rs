//! Statistics of batch headers, for Python.

use std::collections::BTreeMap;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::api::tools::PartitionStatistics;
use crate::api::{Segment, SegmentStatistics, Tally};

/// Log start offset, log end offset, how many segments there are, what they add up to, and what each of them does.
pub(super) type PlainSums<'py> = (i64, i64, usize, Bound<'py, PyDict>, Vec<Bound<'py, PyDict>>);

/// As Python has them.
pub(super) fn plain_sums<'py>(
    py: Python<'py>,
    sums: &PartitionStatistics,
    segments: bool,
) -> PyResult<PlainSums<'py>> {
    let segment = |(segment, sums): &(Segment, SegmentStatistics)| {
        let dict = PyDict::new(py);
        dict.set_item(intern!(py, "base_offset"), segment.base_offset)?;
        dict.set_item(intern!(py, "file_name"), &segment.file_name)?;
        dict.set_item(intern!(py, "size"), segment.size)?;
        dict.set_item(intern!(py, "is_active"), segment.is_active)?;
        dict.set_item(intern!(py, "modified_ms"), segment.modified_ms)?;
        put_sums(&dict, sums)?;
        Ok(dict)
    };
    let (size, added) = sums.total();
    let total = PyDict::new(py);
    total.set_item(intern!(py, "size"), size)?;
    put_sums(&total, &added)?;
    let shown = sums.segments.iter().filter(|_| segments);
    Ok((
        sums.log_start_offset,
        sums.log_end_offset,
        sums.segments.len(),
        total,
        shown.map(segment).collect::<PyResult<_>>()?,
    ))
}

fn put_sums(dict: &Bound<'_, PyDict>, sums: &SegmentStatistics) -> PyResult<()> {
    let py = dict.py();
    for (name, number) in [
        (intern!(py, "valid_bytes"), sums.valid_bytes),
        (intern!(py, "batches"), sums.batches),
        (intern!(py, "records"), sums.records),
        (intern!(py, "legacy_batches"), sums.legacy_batches),
        (intern!(py, "control_batches"), sums.control_batches),
        (
            intern!(py, "transactional_batches"),
            sums.transactional_batches,
        ),
        (intern!(py, "empty_batches"), sums.empty_batches),
    ] {
        dict.set_item(name, number)?;
    }
    for (name, number) in [
        (intern!(py, "first_offset"), sums.first_offset),
        (intern!(py, "last_offset"), sums.last_offset),
        (intern!(py, "min_timestamp"), sums.min_timestamp),
        (intern!(py, "max_timestamp"), sums.max_timestamp),
    ] {
        dict.set_item(name, number)?;
    }
    dict.set_item(intern!(py, "codecs"), tallies(py, &sums.codecs)?)?;
    dict.set_item(intern!(py, "magics"), tallies(py, &sums.magics)?)?;
    dict.set_item(intern!(py, "producers"), PyList::new(py, &sums.producers)?)?;
    dict.set_item(
        intern!(py, "leader_epochs"),
        PyList::new(py, &sums.leader_epochs)?,
    )
}

fn tallies<'py, K: IntoPyObject<'py> + Copy>(
    py: Python<'py>,
    by_kind: &BTreeMap<K, Tally>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (&kind, tally) in by_kind {
        let one = PyDict::new(py);
        one.set_item(intern!(py, "batches"), tally.batches)?;
        one.set_item(intern!(py, "bytes"), tally.bytes)?;
        dict.set_item(kind, one)?;
    }
    Ok(dict)
}
