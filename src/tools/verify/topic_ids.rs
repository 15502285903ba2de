//! The topics of partition folders against those of the cluster's metadata log, as a KRaft broker compares them at its
//! start: a folder whose topic is not there by its id, or that has none, is stray (`LogManager.isStrayReplica`). The broker
//! renames it to `TOPIC-PARTITION.ID-stray` and serves none of it.
//!
//! | the folder's `partition.metadata` | the metadata log | finding |
//! |---|---|---|
//! | has an id | has the topic, with another id | `topic-recreated` |
//! | has an id, or is missing | lacks the topic | `topic-deleted` |
//! | is missing, with records beside it | has the topic | `topic-id-missing` |
//!
//! Several metadata logs of a cluster are compared by their ends: the longest counts. A damaged one says nothing here.

use std::collections::BTreeMap;
use std::path::Path;

use super::dir::Contents;
use super::finding::{Code, Finding, Findings, TOPIC_DELETED, TOPIC_ID_MISSING, TOPIC_RECREATED};
use crate::error::Result;
use crate::format::checkpoint::PARTITION_METADATA;
use crate::format::file_name::{CLUSTER_METADATA_TOPIC, FolderState};
use crate::tables::topic_ids::TopicIds;

/// Holds the folders of every cluster that has a metadata log among `dirs` against it.
///
/// # Errors
/// `Interrupted`, `OutOfMemory`.
pub(super) fn compare(dirs: &[Contents], findings: &mut Findings) -> Result<()> {
    let mut logs: BTreeMap<&str, (&Path, TopicIds)> = BTreeMap::new();
    for dir in dirs {
        let Some(cluster) = dir.cluster() else {
            continue;
        };
        for (folder, _) in &dir.folders {
            let key = &folder.name.topic_partition;
            if folder.name.state != FolderState::Live || key.topic != CLUSTER_METADATA_TOPIC {
                continue;
            }
            let topics = match TopicIds::read(&folder.path) {
                Ok(Some(topics)) => topics,
                // What is wrong with its files is a finding about them.
                Ok(None) => continue,
                Err(error) if error.is_of_the_files() => continue,
                Err(error) => return Err(error),
            };
            let known = logs.get(cluster).map(|(_, known)| known.end);
            if known.is_none_or(|end| end < topics.end) {
                logs.insert(cluster, (&folder.path, topics));
            }
        }
    }
    for dir in dirs {
        if let Some((log, topics)) = dir.cluster().and_then(|cluster| logs.get(cluster)) {
            check(dir, log, topics, findings);
        }
    }
    Ok(())
}

fn check(dir: &Contents, log: &Path, topics: &TopicIds, findings: &mut Findings) {
    for (folder, topic_id) in &dir.folders {
        let key = &folder.name.topic_partition;
        let is_current = matches!(folder.name.state, FolderState::Live | FolderState::Future);
        if !is_current || key.topic == CLUSTER_METADATA_TOPIC {
            continue;
        }
        let file = folder.path.join(PARTITION_METADATA);
        let has_file = file.exists();
        let known = topics.get(&key.topic).map(|id| id.to_string());
        let log = log.display();
        let (code, message): (&'static Code, String) = match (topic_id, known) {
            // An unreadable file is a finding of its own.
            (None, _) if has_file => continue,
            (_, None) => {
                let id = topic_id.as_deref().unwrap_or("none");
                let message = format!("topic id {id}: {log} has no topic {}", key.topic);
                (TOPIC_DELETED, message)
            }
            (Some(id), Some(known)) if *id == known => continue,
            (Some(id), Some(known)) => {
                let message = format!("topic id: expected {known}, as {log} has, found {id}");
                (TOPIC_RECREATED, message)
            }
            (None, Some(_)) if !dir.may_hold_records(key) => continue,
            (None, Some(known)) => {
                let message = format!("topic id: expected {known}, as {log} has, found no file");
                (TOPIC_ID_MISSING, message)
            }
        };
        // A running broker may have removed it since it was listed.
        if folder.path.is_dir() {
            findings.add(Finding {
                topic_partition: Some(key.clone()),
                ..Finding::new(code, &file, message)
            });
        }
    }
}
