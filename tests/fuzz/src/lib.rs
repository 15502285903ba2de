//! The checks of `tests/rust`, for the fuzz targets.
//!
//! `cargo +nightly fuzz run --fuzz-dir tests/fuzz TARGET` with a target of `fuzz_targets/`; seeds for `segment` and
//! `batch` are the `.log` files under `tests/golden`, for `index` the index files.


#[path = "../../rust/checks.rs"]
pub mod checks;
