//! The checks of `tests/rust`, for the fuzz targets.
//!
//! `python3 tests/run.py fuzz` builds all targets with coverage and AddressSanitizer and runs them for a minute, from
//! seeds of `tests/golden`. To fuzz one for longer, run `target/fuzzing/build/debug/<target>` with a folder; with
//! a file it repeats that one input.

#[path = "../../rust/checks.rs"]
pub mod checks;
