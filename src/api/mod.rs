//! The public API of the crate, re-exported at its root.
//!
//! | module | what |
//! |---|---|
//! | `config` | [`LogConfig`], a topic's settings |
//! | `log_dir` | [`LogDir`], the partitions of a log dir |
//! | `partition_log` | [`PartitionLog`], offsets, timestamps and segments of one partition |
//! | `reader` | [`RecordReader`], an iterator of Arrow record batches |
//! | `recover` | [`recover()`] and its options |
//! | `scan` | [`scan()`], [`scan_batches`] and their options |
//! | `url` | paths that are written as URLs |
//! | `writer` | [`LogWriter`], one partition open for writing |
//!
//! The types here wrap those of the layers below, which can change without a change of the API.

mod config;
mod log_dir;
mod partition_log;
mod reader;
mod recover;
mod scan;
mod url;
mod writer;

pub use self::config::LogConfig;
pub use self::log_dir::LogDir;
pub use self::partition_log::{PartitionLog, Segment};
#[cfg(feature = "python")]
pub(crate) use self::reader::Request;
pub use self::reader::{RecordReader, ScanMetrics};
pub use self::recover::{RecoverOptions, recover};
pub use self::scan::{ScanOptions, scan, scan_batches, scan_log_dirs};
pub(crate) use self::url::local;
pub use self::writer::{LogWriter, WriterOptions};

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};
use crate::types::TimestampMs;

/// The path from the root, so that it holds when the process changes its working directory. Links and `..` stay.
fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(local(path)?).map_err(Error::io(path))
}

fn absolute_all<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Vec<PathBuf>> {
    let paths = paths.into_iter();
    paths.map(|path| absolute(path.as_ref())).collect()
}

/// The system's clock.
pub(crate) fn now_ms() -> TimestampMs {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
}
