//! Producer state out of the batches behind a snapshot (`UnifiedLog.rebuildProducerState`).

use std::fs::File;
use std::path::{Path, PathBuf};

use super::WritableLog;
use super::segments::SegmentInfo;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::format::file_name::{FileKind, FileName};
use crate::io::file::read_at;
use crate::log::producer_state::ProducerStateManager;
use crate::records::control::EndTransaction;
use crate::segment::files::header_at;
use crate::types::{AppendOrigin, Offset, Position, TimestampMs};

/// A `.log` that is only read.
struct Batches {
    file: File,
    path: PathBuf,
    size: u64,
    position: Position,
}

impl Batches {
    fn open(folder: &Path, segment: SegmentInfo) -> Result<Self> {
        let path = folder.join(FileName::new(segment.base_offset, FileKind::Log).to_string());
        Ok(Self {
            file: File::open(&path).map_err(Error::io(&path))?,
            path,
            size: segment.size,
            position: 0,
        })
    }

    fn next(&mut self) -> Result<Option<(Position, BatchHeader)>> {
        let read =
            |buffer: &mut [u8], at| read_at(&self.file, buffer, at).map_err(Error::io(&self.path));
        let at = self.position;
        let header = header_at(read, self.size, at, &self.path)?;
        if let Some(header) = &header {
            self.position = at.saturating_add(header.size as u64);
        }
        Ok(header.map(|header| (at, header)))
    }

    fn marker(&self, at: Position, header: &BatchHeader) -> Result<Option<EndTransaction>> {
        if !header.is_control() {
            return Ok(None);
        }
        let mut batch = vec![0; header.size];
        let read = read_at(&self.file, &mut batch, at).map_err(Error::io(&self.path))?;
        batch.truncate(read);
        EndTransaction::of(&batch, header).map_err(|error| error.shift(at).at(&self.path))
    }
}

impl WritableLog {
    /// Brings the producers to what they were when the log ended at `end`.
    pub(super) fn rebuild_producers(&mut self, end: Offset, now_ms: TimestampMs) -> Result<()> {
        let infos = self.segments.infos();
        let start = self.log_start_offset;
        rebuild(
            &mut self.producers,
            &self.folder,
            &infos,
            start,
            end,
            now_ms,
        )
    }
}

fn rebuild(
    producers: &mut ProducerStateManager,
    folder: &Path,
    segments: &[SegmentInfo],
    log_start: Offset,
    end: Offset,
    now_ms: TimestampMs,
) -> Result<()> {
    // Snapshots at the last two segments, so that a broker of before they were kept need not replay more.
    let snapshots_from = segments.len().saturating_sub(2);
    let nothing_known = producers.is_empty() && producers.map_end_offset() >= end;
    producers.truncate_and_reload(log_start, end, now_ms)?;
    if end > producers.map_end_offset() && !nothing_known {
        let from = producers.map_end_offset();
        let holding = segments.partition_point(|segment| segment.base_offset <= from);
        for (n, segment) in segments.iter().enumerate() {
            if n < holding.saturating_sub(1) || segment.base_offset >= end {
                continue;
            }
            let begin = segment.base_offset.max(producers.map_end_offset());
            let begin = begin.max(log_start);
            producers.update_map_end_offset(begin);
            if n >= snapshots_from {
                producers.take_snapshot(true)?;
            }
            replay(producers, &mut Batches::open(folder, *segment)?, begin, end)?;
        }
    }
    producers.update_map_end_offset(end);
    producers.take_snapshot(true)?;
    Ok(())
}

/// Takes the batches of a segment in that hold offsets from `begin` up to `end`.
fn replay(
    producers: &mut ProducerStateManager,
    batches: &mut Batches,
    begin: Offset,
    end: Offset,
) -> Result<()> {
    let (mut headers, mut markers) = (Vec::new(), Vec::new());
    while let Some((at, header)) = batches.next()? {
        if header.last_offset() >= end {
            break;
        }
        if header.last_offset() >= begin && header.has_producer_id() {
            markers.push(batches.marker(at, &header)?);
            headers.push(header);
        }
    }
    let batches = headers.iter().zip(markers);
    let analysis = producers.analyze(batches, AppendOrigin::Replication, 0)?;
    producers.update_all(analysis.appends);
    for completed in &analysis.completed {
        producers.complete_txn(completed)?;
    }
    Ok(())
}
