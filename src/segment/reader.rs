//! The records of one segment, chunk by chunk: headers checked, checksums compared, blocks decompressed.
//!
//! Batches outside the offsets asked for are skipped on their header alone. Those at the edges are checked, as a flipped bit
//! may have put them there.

use crate::compress::{DecodeLimit, Decompressor};
use crate::error::{Error, Result};
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::io::words::prefetch;
use crate::records::RecordSlot;
use crate::records::block::Payload;
use crate::records::chunk::{Chunk, RecordBytes};
use crate::records::walk::Walk;
use crate::segment::batches::{BatchCursor, Bounds, CURRENT_MAGIC};
use crate::segment::filter::{GivenTransactions, HeaderBounds, RecordFilter};
use crate::segment::metrics::Metrics;
use crate::segment::resync::{Lost, Reason};
use crate::segment::skipping::{Known, OnCorrupt, Skipping, ensure_decodes, is_damage};
use crate::segment::source::{Access, SegmentSource};
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
    /// What headers have to say.
    pub headers: HeaderBounds,
    /// Whether to go on after damage.
    pub on_corrupt: OnCorrupt,
    /// The most one batch may decompress to.
    pub limit: DecodeLimit,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            check_crcs: true,
            include_control: false,
            headers: HeaderBounds::default(),
            on_corrupt: OnCorrupt::Raise,
            limit: DecodeLimit::default(),
        }
    }
}

/// What outlasts a segment and stays with the reader of segments: contexts and counts.
#[derive(Debug, Default)]
pub(crate) struct ReadState {
    decompressor: Decompressor,
    /// Counts for the caller.
    pub metrics: Metrics,
    /// Whose transactional records were given, under `read_committed`.
    pub given: GivenTransactions,
    /// What was passed over, of the segment at hand.
    pub lost: Vec<Lost>,
    known: Known,
    legacy: Vec<RecordSlot>,
}

/// How [`SegmentReader::fill`] left the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// With records.
    Records,
    /// Empty: the arena must be cleared or frozen before the next batch is decompressed into it.
    ArenaFull,
    /// Empty: there are no more records.
    End,
}

/// A batch whose records are not all in a chunk yet.
#[derive(Debug)]
struct InProgress {
    header: BatchHeader,
    position: Position,
    bytes: RecordBytes,
    /// Where in the file those begin; `None` for decompressed records.
    source_position: Option<Position>,
    rest: Rest,
}

#[derive(Debug)]
enum Rest {
    Walk(Walk),
    /// Slots from this index of the state's.
    Legacy(usize),
}

/// What [`SegmentReader::next_batch`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A batch is in progress.
    Ready,
    /// The arena must be emptied first.
    Full,
    /// No more batches.
    End,
}

/// Reads one segment.
#[derive(Debug)]
pub(crate) struct SegmentReader {
    source: SegmentSource,
    cursor: BatchCursor,
    options: ReadOptions,
    filter: RecordFilter,
    is_active: bool,
    is_mapped: bool,
    /// First offset wanted, and the first not wanted.
    wanted: (Offset, Offset),
    pending: Option<(Position, BatchHeader)>,
    /// The last batch that was skipped for its offsets, until its checksum is compared, and the offset that it was held
    /// against.
    skipped: Option<(Position, BatchHeader, Offset)>,
    current: Option<InProgress>,
    ended: bool,
    /// Where damage is passed over.
    skipping: Option<Skipping>,
}

impl SegmentReader {
    /// Reads `source` from the batch at `position`, without offsets outside `wanted` and batches that the filter excludes
    /// as a whole.
    #[must_use]
    pub(crate) fn new(
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
            skipping: None,
        }
    }

    /// Goes on after damage, if the options say so. Of a piece of a segment whose headers are known to be in order, the
    /// offsets are given with which it and the next piece begin.
    #[must_use]
    pub(crate) fn skipping(
        mut self,
        bounds: Bounds,
        piece: Option<(Offset, Option<Offset>)>,
    ) -> Self {
        if self.options.on_corrupt == OnCorrupt::Skip {
            let (size, position) = (self.source.planned_len(), self.cursor.position());
            if let Some((start, _)) = piece {
                self.cursor.seek(position, start);
            }
            let mut skipping = Skipping::new(bounds, size, position, self.wanted);
            if let Some((_, next)) = piece {
                skipping = skipping.of_piece(bounds.end.zip(next));
            }
            self.skipping = Some(skipping);
        }
        self
    }

    /// The offsets between the end of the segment and the beginning of the next one, if no damage accounts for them.
    #[must_use]
    pub(crate) fn gap_after(&self) -> Option<(Offset, Offset)> {
        let skipping = self.skipping.as_ref().filter(|_| !self.ended)?;
        skipping.gap_after(self.cursor.next_offset())
    }

    /// The segment's bytes, for another piece of it or, as memory, for another segment.
    #[must_use]
    pub(crate) fn into_source(self) -> SegmentSource {
        self.source
    }

    /// The offset after the last batch that was read or skipped, or the segment's base.
    #[must_use]
    pub(crate) const fn next_offset(&self) -> Offset {
        self.cursor.next_offset()
    }

    /// Puts the next records into `chunk`, which must be empty.
    ///
    /// # Errors
    /// Every corruption, with path and position. Records before it are in the chunk.
    pub(crate) fn fill(&mut self, state: &mut ReadState, chunk: &mut Chunk) -> Result<Filled> {
        if let (Some(frozen), Some(current)) = (chunk.take_frozen(), &mut self.current) {
            current.bytes.freeze(&frozen);
        }
        loop {
            if self.current.is_none() {
                let next = if chunk.is_full() {
                    Next::Full
                } else {
                    self.next_batch(state, chunk)?
                };
                match next {
                    Next::Ready => {}
                    _ if !chunk.is_empty() => return Ok(Filled::Records),
                    Next::Full => return Ok(Filled::ArenaFull),
                    Next::End => return Ok(Filled::End),
                }
            }
            // A large batch may have more than a chunk of records before the first wanted one.
            if !self.take(state, chunk)? && !chunk.is_empty() {
                return Ok(Filled::Records);
            }
        }
    }

    /// Finds the next batch whose records are wanted, checks it and makes its bytes ready.
    #[inline]
    fn next_batch(&mut self, state: &mut ReadState, chunk: &mut Chunk) -> Result<Next> {
        let (from, to) = self.wanted;
        loop {
            let next = match self.pending.take() {
                Some(pending) => Some(pending),
                None if self.ended => None,
                None => self.next_header(state)?,
            };
            let Some((position, header)) = next else {
                if !self.check_skipped(state)? {
                    continue;
                }
                if let Some(skipping) = &mut self.skipping {
                    skipping.finish(&mut state.lost, &mut state.metrics);
                }
                return Ok(Next::End);
            };
            if header.last_offset() < from {
                state.metrics.bytes = state.metrics.bytes.saturating_add(header.size as u64);
                state.metrics.skip_unread(&header);
                self.found(state, header.base_offset);
                self.skipped = Some((position, header, self.cursor.floor_before()));
                continue;
            }
            if !self.check_skipped(state)? {
                continue;
            }
            state.metrics.bytes = state.metrics.bytes.saturating_add(header.size as u64);
            if header.last_offset() >= to {
                // Only a legacy wrapper, which names its last offset, can still hold earlier ones.
                self.ended = true;
                self.check_end(position, &header)?;
                if header.base_offset >= to && !header.is_wrapper() {
                    self.found(state, header.base_offset);
                    return Ok(Next::End);
                }
            }
            if self.is_excluded(&header) {
                state.metrics.skip_unread(&header);
                self.found(state, header.base_offset);
                // What follows is likely to be skipped too.
                self.source.expect(Access::Headers);
                continue;
            }
            self.source.expect(Access::Records);
            let is_compressed = header.attributes.codec_id() != 0;
            if (is_compressed && chunk.arena().is_full()) || !self.has_room(chunk, &header) {
                state.metrics.give_back(&header);
                self.pending = Some((position, header));
                return Ok(Next::Full);
            }
            if self.skipping.is_some() {
                if !self.begin_or_skip(state, chunk, position, &header)? {
                    return Ok(Next::End);
                }
            } else if !self.begin(state, chunk, position, header)? {
                return Ok(Next::End);
            }
            if self.current.is_some() {
                return Ok(Next::Ready);
            }
        }
    }

    /// Whether a batch is left out on its header. A marker ends what [`GivenTransactions`] remembers, so that none is left
    /// out while that is asked.
    #[inline]
    fn is_excluded(&self, header: &BatchHeader) -> bool {
        let is_asked_for = self.filter.aborted.is_some() && header.is_control();
        !is_asked_for && (self.filter.exclude(header) || self.options.headers.exclude(header))
    }

    /// Checks one batch and makes it the current one, unless it is empty. False where the log ends here after all.
    #[inline]
    fn begin(
        &mut self,
        state: &mut ReadState,
        chunk: &mut Chunk,
        position: Position,
        header: BatchHeader,
    ) -> Result<bool> {
        let codec = header
            .compression()
            .map_err(|e| self.located(e.shift(position), &header))?;
        if !self.verify(position, &header)? {
            return Ok(false);
        }
        self.open(state, chunk, position, header, codec)?;
        Ok(true)
    }

    /// Makes a batch with a right checksum the current one, if its records are wanted.
    #[inline]
    fn open(
        &mut self,
        state: &mut ReadState,
        chunk: &mut Chunk,
        position: Position,
        header: BatchHeader,
        codec: Compression,
    ) -> Result<()> {
        if !self.admit(state, position, &header)? {
            state.metrics.skip(&header);
            return Ok(());
        }
        if header.is_legacy() {
            self.open_legacy(state, chunk, position, header)?;
        } else if codec == Compression::None {
            self.walk(chunk, position, header)?;
        } else {
            self.decompress(state, chunk, position, header)?;
        }
        state.metrics.batches = state.metrics.batches.saturating_add(1);
        Ok(())
    }

    /// As [`SegmentReader::begin`], past a batch that is damaged.
    fn begin_or_skip(
        &mut self,
        state: &mut ReadState,
        chunk: &mut Chunk,
        position: Position,
        header: &BatchHeader,
    ) -> Result<bool> {
        let (floor, end) = (self.cursor.floor_before(), self.cursor.position());
        let reason = match self.verify(position, header) {
            Ok(false) => return Ok(false),
            Err(error) if !is_damage(&error) => return Err(error),
            Err(_) => {
                state.metrics.give_back(header);
                if self.look_at_all(state, position, floor)? {
                    return Ok(true);
                }
                Reason::Crc
            }
            Ok(true) => {
                let codec = header.compression();
                let opened = codec
                    .and_then(|codec| self.open(state, chunk, position, header.clone(), codec));
                match opened {
                    Ok(()) => {
                        let first = self.current.as_ref().filter(|_| header.is_wrapper());
                        let first = first.map_or(header.base_offset, |c| c.header.base_offset);
                        self.found(state, first);
                        if let Some(skipping) = &mut self.skipping {
                            skipping.give(end);
                        }
                        return Ok(true);
                    }
                    Err(error) if !is_damage(&error) => return Err(error),
                    Err(error) => {
                        state.metrics.give_back(header);
                        // A wrapper whose messages begin too low, like anything else about offsets, is not for the reader
                        // to decide.
                        let is_order =
                            matches!(error, Error::CorruptRecord(_)) && header.is_wrapper();
                        if is_order && self.look_at_all(state, position, floor)? {
                            return Ok(true);
                        }
                        Reason::of_decoding(&error)
                    }
                }
            }
        };
        self.current = None;
        if let Some(skipping) = &mut self.skipping {
            skipping.lose(position, end, reason, floor);
        }
        Ok(true)
    }

    /// The next header, past damage if that is wanted.
    #[inline]
    fn next_header(&mut self, state: &mut ReadState) -> Result<Option<(Position, BatchHeader)>> {
        match &mut self.skipping {
            None => self.cursor.next(&mut self.source),
            Some(skipping) => skipping.next(
                &mut self.cursor,
                &mut self.source,
                &mut state.known,
                &mut state.metrics,
            ),
        }
    }

    /// Has the whole segment looked at, and goes back to `position`; false where that was done before.
    fn look_at_all(
        &mut self,
        state: &mut ReadState,
        position: Position,
        floor: Offset,
    ) -> Result<bool> {
        match &mut self.skipping {
            Some(skipping) if !skipping.has_survey() => {
                skipping.look_at_all(&self.source, &mut state.known)?;
            }
            _ => return Ok(false),
        }
        self.cursor.seek(position, floor);
        self.pending = None;
        self.ended = false;
        Ok(true)
    }

    /// A batch that begins with `offset` is in its place.
    #[inline]
    fn found(&mut self, state: &mut ReadState, offset: Offset) {
        if let Some(skipping) = &mut self.skipping {
            skipping.find(offset, &mut state.lost, &mut state.metrics);
        }
    }

    /// Whether the chunk takes the whole batch, which it must where records that cannot be decoded take the others of their
    /// batch along. An empty one takes any: those that do not fit it are decoded twice.
    #[inline]
    fn has_room(&self, chunk: &Chunk, header: &BatchHeader) -> bool {
        let count = header.records_count.map_or(0, i32::unsigned_abs);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.skipping.is_none() || chunk.is_empty() || count <= chunk.room()
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
            if self.skipping.is_none()
                && self.is_active
                && self.is_unwritten(position, header.size)?
            {
                self.ended = true;
                return Ok(false);
            }
            return Err(self.located(error.shift(position), header));
        }
        Ok(true)
    }

    /// Whether a batch's records are wanted, by who wrote it. Asked after the checksum: a flipped bit may have made it a
    /// control batch, or another producer's.
    #[inline]
    fn admit(
        &mut self,
        state: &mut ReadState,
        position: Position,
        header: &BatchHeader,
    ) -> Result<bool> {
        let is_committed = self.filter.aborted.is_some();
        if is_committed && header.is_control() && header.producer_id >= 0 {
            let batch = self.source.bytes(position, header.size)?;
            let ended = marker_type(batch, header).and_then(|kind| match kind {
                Some(kind) => state.given.end(header, kind),
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
            state.given.give(header);
        }
        Ok(true)
    }

    /// Walks records that lie in the file as they are: the common case, straight into the chunk, if it takes them.
    #[inline]
    fn walk(&mut self, chunk: &mut Chunk, position: Position, header: BatchHeader) -> Result<()> {
        let (region, at) = self.source.region(position, header.size)?;
        let end = at.saturating_add(header.size);
        let region_position = position.saturating_sub(at as u64);
        let mut walk = Walk::new(&header, at.saturating_add(RECORD_BATCH_OVERHEAD), end);
        if self.skipping.is_some() {
            ensure_no_part(&walk, region)
                .map_err(|e| locate(e.shift(region_position), &self.source, &header))?;
        }
        let (region, _) = self.source.region(position, header.size)?;
        if chunk.accepts_region(region) {
            let walked = chunk.walk(&mut walk, region, &header, position, self.wanted);
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
            bytes: RecordBytes::Region(region.clone()),
            source_position: Some(region_position),
            rest: Rest::Walk(walk),
        });
        Ok(())
    }

    /// Makes a compressed batch the current one, its records in the arena.
    fn decompress(
        &mut self,
        state: &mut ReadState,
        chunk: &mut Chunk,
        position: Position,
        header: BatchHeader,
    ) -> Result<()> {
        let batch = self.source.bytes(position, header.size)?;
        let arena = chunk.arena_mut();
        let limit = self.options.limit;
        let block = arena
            .open(batch, &header, &mut state.decompressor, limit)
            .map_err(|e| locate(e.shift(position), &self.source, &header))?;
        state.metrics.decompressed(block.range.len());
        let walk = Walk::new(&header, block.range.start, block.range.end);
        if self.skipping.is_some() {
            ensure_no_part(&walk, arena.bytes())
                .map_err(|e| locate(e.inside(position), &self.source, &header))?;
        }
        self.current = Some(InProgress {
            header,
            position,
            bytes: RecordBytes::Arena(arena.id()),
            source_position: None,
            rest: Rest::Walk(walk),
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
    fn take(&mut self, state: &mut ReadState, chunk: &mut Chunk) -> Result<bool> {
        let Some(current) = &mut self.current else {
            return Ok(true);
        };
        if !chunk.accepts(&current.bytes) || chunk.is_full() {
            return Ok(false);
        }
        let done = match &mut current.rest {
            Rest::Walk(walk) => {
                let walked = chunk.walk_own(walk, &current.header, current.position, self.wanted);
                if let Err(e) = walked {
                    let e = match current.source_position {
                        Some(start) => e.shift(start),
                        None => e.inside(current.position),
                    };
                    let error = locate(e, &self.source, &current.header);
                    return self.lose_current(state, error);
                }
                walk.remaining() == 0
            }
            Rest::Legacy(at) => {
                let rest = state.legacy.get(*at..).unwrap_or_default();
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

    /// The records of the current batch cannot be decoded: passes over it, or fails. None of them was given, as the chunk took
    /// all at once.
    #[cold]
    fn lose_current(&mut self, state: &mut ReadState, error: Error) -> Result<bool> {
        let (floor, end) = (self.cursor.floor_before(), self.cursor.position());
        match (&mut self.skipping, self.current.take()) {
            (Some(skipping), Some(current)) if is_damage(&error) => {
                skipping.lose(current.position, end, Reason::Records, floor);
                state.metrics.give_back(&current.header);
                state.metrics.batches = state.metrics.batches.saturating_sub(1);
                Ok(true)
            }
            _ => Err(error),
        }
    }

    /// After a gap, the base offset of the batch that ends the range may be wrong: then the next batch contradicts it.
    fn check_end(&mut self, position: Position, header: &BatchHeader) -> Result<()> {
        // Where damage is passed over, the gap was looked into.
        if self.skipping.is_some() || header.base_offset == self.cursor.floor_before() {
            return Ok(());
        }
        let after = self
            .source
            .bytes(self.cursor.position(), RECORD_BATCH_OVERHEAD)?;
        match BatchHeader::parse(after) {
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

    /// Compares the checksum of the last skipped batch: it ends right before the first wanted one, if its last offset is
    /// right. False if the reader has gone back to it.
    fn check_skipped(&mut self, state: &mut ReadState) -> Result<bool> {
        let Some((position, header, floor)) = self.skipped.take() else {
            return Ok(true);
        };
        let is_vouched = self.skipping.as_ref().is_some_and(Skipping::has_survey);
        if !self.options.check_crcs || is_vouched {
            return Ok(true);
        }
        match self.check_in_pieces(position, &header) {
            Err(error) if self.skipping.is_some() && is_damage(&error) => {
                state.metrics.give_back(&header);
                self.look_at_all(state, position, floor)
                    .map(|is_back| !is_back)
            }
            checked => checked.map(|()| true),
        }
    }

    /// Compares the checksum of a batch without taking it into memory as a whole.
    #[cold]
    fn check_in_pieces(&mut self, position: Position, header: &BatchHeader) -> Result<()> {
        match self.source.checksum(position, header)? {
            Some(computed) if computed != header.crc => {
                Err(self.located(header.crc_fault(computed).shift(position), header))
            }
            // If the file ends inside it, reading its bytes finds that out.
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

/// Whether the records of a batch that no chunk takes at once can all be decoded.
fn ensure_no_part(walk: &Walk, bytes: &[u8]) -> Result<()> {
    let count = usize::try_from(walk.remaining()).unwrap_or(usize::MAX);
    if count <= Chunk::CAPACITY {
        return Ok(());
    }
    ensure_decodes(walk, bytes)
}

#[cold]
fn locate(error: Error, source: &SegmentSource, header: &BatchHeader) -> Error {
    error.at(source.path()).for_offset(header.base_offset)
}
