//! Topics and partitions of a log dir, and scans of it.

use std::collections::BTreeSet;

use super::reader::RecordReader;
use super::scan::{ScanOptions, scan};
use crate::error::{Error, Result};
use crate::format::file_name::FolderState;
use crate::log::dir::{LogDir, PartitionFolder};
use crate::log::partition::PartitionLog;
use crate::types::TopicPartition;

impl LogDir {
    fn live(&self) -> impl Iterator<Item = &PartitionFolder> {
        let folders = self.folders().iter();
        folders.filter(|folder| folder.name.state == FolderState::Live)
    }

    /// The topics, internal ones included, by name.
    #[must_use]
    pub fn topics(&self) -> Vec<&str> {
        let topics = self.live().map(|each| &*each.name.topic_partition.topic);
        topics.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The partitions of a topic in this log dir, by number.
    #[must_use]
    pub fn partitions(&self, topic: &str) -> Vec<i32> {
        let partitions = self.live().map(|each| &each.name.topic_partition);
        let of_topic = partitions.filter(|each| each.topic == topic);
        of_topic.map(|each| each.partition).collect()
    }

    /// Opens one partition.
    ///
    /// # Errors
    /// [`Error::UnknownTopicOrPartition`] where this log dir does not hold it; as [`PartitionLog::open`].
    pub fn partition(&self, topic: &str, partition: i32) -> Result<PartitionLog> {
        let wanted = TopicPartition::new(topic, partition);
        let mut live = self.live();
        if let Some(found) = live.find(|each| each.name.topic_partition == wanted) {
            return PartitionLog::open(&found.path);
        }
        let path = self.path().display();
        let there = self.partitions(topic);
        Err(Error::UnknownTopicOrPartition(if there.is_empty() {
            format!("{path}: no topic {topic:?} in this log dir")
        } else {
            format!(
                "{path}: no partition {partition} of topic {topic:?} in this log dir, only {there:?}"
            )
        }))
    }

    /// Scans the records of this log dir.
    ///
    /// # Errors
    /// As [`scan`].
    pub fn scan(&self, options: ScanOptions) -> Result<RecordReader> {
        scan(self.path(), options)
    }
}
