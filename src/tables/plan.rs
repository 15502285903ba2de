//! Files with the records of internal topics: segments as for a scan, and KRaft's snapshots.
//!
//! | file | where |
//! |---|---|
//! | `N.log` | the partition's folder |
//! | `N-E.checkpoint` | the folder of `__cluster_metadata`: the state before offset N; its own offsets begin at 0 |
//! | `bootstrap.checkpoint` | the log dir: what a cluster begins with |
//!
//! A snapshot's name ends in 20 digits of an offset, `-`, 10 of an epoch (`Snapshots`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::topic::Topic;
use crate::error::{Error, Result};
use crate::format::file_name::FolderName;
use crate::io::folder::{is_file, is_folder};
use crate::io::storage::Folder;
use crate::log::dir::{PathKind, dir_above};
use crate::scan::plan::{PlanOptions, Starting, plan_scan};
use crate::scan::range::{PartitionRange, SegmentRange};
use crate::types::Offset;

/// The snapshot a cluster begins with (`BootstrapDirectory.BINARY_BOOTSTRAP_FILENAME`).
pub(crate) const BOOTSTRAP: &str = "bootstrap.checkpoint";
const SUFFIX: &str = ".checkpoint";
/// Digits of a snapshot's offset, and of the epoch after it.
pub(crate) const SNAPSHOT_OFFSET_DIGITS: usize = 20;
pub(crate) const SNAPSHOT_EPOCH_DIGITS: usize = 10;
/// Below all offsets: no segment of the folder stands in for a snapshot that is gone.
const BELOW_ALL: Offset = -1;

/// End offset and epoch, of a snapshot's file name.
pub(crate) fn snapshot_id(name: &str) -> Option<(Offset, i32)> {
    let offset = name.get(..SNAPSHOT_OFFSET_DIGITS)?.parse().ok()?;
    let epoch = name.get(SNAPSHOT_OFFSET_DIGITS.checked_add(1)?..)?;
    Some((offset, epoch.get(..SNAPSHOT_EPOCH_DIGITS)?.parse().ok()?))
}

/// Returns whether a file's name is that of a snapshot.
pub(crate) fn is_snapshot(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        let id = name.strip_suffix(SUFFIX);
        name == BOOTSTRAP || id.is_some_and(|id| snapshot_id(id).is_some())
    })
}

/// Plans to read every record of internal topics below `paths`: log dirs, partition folders, files of those.
///
/// By topic and partition; of `__cluster_metadata` the snapshots come before the log.
///
/// # Errors
/// As [`plan_scan`]; `InvalidArgument` for a named topic that is none of these, or is not there.
pub(crate) fn plan(paths: &[PathBuf], topics: Option<&[String]>) -> Result<Vec<PartitionRange>> {
    let mut wanted = BTreeSet::new();
    for name in topics.unwrap_or_default() {
        if Topic::of(name).is_none() {
            let known = Topic::ALL.map(Topic::name).join(", ");
            let text = format!("topics: expected some of {known}, found {name:?}");
            return Err(Error::InvalidArgument(text));
        }
        wanted.insert(name.clone());
    }
    if topics.is_none() {
        wanted.extend(Topic::ALL.map(|topic| topic.name().to_owned()));
    }
    let (snapshots, others): (Vec<_>, Vec<_>) = paths
        .iter()
        .cloned()
        .partition(|path| is_snapshot(path) && is_file(path));
    let options = PlanOptions {
        topics: Some(wanted.clone()),
        starting_offsets: Starting::Oldest,
        allow_missing: true,
        ..PlanOptions::default()
    };
    let mut ranges = if others.is_empty() {
        Vec::new()
    } else {
        plan_scan(&others, &options)?
    };
    if wanted.contains(Topic::ClusterMetadata.name()) {
        let mut found = Vec::new();
        for path in snapshots.iter().chain(&snapshots_in(&others)?) {
            found.push(range_of(path)?);
        }
        // The topic is the first by name.
        found.append(&mut ranges);
        ranges = found;
    }
    for name in topics.unwrap_or_default() {
        if !ranges.iter().any(|range| range.topic == *name) {
            let elsewhere = if *name == Topic::ClusterMetadata.name() {
                ""
            } else {
                "; if the cluster has it, another broker's log dir has it"
            };
            let text = format!("topic {name} does not exist in {}{elsewhere}", shown(paths));
            return Err(Error::UnknownTopicOrPartition(text));
        }
    }
    Ok(ranges)
}

fn shown(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}

/// The snapshots in folders: the bootstrap first, then by offset.
fn snapshots_in(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        match PathKind::of(path)? {
            PathKind::LogDir => {
                found.extend(Some(path.join(BOOTSTRAP)).filter(|path| is_file(path)));
                let folder = path.join(format!("{}-0", Topic::ClusterMetadata.name()));
                if is_folder(&folder) {
                    found.extend(list(&folder)?);
                }
            }
            PathKind::Partition(FolderName {
                topic_partition, ..
            }) if topic_partition.topic == Topic::ClusterMetadata.name() => {
                found.extend(list(path)?);
            }
            PathKind::Partition(_) | PathKind::File => {}
        }
    }
    Ok(found)
}

fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let folder = Folder::at(folder);
    for entry in folder.entries()? {
        let entry = entry?;
        let path = folder.path_of(&entry.text());
        if is_snapshot(&path) && entry.is_file() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// A snapshot as a log of one segment.
fn range_of(path: &Path) -> Result<PartitionRange> {
    let folder = Folder::at(dir_above(path));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let size = folder.stat(&name)?.length;
    Ok(PartitionRange {
        topic: Topic::ClusterMetadata.name().to_owned(),
        partition: 0,
        start_offset: BELOW_ALL,
        segments: vec![SegmentRange {
            start_offset: BELOW_ALL,
            version: folder.version(&name)?,
            file_name: name.into_owned(),
            ..SegmentRange::whole(0, size, None)
        }],
        folder,
        ..PartitionRange::default()
    })
}
