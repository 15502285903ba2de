//! Behaviour as `ProducerStateManagerTest` pins it.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "small numbers in tests; overflow would fail them"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::append::TV_UNKNOWN;
use super::snapshots::FolderSnapshots;
use super::*;
use crate::error::ProducerRule;
use crate::format::attributes::Attributes;
use crate::io::disk::Disk;
use crate::types::NO_SEQUENCE;

const PRODUCER: i64 = 1;
const EXPIRATION_MS: i64 = 1000;

fn open(folder: &Path) -> ProducerStateManager {
    let files = FolderSnapshots::new(folder, Disk::default());
    ProducerStateManager::open(Arc::new(files), EXPIRATION_MS).unwrap()
}

/// A batch of `records` records.
#[derive(Clone, Copy, Debug)]
struct Batch {
    producer_id: i64,
    epoch: i16,
    sequence: i32,
    offset: Offset,
    records: i32,
    timestamp: TimestampMs,
    transactional: bool,
}

const fn batch(epoch: i16, sequence: i32, offset: Offset) -> Batch {
    Batch {
        producer_id: PRODUCER,
        epoch,
        sequence,
        offset,
        records: 1,
        timestamp: 0,
        transactional: false,
    }
}

const fn transactional(epoch: i16, sequence: i32, offset: Offset) -> Batch {
    Batch {
        transactional: true,
        ..batch(epoch, sequence, offset)
    }
}

impl Batch {
    const fn by(self, producer_id: i64) -> Self {
        Self {
            producer_id,
            ..self
        }
    }

    const fn records(self, records: i32) -> Self {
        Self { records, ..self }
    }

    const fn at(self, timestamp: TimestampMs) -> Self {
        Self { timestamp, ..self }
    }

    fn header(self, is_control: bool) -> BatchHeader {
        let attributes = u8::from(self.transactional) << 4 | u8::from(is_control) << 5;
        BatchHeader {
            base_offset: self.offset,
            size: 61,
            partition_leader_epoch: 0,
            magic: 2,
            crc: 0,
            attributes: Attributes(attributes),
            last_offset_delta: self.records - 1,
            base_timestamp: self.timestamp,
            max_timestamp: self.timestamp,
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            base_sequence: self.sequence,
            records_count: Some(self.records),
        }
    }

    fn append(self, state: &mut ProducerStateManager, origin: AppendOrigin) -> Result<()> {
        let header = self.header(false);
        let analysis = state.analyze([(&header, None)], origin, TV_UNKNOWN)?;
        state.update_all(analysis.appends);
        state.update_map_end_offset(header.next_offset());
        Ok(())
    }

    fn ok(self, state: &mut ProducerStateManager) {
        self.append(state, AppendOrigin::Client).unwrap();
    }

    #[track_caller]
    fn refused(self, state: &mut ProducerStateManager, rule: ProducerRule) {
        refused(self.append(state, AppendOrigin::Client), rule);
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>, rule: ProducerRule) {
    match result {
        Err(Error::ProducerRefused(fault)) => assert_eq!(fault.rule, rule),
        other => panic!("{other:?}"),
    }
}

/// A marker, completed as an append does it.
fn end(
    state: &mut ProducerStateManager,
    batch: Batch,
    coordinator_epoch: i32,
    origin: AppendOrigin,
    transaction_version: i16,
) -> Result<Option<(CompletedTxn, Offset)>> {
    let marker = EndTransaction {
        is_abort: true,
        coordinator_epoch,
        timestamp: batch.timestamp,
    };
    let header = Batch {
        sequence: -1,
        ..batch
    }
    .header(true);
    let analysis = state.analyze([(&header, Some(marker))], origin, transaction_version)?;
    state.update_all(analysis.appends);
    let mut stable = None;
    for txn in analysis.completed {
        stable = Some((txn, state.last_stable_offset(&txn)));
        state.complete_txn(&txn)?;
    }
    state.update_map_end_offset(header.next_offset());
    Ok(stable)
}

fn abort(state: &mut ProducerStateManager, epoch: i16, coordinator: i32, offset: Offset) {
    let marker = transactional(epoch, -1, offset);
    end(state, marker, coordinator, AppendOrigin::Coordinator, 0).unwrap();
}

fn snapshots(folder: &Path) -> Vec<Offset> {
    let files = FolderSnapshots::new(folder, Disk::default());
    let found = files.list().unwrap().into_iter();
    found.map(|(offset, _)| offset).collect()
}

#[test]
fn sequences_follow_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    batch(0, 0, 0).ok(state);
    batch(0, 1, 1).ok(state);
    batch(0, 1, 2)
        .records(2)
        .refused(state, ProducerRule::OutOfOrderSequence);
    batch(0, 5, 2).refused(state, ProducerRule::OutOfOrderSequence);
    batch(1, 0, 2).ok(state);
    batch(0, 2, 3).refused(state, ProducerRule::InvalidProducerEpoch);
    batch(2, 1, 3).refused(state, ProducerRule::OutOfOrderSequence);
    assert_eq!(state.last_entry(PRODUCER).unwrap().last_sequence(), 0);
    // Of an unknown producer any sequence will do.
    batch(3, 42, 3).by(9).ok(state);
    let header = batch(3, 42, 3).header(false);
    assert!(
        state
            .last_entry(9)
            .unwrap()
            .find_duplicate(&header)
            .is_some()
    );
}

#[test]
fn sequences_wrap() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    batch(15, i32::MAX, 735).ok(state);
    batch(15, 0, 736).ok(state);
    assert_eq!(state.last_entry(PRODUCER).unwrap().last_sequence(), 0);
    let state = &mut open(folder.path());
    batch(15, i32::MAX - 10, 1000).records(30).ok(state);
    let known = *state
        .last_entry(PRODUCER)
        .unwrap()
        .batches()
        .next()
        .unwrap();
    assert_eq!(
        (known.first_sequence(), known.last_sequence),
        (i32::MAX - 10, 18)
    );
    assert_eq!((known.first_offset(), known.last_offset), (1000, 1029));
    let state = &mut open(folder.path());
    batch(15, i32::MAX, 735).ok(state);
    batch(15, 1, 736).refused(state, ProducerRule::OutOfOrderSequence);
}

#[test]
fn five_batches_are_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    for n in 0..6i32 {
        batch(0, n * 2, i64::from(n) * 2).records(2).ok(state);
    }
    let entry = state.last_entry(PRODUCER).unwrap().clone();
    assert_eq!(entry.batches().len(), 5);
    assert_eq!((entry.first_sequence(), entry.last_sequence()), (2, 11));
    assert_eq!(
        (entry.first_data_offset(), entry.last_data_offset()),
        (2, 11)
    );
    for n in 0..6i32 {
        let repeated = batch(0, n * 2, 100).records(2).header(false);
        let analysis = state
            .analyze([(&repeated, None)], AppendOrigin::Client, TV_UNKNOWN)
            .ok()
            .and_then(|analysis| analysis.duplicate);
        let expected = (n > 0).then_some(i64::from(n) * 2);
        assert_eq!(analysis.map(|b| b.first_offset()), expected, "{n}");
        assert!(
            entry
                .find_duplicate(&batch(0, n * 2, 100).header(false))
                .is_none()
        );
        assert!(
            entry
                .find_duplicate(&batch(1, n * 2, 100).records(2).header(false))
                .is_none()
        );
    }
    // A copy is taken in whatever it repeats.
    batch(0, 2, 12)
        .append(state, AppendOrigin::Replication)
        .unwrap();
    assert_eq!(state.last_entry(PRODUCER).unwrap().last_sequence(), 2);
    // A new epoch forgets the old one's batches.
    batch(1, 0, 13).ok(state);
    assert_eq!(state.last_entry(PRODUCER).unwrap().batches().len(), 1);
}

#[test]
fn several_batches_of_one_append() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    let headers = [
        transactional(0, 0, 16).records(5).header(false),
        transactional(0, 5, 21).header(false),
        transactional(0, 6, 22).by(2).header(false),
    ];
    let batches = headers.iter().map(|header| (header, None));
    let analysis = state
        .analyze(batches, AppendOrigin::Client, TV_UNKNOWN)
        .unwrap();
    let first = analysis.appends.get(PRODUCER).unwrap();
    assert_eq!(first.started_transactions(), [16]);
    assert_eq!(first.updated().last_data_offset(), 21);
    assert!(state.is_empty());
    state.update_all(analysis.appends);
    assert_eq!(state.first_unstable_offset(), Some(16));
    assert_eq!(
        state.last_entry(2).unwrap().current_txn_first_offset(),
        Some(22)
    );
    // Of an unknown producer even a gap inside its first append is taken.
    let unknown = [batch(1, 0, 23), batch(1, 2, 24)].map(|batch| batch.by(3).header(false));
    let batches = unknown.iter().map(|header| (header, None));
    assert!(
        state
            .analyze(batches, AppendOrigin::Client, TV_UNKNOWN)
            .is_ok()
    );
    let gap = [
        transactional(0, 1, 23).by(2).header(false),
        transactional(0, 3, 24).by(2).header(false),
    ];
    let batches = gap.iter().map(|header| (header, None));
    refused(
        state.analyze(batches, AppendOrigin::Client, TV_UNKNOWN),
        ProducerRule::OutOfOrderSequence,
    );
}

#[test]
fn a_plain_batch_inside_a_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    transactional(0, 0, 0).ok(state);
    batch(0, 1, 1).refused(state, ProducerRule::InvalidTxnState);
    refused(
        batch(0, 1, 1).append(state, AppendOrigin::Replication),
        ProducerRule::InvalidTxnState,
    );
    abort(state, 0, 0, 1);
    batch(0, 0, 2).ok(state);
}

#[test]
fn markers_move_epochs() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    transactional(0, 0, 0).ok(state);
    abort(state, 1, 0, 1);
    let entry = state.last_entry(PRODUCER).unwrap();
    assert_eq!(
        (entry.producer_epoch(), entry.last_sequence()),
        (1, NO_SEQUENCE)
    );
    // A new epoch begins at 0; it is the marker's, so the sequences go on from none.
    batch(1, 2, 2).refused(state, ProducerRule::OutOfOrderSequence);
    batch(0, 0, 2).refused(state, ProducerRule::InvalidProducerEpoch);
    batch(1, 0, 2).ok(state);
    let old = transactional(0, -1, 3);
    refused(
        end(state, old, 0, AppendOrigin::Coordinator, 0),
        ProducerRule::InvalidProducerEpoch,
    );
    end(state, old, 0, AppendOrigin::Replication, TV_UNKNOWN).unwrap();
    assert_eq!(state.last_entry(PRODUCER).unwrap().producer_epoch(), 0);
}

#[test]
fn a_coordinator_that_lost_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    batch(0, 0, 0).ok(state);
    abort(state, 0, 1, 100);
    abort(state, 0, 1, 100);
    abort(state, 0, 2, 100);
    let marker = transactional(0, -1, 101);
    refused(
        end(state, marker, 1, AppendOrigin::Coordinator, 0),
        ProducerRule::TransactionCoordinatorFenced,
    );
    state.take_snapshot(true).unwrap();
    let reloaded = &mut open(folder.path());
    reloaded.truncate_and_reload(0, 101, 0).unwrap();
    refused(
        end(reloaded, marker, 1, AppendOrigin::Coordinator, 0),
        ProducerRule::TransactionCoordinatorFenced,
    );
    end(reloaded, marker, 1, AppendOrigin::Replication, TV_UNKNOWN).unwrap();
}

/// KIP-890: the coordinator raises the epoch before its marker; a repeated marker is let through (KAFKA-19999).
#[test]
fn markers_of_version_2() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    let marker = |epoch, offset| transactional(epoch, -1, offset);
    transactional(5, 0, 0).ok(state);
    let of_2 = |state: &mut _, batch| end(state, batch, 0, AppendOrigin::Coordinator, 2);
    refused(
        of_2(state, marker(5, 1)),
        ProducerRule::InvalidProducerEpoch,
    );
    refused(
        of_2(state, marker(4, 1)),
        ProducerRule::InvalidProducerEpoch,
    );
    assert!(of_2(state, marker(6, 1)).unwrap().is_some());
    assert!(of_2(state, marker(6, 2)).unwrap().is_none());
    refused(
        of_2(state, marker(5, 3)),
        ProducerRule::InvalidProducerEpoch,
    );
    // The highest epoch has no next.
    transactional(i16::MAX, 0, 3).by(2).ok(state);
    assert!(of_2(state, marker(i16::MAX, 4).by(2)).unwrap().is_some());
    // Up to version 1 the marker's epoch is the transaction's.
    transactional(6, 0, 5).ok(state);
    let legacy = end(state, marker(6, 6), 0, AppendOrigin::Coordinator, 1);
    assert!(legacy.unwrap().is_some());
    for origin in [AppendOrigin::Coordinator, AppendOrigin::Client] {
        let error = end(state, marker(6, 7), 0, origin, TV_UNKNOWN).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)));
    }
}

#[test]
fn a_marker_that_compaction_emptied() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    transactional(23, 15, 91342)
        .append(state, AppendOrigin::Replication)
        .unwrap();
    let header = transactional(23, -1, 99).records(0).header(true);
    let analysis = state
        .analyze([(&header, None)], AppendOrigin::Replication, TV_UNKNOWN)
        .unwrap();
    assert!(analysis.completed.is_empty());
    state.update_all(analysis.appends);
    let entry = state.last_entry(PRODUCER).unwrap();
    assert_eq!(entry.current_txn_first_offset(), Some(91342));
}

#[test]
fn unstable_until_the_high_watermark_passes_the_marker() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    assert_eq!(state.first_unstable_offset(), None);
    transactional(0, 0, 99).ok(state);
    transactional(0, 0, 105).by(2).ok(state);
    let stable = |state: &mut _, producer, offset| {
        let marker = transactional(0, -1, offset).by(producer);
        end(state, marker, 0, AppendOrigin::Coordinator, 0)
            .unwrap()
            .unwrap()
            .1
    };
    // The other transaction goes on, so the end of this one makes nothing stable beyond its start.
    assert_eq!(stable(state, 2, 109), 99);
    assert_eq!(state.first_unstable_offset(), Some(99));
    assert_eq!(stable(state, PRODUCER, 112), 113);
    assert_eq!(state.first_undecided_offset(), None);
    assert_eq!(state.first_unstable_offset(), Some(99));
    state.on_high_watermark_updated(112);
    assert_eq!(state.first_unstable_offset(), Some(99));
    state.on_high_watermark_updated(113);
    assert_eq!(state.first_unstable_offset(), None);
    let never_begun = CompletedTxn {
        producer_id: 1,
        first_offset: 7,
        last_offset: 8,
        is_aborted: false,
    };
    assert!(state.complete_txn(&never_begun).is_err());
}

#[test]
fn cutting_forgets_open_transactions() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    transactional(0, 0, 99).ok(state);
    state.take_snapshot(true).unwrap();
    abort(state, 0, 0, 105);
    state.on_high_watermark_updated(106);
    assert_eq!(state.first_unstable_offset(), None);
    state.take_snapshot(true).unwrap();
    state.truncate_and_reload(0, 100, 0).unwrap();
    assert_eq!(state.first_unstable_offset(), Some(99));
    transactional(0, 1, 100).ok(state);
    state.truncate_and_reload(0, 99, 0).unwrap();
    assert_eq!(state.first_unstable_offset(), None);
    assert_eq!(snapshots(folder.path()), Vec::<i64>::new());
}

#[test]
fn the_log_begins_later() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    transactional(0, 0, 9).ok(state);
    abort(state, 0, 0, 15);
    batch(0, 0, 16).by(2).ok(state);
    assert_eq!(state.first_unstable_offset(), Some(9));
    state.on_log_start_offset_incremented(15);
    assert_eq!(state.first_unstable_offset(), Some(9));
    state.on_log_start_offset_incremented(16);
    assert_eq!(state.first_unstable_offset(), None);
    // Producers stay, even where their batches are gone.
    assert!(state.last_entry(PRODUCER).is_some());
    state.on_log_start_offset_incremented(30);
    assert_eq!(state.map_end_offset(), 30);
    assert!(!state.take_snapshot(true).unwrap());
}

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
    // What is known of a batch is its last record: the sequence goes on, what it repeats is known.
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
fn open_transactions_outlast_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    transactional(0, 0, 0).ok(state);
    transactional(0, 1, 1).ok(state);
    batch(7, 0, 2).by(2).ok(state);
    state.take_snapshot(true).unwrap();
    let reloaded = &mut open(folder.path());
    reloaded.truncate_and_reload(0, 3, 99_999).unwrap();
    // The producer with an open transaction does not expire, the other one has.
    let known: Vec<_> = reloaded
        .active_producers()
        .map(ProducerEntry::producer_id)
        .collect();
    assert_eq!(known, [PRODUCER]);
    assert_eq!(reloaded.first_unstable_offset(), Some(0));
    abort(reloaded, 0, 0, 3);
    reloaded.take_snapshot(true).unwrap();
    let finished = &mut open(folder.path());
    finished.truncate_and_reload(0, 4, 0).unwrap();
    assert_eq!(finished.first_unstable_offset(), None);
    let entry = finished.last_entry(PRODUCER).unwrap();
    assert_eq!((entry.producer_epoch(), entry.last_data_offset()), (0, 1));
}

#[test]
fn producers_expire() {
    let folder = tempfile::tempdir().unwrap();
    let state = &mut open(folder.path());
    batch(5, 0, 0).at(1).ok(state);
    transactional(5, 0, 1).by(2).at(1).ok(state);
    state.remove_expired_producers(EXPIRATION_MS);
    assert!(state.last_entry(PRODUCER).is_some());
    state.remove_expired_producers(1 + EXPIRATION_MS);
    assert!(state.last_entry(PRODUCER).is_none() && state.last_entry(2).is_some());
    // It is unknown now, so it may begin anywhere.
    batch(5, 2, 2).at(EXPIRATION_MS).ok(state);
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
    assert_eq!(
        (
            state.oldest_snapshot_offset(),
            state.latest_snapshot_offset()
        ),
        (Some(2), Some(3))
    );
    state.delete_snapshots_before(3).unwrap();
    state.delete_snapshots_before(-3).unwrap();
    assert_eq!(snapshots(folder.path()), [3]);
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
    let files = FolderSnapshots::new(folder.path(), Disk::default());
    let error = ProducerStateManager::open(Arc::new(files), 1).unwrap_err();
    assert!(error.to_string().contains("foo.snapshot"), "{error}");
}

proptest! {
    /// A client's appends against a plain retelling of the rules, and a snapshot of whatever came of them.
    #[test]
    fn any_appends(
        steps in prop::collection::vec((0..3i64, 0..3i16, -1..4i32, 1..4i32), 1..60),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let state = &mut open(folder.path());
        let mut told: BTreeMap<i64, (i16, i32)> = BTreeMap::new();
        let mut offset = 0;
        for (producer, epoch, jump, records) in steps {
            let known = told.get(&producer).copied();
            // Mostly the next sequence, sometimes one off.
            let sequence = match known {
                Some((now, last)) if now == epoch => (last + 1 + (jump - 1).min(1)).max(0),
                _ => jump.max(0),
            };
            let allowed = match known {
                None => true,
                Some((now, last)) if now == epoch => sequence == last + 1,
                Some((now, _)) => epoch > now && sequence == 0,
            };
            let batch = batch(epoch, sequence, offset).by(producer).records(records);
            let header = batch.header(false);
            let repeated = state.last_entry(producer).is_some_and(|e| e.find_duplicate(&header).is_some());
            if repeated {
                prop_assert!(!allowed);
                continue;
            }
            prop_assert_eq!(batch.append(state, AppendOrigin::Client).is_ok(), allowed);
            if allowed {
                told.insert(producer, (epoch, header.last_sequence()));
                offset += i64::from(records);
            }
        }
        state.take_snapshot(false).unwrap();
        let reloaded = &mut open(folder.path());
        reloaded.truncate_and_reload(-1, offset, 0).unwrap();
        let both = [&*state, &*reloaded].map(|state| {
            state.active_producers().map(ProducerState::from).collect::<Vec<_>>()
        });
        prop_assert_eq!(&both[0], &both[1]);
        let last = both[0].iter().map(|p| (p.producer_id, (p.producer_epoch, p.last_sequence)));
        prop_assert_eq!(last.collect::<BTreeMap<_, _>>(), told);
    }

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
