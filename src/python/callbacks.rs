//! Calls into Python from threads of the core, which end with the interpreter.
//!
//! Before Python 3.14, a thread that waits for the interpreter while that ends is unwound, through frames of other
//! languages; that aborts the process. So the end of the interpreter refuses new calls and waits for those that run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyCFunction;

/// Interval at which the end checks whether calls still run.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Process id, whether calls have ended, and the number of those that run. A forked child, which has no other thread of
/// its parent, begins anew. No lock: one that another thread held at the fork would stay locked.
static CALLS: AtomicU64 = AtomicU64::new(0);
const ENDED: u64 = 1 << 31;
const RUNNING: u64 = ENDED - 1;

fn of_this_process(calls: u64) -> u64 {
    let process = u64::from(std::process::id()) << 32;
    if calls & !(ENDED | RUNNING) == process {
        calls
    } else {
        process
    }
}

/// A call that runs.
struct Call;

impl Call {
    fn begin() -> Option<Self> {
        let one_more = |calls| {
            let calls = of_this_process(calls);
            let is_refused = calls & ENDED != 0 || calls & RUNNING == RUNNING;
            (!is_refused).then(|| calls.saturating_add(1))
        };
        let counted = CALLS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more);
        counted.ok().map(|_| Self)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let one_less = |calls| {
            let calls = of_this_process(calls);
            (calls & RUNNING != 0).then(|| calls.saturating_sub(1))
        };
        // An error is a call that a fork left behind.
        let _ = CALLS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    }
}

/// Calls Python on any thread; `None` if the interpreter ends.
pub(super) fn call<T>(act: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _call = Call::begin()?;
    Python::try_attach(act)
}

/// Longest wait of the interpreter's end for calls, in milliseconds.
static LONGEST_WAIT: AtomicU64 = AtomicU64::new(0);

/// Has the interpreter's end wait for calls, at most so long.
pub(super) fn end_with_interpreter(py: Python<'_>, limit: Duration) -> PyResult<()> {
    static END: PyOnceLock<Py<PyCFunction>> = PyOnceLock::new();
    let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    LONGEST_WAIT.fetch_max(limit, Ordering::SeqCst);
    let end = END.get_or_try_init(py, || wrap_pyfunction!(end, py).map(Bound::unbind))?;
    // The last one registered is the first to run: before those of libraries that the calls use.
    let atexit = py.import("atexit")?;
    atexit.call_method1("unregister", (end,))?;
    atexit.call_method1("register", (end,))?;
    Ok(())
}

/// Refuses calls from now on, and waits until none runs, or the limit has passed, or a signal handler raises.
#[pyfunction]
fn end(py: Python<'_>) -> PyResult<()> {
    let ended = |calls| Some(of_this_process(calls) | ENDED);
    let _ = CALLS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, ended);
    let started = Instant::now();
    let limit = Duration::from_millis(LONGEST_WAIT.load(Ordering::SeqCst));
    while CALLS.load(Ordering::SeqCst) & RUNNING != 0 && started.elapsed() < limit {
        py.detach(|| thread::sleep(POLL_INTERVAL));
        py.check_signals()?;
    }
    Ok(())
}
