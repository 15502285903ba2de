//! The bindings: parse arguments, detach, call the core, convert. Nothing else.

use pyo3::prelude::*;

/// The compiled module, `kafkalog._core`.
#[pymodule(gil_used = false)]
mod _core {
    use super::*;

    #[pymodule_init]
    fn init(m: &Bound<'_, PyModule>) -> PyResult<()> {
        m.add("__version__", env!("CARGO_PKG_VERSION"))?;
        m.add(
            "build_profile",
            if cfg!(debug_assertions) {
                "debug"
            } else {
                "release"
            },
        )
    }
}
