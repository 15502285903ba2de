//! Aborted transactions, by the offset of their markers (`TransactionIndex`, KIP-98).
//!
//! Appended to while the segment is active, never preallocated; a part of an entry at the end is ignored.

use std::path::Path;

use super::{Access, Slots};
use crate::error::{Error, Result};
use crate::format::entry::{ABORTED_TXN_SIZE, AbortedTxn};
use crate::types::Offset;

/// A read-only transaction index.
#[derive(Clone, Debug)]
pub struct TransactionIndex {
    slots: Slots<ABORTED_TXN_SIZE>,
    base_offset: Offset,
}

impl TransactionIndex {
    /// Opens the index of the segment that begins at `base_offset`.
    ///
    /// # Errors
    /// `Io` where the file cannot be opened or mapped.
    pub fn open(path: &Path, base_offset: Offset, access: Access) -> Result<Self> {
        let slots = Slots::open(path, access, |_, _| false)?;
        Ok(Self { slots, base_offset })
    }

    /// The segment's base offset.
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        self.base_offset
    }

    /// Entries written.
    #[must_use]
    pub const fn entries(&self) -> usize {
        self.slots.entries
    }

    /// Entry `n`, if there is one.
    #[must_use]
    pub fn entry(&self, n: usize) -> Option<AbortedTxn> {
        self.slots
            .written()
            .get(n)
            .and_then(|slot| AbortedTxn::parse(slot))
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = AbortedTxn> + '_ {
        self.slots
            .written()
            .iter()
            .filter_map(|slot| AbortedTxn::parse(slot))
    }

    /// Kafka's check: a version it knows, and no marker below the base.
    ///
    /// # Errors
    /// `CorruptIndex` where it fails.
    pub fn sanity_check(&self) -> Result<()> {
        for (n, txn) in self.iter().enumerate() {
            let at = (n as u64).saturating_mul(ABORTED_TXN_SIZE as u64);
            let fault = if txn.version > AbortedTxn::CURRENT_VERSION {
                let expected = format!("at most {}", AbortedTxn::CURRENT_VERSION);
                Error::corrupt_index("aborted transaction version", at, expected, txn.version)
            } else if txn.last_offset < self.base_offset {
                let expected = format!("at least the base, {}", self.base_offset);
                Error::corrupt_index("last offset", at, expected, txn.last_offset)
            } else {
                continue;
            };
            return Err(fault.at(&self.slots.path));
        }
        Ok(())
    }
}
