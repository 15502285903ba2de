//! Windows of a `.log` whose batches were held against their checksums before somebody comes by them.
//!
//! Who recovers a segment has to see its batches one by one and in order, but most of the time goes into fetching them
//! and into their checksums. Threads do that ahead: each takes the next window and fetches it at once, waits only to be
//! told where the first batch in it begins, walks to the next window's first batch, tells where that is, and then works
//! out the checksums.
//!
//! What they say is a hint that spares work. They end at the first batch that is not as it should be, and say nothing
//! about it: whoever comes there looks for himself.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::io::file::{read_at, read_into};
use crate::io::region::spare;
use crate::types::Position;

/// Fits the second-level cache, so that what was fetched is still near when its checksum is worked out.
const WINDOW: u64 = 256 << 10;
/// Batches beyond this are left to who comes by: they would be held in memory whole.
const MAX_BATCH: usize = 1 << 20;
/// Less than this is done before a thread has begun.
const LEAST: u64 = 16 * WINDOW;
/// One that waits for memory is no quicker for being many.
const MOST_THREADS: usize = 4;
/// Windows for each thread that are fetched and not yet taken.
const AHEAD: u64 = 2;

/// A window, from where it was read.
#[derive(Debug)]
pub(super) struct Window {
    /// Where its bytes begin in the file.
    pub(super) start: Position,
    /// Where the first batch begins that begins in it.
    pub(super) first: Position,
    /// Up to the end of the last batch that begins in it.
    pub(super) bytes: Vec<u8>,
    /// From the first on, the batches that end here or before have the checksums they name.
    pub(super) checked: Position,
}

/// What came of fetching a window.
enum Came {
    Window(Window),
    NoBatch,
}

/// The threads that go ahead.
#[derive(Debug)]
pub(super) struct Ahead {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    file: File,
    /// The first batch begins here.
    begin: Position,
    end: Position,
    most: u64,
    state: Mutex<State>,
    told: Condvar,
}

#[derive(Debug)]
struct State {
    /// The first window that nobody fetches yet.
    free: u64,
    /// Windows walked; the first batch of the next one begins at `next_batch`.
    walked: u64,
    next_batch: Position,
    /// Those walked and not yet given; `None` while their checksums are worked out.
    ready: BTreeMap<u64, Option<Window>>,
    /// The window that is waited for, or was given last.
    wanted: u64,
    /// From this window on there will be none.
    over: u64,
}

impl Ahead {
    /// Begins at the batch at `begin`, for all up to `end`; `None` where that is not worth while or there is one
    /// processor.
    pub(super) fn start(file: &File, begin: Position, end: Position) -> Option<Self> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        if end.saturating_sub(begin) < LEAST || threads < 2 {
            return None;
        }
        Self::with_threads(file, begin, end, threads.min(MOST_THREADS)).ok()
    }

    fn with_threads(
        file: &File,
        begin: Position,
        end: Position,
        threads: usize,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            file: file.try_clone()?,
            begin,
            end,
            most: AHEAD.saturating_mul(threads as u64),
            state: Mutex::new(State {
                free: 0,
                walked: 0,
                next_batch: begin,
                ready: BTreeMap::new(),
                wanted: 0,
                over: u64::MAX,
            }),
            told: Condvar::new(),
        });
        let mut all = Self {
            shared,
            threads: Vec::with_capacity(threads),
        };
        for _ in 0..threads {
            let shared = Arc::clone(&all.shared);
            let thread = thread::Builder::new().name("kafkalog-ahead".to_owned());
            all.threads.push(thread.spawn(move || shared.work())?);
        }
        Ok(all)
    }

    /// The window in which the batch at `position` begins; `None` where nobody went there, or it was given before. It may
    /// end before the batch does.
    pub(super) fn window(&self, position: Position) -> Option<Window> {
        let shared = &self.shared;
        let wanted = shared.index(position)?;
        let mut state = shared.enter();
        if wanted > state.wanted {
            state.wanted = wanted;
            state.ready = state.ready.split_off(&wanted);
            shared.told.notify_all();
        }
        loop {
            let is_coming = match state.ready.get(&wanted) {
                Some(Some(_)) => return state.ready.remove(&wanted).flatten(),
                Some(None) => true,
                // Of those walked, what is not there has no batch that begins in it.
                None => wanted >= state.walked,
            };
            if !is_coming || wanted >= state.over {
                return None;
            }
            state = shared.wait(state);
        }
    }
}

impl State {
    /// Window `index` is walked, if it was not before.
    fn pass(&mut self, index: u64) {
        self.walked = self.walked.max(index.saturating_add(1));
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.shared.enter().over = 0;
        self.shared.told.notify_all();
        for thread in self.threads.drain(..) {
            // One that failed has said nothing that could be wrong.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn enter(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let state = self.told.wait(state);
        state.unwrap_or_else(PoisonError::into_inner)
    }

    /// The window that `position` lies in.
    fn index(&self, position: Position) -> Option<u64> {
        position.checked_sub(self.begin)?.checked_div(WINDOW)
    }

    /// What a thread does.
    fn work(&self) {
        while let Some(index) = self.take() {
            let mut over = Over {
                shared: self,
                from: Some(index),
            };
            let Some(came) = self.window(index) else {
                return;
            };
            over.from = None;
            if let Came::Window(window) = came
                && let Some(place) = self.enter().ready.get_mut(&index)
            {
                *place = Some(window);
            }
            self.told.notify_all();
        }
    }

    /// The next window to fetch, once there is room for it.
    fn take(&self) -> Option<u64> {
        let mut state = self.enter();
        loop {
            let index = state.free.max(state.walked);
            let is_behind = index.saturating_mul(WINDOW) >= self.end.saturating_sub(self.begin);
            if is_behind || index >= state.over {
                state.over = state.over.min(index);
                self.told.notify_all();
                return None;
            }
            if index < state.wanted.saturating_add(self.most) {
                state.free = index.saturating_add(1);
                return Some(index);
            }
            state = self.wait(state);
        }
    }

    /// Fetches a window and checks its batches; `None` where nobody needs to go on.
    fn window(&self, index: u64) -> Option<Came> {
        let start = self
            .begin
            .saturating_add(index.saturating_mul(WINDOW))
            .min(self.end);
        let behind = start.saturating_add(WINDOW).min(self.end);
        let len = usize::try_from(behind.saturating_sub(start)).ok()?;
        let mut bytes = spare(len);
        read_into(&self.file, &mut bytes, start, len).ok()?;
        let first = self.first_batch(index)?;
        if first >= behind {
            self.enter().pass(index);
            return Some(Came::NoBatch);
        }
        let mut batches = Vec::new();
        let (mut position, mut is_over) = (first, false);
        while position < behind {
            let Some(header) = self.batch(&mut bytes, start, position) else {
                is_over = true;
                break;
            };
            let next = position.saturating_add(header.size as u64);
            batches.push((position, header));
            position = next;
        }
        self.tell(index, position, is_over);
        let mut checked = first;
        for (position, header) in batches {
            let at = usize::try_from(position.saturating_sub(start)).ok()?;
            let end = at.saturating_add(header.size);
            let is_whole = header.is_legacy() || header.size >= RECORD_BATCH_OVERHEAD;
            match bytes.get(at..end) {
                Some(batch) if is_whole && header.computed_crc(batch) == header.crc => {
                    checked = position.saturating_add(header.size as u64);
                }
                _ => break,
            }
        }
        Some(Came::Window(Window {
            start,
            first,
            bytes,
            checked,
        }))
    }

    /// Where the first batch begins that does not begin before a window, once that is known; `None` where it never will be.
    fn first_batch(&self, index: u64) -> Option<Position> {
        let mut state = self.enter();
        while state.walked < index {
            if index >= state.over {
                return None;
            }
            state = self.wait(state);
        }
        Some(state.next_batch)
    }

    /// The header of the batch at `position`, its bytes fetched too unless they are too many; `None` where there is no
    /// batch.
    fn batch(
        &self,
        bytes: &mut Vec<u8>,
        start: Position,
        position: Position,
    ) -> Option<BatchHeader> {
        let at = usize::try_from(position.checked_sub(start)?).ok()?;
        self.extend(bytes, start, at.saturating_add(RECORD_BATCH_OVERHEAD))?;
        let left = self.end.saturating_sub(position);
        let header = BatchHeader::in_file(bytes.get(at..)?, left).ok()??;
        if header.size <= MAX_BATCH {
            self.extend(bytes, start, at.saturating_add(header.size))?;
        }
        Some(header)
    }

    /// Fetches what the bytes lack up to `len`, or up to the end.
    fn extend(&self, bytes: &mut Vec<u8>, start: Position, len: usize) -> Option<()> {
        let most = usize::try_from(self.end.saturating_sub(start)).unwrap_or(usize::MAX);
        let (held, len) = (bytes.len(), len.min(most));
        if held < len {
            bytes.resize(len, 0);
            let behind = start.saturating_add(held as u64);
            let read = read_at(&self.file, bytes.get_mut(held..)?, behind).ok()?;
            bytes.truncate(held.saturating_add(read));
        }
        Some(())
    }

    /// Window `index` is walked: the next batch begins at `position`.
    fn tell(&self, index: u64, position: Position, is_over: bool) {
        let mut state = self.enter();
        if index >= state.wanted {
            state.ready.insert(index, None);
        }
        state.next_batch = position;
        state.walked = self.index(position).unwrap_or(index);
        state.pass(index);
        if is_over {
            state.over = state.over.min(index.saturating_add(1));
        }
        self.told.notify_all();
    }
}

/// Ends it all from a window on, unless that window came about: whoever waits for it is not left waiting.
struct Over<'a> {
    shared: &'a Shared,
    from: Option<u64>,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        if let Some(from) = self.from {
            let mut state = self.shared.enter();
            state.over = state.over.min(from);
            self.shared.told.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
