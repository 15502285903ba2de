//! A map by producer id that gives its entries in the order a `java.util.HashMap<Long, _>` would.
//!
//! Kafka writes snapshots in that order, so ours are byte-equal only in the same one. The order is that of the bins, and
//! within a bin that of insertion, or in a crowded bin that of a `Tree`. The number of bins doubles when the map outgrows
//! it, or while it is small when one bin does, and never shrinks. Bins do get crowded: brokers are given ids by the
//! thousand, and multiples of a thousand share every eighth bin.

use std::collections::{BTreeMap, HashMap};

use self::tree::Tree;

mod tree;

/// `HashMap.DEFAULT_INITIAL_CAPACITY`
const FIRST_CAPACITY: u32 = 16;
/// `HashMap.MAXIMUM_CAPACITY`
const MAX_CAPACITY: u32 = 1 << 30;
/// `HashMap.MIN_TREEIFY_CAPACITY`: below it a crowded bin doubles the map.
const MIN_TREEIFY_CAPACITY: u32 = 64;
/// `HashMap.TREEIFY_THRESHOLD`: entries a bin had before the one that crowds it.
const TREEIFY_THRESHOLD: usize = 8;
/// `HashMap.UNTREEIFY_THRESHOLD`: what a doubling leaves of a tree is a list up to this size.
const UNTREEIFY_THRESHOLD: usize = 6;

/// `Long.hashCode`, spread as `HashMap.hash` does.
const fn hash(producer_id: i64) -> u32 {
    let id = producer_id.cast_unsigned();
    let [.., a, b, c, d] = (id ^ (id >> 32)).to_be_bytes();
    let hash = u32::from_be_bytes([a, b, c, d]);
    hash ^ (hash >> 16)
}

/// The ids whose hashes end in the same bits.
#[derive(Clone, Debug)]
enum Bin {
    List(Vec<i64>),
    Tree(Box<Tree>),
}

impl Default for Bin {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Bin {
    fn ids(&self) -> Vec<i64> {
        match self {
            Self::List(ids) => ids.clone(),
            Self::Tree(tree) => tree.ids().collect(),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::List(ids) => ids.is_empty(),
            Self::Tree(tree) => tree.is_empty(),
        }
    }

    fn remove(&mut self, id: i64) {
        match self {
            Self::List(ids) => ids.retain(|&each| each != id),
            Self::Tree(tree) => tree.remove(id),
        }
    }

    /// Adds an id, to a list at either end; tells whether it crowds that list, which had `most` entries or more.
    fn add(&mut self, id: i64, at_end: bool, most: usize) -> bool {
        match self {
            Self::List(ids) => {
                let was_full = ids.len() >= most;
                ids.insert(if at_end { ids.len() } else { 0 }, id);
                was_full
            }
            Self::Tree(tree) => {
                tree.insert(id);
                false
            }
        }
    }

    /// Parts the ids by one more bit of their hashes: those without it, and those with it.
    fn split(self, bit: u32) -> (Self, Self) {
        let (high, low): (Vec<_>, Vec<_>) =
            self.ids().into_iter().partition(|&id| hash(id) & bit != 0);
        match self {
            Self::Tree(tree) if low.is_empty() && high.len() > UNTREEIFY_THRESHOLD => {
                (Self::default(), Self::Tree(tree))
            }
            Self::Tree(tree) if high.is_empty() && low.len() > UNTREEIFY_THRESHOLD => {
                (Self::Tree(tree), Self::default())
            }
            Self::Tree(_) => (Self::part_of_tree(low), Self::part_of_tree(high)),
            Self::List(_) => (Self::List(low), Self::List(high)),
        }
    }

    fn part_of_tree(ids: Vec<i64>) -> Self {
        if ids.len() <= UNTREEIFY_THRESHOLD {
            Self::List(ids)
        } else {
            Self::Tree(Box::new(Tree::of(&ids)))
        }
    }
}

/// Values by producer id.
#[derive(Clone, Debug)]
pub struct ByProducer<V> {
    values: HashMap<i64, V>,
    /// Those that are not empty.
    bins: BTreeMap<u32, Bin>,
    /// How many bins there are; 0 before the first entry.
    capacity: u32,
}

impl<V> Default for ByProducer<V> {
    fn default() -> Self {
        Self {
            values: HashMap::new(),
            bins: BTreeMap::new(),
            capacity: 0,
        }
    }
}

impl<V> ByProducer<V> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value of a producer.
    #[must_use]
    pub fn get(&self, producer_id: i64) -> Option<&V> {
        self.values.get(&producer_id)
    }

    /// The value of a producer, to be changed.
    pub fn get_mut(&mut self, producer_id: i64) -> Option<&mut V> {
        self.values.get_mut(&producer_id)
    }

    /// Sets the value of a producer; one that is known keeps its place (`HashMap.put`).
    pub fn insert(&mut self, producer_id: i64, value: V) {
        if self.values.insert(producer_id, value).is_some() {
            return;
        }
        self.capacity = self.capacity.max(FIRST_CAPACITY);
        self.add(producer_id, true, TREEIFY_THRESHOLD);
        if self.outgrows_bins() {
            self.double();
        }
    }

    /// The value of a producer, made if there is none (`HashMap.computeIfAbsent`, which unlike `put` grows beforehand,
    /// puts the new entry at the beginning of its bin, and takes a bin for crowded by one entry less).
    pub fn get_or_insert_with(&mut self, producer_id: i64, make: impl FnOnce() -> V) -> &mut V {
        if !self.values.contains_key(&producer_id) {
            if self.capacity == 0 {
                self.capacity = FIRST_CAPACITY;
            } else if self.outgrows_bins() {
                self.double();
            }
            self.add(producer_id, false, TREEIFY_THRESHOLD - 1);
        }
        self.values.entry(producer_id).or_insert_with(make)
    }

    /// Keeps those that `keep` says (`Collection.removeIf`); the bins stay.
    pub fn retain(&mut self, mut keep: impl FnMut(i64, &V) -> bool) {
        let before = self.len();
        self.values.retain(|&id, value| keep(id, value));
        if self.len() == before {
            return;
        }
        let (values, bins) = (&self.values, &mut self.bins);
        bins.retain(|_, bin| {
            let ids = bin.ids();
            let going = ids.into_iter().filter(|id| !values.contains_key(id));
            going.for_each(|id| bin.remove(id));
            !bin.is_empty()
        });
    }

    /// Forgets all; the number of bins stays.
    pub fn clear(&mut self) {
        self.values.clear();
        self.bins.clear();
    }

    /// All in Java's order.
    #[must_use]
    pub fn in_order(&self) -> Vec<(i64, &V)> {
        let ids = self.bins.values().flat_map(Bin::ids);
        ids.filter_map(|id| Some((id, self.values.get(&id)?)))
            .collect()
    }

    /// All in Java's order, given away.
    #[must_use]
    pub fn into_in_order(mut self) -> Vec<(i64, V)> {
        let ids = self.bins.values().flat_map(Bin::ids);
        ids.filter_map(|id| Some((id, self.values.remove(&id)?)))
            .collect()
    }

    fn add(&mut self, id: i64, at_end: bool, most: usize) {
        let bin = self.bins.entry(hash(id) & mask(self.capacity)).or_default();
        if !bin.add(id, at_end, most) {
            return;
        }
        if self.capacity < MIN_TREEIFY_CAPACITY {
            self.double();
        } else {
            *bin = Bin::Tree(Box::new(Tree::of(&bin.ids())));
        }
    }

    fn outgrows_bins(&self) -> bool {
        self.len() > (self.capacity as usize / 4).saturating_mul(3)
    }

    fn double(&mut self) {
        let bit = self.capacity;
        if bit >= MAX_CAPACITY {
            return;
        }
        self.capacity = bit << 1;
        for (number, bin) in std::mem::take(&mut self.bins) {
            let (low, high) = bin.split(bit);
            let halves = [(number, low), (number | bit, high)];
            self.bins
                .extend(halves.into_iter().filter(|(_, bin)| !bin.is_empty()));
        }
    }
}

const fn mask(capacity: u32) -> u32 {
    capacity.saturating_sub(1)
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
