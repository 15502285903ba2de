//! A cache of the checkpoints that were read last. They have a line for each partition of a log dir, and each partition
//! that is opened alone needs its own line: opening ten thousand would read a hundred million lines.
//!
//! The content is reused while the file is unchanged. A file that was modified just now is read each time, because
//! another change could leave it with the same times.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::types::{Offset, TopicPartition};

/// Shorter files are read again as quickly.
#[cfg(unix)]
const MIN_BYTES: u64 = 4 << 10;
/// Files kept at most: those of two log dirs.
const MAX_ENTRIES: usize = 6;
/// Seconds for which a file must be unchanged.
#[cfg(unix)]
const SETTLED: u64 = 2;

/// Offsets by partition.
pub(crate) type PartitionOffsets = BTreeMap<TopicPartition, Offset>;

static KEPT: Mutex<VecDeque<KeptCheckpoint>> = Mutex::new(VecDeque::new());

#[derive(Debug)]
struct KeptCheckpoint {
    path: PathBuf,
    stamp: Stamp,
    offsets: Arc<PartitionOffsets>,
}

/// Identity of a file and its content: device, inode, length, and the times of the last change of content and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// Of a file that is worth keeping.
    #[cfg(unix)]
    fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let about = std::fs::metadata(path).ok()?;
        let age = about.modified().ok()?.elapsed().ok()?;
        (about.len() >= MIN_BYTES && age.as_secs() >= SETTLED).then(|| Self {
            device: about.dev(),
            inode: about.ino(),
            length: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        })
    }

    /// Other systems do not tell files apart.
    #[cfg(not(unix))]
    const fn of(_: &Path) -> Option<Self> {
        None
    }
}

/// Returns the offsets that `read` finds in the checkpoint at `path`, or found before.
pub(super) fn offsets(
    path: &Path,
    read: impl FnOnce() -> Option<PartitionOffsets>,
) -> Option<Arc<PartitionOffsets>> {
    let stamp = Stamp::of(path);
    if let Some(known) = stamp.and_then(|stamp| find(path, stamp)) {
        return Some(known);
    }
    let found = Arc::new(read()?);
    // Nobody replaced it meanwhile.
    if let Some(stamp) = stamp.filter(|&stamp| Stamp::of(path) == Some(stamp)) {
        keep(path, stamp, &found);
    }
    Some(found)
}

fn find(path: &Path, stamp: Stamp) -> Option<Arc<PartitionOffsets>> {
    // Nobody waits: in a forked process it may stay locked.
    let kept = KEPT.try_lock().ok()?;
    let found = kept.iter().find(|kept| kept.path == path)?;
    (found.stamp == stamp).then(|| Arc::clone(&found.offsets))
}

fn keep(path: &Path, stamp: Stamp, offsets: &Arc<PartitionOffsets>) {
    let Ok(mut kept) = KEPT.try_lock() else {
        return;
    };
    kept.retain(|kept| kept.path != path);
    kept.push_front(KeptCheckpoint {
        path: path.to_path_buf(),
        stamp,
        offsets: Arc::clone(offsets),
    });
    kept.truncate(MAX_ENTRIES);
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    /// The number in the file, and whether it was read.
    fn ask(path: &Path) -> (Offset, bool) {
        let mut is_read = false;
        let found = offsets(path, || {
            is_read = true;
            let text = fs::read_to_string(path).ok()?;
            let offset = text.trim().parse().ok()?;
            Some([(TopicPartition::new("t", 0), offset)].into())
        });
        (found.unwrap()[&TopicPartition::new("t", 0)], is_read)
    }

    fn write(path: &Path, number: u32, age: u64) {
        let width = usize::try_from(MIN_BYTES).unwrap();
        fs::write(path, format!("{number:width$}")).unwrap();
        let when = SystemTime::now()
            .checked_sub(Duration::from_secs(age))
            .unwrap();
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(when)
            .unwrap();
    }

    #[test]
    fn a_file_that_changes_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("a"), dir.path().join("b"));
        write(&path, 1, 60);
        assert_eq!(ask(&path), (1, true));
        assert_eq!(ask(&path), (1, false));
        // A broker writes another file and renames it.
        write(&other, 2, 60);
        fs::rename(&other, &path).unwrap();
        assert_eq!(ask(&path), (2, true));
        assert_eq!(ask(&path), (2, false));
        // In place, with the same length and the same time.
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        write(&path, 3, 0);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(modified)
            .unwrap();
        assert_eq!(ask(&path), (3, true));
        for number in 4..9 {
            write(&path, number, 0);
            assert_eq!(ask(&path), (number.into(), true));
        }
        fs::remove_file(&path).unwrap();
        assert!(offsets(&path, || None).is_none());
    }
}
