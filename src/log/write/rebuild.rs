//! The batches of an open log, for its producers' state.

use std::ops::Range;
use std::path::Path;

use super::WritableLog;
use super::segments::Segments;
use crate::error::Result;
use crate::format::file_name::{FileKind, FileName};
use crate::log::load::content::{Content, Places};
use crate::log::load::scan::LogScan;
use crate::log::producer_state::replay::{Rebuilding, Replay, ReplayedLog};
use crate::segment::source::Access;
use crate::types::{Offset, TimestampMs};

/// The segments of a log open for writing, to be replayed.
#[derive(Debug)]
struct WrittenBatches<'a> {
    folder: &'a Path,
    segments: &'a Segments,
}

impl ReplayedLog for WrittenBatches<'_> {
    fn base_offsets(&self) -> Vec<Offset> {
        let infos = self.segments.infos();
        infos.iter().map(|info| info.base_offset).collect()
    }

    fn replay(
        &mut self,
        base_offset: Offset,
        offsets: Range<Offset>,
        replay: &mut Replay<'_>,
    ) -> Result<()> {
        let name = FileName::new(base_offset, FileKind::Log).to_string();
        let size = self.segments.size(base_offset);
        let content = Content::disk(&name, size);
        let mut batches = LogScan::open(
            &Places::new(self.folder),
            &content,
            0,
            size,
            Access::Headers,
        )?;
        while let Some((position, header)) = batches.next_batch()? {
            if header.last_offset() >= offsets.end {
                break;
            }
            if header.last_offset() >= offsets.start {
                replay.take(&header, || batches.marker(position, &header))?;
            }
        }
        Ok(())
    }
}

impl WritableLog {
    /// Brings the producers to what they were when the log ended at `end`.
    pub(super) fn rebuild_producers(&mut self, end: Offset, now_ms: TimestampMs) -> Result<()> {
        let mut log = WrittenBatches {
            folder: &self.folder,
            segments: &self.segments,
        };
        let to = Rebuilding {
            log_start_offset: self.log_start_offset,
            log_end_offset: end,
            now_ms,
            was_clean: false,
        };
        self.producers.rebuild(&mut log, to)
    }
}
