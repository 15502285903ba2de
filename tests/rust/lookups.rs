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
use kafkalog::format::file_name::{FileKind, FileName, FileState, FolderName, FolderState};
use kafkalog::index::Access;
use kafkalog::index::offset::OffsetIndex;
use kafkalog::index::time::TimeIndex;
use kafkalog::index::txn::TransactionIndex;
use kafkalog::log::dir::{LogDir, META_PROPERTIES};
use kafkalog::log::partition::{OffsetAndTimestamp, PartitionLog};
use kafkalog::log::plan::{Ending, PlanOptions, Starting, Timestamp, plan};
use kafkalog::segment::lookup::SegmentLookup;
use serde_json::Value;

/// The year 2100, which the `late` answers assume.
const LATE: Duration = Duration::from_secs(4_102_444_800);
const EARLY: Duration = Duration::ZERO;

/// One partition folder and what was expected of it.
struct Case {
    folder: PathBuf,
    expected: PathBuf,
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

fn cases() -> Vec<Case> {
    let mut found = Vec::new();
    for case in case_dirs() {
        for dir in log_dirs(&case) {
            let kind = name(&dir);
            let kind = kind.trim_end_matches(|c: char| c.is_ascii_digit());
            let kind = if kind == "data-" { "" } else { kind };
            for folder in children(&dir) {
                let expected = case.join("expected").join(format!("{kind}{}", name(&folder)));
                if expected.is_dir() {
                    found.push(Case { folder, expected });
                }
            }
        }
    }
    assert!(found.len() > 50, "only {} partitions", found.len());
    found
}

fn lines(path: &Path) -> Vec<Value> {
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
struct Copy {
    _root: tempfile::TempDir,
    folder: PathBuf,
}

impl Copy {
    fn of(folder: &Path, modified: Duration) -> Self {
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
    fn files(&self, kind: FileKind) -> Vec<PathBuf> {
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
            let valid = kafkalog::segment::statistics::SegmentStatistics::of(segment).unwrap();
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
