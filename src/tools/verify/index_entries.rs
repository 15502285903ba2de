//! Checks shared by offset and time indexes: places in the file, its length, and the room after the last entry.

use std::path::Path;

use super::finding::{Code, Finding, Findings, INDEX_LENGTH, INDEX_ZERO_TAIL};
use crate::types::{Offset, Position};

/// Fill level of an index file with entries of `size` bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexFill {
    pub(super) size: usize,
    /// Of the file, in bytes.
    pub(super) length: u64,
    pub(super) entries: usize,
    pub(super) max_entries: usize,
}

impl IndexFill {
    /// Position of entry `n`.
    pub(super) const fn place(self, n: usize) -> Position {
        (n as u64).saturating_mul(self.size as u64)
    }

    /// Checks the length; only an index in use is expected to have room.
    pub(super) fn check(self, path: &Path, is_active: bool, findings: &mut Findings) {
        let (size, length) = (self.size as u64, self.length);
        if length.checked_rem(size) != Some(0) {
            let message = format!("length: expected a multiple of {size}, found {length}");
            findings.add(Finding::new(INDEX_LENGTH, path, message).at(length));
        }
        if !is_active && self.max_entries > self.entries {
            let message = format!("zeros after {} entries", self.entries);
            let finding = Finding::new(INDEX_ZERO_TAIL, path, message);
            findings.add(finding.at(self.place(self.entries)).to(length));
        }
    }

    /// A finding about entry `n`, which names `offset`.
    pub(super) fn finding(
        self,
        code: &'static Code,
        path: &Path,
        (n, offset): (usize, Offset),
        message: String,
    ) -> Finding {
        let finding = Finding::new(code, path, message)
            .at(self.place(n))
            .of(offset);
        finding.to(self.place(n.saturating_add(1)))
    }
}
