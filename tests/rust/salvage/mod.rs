//! Salvage keeps exactly the whole batches that can be in order, and the result loads as Kafka loads.
//!
//! | module | what |
//! |---|---|
//! | `files` | batches in swaps, beyond a segment's reach, in two files at once |
//! | `left_out` | whole batches that Kafka loads or reads no log with |

use std::collections::BTreeMap;
use std::path::Path;

use kafkalog::internal::io::disk::Disk;
use kafkalog::internal::load::{LoadRequest, Note, OnLoss, plan};
use kafkalog::internal::tools::recover::{RecoverySettings, recover};

use crate::common::{Chance, pick, seal};
use crate::log_cases::{self, Tree, logs};
use crate::recovery::{self, small_segments};

mod files;
mod left_out;

const NOW_MS: i64 = 1_700_000_010_000;

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

/// The whole batches of a file whose offsets can be believed: past damage, one too far for a segment of this base, and for
/// one that begins with the batch before, only if another one follows. What is left of a batch's first bytes is no offset.
fn believed(data: &[u8], base: i64) -> Vec<Whole> {
    let (mut found, mut at, mut is_damaged) = (Vec::<Whole>::new(), 0, false);
    while at < data.len() {
        let before = found.last().map_or(base, |before| before.last.max(base));
        let reach = before.saturating_add(i64::from(i32::MAX));
        let batch = whole(&data[at..]).filter(|batch| {
            let next = whole(&data[at + batch.bytes.len()..]);
            let is_followed = next.is_some_and(|next| next.first > batch.last);
            !is_damaged || is_followed || batch.last <= reach
        });
        is_damaged = batch.is_none();
        at += batch.as_ref().map_or(1, |batch| batch.bytes.len());
        found.extend(batch);
    }
    found
}

/// All believed batches but those that the name of a later file speaks against of which nothing else is left: what lies before
/// garbage can look like the base offset of what follows it. An empty file between others speaks of nothing.
fn in_their_place(logs: &BTreeMap<String, Vec<u8>>) -> Vec<Whole> {
    let mut all: Vec<Whole> = Vec::new();
    let files: Vec<_> = logs
        .iter()
        .map(|(name, data)| {
            let base: i64 = name.strip_suffix(".log").unwrap().parse().unwrap();
            (base, data, believed(data, base))
        })
        .collect();
    let last = files.iter().rposition(|(_, _, found)| !found.is_empty());
    for (at, (base, data, found)) in files.into_iter().enumerate() {
        let is_between = data.is_empty() && last.is_some_and(|last| at < last);
        if found.is_empty() && !is_between {
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
    let plan = plan(folder, &small_segments(), request(), OnLoss::AsKafka).unwrap();
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
    let mut plan = plan(folder, &small_segments(), request(), OnLoss::Salvage).unwrap();
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
    let rounds = pick(250, 1_000, 20_000);
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

/// The search for a batch goes window by window: none is missed where two of them meet.
#[test]
fn a_batch_after_long_damage() {
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

#[test]
fn every_case_that_kafka_refuses_or_empties_is_kept() {
    for case in log_cases::cases("recover") {
        let work = log_cases::work_folder();
        case.write_before(work.path());
        let folder = work.path().join(case.partition_folder());
        std::fs::create_dir_all(&folder).unwrap();
        let options = RecoverySettings {
            on_loss: OnLoss::Salvage,
            ..recovery::options(&case, Disk::default())
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
        let again = RecoverySettings {
            clean: Some(false),
            recovery_point: Some(0),
            on_loss: OnLoss::Refuse,
            dry_run: true,
            ..options
        };
        let again = recover(work.path(), &again).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let cut: u64 = again.partitions.iter().map(|each| each.bytes_cut).sum();
        assert_eq!(cut, 0, "{}", case.name);
        assert_eq!(
            again.partitions[0].log_end_offset, report.partitions[0].log_end_offset,
            "{}",
            case.name
        );
    }
}
