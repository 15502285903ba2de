//! Progress of work, readable from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Stage of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Logs are read.
    Read,
    /// The output is written.
    Written,
    /// The output is compacted.
    Compacted,
}

impl Stage {
    const ALL: [Self; 3] = [Self::Read, Self::Written, Self::Compacted];

    /// As the interface says it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Written => "written",
            Self::Compacted => "compacted",
        }
    }
}

/// Progress of work.
#[derive(Debug, Default)]
pub struct Progress {
    stage: AtomicUsize,
    done: Arc<AtomicU64>,
    total: AtomicU64,
    partitions: AtomicU64,
}

impl Progress {
    /// Begins a stage over so many bytes of logs.
    pub(crate) fn begin(&self, stage: Stage, total: u64) {
        let at = Stage::ALL.iter().position(|each| *each == stage);
        self.total.store(0, Ordering::Relaxed);
        self.done.store(0, Ordering::Relaxed);
        self.stage.store(at.unwrap_or_default(), Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Adds so many partition folders to examine.
    pub(crate) fn add_partitions(&self, count: usize) {
        self.partitions.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Partition folders that are examined, for who counts them.
    pub(crate) fn partitions(&self) -> u64 {
        self.partitions.load(Ordering::Relaxed)
    }

    /// Adds so many bytes.
    pub(crate) fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The counter of bytes that are done, for who knows of no progress.
    pub(crate) fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.done)
    }

    /// Current stage.
    pub(crate) fn stage(&self) -> Stage {
        let at = self.stage.load(Ordering::Relaxed);
        Stage::ALL.get(at).copied().unwrap_or(Stage::Read)
    }

    /// Bytes that are done, never more than all.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed).min(self.total())
    }

    /// Bytes of all logs; 0 before they are known.
    pub(crate) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}
