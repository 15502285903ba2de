//! Kafka's own before and after states, and ours.
//!
//! A corpus of these cases holds `<kind>/<case>/{config.json,input.jsonl,before/,after/,result.jsonl}` and states
//! shared by several cases in `<kind>/_base/`. Its root is `KAFKALOG_LOG_CORPUS`, else the selection in
//! `tests/golden/log`: `cargo test --release --test rust log_cases`.
//!
//! A kind's runner does what a case says in a folder that holds the state before, then says how the outcome differs
//! from Kafka's; [`Case::compare_tree`] holds the whole folder against the SHA-256 lines of `result.jsonl`. A line is
//! printed for every case that differs, and a count at the end. Where Kafka's answer is no behaviour but a crash of its
//! own, a case is compared up to there, and a line says so with the reason ([`Outcome::broken`]).

mod append;
mod batches;
mod clean;
mod index_ops;
pub mod recover;
mod retain;
mod truncate;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kafkalog::internal::format::entry::{PRODUCER_STATE_SIZE, ProducerState};
use kafkalog::internal::log::config::LogConfig;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::common;

/// Prints a line that the test harness does not keep to itself.
fn say(line: &str) {
    let line = format!("{line}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// The clock at the start of a case that does not say.
const NOW_MS: i64 = 1_700_000_000_000;

/// A file's size and its SHA-256 in hex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSum {
    pub size: u64,
    pub sha256: String,
}

impl FileSum {
    fn of(bytes: &[u8]) -> Self {
        let mut sha256 = String::new();
        for byte in Sha256::digest(bytes) {
            write!(sha256, "{byte:02x}").unwrap();
        }
        let size = bytes.len() as u64;
        Self { size, sha256 }
    }
}

/// Every file below a folder, by its path there with `/` between the parts.
pub type Tree = BTreeMap<String, FileSum>;

/// Result of a case.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Differences from Kafka's result, a line each.
    pub differences: Vec<String>,
    /// Operation from which on nothing is compared, and the reason: Kafka's own object is inconsistent, or the case
    /// does not hold what was appended.
    pub broken: Option<(u64, &'static str)>,
}

impl From<Vec<String>> for Outcome {
    fn from(differences: Vec<String>) -> Self {
        Self {
            differences,
            broken: None,
        }
    }
}

/// One case.
#[derive(Debug)]
pub struct Case {
    pub name: String,
    pub folder: PathBuf,
    pub config: Value,
    /// The operations; none where the kind has no input.
    pub input: Vec<Value>,
    /// Kafka's answer, without the `file` lines.
    pub result: Vec<Value>,
    files: Vec<Value>,
}

/// Folder of the cases.
pub fn root() -> PathBuf {
    let named = std::env::var_os("KAFKALOG_LOG_CORPUS").map(PathBuf::from);
    named.unwrap_or_else(|| common::root().join("tests/golden/log"))
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            serde_json::from_str(line).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        })
        .collect()
}

/// All cases of a kind, by name.
pub fn cases(kind: &str) -> Vec<Case> {
    let folder = root().join(kind);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut found: Vec<Case> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("config.json").exists())
        .map(|path| Case::open(&path))
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!found.is_empty(), "no cases in {}", folder.display());
    found
}

impl Case {
    fn open(folder: &Path) -> Self {
        let config = fs::read(folder.join("config.json")).unwrap();
        let is_file = |line: &Value| line["event"] == "file";
        let (files, result) = lines(&folder.join("result.jsonl"))
            .into_iter()
            .partition(is_file);
        Self {
            name: folder.file_name().unwrap().to_string_lossy().into_owned(),
            folder: folder.to_path_buf(),
            config: serde_json::from_slice(&config).unwrap(),
            input: lines(&folder.join("input.jsonl")),
            result,
            files,
        }
    }

    /// The clock at the start.
    pub fn now_ms(&self) -> i64 {
        self.config["now_ms"].as_i64().unwrap_or(NOW_MS)
    }

    /// `<topic>-<partition>`, the partition's folder below the log dir.
    pub fn partition_folder(&self) -> String {
        let topic = self.config["topic"].as_str().unwrap_or("orders");
        format!("{topic}-{}", self.config["partition"].as_i64().unwrap_or(0))
    }

    /// Kafka's answer with this `event`.
    pub fn event(&self, event: &str) -> Option<&Value> {
        self.result.iter().find(|line| line["event"] == event)
    }

    /// Returns whether Kafka does not load the log because an index has no room for its entries.
    pub fn fails_on_a_full_index(&self) -> bool {
        let failed = self.event("failed");
        let message = failed.and_then(|failed| failed["error"]["message"].as_str());
        message.is_some_and(|message| {
            message.starts_with("Attempt to append to a full") || message.starts_with("newPosition")
        })
    }

    /// Writes the state before into `to`, modification times included.
    pub fn write_before(&self, to: &Path) {
        fs::create_dir_all(to).unwrap();
        if let Some(base) = self.config["base"].as_str() {
            copy(&self.folder.parent().unwrap().join("_base").join(base), to);
        }
        for name in self.config["removed"].as_array().into_iter().flatten() {
            fs::remove_file(to.join(name.as_str().unwrap())).unwrap();
        }
        copy(&self.folder.join("before"), to);
        let times = &self.config["mtimes"];
        for name in tree(to).keys() {
            let ms = times[name].as_i64().or(times["*"].as_i64());
            let ms = u64::try_from(ms.unwrap_or_else(|| self.now_ms())).unwrap();
            let time = SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
            let file = fs::File::options().write(true).open(to.join(name));
            file.unwrap().set_modified(time).unwrap();
        }
    }

    /// Every file before.
    pub fn before(&self) -> Tree {
        let folder = work_folder();
        self.write_before(folder.path());
        tree(folder.path())
    }

    /// Every file after Kafka was done.
    pub fn expected_tree(&self) -> Tree {
        if self.files.is_empty() {
            return tree(&self.folder.join("after"));
        }
        let stays = self.files.iter().filter(|line| line["change"] != "deleted");
        stays
            .map(|line| {
                let sum = FileSum {
                    size: line["after_size"].as_u64().unwrap(),
                    sha256: line["after_sha256"].as_str().unwrap().to_owned(),
                };
                (line["name"].as_str().unwrap().to_owned(), sum)
            })
            .collect()
    }

    /// Compares the files below `found` with Kafka's. A producer snapshot may have its producers in any order, as Kafka
    /// takes them from a hash map.
    pub fn compare_tree(&self, found: &Path) -> Vec<String> {
        let (expected, mut tree) = (self.expected_tree(), tree(found));
        for (name, sum) in &mut tree {
            let kafka = expected.get(name).filter(|kafka| *kafka != sum);
            if let Some(kafka) = kafka.filter(|_| name.ends_with(".snapshot")) {
                let stored = self.stored(name, kafka);
                let ours = producers(&fs::read(found.join(name)).unwrap());
                if ours.is_some() && ours == stored.and_then(|bytes| producers(&bytes)) {
                    *sum = kafka.clone();
                }
            }
        }
        compare(&expected, &tree)
    }

    /// Kafka's own bytes of a file, where the case has them.
    fn stored(&self, name: &str, sum: &FileSum) -> Option<Vec<u8>> {
        let base = self.config["base"].as_str().unwrap_or_default();
        let base = self.folder.parent()?.join("_base").join(base);
        let folders = [self.folder.join("after"), self.folder.join("before"), base];
        let mut found = folders.iter().map(|folder| fs::read(folder.join(name)));
        found.find_map(|bytes| bytes.ok().filter(|bytes| FileSum::of(bytes) == *sum))
    }
}

/// A case's topic settings.
pub fn config(case: &Case) -> LogConfig {
    let settings = case.config["log"].as_object();
    let pairs: Vec<(String, String)> = settings
        .into_iter()
        .flatten()
        .map(|(name, value)| {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            // Topics may not go below 1 MiB; tests may.
            let small = name == "segment.bytes" && text.parse::<i64>().unwrap() < 1 << 20;
            let name = if small {
                "internal.segment.bytes"
            } else {
                name
            };
            (name.to_owned(), text)
        })
        .collect();
    LogConfig::from_pairs(pairs.iter().map(|(n, v)| (n.as_str(), v.as_str()))).unwrap()
}

/// Copies files below `from` over those below `to`, writable whatever the source is.
pub fn copy(from: &Path, to: &Path) {
    for path in common::files(from, "") {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, fs::read(&path).unwrap()).unwrap();
    }
}

/// The bytes of every `.log` file below a folder.
pub fn logs(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = common::files(folder, ".log").into_iter();
    files
        .map(|path| (relative(folder, &path), fs::read(&path).unwrap()))
        .collect()
}

fn relative(folder: &Path, path: &Path) -> String {
    let name = path.strip_prefix(folder).unwrap().to_string_lossy();
    name.replace('\\', "/")
}

/// Every file below a folder.
pub fn tree(folder: &Path) -> Tree {
    let files = common::files(folder, "").into_iter();
    files
        .map(|path| {
            let sum = FileSum::of(&fs::read(&path).unwrap());
            (relative(folder, &path), sum)
        })
        .collect()
}

/// The producers of a sound snapshot, by id; `None` for other bytes.
fn producers(bytes: &[u8]) -> Option<Vec<ProducerState>> {
    let mut found = ProducerState::parse_snapshot(bytes).ok()?;
    found.sort_by_key(|producer| producer.producer_id);
    (bytes.len() == 10 + PRODUCER_STATE_SIZE * found.len()).then_some(found)
}

/// Compares two trees, a line for each file that differs.
pub fn compare(expected: &Tree, found: &Tree) -> Vec<String> {
    let mut names: Vec<&String> = expected.keys().chain(found.keys()).collect();
    names.sort();
    names.dedup();
    let describe = |sum: Option<&FileSum>| {
        sum.map_or("no file".to_owned(), |sum| {
            let head: String = sum.sha256.chars().take(8).collect();
            format!("{} bytes, {head}", sum.size)
        })
    };
    let differing = names
        .into_iter()
        .filter(|name| expected.get(*name) != found.get(*name));
    differing
        .map(|name| {
            let (kafka, ours) = (expected.get(name), found.get(name));
            format!("{name}: Kafka {}, here {}", describe(kafka), describe(ours))
        })
        .collect()
}

/// A folder to work in; in memory if that can be, as everything in it is synced.
pub fn work_folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    folder.unwrap()
}

/// Runs every case of a kind in a folder that holds its state before; `run` says what it came to.
pub fn run_all<O: Into<Outcome>>(kind: &str, run: impl Fn(&Case, &Path) -> O) {
    let cases = cases(kind);
    let (mut differ, mut broken) = (0, 0);
    for case in &cases {
        let folder = work_folder();
        case.write_before(folder.path());
        let outcome = catch_unwind(AssertUnwindSafe(|| run(case, folder.path()).into()));
        let outcome = outcome.unwrap_or_else(|_| vec!["a panic".to_owned()].into());
        if !outcome.differences.is_empty() {
            differ += 1;
            let differences = outcome.differences.join("; ");
            say(&format!("{kind}/{}: {differences}", case.name));
        } else if let Some((operation, why)) = outcome.broken {
            broken += 1;
            say(&format!(
                "{kind}/{}: compared up to operation {operation}, {why}",
                case.name
            ));
        }
    }
    let all = cases.len();
    let equal = all - differ - broken;
    say(&format!(
        "{kind}: {equal} of {all} cases as Kafka, {broken} as far as they can be, {differ} differ"
    ));
    assert_eq!(differ, 0, "{kind}: {differ} of {all} cases differ");
}

/// The harness itself: Kafka's own files are no difference, any change to them is one.
#[test]
fn a_difference_is_seen() {
    for case in cases("recover") {
        let folder = tempfile::tempdir().unwrap();
        case.write_before(folder.path());
        for (name, kafka) in case.expected_tree() {
            let stored = case.folder.join("after").join(&name);
            if let Ok(bytes) = fs::read(stored) {
                let target = folder.path().join(&name);
                fs::create_dir_all(target.parent().unwrap()).unwrap();
                fs::write(target, &bytes).unwrap();
                assert_eq!(bytes.len() as u64, kafka.size, "{}: {name}", case.name);
            }
        }
        for name in tree(folder.path()).keys() {
            if !case.expected_tree().contains_key(name) {
                fs::remove_file(folder.path().join(name)).unwrap();
            }
        }
        assert_eq!(case.compare_tree(folder.path()), [""; 0], "{}", case.name);
        fs::write(folder.path().join("more"), "").unwrap();
        assert_eq!(case.compare_tree(folder.path()).len(), 1, "{}", case.name);
    }
}
