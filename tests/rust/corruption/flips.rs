//! One bit: found by the checksum, or by order, structure or neighbours.

use std::collections::BTreeMap;

use kafkalog::internal::arrow::schema::Layout;

use super::{Bench, Seed, columns, first_seed, is_about_bytes, is_plausible, read, seeds, spans};
use crate::common::{Chance, pick};

/// The byte of a batch of magic 2 that says most of how many offsets it spans.
const LOWEST_OF_LAST_OFFSET_DELTA: usize = 26;

/// Flipped bits, and those that went unseen.
#[derive(Default)]
struct Flips {
    inside: usize,
    outside: usize,
    missed: Vec<String>,
}

impl Flips {
    /// Reads `seed` with a bit of its `number`-th batch flipped, as a closed or as the active segment.
    fn flip(
        &mut self,
        bench: &Bench,
        seed: &Seed,
        number: usize,
        (byte, bit): (usize, usize),
        is_active: bool,
    ) {
        let &(begin, ref header) = &seed.batches[number];
        let mut data = seed.data.clone();
        data[begin + byte] ^= 1 << bit;
        let covered = byte >= if header.is_legacy() { 12 } else { 17 };
        let must = covered || !is_plausible(seed, &data, is_active);
        self.inside += usize::from(covered);
        self.outside += usize::from(must && !covered);
        let layout = if bit < 4 {
            Layout::Binary
        } else {
            Layout::View
        };
        match read(bench.range(seed, &data, is_active), columns(layout, false), false) {
            Err(error) => is_about_bytes(&error, data.len()),
            Ok(_) if must => self.missed.push(format!(
                "{} active {is_active}: bit {bit} of byte {byte} of batch {number} of {} at {begin}: {header:?}",
                seed.name,
                seed.batches.len()
            )),
            Ok(_) => {}
        }
    }

    fn finish(self, least: usize) {
        let missed = &self.missed;
        assert!(
            missed.is_empty(),
            "{} missed:\n{}",
            missed.len(),
            missed[..missed.len().min(20)].join("\n")
        );
        let (inside, outside) = (self.inside, self.outside);
        assert!(
            inside >= least && outside >= least,
            "{inside} under a checksum, {outside} found without one"
        );
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let seeds = seeds(32 << 10);
    let bench = Bench::new();
    let mut flips = Flips::default();
    for round in 0..pick(1_000, 3_000, 60_000) {
        let mut chance = Chance(first_seed() ^ (round << 20));
        let seed = chance.pick(&seeds);
        let number = chance.below(seed.batches.len());
        let byte = chance.below(seed.batches[number].1.size);
        flips.flip(&bench, seed, number, (byte, chance.below(8)), false);
        // The active segment's end may be torn; what is whole and contradicts is found there, too.
        flips.flip(
            &bench,
            seed,
            number,
            (chance.below(17), chance.below(8)),
            seed.is_dense && chance.below(2) == 0,
        );
    }
    flips.finish(pick(300, 1000, 1000));
}

/// Every bit of every header where the checksum does not reach, of a few batches of each kind.
#[test]
fn every_flipped_bit_outside_the_checksum_is_found() {
    let bench = Bench::new();
    let mut kinds: BTreeMap<(u8, u8), usize> = BTreeMap::new();
    let mut flips = Flips::default();
    for seed in seeds(8 << 10) {
        for (number, (_, header)) in seed.batches.iter().enumerate().skip(1) {
            let seen = kinds
                .entry((header.magic, header.attributes.0 & 0x27))
                .or_default();
            *seen += 1;
            if *seen > pick(1, 2, 30) {
                continue;
            }
            let end = if header.is_legacy() { 12 } else { 17 };
            for bit in 0..8 * end {
                for is_active in [false, seed.is_dense] {
                    flips.flip(&bench, &seed, number, (bit / 8, bit % 8), is_active);
                }
            }
            flips.flip(&bench, &seed, number, (end + 9, 0), true);
        }
    }
    assert!(kinds.len() > 10, "{kinds:?}");
    flips.finish(pick(10, 20, 20));
}

/// Of a range that begins inside a batch, a flipped bit at its edges takes nothing away unseen.
#[test]
fn ranges_end_where_they_should() {
    let mut seeds = seeds(16 << 10);
    // What follows a range is examined by header only, and a wrapper's header does not tell its first offset.
    seeds.retain(|seed| seed.batches.len() >= 4 && seed.batches.iter().all(|b| !b.1.is_legacy()));
    let bench = Bench::new();
    let (mut found, mut harmless) = (0, 0);
    for round in 0..pick(500, 2_000, 30_000) {
        let mut chance = Chance(first_seed() ^ (round << 24));
        let seed = chance.pick(&seeds);
        let spans = spans(&seed.data).unwrap();
        let wanted = 1 + chance.below(seed.batches.len() - 1);
        let (first, last, _) = spans[wanted];
        let inside = chance.below(usize::try_from(last - first + 1).unwrap());
        let first = first + i64::try_from(inside).unwrap();
        let part = |data: &[u8]| {
            let mut range = bench.range(seed, data, false);
            range.start_offset = first;
            range.end_offset = Some(last + 1);
            read(range, columns(Layout::View, false), false)
        };
        let whole = part(&seed.data).unwrap();
        let damaged = (wanted + chance.below(3) - 1).min(seed.batches.len() - 1);
        let &(begin, ref header) = &seed.batches[damaged];
        // Half of them where a batch would seem to end before the first offset wanted.
        let at = match chance.below(2) {
            0 => begin + LOWEST_OF_LAST_OFFSET_DELTA,
            _ => begin + chance.below(header.size.min(61)),
        };
        let mut data = seed.data.clone();
        data[at] ^= 1 << chance.below(8);
        match part(&data) {
            Ok(offsets) if offsets == whole => harmless += 1,
            Ok(offsets) => assert!(
                is_plausible(seed, &data, false),
                "{offsets:?} instead of {whole:?}: {} byte {} of {header:?}",
                seed.name,
                at - begin
            ),
            Err(_) => found += 1,
        }
    }
    assert!(
        found > pick(100, 300, 300) && harmless > pick(30, 100, 100),
        "{found} found, {harmless} harmless"
    );
}
