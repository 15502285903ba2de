//! Kafka's log cleaner (`Cleaner`, `LogCleanerManager`): keeps the last record of each key, at its offset.
//!
//! | module | what |
//! |---|---|
//! | [`cleanable`] | the range to compact, and whether it is worth it |
//! | `filter` | selection of the records that stay |
//! | `transactions` | transactions that no longer count |
//! | `group` | grouping of segments that become one |
//! | `output` | the segments that are written |
//! | `meter` | progress |
//! | [`run`] | log dirs compacted into another one |
//! | `turn` | a pass, and the checkpoint of its end |
//! | here | one pass: reads keys into the map, then rewrites segments |
//!
//! # A pass
//! Keys from the first dirty offset on are added to the map, until it is full or nothing more may be compacted. Then
//! all segments up to there are rewritten without the records for which the map has a later one, and replace the old
//! ones. Records without a key are dropped. The next pass begins where this one ended.
//!
//! | stays | until |
//! |---|---|
//! | a tombstone | the delete horizon that the first pass wrote into its batch; of magic 0 and 1, `delete.retention.ms` after its segment was modified |
//! | the marker of a transaction | its data is removed, and then the delete horizon |
//! | a batch without records | it is no longer the last one of its producer, or of the range |

pub(crate) mod cleanable;
mod filter;
mod group;
mod meter;
mod output;
pub(crate) mod run;
mod transactions;
mod turn;

pub use self::turn::CleanerLines;
#[cfg(feature = "internal")]
pub use self::turn::CleaningPass;

use std::sync::Arc;

use self::cleanable::Cleanable;
use self::filter::{CleanerFilter, Tombstones};
use self::group::group;
use self::meter::Meter;
use self::output::CleanedSegments;
use self::transactions::WalkedTransactions;
use crate::compress::DecodeLimit;
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::io::interrupt;
use crate::io::storage::Storage;
use crate::log::config::LogConfig;
use crate::records::RecordSlot;
use crate::records::filtered::{
    BatchFilter, BatchRetention, BatchVerdict, FilterRules, RecordFilter,
};
use crate::scan::offset_map::{KeyHash, OffsetMap};
use crate::segment::batches::Batches;
use crate::segment::neighbours::{ANY_EPOCH, Neighbours};
use crate::segment::source::Access;
use crate::segment::walk::CopyPolicy;
use crate::segment::writer::WritableSegment;
use crate::tools::progress::Progress;
use crate::types::{Offset, Position, TimestampMs};
use crate::write::WritableLog;

/// Settings of the cleaner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleanerSettings {
    /// `log.cleaner.dedupe.buffer.size` of one thread: 24 bytes a key.
    pub map_bytes: usize,
    /// `log.cleaner.io.buffer.load.factor`: how full the map may become.
    pub load_factor: f64,
    /// Hold each batch's checksum against its bytes, and its offsets against those before, which Kafka does not: a
    /// damaged batch is then an error, not compacted.
    pub checks_batches: bool,
}

impl Default for CleanerSettings {
    fn default() -> Self {
        Self {
            map_bytes: 128 << 20,
            load_factor: 0.9,
            checks_batches: true,
        }
    }
}

/// Statistics of a pass (`CleanerStats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleanerStats {
    /// Offset at which the next pass begins.
    pub end_offset: Offset,
    /// Keys in the map.
    pub map_entries: usize,
    /// The last offset that was taken in.
    pub map_latest_offset: Offset,
    /// Records examined in the segments that were written again.
    pub messages_read: u64,
    /// Records that stayed.
    pub messages_written: u64,
    /// Bytes of the segments that were written again.
    pub bytes_read: u64,
    /// Bytes that stayed.
    pub bytes_written: u64,
    /// Records without a key, which go.
    pub invalid_messages: u64,
}

/// Compacts logs, one pass after the other, with memory that is kept.
#[derive(Debug)]
pub struct Cleaner {
    settings: CleanerSettings,
    map: OffsetMap,
    meter: Meter,
}

impl Cleaner {
    /// A cleaner with an empty map.
    ///
    /// # Errors
    /// `InvalidArgument` for a map without room for a key.
    pub fn new(settings: CleanerSettings) -> Result<Self> {
        Ok(Self {
            settings,
            map: OffsetMap::new(settings.map_bytes, settings.load_factor)?,
            meter: Meter::default(),
        })
    }

    /// So many cleaners for one log dir, each for a thread; fewer where the memory of the map, which they share
    /// (`log.cleaner.dedupe.buffer.size`), has no room for a key of each. They tell their progress.
    ///
    /// # Errors
    /// As [`Cleaner::new`].
    pub(crate) fn several(
        count: usize,
        settings: CleanerSettings,
        progress: &Arc<Progress>,
    ) -> Result<Vec<Self>> {
        let most = settings.map_bytes.checked_div(OffsetMap::MIN_BYTES);
        let count = count.min(most.unwrap_or_default()).max(1);
        let share = CleanerSettings {
            map_bytes: settings.map_bytes.checked_div(count).unwrap_or_default(),
            ..settings
        };
        let cleaner = |_| {
            Ok(Self {
                meter: Meter::new(progress),
                ..Self::new(share)?
            })
        };
        (0..count).map(cleaner).collect()
    }

    /// Begins a log of so many bytes, whose progress is reported.
    fn begin(&mut self, size: u64) {
        self.meter.begin(size);
    }

    /// The log is over.
    fn end(&mut self) {
        self.meter.end();
    }

    /// One pass over a log (`Cleaner.doClean`).
    ///
    /// # Errors
    /// `CorruptRecord`, `InvalidRecord`, `UnsupportedFormat` where a batch cannot be read; segments that were finished
    /// before are replaced then, the others as they were. `OutOfMemory`, `Io`; `Interrupted`.
    pub fn clean<S: Storage>(
        &mut self,
        log: &mut WritableLog<S>,
        cleanable: &Cleanable,
        now_ms: TimestampMs,
    ) -> Result<CleanerStats> {
        let legacy_horizon_ms = Self::legacy_horizon_ms(log, cleanable.first_dirty_offset)?;
        let to = cleanable.first_uncleanable_offset;
        self.take_in(log, cleanable.first_dirty_offset, to)?;
        let end_offset = self.map.latest_offset().saturating_add(1);
        let segments = log.segments_between(0, end_offset);
        let size = segments
            .iter()
            .fold(0u64, |sum, each| sum.saturating_add(each.size));
        let from = cleanable.first_dirty_offset;
        self.meter.begin_pass((from, end_offset, to), size);
        let mut pass = Pass {
            checks_batches: self.settings.checks_batches,
            meter: &mut self.meter,
            now_ms,
            legacy_horizon_ms,
            upper_bound: to,
            map: &self.map,
            transactions: WalkedTransactions::default(),
            batches: BatchFilter::new(rules(log.config(), now_ms))?,
            stats: CleanerStats {
                end_offset,
                map_entries: self.map.entries(),
                map_latest_offset: self.map.latest_offset(),
                ..CleanerStats::default()
            },
        };
        for group in group(log, &segments, to)? {
            pass.clean_group(log, &group)?;
        }
        let stats = pass.stats;
        self.meter.end_pass();
        Ok(stats)
    }

    /// Time before which messages of magic 0 and 1 must have been written for their tombstones to be removed.
    fn legacy_horizon_ms<S: Storage>(
        log: &WritableLog<S>,
        first_dirty: Offset,
    ) -> Result<TimestampMs> {
        let Some(last) = log.segments_between(0, first_dirty).pop() else {
            return Ok(0);
        };
        let modified = log.segment_modified_ms(last.base_offset)?;
        Ok(modified.saturating_sub(log.config().delete_retention_ms))
    }

    /// Takes the keys from `start` to before `end` into the map (`Cleaner.buildOffsetMap`).
    fn take_in<S: Storage>(
        &mut self,
        log: &WritableLog<S>,
        start: Offset,
        end: Offset,
    ) -> Result<()> {
        self.map.clear();
        let dirty = log.segments_between(start, end);
        let mut transactions = WalkedTransactions::default();
        transactions.add(log.aborted_between(start, end)?);
        let mut keys = KeyFilter {
            map: &mut self.map,
            transactions,
            start,
            is_full: false,
            hashes: Vec::new(),
        };
        // Nothing is written: no records stay.
        let mut batches = BatchFilter::new(FilterRules {
            delete_horizon_ms: None,
            codec: None,
            keeps_legacy: true,
            keeps_ends: false,
            limit: DecodeLimit::default(),
        })?;
        for (at, info) in dirty.iter().enumerate() {
            let next = dirty.get(at.saturating_add(1));
            let mut segment = log.open_closed(info.base_offset)?;
            let from = segment.offset_index()?.lookup(start)?.position;
            let from = Position::try_from(from).unwrap_or_default();
            let mut source = batches_of(log, &segment, from, self.settings.checks_batches)?;
            segment.close_handlers();
            while let Some((position, header)) = source.next()? {
                let batch = source.source.bytes(position, header.size)?;
                let taken = batches.filter(batch, &header, &mut keys, &mut Vec::new());
                taken.map_err(|error| source.source.locate(position, error))?;
                if keys.is_full {
                    return Ok(());
                }
                if header.last_offset() >= start {
                    keys.map.update_latest_offset(header.last_offset());
                }
            }
            // Offsets that no batch has up to the next segment are taken in too.
            let reach = next.map_or(end, |next| next.base_offset);
            keys.map.update_latest_offset(reach.saturating_sub(1));
        }
        Ok(())
    }
}

/// Rules for writing the records that stay.
fn rules(config: &LogConfig, now_ms: TimestampMs) -> FilterRules {
    FilterRules {
        delete_horizon_ms: Some(now_ms.saturating_add(config.delete_retention_ms)),
        codec: None,
        keeps_legacy: false,
        keeps_ends: false,
        limit: DecodeLimit::default(),
    }
}

/// Takes keys into the map.
struct KeyFilter<'a> {
    map: &'a mut OffsetMap,
    transactions: WalkedTransactions,
    start: Offset,
    is_full: bool,
    hashes: Vec<KeyHash>,
}

impl RecordFilter for KeyFilter<'_> {
    fn batch(&mut self, batch: &[u8], header: &BatchHeader) -> Result<BatchVerdict> {
        let decision = self.transactions.meet(batch, header)?;
        Ok(if header.is_control() || decision.may_go {
            BatchRetention::Delete.into()
        } else {
            BatchRetention::DeleteEmpty.into()
        })
    }

    fn records(
        &mut self,
        _: &BatchHeader,
        source: &[u8],
        slots: &[RecordSlot],
        stays: &mut [bool],
    ) -> Result<()> {
        stays.fill(false);
        if self.is_full {
            return Ok(());
        }
        let keys = slots
            .iter()
            .map(|slot| slot.key(source).unwrap_or_default());
        self.map.hash_all(keys, &mut self.hashes);
        for (slot, &hash) in slots.iter().zip(&self.hashes) {
            if slot.key_len < 0 || slot.offset < self.start {
                continue;
            }
            if self.map.is_full() {
                self.is_full = true;
                return Ok(());
            }
            self.map.put(hash, slot.offset)?;
        }
        Ok(())
    }
}

/// The batches of a segment, all of them whole, from `from` on.
fn batches_of<S: Storage>(
    log: &WritableLog<S>,
    segment: &WritableSegment<S>,
    from: Position,
    checks: bool,
) -> Result<Batches<CopyPolicy>> {
    let base_offset = segment.base_offset();
    // At first there is none below.
    let neighbours = checks.then(|| Neighbours {
        floor: base_offset,
        epoch: ANY_EPOCH,
        next_base_offset: Some(log.base_offset_after(base_offset)),
    });
    let batches = segment.walk(from, segment.size(), Access::Records)?;
    Ok(batches.whole(neighbours))
}

/// The second half of a pass: segments are written again.
struct Pass<'a> {
    checks_batches: bool,
    meter: &'a mut Meter,
    now_ms: TimestampMs,
    legacy_horizon_ms: TimestampMs,
    upper_bound: Offset,
    map: &'a OffsetMap,
    transactions: WalkedTransactions,
    batches: BatchFilter,
    stats: CleanerStats,
}

impl Pass<'_> {
    /// Writes the segments of a group again, as one (`Cleaner.cleanSegments`).
    fn clean_group<S: Storage>(
        &mut self,
        log: &mut WritableLog<S>,
        group: &[Offset],
    ) -> Result<()> {
        let (Some(&first), Some(&last)) = (group.first(), group.last()) else {
            return Ok(());
        };
        let mut output = CleanedSegments::new(log.create_cleaned(first, self.now_ms)?);
        let written = self.write_group(log, group, &mut output);
        let finished = written.and_then(|()| {
            let modified_ms = log.segment_modified_ms(last)?;
            for segment in output.segments_mut() {
                log.finish_cleaned(segment, modified_ms)?;
            }
            Ok(())
        });
        match finished {
            Ok(()) => log.replace_segments(output.into_segments(), group, self.now_ms),
            Err(error) => {
                log.drop_cleaned(output.into_segments());
                Err(error)
            }
        }
    }

    fn write_group<S: Storage>(
        &mut self,
        log: &WritableLog<S>,
        group: &[Offset],
        output: &mut CleanedSegments<S>,
    ) -> Result<()> {
        for (at, &base_offset) in group.iter().enumerate() {
            let mut segment = log.open_closed(base_offset)?;
            let next = group.get(at.saturating_add(1)).copied();
            let end = match next {
                Some(next) => next,
                None => segment.read_next_offset()?,
            };
            self.transactions
                .add(log.aborted_between(base_offset, end)?);
            let modified_ms = log.segment_modified_ms(base_offset)?;
            let source = batches_of(log, &segment, 0, self.checks_batches)?;
            segment.close_handlers();
            let tombstones = Tombstones {
                now_ms: self.now_ms,
                keeps_legacy: modified_ms > self.legacy_horizon_ms,
            };
            self.write_segment(log, source, tombstones, output)?;
        }
        output.flush()
    }

    /// Writes what stays of a segment (`Cleaner.cleanInto`).
    fn write_segment<S: Storage>(
        &mut self,
        log: &WritableLog<S>,
        mut source: Batches<CopyPolicy>,
        tombstones: Tombstones,
        output: &mut CleanedSegments<S>,
    ) -> Result<()> {
        let mut filter = CleanerFilter::new(
            self.map,
            &mut self.transactions,
            log.producers(),
            self.upper_bound,
            tombstones,
        );
        while let Some((position, header)) = source.next()? {
            interrupt::check()?;
            output.make_room(log, &header, self.now_ms)?;
            let batch = source.source.bytes(position, header.size)?;
            let begun = output.bytes.len();
            let filtered = self
                .batches
                .filter(batch, &header, &mut filter, &mut output.bytes);
            let filtered = filtered.map_err(|error| source.source.locate(position, error))?;
            if let Some(entry) = filter.take_entry() {
                output.append_aborted(&entry)?;
            }
            let size = output.bytes.len().saturating_sub(begun) as u64;
            let stats = &mut self.stats;
            stats.messages_read = stats.messages_read.saturating_add(filtered.records_read);
            stats.messages_written = stats.messages_written.saturating_add(filtered.records_kept);
            self.meter.read(header.size as u64);
            stats.bytes_read = stats.bytes_read.saturating_add(header.size as u64);
            stats.bytes_written = stats.bytes_written.saturating_add(size);
            output.passed = header.last_offset();
            output
                .headers
                .extend(filtered.header_left(&header).cloned());
        }
        let invalid = filter.invalid_messages();
        self.stats.invalid_messages = self.stats.invalid_messages.saturating_add(invalid);
        Ok(())
    }
}
