//! Planned ranges as a stream of record batches, read by several threads.
//!
//! The ranges are cut into pieces of about a batch each. Each free thread takes the next piece, and the consumer gets
//! the batches in order. The consumer's own thread reads too: instead of waiting it takes a piece. So exactly the
//! requested number of threads is at work.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_array::RecordBatch;

use super::columns::FULL;
use super::reader::{DecodeCounts, RangeReader, ReadProgress};
use super::schema::ColumnOptions;
use crate::error::{Error, Result};
use crate::io::interrupt;
use crate::io::threads::{lock, wait};
use crate::records::search::RecordSearch;
use crate::scan::lost::{self, LostRange};
use crate::scan::pieces::{NoIndexEntry, Pieces};
use crate::scan::range::PartitionRange;
use crate::segment::metrics::Metrics;
use crate::segment::reader::ReadOptions;

/// Finished batches of a piece that wait for the consumer; a thread that has more of them waits itself.
const QUEUE: usize = 2;
/// Pieces under way for each thread: one that it reads, and one that waits for the consumer. What is read ahead of the
/// consumer is bounded by this, however many pieces there are.
const UNDER_WAY: usize = 2;
/// About how much of a log a thread reads at a time: what makes a batch, judging by earlier pieces, within these
/// bounds. More would only wait for its turn, in memory that is cold by then.
const PIECE_BYTES: RangeInclusive<u64> = 64 << 10..=8 << 20;
/// Likewise in a store, where a piece takes two round trips, for its cut and its first window, before there is a batch.
const STORED_PIECE_BYTES: RangeInclusive<u64> = 32 << 20..=32 << 20;
/// Interval at which the waiting consumer checks for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Reads ranges with several threads. Batches come in the same order as from one thread; they end where pieces end.
#[derive(Debug)]
pub struct ParallelReader {
    shared: Arc<PieceQueue>,
    /// Taken by a thread or by us, in order.
    under_way: VecDeque<PieceSource>,
    own: Own,
    threads: Vec<JoinHandle<()>>,
    /// The process that has the threads. In a fork of it they are gone, and a lock that one of them held stays locked.
    process: u32,
    piece_bytes: RangeInclusive<u64>,
    done: ReadProgress,
}

/// State that the threads share.
#[derive(Debug)]
struct PieceQueue {
    /// Not taken yet; under a lock of its own, as finding the next piece takes a while.
    pieces: Mutex<Pieces>,
    state: Mutex<QueueState>,
    /// Notified when fewer pieces are under way, or there are no more.
    room: Condvar,
    /// The consumer wants no more.
    is_stopped: AtomicBool,
}

#[derive(Debug)]
struct QueueState {
    /// Taken, in order, and not yet known to the consumer.
    taken: VecDeque<PieceSource>,
    /// Being looked for, or taken and not yet given to the consumer as a whole.
    under_way: usize,
    /// Most pieces under way.
    most: usize,
    /// About how large the next one should be.
    size: u64,
    /// Threads that wait for room.
    waiting: usize,
    /// There are no more pieces, or none is wanted any more.
    has_ended: bool,
}

/// State of a piece.
#[derive(Debug)]
enum PieceSource {
    /// A thread that will send what it makes of it.
    Sent(Receiver<PieceStep>),
    Own,
}

/// Step of reading a piece.
#[derive(Debug)]
enum PieceStep {
    Batch(RecordBatch),
    /// There is no more after this batch, if there is one.
    End(Option<RecordBatch>, ReadProgress),
    Failed(Error),
}

/// Piece that the consumer's thread reads.
#[derive(Debug)]
struct Own {
    reader: RangeReader,
    /// In the middle of a piece.
    is_reading: bool,
    /// Of our pieces, in order.
    steps: VecDeque<PieceStep>,
}

impl ParallelReader {
    /// Starts the threads; the caller's is one of them.
    ///
    /// # Errors
    /// `InvalidArgument` for options that make no sense; `Io` where no thread can be started.
    pub fn try_new(
        ranges: Vec<PartitionRange>,
        threads: usize,
        options: ReadOptions,
        columns: &ColumnOptions,
        search: Option<&Arc<RecordSearch>>,
    ) -> Result<Self> {
        let reader = RangeReader::try_new(Vec::new(), options, columns.clone())?;
        let reader = reader.searching(search.cloned());
        let size = columns.batch_bytes as u64 / 4;
        // In a store, a walk over headers would fetch what is read by others.
        let (piece_bytes, no_index_entry) = if ranges.iter().all(|range| range.folder.has_maps()) {
            (PIECE_BYTES, NoIndexEntry::WalkHeaders)
        } else {
            (STORED_PIECE_BYTES, NoIndexEntry::KeepWhole)
        };
        let size = size.clamp(*piece_bytes.start(), *piece_bytes.end());
        let total = ranges
            .iter()
            .map(PartitionRange::bytes)
            .fold(0, u64::saturating_add);
        let pieces =
            usize::try_from(total.checked_div(size).unwrap_or_default()).unwrap_or(usize::MAX);
        let others = threads.saturating_sub(1).min(pieces);
        let shared = Arc::new(PieceQueue {
            pieces: Mutex::new(
                Pieces::new(ranges, size, no_index_entry).on_corrupt(options.on_corrupt),
            ),
            state: Mutex::new(QueueState {
                taken: VecDeque::new(),
                under_way: 0,
                most: others.saturating_add(1).saturating_mul(UNDER_WAY),
                size,
                waiting: 0,
                has_ended: false,
            }),
            room: Condvar::new(),
            is_stopped: AtomicBool::new(false),
        });
        let mut all = Self {
            shared,
            under_way: VecDeque::new(),
            own: Own {
                reader,
                is_reading: false,
                steps: VecDeque::new(),
            },
            threads: Vec::with_capacity(others),
            process: std::process::id(),
            piece_bytes,
            done: ReadProgress::default(),
        };
        for _ in 0..others {
            let (shared, columns) = (Arc::clone(&all.shared), columns.clone());
            let search = search.cloned();
            let handle = std::thread::Builder::new()
                .name("kafkalog-reader".to_owned())
                .spawn(move || {
                    let polled = Arc::clone(&shared);
                    let poll = move || polled.is_stopped.load(Ordering::Relaxed);
                    interrupt::with_cancellation(poll, || work(&shared, options, columns, search));
                })
                .map_err(Error::io("thread"))?;
            all.threads.push(handle);
        }
        Ok(all)
    }

    /// Counts so far, of pieces that ended.
    #[must_use]
    pub const fn metrics(&self) -> (Metrics, u64) {
        (self.done.metrics, self.done.rows)
    }

    /// Counts of decoded keys and values so far, of pieces that ended.
    pub(crate) const fn decode_counts(&self) -> DecodeCounts {
        self.done.decoded
    }

    /// Takes the ranges that were skipped, in pieces that ended, since the last call.
    pub fn take_lost(&mut self) -> Vec<LostRange> {
        std::mem::take(&mut self.done.lost)
    }

    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// What reading finds; nothing comes after it. `InvalidArgument` in a process that was forked since it began.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.is_forked() {
            return Err(Error::InvalidArgument(
                "this reader's threads are in the process that began to read; scan again in this one".to_owned(),
            ));
        }
        loop {
            if let Err(interrupted) = interrupt::check() {
                self.stop();
                return Err(interrupted);
            }
            self.shared.enter().tell(&mut self.under_way);
            let step = match self.under_way.front() {
                Some(PieceSource::Own) => self.own.steps.pop_front(),
                Some(PieceSource::Sent(receiver)) => match receiver.try_recv() {
                    Ok(step) => Some(step),
                    Err(TryRecvError::Disconnected) => Some(PieceStep::Failed(ended_early())),
                    Err(TryRecvError::Empty) => None,
                },
                None => None,
            };
            let step = match step {
                Some(step) => step,
                None if self.read() => continue,
                None => match self.under_way.front() {
                    Some(PieceSource::Sent(receiver)) => match receiver.recv_timeout(POLL_INTERVAL)
                    {
                        Ok(step) => step,
                        Err(RecvTimeoutError::Timeout) => continue,
                        Err(RecvTimeoutError::Disconnected) => PieceStep::Failed(ended_early()),
                    },
                    Some(PieceSource::Own) => PieceStep::Failed(ended_early()),
                    // A thread that fails while looking for a piece loses the piece.
                    None if self.shared.pieces.is_poisoned() => PieceStep::Failed(ended_early()),
                    None => return Ok(None),
                },
            };
            match step {
                PieceStep::Batch(batch) => return Ok(Some(batch)),
                PieceStep::End(batch, done) => {
                    self.under_way.pop_front();
                    self.end(done);
                    if batch.is_some() {
                        return Ok(batch);
                    }
                }
                PieceStep::Failed(error) => {
                    self.stop();
                    return Err(error);
                }
            }
        }
    }

    /// Reads a step of a piece of our own; false where there is none to be read now.
    fn read(&mut self) -> bool {
        if !self.own.is_reading {
            let ranges = self
                .shared
                .reserve(false)
                .then(|| self.shared.take(PieceSource::Own));
            // Others may have taken pieces since, which come before.
            self.shared.enter().tell(&mut self.under_way);
            let Some(Some(ranges)) = ranges else {
                return false;
            };
            self.own.reader.restart(ranges);
            self.own.is_reading = true;
        } else if self.own.steps.len() > QUEUE {
            return false;
        }
        let step = step(&mut self.own.reader);
        self.own.is_reading = matches!(step, PieceStep::Batch(_));
        self.own.steps.push_back(step);
        true
    }

    /// Counts a piece. Those to come are made to give a batch, not quite full, so that they do not give two.
    fn end(&mut self, done: ReadProgress) {
        for range in done.lost {
            lost::add(&mut self.done.lost, range);
        }
        self.done.metrics.add(&done.metrics);
        self.done.rows = self.done.rows.saturating_add(done.rows);
        self.done.decoded.add(done.decoded);
        let aim = done.metrics.bytes.saturating_mul(FULL / 8 * 7);
        let (least, most) = (*self.piece_bytes.start(), *self.piece_bytes.end());
        let size = aim.checked_div(done.share).unwrap_or(most);
        let mut state = self.shared.enter();
        state.size = size.clamp(least, most);
        state.under_way = state.under_way.saturating_sub(1);
        if state.waiting > 0 {
            self.shared.room.notify_one();
        }
    }

    fn is_forked(&self) -> bool {
        !self.threads.is_empty() && self.process != std::process::id()
    }

    /// No piece is taken any more; no send succeeds either, so the threads end.
    fn stop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        let mut state = self.shared.enter();
        state.has_ended = true;
        state.taken.clear();
        drop(state);
        self.shared.room.notify_all();
        self.under_way.clear();
        self.own.steps.clear();
        self.own.is_reading = false;
    }
}

impl Drop for ParallelReader {
    fn drop(&mut self) {
        if self.is_forked() {
            // No thread to wait for; what they shared with us cannot even be examined.
            std::mem::forget(std::mem::take(&mut self.under_way));
            std::mem::forget(std::mem::take(&mut self.threads));
            return;
        }
        self.stop();
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl PieceQueue {
    fn enter(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }

    /// Reserves room for one more piece; false if there is none. `waits` says whether to wait for it.
    fn reserve(&self, waits: bool) -> bool {
        let mut state = self.enter();
        while waits && !state.has_ended && state.under_way >= state.most {
            state.waiting = state.waiting.saturating_add(1);
            state = wait(&self.room, state);
            state.waiting = state.waiting.saturating_sub(1);
        }
        let may = !state.has_ended && state.under_way < state.most;
        state.under_way = state.under_way.saturating_add(usize::from(may));
        may
    }

    /// Takes the next piece, for which there is room, and tells the consumer; `None` when there are no more.
    fn take(&self, piece: PieceSource) -> Option<Vec<PartitionRange>> {
        let mut pieces = lock(&self.pieces);
        pieces.set_size(self.enter().size);
        let ranges = pieces.next();
        // Told before another thread can find the next piece: the order of the pieces is that of the telling.
        let mut state = self.enter();
        if ranges.is_some() && !state.has_ended {
            state.taken.push_back(piece);
            return ranges;
        }
        state.has_ended = true;
        state.under_way = state.under_way.saturating_sub(1);
        drop(state);
        self.room.notify_all();
        None
    }
}

impl QueueState {
    /// Tells the consumer of the pieces that were taken.
    fn tell(&mut self, under_way: &mut VecDeque<PieceSource>) {
        under_way.append(&mut self.taken);
    }
}

/// The error for a thread that ended too early: rows would be missing without it.
fn ended_early() -> Error {
    Error::Io {
        path: "kafkalog-reader".into(),
        source: std::io::Error::other("a reading thread ended before its piece"),
    }
}

/// Reads on in a piece.
fn step(reader: &mut RangeReader) -> PieceStep {
    match reader.next_batch() {
        Ok(Some(batch)) if !reader.has_ended() => PieceStep::Batch(batch),
        Ok(batch) => PieceStep::End(batch, reader.take_done()),
        Err(error) => PieceStep::Failed(error),
    }
}

fn work(
    shared: &PieceQueue,
    options: ReadOptions,
    columns: ColumnOptions,
    search: Option<Arc<RecordSearch>>,
) {
    // One reader for all pieces, for its contexts and what it knows of sizes. Its options were tried before; should it
    // fail all the same, the others read all.
    let Ok(mut reader) = RangeReader::try_new(Vec::new(), options, columns) else {
        return;
    };
    reader = reader.searching(search);
    while shared.reserve(true) {
        let (sender, receiver) = sync_channel(QUEUE);
        let Some(ranges) = shared.take(PieceSource::Sent(receiver)) else {
            return;
        };
        reader.restart(ranges);
        loop {
            let step = step(&mut reader);
            let (ended, failed) = (
                matches!(step, PieceStep::End(..)),
                matches!(step, PieceStep::Failed(_)),
            );
            if sender.send(step).is_err() || failed {
                // The consumer is gone, or will not read on after an error.
                return;
            }
            if ended {
                break;
            }
        }
    }
}
