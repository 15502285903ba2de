//! Real records of internal topics, mutated: each says something as JSON, or stays as it is.

use kafkalog::internal::format::batch::{BatchHeader, RECORD_BATCH_OVERHEAD};

use crate::checks;
use crate::common::{Chance, files, first_seed, pick, root};

/// The `.log` and `.checkpoint` files of internal topics.
fn seeds() -> Vec<Vec<u8>> {
    let golden = root().join("tests/golden");
    let mut found = Vec::new();
    for suffix in [".log", "-0000000001.checkpoint"] {
        for path in files(&golden, suffix) {
            let folder = path.parent().unwrap().file_name().unwrap();
            if folder.to_string_lossy().starts_with("__") {
                found.push(std::fs::read(path).unwrap());
            }
        }
    }
    found
}

/// The bytes of records, in uncompressed batches.
fn places(data: &[u8]) -> Vec<usize> {
    let (mut places, mut at) = (Vec::new(), 0);
    while let Ok(Some(header)) = BatchHeader::parse(&data[at..]) {
        places.extend(at + RECORD_BATCH_OVERHEAD..at + header.size);
        at += header.size;
    }
    places
}

#[test]
fn records_are_json_or_stay_as_they_are() {
    let seeds = seeds();
    assert!(seeds.len() > 15, "{}", seeds.len());
    for seed in &seeds {
        checks::tables(seed);
    }
    let rounds = pick(400, 1_500, 50_000);
    for round in 0..rounds {
        let mut chance = Chance(first_seed() + round);
        let mut data = chance.pick(&seeds).clone();
        let places = places(&data);
        if places.is_empty() {
            continue;
        }
        for _ in 0..=chance.below(20) {
            let at = *chance.pick(&places);
            data[at] = *chance.pick(&[0, 1, 2, 0x7f, 0x80, 0xff, chance.clone().byte()]);
        }
        checks::tables(&data);
    }
}
