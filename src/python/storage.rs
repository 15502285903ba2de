//! Object stores: a provider written in Python, and questions about paths in mounted stores.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::{callbacks, capsule, errors, interrupt};
use crate::api::{
    Folder, ObjectInfo, ObjectListing, ObjectRange, Provided, Provider, ProviderError,
    ProviderErrorKind, RequestLimits, forget_listings as forget, is_mounted as mounted, mount,
    open_file, read_exact_at,
};
use crate::error::Error;

/// A provider in Python: an object with the methods `list`, `stat` and `read` of `kafkalog.storage.Storage`.
struct PyProvider(Py<PyAny>);

impl fmt::Debug for PyProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PyProvider")
    }
}

/// Key, size, modification time and version of an object.
type InfoTuple = (String, u64, i64, Option<String>);

fn info((key, size, modified_ms, version): InfoTuple) -> ObjectInfo {
    ObjectInfo {
        key,
        size,
        modified_ms,
        version: version.map(Arc::from),
    }
}

impl PyProvider {
    /// Calls a method on a thread that may know nothing of Python.
    fn call<T>(&self, act: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Provided<T> {
        let answer =
            callbacks::call(|py| act(self.0.bind(py)).map_err(|error| failure(py, &error)));
        answer.unwrap_or_else(|| {
            Err(ProviderError {
                kind: ProviderErrorKind::Other,
                text: "the interpreter is ending".to_owned(),
            })
        })
    }
}

/// The failure in an exception of the provider, to which `kafkalog.storage` gives a kind.
fn failure(py: Python<'_>, error: &PyErr) -> ProviderError {
    let value = error.value(py);
    let kind = value
        .getattr("kind")
        .and_then(|kind| kind.extract::<String>());
    let kind = match kind.as_deref() {
        Ok("missing") => ProviderErrorKind::Missing,
        Ok("denied") => ProviderErrorKind::Denied,
        Ok("changed") => ProviderErrorKind::Changed,
        Ok("transient") => ProviderErrorKind::Transient,
        Ok("damaged") => errors::damaged_range(value.as_any())
            .map_or(ProviderErrorKind::Other, ProviderErrorKind::Damaged),
        _ => ProviderErrorKind::Other,
    };
    let text = value
        .str()
        .map_or_else(|_| "?".to_owned(), |text| text.to_string());
    ProviderError { kind, text }
}

impl Provider for PyProvider {
    fn list(&self, prefix: &str, recursive: bool) -> Provided<ObjectListing> {
        let found = self.call(|own| {
            let found = own.call_method1("list", (prefix, recursive))?;
            found.extract::<(Vec<InfoTuple>, Vec<String>, u64)>()
        });
        let (objects, folders, requests) = found?;
        Ok(ObjectListing {
            objects: objects.into_iter().map(info).collect(),
            folders,
            requests,
        })
    }

    fn stat(&self, key: &str) -> Provided<Option<ObjectInfo>> {
        let found = self.call(|own| {
            own.call_method1("stat", (key,))?
                .extract::<Option<InfoTuple>>()
        });
        Ok(found?.map(info))
    }

    fn read(&self, object: &ObjectInfo, range: ObjectRange) -> Provided<Bytes> {
        let version = object.version.as_deref();
        let ObjectRange {
            start,
            length,
            is_first,
        } = range;
        self.call(|own| {
            let given = (&object.key, start, length, object.size, version, is_first);
            capsule::shared_bytes(&own.call_method1("read", given)?)
        })
    }

    fn wait(&self, wait: &mut (dyn FnMut() + Send)) {
        // The caller may hold the interpreter: readers of Arrow streams are called by others.
        let mut act = Some(wait);
        let mut once = || {
            if let Some(wait) = act.take() {
                wait();
            }
        };
        if callbacks::without_interpreter(&mut once).is_none() {
            once();
        }
    }
}

/// Mounts a store at a root such as `s3://bucket`.
#[pyfunction]
pub(super) fn mount_storage(
    py: Python<'_>,
    root: &str,
    provider: Py<PyAny>,
    retries: u32,
    timeout: f64,
) -> PyResult<()> {
    let timeout = Duration::try_from_secs_f64(timeout)
        .map_err(|error| PyValueError::new_err(format!("timeout {timeout}: {error}")))?;
    mount(
        root,
        Arc::new(PyProvider(provider)),
        RequestLimits { retries, timeout },
    );
    // One call of a client may take two requests.
    callbacks::wait_at_ends(py, timeout.saturating_mul(2))
}

/// Returns whether a path lies in a mounted store.
#[pyfunction]
pub(super) fn is_mounted(path: PathBuf) -> bool {
    mounted(&path)
}

/// Forgets what was listed at a path of a mounted store, so that the next use lists it anew.
#[pyfunction]
pub(super) fn forget_listings(path: PathBuf) {
    forget(&path);
}

/// Returns "folder" or "file"; None if there is neither.
#[pyfunction]
pub(super) fn path_kind(py: Python<'_>, path: PathBuf) -> PyResult<Option<&'static str>> {
    interrupt::detach(py, || match Folder::at(&path).is_folder() {
        Ok(is_folder) => Ok(Some(if is_folder { "folder" } else { "file" })),
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    })
}

/// Name, whether it is a folder, length and modification time of each entry of a folder; 0 for those of a folder.
#[pyfunction]
pub(super) fn list_folder(
    py: Python<'_>,
    path: PathBuf,
) -> PyResult<Vec<(String, bool, u64, i64)>> {
    interrupt::detach(py, || {
        let folder = Folder::at(&path);
        let mut found = Vec::new();
        for entry in folder.entries()? {
            let entry = entry?;
            let stat = entry.stat()?;
            let (length, modified) = stat.map_or((0, 0), |stat| (stat.length, stat.modified_ms));
            found.push((entry.text(), entry.is_folder(), length, modified));
        }
        found.sort();
        Ok(found)
    })
}

/// Bytes of a file, on a disk or in a mounted store, from `start` on; fewer than `length` at its end.
#[pyfunction]
pub(super) fn read_range(
    py: Python<'_>,
    path: PathBuf,
    start: u64,
    length: u64,
) -> PyResult<Bound<'_, PyBytes>> {
    let bytes = interrupt::detach(py, || {
        let (file, size) = open_file(&path)?;
        let length = size.saturating_sub(start).min(length);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        read_exact_at(&*file, &mut bytes, start)?;
        Ok(bytes)
    })?;
    Ok(PyBytes::new(py, &bytes))
}
