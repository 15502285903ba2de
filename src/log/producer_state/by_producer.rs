//! A map by producer id that gives its entries in the order a `java.util.HashMap<Long, _>` would.
//!
//! Kafka writes snapshots in that order, so ours are byte-equal only in the same one. The order is that of the bins, and
//! within a bin that of insertion; the number of bins doubles when the map outgrows it, or while it is small when one bin
//! does, and never shrinks. So the bins need not exist: their number and a serial number per entry give the order. (Nine
//! and more ids in one of 64 bins become a tree in Java, whose order is not followed; ids are handed out in a row, which
//! spreads them evenly.)

use std::collections::HashMap;

/// `HashMap.DEFAULT_INITIAL_CAPACITY`
const FIRST_CAPACITY: usize = 16;
/// `HashMap.MIN_TREEIFY_CAPACITY`: below it a full bin doubles the map.
const MIN_TREEIFY_CAPACITY: usize = 64;
/// `HashMap.TREEIFY_THRESHOLD`: entries a bin had before the one that overfills it.
const TREEIFY_THRESHOLD: usize = 8;

#[derive(Clone, Debug)]
struct Slot<V> {
    serial: i64,
    value: V,
}

/// Values by producer id.
#[derive(Clone, Debug)]
pub struct ByProducer<V> {
    slots: HashMap<i64, Slot<V>>,
    /// Bins; 0 before the first entry.
    capacity: usize,
    /// Serial number of the next entry at the end of its bin; those at the beginning count down.
    serial: i64,
}

impl<V> Default for ByProducer<V> {
    fn default() -> Self {
        Self {
            slots: HashMap::new(),
            capacity: 0,
            serial: 0,
        }
    }
}

impl<V> ByProducer<V> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The value of a producer.
    #[must_use]
    pub fn get(&self, producer_id: i64) -> Option<&V> {
        self.slots.get(&producer_id).map(|slot| &slot.value)
    }

    /// The value of a producer, to be changed.
    pub fn get_mut(&mut self, producer_id: i64) -> Option<&mut V> {
        self.slots.get_mut(&producer_id).map(|slot| &mut slot.value)
    }

    /// Sets the value of a producer; one that is known keeps its place (`HashMap.put`).
    pub fn insert(&mut self, producer_id: i64, value: V) {
        if let Some(known) = self.get_mut(producer_id) {
            *known = value;
            return;
        }
        self.capacity = self.capacity.max(FIRST_CAPACITY);
        self.grow_for_bin(producer_id, TREEIFY_THRESHOLD);
        let serial = self.next_serial();
        self.slots.insert(producer_id, Slot { serial, value });
        if self.len() > self.threshold() {
            self.double();
        }
    }

    /// The value of a producer, made if there is none (`HashMap.computeIfAbsent`, which unlike `put` grows beforehand,
    /// puts the new entry at the beginning of its bin, and takes a bin for full by one entry less).
    pub fn get_or_insert_with(&mut self, producer_id: i64, make: impl FnOnce() -> V) -> &mut V {
        if !self.slots.contains_key(&producer_id) {
            if self.capacity == 0 {
                self.capacity = FIRST_CAPACITY;
            } else if self.len() > self.threshold() {
                self.double();
            }
            self.grow_for_bin(producer_id, TREEIFY_THRESHOLD - 1);
        }
        let serial = self.next_serial().wrapping_neg();
        let value = || Slot {
            serial,
            value: make(),
        };
        &mut self.slots.entry(producer_id).or_insert_with(value).value
    }

    /// Keeps those that `keep` says; the bins stay.
    pub fn retain(&mut self, mut keep: impl FnMut(i64, &V) -> bool) {
        self.slots.retain(|&id, slot| keep(id, &slot.value));
    }

    /// Forgets all; the bins stay.
    pub fn clear(&mut self) {
        self.slots.clear();
    }

    /// All in Java's order.
    #[must_use]
    pub fn in_order(&self) -> Vec<(i64, &V)> {
        let mut all: Vec<_> = self.slots.iter().collect();
        all.sort_unstable_by_key(|&(&id, slot)| (self.bin(id), slot.serial));
        all.into_iter()
            .map(|(&id, slot)| (id, &slot.value))
            .collect()
    }

    /// All in Java's order, given away.
    #[must_use]
    pub fn into_in_order(mut self) -> Vec<(i64, V)> {
        let mut all: Vec<_> = std::mem::take(&mut self.slots).into_iter().collect();
        all.sort_unstable_by_key(|(id, slot)| (self.bin(*id), slot.serial));
        all.into_iter().map(|(id, slot)| (id, slot.value)).collect()
    }

    fn next_serial(&mut self) -> i64 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// Entries beyond which the bins double.
    const fn threshold(&self) -> usize {
        (self.capacity / 4).saturating_mul(3)
    }

    fn double(&mut self) {
        self.capacity = self.capacity.saturating_mul(2);
    }

    /// `Long.hashCode`, spread as `HashMap.hash` does, cut to the bins.
    fn bin(&self, producer_id: i64) -> u64 {
        let id = producer_id.cast_unsigned();
        let hash = (id ^ (id >> 32)) & u64::from(u32::MAX);
        (hash ^ (hash >> 16)) & (self.capacity as u64).saturating_sub(1)
    }

    /// A small map doubles when a bin with `full` entries gets another; its entries are so few that they are counted.
    fn grow_for_bin(&mut self, newcomer: i64, full: usize) {
        if self.capacity < MIN_TREEIFY_CAPACITY {
            let bin = self.bin(newcomer);
            if self.slots.keys().filter(|&&id| self.bin(id) == bin).count() >= full {
                self.double();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(map: &mut ByProducer<i32>, ids: &[i64]) {
        for &id in ids {
            map.insert(id, 0);
        }
    }

    fn ids<V>(map: &ByProducer<V>) -> Vec<i64> {
        map.in_order().into_iter().map(|(id, _)| id).collect()
    }

    fn hash(ids: &[i64]) -> i64 {
        ids.iter()
            .fold(0i64, |hash, &id| hash.wrapping_mul(31).wrapping_add(id))
    }

    /// Orders printed by OpenJDK 17's `HashMap`.
    #[test]
    fn the_order_is_javas() {
        let few = [1, 17, 33, 2, 16, 0];
        let crowded = [100, 36, 68, 4, 132, 164, 196, 228, 260, 292, 324, 356, 388];
        for (added, by_put, by_compute) in [
            (
                &few[..],
                &[16, 0, 1, 17, 33, 2][..],
                &[0, 16, 33, 17, 1, 2][..],
            ),
            (
                &crowded,
                &[68, 4, 132, 196, 260, 324, 388, 100, 36, 164, 228, 292, 356],
                &[388, 324, 260, 196, 132, 4, 68, 356, 292, 228, 164, 36, 100],
            ),
        ] {
            let mut map = ByProducer::default();
            put(&mut map, added);
            assert_eq!(ids(&map), by_put);
            let mut map = ByProducer::default();
            for &id in added {
                map.get_or_insert_with(id, || 0);
            }
            assert_eq!(ids(&map), by_compute);
            let given: Vec<_> = map.into_in_order().iter().map(|&(id, _)| id).collect();
            assert_eq!(given, by_compute);
        }
    }

    #[test]
    fn bins_never_become_fewer() {
        let (mut by_put, mut by_compute) = (ByProducer::default(), ByProducer::default());
        let mut x = 7i64;
        for i in 0..500i32 {
            x = x
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let bits = x.cast_unsigned();
            let id = match i % 3 {
                0 => (bits >> 50).cast_signed(),
                1 => (bits >> 1).cast_signed(),
                _ => 4000 + i64::from(i),
            };
            by_put.insert(id, i);
            by_compute.get_or_insert_with(id, || i);
        }
        for map in [&mut by_put, &mut by_compute] {
            map.retain(|id, _| id % 5 == 0);
        }
        for id in [17, 65553] {
            by_put.insert(id, 0);
            by_compute.get_or_insert_with(id, || 0);
        }
        assert_eq!((by_put.len(), by_compute.len()), (93, 93));
        assert_eq!(hash(&ids(&by_put)), 416_076_592_310_134_646);
        assert_eq!(hash(&ids(&by_compute)), -3_922_675_790_066_755_652);
        by_put.clear();
        assert!(by_put.is_empty());
        put(&mut by_put, &[40, 8, 1, 520, 1032]);
        assert_eq!(ids(&by_put), [1, 8, 1032, 40, 520]);
        by_put.insert(40, 9);
        assert_eq!(ids(&by_put), [1, 8, 1032, 40, 520]);
        assert_eq!((by_put.get(40), by_put.get(41)), (Some(&9), None));
    }
}
