//! Topics and their partitions, as a metadata log has them (`TopicsImage`, `PartitionRegistration`).
//!
//! Records are applied one after the other, as `TopicsDelta` replays them; one that it refuses changes nothing. Names and
//! numbers that no controller writes (`ReplicationControlManager.validateNewTopicNames`) are refused as well: they would
//! become names of folders.

use std::collections::BTreeMap;

use super::value::{Fields, Value};
use crate::format::file_name::{CLUSTER_METADATA_TOPIC, is_topic_name};
use crate::format::uuid::Uuid;

/// Topics by id and by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicsImage {
    topics: BTreeMap<Uuid, TopicImage>,
    ids: BTreeMap<String, Uuid>,
}

/// One topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicImage {
    pub(crate) name: String,
    pub(crate) partitions: BTreeMap<i32, Replicas>,
}

/// Replicas of a partition.
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

/// Effect of a record on topics.
#[derive(Debug)]
pub(super) enum TopicChange {
    Create(String, Uuid),
    Remove(Uuid),
    Partition(Uuid, i32, Replicas),
    /// Fields that are null stay as they are.
    Update(Uuid, i32, [Option<Vec<i32>>; 3], Option<Vec<Uuid>>),
    /// Of one topic, or of all without a name.
    ClearEligible(String),
}

/// The records about topics.
pub(super) const ABOUT_TOPICS: [&str; 5] = [
    "TOPIC_RECORD",
    "REMOVE_TOPIC_RECORD",
    "PARTITION_RECORD",
    "PARTITION_CHANGE_RECORD",
    "CLEAR_ELR_RECORD",
];

impl TopicChange {
    /// `None` for a record about something else.
    pub(super) fn of(record: &str, fields: Fields<'_>) -> Option<Self> {
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
            "CLEAR_ELR_RECORD" => Self::ClearEligible(fields.get("topicName").text()?.into_owned()),
            _ => return None,
        })
    }
}

impl TopicsImage {
    /// Applies a change.
    ///
    /// # Errors
    /// Why `TopicsDelta` refuses it.
    pub(super) fn apply(&mut self, change: TopicChange) -> Result<(), String> {
        let unknown = |id: Uuid| format!("no topic has the id {id}");
        match change {
            TopicChange::Create(name, id) => {
                if !is_topic_name(&name) || name == CLUSTER_METADATA_TOPIC {
                    return Err(format!("{name:?} is no name of a topic"));
                }
                if let Some(other) = self.ids.get(&name).filter(|&other| *other != id) {
                    return Err(format!("topic {name} has the id {other}, not {id}"));
                }
                self.ids.insert(name.clone(), id);
                let partitions = BTreeMap::new();
                self.topics.insert(id, TopicImage { name, partitions });
            }
            TopicChange::Remove(id) => {
                let topic = self.topics.remove(&id).ok_or_else(|| unknown(id))?;
                if self.ids.get(&topic.name) == Some(&id) {
                    self.ids.remove(&topic.name);
                }
            }
            TopicChange::Partition(id, partition, replicas) => {
                let topic = self.topics.get_mut(&id).ok_or_else(|| unknown(id))?;
                if partition < 0 {
                    return Err(format!("{partition} is no number of a partition"));
                }
                topic.partitions.insert(partition, replicas);
            }
            TopicChange::Update(id, partition, [nodes, in_sync, eligible], directories) => {
                let topic = self.topics.get_mut(&id).ok_or_else(|| unknown(id))?;
                let Some(known) = topic.partitions.get_mut(&partition) else {
                    return Err(format!("topic {} has no partition {partition}", topic.name));
                };
                known.nodes = nodes.unwrap_or_else(|| std::mem::take(&mut known.nodes));
                known.in_sync = in_sync.unwrap_or_else(|| std::mem::take(&mut known.in_sync));
                known.eligible = eligible.unwrap_or_else(|| std::mem::take(&mut known.eligible));
                known.directories =
                    directories.unwrap_or_else(|| std::mem::take(&mut known.directories));
            }
            TopicChange::ClearEligible(name) => {
                let id = self.ids.get(&name).copied();
                if id.is_none() && !name.is_empty() {
                    return Err(format!("no topic {name}"));
                }
                let topics = self.topics.iter_mut();
                let topics = topics.filter(|&(each, _)| id.is_none_or(|id| id == *each));
                for replicas in topics.flat_map(|(_, topic)| topic.partitions.values_mut()) {
                    replicas.eligible.clear();
                }
            }
        }
        Ok(())
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
