//! Whether a batch can be read: a checksum that is right says nothing of what its writer put under it.

use std::sync::Arc;

use crate::compress::{DecodeLimit, Decompressor};
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::io::storage::ReadFile;
use crate::records::block::{self, Payload};
use crate::records::control::EndTransaction;
use crate::records::legacy;
use crate::records::walk::Walk;
use crate::segment::resync::Reason;
use crate::segment::skipping::{ensure_decodes, is_damage};
use crate::segment::source::{Access, SegmentSource};
use crate::types::Position;

/// More memory is given back after a batch that needed it.
const MAX_KEPT: usize = 16 << 20;

/// Decodes batches of one file.
pub(super) struct Decoding {
    source: SegmentSource,
    decompressor: Decompressor,
    arena: Vec<u8>,
}

impl Decoding {
    /// Of the first `length` bytes.
    pub(super) fn new(file: &Arc<dyn ReadFile>, length: u64) -> Result<Self> {
        Ok(Self {
            source: SegmentSource::over(Arc::clone(file), length, Access::Records)?,
            decompressor: Decompressor::default(),
            arena: Vec::new(),
        })
    }

    /// Why the records of the whole batch at `position` cannot be decoded, or its marker cannot be read; `None` where they
    /// can.
    pub(super) fn fault(
        &mut self,
        position: Position,
        header: &BatchHeader,
    ) -> Result<Option<Reason>> {
        let decoded = self.decode(position, header.size);
        if self.arena.capacity() > MAX_KEPT {
            self.arena = Vec::new();
        }
        self.arena.clear();
        match decoded {
            Ok(()) => Ok(None),
            Err(error) if is_damage(&error) => Ok(Some(Reason::of_decoding(&error))),
            Err(error) => Err(error),
        }
    }

    fn decode(&mut self, position: Position, size: usize) -> Result<()> {
        let batch = self.source.bytes(position, size)?;
        // The header as it lies in the file: a wrapper names its last offset there.
        let Some(header) = BatchHeader::parse(batch)? else {
            return Ok(());
        };
        let limit = DecodeLimit::default();
        if header.is_legacy() {
            let (decompressor, arena) = (&mut self.decompressor, &mut self.arena);
            let mut slots = Vec::new();
            return legacy::walk(batch, 0, &header, decompressor, arena, limit, &mut slots)
                .map(drop);
        }
        let block = block::open(
            batch,
            &header,
            &mut self.decompressor,
            &mut self.arena,
            limit,
        )?;
        let records = match block.payload {
            Payload::Source => batch,
            Payload::Arena => self.arena.as_slice(),
        };
        ensure_decodes(
            &Walk::new(&header, block.range.start, block.range.end),
            records,
        )?;
        if header.is_control() && header.has_producer_id() {
            EndTransaction::of(batch, &header)?;
        }
        Ok(())
    }
}
