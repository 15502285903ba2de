#![expect(
    clippy::arithmetic_side_effects,
    reason = "tests may overflow, and then fail"
)]

use super::*;
use crate::segment::batches::CURRENT_MAGIC;
use proptest::prelude::*;
use std::fs;
use tempfile::TempDir;

/// A batch of so many bytes with its checksum.
fn batch(size: usize, seed: u8) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..=250)
        .cycle()
        .map(|byte: u8| byte ^ seed)
        .take(size)
        .collect();
    bytes[8..12].copy_from_slice(&u32::try_from(size - 12).unwrap().to_be_bytes());
    bytes[16] = CURRENT_MAGIC;
    let computed = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&computed.to_be_bytes());
    bytes
}

struct Log {
    _folder: TempDir,
    file: File,
    bytes: Vec<u8>,
    /// Where each batch begins, and its size.
    batches: Vec<(usize, usize)>,
}

fn log(lead: usize, sizes: &[usize], spoil: impl FnOnce(&mut Vec<u8>, &[(usize, usize)])) -> Log {
    let mut bytes = vec![7; lead];
    let mut batches = Vec::new();
    for (&size, seed) in sizes.iter().zip(0..) {
        batches.push((bytes.len(), size));
        bytes.extend(batch(size, u8::try_from(seed % 256).unwrap()));
    }
    spoil(&mut bytes, &batches);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    fs::write(&path, &bytes).unwrap();
    Log {
        file: File::open(&path).unwrap(),
        _folder: folder,
        bytes,
        batches,
    }
}

/// Walks as recovery does; the batches that were checked ahead, and those that were not.
fn walk(log: &Log, threads: usize) -> (Vec<usize>, Vec<usize>) {
    let (begin, end) = (log.batches[0].0, log.bytes.len());
    let ahead = Ahead::with_threads(&log.file, begin as u64, end as u64, threads).unwrap();
    let (mut held, mut checked, mut others) = (None::<Window>, Vec::new(), Vec::new());
    for &(at, size) in &log.batches {
        let behind = |window: &Window| window.start + window.bytes.len() as u64;
        if held
            .as_ref()
            .is_none_or(|window| behind(window) <= at as u64)
        {
            held = ahead.window(at as u64);
        }
        let is_checked = held.as_ref().is_some_and(|window| {
            let from = usize::try_from(window.start).unwrap();
            assert_eq!(window.bytes, log.bytes[from..from + window.bytes.len()]);
            window.first <= at as u64 && (at + size) as u64 <= window.checked
        });
        if is_checked {
            checked.push(at);
        } else {
            others.push(at);
        }
    }
    (checked, others)
}

fn places(batches: &[(usize, usize)]) -> Vec<usize> {
    batches.iter().map(|(at, _)| *at).collect()
}

#[test]
fn every_batch_of_a_sound_log_is_checked_ahead() {
    let sizes: Vec<usize> = (0..3000).map(|n| 61 + n * 7919 % 3000).collect();
    let log = log(5, &sizes, |_, _| {});
    for threads in 1..=4 {
        let (checked, others) = walk(&log, threads);
        assert_eq!(others, [] as [usize; 0]);
        assert_eq!(checked, places(&log.batches));
    }
}

#[test]
fn batches_larger_than_windows() {
    let window = usize::try_from(WINDOW).unwrap();
    let sizes = [100, MAX_BATCH, 100, window, window - 1, 61, MAX_BATCH - 1];
    let sound = log(0, &sizes, |_, _| {});
    assert_eq!(walk(&sound, 2), (places(&sound.batches), vec![]));
    let sizes = [100, MAX_BATCH + 1, 100, 5 * MAX_BATCH, 200, 300];
    let large = log(0, &sizes, |_, _| {});
    let all = places(&large.batches);
    let (checked, others) = walk(&large, 3);
    assert_eq!(checked, [all[0], all[2], all[4], all[5]]);
    assert_eq!(others, [all[1], all[3]]);
}

#[test]
fn a_flipped_bit_ends_what_is_known() {
    let sizes = vec![9_999; 200];
    for (spoilt, bit) in [(0, 8 * 21), (77, 8 * 9_000), (199, 8 * 17)] {
        let log = log(0, &sizes, |bytes, batches| {
            let at = batches[spoilt].0 + bit / 8;
            bytes[at] ^= 1;
        });
        let (checked, others) = walk(&log, 2);
        assert_eq!(
            checked
                .iter()
                .filter(|&&at| at >= log.batches[spoilt].0 && at < log.batches[spoilt].0 + 9_999)
                .count(),
            0
        );
        assert!(others.contains(&log.batches[spoilt].0));
        assert_eq!(checked[..spoilt], places(&log.batches[..spoilt]));
    }
}

#[test]
fn where_no_batch_follows_nobody_waits() {
    let sizes = vec![20_000; 60];
    for cut in [1, 12, 17, 61, 19_999] {
        let log = log(0, &sizes, |bytes, _| bytes.truncate(bytes.len() - cut));
        let (checked, others) = walk(&log, 2);
        assert_eq!(checked, places(&log.batches[..59]));
        assert_eq!(others, [log.batches[59].0]);
    }
    let log = log(0, &sizes, |bytes, batches| {
        bytes[batches[30].0 + 8..][..4].fill(0);
    });
    assert_eq!(walk(&log, 2).0, places(&log.batches[..30]));
}

#[test]
fn inside_the_last_batch_nobody_waits() {
    let log = log(0, &[100, 900_000], |_, _| {});
    let ahead = Ahead::with_threads(&log.file, 0, 900_100, 2).unwrap();
    for position in [899_000, 500_000, 899_000, 900_099, 900_100, 2_000_000] {
        assert!(ahead.window(position).is_none());
    }
}

#[test]
fn a_file_that_became_shorter() {
    let log = log(0, &vec![20_000; 60], |_, _| {});
    let ahead = Ahead::with_threads(&log.file, 0, 100_000_000, 2).unwrap();
    assert!(ahead.window(0).is_some());
    assert!(ahead.window(50_000_000).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is asked for, in whatever order: an answer comes, and it is true.
    #[test]
    fn no_question_is_left_waiting(
        sizes in prop::collection::vec(prop_oneof![61..5_000_usize, 200_000..1_500_000_usize], 1..40),
        asked in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        flipped in prop::option::of(any::<prop::sample::Index>()),
        threads in 1..4_usize,
    ) {
        let log = log(3, &sizes, |bytes, _| {
            if let Some(at) = flipped {
                let at = at.index(bytes.len());
                bytes[at] ^= 1;
            }
        });
        let ahead = Ahead::with_threads(&log.file, 3, log.bytes.len() as u64, threads).unwrap();
        for at in asked {
            let position = at.index(log.bytes.len()) as u64;
            let Some(window) = ahead.window(position) else {
                continue;
            };
            prop_assert!(window.checked <= window.start + window.bytes.len() as u64);
            let mut at = window.first;
            while at < window.checked {
                let rest = &log.bytes[usize::try_from(at).unwrap()..];
                let header = BatchHeader::parse(rest).unwrap().unwrap();
                prop_assert_eq!(header.computed_crc(&rest[..header.size]), header.crc);
                at += header.size as u64;
            }
            prop_assert_eq!(at, window.checked);
        }
    }
}
