//! Transaction indexes under plan.

use super::content::Content;
use super::folder::Folder;
use crate::error::{Error, Result};
use crate::format::entry::{ABORTED_TXN_SIZE, AbortedTxn};
use crate::producers::ProducerStateManager;
use crate::producers::append::CompletedTxn;
use crate::types::Offset;

/// A transaction index being rebuilt. Its file is emptied if it is there and made with the first entry if not.
#[derive(Debug)]
pub(super) struct TxnLog {
    name: String,
    exists: bool,
    entries: Vec<u8>,
    last_offset: Option<Offset>,
}

impl TxnLog {
    pub(super) fn reset(folder: &Folder, name: String) -> Self {
        Self {
            exists: folder.contains(&name),
            name,
            entries: Vec::new(),
            last_offset: None,
        }
    }

    pub(super) fn note(
        &mut self,
        folder: &Folder,
        producers: &ProducerStateManager,
        completed: &CompletedTxn,
    ) -> Result<()> {
        if !completed.is_aborted {
            return Ok(());
        }
        if let Some(last) = self.last_offset
            && last >= completed.last_offset
        {
            let expected = format!("above {last}, as offsets rise");
            let at = self.entries.len() as u64;
            let found = completed.last_offset;
            let error = Error::corrupt_index("aborted transaction", at, expected, found);
            return Err(error.at(&folder.path_of(&self.name)));
        }
        self.last_offset = Some(completed.last_offset);
        let entry = AbortedTxn {
            version: AbortedTxn::CURRENT_VERSION,
            producer_id: completed.producer_id,
            first_offset: completed.first_offset,
            last_offset: completed.last_offset,
            last_stable_offset: producers.last_stable_offset(completed),
        };
        self.entries.extend_from_slice(&entry.encode());
        Ok(())
    }

    pub(super) fn store(&self, folder: &mut Folder) -> Result<()> {
        if self.exists || !self.entries.is_empty() {
            folder.write(&self.name, Content::bytes(self.entries.clone()))?;
        }
        Ok(())
    }
}

/// The most that is read of a transaction index: eight million entries.
const MAX_TXN_INDEX: u64 = 256 << 20;

/// Cuts a transaction index at the first entry whose marker is not below `offset`.
pub(super) fn truncate_txns(folder: &mut Folder, name: &str, offset: Offset) -> Result<()> {
    let entries = folder.read(name, MAX_TXN_INDEX)?;
    let size = ABORTED_TXN_SIZE;
    let cut = entries.chunks_exact(size).position(|entry| {
        AbortedTxn::parse(entry).is_some_and(|entry| entry.last_offset >= offset)
    });
    if let Some(at) = cut {
        folder.set_length(name, at.saturating_mul(size) as u64);
    }
    Ok(())
}

/// The one index check that loading makes (`TransactionIndex.sanityCheck`).
///
/// # Errors
/// `UnsupportedFormat` for a version Kafka does not read, which stops the loading; `CorruptIndex` for a file too large to be
/// one, `Io`.
pub(super) fn txn_index_is_sound(folder: &Folder, name: &str, base_offset: Offset) -> Result<bool> {
    let bytes = folder.read(name, MAX_TXN_INDEX)?;
    for (n, entry) in bytes.chunks_exact(ABORTED_TXN_SIZE).enumerate() {
        let position = n.saturating_mul(ABORTED_TXN_SIZE) as u64;
        match AbortedTxn::parse(entry).map(|txn| txn.sanity_check(position, base_offset)) {
            Some(Err(Error::CorruptIndex(_))) => return Ok(false),
            Some(Err(error)) => return Err(error.at(&folder.path_of(name))),
            Some(Ok(())) | None => {}
        }
    }
    Ok(true)
}
