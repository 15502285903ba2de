//! Passes over a log in a plan that write nothing: the outcome of each batch is recorded, so that the segments can be
//! recomputed when a later pass reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cleaned::{CleanedChunk, CleanedHistory, CleanedLog, DecisionLog, SourcePosition};
use super::rules;
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::io::overlay::Overlay;
use crate::io::storage::ReadFolder as _;
use crate::load::Plan;
use crate::records::filtered::FilteredBatch;
use crate::segment::files::name_of;
use crate::types::{Offset, Position, TimestampMs};
use crate::write::{WritableLog, WriteOptions};

/// The names of `.log` files that are being written.
const CLEANED_LOG: &str = ".log.cleaned";

/// The rehearsal of a log's compaction.
///
/// Memory: a bit or more for each record and batch that goes or changes
/// ([`OffsetSet`](crate::segment::offset_set::OffsetSet)), and the indexes of the new segments.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    folder: Overlay,
    history: Arc<CleanedHistory>,
    /// Outcome of batches in the present pass.
    pass: DecisionLog,
    /// The segments that a pass made, by base offset.
    cleaned: BTreeMap<Offset, Arc<CleanedLog>>,
}

impl Rehearsal {
    /// Opens the log that a plan leaves.
    ///
    /// # Errors
    /// As [`WritableLog::open`].
    pub(crate) fn open(
        plan: Plan,
        options: WriteOptions,
        now_ms: TimestampMs,
    ) -> Result<(WritableLog<Overlay>, Self)> {
        let rules = rules(&options.config, now_ms);
        let (log, folder) = WritableLog::rehearse(plan, options, CLEANED_LOG, now_ms)?;
        let mut logs = Vec::new();
        for (name, _) in folder.list(".log")? {
            if let (Some(parsed), Some(content)) = (FileName::parse(&name), folder.get(&name))
                && (parsed.kind, parsed.state) == (FileKind::Log, FileState::Live)
            {
                logs.push((parsed.offset, content));
            }
        }
        logs.sort_by_key(|&(base_offset, _)| base_offset);
        let rehearsal = Self {
            folder,
            history: Arc::new(CleanedHistory::new(logs, rules)),
            pass: DecisionLog::default(),
            cleaned: BTreeMap::new(),
        };
        Ok((log, rehearsal))
    }

    /// Notes what this pass made of a batch, and which of its records it took out.
    pub(super) fn note(&mut self, header: &BatchHeader, outcome: &FilteredBatch, gone: &[Offset]) {
        self.pass.note(header, outcome, gone);
    }

    /// The pass is over.
    pub(super) fn end_pass(&mut self) {
        self.history.add_all(std::mem::take(&mut self.pass));
    }

    /// Finds the place in the original log from which to come to this position of a segment.
    pub(super) fn place(&self, base_offset: Offset, position: Position) -> SourcePosition {
        let cleaned = self.cleaned.get(&base_offset);
        let place = cleaned.and_then(|log| log.place(position));
        place.unwrap_or_else(|| self.history.place(base_offset, position))
    }

    /// New segments, whose bytes come from there, take the place of others.
    pub(super) fn replace(&mut self, old: &[Offset], new: Vec<(Offset, u64, Vec<CleanedChunk>)>) {
        for base_offset in old {
            self.cleaned.remove(base_offset);
        }
        for (base_offset, length, chunks) in new {
            let log = Arc::new(CleanedLog::new(&self.history, chunks, length));
            let name = name_of(base_offset, FileKind::Log, FileState::Cleaned);
            self.folder.derive(&name, Arc::clone(&log) as _);
            self.cleaned.insert(base_offset, log);
        }
    }
}
