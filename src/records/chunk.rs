//! A run of decoded records, at most [`Chunk::CAPACITY`], that all lie in one source of bytes: what passes from the
//! readers below to the columns above.
//!
//! Small enough for the first-level cache, so that filling one column after another from it costs no memory traffic;
//! large enough that batches of one record do not pay for each column's loop.

use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::io::region::{Region, spare};
use crate::records::RecordSlot;
use crate::records::walk::Walk;
use crate::types::{Offset, Position};

/// Consecutive records of one batch.
#[derive(Clone, Debug)]
pub struct Run {
    /// The batch they are from.
    pub header: BatchHeader,
    /// Where it begins in its file.
    pub position: Position,
    /// How many.
    pub rows: usize,
}

/// Where the bytes of a chunk's records are.
#[derive(Clone, Debug)]
pub enum Source {
    /// In a region: a mapped file, a window of a file, or a finished block.
    Region(Region),
    /// In the block of decompressed records that is still growing ([`Arena`]).
    Arena,
}

/// Decompressed records of one or more batches.
#[derive(Debug)]
pub struct Arena {
    bytes: Vec<u8>,
    full: usize,
}

impl Default for Arena {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            full: Self::FULL,
        }
    }
}

impl Arena {
    const FULL: usize = 128 << 10;
    /// What stays in the first-level cache.
    const NEAR: usize = 32 << 10;
    /// Up to full, and a batch of a producer's defaults behind that.
    const ROOM: usize = 256 << 10;

    /// For records that are gathered: nothing will point into it, so it may be as small as is quickest.
    #[must_use]
    pub const fn near() -> Self {
        Self {
            bytes: Vec::new(),
            full: Self::NEAR,
        }
    }

    /// The bytes so far.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The block itself, to be appended to.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes = spare(Self::ROOM);
            self.bytes.clear();
            self.bytes.reserve(Self::ROOM);
        }
        &mut self.bytes
    }

    /// Holds so much that it should be taken before more is put in: beyond this it leaves the cache.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.bytes.len() >= self.full
    }

    /// Begins anew in the same memory, unless an unusually large block made it large.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(Self::FULL.saturating_mul(8));
    }

    /// Makes a region of it and begins a new one.
    #[must_use]
    pub fn freeze(&mut self) -> Region {
        Region::spare(std::mem::take(&mut self.bytes))
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        drop(self.freeze());
    }
}

/// Decoded records and the batches they are from.
#[derive(Debug)]
pub struct Chunk {
    slots: Box<[RecordSlot]>,
    start: usize,
    end: usize,
    runs: Vec<Run>,
    source: Option<Source>,
    encoded: usize,
}

impl Default for Chunk {
    fn default() -> Self {
        let slots = vec![RecordSlot::default(); Self::CAPACITY].into_boxed_slice();
        Self {
            slots,
            start: 0,
            end: 0,
            runs: Vec::new(),
            source: None,
            encoded: 0,
        }
    }
}

impl Chunk {
    /// Most records in a chunk: 40 KiB of slots.
    pub const CAPACITY: usize = 1024;

    /// The records not yet taken.
    #[must_use]
    pub fn slots(&self) -> &[RecordSlot] {
        self.slots.get(self.start..self.end).unwrap_or_default()
    }

    /// The batches of [`Chunk::slots`], in order; their rows add up to it.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Where the records' bytes are; `None` while there are none.
    #[must_use]
    pub const fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }

    /// At least the bytes that all keys and values come to: what the records take in their encoding.
    #[must_use]
    pub const fn encoded(&self) -> usize {
        self.encoded
    }

    /// No records left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// No room for more.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.end >= self.slots.len()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
        self.runs.clear();
        self.source = None;
        self.encoded = 0;
    }

    /// Whether records of `region` can be added to those that are here; if there are none, they can from now on.
    #[inline]
    pub fn accepts(&mut self, region: &Region) -> bool {
        match &self.source {
            Some(Source::Region(own)) => own.same(region),
            Some(Source::Arena) => false,
            None => {
                self.source = Some(Source::Region(region.clone()));
                true
            }
        }
    }

    /// Says where the records to come lie.
    pub fn set_source(&mut self, source: Source) {
        self.source = Some(source);
    }

    /// Records that were in the arena are in `region` from now on.
    pub fn frozen(&mut self, region: &Region) {
        if matches!(self.source, Some(Source::Arena)) {
            self.source = Some(Source::Region(region.clone()));
        }
    }

    /// Takes the first `rows` records off.
    pub fn consume(&mut self, rows: usize) {
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

    /// Keeps the records that `wanted` is for; returns how many are gone.
    pub fn retain(&mut self, mut wanted: impl FnMut(&RecordSlot) -> bool) -> usize {
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
    /// What [`Walk::step`] finds; nothing is added then.
    #[inline]
    pub fn walk(
        &mut self,
        walk: &mut Walk,
        source: &[u8],
        header: &BatchHeader,
        position: Position,
        (from, to): (Offset, Offset),
    ) -> Result<()> {
        let Some(free) = self.slots.get_mut(self.end..) else {
            return Ok(());
        };
        let before = walk.position();
        let mut rows = walk.step(source, free)?;
        self.encoded = self
            .encoded
            .saturating_add(walk.position().saturating_sub(before));
        if header.base_offset < from || header.last_offset() >= to {
            rows = keep(free, rows, from, to);
        }
        self.add_run(header, position, rows);
        Ok(())
    }

    /// Adds records decoded elsewhere, as many as there is room for, keeping offsets in `from..to`; returns how many
    /// of `decoded` were looked at.
    pub fn extend(
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
    fn add_run(&mut self, header: &BatchHeader, position: Position, rows: usize) {
        if rows > 0 {
            self.end = self.end.saturating_add(rows);
            match self.runs.last_mut() {
                Some(run) if run.position == position => run.rows = run.rows.saturating_add(rows),
                _ => self.runs.push(Run {
                    header: header.clone(),
                    position,
                    rows,
                }),
            }
        }
    }
}

/// What the keys and values of these records come to.
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
        assert!(chunk.is_empty() && chunk.runs().is_empty() && chunk.source().is_none());
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
