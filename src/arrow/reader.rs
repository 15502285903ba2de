//! Planned ranges as a stream of record batches.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::columns::{ColumnOptions, Columns, Rows};
use super::pool::region_buffer;
use super::schema::{Column, Layout};
use crate::error::{Error, Result};
use crate::io::region::Region;
use crate::records::RecordSlot;
use crate::records::chunk::{Arena, Source};
use crate::scan::range::PartitionRange;
use crate::scan::reader::LogReader;
use crate::segment::metrics::Metrics;
use crate::segment::reader::ReadOptions;
use crate::segment::source::Copying;

/// A batch of views keeps no more than this of what was copied or decompressed, or twice what it may hold: of records
/// whose larger part was not asked for, it would keep hundreds of megabytes for a few.
const MOST_KEPT: usize = 8 << 20;

/// Reads ranges in order on the calling thread.
#[derive(Debug)]
pub struct RecordReader {
    log: LogReader,
    columns: Columns,
    /// Views, if any column may point into what it was read from.
    layout: Layout,
    /// The region of the last chunk and its place among the view columns' buffers.
    last_region: Option<(Region, u32)>,
    /// The place kept for the arena, if a chunk of this batch is in it.
    arena: Option<u32>,
    pointed: Pointed,
    failed: Option<Error>,
    done: Done,
    ended: bool,
}

/// What views of the batch point into.
#[derive(Clone, Copy, Debug, Default)]
struct Pointed {
    region: bool,
    arena: bool,
    any: bool,
    /// Bytes of our own that were kept for them.
    kept: usize,
    most: usize,
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub(super) metrics: Metrics,
    pub(super) rows: u64,
    /// What the batches came to, in parts of a full one ([`super::columns::FULL`]).
    pub(super) share: u64,
}

impl RecordReader {
    /// Will read `ranges` one after the other.
    ///
    /// # Errors
    /// `InvalidArgument` for options that make no sense.
    pub fn try_new(
        ranges: Vec<PartitionRange>,
        options: ReadOptions,
        columns: ColumnOptions,
    ) -> Result<Self> {
        let points = [Column::Key, Column::Value, Column::Headers];
        let layout = if columns.columns.iter().any(|c| points.contains(c)) {
            columns.layout
        } else {
            Layout::Binary
        };
        let pointed = Pointed {
            most: columns.batch_bytes.saturating_mul(2).max(MOST_KEPT),
            ..Pointed::default()
        };
        let copying = match layout {
            Layout::Binary => Copying::Always,
            Layout::View => Copying::Active,
        };
        let mut log = LogReader::new(ranges, options, copying);
        if layout == Layout::Binary {
            log.work.arena = Arena::near();
        }
        Ok(Self {
            log,
            columns: Columns::try_new(columns)?,
            layout,
            last_region: None,
            arena: None,
            pointed,
            failed: None,
            done: Done::default(),
            ended: false,
        })
    }

    /// The schema of every batch.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(self.columns.schema())
    }

    /// Will read other ranges, in the memory it has; counts begin anew.
    pub(super) fn restart(&mut self, ranges: Vec<PartitionRange>) {
        self.log.restart(ranges);
        self.failed = None;
        self.done = Done::default();
        self.ended = false;
    }

    /// There is nothing behind the last batch.
    pub(super) const fn has_ended(&self) -> bool {
        self.ended
    }

    /// What was done so far.
    pub(super) const fn done(&self) -> Done {
        Done {
            metrics: self.log.work.metrics,
            ..self.done
        }
    }

    /// What was done so far.
    #[must_use]
    pub const fn metrics(&self) -> (Metrics, u64) {
        (self.log.work.metrics, self.done.rows)
    }

    /// The next batch; `None` at the end. Rows before a fault come first, then the fault, once.
    ///
    /// # Errors
    /// What reading finds.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        loop {
            if self.log.work.chunk.is_empty() {
                if self.layout == Layout::View && self.log.work.arena.is_full() {
                    self.freeze();
                }
                if self.pointed.kept > self.pointed.most && self.columns.rows() > 0 {
                    return self.finish().map(Some);
                }
                match self.log.fill() {
                    Ok(true) => {}
                    Ok(false) => {
                        self.ended = true;
                        let rows = self.columns.rows();
                        return (rows > 0).then(|| self.finish()).transpose();
                    }
                    Err(error) if self.columns.rows() == 0 => return Err(error),
                    Err(error) => {
                        self.failed = Some(error);
                        return self.finish().map(Some);
                    }
                }
            }
            if self.append()? {
                return match self.failed.take_if(|_| self.columns.rows() == 0) {
                    Some(error) => Err(error),
                    None => self.finish().map(Some),
                };
            }
        }
    }

    /// Appends what fits of the chunk; true when the batch is full.
    fn append(&mut self) -> Result<bool> {
        let buffer = self.buffer();
        let work = &self.log.work;
        let source = match work.chunk.source() {
            Some(Source::Region(region)) => region.as_slice(),
            Some(Source::Arena) => work.arena.bytes(),
            None => return Ok(false),
        };
        let slots = work.chunk.slots();
        let (mut fits, bytes) = self.columns.fits(slots, source, work.chunk.encoded());
        let mut full = fits < slots.len();
        if let Some((row, slot)) = self
            .columns
            .beyond_unit(slots.get(..fits).unwrap_or_default())
        {
            self.failed = Some(self.beyond_unit(row, slot));
            (fits, full) = (row, true);
        }
        if fits > 0 {
            let slots = slots.get(..fits).unwrap_or_default();
            let rows = Rows {
                slots,
                runs: work.chunk.runs(),
                source,
                buffer,
                context: self.log.context(),
            };
            let is_arena = matches!(work.chunk.source(), Some(Source::Arena));
            self.columns.append(&rows, bytes)?;
            if self.layout == Layout::View && self.columns.points_into_sources() {
                self.pointed.arena |= is_arena;
                self.pointed.region |= !is_arena;
            }
        }
        self.done.rows = self.done.rows.saturating_add(fits as u64);
        self.log.work.chunk.consume(fits);
        Ok(full)
    }

    /// A record of the chunk has a timestamp that microseconds cannot hold; Spark's Kafka source fails as well.
    #[cold]
    fn beyond_unit(&self, row: usize, slot: &RecordSlot) -> Error {
        let mut rows = row;
        let run = self.log.work.chunk.runs().iter().find(|run| {
            let is_here = rows < run.rows;
            rows = rows.saturating_sub(run.rows);
            is_here
        });
        let most = i64::MAX / 1000;
        Error::invalid(
            "timestamp",
            run.map(|run| run.position).unwrap_or_default(),
            format_args!("-{most} to {most} ms, which is what microseconds hold"),
            format_args!("{} ms", slot.timestamp),
        )
        .for_offset(slot.offset)
        .at(&self.log.file())
    }

    /// The place of the chunk's source among the view columns' buffers.
    fn buffer(&mut self) -> u32 {
        if self.layout == Layout::Binary {
            return 0;
        }
        match self.log.work.chunk.source() {
            None => 0,
            Some(Source::Arena) => *self
                .arena
                .get_or_insert_with(|| self.columns.sources.reserve()),
            Some(Source::Region(region)) => match &self.last_region {
                Some((last, at)) if last.same(region) => *at,
                _ => {
                    let region = region.clone();
                    let at = self.columns.sources.reserve();
                    self.leave_region();
                    self.last_region = Some((region, at));
                    at
                }
            },
        }
    }

    /// Nothing more will point into the last region: the batch keeps it where something does.
    fn leave_region(&mut self) {
        let points = std::mem::take(&mut self.pointed.region);
        if let Some((region, at)) = self.last_region.take()
            && points
        {
            self.keep(&region, at);
        }
    }

    fn freeze(&mut self) {
        let region = self.log.freeze();
        let points = std::mem::take(&mut self.pointed.arena);
        if let Some(at) = self.arena.take()
            && points
        {
            self.keep(&region, at);
        }
    }

    fn keep(&mut self, region: &Region, at: u32) {
        self.pointed.any = true;
        if !region.is_mapped() {
            self.pointed.kept = self.pointed.kept.saturating_add(region.len());
        }
        self.columns.sources.set(at, region_buffer(region));
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        if self.arena.is_some() {
            self.freeze();
        }
        self.leave_region();
        self.pointed.kept = 0;
        let points = std::mem::take(&mut self.pointed.any);
        if self.layout == Layout::View {
            // A map that nothing points into is a dearer way to read than a copy.
            self.log.set_copying(if points {
                Copying::Active
            } else {
                Copying::Always
            });
        }
        self.done.share = self.done.share.saturating_add(self.columns.share());
        self.columns.finish()
    }
}
