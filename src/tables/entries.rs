//! The records of internal topics as they are read: keys and values as bytes, with their batch and file.

use std::slice;

use super::topic::Topic;
use crate::arrow::payload::PayloadPart;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::records::RecordSlot;
use crate::records::arena::Arena;
use crate::records::chunk::{BatchRows, Chunk, ChunkBytes};
use crate::scan::lost::LostRange;
use crate::scan::range::PartitionRange;
use crate::scan::reader::{Context, LogReader};
use crate::segment::metrics::Metrics;
use crate::segment::reader::{FillOutcome, ReadOptions};
use crate::segment::source::MapPolicy;
use crate::types::{Offset, TimestampMs};

/// One record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord<'a> {
    /// Its batch: who wrote it, in a transaction or not.
    pub(crate) header: &'a BatchHeader,
    pub(crate) offset: Offset,
    pub(crate) timestamp: TimestampMs,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
}

/// Reads planned ranges, some records of one file at a time.
#[derive(Debug)]
pub(crate) struct TableRecords {
    log: LogReader,
    chunk: Chunk,
}

impl TableRecords {
    /// Creates a reader of `ranges`, one after the other; control records only where `options` includes them.
    pub(crate) fn new(ranges: Vec<PartitionRange>, options: ReadOptions) -> Self {
        Self {
            log: LogReader::new(ranges, options, MapPolicy::Never),
            chunk: Chunk::new(Arena::near()),
        }
    }

    /// Counts so far.
    pub(crate) const fn metrics(&self) -> Metrics {
        self.log.metrics()
    }

    /// Takes the ranges that were skipped as damaged since the last call.
    pub(crate) fn take_lost(&mut self) -> Vec<LostRange> {
        self.log.take_lost()
    }

    /// Reads records, if none are left of those that were read; false at the end.
    ///
    /// # Errors
    /// What reading finds, after the records before it.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        while self.chunk.is_empty() {
            match self.log.fill(&mut self.chunk)? {
                // There may be none within the bounds.
                FillOutcome::Records => {}
                FillOutcome::ArenaFull => self.chunk.arena_mut().clear(),
                FillOutcome::End => return Ok(false),
            }
        }
        match self.chunk.bytes() {
            Some(_) => Ok(true),
            None => Err(Error::internal("records without the bytes they lie in")),
        }
    }

    /// Origin of the records that were read.
    pub(crate) const fn context(&self) -> &Context {
        self.log.context()
    }

    /// Their topic, if it is an internal one.
    pub(crate) fn topic(&self) -> Option<Topic> {
        Topic::of(&self.context().topic)
    }

    /// The records that were read and not consumed, in order.
    pub(crate) fn iter(&self) -> Iter<'_> {
        Iter {
            source: self.chunk.bytes().map_or(&[], ChunkBytes::as_slice),
            slots: self.chunk.slots().iter(),
            runs: self.chunk.runs().iter(),
            run: None,
        }
    }

    /// Is done with the first `records` of them.
    pub(crate) fn consume(&mut self, records: usize) {
        self.chunk.consume(records);
    }
}

/// The records that were read.
#[derive(Clone, Debug)]
pub(crate) struct Iter<'a> {
    source: &'a [u8],
    slots: slice::Iter<'a, RecordSlot>,
    runs: slice::Iter<'a, BatchRows>,
    /// The current batch, and how many of its records are to come.
    run: Option<(&'a BatchRows, usize)>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = RawRecord<'a>;

    fn next(&mut self) -> Option<RawRecord<'a>> {
        let slot = self.slots.next()?;
        let (run, left) = match self.run.take().filter(|(_, left)| *left > 0) {
            Some(run) => run,
            None => self.runs.next().map(|run| (run, run.rows))?,
        };
        self.run = Some((run, left.saturating_sub(1)));
        Some(RawRecord {
            header: &run.header,
            offset: slot.offset,
            timestamp: slot.timestamp,
            key: PayloadPart::Key.bytes(*slot, self.source),
            value: PayloadPart::Value.bytes(*slot, self.source),
        })
    }
}
