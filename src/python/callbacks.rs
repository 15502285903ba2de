//! Calls into Python from threads of the core, which end with the interpreter and do not run while a process is forked.
//!
//! Before Python 3.14, a thread that waits for the interpreter while that ends is unwound, through frames of other
//! languages; that aborts the process. So the end of the interpreter refuses new calls and waits for those that run. A
//! fork waits for them too, as a child would keep what they had locked (pyarrow's S3 hangs in it, at the latest when it
//! ends).

use std::cell::Cell;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{IntoPyDict as _, PyCFunction};

use super::interrupt;
use crate::api::{InFlight, lock_requests};

/// Interval between checks whether calls still run.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Process id, whether calls have ended, and the numbers of forks that hold them, of waits and of calls that run. A
/// forked child, which has no other thread of its parent, begins anew. No lock: one that another thread held at the
/// fork would stay locked.
static CALLS: AtomicU64 = AtomicU64::new(0);
const ENDED: u64 = 1 << 31;
const HOLDS: Count = Count {
    one: 1 << 24,
    all: 0x7f << 24,
};
const WAITS: Count = Count {
    one: 1 << 12,
    all: 0xfff << 12,
};
const RUNNING: Count = Count { one: 1, all: 0xfff };

/// Bits that are a number.
#[derive(Clone, Copy)]
struct Count {
    one: u64,
    all: u64,
}

impl Count {
    const fn more(self, calls: u64) -> Option<u64> {
        if calls & self.all == self.all {
            None
        } else {
            Some(calls.saturating_add(self.one))
        }
    }

    const fn less(self, calls: u64) -> Option<u64> {
        if calls & self.all == 0 {
            None
        } else {
            Some(calls.saturating_sub(self.one))
        }
    }
}

fn of_this_process(calls: u64) -> u64 {
    let process = u64::from(std::process::id()) << 32;
    if calls & (u64::from(u32::MAX) << 32) == process {
        calls
    } else {
        process
    }
}

/// Changes the counts, if the change is possible; returns those before.
fn change(change: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
    CALLS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |calls| {
        change(of_this_process(calls))
    })
}

thread_local! {
    /// Calls that run on this thread.
    static OWN: Cell<u64> = const { Cell::new(0) };
    /// Lock that this thread takes through a fork.
    static LOCKED: Cell<Option<MutexGuard<'static, InFlight>>> = const { Cell::new(None) };
}

/// A call that runs.
struct Call(Count);

impl Call {
    /// Counts a call, after a fork that is on its way; `None` if the interpreter ends.
    fn begin(count: Count) -> Option<Self> {
        loop {
            let begun = change(|calls| {
                let is_held = count.one == RUNNING.one && calls & HOLDS.all != 0;
                (calls & ENDED == 0 && !is_held).then(|| count.more(calls))?
            });
            match begun {
                Ok(_) => break,
                Err(calls) if calls & ENDED == 0 && calls & HOLDS.all != 0 => {
                    thread::sleep(POLL_INTERVAL);
                }
                Err(_) => return None,
            }
        }
        OWN.with(|own| own.set(own.get().saturating_add(count.one)));
        Some(Self(count))
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        OWN.with(|own| own.set(own.get().saturating_sub(self.0.one)));
        // An error is a call that a fork left behind.
        let _ = change(|calls| self.0.less(calls));
    }
}

/// Calls Python on a thread that does not have the interpreter; `None` if that ends.
pub(super) fn call<T>(act: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    let _call = Call::begin(RUNNING)?;
    Python::try_attach(act)
}

/// Does something for a moment without the interpreter, which the thread may have; `None` if that ends.
pub(super) fn without_interpreter<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    let _call = Call::begin(WAITS)?;
    Python::try_attach(|py| py.detach(act))
}

/// Longest wait of a fork or the interpreter's end for calls, in milliseconds.
static LONGEST_WAIT: AtomicU64 = AtomicU64::new(0);

/// Makes forks and the interpreter's end wait for calls, at most this long.
pub(super) fn wait_at_ends(py: Python<'_>, limit: Duration) -> PyResult<()> {
    static END: PyOnceLock<Py<PyCFunction>> = PyOnceLock::new();
    let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    LONGEST_WAIT.fetch_max(limit, Ordering::SeqCst);
    let end = END.get_or_try_init(py, || {
        let os = py.import("os")?;
        // Not on Windows.
        if os.hasattr("register_at_fork")? {
            let hooks = [
                ("before", wrap_pyfunction!(hold, py)?),
                ("after_in_parent", wrap_pyfunction!(release, py)?),
                ("after_in_child", wrap_pyfunction!(release, py)?),
            ];
            os.call_method("register_at_fork", (), Some(&hooks.into_py_dict(py)?))?;
        }
        wrap_pyfunction!(end, py).map(Bound::unbind)
    })?;
    // The last one registered is the first to run: before those of libraries that the calls use.
    let atexit = py.import("atexit")?;
    atexit.call_method1("unregister", (end,))?;
    atexit.call_method1("register", (end,))?;
    Ok(())
}

/// Waits until none runs but this thread's, or the limit has passed, or a signal handler raises.
fn wait_for_calls(py: Python<'_>, counted: u64) -> PyResult<()> {
    let started = Instant::now();
    let limit = Duration::from_millis(LONGEST_WAIT.load(Ordering::SeqCst));
    let own = OWN.with(Cell::get) & counted;
    while of_this_process(CALLS.load(Ordering::SeqCst)) & counted > own && started.elapsed() < limit
    {
        py.detach(|| thread::sleep(POLL_INTERVAL));
        py.check_signals()?;
    }
    Ok(())
}

/// Refuses calls from now on, and waits for those that run.
#[pyfunction]
fn end(py: Python<'_>) -> PyResult<()> {
    let _ = change(|calls| Some(calls | ENDED));
    wait_for_calls(py, WAITS.all | RUNNING.all)
}

/// Lets no call begin until [`release`], waits for those that run, and takes the lock of requests.
#[pyfunction]
fn hold(py: Python<'_>) {
    let _ = change(|calls| HOLDS.more(calls));
    if let Err(raised) = wait_for_calls(py, RUNNING.all) {
        // What a hook raises is only printed.
        interrupt::again(py, &raised);
    }
    LOCKED.set(Some(lock_requests()));
}

/// Lets calls begin again; in the child there are none.
#[pyfunction]
fn release() {
    LOCKED.take();
    let _ = change(|calls| HOLDS.less(calls));
}
