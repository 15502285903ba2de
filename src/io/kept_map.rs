//! Memory maps opened during planning and reused by the reader, which avoids a second round of page faults.
//!
//! A map costs address space, and page tables of 1/512 of the bytes that were touched. The process therefore keeps maps
//! of a limited number of bytes, and none if its address space is limited (Spark's `spark.executor.pyspark.memory`),
//! because a kept map could take the space of one that is needed.
//!
//! A kept map shows the file as it was planned. Its user first checks that the file is still there, closed and of that
//! length ([`super::mapping`]).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::mapping::Mapping;

/// Of the process: its page tables take 8 MB at most.
static PROCESS: Budget = Budget::new(4 << 30);

/// The least that a map counts, as a process may have some 65,000 of them.
const MIN_BYTES: u64 = 1 << 20;

/// A limit on the bytes of maps, and how many are taken.
#[derive(Debug)]
struct Budget {
    most: u64,
    taken: AtomicU64,
}

impl Budget {
    const fn new(most: u64) -> Self {
        Self {
            most,
            taken: AtomicU64::new(0),
        }
    }

    fn keep(&'static self, map: Arc<Mapping>) -> KeptMap {
        let bytes = (map.as_slice().len() as u64).max(MIN_BYTES);
        let take = |taken: u64| taken.checked_add(bytes).filter(|&sum| sum <= self.most);
        let is_taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok();
        let kept = is_taken.then(|| KeptMaps {
            map,
            bytes,
            budget: self,
        });
        KeptMap(kept.map(Arc::new))
    }
}

struct KeptMaps {
    map: Arc<Mapping>,
    bytes: u64,
    budget: &'static Budget,
}

impl Drop for KeptMaps {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A map, if it was kept. It does not tell two plans apart: what is read is the same with and without it.
#[derive(Clone, Default)]
pub struct KeptMap(Option<Arc<KeptMaps>>);

impl KeptMap {
    /// Keeps a map, unless that would be too much.
    #[must_use]
    pub(crate) fn keep(map: Arc<Mapping>) -> Self {
        // Windows does not let a mapped file go.
        if cfg!(windows) || is_address_space_limited() {
            return Self::default();
        }
        PROCESS.keep(map)
    }

    /// The map.
    #[must_use]
    pub(crate) fn get(&self) -> Option<&Arc<Mapping>> {
        self.0.as_ref().map(|kept| &kept.map)
    }
}

impl PartialEq for KeptMap {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for KeptMap {}

impl fmt::Debug for KeptMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.as_ref().map(|kept| kept.bytes);
        f.debug_tuple("KeptMap").field(&bytes).finish()
    }
}

/// Returns whether maps count against a limit of this process (`RLIMIT_AS`).
fn is_address_space_limited() -> bool {
    #[cfg(all(unix, not(target_os = "openbsd")))]
    {
        use rustix::process::{Resource, getrlimit};
        getrlimit(Resource::As).current.is_some()
    }
    #[cfg(not(all(unix, not(target_os = "openbsd"))))]
    false
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::io::folder::DiskFolder;
    use crate::io::mapping::ClosedName;

    #[test]
    fn no_more_is_kept_than_the_budget_allows() {
        static SMALL: Budget = Budget::new(10 << 20);
        let folder = tempfile::tempdir().unwrap();
        let name = "00000000000000000000.log.deleted";
        let file = File::create(folder.path().join(name)).unwrap();
        file.set_len(8 << 20).unwrap();
        let folder = DiskFolder::at(folder.path());
        let closed = ClosedName::of(&folder, name, None).unwrap();
        let map = |len| Arc::new(closed.open().unwrap().map(len).unwrap());
        let large = SMALL.keep(map(8 << 20));
        assert_eq!(large.get().unwrap().as_slice().len(), 8 << 20);
        assert!(SMALL.keep(map(3 << 20)).get().is_none());
        // Small ones count too.
        let small: Vec<_> = (0..3).map(|_| SMALL.keep(map(1))).collect();
        let kept = small.iter().map(|kept| kept.get().is_some());
        assert_eq!(kept.collect::<Vec<_>>(), [true, true, false]);
        let same = large.clone();
        drop((large, small));
        assert!(SMALL.keep(map(8 << 20)).get().is_none());
        drop(same);
        assert!(SMALL.keep(map(8 << 20)).get().is_some());
    }
}
