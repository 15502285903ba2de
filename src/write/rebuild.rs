//! The batches of an open log, for its producers' state.

use super::WritableLog;
use super::segments::WritableSegments;
use crate::error::Result;
use crate::format::file_name::{FileKind, FileName};
use crate::index::offset::OffsetIndex;
use crate::io::mapping::ClosedName;
use crate::io::storage::Storage;
use crate::producers::replay::{Rebuilding, ReplayedLog};
use crate::segment::batches::Batches;
use crate::segment::source::Access;
use crate::segment::walk::KafkaPolicy;
use crate::types::{Offset, Position, TimestampMs};

/// The segments of a log open for writing, to be replayed.
#[derive(Debug)]
struct WrittenBatches<'a, S: Storage> {
    storage: &'a S,
    segments: &'a mut WritableSegments<S>,
}

impl<S: Storage> WrittenBatches<'_, S> {
    /// The batches of a segment in its first `end` bytes, from `begin` on.
    fn walk(
        &self,
        base_offset: Offset,
        begin: Position,
        end: Position,
    ) -> Result<Batches<KafkaPolicy>> {
        let name = FileName::new(base_offset, FileKind::Log).to_string();
        Batches::of_file(self.storage.open(&name)?, begin, end, Access::Headers)
    }

    /// Finds the batch that holds `offset`, or the one after it (`LogSegment.translateOffset`).
    fn translate_offset(
        &mut self,
        base_offset: Offset,
        offset: Offset,
    ) -> Result<Option<Position>> {
        if base_offset == self.segments.active.base_offset() {
            return self.segments.active.translate_offset(offset);
        }
        let name = FileName::new(base_offset, FileKind::OffsetIndex).to_string();
        let begin = if self.storage.contains(&name)? {
            let next = Some(self.segments.base_offset_after(base_offset));
            let index = match ClosedName::of(self.storage, &name, next) {
                Some(closed) => OffsetIndex::map(&closed.open()?, base_offset)?,
                None => OffsetIndex::open_in(self.storage, &name, base_offset)?,
            };
            Position::try_from(index.lookup(offset)?.position).unwrap_or_default()
        } else {
            0
        };
        let end = self.segments.size(base_offset);
        self.walk(base_offset, begin, end)?.search(offset)
    }
}

impl<S: Storage> ReplayedLog for WrittenBatches<'_, S> {
    type Policy = KafkaPolicy;

    fn base_offsets(&self) -> Vec<Offset> {
        let infos = self.segments.infos();
        infos.iter().map(|info| info.base_offset).collect()
    }

    fn batches(
        &mut self,
        base_offset: Offset,
        start: Offset,
        end: Option<Offset>,
    ) -> Result<Option<Batches<KafkaPolicy>>> {
        let end = match end {
            Some(end) => self.translate_offset(base_offset, end)?,
            None => None,
        };
        let end = end.unwrap_or_else(|| self.segments.size(base_offset));
        let begin = self.translate_offset(base_offset, start)?;
        begin
            .map(|begin| self.walk(base_offset, begin, end))
            .transpose()
    }
}

impl<S: Storage> WritableLog<S> {
    /// The base offset of the first batch that holds `offset` or what follows it; `None` where no batch follows.
    pub(super) fn batch_at_or_after(&mut self, offset: Offset) -> Result<Option<Offset>> {
        let mut log = WrittenBatches {
            storage: &self.storage,
            segments: &mut self.segments,
        };
        for base_offset in log.segments.bases(offset, Offset::MAX) {
            if let Some(position) = log.translate_offset(base_offset, offset)? {
                let end = log.segments.size(base_offset);
                let found = log.walk(base_offset, position, end)?.next()?;
                return Ok(found.map(|(_, header)| header.base_offset));
            }
        }
        Ok(None)
    }

    /// Brings the producers to what they were when the log ended at `end`.
    pub(super) fn rebuild_producers(&mut self, end: Offset, now_ms: TimestampMs) -> Result<()> {
        let mut log = WrittenBatches {
            storage: &self.storage,
            segments: &mut self.segments,
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
