//! Chunks of segments in tiered storage.

use std::path::Path;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors::into_py;
use crate::api::{DataKey, StoredChunk, decode_chunks, unwrap_data_key};

/// Opens the chunks of a segment; it holds the data key, which no repr shows and no pickle keeps.
#[pyclass(name = "ChunkReader", frozen, module = "kafkalog._core")]
pub(super) struct PyChunkReader {
    is_compressed: bool,
    key: Option<DataKey>,
}

#[pymethods]
impl PyChunkReader {
    /// With the wrapped data key, the private key in PEM that it is opened with, and what the tags cover besides.
    #[new]
    #[pyo3(signature = (*, compressed, private_key=None, wrapped=None, aad=None))]
    fn new(
        py: Python<'_>,
        compressed: bool,
        private_key: Option<&str>,
        wrapped: Option<&[u8]>,
        aad: Option<&[u8]>,
    ) -> PyResult<Self> {
        let key = py.detach(|| {
            let open = |pem| {
                let data_key = unwrap_data_key(pem, wrapped.unwrap_or_default())?;
                DataKey::new(&data_key, aad.unwrap_or_default())
            };
            private_key.map(open).transpose()
        });
        Ok(Self {
            is_compressed: compressed,
            key: key.map_err(into_py)?,
        })
    }

    /// Decodes consecutive chunks that begin at `position` of the object `name`, of which each has these sizes, stored and
    /// original.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        stored: &[u8],
        position: u64,
        sizes: Vec<(usize, usize)>,
        name: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let chunk = |(size, original)| StoredChunk { size, original };
        let chunks: Vec<_> = sizes.into_iter().map(chunk).collect();
        let key = self.key.as_ref();
        let decoded =
            py.detach(|| decode_chunks(stored, position, &chunks, self.is_compressed, key));
        let decoded = decoded.map_err(|error| into_py(error.at(Path::new(name))));
        Ok(PyBytes::new(py, &decoded?))
    }

    /// Opens an index, which is never compressed; its length is not known before.
    fn open<'py>(
        &self,
        py: Python<'py>,
        stored: &[u8],
        position: u64,
        name: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let opened = match &self.key {
            Some(key) => py
                .detach(|| key.open(stored, position))
                .map_err(|error| into_py(error.at(Path::new(name))))?,
            None => stored.to_vec(),
        };
        Ok(PyBytes::new(py, &opened))
    }
}

/// Decompresses the sizes of chunks in a manifest: one frame, at most `limit` bytes.
#[pyfunction]
pub(super) fn decompress_sizes<'py>(
    py: Python<'py>,
    stored: &[u8],
    limit: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let sizes = crate::api::decompress_sizes(stored, limit).map_err(into_py)?;
    Ok(PyBytes::new(py, &sizes))
}
