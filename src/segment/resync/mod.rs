//! Iterates over the batches of a `.log` that may be damaged, and continues after damage at the next whole batch.
//!
//! [`Resync`] gives every batch whose header, checksum and place in the order of offsets are right, and between them
//! what is lost. Batches and losses follow each other without a gap from the first byte to the last: their bytes add up
//! to the file. It is the only such walk; reading past damage, `salvage` and `verify` are built on it.
//!
//! | damage | what is lost | reason |
//! |---|---|---|
//! | bytes of a batch changed | the batch | `crc` |
//! | its length changed | the batch, and not what its length leads over | `length` |
//! | its magic changed | the batch | `magic` |
//! | its base offset or leader epoch changed; a batch twice, or in another place | the batch | `order` |
//! | bytes gone, or never written: zeros, the end of the file | what is left of the batch | `torn` |
//! | bytes put in | those bytes | `foreign` |
//! | a header whose numbers contradict each other under a right checksum | the batch | `records` |
//! | a wrapper of magic 0 or 1 that cannot be opened | the wrapper | `codec`, `records` |
//!
//! Records are not decoded here, apart from wrappers, whose first offset is known no other way.
//!
//! # Which batch is out of order
//! The checksum of magic 2 covers neither base offset nor leader epoch, that of magic 0 and 1 not the offset. A batch
//! that begins right where the last one ended is given at once. At the first that does not, and after damage:
//!
//! | the headers, by the lengths that they say | batches that are kept |
//! |---|---|
//! | rise up to the end of the file ([`chain`]) | all whole batches among them, as a reader has given those by then; of whole batches beside them the longest run that fits between |
//! | do not | of up to [`RUN`] batches the longest run of rising offsets ([`order`]) |
//!
//! # Cost
//! Linear in the file, for any bytes. The checksum of a file without damage is computed once, as by any reader. From
//! the first damage on, every byte is summed once more at most for each kind of checksum ([`sums`]), and searched once:
//! a place that is ruled out is not examined again. The order of a run takes `n log n` for its batches. Memory: the
//! run, and 4 bytes for each KiB from the first damage on.

mod chain;
mod damage;
mod lost;
mod order;
mod search;
mod sums;

use std::collections::VecDeque;
use std::sync::Arc;

pub(crate) use self::chain::HeaderChain;
pub use self::lost::{Lost, Reason};
use self::order::Span;
use self::search::BatchSearch;
use super::batches::{Bounds, CURRENT_MAGIC};
use super::neighbours::Neighbours;
use super::source::{Access, SegmentSource};
use crate::error::Result;
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::io::interrupt;
use crate::io::storage::ReadFile;
use crate::types::{NO_PARTITION_LEADER_EPOCH, Offset, Position};

/// Most batches whose order is decided together: some megabytes of headers.
const RUN: usize = 1 << 16;

/// An item of the walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResyncItem {
    /// A whole batch in its place, and where it begins. Of a wrapper, `base_offset` is its first offset.
    Batch(Position, BatchHeader),
    /// A loss before the next batch, or before the end.
    Lost(Lost),
}

/// A part of the file whose place in the order is not decided.
#[derive(Debug)]
enum UndecidedPart {
    Batch(Position, BatchHeader),
    Damage(Position, Position, Reason),
}

/// Kind of bytes at a position.
enum FoundAt {
    /// A whole batch.
    Batch(BatchHeader),
    /// As many bytes that belong together under a right checksum, but are no batch.
    Unit(usize, Reason),
    /// Anything.
    Other,
}

/// Walks a `.log` past damage. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Resync {
    source: SegmentSource,
    search: BatchSearch,
    length: u64,
    /// Position of the next part.
    position: Position,
    /// There was damage: checksums are taken by the sums from now on.
    is_damaged: bool,
    /// Parts found ahead of their turn.
    ahead: VecDeque<UndecidedPart>,
    /// In order, to be given.
    settled: VecDeque<ResyncItem>,
    /// Bounds of the next batch, after the last one that was settled.
    neighbours: Neighbours,
    /// Loss since that batch.
    lost: Option<Lost>,
    /// A batch's last offset is believed only if the next batch agrees.
    confirms_last_offsets: bool,
    /// The headers, if they are in order up to the end; to be examined when that is first asked.
    chain: Chain,
}

/// Knowledge about a file's headers.
#[derive(Debug)]
enum Chain {
    Unknown(Arc<dyn ReadFile>, Bounds),
    InOrder(Box<HeaderChain>),
    /// Out of order, or not needed.
    None,
}

impl Resync {
    /// Walks the first `length` bytes of a segment's `.log`, all of them, whatever [`Bounds::end`] says.
    ///
    /// # Errors
    /// `CorruptRecord` for a file longer than Kafka's positions reach.
    pub(crate) fn new(file: Arc<dyn ReadFile>, length: u64, bounds: Bounds) -> Result<Self> {
        let between = Neighbours::new(bounds.base_offset, bounds.next_base_offset);
        Ok(Self {
            chain: Chain::Unknown(Arc::clone(&file), bounds),
            ..Self::between(file, length, between, bounds.base_offset)?
        })
    }

    /// Walks a file whose batches may have any offsets from the first to the last of `offsets`, also such as lie too
    /// far apart for one segment: past damage, one that is too far from `base_offset` and from the batch before counts
    /// only if another one follows. A last offset that is too high under a right checksum, by a mistake of its writer,
    /// costs its own batch, not those after it; [`Resync::new`] gives what a reader has given by then.
    ///
    /// # Errors
    /// As [`Resync::new`].
    pub(crate) fn within(
        file: Arc<dyn ReadFile>,
        length: u64,
        offsets: (Offset, Offset),
        base_offset: Offset,
    ) -> Result<Self> {
        let next = offsets.1.checked_add(1).filter(|&next| next < Offset::MAX);
        Ok(Self {
            confirms_last_offsets: true,
            ..Self::between(file, length, Neighbours::new(offsets.0, next), base_offset)?
        })
    }

    fn between(
        file: Arc<dyn ReadFile>,
        length: u64,
        neighbours: Neighbours,
        base_offset: Offset,
    ) -> Result<Self> {
        file.pass_damage();
        Ok(Self {
            source: SegmentSource::over(Arc::clone(&file), length, Access::Records)?,
            search: BatchSearch::new(file, length, neighbours, base_offset)?,
            length,
            position: 0,
            is_damaged: false,
            ahead: VecDeque::new(),
            settled: VecDeque::new(),
            neighbours,
            lost: None,
            confirms_last_offsets: false,
            chain: Chain::None,
        })
    }

    /// The first whole batch, whatever the order says; to be requested before any step.
    ///
    /// # Errors
    /// As [`Resync::next_step`].
    pub(crate) fn first_whole(&mut self) -> Result<Option<BatchHeader>> {
        while let Some(part) = self.next_part()? {
            if let UndecidedPart::Batch(_, header) = part {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    /// All that is lost of a segment.
    ///
    /// # Errors
    /// As [`Resync::new`] and [`Resync::next_step`].
    pub(crate) fn survey(
        file: Arc<dyn ReadFile>,
        length: u64,
        bounds: Bounds,
    ) -> Result<Vec<Lost>> {
        let mut walk = Self::new(file, length, bounds)?;
        let mut all = Vec::new();
        while let Some(step) = walk.next_step()? {
            if let ResyncItem::Lost(lost) = step {
                all.push(lost);
            }
        }
        Ok(all)
    }

    /// The next batch, or what is lost before it; `None` at the end of the file.
    ///
    /// # Errors
    /// `Io`, `Interrupted`, `OutOfMemory`; never one about the bytes.
    pub(crate) fn next_step(&mut self) -> Result<Option<ResyncItem>> {
        loop {
            if let Some(step) = self.settled.pop_front() {
                return Ok(Some(step));
            }
            match self.next_part()? {
                None => {
                    let lost = self.lost.take();
                    let (floor, next) = (self.neighbours.floor, self.neighbours.next_base_offset);
                    return Ok(lost.map(|lost| ResyncItem::Lost(lost.between(floor, next))));
                }
                Some(UndecidedPart::Damage(position, end, reason)) => {
                    self.lose(position, end, reason);
                }
                Some(UndecidedPart::Batch(position, header)) => {
                    let continues = self.continues(position, &header)?;
                    if continues && !(self.is_damaged && self.has_chain()?) {
                        self.give(position, header);
                    } else {
                        self.settle_run(position, header)?;
                    }
                }
            }
        }
    }

    fn give(&mut self, position: Position, header: BatchHeader) {
        if let Some(lost) = self.lost.take() {
            let lost = lost.between(self.neighbours.floor, Some(header.base_offset));
            self.settled.push_back(ResyncItem::Lost(lost));
        }
        self.neighbours.pass(&header);
        self.settled.push_back(ResyncItem::Batch(position, header));
    }

    fn lose(&mut self, position: Position, end: Position, reason: Reason) {
        match &mut self.lost {
            Some(lost) => lost.end = end,
            None => self.lost = Some(Lost::new(position, end, reason)),
        }
    }

    /// Returns whether the headers are in order up to the end.
    fn has_chain(&mut self) -> Result<bool> {
        if let Chain::Unknown(file, bounds) = &self.chain {
            let found = HeaderChain::of(Arc::clone(file), self.length, *bounds)?;
            self.chain = found.map_or(Chain::None, |chain| Chain::InOrder(Box::new(chain)));
        }
        Ok(matches!(self.chain, Chain::InOrder(_)))
    }

    /// Returns whether a whole batch is one of such headers, so that it stays.
    fn is_on_chain(&mut self, position: Position, header: &BatchHeader) -> Result<bool> {
        match &mut self.chain {
            Chain::InOrder(chain) => {
                Ok(chain.has(position)? && header.base_offset >= self.neighbours.floor)
            }
            Chain::Unknown(..) | Chain::None => Ok(false),
        }
    }

    /// Returns whether the batch begins where the last one ended, under a leader epoch that the next one does not speak
    /// against, nor against its last offset if that is to be confirmed.
    fn continues(&mut self, position: Position, header: &BatchHeader) -> Result<bool> {
        let epoch = header.partition_leader_epoch;
        if header.base_offset != self.neighbours.floor || !self.neighbours.admits_epoch(epoch) {
            return Ok(false);
        }
        let rises = epoch > self.neighbours.epoch;
        if !self.confirms_last_offsets {
            let end = position.saturating_add(header.size as u64);
            if !rises || confirms_epoch(&mut self.source, end, epoch)? {
                return Ok(true);
            }
        }
        let is_batch = |part: &UndecidedPart| matches!(part, UndecidedPart::Batch(..));
        if !self.ahead.iter().any(is_batch) {
            while let Some(part) = self.find()? {
                let is_one = is_batch(&part);
                self.ahead.push_back(part);
                if is_one {
                    break;
                }
            }
        }
        let next = self.ahead.iter().find_map(|part| match part {
            UndecidedPart::Batch(_, next) => Some(next),
            UndecidedPart::Damage(..) => None,
        });
        Ok(next.is_none_or(|next| {
            let after = Neighbours::after(header);
            (!rises || after.admits_epoch(next.partition_leader_epoch))
                && (!self.confirms_last_offsets || next.base_offset >= after.floor)
        }))
    }

    /// Decides the order of the batch and of those after it: up to the next one that stays, where headers are in order.
    fn settle_run(&mut self, position: Position, header: BatchHeader) -> Result<()> {
        self.has_chain()?;
        let (mut run, mut batches, mut stays) = (Vec::new(), 0usize, None);
        let mut next = Some(UndecidedPart::Batch(position, header));
        while let Some(part) = next {
            if let UndecidedPart::Batch(position, header) = &part {
                if self.is_on_chain(*position, header)? {
                    stays = Some((*position, header.clone()));
                    break;
                }
                batches = batches.saturating_add(1);
            }
            run.push(part);
            next = if batches < RUN {
                self.next_part()?
            } else {
                None
            };
        }
        let fits = |header: &BatchHeader| {
            let stays = stays.as_ref();
            stays.is_none_or(|(_, stays)| Neighbours::after(header).admits(stays))
        };
        let spans: Vec<Span> = run
            .iter()
            .filter_map(|part| match part {
                UndecidedPart::Batch(_, header) if fits(header) => Some(Span::of(header)),
                UndecidedPart::Batch(..) | UndecidedPart::Damage(..) => None,
            })
            .collect();
        let mut kept = order::kept(&spans, self.neighbours).into_iter();
        for part in run {
            match part {
                UndecidedPart::Damage(position, end, reason) => self.lose(position, end, reason),
                UndecidedPart::Batch(position, header) => {
                    if fits(&header) && kept.next() == Some(true) {
                        self.give(position, header);
                    } else {
                        let end = position.saturating_add(header.size as u64);
                        self.lose(position, end, Reason::Order);
                    }
                }
            }
        }
        if let Some((position, header)) = stays {
            self.give(position, header);
        }
        Ok(())
    }

    fn next_part(&mut self) -> Result<Option<UndecidedPart>> {
        match self.ahead.pop_front() {
            Some(part) => Ok(Some(part)),
            None => self.find(),
        }
    }

    /// The part at the position.
    fn find(&mut self) -> Result<Option<UndecidedPart>> {
        let position = self.position;
        if position >= self.source.len() {
            return Ok(self.is_cut(position));
        }
        interrupt::check()?;
        let (end, part) = match self.look_at(position)? {
            FoundAt::Batch(header) => {
                let end = position.saturating_add(header.size as u64);
                (end, self.in_its_place(position, header)?)
            }
            FoundAt::Unit(size, reason) => {
                let end = position.saturating_add(size as u64);
                (end, UndecidedPart::Damage(position, end, reason))
            }
            FoundAt::Other => {
                self.is_damaged = true;
                self.search.anchor(position);
                let end = self.search.end_of_damage(position)?;
                let reason = self.search.reason(position, end)?;
                (end, UndecidedPart::Damage(position, end, reason))
            }
        };
        if let UndecidedPart::Batch(_, header) = &part {
            self.search.found(header);
        }
        self.position = end;
        Ok(Some(part))
    }

    /// The file became shorter while it was read.
    fn is_cut(&mut self, position: Position) -> Option<UndecidedPart> {
        let is_short = position < self.length;
        self.position = self.length;
        is_short.then_some(UndecidedPart::Damage(position, self.length, Reason::Torn))
    }

    /// A whole batch, unless its offsets have no place in this segment or are not to be found out.
    fn in_its_place(
        &mut self,
        position: Position,
        mut header: BatchHeader,
    ) -> Result<UndecidedPart> {
        let end = position.saturating_add(header.size as u64);
        if header.is_wrapper() {
            match self.source.first_offset(position, &header) {
                Ok(first) => {
                    let last = header.last_offset();
                    match i32::try_from(last.wrapping_sub(first)) {
                        // Offsets of magic 0 that contradict their wrapper's say nothing about its place.
                        Ok(delta)
                            if header.magic == 0
                                && (delta < 0 || first < self.neighbours.floor) => {}
                        Ok(delta @ 0..) => {
                            header.base_offset = first;
                            header.last_offset_delta = delta;
                        }
                        _ if header.magic == 0 => {}
                        _ => return Ok(UndecidedPart::Damage(position, end, Reason::Records)),
                    }
                }
                Err(error) if error.as_fault().is_some() => {
                    let reason = Reason::of_decoding(&error);
                    return Ok(UndecidedPart::Damage(position, end, reason));
                }
                Err(error) => return Err(error),
            }
        }
        if !self.search.bounds.admits(&header) {
            return Ok(UndecidedPart::Damage(position, end, Reason::Order));
        }
        Ok(UndecidedPart::Batch(position, header))
    }

    fn look_at(&mut self, position: Position) -> Result<FoundAt> {
        let left = self.length.saturating_sub(position);
        let head = self.source.bytes(position, RECORD_BATCH_OVERHEAD)?;
        let parsed = match BatchHeader::size_in_file(head, left) {
            Ok(Some(_)) => BatchHeader::as_it_stands(head),
            _ => None,
        };
        let Some(header) = parsed.filter(|header| !header.is_too_short()) else {
            return Ok(FoundAt::Other);
        };
        let strict = BatchHeader::parse(head);
        if !self.is_sound(position, &header)? {
            return Ok(FoundAt::Other);
        }
        Ok(match strict {
            _ if header.magic > CURRENT_MAGIC => FoundAt::Unit(header.size, Reason::Magic),
            Ok(Some(header)) => FoundAt::Batch(header),
            _ if header.base_offset < 0 => FoundAt::Unit(header.size, Reason::Order),
            _ => FoundAt::Unit(header.size, Reason::Records),
        })
    }

    /// Returns whether the batch has the checksum that its header says.
    fn is_sound(&mut self, position: Position, header: &BatchHeader) -> Result<bool> {
        if self.is_damaged {
            let end = position.saturating_add(header.size as u64);
            self.search.anchor(position);
            return self.search.has_checksum(position, end, header);
        }
        Ok(self.source.checksum(position, header)? == Some(header.crc))
    }
}

/// Returns whether the batch at `end`, right after a batch with a leader epoch above all before, has no lower one, by
/// its unchecked header, or the file ends there.
///
/// # Errors
/// `Io`.
pub(super) fn confirms_epoch(
    source: &mut SegmentSource,
    end: Position,
    epoch: i32,
) -> Result<bool> {
    if end >= source.len() {
        return Ok(true);
    }
    let next = BatchHeader::as_it_stands(source.bytes(end, RECORD_BATCH_OVERHEAD)?);
    let next = next.filter(|next| next.magic == CURRENT_MAGIC);
    Ok(next.is_some_and(|next| {
        let its = next.partition_leader_epoch;
        its == NO_PARTITION_LEADER_EPOCH || its >= epoch
    }))
}
