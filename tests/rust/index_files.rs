//! Every index, snapshot and checkpoint of a corpus against what Kafka's own classes read from it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kafkalog::internal::format::checkpoint::{parse_epochs, parse_partition_metadata};
use kafkalog::internal::format::entry::ProducerState;
use kafkalog::internal::index::offset::OffsetIndex;
use kafkalog::internal::index::time::TimeIndex;
use kafkalog::internal::index::txn::TransactionIndex;
use kafkalog::internal::io::folder::DiskFolder;
use kafkalog::internal::io::mapping::ClosedName;
use kafkalog::internal::log::dir::{LogDir, META_PROPERTIES};
use serde_json::Value;

use crate::corpus::{Differences, case_dirs, cases, lines, log_dirs, name};

fn aborted(index: &TransactionIndex) -> Vec<[i64; 5]> {
    index
        .iter()
        .map(|t| {
            [
                t.version.into(),
                t.producer_id,
                t.first_offset,
                t.last_offset,
                t.last_stable_offset,
            ]
        })
        .collect()
}

fn numbers(lines: &[Value], names: &[&str]) -> Vec<Vec<i64>> {
    let row = |line: &Value| {
        names
            .iter()
            .map(|name| line[name].as_i64().unwrap_or(-1))
            .collect()
    };
    lines.iter().map(row).collect()
}

fn size(count: usize) -> Option<u64> {
    u64::try_from(count).ok()
}

/// An index that is mapped or copied. A copy of the file under a deleted one's name may be mapped.
macro_rules! opened {
    ($index:ty, $path:expr, $base:expr, $is_mapped:expr) => {
        if $is_mapped {
            let folder = tempfile::tempdir().unwrap();
            let name = "00000000000000000000.index.deleted";
            fs::copy($path, folder.path().join(name)).unwrap();
            let folder = DiskFolder::at(folder.path());
            let closed = ClosedName::of(&folder, name, None).unwrap();
            <$index>::map(&closed.open().unwrap(), $base).unwrap()
        } else {
            <$index>::open($path, $base).unwrap()
        }
    };
}

/// One file beside a `.log`, and what Kafka's class for it says.
fn index_file(path: &Path, expected: &[Value], differences: &mut Differences) {
    let (head, rest) = expected.split_first().unwrap();
    let place = || path.display().to_string();
    let base = name(path).split('.').next().unwrap().parse().unwrap_or(0);
    let sane =
        |result: kafkalog::internal::error::Result<()>| if result.is_ok() { "ok" } else { "not" };
    let kafkas_sanity = if head["sanity"] == "ok" { "ok" } else { "not" };
    let data = || fs::read(path).unwrap();
    for is_mapped in [true, false] {
        match head["kind"].as_str().unwrap() {
            "offset_index" => {
                let index = opened!(OffsetIndex, path, base, is_mapped);
                let entries: Vec<_> = index
                    .iter()
                    .map(|e| vec![e.offset, e.position.into()])
                    .collect();
                differences.same(place, entries, numbers(rest, &["offset", "position"]));
                let counts = (size(index.max_entries()), size(index.entries()));
                let kafkas = (head["slots"].as_u64(), head["entries"].as_u64());
                differences.same(place, counts, kafkas);
                differences.same(place, sane(index.sanity_check()), kafkas_sanity);
            }
            "time_index" => {
                let index = opened!(TimeIndex, path, base, is_mapped);
                let entries: Vec<_> = index.iter().map(|e| vec![e.timestamp, e.offset]).collect();
                differences.same(place, entries, numbers(rest, &["timestamp", "offset"]));
                let counts = (size(index.max_entries()), size(index.entries()));
                let kafkas = (head["slots"].as_u64(), head["entries"].as_u64());
                differences.same(place, counts, kafkas);
                differences.same(place, sane(index.sanity_check()), kafkas_sanity);
            }
            "txn_index" => {
                let index = opened!(TransactionIndex, path, base, is_mapped);
                let names = [
                    "version",
                    "producer_id",
                    "first_offset",
                    "last_offset",
                    "last_stable_offset",
                ];
                let ours: Vec<_> = aborted(&index).into_iter().map(Vec::from).collect();
                differences.same(place, ours, numbers(rest, &names));
                differences.same(place, sane(index.sanity_check()), kafkas_sanity);
            }
            "producer_snapshot" => {
                let mut ours: Vec<_> = ProducerState::parse_snapshot(&data())
                    .unwrap()
                    .into_iter()
                    .map(|p| {
                        vec![
                            p.producer_id,
                            p.producer_epoch.into(),
                            p.coordinator_epoch.into(),
                            p.current_txn_first_offset,
                            p.timestamp,
                            p.last_sequence.into(),
                            p.last_offset,
                            p.offset_delta.into(),
                        ]
                    })
                    .collect();
                let names = [
                    "producer_id",
                    "producer_epoch",
                    "coordinator_epoch",
                    "current_txn_first_offset",
                    "last_timestamp",
                ];
                let mut kafkas = numbers(rest, &names);
                for (row, line) in kafkas.iter_mut().zip(rest) {
                    let batch = &line["batches"][0];
                    row.push(batch["last_sequence"].as_i64().unwrap_or(-1));
                    row.push(batch["last_offset"].as_i64().unwrap_or(-1));
                    row.push(batch["offset_delta"].as_i64().unwrap_or(0));
                }
                ours.sort();
                kafkas.sort();
                differences.same(place, ours, kafkas);
            }
            "leader_epochs" => {
                let epochs = parse_epochs(&data()).unwrap();
                let ours: Vec<_> = epochs
                    .into_iter()
                    .map(|e| vec![i64::from(e.epoch), e.start_offset])
                    .collect();
                differences.same(place, ours, numbers(rest, &["epoch", "start_offset"]));
            }
            "partition_metadata" => {
                let ours = parse_partition_metadata(&data()).unwrap();
                let kafkas = rest[0]["topic_id"].as_str().unwrap().to_owned();
                differences.same(place, ours, kafkas);
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn indexes_snapshots_and_epochs_are_kafkas() {
    let mut differences = Differences::default();
    for case in cases() {
        for entry in fs::read_dir(&case.expected).unwrap() {
            let path = entry.unwrap().path();
            let named = name(&path);
            let file = named
                .strip_prefix("index.")
                .and_then(|rest| rest.strip_suffix(".jsonl.gz"));
            if let Some(file) = file {
                index_file(&case.folder.join(file), &lines(&path), &mut differences);
            }
        }
    }
    differences.end(1000);
}

/// The log dirs' own files; `expected/<log dir>.checkpoints.jsonl` has a head line a file, then its entries.
#[test]
fn checkpoints_are_kafkas() {
    let mut differences = Differences::default();
    for case in case_dirs() {
        for path in log_dirs(&case) {
            let expected = case.join(format!("expected/{}.checkpoints.jsonl", name(&path)));
            let Ok(text) = fs::read_to_string(expected) else {
                continue;
            };
            let dir = LogDir::open(&path).unwrap();
            let mut kafkas: BTreeMap<String, Vec<Value>> = BTreeMap::new();
            let mut file = String::new();
            for line in text.lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                if let Some(named) = line.get("file") {
                    file = named.as_str().unwrap().to_owned();
                    kafkas.entry(file.clone()).or_default();
                } else {
                    kafkas.get_mut(&file).unwrap().push(line);
                }
            }
            let place = || path.display().to_string();
            let clean = kafkas.remove(".kafka_cleanshutdown").is_some();
            differences.same(place, dir.is_clean(), clean);
            if let Some(meta) = kafkas.remove(META_PROPERTIES) {
                let ours = serde_json::to_value(dir.meta_properties().unwrap().unwrap()).unwrap();
                differences.same(place, ours, meta[0].clone());
            }
            for (file, entries) in kafkas {
                let ours: Vec<_> = dir
                    .checkpoint(&file)
                    .unwrap()
                    .unwrap()
                    .into_iter()
                    .map(|(tp, offset)| {
                        serde_json::json!({"topic": tp.topic, "partition": tp.partition, "offset": offset})
                    })
                    .collect();
                differences.same(|| format!("{} {file}", path.display()), ours, entries);
            }
        }
    }
    differences.end(50);
}
