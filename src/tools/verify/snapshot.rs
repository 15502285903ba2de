//! `.snapshot`: a producer state, compared with the batches before its offset.
//!
//! Producers may be missing on either side: a broker drops idle ones, compaction and retention drop batches. Producers
//! that both have must agree.

use std::path::Path;

use super::finding::{
    Finding, Findings, SNAPSHOT_OUTDATED, SNAPSHOT_TRANSACTION, SNAPSHOT_UNREADABLE,
};
use super::producers::ProducerHistory;
use crate::error::Result;
use crate::format::entry::ProducerState;
use crate::io::folder::read_file;
use crate::producers::snapshots::MAX_SNAPSHOT;
use crate::types::Offset;

/// Reads a snapshot; a broken one is a finding.
///
/// # Errors
/// `OutOfMemory`, `Interrupted`.
pub(super) fn read(
    folder: &Path,
    name: &str,
    findings: &mut Findings,
) -> Result<Option<Vec<ProducerState>>> {
    let path = folder.join(name);
    match read_file(&path, MAX_SNAPSHOT).and_then(|bytes| ProducerState::parse_snapshot(&bytes)) {
        Ok(states) => Ok(Some(states)),
        Err(error) if error.is_of_the_files() => {
            findings.add(Finding::of_error(SNAPSHOT_UNREADABLE, &path, &error));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Holds the snapshot of `offset` against what the log says up to there.
pub(super) fn compare(
    path: &Path,
    offset: Offset,
    states: &[ProducerState],
    history: &ProducerHistory,
    findings: &mut Findings,
) {
    let mut tell = |code, at: Offset, message: String| {
        findings.add(Finding::new(code, path, message).of(at));
    };
    for state in states {
        let (id, open) = (state.producer_id, state.current_txn_first_offset);
        if state.last_offset >= offset || open >= offset {
            let found = state.last_offset.max(open);
            let message = format!("producer {id}: expected offsets below {offset}, found {found}");
            tell(SNAPSHOT_OUTDATED, found, message);
            continue;
        }
        let Some(known) = history.producer(id) else {
            continue;
        };
        // After a new epoch a broker knows no batch of the old one.
        if let Some(last) = known
            .change
            .last
            .filter(|last| state.last_offset >= 0 && last.epoch == state.producer_epoch)
        {
            let is_older = state.last_offset < last.last_offset;
            let differs =
                state.last_offset == last.last_offset && state.last_sequence != last.last_sequence;
            if is_older || differs {
                let message = format!(
                    "producer {id}: expected last offset {} with sequence {}, found {} with {}",
                    last.last_offset, last.last_sequence, state.last_offset, state.last_sequence
                );
                tell(SNAPSHOT_OUTDATED, state.last_offset, message);
            }
        }
        let in_log = known.change.open.map(|open| open.first);
        let ended = known.change.ended.unwrap_or(-1);
        let agrees = match (in_log, open) {
            (None, ..0) => true,
            // Its batches may have been compacted away or deleted.
            (None, first) => first > ended || !known.is_exact,
            (Some(_), ..0) => false,
            (Some(first), found) => found <= first && found > ended,
        };
        if !agrees {
            let word = |first: Option<Offset>| {
                first.map_or_else(
                    || "none".to_owned(),
                    |first| format!("one from offset {first}"),
                )
            };
            let found = word((open >= 0).then_some(open));
            let message = format!(
                "producer {id}: open transaction: expected {}, found {found}",
                word(in_log)
            );
            tell(SNAPSHOT_TRANSACTION, in_log.unwrap_or(open), message);
        }
    }
    for (id, known) in history.producers() {
        if let Some(open) = known.change.open
            && states.iter().all(|state| state.producer_id != id)
        {
            let first = open.first;
            let message = format!(
                "producer {id}: expected an open transaction from offset {first}, found no such producer"
            );
            tell(SNAPSHOT_TRANSACTION, first, message);
        }
    }
}
