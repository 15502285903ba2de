//! Header to header through a `.log` as Kafka walks it (`FileLogInputStream`), and no stricter.
//!
//! Recovery must stop where Kafka's stops: the log ends quietly where fewer than a header's first 17 bytes are left
//! behind, or where a batch reaches beyond the end; a length below 14 is damage; every magic from 2 on is read as 2, and
//! one below 0 as a message of the old formats, whose checksum it then fails.

use crate::error::{Error, Result};
use crate::format::batch::{
    BatchHeader, HEADER_SIZE_UP_TO_MAGIC, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT, MIN_LENGTH,
    RECORD_BATCH_OVERHEAD,
};
use crate::format::cursor::get_i32;
use crate::records::control::EndTransaction;
use crate::segment::source::{Access, SegmentSource};
use crate::types::{Offset, Position};

use super::folder::{Content, Places, Source};

/// The longest control batch that is taken into memory; a marker has 78 bytes.
const MAX_MARKER: usize = 1 << 20;

/// The batches of a `.log` under plan.
#[derive(Debug)]
pub struct LogScan {
    source: Option<SegmentSource>,
    /// Where the `.log` begins in its source.
    from: Position,
    /// Bytes of the `.log` that are looked at.
    end: Position,
    position: Position,
}

impl LogScan {
    /// Begins at `position` of the first `end` bytes.
    ///
    /// # Errors
    /// `Io` where the file cannot be opened; `CorruptRecord` for one longer than Kafka's positions reach.
    pub fn open(
        places: &Places,
        content: &Content,
        position: Position,
        end: Position,
        access: Access,
    ) -> Result<Self> {
        let (source, from) = match content.source() {
            Source::Disk { name, from } if content.kept() > 0 => {
                let size = from.saturating_add(content.kept());
                let source = SegmentSource::open(&places.path(name), size, true, access)?;
                (Some(source), *from)
            }
            _ => (None, 0),
        };
        Ok(Self {
            source,
            from,
            end: end.min(content.kept()),
            position,
        })
    }

    /// Where the next batch begins.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// Goes on at `position`.
    pub const fn seek(&mut self, position: Position) {
        self.position = position;
    }

    fn bytes(&mut self, position: Position, wanted: usize) -> Result<&[u8]> {
        let room = usize::try_from(self.end.saturating_sub(position)).unwrap_or(usize::MAX);
        match &mut self.source {
            Some(source) => source.bytes(self.from.saturating_add(position), wanted.min(room)),
            None => Ok(&[]),
        }
    }

    /// The next batch's position and header; its bytes are all there.
    ///
    /// # Errors
    /// `CorruptRecord` for a length below the smallest; `Io`.
    pub fn next(&mut self) -> Result<Option<(Position, BatchHeader)>> {
        let position = self.position;
        let left = self.end.saturating_sub(position);
        // Exactly 17 bytes are not looked at either.
        if left <= HEADER_SIZE_UP_TO_MAGIC as u64 {
            return Ok(None);
        }
        let mut head = [0; RECORD_BATCH_OVERHEAD];
        let bytes = self.bytes(position, RECORD_BATCH_OVERHEAD)?;
        let there = bytes.len();
        for (to, byte) in head.iter_mut().zip(bytes) {
            *to = *byte;
        }
        let length = get_i32(&head, LENGTH_AT).unwrap_or_default();
        if length < MIN_LENGTH {
            let expected = format!("at least {MIN_LENGTH}");
            return Err(self.fault(Error::corrupt(
                "batch length",
                LENGTH_AT as u64,
                expected,
                length,
            )));
        }
        let size = u64::from(length.unsigned_abs()).saturating_add(LOG_OVERHEAD as u64);
        if size > left {
            return Ok(None);
        }
        match head.get_mut(MAGIC_AT) {
            Some(magic) if *magic > i8::MAX.cast_unsigned() => *magic = 1,
            _ => {}
        }
        let header = head.get(..there).and_then(BatchHeader::as_it_stands);
        let Some(header) = header else {
            let expected = format!("{RECORD_BATCH_OVERHEAD} bytes");
            return Err(self.fault(Error::corrupt("batch header", 0, expected, there)));
        };
        self.position = position.saturating_add(size);
        Ok(Some((position, header)))
    }

    /// Says where a fault of the batch that begins here is.
    fn fault(&self, error: Error) -> Error {
        let error = error.shift(self.from.saturating_add(self.position));
        match &self.source {
            Some(source) => error.at(source.path()),
            None => error,
        }
    }

    /// Holds the checksum of the batch at `position` against its bytes, in pieces.
    ///
    /// # Errors
    /// `CorruptRecord` where it differs or the batch is too short for its format; `Io`.
    pub fn ensure_valid(&mut self, position: Position, header: &BatchHeader) -> Result<()> {
        let at = |this: &Self, error: Error| {
            let error = error.shift(this.from.saturating_add(position));
            match &this.source {
                Some(source) => error.at(source.path()),
                None => error,
            }
        };
        if !header.is_legacy() && header.size < RECORD_BATCH_OVERHEAD {
            let expected = format!("at least {}", RECORD_BATCH_OVERHEAD - LOG_OVERHEAD);
            let found = header.size.saturating_sub(LOG_OVERHEAD);
            let error = Error::corrupt("batch length", LENGTH_AT as u64, expected, found);
            return Err(at(self, error));
        }
        let mut crc = header.begin_crc();
        let mut from = position.saturating_add(header.checksummed_from() as u64);
        let end = position.saturating_add(header.size as u64);
        while from < end {
            let left = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
            let base = self.from;
            let Some(source) = &mut self.source else {
                break;
            };
            let (region, start) = source.region(base.saturating_add(from), 1)?;
            let piece = region.as_slice().get(start..).unwrap_or_default();
            let piece = piece.get(..left).unwrap_or(piece);
            if piece.is_empty() {
                break;
            }
            crc.update(piece);
            from = from.saturating_add(piece.len() as u64);
        }
        let computed = crc.finish();
        if computed == header.crc && from >= end {
            Ok(())
        } else {
            Err(at(self, header.crc_fault(computed)))
        }
    }

    /// What the marker in the control batch at `position` says; `None` for a batch of another kind, or without records.
    ///
    /// # Errors
    /// Those of [`EndTransaction::of`].
    pub fn marker(
        &mut self,
        position: Position,
        header: &BatchHeader,
    ) -> Result<Option<EndTransaction>> {
        if !header.is_control() {
            return Ok(None);
        }
        let from = self.from;
        let path = self
            .source
            .as_ref()
            .map(|source| source.path().to_path_buf());
        let batch = self.bytes(position, header.size.min(MAX_MARKER))?;
        EndTransaction::of(batch, header).map_err(|error| {
            let error = error.shift(from.saturating_add(position));
            match &path {
                Some(path) => error.at(path),
                None => error,
            }
        })
    }

    /// The first batch that holds `target` or what follows it (`FileRecords.searchForOffsetFromPosition`).
    ///
    /// # Errors
    /// As [`LogScan::next`].
    pub fn search(&mut self, target: Offset) -> Result<Option<Position>> {
        let mut previous: Option<(Position, BatchHeader)> = None;
        while let Some((position, header)) = self.next()? {
            if header.base_offset == target {
                return Ok(Some(position));
            }
            if header.base_offset > target {
                let held = previous.filter(|(_, batch)| batch.last_offset() >= target);
                return Ok(Some(held.map_or(position, |(position, _)| position)));
            }
            previous = Some((position, header));
        }
        let held = previous.filter(|(_, batch)| batch.last_offset() >= target);
        Ok(held.map(|(position, _)| position))
    }
}
