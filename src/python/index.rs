//! Reading and writing indexes, entry by entry or as columns.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use arrow_array::{ArrayRef, Int64Array};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;

use super::errors::into_py;
use super::interrupt;
use super::rows::PyRows;
use crate::api::index::{
    AbortedTxn, EntryFile, EntryIndex, IndexEntry, OffsetIndex, OffsetPosition, TimeIndex,
    TimestampOffset, TransactionIndex, WritableOffsetIndex, WritableTimeIndex,
    WritableTransactionIndex, base_offset, collect_aborted,
};
use crate::api::{Disk, lock};
use crate::error::{Error, Result};

/// An entry as Python sees it: (offset, position) or (timestamp, offset).
type IndexPair = (i64, i64);

/// An entry that Python sees.
trait PythonEntry {
    /// The fields of the pair.
    const NAMES: [&'static str; 2];

    fn pair(self) -> IndexPair;
}

impl PythonEntry for OffsetPosition {
    const NAMES: [&'static str; 2] = ["offset", "position"];

    fn pair(self) -> IndexPair {
        (self.offset, self.position.into())
    }
}

impl PythonEntry for TimestampOffset {
    const NAMES: [&'static str; 2] = ["timestamp", "offset"];

    fn pair(self) -> IndexPair {
        (self.timestamp, self.offset)
    }
}

fn columns<E, const N: usize, F>(
    _: &EntryIndex<E, N, F>,
    entries: impl Iterator<Item = Result<Option<E>>>,
) -> Result<([&'static str; 2], Vec<IndexPair>)>
where
    E: IndexEntry<N> + PythonEntry,
    F: EntryFile<N>,
{
    let pairs: Result<Vec<_>> = entries
        .filter_map(Result::transpose)
        .map(|it| Ok(it?.pair()))
        .collect();
    Ok((E::NAMES, pairs?))
}

/// Rows of numbers.
fn rows_of<const N: usize, T>(
    names: [&'static str; N],
    rows: &[T],
    row: impl Fn(&T) -> [i64; N],
) -> PyResult<PyRows> {
    let column = |n: usize| -> ArrayRef {
        let values = rows
            .iter()
            .map(|entry| row(entry).get(n).copied().unwrap_or_default());
        Arc::new(Int64Array::from_iter_values(values))
    };
    let columns = names.into_iter().enumerate();
    PyRows::of_columns(columns.map(|(n, name)| (name, column(n))))
}

fn pairs(names: [&'static str; 2], rows: &[IndexPair]) -> PyResult<PyRows> {
    rows_of(names, rows, |&(first, second)| [first, second])
}

/// The given base offset, or the one in the file's name.
fn base_of(path: &Path, given: Option<i64>) -> PyResult<i64> {
    let named = || base_offset(path.file_name()?.to_str()?);
    given.or_else(named).ok_or_else(|| {
        PyValueError::new_err(format!(
            "{}: no base offset in the name; give base_offset",
            path.display()
        ))
    })
}

/// Here a refusal is about an argument, not about a record.
fn refused(error: Error) -> PyErr {
    match error {
        Error::Refused { .. } => PyValueError::new_err(error.to_string()),
        other => into_py(other),
    }
}

fn no_entry(n: usize, entries: usize) -> PyErr {
    PyIndexError::new_err(format!("entry {n} of an index with {entries} entries"))
}

/// A value that can be closed. The lock is never held while waiting for Python.
struct Closing<T>(Mutex<Option<T>>);

impl<T> Closing<T> {
    const fn new(inner: T) -> Self {
        Self(Mutex::new(Some(inner)))
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        lock(&self.0)
    }

    fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> PyResult<R> {
        let mut held = self.lock();
        let closed = || PyValueError::new_err("the index is closed");
        held.as_mut().map(look).ok_or_else(closed)
    }

    fn query<R>(&self, look: impl FnOnce(&mut T) -> Result<R>) -> PyResult<R> {
        self.with(look)?.map_err(refused)
    }
}

/// Opens an index at its base offset. A missing file is reported before a wrong name; but nothing is created under a
/// wrong name.
fn opened<T: Send>(
    py: Python<'_>,
    path: &Path,
    base_offset: Option<i64>,
    writable: bool,
    open: impl FnOnce(i64) -> Result<T> + Send,
) -> PyResult<Closing<T>> {
    let base = match base_of(path, base_offset) {
        Err(error) if writable => return Err(error),
        base => base,
    };
    let from = *base.as_ref().unwrap_or(&0);
    let index = if writable {
        py.detach(|| open(from)).map_err(into_py)?
    } else {
        interrupt::detach(py, || open(from))?
    };
    base?;
    Ok(Closing::new(index))
}

/// An offset or a time index, for reading or writing.
enum AnyIndex {
    Offset(OffsetIndex),
    Time(TimeIndex),
    WrittenOffset(WritableOffsetIndex),
    WrittenTime(WritableTimeIndex),
}

/// The same call on any of them.
macro_rules! on {
    ($index:expr, $it:ident => $call:expr) => {
        match $index {
            AnyIndex::Offset($it) => $call,
            AnyIndex::Time($it) => $call,
            AnyIndex::WrittenOffset($it) => $call,
            AnyIndex::WrittenTime($it) => $call,
        }
    };
}

fn for_reading() -> Error {
    Error::InvalidArgument("the index was opened for reading; open it with writable=True".into())
}

/// An offset or time index.
#[pyclass(frozen, module = "kafkalog._core")]
pub(super) struct Index {
    index: Closing<AnyIndex>,
    writable: bool,
}

impl Index {
    /// A call that is only for an index that was opened for writing.
    fn change<R>(&self, call: impl FnOnce(&mut AnyIndex) -> Result<R>) -> PyResult<R> {
        self.index.query(|index| {
            if !self.writable {
                return Err(for_reading());
            }
            call(index)
        })
    }
}

#[pymethods]
impl Index {
    #[new]
    #[pyo3(signature = (path, is_time, base_offset, max_index_size, writable))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        is_time: bool,
        base_offset: Option<i64>,
        max_index_size: usize,
        writable: bool,
    ) -> PyResult<Self> {
        let index = opened(py, &path, base_offset, writable, |from| {
            let (disk, size) = (Disk::default(), max_index_size);
            Ok(match (is_time, writable) {
                (false, false) => AnyIndex::Offset(OffsetIndex::open(&path, from)?),
                (true, false) => AnyIndex::Time(TimeIndex::open(&path, from)?),
                (false, true) => {
                    AnyIndex::WrittenOffset(OffsetIndex::open_writable(&disk, &path, from, size)?)
                }
                (true, true) => {
                    AnyIndex::WrittenTime(TimeIndex::open_writable(&disk, &path, from, size)?)
                }
            })
        })?;
        Ok(Self { index, writable })
    }

    #[getter]
    fn base_offset(&self) -> PyResult<i64> {
        self.index.with(|index| on!(index, it => it.base_offset()))
    }

    #[getter]
    fn entries(&self) -> PyResult<usize> {
        self.index.with(|index| on!(index, it => it.entries()))
    }

    #[getter]
    fn max_entries(&self) -> PyResult<usize> {
        self.index.with(|index| on!(index, it => it.max_entries()))
    }

    #[getter]
    fn length(&self) -> PyResult<u64> {
        self.index.with(|index| on!(index, it => it.length()))
    }

    /// Returns whether Kafka would roll: a time index reserves one entry for the end of its segment.
    #[getter]
    fn is_full(&self) -> PyResult<bool> {
        self.index.with(|index| on!(index, it => it.is_full()))
    }

    #[getter]
    fn last_entry(&self) -> PyResult<IndexPair> {
        self.index
            .with(|index| on!(index, it => it.last_entry().pair()))
    }

    fn entry(&self, n: usize) -> PyResult<IndexPair> {
        let (entry, entries) = self.index.query(
            |index| on!(index, it => Ok((it.get(n)?.map(PythonEntry::pair), it.entries()))),
        )?;
        entry.ok_or_else(|| no_entry(n, entries))
    }

    fn lookup(&self, target: i64) -> PyResult<IndexPair> {
        self.index
            .query(|index| on!(index, it => Ok(it.lookup(target)?.pair())))
    }

    fn lookup_many(&self, py: Python<'_>, targets: Vec<i64>) -> PyResult<PyRows> {
        let (names, found) = py.detach(|| {
            self.index.query(|index| {
                on!(index, it => columns(it, targets.iter().map(|&t| it.lookup(t).map(Some))))
            })
        })?;
        pairs(names, &found)
    }

    fn to_arrow(&self, py: Python<'_>) -> PyResult<PyRows> {
        let (names, all) = py.detach(|| {
            self.index
                .query(|index| on!(index, it => columns(it, (0..it.entries()).map(|n| it.get(n)))))
        })?;
        pairs(names, &all)
    }

    fn sanity_check(&self) -> PyResult<()> {
        self.index
            .query(|index| on!(index, it => it.sanity_check()))
    }

    fn can_append_offset(&self, offset: i64) -> PyResult<bool> {
        self.change(|index| on!(index, it => Ok(it.can_append_offset(offset))))
    }

    /// An offset and a position, or a timestamp and an offset.
    fn append(&self, first: i64, second: i64, skip_full_check: bool) -> PyResult<()> {
        self.change(|index| match index {
            AnyIndex::WrittenOffset(it) => {
                let position = i32::try_from(second);
                let position = position.map_err(|e| Error::InvalidArgument(e.to_string()))?;
                it.append(first, position)
            }
            AnyIndex::WrittenTime(it) => it.maybe_append(first, second, skip_full_check),
            AnyIndex::Offset(_) | AnyIndex::Time(_) => Err(for_reading()),
        })
    }

    fn fetch_upper_bound(&self, position: i32, fetch_size: i32) -> PyResult<Option<IndexPair>> {
        self.change(|index| match index {
            AnyIndex::WrittenOffset(it) => {
                let offset = it.base_offset();
                let from = OffsetPosition { offset, position };
                let found = it.fetch_upper_bound(from, fetch_size)?;
                Ok(found.map(PythonEntry::pair))
            }
            _ => Err(for_reading()),
        })
    }

    fn truncate(&self) -> PyResult<()> {
        self.change(|index| on!(index, it => it.truncate()))
    }

    fn truncate_to(&self, offset: i64) -> PyResult<()> {
        self.change(|index| on!(index, it => it.truncate_to(offset)))
    }

    fn resize(&self, py: Python<'_>, size: usize) -> PyResult<bool> {
        py.detach(|| self.change(|index| on!(index, it => it.resize(size))))
    }

    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.change(|index| on!(index, it => it.reset())))
    }

    fn trim_to_valid_size(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.change(|index| on!(index, it => it.trim_to_valid_size())))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.change(|index| on!(index, it => it.flush())))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| match self.index.lock().take() {
            Some(mut index) => on!(&mut index, it => it.close()),
            None => Ok(()),
        });
        closed.map_err(into_py)
    }
}

/// An aborted transaction: version, producer id, first offset, last offset, last stable offset.
type AbortedEntry = (i16, i64, i64, i64, i64);

fn of_txn(txn: AbortedTxn) -> AbortedEntry {
    (
        txn.version,
        txn.producer_id,
        txn.first_offset,
        txn.last_offset,
        txn.last_stable_offset,
    )
}

/// A transaction index, for reading or writing.
enum AnyTxnIndex {
    Read(TransactionIndex),
    Written(WritableTransactionIndex),
}

/// The same call on either.
macro_rules! on_txn {
    ($index:expr, $it:ident => $call:expr) => {
        match $index {
            AnyTxnIndex::Read($it) => $call,
            AnyTxnIndex::Written($it) => $call,
        }
    };
}

impl AnyTxnIndex {
    fn all(&self) -> Result<Vec<AbortedTxn>> {
        match self {
            Self::Read(it) => Ok(it.iter().collect()),
            Self::Written(it) => it.all(),
        }
    }

    fn written(&mut self) -> Result<&mut WritableTransactionIndex> {
        match self {
            Self::Read(_) => Err(for_reading()),
            Self::Written(it) => Ok(it),
        }
    }
}

/// A transaction index.
#[pyclass(name = "TransactionIndex", frozen, module = "kafkalog._core")]
pub(super) struct PyTransactionIndex {
    index: Closing<AnyTxnIndex>,
}

#[pymethods]
impl PyTransactionIndex {
    #[new]
    #[pyo3(signature = (path, base_offset, writable))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        base_offset: Option<i64>,
        writable: bool,
    ) -> PyResult<Self> {
        let index = opened(py, &path, base_offset, writable, |from| {
            Ok(if writable {
                let disk = Disk::default();
                AnyTxnIndex::Written(TransactionIndex::open_writable(&disk, &path, from)?)
            } else {
                AnyTxnIndex::Read(TransactionIndex::open(&path, from)?)
            })
        })?;
        Ok(Self { index })
    }

    #[getter]
    fn base_offset(&self) -> PyResult<i64> {
        self.index
            .with(|index| on_txn!(index, it => it.base_offset()))
    }

    #[getter]
    fn entries(&self) -> PyResult<usize> {
        self.index.with(|index| on_txn!(index, it => it.entries()))
    }

    fn entry(&self, n: usize) -> PyResult<AbortedEntry> {
        let (entry, entries) = self
            .index
            .query(|index| on_txn!(index, it => Ok((it.get(n)?, it.entries()))))?;
        entry.map(of_txn).ok_or_else(|| no_entry(n, entries))
    }

    fn to_arrow(&self, py: Python<'_>) -> PyResult<PyRows> {
        let all = py.detach(|| self.index.query(|index| index.all()))?;
        let names = [
            "version",
            "producer_id",
            "first_offset",
            "last_offset",
            "last_stable_offset",
        ];
        rows_of(names, &all, |&txn| {
            let (version, producer_id, first, last, stable) = of_txn(txn);
            [version.into(), producer_id, first, last, stable]
        })
    }

    fn sanity_check(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            self.index
                .query(|index| on_txn!(index, it => it.sanity_check()))
        })
    }

    fn append(
        &self,
        producer_id: i64,
        first_offset: i64,
        last_offset: i64,
        last_stable_offset: i64,
    ) -> PyResult<()> {
        let txn = AbortedTxn {
            version: AbortedTxn::CURRENT_VERSION,
            producer_id,
            first_offset,
            last_offset,
            last_stable_offset,
        };
        self.index.query(|index| index.written()?.append(&txn))
    }

    /// The transactions, and whether no later segment has more.
    fn collect_aborted(
        &self,
        fetch_offset: i64,
        upper_bound: i64,
    ) -> PyResult<(Vec<AbortedEntry>, bool)> {
        let found = self
            .index
            .query(|index| Ok(collect_aborted(index.all()?, fetch_offset, upper_bound)))?;
        let txns = found.txns.into_iter().map(of_txn).collect();
        Ok((txns, found.is_complete))
    }

    fn truncate_to(&self, offset: i64) -> PyResult<()> {
        self.index
            .query(|index| index.written()?.truncate_to(offset))
    }

    fn reset(&self) -> PyResult<()> {
        self.index.query(|index| index.written()?.reset())
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.index.query(|index| index.written()?.flush()))
    }

    fn close(&self) {
        *self.index.lock() = None;
    }
}
