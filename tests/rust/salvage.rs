//! Salvage keeps exactly the whole batches that can be in order, and the result loads as Kafka loads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use kafkalog::internal::error::{Error, ProducerRule};
use kafkalog::internal::format::entry::ProducerState;
use kafkalog::internal::io::disk::Disk;
use kafkalog::internal::load::{LoadRequest, Note, plan, plan_salvage};
use kafkalog::internal::log::config::LogConfig;
use kafkalog::internal::tools::recover::report::PartitionReport;
use kafkalog::internal::tools::recover::{OnLoss, RecoverOptions, recover};
use kafkalog::internal::write::{LeaderAppend, WritableLog, WriteOptions};

use crate::common::{Chance, give_to_producer, is_slow, one_record, seal};
use crate::log_cases::{self, Tree};
use crate::recovery::After;

const NOW_MS: i64 = 1_700_000_010_000;

fn config() -> LogConfig {
    let pairs = [
        ("internal.segment.bytes", "900"),
        ("segment.index.bytes", "480"),
        ("index.interval.bytes", "180"),
    ];
    LogConfig::from_pairs(pairs).unwrap()
}

fn request() -> LoadRequest {
    LoadRequest {
        clean: false,
        recovery_point: 0,
        log_start_offset: 0,
        now_ms: NOW_MS,
        producer_id_expiration_ms: i64::MAX,
    }
}

/// A whole batch: where it ends in its file, its offsets, its bytes.
#[derive(Clone, Debug, PartialEq)]
struct Whole {
    first: i64,
    last: i64,
    epoch: i32,
    bytes: Vec<u8>,
}

/// The batch that begins here, if it is whole, by the definition of magic 2 (the logs here have no other).
fn whole(data: &[u8]) -> Option<Whole> {
    let number = |at: usize, len: usize| {
        let bytes = data.get(at..at + len)?;
        Some(bytes.iter().fold(0u64, |n, b| n << 8 | u64::from(*b)))
    };
    let size = 12 + usize::try_from(number(8, 4)?).unwrap();
    let bytes = data.get(..size)?.to_vec();
    let mut sealed = bytes.clone();
    if !(61..1 << 30).contains(&size) || bytes[16] != 2 {
        return None;
    }
    seal(&mut sealed);
    let first = number(0, 8)?.cast_signed();
    let delta = u32::try_from(number(23, 4)?).unwrap().cast_signed();
    let epoch = u32::try_from(number(12, 4)?).unwrap().cast_signed();
    let last = first.checked_add(i64::from(delta))?;
    let makes_sense = first >= 0 && delta >= 0 && epoch >= -1 && last < i64::MAX;
    (sealed == bytes && makes_sense).then_some(Whole {
        first,
        last,
        epoch,
        bytes,
    })
}

/// Every whole batch of a file, found by trying every byte that is in none.
fn all_whole(data: &[u8]) -> Vec<Whole> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < data.len() {
        match whole(&data[at..]) {
            Some(batch) => {
                at += batch.bytes.len();
                found.push(batch);
            }
            None => at += 1,
        }
    }
    found
}

fn logs(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = crate::common::files(folder, ".log").into_iter();
    files
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect()
}

/// All whole batches but those that the name of a later file speaks against of which nothing else is left: what lies before
/// garbage can look like the base offset of what lies behind. An empty file between others speaks of nothing.
fn in_their_place(logs: &BTreeMap<String, Vec<u8>>) -> Vec<Whole> {
    let mut all: Vec<Whole> = Vec::new();
    let last = logs.values().rposition(|data| !all_whole(data).is_empty());
    for (at, (name, data)) in logs.iter().enumerate() {
        let found = all_whole(data);
        let is_between = data.is_empty() && last.is_some_and(|last| at < last);
        if found.is_empty() && !is_between {
            let base: i64 = name.strip_suffix(".log").unwrap().parse().unwrap();
            all.retain(|batch| batch.last < base);
        }
        all.extend(found);
    }
    all
}

/// The most batches that can be in order.
fn longest(batches: &[Whole]) -> usize {
    let mut best = vec![1; batches.len()];
    for here in 0..batches.len() {
        for before in 0..here {
            if batches[before].last < batches[here].first {
                best[here] = best[here].max(best[before] + 1);
            }
        }
    }
    best.into_iter().max().unwrap_or(0)
}

/// Loads as Kafka loads after a crash with nothing flushed, and changes nothing of the batches.
fn assert_loads(folder: &Path, context: &str) {
    let plan = plan(folder, &config(), request()).unwrap();
    let log = plan
        .outcome
        .as_ref()
        .unwrap_or_else(|e| panic!("{context}: {e}"));
    let last = logs(folder)
        .values()
        .flat_map(|data| all_whole(data))
        .last()
        .map(|batch| batch.last + 1);
    assert!(log.log_end_offset >= last.unwrap_or(0), "{context}");
    for note in &plan.notes {
        match note {
            Note::Recovered { truncated: 0, .. } => {}
            other => panic!("{context}: {other}"),
        }
    }
}

fn salvage(folder: &Path, context: &str) -> Vec<Note> {
    let mut plan = plan_salvage(folder, &config(), request()).unwrap();
    if let Err(error) = &plan.outcome {
        panic!("{context}: {error}");
    }
    plan.close().unwrap();
    plan.unlink_deleted();
    plan.apply(&Disk::default()).unwrap();
    plan.notes
}

/// Damages one file of a log, in one of the ways disks and crashes do.
fn damage(chance: &mut Chance, folder: &Path) -> String {
    let names: Vec<String> = logs(folder).into_keys().collect();
    let name = chance.pick(&names).clone();
    let path = folder.join(&name);
    let mut data = std::fs::read(&path).unwrap();
    let at = chance
        .below(data.len().max(1))
        .min(data.len().saturating_sub(1));
    let len = (chance.below(40) + 1).min(data.len() - at);
    let what = chance.below(8);
    match what {
        _ if data.is_empty() => {}
        0 | 1 => data[at] ^= 1 << chance.below(8),
        2 => data[at..at + len].fill(0),
        3 => (0..len).for_each(|n| data[at + n] = chance.byte()),
        4 => data.truncate(at),
        5 => drop(data.splice(at..at, (0..len).map(|_| 0))),
        6 => drop(data.drain(at..at + len)),
        _ => {
            // A batch a second time, somewhere else.
            let batches = all_whole(&data);
            if !batches.is_empty() {
                let copy = chance.pick(&batches).bytes.clone();
                drop(data.splice(at..at, copy));
            }
        }
    }
    std::fs::write(&path, data).unwrap();
    format!("{name}: {what} at {at}, {len} bytes")
}

fn base() -> std::path::PathBuf {
    log_cases::root().join("recover/_base/base")
}

#[test]
fn exactly_the_whole_batches_that_can_be_in_order() {
    let rounds = if is_slow() { 20_000 } else { 1_000 };
    for round in 0..rounds {
        let mut chance = Chance(round);
        let work = log_cases::work_folder();
        log_cases::copy(&base(), work.path());
        let folder = work.path().join("orders-0");
        let mut context = format!("round {round}");
        for _ in 0..=chance.below(3) {
            context += "; ";
            context += &damage(&mut chance, &folder);
        }
        let logs_before = logs(&folder);
        let before = in_their_place(&logs_before);
        salvage(&folder, &context);
        let after = logs(&folder);
        let kept: Vec<Whole> = after.values().flat_map(|data| all_whole(data)).collect();
        let bytes: usize = after.values().map(Vec::len).sum();
        assert_eq!(
            kept.iter().map(|batch| batch.bytes.len()).sum::<usize>(),
            bytes,
            "{context}"
        );
        assert!(kept.is_sorted_by(|a, b| a.last < b.first), "{context}");
        let mut rest = before.iter();
        assert!(
            kept.iter().all(|batch| rest.any(|other| other == batch)),
            "{context}"
        );
        // Leader epochs rise within a segment, too; which of two that differ is the wrong one decides `order`.
        let falls = logs_before.values().any(|data| {
            let rises = |a: &Whole, b: &Whole| a.epoch <= b.epoch;
            !all_whole(data).is_sorted_by(rises)
        });
        let most = longest(&before);
        let least = if falls { most - 3 } else { most };
        assert!(
            (least..=most).contains(&kept.len()),
            "{context}: {} of {most}",
            kept.len()
        );
        assert_loads(&folder, &context);
        let once: Tree = log_cases::tree(&folder);
        salvage(&folder, &context);
        assert_eq!(
            log_cases::compare(&once, &log_cases::tree(&folder)),
            [""; 0],
            "{context}"
        );
    }
}

/// The state of a log that is salvaged by renaming 23.log to what its first batch is, if the machine goes down before 23.log
/// is deleted: nothing of it is needed any more, and its name must cost no batch of the segment before.
#[test]
fn a_crash_behind_a_swap_costs_no_batch() {
    let work = log_cases::work_folder();
    log_cases::copy(&base(), work.path());
    let folder = work.path().join("orders-0");
    let before = logs(&folder);
    let name = |offset: i64| format!("{offset:020}.log");
    std::fs::copy(folder.join(name(24)), folder.join(name(23))).unwrap();
    let last = all_whole(&before[&name(17)]).pop().unwrap();
    assert_eq!(last.first, 23);
    salvage(&folder, "renamed");
    assert_eq!(logs(&folder), before);
}

/// No checksum covers the magic. Kafka walks over one beyond its own, but nobody reads it, nor what Kafka would copy of it:
/// the batch is left out, and the note says which bytes.
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

/// One segment of the log, to be damaged and salvaged.
fn alone(work: &Path) -> (std::path::PathBuf, std::path::PathBuf, Vec<Whole>) {
    log_cases::copy(&base(), work);
    let folder = work.join("orders-0");
    let path = folder.join("00000000000000000017.log");
    let batches = all_whole(&std::fs::read(&path).unwrap());
    assert!(batches.len() > 3);
    (folder, path, batches)
}

fn bytes_of(batches: &[Whole]) -> Vec<u8> {
    batches.iter().flat_map(|b| b.bytes.clone()).collect()
}

/// What is searched for a batch is looked at in windows: none is missed where two of them meet.
#[test]
fn a_batch_behind_long_damage() {
    for length in (65_400..65_700).step_by(3) {
        let work = log_cases::work_folder();
        let (folder, path, batches) = alone(work.path());
        let mut data = vec![0xee; length];
        data.extend(bytes_of(&batches));
        std::fs::write(&path, data).unwrap();
        salvage(&folder, "long damage");
        assert_eq!(
            all_whole(&std::fs::read(&path).unwrap()),
            batches,
            "{length}"
        );
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

/// Indexes name offsets up to 2^31 - 1 behind a segment's base: what lies further on is a segment of its own, also where
/// the damage between makes the pieces ones that loading cannot split.
#[test]
fn offsets_too_far_for_one_segment() {
    let (near, far) = (i64::from(i32::MAX), i64::from(i32::MAX) + 1);
    let work = log_cases::work_folder();
    let folder = work.path().join("orders-0");
    std::fs::create_dir_all(&folder).unwrap();
    let path = |base: i64| folder.join(format!("{base:020}.log"));
    let batches = [0, 7, near, far, far + near].map(|offset| one_record(offset, 0, NOW_MS));
    let damaged = batches.join(&[0xee; 30][..]);
    std::fs::write(path(0), damaged).unwrap();
    salvage(&folder, "far");
    let read = |base| std::fs::read(path(base)).unwrap();
    assert_eq!(logs(&folder).len(), 2);
    assert_eq!(read(0), batches[..3].concat());
    assert_eq!(read(far), batches[3..].concat());
    assert_loads(&folder, "far");
}

/// Kafka begins a split anew that has files on the way below others that came further (`LogLoader`), so these do first.
#[test]
fn a_crash_at_any_step_of_a_split_costs_no_batch() {
    let far = i64::from(i32::MAX) + 1;
    let batches = [0, 7, far, far + 3, 2 * far].map(|offset| one_record(offset, 0, NOW_MS));
    let mut steps = 0;
    for allowed in 0.. {
        let work = log_cases::work_folder();
        let folder = work.path().join("orders-0");
        std::fs::create_dir_all(&folder).unwrap();
        let damaged = batches.join(&[0xee; 30][..]);
        std::fs::write(folder.join(format!("{:020}.log", 0)), damaged).unwrap();
        let salvage_with = |disk| {
            let options = RecoverOptions {
                on_loss: OnLoss::Salvage,
                clean: Some(false),
                disk,
                ..RecoverOptions::at(NOW_MS)
            };
            recover(&folder, &options)
        };
        let is_over = salvage_with(Disk::with_faults(Arc::new(After::new(allowed)))).is_ok();
        salvage_with(Disk::default()).unwrap();
        let kept: Vec<Vec<u8>> = logs(&folder).into_values().collect();
        let expected = [&batches[..2], &batches[2..4], &batches[4..]].map(<[_]>::concat);
        assert_eq!(kept, expected, "{allowed}");
        assert_loads(&folder, "split");
        steps = allowed;
        if is_over {
            break;
        }
    }
    assert!(steps > 20, "{steps}");
}

/// A swap that is damaged goes only where what it was made from is still there.
#[test]
fn a_damaged_swap_is_all_there_is() {
    let work = log_cases::work_folder();
    let (folder, path, mut batches) = alone(work.path());
    let mut data = bytes_of(&batches);
    let end = data.len() - 1;
    data[end] ^= 1;
    std::fs::write(path.with_extension("log.swap"), data).unwrap();
    std::fs::remove_file(&path).unwrap();
    salvage(&folder, "swap");
    batches.pop();
    assert_eq!(all_whole(&std::fs::read(&path).unwrap()), batches);
}

/// Of two files that claim the same offsets the one counts that Kafka reads, the other where that one has no more: all of
/// its batches, some of them, none.
#[test]
fn a_second_file_of_another_spelling() {
    for left in [usize::MAX, 2, 0] {
        let work = log_cases::work_folder();
        let (folder, path, mut batches) = alone(work.path());
        let left = left.min(batches.len());
        let mut other = batches.clone();
        for batch in &mut other {
            let end = batch.bytes.len() - 2;
            batch.bytes[end] ^= 1;
            seal(&mut batch.bytes);
        }
        std::fs::write(folder.join("17.log"), bytes_of(&other)).unwrap();
        batches.truncate(left);
        std::fs::write(&path, bytes_of(&batches)).unwrap();
        salvage(&folder, "two names");
        batches.extend_from_slice(&other[left..]);
        let after: Vec<u8> = logs(&folder).into_values().flatten().collect();
        let kept: Vec<_> = all_whole(&after);
        let kept: Vec<_> = kept
            .into_iter()
            .filter(|b| (17..24).contains(&b.first))
            .collect();
        assert_eq!(kept, batches, "{left}");
        assert_loads(&folder, "two names");
        assert!(!folder.join("17.log").exists());
    }
}

/// A snapshot behind a batch that is lost tells of it: a transaction whose beginning is gone would be open for good.
#[test]
fn snapshots_tell_of_no_batch_that_is_lost() {
    let work = log_cases::work_folder();
    let folder = work.path().join("orders-0");
    let options = WriteOptions::new(config());
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
        let options = RecoverOptions {
            on_loss,
            ..RecoverOptions::at(NOW_MS)
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

#[test]
fn every_case_that_kafka_refuses_or_empties_is_kept() {
    for case in log_cases::cases("recover") {
        let work = log_cases::work_folder();
        case.write_before(work.path());
        let folder = work.path().join(case.partition_folder());
        std::fs::create_dir_all(&folder).unwrap();
        let options = RecoverOptions {
            clean: case.config["clean"].as_bool(),
            recovery_point: case.config["recovery_point"].as_i64(),
            log_start_offset: case.config["log_start_offset"].as_i64(),
            config: log_cases::config(&case),
            on_loss: OnLoss::Salvage,
            ..RecoverOptions::at(case.now_ms())
        };
        let report =
            recover(work.path(), &options).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let kept: Vec<Whole> = logs(&folder)
            .values()
            .flat_map(|data| all_whole(data))
            .collect();
        let kafka = case.folder.join("after").join(case.partition_folder());
        let kafka: usize = logs(&kafka)
            .values()
            .map(|data| all_whole(data).len())
            .sum();
        assert!(
            kept.len() >= kafka,
            "{}: {} kept, Kafka {kafka}",
            case.name,
            kept.len()
        );
        assert!(kept.is_sorted_by(|a, b| a.last < b.first), "{}", case.name);
        let again = RecoverOptions {
            clean: Some(false),
            recovery_point: Some(0),
            on_loss: OnLoss::Refuse,
            dry_run: true,
            ..options
        };
        let again = recover(work.path(), &again).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let cut: u64 = again
            .partitions
            .iter()
            .map(PartitionReport::bytes_cut)
            .sum();
        assert_eq!(cut, 0, "{}", case.name);
        assert_eq!(
            again.partitions[0].log_end_offset, report.partitions[0].log_end_offset,
            "{}",
            case.name
        );
    }
}
