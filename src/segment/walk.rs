//! Iterates over the batch headers of a `.log` with exactly Kafka's checks ([`BatchHeader::in_file`]), so that recovery
//! stops where Kafka's does.

use std::sync::Arc;

use super::ahead::Ahead;
use super::entries::EntryOffset;
use super::search::{BatchSpan, search_for_offset};
use super::source::{Access, SegmentSource};
use crate::compress::DecodeLimit;
use crate::error::{Error, FaultKind, Result};
use crate::format::batch::{BatchHeader, LENGTH_AT, LOG_OVERHEAD, RECORD_BATCH_OVERHEAD};
use crate::io::storage::ReadFile;
use crate::records::control::EndTransaction;
use crate::records::legacy;
use crate::types::{Offset, Position};

/// The longest control batch that is taken into memory; a marker has 78 bytes.
const MAX_MARKER: usize = 1 << 20;

/// The batches of a `.log`.
#[derive(Debug)]
pub(crate) struct LogWalk {
    file: Arc<dyn ReadFile>,
    source: SegmentSource,
    position: Position,
    /// Threads that compute checksums ahead.
    ahead: Option<Ahead>,
    /// Position of the batch whose checksum they found right.
    sound: Option<Position>,
}

impl LogWalk {
    /// Begins at `position` of the first `end` bytes.
    ///
    /// # Errors
    /// `CorruptRecord` for a file longer than Kafka's positions reach.
    pub(crate) fn new(
        file: Arc<dyn ReadFile>,
        position: Position,
        end: Position,
        access: Access,
    ) -> Result<Self> {
        Ok(Self {
            source: SegmentSource::over(Arc::clone(&file), end, access)?,
            file,
            position,
            ahead: None,
            sound: None,
        })
    }

    /// Starts threads that compute all checksums from here on, if there is enough to read.
    pub(crate) fn sum_ahead(&mut self) {
        self.ahead = Ahead::start(&self.file, self.position, self.source.planned_len());
        if self.ahead.is_some() {
            self.source.expect(Access::Headers);
        }
    }

    /// Position of the next batch.
    #[must_use]
    pub(crate) const fn position(&self) -> Position {
        self.position
    }

    /// Continues at `position`.
    pub(crate) fn seek(&mut self, position: Position) {
        self.position = position;
        self.ahead = None;
    }

    /// Reads up to `wanted` bytes from `position`.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn bytes(&mut self, position: Position, wanted: usize) -> Result<&[u8]> {
        let room = usize::try_from(self.source.planned_len().saturating_sub(position));
        let room = room.unwrap_or(usize::MAX);
        self.source.bytes(position, wanted.min(room))
    }

    /// Says where a fault of the batch at `position` is.
    #[must_use]
    pub(crate) fn locate(&self, position: Position, error: Error) -> Error {
        let error = error.shift(self.file.origin(position));
        error.at(self.file.path())
    }

    /// An error with the file's name.
    pub(crate) fn named(&self, error: Error) -> Error {
        error.at(self.file.path())
    }

    /// The next batch's position and header; its bytes are all there.
    ///
    /// # Errors
    /// `CorruptRecord` for a length below the smallest; `Io`.
    pub(crate) fn next_batch(&mut self) -> Result<Option<(Position, BatchHeader)>> {
        let position = self.position;
        if let Some(header) = self.next_sound()? {
            self.position = position.saturating_add(header.size as u64);
            self.sound = Some(position);
            return Ok(Some((position, header)));
        }
        let left = self.source.planned_len().saturating_sub(position);
        if left == 0 {
            return Ok(None);
        }
        let head = self.bytes(position, RECORD_BATCH_OVERHEAD)?;
        let header = BatchHeader::in_file(head, left);
        let Some(header) = header.map_err(|error| self.locate(position, error))? else {
            return Ok(None);
        };
        self.position = position.saturating_add(header.size as u64);
        Ok(Some((position, header)))
    }

    /// The next batch's header, where its checksum was made ahead and is right.
    #[inline]
    fn next_sound(&mut self) -> Result<Option<BatchHeader>> {
        let Some(ahead) = &mut self.ahead else {
            return Ok(None);
        };
        let header = ahead.take(self.position)?;
        if header.is_none() {
            self.ahead = None;
        }
        Ok(header)
    }

    /// Holds the offsets of the batch at `position` against what comes before it, which ends at `floor`, and the next
    /// segment: no checksum covers a base offset, and a writer may set a last offset that is wrong.
    ///
    /// # Errors
    /// `CorruptRecord` where they overlap.
    pub(crate) fn ensure_in_order(
        &self,
        position: Position,
        header: &BatchHeader,
        (floor, next_base_offset): (Offset, Option<Offset>),
    ) -> Result<()> {
        let (base, last) = (header.base_offset, header.last_offset());
        let (what, expected, found) = match next_base_offset {
            _ if base < floor => (
                "base offset",
                format!("above {}", floor.saturating_sub(1)),
                base,
            ),
            _ if header.next_offset() <= base => ("last offset", format!("{base} or more"), last),
            Some(next) if last >= next => {
                let expected = format!("below {next}, where the next segment begins");
                ("last offset", expected, last)
            }
            _ => return Ok(()),
        };
        Err(self.locate(
            position,
            Error::corrupt_of(FaultKind::Order, what, 0, expected, found),
        ))
    }

    /// Holds the checksum of the batch at `position` against its bytes; a large one's in pieces.
    ///
    /// # Errors
    /// `CorruptRecord` where it differs or the batch is too short for its format; `Io`.
    pub(crate) fn ensure_valid(&mut self, position: Position, header: &BatchHeader) -> Result<()> {
        if self.sound == Some(position) {
            return Ok(());
        }
        if header.is_too_short() {
            let expected = format!("at least {}", RECORD_BATCH_OVERHEAD - LOG_OVERHEAD);
            let found = header.size.saturating_sub(LOG_OVERHEAD);
            let error = Error::corrupt_of(
                FaultKind::Length,
                "batch length",
                LENGTH_AT as u64,
                expected,
                found,
            );
            return Err(self.locate(position, error));
        }
        let error = match self.source.checksum(position, header)? {
            Some(computed) if computed == header.crc => return Ok(()),
            Some(computed) => header.crc_fault(computed),
            None => Error::corrupt_of(
                FaultKind::Torn,
                "batch",
                0,
                format_args!("{} bytes", header.size),
                "an end",
            ),
        };
        Err(self.locate(position, error))
    }

    /// Reads the marker in the control batch at `position`; `None` for a batch of another kind, or without records.
    ///
    /// # Errors
    /// Those of [`EndTransaction::of`].
    pub(crate) fn marker(
        &mut self,
        position: Position,
        header: &BatchHeader,
    ) -> Result<Option<EndTransaction>> {
        if !header.is_control() {
            return Ok(None);
        }
        let batch = self.bytes(position, header.size.min(MAX_MARKER))?;
        EndTransaction::of(batch, header).map_err(|error| self.locate(position, error))
    }

    /// The first offset of the batch at `position`.
    ///
    /// # Errors
    /// Those of [`legacy::first_offset`], `Io`.
    pub(crate) fn first_offset(
        &mut self,
        position: Position,
        header: &BatchHeader,
    ) -> Result<Offset> {
        if !header.is_wrapper() {
            return Ok(header.base_offset);
        }
        let batch = self.bytes(position, header.size)?;
        let first = legacy::first_offset(batch, header, DecodeLimit::default());
        first.map_err(|error| self.locate(position, error))
    }

    /// The offset by which the batch at `position` stands in an offset index.
    ///
    /// # Errors
    /// Those of [`legacy::first_offset`], `Io`.
    pub(crate) fn entry_offset(
        &mut self,
        position: Position,
        header: &BatchHeader,
        entry: EntryOffset,
    ) -> Result<Offset> {
        match entry {
            EntryOffset::Last => Ok(header.last_offset()),
            EntryOffset::First => self.first_offset(position, header),
        }
    }

    /// The first batch from here on that holds `target` or what follows it.
    ///
    /// # Errors
    /// As [`LogWalk::next_batch`], and those of [`legacy::first_offset`].
    pub(crate) fn search(&mut self, target: Offset) -> Result<Option<Position>> {
        search_for_offset(target, || {
            let Some((position, header)) = self.next_batch()? else {
                return Ok(None);
            };
            Ok(Some(BatchSpan {
                position,
                first_offset: self.first_offset(position, &header)?,
                last_offset: header.last_offset(),
            }))
        })
    }
}
