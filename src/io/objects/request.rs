//! Requests to a store: how many are in flight, how long each may take, and when it is tried again.
//!
//! Each attempt runs on a thread of its own, so that one without an answer can be given up. An attempt begins when the
//! process has fewer than [`MAX_IN_FLIGHT`] others in flight.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::io::interrupt;
use crate::io::provider::{Provided, Provider, ProviderError, ProviderErrorKind};
use crate::io::threads::{POLL_INTERVAL, lock};

/// Requests of this process that are in flight at the same time, at most.
pub(crate) const MAX_IN_FLIGHT: usize = 16;
/// Wait before the second attempt; it doubles for each further one.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Longest wait between two attempts.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Limits of the requests to one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestLimits {
    /// Number of attempts after the first one.
    pub retries: u32,
    /// Time after which an attempt without an answer is given up.
    pub timeout: Duration,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            retries: 5,
            timeout: Duration::from_secs(30),
        }
    }
}

impl RequestLimits {
    /// Time after which no further attempt begins, and an attempt that runs is given up.
    fn total(self) -> Duration {
        self.timeout
            .saturating_mul(3)
            .checked_div(2)
            .unwrap_or(self.timeout)
    }
}

/// Counts of requests, for the caller.
#[derive(Debug, Default)]
pub struct RequestCounters {
    requests: AtomicU64,
    bytes: AtomicU64,
    retries: AtomicU64,
    waited_us: AtomicU64,
}

/// The counts at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestCounts {
    /// Requests that were sent, repeated ones among them.
    pub requests: u64,
    /// Bytes of objects that arrived.
    pub bytes: u64,
    /// Requests that were sent again.
    pub retries: u64,
    /// Time that readers waited for answers.
    pub waited: Duration,
}

impl RequestCounts {
    /// The counts of folders, each store's counters once.
    pub(crate) fn of<'a>(folders: impl IntoIterator<Item = &'a Arc<RequestCounters>>) -> Self {
        let mut sum = Self::default();
        for each in folders {
            let counts = each.counts();
            sum.requests = sum.requests.saturating_add(counts.requests);
            sum.bytes = sum.bytes.saturating_add(counts.bytes);
            sum.retries = sum.retries.saturating_add(counts.retries);
            sum.waited = sum.waited.saturating_add(counts.waited);
        }
        sum
    }
}

impl RequestCounters {
    /// The counts so far.
    pub(crate) fn counts(&self) -> RequestCounts {
        RequestCounts {
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            retries: self.retries.load(Ordering::Relaxed),
            waited: Duration::from_micros(self.waited_us.load(Ordering::Relaxed)),
        }
    }

    pub(super) fn add_requests(&self, requests: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
    }

    pub(super) fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn add_wait(&self, since: Instant) {
        let us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.waited_us.fetch_add(us, Ordering::Relaxed);
    }
}

/// Requests in flight. A forked child begins with none: threads do not survive a fork.
pub(crate) struct InFlight {
    process: u32,
    count: usize,
}

static IN_FLIGHT: Mutex<InFlight> = Mutex::new(InFlight {
    process: 0,
    count: 0,
});
static ENDED: Condvar = Condvar::new();

/// Lets no request begin or end while the guard is there: a process that is forked then has the lock in the child, too.
pub(crate) fn lock_requests() -> MutexGuard<'static, InFlight> {
    lock(&IN_FLIGHT)
}

/// The right to have a request in flight.
struct FlightSlot;

impl FlightSlot {
    fn take() -> Self {
        let mut flying = lock(&IN_FLIGHT);
        loop {
            if flying.process != std::process::id() {
                *flying = InFlight {
                    process: std::process::id(),
                    count: 0,
                };
            }
            if flying.count < MAX_IN_FLIGHT {
                flying.count = flying.count.saturating_add(1);
                return Self;
            }
            flying = crate::io::threads::wait(&ENDED, flying);
        }
    }
}

impl Drop for FlightSlot {
    fn drop(&mut self) {
        let mut flying = lock(&IN_FLIGHT);
        flying.count = flying.count.saturating_sub(1);
        drop(flying);
        ENDED.notify_one();
    }
}

enum AttemptState<T> {
    Queued,
    Running(Instant, FlightSlot),
    Done(Provided<T>),
    /// Nobody waits for it any more.
    GivenUp,
}

struct SharedAttempt<T> {
    state: Mutex<AttemptState<T>>,
    changed: Condvar,
}

/// One attempt, which runs on a thread of its own.
pub(super) struct Attempt<T> {
    shared: Arc<SharedAttempt<T>>,
    /// The process that has the thread: in a fork of it no answer comes.
    process: u32,
}

impl<T> fmt::Debug for Attempt<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attempt")
    }
}

impl<T> Drop for Attempt<T> {
    fn drop(&mut self) {
        // In a fork, a thread that is gone may have the lock.
        if self.process == std::process::id() {
            *lock(&self.shared.state) = AttemptState::GivenUp;
        }
    }
}

/// Question for a store.
pub(super) type Question<T> = Arc<dyn Fn() -> Provided<T> + Send + Sync>;

impl<T: Send + 'static> Attempt<T> {
    /// Starts an attempt.
    pub(super) fn start(question: &Question<T>, counters: &RequestCounters) -> Self {
        counters.add_requests(1);
        let shared = Arc::new(SharedAttempt {
            state: Mutex::new(AttemptState::Queued),
            changed: Condvar::new(),
        });
        let (theirs, question) = (Arc::clone(&shared), Arc::clone(question));
        let work = move || {
            let slot = FlightSlot::take();
            {
                let mut state = lock(&theirs.state);
                if matches!(*state, AttemptState::GivenUp) {
                    return;
                }
                *state = AttemptState::Running(Instant::now(), slot);
            }
            let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| question()));
            let answer = answer.unwrap_or_else(|_| {
                Err(ProviderError {
                    kind: ProviderErrorKind::Other,
                    text: "the provider panicked".to_owned(),
                })
            });
            let mut state = lock(&theirs.state);
            if !matches!(*state, AttemptState::GivenUp) {
                *state = AttemptState::Done(answer);
            }
            drop(state);
            theirs.changed.notify_all();
        };
        let thread = thread::Builder::new().name("kafkalog-request".to_owned());
        if thread.spawn(work).is_err() {
            *lock(&shared.state) = AttemptState::Done(Err(ProviderError {
                kind: ProviderErrorKind::Transient,
                text: "no thread could be started for the request".to_owned(),
            }));
        }
        Self {
            shared,
            process: std::process::id(),
        }
    }

    /// Waits for the answer; `None` if there is none in time.
    ///
    /// # Errors
    /// `Interrupted`.
    fn answer(
        &self,
        provider: &dyn Provider,
        timeout: Duration,
        until: Instant,
    ) -> io::Result<Option<Provided<T>>> {
        // A wait of a moment costs nothing else.
        self.pause();
        loop {
            let mut state = lock(&self.shared.state);
            match &*state {
                AttemptState::Done(_) => {
                    return match std::mem::replace(&mut *state, AttemptState::GivenUp) {
                        AttemptState::Done(answer) => Ok(Some(answer)),
                        _ => Ok(None),
                    };
                }
                AttemptState::Running(since, _) if since.elapsed() >= timeout => return Ok(None),
                AttemptState::GivenUp => return Ok(None),
                AttemptState::Running(..) | AttemptState::Queued => {}
            }
            drop(state);
            if Instant::now() >= until {
                return Ok(None);
            }
            interrupt::check().map_err(|_| io::Error::from(io::ErrorKind::Interrupted))?;
            provider.wait(&mut || self.pause());
        }
    }

    fn pause(&self) {
        let state = lock(&self.shared.state);
        if matches!(*state, AttemptState::Queued | AttemptState::Running(..)) {
            drop(self.shared.changed.wait_timeout(state, POLL_INTERVAL));
        }
    }
}

/// The store that is asked, and on whose behalf.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asking<'a> {
    pub(super) provider: &'a dyn Provider,
    pub(super) limits: RequestLimits,
    pub(super) counters: &'a RequestCounters,
}

impl Asking<'_> {
    /// Asks until there is an answer; `begun` is an attempt that already runs.
    ///
    /// # Errors
    /// The kind and text of the last failure, with `what` was asked and how often; a [`DamagedRange`]; `Interrupted`.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        begun: Option<Attempt<T>>,
        question: &Question<T>,
        what: &dyn Fn() -> String,
    ) -> io::Result<T> {
        let started = Instant::now();
        let until = started.checked_add(self.limits.total()).unwrap_or(started);
        let begun = begun.filter(|attempt| attempt.process == std::process::id());
        let mut attempt = begun.unwrap_or_else(|| Attempt::start(question, self.counters));
        let mut tries = 1u32;
        let failed = loop {
            let waiting = Instant::now();
            let answer = attempt.answer(self.provider, self.limits.timeout, until);
            self.counters.add_wait(waiting);
            let error = match answer? {
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(ProviderError { kind, text })) => match kind {
                    ProviderErrorKind::Transient => (io::ErrorKind::Other, text),
                    ProviderErrorKind::Missing => break (io::ErrorKind::NotFound, text),
                    ProviderErrorKind::Denied => break (io::ErrorKind::PermissionDenied, text),
                    ProviderErrorKind::Changed | ProviderErrorKind::Other => {
                        break (io::ErrorKind::Other, text);
                    }
                    // It says itself what is where.
                    ProviderErrorKind::Damaged(damaged) => return Err(damaged.into()),
                },
                None => {
                    let seconds = self.limits.timeout.as_secs_f64();
                    (
                        io::ErrorKind::TimedOut,
                        format!("no answer within {seconds} s"),
                    )
                }
            };
            let pause = jittered(tries);
            let is_late = Instant::now()
                .checked_add(pause)
                .is_none_or(|then| then >= until);
            if tries > self.limits.retries || is_late {
                break error;
            }
            let pausing = Instant::now();
            self.pause(pause)?;
            self.counters.add_wait(pausing);
            tries = tries.saturating_add(1);
            self.counters.retries.fetch_add(1, Ordering::Relaxed);
            attempt = Attempt::start(question, self.counters);
        };
        let (kind, text) = failed;
        let how_often = if tries == 1 {
            String::new()
        } else {
            let seconds = started.elapsed().as_secs_f64();
            format!("; tried {tries} times in {seconds:.1} s")
        };
        Err(io::Error::new(
            kind,
            format!("{}: {text}{how_often}", what()),
        ))
    }

    fn pause(&self, pause: Duration) -> io::Result<()> {
        let end = Instant::now();
        while end.elapsed() < pause {
            interrupt::check().map_err(|_| io::Error::from(io::ErrorKind::Interrupted))?;
            let rest = pause.saturating_sub(end.elapsed()).min(POLL_INTERVAL);
            self.provider.wait(&mut || thread::sleep(rest));
        }
        Ok(())
    }
}

/// Half to all of the wait after so many attempts, so that clients do not come back together.
fn jittered(tries: u32) -> Duration {
    let doubled = FIRST_WAIT.saturating_mul(1 << tries.saturating_sub(1).min(10));
    let longest = doubled.min(LONGEST_WAIT);
    let random = RandomState::new().build_hasher().finish() % 512;
    let share = u32::try_from(random).unwrap_or(0).saturating_add(512);
    longest
        .saturating_mul(share)
        .checked_div(1024)
        .unwrap_or(longest)
}
