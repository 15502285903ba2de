//! A partition folder as it will be: what is on the disk, and the actions planned over it.
//!
//! Nothing is written here. Every change becomes an [`Action`] and is seen by whatever reads the folder afterwards, so
//! that a plan goes through the same states as the folder will when the actions are carried out in their order.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::content::{Content, Places, Source};
use crate::error::{Error, Result};

/// One step of a plan. Names are of files in the partition folder.
#[derive(Clone, Debug)]
pub enum Action {
    /// The file goes.
    Delete {
        /// Its name.
        name: String,
    },
    /// The file takes another name, in place of a file that has it.
    Rename {
        /// Its name so far.
        from: String,
        /// Its name from now on.
        to: String,
    },
    /// The file is cut, or followed by zeros.
    SetLength {
        /// Its name.
        name: String,
        /// Bytes so far.
        from: u64,
        /// Bytes from now on.
        to: u64,
    },
    /// The file is written whole; an old one of that name is replaced.
    Write {
        /// Its name.
        name: String,
        /// Its bytes.
        content: Content,
    },
}

impl Action {
    /// The file it is about, by the name that it has behind it.
    fn name(&self) -> &str {
        match self {
            Self::Delete { name } | Self::SetLength { name, .. } | Self::Write { name, .. } => name,
            Self::Rename { to, .. } => to,
        }
    }
}

/// What becomes of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Its name.
    pub name: String,
    /// Its length before; `None` where it was not there.
    pub before: Option<u64>,
    /// Its length afterwards; `None` where it is gone.
    pub after: Option<u64>,
    /// Whether these are the bytes that were there.
    pub is_same: bool,
}

/// A partition folder under plan.
#[derive(Debug)]
pub struct Folder {
    places: Places,
    before: BTreeMap<String, u64>,
    files: BTreeMap<String, Content>,
    actions: Vec<Action>,
}

impl Folder {
    /// Lists the files of `path`; a folder that is not there is an empty one.
    ///
    /// # Errors
    /// `Io`.
    pub fn open(path: &Path) -> Result<Self> {
        let mut before = BTreeMap::new();
        match fs::read_dir(path) {
            Ok(entries) => {
                for entry in entries {
                    let entry = entry.map_err(Error::io(path))?;
                    let meta = fs::metadata(entry.path()).map_err(Error::io(entry.path()))?;
                    // Kafka's own names are ASCII; others are none of a log's business.
                    if let (true, Ok(name)) = (meta.is_file(), entry.file_name().into_string()) {
                        before.insert(name, meta.len());
                    }
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io(path)(e)),
        }
        let files = before
            .iter()
            .map(|(name, &length)| (name.clone(), Content::disk(name, length)))
            .collect();
        Ok(Self {
            places: Places::new(path),
            before,
            files,
            actions: Vec::new(),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.places.folder()
    }

    /// Where its files are: no action has been carried out.
    #[must_use]
    pub const fn places(&self) -> &Places {
        &self.places
    }

    /// The path of a file in it.
    #[must_use]
    pub fn path_of(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Names there are now, in Java's order of file names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    /// The bytes of a file, if it is there.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Content> {
        self.files.get(name)
    }

    /// Whether there is a file of that name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// The length of a file; 0 where there is none.
    #[must_use]
    pub fn length(&self, name: &str) -> u64 {
        self.files.get(name).map_or(0, Content::length)
    }

    /// All of a small file.
    ///
    /// # Errors
    /// `Io`; `CorruptIndex` above `limit`.
    pub fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        let Some(content) = self.files.get(name) else {
            return Ok(Vec::new());
        };
        if content.length() > limit {
            let expected = format!("at most {limit} bytes");
            let found = content.length();
            return Err(
                Error::corrupt_index("file length", 0, expected, found).at(&self.path_of(name))
            );
        }
        let wanted = usize::try_from(content.length()).unwrap_or(usize::MAX);
        content.read(&self.places, 0, wanted)
    }

    /// The last action that named this file.
    fn last_on(&self, name: &str) -> Option<usize> {
        self.actions.iter().rposition(|action| match action {
            Action::Rename { from, to } => from == name || to == name,
            Action::Delete { name: n }
            | Action::SetLength { name: n, .. }
            | Action::Write { name: n, .. } => n == name,
        })
    }

    /// Takes back the writing of a file if nothing has happened to it since.
    fn unwrite(&mut self, name: &str) -> bool {
        let last = self.last_on(name);
        let written = last.filter(|&at| matches!(self.actions.get(at), Some(Action::Write { .. })));
        if let Some(at) = written {
            self.actions.remove(at);
        }
        written.is_some()
    }

    /// Removes a file; returns whether there was one.
    pub fn delete(&mut self, name: &str) -> bool {
        let found = self.files.remove(name).is_some();
        // A file that nobody has seen need not be written to be removed.
        let unseen = found && self.unwrite(name) && self.last_on(name).is_none();
        if found && (!unseen || self.before.contains_key(name)) {
            self.actions.push(Action::Delete {
                name: name.to_owned(),
            });
        }
        found
    }

    /// Gives a file another name; returns whether there was one.
    pub fn rename(&mut self, from: &str, to: &str) -> bool {
        let Some(content) = self.files.remove(from) else {
            return false;
        };
        self.files.insert(to.to_owned(), content);
        self.actions.push(Action::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
        });
        true
    }

    /// Cuts a file, or puts zeros behind it.
    pub fn set_length(&mut self, name: &str, to: u64) {
        let Some(content) = self.files.get_mut(name) else {
            return;
        };
        let mut from = content.length();
        if from == to {
            return;
        }
        *content = content.resized(to);
        let last = self.last_on(name);
        match last.and_then(|at| self.actions.get_mut(at)) {
            // What is to be written is written so.
            Some(Action::Write { content, .. }) => {
                *content = content.resized(to);
                return;
            }
            // What was only lengthened need not be.
            Some(Action::SetLength {
                from: before,
                to: length,
                ..
            }) if *before < *length && to <= *length => {
                from = *before;
                if let Some(at) = last {
                    self.actions.remove(at);
                }
            }
            _ => {}
        }
        if from != to {
            self.actions.push(Action::SetLength {
                name: name.to_owned(),
                from,
                to,
            });
        }
    }

    /// Writes a file, unless these are the bytes it had at the beginning.
    ///
    /// # Errors
    /// `Io` where the old bytes cannot be read.
    pub fn write(&mut self, name: &str, content: Content) -> Result<()> {
        if self.is_as_before(name, &content)? {
            self.actions.retain(|action| action.name() != name);
            let disk = Content::disk(name, content.length());
            self.files.insert(name.to_owned(), disk);
            return Ok(());
        }
        self.unwrite(name);
        self.files.insert(name.to_owned(), content.clone());
        self.actions.push(Action::Write {
            name: name.to_owned(),
            content,
        });
        Ok(())
    }

    /// Whether a file that stayed under its name, or went, would be there again with its old bytes.
    fn is_as_before(&self, name: &str, content: &Content) -> Result<bool> {
        let Source::Bytes(new) = content.source() else {
            return Ok(false);
        };
        let moves = |action: &Action| match action {
            Action::Rename { from, to } => from == name || to == name,
            _ => false,
        };
        if self.before.get(name) != Some(&content.length())
            || content.kept() != content.length()
            || self.actions.iter().any(moves)
        {
            return Ok(false);
        }
        let old = Content::disk(name, content.length());
        let wanted = usize::try_from(content.length()).unwrap_or(usize::MAX);
        let new = new.get(..wanted).unwrap_or(new);
        Ok(old.read(&self.places, 0, wanted)? == new)
    }

    /// Has the last cutting of a file happen behind everything planned so far: what follows the cut must be gone before,
    /// so that a crash in between does not make it look as if it followed.
    pub fn cut_last(&mut self, name: &str) {
        if let Some(at) = self.last_on(name)
            && matches!(self.actions.get(at), Some(Action::SetLength { .. }))
        {
            let cut = self.actions.remove(at);
            self.actions.push(cut);
        }
    }

    /// Says in another way where the bytes come from that are to be written.
    pub fn replace(&mut self, name: &str, by: Content) {
        let last = self.last_on(name);
        if let (Some(file), Some(Action::Write { content, .. })) = (
            self.files.get_mut(name),
            last.and_then(|at| self.actions.get_mut(at)),
        ) {
            *content = by.clone();
            *file = by;
        }
    }

    /// Bytes in memory that are to be written.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        let files = self.files.values();
        files
            .map(|content| match content.source() {
                Source::Bytes(bytes) => bytes.len() as u64,
                _ => 0,
            })
            .sum()
    }

    /// What becomes of the files, by name.
    #[must_use]
    pub fn changes(&self) -> Vec<FileChange> {
        let mut names: Vec<&String> = self.before.keys().chain(self.files.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let change = |name: &String| {
            let (before, content) = (self.before.get(name).copied(), self.files.get(name));
            let is_same = content.is_some_and(|content| {
                let source = match content.source() {
                    Source::Disk { name: source, from } => **source == **name && *from == 0,
                    _ => false,
                };
                source && before == Some(content.length()) && content.kept() == content.length()
            });
            FileChange {
                name: name.clone(),
                before,
                after: content.map(Content::length),
                is_same,
            }
        };
        names.into_iter().map(change).collect()
    }

    /// Lengths at the beginning.
    #[must_use]
    pub const fn before(&self) -> &BTreeMap<String, u64> {
        &self.before
    }

    /// What there is now.
    #[must_use]
    pub const fn files(&self) -> &BTreeMap<String, Content> {
        &self.files
    }

    /// What has been done so far.
    #[must_use]
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }
}

/// A folder under plan that the loader, the producers' snapshots and the plan have in common.
#[derive(Clone, Debug)]
pub(super) struct SharedFolder(Arc<Mutex<Folder>>);

impl SharedFolder {
    pub(super) fn new(folder: Folder) -> Self {
        Self(Arc::new(Mutex::new(folder)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Folder> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
