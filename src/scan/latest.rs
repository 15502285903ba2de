//! The latest record of each key of a partition, as a compacted topic would keep it, without compacting it.
//!
//! A first pass over the range finds the offset of each key's latest record; the reader then leaves out all others. As
//! in Kafka's cleaner (`SkimpyOffsetMap`), keys are compared by a hash of 128 bits alone and the map has a bounded
//! size. Where the keys do not fit, the cleaner ends its pass early; here the pass continues for half of the keys,
//! chosen by their hash, and another pass takes the other half. Only the offsets of finished passes are kept
//! ([`OffsetSet`]).
//!
//! | record | in the compacted view |
//! |---|---|
//! | the last one of its key | yes |
//! | that one, without a value (a tombstone) | only if tombstones are requested |
//! | one without a key | no: the cleaner drops it |
//! | a control record | no: it has no key of the topic |

use std::hint::black_box;

use crate::error::{Error, Result};
use crate::records::RecordSlot;
use crate::records::arena::Arena;
use crate::records::chunk::Chunk;
use crate::scan::offset_map::{KeyHash, OffsetMap, SLOT_SIZE};
use crate::scan::range::PartitionRange;
use crate::scan::reader::LogReader;
use crate::segment::offset_set::OffsetSet;
use crate::segment::reader::{FillOutcome, ReadOptions};
use crate::segment::source::MapPolicy;
use crate::types::Offset;

/// Most keys of a pass: what a map of about 100 MiB takes, as much as Kafka's `log.cleaner.dedupe.buffer.size`.
const MOST_KEYS: usize = 7 << 19;

/// Records whose slots of the map are fetched from memory at once.
const AT_ONCE: usize = 64;

/// The offset of a key whose latest record is not wanted.
const UNWANTED: Offset = -1;

/// The compacted view of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Latest {
    /// Also keys whose latest record has no value.
    pub tombstones: bool,
}

impl Latest {
    /// The offsets of the records in `range` that are the latest of their keys.
    ///
    /// # Errors
    /// What reading finds.
    pub(crate) fn offsets(self, range: &PartitionRange, options: ReadOptions) -> Result<OffsetSet> {
        self.offsets_within(range, options, MOST_KEYS)
    }

    fn offsets_within(
        self,
        range: &PartitionRange,
        options: ReadOptions,
        most_keys: usize,
    ) -> Result<OffsetSet> {
        let options = ReadOptions {
            include_control: false,
            ..options
        };
        let mut found = OffsetSet::default();
        // A sixth of the slots stays free, so that searches end soon.
        let slots = most_keys.saturating_add(most_keys / 5).saturating_add(2);
        let mut keys = OffsetMap::new(slots.saturating_mul(SLOT_SIZE), 1.0)?;
        let mut group: Vec<(KeyHash, Offset)> = Vec::with_capacity(AT_ONCE);
        let mut slices = vec![Slice::default()];
        while let Some(mut slice) = slices.pop() {
            keys.clear();
            each_chunk(range, options, |records, bytes| {
                for records in records.chunks(AT_ONCE) {
                    group.clear();
                    group.extend(records.iter().filter_map(|record| {
                        let key = record.key(bytes)?;
                        let is_wanted = self.tombstones || record.value_len >= 0;
                        let offset = if is_wanted { record.offset } else { UNWANTED };
                        Some((keys.hash(key), offset))
                    }));
                    let touched = group.iter().map(|(hash, _)| keys.touch(*hash));
                    black_box(touched.fold(0, |all, one| all ^ one));
                    for &(hash, offset) in &group {
                        if !slice.takes(hash) {
                            continue;
                        }
                        keys.put(hash, offset)?;
                        while keys.entries() > most_keys
                            && let Some(other) = slice.halve()
                        {
                            keys.retain(|hash| slice.takes(hash))?;
                            slices.push(other);
                        }
                    }
                }
                Ok(())
            })?;
            let wanted = keys.offsets().filter(|offset| *offset != UNWANTED);
            wanted.for_each(|offset| found.insert(offset));
        }
        Ok(found)
    }
}

/// The keys of a pass: those whose hash ends in certain bits.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    mask: u64,
    bits: u64,
}

impl Slice {
    const fn takes(self, hash: KeyHash) -> bool {
        hash[1] & self.mask == self.bits
    }

    /// Takes half of the keys from now on; returns the other half. `None` where all bits are used.
    const fn halve(&mut self) -> Option<Self> {
        let bit = self.mask.wrapping_add(1);
        if bit == 0 {
            return None;
        }
        self.mask |= bit;
        Some(Self {
            mask: self.mask,
            bits: self.bits | bit,
        })
    }
}

/// Calls `take` with the records of the range, some at a time, and the bytes that they lie in.
fn each_chunk(
    range: &PartitionRange,
    options: ReadOptions,
    mut take: impl FnMut(&[RecordSlot], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut reader = LogReader::new(vec![range.clone()], options, MapPolicy::Never);
    let mut chunk = Chunk::new(Arena::near());
    loop {
        match reader.fill(&mut chunk)? {
            FillOutcome::End => return Ok(()),
            FillOutcome::ArenaFull => chunk.reset(),
            FillOutcome::Records => {
                if !chunk.is_empty() {
                    let bytes = chunk
                        .bytes()
                        .ok_or_else(|| Error::internal("records without the bytes they lie in"))?;
                    take(chunk.slots(), bytes.as_slice())?;
                }
                chunk.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests;
