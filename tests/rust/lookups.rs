//! Every partition folder of a corpus against what Kafka's own classes answered: loading, lookups, indexes, checkpoints.
//! And the same lookups again with indexes gone, cut, garbled or exchanged: an index is a hint.
//!
//! The corpus comes from `KAFKALOG_CORPUS` (several roots as in `PATH`), else from `tests/golden`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use kafkalog::error::Error;
use kafkalog::format::checkpoint::{parse_epochs, parse_partition_metadata};
use kafkalog::format::entry::ProducerState;
use kafkalog::format::file_name::{FileKind, FileName, FileState};
use kafkalog::index::Access;
use kafkalog::index::offset::OffsetIndex;
use kafkalog::index::time::TimeIndex;
use kafkalog::index::txn::TransactionIndex;
use kafkalog::log::dir::{LogDir, META_PROPERTIES};
use kafkalog::log::partition::{OffsetAndTimestamp, PartitionLog};
use kafkalog::segment::lookup::SegmentLookup;
use kafkalog::segment::statistics::SegmentStatistics;
use serde_json::Value;

/// The year 2100, which the `late` answers assume.
const LATE: Duration = Duration::from_secs(4_102_444_800);
pub const EARLY: Duration = Duration::ZERO;

/// One partition folder and what was expected of it.
pub struct Case {
    pub folder: PathBuf,
    pub expected: PathBuf,
}

fn roots() -> Vec<PathBuf> {
    match std::env::var_os("KAFKALOG_CORPUS").filter(|named| !named.is_empty()) {
        Some(named) => std::env::split_paths(&named).collect(),
        None => vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")],
    }
}

fn children(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

/// Folders with an `expected` beside log dirs, at any depth.
fn case_dirs() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = roots();
    while let Some(folder) = folders.pop() {
        if folder.join("expected").is_dir() {
            found.push(folder);
        } else {
            folders.extend(children(&folder));
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no corpus in {:?}", roots());
    found
}

fn log_dirs(case: &Path) -> Vec<PathBuf> {
    let is_log_dir = |path: &PathBuf| path.file_name() != Some(OsStr::new("expected"));
    children(case).into_iter().filter(is_log_dir).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

pub fn cases() -> Vec<Case> {
    let mut found = Vec::new();
    for case in case_dirs() {
        for dir in log_dirs(&case) {
            let kind = name(&dir);
            let kind = kind.trim_end_matches(|c: char| c.is_ascii_digit());
            let kind = if kind == "data-" { "" } else { kind };
            for folder in children(&dir) {
                let expected = case
                    .join("expected")
                    .join(format!("{kind}{}", name(&folder)));
                if expected.is_dir() {
                    found.push(Case { folder, expected });
                }
            }
        }
    }
    assert!(found.len() > 50, "only {} partitions", found.len());
    found
}

pub fn lines(path: &Path) -> Vec<Value> {
    let mut text = String::new();
    let file = File::open(path).unwrap();
    flate2::read::MultiGzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    let line = |line: &str| serde_json::from_str(line).unwrap();
    text.lines().map(line).collect()
}

/// Differences, by what differs.
#[derive(Default)]
struct Differences {
    found: Vec<String>,
    compared: usize,
}

impl Differences {
    #[expect(clippy::needless_pass_by_value, reason = "reads better at every call")]
    fn same<T: PartialEq + Debug>(&mut self, what: impl FnOnce() -> String, ours: T, kafkas: T) {
        self.compared += 1;
        if ours != kafkas {
            let what = what();
            self.found
                .push(format!("{what}: ours {ours:?}, Kafka's {kafkas:?}"));
        }
    }

    fn end(self, at_least: usize) {
        let shown: Vec<_> = self.found.iter().take(60).cloned().collect();
        assert!(
            self.found.is_empty(),
            "{} of {} differ:\n{}",
            self.found.len(),
            self.compared,
            shown.join("\n")
        );
        assert!(self.compared >= at_least, "only {} compared", self.compared);
    }
}

/// A copy of a partition folder below a copy of its log dir's own files; `.log` files as old as `modified` says.
pub struct Copy {
    _root: tempfile::TempDir,
    pub folder: PathBuf,
}

impl Copy {
    pub fn of(folder: &Path, modified: Duration) -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = folder.parent().unwrap();
        let copy_files = |from: &Path, to: &Path| {
            fs::create_dir_all(to).unwrap();
            for entry in fs::read_dir(from).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    fs::write(to.join(name(&path)), fs::read(&path).unwrap()).unwrap();
                }
            }
        };
        let dir_copy = root.path().join(name(dir));
        copy_files(dir, &dir_copy);
        let folder_copy = dir_copy.join(name(folder));
        copy_files(folder, &folder_copy);
        let copy = Self {
            folder: folder_copy,
            _root: root,
        };
        copy.age(modified);
        copy
    }

    fn age(&self, modified: Duration) {
        for path in self.files(FileKind::Log) {
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(UNIX_EPOCH + modified).unwrap();
        }
    }

    /// The live files of a kind.
    pub fn files(&self, kind: FileKind) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = fs::read_dir(&self.folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                FileName::parse(&name(path))
                    .is_some_and(|n| n.kind == kind && n.state == FileState::Live)
            })
            .collect();
        found.sort();
        found
    }

    fn open(&self) -> PartitionLog {
        PartitionLog::open(&self.folder).unwrap()
    }
}

fn offset_answers(log: &PartitionLog, case: &Case, what: &str, differences: &mut Differences) {
    for line in lines(&case.expected.join("lookup-offset.jsonl.gz")) {
        let target = line["target"].as_i64().unwrap();
        let kafkas = if line["error"] == "OffsetOutOfRange" {
            Err("out of range")
        } else {
            let field = |name: &str| line.get(name).and_then(Value::as_i64);
            Ok(field("record_offset").map(|offset| {
                let segment = field("record_segment_base_offset").unwrap();
                (segment, field("record_batch_position").unwrap(), offset)
            }))
        };
        let ours = match log.lookup(target) {
            Err(Error::OffsetOutOfRange { .. }) => Err("out of range"),
            found => Ok(found.unwrap().map(|found| {
                let position = i64::try_from(found.position).unwrap();
                (found.segment_base_offset, position, found.offset)
            })),
        };
        let place = || format!("{} {what} offset {target}", case.folder.display());
        differences.same(place, ours, kafkas);
    }
}

fn time_answers(
    log: &PartitionLog,
    case: &Case,
    file: &str,
    what: &str,
    differences: &mut Differences,
) {
    for line in lines(&case.expected.join(file)) {
        let kafkas = line["found"].as_bool().unwrap().then(|| {
            let number = |name: &str| line[name].as_i64();
            (
                number("offset").unwrap(),
                number("timestamp").unwrap(),
                number("leader_epoch"),
            )
        });
        let plain = |found: Option<OffsetAndTimestamp>| {
            found.map(|f| (f.offset, f.timestamp, f.leader_epoch.map(i64::from)))
        };
        let place = |asked: &str| format!("{} {what} {asked}", case.folder.display());
        let special = line.get("special").and_then(Value::as_str);
        match (special, line.get("target").and_then(Value::as_i64)) {
            // Kafka's number for the log end, which only its own requests use.
            (None, Some(-1)) => {
                let ours = Some(log.log_end_offset().unwrap());
                differences.same(|| place("time -1"), ours, kafkas.map(|k| k.0));
            }
            (None, Some(target)) => {
                let ours = plain(log.offset_for_timestamp(target, false).unwrap());
                differences.same(|| place(&format!("time {target}")), ours, kafkas);
            }
            (Some("max_timestamp"), _) => {
                let ours = plain(log.offset_of_max_timestamp().unwrap());
                differences.same(|| place("max timestamp"), ours, kafkas);
            }
            (Some("earliest"), _) => {
                let ours = Some(log.log_start_offset());
                differences.same(|| place("earliest"), ours, kafkas.map(|k| k.0));
            }
            (Some("latest"), _) => {
                let ours = Some(log.log_end_offset().unwrap());
                differences.same(|| place("latest"), ours, kafkas.map(|k| k.0));
            }
            _ => panic!("{line}"),
        }
    }
}

fn loading(log: &PartitionLog, case: &Case, differences: &mut Differences) {
    let loaded = lines(&case.expected.join("load.jsonl.gz"));
    let place = |what: &str| format!("{} {what}", case.folder.display());
    let whole = loaded.iter().find(|line| line["type"] == "log").unwrap();
    let of_log = |what: &str| whole[what].as_i64();
    differences.same(
        || place("log start offset"),
        Some(log.log_start_offset()),
        of_log("log_start_offset"),
    );
    differences.same(
        || place("log end offset"),
        Some(log.log_end_offset().unwrap()),
        of_log("log_end_offset"),
    );
    differences.same(
        || place("high watermark"),
        log.high_watermark(),
        of_log("high_watermark_checkpoint"),
    );
    let kafkas: Vec<_> = loaded
        .iter()
        .filter(|line| line["type"] == "segment")
        .map(|line| {
            let number = |name: &str| line[name].as_i64().unwrap();
            (
                number("base_offset"),
                number("size"),
                number("next_offset"),
                number("max_timestamp_so_far"),
            )
        })
        .collect();
    let ours: Vec<_> = log
        .segments()
        .iter()
        .enumerate()
        .map(|(n, segment)| {
            let valid = SegmentStatistics::of(segment).unwrap();
            let next = SegmentLookup::open(segment).unwrap().next_offset().unwrap();
            let max = log.max_timestamp_of(n).unwrap();
            let size = i64::try_from(valid.valid_bytes).unwrap();
            (segment.base_offset, size, next, max)
        })
        .collect();
    differences.same(|| place("segments"), ours, kafkas);
}

#[test]
fn loading_and_lookups_are_kafkas() {
    let mut differences = Differences::default();
    for case in cases() {
        let copy = Copy::of(&case.folder, EARLY);
        let log = copy.open();
        loading(&log, &case, &mut differences);
        offset_answers(&log, &case, "", &mut differences);
        time_answers(&log, &case, "lookup-time.jsonl.gz", "", &mut differences);
        let late = "lookup-time-late-mtime.jsonl.gz";
        if case.expected.join(late).exists() {
            copy.age(LATE);
            time_answers(&copy.open(), &case, late, "late", &mut differences);
        }
    }
    differences.end(1000);
}

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

/// One file beside a `.log`, and what Kafka's class for it says.
fn index_file(path: &Path, expected: &[Value], differences: &mut Differences) {
    let (head, rest) = expected.split_first().unwrap();
    let place = || path.display().to_string();
    let base = name(path).split('.').next().unwrap().parse().unwrap_or(0);
    let sane = |result: kafkalog::error::Result<()>| if result.is_ok() { "ok" } else { "not" };
    let kafkas_sanity = if head["sanity"] == "ok" { "ok" } else { "not" };
    let data = || fs::read(path).unwrap();
    for access in [Access::Closed, Access::Active] {
        match head["kind"].as_str().unwrap() {
            "offset_index" => {
                let index = OffsetIndex::open(path, base, access).unwrap();
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
                let index = TimeIndex::open(path, base, access).unwrap();
                let entries: Vec<_> = index.iter().map(|e| vec![e.timestamp, e.offset]).collect();
                differences.same(place, entries, numbers(rest, &["timestamp", "offset"]));
                let counts = (size(index.max_entries()), size(index.entries()));
                let kafkas = (head["slots"].as_u64(), head["entries"].as_u64());
                differences.same(place, counts, kafkas);
                differences.same(place, sane(index.sanity_check()), kafkas_sanity);
            }
            "txn_index" => {
                let index = TransactionIndex::open(path, base, access).unwrap();
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
            differences.same(place, dir.clean_shutdown(), clean);
            if let Some(meta) = kafkas.remove(META_PROPERTIES) {
                let ours = serde_json::to_value(dir.meta().unwrap().unwrap()).unwrap();
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

/// `exact` asks the records themselves: a linear search over what Kafka reads from the files.
#[test]
fn exact_lookups_by_time_are_a_linear_search() {
    let mut differences = Differences::default();
    for case in cases() {
        let log = PartitionLog::open(&case.folder).unwrap();
        let live = |line: &Value| FileName::parse(line["file"].as_str().unwrap_or_default());
        let records: Vec<(i64, i64)> = lines(&case.expected.join("records.jsonl.gz"))
            .iter()
            .filter(|line| live(line).is_some_and(|n| n.state == FileState::Live))
            .filter_map(|line| Some((line["offset"].as_i64()?, line["timestamp"].as_i64()?)))
            .collect();
        for line in lines(&case.expected.join("lookup-time.jsonl.gz")) {
            let Some(target) = line["target"].as_i64().filter(|&t| t >= 0) else {
                continue;
            };
            let start = log.log_start_offset();
            let kafkas = records
                .iter()
                .copied()
                .find(|&(offset, timestamp)| offset >= start && timestamp >= target);
            let ours = log.offset_for_timestamp(target, true).unwrap();
            let ours = ours.map(|found| (found.offset, found.timestamp));
            let place = || format!("{} exact time {target}", case.folder.display());
            differences.same(place, ours, kafkas);
        }
    }
    differences.end(1000);
}

/// What can happen to an index.
const DAMAGES: [&str; 7] = [
    "no offset index",
    "neither index",
    "cut",
    "zeros",
    "garbled",
    "one bit each",
    "exchanged",
];

fn damage(copy: &Copy, how: &str, seed: u64) {
    let mut chance = crate::common::Chance(seed);
    let offsets = copy.files(FileKind::OffsetIndex);
    let times = copy.files(FileKind::TimeIndex);
    match how {
        "no offset index" => offsets
            .iter()
            .for_each(|path| fs::remove_file(path).unwrap()),
        "neither index" => offsets
            .iter()
            .chain(&times)
            .for_each(|path| fs::remove_file(path).unwrap()),
        "exchanged" => {
            for files in [&offsets, &times] {
                let contents: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
                for (n, path) in files.iter().enumerate() {
                    let other = &contents[(n + 1) % contents.len()];
                    if !other.is_empty() {
                        fs::write(path, other).unwrap();
                    }
                }
            }
        }
        _ => {
            for path in offsets.iter().chain(&times) {
                let mut data = fs::read(path).unwrap();
                if data.is_empty() {
                    continue;
                }
                match how {
                    // Never to nothing: Kafka takes an empty time index for a segment without timestamps.
                    "cut" => data.truncate((data.len() / 2 + 3).max(12.min(data.len()))),
                    "zeros" => data.fill(0),
                    "garbled" => data.iter_mut().for_each(|byte| *byte = chance.byte()),
                    _ => {
                        let at = chance.below(data.len());
                        data[at] ^= 1 << chance.below(8);
                    }
                }
                fs::write(path, data).unwrap();
            }
        }
    }
}

#[test]
fn lookups_do_not_depend_on_indexes() {
    let mut differences = Differences::default();
    let mut believed = 0;
    for (seed, case) in (0u64..).zip(cases()) {
        let copy = Copy::of(&case.folder, EARLY);
        let log = copy.open();
        // Where Kafka believes a time index that the log cannot confirm (records stored without their timestamps, or
        // an index that was never written), its answers do hang on that file. So do they where another segment's time
        // index happens to fit records without timestamps.
        let mut confirmed = true;
        let mut has_timeless = false;
        for (n, segment) in log.segments().iter().enumerate() {
            let sums = SegmentStatistics::of(segment).unwrap();
            confirmed &= sums.max_timestamp.unwrap_or(-1) == log.max_timestamp_of(n).unwrap();
            has_timeless |= sums.magics.contains_key(&0);
        }
        believed += usize::from(!confirmed);
        let from = usize::try_from(seed).unwrap();
        let tried = if crate::common::is_slow() {
            DAMAGES.len()
        } else {
            2
        };
        for how in DAMAGES.into_iter().cycle().skip(from * 2).take(tried) {
            let copy = Copy::of(&case.folder, EARLY);
            damage(&copy, how, seed);
            let log = copy.open();
            offset_answers(&log, &case, how, &mut differences);
            if confirmed && !(has_timeless && how == "exchanged") {
                time_answers(&log, &case, "lookup-time.jsonl.gz", how, &mut differences);
            }
        }
    }
    assert!(believed < 40, "{believed}");
    differences.end(1000);
}

/// Segments exchanged half-way: Kafka's loader finishes or drops the exchange, and so do we, without touching a file.
#[test]
fn interrupted_exchanges_of_segments() {
    let mut differences = Differences::default();
    let has_segments =
        |case: &Case, n| Copy::of(&case.folder, EARLY).files(FileKind::Log).len() > n;
    let chosen: Vec<Case> = cases()
        .into_iter()
        .step_by(5)
        .filter(|c| has_segments(c, 3))
        .collect();
    assert!(chosen.len() > 5);
    for case in &chosen {
        let kinds = [FileKind::Log, FileKind::OffsetIndex, FileKind::TimeIndex];
        // All of the second segment is ready under `.swap`; its original, and one more inside its range, still stand.
        let copy = Copy::of(&case.folder, EARLY);
        let log = copy.open();
        let (second, third) = (log.segments()[1].base_offset, log.segments()[2].base_offset);
        for kind in kinds {
            let path = copy.folder.join(FileName::new(second, kind).to_string());
            if path.exists() {
                fs::rename(&path, path.with_file_name(format!("{}.swap", name(&path)))).unwrap();
                fs::write(&path, b"what the new file replaces").unwrap();
            }
        }
        if third > second + 1 {
            let inside = FileName::new(second + 1, FileKind::Log).to_string();
            fs::write(copy.folder.join(inside), b"another that it replaces").unwrap();
        }
        copy.age(EARLY);
        for path in fs::read_dir(&copy.folder).unwrap() {
            let path = path.unwrap().path();
            if name(&path).ends_with(".log.swap") {
                let file = File::options().write(true).open(path).unwrap();
                file.set_modified(UNIX_EPOCH + EARLY).unwrap();
            }
        }
        let log = copy.open();
        if SegmentLookup::open(&log.segments()[1])
            .unwrap()
            .next_offset()
            .unwrap()
            > second
        {
            assert_eq!(
                name(&log.segments()[1].path()),
                format!("{second:020}.log.swap")
            );
            offset_answers(&log, case, "swap", &mut differences);
            time_answers(&log, case, "lookup-time.jsonl.gz", "swap", &mut differences);
        }
        // A `.cleaned` at or below it says that the exchange was not ready: the originals count.
        let copy = Copy::of(&case.folder, EARLY);
        for (offset, suffix) in [(second, "log.swap"), (second, "index.cleaned")] {
            fs::write(copy.folder.join(format!("{offset:020}.{suffix}")), b"half").unwrap();
        }
        let log = copy.open();
        offset_answers(&log, case, "cleaned", &mut differences);
        time_answers(
            &log,
            case,
            "lookup-time.jsonl.gz",
            "cleaned",
            &mut differences,
        );
    }
    differences.end(500);
}

/// Bits flipped, bytes cut, lengths replaced in logs and indexes: every answer is a value, or an error that names the
/// file and the place.
#[test]
fn mutated_folders_answer_or_complain() {
    let rounds = if crate::common::is_slow() { 40 } else { 2 };
    let mut complaints = 0;
    for (seed, case) in (7u64..).zip(cases()) {
        let mut chance = crate::common::Chance(seed);
        let copy = Copy::of(&case.folder, EARLY);
        let logs = copy.files(FileKind::Log);
        let Some(path) = logs.iter().find(|p| fs::metadata(p).unwrap().len() > 100) else {
            continue;
        };
        let good = fs::read(path).unwrap();
        for _ in 0..rounds {
            let mut data = good.clone();
            for _ in 0..=chance.below(3) {
                let at = chance.below(data.len());
                match chance.below(4) {
                    0 => data.truncate(at.max(1)),
                    1 => {
                        let length = [0, 13, 14, 61, i32::MAX, -1, 1_000_000][chance.below(7)];
                        let end = (at + 4).min(data.len());
                        data[at..end].copy_from_slice(&length.to_be_bytes()[..end - at]);
                    }
                    _ => data[at] ^= 1 << chance.below(8),
                }
            }
            fs::write(path, &data).unwrap();
            damage(&copy, DAMAGES[2 + chance.below(5)], chance.next());
            let log = copy.open();
            let mut check = |error: Option<Error>| {
                let Some(error) = error else { return };
                complaints += 1;
                match &error {
                    Error::OffsetOutOfRange { .. } => {}
                    other => {
                        let fault = other.as_fault().unwrap_or_else(|| panic!("{other}"));
                        let at = &fault.location;
                        assert!(at.path.is_some() && at.position.is_some(), "{other}");
                    }
                }
            };
            check(log.log_end_offset().err());
            check(log.statistics().err());
            check(log.offset_of_max_timestamp().err());
            for line in lines(&case.expected.join("lookup-offset.jsonl.gz"))
                .iter()
                .step_by(7)
            {
                check(log.lookup(line["target"].as_i64().unwrap()).err());
            }
            for line in lines(&case.expected.join("lookup-time.jsonl.gz"))
                .iter()
                .step_by(11)
            {
                if let Some(target) = line["target"].as_i64().filter(|&t| t >= 0) {
                    check(log.offset_for_timestamp(target, false).err());
                    check(log.offset_for_timestamp(target, true).err());
                }
            }
        }
    }
    assert!(complaints > 50, "{complaints}");
}
