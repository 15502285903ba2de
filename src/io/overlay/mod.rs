//! A folder as it will be: the files of a base, and the actions planned over them.
//!
//! Nothing is written here. Every change becomes an [`Action`] and is visible to later reads of the overlay, so a plan
//! goes through the same states as the folder when the actions are carried out in order. A dry run is an overlay that
//! is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::Serialize;

use self::content::{ByteSource, Content, Origins};
use super::storage::{Folder, entries_if_any, read_small};
use crate::error::Result;
use crate::io::threads::lock;
use crate::types::TimestampMs;

pub(crate) mod content;
mod folder;

/// One step of a plan. Names are of files in the folder.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// The file is removed.
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
    /// The file it is about, by the name that it has afterwards.
    fn name(&self) -> &str {
        match self {
            Self::Delete { name } | Self::SetLength { name, .. } | Self::Write { name, .. } => name,
            Self::Rename { to, .. } => to,
        }
    }
}

/// Change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// Its name.
    pub name: String,
    /// Its length before; `None` where it was not there.
    pub before: Option<u64>,
    /// Its length afterwards; `None` where it is gone.
    pub after: Option<u64>,
    /// True if these are the bytes that were there.
    pub is_same: bool,
}

/// State of an overlay. Its methods are those of a folder that only it changes.
#[derive(Debug)]
struct OverlayState {
    origins: Origins,
    before: BTreeMap<String, u64>,
    files: BTreeMap<String, Content>,
    actions: Vec<Action>,
    /// Files that are being written piece by piece: the last action on each is a `Write`, whose content is `files`'.
    open: BTreeSet<String>,
    /// Nothing will be carried out: of the files that are written under names with this end, only the length is kept.
    counted: Option<&'static str>,
}

impl OverlayState {
    /// Notes a step, where they are going to be carried out.
    fn note(&mut self, action: Action) {
        if self.counted.is_none() {
            self.actions.push(action);
        }
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

    fn last_action(&mut self, name: &str) -> Option<&mut Action> {
        let last = self.last_on(name);
        last.and_then(|at| self.actions.get_mut(at))
    }

    /// Replaces a file's content by another of the same bytes, also in the plan if writing it is the last step on it.
    fn give(&mut self, name: &str, content: Content) {
        if let Some(Action::Write {
            content: planned, ..
        }) = self.last_action(name)
        {
            *planned = content.clone();
        }
        self.files.insert(name.to_owned(), content);
    }

    /// Drops the writing of a file if nothing has happened to it since.
    fn unwrite(&mut self, name: &str) -> bool {
        let last = self.last_on(name);
        let written = last.filter(|&at| matches!(self.actions.get(at), Some(Action::Write { .. })));
        if let Some(at) = written {
            self.actions.remove(at);
        }
        written.is_some()
    }

    fn remove(&mut self, name: &str) -> bool {
        self.open.remove(name);
        let found = self.files.remove(name).is_some();
        // A file that was never seen need not be written to be removed.
        let unseen = found && self.unwrite(name) && self.last_on(name).is_none();
        if found && (!unseen || self.before.contains_key(name)) {
            self.note(Action::Delete {
                name: name.to_owned(),
            });
        }
        found
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<bool> {
        self.close(from)?;
        self.open.remove(to);
        let Some(content) = self.files.remove(from) else {
            return Ok(false);
        };
        self.files.insert(to.to_owned(), content);
        self.note(Action::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
        });
        Ok(true)
    }

    fn set_length(&mut self, name: &str, to: u64) {
        let is_open = self.open.contains(name);
        let Some(content) = self.files.get_mut(name) else {
            return;
        };
        let mut from = content.length();
        if from == to {
            return;
        }
        *content = content.resized(to);
        if is_open {
            return;
        }
        let last = self.last_on(name);
        match last.and_then(|at| self.actions.get_mut(at)) {
            // What will be written is written so.
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
            self.note(Action::SetLength {
                name: name.to_owned(),
                from,
                to,
            });
        }
    }

    /// Writes a file, unless these are the bytes it had at the beginning.
    fn write(&mut self, name: &str, content: Content) -> Result<()> {
        self.open.remove(name);
        if self.is_as_before(name, &content)? {
            self.actions.retain(|action| action.name() != name);
            let base = Content::base(name, content.length());
            self.files.insert(name.to_owned(), base);
            return Ok(());
        }
        self.unwrite(name);
        self.files.insert(name.to_owned(), content.clone());
        self.note(Action::Write {
            name: name.to_owned(),
            content,
        });
        Ok(())
    }

    /// Returns whether a file that stayed under its name, or went, would be there again with its old bytes.
    fn is_as_before(&self, name: &str, content: &Content) -> Result<bool> {
        let ByteSource::Bytes(new) = content.source() else {
            return Ok(false);
        };
        let renames = |action: &Action| match action {
            Action::Rename { from, to } => from == name || to == name,
            _ => false,
        };
        if self.before.get(name) != Some(&content.length())
            || content.kept() != content.length()
            || self.actions.iter().any(renames)
        {
            return Ok(false);
        }
        let old = Content::base(name, content.length());
        let wanted = usize::try_from(content.length()).unwrap_or(usize::MAX);
        let new = new.get(..wanted).unwrap_or(new);
        Ok(old.read(&self.origins, 0, wanted)? == new)
    }

    /// Writes over bytes of a file, or adds some.
    fn patch(&mut self, name: &str, bytes: &[u8], position: u64) -> Result<()> {
        if !self.open.contains(name) {
            let content = match self.files.get(name) {
                _ if self.counted.is_some_and(|end| name.ends_with(end)) => Content::counted(),
                Some(old) => old.in_memory(&self.origins)?,
                None => Content::empty(),
            };
            while matches!(
                self.last_action(name),
                Some(Action::SetLength { .. } | Action::Write { .. })
            ) {
                let last = self.last_on(name);
                last.map(|at| self.actions.remove(at));
            }
            self.note(Action::Write {
                name: name.to_owned(),
                content: Content::empty(),
            });
            self.files.insert(name.to_owned(), content);
            self.open.insert(name.to_owned());
        }
        if let Some(content) = self.files.get_mut(name) {
            content.patch(bytes, position);
        }
        Ok(())
    }

    /// Ends the writing of a file piece by piece.
    fn close(&mut self, name: &str) -> Result<()> {
        match self.files.get(name).cloned() {
            Some(mut content) if self.open.contains(name) => {
                // Alone, so that it is not copied.
                self.files.remove(name);
                content.cut_to_kept();
                self.files.insert(name.to_owned(), content.clone());
                self.write(name, content)
            }
            _ => Ok(()),
        }
    }
}

/// A folder under plan. Clones are the same folder: like a file system, it is shared by all who work on it.
#[derive(Clone, Debug)]
pub(crate) struct Overlay {
    path: Arc<Path>,
    state: Arc<Mutex<OverlayState>>,
}

impl Overlay {
    /// Begins with the files of `base`; a folder that does not exist is empty.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn new(base: Folder) -> Result<Self> {
        let mut before = BTreeMap::new();
        for entry in entries_if_any(&*base)? {
            let entry = entry?;
            if let (Some(name), Some(stat)) = (entry.name(), entry.stat()?) {
                before.insert(name.to_owned(), stat.length);
            }
        }
        let content =
            |(name, &length): (&String, &u64)| (name.clone(), Content::base(name, length));
        let files = before.iter().map(content).collect();
        Ok(Self::with(Origins::new(base), before, files))
    }

    /// Creates an overlay without files, for content computed from other folders.
    pub(crate) fn empty(origins: Origins) -> Self {
        Self::with(origins, BTreeMap::new(), BTreeMap::new())
    }

    fn with(
        origins: Origins,
        before: BTreeMap<String, u64>,
        files: BTreeMap<String, Content>,
    ) -> Self {
        Self {
            path: Arc::from(origins.folder()),
            state: Arc::new(Mutex::new(OverlayState {
                origins,
                before,
                files,
                actions: Vec::new(),
                open: BTreeSet::new(),
                counted: None,
            })),
        }
    }

    /// Marks everything planned from here on as never to be carried out; actions are not recorded, and of files whose
    /// names end in this suffix only the length is kept.
    pub(crate) fn never_apply(&self, counted: &'static str) {
        let mut state = self.state();
        state.counted = Some(counted);
        state.actions.clear();
    }

    fn state(&self) -> MutexGuard<'_, OverlayState> {
        lock(&self.state)
    }

    /// Paths of the original files: no action has been carried out.
    #[must_use]
    pub(crate) fn origins(&self) -> Origins {
        self.state().origins.clone()
    }

    /// The files of the beginning, and their lengths.
    #[must_use]
    pub(crate) fn before(&self) -> BTreeMap<String, u64> {
        self.state().before.clone()
    }

    /// Names there are now, in Java's order of file names.
    #[must_use]
    pub(crate) fn names(&self) -> Vec<String> {
        self.state().files.keys().cloned().collect()
    }

    /// The bytes of a file, if it is there.
    #[must_use]
    pub(crate) fn get(&self, name: &str) -> Option<Content> {
        self.state().files.get(name).cloned()
    }

    /// Returns whether there is a file of that name.
    #[must_use]
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.state().files.contains_key(name)
    }

    /// The length of a file; 0 where there is none.
    #[must_use]
    pub(crate) fn length(&self, name: &str) -> u64 {
        self.state().files.get(name).map_or(0, Content::length)
    }

    /// Modification time of the file whose bytes this one has, or the time that it was given; `None` if the bytes are
    /// the plan's own.
    #[must_use]
    pub(crate) fn modified_ms(&self, name: &str) -> Option<TimestampMs> {
        let state = self.state();
        state.files.get(name)?.modified_ms(&state.origins)
    }

    /// All of a small file; nothing where there is none.
    ///
    /// # Errors
    /// `Io`; `CorruptIndex` above `limit`.
    pub(crate) fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        if self.contains(name) {
            read_small(self, name, limit)
        } else {
            Ok(Vec::new())
        }
    }

    /// Removes a file; nothing where there is none.
    pub(crate) fn delete(&self, name: &str) {
        self.state().remove(name);
    }

    /// Cuts a file, or adds zeros; nothing where there is none.
    pub(crate) fn set_length(&self, name: &str, to: u64) {
        self.state().set_length(name, to);
    }

    /// Writes a file, unless these are the bytes it had at the beginning.
    ///
    /// # Errors
    /// `Io` where the old bytes cannot be read.
    pub(crate) fn write(&self, name: &str, content: Content) -> Result<()> {
        self.state().write(name, content)
    }

    /// Moves the last cut of a file after everything planned so far: what follows the cut must be gone before, so that
    /// a crash in between does not make it look as if it followed.
    pub(crate) fn cut_last(&self, name: &str) {
        let mut state = self.state();
        if let Some(at) = state.last_on(name)
            && matches!(state.actions.get(at), Some(Action::SetLength { .. }))
        {
            let cut = state.actions.remove(at);
            state.actions.push(cut);
        }
    }

    /// Says in another way where the bytes come from that will be written.
    pub(crate) fn replace(&self, name: &str, by: Content) {
        let mut state = self.state();
        if matches!(state.last_action(name), Some(Action::Write { .. })) {
            state.give(name, by);
        }
    }

    /// Computes a file's bytes again, if they were not kept, and keeps them: they are about to be read piece by piece.
    fn held(&self, name: &str) -> Result<()> {
        let content = self.get(name);
        if let Some(content) = content.filter(|it| matches!(it.source(), ByteSource::Rebuilt(_))) {
            let held = content.in_memory(&self.origins())?;
            self.state().give(name, held);
        }
        Ok(())
    }

    /// Bytes in memory that will be written.
    #[must_use]
    pub(crate) fn kept_bytes(&self) -> u64 {
        let state = self.state();
        let files = state.files.values();
        files
            .map(|content| match content.source() {
                ByteSource::Bytes(bytes) => bytes.len() as u64,
                _ => 0,
            })
            .sum()
    }

    /// Changes of the files, by name.
    #[must_use]
    pub(crate) fn changes(&self) -> Vec<FileChange> {
        let state = self.state();
        let mut names: Vec<&String> = state.before.keys().chain(state.files.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let change = |name: &String| {
            let (before, content) = (state.before.get(name).copied(), state.files.get(name));
            let is_same = content.is_some_and(|content| {
                let source = match content.source() {
                    ByteSource::Base { name: source, from } => **source == **name && *from == 0,
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

    /// Current files.
    #[must_use]
    pub(crate) fn files(&self) -> BTreeMap<String, Content> {
        self.state().files.clone()
    }

    /// Actions so far; every file that was written has its current bytes.
    #[must_use]
    pub(crate) fn actions(&self) -> Vec<Action> {
        let state = self.state();
        let whole = |action: &Action| match action {
            Action::Write { name, .. } if state.open.contains(name) => Action::Write {
                name: name.clone(),
                content: state
                    .files
                    .get(name)
                    .cloned()
                    .unwrap_or_else(Content::empty),
            },
            other => other.clone(),
        };
        state.actions.iter().map(whole).collect()
    }
}
