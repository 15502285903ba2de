//! Apache Kafka's on-disk logs as Arrow, without a broker.
//!
//! # Layers
//! `python -> tools -> arrow -> write -> load, scan -> log -> producers -> segment -> index, records -> io, compress,
//! format -> types, error`.
//! Imports point down only (`tests/rust/layers.rs`); siblings do not import each other.
//!
//! # Words
//! | word | here |
//! |---|---|
//! | batch | Kafka's record batch; a bare `RecordBatch` is always Arrow's |
//! | offset, position | a record's number in its partition; a byte in a `.log` file |
//! | segment | one `.log` file with its indexes |
//! | index | offset, time or transaction index: a hint; the log is the truth |

pub mod error;
pub mod types;

pub mod compress;
pub mod format;
pub mod io;

pub mod index;
pub mod records;

pub mod segment;

pub mod producers;

pub mod log;

pub mod load;
pub mod scan;

pub mod write;

pub mod arrow;

pub mod tools;

#[cfg(feature = "python")]
mod python;
