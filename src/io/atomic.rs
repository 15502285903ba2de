//! Small files replaced whole: a reader sees the old bytes or the new ones, also after a crash.
//!
//! Written beside as `<name>.tmp`, synced, renamed, and the folder synced, as Kafka writes its checkpoints
//! (`CheckpointFile.write`, `Utils.atomicMoveWithFallback`).

use std::path::{Path, PathBuf};

use super::disk::Disk;
use crate::error::Result;

/// Suffix of the half-written file's name.
pub(crate) const TMP_SUFFIX: &str = ".tmp";

/// The name under which `path`'s new bytes are written.
#[must_use]
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TMP_SUFFIX);
    PathBuf::from(name)
}

/// The folder a file lies in.
#[must_use]
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes `bytes` the content of `path`, on the device when this returns.
///
/// # Errors
/// `Io`; the old content is still there unless the last step, syncing the folder, is what failed.
pub(crate) fn replace(disk: &Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    let new = beside(path);
    let file = disk.create(&new)?;
    disk.write(&file, &new, bytes)?;
    disk.sync(&file, &new)?;
    drop(file);
    disk.rename(&new, path)?;
    disk.sync_folder(folder_of(path))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io;
    use std::sync::Arc;
    use std::sync::Mutex;

    use super::*;
    use crate::error::Error;
    use crate::io::disk::{DiskStep, Faults, InjectedFailure};

    /// Lets `allowed` steps through, then fails; of a write it lets 3 bytes through.
    #[derive(Debug)]
    struct After {
        allowed: usize,
        seen: Mutex<Vec<(DiskStep, String)>>,
    }

    impl Faults for After {
        fn before(&self, step: DiskStep, path: &Path) -> Result<(), InjectedFailure> {
            let mut seen = self.seen.lock().unwrap();
            if seen.len() == self.allowed {
                return Err(InjectedFailure {
                    written: 3,
                    error: io::Error::from_raw_os_error(28),
                });
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            seen.push((step, name));
            Ok(())
        }
    }

    #[test]
    fn every_step_may_fail_and_none_leaves_half_a_file() {
        for allowed in 0..=5 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("checkpoint");
            fs::write(&path, "old").unwrap();
            let faults = Arc::new(After {
                allowed,
                seen: Mutex::default(),
            });
            let disk = Disk::with_faults(Arc::<After>::clone(&faults));
            let done = replace(&disk, &path, b"brand new");
            assert_eq!(done.is_ok(), allowed == 5, "{allowed}");
            if let Err(error) = done {
                assert!(
                    matches!(&error, Error::Io { source, .. } if source.raw_os_error() == Some(28))
                );
            }
            let now = fs::read(&path).unwrap();
            assert_eq!(
                now,
                if allowed < 4 {
                    &b"old"[..]
                } else {
                    b"brand new"
                }
            );
            if allowed == 1 {
                assert_eq!(fs::read(beside(&path)).unwrap(), b"bra");
            }
            if allowed == 5 {
                let steps: Vec<_> = faults.seen.lock().unwrap().clone();
                let folder = folder.path().file_name().unwrap().to_string_lossy();
                let tmp = "checkpoint.tmp".to_owned();
                let expected = [
                    (DiskStep::Create, tmp.clone()),
                    (DiskStep::Write { len: 9 }, tmp.clone()),
                    (DiskStep::Sync, tmp),
                    (DiskStep::Rename, "checkpoint".to_owned()),
                    (DiskStep::SyncFolder, folder.into_owned()),
                ];
                assert_eq!(steps, expected);
                assert!(!beside(&path).exists());
            }
        }
    }

    #[test]
    fn a_name_without_a_folder_lies_here() {
        assert_eq!(folder_of(Path::new("x")), Path::new("."));
        assert_eq!(folder_of(Path::new("a/x")), Path::new("a"));
        assert_eq!(beside(Path::new("a/x.y")), Path::new("a/x.y.tmp"));
    }
}
