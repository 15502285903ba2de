//! Producer state of a log under plan: replayed from its batches (`UnifiedLog.rebuildProducerState`), snapshots planned.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::content::Content;
use super::folder::Folder;
use super::loader::{floor, values};
use super::lock;
use super::scan::LogScan;
use super::segment::Segment;
use crate::error::Result;
use crate::format::file_name::{FileKind, FileState};
use crate::log::producer_state::ProducerStateManager;
use crate::log::producer_state::by_producer::ByProducer;
use crate::log::producer_state::snapshots::{MAX_SNAPSHOT, SnapshotFiles, snapshot_offset};
use crate::types::{AppendOrigin, Offset, TimestampMs};

/// The snapshots of a folder under plan.
#[derive(Debug)]
pub(super) struct PlannedSnapshots {
    folder: Arc<Mutex<Folder>>,
}

impl PlannedSnapshots {
    pub(super) fn new(folder: &Arc<Mutex<Folder>>) -> Self {
        Self {
            folder: Arc::clone(folder),
        }
    }
}

impl SnapshotFiles for PlannedSnapshots {
    fn list(&self) -> Result<Vec<(Offset, String)>> {
        let folder = lock(&self.folder);
        let names = folder.names().into_iter();
        names
            .filter(|name| name.ends_with(FileKind::Snapshot.suffix()))
            .map(|name| Ok((snapshot_offset(&name, &folder.path_of(&name))?, name)))
            .collect()
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        lock(&self.folder).read(name, MAX_SNAPSHOT)
    }

    fn write(&self, name: &str, data: &[u8], _sync: bool) -> Result<()> {
        lock(&self.folder).write(name, Content::bytes(data.to_vec()))
    }

    fn remove(&self, name: &str) -> Result<()> {
        lock(&self.folder).delete(name);
        Ok(())
    }

    fn mark_deleted(&self, name: &str) -> Result<bool> {
        let to = format!("{name}{}", FileState::Deleted.suffix());
        Ok(lock(&self.folder).rename(name, &to))
    }
}

/// Brings the state to `log_end`: from the newest snapshot, and the batches behind it.
pub(super) fn rebuild_producer_state(
    folder: &Mutex<Folder>,
    producers: &mut ProducerStateManager,
    segments: &mut BTreeMap<Offset, Segment>,
    (log_start, log_end): (Offset, Offset),
    now_ms: TimestampMs,
    clean: bool,
) -> Result<()> {
    let mut bases = segments.keys().rev().copied();
    let (last, last_but_one) = (bases.next(), bases.next());
    if clean && producers.latest_snapshot_offset().is_none() {
        // A log of the time before snapshots, which has no producers: none are looked for.
        for offset in [last_but_one, last, Some(log_end)].into_iter().flatten() {
            producers.update_map_end_offset(offset);
            producers.take_snapshot(true)?;
        }
        return Ok(());
    }
    let was_empty = producers.is_empty() && producers.map_end_offset() >= log_end;
    producers.truncate_and_reload(log_start, log_end, now_ms)?;
    if log_end > producers.map_end_offset() && !was_empty {
        let with_end = floor(segments, log_end);
        for base in values(segments, producers.map_end_offset(), log_end) {
            let Some(segment) = segments.get_mut(&base) else {
                continue;
            };
            let start = base.max(producers.map_end_offset()).max(log_start);
            producers.update_map_end_offset(start);
            if last == Some(base) || last_but_one == Some(base) {
                producers.take_snapshot(true)?;
            }
            let mut planned = lock(folder);
            let mut end = segment.size;
            if with_end == Some(base) {
                let cut = segment.translate_offset(&mut planned, log_end)?;
                end = cut.unwrap_or(end);
            }
            let batches = segment.read(&mut planned, start, end)?;
            drop(planned);
            if let Some(mut batches) = batches {
                replay(producers, &mut batches)?;
            }
        }
    }
    producers.update_map_end_offset(log_end);
    producers.take_snapshot(true)?;
    Ok(())
}

/// Takes batches in as one append (`UnifiedLog.loadProducersFromRecords`).
fn replay(producers: &mut ProducerStateManager, batches: &mut LogScan) -> Result<()> {
    let mut appends = ByProducer::default();
    let mut completed = Vec::new();
    while let Some((position, header)) = batches.next_batch()? {
        if !header.has_producer_id() {
            continue;
        }
        let marker = batches.marker(position, &header)?;
        let append = appends.get_or_insert_with(header.producer_id, || {
            producers.prepare_update(header.producer_id, AppendOrigin::Replication)
        });
        completed.extend(append.append(&header, marker, 0)?);
    }
    producers.update_all(appends);
    for txn in &completed {
        producers.complete_txn(txn)?;
    }
    Ok(())
}
