//! The records of one segment, chunk by chunk: headers checked, checksums compared, blocks decompressed.
//!
//! Batches outside the offsets asked for are passed over on their header alone; those at the edges are looked at, as a
//! flipped bit may have put them there.

use crate::compress::{DecodeLimit, Decompressor};
use crate::error::{Error, Result};
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::io::region::Region;
use crate::io::words::prefetch;
use crate::records::RecordSlot;
use crate::records::block::{self, Payload};
use crate::records::chunk::{Arena, Chunk, Source};
use crate::records::legacy;
use crate::records::walk::Walk;
use crate::segment::batches::{BatchCursor, Bounds, CURRENT_MAGIC};
use crate::segment::filter::{GivenTransactions, RecordFilter};
use crate::segment::metrics::Metrics;
use crate::segment::source::SegmentSource;
use crate::segment::transactions::marker_type;
use crate::types::{Compression, Offset, Position};

/// How much of the next batch is asked for ahead of its turn.
const AHEAD: usize = 16 << 10;
/// A larger batch of an active segment is checked before memory is taken for it.
const STREAMED: usize = 16 << 20;

/// What to leave out, and what to check.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Compare every batch's checksum.
    pub check_crcs: bool,
    /// Control records too.
    pub include_control: bool,
    /// The most one batch may decompress to.
    pub limit: DecodeLimit,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            check_crcs: true,
            include_control: false,
            limit: DecodeLimit::default(),
        }
    }
}

/// What outlives a segment: contexts, memory, counts.
#[derive(Debug, Default)]
pub struct Workspace {
    /// Decompression contexts.
    pub decompressor: Decompressor,
    /// The block of decompressed records that is being filled.
    pub arena: Arena,
    /// The records at hand.
    pub chunk: Chunk,
    /// Counts for the caller.
    pub metrics: Metrics,
    /// Whose transactional records were given, under `read_committed`.
    pub given: GivenTransactions,
    legacy: Vec<RecordSlot>,
}

/// A batch whose records are not all in a chunk yet.
#[derive(Debug)]
struct InProgress {
    header: BatchHeader,
    position: Position,
    source: Source,
    /// Where in the file the source begins; `None` for a decompressed block.
    source_position: Option<Position>,
    rest: Rest,
}

#[derive(Debug)]
enum Rest {
    Walk(Walk),
    /// Slots from this index of the workspace's.
    Legacy(usize),
}

/// What [`SegmentReader::next_batch`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A batch is in progress.
    Ready,
    /// The chunk has to be taken first: the arena is full of its records.
    Full,
    /// No more batches.
    End,
}

/// Reads one segment.
#[derive(Debug)]
pub struct SegmentReader {
    source: SegmentSource,
    cursor: BatchCursor,
    options: ReadOptions,
    filter: RecordFilter,
    is_active: bool,
    is_mapped: bool,
    /// First offset wanted, and the first not wanted.
    wanted: (Offset, Offset),
    pending: Option<(Position, BatchHeader)>,
    /// The last batch passed over for its offsets, until its checksum has been looked at.
    skipped: Option<(Position, BatchHeader)>,
    current: Option<InProgress>,
    ended: bool,
}

impl SegmentReader {
    /// Reads `source` from the batch at `position`; offsets outside `from..to`, and batches that the filter is against
    /// as a whole, are left out.
    #[must_use]
    pub fn new(
        mut source: SegmentSource,
        bounds: Bounds,
        position: Position,
        wanted: (Offset, Offset),
        options: ReadOptions,
        filter: RecordFilter,
    ) -> Self {
        source.stop_at(bounds.end);
        Self {
            is_mapped: !source.is_copied(),
            source,
            cursor: BatchCursor::new(bounds, position),
            options,
            filter,
            is_active: bounds.is_active,
            wanted,
            pending: None,
            skipped: None,
            current: None,
            ended: false,
        }
    }

    /// The segment's bytes, for another piece of it or, as memory, for another segment.
    #[must_use]
    pub fn into_source(self) -> SegmentSource {
        self.source
    }

    /// The offset behind the last batch that was looked at, or the segment's base.
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        self.cursor.next_offset()
    }

    /// Puts the next records into the workspace's chunk, which must be empty. False at the end of the segment.
    ///
    /// # Errors
    /// Every corruption, with path and position.
    pub fn fill(&mut self, work: &mut Workspace) -> Result<bool> {
        loop {
            if self.current.is_none()
                && (work.chunk.is_full() || self.next_batch(work)? != Next::Ready)
            {
                break;
            }
            // A large batch may have a chunk's worth of records and more before the first that is wanted.
            if !self.take(work)? && !work.chunk.is_empty() {
                break;
            }
        }
        Ok(!work.chunk.is_empty())
    }

    /// This segment's records that were in the arena are in `region` from now on.
    pub fn frozen(&mut self, region: &Region) {
        if let Some(current) = &mut self.current
            && matches!(current.source, Source::Arena)
        {
            current.source = Source::Region(region.clone());
        }
    }

    /// Finds the next batch whose records are wanted, checks it and makes its bytes ready.
    #[inline]
    fn next_batch(&mut self, work: &mut Workspace) -> Result<Next> {
        let (from, to) = self.wanted;
        loop {
            let next = match self.pending.take() {
                Some(pending) => Some(pending),
                None if self.ended => None,
                None => self.cursor.next(&mut self.source)?,
            };
            let Some((position, header)) = next else {
                self.check_skipped()?;
                return Ok(Next::End);
            };
            work.metrics.bytes = work.metrics.bytes.saturating_add(header.size as u64);
            if header.last_offset() < from {
                work.metrics.pass_over(&header);
                self.skipped = Some((position, header));
                continue;
            }
            self.check_skipped()?;
            if header.last_offset() >= to {
                // Only a legacy wrapper, which names its last offset, can still hold earlier ones.
                self.ended = true;
                self.check_end(position, &header)?;
                if header.base_offset >= to && !header.is_wrapper() {
                    return Ok(Next::End);
                }
            }
            if self.filter.timestamps.exclude(&header) {
                work.metrics.pass_over(&header);
                continue;
            }
            let codec = header
                .compression()
                .map_err(|e| self.located(e.shift(position), &header))?;
            if codec != Compression::None && work.arena.is_full() {
                if !work.chunk.is_empty() {
                    work.metrics.bytes = work.metrics.bytes.saturating_sub(header.size as u64);
                    self.pending = Some((position, header));
                    return Ok(Next::Full);
                }
                work.arena.clear();
            }
            if !self.begin(work, position, header, codec)? {
                return Ok(Next::End);
            }
            if self.current.is_some() {
                return Ok(Next::Ready);
            }
        }
    }

    /// Checks one batch and makes it the current one, unless it is empty. False where the log ends here after all.
    #[inline]
    fn begin(
        &mut self,
        work: &mut Workspace,
        position: Position,
        header: BatchHeader,
        codec: Compression,
    ) -> Result<bool> {
        if !self.verify(position, &header)? {
            return Ok(false);
        }
        if !self.admit(work, position, &header)? {
            work.metrics.pass_over(&header);
            return Ok(true);
        }
        work.metrics.batches = work.metrics.batches.saturating_add(1);
        if header.is_legacy() {
            self.open_legacy(work, position, header)?;
        } else if codec == Compression::None {
            self.walk(work, position, header)?;
        } else {
            self.decompress(work, position, header)?;
        }
        Ok(true)
    }

    /// Makes the batch's bytes ready and compares its checksum. False where the log ends here after all.
    #[inline]
    fn verify(&mut self, position: Position, header: &BatchHeader) -> Result<bool> {
        if self.options.check_crcs && header.size > STREAMED && self.source.is_copied() {
            self.check_in_pieces(position, header)?;
        }
        let (region, at) = self.source.region(position, header.size)?;
        let end = at.saturating_add(header.size);
        let Some(batch) = region.get(at..end) else {
            // The file became shorter since its header was read.
            return self.end().map(|()| false);
        };
        if self.is_mapped {
            // While this batch is checked and decoded, the next one comes from memory.
            let ahead = end.saturating_add(header.size.min(AHEAD));
            prefetch(region.get(end..ahead).unwrap_or_default());
        }
        if self.options.check_crcs
            && let Err(error) = header.ensure_valid(batch)
        {
            if self.is_active && self.is_unwritten(position, header.size)? {
                self.ended = true;
                return Ok(false);
            }
            return Err(self.located(error.shift(position), header));
        }
        Ok(true)
    }

    /// Whether a batch's records are wanted, by who wrote it. Not before the checksum: a flipped bit may have made it a
    /// control batch, or another producer's.
    #[inline]
    fn admit(
        &mut self,
        work: &mut Workspace,
        position: Position,
        header: &BatchHeader,
    ) -> Result<bool> {
        let is_committed = self.filter.aborted.is_some();
        if is_committed && header.is_control() && header.producer_id >= 0 {
            let batch = self.source.bytes(position, header.size)?;
            let ended = marker_type(batch, header).and_then(|kind| match kind {
                Some(kind) => work.given.end(header, kind),
                None => Ok(()),
            });
            if let Err(error) = ended {
                return Err(self.located(error.shift(position), header));
            }
        }
        let is_hidden = header.is_control() && !self.options.include_control;
        if is_hidden || self.filter.is_aborted(header) {
            return Ok(false);
        }
        if is_committed {
            work.given.give(header);
        }
        Ok(true)
    }

    /// Walks records that lie in the file as they are: the common case, straight into the chunk, if it points there.
    #[inline]
    fn walk(
        &mut self,
        work: &mut Workspace,
        position: Position,
        header: BatchHeader,
    ) -> Result<()> {
        let (region, at) = self.source.region(position, header.size)?;
        let end = at.saturating_add(header.size);
        let region_position = position.saturating_sub(at as u64);
        let mut walk = Walk::new(&header, at.saturating_add(RECORD_BATCH_OVERHEAD), end);
        if work.chunk.accepts(region) {
            let walked = work
                .chunk
                .walk(&mut walk, region, &header, position, self.wanted);
            if let Err(e) = walked {
                return Err(locate(e.shift(region_position), &self.source, &header));
            }
            if walk.remaining() == 0 {
                return Ok(());
            }
        }
        self.current = Some(InProgress {
            header,
            position,
            source: Source::Region(region.clone()),
            source_position: Some(region_position),
            rest: Rest::Walk(walk),
        });
        Ok(())
    }

    /// Makes a compressed batch the current one, its records in the arena.
    fn decompress(
        &mut self,
        work: &mut Workspace,
        position: Position,
        header: BatchHeader,
    ) -> Result<()> {
        let batch = self.source.bytes(position, header.size)?;
        let arena = work.arena.bytes_mut();
        let limit = self.options.limit;
        let block = block::open(batch, &header, &mut work.decompressor, arena, limit)
            .map_err(|e| locate(e.shift(position), &self.source, &header))?;
        work.metrics.decompressed(block.range.len());
        let walk = Walk::new(&header, block.range.start, block.range.end);
        self.current = Some(InProgress {
            header,
            position,
            source: Source::Arena,
            source_position: None,
            rest: Rest::Walk(walk),
        });
        Ok(())
    }

    /// Makes a legacy message the current batch, or a wrapper with those inside it.
    fn open_legacy(
        &mut self,
        work: &mut Workspace,
        position: Position,
        mut header: BatchHeader,
    ) -> Result<()> {
        let (region, at) = self.source.region(position, header.size)?;
        let region = region.clone();
        let batch = region.get(at..at.saturating_add(header.size));
        let before = work.arena.bytes().len();
        work.legacy.clear();
        let payload = legacy::walk(
            batch.unwrap_or_default(),
            u32::try_from(at).unwrap_or(u32::MAX),
            &header,
            &mut work.decompressor,
            work.arena.bytes_mut(),
            self.options.limit,
            &mut work.legacy,
        )
        .map_err(|e| locate(e.shift(position), &self.source, &header))?;
        let (source, source_position) = match payload {
            Payload::Source => {
                let start = position.saturating_sub(at as u64);
                (Source::Region(region), Some(start))
            }
            Payload::Arena => {
                let after = work.arena.bytes().len();
                work.metrics.decompressed(after.saturating_sub(before));
                if let Some(first) = work.legacy.first() {
                    self.set_first_offset(&mut header, first.offset, position)?;
                }
                (Source::Arena, None)
            }
        };
        self.current = Some(InProgress {
            header,
            position,
            source,
            source_position,
            rest: Rest::Legacy(0),
        });
        Ok(())
    }

    /// A wrapper's first offset, now that it is known; it may not lie in what comes before.
    fn set_first_offset(
        &self,
        header: &mut BatchHeader,
        first: Offset,
        position: Position,
    ) -> Result<()> {
        let (last, floor) = (header.last_offset(), self.cursor.floor_before());
        if first < floor {
            let expected = format!("at least {floor}, behind what comes before");
            return Err(self.located(
                Error::corrupt("first offset", position, expected, first),
                header,
            ));
        }
        header.base_offset = first;
        header.last_offset_delta = i32::try_from(last.wrapping_sub(first)).unwrap_or(i32::MAX);
        Ok(())
    }

    /// The end of the segment: right, unless a closed file has become shorter than it was at planning.
    fn end(&mut self) -> Result<()> {
        let (planned, now) = (self.source.planned_len(), self.source.len());
        if now < planned && !self.is_active && !self.ended {
            let what = "segment size";
            return Err(
                Error::corrupt(what, now, format_args!("{planned} bytes as planned"), now)
                    .at(self.source.path()),
            );
        }
        self.ended = true;
        Ok(())
    }

    /// Moves records of the batch in progress to the chunk; false when it takes no more now.
    #[inline]
    fn take(&mut self, work: &mut Workspace) -> Result<bool> {
        let Some(current) = &mut self.current else {
            return Ok(true);
        };
        let chunk = &mut work.chunk;
        if chunk.is_empty() {
            // Batches without records may have named their source already.
            chunk.clear();
        }
        let same = match (chunk.source(), &current.source) {
            (None, _) => {
                chunk.set_source(current.source.clone());
                true
            }
            (Some(Source::Arena), Source::Arena) => true,
            (Some(Source::Region(a)), Source::Region(b)) => a.same(b),
            _ => false,
        };
        if chunk.is_full() || !same {
            return Ok(false);
        }
        let done = match &mut current.rest {
            Rest::Walk(walk) => {
                let bytes = match &current.source {
                    Source::Region(region) => region.as_slice(),
                    Source::Arena => work.arena.bytes(),
                };
                if let Err(e) =
                    chunk.walk(walk, bytes, &current.header, current.position, self.wanted)
                {
                    let e = match current.source_position {
                        Some(start) => e.shift(start),
                        None => e.inside(current.position),
                    };
                    return Err(locate(e, &self.source, &current.header));
                }
                walk.remaining() == 0
            }
            Rest::Legacy(at) => {
                let rest = work.legacy.get(*at..).unwrap_or_default();
                let taken = chunk.extend(rest, &current.header, current.position, self.wanted);
                *at = at.saturating_add(taken);
                taken >= rest.len()
            }
        };
        if done {
            self.current = None;
        }
        Ok(done)
    }

    /// Behind a gap, the base offset of the batch that ends the range may lie: then the next one contradicts it.
    fn check_end(&mut self, position: Position, header: &BatchHeader) -> Result<()> {
        if header.base_offset == self.cursor.floor_before() {
            return Ok(());
        }
        let behind = self
            .source
            .bytes(self.cursor.position(), RECORD_BATCH_OVERHEAD)?;
        match BatchHeader::parse(behind) {
            Ok(Some(next))
                if next.magic <= CURRENT_MAGIC && next.base_offset <= header.last_offset() =>
            {
                let expected = format!("below {}, the next batch's", next.base_offset);
                let error = Error::corrupt("base offset", position, expected, header.base_offset);
                Err(self.located(error, header))
            }
            _ => Ok(()),
        }
    }

    /// Compares the checksum of the last batch passed over: it ends right before the first one wanted, if its last
    /// offset is what it says.
    fn check_skipped(&mut self) -> Result<()> {
        let Some((position, header)) = self.skipped.take() else {
            return Ok(());
        };
        if !self.options.check_crcs {
            return Ok(());
        }
        self.check_in_pieces(position, &header)
    }

    /// Compares the checksum of a batch that is not taken into memory as a whole, at least not yet.
    #[cold]
    fn check_in_pieces(&mut self, position: Position, header: &BatchHeader) -> Result<()> {
        match self.source.checksum(position, header)? {
            Some(computed) if computed != header.crc => {
                Err(self.located(header.crc_fault(computed).shift(position), header))
            }
            // Where the file ends inside it, whoever asks for its bytes finds out.
            _ => Ok(()),
        }
    }

    /// Whether a batch of a preallocated active file is still being written: zeros from inside it to the file's end.
    #[cold]
    fn is_unwritten(&mut self, position: Position, size: usize) -> Result<bool> {
        const ZEROS: u64 = 64;
        let end = position.saturating_add(size as u64);
        Ok(end < self.source.len()
            && self
                .source
                .is_zero_from(end.saturating_sub(ZEROS).max(position))?)
    }

    #[cold]
    fn located(&self, error: Error, header: &BatchHeader) -> Error {
        locate(error, &self.source, header)
    }
}

#[cold]
fn locate(error: Error, source: &SegmentSource, header: &BatchHeader) -> Error {
    error.at(source.path()).for_offset(header.base_offset)
}
