//! A corpus of partition folders: where it is, what Kafka's own classes answered about each, copies to work on, and how
//! answers are compared.
//!
//! It comes from `KAFKALOG_CORPUS` (several roots as in `PATH`), else from `tests/golden`.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use kafkalog::internal::format::file_name::{FileKind, FileName, FileState};
use kafkalog::internal::log::partition::PartitionLog;
use serde_json::Value;

/// The year 2100, which the `late` answers assume.
pub const LATE: Duration = Duration::from_secs(4_102_444_800);
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
pub fn case_dirs() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = roots();
    while let Some(folder) = folders.pop() {
        if folder.join("expected").is_dir() {
            // Cases of typed values have answers of deserializers.
            if !folder.join("expected/schemas.jsonl").exists() {
                found.push(folder);
            }
        } else {
            folders.extend(children(&folder));
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no corpus in {:?}", roots());
    found
}

pub fn log_dirs(case: &Path) -> Vec<PathBuf> {
    let is_log_dir = |path: &PathBuf| path.file_name() != Some(OsStr::new("expected"));
    children(case).into_iter().filter(is_log_dir).collect()
}

pub fn name(path: &Path) -> String {
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
pub struct Differences {
    found: Vec<String>,
    compared: usize,
}

impl Differences {
    #[expect(clippy::needless_pass_by_value, reason = "reads better at every call")]
    pub fn same<T: PartialEq + Debug>(
        &mut self,
        what: impl FnOnce() -> String,
        ours: T,
        kafkas: T,
    ) {
        self.compared += 1;
        if ours != kafkas {
            let what = what();
            self.found
                .push(format!("{what}: ours {ours:?}, Kafka's {kafkas:?}"));
        }
    }

    pub fn end(self, at_least: usize) {
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

    pub fn age(&self, modified: Duration) {
        for path in self.files(FileKind::Log) {
            let file = File::options().write(true).open(path).unwrap();
            file.set_modified(UNIX_EPOCH + modified).unwrap();
        }
    }

    /// Removes the files that spare a walk over the log.
    pub fn bare(&self) {
        for kind in [
            FileKind::TxnIndex,
            FileKind::Snapshot,
            FileKind::OffsetIndex,
        ] {
            for path in self.files(kind) {
                fs::remove_file(path).unwrap();
            }
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

    pub fn open(&self) -> PartitionLog {
        PartitionLog::open(&self.folder).unwrap()
    }
}
