//! Checks that a batch can be read: a right checksum proves nothing about what its writer put under it.

use std::sync::Arc;

use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::io::storage::ReadFile;
use crate::records::batch::BatchDecoder;
use crate::records::control::EndTransaction;
use crate::segment::resync::Reason;
use crate::segment::skipping::is_damage;
use crate::segment::source::{Access, SegmentSource};
use crate::segment::transactions::OpenTransactions;
use crate::types::Position;

/// Decodes batches of one file.
pub(super) struct DecodedBatch {
    source: SegmentSource,
    decoder: BatchDecoder,
}

impl DecodedBatch {
    /// Of the first `length` bytes.
    pub(super) fn new(file: &Arc<dyn ReadFile>, length: u64) -> Result<Self> {
        Ok(Self {
            source: SegmentSource::over(Arc::clone(file), length, Access::Records)?,
            decoder: BatchDecoder::default(),
        })
    }

    /// Finds why the whole batch at `position` is not kept: its records cannot be decoded, its marker cannot be read,
    /// or Kafka does not load it inside of its producer's open transaction (`ProducerAppendInfo.appendDataBatch`,
    /// `InvalidTxnStateException`); `None` if it is kept.
    pub(super) fn fault(
        &mut self,
        position: Position,
        header: &BatchHeader,
        open: &mut OpenTransactions,
    ) -> Result<Option<Reason>> {
        match self.decode(position, header.size) {
            Ok(marker) => {
                let is_plain = !header.is_transactional() && !header.is_control();
                let breaks_in = is_plain && open.contains(header.producer_id);
                open.pass(header, marker.map(|marker| marker.is_abort));
                Ok(breaks_in.then_some(Reason::Transaction))
            }
            Err(error) if is_damage(&error) => Ok(Some(Reason::of_decoding(&error))),
            Err(error) => Err(error),
        }
    }

    /// Decodes the batch; returns what it says as the marker of a transaction.
    fn decode(&mut self, position: Position, size: usize) -> Result<Option<EndTransaction>> {
        let batch = self.source.bytes(position, size)?;
        // The header as it lies in the file: a wrapper names its last offset there.
        let Some(header) = BatchHeader::parse(batch)? else {
            return Ok(None);
        };
        self.decoder.open(batch, &header)?.check()?;
        if header.is_control() && header.has_producer_id() {
            return EndTransaction::of(batch, &header);
        }
        Ok(None)
    }
}
