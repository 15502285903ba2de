//! Any bytes: reading them ends in records or in an error, within bounded memory.

use kafkalog::internal::arrow::batches::BatchReader;
use kafkalog::internal::arrow::parallel::ParallelReader;
use kafkalog::internal::arrow::schema::Layout;
use kafkalog::internal::compress::Decompressor;
use kafkalog::internal::format::batch::BatchHeader;

use kafkalog::internal::segment::skipping::OnCorrupt;

use super::damage;
use super::{Bench, Seed, columns, drain, first_seed, is_about_bytes, options, read, seeds};
use crate::batches::lz4_stored;
use crate::checks;
use crate::common::{Chance, pick, seal};

const NASTY: [i32; 12] = [
    0,
    1,
    -1,
    13,
    14,
    48,
    49,
    61,
    0x7fff_ffff,
    -0x8000_0000,
    0x0100_0000,
    65_536,
];

/// One change somewhere.
fn mutate(data: &mut Vec<u8>, seed: &Seed, other: &Seed, chance: &mut Chance) {
    if data.is_empty() {
        return;
    }
    let &(begin, ref header) = chance.pick(&seed.batches);
    let begin = begin.min(data.len() - 1);
    let anywhere = chance.below(data.len());
    match chance.below(12) {
        0 | 1 => data[anywhere] ^= 1 << chance.below(8),
        2 => data[anywhere] = chance.byte(),
        3 => data.truncate(anywhere),
        4 => {
            let end = (anywhere + chance.below(64)).min(data.len());
            data.drain(anywhere..end);
        }
        5 => {
            let noise: Vec<u8> = (0..chance.below(40)).map(|_| chance.byte()).collect();
            data.splice(anywhere..anywhere, noise);
        }
        6 => {
            let from = chance.below(other.data.len());
            let to = (from + chance.below(200)).min(other.data.len());
            let end = if chance.below(2) == 0 {
                anywhere
            } else {
                (anywhere + to - from).min(data.len())
            };
            data.splice(anywhere..end, other.data[from..to].iter().copied());
        }
        // A field of a batch's header: length, last offset delta, count, or a legacy message's lengths.
        7 | 8 => {
            let at = begin + chance.pick(&[8, 8, 12, 16, 17, 18, 22, 23, 26, 30, 57, 53]);
            if let Some(field) = data.get_mut(at..at + 4) {
                field.copy_from_slice(&chance.pick(&NASTY).to_be_bytes());
            }
        }
        // A varint among the records.
        9 => {
            let at = begin + 61 + chance.below(40);
            let nasty = [0x00, 0x01, 0x02, 0x7f, 0x80, 0xff, 0xfe];
            for byte in data.iter_mut().skip(at).take(chance.below(5) + 1) {
                *byte = *chance.pick(&nasty);
            }
        }
        // A whole batch of another segment.
        10 => {
            let (from, header) = chance.pick(&other.batches);
            data.splice(
                begin..begin,
                other.data[*from..*from + header.size].iter().copied(),
            );
        }
        _ => repack(data, begin, header, chance),
    }
}

/// Takes a compressed batch's records out, damages one byte of them and puts them back as stored LZ4 blocks.
fn repack(data: &mut Vec<u8>, begin: usize, header: &BatchHeader, chance: &mut Chance) {
    let Some(whole) = data.get(begin..begin + header.size) else {
        return;
    };
    let (Ok(codec), false) = (header.compression(), header.is_legacy()) else {
        return;
    };
    let mut records = Vec::new();
    let result =
        Decompressor::new().decompress(codec, 2, &whole[61..], &mut records, checks::LIMIT);
    if result.is_err() || records.is_empty() {
        return;
    }
    let at = chance.below(records.len());
    records[at] = chance.byte();
    let mut batch = whole[..61].to_vec();
    batch[22] = (batch[22] & !7) | 3;
    batch.extend(lz4_stored(&records));
    let length = i32::try_from(batch.len() - 12).unwrap();
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    data.splice(begin..begin + header.size, batch);
}

/// Gives every batch the checksum that its bytes have, so that the checks after it are reached.
fn reseal(data: &mut [u8]) {
    let mut at = 0;
    while let Ok(Some(size)) = BatchHeader::peek_size(&data[at..]) {
        let Some(batch) = data.get_mut(at..at + size) else {
            return;
        };
        seal(batch);
        at += size;
    }
}

/// Peak memory of this process, in KiB, if the system has it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn mutants_end_in_records_or_in_an_error() {
    let seeds = seeds(64 << 10);
    let bench = Bench::new();
    let rounds = pick(750, 3_000, 120_000);
    let (mut whole, mut broken) = (0, 0);
    for round in 0..rounds {
        let number = first_seed() + round;
        let mut chance = Chance(number);
        let (seed, other) = (chance.pick(&seeds), chance.pick(&seeds));
        let mut data = seed.data.clone();
        for _ in 0..=chance.below(3) {
            mutate(&mut data, seed, other, &mut chance);
        }
        if chance.below(3) > 0 {
            reseal(&mut data);
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            checks::segment(&data);
            let layout = *chance.pick(&[Layout::Binary, Layout::View]);
            let range = bench.range(seed, &data, chance.below(2) == 0);
            let columns = columns(layout, chance.below(4) == 0);
            if round % 3 == 0 {
                damage::adds_up(&range, &data);
            }
            let result = match chance.below(16) {
                0 => {
                    let mut reader =
                        BatchReader::new(vec![range], chance.below(2) == 0, OnCorrupt::Raise);
                    drain(|| reader.next_batch(), true)
                }
                1 => {
                    let ranges = vec![range];
                    let mut reader =
                        ParallelReader::try_new(ranges, 2, options(), &columns, None).unwrap();
                    drain(|| reader.next_batch(), true)
                }
                _ => read(range, columns, true),
            };
            result
                .inspect_err(|error| is_about_bytes(error, data.len()))
                .is_ok()
        }));
        match outcome {
            Ok(true) => whole += 1,
            Ok(false) => broken += 1,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map_or("", String::as_str);
                panic!("KAFKALOG_SEED={number}, a mutant of {}: {text}", seed.name);
            }
        }
    }
    assert!(
        whole > rounds / 50 && broken > rounds / 5,
        "{whole} were read, {broken} refused"
    );
    // Whatever the mutants declared, nothing near it was taken.
    assert!(
        peak_memory().is_none_or(|kib| kib < 600 << 10),
        "{:?} KiB",
        peak_memory()
    );
}
