//! Planned ranges as a stream of record batches.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::columns::Columns;
use super::schema::ColumnOptions;
use crate::error::{Error, Result};
use crate::records::arena::Arena;
use crate::records::chunk::Chunk;
use crate::records::search::RecordSearch;
use crate::scan::lost::LostRange;
use crate::scan::range::PartitionRange;
use crate::scan::reader::LogReader;
use crate::segment::metrics::Metrics;
use crate::segment::reader::{FillOutcome, ReadOptions};
use crate::segment::resync::Lost;
use crate::segment::source::MapPolicy;

/// A batch of views keeps no more than this of what was copied or decompressed, or twice what it may hold. Without a
/// limit, a batch of small columns of large records would keep hundreds of megabytes.
const MOST_KEPT: usize = 8 << 20;

/// Bytes that a search reads at most before it gives the rows that it has.
const MOST_SEARCHED: u64 = 16 << 20;

/// Reads ranges in order on the calling thread.
///
/// Records flow one way: the log's reader fills the chunk, the columns take from it, and a finished batch takes along
/// the memory that its columns point into.
///
/// Past damage, a batch of Kafka's that no chunk takes at once comes in parts, and none of it may be given if any of
/// its records cannot be decoded. What is finished with parts of it waits until it is known to be sound.
#[derive(Debug)]
pub struct RangeReader {
    log: LogReader,
    chunk: Chunk,
    columns: Columns,
    most_kept: usize,
    /// Finished, and not given yet.
    finished: VecDeque<RecordBatch>,
    /// Start of the batch that is being received in parts.
    open: Option<RowsBefore>,
    failed: Option<Error>,
    done: ReadProgress,
    /// Bytes that were read when the last batch was finished.
    finished_at: u64,
    ended: bool,
}

/// State before a batch that may have to be taken back.
#[derive(Clone, Copy, Debug)]
struct RowsBefore {
    /// Rows of the record batch in which it begins.
    rows: usize,
    /// Rows of all.
    all_rows: u64,
    /// Rows of all without a value because of a fault.
    undecoded: u64,
}

/// Counts so far.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadProgress {
    pub(super) metrics: Metrics,
    pub(super) rows: u64,
    pub(super) decoded: DecodeCounts,
    /// Size of the batches, in parts of a full one ([`super::columns::FULL`]).
    pub(super) share: u64,
    /// Skipped ranges.
    pub(super) lost: Vec<LostRange>,
}

/// Counts of decoded keys and values.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DecodeCounts {
    /// Records of which a key or value could not be decoded: null, or left out.
    pub(crate) undecoded: u64,
    /// Fields of Protobuf messages that their schemas do not have.
    pub(crate) unknown_fields: u64,
}

impl DecodeCounts {
    /// Adds those of another reader.
    pub(super) const fn add(&mut self, other: Self) {
        self.undecoded = self.undecoded.saturating_add(other.undecoded);
        self.unknown_fields = self.unknown_fields.saturating_add(other.unknown_fields);
    }
}

impl RangeReader {
    /// Creates a reader of `ranges`, one after the other.
    ///
    /// # Errors
    /// `InvalidArgument` for options that make no sense.
    pub fn try_new(
        ranges: Vec<PartitionRange>,
        options: ReadOptions,
        columns: ColumnOptions,
    ) -> Result<Self> {
        let most_kept = columns.batch_bytes.saturating_mul(2).max(MOST_KEPT);
        let columns = Columns::try_new(columns)?;
        let (map_policy, arena) = if columns.keep_sources() {
            (MapPolicy::ClosedOnly, Arena::default())
        } else {
            (MapPolicy::Never, Arena::near())
        };
        let mut chunk = Chunk::new(arena);
        chunk.parts_mut().allow(most_kept, columns.row_bytes());
        Ok(Self {
            log: LogReader::new(ranges, options, map_policy),
            chunk,
            columns,
            most_kept,
            finished: VecDeque::new(),
            open: None,
            failed: None,
            done: ReadProgress::default(),
            finished_at: 0,
            ended: false,
        })
    }

    /// Gives only the records that a search finds.
    #[must_use]
    pub(crate) fn searching(mut self, search: Option<Arc<RecordSearch>>) -> Self {
        self.log.search(search);
        self
    }

    /// Restarts with other ranges in the same memory; counts start again from zero.
    pub(super) fn restart(&mut self, ranges: Vec<PartitionRange>) {
        self.log.restart(ranges);
        self.chunk.reset();
        self.finished.clear();
        self.open = None;
        self.failed = None;
        self.done = ReadProgress::default();
        self.finished_at = 0;
        self.ended = false;
    }

    /// True if there is nothing after the last batch.
    pub(super) fn has_ended(&self) -> bool {
        self.ended && self.finished.is_empty()
    }

    /// Takes the counts of the ranges, once they ended.
    pub(super) fn take_done(&mut self) -> ReadProgress {
        ReadProgress {
            metrics: self.log.metrics(),
            lost: self.log.take_lost(),
            ..std::mem::take(&mut self.done)
        }
    }

    /// Takes the ranges that were skipped since the last call.
    pub fn take_lost(&mut self) -> Vec<LostRange> {
        self.log.take_lost()
    }

    /// Counts so far.
    #[must_use]
    pub const fn metrics(&self) -> (Metrics, u64) {
        (self.log.metrics(), self.done.rows)
    }

    /// Counts of decoded keys and values so far.
    pub(crate) const fn decode_counts(&self) -> DecodeCounts {
        self.done.decoded
    }

    /// The next batch; `None` at the end. Rows before a fault come first, then the fault, once.
    ///
    /// # Errors
    /// What reading finds.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.open.is_none() {
                if let Some(batch) = self.finished.pop_front() {
                    return Ok(Some(batch));
                }
                if let Some(error) = self.failed.take() {
                    return Err(error);
                }
                if self.ended {
                    return Ok(None);
                }
                self.open = self.chunk.parts().open().map(|_| RowsBefore {
                    rows: self.columns.rows(),
                    all_rows: self.done.rows,
                    undecoded: self.done.decoded.undecoded,
                });
            }
            if !self.chunk.is_empty() {
                self.append()?;
            } else if self.columns.kept() > self.most_kept && self.columns.rows() > 0 {
                self.finish()?;
            } else {
                self.fill()?;
            }
        }
    }

    /// Reads more into the chunk.
    fn fill(&mut self) -> Result<()> {
        let filled = self.log.fill(&mut self.chunk);
        if self.chunk.parts_mut().take_withdrawn() {
            self.take_back()?;
        }
        match self.chunk.parts().open() {
            None => self.open = None,
            // What is finished before this batch need not wait for it: it would take memory, and a place in the caches.
            Some(size) if self.open.is_none() && self.columns.is_better_finished(size) => {
                self.finish()?;
            }
            Some(_) => {}
        }
        match filled {
            Ok(FillOutcome::Records) => {
                if self.chunk.is_empty() && self.open.is_none() && self.is_late() {
                    self.finish()?;
                }
                return Ok(());
            }
            Ok(FillOutcome::ArenaFull) => {
                self.columns.empty_arena(&mut self.chunk);
                return Ok(());
            }
            Ok(FillOutcome::End) => self.ended = true,
            Err(error) => self.failed = Some(error),
        }
        if self.columns.rows() > 0 {
            self.finish()?;
        }
        Ok(())
    }

    /// Returns whether a search has rows that should not wait until a batch is full.
    fn is_late(&self) -> bool {
        let read = self.log.metrics().bytes.saturating_sub(self.finished_at);
        self.log.searches() && read >= MOST_SEARCHED && self.columns.rows() > 0
    }

    /// Takes back the rows of a batch of which some record cannot be decoded.
    #[cold]
    fn take_back(&mut self) -> Result<()> {
        let Some(before) = self.open.take() else {
            return Ok(());
        };
        if self.columns.rows() > 0 {
            self.finish()?;
        }
        let first = self.finished.pop_front().filter(|_| before.rows > 0);
        self.finished.clear();
        self.finished
            .extend(first.map(|batch| batch.slice(0, before.rows)));
        self.done.rows = before.all_rows;
        self.done.decoded.undecoded = before.undecoded;
        // Of a record that would have been lost anyway.
        self.failed = None;
        Ok(())
    }

    /// Appends what fits of the chunk, and finishes the batch if that is not all.
    fn append(&mut self) -> Result<()> {
        if self.failed.is_some() {
            // Its rows come after the fault; they are only read to see whether the batch of the fault is sound.
            self.chunk.clear();
            return Ok(());
        }
        let Some(source) = self.chunk.bytes() else {
            return Err(Error::internal("records without the bytes they lie in"));
        };
        if self.chunk.is_decompressed() {
            self.columns.limit_to_cache();
        }
        let slots = self.chunk.slots();
        let (mut fits, bytes) = (self.columns).fits(slots, source.as_slice(), self.chunk.encoded());
        let mut full = fits < slots.len();
        let mut decoded = (self.columns).decode(&self.chunk, fits, self.log.context())?;
        if let Some(decoded) = &decoded {
            full |= decoded.taken < fits;
            fits = decoded.taken.saturating_sub(decoded.dropped.len());
            self.leave_out(&decoded.dropped);
        }
        let (rows, refused) = match fits {
            0 => (0, None),
            _ => (self.columns).append(&self.chunk, fits, bytes, self.log.context())?,
        };
        let slot = self.chunk.slots().get(rows);
        let undecoded = decoded.as_mut().and_then(|decoded| decoded.failed.take());
        let mut passed_over = 0;
        match (refused, undecoded, slot) {
            (Some(_), _, Some(slot)) if self.log.skips() => {
                let position = self.chunk.position_of(rows);
                self.log.lose(Lost::record(position, slot.offset));
                passed_over = 1;
            }
            (Some(error), _, Some(slot)) | (None, Some(error), Some(slot)) => {
                let error = error.shift(self.chunk.position_of(rows));
                let error = error.for_offset(slot.offset);
                self.failed = Some(error.at(&self.log.file()));
                full = true;
            }
            _ => {}
        }
        if let Some(decoded) = decoded {
            let shown = decoded.undecoded.iter().filter(|row| **row < rows);
            let faulty = shown.count().saturating_add(decoded.dropped.len());
            let total = &mut self.done.decoded.undecoded;
            *total = total.saturating_add(faulty as u64);
        }
        self.done.rows = self.done.rows.saturating_add(rows as u64);
        self.chunk.consume(rows.saturating_add(passed_over));
        if full && self.columns.rows() > 0 {
            self.finish()?;
        }
        Ok(())
    }

    /// Takes records out of the chunk, by their numbers in order.
    fn leave_out(&mut self, records: &[usize]) {
        let (mut left, mut number) = (records.iter().copied().peekable(), 0usize);
        if left.peek().is_some() {
            self.chunk.retain(|_| {
                let is_kept = left.next_if_eq(&number).is_none();
                number = number.saturating_add(1);
                is_kept
            });
        }
    }

    /// Makes a record batch of the rows so far.
    fn finish(&mut self) -> Result<()> {
        let unknown = self.columns.take_unknown_fields();
        let total = &mut self.done.decoded.unknown_fields;
        *total = total.saturating_add(unknown);
        self.done.share = self.done.share.saturating_add(self.columns.share());
        self.finished_at = self.log.metrics().bytes;
        let (batch, points) = self.columns.finish(&mut self.chunk)?;
        if self.columns.keep_sources() {
            // A map that nothing points into is slower to read than a copy.
            self.log.set_map_policy(if points {
                MapPolicy::ClosedOnly
            } else {
                MapPolicy::Never
            });
        }
        self.finished.push_back(batch);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
