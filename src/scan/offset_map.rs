//! The last offset of each key (`SkimpyOffsetMap`).
//!
//! A slot is 24 bytes: a hash of the key (16) and the offset (8). As in Kafka, keys are distinguished by their hash
//! alone. The hash is not Kafka's MD5, whose collisions a producer can construct, but SipHash with a random key: two of
//! a billion keys have the same hash with a probability of 2^-69. The map is full when a part of its slots is used, so
//! that a search ends soon; the pass then ends there.
//!
//! Memory is allocated as needed, in steps that double, up to the full size.

use std::hash::{BuildHasher, RandomState};

use crate::error::{Error, Result};
use crate::types::Offset;

/// Bytes of a slot, by which Kafka counts `log.cleaner.dedupe.buffer.size`.
pub(crate) const SLOT_SIZE: usize = 24;
/// Slots to begin with.
const FIRST_SLOTS: usize = 1 << 14;

/// Hash of a key.
pub(crate) type KeyHash = [u64; 2];

/// A hash and an offset; all zeros is none.
type HashSlot = [u64; 3];

/// The last offset of each key, in bounded memory.
#[derive(Debug)]
pub(crate) struct OffsetMap {
    /// Each for half of the hash.
    hashers: [RandomState; 2],
    slots: Vec<HashSlot>,
    most_slots: usize,
    most_entries: usize,
    entries: usize,
    latest_offset: Offset,
}

impl OffsetMap {
    /// Bytes of a map with room for a key.
    pub(crate) const MIN_BYTES: usize = 2 * SLOT_SIZE;

    /// A map of that many bytes, filled up to `load_factor`.
    ///
    /// # Errors
    /// `InvalidArgument` where not even one key has room.
    pub(crate) fn new(bytes: usize, load_factor: f64) -> Result<Self> {
        let most_slots = bytes.checked_div(SLOT_SIZE).unwrap_or_default();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "as Kafka's cast to int, of a count far below 2^53"
        )]
        let most_entries = (most_slots as f64 * load_factor.clamp(0.0, 1.0)) as usize;
        if most_entries == 0 {
            return Err(Error::InvalidArgument(format!(
                "offset map: expected at least {} bytes, found {bytes}",
                Self::MIN_BYTES
            )));
        }
        Ok(Self {
            hashers: [RandomState::new(), RandomState::new()],
            slots: Vec::new(),
            most_slots,
            most_entries,
            entries: 0,
            latest_offset: -1,
        })
    }

    /// The hash of a key in this map; each map has its own.
    #[inline]
    #[must_use]
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        (self.hashers.each_ref()).map(|hasher| hasher.hash_one(key))
    }

    /// The hash of each key, all before the map is looked at: searches then wait for memory together.
    pub(crate) fn hash_all<'a>(
        &self,
        keys: impl Iterator<Item = &'a [u8]>,
        hashes: &mut Vec<KeyHash>,
    ) {
        hashes.clear();
        hashes.extend(keys.map(|key| self.hash(key)));
    }

    /// Forgets all keys.
    pub(crate) fn clear(&mut self) {
        self.slots.fill([0; 3]);
        self.entries = 0;
        self.latest_offset = -1;
    }

    /// Keys in it.
    #[must_use]
    pub(crate) const fn entries(&self) -> usize {
        self.entries
    }

    /// Returns whether it takes no further record, not even one of a key that it has (as in Kafka).
    #[must_use]
    pub(crate) const fn is_full(&self) -> bool {
        self.entries >= self.most_entries
    }

    /// Offset up to which the log has been added; -1 for not at all.
    #[must_use]
    pub(crate) const fn latest_offset(&self) -> Offset {
        self.latest_offset
    }

    /// Says up to where the log has been taken in.
    pub(crate) const fn update_latest_offset(&mut self, offset: Offset) {
        self.latest_offset = offset;
    }

    /// Notes the offset of a key's record, which becomes the latest offset.
    ///
    /// # Errors
    /// `OutOfMemory` where there is none for the keys.
    pub(crate) fn put(&mut self, key: KeyHash, offset: Offset) -> Result<()> {
        self.reserve()?;
        let mut at = place(key, self.slots.len());
        loop {
            let Some(slot) = self.slots.get_mut(at) else {
                at = 0;
                continue;
            };
            let is_free = *slot == [0; 3];
            if is_free || [slot[0], slot[1]] == key {
                *slot = [key[0], key[1], offset.cast_unsigned()];
                self.entries = self.entries.saturating_add(usize::from(is_free));
                self.latest_offset = offset;
                return Ok(());
            }
            at = at.saturating_add(1);
        }
    }

    /// The last offset of a key; `None` for a key that it does not have.
    #[inline]
    #[must_use]
    pub(crate) fn get(&self, key: KeyHash) -> Option<Offset> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = place(key, self.slots.len());
        loop {
            let Some(slot) = self.slots.get(at) else {
                at = 0;
                continue;
            };
            if *slot == [0; 3] {
                return None;
            }
            if [slot[0], slot[1]] == key {
                return Some(slot[2].cast_signed());
            }
            at = at.saturating_add(1);
        }
    }

    /// Reads the slot where the search for a key begins. Done for some keys before they are put, their slots come from
    /// memory side by side, not one after the other.
    #[inline]
    pub(crate) fn touch(&self, key: KeyHash) -> u64 {
        let slot = self.slots.get(place(key, self.slots.len()));
        slot.map_or(0, |slot| slot[0])
    }

    /// The last offset of every key, in no order.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = Offset> + '_ {
        let taken = self.slots.iter().filter(|slot| **slot != [0; 3]);
        taken.map(|slot| slot[2].cast_signed())
    }

    /// Forgets the keys that are not to be kept.
    ///
    /// # Errors
    /// `OutOfMemory`.
    pub(crate) fn retain(&mut self, keep: impl Fn(KeyHash) -> bool) -> Result<()> {
        let slots = std::mem::take(&mut self.slots);
        self.entries = 0;
        for [first, second, offset] in slots.into_iter().filter(|slot| *slot != [0; 3]) {
            if keep([first, second]) {
                self.put([first, second], offset.cast_signed())?;
            }
        }
        Ok(())
    }

    /// Makes room for one more key, before searches become long.
    fn reserve(&mut self) -> Result<()> {
        let slots = self.slots.len();
        // Half full, or at the last size as full as it may become: one slot is always free.
        let has_room = if slots < self.most_slots {
            self.entries < slots / 2
        } else {
            self.entries < slots.saturating_sub(1)
        };
        if has_room {
            return Ok(());
        }
        let wanted = slots
            .saturating_mul(2)
            .max(FIRST_SLOTS)
            .min(self.most_slots);
        // A map of few slots would have none free.
        let wanted = wanted.max(self.entries.saturating_add(2));
        let mut grown: Vec<HashSlot> = Vec::new();
        grown
            .try_reserve_exact(wanted)
            .map_err(|_| Error::no_memory(wanted.saturating_mul(SLOT_SIZE)))?;
        grown.resize(wanted, [0; 3]);
        for &slot in self.slots.iter().filter(|&&slot| slot != [0; 3]) {
            let mut at = place([slot[0], slot[1]], wanted);
            while grown.get(at).is_some_and(|other| *other != [0; 3]) {
                at = at.saturating_add(1);
                if at >= wanted {
                    at = 0;
                }
            }
            if let Some(free) = grown.get_mut(at) {
                *free = slot;
            }
        }
        self.slots = grown;
        Ok(())
    }
}

/// Slot at which the search for a hash begins: its share of all hashes is the slot's share of all slots.
#[inline]
fn place(key: KeyHash, slots: usize) -> usize {
    let product = u128::from(key[0]).wrapping_mul(slots as u128) >> 64;
    usize::try_from(product).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn put(map: &mut OffsetMap, key: u32, offset: Offset) {
        map.put(map.hash(&key.to_be_bytes()), offset).unwrap();
    }

    fn get(map: &OffsetMap, key: u32) -> Option<Offset> {
        map.get(map.hash(&key.to_be_bytes()))
    }

    #[test]
    fn no_room_for_a_key() {
        for bytes in [0, 23, 24] {
            assert!(OffsetMap::new(bytes, 0.9).is_err(), "{bytes}");
        }
        assert!(OffsetMap::new(48, 0.9).is_ok());
        assert!(
            OffsetMap::new(usize::MAX, 1.0).is_ok(),
            "memory comes later"
        );
    }

    #[test]
    fn full_as_kafka_counts() {
        let mut map = OffsetMap::new(24 * 10, 0.9).unwrap();
        for key in 0..9 {
            assert!(!map.is_full());
            put(&mut map, key, i64::from(key));
        }
        assert!(map.is_full());
        assert_eq!((map.entries(), map.latest_offset()), (9, 8));
        map.update_latest_offset(20);
        assert_eq!(map.latest_offset(), 20);
        map.clear();
        assert_eq!((map.entries(), map.latest_offset()), (0, -1));
        assert_eq!(get(&map, 1), None);
    }

    #[test]
    fn retained_keys_keep_their_offsets() {
        let mut map = OffsetMap::new(24 * 90_000, 1.0).unwrap();
        assert_eq!(map.touch(map.hash(&[1])), 0);
        for key in 0..50_000 {
            put(&mut map, key, i64::from(key));
        }
        map.retain(|key| key[1] & 1 == 1).unwrap();
        let (mut expected, mut found): (Vec<_>, Vec<_>) = (Vec::new(), map.offsets().collect());
        for key in 0..50_000u32 {
            let is_kept = map.hash(&key.to_be_bytes())[1] & 1 == 1;
            assert_eq!(get(&map, key), is_kept.then_some(i64::from(key)));
            expected.extend(is_kept.then_some(i64::from(key)));
        }
        found.sort_unstable();
        assert_eq!((map.entries(), found), (expected.len(), expected));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        /// As a map of the keys themselves, through every growth.
        #[test]
        fn as_a_plain_map(keys in prop::collection::vec(0u32..60_000, 1..40_000)) {
            let mut map = OffsetMap::new(24 * 61_000, 1.0).unwrap();
            let mut plain = HashMap::new();
            for (key, offset) in keys.iter().zip(0..) {
                put(&mut map, *key, offset);
                plain.insert(*key, offset);
            }
            prop_assert_eq!(map.entries(), plain.len());
            for key in 0..60_000 {
                prop_assert_eq!(get(&map, key), plain.get(&key).copied());
            }
        }
    }
}
