//! Records of internal topics from JSON, and the snapshot of the metadata log that they make.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors::into_py;
use super::interrupt;
use crate::api::Disk;
use crate::api::tables::{
    KeyAndValue, NewSnapshot, Spelled, Topic, abort_marker as marker, encode, write_snapshot,
};
use crate::error::{Error, Result};

/// Encodes key and value of a record of an internal topic.
#[pyfunction]
#[pyo3(signature = (topic, kind, version, key, value))]
pub(super) fn encode_record(
    topic: &str,
    kind: &str,
    version: i16,
    key: Option<&str>,
    value: Option<&str>,
) -> PyResult<KeyAndValue> {
    encoded(topic, kind, version, key, value).map_err(into_py)
}

fn encoded(
    topic: &str,
    kind: &str,
    version: i16,
    key: Option<&str>,
    value: Option<&str>,
) -> Result<KeyAndValue> {
    let topic = Topic::of(topic)
        .ok_or_else(|| Error::InvalidArgument(format!("{topic}: expected an internal topic")))?;
    encode(topic, kind, version, key, value)
}

/// Encodes the batch that aborts the open transaction of a producer (id and epoch).
#[pyfunction]
pub(super) fn abort_marker(
    py: Python<'_>,
    offset: i64,
    leader_epoch: i32,
    producer: (i64, i16),
    coordinator_epoch: i32,
    timestamp: i64,
) -> PyResult<Bound<'_, PyBytes>> {
    marker(offset, leader_epoch, producer, coordinator_epoch, timestamp)
        .map(|batch| PyBytes::new(py, &batch))
        .map_err(into_py)
}

/// Writes a snapshot of the metadata log and returns its path.
#[pyfunction]
#[pyo3(signature = (folder, end_offset, epoch, records, *, timestamp, voters=None))]
pub(super) fn write_metadata_snapshot(
    py: Python<'_>,
    folder: PathBuf,
    end_offset: i64,
    epoch: i32,
    records: Vec<Spelled>,
    timestamp: i64,
    voters: Option<String>,
) -> PyResult<PathBuf> {
    let snapshot = NewSnapshot {
        end_offset,
        epoch,
        timestamp,
        voters: voters.as_deref(),
    };
    interrupt::detach(py, || {
        write_snapshot(&Disk::default(), &folder, &snapshot, &records)
    })
}
