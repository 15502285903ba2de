//! The offset checkpoints of a log dir, compared with its logs.
//!
//! | file | meaning of the offset | at most |
//! |---|---|---|
//! | `recovery-point-offset-checkpoint` | everything below is on the device | the log's end |
//! | `replication-offset-checkpoint` | everything below is committed | the log's end |
//! | `log-start-offset-checkpoint` | nothing below is served | the log's end |
//! | `cleaner-offset-checkpoint` | everything below is compacted | the log's end, else a broker starts over |
//!
//! Those of a killed broker are older than its logs, never newer.

use std::collections::BTreeMap;
use std::path::Path;

use super::finding::{
    CHECKPOINT_BEYOND_END, CHECKPOINT_ORDER, CHECKPOINT_STALE, CHECKPOINT_UNREADABLE, Finding,
    Findings,
};
use crate::format::checkpoint::parse_offsets;
use crate::log::dir::{
    CHECKPOINTS, CLEANER, LOG_START, PartitionOffsets, REPLICATION, read_parsed,
};
use crate::types::{Offset, TopicPartition};

/// Offsets of a partition's log, for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The offset after its last batch; `None` where damage hides it.
    pub log_end: Option<Offset>,
}

/// The checkpoints of a log dir by name.
pub(super) type CheckpointFiles = BTreeMap<&'static str, PartitionOffsets>;

/// Reads them. They are older than the logs, if they are read before those are listed.
pub(super) fn read(log_dir: &Path, findings: &mut Findings) -> CheckpointFiles {
    let mut all = CheckpointFiles::new();
    for name in CHECKPOINTS {
        let path = log_dir.join(name);
        match read_parsed(&path, parse_offsets) {
            Ok(Some(offsets)) => drop(all.insert(name, offsets)),
            Ok(None) => {}
            Err(error) => findings.add(Finding::of_error(CHECKPOINT_UNREADABLE, &path, &error)),
        }
    }
    all
}

/// Holds checkpoints against `logs`; where not all partitions were examined, the lines about those alone.
pub(super) fn check(
    log_dir: &Path,
    all: &CheckpointFiles,
    logs: &BTreeMap<TopicPartition, Extent>,
    is_whole: bool,
    findings: &mut Findings,
) {
    for (&name, offsets) in all {
        let path = log_dir.join(name);
        for (key, &offset) in offsets {
            let about = |finding: Finding| Finding {
                topic_partition: Some(key.clone()),
                ..finding.of(offset)
            };
            let Some(extent) = logs.get(key) else {
                if is_whole {
                    let message = format!("{key}: no such partition in the log dir");
                    findings.add(about(Finding::new(CHECKPOINT_STALE, &path, message)));
                }
                continue;
            };
            if offset < 0 {
                let message = format!("{key}: expected 0 or more, found {offset}");
                findings.add(about(Finding::new(CHECKPOINT_ORDER, &path, message)));
            } else if let Some(end) = extent.log_end.filter(|&end| offset > end) {
                let message = format!("{key}: expected up to the log's end, {end}, found {offset}");
                let code = if name == CLEANER {
                    CHECKPOINT_ORDER
                } else {
                    CHECKPOINT_BEYOND_END
                };
                findings.add(about(Finding::new(code, &path, message)));
            }
        }
    }
    let none = PartitionOffsets::new();
    let of = |name| all.get(name).unwrap_or(&none);
    for (key, &high_watermark) in of(REPLICATION) {
        if let Some(&start) = of(LOG_START).get(key)
            && start > high_watermark
            && logs.contains_key(key)
        {
            let message = format!(
                "{key}: expected at least the log start offset, {start}, found {high_watermark}"
            );
            let finding = Finding::new(CHECKPOINT_ORDER, &log_dir.join(REPLICATION), message);
            findings.add(Finding {
                topic_partition: Some(key.clone()),
                ..finding.of(high_watermark)
            });
        }
    }
}
