//! Processor time of one pass, and the selection of passes.

/// Nanoseconds that this thread has been on a processor.
pub(crate) fn on_processor() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Returns whether a comma list in the environment names it; all are named if it is not set.
pub(crate) fn chosen(variable: &str, name: &str) -> bool {
    std::env::var(variable).map_or(true, |names| names.split(',').any(|one| one == name))
}
