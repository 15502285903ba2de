//! Results of Kafka's `read_committed` consumer for every partition of the corpus, and the last stable offset: as the
//! files are, by index alone, in parts that begin and end anywhere, and with the files beside the log missing or
//! damaged.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use arrow_array::{Array, Int64Array};
use kafkalog::internal::arrow::columns::ColumnOptions;
use kafkalog::internal::arrow::reader::RangeReader;
use kafkalog::internal::arrow::schema::Column;
use kafkalog::internal::error::Error;
use kafkalog::internal::format::file_name::{FileKind, FileName};
use kafkalog::internal::log::partition::PartitionLog;
use kafkalog::internal::scan::plan::{Ending, IsolationLevel, PlanOptions, Starting, plan_scan};
use kafkalog::internal::scan::range::PartitionRange;
use kafkalog::internal::scan::transactions::LogTransactions;
use kafkalog::internal::segment::filter::AbortedRange;
use kafkalog::internal::segment::reader::ReadOptions;

use crate::common::Chance;
use crate::corpus::{Case, Copy, EARLY, cases, lines};

/// Kafka's answer.
struct Committed {
    log_start_offset: i64,
    last_stable_offset: i64,
    log_end_offset: i64,
    aborted: usize,
    offsets: Vec<i64>,
}

fn committed(case: &Case) -> Option<Committed> {
    let path = case.expected.join("committed.jsonl.gz");
    let all = if path.exists() {
        lines(&path)
    } else {
        return None;
    };
    let number = |name: &str| all[0][name].as_i64().unwrap();
    let records = all.iter().filter(|line| line["type"] == "record");
    Some(Committed {
        log_start_offset: number("log_start_offset"),
        last_stable_offset: number("last_stable_offset"),
        log_end_offset: number("log_end_offset"),
        aborted: usize::try_from(number("aborted_txns")).unwrap(),
        offsets: records
            .map(|line| line["offset"].as_i64().unwrap())
            .collect(),
    })
}

fn options(start: i64, end: i64) -> PlanOptions {
    PlanOptions {
        starting_offsets: Starting::Offset(start),
        ending_offsets: Ending::Offset(end),
        isolation_level: IsolationLevel::ReadCommitted,
        ..PlanOptions::default()
    }
}

fn read(ranges: Vec<PartitionRange>) -> Vec<i64> {
    let columns = ColumnOptions {
        columns: vec![Column::Offset],
        ..ColumnOptions::default()
    };
    let mut reader = RangeReader::try_new(ranges, ReadOptions::default(), columns).unwrap();
    let mut offsets = Vec::new();
    while let Some(batch) = reader.next_batch().unwrap() {
        let column = batch.column(0).as_any().downcast_ref::<Int64Array>();
        offsets.extend(column.unwrap().values());
    }
    offsets
}

/// Every segment of a plan by itself: whatever a split begins with, it knows what became of it.
fn read_apart(ranges: &[PartitionRange]) -> Vec<i64> {
    let apart = ranges.iter().flat_map(|range| {
        range.segments.iter().map(|segment| PartitionRange {
            segments: vec![segment.clone()],
            ..range.clone()
        })
    });
    apart.flat_map(|range| read(vec![range])).collect()
}

#[test]
fn rows_are_those_of_kafkas_consumer() {
    let (mut aborted, mut undecided) = (0, 0);
    for case in cases() {
        let Some(kafkas) = committed(&case) else {
            continue;
        };
        let place = case.folder.display();
        let log = PartitionLog::open(&case.folder).unwrap();
        assert_eq!(
            log.last_stable_offset().unwrap(),
            kafkas.last_stable_offset,
            "{place}"
        );
        let latest = PlanOptions {
            isolation_level: IsolationLevel::ReadCommitted,
            ..PlanOptions::default()
        };
        let ranges = plan_scan(std::slice::from_ref(&case.folder), &latest).unwrap();
        assert_eq!(read(ranges.clone()), kafkas.offsets, "{place}");
        assert_eq!(read_apart(&ranges), kafkas.offsets, "{place}, apart");
        aborted += kafkas.aborted;
        undecided += usize::from(kafkas.last_stable_offset < kafkas.log_end_offset);
    }
    assert!(aborted > 50 && undecided > 0, "{aborted} {undecided}");
}

/// The part of Kafka's answer that lies in `start..end`, for starts and ends at every kind of place.
fn parts(case: &Case, folder: &Path, kafkas: &Committed, chance: &mut Chance, what: &str) {
    let bases: Vec<i64> = PartitionLog::open(folder)
        .unwrap()
        .segments()
        .iter()
        .map(|s| s.base_offset)
        .collect();
    let span = usize::try_from(kafkas.log_end_offset - kafkas.log_start_offset + 2).unwrap();
    for _ in 0..6 {
        let mut anywhere = || match chance.below(3) {
            0 => *chance.pick(&bases),
            _ => kafkas.log_start_offset + i64::try_from(chance.below(span)).unwrap(),
        };
        let (start, end) = (anywhere(), anywhere());
        let ranges = plan_scan(&[folder.to_path_buf()], &options(start, end)).unwrap();
        let expected: Vec<i64> = kafkas
            .offsets
            .iter()
            .copied()
            .filter(|offset| (start..end).contains(offset))
            .collect();
        let place = case.folder.display();
        assert_eq!(
            read_apart(&ranges),
            expected,
            "{place} {start}..{end} {what}"
        );
    }
}

#[test]
fn parts_know_the_fate_of_what_they_begin_in() {
    let mut chance = Chance(7);
    for case in cases() {
        if let Some(kafkas) = committed(&case) {
            parts(&case, &case.folder, &kafkas, &mut chance, "as it lies");
        }
    }
}

/// An index is a hint: without it, cut or garbled, the rows stay the same.
#[test]
fn damage_beside_the_log_changes_no_row() {
    let mut chance = Chance(11);
    let mut damaged = 0;
    for case in cases() {
        let Some(kafkas) = committed(&case).filter(|kafkas| kafkas.aborted > 0) else {
            continue;
        };
        for round in 0..6 {
            let copy = Copy::of(&case.folder, EARLY);
            let mut indexes = copy.files(FileKind::TxnIndex);
            match round {
                0 => indexes
                    .iter()
                    .for_each(|path| fs::remove_file(path).unwrap()),
                1 => indexes.extend(copy.files(FileKind::Snapshot)),
                _ => {}
            }
            for path in indexes.iter().filter(|path| path.exists()) {
                let mut bytes = fs::read(path).unwrap();
                let is_snapshot = path.extension().is_some_and(|e| e == "snapshot");
                match round {
                    1 if is_snapshot => fs::remove_file(path).unwrap(),
                    2 => bytes.truncate(bytes.len().saturating_sub(34)),
                    3 => bytes.truncate(bytes.len() / 2),
                    4 => bytes.clear(),
                    _ if bytes.is_empty() => {}
                    _ => {
                        let at = chance.below(bytes.len());
                        bytes[at] ^= 1 << chance.below(8);
                    }
                }
                if path.exists() {
                    fs::write(path, bytes).unwrap();
                }
                damaged += 1;
            }
            if round == 1 && kafkas.log_start_offset > 0 {
                // What was open below the log start only the snapshots knew.
                continue;
            }
            let what = format!("round {round}");
            parts(&case, &copy.folder, &kafkas, &mut chance, &what);
        }
    }
    assert!(damaged > 50, "{damaged}");
}

/// Transactions by the definition, from a list of all records: producer, first offset, marker or none, aborted or not.
fn transactions(case: &Case) -> Vec<(i64, i64, Option<i64>, bool)> {
    let mut found: Vec<(i64, i64, Option<i64>, bool)> = Vec::new();
    for line in lines(&case.expected.join("records.jsonl.gz")) {
        let number = |name: &str| line[name].as_i64().unwrap();
        let (producer, offset) = (number("producer_id"), number("offset"));
        let open = found.iter_mut().find(|t| t.0 == producer && t.2.is_none());
        match line["control_type"].as_str() {
            Some(kind @ ("ABORT" | "COMMIT")) => {
                if let Some(open) = open {
                    (open.2, open.3) = (Some(offset), kind == "ABORT");
                }
            }
            None if line["is_transactional"] == true && open.is_none() => {
                found.push((producer, number("batch_base_offset"), None, false));
            }
            _ => {}
        }
    }
    found
}

/// Writes an offset checkpoint of the log dir around `folder`.
fn checkpoint(folder: &Path, file: &str, offset: i64) {
    let name = folder.file_name().unwrap().to_str().unwrap();
    let (topic, partition) = name.rsplit_once('-').unwrap();
    let text = format!("0\n1\n{topic} {partition} {offset}\n");
    fs::write(folder.parent().unwrap().join(file), text).unwrap();
}

/// A decision above the high watermark does not count for a reader who ends there.
#[test]
fn the_high_watermark_bounds_what_is_stable() {
    let mut chance = Chance(5);
    let mut unstable = 0;
    for case in cases() {
        let Some(kafkas) = committed(&case).filter(|k| k.aborted > 0 && k.log_start_offset == 0)
        else {
            continue;
        };
        let records = lines(&case.expected.join("records.jsonl.gz"));
        let count = records
            .iter()
            .filter(|line| line.get("offset").is_some())
            .count();
        if i64::try_from(count).unwrap() < kafkas.log_end_offset {
            // Compacted: what was open once, only a snapshot may still know.
            continue;
        }
        let transactions = transactions(&case);
        let copy = Copy::of(&case.folder, EARLY);
        let all =
            read(plan_scan(std::slice::from_ref(&copy.folder), &PlanOptions::default()).unwrap());
        let markers: Vec<i64> = transactions.iter().filter_map(|t| t.2).collect();
        for _ in 0..12 {
            let high_watermark =
                chance.pick(&markers) + i64::try_from(chance.below(3)).unwrap() - 1;
            checkpoint(
                &copy.folder,
                "replication-offset-checkpoint",
                high_watermark,
            );
            let undecided = transactions
                .iter()
                .filter(|t| t.2.is_none_or(|marker| marker >= high_watermark));
            let stable = undecided
                .map(|t| t.1)
                .chain([high_watermark])
                .min()
                .unwrap();
            let options = PlanOptions {
                ending_offsets: Ending::HighWatermark,
                isolation_level: IsolationLevel::ReadCommitted,
                ..PlanOptions::default()
            };
            let ranges = plan_scan(std::slice::from_ref(&copy.folder), &options).unwrap();
            let place = case.folder.display();
            assert_eq!(
                ranges[0].end_offset,
                Some(stable),
                "{place} {high_watermark}"
            );
            let below: Vec<i64> = all
                .iter()
                .copied()
                .filter(|&offset| offset < stable)
                .filter(|offset| kafkas.offsets.binary_search(offset).is_ok())
                .collect();
            assert_eq!(read(ranges), below, "{place} {high_watermark}");
            unstable += usize::from(stable < high_watermark);
        }
    }
    assert!(unstable > 20, "{unstable}");
}

/// Offsets below the log start keep nothing unstable there, and a starting broker has forgotten transactions that began
/// below it, unless a snapshot above it remembers. Where the log starts inside of an open transaction, the last stable
/// offset is the base of the batch that holds the log start: Kafka's `LoadedLog` gave 718 for a start of 719 or 720
/// here, and 726 for 733.
#[test]
fn a_transaction_cut_by_the_log_start_is_unstable_from_its_batch_on() {
    let case = cases()
        .into_iter()
        .find(|c| c.folder.ends_with("txn-open-0"))
        .unwrap();
    let open: Vec<_> = transactions(&case)
        .into_iter()
        .filter(|t| t.2.is_none())
        .collect();
    let (producer, first) = open.iter().map(|t| (t.0, t.1)).min_by_key(|t| t.1).unwrap();
    let start = first + 12;
    let copy = Copy::of(&case.folder, EARLY);
    checkpoint(&copy.folder, "log-start-offset-checkpoint", start);
    let stable = || {
        PartitionLog::open(&copy.folder)
            .unwrap()
            .last_stable_offset()
            .unwrap()
    };
    let records = lines(&case.expected.join("records.jsonl.gz"));
    let holding = records.iter().find(|line| line["offset"] == start);
    let base = holding.unwrap()["batch_base_offset"].as_i64().unwrap();
    assert!(base < start, "{base} of {start}");
    assert_eq!(stable(), base);
    let committed = PlanOptions {
        isolation_level: IsolationLevel::ReadCommitted,
        ..PlanOptions::default()
    };
    let ranges = plan_scan(std::slice::from_ref(&copy.folder), &committed).unwrap();
    let columns = ColumnOptions::default();
    let mut reader = RangeReader::try_new(ranges, ReadOptions::default(), columns).unwrap();
    assert!(reader.next_batch().unwrap().is_none(), "nothing is decided");
    for path in copy.files(FileKind::Snapshot) {
        let name = path.file_stem().unwrap().to_str().unwrap();
        if name.parse::<i64>().unwrap() > start {
            fs::remove_file(path).unwrap();
        }
    }
    let again = records.iter().find(|line| {
        let number = |name: &str| line[name].as_i64().unwrap();
        number("producer_id") == producer && number("offset") >= start
    });
    let again = again.unwrap()["batch_base_offset"].as_i64().unwrap();
    assert!(again > start);
    assert_eq!(stable(), again);
}

/// Damage in front of an open transaction is not in the way of knowing where that begins.
#[test]
fn damage_below_the_last_stable_offset_does_not_hide_it() {
    let case = cases()
        .into_iter()
        .find(|c| c.folder.ends_with("txn-open-0"));
    let case = case.unwrap();
    let stable = committed(&case).unwrap().last_stable_offset;
    let batches = lines(&case.expected.join("batches.jsonl.gz"));
    let before = batches.iter().rposition(|line| {
        line["last_offset"]
            .as_i64()
            .is_some_and(|last| last < stable)
    });
    let before = &batches[before.unwrap()];
    let copy = Copy::of(&case.folder, EARLY);
    let log = copy.folder.join(before["file"].as_str().unwrap());
    let mut bytes = fs::read(&log).unwrap();
    let at = usize::try_from(before["position"].as_u64().unwrap()).unwrap();
    bytes[at + 8..at + 12].fill(0xff);
    fs::write(&log, bytes).unwrap();
    for path in copy.files(FileKind::OffsetIndex) {
        fs::remove_file(path).unwrap();
    }
    let log = PartitionLog::open(&copy.folder).unwrap();
    assert_eq!(log.last_stable_offset().unwrap(), stable);
}

/// A plan that lacks an aborted transaction, as after an index that lost its entry, never gives its rows without a word.
#[test]
fn a_marker_that_the_plan_does_not_know_is_an_error() {
    let case = cases()
        .into_iter()
        .find(|c| c.folder.ends_with("txn-aborts-0"));
    let latest = PlanOptions {
        isolation_level: IsolationLevel::ReadCommitted,
        ..PlanOptions::default()
    };
    let ranges = plan_scan(&[case.unwrap().folder], &latest).unwrap();
    let all: BTreeSet<AbortedRange> = ranges[0]
        .segments
        .iter()
        .flat_map(|s| s.aborted.iter().flat_map(|all| all.iter().copied()))
        .collect();
    assert!(all.len() > 5);
    for lost in all {
        let mut ranges = ranges.clone();
        for segment in &mut ranges[0].segments {
            let left = segment.aborted.iter().flat_map(|all| all.iter().copied());
            segment.aborted = Some(left.filter(|range| *range != lost).collect());
        }
        let columns = ColumnOptions::default();
        let mut reader = RangeReader::try_new(ranges, ReadOptions::default(), columns).unwrap();
        let error = loop {
            match reader.next_batch() {
                Ok(batch) => assert!(batch.is_some(), "{lost:?} is missed by nobody"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::CorruptIndex(_)), "{error}");
        assert_eq!(
            error.as_fault().unwrap().location.offset,
            Some(lost.last_offset)
        );
    }
}

/// Returns whether indexes give what a walk from `start` on gives, which knows no first offset below.
fn are_same(indexed: &[AbortedRange], walked: &[AbortedRange], start: i64) -> bool {
    let is_same = |(indexed, walked): (&AbortedRange, &AbortedRange)| {
        let known = |range: &AbortedRange| AbortedRange {
            first_offset: start,
            ..*range
        };
        indexed == walked || (indexed.first_offset < start && known(indexed) == known(walked))
    };
    indexed.len() == walked.len() && indexed.iter().zip(walked).all(is_same)
}

/// Indexes give what a walk over the headers gives, and if they are trusted there is no walk.
#[test]
fn sound_indexes_agree_with_the_log() {
    let (mut walked, mut saved) = (0, 0);
    for case in cases() {
        let Some(kafkas) = committed(&case).filter(|kafkas| kafkas.aborted > 0) else {
            continue;
        };
        let log = PartitionLog::open(&case.folder).unwrap();
        let (start, end) = (kafkas.log_start_offset, kafkas.last_stable_offset);
        let mut by_index = LogTransactions::of(log.listed())
            .unwrap()
            .preferring_indexes();
        let mut by_log = LogTransactions::of(log.listed()).unwrap();
        let ours = by_index.aborted(start, end).unwrap();
        let logs = by_log.aborted(start, end).unwrap();
        let place = case.folder.display();
        assert!(are_same(&ours, &logs, start), "{place}: {ours:?} {logs:?}");
        walked += by_log.walks();
        saved += by_log.walks() - by_index.walks();
    }
    assert!(saved * 10 > walked, "{saved} of {walked}");
}

/// After a clean stop the active segment's index is believed too, and the last snapshot says what is open. After another
/// end both are the log's to tell, in one walk over each segment, which shows the log's end as well.
#[test]
fn the_active_segment_is_walked_once_or_never() {
    let mut saved = 0;
    for case in cases() {
        let Some(kafkas) = committed(&case).filter(|kafkas| kafkas.aborted > 0) else {
            continue;
        };
        let copy = Copy::of(&case.folder, EARLY);
        let dir = copy.folder.parent().unwrap();
        let place = case.folder.display();
        let (start, end) = (kafkas.log_start_offset, kafkas.last_stable_offset);
        let found = || {
            let log = PartitionLog::open(&copy.folder).unwrap();
            let mut transactions = LogTransactions::of(log.listed())
                .unwrap()
                .preferring_indexes();
            let stable = transactions.last_stable_offset(None).unwrap();
            assert_eq!(stable, kafkas.last_stable_offset, "{place}");
            let aborted = transactions.aborted(start, end).unwrap();
            let log_end = log.log_end_offset().unwrap();
            assert_eq!(log_end, kafkas.log_end_offset, "{place}");
            (aborted, transactions.walks(), log.segments().len())
        };
        let active = PartitionLog::open(&copy.folder).unwrap();
        let base = active.segments().last().unwrap().base_offset;
        let index = FileName::new(base, FileKind::TxnIndex).to_string();
        let has_entries = fs::metadata(copy.folder.join(index)).is_ok_and(|file| file.len() > 0);
        let clean = dir.join(".kafka_cleanshutdown");
        if clean.exists() && has_entries {
            let (aborted, walks, _) = found();
            assert!(aborted.iter().any(|range| range.last_offset >= base));
            fs::remove_file(clean).unwrap();
            let (by_log, more, _) = found();
            assert!(are_same(&aborted, &by_log, start), "{place}");
            // Without a snapshot at the end, as Kafka 1.1 leaves it, what is open there is in the log alone.
            assert!(walks <= more, "{place}: {walks} {more}");
            saved += more - walks;
        }
        if start > 0 {
            continue;
        }
        copy.bare();
        let (_, walks, segments) = found();
        assert!(walks <= segments, "{place}: {walks} of {segments}");
    }
    assert!(saved > 0);
}

/// An entry is believed only if the log has its marker and its first batch: any bit of it may be wrong.
#[test]
fn garbled_entries_are_not_believed() {
    let mut chance = Chance(31);
    let mut garbled = 0;
    for case in cases() {
        let Some(kafkas) = committed(&case).filter(|kafkas| kafkas.aborted > 0) else {
            continue;
        };
        let (start, end) = (kafkas.log_start_offset, kafkas.last_stable_offset);
        let log = PartitionLog::open(&case.folder).unwrap();
        let logs = LogTransactions::of(log.listed())
            .unwrap()
            .aborted(start, end)
            .unwrap();
        let copy = Copy::of(&case.folder, EARLY);
        for path in copy.files(FileKind::TxnIndex) {
            let sound = fs::read(&path).unwrap();
            for _ in 0..8 {
                if sound.is_empty() {
                    break;
                }
                let mut bytes = sound.clone();
                let at = chance.below(bytes.len());
                bytes[at] ^= 1 << chance.below(8);
                fs::write(&path, bytes).unwrap();
                let log = PartitionLog::open(&copy.folder).unwrap();
                let mut by_index = LogTransactions::of(log.listed())
                    .unwrap()
                    .preferring_indexes();
                let ours = by_index.aborted(start, end).unwrap();
                let place = path.display();
                assert!(
                    are_same(&ours, &logs, start),
                    "{place} byte {at}: {ours:?} {logs:?}"
                );
                garbled += 1;
            }
            fs::write(&path, sound).unwrap();
        }
    }
    assert!(garbled > 100, "{garbled}");
}
