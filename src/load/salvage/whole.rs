//! Selection of the batches of a `.log` that can be kept: those that are whole, in order and decodable.

use std::sync::Arc;

use super::decoding::DecodedBatch;
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::file_name::FileName;
use crate::io::overlay::content::Content;
use crate::io::storage::ReadFile;
use crate::segment::entries::EntryInterval;
use crate::segment::resync::{Lost, Resync, ResyncItem};
use crate::segment::transactions::OpenTransactions;
use crate::segment::writer::roll::base_of;
use crate::types::{Offset, Position};

/// Batches one after the other.
pub(super) type BatchParts = Vec<(Position, u64)>;

/// A `.log` and what can be kept of it.
pub(super) struct LogFile {
    pub(super) name: String,
    pub(super) content: Content,
    /// From its name; of one without an offset, its first whole batch's.
    pub(super) base_offset: Offset,
    /// Offset of its first whole batch, if it has one.
    pub(super) first_offset: Option<Offset>,
}

/// Batches of one `.log` that will be a segment.
pub(super) struct SalvagedSegment {
    pub(super) base_offset: Offset,
    pub(super) parts: BatchParts,
}

/// Batches of a `.log` that are kept, and those that are not.
#[derive(Debug, Default)]
pub(super) struct KeptBatches {
    pub(super) batches: u64,
    /// The offset after the last batch.
    pub(super) end: Offset,
    /// The rest, in order.
    pub(super) lost: Vec<Lost>,
}

impl KeptBatches {
    fn lose(&mut self, lost: Lost) {
        let is_joined = self
            .lost
            .last_mut()
            .is_some_and(|before| before.join(&lost));
        if !is_joined {
            self.lost.push(lost);
        }
    }
}

/// The batches of a `.log` between two offsets.
pub(super) struct BatchesBetween {
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) length: u64,
    /// No batch may begin below.
    pub(super) floor: Offset,
    /// None may reach it.
    pub(super) ceiling: Offset,
    /// Base offset of the file.
    pub(super) base_offset: Offset,
}

impl BatchesBetween {
    /// Those with any offset.
    pub(super) fn all(file: Arc<dyn ReadFile>, length: u64, base_offset: Offset) -> Self {
        Self {
            file,
            length,
            floor: 0,
            ceiling: Offset::MAX,
            base_offset,
        }
    }

    fn walk(&self) -> Result<Resync> {
        let last = self.ceiling.saturating_sub(1);
        let file = Arc::clone(&self.file);
        Resync::within(file, self.length, (self.floor, last), self.base_offset)
    }

    /// The first offset of the first whole batch, in order or not.
    pub(super) fn first(&self) -> Result<Option<Offset>> {
        let first = self.walk()?.first_whole()?;
        Ok(first.map(|header| header.base_offset))
    }

    /// Gives every batch that is kept to `take`, in order, after those that left these transactions open.
    pub(super) fn each(
        &self,
        open: &mut OpenTransactions,
        mut take: impl FnMut(Position, &BatchHeader),
    ) -> Result<KeptBatches> {
        let mut kept = KeptBatches {
            end: self.floor,
            ..KeptBatches::default()
        };
        let mut decoding = DecodedBatch::new(&self.file, self.length)?;
        let mut walk = self.walk()?;
        while let Some(step) = walk.next_step()? {
            match step {
                ResyncItem::Lost(lost) => kept.lose(lost),
                ResyncItem::Batch(position, header) => {
                    match decoding.fault(position, &header, open)? {
                        None => {
                            kept.batches = kept.batches.saturating_add(1);
                            kept.end = header.next_offset();
                            take(position, &header);
                        }
                        Some(reason) => kept.lose(Lost {
                            position,
                            end: position.saturating_add(header.size as u64),
                            first_offset: Some(header.base_offset),
                            last_offset: Some(header.last_offset()),
                            reason,
                        }),
                    }
                }
            }
        }
        Ok(kept)
    }

    /// Selects what is kept and divides it into segments, for `index.interval.bytes` and so many entries in an index.
    pub(super) fn keep(
        &self,
        log: &LogFile,
        open: &mut OpenTransactions,
        settings: (u64, usize),
    ) -> Result<(KeptBatches, Vec<SalvagedSegment>)> {
        let mut division = Division::new(self.floor, log.base_offset, settings);
        let mut kept = self.each(open, |position, header| division.take(position, header))?;
        let mut pieces = division.pieces;
        // An empty segment is kept: its name may be the only sign of the log's end.
        let has_name = FileName::parse(&log.name).is_some();
        let base_offset = log.base_offset;
        if pieces.is_empty() && has_name && (self.floor..=self.ceiling).contains(&base_offset) {
            let parts = BatchParts::new();
            pieces.push(SalvagedSegment { base_offset, parts });
            kept.end = base_offset;
        }
        Ok((kept, pieces))
    }
}

/// Divides what is kept into segments in which every offset and every index entry has room.
struct Division {
    floor: Offset,
    /// Base offset of the file.
    own_base: Offset,
    interval: EntryInterval,
    /// Entries in an index, and most of them.
    entries: usize,
    room: usize,
    /// After the last batch.
    next_offset: Offset,
    pieces: Vec<SalvagedSegment>,
}

impl Division {
    fn new(floor: Offset, own_base: Offset, (interval, room): (u64, usize)) -> Self {
        Self {
            floor,
            own_base,
            interval: EntryInterval::new(interval),
            entries: 0,
            room,
            next_offset: floor,
            pieces: Vec::new(),
        }
    }

    fn take(&mut self, position: Position, header: &BatchHeader) {
        let is_near =
            |base: Offset| header.last_offset().saturating_sub(base) <= i64::from(i32::MAX);
        let due = self.interval.is_due();
        let fits = self
            .pieces
            .last()
            .is_some_and(|piece| is_near(piece.base_offset) && !(due && self.entries >= self.room));
        if !fits {
            let first = header.base_offset;
            let keeps_name = self.pieces.is_empty()
                && (self.floor..=first).contains(&self.own_base)
                && is_near(self.own_base);
            self.pieces.push(SalvagedSegment {
                base_offset: if keeps_name {
                    self.own_base
                } else if self.pieces.is_empty() {
                    first
                } else {
                    base_of(header, self.next_offset)
                },
                parts: BatchParts::new(),
            });
            self.interval.restart();
            self.entries = 0;
        } else if due {
            self.interval.restart();
            self.entries = self.entries.saturating_add(1);
        }
        self.interval.count(header);
        self.next_offset = header.next_offset();
        let size = header.size as u64;
        if let Some(piece) = self.pieces.last_mut() {
            match piece.parts.last_mut() {
                Some((begin, length)) if begin.saturating_add(*length) == position => {
                    *length = length.saturating_add(size);
                }
                _ => piece.parts.push((position, size)),
            }
        }
    }
}
