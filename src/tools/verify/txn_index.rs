//! `.txnindex`: entries for ABORT markers, in their order; [`super::producers`] compares each with its transaction.

use std::path::PathBuf;

use super::finding::{Finding, Findings, INDEX_LENGTH, INDEX_ORDER, TXN_INDEX_ENTRY, UNREADABLE};
use crate::error::Error;
use crate::format::entry::{ABORTED_TXN_SIZE, AbortedTxn};
use crate::format::file_name::FileKind;
use crate::index::txn::TransactionIndex;
use crate::io::entry_file::bytes_of;
use crate::segment::LogSegment;
use crate::types::Offset;

/// The entries of one segment, passed in step with the log.
#[derive(Debug)]
pub(super) struct TxnEntries {
    /// The file, whether it is there or not.
    pub path: PathBuf,
    index: Option<TransactionIndex>,
    /// Entries may tell of markers that were written since, or not yet of those there are.
    pub may_be_ahead: bool,
    usable: usize,
    next: usize,
}

impl TxnEntries {
    /// Opens a segment's index and checks what needs no log. A segment without aborted transactions has none.
    #[must_use]
    pub(super) fn open(segment: &LogSegment, may_be_ahead: bool, findings: &mut Findings) -> Self {
        let path = segment.sibling(FileKind::TxnIndex);
        let mut entries = Self {
            path,
            index: None,
            may_be_ahead,
            usable: 0,
            next: 0,
        };
        let opened = TransactionIndex::open(&entries.path, segment.base_offset);
        let index = match opened {
            Ok(index) => index,
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                // Without an offset index a start recovers the segment, which writes this file
                // (`LogSegment.sanityCheck`).
                entries.may_be_ahead |= !segment.has_offset_index;
                return entries;
            }
            Err(error) => {
                findings.add(Finding::of_error(UNREADABLE, &entries.path, &error));
                return entries;
            }
        };
        if !index.is_whole() {
            let message = format!("length: expected a multiple of {ABORTED_TXN_SIZE}");
            let at = bytes_of::<ABORTED_TXN_SIZE>(index.entries());
            findings.add(Finding::new(INDEX_LENGTH, &entries.path, message).at(at));
        }
        let mut last = segment.base_offset.saturating_sub(1);
        for (n, txn) in index.iter().enumerate() {
            let at = bytes_of::<ABORTED_TXN_SIZE>(n);
            if let Err(error) = txn.ensure_readable(at) {
                findings.add(Finding::of_error(TXN_INDEX_ENTRY, &entries.path, &error));
                break;
            }
            if txn.last_offset <= last {
                let message = format!(
                    "last offset: expected above {last}, found {}",
                    txn.last_offset
                );
                let finding = Finding::new(INDEX_ORDER, &entries.path, message).at(at);
                findings.add(
                    finding
                        .to(bytes_of::<ABORTED_TXN_SIZE>(n.saturating_add(1)))
                        .of(txn.last_offset),
                );
                break;
            }
            last = txn.last_offset;
            entries.usable = n.saturating_add(1);
            if !(0..=last).contains(&txn.first_offset)
                || txn.last_stable_offset > last.saturating_add(1)
            {
                let message = format!(
                    "entry: expected a first offset up to {last} and a last stable offset up to one more, found {} and {}",
                    txn.first_offset, txn.last_stable_offset
                );
                let finding = Finding::new(TXN_INDEX_ENTRY, &entries.path, message).at(at);
                findings.add(
                    finding
                        .to(bytes_of::<ABORTED_TXN_SIZE>(n.saturating_add(1)))
                        .of(txn.first_offset),
                );
            }
        }
        entries.index = Some(index);
        entries
    }

    fn entry(&self) -> Option<AbortedTxn> {
        let index = self.index.as_ref()?;
        (self.next < self.usable).then(|| index.iter().nth(self.next))?
    }

    /// Passes the entries of markers below `offset`, which the log has not.
    pub(super) fn pass(&mut self, offset: Offset, is_damaged: bool, findings: &mut Findings) {
        while let Some(entry) = self.entry().filter(|entry| entry.last_offset < offset) {
            if !is_damaged {
                let message = format!(
                    "last offset: expected the offset of an ABORT marker, found {}",
                    entry.last_offset
                );
                self.tell(&entry, message, findings);
            }
            self.next = self.next.saturating_add(1);
        }
    }

    /// Takes the entry of the marker at `offset`.
    pub(super) fn at_marker(&mut self, offset: Offset) -> Option<AbortedTxn> {
        let entry = self.entry().filter(|entry| entry.last_offset == offset)?;
        self.next = self.next.saturating_add(1);
        Some(entry)
    }

    /// Tells about an entry: the next one, or the one taken last.
    pub(super) fn tell(&self, entry: &AbortedTxn, message: String, findings: &mut Findings) {
        let is_next = self.entry().is_some_and(|next| next == *entry);
        let n = if is_next {
            self.next
        } else {
            self.next.saturating_sub(1)
        };
        let finding =
            Finding::new(TXN_INDEX_ENTRY, &self.path, message).at(bytes_of::<ABORTED_TXN_SIZE>(n));
        let end = bytes_of::<ABORTED_TXN_SIZE>(n.saturating_add(1));
        findings.add(finding.to(end).of(entry.first_offset));
    }
}
