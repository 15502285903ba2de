//! Folders of a store.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::damage::AroundDamage;
use super::file::ObjectFile;
use super::listing::{is_within, prefix_of};
use super::mount::view_at;
use super::request::RequestCounters;
use super::view::StoreView;
use crate::error::{Error, Result};
use crate::io::provider::ObjectInfo;
use crate::io::storage::{FileStat, Folder, FolderEntries, FolderEntry, ReadFile, ReadFolder};

/// A folder of a view.
#[derive(Clone, Debug)]
pub(crate) struct ObjectFolder {
    view: Arc<StoreView>,
    key: String,
    path: PathBuf,
}

impl ObjectFolder {
    /// The folder at a path of a mounted store; `None` for any other path.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let (view, key) = view_at(path)?;
        Some(Self::new(view, key))
    }

    fn new(view: Arc<StoreView>, key: String) -> Self {
        let path = view.store.path_of(&key);
        Self { view, key, path }
    }

    fn key_of(&self, name: &str) -> String {
        format!("{}{name}", prefix_of(&self.key))
    }

    fn object(&self, name: &str) -> Result<ObjectInfo> {
        let key = self.key_of(name);
        let found = self.view.object(&self.key, &key)?;
        found.ok_or_else(|| {
            let error = io::Error::new(io::ErrorKind::NotFound, "there is no such object");
            Error::io(self.path_of(name))(error)
        })
    }
}

impl ReadFolder for ObjectFolder {
    fn path(&self) -> &Path {
        &self.path
    }

    fn entries(&self) -> Result<FolderEntries<'_>> {
        let found = self.view.entries(&self.key)?;
        Ok(Box::new(found.into_iter().map(|(name, is_folder)| {
            Ok(FolderEntry::new(self, name, is_folder))
        })))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        let object = self.object(name)?;
        Ok(Arc::new(AroundDamage::new(ObjectFile::new(
            &self.view, object,
        ))))
    }

    fn open_planned(
        &self,
        name: &str,
        size: u64,
        version: Option<&str>,
    ) -> Result<Arc<dyn ReadFile>> {
        let object = ObjectInfo {
            key: self.key_of(name),
            size,
            modified_ms: 0,
            version: version.map(Arc::from),
        };
        Ok(Arc::new(AroundDamage::new(ObjectFile::new(
            &self.view, object,
        ))))
    }

    fn version(&self, name: &str) -> Result<Option<Arc<str>>> {
        Ok(self.object(name)?.version)
    }

    fn has_maps(&self) -> bool {
        false
    }

    fn counters(&self) -> Option<Arc<RequestCounters>> {
        Some(Arc::clone(&self.view.counters))
    }

    fn contains(&self, name: &str) -> Result<bool> {
        Ok(self.view.object(&self.key, &self.key_of(name))?.is_some())
    }

    fn stat(&self, name: &str) -> Result<FileStat> {
        let object = self.object(name)?;
        Ok(FileStat {
            length: object.size,
            modified_ms: object.modified_ms,
        })
    }

    fn folder(&self, name: &str) -> Folder {
        Folder::new(Self::new(Arc::clone(&self.view), self.key_of(name)))
    }

    fn narrowed(&self, topics: &BTreeSet<String>) -> Option<Folder> {
        if self.view.knows_below(&self.key) || StoreView::lists_all(topics) {
            return None;
        }
        let narrowed = self.view.narrowed(&self.key, Some(topics));
        Some(Folder::new(Self::new(Arc::new(narrowed), self.key.clone())))
    }

    fn names_only(&self) -> Option<Folder> {
        let narrowed = self.view.narrowed(&self.key, None);
        Some(Folder::new(Self::new(Arc::new(narrowed), self.key.clone())))
    }

    fn above(&self) -> Folder {
        let key = self.key.rsplit_once('/').map_or("", |(above, _)| above);
        let view = if is_within(&self.view.root, key) {
            Arc::clone(&self.view)
        } else {
            Arc::new(self.view.narrowed(key, None))
        };
        Folder::new(Self::new(view, key.to_owned()))
    }

    fn is_folder(&self) -> Result<bool> {
        self.view.is_folder(&self.key)?.ok_or_else(|| {
            let text = "there is no such object, and none below it";
            Error::io(&*self.path)(io::Error::new(io::ErrorKind::NotFound, text))
        })
    }
}
