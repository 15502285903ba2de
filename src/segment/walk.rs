//! The policy with exactly Kafka's checks ([`BatchHeader::in_file`]), so that recovery stops where Kafka's does; and the
//! one for copies of a log, in which every byte must belong to a whole batch.

use std::cmp::Ordering;
use std::sync::Arc;

use super::batches::{Batches, CURRENT_MAGIC, Policy, unknown_magic};
use super::checksum_pipeline::ChecksumPipeline;
use super::entries::EntryOffset;
use super::neighbours::Neighbours;
use super::source::{Access, SegmentSource};
use crate::error::{Error, Result};
use crate::format::batch::{BatchHeader, HEADER_SIZE_UP_TO_MAGIC, MAGIC_AT, RECORD_BATCH_OVERHEAD};
use crate::io::storage::ReadFile;
use crate::types::{Offset, Position};

/// Kafka's rules for coming to the next batch.
#[derive(Debug)]
pub(crate) struct KafkaPolicy {
    position: Position,
    /// Threads that compute checksums ahead.
    checksums: Option<ChecksumPipeline>,
    /// Position of the batch whose checksum they found right.
    sound: Option<Position>,
}

impl Policy for KafkaPolicy {
    fn position(&self) -> Position {
        self.position
    }

    /// # Errors
    /// `CorruptRecord` for a length below the smallest; `Io`.
    fn next_into(
        &mut self,
        source: &mut SegmentSource,
        header: &mut BatchHeader,
    ) -> Result<Option<Position>> {
        let position = self.position;
        if let Some(sound) = self.next_sound()? {
            self.sound = Some(position);
            *header = sound;
        } else {
            let left = source.planned_len().saturating_sub(position);
            if left == 0 {
                return Ok(None);
            }
            let head = source.bytes(position, RECORD_BATCH_OVERHEAD)?;
            let found = BatchHeader::in_file(head, left);
            let found = found.map_err(|error| source.locate(position, error))?;
            let Some(found) = found else {
                return Ok(None);
            };
            *header = found;
        }
        self.position = position.saturating_add(header.size as u64);
        Ok(Some(position))
    }
}

/// Kafka's rules where all of a file must be whole batches.
#[derive(Debug)]
pub(crate) struct CopyPolicy {
    kafka: KafkaPolicy,
    neighbours: Option<Neighbours>,
}

impl Policy for CopyPolicy {
    fn position(&self) -> Position {
        self.kafka.position
    }

    /// # Errors
    /// `CorruptRecord` for anything but a batch, `UnsupportedFormat` for a magic above 2; `Io`.
    fn next_into(
        &mut self,
        source: &mut SegmentSource,
        header: &mut BatchHeader,
    ) -> Result<Option<Position>> {
        let Some(position) = self.kafka.next_into(source, header)? else {
            let position = self.kafka.position;
            let left = source.planned_len().saturating_sub(position);
            if left == 0 {
                return Ok(None);
            }
            let found = format_args!("{left} bytes");
            let error = Error::corrupt("batch", 0, "a whole batch", found);
            return Err(source.locate(position, error));
        };
        if let Some(neighbours) = &mut self.neighbours {
            source.ensure_valid(position, header)?;
            let fits = neighbours.ensure_fits(header);
            fits.map_err(|error| source.locate(position, error))?;
            neighbours.floor = header.next_offset();
        }
        // The header says 2 for any magic above.
        match source
            .bytes(position, HEADER_SIZE_UP_TO_MAGIC)?
            .get(MAGIC_AT)
        {
            Some(&magic) if magic > CURRENT_MAGIC => {
                Err(source.locate(position, unknown_magic(magic)))
            }
            _ => Ok(Some(position)),
        }
    }
}

impl KafkaPolicy {
    /// The next batch's header, where its checksum was made ahead and is right.
    #[inline]
    fn next_sound(&mut self) -> Result<Option<BatchHeader>> {
        let Some(ahead) = &mut self.checksums else {
            return Ok(None);
        };
        let header = ahead.take(self.position)?;
        if header.is_none() {
            self.checksums = None;
        }
        Ok(header)
    }
}

impl Batches<KafkaPolicy> {
    /// The batches of the first `end` bytes, from `position` on.
    ///
    /// # Errors
    /// `CorruptRecord` for a file longer than Kafka's positions reach.
    pub(crate) fn of_file(
        file: Arc<dyn ReadFile>,
        position: Position,
        end: Position,
        access: Access,
    ) -> Result<Self> {
        let policy = KafkaPolicy {
            position,
            checksums: None,
            sound: None,
        };
        Ok(Self::new(SegmentSource::over(file, end, access)?, policy))
    }

    /// Starts threads that compute all checksums from here on, if there is enough to read.
    pub(crate) fn sum_ahead(&mut self) {
        let (begin, end) = (self.position(), self.source.planned_len());
        self.policy.checksums =
            (self.source.file()).and_then(|file| ChecksumPipeline::start(file, begin, end));
        if self.policy.checksums.is_some() {
            self.source.expect(Access::Headers);
        }
    }

    /// Continues at `position`.
    pub(crate) fn seek(&mut self, position: Position) {
        self.policy.position = position;
        self.policy.checksums = None;
    }

    /// The same batches, for a copy of the log: every byte must belong to one, and between `neighbours`, if they are
    /// given, each must fit and have the right checksum.
    pub(crate) fn whole(self, neighbours: Option<Neighbours>) -> Batches<CopyPolicy> {
        let kafka = self.policy;
        Batches::new(self.source, CopyPolicy { kafka, neighbours })
    }

    /// Compares the checksum of the batch at `position`, unless the threads did.
    ///
    /// # Errors
    /// As [`SegmentSource::ensure_valid`].
    pub(crate) fn ensure_valid(&mut self, position: Position, header: &BatchHeader) -> Result<()> {
        if self.policy.sound == Some(position) {
            return Ok(());
        }
        self.source.ensure_valid(position, header)
    }

    /// The offset by which the batch at `position` stands in an offset index.
    ///
    /// # Errors
    /// As [`SegmentSource::first_offset`].
    pub(crate) fn entry_offset(
        &mut self,
        position: Position,
        header: &BatchHeader,
        entry: EntryOffset,
    ) -> Result<Offset> {
        match entry {
            EntryOffset::Last => Ok(header.last_offset()),
            EntryOffset::First => self.source.first_offset(position, header),
        }
    }

    /// The first batch from here on that holds `target` or what follows it, by first offsets as far as they tell
    /// (`FileRecords.searchForOffsetFromPosition`).
    ///
    /// # Errors
    /// As [`Batches::next`] and [`SegmentSource::first_offset`].
    pub(crate) fn search(&mut self, target: Offset) -> Result<Option<Position>> {
        let holding = |before: Option<(Position, Offset)>| {
            before
                .filter(|&(_, last)| last >= target)
                .map(|(position, _)| position)
        };
        let mut before = None;
        while let Some((position, header)) = self.next()? {
            match self.source.first_offset(position, &header)?.cmp(&target) {
                Ordering::Less => before = Some((position, header.last_offset())),
                Ordering::Equal => return Ok(Some(position)),
                Ordering::Greater => return Ok(Some(holding(before).unwrap_or(position))),
            }
        }
        Ok(holding(before))
    }
}
