//! One writer of an index, four reading threads beside it, and four reading processes.
//!
//! An entry's second field follows from its first, so a torn one shows; and what the writer certainly had written before a
//! lookup and had not taken back after it, the lookup must have found.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kafkalog::internal::error::Result;
use kafkalog::internal::format::entry::{OffsetPosition, TimestampOffset};
use kafkalog::internal::index::offset::OffsetIndex;
use kafkalog::internal::index::time::TimeIndex;
use kafkalog::internal::index::writable::offset::WritableOffsetIndex;
use kafkalog::internal::index::writable::time::WritableTimeIndex;
use kafkalog::internal::index::writable::{Entry, Reader, WritableIndex};
use kafkalog::internal::io::disk::Disk;

use crate::common::{Chance, pick};

const BASE: i64 = 7_000_000_000;
/// Offsets of neighbouring entries are this far apart, give or take the round in which they were written.
const STEP: i64 = 64;
/// Threads, and processes.
const READERS: usize = 4;
/// Where a reading process is told what to read.
const FILE: &str = "KAFKALOG_TEST_BESIDE";

fn patience() -> Duration {
    Duration::from_secs(pick(1, 3, 60))
}

/// The offset of entry `n` when it is written in some round.
fn offset_of(n: usize, round: usize) -> i64 {
    let slack = usize::try_from(STEP).unwrap() - 1;
    BASE + i64::try_from(n).unwrap() * STEP + 1 + i64::try_from(round % slack).unwrap()
}

/// Which entry has this offset.
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

/// An index of either kind whose entries follow from their offsets.
trait Kind<const W: usize>: Entry<W> + Send + 'static {
    fn append(index: &mut WritableIndex<Self, W>, offset: i64) -> Result<()>;
    fn key_of(offset: i64) -> i64;
    fn is_whole(&self) -> bool;
}

impl Kind<2> for OffsetPosition {
    fn append(index: &mut WritableOffsetIndex, offset: i64) -> Result<()> {
        index.append(offset, position_of(offset))
    }

    fn key_of(offset: i64) -> i64 {
        offset
    }

    fn is_whole(&self) -> bool {
        self.position == position_of(self.offset)
    }
}

impl Kind<3> for TimestampOffset {
    fn append(index: &mut WritableTimeIndex, offset: i64) -> Result<()> {
        index.maybe_append(timestamp_of(offset), offset, false)
    }

    fn key_of(offset: i64) -> i64 {
        timestamp_of(offset)
    }

    fn is_whole(&self) -> bool {
        self.timestamp == timestamp_of(self.offset)
    }
}

/// What the writer says of itself: `sure` entries are there until `dips` moves.
#[derive(Default)]
struct Known {
    sure: AtomicUsize,
    dips: AtomicUsize,
    ends: AtomicBool,
}

/// Looks up until the writer ends; returns how often.
fn look<E: Kind<W>, const W: usize>(reader: &Reader<E, W>, known: &Known, seed: u64) -> usize {
    let mut chance = Chance(seed);
    let nothing = E::before_all(BASE);
    let mut lookups = 0;
    while !known.ends.load(Ordering::Relaxed) {
        for _ in 0..100 {
            let dips = known.dips.load(Ordering::SeqCst);
            let sure = known.sure.load(Ordering::SeqCst);
            // Near the end, where entries come and go, and anywhere.
            let n = match chance.below(3) {
                0 => chance.below(sure + 100),
                1 => (sure + 20).saturating_sub(chance.below(60)),
                _ => chance.below(64),
            };
            let target = offset_of(n, chance.below(1000));
            let found = reader.lookup(E::key_of(target));
            let is_steady = known.dips.load(Ordering::SeqCst) == dips;
            lookups += 1;
            if found == nothing {
                assert!(
                    !is_steady || sure == 0 || n == 0,
                    "nothing at or below entry {n} of {sure}"
                );
                continue;
            }
            assert!(found.is_whole(), "torn: {found:?}");
            assert!(found.offset() <= target, "{found:?} for {target}");
            // An entry of the target's number may have been written in a later round, with a greater offset.
            let at_least = n.min(sure).saturating_sub(1);
            let number = number_of(found.offset());
            assert!(
                number <= n && (!is_steady || number >= at_least),
                "{number} for {n} of {sure}"
            );
            let last = reader.last_entry();
            assert!(last == nothing || last.is_whole(), "torn: {last:?}");
        }
    }
    lookups
}

/// Appends, cuts, trims, makes room again, and appends, for as long as the profile says.
fn write<E: Kind<W>, const W: usize>(
    index: &mut WritableIndex<E, W>,
    known: &Known,
    patience: Duration,
) -> usize {
    let mut chance = Chance(23);
    let start = Instant::now();
    let size = usize::try_from(index.length()).unwrap();
    let mut round = 0;
    while start.elapsed() < patience {
        round += 1;
        let until = chance.below(index.max_entries() - 1);
        while index.entries() < until {
            let n = index.entries();
            E::append(index, offset_of(n, round)).unwrap();
            known.sure.store(n + 1, Ordering::SeqCst);
            if n.is_multiple_of(2048) {
                std::thread::yield_now();
            }
        }
        let keep = match chance.below(4) {
            0 => 0,
            1 => chance.below(index.entries() + 1),
            _ => index.entries().saturating_sub(chance.below(30)),
        };
        known
            .sure
            .store(keep.min(index.entries()), Ordering::SeqCst);
        known.dips.fetch_add(1, Ordering::SeqCst);
        index.truncate_to(offset_of(keep, 0)).unwrap();
        assert!(index.entries() <= keep);
        let least = index.size_in_bytes();
        match chance.below(6) {
            0 => {
                index.trim_to_valid_size().unwrap();
                index.resize(least.max(size)).unwrap();
            }
            1 => {
                index.resize(size * 2).unwrap();
            }
            2 => {
                index.resize(least.max(size)).unwrap();
            }
            _ => {}
        }
    }
    known.ends.store(true, Ordering::SeqCst);
    round
}

fn beside<E: Kind<W>, const W: usize>(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let mut index = WritableIndex::<E, W>::open(&Disk::default(), &path, BASE, 60_000).unwrap();
    let known = Known::default();
    let readers: Vec<_> = (0..READERS).map(|_| index.reader().unwrap()).collect();
    std::thread::scope(|scope| {
        let known = &known;
        let mut looking = Vec::new();
        for (seed, reader) in (1..).zip(readers) {
            looking.push(scope.spawn(move || {
                // A thread that fails ends the writer too.
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    look(&reader, known, seed)
                }));
                known.ends.store(true, Ordering::SeqCst);
                outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }));
        }
        let rounds = write(&mut index, known, patience());
        let lookups: usize = looking
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum();
        eprintln!("{name}: {lookups} lookups beside {rounds} rounds");
        assert!(rounds > 3 && lookups > 1000);
    });
    index.close().unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().len(),
        index.size_in_bytes() as u64
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn threads_beside_the_writer_of_an_offset_index() {
    beside::<OffsetPosition, 2>("00000000007000000000.index");
}

#[test]
fn threads_beside_the_writer_of_a_time_index() {
    beside::<TimestampOffset, 3>("00000000007000000000.timeindex");
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
            .all(|(n, e)| e.is_whole() && number_of(e.offset) == n);
        assert!(whole, "torn");
        assert!(index.entries() >= seen);
        seen = index.entries();
        let times = TimeIndex::open(&time, BASE).unwrap();
        // The first entry may be seen before its offset was written: no zero of a first entry can be told from tail.
        let mut all = times.iter().enumerate();
        let whole = all.all(|(n, e)| (e.is_whole() || n == 0) && number_of(e.offset) == n);
        assert!(whole, "torn");
        assert!(times.entries() >= times_seen);
        times_seen = times.entries();
        for _ in 0..20 {
            let target = offset_of(chance.below(seen + 1), 30);
            let found = index.lookup(target);
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
    let mut offsets = WritableOffsetIndex::open(&disk, &path, BASE, 10 << 20).unwrap();
    let mut times = WritableTimeIndex::open(&disk, &time, BASE, 10 << 20).unwrap();
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
