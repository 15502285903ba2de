//! The latest record of each key of a partition, as a compacted topic would keep it, without compacting it.
//!
//! A first pass over the range finds the offset of each key's latest record; the reader then leaves out all others. As
//! in Kafka's cleaner (`SkimpyOffsetMap`), keys are compared by a hash of 128 bits alone and the map has a bounded size.
//! Where the keys do not fit, the cleaner ends its pass early; here the pass goes on for half of the keys, chosen by
//! their hash, and another pass takes the other half. Of finished passes only the offsets remain ([`OffsetSet`]).
//!
//! | record | in the compacted view |
//! |---|---|
//! | the last one of its key | yes |
//! | that one, without a value (a tombstone) | only where tombstones are wanted |
//! | one without a key | no: the cleaner drops it |
//! | a control record | no: it has no key of the topic |

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

use crate::error::{Error, Result};
use crate::records::RecordSlot;
use crate::records::arena::Arena;
use crate::records::chunk::Chunk;
use crate::scan::range::PartitionRange;
use crate::scan::reader::LogReader;
use crate::segment::offset_set::OffsetSet;
use crate::segment::reader::{Filled, ReadOptions};
use crate::segment::source::Copying;
use crate::types::Offset;

/// Most keys of a pass: what a table of about 100 MiB takes, as much as Kafka's `log.cleaner.dedupe.buffer.size`.
const MOST_KEYS: usize = 7 << 19;

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
        let hashes = (RandomState::new(), RandomState::new());
        let mut slices = vec![Slice::default()];
        while let Some(mut slice) = slices.pop() {
            let mut keys = Keys::default();
            each_record(range, options, |slot, bytes| {
                let Some(key) = part(bytes, slot.key_start, slot.key_len) else {
                    return;
                };
                let hash = KeyHash(hashes.0.hash_one(key), hashes.1.hash_one(key));
                if !slice.takes(hash) {
                    return;
                }
                let is_wanted = self.tombstones || slot.value_len >= 0;
                keys.insert(hash, is_wanted.then_some(slot.offset));
                while keys.len() > most_keys
                    && let Some(other) = slice.halve()
                {
                    keys.retain(|hash, _| slice.takes(*hash));
                    slices.push(other);
                }
            })?;
            keys.into_values()
                .flatten()
                .for_each(|offset| found.insert(offset));
        }
        Ok(found)
    }
}

/// The latest wanted offset by the hash of the key; `None` where a tombstone that is not wanted came last.
type Keys = HashMap<KeyHash, Option<Offset>, BuildHasherDefault<AsIs>>;

/// Two hashes of a key, with seeds that nobody who writes keys knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeyHash(u64, u64);

impl Hash for KeyHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

/// Takes a hash for what it is.
#[derive(Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

/// The keys of a pass: those whose second hash ends in certain bits.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    mask: u64,
    bits: u64,
}

impl Slice {
    const fn takes(self, hash: KeyHash) -> bool {
        hash.1 & self.mask == self.bits
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

/// Calls `take` with every record of the range and the bytes that it lies in.
fn each_record(
    range: &PartitionRange,
    options: ReadOptions,
    mut take: impl FnMut(&RecordSlot, &[u8]),
) -> Result<()> {
    let mut reader = LogReader::new(vec![range.clone()], options, Copying::Always);
    let mut chunk = Chunk::new(Arena::near());
    loop {
        match reader.fill(&mut chunk)? {
            Filled::End => return Ok(()),
            Filled::ArenaFull => chunk.reset(),
            Filled::Records => {
                if !chunk.is_empty() {
                    let bytes = chunk
                        .bytes()
                        .ok_or_else(|| Error::internal("records without the bytes they lie in"))?;
                    for slot in chunk.slots() {
                        take(slot, bytes.as_slice());
                    }
                }
                chunk.clear();
            }
        }
    }
}

fn part(bytes: &[u8], start: u32, len: i32) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    let len = usize::try_from(len).ok()?;
    bytes.get(start..start.checked_add(len)?)
}

#[cfg(test)]
mod tests;
