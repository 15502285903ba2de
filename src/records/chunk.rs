//! Up to [`Chunk::CAPACITY`] decoded records that all lie in the same bytes: the unit that readers of segments pass to
//! columns.
//!
//! A chunk fits the first-level cache, so that filling one column after another from it costs no memory traffic. It is
//! large enough to amortize each column's loop over batches of one record.
//!
//! # Ownership
//! The consumer of records owns the chunk and, in it, the arena of decompressed records. It lends both to a reader to
//! be filled, takes records out, and takes the arena's memory ([`Chunk::freeze`]) when columns point into it.

use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::io::region::Region;
use crate::records::RecordSlot;
use crate::records::arena::{Arena, ArenaId, Frozen};
use crate::records::parts::{PartAgreement, Size};
use crate::records::walk::RecordDecoder;
use crate::types::{Compression, Offset, Position};

/// Consecutive records of one batch.
#[derive(Clone, Debug)]
pub(crate) struct BatchRows {
    /// The batch they are from.
    pub header: BatchHeader,
    /// Position of the batch in its file.
    pub position: Position,
    /// Number of rows.
    pub rows: usize,
}

/// Bytes in which decoded records lie.
#[derive(Clone, Debug)]
pub(crate) enum RecordBytes {
    /// A mapped file, a window of a file, or an arena that was frozen.
    Region(Region),
    /// Content of the chunk's arena while it has this id.
    Arena(ArenaId),
}

impl RecordBytes {
    /// Returns whether both are the same bytes in memory.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Region(a), Self::Region(b)) => a.same(b),
            (Self::Arena(a), Self::Arena(b)) => a == b,
            _ => false,
        }
    }

    /// Names the region instead of the arena that it was.
    pub(crate) fn freeze(&mut self, frozen: &Frozen) {
        if matches!(self, Self::Arena(id) if *id == frozen.id()) {
            *self = Self::Region(frozen.region().clone());
        }
    }
}

/// The bytes of a chunk's records.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChunkBytes<'a> {
    /// All of a region.
    Region(&'a Region),
    /// Current content of an arena.
    Arena(&'a Arena),
}

impl<'a> ChunkBytes<'a> {
    /// The bytes that slots count from.
    #[inline]
    #[must_use]
    pub(crate) fn as_slice(self) -> &'a [u8] {
        match self {
            Self::Region(region) => region.as_slice(),
            Self::Arena(arena) => arena.bytes(),
        }
    }
}

/// Decoded records and the batches they are from.
#[derive(Debug)]
pub(crate) struct Chunk {
    slots: Box<[RecordSlot]>,
    start: usize,
    end: usize,
    runs: Vec<BatchRows>,
    source: Option<RecordBytes>,
    encoded: usize,
    arena: Arena,
    /// Former content of the arena, for a reader in the middle of a batch in it.
    frozen: Option<Frozen>,
    parts: PartAgreement,
}

impl Default for Chunk {
    fn default() -> Self {
        Self::new(Arena::default())
    }
}

impl Chunk {
    /// Most records in a chunk: 40 KiB of slots.
    pub(crate) const CAPACITY: usize = 1024;

    /// Without records; decompressed ones will lie in `arena`.
    #[must_use]
    pub(crate) fn new(arena: Arena) -> Self {
        Self {
            slots: vec![RecordSlot::default(); Self::CAPACITY].into_boxed_slice(),
            start: 0,
            end: 0,
            runs: Vec::new(),
            source: None,
            encoded: 0,
            arena,
            frozen: None,
            parts: PartAgreement::default(),
        }
    }

    /// The records not yet taken.
    #[must_use]
    pub(crate) fn slots(&self) -> &[RecordSlot] {
        self.slots.get(self.start..self.end).unwrap_or_default()
    }

    /// The batches of [`Chunk::slots`], in order; their rows add up to it.
    #[must_use]
    pub(crate) fn runs(&self) -> &[BatchRows] {
        &self.runs
    }

    /// The records' bytes; `None` while there are none.
    #[must_use]
    pub(crate) fn bytes(&self) -> Option<ChunkBytes<'_>> {
        match self.source.as_ref()? {
            RecordBytes::Region(region) => Some(ChunkBytes::Region(region)),
            RecordBytes::Arena(id) if *id == self.arena.id() => {
                Some(ChunkBytes::Arena(&self.arena))
            }
            RecordBytes::Arena(_) => None,
        }
    }

    /// Returns whether the records were decompressed.
    #[must_use]
    pub(crate) fn is_decompressed(&self) -> bool {
        let mut runs = self.runs.iter();
        runs.next()
            .is_some_and(|run| run.header.attributes.compression() != Some(Compression::None))
    }

    /// The decompressed records.
    #[must_use]
    pub(crate) const fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The decompressed records, to append more.
    pub(crate) const fn arena_mut(&mut self) -> &mut Arena {
        &mut self.arena
    }

    /// Agreement about batches that do not fit into one chunk.
    #[must_use]
    pub(crate) const fn parts(&self) -> &PartAgreement {
        &self.parts
    }

    /// The same, to agree on.
    pub(crate) const fn parts_mut(&mut self) -> &mut PartAgreement {
        &mut self.parts
    }

    /// Estimates a batch of so many records in so many bytes, if it may be handed over before all of them are decoded.
    #[must_use]
    pub(crate) fn takes_parts(&self, records: usize, bytes: usize) -> Option<Size> {
        self.parts.limit_for(records, bytes)
    }

    /// Drops the records, all of the batch at `position`, and has those that were given of it taken back.
    pub(crate) fn withdraw(&mut self, position: Position) {
        self.clear();
        self.parts.withdraw(position);
    }

    /// At least the bytes of all keys and values: what the records take in their encoding.
    #[must_use]
    pub(crate) const fn encoded(&self) -> usize {
        self.encoded
    }

    /// No records left.
    #[must_use]
    pub(crate) const fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Number of records that still fit.
    #[must_use]
    pub(crate) fn room(&self) -> usize {
        self.slots.len().saturating_sub(self.end)
    }

    /// No room for more.
    #[must_use]
    pub(crate) fn is_full(&self) -> bool {
        self.end >= self.slots.len()
    }

    /// Drops the records.
    pub(crate) fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
        self.runs.clear();
        self.source = None;
        self.encoded = 0;
    }

    /// Returns whether records in `region` can join those here; an empty chunk takes any.
    #[inline]
    pub(crate) fn accepts_region(&mut self, region: &Region) -> bool {
        match &self.source {
            Some(RecordBytes::Region(own)) => own.same(region),
            Some(RecordBytes::Arena(_)) => false,
            None => {
                self.source = Some(RecordBytes::Region(region.clone()));
                true
            }
        }
    }

    /// Returns whether records in `bytes` can join those here; an empty chunk takes any.
    pub(crate) fn accepts(&mut self, bytes: &RecordBytes) -> bool {
        if self.is_empty() {
            // Batches without records may have named their bytes already.
            self.clear();
        }
        self.source
            .get_or_insert_with(|| bytes.clone())
            .is_same(bytes)
    }

    /// Moves the decompressed records into a region. Records here, and a batch that a reader is in the middle of, lie
    /// in that region from now on.
    pub(crate) fn freeze(&mut self) -> Frozen {
        let frozen = self.arena.freeze();
        if let Some(source) = &mut self.source {
            source.freeze(&frozen);
        }
        self.frozen = Some(frozen.clone());
        frozen
    }

    /// Takes the result of the last [`Chunk::freeze`].
    pub(crate) const fn take_frozen(&mut self) -> Option<Frozen> {
        self.frozen.take()
    }

    /// Drops records and decompressed bytes, and keeps the memory.
    pub(crate) fn reset(&mut self) {
        self.clear();
        self.arena.clear();
        self.frozen = None;
        self.parts.reset();
    }

    /// Position of the batch of a record.
    #[must_use]
    pub(crate) fn position_of(&self, mut row: usize) -> Position {
        let run = self.runs.iter().find(|run| {
            let is_here = row < run.rows;
            row = row.saturating_sub(run.rows);
            is_here
        });
        run.map_or(0, |run| run.position)
    }

    /// Takes the first `rows` records off.
    pub(crate) fn consume(&mut self, rows: usize) {
        self.start = self.start.saturating_add(rows).min(self.end);
        let mut left = rows;
        let mut gone = 0usize;
        for run in &mut self.runs {
            if left < run.rows {
                run.rows = run.rows.saturating_sub(left);
                break;
            }
            left = left.saturating_sub(run.rows);
            gone = gone.saturating_add(1);
        }
        self.runs.drain(..gone);
        if self.is_empty() {
            self.clear();
        } else {
            self.encoded = payload(self.slots());
        }
    }

    /// Keeps the records that `wanted` accepts; returns how many it dropped.
    pub(crate) fn retain(&mut self, mut wanted: impl FnMut(&RecordSlot) -> bool) -> usize {
        let (start, before) = (self.start, self.slots().len());
        let (mut at, mut kept) = (start, start);
        for run in &mut self.runs {
            let end = at.saturating_add(run.rows);
            let first = kept;
            for from in at..end {
                if self.slots.get(from).is_some_and(&mut wanted) {
                    self.slots.copy_within(from..from.saturating_add(1), kept);
                    kept = kept.saturating_add(1);
                }
            }
            run.rows = kept.saturating_sub(first);
            at = end;
        }
        self.end = kept;
        self.runs.retain(|run| run.rows > 0);
        let gone = before.saturating_sub(kept.saturating_sub(start));
        if self.is_empty() {
            self.clear();
        } else if gone > 0 {
            self.encoded = payload(self.slots());
        }
        gone
    }

    /// Decodes from `walk` until the chunk is full or the batch is done, keeping offsets in `from..to`.
    ///
    /// # Errors
    /// What [`RecordDecoder::step`] finds; nothing is added then.
    #[inline]
    pub(crate) fn walk(
        &mut self,
        walk: &mut RecordDecoder,
        source: &[u8],
        header: &BatchHeader,
        position: Position,
        wanted: (Offset, Offset),
    ) -> Result<()> {
        let free = self.slots.get_mut(self.end..).unwrap_or_default();
        let before = walk.position();
        let rows = decode(walk, source, free, header, wanted)?;
        self.add_walked(
            walk.position().saturating_sub(before),
            header,
            position,
            rows,
        );
        Ok(())
    }

    /// As [`Chunk::walk`], in the bytes that the chunk's records lie in.
    ///
    /// # Errors
    /// As [`Chunk::walk`].
    #[inline]
    pub(crate) fn walk_own(
        &mut self,
        walk: &mut RecordDecoder,
        header: &BatchHeader,
        position: Position,
        wanted: (Offset, Offset),
    ) -> Result<()> {
        let source = match &self.source {
            Some(RecordBytes::Region(region)) => region.as_slice(),
            Some(RecordBytes::Arena(id)) if *id == self.arena.id() => self.arena.bytes(),
            _ => {
                return Err(Error::internal(
                    "chunk was cleared while its records were in use",
                ));
            }
        };
        let free = self.slots.get_mut(self.end..).unwrap_or_default();
        let before = walk.position();
        let rows = decode(walk, source, free, header, wanted)?;
        self.add_walked(
            walk.position().saturating_sub(before),
            header,
            position,
            rows,
        );
        Ok(())
    }

    /// Adds as many records decoded elsewhere as there is room for, keeping offsets in `from..to`; returns how many of
    /// `decoded` it examined.
    pub(crate) fn extend(
        &mut self,
        decoded: &[RecordSlot],
        header: &BatchHeader,
        position: Position,
        (from, to): (Offset, Offset),
    ) -> usize {
        let Some(free) = self.slots.get_mut(self.end..) else {
            return 0;
        };
        let taken = decoded.len().min(free.len());
        for (slot, decoded) in free.iter_mut().zip(decoded) {
            *slot = *decoded;
        }
        let rows = keep(free, taken, from, to);
        let added = payload(free.get(..rows).unwrap_or_default());
        self.encoded = self.encoded.saturating_add(added);
        self.add_run(header, position, rows);
        taken
    }

    #[inline]
    fn add_walked(&mut self, bytes: usize, header: &BatchHeader, position: Position, rows: usize) {
        self.encoded = self.encoded.saturating_add(bytes);
        self.add_run(header, position, rows);
    }

    #[inline]
    fn add_run(&mut self, header: &BatchHeader, position: Position, rows: usize) {
        if rows > 0 {
            self.end = self.end.saturating_add(rows);
            match self.runs.last_mut() {
                Some(run) if run.position == position => run.rows = run.rows.saturating_add(rows),
                _ => self.runs.push(BatchRows {
                    header: header.clone(),
                    position,
                    rows,
                }),
            }
        }
    }
}

/// Decodes records into `free` and keeps those with offsets in `from..to`, in front; returns how many.
#[inline]
fn decode(
    walk: &mut RecordDecoder,
    source: &[u8],
    free: &mut [RecordSlot],
    header: &BatchHeader,
    (from, to): (Offset, Offset),
) -> Result<usize> {
    let rows = walk.step(source, free)?;
    Ok(if header.base_offset < from || header.last_offset() >= to {
        keep(free, rows, from, to)
    } else {
        rows
    })
}

/// Bytes of the keys and values of these records.
fn payload(slots: &[RecordSlot]) -> usize {
    let len = |len: i32| len.max(0).unsigned_abs() as usize;
    slots.iter().fold(0, |total, slot| {
        total
            .saturating_add(len(slot.key_len))
            .saturating_add(len(slot.value_len))
    })
}

/// Moves the slots with offsets in `from..to` to the front; returns how many there are.
fn keep(slots: &mut [RecordSlot], rows: usize, from: Offset, to: Offset) -> usize {
    let mut kept = 0usize;
    for at in 0..rows {
        let Some(slot) = slots.get(at).copied() else {
            break;
        };
        if (from..to).contains(&slot.offset)
            && let Some(place) = slots.get_mut(kept)
        {
            *place = slot;
            kept = kept.saturating_add(1);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> BatchHeader {
        let mut bytes = [0u8; 61];
        bytes[8..12].copy_from_slice(&49i32.to_be_bytes());
        bytes[16] = 2;
        BatchHeader::parse(&bytes).unwrap().unwrap()
    }

    fn slots(offsets: std::ops::Range<i64>) -> Vec<RecordSlot> {
        offsets
            .map(|offset| RecordSlot {
                offset,
                ..RecordSlot::default()
            })
            .collect()
    }

    fn offsets(chunk: &Chunk) -> Vec<i64> {
        chunk.slots().iter().map(|s| s.offset).collect()
    }

    #[test]
    fn rows_are_taken_across_runs() {
        let mut chunk = Chunk::default();
        for (n, at) in [(3, 0), (1, 100), (4, 200)] {
            chunk.extend(
                &slots(at..at + n),
                &header(),
                u64::try_from(at).unwrap(),
                (0, i64::MAX),
            );
        }
        chunk.consume(2);
        assert_eq!(
            chunk
                .runs()
                .iter()
                .map(|r| (r.position, r.rows))
                .collect::<Vec<_>>(),
            [(0, 1), (100, 1), (200, 4)]
        );
        chunk.consume(3);
        assert_eq!(offsets(&chunk), [201, 202, 203]);
        assert_eq!(chunk.runs().len(), 1);
        chunk.consume(3);
        assert!(chunk.is_empty() && chunk.runs().is_empty());
    }

    #[test]
    fn offsets_outside_are_left_out() {
        let mut chunk = Chunk::default();
        assert_eq!(chunk.extend(&slots(10..20), &header(), 0, (12, 15)), 10);
        assert_eq!(offsets(&chunk), [12, 13, 14]);
        assert_eq!(chunk.runs()[0].rows, 3);
        assert_eq!(chunk.extend(&slots(20..30), &header(), 9, (12, 15)), 10);
        assert_eq!(chunk.runs().len(), 1);
    }

    #[test]
    fn what_is_not_retained_is_gone_from_its_run() {
        let mut chunk = Chunk::default();
        for at in [0, 10, 20] {
            let position = u64::try_from(at).unwrap();
            chunk.extend(&slots(at..at + 4), &header(), position, (0, i64::MAX));
        }
        chunk.consume(1);
        let wanted = |offset| ![2, 23].contains(&offset) && !(10..14).contains(&offset);
        assert_eq!(chunk.retain(|slot| wanted(slot.offset)), 6);
        assert_eq!(offsets(&chunk), [1, 3, 20, 21, 22]);
        let runs: Vec<_> = chunk.runs().iter().map(|r| (r.position, r.rows)).collect();
        assert_eq!(runs, [(0, 2), (20, 3)]);
        assert_eq!(chunk.retain(|_| false), 5);
        assert!(chunk.is_empty() && chunk.runs().is_empty() && chunk.bytes().is_none());
    }

    /// Or batches would be cut early for what is in others, or left out.
    #[test]
    fn what_is_gone_is_not_counted() {
        let mut chunk = Chunk::default();
        let slots: Vec<_> = (0..8)
            .map(|n| RecordSlot {
                offset: n,
                key_len: -1,
                value_len: 100,
                ..RecordSlot::default()
            })
            .collect();
        chunk.extend(&slots, &header(), 0, (0, i64::MAX));
        assert_eq!(chunk.encoded(), 800);
        chunk.consume(2);
        assert_eq!(chunk.encoded(), 600);
        chunk.retain(|slot| slot.offset != 5);
        assert_eq!(chunk.encoded(), 500);
        chunk.consume(5);
        assert_eq!(chunk.encoded(), 0);
    }

    #[test]
    fn takes_no_more_than_fits() {
        let mut chunk = Chunk::default();
        assert_eq!(
            chunk.extend(&slots(0..2000), &header(), 0, (0, i64::MAX)),
            Chunk::CAPACITY
        );
        assert!(chunk.is_full());
        assert_eq!(chunk.extend(&slots(0..5), &header(), 0, (0, i64::MAX)), 0);
    }
}
