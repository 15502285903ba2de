//! A log dir, and several of one broker: their entries other than partition folders, and contradictions between their
//! files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::checkpoints::{self, CheckpointFiles, Extent};
use super::finding::{
    DUPLICATE_PARTITION, FOLDER_NAME, Finding, Findings, IDENTITY_MISMATCH, IDENTITY_MISSING,
    LEFTOVER, PENDING_JOB, STRAY_FOLDER, UNFINISHED_OUTPUT, UNKNOWN_FILE, UNKNOWN_FOLDER,
};
use super::identity;
use super::log::Reading;
use super::metadata_snapshot::{self, BOOTSTRAP};
use super::pool::VerifyPool;
use super::records::BatchCheck;
use crate::error::Result;
use crate::format::checkpoint::PARTITION_METADATA;
use crate::format::file_name::{FolderName, FolderState, is_taken_for_a_partitions};
use crate::format::uuid::Uuid;
use crate::io::folder::is_file;
use crate::io::storage::Folder;
use crate::log::dir::{
    CHECKPOINTS, CLEAN_SHUTDOWN, META_PROPERTIES, PartitionFolder, REMOTE_INDEXES,
};
use crate::log::output::UNFINISHED;
use crate::types::TopicPartition;
use crate::write::storage::{JOB_NOTE, OWN_FILES};

/// A broker's lock, while it runs.
const LOCK: &str = ".lock";

/// The partitions of a log dir, and whose it is.
#[derive(Debug, Default)]
pub(super) struct Contents {
    path: PathBuf,
    meta: BTreeMap<String, String>,
    pub(super) folders: Vec<(PartitionFolder, Option<String>)>,
    extents: BTreeMap<TopicPartition, Extent>,
    /// Partitions that its checkpoints name.
    checkpointed: BTreeSet<TopicPartition>,
}

impl Contents {
    /// Adds a partition folder with its topic's id.
    pub(super) fn add(
        &mut self,
        folder: PartitionFolder,
        topic_id: Option<String>,
        extent: Extent,
    ) {
        if folder.name.state == FolderState::Live {
            let key = folder.name.topic_partition.clone();
            self.extents.insert(key, extent);
        }
        self.folders.push((folder, topic_id));
    }

    /// The cluster's id, if the directory says.
    pub(super) fn cluster(&self) -> Option<&str> {
        let id = self.meta.get("cluster.id").map(String::as_str);
        id.filter(|id| !id.is_empty())
    }

    /// Id of its node, if the directory has it.
    pub(super) fn node(&self) -> Option<i32> {
        self.node_id()?.parse().ok()
    }

    fn node_id(&self) -> Option<&str> {
        let id = |key: &str| self.meta.get(key).map(String::as_str);
        // Brokers of ZooKeeper's time have the other name.
        id("node.id").or_else(|| id("broker.id"))
    }

    /// Its own id, if it has one.
    pub(super) fn directory(&self) -> Option<Uuid> {
        self.meta.get("directory.id")?.parse().ok()
    }

    /// Path that a partition's folder would have.
    pub(super) fn folder(&self, key: &TopicPartition) -> PathBuf {
        self.path.join(key.to_string())
    }

    /// Returns whether it has a partition, or a copy of it that is to replace the one in another directory.
    pub(super) fn has_replica(&self, key: &TopicPartition) -> bool {
        self.extents.contains_key(key)
            || self.folders.iter().any(|(folder, _)| {
                folder.name.state == FolderState::Future && folder.name.topic_partition == *key
            })
    }

    /// Returns whether a checkpoint is about a partition.
    pub(super) fn has_checkpointed(&self, key: &TopicPartition) -> bool {
        self.checkpointed.contains(key)
    }

    /// Returns whether records were ever appended to a partition, as far as can be seen.
    pub(super) fn may_hold_records(&self, key: &TopicPartition) -> bool {
        let extent = self.extents.get(key);
        extent.is_some_and(|extent| extent.log_end != Some(0))
    }
}

/// Returns whether a log dir has the records that a controller starts from.
#[must_use]
pub(super) fn has_bootstrap(log_dir: &Path) -> bool {
    is_file(&log_dir.join(BOOTSTRAP))
}

/// Verifies `bootstrap.checkpoint`.
///
/// # Errors
/// `Interrupted`, `Internal`, `OutOfMemory`.
pub(super) fn bootstrap(
    log_dir: &Path,
    threads: (&VerifyPool, &mut BatchCheck),
) -> Result<Vec<Finding>> {
    let mut findings = Findings::default();
    let reading = Reading {
        level: None,
        is_clean: true,
        headers_only: false,
    };
    metadata_snapshot::check(log_dir, BOOTSTRAP, reading, threads, &mut findings)?;
    Ok(findings.finish())
}

/// Verifies a log dir's own files; of one that is not `is_whole`, the lines about its partitions.
///
/// # Errors
/// `Io` where it cannot be listed.
pub(super) fn check(
    log_dir: &Path,
    (checkpoints, is_whole): (&CheckpointFiles, bool),
    contents: &mut Contents,
    findings: &mut Findings,
) -> Result<()> {
    contents.path = log_dir.to_path_buf();
    let extents = contents
        .extents
        .iter()
        .map(|(key, &extent)| (key.clone(), extent));
    checkpoints::check(log_dir, checkpoints, &extents.collect(), is_whole, findings);
    if !is_whole {
        return Ok(());
    }
    identity::clean_shutdown(log_dir, findings);
    let lines = checkpoints.values().flat_map(BTreeMap::keys);
    contents.checkpointed = lines.cloned().collect();
    contents.meta = identity::meta(log_dir, findings).unwrap_or_default();
    let folder = Folder::at(log_dir);
    if !folder.contains(META_PROPERTIES).unwrap_or(false) {
        let path = log_dir.join(META_PROPERTIES);
        findings.add(Finding::new(IDENTITY_MISSING, &path, "no such file"));
    }
    for entry in folder.entries()? {
        let entry = entry?;
        let path = log_dir.join(entry.raw_name());
        let name = entry.raw_name().to_string_lossy();
        if entry.is_folder() {
            match FolderName::parse(&name).map(|name| name.state) {
                Some(FolderState::Live) => {}
                Some(state) => {
                    let message = format!("a partition folder in state {}", state.name());
                    let code = match state {
                        FolderState::Stray => STRAY_FOLDER,
                        _ => LEFTOVER,
                    };
                    findings.add(Finding::new(code, &path, message));
                }
                None if name == REMOTE_INDEXES => {}
                None if is_taken_for_a_partitions(&name) => {
                    let message = "folder name: expected the name of a topic before the partition";
                    findings.add(Finding::new(FOLDER_NAME, &path, message));
                }
                None => {
                    let message = "folder name: expected TOPIC-PARTITION";
                    findings.add(Finding::new(UNKNOWN_FOLDER, &path, message));
                }
            }
        } else if name.ends_with(".tmp") {
            findings.add(Finding::new(LEFTOVER, &path, "half written"));
        } else if name == UNFINISHED {
            findings.add(Finding::new(
                UNFINISHED_OUTPUT,
                &path,
                "an output that is not finished",
            ));
        } else if name == JOB_NOTE {
            findings.add(Finding::new(PENDING_JOB, &path, "the note of a job"));
        } else if !(name.starts_with(OWN_FILES)
            || CHECKPOINTS.contains(&&*name)
            || [META_PROPERTIES, CLEAN_SHUTDOWN, LOCK, BOOTSTRAP].contains(&&*name))
        {
            findings.add(Finding::new(UNKNOWN_FILE, &path, "an unknown file"));
        }
    }
    Ok(())
}

/// Holds log dirs against each other, and the partitions of a topic.
pub(super) fn compare(dirs: &[Contents], findings: &mut Findings) {
    let mut seen: BTreeMap<(String, &TopicPartition), &PartitionFolder> = BTreeMap::new();
    let mut ids: BTreeMap<(String, &str), (&str, &Path)> = BTreeMap::new();
    let mut clusters: Option<(&str, &Path)> = None;
    // No two of a node may have the same (`MetaPropertiesEnsemble.verify`), nor two of a cluster (KIP-858).
    let mut directories: BTreeMap<&str, &Path> = BTreeMap::new();
    for dir in dirs {
        let get = |key: &str| dir.meta.get(key).map(String::as_str);
        let cluster = dir.cluster().unwrap_or_default();
        if !cluster.is_empty() {
            let (first, path) = *clusters.get_or_insert((cluster, &dir.path));
            if first != cluster {
                let message = format!(
                    "cluster.id: expected {first}, as {} has, found {cluster}",
                    path.display()
                );
                let path = dir.path.join(META_PROPERTIES);
                findings.add(Finding::new(IDENTITY_MISMATCH, &path, message));
            }
        }
        if let Some(id) = get("directory.id") {
            let first = *directories.entry(id).or_insert(&dir.path);
            if first != dir.path {
                let message = format!("directory.id: {id} is that of {} too", first.display());
                let path = dir.path.join(META_PROPERTIES);
                findings.add(Finding::new(IDENTITY_MISMATCH, &path, message));
            }
        }
        // Replicas in the directories of several nodes are no duplicates.
        let node = dir.node_id().unwrap_or_default().to_owned();
        for (folder, topic_id) in &dir.folders {
            let key = &folder.name.topic_partition;
            if folder.name.state == FolderState::Live
                && let Some(first) = seen.insert((node.clone(), key), folder)
            {
                let message = format!("{key} lies in {} too", first.path.display());
                findings.add(Finding {
                    topic_partition: Some(key.clone()),
                    ..Finding::new(DUPLICATE_PARTITION, &folder.path, message)
                });
            }
            // A topic that was deleted and made again has another id.
            let is_current = matches!(folder.name.state, FolderState::Live | FolderState::Future);
            if let Some(id) = topic_id.as_deref().filter(|_| is_current) {
                let topic = (cluster.to_owned(), key.topic.as_str());
                let (first, path) = *ids.entry(topic).or_insert((id, &folder.path));
                if first != id {
                    let message = format!(
                        "topic id: expected {first}, as {} has, found {id}",
                        path.display()
                    );
                    let path = folder.path.join(PARTITION_METADATA);
                    findings.add(Finding {
                        topic_partition: Some(key.clone()),
                        ..Finding::new(IDENTITY_MISMATCH, &path, message)
                    });
                }
            }
        }
    }
}
