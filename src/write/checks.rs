//! Checks of batches before they are appended (`UnifiedLog.analyzeAndValidateRecords`).

use crate::error::{Error, Refusal, Result};
use crate::format::batch::{BatchHeader, HEADER_SIZE_UP_TO_MAGIC, MAGIC_AT};
use crate::types::{AppendOrigin, NO_PARTITION_LEADER_EPOCH, NO_TIMESTAMP, Offset, TimestampMs};

/// Rules by which batches are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Origin of the append.
    pub origin: AppendOrigin,
    /// The largest batch taken, where that is asked.
    pub max_batch_size: Option<usize>,
    /// True if offsets must rise: they are taken as they come.
    pub offsets_given: bool,
    /// Of a follower: batches of a later epoch come from a leader it does not follow yet.
    pub leader_epoch: i32,
}

/// Batches that may be appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckedBatches {
    /// First offset, where the first batch says it without being decompressed.
    pub first_offset: Option<Offset>,
    /// Last offset of the first batch.
    pub last_offset_of_first: Offset,
    /// Last offset.
    pub last_offset: Offset,
    /// Largest timestamp, -1 for none.
    pub max_timestamp: TimestampMs,
    /// Bytes that count: up to a batch cut off, or one of a later epoch.
    pub size: usize,
    /// The headers of the batches in them.
    pub headers: Vec<BatchHeader>,
}

impl CheckedBatches {
    /// The first offset, or what is known of it.
    #[must_use]
    pub(crate) fn first_or_last_of_first(&self) -> Offset {
        self.first_offset.unwrap_or(self.last_offset_of_first)
    }
}

/// The header of the batch that begins at `at`; `None` at the end, or where the batch is cut off
/// (`ByteBufferLogInputStream`).
fn next(records: &[u8], at: usize) -> Result<Option<BatchHeader>> {
    let rest = records.get(at..).unwrap_or_default();
    let shift = |error: Error| error.shift(at as u64);
    let Some(size) = BatchHeader::peek_size(rest).map_err(shift)? else {
        return Ok(None);
    };
    if rest.len() < HEADER_SIZE_UP_TO_MAGIC {
        return Ok(None);
    }
    if let Some(&magic) = rest.get(MAGIC_AT)
        && magic > 2
    {
        let magic = magic.cast_signed();
        return Err(shift(Error::corrupt(
            "magic",
            MAGIC_AT as u64,
            "0, 1 or 2",
            magic,
        )));
    }
    if size > rest.len() {
        return Ok(None);
    }
    BatchHeader::parse(rest).map_err(shift)
}

/// The headers of batches that are known to be whole.
#[cfg(feature = "internal")]
pub(super) fn headers(records: &[u8]) -> Result<Vec<BatchHeader>> {
    let mut headers = Vec::new();
    let mut at = 0usize;
    while let Some(header) = next(records, at)? {
        at = at.saturating_add(header.size);
        headers.push(header);
    }
    Ok(headers)
}

/// Looks at the batches in `records`, in order; a batch cut off at the end does not count.
///
/// # Errors
/// `CorruptRecord` for a header or checksum that is wrong; `InvalidRecord` for a client's batch that does not begin at
/// offset 0; `Refused` for one too large, or offsets that do not rise.
pub(crate) fn check(records: &[u8], rules: &Rules) -> Result<CheckedBatches> {
    let mut checked = CheckedBatches {
        first_offset: None,
        last_offset_of_first: -1,
        last_offset: -1,
        max_timestamp: NO_TIMESTAMP,
        size: 0,
        headers: Vec::new(),
    };
    let mut skipping = false;
    let mut at = 0usize;
    while let Some(header) = next(records, at)? {
        let begin = at;
        at = at.saturating_add(header.size);
        if !header.is_legacy() && rules.origin == AppendOrigin::Client && header.base_offset != 0 {
            return Err(Error::invalid(
                "base offset",
                begin as u64,
                "0 in a batch from a client",
                header.base_offset,
            ));
        }
        skipping |= rules.origin == AppendOrigin::Replication
            && header.partition_leader_epoch != NO_PARTITION_LEADER_EPOCH
            && header.partition_leader_epoch > rules.leader_epoch;
        if skipping {
            continue;
        }
        let last_offset = header.last_offset();
        if checked.headers.is_empty() {
            checked.first_offset = (!header.is_legacy()).then_some(header.base_offset);
            checked.last_offset_of_first = last_offset;
        }
        let rises = last_offset > checked.last_offset;
        let before = std::mem::replace(&mut checked.last_offset, last_offset);
        if let Some(most) = rules.max_batch_size.filter(|&most| header.size > most) {
            return Err(Error::refused(
                Refusal::RecordTooLarge,
                format!("a batch of {} bytes, above {most}", header.size),
            ));
        }
        let batch = records.get(begin..at).unwrap_or_default();
        header
            .ensure_valid(batch)
            .map_err(|error| error.shift(begin as u64))?;
        checked.max_timestamp = checked.max_timestamp.max(header.max_timestamp);
        checked.size = at;
        checked.headers.push(header);
        if rules.offsets_given && !rises {
            return Err(Error::refused(
                Refusal::OffsetsOutOfOrder,
                format!(
                    "a batch that ends at offset {last_offset} after one that ends at {before}"
                ),
            ));
        }
    }
    Ok(checked)
}
