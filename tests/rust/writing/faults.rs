//! A disk that fails at a chosen step, and what it forgets when the power goes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use kafkalog::internal::io::disk::{DiskStep, Faults, InjectedFailure};

/// Way in which a step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Once, with nothing done: the disk is full.
    Full,
    /// Once; of a write this many bytes get through.
    Short(usize),
    /// For good; of a write this many bytes get through: the process is gone.
    Crash(usize),
}

impl Mode {
    pub const fn is_crash(self) -> bool {
        matches!(self, Self::Crash(_))
    }
}

#[derive(Debug, Default)]
struct State {
    steps: usize,
    fails_at: Option<(usize, Mode)>,
    is_gone: bool,
    /// Lengths that have reached the disk, by inode.
    synced: BTreeMap<u64, u64>,
    /// Inodes whose names have.
    named: BTreeMap<String, u64>,
}

/// Counts steps and fails at one.
#[derive(Debug, Default)]
pub struct FaultyDisk(Mutex<State>);

impl FaultyDisk {
    /// One that fails at the step of this number.
    pub fn failing(at: usize, mode: Mode) -> Self {
        let disk = Self::default();
        disk.fail_at(at, mode);
        disk
    }

    /// Fails at the step of this number from here.
    pub fn fail_at(&self, ahead: usize, mode: Mode) {
        let mut state = self.0.lock().unwrap();
        state.fails_at = Some((state.steps + ahead, mode));
    }

    /// Steps so far.
    pub fn steps(&self) -> usize {
        self.0.lock().unwrap().steps
    }

    /// Nothing fails any more.
    pub fn mend(&self) {
        let mut state = self.0.lock().unwrap();
        state.is_gone = false;
        state.fails_at = None;
    }

    /// The power has gone: bytes and names that were not synced are lost.
    pub fn lose(&self, folder: &Path) {
        let state = self.0.lock().unwrap();
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let inode = inode(&path);
            if !state.named.values().any(|&named| named == inode) {
                fs::remove_file(&path).unwrap();
                continue;
            }
            let is_index = path.to_string_lossy().ends_with("index");
            let synced = state.synced.get(&inode).copied().unwrap_or(0);
            if !is_index && fs::metadata(&path).unwrap().len() > synced {
                let file = fs::File::options().write(true).open(&path).unwrap();
                file.set_len(synced).unwrap();
            }
        }
    }
}

#[cfg(unix)]
fn inode(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).unwrap().ino()
}

/// Only requested where the power goes, which is tested elsewhere.
#[cfg(not(unix))]
fn inode(_: &Path) -> u64 {
    0
}

impl Faults for FaultyDisk {
    fn before(&self, step: DiskStep, path: &Path) -> Result<(), InjectedFailure> {
        let mut state = self.0.lock().unwrap();
        let number = state.steps;
        state.steps += 1;
        if state.is_gone {
            return Err(io::Error::other("the process is gone").into());
        }
        if let Some((at, mode)) = state.fails_at
            && at == number
        {
            let written = match mode {
                Mode::Full => 0,
                Mode::Short(n) | Mode::Crash(n) => match step {
                    DiskStep::Write { len } => n.min(len),
                    _ => 0,
                },
            };
            state.is_gone = mode.is_crash();
            let error = io::ErrorKind::StorageFull.into();
            return Err(InjectedFailure { written, error });
        }
        match step {
            DiskStep::Sync => {
                let length = fs::metadata(path).unwrap().len();
                state.synced.insert(inode(path), length);
            }
            DiskStep::SyncFolder => {
                state.named = fs::read_dir(path)
                    .unwrap()
                    .map(|entry| {
                        let path = entry.unwrap().path();
                        (path.to_string_lossy().into_owned(), inode(&path))
                    })
                    .collect();
            }
            _ => {}
        }
        Ok(())
    }
}
