//! Ctrl-C, and other signals with a handler in Python, while the core works; and callbacks that receive its progress.
//!
//! Python runs handlers in its main thread, between bytecode instructions: during a long call it would run none.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use super::errors::into_py;
use crate::api::tools::Progress;
use crate::api::with_cancellation;
use crate::error::Result;

/// Interval at which Python checks for signals. The check takes the interpreter, which other threads may hold.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Exception that a handler raised.
type Raised = Rc<RefCell<Option<PyErr>>>;

/// Reports progress to a callback.
pub(super) struct ProgressCallback {
    pub(super) function: Py<PyAny>,
    pub(super) progress: Arc<Progress>,
}

impl ProgressCallback {
    /// Calls the function, once it is known how much there is to do.
    pub(super) fn tell(&self, py: Python<'_>) -> PyResult<()> {
        let (stage, total) = (self.progress.stage().name(), self.progress.total());
        if total > 0 {
            self.function
                .call1(py, (stage, self.progress.done(), total))?;
        }
        Ok(())
    }

    /// Calls it for the last time: all is done.
    pub(super) fn tell_all(&self, py: Python<'_>) -> PyResult<()> {
        self.progress.add(self.progress.total());
        self.tell(py)
    }
}

struct Signals {
    raised: Raised,
    callback: Option<ProgressCallback>,
    last: Instant,
    /// In another than the main thread, or after the interpreter's end, no handler runs.
    is_deaf: bool,
}

impl Signals {
    fn arrived(&mut self) -> bool {
        if self.raised.borrow().is_some() {
            return true;
        }
        if (self.is_deaf && self.callback.is_none()) || self.last.elapsed() < POLL_INTERVAL {
            return false;
        }
        let heard = Python::try_attach(|py| {
            if let Some(callback) = &self.callback {
                callback.tell(py)?;
            }
            if self.is_deaf { Ok(false) } else { listen(py) }
        });
        self.last = Instant::now();
        match heard {
            None | Some(Ok(false)) => self.is_deaf = true,
            Some(Ok(true)) => {}
            Some(Err(raised)) => {
                self.raised.replace(Some(raised));
                return true;
            }
        }
        false
    }
}

/// Runs the handlers of signals that arrived; returns false in another than the main thread, where none runs. Asking
/// for the thread runs Python code, and so handlers: exceptions from here are theirs.
fn listen(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    let is_main = threading.call_method0("get_ident")?.eq(main)?;
    if is_main {
        py.check_signals()?;
    }
    Ok(is_main)
}

/// Does the work without the interpreter, and ends it early when a signal handler raises: that is the error then.
pub(super) fn detach<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    py.detach(|| match with_signals(work) {
        (_, Some(raised)) => Err(raised),
        (answer, None) => answer.map_err(into_py),
    })
}

/// Does the work, and ends it early when a signal handler raises; returns what it raised as well.
pub(super) fn with_signals<T>(work: impl FnOnce() -> T) -> (T, Option<PyErr>) {
    with_progress(None, work)
}

/// As [`with_signals`], and tells a function meanwhile the progress; what that raises ends the work too.
pub(super) fn with_progress<T>(
    callback: Option<ProgressCallback>,
    work: impl FnOnce() -> T,
) -> (T, Option<PyErr>) {
    let raised = Raised::default();
    let mut signals = Signals {
        raised: Rc::clone(&raised),
        callback,
        last: Instant::now(),
        is_deaf: false,
    };
    let answer = with_cancellation(move || signals.arrived(), work);
    let raised = raised.take();
    (answer, raised)
}

/// Lets the main thread hear of an interruption once more, where what it raised reaches no caller.
pub(super) fn again(py: Python<'_>, raised: &PyErr) {
    if raised.is_instance_of::<PyKeyboardInterrupt>(py)
        && let Err(failed) = py
            .import("_thread")
            .and_then(|thread| thread.call_method0("interrupt_main"))
    {
        failed.write_unraisable(py, None);
    }
}
