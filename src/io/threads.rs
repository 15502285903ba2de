//! The frame of all work on threads: how they lock, how a panic becomes an error, how they end with their caller.
//!
//! Standard threads, not a pool of a crate: the work is taken in order, bounded by memory, and ends at a signal that only
//! the caller's thread hears of ([`interrupt`]); rayon's pools know none of these.

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use super::interrupt;
use crate::error::{Error, Result};

/// The time that a thread waits for another before it checks whether the work is cancelled.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The number of threads that can run at the same time; 1 where that is not known.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Locks a mutex, whatever a panic left: no code of this crate changes shared state in steps that may panic between.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the value out of a mutex that no other thread has any more, likewise.
pub(crate) fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a notification, likewise.
pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition
        .wait(guard)
        .unwrap_or_else(PoisonError::into_inner)
}

/// Does the work; a panic is an error, as it must not leave the caller waiting.
///
/// # Errors
/// Those of the work; `Internal` for a panic.
pub(crate) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Error::panicked(panic.as_ref())))
}

/// A flag that cancels the work of several threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Cancels it, for good.
    pub(crate) fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Reports whether it is cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Does work that checks for interruptions; it ends when this is cancelled.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let cancellation = self.clone();
        interrupt::with_cancellation(move || cancellation.is_cancelled(), work)
    }

    /// Starts a thread that ends when this is cancelled. Where none can be started, the work takes longer.
    pub(crate) fn spawn<'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        name: &str,
        work: impl FnOnce() + Send + 'scope,
    ) {
        let cancellation = self.clone();
        let thread = thread::Builder::new().name(name.to_owned());
        let _ = thread.spawn_scoped(scope, move || cancellation.run(work));
    }
}
