//! Sequences and epochs of appends.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

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
    assert_eq!(entry.last_data_offset(), 11);
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
    let first = analysis.appends.get(&PRODUCER).unwrap();
    assert_eq!(first.started, [16]);
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
}
