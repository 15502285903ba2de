//! Apache Kafka's on-disk logs as Arrow, without a broker.
//!
//! [`scan()`] reads a broker's log dir, or a copy of one, as Arrow record batches. [`LogDir`] and [`PartitionLog`] answer
//! what operators ask a broker: offsets, timestamps, segments. [`LogWriter`] writes a partition that a broker mounts, and
//! [`recover()`] repairs a log dir after a crash. Nothing is written, locked or cut where it only reads.
//!
//! ```
//! use kafkalog::{LogDir, ScanOptions, scan};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/clean-restarts/data-1");
//! let options = ScanOptions::new().topics(["orders"]).columns(["offset", "value"]);
//! for batch in scan(path, options)? {
//!     println!("{} rows", batch?.num_rows());
//! }
//!
//! let log = LogDir::open(path)?.partition("orders", 0)?;
//! println!("offsets {} to {}", log.log_start_offset(), log.log_end_offset()?);
//! println!("{:?}", log.offset_for_timestamp(1_700_030_390_000)?);
//! # Ok(())
//! # }
//! ```
//!
//! # Words
//! | word | here |
//! |---|---|
//! | batch | Kafka's record batch; a bare `RecordBatch` is always Arrow's |
//! | offset, position | a record's number in its partition; a byte in a `.log` file |
//! | segment | one `.log` file with its indexes |
//! | index | offset, time or transaction index: a hint; the log is the truth |

#![cfg_attr(
    not(feature = "python"),
    expect(
        dead_code,
        reason = "the bindings use more than the front door; their build finds what is dead"
    )
)]
#![cfg_attr(
    not(feature = "internal"),
    expect(
        unreachable_pub,
        reason = "`internal` reaches it for tests and benches"
    )
)]

// The layers, lowest first. Imports point down only, and siblings do not import each other (`tests/rust/layers.rs`).

mod error;
mod types;

mod format;

mod compress;
mod io;

#[cfg(feature = "decrypt")]
mod chunks;
mod index;
mod records;

mod segment;

mod producers;

mod log;

mod load;
mod scan;

mod write;

mod values;

mod arrow;

mod tables;

mod tools;

mod api;

#[cfg(feature = "internal")]
#[doc(hidden)]
pub mod internal;

pub use api::{
    Decode, DecodeAs, GivenSchema, LogConfig, LogDir, LogWriter, OnUndecoded, PartitionLog,
    ReaderSchema, RecordReader, RecoverOptions, ScanMetrics, ScanOptions, SchemaFor, SchemaSource,
    Segment, WriterOptions, recover, scan, scan_batches, scan_log_dirs,
};
pub use arrow::append::Appended as AppendInfo;
pub use arrow::schema::{Layout, TimestampUnit};
pub use error::{Error, Fault, FaultKind, Location, ProducerFault, ProducerRule, Refusal, Result};
pub use io::appender::SyncPolicy;
pub use io::overlay::FileChange;
pub use load::{Loss, Note, OnLoss};
pub use log::partition::{Lookup, OffsetAndTimestamp};
pub use scan::plan::{Ending as EndingOffsets, IsolationLevel, Starting as StartingOffsets};
pub use segment::skipping::OnCorrupt;
pub use segment::statistics::{SegmentStatistics, Tally};
pub use tools::recover::report::{LeftOut, PartitionReport, RecoveryReport};
pub use types::TopicPartition;
pub use write::checkpoints::CheckpointChange;

#[cfg(feature = "python")]
mod python;

/// The Rust lines of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
