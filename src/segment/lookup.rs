//! Batches by offset and by timestamp. The answer always comes from the log; an index only gives a starting position,
//! and only after the batch at that position has confirmed it.
//!
//! # When an index entry is trusted
//! * Offset entry: at its position stands a whole batch with a right checksum that lies within the segment and begins
//!   at or below the target. Offsets rise, so nothing before it can be the answer. (Of a legacy wrapper the header
//!   tells only the last offset, which must then not be above the target.) Otherwise the entries before it are tried,
//!   then byte 0.
//! * Offset entry, to divide a segment for parallel readers: a header that ends at or below its offset, and another one
//!   where its length leads. Both halves are read, and every checksum is then verified.
//! * Time entry (T, O): the batch with offset O has T for its largest timestamp. Then nothing up to it is later than T.
//!
//! Sources: `LogSegment.translateOffset`, `LogSegment.findOffsetByTimestamp`, `FileRecords.searchForTimestamp`.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::Arc;

use super::LogSegment;
use super::batches::{BatchCursor, Batches, CURRENT_MAGIC};
use super::filter::TimestampBounds;
use super::skipping::PastDamage;
use super::source::{Access, SegmentSource, WindowSize};
use super::transactions::control_type_at;
use crate::error::Result;
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::format::control::ControlType;
use crate::format::entry::TimestampOffset;
use crate::index::offset::OffsetIndex;
use crate::index::time::TimeIndex;
use crate::io::mapping::Mapping;
use crate::records::RecordSlot;
use crate::records::batch::BatchDecoder;
use crate::types::{NO_TIMESTAMP, Offset, Position, TimestampMs};

/// Number of entries that are tried before the scan begins at byte 0.
const ENTRIES_TRIED: usize = 8;
/// A batch larger than this is not taken into memory to confirm an index entry.
const MAX_CONFIRMED: usize = 32 << 20;

/// Bytes that are fetched ahead of a lookup: a broker adds an index entry after so many bytes (`index.interval.bytes`).
const FETCHED: usize = 4 << 10;

/// A record found by its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampedRecord {
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp.
    pub timestamp: TimestampMs,
    /// Its batch's leader epoch, -1 unknown.
    pub leader_epoch: i32,
}

/// A segment opened for lookups.
#[derive(Debug)]
pub struct SegmentLookup<'a> {
    segment: Cow<'a, LogSegment>,
    /// Its batches, past damage if requested.
    batches: Batches<PastDamage>,
    decoder: BatchDecoder,
    /// Opened lazily; `None` if the segment has no index.
    offset_index: OnceCell<Option<OffsetIndex>>,
}

impl<'a> SegmentLookup<'a> {
    /// Opens the `.log`; indexes follow when needed.
    ///
    /// # Errors
    /// As [`SegmentSource::open`].
    pub fn open(segment: &'a LogSegment) -> Result<Self> {
        Self::over(Cow::Borrowed(segment))
    }

    /// As [`SegmentLookup::open`], for lookups all over the segment: mapped where it is closed.
    ///
    /// # Errors
    /// As [`SegmentSource::open`].
    pub(crate) fn open_for_many(segment: &'a LogSegment) -> Result<Self> {
        let source = segment.open(Access::Headers)?;
        Ok(Self::from_source(Cow::Borrowed(segment), source))
    }

    /// The segment's map, where it was mapped.
    pub(crate) fn into_map(self) -> Option<Arc<Mapping>> {
        self.batches.source.into_map()
    }

    /// As [`SegmentLookup::open`], with the segment inside.
    ///
    /// # Errors
    /// As [`SegmentSource::open`].
    pub fn open_owned(segment: LogSegment) -> Result<SegmentLookup<'static>> {
        SegmentLookup::over(Cow::Owned(segment))
    }

    fn over(segment: Cow<'a, LogSegment>) -> Result<Self> {
        // By copy: a few headers and one batch are read, for which a map costs more than it saves.
        let source = segment.open_by_copy(Access::Headers)?;
        Ok(Self::from_source(segment, source))
    }

    fn from_source(segment: Cow<'a, LogSegment>, source: SegmentSource) -> Self {
        Self {
            batches: segment.batches(source, 0),
            segment,
            decoder: BatchDecoder::default(),
            offset_index: OnceCell::new(),
        }
    }

    /// Finds the position at which to begin scanning for `target`: the start of a batch, with nothing before it that
    /// could be the answer.
    ///
    /// # Errors
    /// `Io`.
    pub fn start_position(&mut self, target: Offset) -> Result<Position> {
        if target <= self.segment.base_offset {
            return Ok(0);
        }
        let Some((index, floor)) = self
            .offset_index()
            .and_then(|index| Some((index, index.floor(target).ok()??)))
        else {
            return Ok(0);
        };
        let mut tried = [None; ENTRIES_TRIED];
        for (back, slot) in tried.iter_mut().enumerate() {
            let entry = floor.checked_sub(back).and_then(|at| index.iter().nth(at));
            *slot = entry.and_then(|entry| u64::try_from(entry.position).ok());
        }
        for position in tried.into_iter().flatten() {
            if self.confirms(position, target)? {
                return Ok(position);
            }
        }
        Ok(0)
    }

    fn offset_index(&self) -> Option<&OffsetIndex> {
        let index = self
            .offset_index
            .get_or_init(|| self.segment.offset_index());
        index.as_ref()
    }

    /// Prefetches the bytes that a lookup of `target` will walk over, from the index entry on.
    pub(crate) fn fetch(&self, target: Offset) {
        let floor = |index: &OffsetIndex| index.iter().nth(index.floor(target).ok()??);
        if let Some(entry) = self.offset_index().and_then(floor)
            && let Ok(position) = u64::try_from(entry.position)
        {
            self.batches.source.fetch(position, FETCHED);
        }
    }

    /// The mean size of the first batches, as far as their headers can be read; 0 where there is none.
    pub(crate) fn mean_size(&mut self, batches: usize) -> u64 {
        let first = self.begin(0);
        let mut seen = 0u64;
        while seen < batches as u64
            && let Ok(Some(_)) = first.next()
        {
            seen = seen.saturating_add(1);
        }
        first.position().checked_div(seen).unwrap_or_default()
    }

    /// A batch of magic 2 at or after `position` at which the segment may be cut in two: where it begins, and its base
    /// offset. Of the index where it has an entry there and the log confirms it; else, where `walks` is given, found
    /// from header to header from that batch on.
    ///
    /// # Errors
    /// `Io`.
    pub fn cut_at(
        &mut self,
        position: Position,
        walks: Option<Position>,
    ) -> Result<Option<(Position, Offset)>> {
        let entries: Vec<(Position, Offset)> = self
            .offset_index()
            .into_iter()
            .flat_map(|index| index.entries_from(position).take(ENTRIES_TRIED))
            .filter_map(|entry| Some((u64::try_from(entry.position).ok()?, entry.offset)))
            .collect();
        for (position, offset) in entries {
            if let Some(base_offset) = self.confirms_cut(position, offset)? {
                return Ok(Some((position, base_offset)));
            }
        }
        let Some(start) = walks else { return Ok(None) };
        let mut cursor = BatchCursor::new(self.segment.bounds(), start);
        // The reader of the segment reports a fault in a header.
        while let Ok(Some((at, header))) = cursor.next(&mut self.batches.source) {
            if at >= position && !header.is_legacy() {
                return Ok(Some((at, header.base_offset)));
            }
        }
        Ok(None)
    }

    /// The base offset of a batch of magic 2 at `position` that ends at or below `offset` and that the batch after does
    /// not contradict. Its checksum is left to the reader: it does not cover the base offset, and a header with another
    /// one where its length leads is no accident.
    fn confirms_cut(&mut self, position: Position, offset: Offset) -> Result<Option<Offset>> {
        let Some(header) = self.header_at(position)? else {
            return Ok(None);
        };
        if header.is_legacy() || header.last_offset() > offset {
            return Ok(None);
        }
        let mut cursor = BatchCursor::new(self.segment.bounds(), position);
        let follows = matches!(cursor.next(&mut self.batches.source), Ok(Some(_)))
            && match cursor.next(&mut self.batches.source) {
                Ok(Some(_)) => true,
                // What looks like a torn tail may be anything.
                Ok(None) => cursor.position() == self.batches.source.len(),
                Err(_) => false,
            };
        Ok(follows.then_some(header.base_offset))
    }

    /// Returns whether a healthy batch begins at `position`, at or below `target`.
    fn confirms(&mut self, position: Position, target: Offset) -> Result<bool> {
        if position == 0 {
            return Ok(true);
        }
        let Some(header) = self.header_at(position)? else {
            return Ok(false);
        };
        // Of an uncompressed legacy message and of magic 2 this is the first offset, of a wrapper the last.
        if header.base_offset > target || header.size > MAX_CONFIRMED {
            return Ok(false);
        }
        let batch = self.batches.source.bytes(position, header.size)?;
        Ok(header.ensure_valid(batch).is_ok())
    }

    /// The header at `position`, if it could be one of this segment's.
    fn header_at(&mut self, position: Position) -> Result<Option<BatchHeader>> {
        let left = self.batches.source.len().saturating_sub(position);
        let head = self.batches.source.bytes(position, RECORD_BATCH_OVERHEAD)?;
        // Checked before the cursor does, which would search for the cause of a wrong length.
        match BatchHeader::parse(head) {
            Ok(Some(header)) if header.size as u64 <= left && header.magic <= CURRENT_MAGIC => {}
            _ => return Ok(None),
        }
        let found =
            BatchCursor::new(self.segment.bounds(), position).next(&mut self.batches.source);
        Ok(found.ok().flatten().map(|(_, header)| header))
    }

    /// The batches from `position` on.
    fn begin(&mut self, position: Position) -> &mut Batches<PastDamage> {
        let bounds = self.segment.bounds();
        self.batches.policy.begin(bounds, position);
        &mut self.batches
    }

    /// The first batch that ends at or above `target`; what follows it comes next.
    ///
    /// # Errors
    /// `Io`, or a fault in a header on the way.
    pub fn find(&mut self, target: Offset) -> Result<Option<(Position, BatchHeader)>> {
        let start = self.start_position(target)?;
        let batches = self.begin(start);
        let mut header = BatchHeader::NONE;
        while let Some(position) = batches.next_into(&mut header)? {
            if header.last_offset() >= target {
                return Ok(Some((position, header)));
            }
        }
        Ok(None)
    }

    /// Reads the control batch that begins at `offset`: its producer and its type.
    ///
    /// # Errors
    /// `Io`, or a fault in it or a header on the way.
    pub fn marker_at(&mut self, offset: Offset) -> Result<Option<(i64, ControlType)>> {
        match self.find(offset)? {
            Some((position, header)) if header.base_offset == offset && header.is_control() => {
                let kind = control_type_at(&mut self.batches.source, position, &header)?;
                Ok(kind.map(|kind| (header.producer_id, kind)))
            }
            _ => Ok(None),
        }
    }

    /// The records of a batch, as numbers. Its checksum is examined first.
    fn records(&mut self, position: Position, header: &BatchHeader) -> Result<Vec<RecordSlot>> {
        let source = &mut self.batches.source;
        let batch = source.bytes(position, header.size)?;
        let checked = header.ensure_valid(batch);
        let decoded = checked.and_then(|()| self.decoder.open(batch, header)?.all());
        decoded.map_err(|e| source.locate(position, e).for_offset(header.base_offset))
    }

    /// As [`SegmentLookup::records`]; none of a damaged batch that is to be skipped.
    fn records_if_sound(
        &mut self,
        position: Position,
        header: &BatchHeader,
    ) -> Result<Vec<RecordSlot>> {
        match self.records(position, header) {
            Err(error) if self.batches.policy.passes_over(&error) => Ok(Vec::new()),
            records => records,
        }
    }

    /// The first record at or after `target`, control records included: where its batch begins, and its offset.
    ///
    /// # Errors
    /// `Io`, or a fault in a batch on the way.
    pub fn record_at_or_after(&mut self, target: Offset) -> Result<Option<(Position, Offset)>> {
        let mut found = self.find(target)?;
        while let Some((position, header)) = found {
            let dense = i64::from(header.last_offset_delta).saturating_add(1);
            match header.records_count {
                Some(0) => {}
                // As many records as offsets: each offset has its record, and none needs to be decoded.
                Some(count) if i64::from(count) == dense => {
                    return Ok(Some((position, target.max(header.base_offset))));
                }
                _ => {
                    let slots = self.records_if_sound(position, &header)?;
                    if let Some(slot) = slots.iter().find(|slot| slot.offset >= target) {
                        return Ok(Some((position, slot.offset)));
                    }
                }
            }
            found = self.batches.next()?;
        }
        Ok(None)
    }

    /// The first record at or after `timestamp`, at or after `offset`. `use_index` lets the time index, once confirmed,
    /// say where to begin.
    ///
    /// # Errors
    /// `Io`, or a fault in a batch on the way.
    pub fn record_for_timestamp(
        &mut self,
        timestamp: TimestampMs,
        offset: Offset,
        use_index: bool,
    ) -> Result<Option<TimestampedRecord>> {
        let start = if use_index {
            self.start_for_timestamp(timestamp, offset)?
        } else {
            self.start_position(offset)?
        };
        self.begin(start);
        while let Some((position, header)) = self.batches.next()? {
            let empty = header.records_count == Some(0);
            if empty || header.max_timestamp < timestamp || header.last_offset() < offset {
                continue;
            }
            let slots = self.records_if_sound(position, &header)?;
            let found = slots
                .iter()
                .find(|slot| slot.timestamp >= timestamp && slot.offset >= offset);
            if let Some(slot) = found {
                return Ok(Some(TimestampedRecord {
                    offset: slot.offset,
                    timestamp: slot.timestamp,
                    leader_epoch: header.partition_leader_epoch,
                }));
            }
        }
        Ok(None)
    }

    /// The offset after the last whole batch; the base offset where there is none.
    ///
    /// # Errors
    /// `Io`, or a fault in a header on the way.
    pub fn next_offset(&mut self) -> Result<Offset> {
        let mut next = self.segment.base_offset;
        let start = self.start_position(Offset::MAX)?;
        let batches = self.begin(start);
        // Without an index it goes through the whole segment.
        let mut walk = WindowSize::default();
        while let Some((_, header)) = batches.next()? {
            next = header.next_offset();
            batches.source.expect(walk.observe(header.size));
        }
        batches.source.expect(Access::Headers);
        Ok(next)
    }

    /// The largest timestamp as Kafka has it after loading (`maxTimestampSoFar`), -1 for none.
    ///
    /// `recovered` says that Kafka's loader would rebuild this segment's indexes from the log. Otherwise it believes
    /// the last time entry; so do we, where the log confirms it.
    ///
    /// # Errors
    /// `Io`, or a fault in a header on the way.
    pub fn max_timestamp(&mut self, recovered: bool) -> Result<TimestampMs> {
        if let Some(&known) = self.segment.max_timestamp.get() {
            return Ok(known);
        }
        let found = self.find_max_timestamp(recovered)?;
        Ok(*self.segment.max_timestamp.get_or_init(|| found))
    }

    fn find_max_timestamp(&mut self, recovered: bool) -> Result<TimestampMs> {
        let index = self.segment.time_index();
        // 0.10.1 put an empty index beside the segments of 0.10.0: Kafka believes it. (A full-length one of zeros is
        // what a crash leaves.)
        let is_empty = index.as_ref().is_some_and(|index| index.max_entries() == 0);
        if !recovered && (is_empty || !self.segment.has_time_index) {
            return Ok(NO_TIMESTAMP);
        }
        let index = index.filter(|index| index.entries() > 0);
        if let Some(index) = index {
            let last = index.last_entry();
            if let Some((_, header)) = self.find(last.offset)? {
                if agrees(last, &header) {
                    return self.max_of_rest(last.timestamp);
                }
                // 0.10.2 and 1.1 wrote entries for records that were then stored without their timestamps.
                if header.magic == 0 && !recovered && self.is_believable(&index)? {
                    return Ok(last.timestamp);
                }
            }
        }
        self.begin(0);
        self.max_of_rest(NO_TIMESTAMP)
    }

    /// Returns whether the headers prove that every record is earlier than `timestamp`; false as soon as one does not.
    ///
    /// Up to a time entry that the log confirms, nothing is later than it says.
    ///
    /// # Errors
    /// `Io`, or a fault in a header on the way.
    pub fn ends_before(&mut self, timestamp: TimestampMs) -> Result<bool> {
        let bounds = TimestampBounds {
            min: Some(timestamp),
            max: None,
        };
        let index = self
            .segment
            .time_index()
            .filter(|index| index.entries() > 0);
        let last = index.map(|index| index.last_entry());
        if let Some(last) = last
            && let Some((_, header)) = self.find(last.offset)?
            && agrees(last, &header)
        {
            if !bounds.exclude(&header) {
                return Ok(false);
            }
        } else {
            self.begin(0);
        }
        while let Some((_, header)) = self.batches.next()? {
            if !bounds.exclude(&header) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finds the position at which to begin reading records at or after `timestamp`, whatever their offsets: a batch
    /// with nothing before it that is as late. Byte 0 in a segment with legacy batches, as what a wrapper's header says
    /// of its messages is not proven.
    ///
    /// # Errors
    /// `Io`, or a fault in a header on the way.
    pub fn start_of_times(&mut self, timestamp: TimestampMs) -> Result<Position> {
        let start = self.start_for_timestamp(timestamp, self.segment.base_offset)?;
        for position in [0, start] {
            match self.header_at(position)? {
                Some(header) if !header.is_legacy() => {}
                _ => return Ok(0),
            }
        }
        Ok(start)
    }

    /// Returns whether an index whose last entry the log can no longer confirm fits it in every other way.
    fn is_believable(&mut self, index: &TimeIndex) -> Result<bool> {
        let mut pairs = index.iter().zip(index.iter().skip(1));
        let rises = pairs.all(|(a, b)| a.timestamp < b.timestamp && a.offset <= b.offset);
        if !rises || index.sanity_check().is_err() {
            return Ok(false);
        }
        for entry in index.iter() {
            let fits = match self.find(entry.offset)? {
                Some((_, header)) if header.magic == 0 => header.base_offset == entry.offset,
                Some((_, header)) => agrees(entry, &header),
                None => false,
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The largest timestamp of `so_far` and the batches that come next.
    fn max_of_rest(&mut self, so_far: TimestampMs) -> Result<TimestampMs> {
        let mut max = so_far;
        while let Some((_, header)) = self.batches.next()? {
            max = max.max(header.max_timestamp);
        }
        Ok(max)
    }

    /// The position of a batch with none before it that could hold a record at or after both `timestamp` and `offset`.
    ///
    /// # Errors
    /// `Io`, or a fault in a header on the way.
    pub fn start_for_timestamp(
        &mut self,
        timestamp: TimestampMs,
        offset: Offset,
    ) -> Result<Position> {
        let mut start = self.start_position(offset)?;
        let entry = self
            .segment
            .time_index()
            .and_then(|index| index.lookup(timestamp.saturating_sub(1)).ok())
            .filter(|entry| entry.timestamp >= 0);
        if let Some(entry) = entry
            && let Some((position, header)) = self.find(entry.offset)?
            && agrees(entry, &header)
        {
            start = start.max(position);
        }
        Ok(start)
    }
}

/// Returns whether the batch that ends at or above a time entry's offset is the one it speaks of.
fn agrees(entry: TimestampOffset, header: &BatchHeader) -> bool {
    let holds_it = header.is_legacy() || header.base_offset <= entry.offset;
    header.magic > 0 && holds_it && header.max_timestamp == entry.timestamp
}
