//! The public API of the crate, re-exported at its root.
//!
//! | module | what |
//! |---|---|
//! | `decoding` | schemas for keys and values |
//! | `index` | indexes, read and written |
//! | `log_dir` | topics and partitions of a [`LogDir`] |
//! | `partition_log` | scans of a [`PartitionLog`] |
//! | `plan` | planned ranges of files, and their division |
//! | `reader` | [`RecordReader`], an iterator of Arrow record batches |
//! | `recover` | [`recover()`] |
//! | `rows` | columns that are read and written |
//! | `scan` | [`scan()`], [`scan_batches`] and their options |
//! | `tables` | Kafka's internal topics |
//! | `tools` | recover, compact, retain, rewrite, rebuild, verify, explain, dump, cat |
//! | `writer` | [`LogWriter`], one partition open for writing |
//!
//! Types that a layer below defines are re-exported from there. The bindings import nothing else of the crate but `error`
//! and `types` (`tests/rust/layers.rs`).

pub(crate) mod decoding;
#[cfg(feature = "python")]
pub(crate) mod index;
mod log_dir;
mod partition_log;
#[cfg(feature = "python")]
pub(crate) mod plan;
mod reader;
mod recover;
#[cfg(feature = "python")]
pub(crate) mod rows;
mod scan;
#[cfg(feature = "python")]
pub(crate) mod tables;
#[cfg(feature = "python")]
pub(crate) mod tools;
mod writer;

pub use self::decoding::{
    Decode, DecodeAs, GivenSchema, OnUndecoded, ReaderSchema, SchemaFor, SchemaSource,
};
pub use self::reader::{RecordReader, ScanMetrics};
pub use self::recover::recover;
pub use self::scan::{ScanOptions, scan, scan_batches, scan_log_dirs};
pub use self::writer::{LogWriter, WriterOptions};
pub use crate::log::config::LogConfig;
pub use crate::log::dir::LogDir;
pub use crate::log::partition::PartitionLog;
pub use crate::segment::LogSegment as Segment;
pub use crate::tools::recover::RecoverySettings as RecoverOptions;

/// For the bindings.
#[cfg(feature = "python")]
mod bindings {
    pub(crate) use crate::api::reader::Request;
    pub(crate) use crate::api::writer::{Clock, RowOptions, check_load};
    pub(crate) use crate::arrow::append::Appended;
    pub(crate) use crate::arrow::encode::DEFAULT_BATCH_SIZE;
    pub(crate) use crate::chunks::{
        DataKey, StoredChunk, decode_chunks, decompress_sizes, unwrap_data_key,
    };
    pub(crate) use crate::io::appender::SyncPolicy;
    pub(crate) use crate::io::disk::Disk;
    pub(crate) use crate::io::folder::open_file;
    pub(crate) use crate::io::interrupt::with_cancellation;
    pub(crate) use crate::io::objects::mount::{forget_listings, is_mounted, mount};
    pub(crate) use crate::io::objects::request::{InFlight, RequestLimits, lock_requests};
    pub(crate) use crate::io::provider::{
        ObjectInfo, ObjectListing, ObjectRange, Provided, Provider, ProviderError,
        ProviderErrorKind,
    };
    pub(crate) use crate::io::storage::{Folder, read_exact_at};
    pub(crate) use crate::io::threads::lock;
    pub(crate) use crate::io::url::local;
    pub(crate) use crate::log::dir::{CHECKPOINTS, DirState, PartitionFolder};
    pub(crate) use crate::log::listed::{ListedLog, OffsetAndTimestamp};
    pub(crate) use crate::segment::statistics::SegmentStatistics;
    pub(crate) use crate::write::storage::{Identity, JOB_NOTE, LogDirs, check_names};
}
#[cfg(feature = "python")]
pub(crate) use self::bindings::*;

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::io::url::absolute;

fn absolute_all<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Vec<PathBuf>> {
    let paths = paths.into_iter();
    paths.map(|path| absolute(path.as_ref())).collect()
}
