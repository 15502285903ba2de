//! Memory for the decompressed records of one or more batches.
//!
//! Bytes in an arena never change until [`Arena::clear`] or [`Arena::freeze`] takes all of them, and then the arena
//! gets another [`ArenaId`]. A position that is kept with the arena's id therefore refers to the same bytes if the id
//! is that of the [`Frozen`] region. Views into record batches are built on this.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::compress::{DecodeLimit, Decompressor};
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::io::region::{Region, spare};
use crate::records::RecordSlot;
use crate::records::block::{self, Block, Payload};
use crate::records::legacy;

/// Identifies the content of an arena between two clearings; no two arenas of the process share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArenaId(u64);

impl ArenaId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Decompressed records of one or more batches.
#[derive(Debug)]
pub(crate) struct Arena {
    bytes: Vec<u8>,
    full: usize,
    id: ArenaId,
}

/// The bytes of an arena as a region.
#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    id: ArenaId,
    region: Region,
}

impl Frozen {
    /// Identifies these bytes.
    #[must_use]
    pub(crate) const fn id(&self) -> ArenaId {
        self.id
    }

    /// The bytes.
    #[must_use]
    pub(crate) const fn region(&self) -> &Region {
        &self.region
    }
}

impl Default for Arena {
    /// For records that columns point into.
    fn default() -> Self {
        Self::with_size(Self::FULL)
    }
}

impl Arena {
    const FULL: usize = 128 << 10;
    /// Size that stays in the first-level cache.
    const NEAR: usize = 32 << 10;
    /// Room for a full arena and a batch of a producer's default size.
    const ROOM: usize = 256 << 10;

    /// For records that are copied into columns. Nothing points into it, so it is as small as is fastest.
    #[must_use]
    pub(crate) fn near() -> Self {
        Self::with_size(Self::NEAR)
    }

    fn with_size(full: usize) -> Self {
        Self {
            bytes: Vec::new(),
            full,
            id: ArenaId::next(),
        }
    }

    /// The bytes so far.
    #[must_use]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Identifies these bytes.
    #[must_use]
    pub(crate) const fn id(&self) -> ArenaId {
        self.id
    }

    /// Returns whether it should be emptied before more is decompressed: beyond this size it leaves the cache.
    #[must_use]
    pub(crate) const fn is_full(&self) -> bool {
        self.bytes.len() >= self.full
    }

    /// As [`block::open`]: decompressed records are appended.
    ///
    /// # Errors
    /// As [`block::open`].
    #[inline]
    pub(crate) fn open(
        &mut self,
        batch: &[u8],
        header: &BatchHeader,
        decompressor: &mut Decompressor,
        limit: DecodeLimit,
    ) -> Result<Block> {
        self.allocate();
        block::open(batch, header, decompressor, &mut self.bytes, limit)
    }

    /// As [`legacy::walk`]: decompressed messages are appended.
    ///
    /// # Errors
    /// As [`legacy::walk`].
    pub(crate) fn walk_legacy(
        &mut self,
        batch: &[u8],
        batch_start: u32,
        header: &BatchHeader,
        decompressor: &mut Decompressor,
        limit: DecodeLimit,
        out: &mut Vec<RecordSlot>,
    ) -> Result<Payload> {
        self.allocate();
        let bytes = &mut self.bytes;
        legacy::walk(batch, batch_start, header, decompressor, bytes, limit, out)
    }

    fn allocate(&mut self) {
        if self.bytes.capacity() == 0 {
            self.bytes = spare(Self::ROOM);
            self.bytes.clear();
            self.bytes.reserve(Self::ROOM);
        }
    }

    /// Drops the bytes and keeps the memory, unless an unusually large batch made it large.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(Self::FULL.saturating_mul(8));
        self.id = ArenaId::next();
    }

    /// Moves the bytes into a region and begins with other memory.
    #[must_use]
    pub(crate) fn freeze(&mut self) -> Frozen {
        Frozen {
            id: std::mem::replace(&mut self.id, ArenaId::next()),
            region: Region::spare(std::mem::take(&mut self.bytes)),
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        drop(self.freeze());
    }
}
