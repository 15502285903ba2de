//! Nanoseconds an append, and a lookup in a 2 MB offset index with targets at random: `cargo bench --bench index`.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::arithmetic_side_effects,
    reason = "a bench prints, and may stop"
)]

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use kafkalog::internal::index::offset::{OffsetIndex, WritableOffsetIndex};
use kafkalog::internal::index::time::{TimeIndex, WritableTimeIndex};
use kafkalog::internal::io::disk::Disk;
use kafkalog::internal::io::folder::DiskFolder;
use kafkalog::internal::io::mapping::ClosedName;

const ENTRIES: u32 = 262_144;
const LOOKUPS: u32 = 20_000;
const RUNS: u32 = 500;

/// A small generator: the targets need no better one, and the bench no dependency.
struct Random(u64);

impl Random {
    const fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        match self.0.checked_rem(bound) {
            Some(r) => r,
            None => 0,
        }
    }
}

/// The quickest of many short runs: whatever else the machine does can only slow one down.
fn time(name: &str, mut lookup: impl FnMut() -> i64) {
    let best = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..LOOKUPS {
                black_box(lookup());
            }
            start.elapsed().as_secs_f64() / f64::from(LOOKUPS) * 1e9
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:<40} {best:7.1} ns");
}

/// Nanoseconds an append, over files of `ENTRIES` entries: once as they come, holes and all, and once over old entries.
fn appends(folder: &Path) {
    let size = ENTRIES as usize * 12;
    let (mut fresh, mut again) = ([f64::INFINITY; 2], [f64::INFINITY; 2]);
    for run in 0..30 {
        let path = folder.join(format!("{:020}.index", run + 2));
        let mut offsets =
            WritableOffsetIndex::open_writable(&Disk::default(), &path, 0, size).expect("opened");
        let path = folder.join(format!("{:020}.timeindex", run + 2));
        let mut times =
            WritableTimeIndex::open_writable(&Disk::default(), &path, 0, size).expect("opened");
        for best in [&mut fresh, &mut again] {
            let start = Instant::now();
            for n in 1..ENTRIES {
                let position = n.cast_signed().wrapping_mul(4097);
                offsets.append(i64::from(n) * 40, position).expect("room");
            }
            best[0] = best[0].min(start.elapsed().as_secs_f64() / f64::from(ENTRIES) * 1e9);
            let start = Instant::now();
            for n in 1..ENTRIES - 1 {
                let offset = i64::from(n) * 40;
                times
                    .maybe_append(1_700_000_000_000 + offset, offset, false)
                    .expect("room");
            }
            best[1] = best[1].min(start.elapsed().as_secs_f64() / f64::from(ENTRIES) * 1e9);
            offsets.truncate().expect("open");
            times.truncate().expect("open");
        }
        for path in [offsets.path(), times.path()] {
            std::fs::remove_file(path).expect("deleted");
        }
    }
    println!(
        "{:<40} {:7.1} ns",
        "offset index, append to a new file", fresh[0]
    );
    println!("{:<40} {:7.1} ns", "offset index, append", again[0]);
    println!(
        "{:<40} {:7.1} ns",
        "time index, append to a new file", fresh[1]
    );
    println!("{:<40} {:7.1} ns", "time index, append", again[1]);
}

fn main() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut offset, mut position, mut clock) = (0u64, 0u64, 1_700_000_000_000u64);
    let (mut offsets, mut times) = (Vec::new(), Vec::new());
    for _ in 0..ENTRIES {
        offset += 20 + random.below(41);
        position += 4096 + random.below(1000);
        let burst = if random.below(10) == 0 { 5000 } else { 50 };
        clock += 1 + random.below(burst);
        let relative = u32::try_from(offset).expect("fits").to_be_bytes();
        offsets.extend(relative);
        offsets.extend(u32::try_from(position).expect("fits").to_be_bytes());
        times.extend(clock.to_be_bytes());
        times.extend(relative);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let name = "00000000000000000000.index.deleted";
    std::fs::write(folder.path().join(name), &offsets).expect("written");
    let on_disk = DiskFolder::at(folder.path());
    let closed = ClosedName::of(&on_disk, name, None).expect("closed");
    let index = OffsetIndex::map(&closed.open().expect("opened"), 0).expect("mapped");
    time("offset index, 2 MB, mapped", || {
        let target = random.below(offset).cast_signed();
        index.lookup(target).expect("in memory").offset
    });
    let mut written = WritableOffsetIndex::open_writable(
        &Disk::default(),
        &folder.path().join("00000000000000000001.index"),
        0,
        ENTRIES as usize * 8,
    )
    .expect("opened");
    for entry in index.iter() {
        written.append(entry.offset, entry.position).expect("room");
    }
    time("offset index, 2 MB, by its writer", || {
        let target = random.below(offset).cast_signed();
        written.lookup(target).expect("open").offset
    });
    let index = TimeIndex::from_bytes(times, 0).expect("in memory");
    time("time index, 262144 entries", || {
        let target = 1_700_000_000_000 + random.below(clock - 1_700_000_000_000);
        let found = index.lookup(target.cast_signed());
        found.expect("in memory").timestamp
    });
    appends(folder.path());
    time("the generator alone", || random.below(offset).cast_signed());
}
