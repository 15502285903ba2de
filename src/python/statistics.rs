//! Statistics of batch headers, for Python.

use pyo3::prelude::*;
use pythonize::pythonize;
use serde::Serialize;

use crate::api::SegmentStatistics;
use crate::api::tools::PartitionStatistics;

/// Sums over all segments.
#[derive(Serialize)]
struct Total {
    size: u64,
    #[serde(flatten)]
    sums: SegmentStatistics,
}

/// A segment and its sums.
#[derive(Serialize)]
struct SegmentSums<'a> {
    base_offset: i64,
    file_name: &'a str,
    size: u64,
    is_active: bool,
    modified_ms: i64,
    #[serde(flatten)]
    sums: &'a SegmentStatistics,
}

/// Log start offset, log end offset, how many segments there are, what they add up to, and, where wanted, what each of
/// them does.
pub(super) fn plain_sums<'py>(
    py: Python<'py>,
    found: &PartitionStatistics,
    segments: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let (size, sums) = found.total();
    let shown = found.segments.iter().filter(|_| segments);
    let shown = shown.map(|(segment, sums)| SegmentSums {
        base_offset: segment.base_offset,
        file_name: &segment.file_name,
        size: segment.size,
        is_active: segment.is_active,
        modified_ms: segment.modified_ms,
        sums,
    });
    let plain = (
        found.log_start_offset,
        found.log_end_offset,
        found.segments.len(),
        Total { size, sums },
        shown.collect::<Vec<_>>(),
    );
    Ok(pythonize(py, &plain)?)
}
