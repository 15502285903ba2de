//! Objects below a path of a store, listed once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::listing::{KnownObjects, is_within, prefix_of};
use super::request::{Asking, Attempt, Question, RequestCounters, RequestLimits};
use crate::error::{Error, Result};
use crate::format::file_name::FolderName;
use crate::io::provider::{ObjectInfo, ObjectListing, Provider};
use crate::io::threads::lock;

/// More partition folders than this may be listed one by one only if they are few of many.
const FEW_FOLDERS: usize = 16;
/// So many topics have more folders than a full listing of 10,000 has pages: their names need not be listed first.
const MANY_TOPICS: usize = 200;
/// Requests for a full listing of so many partition folders, where each has about twenty files and a page a thousand.
const FOLDERS_OF_A_PAGE: usize = 50;

/// Longest file that is kept, and how many are.
const MAX_SMALL: usize = 256 << 10;
const MAX_SMALL_FILES: usize = 64;

/// A store, and where it is mounted.
pub(super) struct MountedStore {
    /// Such as `s3://bucket`, without a slash at the end.
    pub(super) root: String,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) limits: RequestLimits,
}

impl fmt::Debug for MountedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MountedStore").field(&self.root).finish()
    }
}

impl MountedStore {
    /// The path of a key.
    pub(super) fn path_of(&self, key: &str) -> PathBuf {
        if key.is_empty() {
            PathBuf::from(&self.root)
        } else {
            PathBuf::from(format!("{}/{key}", self.root))
        }
    }
}

/// A path of a store as one operation sees it: the objects below it are listed once, with lengths and times.
pub(crate) struct StoreView {
    pub(super) store: Arc<MountedStore>,
    /// Key of the folder.
    pub(super) root: String,
    /// True if everything below is listed at once; otherwise each folder when it is needed.
    is_deep: bool,
    /// Partition folders of other topics are not looked at.
    topics: Option<BTreeSet<String>>,
    known: Mutex<KnownObjects>,
    /// Indexes and checkpoints that were read: a lookup opens some of them several times.
    small: Mutex<BTreeMap<String, Bytes>>,
    pub(super) counters: Arc<RequestCounters>,
}

impl fmt::Debug for StoreView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreView").field(&self.root).finish()
    }
}

impl StoreView {
    /// Everything at or below a key.
    pub(super) fn new(store: &Arc<MountedStore>, root: &str) -> Self {
        Self {
            store: Arc::clone(store),
            root: root.to_owned(),
            is_deep: true,
            topics: None,
            known: Mutex::default(),
            small: Mutex::default(),
            counters: Arc::default(),
        }
    }

    /// The folder at `key`, of which folders are listed one by one, and those of other topics never.
    pub(super) fn narrowed(&self, key: &str, topics: Option<&BTreeSet<String>>) -> Self {
        Self {
            store: Arc::clone(&self.store),
            root: key.to_owned(),
            is_deep: false,
            topics: topics.cloned(),
            known: Mutex::default(),
            small: Mutex::default(),
            counters: Arc::clone(&self.counters),
        }
    }

    /// Returns whether all is listed at once for so many topics.
    pub(super) fn lists_all(topics: &BTreeSet<String>) -> bool {
        topics.len() >= MANY_TOPICS
    }

    /// Returns whether everything below a folder was listed.
    pub(super) fn knows_below(&self, folder: &str) -> bool {
        lock(&self.known).knows_below(folder)
    }

    pub(super) fn asking(&self) -> Asking<'_> {
        Asking {
            provider: &*self.store.provider,
            limits: self.store.limits,
            counters: &self.counters,
        }
    }

    fn list(&self, folder: &str, recursive: bool) -> Question<ObjectListing> {
        let (provider, prefix) = (Arc::clone(&self.store.provider), prefix_of(folder));
        Arc::new(move || provider.list(&prefix, recursive))
    }

    /// Takes in the answer to a listing.
    fn listed(
        &self,
        known: &mut KnownObjects,
        (folder, recursive): (&str, bool),
        begun: Option<Attempt<ObjectListing>>,
    ) -> Result<()> {
        let question = self.list(folder, recursive);
        let what = || "listing".to_owned();
        let found = self.asking().ask(begun, &question, &what);
        let found = found.map_err(Error::io(self.store.path_of(folder)))?;
        // One was counted when it was sent.
        self.counters.add_requests(found.requests.saturating_sub(1));
        known.add(folder, recursive, found);
        Ok(())
    }

    /// Does something with what is known, once the entries of a folder are.
    fn with<T>(&self, folder: &str, act: impl FnOnce(&KnownObjects) -> T) -> Result<T> {
        let mut known = lock(&self.known);
        if !known.knows(folder) {
            if self.is_deep && is_within(&self.root, folder) {
                self.listed(&mut known, (&self.root, true), None)?;
            } else {
                self.listed(&mut known, (folder, false), None)?;
                if folder == self.root {
                    self.list_wanted(&mut known)?;
                }
            }
        }
        Ok(act(&known))
    }

    /// Lists the partition folders of the topics, if these are known.
    fn list_wanted(&self, known: &mut KnownObjects) -> Result<()> {
        if self.topics.is_none() {
            return Ok(());
        }
        let all = known.entries(&self.root);
        let folders = all.iter().filter(|(_, is_folder)| **is_folder);
        let wanted: Vec<String> = folders
            .filter(|(name, _)| self.is_wanted(name))
            .map(|(name, _)| format!("{}{name}", prefix_of(&self.root)))
            .collect();
        if wanted.len() > FEW_FOLDERS && wanted.len() > all.len() / FOLDERS_OF_A_PAGE {
            return self.listed(known, (&self.root, true), None);
        }
        let begun: Vec<_> = wanted
            .iter()
            .map(|folder| Attempt::start(&self.list(folder, false), &self.counters))
            .collect();
        for (folder, begun) in wanted.iter().zip(begun) {
            self.listed(known, (folder, false), Some(begun))?;
        }
        Ok(())
    }

    /// Returns whether a folder of the root is looked at: no partition's, or one of the topics'.
    fn is_wanted(&self, name: &str) -> bool {
        let Some(topics) = &self.topics else {
            return true;
        };
        FolderName::parse(name).is_none_or(|name| topics.contains(&name.topic_partition.topic))
    }

    /// Names in a folder, and whether each is a folder.
    pub(super) fn entries(&self, folder: &str) -> Result<BTreeMap<String, bool>> {
        let (mut found, is_there) =
            self.with(folder, |known| (known.entries(folder), known.has(folder)))?;
        if !is_there && !folder.is_empty() {
            let text = "there is no object below it";
            let error = io::Error::new(io::ErrorKind::NotFound, text);
            return Err(Error::io(self.store.path_of(folder))(error));
        }
        if folder == self.root {
            found.retain(|name, is_folder| !*is_folder || self.is_wanted(name));
        }
        Ok(found)
    }

    /// The object of a key, from the listing of its folder.
    pub(super) fn object(&self, folder: &str, key: &str) -> Result<Option<ObjectInfo>> {
        self.with(folder, |known| known.object(key).cloned())
    }

    /// Returns whether a key is a folder's, false for an object's; `None` if it is neither's.
    pub(super) fn is_folder(&self, key: &str) -> Result<Option<bool>> {
        if key.is_empty() || self.with(key, |known| known.has(key))? {
            return Ok(Some(true));
        }
        Ok(self.stat(key)?.map(|_| false))
    }

    /// The bytes of a small file, if they were read before.
    pub(super) fn small_file(&self, key: &str) -> Option<Bytes> {
        lock(&self.small).get(key).cloned()
    }

    /// Keeps the bytes of a small file.
    pub(super) fn keep_small(&self, key: &str, bytes: &Bytes) {
        if bytes.len() > MAX_SMALL {
            return;
        }
        let mut small = lock(&self.small);
        if small.len() >= MAX_SMALL_FILES {
            small.clear();
        }
        small.insert(key.to_owned(), bytes.clone());
    }

    /// The object of a key, asked for by itself unless its folder was listed.
    pub(super) fn stat(&self, key: &str) -> Result<Option<ObjectInfo>> {
        let known = lock(&self.known);
        let above = key.rsplit_once('/').map_or("", |(above, _)| above);
        if known.object(key).is_some() || known.knows(above) {
            return Ok(known.object(key).cloned());
        }
        drop(known);
        let (provider, asked) = (Arc::clone(&self.store.provider), key.to_owned());
        let question: Question<_> = Arc::new(move || provider.stat(&asked));
        let found = self
            .asking()
            .ask(None, &question, &|| "looking for it".to_owned());
        let found = found.map_err(Error::io(self.store.path_of(key)))?;
        if let Some(found) = &found {
            lock(&self.known).put(found.clone());
        }
        Ok(found)
    }
}
