//! Evidence that a metadata log ended later than it does now.
//!
//! A log that lost its last batches, or whole segments, looks like one that never had them. Other files may show more:
//!
//! | file | shows |
//! |---|---|
//! | `N-E.checkpoint` | the log went up to N; a follower that died as it took the snapshot in has such a log, too |
//! | `leader-epoch-checkpoint` | the log went up to the start of its last epoch |
//! | an index or a producer snapshot of a later segment | the log went up to that segment |
//! | an entry of an index | the log went past that offset |
//! | `recovery-point-offset-checkpoint`, `replication-offset-checkpoint` | it went up to the partition's offset, if they have one |
//!
//! If none of them does, nothing is reported. `quorum-state` has no offset, and its epoch may be above
//! the log's after an election.

use std::fmt;
use std::path::{Path, PathBuf};

use super::plan::{is_snapshot, snapshot_id};
use crate::format::checkpoint::{LEADER_EPOCH_CHECKPOINT, parse_epochs, parse_offsets};
use crate::format::file_name::{CLUSTER_METADATA_TOPIC, FileKind, FileName, FileState};
use crate::index::offset::OffsetIndex;
use crate::index::time::TimeIndex;
use crate::io::storage::{Folder, ReadFolder};
use crate::log::dir::{RECOVERY_POINT, REPLICATION, dir_above, read_parsed};
use crate::types::{Offset, TopicPartition};

/// A file, and why not all of it is replayed, or all that it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) file: PathBuf,
    pub(crate) why: String,
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.why)
    }
}

/// Finds evidence that the log in `folder` once extended beyond `end`: of several files the one that shows most.
///
/// What cannot be read shows nothing; it is a finding of its own.
pub(super) fn shown_beyond(folder: &Path, end: Offset) -> Option<Passed> {
    let mut shown: Vec<(Offset, PathBuf)> = Vec::new();
    let files = Folder::at(folder);
    for entry in files.entries().into_iter().flatten().flatten() {
        let name = entry.text();
        let offset = offset_of(&*files, &name);
        shown.extend(offset.map(|offset| (offset, files.path_of(&name))));
    }
    let path = folder.join(LEADER_EPOCH_CHECKPOINT);
    if let Ok(Some(epochs)) = read_parsed(&path, parse_epochs) {
        shown.extend(epochs.last().map(|last| (last.start_offset, path)));
    }
    let partition = TopicPartition::new(CLUSTER_METADATA_TOPIC, 0);
    for name in [RECOVERY_POINT, REPLICATION] {
        let path = dir_above(folder).join(name);
        if let Ok(Some(lines)) = read_parsed(&path, parse_offsets) {
            shown.extend(lines.get(&partition).map(|&offset| (offset, path)));
        }
    }
    let (offset, file) = shown.into_iter().max()?;
    (offset > end).then(|| {
        let why = if is_snapshot(&file) {
            format!(
                "the log ends at offset {end}, before this snapshot, with which a controller begins it again: changes after \
                 the snapshot are gone, if there were any"
            )
        } else {
            format!(
                "it shows that the log went up to offset {offset}; the log ends at {end}, and the changes after that are gone"
            )
        };
        Passed { file, why }
    })
}

/// End offset of the log, as this file shows it.
fn offset_of(folder: &dyn ReadFolder, name: &str) -> Option<Offset> {
    if is_snapshot(Path::new(name)) {
        return snapshot_id(name).map(|(end, _)| end);
    }
    // The last segment itself is the log.
    let file = FileName::parse(name).filter(|file| file.state == FileState::Live)?;
    let base = file.offset;
    let last = match file.kind {
        FileKind::OffsetIndex => OffsetIndex::last_of(folder, name, base)
            .ok()?
            .map(|it| it.offset),
        FileKind::TimeIndex => TimeIndex::last_of(folder, name, base)
            .ok()?
            .map(|it| it.offset),
        FileKind::TxnIndex | FileKind::Snapshot => None,
        FileKind::Log => return None,
    };
    Some(last.map_or(base, |last| last.saturating_add(1)))
}
