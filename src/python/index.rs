//! Indexes, entry by entry or as columns.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use super::capsule;
use super::errors::into_py;
use crate::format::entry::{AbortedTxn, OffsetPosition, TimestampOffset};
use crate::format::file_name::base_offset;
use crate::index;

/// Entries as columns, for any consumer of Arrow.
#[pyclass(frozen, module = "kafkalog._core")]
pub(super) struct Entries {
    batch: RecordBatch,
}

impl Entries {
    fn new<const N: usize, T>(
        names: [&'static str; N],
        rows: &[T],
        row: impl Fn(&T) -> [i64; N],
    ) -> PyResult<Self> {
        let column = |n: usize| -> ArrayRef {
            let values = rows
                .iter()
                .map(|entry| row(entry).get(n).copied().unwrap_or_default());
            Arc::new(Int64Array::from_iter_values(values))
        };
        let columns = names.into_iter().enumerate();
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.map(|(n, name)| (name, column(n), true)),
        );
        let batch = batch.map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(Self { batch })
    }

    fn of_offsets(rows: &[OffsetPosition]) -> PyResult<Self> {
        Self::new(["offset", "position"], rows, |e| {
            [e.offset, e.position.into()]
        })
    }

    fn of_times(rows: &[TimestampOffset]) -> PyResult<Self> {
        Self::new(["timestamp", "offset"], rows, |e| [e.timestamp, e.offset])
    }

    fn of_txns(rows: &[AbortedTxn]) -> PyResult<Self> {
        let names = [
            "version",
            "producer_id",
            "first_offset",
            "last_offset",
            "last_stable_offset",
        ];
        Self::new(names, rows, |t| {
            [
                t.version.into(),
                t.producer_id,
                t.first_offset,
                t.last_offset,
                t.last_stable_offset,
            ]
        })
    }
}

#[pymethods]
impl Entries {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        capsule::of_schema(py, &self.batch.schema())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // Integers can be given in one way only; the interface lets the consumer cast.
        drop(requested_schema);
        let batches = std::iter::once(Ok(self.batch.clone()));
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        capsule::of_stream(py, Box::new(reader))
    }
}

/// An index until it is closed; each call works on its own handle, so a close elsewhere cannot pull the map away.
struct Handle<T>(Mutex<Option<Arc<T>>>);

impl<T> Handle<T> {
    fn new(index: T) -> Self {
        Self(Mutex::new(Some(Arc::new(index))))
    }

    fn get(&self) -> PyResult<Arc<T>> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || PyValueError::new_err("the index is closed");
        held.as_ref().map(Arc::clone).ok_or_else(closed)
    }

    fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The base offset as given, or from the file's name.
fn base_of(path: &Path, given: Option<i64>) -> PyResult<i64> {
    let named = || base_offset(path.file_name()?.to_str()?);
    given.or_else(named).ok_or_else(|| {
        PyValueError::new_err(format!(
            "{}: no base offset in the name; give base_offset",
            path.display()
        ))
    })
}

fn no_entry(n: usize, entries: usize) -> PyErr {
    PyIndexError::new_err(format!("entry {n} of an index with {entries} entries"))
}

/// A read-only offset index.
#[pyclass(frozen, module = "kafkalog._core")]
pub(super) struct OffsetIndex {
    index: Handle<index::offset::OffsetIndex>,
}

#[pymethods]
impl OffsetIndex {
    #[new]
    #[pyo3(signature = (path, base_offset=None))]
    fn new(py: Python<'_>, path: PathBuf, base_offset: Option<i64>) -> PyResult<Self> {
        let open = |path: &PathBuf, base| {
            index::offset::OffsetIndex::open(path, base, index::Access::Closed)
        };
        // Whether it is there comes before what it is called.
        let base = base_of(&path, base_offset);
        let index = py
            .detach(|| open(&path, *base.as_ref().unwrap_or(&0)))
            .map_err(into_py)?;
        base?;
        Ok(Self {
            index: Handle::new(index),
        })
    }

    #[getter]
    fn base_offset(&self) -> PyResult<i64> {
        Ok(self.index.get()?.base_offset())
    }

    #[getter]
    fn entries(&self) -> PyResult<usize> {
        Ok(self.index.get()?.entries())
    }

    #[getter]
    fn max_entries(&self) -> PyResult<usize> {
        Ok(self.index.get()?.max_entries())
    }

    #[getter]
    fn last_offset(&self) -> PyResult<i64> {
        Ok(self.index.get()?.last_offset())
    }

    fn entry(&self, n: usize) -> PyResult<(i64, i32)> {
        let index = self.index.get()?;
        let entry = index.entry(n).ok_or_else(|| no_entry(n, index.entries()))?;
        Ok((entry.offset, entry.position))
    }

    fn lookup(&self, target: i64) -> PyResult<(i64, i32)> {
        let entry = self.index.get()?.lookup(target);
        Ok((entry.offset, entry.position))
    }

    fn lookup_many(&self, py: Python<'_>, targets: Vec<i64>) -> PyResult<Entries> {
        let index = self.index.get()?;
        let found: Vec<_> = py.detach(|| targets.iter().map(|&t| index.lookup(t)).collect());
        Entries::of_offsets(&found)
    }

    fn to_arrow(&self, py: Python<'_>) -> PyResult<Entries> {
        let index = self.index.get()?;
        let all: Vec<_> = py.detach(|| index.iter().collect());
        Entries::of_offsets(&all)
    }

    fn sanity_check(&self) -> PyResult<()> {
        self.index.get()?.sanity_check().map_err(into_py)
    }

    fn close(&self) {
        self.index.close();
    }
}

/// A read-only time index.
#[pyclass(frozen, module = "kafkalog._core")]
pub(super) struct TimeIndex {
    index: Handle<index::time::TimeIndex>,
}

#[pymethods]
impl TimeIndex {
    #[new]
    #[pyo3(signature = (path, base_offset=None))]
    fn new(py: Python<'_>, path: PathBuf, base_offset: Option<i64>) -> PyResult<Self> {
        let open =
            |path: &PathBuf, base| index::time::TimeIndex::open(path, base, index::Access::Closed);
        let base = base_of(&path, base_offset);
        let index = py
            .detach(|| open(&path, *base.as_ref().unwrap_or(&0)))
            .map_err(into_py)?;
        base?;
        Ok(Self {
            index: Handle::new(index),
        })
    }

    #[getter]
    fn base_offset(&self) -> PyResult<i64> {
        Ok(self.index.get()?.base_offset())
    }

    #[getter]
    fn entries(&self) -> PyResult<usize> {
        Ok(self.index.get()?.entries())
    }

    #[getter]
    fn max_entries(&self) -> PyResult<usize> {
        Ok(self.index.get()?.max_entries())
    }

    #[getter]
    fn last_entry(&self) -> PyResult<(i64, i64)> {
        let entry = self.index.get()?.last_entry();
        Ok((entry.timestamp, entry.offset))
    }

    fn entry(&self, n: usize) -> PyResult<(i64, i64)> {
        let index = self.index.get()?;
        let entry = index.entry(n).ok_or_else(|| no_entry(n, index.entries()))?;
        Ok((entry.timestamp, entry.offset))
    }

    fn lookup(&self, target: i64) -> PyResult<(i64, i64)> {
        let entry = self.index.get()?.lookup(target);
        Ok((entry.timestamp, entry.offset))
    }

    fn lookup_many(&self, py: Python<'_>, targets: Vec<i64>) -> PyResult<Entries> {
        let index = self.index.get()?;
        let found: Vec<_> = py.detach(|| targets.iter().map(|&t| index.lookup(t)).collect());
        Entries::of_times(&found)
    }

    fn to_arrow(&self, py: Python<'_>) -> PyResult<Entries> {
        let index = self.index.get()?;
        let all: Vec<_> = py.detach(|| index.iter().collect());
        Entries::of_times(&all)
    }

    fn sanity_check(&self) -> PyResult<()> {
        self.index.get()?.sanity_check().map_err(into_py)
    }

    fn close(&self) {
        self.index.close();
    }
}

/// An aborted transaction: version, producer id, first offset, last offset, last stable offset.
type Aborted = (i16, i64, i64, i64, i64);

/// A read-only transaction index.
#[pyclass(frozen, module = "kafkalog._core")]
pub(super) struct TransactionIndex {
    index: Handle<index::txn::TransactionIndex>,
}

#[pymethods]
impl TransactionIndex {
    #[new]
    #[pyo3(signature = (path, base_offset=None))]
    fn new(py: Python<'_>, path: PathBuf, base_offset: Option<i64>) -> PyResult<Self> {
        let base = base_of(&path, base_offset);
        // Small, and appended to while its segment is active: read by copy.
        let open = |base| index::txn::TransactionIndex::open(&path, base, index::Access::Active);
        let index = py
            .detach(|| open(*base.as_ref().unwrap_or(&0)))
            .map_err(into_py)?;
        base?;
        Ok(Self {
            index: Handle::new(index),
        })
    }

    #[getter]
    fn base_offset(&self) -> PyResult<i64> {
        Ok(self.index.get()?.base_offset())
    }

    #[getter]
    fn entries(&self) -> PyResult<usize> {
        Ok(self.index.get()?.entries())
    }

    fn entry(&self, n: usize) -> PyResult<Aborted> {
        let index = self.index.get()?;
        let entry = index.entry(n).ok_or_else(|| no_entry(n, index.entries()))?;
        Ok((
            entry.version,
            entry.producer_id,
            entry.first_offset,
            entry.last_offset,
            entry.last_stable_offset,
        ))
    }

    fn to_arrow(&self, py: Python<'_>) -> PyResult<Entries> {
        let index = self.index.get()?;
        let all: Vec<_> = py.detach(|| index.iter().collect());
        Entries::of_txns(&all)
    }

    fn sanity_check(&self) -> PyResult<()> {
        self.index.get()?.sanity_check().map_err(into_py)
    }

    fn close(&self) {
        self.index.close();
    }
}
