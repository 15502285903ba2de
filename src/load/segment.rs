//! A segment under plan: Kafka's `LogSegment` as loading uses it.

use std::sync::Arc;

use super::failure::LoadFailure;
use super::index::{Index, OffsetIndex, TimeIndex};
use super::rebuilt::RebuiltIndex;
use super::settings::IndexSettings;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::format::entry::{TimestampOffset, relative_offset};
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::index::txn::TransactionIndexFile;
use crate::index::writable::Entry;
use crate::io::overlay::Overlay;
use crate::io::overlay::content::{Content, Source};
use crate::io::storage::{ReadFolder as _, Storage as _};
use crate::log::epochs::LeaderEpochs;
use crate::producers::ProducerStateManager;
use crate::records::control::NO_END;
use crate::segment::entries::{EntryInterval, largest_timestamp};
use crate::segment::files::SEGMENT_FILES;
use crate::segment::source::{Access, MAX_SEGMENT_SIZE};
use crate::segment::walk::LogWalk;
use crate::types::{AppendOrigin, NO_TIMESTAMP, Offset, Position};

/// Rebuilt indexes of a plan that are kept; those beyond are made again when they are written.
const MAX_KEPT_INDEXES: u64 = 64 << 20;

/// What a recovery did to a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recovered {
    /// Batches that stay.
    pub(super) batches: u64,
    /// Bytes that are cut.
    pub(super) truncated: u64,
    /// Why.
    pub(super) reason: Option<String>,
}

/// A segment. Its indexes are opened when something asks for them, as in Kafka (`LazyIndex`).
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) base_offset: Offset,
    state: FileState,
    settings: IndexSettings,
    /// Bytes of the `.log`, which Kafka counts once, on opening it.
    pub(super) size: u64,
    offset_index: Option<OffsetIndex>,
    time_index: Option<TimeIndex>,
    /// Largest timestamp so far, once it was asked for.
    pub(super) max_timestamp: Option<TimestampOffset>,
    /// Up to here batches were held against their checksums: a segment found without indexes is recovered at once, and
    /// again with those that were not flushed.
    checked: u64,
}

impl Segment {
    /// Opens the `.log`; where there is none, an empty one is made.
    pub(super) fn open(
        folder: &Overlay,
        base_offset: Offset,
        settings: IndexSettings,
        state: FileState,
    ) -> Result<Self> {
        let mut segment = Self {
            base_offset,
            state,
            settings,
            size: 0,
            offset_index: None,
            time_index: None,
            max_timestamp: None,
            checked: 0,
        };
        let name = segment.name(FileKind::Log);
        if !folder.contains(&name) {
            folder.write(&name, Content::empty())?;
        }
        segment.size = folder.length(&name);
        if segment.size > MAX_SEGMENT_SIZE {
            let expected = format!("at most {MAX_SEGMENT_SIZE} bytes");
            let error = Error::corrupt("segment size", MAX_SEGMENT_SIZE, expected, segment.size);
            return Err(error.at(&folder.path_of(&name)));
        }
        Ok(segment)
    }

    /// The name of one of its files.
    pub(super) fn name(&self, kind: FileKind) -> String {
        let name = FileName {
            offset: self.base_offset,
            kind,
            state: self.state,
        };
        name.to_string()
    }

    fn offset_index(&mut self, folder: &Overlay) -> Result<&mut OffsetIndex> {
        let index = self.offset_index.take();
        let index = self.opened(index, folder, FileKind::OffsetIndex)?;
        Ok(self.offset_index.insert(index))
    }

    fn time_index(&mut self, folder: &Overlay) -> Result<&mut TimeIndex> {
        let index = self.time_index.take();
        let index = self.opened(index, folder, FileKind::TimeIndex)?;
        Ok(self.time_index.insert(index))
    }

    fn opened<E: Entry<W>, const W: usize>(
        &self,
        index: Option<Index<E, W>>,
        folder: &Overlay,
        kind: FileKind,
    ) -> Result<Index<E, W>> {
        let (base, max) = (self.base_offset, self.settings.max_index_size);
        let open = || Index::open(folder, &self.name(kind), base, max);
        index.map_or_else(open, Ok)
    }

    fn txn_index(&self, folder: &Overlay) -> Result<TransactionIndexFile<Overlay>> {
        TransactionIndexFile::open_in(folder, &self.name(FileKind::TxnIndex), self.base_offset)
    }

    /// Whether its indexes can name this offset.
    fn can_append_offset(&self, offset: Offset) -> bool {
        relative_offset(self.base_offset, offset).is_some()
    }

    /// Opens both, so that they are there (`LogSegment.flush`).
    pub(super) fn open_indexes(&mut self, folder: &Overlay) -> Result<()> {
        self.offset_index(folder)?;
        self.time_index(folder)?;
        Ok(())
    }

    /// Gives both their full length again.
    pub(super) fn resize_indexes(&mut self, folder: &Overlay) -> Result<()> {
        self.offset_index(folder)?.resize_to_max(folder)?;
        self.time_index(folder)?.resize_to_max(folder)
    }

    /// Cuts both to their entries.
    pub(super) fn trim_indexes(&mut self, folder: &Overlay) -> Result<()> {
        self.offset_index(folder)?.trim(folder)?;
        self.time_index(folder)?.trim(folder)
    }

    /// A time index that was only just made has no length.
    pub(super) fn clear_time_index(&mut self, folder: &Overlay) -> Result<()> {
        self.time_index(folder)?.resize(folder, 0)
    }

    pub(super) fn scan(&self, folder: &Overlay, from: Position, access: Access) -> Result<LogWalk> {
        self.scan_to(folder, from, self.size, access)
    }

    fn scan_to(
        &self,
        folder: &Overlay,
        from: Position,
        end: Position,
        access: Access,
    ) -> Result<LogWalk> {
        LogWalk::new(folder.open(&self.name(FileKind::Log))?, from, end, access)
    }

    fn max_timestamp_so_far(&mut self, folder: &Overlay) -> Result<TimestampOffset> {
        let known = match self.max_timestamp {
            Some(known) => known,
            None => self.time_index(folder)?.last_entry(),
        };
        self.max_timestamp = Some(known);
        Ok(known)
    }

    /// Where the batch is that holds `target` or what follows it (`LogSegment.translateOffset`).
    pub(super) fn translate_offset(
        &mut self,
        folder: &Overlay,
        target: Offset,
    ) -> Result<Option<Position>> {
        let entry = self.offset_index(folder)?.lookup(folder, target)?;
        let from = u64::try_from(entry.position).unwrap_or_default();
        self.scan(folder, from, Access::Headers)?.search(target)
    }

    /// The offset after the last batch, as far as the index leads to it (`LogSegment.readNextOffset`).
    pub(super) fn read_next_offset(&mut self, folder: &Overlay) -> Result<Offset> {
        let last_indexed = self.offset_index(folder)?.last_entry().offset;
        let Some(from) = self.translate_offset(folder, last_indexed)? else {
            return Ok(self.base_offset);
        };
        let mut scan = self.scan(folder, from, Access::Headers)?;
        let mut next_offset = self.base_offset;
        while let Some((_, header)) = scan.next_batch()? {
            next_offset = header.next_offset();
        }
        Ok(next_offset)
    }

    /// The batches of `LogSegment.read(start_offset)` up to `max_position`.
    pub(super) fn read(
        &mut self,
        folder: &Overlay,
        start_offset: Offset,
        max_position: Position,
    ) -> Result<Option<LogWalk>> {
        let Some(from) = self.translate_offset(folder, start_offset)? else {
            return Ok(None);
        };
        if from > max_position {
            let what = "batch position";
            let expected = format!("at most {max_position}, where the log ends");
            let path = folder.path_of(&self.name(FileKind::Log));
            return Err(Error::corrupt(what, from, expected, from).at(&path));
        }
        self.scan_to(folder, from, max_position, Access::Headers)
            .map(Some)
    }

    /// Rebuilds the indexes and cuts what is no whole batch (`LogSegment.recover`).
    pub(super) fn recover(
        &mut self,
        folder: &Overlay,
        producers: &mut ProducerStateManager,
        epochs: &mut LeaderEpochs,
    ) -> Result<Recovered, LoadFailure> {
        self.offset_index(folder)?.reset(folder)?;
        self.time_index(folder)?.reset(folder)?;
        let mut txns = self.txn_index(folder)?;
        txns.reset()?;
        self.max_timestamp = None;
        let mut pass = Pass::new(self.settings);
        let outcome = self.take_batches(folder, producers, epochs, &mut txns, &mut pass);
        txns.flush()?;
        let reason = match outcome {
            Ok(()) => None,
            Err(LoadFailure::Fatal(
                error @ (Error::CorruptRecord(_) | Error::InvalidRecord(_)),
            )) if !is_refusal(&error) => Some(error.to_string()),
            Err(failure) => {
                self.store_indexes(folder)?;
                return Err(failure);
            }
        };
        let truncated = self.size.saturating_sub(pass.valid_bytes);
        self.truncate_log(folder, pass.valid_bytes);
        self.checked = pass.valid_bytes;
        self.offset_index(folder)?.trim(folder)?;
        let max = self.max_timestamp_so_far(folder)?;
        self.time_index(folder)?
            .maybe_append(folder, max.timestamp, max.offset, true)?;
        self.time_index(folder)?.trim(folder)?;
        self.store_indexes(folder)?;
        self.forget_indexes(folder);
        let torn = || "a batch that is not whole".to_owned();
        Ok(Recovered {
            batches: pass.batches,
            truncated,
            reason: (truncated > 0).then(|| reason.unwrap_or_else(torn)),
        })
    }

    fn take_batches(
        &mut self,
        folder: &Overlay,
        producers: &mut ProducerStateManager,
        epochs: &mut LeaderEpochs,
        txns: &mut TransactionIndexFile<Overlay>,
        pass: &mut Pass,
    ) -> Result<(), LoadFailure> {
        let is_summed = self.checked >= self.size;
        let access = if is_summed {
            Access::Headers
        } else {
            Access::Records
        };
        let mut scan = self.scan(folder, 0, access)?;
        if !is_summed {
            scan.sum_ahead();
        }
        while let Some((position, header)) = scan.next_batch()? {
            if scan.position() > self.checked {
                scan.ensure_valid(position, &header)?;
            }
            let last_offset = header.last_offset();
            self.ensure_offset_in_range(folder, position, last_offset)?;
            let entry = scan.entry_offset(position, &header, self.settings.entry)?;
            self.index_batch(folder, pass, position, (&header, entry))?;
            if !header.is_legacy() {
                let epoch = header.partition_leader_epoch;
                if epoch >= 0 && epochs.latest().is_none_or(|latest| epoch > latest.epoch) {
                    epochs.assign(epoch, header.base_offset)?;
                }
                if header.has_producer_id() {
                    let marker = scan.marker(position, &header)?;
                    let origin = AppendOrigin::Replication;
                    let mut append = producers.prepare_update(header.producer_id, origin);
                    let completed = append.append(&header, marker, 0)?;
                    producers.update(append);
                    if let Some(completed) = completed {
                        if completed.is_aborted {
                            let entry = completed.entry(producers.last_stable_offset(&completed));
                            txns.append(&entry)?;
                        }
                        producers.complete_txn(&completed)?;
                    }
                }
                producers.update_map_end_offset(last_offset.wrapping_add(1));
            }
        }
        Ok(())
    }

    fn ensure_offset_in_range(
        &self,
        folder: &Overlay,
        position: Position,
        offset: Offset,
    ) -> Result<(), LoadFailure> {
        if self.can_append_offset(offset) {
            return Ok(());
        }
        let expected = format!("{} to {} behind it", self.base_offset, i32::MAX);
        let error = Error::corrupt("last offset", position, expected, offset);
        let path = folder.path_of(&self.name(FileKind::Log));
        Err(LoadFailure::Overflow(self.base_offset, error.at(&path)))
    }

    /// Index entries for a batch: what appending and recovering have in common.
    fn index_batch(
        &mut self,
        folder: &Overlay,
        pass: &mut Pass,
        position: Position,
        (header, entry): (&BatchHeader, Offset),
    ) -> Result<(), LoadFailure> {
        let max = largest_timestamp(self.max_timestamp_so_far(folder)?, header);
        self.max_timestamp = Some(max);
        if pass.entries.is_due() {
            let index = self.offset_index(folder)?;
            index.append(folder, entry, position)?;
            let index = self.time_index(folder)?;
            index.maybe_append(folder, max.timestamp, max.offset, false)?;
            pass.entries.restart();
        }
        pass.entries.count(header);
        pass.valid_bytes = position.saturating_add(header.size as u64);
        pass.batches = pass.batches.saturating_add(1);
        Ok(())
    }

    fn truncate_log(&mut self, folder: &Overlay, length: u64) {
        let name = self.name(FileKind::Log);
        if length < folder.length(&name) {
            folder.set_length(&name, length);
        }
        self.size = length;
    }

    fn store_indexes(&mut self, folder: &Overlay) -> Result<()> {
        if let Some(index) = &mut self.offset_index {
            index.store(folder)?;
        }
        if let Some(index) = &mut self.time_index {
            index.store(folder)?;
        }
        Ok(())
    }

    /// Lets rebuilt indexes go where the plan holds too many; they are made again when they are needed.
    fn forget_indexes(&mut self, folder: &Overlay) {
        let log = folder.get(&self.name(FileKind::Log));
        let (Some(log), Some(offsets), Some(times)) =
            (log, &mut self.offset_index, &mut self.time_index)
        else {
            return;
        };
        // What salvage put together is gone from its old place when the indexes are written.
        let is_whole_file = matches!(log.source(), Source::Base { .. });
        if folder.kept_bytes() <= MAX_KEPT_INDEXES || !is_whole_file {
            return;
        }
        let how = |kind| {
            Arc::new(RebuiltIndex {
                log: log.clone(),
                base_offset: self.base_offset,
                settings: self.settings,
                kind,
            })
        };
        offsets.forget(folder, how(FileKind::OffsetIndex));
        times.forget(folder, how(FileKind::TimeIndex));
    }

    /// Cuts the segment at the batch that holds `offset` (`LogSegment.truncateTo`); returns the bytes cut.
    pub(super) fn truncate_to(&mut self, folder: &Overlay, offset: Offset) -> Result<u64> {
        let mapping = self.translate_offset(folder, offset)?;
        self.offset_index(folder)?.truncate_to(folder, offset)?;
        self.time_index(folder)?.truncate_to(folder, offset)?;
        self.txn_index(folder)?.truncate_to(offset)?;
        self.resize_indexes(folder)?;
        let before = self.size;
        if let Some(position) = mapping {
            self.truncate_log(folder, position);
        }
        if self.max_timestamp_so_far(folder)?.timestamp >= 0 {
            self.max_timestamp = Some(self.read_largest_timestamp(folder)?);
        }
        self.store_indexes(folder)?;
        Ok(before.saturating_sub(self.size))
    }

    fn read_largest_timestamp(&mut self, folder: &Overlay) -> Result<TimestampOffset> {
        let mut last = self.time_index(folder)?.last_entry();
        let from = self.offset_index(folder)?.lookup(folder, last.offset)?;
        let from = u64::try_from(from.position).unwrap_or_default();
        let mut scan = self.scan(folder, from, Access::Headers)?;
        let mut largest = NO_TIMESTAMP.max(last.timestamp);
        while let Some((_, header)) = scan.next_batch()? {
            if header.max_timestamp > largest {
                largest = header.max_timestamp;
                last = TimestampOffset {
                    timestamp: largest,
                    offset: header.last_offset(),
                };
            }
        }
        Ok(last)
    }

    /// Whether the last batch's offset is too far from the base (`LogSegment.hasOverflow`).
    pub(super) fn has_overflow(&mut self, folder: &Overlay) -> Result<bool> {
        let next = self.read_next_offset(folder)?;
        Ok(next > self.base_offset && !self.can_append_offset(next.wrapping_sub(1)))
    }

    /// Its live files take another state's names.
    pub(super) fn rename(&mut self, folder: &Overlay, to: FileState) -> Result<()> {
        self.store_indexes(folder)?;
        self.offset_index = None;
        self.time_index = None;
        let from = self.state;
        for kind in SEGMENT_FILES {
            self.state = from;
            let old = self.name(kind);
            self.state = to;
            folder.rename(&old, &self.name(kind))?;
        }
        Ok(())
    }

    /// Takes batches of `source` that fit after what is here, indexes them as an append does, and gives both indexes
    /// their final form (`LogSegment.appendFromFile`, `onBecomeInactiveSegment`). Returns the bytes taken.
    pub(super) fn fill(
        &mut self,
        folder: &Overlay,
        source: &mut LogWalk,
        log: &Content,
    ) -> Result<u64, LoadFailure> {
        let start = source.position();
        let mut pass = Pass::new(self.settings);
        let mut counted = 0u64;
        self.open_indexes(folder)?;
        while let Some((position, header)) = source.next_batch()? {
            if !self.can_append_offset(header.last_offset()) {
                source.seek(position);
                break;
            }
            let entry = source.entry_offset(position, &header, self.settings.entry)?;
            let position = position.saturating_sub(start);
            self.index_batch(folder, &mut pass, position, (&header, entry))?;
            counted = counted.saturating_add(header.size as u64);
        }
        let name = self.name(FileKind::Log);
        let part = log.part(start, counted).ok_or_else(|| {
            let expected = format!("{counted} bytes from {start}");
            let error = Error::corrupt("segment", start, expected, log.length());
            error.at(&folder.path_of(&name))
        })?;
        folder.write(&name, part)?;
        self.size = counted;
        let max = self.max_timestamp_so_far(folder)?;
        self.time_index(folder)?
            .maybe_append(folder, max.timestamp, max.offset, true)?;
        self.offset_index(folder)?.trim(folder)?;
        self.time_index(folder)?.trim(folder)?;
        self.store_indexes(folder)?;
        Ok(counted)
    }

    /// Closes it: the final time entry, and indexes as long as their entries (`LogSegment.close`).
    pub(super) fn close(&mut self, folder: &Overlay) -> Result<()> {
        if let Some(max) = self.max_timestamp {
            // Kafka swallows what goes wrong here.
            let _ = self
                .time_index(folder)?
                .maybe_append(folder, max.timestamp, max.offset, true);
        }
        if let Some(index) = &mut self.offset_index {
            index.trim(folder)?;
        }
        if let Some(index) = &mut self.time_index {
            index.trim(folder)?;
        }
        self.store_indexes(folder)?;
        self.truncate_log(folder, self.size);
        Ok(())
    }
}

/// Kafka throws something else than a record's exception here, and does not load the log: a marker of a kind that ends no
/// transaction, for all that its batch has a producer.
fn is_refusal(error: &Error) -> bool {
    error.as_fault().is_some_and(|fault| fault.what == NO_END)
}

/// How far a recovery has come.
#[derive(Debug)]
struct Pass {
    valid_bytes: u64,
    entries: EntryInterval,
    batches: u64,
}

impl Pass {
    const fn new(settings: IndexSettings) -> Self {
        Self {
            valid_bytes: 0,
            entries: EntryInterval::new(settings.interval),
            batches: 0,
        }
    }
}
