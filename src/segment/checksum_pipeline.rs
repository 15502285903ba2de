//! Checksums of a `.log`, made by several threads before the pass over it comes by.
//!
//! The threads take windows of the file in turn. A thread only needs the position of the first batch in its window,
//! from the thread that has the window before; the slow steps run in parallel:
//!
//! | | thread 1 | thread 2 |
//! |---|---|---|
//! | reads | window 0 | window 1 |
//! | receives | 0 | the end of the last batch of window 0 |
//! | walks, header to header | and sends its end to thread 2 | and sends its end to thread 1 |
//! | sums | the batches that begin in it | the same |
//!
//! The consumer gets whole batches with right checksums, in order. The first that is anything else ends it and is then
//! read as without threads, so that errors are the same with and without them.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::vec;

use crate::error::Result;
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};
use crate::io::file::read_into;
use crate::io::interrupt;
use crate::io::storage::ReadFile;
use crate::io::threads::processors;
use crate::types::Position;

/// Bytes that a thread reads at a time: they fit the second-level cache, and take longer than waking the thread that
/// waits for them.
const WINDOW: usize = 512 << 10;
/// With the header of a batch that begins in it and ends after.
const WINDOW_AND_HEADER: usize = WINDOW + RECORD_BATCH_OVERHEAD;
/// Less is done before the threads have started.
const MIN_BYTES: u64 = 8 * WINDOW as u64;
/// A longer window, for a batch that ends far after it, is not worth the memory.
const MAX_BUFFER: usize = 4 << 20;
/// More would wait for the memory.
const MAX_THREADS: usize = 4;

/// Result for one window.
#[derive(Debug, Default)]
struct WindowRun {
    batches: Vec<(Position, BatchHeader)>,
    /// The next window's batches follow without a fault between.
    continues: bool,
}

/// The batches of a file up to the first fault.
#[derive(Debug)]
pub(super) struct ChecksumPipeline {
    /// Our part; `None` once the threads are to end, as the first waits for its messages.
    own: Option<ThreadWindows>,
    /// Results of the other threads.
    others: Vec<Receiver<WindowRun>>,
    /// Index of the thread whose window is next: ours, then theirs.
    turn: usize,
    run: vec::IntoIter<(Position, BatchHeader)>,
    continues: bool,
    threads: Vec<JoinHandle<()>>,
}

impl ChecksumPipeline {
    /// Starts threads on the bytes of `file` from `begin`, where a batch begins, to `end`; `None` where they would not
    /// help, or none are available.
    pub(super) fn start(file: &Arc<dyn ReadFile>, begin: Position, end: Position) -> Option<Self> {
        let threads = processors().min(MAX_THREADS);
        if threads < 2 || end.saturating_sub(begin) < MIN_BYTES {
            return None;
        }
        Self::with_threads(file, begin, end, threads).ok()
    }

    /// The caller's thread is one of them.
    fn with_threads(
        file: &Arc<dyn ReadFile>,
        begin: Position,
        end: Position,
        threads: usize,
    ) -> io::Result<Self> {
        let mut ahead = Self {
            own: None,
            others: Vec::new(),
            turn: 0,
            run: Vec::new().into_iter(),
            continues: true,
            threads: Vec::new(),
        };
        let (mut tells, begins): (VecDeque<Sender<Position>>, Vec<Receiver<Position>>) =
            (0..threads).map(|_| channel()).unzip();
        if let Some(first) = tells.front() {
            let _ = first.send(begin);
        }
        // From then on the first receives from the last.
        tells.rotate_left(1);
        let mut from = begin;
        for (tells, begins) in tells.into_iter().zip(begins) {
            let windows = ThreadWindows {
                file: Arc::clone(file),
                buffer: Vec::new(),
                is_read: false,
                from,
                end,
                stride: WINDOW.saturating_mul(threads) as u64,
                begins,
                tells,
            };
            from = from.saturating_add(WINDOW as u64);
            if ahead.own.is_none() {
                ahead.own = Some(windows);
                continue;
            }
            let (sends, runs) = sync_channel(1);
            let thread = thread::Builder::new().name("kafkalog-checksums".to_owned());
            ahead
                .threads
                .push(thread.spawn(move || windows.send_all(&sends))?);
            ahead.others.push(runs);
        }
        Ok(ahead)
    }

    /// The header of the batch at `place`, which is whole and has the right checksum; `None` at the first that has not,
    /// and from there on.
    ///
    /// # Errors
    /// `Interrupted`.
    pub(super) fn take(&mut self, place: Position) -> Result<Option<BatchHeader>> {
        loop {
            if let Some((found, header)) = self.run.next() {
                if found == place {
                    return Ok(Some(header));
                }
                self.run = Vec::new().into_iter();
                self.continues = false;
                return Ok(None);
            }
            if !self.continues {
                return Ok(None);
            }
            interrupt::check()?;
            let run = self.next_run().unwrap_or_default();
            self.continues = run.continues;
            self.run = run.batches.into_iter();
        }
    }

    /// Result for the next window, if there is one.
    fn next_run(&mut self) -> Option<WindowRun> {
        let own = self.own.as_mut()?;
        let turn = self.turn;
        self.turn = if turn < self.others.len() {
            turn.saturating_add(1)
        } else {
            0
        };
        let Some(other) = turn.checked_sub(1) else {
            return own.next_run();
        };
        let other = self.others.get(other)?;
        other.try_recv().ok().or_else(|| {
            // There is something to do until it comes.
            own.read().ok()?;
            other.recv().ok()
        })
    }
}

impl Drop for ChecksumPipeline {
    fn drop(&mut self) {
        // With neither work nor a receiver, the threads end.
        self.own = None;
        self.others.clear();
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

/// One thread's windows.
#[derive(Debug)]
struct ThreadWindows {
    file: Arc<dyn ReadFile>,
    /// A window, and what of its last batch lies after it.
    buffer: Vec<u8>,
    /// The buffer holds the window.
    is_read: bool,
    /// Position of the window.
    from: Position,
    end: Position,
    /// From one to the next.
    stride: u64,
    /// Position of the first batch in the window.
    begins: Receiver<Position>,
    /// To whom the next window belongs.
    tells: Sender<Position>,
}

impl ThreadWindows {
    /// Ends with the file, at a fault, or when no consumer wants more. The consumer of the batches before a fault meets
    /// the fault itself.
    fn send_all(mut self, sends: &SyncSender<WindowRun>) {
        while let Some(run) = self.next_run() {
            let continues = run.continues;
            if sends.send(run).is_err() || !continues {
                break;
            }
        }
    }

    /// Reads the window, unless that is done.
    fn read(&mut self) -> io::Result<()> {
        if !self.is_read {
            let left = self.end.saturating_sub(self.from);
            let wanted = left.min(WINDOW_AND_HEADER as u64);
            let wanted = usize::try_from(wanted).unwrap_or(WINDOW_AND_HEADER);
            read_into(&mut self.buffer, wanted, |buffer| {
                self.file.read_at(buffer, self.from)
            })?;
            self.is_read = true;
        }
        Ok(())
    }

    /// Returns the result for the window and moves to the next one. `None` at the end of the file, or if it cannot be
    /// known.
    fn next_run(&mut self) -> Option<WindowRun> {
        if self.from >= self.end {
            return None;
        }
        self.read().ok()?;
        let begin = self.begins.recv().ok()?;
        let run = self.run(begin).ok()?;
        self.from = self.from.saturating_add(self.stride);
        self.is_read = false;
        Some(run)
    }

    /// The batches that begin in the window, the first at `begin`.
    fn run(&mut self, begin: Position) -> io::Result<WindowRun> {
        let to = self.from.saturating_add(WINDOW as u64).min(self.end);
        let mut position = begin;
        let mut batches = Vec::new();
        while position < to {
            let head = self.bytes(position, RECORD_BATCH_OVERHEAD);
            let left = self.end.saturating_sub(position);
            let Ok(Some(header)) = BatchHeader::in_file(head, left) else {
                break;
            };
            let end = position.saturating_add(header.size as u64);
            batches.push((position, header));
            position = end;
        }
        let is_walked = position >= to;
        if is_walked {
            // After the last window no thread listens.
            let _ = self.tells.send(position);
        }
        self.read_to(position)?;
        let is_sound = |(position, header): &&(Position, BatchHeader)| {
            let batch = self.bytes(*position, header.size);
            batch.len() == header.size
                && !header.is_too_short()
                && header.computed_crc(batch) == header.crc
        };
        let sound = batches.iter().take_while(is_sound).count();
        let continues = is_walked && sound == batches.len();
        batches.truncate(sound);
        Ok(WindowRun { batches, continues })
    }

    /// Reads the bytes up to `end` too, unless those are very many.
    fn read_to(&mut self, end: Position) -> io::Result<()> {
        let there = self.buffer.len();
        let wanted = usize::try_from(end.saturating_sub(self.from)).unwrap_or(usize::MAX);
        if wanted > MAX_BUFFER {
            return Ok(());
        }
        self.buffer.resize(wanted.max(there), 0);
        let rest = self.buffer.get_mut(there..).unwrap_or_default();
        let read = self
            .file
            .read_at(rest, self.from.saturating_add(there as u64))?;
        self.buffer.truncate(there.saturating_add(read));
        Ok(())
    }

    /// Reads up to `wanted` bytes at `position`.
    fn bytes(&self, position: Position, wanted: usize) -> &[u8] {
        let at = usize::try_from(position.saturating_sub(self.from)).unwrap_or(usize::MAX);
        let rest = self.buffer.get(at..).unwrap_or_default();
        rest.get(..wanted).unwrap_or(rest)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::arithmetic_side_effects, reason = "sizes of its own making")]

    use std::path::Path;

    use super::*;
    use crate::io::folder::open_file;

    fn open(path: &Path) -> Arc<dyn ReadFile> {
        open_file(path).unwrap().0
    }

    /// A batch of magic 2 with a right checksum.
    fn batch(base_offset: u8, size: usize) -> Vec<u8> {
        let mut data = vec![base_offset; size];
        data[..8].copy_from_slice(&i64::from(base_offset).to_be_bytes());
        data[8..12].copy_from_slice(&i32::try_from(size - 12).unwrap().to_be_bytes());
        data[16] = 2;
        let crc = crc32c::crc32c(&data[21..]).to_be_bytes();
        data[17..21].copy_from_slice(&crc);
        data
    }

    /// Positions of the batches, up to the first fault, by one loop over all bytes.
    fn naive(log: &[u8]) -> Vec<u64> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Ok(Some(header)) = BatchHeader::in_file(&log[at..], (log.len() - at) as u64)
            && crc32c::crc32c(&log[at + 21..at + header.size]) == header.crc
        {
            found.push(at as u64);
            at += header.size;
        }
        found
    }

    /// Batches that the threads find; after that nothing, not even the batches that begin at `others`.
    fn found(path: &Path, length: usize, threads: usize, others: &[u64]) -> Vec<u64> {
        let mut ahead =
            ChecksumPipeline::with_threads(&open(path), 0, length as u64, threads).unwrap();
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(header) = ahead.take(at).unwrap() {
            found.push(at);
            at += header.size as u64;
        }
        for place in others.iter().chain([&at]) {
            assert!(ahead.take(*place).unwrap().is_none());
        }
        found
    }

    #[test]
    fn several_threads_find_what_one_loop_finds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let window = WINDOW;
        // Across a window's end, at it, over several of them; the header alone before the end.
        let sizes = [
            100,
            window - 100,
            61,
            window - 61 - 30,
            2 * window + 5,
            window / 3,
            window - window / 3 + 25,
            70_000,
            window,
            window,
            300,
        ];
        let batches: Vec<_> = (0..).zip(sizes).map(|(n, size)| batch(n, size)).collect();
        let log = batches.concat();
        let starts = naive(&log);
        assert_eq!(starts.len(), sizes.len());
        for spoilt in 0..=sizes.len() {
            let mut log = log.clone();
            if let Some(&start) = starts.get(spoilt) {
                let last = usize::try_from(start).unwrap() + sizes[spoilt] - 1;
                log[last] ^= 1;
            }
            std::fs::write(&path, &log).unwrap();
            assert_eq!(naive(&log), starts[..spoilt]);
            for threads in 2..=MAX_THREADS {
                assert_eq!(found(&path, log.len(), threads, &starts), starts[..spoilt]);
                let cut = log.len() - 1 - spoilt * window / 2;
                let whole = naive(&log[..cut]);
                assert_eq!(found(&path, cut, threads, &starts), whole);
            }
        }
    }

    /// Its checksum says nothing for it (`DefaultRecordBatch.ensureValid`).
    #[test]
    fn a_batch_shorter_than_its_header_is_not_sound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let log = [batch(0, 100), batch(1, 40), batch(2, 100)].concat();
        std::fs::write(&path, &log).unwrap();
        assert_eq!(naive(&log), [0, 100, 140]);
        assert_eq!(found(&path, log.len(), 2, &[140]), [0]);
    }

    #[test]
    fn threads_end_with_whoever_asked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        std::fs::write(&path, batch(0, 1000).repeat(4000)).unwrap();
        for taken in [0, 1, 2000] {
            let mut ahead = ChecksumPipeline::with_threads(&open(&path), 0, 4_000_000, 4).unwrap();
            for n in 0..taken {
                assert_eq!(ahead.take(n * 1000).unwrap().unwrap().size, 1000);
            }
            // Somewhere else than where the batches continue.
            assert!(ahead.take(7).unwrap().is_none());
            for place in [taken * 1000 + 1000, taken * 1000] {
                assert!(ahead.take(place).unwrap().is_none());
            }
        }
    }
}
