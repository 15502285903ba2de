//! Topics and their partitions, as a metadata log has them (`TopicsImage`, `PartitionRegistration`).
//!
//! The state is that of the newest snapshot and the records from its end on. Records of a metadata transaction (KIP-866)
//! count at its end, or never.

use std::collections::BTreeMap;
use std::path::Path;

use super::entries::Entries;
use super::plan::{plan, snapshot_id};
use super::topic::{Decoder, Part, Topic};
use super::value::{Fields, Value};
use crate::error::Result;
use crate::format::uuid::Uuid;
use crate::segment::reader::ReadOptions;
use crate::types::Offset;

/// Topics by name, and up to which record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicsImage {
    /// The offset after the last record that was read.
    pub(crate) end: Offset,
    topics: BTreeMap<Uuid, TopicImage>,
    ids: BTreeMap<String, Uuid>,
}

/// One topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicImage {
    pub(crate) name: String,
    pub(crate) partitions: BTreeMap<i32, Replicas>,
}

/// Where a partition is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replicas {
    /// The nodes that have it.
    pub(crate) nodes: Vec<i32>,
    /// Those of them that are in sync.
    pub(crate) in_sync: Vec<i32>,
    /// Those that left the ISR with all committed records (KIP-966).
    pub(crate) eligible: Vec<i32>,
    /// The directory of each node, by its place among `nodes`; none in clusters before KIP-858.
    directories: Vec<Uuid>,
}

impl Replicas {
    /// The directory in which a node has it, if that is known.
    pub(crate) fn directory(&self, node: i32) -> Option<Uuid> {
        let place = self.nodes.iter().position(|&each| each == node)?;
        let found = self.directories.get(place).copied();
        found.filter(|id| !id.is_reserved())
    }
}

/// What a record does.
#[derive(Debug)]
enum Change {
    Create(String, Uuid),
    Remove(Uuid),
    Partition(Uuid, i32, Replicas),
    /// Fields that are null stay as they are.
    Update(Uuid, i32, [Option<Vec<i32>>; 3], Option<Vec<Uuid>>),
    Begin,
    Commit,
    Abort,
}

/// The records whose meaning has to be known.
const ABOUT_TOPICS: [&str; 4] = [
    "TOPIC_RECORD",
    "REMOVE_TOPIC_RECORD",
    "PARTITION_RECORD",
    "PARTITION_CHANGE_RECORD",
];

impl Change {
    /// `None` where a field is missing.
    fn of(record: &str, fields: Fields<'_>) -> Option<Self> {
        let id = || fields.get("topicId").uuid();
        let partition = || fields.get("partitionId").narrow();
        let nodes = |name| {
            let list = fields.get(name);
            (!list.is_null()).then(|| list.items().filter_map(|node| node.narrow()).collect())
        };
        let directories = || {
            let list = fields.get("directories");
            (!list.is_null()).then(|| list.items().filter_map(|id: Value<'_>| id.uuid()).collect())
        };
        Some(match record {
            "TOPIC_RECORD" => Self::Create(fields.get("name").text()?.into_owned(), id()?),
            "REMOVE_TOPIC_RECORD" => Self::Remove(id()?),
            "PARTITION_RECORD" => {
                let replicas = Replicas {
                    nodes: nodes("replicas").unwrap_or_default(),
                    in_sync: nodes("isr").unwrap_or_default(),
                    eligible: nodes("eligibleLeaderReplicas").unwrap_or_default(),
                    directories: directories().unwrap_or_default(),
                };
                Self::Partition(id()?, partition()?, replicas)
            }
            "PARTITION_CHANGE_RECORD" => {
                let lists = ["replicas", "isr", "eligibleLeaderReplicas"].map(nodes);
                Self::Update(id()?, partition()?, lists, directories())
            }
            "BEGIN_TRANSACTION_RECORD" => Self::Begin,
            "END_TRANSACTION_RECORD" => Self::Commit,
            "ABORT_TRANSACTION_RECORD" => Self::Abort,
            _ => return None,
        })
    }
}

impl TopicsImage {
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
                if matches!(record.value, Part::Raw(_)) && ABOUT_TOPICS.contains(&name) {
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
                self.ids.insert(name.clone(), id);
                let partitions = BTreeMap::new();
                self.topics.insert(id, TopicImage { name, partitions });
            }
            Change::Remove(id) => {
                if let Some(topic) = self.topics.remove(&id)
                    && self.ids.get(&topic.name) == Some(&id)
                {
                    self.ids.remove(&topic.name);
                }
            }
            Change::Partition(id, partition, replicas) => {
                if let Some(topic) = self.topics.get_mut(&id) {
                    topic.partitions.insert(partition, replicas);
                }
            }
            Change::Update(id, partition, [nodes, in_sync, eligible], directories) => {
                let topic = self.topics.get_mut(&id);
                if let Some(known) = topic.and_then(|topic| topic.partitions.get_mut(&partition)) {
                    known.nodes = nodes.unwrap_or_else(|| std::mem::take(&mut known.nodes));
                    known.in_sync = in_sync.unwrap_or_else(|| std::mem::take(&mut known.in_sync));
                    known.eligible =
                        eligible.unwrap_or_else(|| std::mem::take(&mut known.eligible));
                    known.directories =
                        directories.unwrap_or_else(|| std::mem::take(&mut known.directories));
                }
            }
            Change::Begin | Change::Commit | Change::Abort => {}
        }
    }

    /// The topic of this name, with its id.
    pub(crate) fn get(&self, name: &str) -> Option<(Uuid, &TopicImage)> {
        let id = *self.ids.get(name)?;
        self.topics.get(&id).map(|topic| (id, topic))
    }

    /// All topics.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &TopicImage> {
        self.topics.values()
    }
}
