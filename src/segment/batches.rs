//! Iterates over the batch headers of a `.log`, with every check that needs no checksum.
//!
//! What the checksum does not cover (base offset, length, leader epoch, magic) is checked against structure and
//! [`Neighbours`].
//!
//! # Where the log ends
//! On the active segment a batch that runs past the end, or zeros up to the end, are what a crash or a write in
//! progress leaves: the end of the log. Elsewhere they are damage. A length that only *looks* torn (its batch ends at
//! the end of the file by its checksum, or a healthy successor follows) is damage on the active segment too. Source:
//! `FileLogInputStream`, `LogSegment.recover`.

use crate::error::{Error, FaultKind, Result};
use crate::format::batch::{
    BatchHeader, HEADER_SIZE_UP_TO_MAGIC, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT, MIN_LENGTH,
    RECORD_BATCH_OVERHEAD, torn, wrong_length,
};
use crate::format::cursor::get_i32;
use crate::io::interrupt;
use crate::segment::neighbours::Neighbours;
use crate::segment::source::SegmentSource;
use crate::types::{Offset, Position};

/// Bytes of a torn-looking rest that are searched for a healthy batch after it.
const RESYNC_WINDOW: usize = 4 << 20;
/// Bytes between two checks for an interrupt: a map has no windows at which to check.
const POLL_BYTES: u64 = 4 << 20;
/// The highest magic there is (`RecordBatch.CURRENT_MAGIC_VALUE`).
pub(crate) const CURRENT_MAGIC: u8 = 2;

/// Facts about a segment other than its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Base offset, from the file's name.
    pub base_offset: Offset,
    /// Base offset of the next segment, if there is one.
    pub next_base_offset: Option<Offset>,
    /// The partition's last segment.
    pub is_active: bool,
    /// Position at which another reader continues: the start of a batch.
    pub end: Option<Position>,
}

/// The rules by which [`Batches`] finds the next batch, and its position.
pub(crate) trait Policy {
    /// Position of the next batch, or of the end of the log.
    fn position(&self) -> Position;

    /// Reads the header of the next batch into `header` and returns its position, or `None` at the end of the log; all
    /// bytes of the batch are there.
    ///
    /// # Errors
    /// Faults, by the rules; `Io`.
    fn next_into(
        &mut self,
        source: &mut SegmentSource,
        header: &mut BatchHeader,
    ) -> Result<Option<Position>>;
}

/// The batches of a `.log`.
///
/// | policy | rules |
/// |---|---|
/// | [`KafkaPolicy`](super::walk::KafkaPolicy) | exactly those of Kafka's recovery, which stops where Kafka's does |
/// | [`CopyPolicy`](super::walk::CopyPolicy) | the same, where all bytes must be whole batches |
/// | [`BatchCursor`] | every check that needs no checksum |
/// | [`PastDamage`](super::skipping::PastDamage) | the same, past damage if requested |
#[derive(Debug)]
pub(crate) struct Batches<P> {
    /// Their bytes.
    pub(crate) source: SegmentSource,
    pub(super) policy: P,
}

impl<P: Policy> Batches<P> {
    /// The batches of `source`, from where `policy` is.
    pub(crate) const fn new(source: SegmentSource, policy: P) -> Self {
        Self { source, policy }
    }

    /// Position of the next batch, or of the end of the log.
    pub(crate) fn position(&self) -> Position {
        self.policy.position()
    }

    /// The next batch's position and header.
    ///
    /// # Errors
    /// As [`Policy::next_into`].
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(Position, BatchHeader)>> {
        let mut header = BatchHeader::NONE;
        let position = self.next_into(&mut header)?;
        Ok(position.map(|position| (position, header)))
    }

    /// As [`Batches::next`], with the header put into `header`.
    ///
    /// # Errors
    /// As [`Policy::next_into`].
    #[inline]
    pub(crate) fn next_into(&mut self, header: &mut BatchHeader) -> Result<Option<Position>> {
        self.policy.next_into(&mut self.source, header)
    }
}

/// Walks the batches of one segment.
#[derive(Clone, Debug)]
pub struct BatchCursor {
    bounds: Bounds,
    position: Position,
    /// Past this it asks whether it is still wanted.
    asks_at: Position,
    neighbours: Neighbours,
    /// Bounds that the last batch was compared with.
    before: Neighbours,
    ended: bool,
}

impl Policy for BatchCursor {
    fn position(&self) -> Position {
        self.position
    }

    #[expect(clippy::inline_always, reason = "as `BatchHeader::parse`")]
    #[inline(always)]
    fn next_into(
        &mut self,
        source: &mut SegmentSource,
        header: &mut BatchHeader,
    ) -> Result<Option<Position>> {
        let position = self.position;
        if self.ended || position >= source.len() {
            return Ok(None);
        }
        if position > self.asks_at {
            self.asks_at = position.saturating_add(POLL_BYTES);
            interrupt::check()?;
        }
        let next = self.read(source, position, header);
        if self.bounds.end.is_some_and(|end| position >= end) {
            self.ended = true;
            // The batch there is another reader's, but only here is it seen beside the one before it.
            return next
                .and_then(|_| self.stop(position))
                .map(|()| None)
                .map_err(|e| e.shift(position).at(source.path()));
        }
        match next {
            Ok(true) => {
                self.position = position.saturating_add(header.size as u64);
                self.before = self.neighbours;
                self.neighbours.pass(header);
                Ok(Some(position))
            }
            Ok(false) => {
                self.ended = true;
                Ok(None)
            }
            Err(e) => Err(e.shift(position).at(source.path())),
        }
    }
}

impl BatchCursor {
    /// Begins at `position`, which must be the start of a batch.
    #[must_use]
    pub const fn new(bounds: Bounds, position: Position) -> Self {
        let neighbours = Neighbours::new(bounds.base_offset, bounds.next_base_offset);
        Self {
            bounds,
            position,
            asks_at: position.saturating_add(POLL_BYTES),
            neighbours,
            before: neighbours,
            ended: false,
        }
    }

    /// Position of the next batch, or of the end of the log.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The offset after the last batch, or the segment's base.
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        self.neighbours.floor
    }

    /// The offset after the batch before the last one: of a wrapper, only decompression shows the first offset.
    #[must_use]
    pub const fn floor_before(&self) -> Offset {
        self.before.floor
    }

    /// The highest leader epoch before the last batch, -1 for none.
    #[must_use]
    pub(crate) const fn epoch_before(&self) -> i32 {
        self.before.epoch
    }

    /// Continues at `position`; no batch may begin below `floor`.
    pub(crate) const fn seek(&mut self, position: Position, floor: Offset) {
        self.position = position;
        self.neighbours.floor = floor;
        self.before.floor = floor;
        self.ended = false;
    }

    /// The next batch of a segment of which another walk has said where whole batches in order are; this is one of
    /// those.
    ///
    /// # Errors
    /// `Io`; a fault in a header, if the file has changed.
    pub(crate) fn next_vouched(
        &mut self,
        source: &mut SegmentSource,
        header: &mut BatchHeader,
    ) -> Result<Option<Position>> {
        let position = self.position;
        let is_past_end = self.bounds.end.is_some_and(|end| position >= end);
        if self.ended || is_past_end || position >= source.len() {
            self.ended = true;
            return Ok(None);
        }
        interrupt::check()?;
        let head = source.bytes(position, RECORD_BATCH_OVERHEAD)?;
        let parsed = BatchHeader::parse(head).and_then(|header| {
            header.ok_or_else(|| torn("batch header", "a whole one", head.len()))
        });
        *header = parsed.map_err(|e| e.shift(position).at(source.path()))?;
        self.position = position.saturating_add(header.size as u64);
        self.before.floor = self.neighbours.floor;
        self.neighbours.floor = header.next_offset();
        Ok(Some(position))
    }

    /// Lower bound of the offsets in the batch that came last.
    #[must_use]
    pub const fn least_offset(&self, header: &BatchHeader) -> Offset {
        if header.is_wrapper() {
            self.before.floor
        } else {
            header.base_offset
        }
    }

    /// The next batch's position and header. Its bytes are all there; its checksum has not been examined.
    ///
    /// # Errors
    /// `CorruptRecord`, `UnsupportedFormat` (magic above 2), `Io`. After an error the cursor stays where it is.
    #[inline]
    pub fn next(&mut self, source: &mut SegmentSource) -> Result<Option<(Position, BatchHeader)>> {
        let mut header = BatchHeader::NONE;
        let position = self.next_into(source, &mut header)?;
        Ok(position.map(|position| (position, header)))
    }

    #[expect(clippy::inline_always, reason = "as `BatchHeader::parse`")]
    #[inline(always)]
    fn read(
        &self,
        source: &mut SegmentSource,
        position: Position,
        header: &mut BatchHeader,
    ) -> Result<bool> {
        let left = source.len().saturating_sub(position);
        let head = source.bytes(position, RECORD_BATCH_OVERHEAD)?;
        if head.len() < HEADER_SIZE_UP_TO_MAGIC {
            return self.cut_off("batch header", HEADER_SIZE_UP_TO_MAGIC as u64, left);
        }
        let length = get_i32(head, LENGTH_AT).unwrap_or_default();
        if length < MIN_LENGTH {
            return self.short_length(source, position, length);
        }
        let size = u64::from(length.unsigned_abs()).saturating_add(LOG_OVERHEAD as u64);
        if size > left {
            return self.runs_past_the_end(source, position, size, left);
        }
        match head.get(MAGIC_AT) {
            Some(&magic) if magic > CURRENT_MAGIC => {
                return Err(unknown_magic(magic));
            }
            _ => {}
        }
        let Some(parsed) = BatchHeader::parse(head)? else {
            return self.cut_off("batch header", RECORD_BATCH_OVERHEAD as u64, left);
        };
        self.neighbours.ensure_fits(&parsed)?;
        *header = parsed;
        Ok(true)
    }

    /// The end of a piece of the segment: a batch has to begin there.
    #[cold]
    fn stop(&self, position: Position) -> Result<()> {
        match self.bounds.end {
            Some(end) if position > end => {
                let expected = format!("a batch that begins at {end}, where it was planned to end");
                let found = format!("one that reaches over it to {position}");
                Err(torn("batch", expected, found))
            }
            _ => Ok(()),
        }
    }

    /// A length below the smallest: zeros up to the end of a preallocated active file, or damage.
    #[cold]
    fn short_length(
        &self,
        source: &mut SegmentSource,
        position: Position,
        length: i32,
    ) -> Result<bool> {
        if self.bounds.is_active && length == 0 && source.is_zero_from(position)? {
            return Ok(false);
        }
        let expected = format_args!("at least {MIN_LENGTH}");
        Err(wrong_length(expected, length))
    }

    /// A batch whose length leads beyond the end: torn, or a length that lies.
    #[cold]
    fn runs_past_the_end(
        &self,
        source: &mut SegmentSource,
        position: Position,
        size: u64,
        left: u64,
    ) -> Result<bool> {
        if self.bounds.is_active && self.length_lies(source, position)? {
            let expected = "a length that ends where the checksum or the next batch says";
            let found = size.saturating_sub(LOG_OVERHEAD as u64);
            return Err(wrong_length(expected, found));
        }
        self.cut_off("batch", size, left)
    }

    /// Fewer bytes than needed: the end of the active segment, damage elsewhere.
    #[cold]
    fn cut_off(&self, what: &'static str, needed: u64, left: u64) -> Result<bool> {
        if self.bounds.is_active {
            return Ok(false);
        }
        let found = format_args!("{left} to the end of the file");
        Err(torn(what, format_args!("{needed} bytes"), found))
    }

    /// Returns whether the bytes after a torn-looking header show that only its length is wrong.
    ///
    /// [`Resync`](super::resync::Resync) would take any batch in the rest for one of the log, also one inside a value of the
    /// batch that is being written. Here only a direct successor counts.
    fn length_lies(&self, source: &mut SegmentSource, position: Position) -> Result<bool> {
        let whole = source.len().saturating_sub(position) <= RESYNC_WINDOW as u64;
        let rest = source.bytes(position, RESYNC_WINDOW)?;
        let Some(header) = with_length_of(rest) else {
            return Ok(false);
        };
        if header.magic > CURRENT_MAGIC || !self.neighbours.admits(&header) {
            return Ok(false);
        }
        if whole && header.ensure_valid(rest).is_ok() {
            return Ok(true);
        }
        let mut budget = RESYNC_WINDOW.saturating_mul(4);
        for at in HEADER_SIZE_UP_TO_MAGIC..rest.len() {
            let Some(candidate) = rest.get(at..).filter(|c| c.len() > HEADER_SIZE_UP_TO_MAGIC)
            else {
                break;
            };
            // The successor's magic and offset rule out all but a few places before a checksum is taken.
            if candidate
                .get(MAGIC_AT)
                .is_none_or(|&magic| magic > CURRENT_MAGIC)
            {
                continue;
            }
            let Ok(Some(successor)) = BatchHeader::parse(candidate) else {
                continue;
            };
            let follows = successor.base_offset == header.next_offset()
                || (successor.base_offset > header.base_offset && successor.is_legacy());
            let Some(batch) = candidate.get(..successor.size).filter(|_| follows) else {
                continue;
            };
            if successor.ensure_valid(batch).is_ok() {
                return Ok(true);
            }
            // Bytes made to look like many batches may not cost more than a few times their length.
            budget = budget.saturating_sub(batch.len());
            if budget == 0 {
                break;
            }
        }
        Ok(false)
    }
}

/// The header at the start of `bytes`, as if its batch ended where they do.
fn with_length_of(bytes: &[u8]) -> Option<BatchHeader> {
    let mut head = bytes
        .get(..RECORD_BATCH_OVERHEAD.min(bytes.len()))?
        .to_vec();
    let length = i32::try_from(bytes.len().checked_sub(LOG_OVERHEAD)?).ok()?;
    head.get_mut(LENGTH_AT..LOG_OVERHEAD)?
        .copy_from_slice(&length.to_be_bytes());
    BatchHeader::parse(&head).ok()?
}

/// The error for records of a magic above 2.
#[cold]
pub(super) fn unknown_magic(magic: u8) -> Error {
    let error = Error::unsupported("magic", MAGIC_AT as u64, "0, 1 or 2", magic);
    error.of_kind(FaultKind::Magic)
}
