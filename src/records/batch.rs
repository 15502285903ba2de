//! The records of one whole batch of any magic, in the batch itself or decompressed.
//!
//! Positions in errors count from the beginning of the batch. Positions in decompressed bytes do not exist in the file:
//! such an error has the position of the batch, and its text gives the position in the decompressed records.

use super::RecordSlot;
use super::block::{self, Payload};
use super::legacy;
use super::walk::RecordDecoder;
use crate::compress::{DecodeLimit, Decompressor};
use crate::error::{Error, Result};
use crate::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD, RECORDS_COUNT_AT};

/// More memory is given back after a batch that needed it.
const MAX_KEPT: usize = 16 << 20;
const MAX_SLOTS_KEPT: usize = MAX_KEPT / size_of::<RecordSlot>();

/// Opens batches one after the other, with memory that is kept.
#[derive(Debug, Default)]
pub(crate) struct BatchDecoder {
    decompressor: Decompressor,
    limit: DecodeLimit,
    /// The decompressed records of the batch that was opened last.
    arena: Vec<u8>,
    /// The records of the batch that was opened last, if it is of magic 0 or 1.
    legacy: Vec<RecordSlot>,
    payload: Option<Payload>,
}

impl BatchDecoder {
    /// Takes no more than `limit` allows of a compressed batch.
    #[must_use]
    pub(crate) fn with_limit(limit: DecodeLimit) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Opens a whole batch, decompressed if need be. Its checksum is the caller's to check.
    ///
    /// # Errors
    /// Those of [`block::open`] and [`legacy::walk`]; `InvalidRecord` for a count of records below 0.
    pub(crate) fn open<'a>(
        &'a mut self,
        batch: &'a [u8],
        header: &BatchHeader,
    ) -> Result<BatchRecords<'a>> {
        self.arena.clear();
        self.arena.shrink_to(MAX_KEPT);
        self.legacy.clear();
        self.legacy.shrink_to(MAX_SLOTS_KEPT);
        self.payload = None;
        // A walk through a log is no stricter than Kafka's, which first looks at the count where it reads records.
        if let Some(count) = header.records_count.filter(|&count| count < 0) {
            let at = RECORDS_COUNT_AT as u64;
            return Err(Error::invalid("records count", at, "0 or more", count));
        }
        let (arena, limit) = (&mut self.arena, self.limit);
        let payload = if header.is_legacy() {
            let slots = &mut self.legacy;
            legacy::walk(
                batch,
                0,
                header,
                &mut self.decompressor,
                arena,
                limit,
                slots,
            )?
        } else {
            block::open(batch, header, &mut self.decompressor, arena, limit)?.payload
        };
        self.payload = Some(payload);
        self.reopen(batch, header)
    }

    /// The records once more, of the batch that was opened last.
    ///
    /// # Errors
    /// `Internal` where none is open.
    pub(crate) fn reopen<'a>(
        &'a self,
        batch: &'a [u8],
        header: &BatchHeader,
    ) -> Result<BatchRecords<'a>> {
        let (bytes, start) = match self.payload {
            Some(Payload::Source) => (batch, RECORD_BATCH_OVERHEAD),
            Some(Payload::Arena) => (self.arena.as_slice(), 0),
            None => return Err(Error::internal("no batch is open")),
        };
        let rest = if header.is_legacy() {
            BatchRest::Decoded(&self.legacy)
        } else {
            BatchRest::Walk(RecordDecoder::new(header, start, bytes.len()))
        };
        Ok(BatchRecords {
            bytes,
            is_decompressed: self.payload == Some(Payload::Arena),
            rest,
            is_done: false,
        })
    }
}

/// The records of an open batch, decoded some at a time.
#[derive(Debug)]
pub(crate) struct BatchRecords<'a> {
    bytes: &'a [u8],
    is_decompressed: bool,
    rest: BatchRest<'a>,
    is_done: bool,
}

#[derive(Debug)]
enum BatchRest<'a> {
    Walk(RecordDecoder),
    Decoded(&'a [RecordSlot]),
}

impl<'a> BatchRecords<'a> {
    /// The bytes that slots are about: the batch, or all of its decompressed records.
    #[must_use]
    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// An error at a position in [`BatchRecords::bytes`], placed in the batch.
    #[must_use]
    pub(crate) fn locate(&self, error: Error) -> Error {
        if self.is_decompressed {
            error.inside(0)
        } else {
            error
        }
    }

    /// Decodes the next records into `slots`, which has room for one at least; `None` after the last one.
    ///
    /// # Errors
    /// Those of [`RecordDecoder::step`].
    pub(crate) fn next<'s>(
        &mut self,
        slots: &'s mut [RecordSlot],
    ) -> Result<Option<&'s mut [RecordSlot]>> {
        if self.is_done {
            return Ok(None);
        }
        let count = match &mut self.rest {
            // Once also where there are no records: no bytes may be there then.
            BatchRest::Walk(walk) => {
                let count = walk.step(self.bytes, slots);
                self.is_done = walk.remaining() == 0;
                count.map_err(|error| self.locate(error))?
            }
            BatchRest::Decoded(rest) => {
                let count = rest.len().min(slots.len());
                let (next, after) = rest.split_at_checked(count).unwrap_or_default();
                slots
                    .iter_mut()
                    .zip(next)
                    .for_each(|(slot, next)| *slot = *next);
                *rest = after;
                self.is_done = after.is_empty();
                count
            }
        };
        Ok(slots.get_mut(..count).filter(|slots| !slots.is_empty()))
    }

    /// Decodes all records that are left.
    ///
    /// # Errors
    /// As [`BatchRecords::next`].
    pub(crate) fn all(&mut self) -> Result<Vec<RecordSlot>> {
        let (mut all, mut slots) = (Vec::new(), [RecordSlot::default(); 256]);
        while let Some(next) = self.next(&mut slots)? {
            all.extend_from_slice(next);
        }
        Ok(all)
    }

    /// Decodes all records that are left, for their faults alone.
    ///
    /// # Errors
    /// As [`BatchRecords::next`].
    pub(crate) fn check(&mut self) -> Result<()> {
        let mut slots = [RecordSlot::default(); 256];
        while self.next(&mut slots)?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::{Codec, Compressor};
    use crate::records::builder::{BatchBuilder, BatchOptions};
    use crate::records::plain;
    use crate::types::Compression;

    fn batch(codec: Compression, records: i64) -> Vec<u8> {
        let mut builder = BatchBuilder::new(BatchOptions {
            codec: Codec::new(codec),
            ..BatchOptions::default()
        })
        .unwrap();
        for n in 0..records {
            builder.append(n, n, Some(b"key"), None, &[]).unwrap();
        }
        let mut out = Vec::new();
        builder.finish(&mut Compressor::new(), &mut out).unwrap();
        out
    }

    #[test]
    fn as_the_plain_decoder() {
        let mut decoder = BatchDecoder::default();
        for codec in [Compression::None, Compression::Lz4] {
            let batch = batch(codec, 700);
            let header = BatchHeader::parse(&batch).unwrap().unwrap();
            let (mut arena, mut expected) = (Vec::new(), Vec::new());
            let mut decompressor = Decompressor::new();
            let limit = DecodeLimit::default();
            let slots = &mut expected;
            plain::batch(
                &batch,
                0,
                &header,
                &mut decompressor,
                &mut arena,
                limit,
                slots,
            )
            .unwrap();
            let mut records = decoder.open(&batch, &header).unwrap();
            assert_eq!(records.all().unwrap(), expected, "{codec:?}");
            assert!(
                records
                    .next(&mut [RecordSlot::default()])
                    .unwrap()
                    .is_none()
            );
            let mut again = decoder.reopen(&batch, &header).unwrap();
            let first = *again
                .next(&mut [RecordSlot::default()])
                .unwrap()
                .unwrap()
                .first()
                .unwrap();
            assert_eq!(first.key(again.bytes()), Some(b"key".as_slice()));
        }
    }

    #[test]
    fn errors_are_placed_in_the_batch() {
        let mut decoder = BatchDecoder::default();
        for (codec, place) in [
            (Compression::None, "byte 61: "),
            (Compression::Lz4, "(byte 0 of the decompressed records)"),
        ] {
            // A length of 0 in place of the first record's.
            let mut batch = batch(codec, 1);
            let at = batch.windows(2).rposition(|two| two == [0x12, 0]).unwrap();
            batch[at] = 0;
            let header = BatchHeader::parse(&batch).unwrap().unwrap();
            let error = decoder.open(&batch, &header).unwrap().check().unwrap_err();
            assert!(error.to_string().contains(place), "{error}");
        }
        let batch = batch(Compression::None, 1);
        let mut header = BatchHeader::parse(&batch).unwrap().unwrap();
        header.records_count = Some(-1);
        let error = decoder.open(&batch, &header).unwrap_err().to_string();
        assert!(
            error.contains("byte 57: records count: expected 0 or more, found -1"),
            "{error}"
        );
    }
}
