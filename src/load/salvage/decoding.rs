//! Checks that a batch can be read: a right checksum proves nothing about what its writer put under it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::io::storage::ReadFile;
use crate::records::batch::BatchDecoder;
use crate::records::control::EndTransaction;
use crate::segment::resync::Reason;
use crate::segment::skipping::is_damage;
use crate::segment::source::{Access, SegmentSource};
use crate::types::Position;

/// Producers with an open transaction among the batches that are kept.
#[derive(Debug, Default)]
pub(super) struct OpenTransactions(BTreeSet<i64>);

impl OpenTransactions {
    /// Returns whether Kafka loads this batch after those before it: not where it is no part of its producer's open
    /// transaction (`ProducerAppendInfo.appendDataBatch`, `InvalidTxnStateException`).
    fn admits(&mut self, header: &BatchHeader, ends_transaction: bool) -> bool {
        let producer_id = header.producer_id;
        if header.is_legacy() || !header.has_producer_id() {
            return true;
        }
        if header.is_control() {
            if ends_transaction {
                self.0.remove(&producer_id);
            }
        } else if header.is_transactional() {
            self.0.insert(producer_id);
        } else {
            return !self.0.contains(&producer_id);
        }
        true
    }
}

/// Decodes batches of one file.
pub(super) struct Decoding {
    source: SegmentSource,
    decoder: BatchDecoder,
}

impl Decoding {
    /// Of the first `length` bytes.
    pub(super) fn new(file: &Arc<dyn ReadFile>, length: u64) -> Result<Self> {
        Ok(Self {
            source: SegmentSource::over(Arc::clone(file), length, Access::Records)?,
            decoder: BatchDecoder::default(),
        })
    }

    /// Finds why the whole batch at `position` is not kept: its records cannot be decoded, its marker cannot be read,
    /// or it breaks into its producer's transaction; `None` if it is kept.
    pub(super) fn fault(
        &mut self,
        position: Position,
        header: &BatchHeader,
        open: &mut OpenTransactions,
    ) -> Result<Option<Reason>> {
        match self.decode(position, header.size) {
            Ok(ends_transaction) => {
                Ok((!open.admits(header, ends_transaction)).then_some(Reason::Transaction))
            }
            Err(error) if is_damage(&error) => Ok(Some(Reason::of_decoding(&error))),
            Err(error) => Err(error),
        }
    }

    /// Returns whether it is a marker that ends a transaction.
    fn decode(&mut self, position: Position, size: usize) -> Result<bool> {
        let batch = self.source.bytes(position, size)?;
        // The header as it lies in the file: a wrapper names its last offset there.
        let Some(header) = BatchHeader::parse(batch)? else {
            return Ok(false);
        };
        self.decoder.open(batch, &header)?.check()?;
        if header.is_control() && header.has_producer_id() {
            return Ok(EndTransaction::of(batch, &header)?.is_some());
        }
        Ok(false)
    }
}
