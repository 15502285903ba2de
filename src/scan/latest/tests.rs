use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::compress::{Codec, Compressor};
use crate::records::builder::{BatchBuilder, BatchOptions};
use crate::scan::plan::{PlanOptions, plan_scan};
use crate::types::Compression;

/// Numbers that can be repeated (an LCG).
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33).checked_rem(end).unwrap()
    }
}

/// An offset, a key and whether there is a value.
type Row = (Offset, Option<Vec<u8>>, bool);

/// A partition of two segments with random records, half of its batches compressed.
fn write(folder: &Path, chance: &mut Chance, keys: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut offset = 0;
    std::fs::create_dir(folder).unwrap();
    for segment in 0..2 {
        let base = offset;
        let mut log = Vec::new();
        for _ in 0..20 {
            let mut options = BatchOptions {
                base_offset: offset,
                ..BatchOptions::default()
            };
            if chance.below(2) == 0 {
                options.codec = Codec::with_level(Compression::Zstd, 1).unwrap();
            }
            let mut builder = BatchBuilder::new(options).unwrap();
            for _ in 0..=chance.below(30) {
                let key =
                    (chance.below(12) > 0).then(|| chance.below(keys).to_string().into_bytes());
                let value = (chance.below(4) > 0).then_some(b"v".as_slice());
                builder
                    .append(offset, 1, key.as_deref(), value, &[])
                    .unwrap();
                rows.push((offset, key, value.is_some()));
                let gap = chance.below(3).saturating_mul(chance.below(400));
                offset = offset.saturating_add_unsigned(gap.saturating_add(1));
            }
            let mut batch = Vec::new();
            builder.finish(&mut Compressor::new(), &mut batch).unwrap();
            log.extend(batch);
        }
        let base = if segment == 0 { 0 } else { base };
        std::fs::write(folder.join(format!("{base:020}.log")), log).unwrap();
    }
    rows
}

/// The latest of each key, by a map of everything.
fn naive(rows: &[Row], tombstones: bool) -> Vec<Offset> {
    let mut latest = BTreeMap::new();
    for (offset, key, has_value) in rows {
        if let Some(key) = key {
            latest.insert(key, (*offset, *has_value));
        }
    }
    let mut offsets: Vec<Offset> = latest
        .into_values()
        .filter(|(_, has_value)| tombstones || *has_value)
        .map(|(offset, _)| offset)
        .collect();
    offsets.sort_unstable();
    offsets
}

#[test]
fn it_is_the_last_of_each_key_in_one_pass_or_in_many() {
    let dir = tempfile::tempdir().unwrap();
    let mut chance = Chance(7);
    for (case, keys) in [1, 5, 60, 300, 3000].into_iter().enumerate() {
        let folder = dir.path().join(format!("t-{case}"));
        let rows = write(&folder, &mut chance, keys);
        let ranges = plan_scan(&[folder], &PlanOptions::default()).unwrap();
        for tombstones in [false, true] {
            let expected = naive(&rows, tombstones);
            for most_keys in [1, 3, 50, MOST_KEYS] {
                let set = Latest { tombstones }
                    .offsets_within(&ranges[0], ReadOptions::default(), most_keys)
                    .unwrap();
                let found: Vec<Offset> = rows
                    .iter()
                    .map(|(offset, ..)| *offset)
                    .filter(|offset| set.contains(*offset))
                    .collect();
                assert_eq!(found, expected, "{keys} keys, {most_keys} at a time");
                assert_eq!(set.len(), expected.len() as u64);
            }
        }
    }
}

#[test]
fn halves_make_a_whole() {
    let mut slice = Slice::default();
    let mut others = Vec::new();
    while let Some(other) = slice.halve() {
        others.push(other);
    }
    assert_eq!((slice.mask, others.len()), (u64::MAX, 64));
    for hash in [0, 1, 2, 0x8000_0000_0000_0000, u64::MAX] {
        let taken = others.iter().chain([&slice]);
        let taken = taken.filter(|slice| slice.takes([0, hash]));
        assert_eq!(taken.count(), 1, "{hash:x}");
    }
}
