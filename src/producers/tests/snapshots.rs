//! Snapshots: when they are taken, which of them go, and what no file can do.

use std::fs;

use proptest::prelude::*;

use super::*;

#[test]
fn snapshots_are_taken_when_the_state_has_moved() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    assert!(!state.take_snapshot(true).unwrap());
    batch(0, 0, 0).ok(state);
    batch(0, 1, 1).ok(state);
    assert!(state.take_snapshot(true).unwrap());
    assert!(!state.take_snapshot(true).unwrap());
    assert_eq!(snapshots(folder.path()), [2]);
    assert_eq!(state.latest_snapshot_offset(), Some(2));
    // What is known of a batch is its last record: the sequence continues, what it repeats is known.
    let reloaded = &mut open(folder.path());
    reloaded.truncate_and_reload(0, 3, 0).unwrap();
    assert_eq!(reloaded.map_end_offset(), 2);
    assert_eq!(reloaded.last_entry(PRODUCER).unwrap().batches().len(), 1);
    let duplicate = batch(0, 1, 9).header(false);
    assert!(
        reloaded
            .last_entry(PRODUCER)
            .unwrap()
            .find_duplicate(&duplicate)
            .is_some()
    );
    batch(0, 2, 2).ok(reloaded);
}

#[test]
fn broken_snapshots_go_and_the_one_before_counts() {
    let good = |folder: &Path| {
        let state = &mut open(folder);
        batch(0, 0, 0).ok(state);
        state.take_snapshot(true).unwrap();
        batch(0, 1, 1).ok(state);
        state.take_snapshot(true).unwrap();
        assert_eq!(snapshots(folder), [1, 2]);
        folder.join("00000000000000000002.snapshot")
    };
    let edits: [fn(&mut Vec<u8>); 4] = [
        Vec::clear,
        |data| data.truncate(data.len() / 2),
        |data| {
            let middle = data.len() / 2;
            data[middle] ^= 0x40;
        },
        |data| data[1] = 2,
    ];
    for edit in edits {
        let folder = tempfile::tempdir().unwrap();
        let path = good(folder.path());
        let mut data = fs::read(&path).unwrap();
        edit(&mut data);
        fs::write(&path, data).unwrap();
        let state = &mut open(folder.path());
        state.truncate_and_reload(0, 20, 0).unwrap();
        assert_eq!(snapshots(folder.path()), [1]);
        assert_eq!(state.map_end_offset(), 1);
        assert_eq!(state.last_entry(PRODUCER).unwrap().last_sequence(), 0);
    }
}

/// A folder with snapshots at these offsets, from a state of one producer.
fn with_snapshots(offsets: &[Offset]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    batch(0, 0, 0).ok(state);
    for &offset in offsets {
        state.update_map_end_offset(offset);
        assert!(state.take_snapshot(false).unwrap());
    }
    folder
}

#[test]
fn snapshots_outside_of_the_log_go() {
    let folder = with_snapshots(&[1, 2, 3, 4, 5]);
    let state = &mut open(folder.path());
    state.truncate_and_reload(1, 3, 0).unwrap();
    assert_eq!(snapshots(folder.path()), [2, 3]);
    assert_eq!(state.latest_snapshot_offset(), Some(3));
    assert!(state.mark_snapshot_deleted(3).unwrap());
    assert!(!state.mark_snapshot_deleted(3).unwrap());
    assert!(
        folder
            .path()
            .join("00000000000000000003.snapshot.deleted")
            .exists()
    );
    let folder = with_snapshots(&[4]);
    let state = &mut open(folder.path());
    fs::remove_file(folder.path().join("00000000000000000004.snapshot")).unwrap();
    assert!(!state.mark_snapshot_deleted(4).unwrap());
    let folder = with_snapshots(&[2, 9]);
    let state = &mut open(folder.path());
    state.truncate_fully_and_start_at(7).unwrap();
    assert_eq!(
        (snapshots(folder.path()).len(), state.map_end_offset()),
        (0, 7)
    );
    assert!(state.take_snapshot(true).unwrap());
    assert_eq!(snapshots(folder.path()), [7]);
}

#[test]
fn stray_snapshots_go_save_that_of_a_clean_close() {
    for (there, bases, stay) in [
        (&[2, 5, 7, 9][..], &[5, 7][..], &[5, 7, 9][..]),
        (&[2, 5, 8, 9], &[5, 8], &[5, 8, 9]),
        (&[2, 5, 7], &[5, 7], &[5, 7]),
        (&[1, 2, 3, 42], &[1], &[1, 42]),
        (&[1, 42], &[], &[42]),
        (&[3, 6], &[4, 8], &[]),
    ] {
        let folder = with_snapshots(there);
        let state = &mut open(folder.path());
        state.remove_stray_snapshots(bases).unwrap();
        assert_eq!(snapshots(folder.path()), stay, "{there:?} {bases:?}");
        assert_eq!(state.snapshot_offsets().collect::<Vec<_>>(), stay);
    }
}

#[test]
fn names_as_kafka_takes_them() {
    let folder = with_snapshots(&[3]);
    fs::write(folder.path().join("24.snapshot"), "").unwrap();
    fs::create_dir(folder.path().join("x.snapshot")).unwrap();
    let mut state = open(folder.path());
    assert_eq!(state.latest_snapshot_offset(), Some(24));
    state.truncate_and_reload(0, 30, 0).unwrap();
    assert_eq!(snapshots(folder.path()), [3]);
    fs::write(folder.path().join("foo.snapshot"), "").unwrap();
    let files = FolderSnapshots::new(folder.path(), &Disk::default());
    let error = ProducerStateManager::open(Arc::new(files), 1).unwrap_err();
    assert!(error.to_string().contains("foo.snapshot"), "{error}");
}

proptest! {
    /// No bytes are too strange for a snapshot, under a right checksum neither.
    #[test]
    fn any_snapshot(mut data in prop::collection::vec(any::<u8>(), 0..400), good in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        if good && data.len() > 10 {
            let count = i32::try_from((data.len() - 10) / 46).unwrap();
            data[..2].copy_from_slice(&[0, 1]);
            data[6..10].copy_from_slice(&count.to_be_bytes());
            let crc = crc32c::crc32c(&data[6..]);
            data[2..6].copy_from_slice(&crc.to_be_bytes());
        }
        fs::write(folder.path().join("00000000000000000005.snapshot"), &data).unwrap();
        let state = &mut open(folder.path());
        state.truncate_and_reload(0, 9, 0).unwrap();
        let loaded = good && data.len() > 10;
        prop_assert_eq!(state.map_end_offset(), if loaded { 5 } else { 0 });
        for entry in state.active_producers() {
            let state = ProducerState::from(entry);
            prop_assert_eq!(&ProducerEntry::from(state), entry);
        }
        state.update_map_end_offset(9);
        state.take_snapshot(false).unwrap();
    }
}
