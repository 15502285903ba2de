//! Opening a batch whose checksum is right: it is walked in place, or decompressed into the arena.

use super::{InProgress, ReadState, SegmentReader, SegmentRest, locate};
use crate::error::{Error, Result};
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::records::block::Payload;
use crate::records::chunk::{Chunk, RecordBytes};
use crate::records::control::{control_type, sound_control_type};
use crate::records::parts::Size;
use crate::records::walk::RecordDecoder;
use crate::segment::skipping::{Skipping, ensure_decodes};
use crate::types::{Compression, Offset, Position};

impl SegmentReader {
    /// Makes a batch with a right checksum the current one, if its records are wanted: the one at this position of the
    /// file, and there in the region that the source holds.
    #[inline]
    pub(super) fn open(
        &mut self,
        state: &mut ReadState,
        chunk: &mut Chunk,
        (position, at): (Position, usize),
        header: &BatchHeader,
        codec: Compression,
    ) -> Result<()> {
        if !self.admit(state, position, header)? {
            state.metrics.skip(header);
            return Ok(());
        }
        if header.is_legacy() {
            self.open_legacy(state, chunk, position, header.clone())?;
        } else if codec == Compression::None {
            self.walk(chunk, (position, at), header)?;
        } else {
            self.decompress(state, chunk, position, header)?;
        }
        state.metrics.batches = state.metrics.batches.saturating_add(1);
        Ok(())
    }

    /// Returns whether a batch's records are wanted, by who wrote it. Asked after the checksum: a flipped bit may have
    /// made it a control batch, or another producer's.
    #[inline]
    fn admit(
        &mut self,
        state: &mut ReadState,
        position: Position,
        header: &BatchHeader,
    ) -> Result<bool> {
        let is_hidden = header.is_control() && !self.options.include_control;
        let Some(aborted) = &mut self.aborted else {
            return Ok(!is_hidden);
        };
        if self.skipping.as_ref().is_some_and(Skipping::is_after_loss) {
            state.given.clear();
        }
        if header.is_control() && header.producer_id >= 0 {
            let batch = self.source.bytes(position, header.size)?;
            let kind = if self.options.check_crcs {
                sound_control_type(batch, header)
            } else {
                control_type(batch, header)
            };
            let ended = kind.and_then(|kind| match kind {
                Some(kind) => state.given.end(header, kind),
                None => Ok(()),
            });
            if let Err(error) = ended {
                return Err(self.located(error.shift(position), header));
            }
        }
        if is_hidden || aborted.covers(header) {
            return Ok(false);
        }
        state.given.give(header);
        Ok(true)
    }

    /// Walks records that lie in the file as they are: the common case, straight into the chunk, if it takes them.
    #[inline]
    fn walk(
        &mut self,
        chunk: &mut Chunk,
        (position, at): (Position, usize),
        header: &BatchHeader,
    ) -> Result<()> {
        let region = self.source.held();
        let end = at.saturating_add(header.size);
        let region_position = position.saturating_sub(at as u64);
        let mut walk = RecordDecoder::new(header, at.saturating_add(RECORD_BATCH_OVERHEAD), end);
        let in_parts = match self.skipping {
            Some(_) => match goes_in_parts(&walk, region, header.size, chunk) {
                Ok(in_parts) => in_parts,
                Err(e) => return Err(locate(e.shift(region_position), &self.source, header)),
            },
            None => None,
        };
        if chunk.accepts_region(region) {
            let walked = chunk.walk(&mut walk, region, header, position, self.wanted);
            if let Err(e) = walked {
                return Err(locate(e.shift(region_position), &self.source, header));
            }
            if walk.remaining() == 0 {
                return Ok(());
            }
        }
        self.current = Some(InProgress {
            header: header.clone(),
            position,
            bytes: RecordBytes::Region(region.clone()),
            source_position: Some(region_position),
            in_parts,
            rest: SegmentRest::Walk(walk),
        });
        Ok(())
    }

    /// Makes a compressed batch the current one, its records in the arena.
    fn decompress(
        &mut self,
        state: &mut ReadState,
        chunk: &mut Chunk,
        position: Position,
        header: &BatchHeader,
    ) -> Result<()> {
        let batch = self.source.bytes(position, header.size)?;
        let arena = chunk.arena_mut();
        let limit = self.options.limit;
        let block = arena
            .open(batch, header, &mut state.decompressor, limit)
            .map_err(|e| locate(e.shift(position), &self.source, header))?;
        state.metrics.decompressed(block.range.len());
        let walk = RecordDecoder::new(header, block.range.start, block.range.end);
        let bytes = RecordBytes::Arena(arena.id());
        let in_parts = match self.skipping {
            Some(_) => goes_in_parts(&walk, chunk.arena().bytes(), block.range.len(), chunk)
                .map_err(|e| locate(e.inside(position), &self.source, header))?,
            None => None,
        };
        self.current = Some(InProgress {
            header: header.clone(),
            position,
            bytes,
            source_position: None,
            in_parts,
            rest: SegmentRest::Walk(walk),
        });
        Ok(())
    }

    /// Makes a legacy message the current batch, or a wrapper with those inside it.
    fn open_legacy(
        &mut self,
        state: &mut ReadState,
        chunk: &mut Chunk,
        position: Position,
        mut header: BatchHeader,
    ) -> Result<()> {
        let (region, at) = self.source.region(position, header.size)?;
        let region = region.clone();
        let batch = region.get(at..at.saturating_add(header.size));
        let arena = chunk.arena_mut();
        let before = arena.bytes().len();
        state.legacy.clear();
        let payload = arena
            .walk_legacy(
                batch.unwrap_or_default(),
                u32::try_from(at).unwrap_or(u32::MAX),
                &header,
                &mut state.decompressor,
                self.options.limit,
                &mut state.legacy,
            )
            .map_err(|e| locate(e.shift(position), &self.source, &header))?;
        let (bytes, source_position) = match payload {
            Payload::Source => {
                let start = position.saturating_sub(at as u64);
                (RecordBytes::Region(region), Some(start))
            }
            Payload::Arena => {
                let after = arena.bytes().len();
                state.metrics.decompressed(after.saturating_sub(before));
                if let Some(first) = state.legacy.first() {
                    self.set_first_offset(&mut header, first.offset, position)?;
                }
                (RecordBytes::Arena(arena.id()), None)
            }
        };
        self.current = Some(InProgress {
            header,
            position,
            bytes,
            source_position,
            in_parts: None,
            rest: SegmentRest::Legacy(0),
        });
        Ok(())
    }

    /// A wrapper's first offset, now that it is known; that of magic 1 may not lie in what comes before.
    fn set_first_offset(
        &self,
        header: &mut BatchHeader,
        first: Offset,
        position: Position,
    ) -> Result<()> {
        let (last, floor) = (header.last_offset(), self.cursor.floor_before());
        // Of magic 0, offsets stand in the messages, whatever the wrapper says of them.
        if header.magic > 0 && first < floor {
            let expected = format!("at least {floor}, after the batch before it");
            return Err(self.located(
                Error::corrupt("first offset", position, expected, first),
                header,
            ));
        }
        header.base_offset = first;
        header.last_offset_delta = i32::try_from(last.wrapping_sub(first)).unwrap_or(i32::MAX);
        Ok(())
    }
}

/// The size of a batch that is given before all of its records are decoded: one that no chunk takes at once, if it can
/// be taken back. If it cannot, all are decoded here, and once more when they are given.
fn goes_in_parts(
    walk: &RecordDecoder,
    bytes: &[u8],
    size: usize,
    chunk: &Chunk,
) -> Result<Option<Size>> {
    let count = usize::try_from(walk.remaining()).unwrap_or(usize::MAX);
    if count <= Chunk::CAPACITY {
        return Ok(None);
    }
    let in_parts = chunk.takes_parts(count, size);
    if in_parts.is_none() {
        ensure_decodes(walk, bytes)?;
    }
    Ok(in_parts)
}
