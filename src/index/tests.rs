#![expect(
    clippy::arithmetic_side_effects,
    reason = "tests may overflow, and then fail"
)]

use std::path::Path;

use proptest::prelude::*;

use super::offset::OffsetIndex;
use super::time::TimeIndex;
use super::txn::{TransactionIndex, collect_aborted};
use crate::error::{Error, Refusal};
use crate::format::entry::AbortedTxn;
use crate::io::disk::Disk;
use crate::io::folder::DiskFolder;
use crate::io::mapping::ClosedName;
use crate::io::storage::Storage as _;

fn offset_bytes(entries: &[(i32, i32)]) -> Vec<u8> {
    let bytes = |&(offset, position): &(i32, i32)| [offset.to_be_bytes(), position.to_be_bytes()];
    entries.iter().flat_map(bytes).flatten().collect()
}

fn time_bytes(entries: &[(i64, i32)]) -> Vec<u8> {
    let mut all = Vec::new();
    for (timestamp, offset) in entries {
        all.extend(timestamp.to_be_bytes());
        all.extend(offset.to_be_bytes());
    }
    all
}

fn rising() -> impl Strategy<Value = Vec<(i32, i32)>> {
    prop::collection::vec((1..5000i32, 1..100_000i32), 0..300).prop_map(|steps| {
        let mut at = (0, 0);
        let mut next = |(o, p): (i32, i32)| {
            at = (at.0 + o, at.1 + p);
            at
        };
        steps.into_iter().map(&mut next).collect()
    })
}

proptest! {
    #[test]
    fn offset_lookup_is_a_linear_search(entries in rising(), zeros in 0..40usize, targets in prop::collection::vec(-10..1_600_000i64, 20)) {
        let base = 45;
        let mut bytes = offset_bytes(&entries);
        bytes.resize(bytes.len() + zeros * 8, 0);
        let index = OffsetIndex::from_bytes(bytes, base).unwrap();
        prop_assert_eq!(index.entries(), entries.len());
        prop_assert_eq!(index.max_entries(), entries.len() + zeros);
        let edges = entries.iter().flat_map(|e| [e.0 - 1, e.0, e.0 + 1]).map(i64::from);
        for target in targets.into_iter().chain(edges).chain([i64::MIN, i64::MAX - base, i64::MAX]) {
            let expected = entries.iter().rev().find(|e| i64::from(e.0) <= target).map_or((0, 0), |&e| e);
            let found = index.lookup(target.saturating_add(base)).unwrap();
            prop_assert_eq!((found.offset, found.position), (base + i64::from(expected.0), expected.1));
        }
    }

    /// Wrong bytes give wrong entries, yet always one of the entries, and never a panic.
    #[test]
    fn any_bytes_can_be_searched(bytes in prop::collection::vec(any::<u8>(), 0..600), target in any::<i64>(), base in any::<i64>()) {
        let offsets = OffsetIndex::from_bytes(bytes.clone(), base).unwrap();
        let found = offsets.lookup(target).unwrap();
        prop_assert!(found == offsets.lookup(i64::MIN).unwrap() || offsets.iter().any(|e| e == found));
        let _ = (offsets.sanity_check(), offsets.last_entry(), offsets.get(usize::MAX));
        let times = TimeIndex::from_bytes(bytes, base).unwrap();
        let found = times.lookup(target).unwrap();
        prop_assert!(found.timestamp == -1 || times.iter().any(|e| e == found));
        let _ = (times.sanity_check(), times.last_entry(), times.get(usize::MAX));
    }
}

#[test]
fn time_lookup() {
    let entries: Vec<_> = (0..30)
        .map(|i| (i * 10, i32::try_from(i).unwrap() * 10 + 1))
        .collect();
    let index = TimeIndex::from_bytes(time_bytes(&entries), 45).unwrap();
    let answer = |t| {
        let e = index.lookup(t).unwrap();
        (e.timestamp, e.offset)
    };
    assert_eq!(answer(-5), (-1, 45));
    assert_eq!(answer(100), (100, 146));
    assert_eq!(answer(9), (0, 46));
    assert_eq!(answer(i64::MAX), (290, 45 + 291));
    assert_eq!((index.last_entry().timestamp, index.entries()), (290, 30));
}

/// Nothing but the tail is read, and it tells what the whole index tells.
#[test]
fn the_last_entry_alone() {
    let folder = tempfile::tempdir().unwrap();
    let name = "00000000000000000045.timeindex";
    let path = folder.path().join(name);
    let on_disk = DiskFolder::at(folder.path());
    let last = || TimeIndex::last_of(&on_disk, name, 45);
    assert!(matches!(last(), Err(Error::Io { .. })));
    for written in [0usize, 1, 2, 3, 64, 1000] {
        for tail in [0, 5, 12, 12 * 7 + 3, 12 * 2048] {
            let entries: Vec<_> = (0..written)
                .map(|i| i32::try_from(i).unwrap())
                .map(|i| (i64::from(i) - 1, i))
                .collect();
            let mut bytes = time_bytes(&entries);
            bytes.resize(bytes.len() + tail, 0);
            std::fs::write(&path, &bytes).unwrap();
            let whole = TimeIndex::open(&path, 45).unwrap();
            assert_eq!(whole.entries(), written);
            assert_eq!(last().unwrap(), whole.iter().last(), "{written} {tail}");
        }
    }
    // Zeros before the last entry: a sparse file, or damage.
    let mut bytes = time_bytes(&[(5, 1), (0, 0), (0, 0), (9, 4)]);
    for length in [48, 36, 40] {
        bytes.truncate(length);
        std::fs::write(&path, &bytes).unwrap();
        let whole = TimeIndex::open(&path, 45).unwrap();
        assert_eq!(last().unwrap(), whole.iter().last(), "{length}");
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(last(), Err(Error::Io { .. })));
}

/// An index of a closed segment: the next `.log` is beside it.
fn mapped(path: &std::path::Path) -> crate::error::Result<OffsetIndex> {
    let folder = DiskFolder::at(path.parent().unwrap());
    folder.put("00000000000000000007.log", b"", false)?;
    let name = path.file_name().unwrap().to_str().unwrap();
    let name = ClosedName::of(&folder, name, Some(7)).expect("closed");
    OffsetIndex::map(&name.open()?, 0)
}

#[test]
fn zero_tails_are_cut_from_files_and_mapped_files_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("00000000000000000000.index");
    for written in [0usize, 1, 2, 511, 512, 1000] {
        let entries: Vec<_> = (1..=written)
            .map(|i| i32::try_from(i).unwrap())
            .map(|i| (i * 3, i * 100))
            .collect();
        let mut bytes = offset_bytes(&entries);
        std::fs::write(&path, &bytes).unwrap();
        let trimmed = mapped(&path).unwrap();
        let copied = OffsetIndex::open(&path, 0).unwrap();
        bytes.resize(8 * 1024 + 5, 0);
        std::fs::write(&path, &bytes).unwrap();
        let tailed = mapped(&path).unwrap();
        assert_eq!(trimmed.file.region().is_mapped(), written > 0);
        assert!(!copied.file.region().is_mapped() && !tailed.file.region().is_mapped());
        assert_eq!((tailed.entries(), tailed.max_entries()), (written, 1024));
        for index in [&trimmed, &copied, &tailed] {
            assert_eq!(
                index.iter().collect::<Vec<_>>(),
                trimmed.iter().collect::<Vec<_>>()
            );
        }
        assert!(trimmed.sanity_check().is_ok());
        assert!(
            tailed
                .sanity_check()
                .unwrap_err()
                .to_string()
                .contains("index length")
        );
    }
}

/// Agrees with Kafka's classes on such files (`sanityCheck` of the corpus).
#[test]
fn sanity() {
    assert!(
        OffsetIndex::from_bytes(vec![0; 80], 7)
            .unwrap()
            .sanity_check()
            .is_ok()
    );
    assert!(
        OffsetIndex::from_bytes(offset_bytes(&[(3, 9), (-1, 10)]), 7)
            .unwrap()
            .sanity_check()
            .is_err()
    );
    let mut times = time_bytes(&[(5, 1), (9, 4)]);
    assert!(
        TimeIndex::from_bytes(times.clone(), 7)
            .unwrap()
            .sanity_check()
            .is_ok()
    );
    times.resize(120, 0);
    assert!(
        TimeIndex::from_bytes(times, 7)
            .unwrap()
            .sanity_check()
            .is_err()
    );
    assert!(
        TimeIndex::from_bytes(vec![0; 120], 7)
            .unwrap()
            .sanity_check()
            .is_ok()
    );
    assert!(
        TimeIndex::from_bytes(time_bytes(&[(5, 1), (9, -4)]), 7)
            .unwrap()
            .sanity_check()
            .is_err()
    );
}

#[test]
fn aborted_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("00000000000000000010.txnindex");
    let entry = |version: i16, last: i64| {
        let mut bytes = version.to_be_bytes().to_vec();
        for n in [7, 11, last, 40] {
            bytes.extend(n.to_be_bytes());
        }
        bytes
    };
    let read = |parts: &[Vec<u8>], path: &Path| {
        std::fs::write(path, parts.concat()).unwrap();
        TransactionIndex::open(path, 10).unwrap()
    };
    let index = read(&[entry(0, 12), entry(0, 30), vec![0; 33]], &path);
    assert_eq!(
        (index.entries(), index.get(1).unwrap().unwrap().last_offset),
        (2, 30)
    );
    assert_eq!(index.get(2).unwrap(), None);
    assert!(index.sanity_check().is_ok());
    assert!(read(&[entry(0, 9)], &path).sanity_check().is_err());
    assert_eq!(read(&[], &path).entries(), 0);
}

fn txn(first_offset: i64, last_offset: i64, last_stable_offset: i64) -> AbortedTxn {
    AbortedTxn {
        version: 0,
        producer_id: 7,
        first_offset,
        last_offset,
        last_stable_offset,
    }
}

/// The fetches that `TransactionIndexTest` pins, and cuts.
#[test]
fn a_transaction_index_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("00000000000000000000.txnindex");
    let disk = Disk::default();
    let mut index = TransactionIndex::open_writable(&disk, &path, 0).unwrap();
    assert!(index.entries() == 0 && index.all().unwrap().is_empty() && !path.exists());
    index.flush().unwrap();
    index.reset().unwrap();
    index.truncate_to(0).unwrap();
    assert!(!path.exists());
    let entries = [
        txn(0, 10, 11),
        txn(5, 15, 13),
        txn(18, 35, 25),
        txn(32, 50, 40),
    ];
    for entry in &entries {
        index.append(entry).unwrap();
        let again = index.append(entry).unwrap_err();
        assert_eq!(again.refusal(), Some(Refusal::OffsetsOutOfOrder));
    }
    assert_eq!(index.all().unwrap(), entries);
    for (from, to, expected, is_complete) in [
        (0, 100, &entries[..], false),
        (0, 32, &entries[..3], true),
        (0, 35, &entries[..], true),
        (10, 35, &entries[..], true),
        (11, 35, &entries[1..], true),
        (20, 41, &entries[2..], false),
    ] {
        let found = collect_aborted(index.all().unwrap(), from, to);
        assert_eq!(
            (&found.txns[..], found.is_complete),
            (expected, is_complete)
        );
    }
    index.truncate_to(51).unwrap();
    assert_eq!(index.entries(), 4);
    index.truncate_to(16).unwrap();
    assert_eq!(index.all().unwrap(), entries[..2]);
    assert!(index.append(&txn(1, 15, 3)).is_err());
    index.append(&entries[2]).unwrap();
    index.close();

    // A part of an entry is not one, and the next goes over it.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend([9; 20]);
    std::fs::write(&path, &bytes).unwrap();
    let mut index = TransactionIndex::open_writable(&disk, &path, 12).unwrap();
    assert_eq!(index.all().unwrap(), entries[..3]);
    index.append(&entries[3]).unwrap();
    assert_eq!(index.get(3).unwrap(), Some(entries[3]));
    assert_eq!(index.get(4).unwrap(), None);
    assert!(matches!(index.sanity_check(), Err(Error::CorruptIndex(_))));
}

/// A broker looks at the version's high byte only.
#[test]
fn versions_of_a_transaction_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("00000000000000000000.txnindex");
    for (version, is_readable) in [(0, true), (1, true), (255, true), (256, false), (-1, true)] {
        let entry = AbortedTxn {
            version,
            ..txn(5, 9, 7)
        };
        std::fs::write(&path, entry.encode()).unwrap();
        let index = TransactionIndex::open_writable(&Disk::default(), &path, 0).unwrap();
        assert_eq!(index.all().is_ok(), is_readable, "{version}");
        let read = TransactionIndex::open(&path, 0).unwrap();
        let read = read.sanity_check();
        for checked in [index.sanity_check(), read] {
            assert_eq!(checked.is_ok(), is_readable, "{version}");
            let newer = matches!(checked, Err(Error::UnsupportedFormat(_)));
            assert_eq!(newer, !is_readable, "{version}");
        }
    }
}
