//! A log dir's `.lock` (`FileLock`): its holder may write there.
//!
//! Brokers lock it through a Java channel, which is a POSIX record lock over the whole file (`fcntl`, not `flock`: the
//! two do not see each other). Such locks have two traps. They belong to the process, so a second lock of the same
//! process is granted: a registry lists the locks of this process. And they are released as soon as the process closes
//! *any* descriptor of the file: it is opened only here, once, after a look into the registry. A forked child inherits
//! the registry but not the locks, so entries carry the process they are of.
//!
//! Writers of one process share a log dir's lock; each partition folder in it is claimed by one of them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use super::file::{open_as, open_or_create};
use super::threads::lock;
use crate::error::{Error, Result};

/// The file's name (`LogManager.LOCK_FILE_NAME`).
pub const LOCK_FILE: &str = ".lock";
/// Number of attempts at a lock whose former holder removes it meanwhile.
const TRIES: usize = 10;

/// Identity of a folder, whatever name it is reached by.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FolderId {
    #[cfg(unix)]
    inode: (u64, u64),
    #[cfg(not(unix))]
    path: PathBuf,
}

impl FolderId {
    fn of(folder: &Path) -> io::Result<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            let meta = fs::metadata(folder)?;
            Ok(Self {
                inode: (meta.dev(), meta.ino()),
            })
        }
        #[cfg(not(unix))]
        {
            folder.canonicalize().map(|path| Self { path })
        }
    }
}

/// A lock this process holds.
#[derive(Debug)]
struct HeldLock {
    folder: FolderId,
    process: u32,
    path: PathBuf,
    /// Open as long as the lock is held; closing it is what ends it.
    file: File,
    /// True if the file is removed with the lock: a refused open leaves no name that was not there.
    is_new: bool,
    users: usize,
    claims: BTreeSet<String>,
}

static HELD: Mutex<Vec<HeldLock>> = Mutex::new(Vec::new());

fn held() -> MutexGuard<'static, Vec<HeldLock>> {
    lock(&HELD)
}

/// A share in the lock of a log dir; the last one dropped ends it, and removes the file if it was created for the lock.
#[derive(Debug)]
pub struct LogDirLock {
    folder: FolderId,
    process: u32,
    path: PathBuf,
}

/// The right to write to one partition folder of a locked log dir.
#[derive(Debug)]
pub struct PartitionClaim {
    lock: LogDirLock,
    name: String,
}

impl LogDirLock {
    /// Locks the log dir, or joins in where this process has locked it.
    ///
    /// # Errors
    /// `LogLocked` where another process holds it, `Io` where the file cannot be made or locked.
    pub fn acquire(log_dir: &Path) -> Result<Self> {
        let path = log_dir.join(LOCK_FILE);
        let folder = FolderId::of(log_dir).map_err(Error::io(log_dir))?;
        let process = std::process::id();
        let mut held = held();
        // What a parent process held is not held here.
        held.retain(|lock| lock.process == process);
        if let Some(lock) = held.iter_mut().find(|lock| lock.folder == folder) {
            lock.users = lock.users.saturating_add(1);
            let path = lock.path.clone();
            return Ok(Self {
                folder,
                process,
                path,
            });
        }
        let (file, is_new) = lock_file(&path)?;
        held.push(HeldLock {
            folder: folder.clone(),
            process,
            path: path.clone(),
            file,
            is_new,
            users: 1,
            claims: BTreeSet::new(),
        });
        drop(held);
        Ok(Self {
            folder,
            process,
            path,
        })
    }

    /// Returns whether the lock is this process's: it is not in a forked child.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.process == std::process::id()
    }

    /// Returns whether both are shares in the lock of one log dir.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.process == other.process && self.folder == other.folder
    }

    /// Claims a partition folder of the log dir, by its name there.
    ///
    /// # Errors
    /// `LogLocked` where another writer of this process has claimed it.
    pub fn claim(&self, partition: &str) -> Result<PartitionClaim> {
        let mut held = held();
        let mine = held.iter_mut().find(|lock| self.is(lock));
        let claimed =
            mine.and_then(|lock| lock.claims.insert(partition.to_owned()).then_some(lock));
        let Some(lock) = claimed else {
            return Err(Error::LogLocked {
                path: self.path.clone(),
            });
        };
        lock.users = lock.users.saturating_add(1);
        Ok(PartitionClaim {
            lock: Self {
                folder: self.folder.clone(),
                process: self.process,
                path: self.path.clone(),
            },
            name: partition.to_owned(),
        })
    }

    fn is(&self, lock: &HeldLock) -> bool {
        self.is_held() && lock.process == self.process && lock.folder == self.folder
    }
}

impl Drop for LogDirLock {
    fn drop(&mut self) {
        let mut held = held();
        let Some(at) = held.iter().position(|lock| self.is(lock)) else {
            return;
        };
        let Some(lock) = held.get_mut(at) else {
            return;
        };
        lock.users = lock.users.saturating_sub(1);
        if lock.users == 0 {
            let lock = held.swap_remove(at);
            // Removed while locked: a process that has opened it meanwhile notices that it is no longer there. Where it
            // cannot be removed it stays, which does no harm.
            if lock.is_new {
                let _ = fs::remove_file(&lock.path);
            }
            drop(lock.file);
        }
    }
}

impl Drop for PartitionClaim {
    fn drop(&mut self) {
        let mut held = held();
        if let Some(lock) = held.iter_mut().find(|lock| self.lock.is(lock)) {
            lock.claims.remove(&self.name);
        }
    }
}

/// Opens and locks the file, and returns whether it was created. One that its former holder removed between the two is
/// not the one others will open.
fn lock_file(path: &Path) -> Result<(File, bool)> {
    for _ in 0..TRIES {
        let (file, is_new) = opened(path).map_err(Error::io(path))?;
        match try_lock(&file) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return Err(Error::io(path)(error)),
        }
        if is_at(&file, path).map_err(Error::io(path))? {
            return Ok((file, is_new));
        }
    }
    Err(Error::LogLocked {
        path: path.to_path_buf(),
    })
}

/// Opens the file, and returns whether it was created for this.
fn opened(path: &Path) -> io::Result<(File, bool)> {
    let mut options = File::options();
    match open_as(path, options.read(true).write(true).create_new(true)) {
        Ok((file, _)) => Ok((file, true)),
        // Another process may remove it in between.
        Err(_) => open_or_create(path).map(|file| (file, false)),
    }
}

/// Returns whether it is `file` that has this name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let mine = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (mine.dev(), mine.ino())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Windows removes no file that is open.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Returns whether the lock could be taken.
#[cfg(unix)]
fn try_lock(file: &File) -> io::Result<bool> {
    use rustix::fs::{FlockOperation, fcntl_lock};
    use rustix::io::Errno;
    match fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::ACCESS | Errno::AGAIN) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Java locks with `LockFileEx` there, and so does the standard library.
#[cfg(not(unix))]
fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(fs::TryLockError::WouldBlock) => Ok(false),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_of_a_process_share_the_lock_and_claim_partitions() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(LOCK_FILE);
        let first = LogDirLock::acquire(folder.path()).unwrap();
        assert!(first.is_held() && first.path == file && file.exists());
        // By whatever name.
        let again = LogDirLock::acquire(&folder.path().join(".")).unwrap();
        let claim = first.claim("t-0").unwrap();
        let refused = again.claim("t-0").unwrap_err();
        assert!(matches!(&refused, Error::LogLocked { path } if *path == file));
        assert!(refused.to_string().contains(".lock"), "{refused}");
        let other = again.claim("t-1").unwrap();
        assert_eq!(
            (other.name.as_str(), other.lock.path.as_path()),
            ("t-1", file.as_path())
        );
        drop((first, again));
        assert!(file.exists());
        drop(claim);
        let again = LogDirLock::acquire(folder.path()).unwrap();
        assert!(again.claim("t-0").is_ok());
        drop((again, other));
        assert!(!file.exists());
        assert!(LogDirLock::acquire(&folder.path().join("gone")).is_err());
        // One that was there stays.
        fs::write(&file, "mine").unwrap();
        drop(LogDirLock::acquire(folder.path()).unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    }

    #[test]
    fn taken_and_left_by_many_threads() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for n in 0..8 {
                let folder = folder.path();
                scope.spawn(move || {
                    for _ in 0..200 {
                        let lock = LogDirLock::acquire(folder).unwrap();
                        let claim = lock.claim(&format!("t-{n}")).unwrap();
                        assert!(folder.join(LOCK_FILE).exists());
                        drop(lock);
                        assert!(folder.join(LOCK_FILE).exists());
                        drop(claim);
                    }
                });
            }
        });
        assert!(!folder.path().join(LOCK_FILE).exists());
    }
}
