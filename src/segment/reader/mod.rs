//! The records of one segment, chunk by chunk: headers checked, checksums compared, blocks decompressed.
//!
//! Batches outside the requested offsets are skipped by their header alone. Those at the edges are checked, because a
//! flipped bit may have put them there.

use crate::compress::Decompressor;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::records::RecordSlot;
use crate::records::chunk::{Chunk, RecordBytes};
use crate::records::parts::Size;
use crate::records::walk::RecordDecoder;
use crate::segment::batches::{BatchCursor, Bounds};
use crate::segment::committed::{AbortedCursor, EmittedTransactions};
use crate::segment::filter::{HeaderBounds, SegmentFilter};
use crate::segment::metrics::Metrics;
use crate::segment::resync::Lost;
use crate::segment::skipping::{FileSurvey, Skipping, Unread};
use crate::segment::source::{Access, SegmentSource, WindowSize};
use crate::types::{Offset, Position};

mod open;
mod options;
mod past_damage;
mod verify;

pub use self::options::ReadOptions;

/// State that outlives a segment and stays with the reader of segments: contexts and counts.
#[derive(Debug, Default)]
pub(crate) struct ReadState {
    decompressor: Decompressor,
    /// Counts for the caller.
    pub metrics: Metrics,
    /// Producers whose transactional records were returned, under `read_committed`.
    pub given: EmittedTransactions,
    /// Ranges of the current segment that were skipped because of damage.
    pub lost: Vec<Lost>,
    known: FileSurvey,
    legacy: Vec<RecordSlot>,
}

/// State of the chunk after [`SegmentReader::fill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FillOutcome {
    /// With records, or with none where a batch ended that was given in parts.
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
    /// Position in the file of the chunk's bytes; `None` for decompressed records.
    source_position: Option<Position>,
    /// Its records are given before all of them are decoded ([`crate::records::parts`]).
    in_parts: Option<Size>,
    rest: SegmentRest,
}

#[derive(Debug)]
enum SegmentRest {
    Walk(RecordDecoder),
    /// Slots from this index of the state's.
    Legacy(usize),
}

/// Result of [`SegmentReader::next_batch`].
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
    filter: SegmentFilter,
    /// True if headers can say that a batch is not wanted.
    has_header_filter: bool,
    /// Transactions that do not count, under `read_committed`.
    aborted: Option<AbortedCursor>,
    is_active: bool,
    /// First offset wanted, and the first not wanted.
    wanted: (Offset, Offset),
    pending: Option<(Position, BatchHeader)>,
    /// The last batch that was skipped for its offsets, or past damage for its header, until its checksum is compared.
    unread: Option<Unread>,
    current: Option<InProgress>,
    /// Over batches that are left out on their headers.
    excluded: WindowSize,
    ended: bool,
    /// State of a reader that continues after damage.
    skipping: Option<Skipping>,
}

impl SegmentReader {
    /// Reads `source` from the batch at `position`, without offsets outside `wanted` and batches that the filter
    /// excludes as a whole.
    #[must_use]
    pub(crate) fn new(
        mut source: SegmentSource,
        bounds: Bounds,
        position: Position,
        wanted: (Offset, Offset),
        options: ReadOptions,
        filter: SegmentFilter,
    ) -> Self {
        source.stop_at(bounds.end);
        Self {
            source,
            cursor: BatchCursor::new(bounds, position),
            options,
            aborted: filter.aborted.as_deref().map(AbortedCursor::new),
            has_header_filter: !filter.is_open() || options.headers != HeaderBounds::default(),
            filter,
            is_active: bounds.is_active,
            wanted,
            pending: None,
            unread: None,
            current: None,
            excluded: WindowSize::default(),
            ended: false,
            skipping: None,
        }
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

    /// Puts the next records into `chunk`, which must be empty. Past damage, a batch that no chunk takes at once may be
    /// given in parts ([`Chunk::parts`]).
    ///
    /// # Errors
    /// Every corruption, with path and position. Records before it are in the chunk.
    pub(crate) fn fill(&mut self, state: &mut ReadState, chunk: &mut Chunk) -> Result<FillOutcome> {
        let filled = self.fill_whole_or_part(state, chunk);
        chunk
            .parts_mut()
            .set_open(self.current.as_ref().and_then(|batch| batch.in_parts));
        filled
    }

    fn fill_whole_or_part(
        &mut self,
        state: &mut ReadState,
        chunk: &mut Chunk,
    ) -> Result<FillOutcome> {
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
                    _ if !chunk.is_empty() => return Ok(FillOutcome::Records),
                    Next::Full => return Ok(FillOutcome::ArenaFull),
                    Next::End => return Ok(FillOutcome::End),
                }
            }
            let batch = self.current.as_ref();
            let in_parts = batch.is_some_and(|batch| batch.in_parts.is_some());
            let is_done = self.take(state, chunk)?;
            // A large batch may have more than a chunk of records before the first wanted one. A batch that was given
            // in parts reports its end before the next batch starts.
            if is_done && in_parts || !is_done && !chunk.is_empty() {
                return Ok(FillOutcome::Records);
            }
        }
    }

    /// Finds the next batch whose records are wanted, checks it and makes its bytes ready.
    #[inline]
    fn next_batch(&mut self, state: &mut ReadState, chunk: &mut Chunk) -> Result<Next> {
        let (from, to) = self.wanted;
        // In one place from here on: a header that is handed over is read back wider than it was stored, which stalls.
        let mut header = BatchHeader::NONE;
        loop {
            let next = match self.pending.take() {
                Some((position, pending)) => {
                    header = pending;
                    Some(position)
                }
                None if self.ended => None,
                None => self.next_header(state, &mut header)?,
            };
            let Some(position) = next else {
                if !self.check_unread(state)? {
                    continue;
                }
                if let Some(skipping) = &mut self.skipping {
                    skipping.finish(&mut state.lost, &mut state.metrics);
                }
                return Ok(Next::End);
            };
            if header.last_offset() < from {
                // A wrong length may have led past whole batches to another one.
                if self.is_past_gap(&header) && !self.check_unread(state)? {
                    continue;
                }
                state.metrics.bytes = state.metrics.bytes.saturating_add(header.size as u64);
                state.metrics.skip_unread(&header);
                self.found(state, header.base_offset);
                self.leave_unread(position, &header);
                continue;
            }
            let is_excluded = self.is_excluded(&header);
            let is_next_unread =
                is_excluded && self.skipping.is_some() && !self.is_past_gap(&header);
            if !is_next_unread && !self.check_unread(state)? {
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
            if is_excluded {
                state.metrics.skip_unread(&header);
                self.found(state, header.base_offset);
                // What follows is likely to be skipped too.
                self.source.expect(self.excluded.observe(header.size));
                if self.skipping.is_some() {
                    self.leave_unread(position, &header);
                }
                continue;
            }
            self.source.expect(Access::Records);
            let is_compressed = header.attributes.codec_id() != 0;
            if (is_compressed && chunk.arena().is_full()) || !self.has_room(chunk, &header) {
                state.metrics.give_back(&header);
                self.pending = Some((position, header));
                return Ok(Next::Full);
            }
            if !self.begin(state, chunk, position, &header)? {
                return Ok(Next::End);
            }
            if self.current.is_some() {
                return Ok(Next::Ready);
            }
        }
    }

    /// Returns whether a batch is left out on its header. A marker ends what [`EmittedTransactions`] remembers, so that
    /// none is left out while that is asked.
    #[inline]
    fn is_excluded(&self, header: &BatchHeader) -> bool {
        if !self.has_header_filter {
            return false;
        }
        let is_asked_for = self.aborted.is_some() && header.is_control();
        !is_asked_for && (self.filter.exclude(header) || self.options.headers.exclude(header))
    }

    /// Checks one batch and makes it the current one, unless the chunk has all of it; or skips it. False where
    /// the log ends here after all.
    #[inline]
    fn begin(
        &mut self,
        state: &mut ReadState,
        chunk: &mut Chunk,
        position: Position,
        header: &BatchHeader,
    ) -> Result<bool> {
        let codec = match header.compression() {
            Err(e) if self.skipping.is_none() => {
                return Err(self.located(e.shift(position), header));
            }
            codec => codec,
        };
        let at = match self.verify(position, header) {
            Ok(Some(at)) => at,
            Ok(None) => return Ok(false),
            Err(e) => return self.lose_unsound(state, position, header, e),
        };
        match codec.and_then(|codec| self.open(state, chunk, (position, at), header, codec)) {
            Ok(()) if self.current.is_none() => self.gave(state, header.base_offset),
            Ok(()) => {}
            Err(e) => return self.lose_undecodable(state, position, header, e),
        }
        Ok(true)
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
            SegmentRest::Walk(walk) => {
                let walked = chunk.walk_own(walk, &current.header, current.position, self.wanted);
                if let Err(e) = walked {
                    let e = match current.source_position {
                        Some(start) => e.shift(start),
                        None => e.inside(current.position),
                    };
                    let error = locate(e, &self.source, &current.header);
                    return self.lose_current(state, chunk, error);
                }
                walk.remaining() == 0
            }
            SegmentRest::Legacy(at) => {
                let rest = state.legacy.get(*at..).unwrap_or_default();
                let taken = chunk.extend(rest, &current.header, current.position, self.wanted);
                *at = at.saturating_add(taken);
                taken >= rest.len()
            }
        };
        if done && let Some(current) = self.current.take() {
            self.gave(state, current.header.base_offset);
        }
        Ok(done)
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
