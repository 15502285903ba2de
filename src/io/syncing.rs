//! Syncs on a separate thread, in parallel with the work, for output that counts only once it is complete.
//!
//! Work continues while the device writes. The order in which files reach the device is not defined: a caller that
//! relies on it must sync them itself. [`Syncing::settle`] waits for the rest and reports errors.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

use super::threads::{lock, wait};
use crate::error::{Error, Result};

/// Files that wait, each with a descriptor: more would have to be open at once. The work waits then, as the device does
/// not keep up.
const MAX_PENDING: usize = 64;

/// Files on their way to the device.
#[derive(Debug)]
pub(super) struct Syncing {
    shared: Arc<SyncQueue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct SyncQueue {
    state: Mutex<SyncState>,
    /// Notified when files wait, fewer wait, or it is over.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SyncState {
    waiting: VecDeque<(PathBuf, File)>,
    has_ended: bool,
    /// The first that failed.
    failed: Option<(PathBuf, io::Error)>,
}

impl SyncState {
    fn outcome(&self) -> Result<()> {
        let Some((path, error)) = &self.failed else {
            return Ok(());
        };
        let code = error.raw_os_error();
        let again = code.map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
        Err(Error::io(path)(again))
    }
}

impl SyncQueue {
    /// Nothing here is written in steps that a panic could leave half done.
    fn lock(&self) -> MutexGuard<'_, SyncState> {
        lock(&self.state)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, SyncState>) -> MutexGuard<'a, SyncState> {
        wait(&self.changed, state)
    }

    /// Syncs what comes, until it is over and nothing waits.
    fn run(&self) {
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() && !state.has_ended {
                state = self.wait(state);
            }
            let Some((path, file)) = state.waiting.pop_front() else {
                return;
            };
            let has_failed = state.failed.is_some();
            drop(state);
            self.changed.notify_all();
            // After a failure nothing counts any more.
            if !has_failed && let Err(error) = file.sync_all() {
                self.lock().failed = Some((path, error));
            }
        }
    }
}

impl Syncing {
    /// Starts the thread; `None` where none is available.
    pub(super) fn start() -> Option<Self> {
        let shared = Arc::<SyncQueue>::default();
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("kafkalog-sync".to_owned());
        let started = thread.spawn(move || of_thread.run()).ok()?;
        Some(Self {
            shared,
            thread: Mutex::new(Some(started)),
        })
    }

    /// Lets the thread sync a file or folder, with what has been written to it so far.
    ///
    /// # Errors
    /// `Io`: what failed before, or where the file cannot be handed over.
    pub(super) fn add(&self, file: &File, path: &Path) -> Result<()> {
        let file = file.try_clone().map_err(Error::io(path))?;
        let mut state = self.shared.lock();
        while state.waiting.len() >= MAX_PENDING && state.failed.is_none() {
            state = self.shared.wait(state);
        }
        state.outcome()?;
        state.waiting.push_back((path.to_path_buf(), file));
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Waits until everything is on the device.
    ///
    /// # Errors
    /// `Io`: the first that failed.
    pub(super) fn settle(&self) -> Result<()> {
        self.end();
        self.shared.lock().outcome()
    }

    fn end(&self) {
        self.shared.lock().has_ended = true;
        self.shared.changed.notify_all();
        let mut thread = lock(&self.thread);
        if let Some(thread) = thread.take() {
            // It does not panic.
            drop(thread.join());
        }
    }
}

impl Drop for Syncing {
    fn drop(&mut self) {
        // Not settled: nothing of it counts.
        self.shared.lock().waiting.clear();
        self.end();
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::super::disk::Disk;
    use super::*;

    /// An object that cannot be synced: the end of a pipe.
    fn pipe() -> File {
        let (end, _) = std::io::pipe().unwrap();
        File::from(OwnedFd::from(end))
    }

    #[test]
    fn more_than_may_wait() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let file = File::create(&path).unwrap();
        let disk = Disk::default().syncing_beside();
        for _ in 0..3 * MAX_PENDING {
            disk.sync(&file, &path).unwrap();
        }
        disk.sync_folder(folder.path()).unwrap();
        disk.settled().unwrap();
    }

    #[test]
    fn what_cannot_be_synced_is_an_error_in_the_end() {
        let (file, path) = (pipe(), Path::new("some/file"));
        let disk = Disk::default().syncing_beside();
        disk.sync(&file, path).unwrap();
        match disk.settled().unwrap_err() {
            Error::Io { path, source, .. } => {
                assert_eq!(path, Path::new("some/file"));
                assert!(source.raw_os_error().is_some(), "{source}");
            }
            error => panic!("{error}"),
        }
    }

    /// It need not be waited for: later syncs say so.
    #[test]
    fn work_ends_early_after_a_failure() {
        let (file, path) = (pipe(), Path::new("some/file"));
        let mut steps = 0;
        let disk = Disk::default().syncing_beside();
        let done = loop {
            match disk.sync(&file, path) {
                Ok(()) => steps += 1,
                failed => break failed,
            }
        };
        assert!(matches!(done, Err(Error::Io { .. })), "{steps}");
    }
}
