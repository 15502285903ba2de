//! A log dir.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::absolute;
use super::partition_log::PartitionLog;
use super::reader::RecordReader;
use super::scan::{ScanOptions, scan};
use crate::error::{Error, Result};
use crate::format::file_name::FolderState;
use crate::log::dir;
use crate::types::TopicPartition;

/// One log dir of a broker: a folder of partition folders. Nothing in it is written or locked.
///
/// ```
/// # fn main() -> Result<(), kafkalog::Error> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/clean-restarts/data-1");
/// let dir = kafkalog::LogDir::open(path)?;
/// for topic in dir.topics() {
///     println!("{topic}: partitions {:?}", dir.partitions(topic));
/// }
/// let log = dir.partition("orders", 0)?;
/// # assert_eq!(log.topic(), "orders");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LogDir(dir::LogDir);

impl LogDir {
    /// Lists the partition folders. A folder named like a partition counts if it holds a segment file,
    /// `partition.metadata` or `leader-epoch-checkpoint`, or if the directory has `meta.properties`, a checkpoint or the
    /// marker of a clean shutdown.
    ///
    /// # Errors
    /// [`Error::Io`] where the path is not a directory that can be listed; [`Error::InvalidArgument`] where it is a
    /// partition folder, or holds nothing of Kafka's.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let dir = dir::LogDir::open(&absolute(path.as_ref())?)?;
        Ok(Self(dir.ensure_log_dir()?))
    }

    /// The directory, as an absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    fn live(&self) -> impl Iterator<Item = &TopicPartition> {
        let folders = self.0.folders().iter();
        folders
            .filter(|folder| folder.name.state == FolderState::Live)
            .map(|folder| &folder.name.topic_partition)
    }

    /// The topics, internal ones included, by name.
    #[must_use]
    pub fn topics(&self) -> Vec<&str> {
        let topics: BTreeSet<_> = self.live().map(|partition| &*partition.topic).collect();
        topics.into_iter().collect()
    }

    /// The partitions of a topic in this log dir, by number.
    #[must_use]
    pub fn partitions(&self, topic: &str) -> Vec<i32> {
        let of_topic = self.live().filter(|partition| partition.topic == topic);
        of_topic.map(|partition| partition.partition).collect()
    }

    /// Opens one partition.
    ///
    /// # Errors
    /// [`Error::UnknownTopicOrPartition`] where this log dir does not hold it; what [`PartitionLog::open`] finds.
    pub fn partition(&self, topic: &str, partition: i32) -> Result<PartitionLog> {
        let wanted = TopicPartition::new(topic, partition);
        let mut folders = self.0.folders().iter();
        let found = folders.find(|folder| {
            folder.name.state == FolderState::Live && folder.name.topic_partition == wanted
        });
        let Some(folder) = found else {
            return Err(self.no_partition(topic, partition));
        };
        PartitionLog::open(&folder.path)
    }

    fn no_partition(&self, topic: &str, partition: i32) -> Error {
        let there = self.partitions(topic);
        let path = self.path().display();
        Error::UnknownTopicOrPartition(if there.is_empty() {
            format!("{path}: no topic {topic:?} in this log dir")
        } else {
            format!(
                "{path}: no partition {partition} of topic {topic:?} in this log dir, only {there:?}"
            )
        })
    }

    /// `meta.properties`, if there is one.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::CorruptIndex`] where it is not a properties file.
    pub fn meta_properties(&self) -> Result<Option<BTreeMap<String, String>>> {
        self.0.meta()
    }

    /// Returns whether the broker stopped cleanly: the marker `.kafka_cleanshutdown` exists.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.0.clean_shutdown()
    }

    /// Scans the records of this log dir.
    ///
    /// # Errors
    /// As [`scan`].
    pub fn scan(&self, options: ScanOptions) -> Result<RecordReader> {
        scan(self.path(), options)
    }
}
