//! Ctrl-C, and whatever other signal has a handler in Python, while the core is at work.
//!
//! Python runs handlers in its main thread, between its own instructions: in a long call it would hear of one at the end.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

use super::errors::into_py;
use crate::error::Result;
use crate::io::interrupt;

/// How often Python is asked. To ask it takes the interpreter, for which others may make us wait.
const PACE: Duration = Duration::from_millis(50);

/// What a handler raised.
type Raised = Rc<RefCell<Option<PyErr>>>;

struct Signals {
    raised: Raised,
    last: Instant,
    /// Not the main thread, or no interpreter any more: nothing will be heard.
    is_deaf: bool,
}

impl Signals {
    fn arrived(&mut self) -> bool {
        if self.raised.borrow().is_some() {
            return true;
        }
        if self.is_deaf || self.last.elapsed() < PACE {
            return false;
        }
        let heard = Python::try_attach(listen);
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

/// Runs the handlers of the signals that came; false in another than the main thread, where none runs. That it asks which
/// thread it is takes Python code, in which handlers run too: what it raises is theirs.
fn listen(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    let is_main = threading.call_method0("get_ident")?.eq(main)?;
    if is_main {
        py.check_signals()?;
    }
    Ok(is_main)
}

/// Does the work without the interpreter, ending it when a signal's handler raises something: that is the error then.
pub(super) fn detach<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    py.detach(|| match heeding(work) {
        (_, Some(raised)) => Err(raised),
        (answer, None) => answer.map_err(into_py),
    })
}

/// Does the work, ending it when a signal's handler raises something, which is given besides.
pub(super) fn heeding<T>(work: impl FnOnce() -> T) -> (T, Option<PyErr>) {
    let raised = Raised::default();
    let mut signals = Signals {
        raised: Rc::clone(&raised),
        last: Instant::now(),
        is_deaf: false,
    };
    let answer = interrupt::with_cancellation(move || signals.arrived(), work);
    let raised = raised.take();
    (answer, raised)
}

/// Lets the main thread hear of an interruption once more, where what it raised reaches nobody.
pub(super) fn again(py: Python<'_>, raised: &PyErr) {
    if raised.is_instance_of::<PyKeyboardInterrupt>(py)
        && let Err(failed) = py
            .import("_thread")
            .and_then(|thread| thread.call_method0("interrupt_main"))
    {
        failed.write_unraisable(py, None);
    }
}
