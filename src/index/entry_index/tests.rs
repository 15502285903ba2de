#![expect(
    clippy::arithmetic_side_effects,
    reason = "tests may overflow, and then fail"
)]

use std::fs;

use proptest::prelude::*;

use super::*;
use crate::format::entry::{OffsetPosition, TimestampOffset};
use crate::index::offset::{OffsetIndex, WritableOffsetIndex};
use crate::index::time::{TimeIndex, WritableTimeIndex};
use crate::io::folder::DiskFolder;
use crate::io::overlay::Overlay;
use crate::io::storage::Folder;

const BASE: Offset = 45;

#[derive(Clone, Debug)]
enum Op {
    /// Offset and time continue by so much.
    Append(i64, i64),
    TruncateTo(i64),
    Resize(usize),
    Trim,
    Reset,
    Reopen,
    Lookup(i64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        12 => (-1..40i64, -1..40i64).prop_map(|(o, t)| Op::Append(o, t)),
        2 => (-5..600i64).prop_map(Op::TruncateTo),
        2 => (0..700usize).prop_map(Op::Resize),
        1 => Just(Op::Trim),
        1 => Just(Op::Reset),
        1 => Just(Op::Reopen),
        6 => (-5..900i64).prop_map(Op::Lookup),
    ];
    prop::collection::vec(op, 0..120)
}

/// A list in place of an index, by the rules alone.
struct Model<E> {
    entries: Vec<E>,
    slots: usize,
    max_size: usize,
}

impl<E: IndexEntry<N>, const N: usize> EntryIndex<E, N, IndexFile<N>> {
    fn all(&self) -> Vec<E> {
        (0..self.entries())
            .map(|n| self.get(n).unwrap().unwrap())
            .collect()
    }
}

/// Steps other than appends, the same for both kinds.
fn step<E: IndexEntry<N>, const N: usize>(
    index: &mut EntryIndex<E, N, IndexFile<N>>,
    model: &mut Model<E>,
    op: &Op,
) {
    let size = N;
    match *op {
        Op::Append(..) => {}
        Op::TruncateTo(offset) => {
            index.truncate_to(BASE + offset).unwrap();
            // Of times that share the offset, Kafka's search cuts at whichever it meets first.
            let count = |below: i64| model.entries.iter().filter(|e| e.offset() < below).count();
            let (fewest, most) = (count(BASE + offset), count(BASE + offset + 1));
            let kept = index.entries();
            assert!(kept == fewest || (fewest..most).contains(&kept));
            model.entries.truncate(kept);
        }
        Op::Resize(to) => {
            let slots = to / size;
            let resized = index.resize(to);
            if slots < model.entries.len() {
                assert!(resized.is_err());
            } else {
                assert_eq!(resized.unwrap(), slots != model.slots);
                model.slots = slots;
            }
        }
        Op::Trim => {
            index.trim_to_valid_size().unwrap();
            model.slots = model.entries.len();
        }
        Op::Reset => {
            index.reset().unwrap();
            model.entries.clear();
            model.slots = model.max_size / size;
        }
        Op::Reopen => {
            index.close().unwrap();
            let (disk, path) = (Disk::default(), index.path().to_path_buf());
            let length = u64::try_from(model.entries.len() * size).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().len(), length);
            *index = EntryIndex::open_writable(&disk, &path, BASE, model.max_size).unwrap();
            model.slots = model.entries.len();
        }
        Op::Lookup(target) => {
            let below = model
                .entries
                .iter()
                .rev()
                .find(|e| e.key() <= BASE + target);
            let expected = below.copied().unwrap_or_else(|| E::before_all(BASE));
            assert_eq!(index.lookup(BASE + target).unwrap(), expected);
        }
    }
    let last = model.entries.last().copied();
    assert_eq!(
        index.last_entry(),
        last.unwrap_or_else(|| E::before_all(BASE))
    );
    assert_eq!(
        (index.entries(), index.max_entries()),
        (model.entries.len(), model.slots)
    );
    assert_eq!(index.length(), u64::try_from(model.slots * size).unwrap());
    assert_eq!(fs::metadata(index.path()).unwrap().len(), index.length());
}

/// A step, and what an index answers.
fn take<F: EntryFile<8>>(
    index: &mut OffsetIndex<F>,
    op: &Op,
) -> Result<OffsetPosition, Option<Refusal>> {
    let taken = match *op {
        Op::Append(step, position) => {
            let position = i32::try_from(position + 7).unwrap();
            index.append(index.last_offset() + step, position)
        }
        Op::TruncateTo(offset) => index.truncate_to(BASE + offset),
        // Below the entries they differ, as `entry_index` says.
        Op::Resize(to) => index.resize(to.max(index.size_in_bytes())).map(drop),
        Op::Trim => index.trim_to_valid_size(),
        Op::Reset => index.reset(),
        Op::Reopen => index.flush(),
        Op::Lookup(target) => return Ok(index.lookup(BASE + target).unwrap()),
    };
    let answer = index.last_entry();
    taken.map(|()| answer).map_err(|error| error.refusal())
}

proptest! {
    #[test]
    fn an_offset_index_is_a_list(ops in ops(), max_size in 8..600usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("00000000000000000045.index");
        let mut index = WritableOffsetIndex::open_writable(&Disk::default(), &path, BASE, max_size).unwrap();
        let mut model = Model { entries: Vec::new(), slots: max_size / 8, max_size };
        for op in &ops {
            if let &Op::Append(step, position) = op {
                let offset = index.last_offset() + step;
                let position = i32::try_from(position + 7).unwrap();
                let taken = index.append(offset, position);
                let expected = if model.entries.len() >= model.slots {
                    Some(Refusal::IndexFull)
                } else if !model.entries.is_empty() && step <= 0 {
                    Some(Refusal::OffsetsOutOfOrder)
                } else if offset < BASE {
                    Some(Refusal::SegmentOffsetOverflow)
                } else {
                    model.entries.push(OffsetPosition { offset, position });
                    None
                };
                prop_assert_eq!(taken.err().and_then(|e| e.refusal()), expected);
            }
            step(&mut index, &mut model, op);
        }
        index.close().unwrap();
        let read = OffsetIndex::open(&path, BASE).unwrap();
        // An entry at position 0 or at the base would be taken for tail; there is none.
        prop_assert_eq!(read.max_entries(), model.entries.len());
        if model.entries.iter().skip(1).all(|e| e.offset > BASE) {
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), model.entries);
        }
    }

    #[test]
    fn a_time_index_is_a_list(ops in ops(), max_size in 12..600usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("00000000000000000045.timeindex");
        let mut index = WritableTimeIndex::open_writable(&Disk::default(), &path, BASE, max_size).unwrap();
        let mut model = Model { entries: Vec::new(), slots: max_size / 12, max_size };
        for (n, op) in ops.iter().enumerate() {
            if let &Op::Append(step, time) = op {
                let last = index.last_entry();
                let (offset, timestamp) = (last.offset + step, last.timestamp + time);
                let skips = n % 5 == 0;
                let taken = index.maybe_append(timestamp, offset, skips);
                let used = model.entries.len();
                let expected = if !skips && used + 1 >= model.slots {
                    Some(Refusal::IndexFull)
                } else if used > 0 && step < 0 {
                    Some(Refusal::OffsetsOutOfOrder)
                } else if used > 0 && time < 0 {
                    Some(Refusal::TimestampsOutOfOrder)
                } else if time <= 0 {
                    None
                } else if used >= model.slots {
                    Some(Refusal::IndexFull)
                } else if offset < BASE {
                    Some(Refusal::SegmentOffsetOverflow)
                } else {
                    model.entries.push(TimestampOffset { timestamp, offset });
                    None
                };
                prop_assert_eq!(taken.err().and_then(|e| e.refusal()), expected);
            }
            step(&mut index, &mut model, op);
        }
        prop_assert_eq!(index.all(), model.entries.clone());
        index.close().unwrap();
        let read = TimeIndex::open(&path, BASE).unwrap();
        // So would time 0 at the base.
        let is_zero = |e: &TimestampOffset| e.timestamp == 0 && e.offset == BASE;
        if model.entries.iter().skip(1).all(|e| e.offset > BASE)
            && !model.entries.first().is_some_and(is_zero)
        {
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), model.entries);
        }
    }

    /// The same steps on a disk and under plan give the same answers and leave the same bytes.
    #[test]
    fn an_index_under_plan_is_the_one_on_a_disk(
        ops in ops(),
        max_size in 8..600usize,
        old in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let name = "00000000000000000045.index";
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [disk, base] = folders.each_ref().map(|folder| {
            if !old.is_empty() {
                fs::write(folder.path().join(name), &old).unwrap();
            }
            DiskFolder::at(folder.path())
        });
        let plan = Overlay::new(Folder::new(base)).unwrap();
        let mut here = WritableOffsetIndex::open_writable_in(&disk, name, BASE, max_size).unwrap();
        let mut there = OffsetIndex::open_writable_in(&plan, name, BASE, max_size).unwrap();
        for op in &ops {
            prop_assert_eq!(take(&mut here, op), take(&mut there, op));
            prop_assert_eq!(
                (here.entries(), here.max_entries(), here.length(), here.last_entry()),
                (there.entries(), there.max_entries(), there.length(), there.last_entry())
            );
        }
        let bytes = || (fs::read(disk.path_of(name)).unwrap(), plan.read(name, u64::MAX).unwrap());
        here.flush().unwrap();
        there.flush().unwrap();
        let (on_disk, planned) = bytes();
        prop_assert_eq!(on_disk, planned);
        prop_assert_eq!(here.fit().unwrap(), there.fit().unwrap());
        here.close().unwrap();
        there.close().unwrap();
        let (on_disk, planned) = bytes();
        prop_assert_eq!(on_disk, planned);
        if old.is_empty() {
            prop_assert!(!folders[1].path().join(name).exists());
        } else {
            prop_assert_eq!(fs::read(folders[1].path().join(name)).unwrap(), old);
        }
    }

    /// A lookup finds what Kafka's search finds, whatever the file holds.
    #[test]
    fn any_file_is_searched_as_kafka_does(
        mut entries in prop::collection::vec((any::<i32>(), any::<i32>()), 0..3000),
        rises in any::<bool>(),
        base in prop_oneof![Just(BASE), any::<i64>()],
        targets in prop::collection::vec(any::<i32>(), 30),
    ) {
        if rises {
            entries.sort_unstable();
            entries.dedup_by_key(|e| e.0);
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("00000000000000000045.index");
        let bytes = entries.iter().flat_map(|e| [e.0.to_be_bytes(), e.1.to_be_bytes()]);
        fs::write(&path, bytes.flatten().collect::<Vec<_>>()).unwrap();
        let index = WritableOffsetIndex::open_writable(&Disk::default(), &path, base, 80).unwrap();
        let key = |n: usize| base.wrapping_add(entries[n].0.into());
        let near = entries.iter().step_by(37).map(|e| e.0);
        for target in targets.into_iter().chain(near) {
            let target = base.wrapping_add(target.into());
            let slot = search::floor::<8, Error>(entries.len(), target, |n| Ok(key(n))).unwrap();
            let expected = slot.map_or(OffsetPosition::relative(base, 0, 0), |n| {
                OffsetPosition::relative(base, entries[n].0, entries[n].1)
            });
            prop_assert_eq!(index.lookup(target).unwrap(), expected);
        }
    }
}
