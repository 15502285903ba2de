//! One writer of two indexes, and four reading processes beside it.
//!
//! An entry's second field follows from its first, so a torn one shows.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use kafkalog::internal::format::entry::{OffsetPosition, TimestampOffset};
use kafkalog::internal::index::offset::{OffsetIndex, WritableOffsetIndex};
use kafkalog::internal::index::time::{TimeIndex, WritableTimeIndex};
use kafkalog::internal::io::disk::Disk;

use crate::common::{Chance, pick};

const BASE: i64 = 7_000_000_000;
/// Offsets of neighbouring entries are this far apart, give or take the round in which they were written.
const STEP: i64 = 64;
/// Reading processes.
const READERS: usize = 4;
/// Environment variable that gives a reading process its file.
const FILE: &str = "KAFKALOG_TEST_BESIDE";

fn patience() -> Duration {
    Duration::from_secs(pick(1, 3, 60))
}

/// The offset of entry `n` when it is written in some round.
fn offset_of(n: usize, round: usize) -> i64 {
    let slack = usize::try_from(STEP).unwrap() - 1;
    BASE + i64::try_from(n).unwrap() * STEP + 1 + i64::try_from(round % slack).unwrap()
}

/// Number of the entry with this offset.
fn number_of(offset: i64) -> usize {
    usize::try_from((offset - BASE - 1) / STEP).unwrap()
}

fn position_of(offset: i64) -> i32 {
    let mixed = offset.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    i32::try_from(mixed).unwrap()
}

/// Rises with the offset, and both halves change.
fn timestamp_of(offset: i64) -> i64 {
    (offset - BASE) * 0x1_0000_0007
}

/// Returns whether an entry's second field is the one of its first.
fn is_whole(entry: OffsetPosition) -> bool {
    entry.position == position_of(entry.offset)
}

fn is_whole_time(entry: TimestampOffset) -> bool {
    entry.timestamp == timestamp_of(entry.offset)
}

/// A reading process: opens the index again and again, as [`reading_processes`] has it do. Alone it does nothing.
#[test]
fn a_reading_process() {
    let Some(path) = std::env::var_os(FILE).map(PathBuf::from) else {
        return;
    };
    let time = path.with_extension("timeindex");
    let (mut seen, mut times_seen, mut opened) = (0, 0, 0u64);
    let mut chance = Chance(u64::from(std::process::id()));
    // An error says that it was taken away.
    while let Ok(index) = OffsetIndex::open(&path, BASE) {
        let whole = index
            .iter()
            .enumerate()
            .all(|(n, e)| is_whole(e) && number_of(e.offset) == n);
        assert!(whole, "torn");
        assert!(index.entries() >= seen);
        seen = index.entries();
        let times = TimeIndex::open(&time, BASE).unwrap();
        // The first entry may be seen before its offset was written: no zero of a first entry can be told from tail.
        let mut all = times.iter().enumerate();
        let whole = all.all(|(n, e)| (is_whole_time(e) || n == 0) && number_of(e.offset) == n);
        assert!(whole, "torn");
        assert!(times.entries() >= times_seen);
        times_seen = times.entries();
        for _ in 0..20 {
            let target = offset_of(chance.below(seen + 1), 30);
            let found = index.lookup(target).unwrap();
            let expected = number_of(target).min(seen.saturating_sub(1));
            assert!(
                seen == 0 || number_of(found.offset) == expected,
                "{found:?} for {target}"
            );
        }
        opened += 1;
    }
    println!("opened {opened} times, {seen} entries at the end");
    assert!(opened > 5 && seen > 100);
}

#[test]
fn processes_beside_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("00000000007000000000.index");
    let time = path.with_extension("timeindex");
    let disk = Disk::default();
    let mut offsets = WritableOffsetIndex::open_writable(&disk, &path, BASE, 10 << 20).unwrap();
    let mut times = WritableTimeIndex::open_writable(&disk, &time, BASE, 10 << 20).unwrap();
    let processes: Vec<_> = (0..READERS)
        .map(|_| {
            let mut process = Command::new(std::env::current_exe().unwrap());
            process.args(["--exact", "beside::a_reading_process", "--nocapture"]);
            process.env(FILE, &path).spawn().unwrap()
        })
        .collect();
    let start = Instant::now();
    // Never more than fits: 3,000 rounds of 50.
    let pause = patience() / 3000;
    while start.elapsed() < patience() {
        for _ in 0..50 {
            let offset = offset_of(offsets.entries(), 0);
            offsets.append(offset, position_of(offset)).unwrap();
            times
                .maybe_append(timestamp_of(offset), offset, true)
                .unwrap();
        }
        std::thread::sleep(pause);
    }
    assert!(!times.is_full());
    offsets.close().unwrap();
    times.close().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    std::fs::remove_file(&path).unwrap();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
}
