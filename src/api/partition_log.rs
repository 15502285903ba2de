//! Scans of one partition.

use super::reader::RecordReader;
use super::scan::{ScanOptions, scan, scan_batches};
use crate::error::Result;
use crate::log::partition::PartitionLog;

impl PartitionLog {
    /// Scans the records of this partition.
    ///
    /// # Errors
    /// As [`scan`].
    pub fn scan(&self, options: ScanOptions) -> Result<RecordReader> {
        scan(self.path(), options)
    }

    /// Scans the batches of this partition, one row each.
    ///
    /// # Errors
    /// As [`scan`].
    pub fn scan_batches(&self, options: ScanOptions) -> Result<RecordReader> {
        scan_batches(self.path(), options)
    }
}
