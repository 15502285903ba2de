//! Planned ranges as a stream of record batches.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::columns::{ColumnOptions, Columns, FULL, Rows};
use super::pool::region_buffer;
use super::schema::Layout;
use crate::error::{Error, Result};
use crate::io::region::Region;
use crate::log::pieces::{Pieces, Uncharted};
use crate::log::range::PartitionRange;
use crate::log::reader::LogReader;
use crate::records::chunk::{Arena, Source};
use crate::segment::reader::{Metrics, ReadOptions};
use crate::segment::source::Copying;

/// Finished batches of a piece that wait for the consumer; a thread that has more of them waits itself.
const QUEUE: usize = 2;
/// Pieces under way for each thread: one that it reads, and one that waits for it or for the consumer. What is read
/// ahead of the consumer is bounded by this, however many pieces there are.
const UNDER_WAY: usize = 2;
/// About how much of a log a thread reads at a time: what makes a batch, going by what earlier pieces made, within
/// these bounds. More of it would only wait for its turn, in memory that is cold by then.
const PIECE_BYTES: std::ops::RangeInclusive<u64> = 256 << 10..=8 << 20;

/// Reads ranges in order on the calling thread.
#[derive(Debug)]
pub struct RecordReader {
    log: LogReader,
    columns: Columns,
    layout: Layout,
    /// The region of the last chunk and its place among the view columns' buffers.
    last_region: Option<(Region, u32)>,
    /// The place kept for the arena, if a chunk of this batch is in it.
    arena: Option<u32>,
    failed: Option<Error>,
    done: Done,
    ended: bool,
}

/// What was done so far.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    metrics: Metrics,
    rows: u64,
    /// What the batches came to, in parts of a full one ([`FULL`]).
    share: u64,
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
        let layout = columns.layout;
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
    fn restart(&mut self, ranges: Vec<PartitionRange>) {
        self.log.restart(ranges);
        self.failed = None;
        self.done = Done::default();
        self.ended = false;
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
                return self.finish().map(Some);
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
        let (fits, bytes) = self.columns.fits(slots, source, work.chunk.encoded());
        let full = fits < slots.len();
        if fits > 0 {
            let slots = slots.get(..fits).unwrap_or_default();
            let rows = Rows {
                slots,
                runs: work.chunk.runs(),
                source,
                buffer,
                context: self.log.context(),
            };
            self.columns.append(&rows, bytes)?;
        }
        self.done.rows = self.done.rows.saturating_add(fits as u64);
        self.log.work.chunk.consume(fits);
        Ok(full)
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
                    self.columns.sources.set(at, region_buffer(&region));
                    self.last_region = Some((region, at));
                    at
                }
            },
        }
    }

    fn freeze(&mut self) {
        let region = self.log.freeze();
        if let Some(at) = self.arena.take() {
            self.columns.sources.set(at, region_buffer(&region));
        }
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        if self.arena.is_some() {
            self.freeze();
        }
        self.last_region = None;
        if self.layout == Layout::View {
            // A map that nothing points into is a dearer way to read than a copy.
            let points = self.columns.points_into_sources();
            self.log.copying = if points {
                Copying::Active
            } else {
                Copying::Always
            };
        }
        self.done.share = self.done.share.saturating_add(self.columns.share());
        self.columns.finish()
    }
}

/// Reads ranges with several threads, giving batches in the same order as one would; they end where pieces do.
#[derive(Debug)]
pub struct ParallelReader {
    schema: SchemaRef,
    /// Not handed out yet.
    pieces: Pieces,
    /// `None` when all is handed out, or nothing more will be.
    hand_out: Option<Sender<Task>>,
    /// Handed out, in order.
    under_way: VecDeque<Receiver<Step>>,
    threads: Vec<JoinHandle<()>>,
    done: Done,
}

/// What a thread tells of a piece.
enum Step {
    Batch(RecordBatch),
    /// There is no more behind this batch, if there is one.
    End(Option<RecordBatch>, Done),
    Failed(Error),
}

type Task = (Vec<PartitionRange>, SyncSender<Step>);

impl ParallelReader {
    /// Starts the threads.
    ///
    /// # Errors
    /// `InvalidArgument` for options that make no sense; `Io` where no thread can be started.
    pub fn try_new(
        ranges: Vec<PartitionRange>,
        threads: usize,
        options: ReadOptions,
        columns: &ColumnOptions,
    ) -> Result<Self> {
        let schema = RecordReader::try_new(Vec::new(), options, columns.clone())?.schema();
        let size = columns.batch_bytes as u64 / 4;
        let size = size.clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end());
        let total = ranges
            .iter()
            .map(PartitionRange::bytes)
            .fold(0, u64::saturating_add);
        let most =
            usize::try_from(total.checked_div(size).unwrap_or_default()).unwrap_or(usize::MAX);
        let (hand_out, tasks) = channel();
        let tasks = Arc::new(Mutex::new(tasks));
        let workers = threads.min(most.saturating_add(1));
        let mut handles = Vec::with_capacity(workers);
        for _ in 0..workers {
            let (tasks, columns) = (Arc::clone(&tasks), columns.clone());
            let handle = std::thread::Builder::new()
                .name("kafkalog-reader".to_owned())
                .spawn(move || work(&tasks, options, columns))
                .map_err(Error::io("thread"))?;
            handles.push(handle);
        }
        Ok(Self {
            schema,
            pieces: Pieces::new(ranges, size, Uncharted::Walk),
            hand_out: Some(hand_out),
            under_way: VecDeque::new(),
            threads: handles,
            done: Done::default(),
        })
    }

    /// The schema of every batch.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// What was done so far, by pieces that ended.
    #[must_use]
    pub const fn metrics(&self) -> (Metrics, u64) {
        (self.done.metrics, self.done.rows)
    }

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// What reading finds; nothing comes behind it.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            self.hand_out();
            let Some(piece) = self.under_way.front() else {
                return Ok(None);
            };
            match piece.recv() {
                Ok(Step::Batch(batch)) => return Ok(Some(batch)),
                Ok(Step::End(batch, done)) => {
                    self.under_way.pop_front();
                    self.end(&done);
                    if batch.is_some() {
                        self.hand_out();
                        return Ok(batch);
                    }
                }
                Ok(Step::Failed(error)) => {
                    self.stop();
                    return Err(error);
                }
                // Never a quiet end: without it rows would be missing.
                Err(_) => {
                    self.stop();
                    return Err(Error::Io {
                        path: "kafkalog-reader".into(),
                        source: std::io::Error::other("a reading thread ended before its piece"),
                    });
                }
            }
        }
    }

    /// Counts a piece. Those to come are made to give a batch, not quite full, so that they do not give two.
    fn end(&mut self, done: &Done) {
        self.done.metrics.add(&done.metrics);
        self.done.rows = self.done.rows.saturating_add(done.rows);
        let aim = done.metrics.bytes.saturating_mul(FULL / 8 * 7);
        let size = aim.checked_div(done.share).unwrap_or(*PIECE_BYTES.end());
        self.pieces
            .set_size(size.clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end()));
    }

    /// Keeps the threads busy.
    fn hand_out(&mut self) {
        let most = self.threads.len().saturating_mul(UNDER_WAY);
        while self.under_way.len() < most
            && let Some(hand_out) = &self.hand_out
        {
            let Some(piece) = self.pieces.next() else {
                self.hand_out = None;
                return;
            };
            let (sender, receiver) = sync_channel(QUEUE);
            // Where no thread is left to take it, its receiver tells.
            drop(hand_out.send((piece, sender)));
            self.under_way.push_back(receiver);
        }
    }

    /// Hands nothing out any more; no send succeeds either, so the threads end.
    fn stop(&mut self) {
        self.hand_out = None;
        self.under_way.clear();
    }
}

impl Drop for ParallelReader {
    fn drop(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

fn work(tasks: &Mutex<Receiver<Task>>, options: ReadOptions, columns: ColumnOptions) {
    // One reader for all pieces, for its contexts and what it knows of sizes. Its options were tried before; should it
    // fail all the same, the consumer finds nobody at the other end and says so.
    let Ok(mut reader) = RecordReader::try_new(Vec::new(), options, columns) else {
        return;
    };
    loop {
        let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((ranges, sender)) = task else { return };
        reader.restart(ranges);
        loop {
            let step = match reader.next_batch() {
                Ok(Some(batch)) if !reader.ended => Step::Batch(batch),
                Ok(batch) => {
                    let metrics = reader.log.work.metrics;
                    let done = Done {
                        metrics,
                        ..reader.done
                    };
                    Step::End(batch, done)
                }
                Err(error) => Step::Failed(error),
            };
            let (failed, ended) = (matches!(step, Step::Failed(_)), reader.ended);
            if sender.send(step).is_err() || failed {
                // The consumer is gone, or will not read on behind an error.
                return;
            }
            if ended {
                break;
            }
        }
    }
}
