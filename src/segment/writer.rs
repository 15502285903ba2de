//! A segment that is appended to (`LogSegment`): a `.log`, and the indexes that follow it.
//!
//! # Entries
//! Every batch is looked at by itself, whatever append it came in. Where it gets entries ([`super::entries`]), they are
//! (its last offset, its position), and in the time index the largest timestamp so far with the last offset of the batch
//! that reached it.
//!
//! # Index files
//! They are made when first looked at, at full length, and cut to their entries when the segment is rolled or closed. So
//! an active segment just rolled may be a `.log` alone. Data comes before its index entries, in writing and in syncing.

use std::path::Path;

use super::entries::{EntryInterval, largest_timestamp};
use super::lazy_index::LazyIndex;
use super::search::{BatchSpan, search_for_offset};
use crate::compress::DecodeLimit;
use crate::error::{Error, Refusal, Result};
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::format::entry::{AbortedTxn, OffsetPosition, TimestampOffset};
use crate::format::file_name::{FileKind, FileName};
use crate::index::txn::TransactionIndexFile;
use crate::index::writable::offset::WritableOffsetIndex;
use crate::index::writable::time::WritableTimeIndex;
use crate::io::appender::{Appender, Bytes};
use crate::io::disk::Disk;
use crate::records::legacy;
use crate::types::{NO_TIMESTAMP, Offset, Position, TimestampMs};

/// What a segment needs to know of its topic's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSettings {
    /// `segment.index.bytes`.
    pub max_index_size: usize,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u64,
    /// How much earlier than `segment.ms` this segment is rolled.
    pub roll_jitter_ms: i64,
    /// Zeros that a new `.log` gets (`preallocate`), 0 for none.
    pub initial_length: u64,
}

/// What is known of a segment whose files nobody holds open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Bytes of the log in it.
    pub size: u64,
    /// The largest timestamp and the last offset of its batch, once somebody looked: Kafka remembers it, and so truncation
    /// of a segment that was only ever listed comes to another last time entry.
    pub max_timestamp: Option<TimestampOffset>,
    /// The clock when it was opened.
    pub created_ms: TimestampMs,
}

/// What an append asks of the active segment (`RollParams`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollParams {
    /// `segment.ms`, or less on compacted topics.
    pub max_segment_ms: i64,
    /// `segment.bytes`.
    pub max_segment_bytes: u64,
    /// The largest timestamp in the append.
    pub max_timestamp: TimestampMs,
    /// Its last offset.
    pub last_offset: Offset,
    /// Its bytes.
    pub size: u64,
    /// The clock.
    pub now_ms: TimestampMs,
}

/// Why a segment must be rolled; any number of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "five independent facts")]
pub struct RollReasons {
    /// The append does not fit.
    pub size: bool,
    /// The segment is old enough, by the append's largest timestamp against the first batch's.
    pub time: bool,
    /// No room for another entry.
    pub offset_index_full: bool,
    /// No room for another entry but the last one.
    pub time_index_full: bool,
    /// The append's last offset is too far from the base.
    pub offset_overflow: bool,
}

impl RollReasons {
    /// Whether there is one.
    #[must_use]
    pub const fn any(self) -> bool {
        self.size
            || self.time
            || self.offset_index_full
            || self.time_index_full
            || self.offset_overflow
    }
}

/// A segment open for writing.
#[derive(Debug)]
pub struct WritableSegment {
    base_offset: Offset,
    settings: SegmentSettings,
    log: Appender,
    offset_index: LazyIndex<OffsetPosition, 2>,
    time_index: LazyIndex<TimestampOffset, 3>,
    txn_index: TransactionIndexFile,
    /// The clock when it was opened, or when it was last cut to nothing.
    created_ms: TimestampMs,
    /// The largest timestamp of the first batch, once somebody asked: what time-based rolling counts from.
    first_batch_timestamp: Option<TimestampMs>,
    /// The largest timestamp, and the last offset of the batch that reached it; from the time index at first.
    max_timestamp: Option<TimestampOffset>,
    entries: EntryInterval,
}

impl WritableSegment {
    /// Opens the segment of this base offset; a `.log` that is not there is made.
    ///
    /// # Errors
    /// `Io`; `CorruptRecord` for a `.log` longer than Kafka's positions reach.
    pub fn open(
        disk: &Disk,
        folder: &Path,
        base_offset: Offset,
        settings: SegmentSettings,
        now_ms: TimestampMs,
    ) -> Result<Self> {
        let name = |kind| folder.join(FileName::new(base_offset, kind).to_string());
        let path = name(FileKind::Log);
        let log = if path.exists() {
            Appender::open(disk, &path)?
        } else {
            Appender::create(disk, &path, settings.initial_length)?
        };
        let size = settings.max_index_size;
        Ok(Self {
            base_offset,
            settings,
            log,
            offset_index: LazyIndex::new(disk, name(FileKind::OffsetIndex), base_offset, size),
            time_index: LazyIndex::new(disk, name(FileKind::TimeIndex), base_offset, size),
            txn_index: TransactionIndexFile::open(disk, &name(FileKind::TxnIndex), base_offset)?,
            created_ms: now_ms,
            first_batch_timestamp: None,
            max_timestamp: None,
            entries: EntryInterval::new(settings.index_interval_bytes),
        })
    }

    /// Opens a segment of which this is known.
    ///
    /// # Errors
    /// As [`WritableSegment::open`].
    pub fn open_known(
        disk: &Disk,
        folder: &Path,
        base_offset: Offset,
        settings: SegmentSettings,
        known: Known,
    ) -> Result<Self> {
        let mut segment = Self::open(disk, folder, base_offset, settings, known.created_ms)?;
        segment.log = Appender::open_until(disk, segment.log.path(), known.size)?;
        segment.max_timestamp = known.max_timestamp;
        Ok(segment)
    }

    /// What must be known of it when it is opened again.
    #[must_use]
    pub const fn known(&self) -> Known {
        Known {
            size: self.size(),
            max_timestamp: self.max_timestamp,
            created_ms: self.created_ms,
        }
    }

    /// The offset it is named by.
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// Bytes of the log in it.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.log.end()
    }

    /// Bytes of the log in it, and of a batch after them that is only begun.
    #[must_use]
    pub const fn written(&self) -> u64 {
        self.log.written()
    }

    /// The `.log`.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.log.path()
    }

    /// The offset index, opened or made now if it was not before.
    ///
    /// # Errors
    /// `Io`, `InvalidArgument` for a size that holds no entry.
    pub fn offset_index(&mut self) -> Result<&mut WritableOffsetIndex> {
        self.offset_index.get()
    }

    /// The time index, opened or made now if it was not before.
    ///
    /// # Errors
    /// `Io`, `InvalidArgument` for a size that holds no entry.
    pub fn time_index(&mut self) -> Result<&mut WritableTimeIndex> {
        self.time_index.get()
    }

    /// Gives both indexes this length: the loader does so to the active segment's.
    ///
    /// # Errors
    /// `Io`, `InvalidArgument` for less than their entries need.
    pub fn resize_indexes(&mut self, size: usize) -> Result<()> {
        self.offset_index.get()?.resize(size)?;
        self.time_index.get()?.resize(size)?;
        Ok(())
    }

    /// The largest timestamp so far, and the last offset of the batch that reached it; -1 and the base where there is
    /// none. What the time index says, until something was appended.
    ///
    /// # Errors
    /// Those of opening the time index.
    pub fn max_timestamp(&mut self) -> Result<TimestampOffset> {
        if let Some(known) = self.max_timestamp {
            return Ok(known);
        }
        let last = self.time_index.get()?.last_entry();
        Ok(*self.max_timestamp.insert(last))
    }

    /// Why this append must go to another segment.
    ///
    /// # Errors
    /// `Io`, `CorruptRecord` where the first batch cannot be read.
    pub fn roll_reasons(&mut self, params: &RollParams) -> Result<RollReasons> {
        let first = self.first_batch_timestamp()?;
        let size = self.size();
        Ok(RollReasons {
            size: size.saturating_add(params.size) > params.max_segment_bytes,
            time: size > 0 && self.is_old(first, params.max_timestamp, params),
            offset_index_full: self.offset_index.get()?.is_full(),
            time_index_full: self.time_index.get()?.is_full(),
            offset_overflow: !self.holds(params.last_offset),
        })
    }

    /// How many of these batches, were each of them appended by itself, would find no reason to be rolled for: from the
    /// first one on, as long as that is certain. Of the parameters, settings and clock count.
    ///
    /// # Errors
    /// As [`WritableSegment::roll_reasons`].
    pub fn takes(&mut self, batches: &[BatchHeader], params: &RollParams) -> Result<usize> {
        // Each of them may make an entry.
        let room = self.offset_index.get()?.room();
        let room = room.min(self.time_index.get()?.room());
        let mut first = self.first_batch_timestamp()?;
        let mut size = self.size();
        let fits = |batch: &&BatchHeader| {
            let is_old = size > 0 && self.is_old(first, batch.max_timestamp, params);
            first = first.or(Some(batch.max_timestamp));
            size = size.saturating_add(batch.size as u64);
            !is_old && size <= params.max_segment_bytes && self.holds(batch.last_offset())
        };
        Ok(batches.iter().take(room).take_while(fits).count())
    }

    /// The largest timestamp of the first batch, `None` of an empty segment.
    fn first_batch_timestamp(&mut self) -> Result<Option<TimestampMs>> {
        if self.first_batch_timestamp.is_none() {
            self.first_batch_timestamp = self.header_at(0)?.map(|header| header.max_timestamp);
        }
        Ok(self.first_batch_timestamp)
    }

    /// Whether this segment has waited long enough: by timestamps if its first batch has one, else by the clock.
    const fn is_old(
        &self,
        first: Option<TimestampMs>,
        max_timestamp: TimestampMs,
        params: &RollParams,
    ) -> bool {
        let waited = match first {
            Some(first) if first >= 0 => max_timestamp.wrapping_sub(first),
            _ => params.now_ms.wrapping_sub(self.created_ms),
        };
        let jitter = self.settings.roll_jitter_ms;
        waited > params.max_segment_ms.saturating_sub(jitter)
    }

    /// Whether an offset is near enough to the base for the indexes.
    const fn holds(&self, offset: Offset) -> bool {
        let relative = offset.wrapping_sub(self.base_offset);
        offset >= self.base_offset && 0 <= relative && relative <= i32::MAX as i64
    }

    /// Appends whole batches and makes the index entries that are due; says where they begin.
    ///
    /// # Errors
    /// `Refused` (`SegmentOffsetOverflow`) for offsets too far from the base, with nothing written; `Refused`
    /// (`IndexFull`) where an index fills up in the middle, and then the bytes are there (as in Kafka, which rolls before
    /// the next append); `Io`.
    pub fn append(
        &mut self,
        last_offset: Offset,
        bytes: Bytes<'_>,
        batches: &[BatchHeader],
    ) -> Result<Position> {
        self.offset_index.get()?;
        if !self.holds(last_offset) {
            return Err(Error::refused(
                Refusal::SegmentOffsetOverflow,
                format!(
                    "offset {last_offset} does not fit into the segment of base offset {}",
                    self.base_offset
                ),
            ));
        }
        let start = self.log.append(bytes)?;
        let mut position = start;
        for batch in batches {
            let max = largest_timestamp(self.max_timestamp()?, batch);
            self.max_timestamp = Some(max);
            if self.entries.is_due() {
                let entry = i32::try_from(position).unwrap_or(i32::MAX);
                self.offset_index
                    .get()?
                    .append(batch.last_offset(), entry)?;
                self.time_index
                    .get()?
                    .maybe_append(max.timestamp, max.offset, false)?;
                self.entries.restart();
            }
            position = position.saturating_add(batch.size as u64);
            self.entries.count(batch);
        }
        Ok(start)
    }

    /// Drops what an append wrote before it failed, as far as the disk lets us: best effort, for a log that takes
    /// no more appends.
    pub fn take_back(&mut self, position: Position) {
        let _ = self.log.truncate(position);
    }

    /// Notes an aborted transaction.
    ///
    /// # Errors
    /// `Io`; `Refused` (`OffsetsOutOfOrder`) for one that does not end after the last one noted.
    pub fn append_aborted(&mut self, aborted: &AbortedTxn) -> Result<()> {
        self.txn_index.append(aborted)
    }

    /// The header of the batch at `position`, as [`BatchHeader::in_file`]; `None` where it is not there whole.
    ///
    /// # Errors
    /// `CorruptRecord` for a length below the smallest, `Io`.
    pub fn header_at(&self, position: Position) -> Result<Option<BatchHeader>> {
        let mut head = [0; RECORD_BATCH_OVERHEAD];
        let read = self.log.read(&mut head, position)?;
        let head = head.get(..read).unwrap_or_default();
        BatchHeader::in_file(head, self.size().saturating_sub(position))
            .map_err(|error| error.shift(position).at(self.log.path()))
    }

    /// Where the batch is that holds `offset` or what follows it (`LogSegment.translateOffset`).
    ///
    /// # Errors
    /// As [`WritableSegment::header_at`], those of opening the offset index and of [`legacy::first_offset`].
    pub fn translate_offset(&mut self, offset: Offset) -> Result<Option<Position>> {
        let entry = self.offset_index.get()?.lookup(offset)?;
        let mut position = Position::try_from(entry.position).unwrap_or_default();
        search_for_offset(offset, || {
            let at = position;
            let Some(header) = self.header_at(at)? else {
                return Ok(None);
            };
            position = at.saturating_add(header.size as u64);
            Ok(Some(BatchSpan {
                position: at,
                first_offset: self.first_offset(at, &header)?,
                last_offset: header.last_offset(),
            }))
        })
    }

    /// The first offset of the batch at `position`.
    fn first_offset(&self, position: Position, header: &BatchHeader) -> Result<Offset> {
        if !header.is_wrapper() {
            return Ok(header.base_offset);
        }
        let mut batch = vec![0; header.size];
        let read = self.log.read(&mut batch, position)?;
        let batch = batch.get(..read).unwrap_or_default();
        let first = legacy::first_offset(batch, header, DecodeLimit::default());
        first.map_err(|error| error.shift(position).at(self.log.path()))
    }

    /// Removes the batch that holds `offset` and all after it; the indexes are at full length again. Returns the bytes
    /// cut.
    ///
    /// # Errors
    /// `Io`, else as [`WritableSegment::translate_offset`].
    pub fn truncate_to(&mut self, offset: Offset, now_ms: TimestampMs) -> Result<u64> {
        let position = self.translate_offset(offset)?;
        self.offset_index.get()?.truncate_to(offset)?;
        self.time_index.get()?.truncate_to(offset)?;
        self.txn_index.truncate_to(offset)?;
        self.resize_indexes(self.settings.max_index_size)?;
        let cut = match position {
            Some(position) => self.log.truncate(position)?,
            None => 0,
        };
        if self.size() == 0 {
            self.created_ms = now_ms;
            self.first_batch_timestamp = None;
        }
        self.entries.restart();
        if self.max_timestamp()?.timestamp >= 0 {
            self.max_timestamp = Some(self.read_largest_timestamp()?);
        }
        Ok(cut)
    }

    /// The last time entry, or what a batch after it surpasses it with.
    fn read_largest_timestamp(&mut self) -> Result<TimestampOffset> {
        let last = self.time_index.get()?.last_entry();
        let from = self.offset_index.get()?.lookup(last.offset)?.position;
        let mut position = Position::try_from(from).unwrap_or_default();
        let mut largest = TimestampOffset {
            timestamp: NO_TIMESTAMP,
            offset: -1,
        };
        while let Some(header) = self.header_at(position)? {
            if header.max_timestamp > largest.timestamp {
                largest = TimestampOffset {
                    timestamp: header.max_timestamp,
                    offset: header.last_offset(),
                };
            }
            position = position.saturating_add(header.size as u64);
        }
        Ok(if largest.timestamp > last.timestamp {
            largest
        } else {
            last
        })
    }

    /// Writes the last time entry and cuts everything to what is in it: it will not be appended to any more.
    ///
    /// # Errors
    /// `Io`.
    pub fn on_become_inactive(&mut self) -> Result<()> {
        let max = self.max_timestamp()?;
        self.time_index
            .get()?
            .maybe_append(max.timestamp, max.offset, true)?;
        self.offset_index.get()?.trim_to_valid_size()?;
        self.time_index.get()?.trim_to_valid_size()?;
        self.log.trim()
    }

    /// Brings all of it to the disk, data before indexes. Index files that nobody looked at yet are made, as in Kafka.
    ///
    /// # Errors
    /// `Io`.
    pub fn flush(&mut self) -> Result<()> {
        self.log.sync()?;
        self.offset_index.get()?.flush()?;
        self.time_index.get()?.flush()?;
        self.txn_index.flush()
    }

    /// Writes the last time entry, cuts everything to what is in it, and lets go of the files. Index files that nobody
    /// looked at are left alone.
    ///
    /// # Errors
    /// `Io`.
    pub fn close(mut self) -> Result<()> {
        if let Some(max) = self.max_timestamp {
            let index = self.time_index.get()?;
            // An index that is full, or ends further on, goes without its last entry: it need not name the largest timestamp.
            if let Err(error @ Error::Io { .. }) =
                index.maybe_append(max.timestamp, max.offset, true)
            {
                return Err(error);
            }
        }
        self.log.sync()?;
        self.log.trim()?;
        self.offset_index.close()?;
        self.time_index.close()?;
        self.txn_index.close();
        Ok(())
    }

    /// Lets go of the files as they are.
    pub fn close_handlers(mut self) {
        self.offset_index.close_handler();
        self.time_index.close_handler();
    }
}
