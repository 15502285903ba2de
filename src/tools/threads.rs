//! Pieces of work for several threads, whose results are taken in the order of the pieces.
//!
//! The caller's thread reads the pieces and takes the results. While it waits for a result, it works on a piece itself.
//! So all processors are busy, no thread waits for the slowest at the end of a round, and the pieces that are read
//! ahead bound what is in memory. Only the caller's thread notices interruptions ([`interrupt`]); it stops the others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use crate::error::Result;
use crate::io::interrupt;
use crate::io::threads::{Cancellation, POLL_INTERVAL, guarded, lock, wait};

/// Pieces for each thread that are read and whose results were not taken: one that it works on, and others that wait on
/// either side of it while the caller works on one of its own.
const UNDER_WAY: usize = 3;

#[derive(Debug)]
struct WorkState<P> {
    /// With their numbers.
    waiting: VecDeque<(usize, P)>,
    done: BTreeMap<usize, Result<P>>,
}

#[derive(Debug)]
struct WorkQueue<P> {
    state: Mutex<WorkState<P>>,
    /// Notified when a piece waits, or it is over.
    waits: Condvar,
    /// Notified when a piece is done.
    done: Condvar,
    cancellation: Cancellation,
}

impl<P> WorkQueue<P> {
    fn new() -> Self {
        Self {
            state: Mutex::new(WorkState {
                waiting: VecDeque::new(),
                done: BTreeMap::new(),
            }),
            waits: Condvar::new(),
            done: Condvar::new(),
            cancellation: Cancellation::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, WorkState<P>> {
        lock(&self.state)
    }

    fn add(&self, number: usize, piece: P) {
        self.lock().waiting.push_back((number, piece));
        self.waits.notify_one();
    }

    fn finish(&self, number: usize, result: Result<P>) {
        self.lock().done.insert(number, result);
        self.done.notify_one();
    }

    /// Works until it is over.
    fn run(&self, mut work: impl FnMut(&mut P) -> Result<()>) {
        let mut state = self.lock();
        while !self.cancellation.is_cancelled() {
            let Some((number, piece)) = state.waiting.pop_front() else {
                state = wait(&self.waits, state);
                continue;
            };
            drop(state);
            self.finish(number, worked(piece, &mut work));
            state = self.lock();
        }
    }

    /// The result of a piece; works on others until it is there.
    fn result_of(&self, number: usize, mut work: impl FnMut(&mut P) -> Result<()>) -> Result<P> {
        let mut state = self.lock();
        loop {
            if let Some(result) = state.done.remove(&number) {
                return result;
            }
            if let Some((other, piece)) = state.waiting.pop_front() {
                drop(state);
                self.finish(other, worked(piece, &mut work));
                state = self.lock();
            } else {
                drop(self.done.wait_timeout(state, POLL_INTERVAL));
                interrupt::check()?;
                state = self.lock();
            }
        }
    }
}

/// The piece after the work on it.
fn worked<P>(mut piece: P, work: &mut impl FnMut(&mut P) -> Result<()>) -> Result<P> {
    guarded(|| work(&mut piece))?;
    Ok(piece)
}

/// Ends the threads, however the caller ends.
struct CancelOnDrop<'a, P>(&'a WorkQueue<P>);

impl<P> Drop for CancelOnDrop<'_, P> {
    fn drop(&mut self) {
        let state = self.0.lock();
        self.0.cancellation.cancel();
        drop(state);
        self.0.waits.notify_all();
    }
}

/// Has the workers, each in a thread, work on the pieces that `next` reads, into the memory of one that was taken;
/// `take` gets them in order.
///
/// # Errors
/// The first in the order of the pieces: of reading, working or taking.
pub(in crate::tools) fn in_order<P: Send, W: Send>(
    workers: &mut [W],
    work: impl Fn(&mut W, &mut P) -> Result<()> + Sync,
    mut next: impl FnMut(Option<P>) -> Result<Option<P>>,
    mut take: impl FnMut(&mut P) -> Result<()>,
) -> Result<()> {
    let most = workers.len().saturating_mul(UNDER_WAY);
    let Some((own, others)) = workers.split_first_mut() else {
        return Ok(());
    };
    let (shared, work) = (WorkQueue::new(), &work);
    thread::scope(|scope| {
        let _ending = CancelOnDrop(&shared);
        for worker in others {
            let shared = &shared;
            let work = move || shared.run(|piece| work(worker, piece));
            shared.cancellation.spawn(scope, "kafkalog-worker", work);
        }
        let (mut read, mut taken) = (0usize, 0usize);
        let (mut end, mut spare) = (None, Vec::new());
        loop {
            while end.is_none() && read.saturating_sub(taken) < most {
                match next(spare.pop()) {
                    Ok(Some(piece)) => {
                        shared.add(read, piece);
                        read = read.saturating_add(1);
                    }
                    Ok(None) => end = Some(Ok(())),
                    Err(error) => end = Some(Err(error)),
                }
            }
            if taken == read {
                return end.unwrap_or(Ok(()));
            }
            let mut piece = shared.result_of(taken, |piece| work(own, piece))?;
            take(&mut piece)?;
            taken = taken.saturating_add(1);
            spare.push(piece);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::Error;

    fn failed(at: u64) -> Error {
        Error::InvalidArgument(format!("{at}"))
    }

    /// Squares of the numbers below `count`, with the step that fails at one of them.
    fn squares(threads: usize, count: u64, fails: Option<(&str, u64)>) -> (Vec<u64>, Result<()>) {
        let check = |step: &str, at| match fails {
            Some((failing, number)) if failing == step && number == at => Err(failed(at)),
            Some(("panic", number)) if step == "work" && number == at => panic!("{at}"),
            _ => Ok(()),
        };
        let (mut numbers, mut found) = (0..count, Vec::new());
        let done = in_order(
            &mut vec![(); threads],
            |(), piece: &mut (u64, u64)| {
                // The first ones take longest.
                thread::sleep(Duration::from_micros(
                    200u64.saturating_sub(piece.0.saturating_mul(9)),
                ));
                piece.1 = piece.0.saturating_mul(piece.0);
                check("work", piece.0)
            },
            |_| {
                let next = numbers.next();
                next.map_or(Ok(()), |at| check("read", at))?;
                Ok(next.map(|at| (at, 0)))
            },
            |&mut (at, square)| {
                check("take", at)?;
                found.push(square);
                Ok(())
            },
        );
        (found, done)
    }

    #[test]
    fn results_come_in_order() {
        for threads in 1..5 {
            for count in [0, 1, 2, 50] {
                let (found, done) = squares(threads, count, None);
                done.unwrap();
                assert_eq!(found, (0..count).map(|n| n * n).collect::<Vec<_>>());
            }
        }
        assert!(squares(0, 3, None).0.is_empty());
    }

    #[test]
    fn the_first_error_in_order_ends_it() {
        for threads in 1..5 {
            for step in ["read", "work", "take", "panic"] {
                for at in [0, 1, 7, 49] {
                    let (found, done) = squares(threads, 50, Some((step, at)));
                    let error = done.unwrap_err();
                    assert_eq!(matches!(error, Error::Internal(_)), step == "panic");
                    assert!(
                        error.to_string().contains(&at.to_string()),
                        "{step} {error}"
                    );
                    assert_eq!(found.len() as u64, at, "{step} with {threads}");
                }
            }
        }
    }

    /// No more is read ahead than the threads are worth.
    #[test]
    fn what_is_under_way_is_bounded() {
        let (read, taken) = (std::cell::Cell::new(0usize), std::cell::Cell::new(0usize));
        in_order(
            &mut [(), ()],
            |(), _: &mut usize| Ok(()),
            |_| {
                read.set(read.get() + 1);
                assert!(read.get() - taken.get() <= 2 * UNDER_WAY);
                Ok((read.get() < 100).then_some(0))
            },
            |_| {
                taken.set(taken.get() + 1);
                Ok(())
            },
        )
        .unwrap();
        assert_eq!((read.get(), taken.get()), (100, 99));
    }
}
