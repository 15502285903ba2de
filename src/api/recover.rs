//! Recovering a log dir or a partition.

use std::path::Path;

use crate::error::Result;
use crate::io::url::absolute;
use crate::tools::recover as tool;
use crate::tools::recover::RecoverySettings as RecoverOptions;
use crate::tools::recover::report::RecoveryReport;

/// Recovers a log dir or one partition folder, with the outcome of a broker's own start after a crash.
///
/// ```
/// # fn main() -> Result<(), kafkalog::Error> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/kill-9/data-1");
/// use kafkalog::{RecoverOptions, recover};
///
/// let report = recover(path, &RecoverOptions::new().dry_run(true))?;
/// for partition in &report.partitions {
///     println!("{}: {} bytes cut", partition.topic_partition, partition.bytes_cut);
///     for note in &partition.notes {
///         println!("  {note}");
///     }
/// }
/// # assert!(!report.partitions.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If a partition is refused ([`OnLoss`](crate::OnLoss)), the error names all refused partitions, and nothing has
/// changed.
/// [`Error::LogLocked`](crate::Error::LogLocked) if a broker or a writer holds the log dir;
/// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a directory for the result that lies inside the
/// source; [`Error::Io`](crate::Error::Io).
pub fn recover(path: impl AsRef<Path>, options: &RecoverOptions) -> Result<RecoveryReport> {
    let mut options = options.clone();
    if let Some(out) = &mut options.out {
        *out = absolute(out)?;
    }
    tool::recover(&absolute(path.as_ref())?, &options)
}
