//! Ids of the topics that exist, as a metadata log has them.
//!
//! The state is that of the newest snapshot and the records from its end on. Records of a metadata transaction (KIP-866)
//! count at its end, or never.

use std::collections::BTreeMap;
use std::path::Path;

use super::entries::Entries;
use super::plan::{plan, snapshot_id};
use super::topic::{Decoder, Part, Topic};
use super::value::Fields;
use crate::error::Result;
use crate::format::uuid::Uuid;
use crate::segment::reader::ReadOptions;
use crate::types::Offset;

/// Topics by name, and up to which record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicIds {
    /// The offset after the last record that was read.
    pub(crate) end: Offset,
    names: BTreeMap<Uuid, String>,
    ids: BTreeMap<String, Uuid>,
}

/// What a record does.
#[derive(Debug)]
enum Change {
    Create(String, Uuid),
    Remove(Uuid),
    Begin,
    Commit,
    Abort,
}

impl Change {
    /// `None` where a field is missing.
    fn of(record: &str, fields: Fields<'_>) -> Option<Self> {
        let id = || fields.get("topicId").uuid();
        Some(match record {
            "TOPIC_RECORD" => Self::Create(fields.get("name").text()?.into_owned(), id()?),
            "REMOVE_TOPIC_RECORD" => Self::Remove(id()?),
            "BEGIN_TRANSACTION_RECORD" => Self::Begin,
            "END_TRANSACTION_RECORD" => Self::Commit,
            "ABORT_TRANSACTION_RECORD" => Self::Abort,
            _ => return None,
        })
    }
}

impl TopicIds {
    /// Replays the metadata log in `folder`; `None` where it does not tell the whole state: nothing is in it, a snapshot
    /// is missing before its first segment, or a record about topics is of a version that is not known.
    ///
    /// # Errors
    /// `Io`, and what reading finds wrong with the files.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>> {
        let ranges = plan(&[folder.to_path_buf()], None)?;
        let snapshot_of = |name: &str| snapshot_id(name).map(|(end, _)| end);
        let (mut snapshots, log): (Vec<_>, Vec<_>) = ranges.into_iter().partition(|range| {
            let mut files = range.segments.iter();
            files.any(|file| snapshot_of(&file.file_name).is_some())
        });
        // They are in the order of their names, which is that of their ends.
        let newest = snapshots.pop();
        let files = newest.iter().flat_map(|range| &range.segments);
        let covered = files.filter_map(|file| snapshot_of(&file.file_name)).max();
        let covered = covered.unwrap_or(0);
        let first = log.iter().flat_map(|range| &range.segments).next();
        if first.is_some_and(|first| first.base_offset > covered) {
            return Ok(None);
        }
        let ranges = newest.into_iter().chain(log).collect();
        let mut entries = Entries::new(ranges, ReadOptions::default());
        let (mut found, mut open) = (Self::default(), None);
        let mut is_empty = true;
        while entries.advance()? {
            let is_snapshot = snapshot_of(&entries.context().segment).is_some();
            let mut decoder = Decoder::new()?;
            let mut records = 0usize;
            for entry in entries.iter() {
                records = records.saturating_add(1);
                if !is_snapshot && entry.offset < covered {
                    continue;
                }
                is_empty = false;
                found.end = if is_snapshot {
                    covered
                } else {
                    entry.offset.saturating_add(1)
                };
                let record = decoder.decode(Topic::ClusterMetadata, entry.key, entry.value);
                let name = record.name().unwrap_or_default();
                if matches!(record.value, Part::Raw(_)) && name.contains("TOPIC_RECORD") {
                    return Ok(None);
                }
                let fields = record.value.fields();
                if let Some(change) = fields.and_then(|fields| Change::of(name, fields)) {
                    found.take(change, &mut open);
                }
            }
            entries.consume(records);
        }
        Ok((!is_empty).then_some(found))
    }

    fn take(&mut self, change: Change, open: &mut Option<Vec<Change>>) {
        match (change, open.as_mut()) {
            (Change::Begin, _) => *open = Some(Vec::new()),
            (Change::Abort, _) => *open = None,
            (Change::Commit, _) => {
                for change in open.take().unwrap_or_default() {
                    self.apply(change);
                }
            }
            (change, Some(held)) => held.push(change),
            (change, None) => self.apply(change),
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Create(name, id) => {
                self.names.insert(id, name.clone());
                self.ids.insert(name, id);
            }
            Change::Remove(id) => {
                if let Some(name) = self.names.remove(&id)
                    && self.ids.get(&name) == Some(&id)
                {
                    self.ids.remove(&name);
                }
            }
            Change::Begin | Change::Commit | Change::Abort => {}
        }
    }

    /// The id of the topic of this name.
    pub(crate) fn get(&self, name: &str) -> Option<Uuid> {
        self.ids.get(name).copied()
    }
}
