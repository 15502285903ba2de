//! Progress of cleaning a log.

use std::sync::Arc;

use crate::tools::progress::Progress;
use crate::types::Offset;

/// Reports the clean bytes of a log. The number of passes is not known in advance: each counts for its share of the
/// dirty offsets, and within a pass the bytes read count.
#[derive(Debug, Default)]
pub(super) struct Meter {
    progress: Arc<Progress>,
    /// Bytes of the log, those of this pass included, that were not reported when it began.
    left: u64,
    pass: Share,
}

/// Weight of a pass in the progress.
#[derive(Debug, Default)]
struct Share {
    counts: u64,
    reported: u64,
    read: u64,
    size: u64,
}

impl Meter {
    pub(super) fn new(progress: &Arc<Progress>) -> Self {
        Self {
            progress: Arc::clone(progress),
            ..Self::default()
        }
    }

    /// A log of so many bytes begins.
    pub(super) fn begin(&mut self, size: u64) {
        self.left = size;
        self.pass = Share::default();
    }

    /// A pass begins that makes offsets from the first to before the second clean, of those before the third, and reads
    /// `size` bytes.
    pub(super) fn begin_pass(&mut self, (from, end, to): (Offset, Offset, Offset), size: u64) {
        let length = |to: Offset| u64::try_from(to.saturating_sub(from)).unwrap_or_default();
        self.pass = Share {
            counts: part(self.left, length(end), length(to)),
            size,
            ..Share::default()
        };
    }

    /// Adds so many bytes.
    pub(super) fn read(&mut self, bytes: u64) {
        let pass = &mut self.pass;
        pass.read = pass.read.saturating_add(bytes);
        let due = part(pass.counts, pass.read, pass.size);
        self.progress.add(due.saturating_sub(pass.reported));
        pass.reported = pass.reported.max(due);
    }

    /// The pass is over.
    pub(super) fn end_pass(&mut self) {
        let pass = std::mem::take(&mut self.pass);
        self.progress.add(pass.counts.saturating_sub(pass.reported));
        self.left = self.left.saturating_sub(pass.counts);
    }

    /// The log is over.
    pub(super) fn end(&mut self) {
        self.progress.add(std::mem::take(&mut self.left));
    }
}

/// The part of `whole` that `of` is of `all`.
fn part(whole: u64, of: u64, all: u64) -> u64 {
    let part = u128::from(whole).saturating_mul(u128::from(of.min(all)));
    let part = part.checked_div(u128::from(all)).unwrap_or_default();
    u64::try_from(part).unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::progress::Stage;

    #[test]
    fn passes_come_to_the_size_of_the_log() {
        let progress = Arc::new(Progress::default());
        progress.begin(Stage::Compacted, 1500);
        let mut meter = Meter::new(&progress);
        let mut reported = Vec::new();
        meter.begin(1000);
        // Three passes over offsets 100 to 200; each reads all that is clean by then.
        for (from, end, size) in [(100, 150, 400), (150, 175, 500), (175, 200, 600)] {
            meter.begin_pass((from, end, 200), size);
            meter.read(size / 2);
            reported.push(progress.done());
            // More than was thought.
            meter.read(size);
            meter.end_pass();
            reported.push(progress.done());
        }
        assert_eq!(reported, [250, 500, 625, 750, 875, 1000]);
        meter.end();
        assert_eq!(progress.done(), 1000);
        // Nothing to do.
        meter.begin(500);
        meter.end();
        assert_eq!(progress.done(), 1500);
        // Nothing to read.
        meter.begin(7);
        meter.begin_pass((5, 5, 5), 0);
        meter.end_pass();
        meter.end();
        assert_eq!(meter.left, 0);
    }
}
