//! The data buffers that the views of one batch point into.
//!
//! [`Views`](super::views::Views) are built without Arrow's check of every view. This module makes that sound: bytes
//! reach a view only as [`SourceBytes`] or [`SourceText`], which know their buffer's number and the batch it belongs
//! to. Only this module makes them, from a region, whose bytes never change, or from an arena, whose bytes never change
//! while its id is the same. When the batch is done, a number leads to exactly those bytes or counts as missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_buffer::Buffer;

use super::pool::region_buffer;
use crate::error::{Error, Result};
use crate::io::region::Region;
use crate::records::arena::{ArenaId, Frozen};
use crate::records::chunk::ChunkBytes;

/// Longest string that a view holds itself, without a buffer.
pub(super) const INLINE: u32 = 12;

/// One batch being built; no two of the process are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchId(u64);

impl BatchId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Bytes that views may point into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceBytes<'a> {
    bytes: &'a [u8],
    number: u32,
    batch: BatchId,
}

impl<'a> SourceBytes<'a> {
    /// The bytes.
    #[inline]
    #[must_use]
    pub(crate) const fn as_slice(&self) -> &'a [u8] {
        self.bytes
    }

    /// Their number among the buffers of the batch.
    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    pub(super) const fn batch(&self) -> BatchId {
        self.batch
    }

    /// These bytes of it, if they are UTF-8.
    pub(super) fn text(&self, start: usize, len: u32) -> Option<SourceText<'a>> {
        let end = start.checked_add(len as usize)?;
        let text = std::str::from_utf8(self.bytes.get(start..end)?).ok()?;
        Some(SourceText {
            text,
            source: *self,
            start,
        })
    }
}

/// Text that a view may point at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceText<'a> {
    text: &'a str,
    source: SourceBytes<'a>,
    start: usize,
}

impl<'a> SourceText<'a> {
    /// Length in bytes.
    pub(super) const fn len(&self) -> usize {
        self.text.len()
    }

    /// Position in its source.
    pub(super) const fn start(&self) -> usize {
        self.start
    }

    pub(super) const fn source(&self) -> SourceBytes<'a> {
        self.source
    }
}

#[derive(Debug)]
enum SourcePlace {
    Region(Region),
    /// Still growing.
    Arena(ArenaId),
    Own(Buffer),
    /// Nothing points there.
    Unused,
}

#[derive(Debug)]
struct SourceEntry {
    place: SourcePlace,
    is_pointed: bool,
}

/// The data buffers of one batch being built.
#[derive(Debug)]
pub(crate) struct Sources {
    batch: BatchId,
    entries: Vec<SourceEntry>,
    /// The number of the last region, if more records of it may follow.
    region: Option<u32>,
    /// The number of the arena that still grows.
    arena: Option<u32>,
    /// Bytes of our own, not of a map, that views made us keep.
    kept: usize,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            batch: BatchId::next(),
            entries: Vec::new(),
            region: None,
            arena: None,
            kept: 0,
        }
    }
}

impl Sources {
    /// The bytes of a chunk.
    ///
    /// # Errors
    /// `Internal` beyond 2^32 buffers.
    pub(crate) fn of<'a>(&mut self, bytes: ChunkBytes<'a>) -> Result<SourceBytes<'a>> {
        let number = match bytes {
            ChunkBytes::Region(region) => self.region(region)?,
            ChunkBytes::Arena(arena) => self.arena(arena.id())?,
        };
        Ok(SourceBytes {
            bytes: bytes.as_slice(),
            number,
            batch: self.batch,
        })
    }

    fn region(&mut self, region: &Region) -> Result<u32> {
        if let Some(number) = self.region
            && let Some(SourcePlace::Region(last)) = self.place(number)
            && last.same(region)
        {
            return Ok(number);
        }
        self.leave_region();
        let number = self.push(SourcePlace::Region(region.clone()), false)?;
        self.region = Some(number);
        Ok(number)
    }

    fn arena(&mut self, id: ArenaId) -> Result<u32> {
        if let Some(number) = self.arena
            && matches!(self.place(number), Some(SourcePlace::Arena(last)) if *last == id)
        {
            return Ok(number);
        }
        let number = self.push(SourcePlace::Arena(id), false)?;
        self.arena = Some(number);
        Ok(number)
    }

    /// A copy of some text; the last one again, if it is the same.
    ///
    /// # Errors
    /// `Internal` beyond 2^32 buffers.
    pub(crate) fn text<'a>(&mut self, text: &'a str) -> Result<SourceText<'a>> {
        let last = self.entries.len().saturating_sub(1);
        let is_last = |entry: &SourceEntry| matches!(&entry.place, SourcePlace::Own(own) if own.as_slice() == text.as_bytes());
        let number = if text.len() <= INLINE as usize {
            0
        } else if self.entries.last().is_some_and(is_last) {
            u32::try_from(last).map_err(too_many)?
        } else {
            self.push(SourcePlace::Own(Buffer::from(text.as_bytes())), true)?
        };
        let source = SourceBytes {
            bytes: text.as_bytes(),
            number,
            batch: self.batch,
        };
        Ok(SourceText {
            text,
            source,
            start: 0,
        })
    }

    fn push(&mut self, place: SourcePlace, is_pointed: bool) -> Result<u32> {
        let number = u32::try_from(self.entries.len()).map_err(too_many)?;
        self.entries.push(SourceEntry { place, is_pointed });
        Ok(number)
    }

    fn place(&self, number: u32) -> Option<&SourcePlace> {
        self.entries.get(number as usize).map(|entry| &entry.place)
    }

    /// Keeps the bytes of this number: a view points into them.
    pub(crate) fn point(&mut self, number: u32) {
        if let Some(entry) = self.entries.get_mut(number as usize) {
            entry.is_pointed = true;
        }
    }

    /// Returns whether records of this batch lie in the arena that still grows.
    #[must_use]
    pub(crate) const fn has_arena(&self) -> bool {
        self.arena.is_some()
    }

    /// Takes the bytes of the arena.
    pub(crate) fn freeze(&mut self, frozen: &Frozen) {
        let Some(number) = self.arena.take() else {
            return;
        };
        if matches!(self.place(number), Some(SourcePlace::Arena(id)) if *id == frozen.id()) {
            self.settle(number, frozen.region());
        }
    }

    fn leave_region(&mut self) {
        if let Some(number) = self.region.take()
            && let Some(SourcePlace::Region(region)) = self.place(number)
        {
            self.settle(number, &region.clone());
        }
    }

    /// Nothing more will point into this region: keeps it only if something does.
    fn settle(&mut self, number: u32, region: &Region) {
        let Some(entry) = self.entries.get_mut(number as usize) else {
            return;
        };
        if !entry.is_pointed {
            entry.place = SourcePlace::Unused;
            return;
        }
        entry.place = SourcePlace::Region(region.clone());
        if !region.is_mapped() {
            self.kept = self.kept.saturating_add(region.len());
        }
    }

    /// Bytes of our own, not of a map, that views made us keep.
    #[must_use]
    pub(crate) const fn kept(&self) -> usize {
        self.kept
    }

    /// The buffers of this batch; begins the next one.
    #[must_use]
    pub(crate) fn finish(&mut self) -> DataBuffers {
        self.leave_region();
        let done = std::mem::take(self);
        let mut has = Vec::with_capacity(done.entries.len());
        let buffers = done.entries.into_iter().map(|entry| {
            let buffer = match entry.place {
                SourcePlace::Region(region) if entry.is_pointed => Some(region_buffer(&region)),
                SourcePlace::Own(buffer) => Some(buffer),
                _ => None,
            };
            has.push(buffer.is_some());
            buffer.unwrap_or_else(|| Buffer::from(&[][..]))
        });
        DataBuffers {
            buffers: buffers.collect(),
            batch: done.batch,
            has,
        }
    }
}

fn too_many(error: std::num::TryFromIntError) -> Error {
    Error::internal(format_args!("data buffers of a batch: {error}"))
}

/// The data buffers of a batch that is done.
#[derive(Debug)]
pub(crate) struct DataBuffers {
    buffers: Arc<[Buffer]>,
    batch: BatchId,
    has: Vec<bool>,
}

impl DataBuffers {
    /// The buffers by number, those that nothing points into empty.
    pub(super) const fn buffers(&self) -> &Arc<[Buffer]> {
        &self.buffers
    }

    pub(super) const fn batch(&self) -> BatchId {
        self.batch
    }

    /// Returns whether the bytes of this number are here.
    pub(super) fn has(&self, number: u32) -> bool {
        self.has.get(number as usize).copied().unwrap_or_default()
    }

    /// Returns whether anything points into a source.
    #[must_use]
    pub(crate) fn are_used(&self) -> bool {
        self.has.contains(&true)
    }
}
