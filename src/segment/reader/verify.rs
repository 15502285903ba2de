//! The checks of a batch that need its bytes, or those after it: the checksum first of all.

use super::SegmentReader;
use crate::error::{Error, FaultKind, Result};
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::io::unaligned::prefetch;
use crate::segment::batches::CURRENT_MAGIC;
use crate::types::Position;

/// Bytes of the next batch that are requested ahead of its turn.
const AHEAD: usize = 16 << 10;
/// A larger batch of an active segment is checked before memory is taken for it.
const STREAMED: usize = 16 << 20;

impl SegmentReader {
    /// Makes the batch's bytes ready and compares its checksum. Returns where the batch lies in the region that the
    /// source holds, `None` where the log ends here after all.
    #[inline]
    pub(super) fn verify(
        &mut self,
        position: Position,
        header: &BatchHeader,
    ) -> Result<Option<usize>> {
        let is_copied = self.source.is_copied();
        if self.options.check_crcs && header.size > STREAMED && is_copied {
            self.check_in_pieces(position, header)?;
        }
        let (_, at) = self.source.region(position, header.size)?;
        // Bytes that a storage cannot give are others, of which nothing but the checksum tells.
        let checks_crc =
            self.options.check_crcs || self.source.file().is_some_and(|file| file.has_damage());
        let region = self.source.held();
        let end = at.saturating_add(header.size);
        let Some(batch) = region.get(at..end) else {
            // The file became shorter since its header was read.
            return self.end().map(|()| None);
        };
        if !is_copied {
            // While this batch is checked and decoded, the next one comes from memory.
            let ahead = end.saturating_add(header.size.min(AHEAD));
            prefetch(region.get(end..ahead).unwrap_or_default());
        }
        if checks_crc && let Err(error) = header.ensure_valid(batch) {
            if self.skipping.is_none()
                && self.is_active
                && self.is_unwritten(position, header.size)?
            {
                self.ended = true;
                return Ok(None);
            }
            return Err(self.located(error.shift(position), header));
        }
        Ok(Some(at))
    }

    /// The end of the segment: right, unless a closed file has become shorter than it was at planning.
    fn end(&mut self) -> Result<()> {
        let (planned, now) = (self.source.planned_len(), self.source.len());
        if now < planned && !self.is_active && !self.ended {
            let what = "segment size";
            return Err(Error::corrupt_of(
                FaultKind::SegmentSize,
                what,
                now,
                format_args!("{planned} bytes as planned"),
                now,
            )
            .at(self.source.path()));
        }
        self.ended = true;
        Ok(())
    }

    /// After a gap, the base offset of the batch that ends the range may be wrong: then the next batch contradicts it.
    pub(super) fn check_end(&mut self, position: Position, header: &BatchHeader) -> Result<()> {
        // When reading past damage, the gap was looked into.
        if self.skipping.is_some() || header.base_offset == self.cursor.floor_before() {
            return Ok(());
        }
        let after = self
            .source
            .bytes(self.cursor.position(), RECORD_BATCH_OVERHEAD)?;
        match BatchHeader::parse(after) {
            Ok(Some(next))
                if next.magic <= CURRENT_MAGIC && next.base_offset <= header.last_offset() =>
            {
                let expected = format!("below {}, the next batch's", next.base_offset);
                let error = Error::corrupt_of(
                    FaultKind::Order,
                    "base offset",
                    position,
                    expected,
                    header.base_offset,
                );
                Err(self.located(error, header))
            }
            _ => Ok(()),
        }
    }

    /// Compares the checksum of a batch without taking it into memory as a whole.
    #[cold]
    pub(super) fn check_in_pieces(
        &mut self,
        position: Position,
        header: &BatchHeader,
    ) -> Result<()> {
        match self.source.checksum(position, header)? {
            Some(computed) if computed != header.crc => {
                Err(self.located(header.crc_fault(computed).shift(position), header))
            }
            // If the file ends inside it, reading its bytes finds that out.
            _ => Ok(()),
        }
    }

    /// Returns whether a batch of a preallocated active file is still being written: zeros from inside it to the file's
    /// end.
    #[cold]
    fn is_unwritten(&mut self, position: Position, size: usize) -> Result<bool> {
        const ZEROS: u64 = 64;
        let end = position.saturating_add(size as u64);
        Ok(end < self.source.len()
            && self
                .source
                .is_zero_from(end.saturating_sub(ZEROS).max(position))?)
    }
}
