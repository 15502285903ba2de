//! Cancellation: work that may take long checks here at every window of a file, every few MiB of a map and every
//! compressed block, and ends with [`Error::Interrupted`].
//!
//! The core knows no signals and no clock. The layer above sets, for its thread, the check to call.

use std::cell::RefCell;

use crate::error::{Error, Result};

type Poll = Box<dyn FnMut() -> bool>;

thread_local! {
    static POLL: RefCell<Option<Poll>> = const { RefCell::new(None) };
}

/// Restores the previous poll, also when the work unwinds.
struct RestoredPoll(Option<Poll>);

impl Drop for RestoredPoll {
    fn drop(&mut self) {
        POLL.set(self.0.take());
    }
}

/// Does the work, which ends early once `poll` returns true; from then on `poll` must always return true, because a
/// caller may swallow one error.
pub fn with_cancellation<T>(poll: impl FnMut() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    let _before = RestoredPoll(POLL.replace(Some(Box::new(poll))));
    work()
}

/// Checks for cancellation.
///
/// # Errors
/// `Interrupted` if the work was cancelled.
pub(crate) fn check() -> Result<()> {
    // Taken out meanwhile: the poll itself may do work that checks.
    let Some(mut poll) = POLL.take() else {
        return Ok(());
    };
    let is_cancelled = poll();
    POLL.set(Some(poll));
    if is_cancelled {
        return Err(Error::Interrupted);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn the_innermost_is_asked_and_nobody_afterwards() {
        let is_cancelled = || matches!(check(), Err(Error::Interrupted));
        assert!(!is_cancelled());
        with_cancellation(
            || with_cancellation(|| true, || check().is_err()),
            || {
                assert!(is_cancelled());
                assert!(!with_cancellation(|| false, is_cancelled));
                let unwound = catch_unwind(AssertUnwindSafe(|| {
                    with_cancellation(|| false, || panic!("x"))
                }));
                assert!(unwound.is_err() && is_cancelled());
            },
        );
        assert!(!is_cancelled());
    }
}
