//! The whole batches of a `.log`, and those of them that are in order.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::batch::{BatchHeader, HEADER_SIZE_UP_TO_MAGIC, MAGIC_AT};
use crate::format::cursor::get_i64;
use crate::format::file_name::FileName;
use crate::io::overlay::content::Content;
use crate::io::storage::ReadFile;
use crate::segment::entries::EntryInterval;
use crate::segment::source::Access;
use crate::segment::walk::LogWalk;
use crate::types::{Offset, Position};

/// Batches of one segment that are sorted out when some are out of order; beyond, the first come is kept.
const MAX_SORTED: usize = 4 << 20;
/// How much is searched for a batch at once.
const SEARCH_WINDOW: usize = 64 << 10;

/// Batches one after the other.
pub(super) type Parts = Vec<(Position, u64)>;

/// A `.log` and what can be kept of it.
pub(super) struct LogFile {
    pub(super) name: String,
    pub(super) content: Content,
    /// From its name; of one without an offset, its first whole batch's.
    pub(super) base_offset: Offset,
    /// Where its first whole batch begins, if it has one.
    pub(super) first_offset: Option<Offset>,
}

/// Batches of one `.log` that will be a segment.
pub(super) struct Piece {
    pub(super) base_offset: Offset,
    pub(super) parts: Parts,
}

/// A whole batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    pub(super) position: Position,
    pub(super) size: u64,
    pub(super) base_offset: Offset,
    pub(super) next_offset: Offset,
}

/// Batches that are kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub(super) parts: Parts,
    pub(super) batches: u64,
    /// The offset after the last.
    pub(super) end: Offset,
}

impl Kept {
    fn push(&mut self, batch: Whole) {
        push(&mut self.parts, batch);
        self.batches = self.batches.saturating_add(1);
        self.end = batch.next_offset;
    }

    /// Nothing, up to an offset.
    fn nothing(end: Offset) -> Self {
        Self {
            end,
            ..Self::default()
        }
    }
}

/// The whole batches of a `.log`, between two offsets.
pub(super) struct Batches {
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) length: u64,
    pub(super) floor: Offset,
    pub(super) ceiling: Offset,
}

impl Batches {
    /// Those with any offset.
    pub(super) fn all(file: Arc<dyn ReadFile>, length: u64) -> Self {
        Self {
            file,
            length,
            floor: 0,
            ceiling: Offset::MAX,
        }
    }

    fn walk(&self) -> Result<Walk> {
        let access = Access::Records;
        let length = self.length;
        Ok(Walk {
            scan: LogWalk::new(Arc::clone(&self.file), 0, length, access)?,
            end: length,
            floor: self.floor,
            ceiling: self.ceiling,
        })
    }

    pub(super) fn first(&self) -> Result<Option<Whole>> {
        self.walk()?.next(self.floor)
    }

    /// First come, first kept. Also says whether another choice would be possible.
    pub(super) fn greedy(&self) -> Result<(Kept, bool)> {
        let mut walk = self.walk()?;
        let mut kept = Kept::nothing(self.floor);
        let mut is_disordered = false;
        while let Some(batch) = walk.next(self.floor)? {
            if batch.base_offset < kept.end {
                is_disordered = true;
            } else {
                kept.push(batch);
            }
        }
        Ok((kept, is_disordered))
    }

    /// As many batches as can be in order.
    fn most(&self) -> Result<Option<Kept>> {
        let mut walk = self.walk()?;
        let mut all: Vec<Whole> = Vec::new();
        // For every length of a chain, the batch that ends it earliest; and for every batch the one before it.
        let mut ends: Vec<usize> = Vec::new();
        let mut before: Vec<Option<usize>> = Vec::new();
        while let Some(batch) = walk.next(self.floor)? {
            if all.len() == MAX_SORTED {
                return Ok(None);
            }
            let next_of = |at: usize| all.get(at).map_or(Offset::MAX, |whole| whole.next_offset);
            let length = ends.partition_point(|&end| next_of(end) <= batch.base_offset);
            let link = length.checked_sub(1).and_then(|at| ends.get(at)).copied();
            let here = all.len();
            match ends.get(length).copied() {
                Some(end) if next_of(end) <= batch.next_offset => {}
                Some(_) => {
                    if let Some(end) = ends.get_mut(length) {
                        *end = here;
                    }
                }
                None => ends.push(here),
            }
            before.push(link);
            all.push(batch);
        }
        let mut chain = Vec::new();
        let mut at = ends.last().copied();
        while let Some(here) = at {
            chain.extend(all.get(here).copied());
            at = before.get(here).copied().flatten();
        }
        let mut kept = Kept::nothing(self.floor);
        chain.into_iter().rev().for_each(|batch| kept.push(batch));
        Ok(Some(kept))
    }

    /// What is kept, and the segments it makes, for `index.interval.bytes` and so many entries in an index.
    pub(super) fn keep(&self, log: &LogFile, settings: (u64, usize)) -> Result<(Kept, Vec<Piece>)> {
        let (mut kept, is_disordered) = self.greedy()?;
        if is_disordered && let Some(most) = self.most()? {
            kept = most;
        }
        if !kept.parts.is_empty() {
            let pieces = self.divide(log, &kept.parts, settings)?;
            return Ok((kept, pieces));
        }
        // An empty segment stays where it is: its name may be all that tells where the log ends.
        let has_name = FileName::parse(&log.name).is_some();
        let base_offset = log.base_offset;
        if !has_name || !(self.floor..=self.ceiling).contains(&base_offset) {
            return Ok((kept, Vec::new()));
        }
        let parts = Parts::new();
        let empty = Piece { base_offset, parts };
        Ok((Kept::nothing(base_offset), vec![empty]))
    }

    /// Cuts what is kept into segments in which every offset and every index entry has room.
    fn divide(
        &self,
        log: &LogFile,
        parts: &Parts,
        (interval, room): (u64, usize),
    ) -> Result<Vec<Piece>> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut interval = EntryInterval::new(interval);
        let (mut entries, mut base) = (0usize, None);
        for &(begin, length) in parts {
            let end = begin.saturating_add(length);
            let access = Access::Headers;
            let mut scan = LogWalk::new(Arc::clone(&self.file), begin, end, access)?;
            while let Some((position, header)) = scan.next_batch()? {
                let size = header.size as u64;
                let mut due = interval.is_due();
                let reaches = base.is_some_and(|base: Offset| {
                    header.last_offset().saturating_sub(base) > i64::from(i32::MAX)
                });
                if base.is_none() || reaches || (due && entries >= room) {
                    let first = header.base_offset;
                    let own = (self.floor..=first).contains(&log.base_offset);
                    let far = header.last_offset().saturating_sub(log.base_offset);
                    let keeps_name = base.is_none() && own && far <= i64::from(i32::MAX);
                    let base_offset = if keeps_name { log.base_offset } else { first };
                    base = Some(base_offset);
                    pieces.push(Piece {
                        base_offset,
                        parts: Parts::new(),
                    });
                    interval.restart();
                    (entries, due) = (0, false);
                }
                if due {
                    interval.restart();
                    entries = entries.saturating_add(1);
                }
                interval.count(&header);
                if let Some(piece) = pieces.last_mut() {
                    push(
                        &mut piece.parts,
                        Whole {
                            position,
                            size,
                            base_offset: header.base_offset,
                            next_offset: header.next_offset(),
                        },
                    );
                }
            }
        }
        Ok(pieces)
    }
}

/// Puts a batch after the parts, joined to the last if it lies right after it.
fn push(parts: &mut Parts, batch: Whole) {
    match parts.last_mut() {
        Some((begin, length)) if begin.saturating_add(*length) == batch.position => {
            *length = length.saturating_add(batch.size);
        }
        _ => parts.push((batch.position, batch.size)),
    }
}

/// From whole batch to whole batch.
struct Walk {
    scan: LogWalk,
    end: Position,
    floor: Offset,
    ceiling: Offset,
}

impl Walk {
    /// The next whole batch that begins at or after `floor` and ends below the ceiling.
    fn next(&mut self, floor: Offset) -> Result<Option<Whole>> {
        loop {
            let position = self.scan.position();
            if position >= self.end {
                return Ok(None);
            }
            match self.whole_at(position)? {
                Some(batch) => {
                    let fits = batch.base_offset >= floor && batch.next_offset <= self.ceiling;
                    self.scan.seek(position.saturating_add(batch.size));
                    if fits {
                        return Ok(Some(batch));
                    }
                }
                None => self.search(position.saturating_add(1))?,
            }
        }
    }

    /// The batch at `position`, if it is whole.
    fn whole_at(&mut self, position: Position) -> Result<Option<Whole>> {
        self.scan.seek(position);
        let header = match self.scan.next_batch() {
            Ok(Some((_, header))) => header,
            Err(error @ (Error::Io { .. } | Error::Interrupted | Error::Internal(_))) => {
                return Err(error);
            }
            Ok(None) | Err(_) => return Ok(None),
        };
        if !makes_sense(&header) {
            return Ok(None);
        }
        match self.scan.ensure_valid(position, &header) {
            Ok(()) => {}
            Err(error @ (Error::Io { .. } | Error::Interrupted | Error::Internal(_))) => {
                return Err(error);
            }
            Err(_) => return Ok(None),
        }
        if header.has_producer_id() && self.scan.marker(position, &header).is_err() {
            return Ok(None);
        }
        Ok(Some(Whole {
            position,
            size: header.size as u64,
            base_offset: header.base_offset,
            next_offset: header.next_offset(),
        }))
    }

    /// Stands at the next place from `position` on where a batch may begin.
    fn search(&mut self, mut position: Position) -> Result<()> {
        let range = self.floor..self.ceiling;
        while position < self.end {
            let bytes = self.scan.bytes(position, SEARCH_WINDOW)?;
            let origins = bytes.len().saturating_sub(MAGIC_AT);
            // A magic beyond ours does not make a batch less whole: no checksum covers it, and Kafka reads it as 2.
            let candidate = bytes.windows(HEADER_SIZE_UP_TO_MAGIC).position(|head| {
                head.last().is_some_and(|magic| magic.cast_signed() >= 0)
                    && get_i64(head, 0).is_some_and(|offset| range.contains(&offset))
            });
            if let Some(at) = candidate {
                self.scan.seek(position.saturating_add(at as u64));
                return Ok(());
            }
            if origins == 0 {
                break;
            }
            position = position.saturating_add(origins as u64);
        }
        self.scan.seek(self.end);
        Ok(())
    }
}

/// Whether what the checksum does not cover, or what it covers but Kafka stumbles over, can be.
fn makes_sense(header: &BatchHeader) -> bool {
    let last = header.last_offset();
    header.base_offset >= 0
        && last >= header.base_offset
        && last < Offset::MAX
        && header.partition_leader_epoch >= -1
}
