//! Behaviour as `LeaderEpochFileCacheTest` pins it.

use std::fs;

use super::*;
use proptest::prelude::*;

const fn entry(epoch: i32, start_offset: Offset) -> EpochEntry {
    EpochEntry {
        epoch,
        start_offset,
    }
}

fn of(entries: &[(i32, Offset)]) -> LeaderEpochs {
    let entries: Vec<_> = entries.iter().map(|&(e, o)| entry(e, o)).collect();
    LeaderEpochs::in_memory(&entries).unwrap()
}

fn pairs(epochs: &LeaderEpochs) -> Vec<(i32, Offset)> {
    epochs
        .entries()
        .iter()
        .map(|e| (e.epoch, e.start_offset))
        .collect()
}

#[test]
fn the_newest_assignment_wins() {
    for (assigned, expected) in [
        (&[(2, 11), (2, 12)][..], &[(2, 11)][..]),
        (&[(2, 11), (2, 10)], &[(2, 10)]),
        (&[(2, 6), (3, 6)], &[(3, 6)]),
        // An older epoch from a later offset takes the place of its own entry and of those after it.
        (&[(2, 6), (3, 8), (2, 9)], &[(2, 9)]),
        (&[(1, 5), (2, 7), (4, 9), (3, 8)], &[(1, 5), (2, 7), (3, 8)]),
        (&[(1, 5), (2, 7), (3, 6)], &[(1, 5), (3, 6)]),
        (&[(1, 5), (2, 7), (3, 5)], &[(3, 5)]),
        (&[(0, 0), (0, 0)], &[(0, 0)]),
    ] {
        assert_eq!(pairs(&of(assigned)), expected, "{assigned:?}");
    }
    assert!(LeaderEpochs::in_memory(&[entry(-1, 0)]).is_err());
    assert!(LeaderEpochs::in_memory(&[entry(0, -1)]).is_err());
}

#[test]
fn cut_from_the_end() {
    for (offset, kept) in [(8, 1), (9, 2), (6, 0), (5, 0), (12, 3), (11, 2), (-1, 3)] {
        let mut epochs = of(&[(2, 6), (3, 8), (4, 11)]);
        assert_eq!(epochs.truncate_from_end(offset), kept < 3, "{offset}");
        assert_eq!(epochs.entries().len(), kept, "{offset}");
    }
}

#[test]
fn cut_from_the_start() {
    for (offset, touched, expected) in [
        (8, true, &[(3, 8), (4, 11)][..]),
        (5, false, &[(2, 6), (3, 8), (4, 11)]),
        (7, true, &[(2, 7), (3, 8), (4, 11)]),
        (9, true, &[(3, 9), (4, 11)]),
        (11, true, &[(4, 11)]),
        (15, true, &[(4, 15)]),
        (-1, false, &[(2, 6), (3, 8), (4, 11)]),
    ] {
        let mut epochs = of(&[(2, 6), (3, 8), (4, 11)]);
        assert_eq!(epochs.truncate_from_start(offset), touched, "{offset}");
        assert_eq!(pairs(&epochs), expected, "{offset}");
    }
    assert!(!of(&[]).truncate_from_start(7) && !of(&[]).truncate_from_end(7));
}

#[test]
fn kept_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(LEADER_EPOCH_CHECKPOINT);
    let load = || LeaderEpochs::load(folder.path(), Disk::default());
    let mut epochs = load().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"");
    assert!(epochs.assign(2, 6).unwrap() && epochs.assign(3, 8).unwrap());
    assert!(!epochs.assign(3, 9).unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"0\n2\n2 6\n3 8\n");
    assert_eq!(pairs(&load().unwrap()), [(2, 6), (3, 8)]);
    epochs.truncate_from_start(7);
    epochs.flush().unwrap();
    assert_eq!(pairs(&load().unwrap()), [(2, 7), (3, 8)]);
    epochs.clear();
    epochs.flush().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"0\n0\n");
    fs::write(&path, "0\n1\n2\n").unwrap();
    let error = load().unwrap_err().to_string();
    assert!(error.contains(LEADER_EPOCH_CHECKPOINT), "{error}");
}

proptest! {
    /// Entries rise in both, whatever is assigned and cut.
    #[test]
    fn entries_rise(
        steps in prop::collection::vec((0..3u8, 0..8i32, 0..40i64), 0..40),
    ) {
        let mut epochs = of(&[]);
        for (kind, epoch, offset) in steps {
            match kind {
                0 => drop(epochs.truncate_from_end(offset)),
                1 => drop(epochs.truncate_from_start(offset)),
                _ => drop(epochs.assign(epoch, offset).unwrap()),
            }
            let rises = |w: &[EpochEntry]| {
                w[0].epoch < w[1].epoch && w[0].start_offset < w[1].start_offset
            };
            prop_assert!(epochs.entries().windows(2).all(rises), "{:?}", epochs.entries());
        }
        let written = write_epochs(epochs.entries());
        prop_assert_eq!(parse_epochs(&written).unwrap(), epochs.entries());
    }
}
