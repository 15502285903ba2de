//! Partition folders against the cluster's metadata log, as a KRaft broker compares them at its start: a folder whose
//! topic the log lacks by that id, or that has no id, is stray, and so is one of a partition that other nodes have
//! (`LogManager.isStrayReplica`). The broker renames it to `TOPIC-PARTITION.ID-stray` and serves none of it. A
//! partition that the node should have and that is in none of its directories begins empty.
//!
//! | the folder, its `partition.metadata` | the metadata log | finding |
//! |---|---|---|
//! | has an id | has the topic, with another id | `topic-recreated` |
//! | has an id, or is missing | lacks the topic | `topic-deleted` |
//! | is missing, with records beside it | has the topic | `topic-id-missing` |
//! | has the topic's id | has fewer partitions | `partition-unknown` |
//! | has the topic's id | does not name the node as a replica | `replica-moved` |
//! | has the topic's id | names the node neither in the ISR nor as eligible to lead | `replica-out-of-sync` |
//! | is missing, but a checkpoint names it | has it in this directory | `replica-missing` |
//! | is missing | has it in this directory | `replica-not-created` |
//!
//! Several metadata logs of a cluster are compared by their ends: the longest counts. One in which changes are missing
//! is not used here.
//!
//! The replay of each of them gives findings, too: changes that are missing (`metadata-gap`, and
//! `metadata-cut` at the log's end, as far as another file shows it), records of a newer Kafka (`metadata-unknown`),
//! records that Kafka refuses (`metadata-record`).

use std::collections::BTreeMap;
use std::path::Path;
use std::slice;

use super::dir::Contents;
use super::finding::{
    Code, Finding, Findings, METADATA_CUT, METADATA_GAP, METADATA_RECORD, METADATA_UNKNOWN,
    PARTITION_UNKNOWN, REPLICA_MISSING, REPLICA_MOVED, REPLICA_NOT_CREATED, REPLICA_OUT_OF_SYNC,
    TOPIC_DELETED, TOPIC_ID_MISSING, TOPIC_RECREATED,
};
use crate::error::Result;
use crate::format::checkpoint::PARTITION_METADATA;
use crate::format::file_name::{CLUSTER_METADATA_TOPIC, FolderState};
use crate::io::folder::is_folder;
use crate::io::storage::Folder;
use crate::log::dir::PartitionFolder;
use crate::tables::metadata_log::{Chosen, LogEnd, choose};
use crate::tables::topics_image::{Replicas, TopicsImage};
use crate::types::{Offset, TopicPartition};

/// Holds the folders of every cluster that has a metadata log among `dirs` against it.
///
/// # Errors
/// `Interrupted`, `OutOfMemory`.
pub(super) fn compare(dirs: &[Contents], findings: &mut Findings) -> Result<()> {
    let mut logs: BTreeMap<&str, (&Path, Offset, TopicsImage)> = BTreeMap::new();
    for dir in dirs {
        for (folder, _) in &dir.folders {
            let key = &folder.name.topic_partition;
            if folder.name.state != FolderState::Live || key.topic != CLUSTER_METADATA_TOPIC {
                continue;
            }
            let chosen = match choose(slice::from_ref(&folder.path), LogEnd::State) {
                Ok(chosen) => chosen,
                // Faults in its files are findings about them.
                Err(error) if error.is_of_the_files() => continue,
                Err(error) => return Err(error),
            };
            let is_known = chosen.gap.is_none() && !chosen.state.has_lost_topics;
            about_log(folder, &chosen, findings);
            let (Some(cluster), true) = (dir.cluster(), is_known && chosen.end > 0) else {
                continue;
            };
            let known = logs.get(cluster).map(|&(_, end, _)| end);
            if known.is_none_or(|end| end < chosen.end) {
                logs.insert(cluster, (&folder.path, chosen.end, chosen.state.topics));
            }
        }
    }
    for dir in dirs {
        if let Some((log, _, topics)) = dir.cluster().and_then(|cluster| logs.get(cluster)) {
            check(dir, log, topics, findings);
            check_missing(dirs, dir, log, topics, findings);
        }
    }
    Ok(())
}

/// Reports the findings of a replay of a metadata log.
fn about_log(folder: &PartitionFolder, chosen: &Chosen, findings: &mut Findings) {
    let mut add = |finding: Finding| {
        findings.add(Finding {
            topic_partition: Some(folder.name.topic_partition.clone()),
            ..finding
        });
    };
    if let Some(gap) = &chosen.gap {
        add(Finding::new(METADATA_GAP, &gap.file, gap.message()).of(gap.first));
    }
    if let Some(cut) = &chosen.cut {
        add(Finding::new(METADATA_CUT, &cut.file, cut.why.clone()));
    }
    for refused in &chosen.state.refused.named {
        let code = if refused.is_unknown {
            METADATA_UNKNOWN
        } else {
            METADATA_RECORD
        };
        let file = folder.path.join(&*refused.segment);
        add(Finding::new(code, &file, refused.reason.clone()).of(refused.offset));
    }
}

fn check(dir: &Contents, log: &Path, topics: &TopicsImage, findings: &mut Findings) {
    for (folder, topic_id) in &dir.folders {
        let key = &folder.name.topic_partition;
        let is_current = matches!(folder.name.state, FolderState::Live | FolderState::Future);
        if !is_current || key.topic == CLUSTER_METADATA_TOPIC {
            continue;
        }
        let file = folder.path.join(PARTITION_METADATA);
        let has_file = Folder::at(&folder.path)
            .contains(PARTITION_METADATA)
            .unwrap_or(false);
        let topic = topics.get(&key.topic);
        let known = topic.map(|(id, _)| id.to_string());
        let shown = log.display();
        let (code, message): (&'static Code, String) = match (topic_id, known) {
            // An unreadable file is a finding of its own.
            (None, _) if has_file => continue,
            (_, None) => {
                let id = topic_id.as_deref().unwrap_or("none");
                let message = format!("topic id {id}: {shown} has no topic {}", key.topic);
                (TOPIC_DELETED, message)
            }
            (Some(id), Some(known)) if *id == known => {
                let replicas = topic.map(|(_, topic)| topic.partitions.get(&key.partition));
                let is_live = folder.name.state == FolderState::Live;
                let found = dir.node().filter(|_| is_live).zip(replicas);
                match found.and_then(|(node, replicas)| of_replica(node, replicas, log)) {
                    Some(found) => found,
                    None => continue,
                }
            }
            (Some(id), Some(known)) => {
                let message = format!("topic id: expected {known}, as {shown} has, found {id}");
                (TOPIC_RECREATED, message)
            }
            (None, Some(_)) if !dir.may_hold_records(key) => continue,
            (None, Some(known)) => {
                let message = format!("topic id: expected {known}, as {shown} has, found no file");
                (TOPIC_ID_MISSING, message)
            }
        };
        // A running broker may have removed it since it was listed.
        if is_folder(&folder.path) {
            findings.add(Finding {
                topic_partition: Some(key.clone()),
                ..Finding::new(code, &file, message)
            });
        }
    }
}

/// Compares a replica that is there with the metadata log.
fn of_replica(
    node: i32,
    replicas: Option<&Replicas>,
    log: &Path,
) -> Option<(&'static Code, String)> {
    let log = log.display();
    let Some(replicas) = replicas else {
        let message = format!("partition: {log} does not have it, but others of the topic");
        return Some((PARTITION_UNKNOWN, message));
    };
    let (code, what, nodes) = if !replicas.nodes.contains(&node) {
        (REPLICA_MOVED, "replicas", &replicas.nodes)
    } else if !replicas.in_sync.contains(&node) && !replicas.eligible.contains(&node) {
        (REPLICA_OUT_OF_SYNC, "isr", &replicas.in_sync)
    } else {
        return None;
    };
    let message = format!("{what}: expected node {node} among them, found {nodes:?} in {log}");
    Some((code, message))
}

/// The partitions that a directory should have, and that none of its node's has.
fn check_missing(
    dirs: &[Contents],
    dir: &Contents,
    log: &Path,
    topics: &TopicsImage,
    findings: &mut Findings,
) {
    let (Some(node), Some(id)) = (dir.node(), dir.directory()) else {
        return;
    };
    let of_node = || dirs.iter().filter(|each| each.node() == Some(node));
    for topic in topics.topics() {
        for (&partition, replicas) in &topic.partitions {
            let key = TopicPartition {
                topic: topic.name.clone(),
                partition,
            };
            // While it moves to another directory it may lie in either.
            if replicas.directory(node) != Some(id) || of_node().any(|each| each.has_replica(&key))
            {
                continue;
            }
            let code = if dir.has_checkpointed(&key) {
                REPLICA_MISSING
            } else {
                REPLICA_NOT_CREATED
            };
            let message = format!("no such folder; {} has it in this directory", log.display());
            findings.add(Finding {
                topic_partition: Some(key.clone()),
                ..Finding::new(code, &dir.folder(&key), message)
            });
        }
    }
}
