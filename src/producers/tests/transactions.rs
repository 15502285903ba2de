//! Transactions, their markers, and up to where all are decided.

use super::*;
use crate::types::NO_SEQUENCE;

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
    // A new epoch begins at 0; it is the marker's, so the sequences continue from none.
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
    // The other transaction continues, so the end of this one makes nothing stable beyond its start.
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
