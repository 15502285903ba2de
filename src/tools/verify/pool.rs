//! Threads that verify the segments of many partitions, and help each other with large ones.
//!
//! A thread takes a segment, walks it header to header, and cuts off jobs: a window of the file with the batches in it.
//! Idle threads take jobs first, so one large segment keeps all of them busy. A thread that waits for its own jobs
//! works on any.
//!
//! The calling thread is one of them: it alone notices interruptions ([`interrupt`]), and stops the others.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use super::records::{BatchCheck, RecordFinding};
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::io::interrupt;
use crate::io::region::Region;
use crate::io::threads::{Cancellation, POLL_INTERVAL, guarded, lock};
use crate::tools::progress::Progress;
use crate::types::{Offset, Position};

/// Batches of one window of a file.
#[derive(Debug)]
pub(super) struct WindowJob {
    /// The bytes.
    pub region: Region,
    /// Position of each batch in the bytes, its position in the file, and its header.
    pub batches: Vec<(usize, Position, BatchHeader)>,
    /// Ticket of the caller.
    pub ticket: Arc<Ticket>,
}

/// Place of a batch: position in its file, size, offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BatchPlace {
    /// In the file.
    pub position: Position,
    /// Position after the last byte.
    pub end: Position,
    /// As its header has it.
    pub base_offset: Offset,
}

impl BatchPlace {
    /// Of a batch at `position`.
    #[must_use]
    pub(super) const fn of(position: Position, header: &BatchHeader) -> Self {
        Self {
            position,
            end: position.saturating_add(header.size as u64),
            base_offset: header.base_offset,
        }
    }
}

/// Fault of a batch.
#[derive(Debug)]
pub(super) enum BatchFault {
    /// It cannot be read.
    Unreadable(Error),
    /// Something is odd.
    Doubtful(RecordFinding),
}

/// The jobs of one segment.
#[derive(Debug, Default)]
pub(super) struct Ticket {
    open: AtomicUsize,
    faults: Mutex<Vec<(BatchPlace, BatchFault)>>,
}

impl Ticket {
    /// Returns the faults, by position; call it after [`VerifyPool::wait`].
    pub(super) fn faults(&self) -> Vec<(BatchPlace, BatchFault)> {
        let mut found = std::mem::take(&mut *lock(&self.faults));
        found.sort_by_key(|&(place, _)| place);
        found
    }

    /// Adds what was found outside of jobs.
    pub(super) fn note(&self, place: BatchPlace, fault: BatchFault) {
        lock(&self.faults).push((place, fault));
    }
}

#[derive(Debug, Default)]
struct PoolState {
    jobs: VecDeque<WindowJob>,
    /// The next task.
    next: usize,
    /// Tasks in progress.
    running: usize,
    failed: Option<Error>,
}

/// The threads' common state.
#[derive(Debug)]
pub(super) struct VerifyPool {
    threads: usize,
    state: Mutex<PoolState>,
    wake: Condvar,
    cancellation: Cancellation,
    progress: Arc<Progress>,
}

impl VerifyPool {
    /// For so many threads, the caller's included.
    #[must_use]
    pub(super) fn new(threads: usize, progress: Arc<Progress>) -> Self {
        Self {
            threads: threads.max(1),
            state: Mutex::default(),
            wake: Condvar::new(),
            cancellation: Cancellation::default(),
            progress,
        }
    }

    /// Runs every task, `0..count`.
    ///
    /// # Errors
    /// The first that a task returns; `Interrupted`.
    pub(super) fn run(
        &self,
        count: usize,
        task: &(dyn Fn(usize, &mut BatchCheck) -> Result<()> + Sync),
    ) -> Result<()> {
        let helpers = self.threads.saturating_sub(1);
        thread::scope(|scope| {
            for _ in 0..helpers {
                let work = || self.work(count, task);
                self.cancellation.spawn(scope, "kafkalog-verify", work);
            }
            self.work(count, task);
        });
        match lock(&self.state).failed.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Stops the others.
    fn fail(&self, error: Error) {
        lock(&self.state).failed.get_or_insert(error);
        self.cancellation.cancel();
        self.wake.notify_all();
    }

    fn work(&self, count: usize, task: &(dyn Fn(usize, &mut BatchCheck) -> Result<()> + Sync)) {
        let mut check = BatchCheck::default();
        loop {
            if let Err(error) = interrupt::check() {
                self.fail(error);
            }
            if self.cancellation.is_cancelled() {
                return;
            }
            let mut state = lock(&self.state);
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                self.carry_out(job, &mut check);
            } else if state.next < count {
                let n = state.next;
                state.next = n.saturating_add(1);
                state.running = state.running.saturating_add(1);
                drop(state);
                if let Err(error) = guarded(|| task(n, &mut check)) {
                    self.fail(error);
                }
                let mut state = lock(&self.state);
                state.running = state.running.saturating_sub(1);
                drop(state);
                self.wake.notify_all();
            } else if state.running == 0 {
                return;
            } else {
                drop(self.wake.wait_timeout(state, POLL_INTERVAL));
            }
        }
    }

    /// Checks a job's batches, here or in an idle thread.
    pub(super) fn submit(&self, job: WindowJob, check: &mut BatchCheck) {
        job.ticket.open.fetch_add(1, Ordering::AcqRel);
        if self.threads > 1 {
            let mut state = lock(&self.state);
            if state.jobs.len() < self.threads.saturating_mul(2) {
                state.jobs.push_back(job);
                drop(state);
                self.wake.notify_one();
                return;
            }
        }
        self.carry_out(job, check);
    }

    /// Waits until the jobs of a ticket are done; works meanwhile.
    ///
    /// # Errors
    /// `Interrupted` where the work is over.
    pub(super) fn wait(&self, ticket: &Ticket, check: &mut BatchCheck) -> Result<()> {
        while ticket.open.load(Ordering::Acquire) > 0 {
            interrupt::check()?;
            if self.cancellation.is_cancelled() {
                return Err(Error::Interrupted);
            }
            let mut state = lock(&self.state);
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                self.carry_out(job, check);
            } else if ticket.open.load(Ordering::Acquire) > 0 {
                drop(self.wake.wait_timeout(state, POLL_INTERVAL));
            }
        }
        Ok(())
    }

    /// Notes that so many bytes of a file have been examined.
    ///
    /// # Errors
    /// `Interrupted` where the work is over.
    pub(super) fn note(&self, bytes: u64) -> Result<()> {
        self.progress.add(bytes);
        if self.cancellation.is_cancelled() {
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    fn carry_out(&self, job: WindowJob, check: &mut BatchCheck) {
        let mut found = Vec::new();
        let mut doubts = Vec::new();
        for (at, position, header) in job.batches {
            let rest = job.region.as_slice().get(at..).unwrap_or_default();
            let batch = rest.get(..header.size).unwrap_or(rest);
            let place = BatchPlace::of(position, &header);
            match guarded(|| check.check(batch, &header, &mut doubts)) {
                Err(error) if !error.is_of_the_files() => self.fail(error),
                Err(error) => found.push((place, BatchFault::Unreadable(error.shift(position)))),
                Ok(()) => {}
            }
            let doubts = doubts.drain(..);
            found.extend(doubts.map(|doubt| (place, BatchFault::Doubtful(doubt))));
        }
        if !found.is_empty() {
            lock(&job.ticket.faults).append(&mut found);
        }
        job.ticket.open.fetch_sub(1, Ordering::AcqRel);
        self.wake.notify_all();
    }
}
