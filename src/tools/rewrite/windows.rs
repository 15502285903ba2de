//! Batches on their way from a log's segments into the output, a window at a time.
//!
//! Threads filter a window, each a share of its batches. Meanwhile the caller writes what came of the window before and
//! reads the one after, so that decompressing and compressing keeps all processors busy, and the order stays:
//!
//! | caller | threads |
//! |---|---|
//! | reads 0 | |
//! | reads 1 | filter 0 |
//! | writes 0, reads 2 | filter 1 |
//! | writes 1, reads 3 | filter 2 |

use std::ops::Range;
use std::path::PathBuf;
use std::{thread, vec};

use super::drops::Dropping;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::format::entry::AbortedTxn;
use crate::format::file_name::FileKind;
use crate::io::interrupt;
use crate::io::overlay::Overlay;
use crate::load::Plan;
use crate::records::filtered::{BatchFilter, Filtered};
use crate::segment::source::Access;
use crate::segment::walk::LogWalk;
use crate::segment::writer::WritableSegment;
use crate::types::{Offset, Position, TimestampMs};

/// Bytes of batches that are filtered together.
const WINDOW: usize = 4 << 20;

/// What the output is told where a segment begins.
pub(super) struct Beginning {
    pub(super) base_offset: Offset,
    pub(super) modified_ms: Option<TimestampMs>,
    pub(super) aborted: Vec<AbortedTxn>,
}

/// A batch in a window.
struct Placed {
    /// In the file.
    position: Position,
    header: BatchHeader,
    range: Range<usize>,
}

/// Batches of one segment that follow one another.
pub(super) struct Window {
    path: PathBuf,
    /// Of the first window of a segment.
    pub(super) begins: Option<Beginning>,
    bytes: Vec<u8>,
    batches: Vec<Placed>,
    /// After the batch before.
    next_offset: Offset,
}

impl Window {
    /// The batches of each of so many shares, of about as many bytes.
    fn shares(&self, count: usize) -> impl Iterator<Item = Range<usize>> {
        let bound = move |n: usize| {
            let bytes = self.bytes.len().saturating_mul(n);
            let from = bytes.checked_div(count).unwrap_or_default();
            self.batches
                .partition_point(|placed| placed.range.start < from)
        };
        (0..count).map(move |n| {
            let end = n.saturating_add(1);
            let end = if end == count {
                self.batches.len()
            } else {
                bound(end)
            };
            bound(n)..end
        })
    }
}

/// Reads the windows of a log.
pub(super) struct Windows<'a> {
    plan: &'a Plan,
    segments: vec::IntoIter<&'a WritableSegment<Overlay>>,
    walk: Option<(&'a WritableSegment<Overlay>, LogWalk)>,
    next_offset: Offset,
    asks_aborted: bool,
    /// Bytes of the segments so far.
    pub(super) size: u64,
}

impl<'a> Windows<'a> {
    /// `asks_aborted`: where aborted transactions are to be told, too.
    pub(super) fn of(plan: &'a Plan, asks_aborted: bool) -> Self {
        Self {
            plan,
            segments: plan.segments().collect::<Vec<_>>().into_iter(),
            walk: None,
            next_offset: 0,
            asks_aborted,
            size: 0,
        }
    }

    /// The next window; nothing at the end of the log.
    ///
    /// # Errors
    /// `CorruptRecord` for a batch that is not whole, or whose checksum is wrong; `Io`; `Interrupted`.
    pub(super) fn next(&mut self) -> Result<Option<Window>> {
        interrupt::check()?;
        let begins = if self.walk.is_some() {
            None
        } else {
            let Some(segment) = self.segments.next() else {
                return Ok(None);
            };
            let size = segment.size();
            self.size = self.size.saturating_add(size);
            self.walk = Some((segment, segment.walk(0, size, Access::Records)?));
            Some(Beginning {
                base_offset: segment.base_offset(),
                modified_ms: self.plan.modified_ms(&segment.name(FileKind::Log)),
                aborted: if self.asks_aborted {
                    segment.aborted()?
                } else {
                    Vec::new()
                },
            })
        };
        let Some((segment, mut walk)) = self.walk.take() else {
            return Ok(None);
        };
        let mut window = Window {
            path: segment.path().to_path_buf(),
            begins,
            bytes: Vec::new(),
            batches: Vec::new(),
            next_offset: self.next_offset,
        };
        while window.bytes.len() < WINDOW {
            let Some((position, header)) = walk.next_batch()? else {
                ensure_at_end(segment, &walk)?;
                return Ok(Some(window));
            };
            walk.ensure_valid(position, &header)?;
            self.next_offset = header.next_offset();
            let start = window.bytes.len();
            window
                .bytes
                .extend_from_slice(walk.bytes(position, header.size)?);
            window.batches.push(Placed {
                position,
                header,
                range: start..window.bytes.len(),
            });
        }
        self.walk = Some((segment, walk));
        Ok(Some(window))
    }
}

fn ensure_at_end(segment: &WritableSegment<Overlay>, walk: &LogWalk) -> Result<()> {
    let left = segment.size().saturating_sub(walk.position());
    if left == 0 {
        return Ok(());
    }
    let found = format_args!("{left} bytes");
    let error = Error::corrupt("batch", walk.position(), "a whole batch", found);
    Err(error.at(segment.path()))
}

/// What came of a share.
#[derive(Default)]
pub(super) struct Share {
    bytes: Vec<u8>,
    /// Where each ends in `bytes`, what became of it, and its header before.
    batches: Vec<(usize, Filtered, BatchHeader)>,
}

impl Share {
    /// The batches, in order, with their bytes.
    pub(super) fn batches(
        self,
        mut see: impl FnMut(&[u8], Filtered, BatchHeader) -> Result<()>,
    ) -> Result<()> {
        let mut start = 0;
        for (end, filtered, header) in self.batches {
            see(
                self.bytes.get(start..end).unwrap_or_default(),
                filtered,
                header,
            )?;
            start = end;
        }
        Ok(())
    }
}

/// Filters shares of windows, one after the other.
pub(super) struct Worker<'a> {
    pub(super) filter: BatchFilter,
    pub(super) dropping: Dropping<'a>,
}

impl Worker<'_> {
    fn work(&mut self, window: &Window, share: Range<usize>) -> Result<Share> {
        let before = share.start.checked_sub(1);
        let before = before.and_then(|at| window.batches.get(at));
        let next_offset = before.map_or(window.next_offset, |placed| placed.header.next_offset());
        self.dropping.go_on_at(next_offset);
        let mut done = Share::default();
        for placed in window.batches.get(share).unwrap_or_default() {
            let batch = window.bytes.get(placed.range.clone()).unwrap_or_default();
            let filtered = self
                .filter
                .filter(batch, &placed.header, &mut self.dropping, &mut done.bytes)
                .map_err(|error| error.shift(placed.position).at(&window.path))?;
            done.batches
                .push((done.bytes.len(), filtered, placed.header.clone()));
        }
        Ok(done)
    }
}

/// Has the workers filter a window, and does something meanwhile. One worker needs no thread.
pub(super) fn filter<T>(
    workers: &mut [Worker<'_>],
    window: &Window,
    meanwhile: impl FnOnce() -> T,
) -> (Result<Vec<Share>>, T) {
    if let [worker] = workers {
        let share = worker.work(window, 0..window.batches.len());
        return (share.map(|share| vec![share]), meanwhile());
    }
    let shares = window.shares(workers.len());
    thread::scope(|scope| {
        let start = |(worker, share): (_, Range<usize>)| spawn(scope, worker, window, share);
        let threads: Vec<_> = workers.iter_mut().zip(shares).map(start).collect();
        let did = meanwhile();
        let join = |thread: Result<thread::ScopedJoinHandle<'_, Result<Share>>>| {
            let joined = thread?.join();
            joined.unwrap_or_else(|panic| Err(Error::panicked(panic.as_ref())))
        };
        (threads.into_iter().map(join).collect(), did)
    })
}

fn spawn<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    worker: &'scope mut Worker<'_>,
    window: &'scope Window,
    share: Range<usize>,
) -> Result<thread::ScopedJoinHandle<'scope, Result<Share>>> {
    let thread = thread::Builder::new().name("kafkalog-rewrite".to_owned());
    let started = thread.spawn_scoped(scope, move || worker.work(window, share));
    started.map_err(Error::io(&window.path))
}
