//! Keys as folders and files: a store has none, only keys with slashes in them.

use std::collections::{BTreeMap, BTreeSet};

use crate::io::provider::{ObjectInfo, ObjectListing};

/// Objects that are known, and of which folders all are known.
#[derive(Debug, Default)]
pub(super) struct KnownObjects {
    objects: BTreeMap<String, ObjectInfo>,
    /// Keys of folders that a listing named without entering them.
    folders: BTreeSet<String>,
    /// Keys of folders whose own entries are known.
    levels: BTreeSet<String>,
    /// Keys of folders below which everything is known.
    deep: BTreeSet<String>,
}

/// The prefix of the keys in a folder.
pub(super) fn prefix_of(folder: &str) -> String {
    if folder.is_empty() {
        String::new()
    } else {
        format!("{folder}/")
    }
}

/// Returns whether a key is that of a folder, or of something in it.
pub(super) fn is_within(folder: &str, key: &str) -> bool {
    let rest = key.strip_prefix(folder);
    folder.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl KnownObjects {
    /// Returns whether the entries of a folder are known.
    pub(super) fn knows(&self, folder: &str) -> bool {
        self.levels.contains(folder) || self.knows_below(folder)
    }

    /// Returns whether everything below a folder is known.
    pub(super) fn knows_below(&self, folder: &str) -> bool {
        self.deep.iter().any(|deep| is_within(deep, folder))
    }

    /// Takes in a listing of a folder.
    pub(super) fn add(&mut self, folder: &str, recursive: bool, found: ObjectListing) {
        let known = if recursive {
            &mut self.deep
        } else {
            &mut self.levels
        };
        known.insert(folder.to_owned());
        self.folders.extend(found.folders);
        for object in found.objects {
            // Some tools mark a folder by an object whose key ends with a slash.
            match object.key.strip_suffix('/') {
                Some(marked) if marked.is_empty() || marked == folder => {}
                Some(marked) => {
                    self.folders.insert(marked.to_owned());
                }
                None => {
                    self.objects.insert(object.key.clone(), object);
                }
            }
        }
    }

    /// Takes in one object.
    pub(super) fn put(&mut self, object: ObjectInfo) {
        self.objects.insert(object.key.clone(), object);
    }

    /// The object of this key.
    pub(super) fn object(&self, key: &str) -> Option<&ObjectInfo> {
        self.objects.get(key)
    }

    /// Names in a folder, and whether each is a folder.
    pub(super) fn entries(&self, folder: &str) -> BTreeMap<String, bool> {
        let prefix = prefix_of(folder);
        let mut found = BTreeMap::new();
        let mut from = prefix.clone();
        loop {
            let next = self.objects.range(from.clone()..).next();
            let Some(rest) = next.and_then(|(key, _)| key.strip_prefix(&prefix)) else {
                break;
            };
            if let Some((name, _)) = rest.split_once('/') {
                // The key after all that are in that folder: `0` follows the slash.
                from = format!("{prefix}{name}0");
                found.insert(name.to_owned(), true);
            } else {
                from = format!("{prefix}{rest}\0");
                found.entry(rest.to_owned()).or_insert(false);
            }
        }
        let below = self.folders.range(prefix.clone()..);
        for key in below.take_while(|key| key.starts_with(&prefix)) {
            let rest = key.strip_prefix(&prefix).unwrap_or_default();
            let name = rest.split('/').next().unwrap_or_default();
            if !name.is_empty() {
                found.insert(name.to_owned(), true);
            }
        }
        found
    }

    /// Returns whether there is anything in a folder, or a mark of it.
    pub(super) fn has(&self, folder: &str) -> bool {
        self.folders.contains(folder) || !self.entries(folder).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(keys: &[&str]) -> ObjectListing {
        let object = |key: &&str| ObjectInfo {
            key: (*key).to_owned(),
            size: 1,
            modified_ms: 0,
            version: None,
        };
        ObjectListing {
            objects: keys.iter().map(object).collect(),
            ..ObjectListing::default()
        }
    }

    #[test]
    fn keys_become_folders_and_files() {
        let mut known = KnownObjects::default();
        known.add(
            "logs",
            true,
            listing(&[
                "logs/t-0/0.log",
                "logs/t-0/0.index",
                "logs/t-0.x/a",
                "logs/meta",
                "logs/",
                "logs/empty/",
            ]),
        );
        let entries: Vec<_> = known.entries("logs").into_iter().collect();
        let expected = [
            ("empty", true),
            ("meta", false),
            ("t-0", true),
            ("t-0.x", true),
        ];
        assert_eq!(
            entries,
            expected.map(|(name, is_folder)| (name.to_owned(), is_folder))
        );
        assert_eq!(known.entries("logs/t-0").len(), 2);
        assert!(known.knows("logs/t-0") && known.knows("logs") && !known.knows("log"));
        assert!(known.has("logs/empty") && known.has("logs/t-0") && !known.has("logs/t"));
        assert_eq!(known.object("logs/meta").map(|object| object.size), Some(1));
    }

    #[test]
    fn a_folder_that_was_not_entered() {
        let mut known = KnownObjects::default();
        let mut found = listing(&["meta.properties"]);
        found.folders = vec!["t-0".to_owned(), "t-1".to_owned()];
        known.add("", false, found);
        assert_eq!(known.entries("").len(), 3);
        assert!(known.knows("") && !known.knows("t-0"));
        known.add("t-0", false, listing(&["t-0/0.log"]));
        assert_eq!(
            known.entries("t-0").into_iter().collect::<Vec<_>>(),
            [("0.log".to_owned(), false)]
        );
    }
}
