//! The records of planned ranges, chunk by chunk, across segments and partitions.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::records::chunk::Chunk;
use crate::records::search::{RecordSearch, Searcher};
use crate::scan::lost::{self, LostRange};
use crate::scan::planned::{NextSegment, Opening, PlannedSegments};
use crate::scan::range::PartitionRange;
use crate::segment::filter::SegmentFilter;
use crate::segment::metrics::Metrics;
use crate::segment::reader::{FillOutcome, ReadOptions, ReadState, SegmentReader};
use crate::segment::resync::{Lost, Reason};
use crate::segment::skipping::OnCorrupt;
use crate::segment::source::{Access, MapPolicy};

/// Topic, partition and segment of a chunk's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// The segment's file name.
    pub segment: Arc<str>,
}

impl Context {
    fn lost(&self, lost: Lost) -> LostRange {
        LostRange {
            topic: Arc::clone(&self.topic),
            partition: self.partition,
            segment: Arc::clone(&self.segment),
            lost,
        }
    }
}

/// Reads planned ranges in order.
#[derive(Debug)]
pub(crate) struct LogReader {
    segments: PlannedSegments,
    options: ReadOptions,
    open: Option<SegmentReader>,
    context: Context,
    /// The fault after the records that were given.
    failed: Option<Error>,
    filter: SegmentFilter,
    /// Of the records that the filter leaves.
    searcher: Option<Searcher>,
    state: ReadState,
    /// Skipped ranges of all segments.
    lost: Vec<LostRange>,
    /// Records of the batch that is given in parts which the filter and the search did not want.
    dropped_of_part: u64,
}

impl LogReader {
    /// Creates a reader of `ranges`, one after the other.
    #[must_use]
    pub(crate) fn new(
        ranges: Vec<PartitionRange>,
        options: ReadOptions,
        map_policy: MapPolicy,
    ) -> Self {
        let empty: Arc<str> = Arc::from("");
        let opening = Opening {
            map_policy,
            access: Access::Records,
        };
        Self {
            segments: PlannedSegments::new(ranges, opening),
            options,
            open: None,
            context: Context {
                topic: Arc::clone(&empty),
                partition: 0,
                segment: empty,
            },
            failed: None,
            filter: SegmentFilter::default(),
            searcher: None,
            state: ReadState::default(),
            lost: Vec::new(),
            dropped_of_part: 0,
        }
    }

    /// Gives only the records that a search finds.
    pub(crate) fn search(&mut self, search: Option<Arc<RecordSearch>>) {
        self.searcher = search.map(Searcher::new);
    }

    /// `true` where only what a search finds is given.
    pub(crate) const fn searches(&self) -> bool {
        self.searcher.is_some()
    }

    /// Restarts with other ranges and the same contexts; counts start again from zero.
    pub(crate) fn restart(&mut self, ranges: Vec<PartitionRange>) {
        if let Some(reader) = self.open.take() {
            self.segments.keep(reader.into_source());
        }
        self.segments.restart(ranges);
        self.failed = None;
        self.state.given.clear();
        self.state.metrics = Metrics::default();
        self.lost.clear();
        self.dropped_of_part = 0;
    }

    /// Takes the ranges that were skipped since the last call.
    pub(crate) fn take_lost(&mut self) -> Vec<LostRange> {
        std::mem::take(&mut self.lost)
    }

    /// `true` to continue after damage.
    pub(crate) fn skips(&self) -> bool {
        self.options.on_corrupt == OnCorrupt::Skip
    }

    /// Accounts for a record of the chunk that is not given. Its bytes were read.
    pub(crate) fn lose(&mut self, lost: Lost) {
        if lost::add(&mut self.lost, self.context.lost(lost)) {
            self.state.metrics.lose(0);
        }
    }

    /// Counts so far.
    #[must_use]
    pub(crate) const fn metrics(&self) -> Metrics {
        self.state.metrics
    }

    /// Sets which of the following segments are mapped.
    pub(crate) const fn set_map_policy(&mut self, map_policy: MapPolicy) {
        self.segments.set_map_policy(map_policy);
    }

    /// Origin of the chunk's records.
    #[must_use]
    pub(crate) const fn context(&self) -> &Context {
        &self.context
    }

    /// The file that the chunk's records are from.
    #[must_use]
    pub(crate) fn file(&self) -> PathBuf {
        self.segments.range().folder.path_of(&self.context.segment)
    }

    /// Fills `chunk`, which must be empty, with records of one segment. After [`FillOutcome::Records`] it is still
    /// empty if all of them were not wanted. What becomes of batches that are given in parts, [`Chunk::parts`] says
    /// after each call.
    ///
    /// # Errors
    /// What reading finds, after the records before it. Nothing follows an error.
    pub(crate) fn fill(&mut self, chunk: &mut Chunk) -> Result<FillOutcome> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        loop {
            if let Some(reader) = &mut self.open {
                let filled = reader.fill(&mut self.state, chunk);
                if let Some(position) = chunk.parts().withdrawn() {
                    let dropped = std::mem::take(&mut self.dropped_of_part);
                    let total = &mut self.state.metrics.records_skipped;
                    *total = total.saturating_sub(dropped);
                    // What was lost of the batch alone is lost with it.
                    while let Some(last) = self.lost.last()
                        && last.lost.reason == Reason::Timestamp
                        && last.segment == self.context.segment
                        && last.lost.position == position
                    {
                        self.lost.pop();
                        self.state.metrics.find_again();
                    }
                }
                for lost in self.state.lost.drain(..) {
                    lost::add(&mut self.lost, self.context.lost(lost));
                }
                match filled {
                    Ok(FillOutcome::Records) => {
                        self.drop_unwanted(chunk);
                        return Ok(FillOutcome::Records);
                    }
                    Ok(FillOutcome::ArenaFull) => return Ok(FillOutcome::ArenaFull),
                    Ok(FillOutcome::End) => {
                        let range = self.segments.range();
                        let gap = reader.gap_after();
                        if let Some(gone) = gap.and_then(|gap| lost::missing(range, gap)) {
                            self.state.metrics.lose(0);
                            self.lost.push(gone);
                        }
                        self.segments.advance(reader.next_offset());
                        if let Some(reader) = self.open.take() {
                            self.segments.keep(reader.into_source());
                        }
                    }
                    Err(e) => {
                        self.open = None;
                        self.segments.end();
                        if chunk.is_empty() {
                            return Err(e);
                        }
                        self.failed = Some(e);
                        self.drop_unwanted(chunk);
                        return Ok(FillOutcome::Records);
                    }
                }
            }
            if !self.next_segment()? {
                return Ok(FillOutcome::End);
            }
        }
    }

    /// Removes the records that the filter or the search does not want from the chunk.
    #[inline]
    fn drop_unwanted(&mut self, chunk: &mut Chunk) {
        let filter = &self.filter;
        if filter.is_open() && self.searcher.is_none() {
            return;
        }
        let mut dropped = 0;
        if !filter.is_open() {
            dropped = chunk.retain(|slot| filter.contains(slot)) as u64;
        }
        if let Some(searcher) = &mut self.searcher {
            dropped = dropped.saturating_add(searcher.retain(chunk) as u64);
        }
        let total = &mut self.state.metrics.records_skipped;
        *total = total.saturating_add(dropped);
        self.dropped_of_part = if chunk.parts().open().is_some() {
            self.dropped_of_part.saturating_add(dropped)
        } else {
            0
        };
    }

    fn next_segment(&mut self) -> Result<bool> {
        loop {
            let opened = match self.segments.next_turn()? {
                Some(NextSegment::Open(opened)) => *opened,
                Some(NextSegment::Gone(_)) => {
                    let lost = &mut self.state.metrics.segments_lost;
                    *lost = lost.saturating_add(1);
                    continue;
                }
                None => return Ok(false),
            };
            if !opened.continues {
                self.state.given.clear();
            }
            let (range, segment) = (self.segments.range(), &opened.segment);
            self.filter = SegmentFilter {
                aborted: segment.aborted.clone(),
                timestamps: range.timestamps,
                chosen: range.chosen.clone(),
            };
            self.context = Context {
                topic: if *self.context.topic == *range.topic {
                    Arc::clone(&self.context.topic)
                } else {
                    range.topic.as_str().into()
                },
                partition: range.partition,
                segment: segment.file_name.as_str().into(),
            };
            self.state.metrics.segments = self.state.metrics.segments.saturating_add(1);
            let reader = SegmentReader::new(
                opened.source,
                segment.bounds(),
                segment.start_position,
                opened.wanted,
                self.options,
                self.filter.clone(),
            );
            self.open = Some(reader.skipping(segment.bounds(), segment.piece()));
            return Ok(true);
        }
    }
}
