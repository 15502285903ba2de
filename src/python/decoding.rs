//! The decoding of keys and values, as Python holds and pickles it.

#![expect(
    clippy::needless_pass_by_value,
    reason = "arguments of Python functions are owned"
)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::errors::into_py;
use super::interrupt;
use super::options::on_corrupt_of;
use super::range::{PyPartitionRange, ranges_of};
use crate::api::decoding::{
    DecodeAs, DecodeRequest, Decoding, FoundSchemas, GivenSchema, OnUndecoded, ReaderSchema,
    SchemaFor, SchemaKind, SchemaSource, Side, find_schemas,
};

/// Decoding of a scan's keys and values, with all schemas for it.
#[pyclass(name = "Decoding", frozen, module = "kafkalog._core")]
pub(super) struct PyDecoding(pub(super) Arc<Decoding>);

/// A schema that the user gives: id, GUID or topic; format, text, and the names and texts of its imports.
type Given = (
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<String>,
    String,
    Vec<(String, String)>,
);

#[derive(FromPyObject)]
pub(super) enum ReaderArgument {
    Version(i32),
    Text(String),
    Importing(String, Vec<(String, String)>),
}

impl From<ReaderArgument> for ReaderSchema {
    fn from(reader: ReaderArgument) -> Self {
        match reader {
            ReaderArgument::Version(version) => Self::Version(version),
            ReaderArgument::Text(text) if text == "latest" => Self::Latest,
            ReaderArgument::Text(text) => Self::Text(text),
            ReaderArgument::Importing(text, imports) => Self::Importing(text, imports),
        }
    }
}

/// The schemas for a scan.
#[pyclass(name = "FoundSchemas", frozen, module = "kafkalog._core")]
pub(super) struct PyFoundSchemas(FoundSchemas);

/// Finds the schemas for `ranges`, which were found in `paths`.
#[pyfunction]
#[pyo3(signature = (ranges, paths, *, log_dirs=None, given=None, on_corrupt="raise"))]
pub(super) fn find_schemas_of(
    py: Python<'_>,
    ranges: Vec<Py<PyPartitionRange>>,
    paths: Vec<PathBuf>,
    log_dirs: Option<Vec<PathBuf>>,
    given: Option<Vec<Given>>,
    on_corrupt: &str,
) -> PyResult<PyFoundSchemas> {
    let (source, ranges) = (source_of(log_dirs, given)?, ranges_of(&ranges));
    let on_corrupt = on_corrupt_of(on_corrupt)?;
    let find = || find_schemas(&paths, &ranges, &source, on_corrupt);
    Ok(PyFoundSchemas(interrupt::detach(py, find)?))
}

#[pymethods]
impl PyFoundSchemas {
    /// Chooses schemas for the keys and values of `ranges`.
    #[pyo3(signature = (ranges, *, sides, reader=None, readers=None, decode_as="struct", on_undecoded="raise"))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of one Python function"
    )]
    fn plan(
        &self,
        py: Python<'_>,
        ranges: Vec<Py<PyPartitionRange>>,
        sides: &str,
        reader: Option<ReaderArgument>,
        readers: Option<BTreeMap<String, ReaderArgument>>,
        decode_as: &str,
        on_undecoded: &str,
    ) -> PyResult<PyDecoding> {
        let readers = readers.unwrap_or_default().into_iter();
        let request = DecodeRequest {
            key: matches!(sides, "key" | "both"),
            value: matches!(sides, "value" | "both"),
            reader: reader.map(Into::into).unwrap_or_default(),
            readers: readers
                .map(|(topic, reader)| (topic, reader.into()))
                .collect(),
            decode_as: match decode_as {
                "json" => DecodeAs::Json,
                _ => DecodeAs::Struct,
            },
            on_undecoded: match on_undecoded {
                "null" => OnUndecoded::Null,
                "skip" => OnUndecoded::Skip,
                _ => OnUndecoded::Raise,
            },
        };
        let ranges = ranges_of(&ranges);
        let plan = || self.0.clone().plan(&ranges, &request);
        Ok(PyDecoding(Arc::new(interrupt::detach(py, plan)?)))
    }

    /// The same reader schemas with these schemas.
    fn refresh(&self, py: Python<'_>, decoding: &PyDecoding) -> PyResult<PyDecoding> {
        let refresh = || self.0.clone().refresh(&decoding.0);
        Ok(PyDecoding(Arc::new(interrupt::detach(py, refresh)?)))
    }
}

fn source_of(log_dirs: Option<Vec<PathBuf>>, given: Option<Vec<Given>>) -> PyResult<SchemaSource> {
    Ok(match (log_dirs, given) {
        (Some(dirs), _) => SchemaSource::LogDirs(dirs),
        (None, Some(given)) => {
            SchemaSource::Given(given.into_iter().map(given_of).collect::<PyResult<_>>()?)
        }
        (None, None) => SchemaSource::Beside,
    })
}

fn given_of((id, guid, topic, kind, text, imports): Given) -> PyResult<GivenSchema> {
    let to = match (id, guid, topic) {
        (Some(id), ..) => SchemaFor::Id(id),
        (_, Some(guid), _) => SchemaFor::Guid(guid),
        (.., Some(topic)) => SchemaFor::Topic(topic),
        (None, None, None) => return Err(PyValueError::new_err("a schema for nothing")),
    };
    Ok(GivenSchema {
        to,
        kind: kind.map(|kind| SchemaKind::of(Some(&kind))),
        text,
        imports,
    })
}

/// Restores a decoding from its JSON.
#[pyfunction]
pub(super) fn decoding_from_json(json: &str) -> PyResult<PyDecoding> {
    let decoding = serde_json::from_str(json).map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(PyDecoding(Arc::new(decoding)))
}

#[pymethods]
impl PyDecoding {
    /// The JSON that `decoding_from_json` takes.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&*self.0).map_err(|e| PyValueError::new_err(e.to_string()))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let restore = py.import("kafkalog._core")?.getattr("decoding_from_json")?;
        Ok((restore, (self.to_json()?,)))
    }

    fn __repr__(&self) -> String {
        format!("<Decoding, {} schemas>", self.0.schemas.rows().len())
    }

    /// The same for these fields alone, each as the names that lead to it.
    #[pyo3(signature = (*, key=None, value=None))]
    fn projected(
        &self,
        key: Option<Vec<Vec<String>>>,
        value: Option<Vec<Vec<String>>>,
    ) -> PyResult<Self> {
        let mut own = (*self.0).clone();
        for (side, fields) in [(Side::Key, key), (Side::Value, value)] {
            let fields = fields.unwrap_or_default();
            own = own.projected(side, &fields).map_err(into_py)?;
        }
        Ok(Self(Arc::new(own)))
    }
}
