//! Whole batches that salvage leaves out, as Kafka loads or reads no log with them, and producers of a lost batch.

use kafkalog::internal::error::{Error, ProducerRule};
use kafkalog::internal::format::entry::ProducerState;
use kafkalog::internal::load::{Note, OnLoss, plan};
use kafkalog::internal::tools::recover::{RecoverySettings, recover};
use kafkalog::internal::write::{LeaderAppend, WritableLog, WriteOptions};

use super::{NOW_MS, alone, assert_loads, bytes_of, request, salvage};
use crate::common::{give_to_producer, one_record, seal};
use crate::log_cases::{self, logs};
use crate::recovery::small_segments;

/// No checksum covers the magic. Kafka walks over one beyond its own, but nobody reads it, nor what Kafka would copy of
/// it: the batch is left out, and the note says which bytes.
#[test]
fn a_magic_beyond_ours_is_left_out() {
    for magic in [3, 0x57, 0xff] {
        let work = log_cases::work_folder();
        let (folder, path, mut batches) = alone(work.path());
        batches[1].bytes[16] = magic;
        let mut data = bytes_of(&batches);
        data.remove(40);
        std::fs::write(&path, data).unwrap();
        let [first, second] = [0, 1].map(|n| batches[n].bytes.len());
        let notes = salvage(&folder, "magic");
        assert_eq!(std::fs::read(&path).unwrap(), bytes_of(&batches[2..]));
        let name = path.file_name().unwrap().to_string_lossy();
        let expected = format!("{name}: bytes 0 to {} left out: ", first - 1 + second);
        assert!(
            notes.iter().any(|n| n.to_string().starts_with(&expected)),
            "{notes:?}"
        );
        assert_loads(&folder, "magic");
    }
}

/// A faulty writer puts a checksum over the beginning of the next batch. Kafka takes the bytes under it for one batch,
/// whatever its magic above 1, and cuts what follows; so what begins in it is not searched for another batch.
#[test]
fn a_batch_that_begins_under_anothers_checksum_goes_with_it() {
    for magic in [2, 8] {
        let work = log_cases::work_folder();
        let (folder, path, batches) = alone(work.path());
        let overlap = 39;
        let [before, size, next] = [0, 1, 2].map(|n| batches[n].bytes.len());
        let mut data = bytes_of(&batches);
        data.drain(before + size - overlap..before + size);
        data[before + 16] = magic;
        seal(&mut data[before..before + size]);
        std::fs::write(&path, &data).unwrap();
        let plan = plan(&folder, &small_segments(), request(), OnLoss::AsKafka).unwrap();
        let cut = (data.len() - before - size) as u64;
        let is_cut = |note: &Note| matches!(note, Note::Recovered { batches: 2, truncated, .. } if *truncated == cut);
        assert!(plan.notes.iter().any(is_cut), "{magic}: {:?}", plan.notes);
        let notes = salvage(&folder, "overlap");
        let mut kept = batches.clone();
        kept.drain(1..3);
        assert_eq!(std::fs::read(&path).unwrap(), bytes_of(&kept), "{magic}");
        let (begin, end) = (before as u64, (before + size - overlap + next) as u64);
        let named = |note: &Note| matches!(note, Note::LeftOut { lost, .. } if (lost.position, lost.end) == (begin, end));
        assert!(notes.iter().any(named), "{magic}: {notes:?}");
        assert_loads(&folder, "overlap");
    }
}

/// A compressed block may hold an uncompressed message, under a right checksum, with any bytes before it for its
/// offset. Where its wrapper is damaged it is no batch: no segment reaches that far, and no batch follows.
#[test]
fn a_message_inside_a_damaged_wrapper_is_left_out() {
    let offset = 0x1f1e_00f0_0c00_000c_i64.to_be_bytes();
    let (size, crc, value) = (20i32.to_be_bytes(), [0; 4], [0, 0, 0, 6, 9, 8, 7, 6, 5, 4]);
    let head = [&offset[..], &size, &crc, &[0, 0], &[0xff; 4]].concat();
    let mut message = [head, value.to_vec()].concat();
    seal(&mut message);
    let damage = [&[0xee; 40][..], &message, &[0xee; 9]].concat();
    let batches = [0, 1, 2].map(|offset| one_record(offset, 0, NOW_MS));
    for at in 0..=batches.len() {
        let work = log_cases::work_folder();
        let folder = work.path().join("orders-0");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("00000000000000000000.log");
        let mut parts = batches.to_vec();
        parts.insert(at, damage.clone());
        std::fs::write(&path, parts.concat()).unwrap();
        let notes = salvage(&folder, "a message");
        assert_eq!(logs(&folder).len(), 1, "{at}");
        assert_eq!(std::fs::read(&path).unwrap(), batches.concat(), "{at}");
        let begin: usize = batches[..at].iter().map(Vec::len).sum();
        let (begin, end) = (begin as u64, (begin + damage.len()) as u64);
        let named = |note: &Note| matches!(note, Note::LeftOut { lost, .. } if (lost.position, lost.end) == (begin, end));
        assert!(notes.iter().any(named), "{at}: {notes:?}");
        assert_loads(&folder, "a message");
    }
}

/// Under a right checksum, records that cannot be decoded: consumers fail at such a batch, and so does `scan`.
#[test]
fn whole_batches_that_cannot_be_decoded() {
    for what in ["codec", "records", "count"] {
        let work = log_cases::work_folder();
        let (folder, path, mut batches) = alone(work.path());
        let bad = &mut batches[1].bytes;
        match what {
            "codec" => bad[22] = bad[22] & !7 | 4,
            "records" => bad[61] = 0x7e,
            _ => bad[60] = bad[60].wrapping_add(1),
        }
        seal(bad);
        std::fs::write(&path, bytes_of(&batches)).unwrap();
        let (begin, end) = (batches[0].bytes.len(), bytes_of(&batches[..2]).len());
        let notes = salvage(&folder, what);
        batches.remove(1);
        assert_eq!(std::fs::read(&path).unwrap(), bytes_of(&batches), "{what}");
        let named = |note: &Note| {
            matches!(note, Note::LeftOut { lost, .. }
                if (lost.position, lost.end) == (begin as u64, end as u64))
        };
        assert!(notes.iter().any(named), "{what}: {notes:?}");
        assert_loads(&folder, what);
    }
}

/// A last offset that is too high, under a right checksum, costs its own batch, and none of those whose offsets it
/// claims.
#[test]
fn a_last_offset_that_is_wrong_costs_its_batch_alone() {
    for (at, byte) in [(1, 25), (0, 25), (1, 24), (2, 26)] {
        let work = log_cases::work_folder();
        let (folder, path, mut batches) = alone(work.path());
        let context = format!("byte {byte} of batch {at}");
        batches[at].bytes[byte] = 0x5f;
        seal(&mut batches[at].bytes);
        std::fs::write(&path, bytes_of(&batches)).unwrap();
        salvage(&folder, &context);
        batches.remove(at);
        assert_eq!(
            std::fs::read(&path).unwrap(),
            bytes_of(&batches),
            "{context}"
        );
        assert_loads(&folder, &context);
    }
}

/// Batches whose checksum is right, and which Kafka loads no log with, or cannot copy: a marker that cannot be read, a
/// leader epoch that none can be.
#[test]
fn whole_batches_that_make_no_sense() {
    for what in ["marker", "epoch"] {
        let work = log_cases::work_folder();
        let (folder, path, mut batches) = alone(work.path());
        let bad = &mut batches[1].bytes;
        if what == "marker" {
            bad[22] |= 0x20;
            give_to_producer(bad, 0);
        } else {
            bad[12] = 0x80;
        }
        std::fs::write(&path, bytes_of(&batches)).unwrap();
        salvage(&folder, what);
        batches.remove(1);
        assert_eq!(std::fs::read(&path).unwrap(), bytes_of(&batches), "{what}");
        assert_loads(&folder, what);
    }
}

/// A snapshot after a batch that is lost tells of it: a transaction whose beginning is gone would be open for good.
#[test]
fn snapshots_tell_of_no_batch_that_is_lost() {
    let work = log_cases::work_folder();
    let folder = work.path().join("orders-0");
    let options = WriteOptions::new(small_segments());
    let mut log = WritableLog::open(&folder, options, request()).unwrap();
    let how = LeaderAppend::default();
    let mut begin = produced(0, 0, true);
    log.append_as_leader(&mut begin, &how, NOW_MS).unwrap();
    log.roll(None, NOW_MS).unwrap();
    let mut plain = one_record(0, 0, NOW_MS);
    log.append_as_leader(&mut plain, &how, NOW_MS).unwrap();
    log.close(NOW_MS).unwrap();
    let known = || {
        let files = crate::common::files(&folder, ".snapshot").into_iter();
        let each = files.map(|path| {
            let states = ProducerState::parse_snapshot(&std::fs::read(path).unwrap()).unwrap();
            states.len()
        });
        each.collect::<Vec<_>>()
    };
    assert_eq!(known(), [1, 1]);
    let path = folder.join("00000000000000000000.log");
    let mut data = std::fs::read(&path).unwrap();
    data[60] ^= 1;
    std::fs::write(&path, data).unwrap();
    salvage(&folder, "snapshots");
    let known = known();
    assert!(
        !known.is_empty() && known.iter().all(|&n| n == 0),
        "{known:?}"
    );
}

/// A batch of one record by producer 7 in its epoch 0.
fn produced(offset: i64, sequence: i32, is_transactional: bool) -> Vec<u8> {
    let attributes = if is_transactional { 0x10 } else { 0 };
    let mut data = one_record(offset, attributes, NOW_MS);
    give_to_producer(&mut data, sequence);
    data
}

/// Every batch is whole and in order, yet Kafka throws `InvalidTxnStateException` and loads no such log.
#[test]
fn a_plain_batch_in_its_producers_transaction_is_left_out() {
    let work = log_cases::work_folder();
    let folder = work.path().join("orders-0");
    std::fs::create_dir_all(&folder).unwrap();
    let begin = produced(0, 0, true);
    let mut data = begin.clone();
    data.extend(produced(1, 1, false));
    data.extend(one_record(2, 0, NOW_MS));
    let path = folder.join("00000000000000000000.log");
    std::fs::write(&path, &data).unwrap();
    let before = log_cases::tree(work.path());
    for on_loss in [OnLoss::Refuse, OnLoss::AsKafka] {
        let options = RecoverySettings {
            on_loss,
            ..RecoverySettings::at(NOW_MS)
        };
        let error = recover(work.path(), &options).unwrap_err();
        assert!(
            matches!(&error, Error::ProducerRefused(fault) if fault.rule == ProducerRule::InvalidTxnState),
            "{on_loss:?}: {error}"
        );
        let text = error.to_string();
        assert!(text.contains("; salvage keeps every batch"), "{text}");
        let after = log_cases::tree(work.path());
        assert_eq!(log_cases::compare(&before, &after), [""; 0], "{on_loss:?}");
    }
    salvage(&folder, "a plain batch");
    assert_loads(&folder, "a plain batch");
    let mut kept = begin;
    kept.extend(one_record(2, 0, NOW_MS));
    assert_eq!(std::fs::read(&path).unwrap(), kept);
}
