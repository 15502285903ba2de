//! The partition folders that paths lead to.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Result;
use crate::format::file_name::{FolderName, FolderState};
use crate::io::storage::Folder;
use crate::log::dir::{DirState, LogDir, PartitionFolder, PathKind, ensure_partition, folder_name};
use crate::log::listed::{ListedLog, ensure_holds_records};
use crate::types::TopicPartition;

/// A partition folder that may be chosen, or some files of one.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) name: FolderName,
    pub(super) folder: Folder,
    /// Files named by themselves; empty for the whole folder.
    pub(super) files: Vec<String>,
    /// Named by path, not found in a log dir.
    pub(super) is_named: bool,
    /// The folder without links and dots, by which it is known again.
    pub(super) place: PathBuf,
    dir: Arc<DirState>,
}

impl Candidate {
    pub(super) fn open(&self) -> Result<ListedLog> {
        let (name, folder) = (self.name.clone(), self.folder.clone());
        if !self.files.is_empty() {
            return ListedLog::from_files(folder, name, &self.files, &self.dir);
        }
        let log = ListedLog::open_in(folder, name, &self.dir)?;
        if log.segments().is_empty() {
            ensure_partition(&self.folder)?;
        }
        Ok(log)
    }

    /// Key of its place in a plan: by topic, partition and state.
    pub(super) fn order(&self) -> (&FolderName, &Path, &[String]) {
        (&self.name, self.folder.path(), &self.files)
    }

    /// Returns whether it is this whole folder.
    pub(super) fn is_all_of(&self, place: &Path) -> bool {
        self.files.is_empty() && self.place == place
    }

    pub(super) fn is_there(&self) -> bool {
        self.folder.is_folder().unwrap_or(false)
    }

    pub(super) const fn partition(&self) -> &TopicPartition {
        &self.name.topic_partition
    }
}

pub(super) fn candidates(roots: &[Folder], include_inactive: bool) -> Result<Vec<Candidate>> {
    let mut found: Vec<Candidate> = Vec::new();
    let mut seen = HashSet::new();
    for root in roots {
        let kind = PathKind::of(root)?;
        let place = root.place()?;
        // The same place twice is one place.
        if !seen.insert(place.clone()) {
            if let Some(known) = found.iter_mut().find(|c| c.is_all_of(&place)) {
                known.is_named = true;
            }
            continue;
        }
        match kind {
            PathKind::LogDir => {
                let dir = LogDir::in_folder(root.clone())?;
                let state = Arc::new(dir.state());
                let live =
                    |f: &&PartitionFolder| include_inactive || f.name.state == FolderState::Live;
                for folder in dir.folders().iter().filter(live) {
                    let place = dir.place_of(folder, &place);
                    if seen.insert(place.clone()) {
                        found.push(Candidate {
                            place,
                            name: folder.name.clone(),
                            folder: dir.folder_of(folder),
                            files: Vec::new(),
                            is_named: false,
                            dir: Arc::clone(&state),
                        });
                    }
                }
            }
            PathKind::Partition(name) => found.push(Candidate {
                name,
                dir: Arc::new(DirState::read(root.above())),
                folder: root.clone(),
                files: Vec::new(),
                is_named: true,
                place,
            }),
            PathKind::File => add_file(&mut found, root)?,
        }
    }
    Ok(found)
}

/// Files of one folder are read together.
fn add_file(found: &mut Vec<Candidate>, file: &Folder) -> Result<()> {
    ensure_holds_records(file.path())?;
    let file_name = folder_name(file.path());
    let folder = file.above();
    let place = folder.place()?;
    let together = |c: &&mut Candidate| !c.files.is_empty() && c.place == place;
    if let Some(candidate) = found.iter_mut().find(together) {
        candidate.files.push(file_name);
        return Ok(());
    }
    let name = PathKind::name_of(folder.path());
    found.push(Candidate {
        dir: Arc::new(DirState::read(folder.above())),
        name,
        folder,
        files: vec![file_name],
        is_named: true,
        place,
    });
    Ok(())
}
