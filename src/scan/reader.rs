//! The records of planned ranges, chunk by chunk, across segments and partitions.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::io::region::Region;
use crate::scan::planned::{Opening, PlannedSegments, Turn};
use crate::scan::range::PartitionRange;
use crate::segment::filter::{RecordFilter, TimestampBounds};
use crate::segment::metrics::Metrics;
use crate::segment::reader::{ReadOptions, SegmentReader, Workspace};
use crate::segment::source::{Access, Copying};

/// Where the records of a chunk are from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// The segment's file name.
    pub segment: Arc<str>,
}

/// Reads planned ranges in order.
#[derive(Debug)]
pub struct LogReader {
    segments: PlannedSegments,
    options: ReadOptions,
    open: Option<SegmentReader>,
    context: Context,
    /// What was wrong behind the chunk's records.
    failed: Option<Error>,
    timestamps: TimestampBounds,
    /// Memory and counts; the chunk in it is what [`LogReader::fill`] filled.
    pub work: Workspace,
}

impl LogReader {
    /// Will read `ranges` one after the other.
    #[must_use]
    pub fn new(ranges: Vec<PartitionRange>, options: ReadOptions, copying: Copying) -> Self {
        let empty: Arc<str> = Arc::from("");
        let opening = Opening {
            copying,
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
            timestamps: TimestampBounds::default(),
            work: Workspace::default(),
        }
    }

    /// Will read other ranges, in the memory it has; counts begin anew.
    pub fn restart(&mut self, ranges: Vec<PartitionRange>) {
        if let Some(reader) = self.open.take() {
            self.segments.keep(reader.into_source());
        }
        self.segments.restart(ranges);
        self.failed = None;
        self.work.chunk.clear();
        self.work.arena.clear();
        self.work.given.clear();
        self.work.metrics = Metrics::default();
    }

    /// Which of the segments to come are read by copy.
    pub const fn set_copying(&mut self, copying: Copying) {
        self.segments.set_copying(copying);
    }

    /// Where the chunk's records are from.
    #[must_use]
    pub const fn context(&self) -> &Context {
        &self.context
    }

    /// The file that the chunk's records are from.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.segments.range().folder.join(&*self.context.segment)
    }

    /// Fills the (empty) chunk with records of one segment; false at the end of all ranges. It stays empty where all of
    /// them were outside the bounds of time.
    ///
    /// # Errors
    /// What reading finds, behind the records before it. Reading does not go on behind an error.
    pub fn fill(&mut self) -> Result<bool> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        loop {
            if let Some(reader) = &mut self.open {
                match reader.fill(&mut self.work) {
                    Ok(true) => {
                        self.leave_out();
                        return Ok(true);
                    }
                    Ok(false) => {
                        self.segments.advance(reader.next_offset());
                        if let Some(reader) = self.open.take() {
                            self.segments.keep(reader.into_source());
                        }
                    }
                    Err(e) => {
                        self.open = None;
                        self.segments.end();
                        if self.work.chunk.is_empty() {
                            return Err(e);
                        }
                        self.failed = Some(e);
                        self.leave_out();
                        return Ok(true);
                    }
                }
            }
            if !self.next_segment()? {
                return Ok(false);
            }
        }
    }

    /// Makes a region of the decompressed records so far; the chunk and the batch in progress lie in it from now on.
    pub fn freeze(&mut self) -> Region {
        let region = self.work.arena.freeze();
        self.work.chunk.frozen(&region);
        if let Some(reader) = &mut self.open {
            reader.frozen(&region);
        }
        region
    }

    /// Takes the records outside the bounds of time out of the chunk.
    #[inline]
    fn leave_out(&mut self) {
        let bounds = self.timestamps;
        if bounds.are_open() {
            return;
        }
        let chunk = &mut self.work.chunk;
        let gone = chunk.retain(|slot| bounds.contain(slot.timestamp));
        let total = &mut self.work.metrics.records_skipped;
        *total = total.saturating_add(gone as u64);
    }

    fn next_segment(&mut self) -> Result<bool> {
        loop {
            let opened = match self.segments.next_turn()? {
                Some(Turn::Open(opened)) => *opened,
                Some(Turn::Gone(_)) => {
                    let lost = &mut self.work.metrics.segments_lost;
                    *lost = lost.saturating_add(1);
                    continue;
                }
                None => return Ok(false),
            };
            if opened.begins_range {
                self.work.given.clear();
            }
            let (range, segment) = (self.segments.range(), &opened.segment);
            self.timestamps = range.timestamps;
            let filter = RecordFilter {
                aborted: segment.aborted.clone(),
                timestamps: range.timestamps,
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
            self.work.metrics.segments = self.work.metrics.segments.saturating_add(1);
            self.open = Some(SegmentReader::new(
                opened.source,
                segment.bounds(),
                segment.start_position,
                opened.wanted,
                self.options,
                filter,
            ));
            return Ok(true);
        }
    }
}
