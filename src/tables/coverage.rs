//! Partitions of an internal topic that are in log dirs, and their total number: a broker has some, other brokers have
//! the rest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::metadata_log::{LogEnd, choose};
use super::producers::folders;
use super::topic::Topic;
use crate::error::Result;
use crate::format::file_name::CLUSTER_METADATA_TOPIC;
use crate::io::folder::is_folder;
use crate::log::dir::UNKNOWN_PARTITION;

/// The partitions of an internal topic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    /// Those that are here, by number.
    pub(crate) here: Vec<i32>,
    /// Their folders.
    pub(crate) folders: Vec<PathBuf>,
    /// Total number: as in the metadata log, otherwise as the highest partition number shows.
    pub(crate) count: i32,
    /// It is the metadata log that shows it.
    pub(crate) is_noted: bool,
}

impl Coverage {
    /// Looks for them in the log dirs and folders among `paths`.
    ///
    /// # Errors
    /// As [`folders`].
    pub(crate) fn of(paths: &[PathBuf], topic: Topic) -> Result<Self> {
        let mut here: BTreeMap<i32, PathBuf> = BTreeMap::new();
        let mut noted = None;
        for (log_dir, folders) in folders(paths)? {
            for folder in folders {
                let of = &folder.name.topic_partition;
                if of.topic == topic.name() && of.partition != UNKNOWN_PARTITION {
                    here.entry(of.partition).or_insert(folder.path);
                }
            }
            noted = noted.max(count_of(&log_dir, topic));
        }
        let highest = here.keys().next_back();
        let shown = highest.map_or(0, |highest| highest.saturating_add(1));
        let is_noted = noted.is_some_and(|noted| noted >= shown);
        let (here, folders) = here.into_iter().unzip();
        Ok(Self {
            here,
            folders,
            count: noted.unwrap_or_default().max(shown),
            is_noted,
        })
    }

    /// Returns whether none is missing, as far as can be seen.
    pub(crate) fn is_whole(&self) -> bool {
        !self.here.is_empty() && i32::try_from(self.here.len()) == Ok(self.count)
    }
}

/// Number of partitions that the topic has by the metadata log of a log dir; `None` if it does not say.
fn count_of(log_dir: &Path, topic: Topic) -> Option<i32> {
    let folder = log_dir.join(format!("{CLUSTER_METADATA_TOPIC}-0"));
    if !is_folder(&folder) {
        return None;
    }
    // Its faults do not matter here.
    let chosen = choose(&[folder], LogEnd::State).ok()?;
    if chosen.gap.is_some() || chosen.state.has_lost_topics {
        return None;
    }
    let (_, image) = chosen.state.topics.get(topic.name())?;
    i32::try_from(image.partitions.len()).ok()
}
