//! A log dir's lock between processes: another one of ours, and a JVM, which is what a broker is.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use kafkalog::internal::error::Error;
use kafkalog::internal::io::lock::{LOCK_FILE, LogDirLock};

use crate::common;

/// Names the log dir for [`held_by_a_child`] when it runs as the child.
const CHILD: &str = "KAFKALOG_TEST_LOCK";

/// Another process that takes the lock, says whether it has it, and keeps it until told.
struct Holder {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Holder {
    fn start(command: &mut Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = piped.spawn().unwrap();
        let says = BufReader::new(process.stdout.take().unwrap());
        Self { process, says }
    }

    fn jvm(folder: &Path) -> Self {
        let program = common::root().join("tests/interop/HoldLock.java");
        Self::start(Command::new("java").arg(program).arg(folder))
    }

    /// This very test, alone, in another process.
    fn ours(folder: &Path) -> Self {
        let test = "locks::held_by_a_child";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        Self::start(command.env(CHILD, folder))
    }

    fn word(&mut self) -> String {
        let mut line = String::new();
        while !["held\n", "refused\n"].contains(&line.as_str()) {
            line.clear();
            let read = self.says.read_line(&mut line).unwrap();
            assert!(read > 0, "the other process ended without a word");
        }
        line.trim().to_owned()
    }

    fn release(mut self) {
        self.process.stdin.take().unwrap().write_all(b"\n").unwrap();
        self.process.wait().unwrap();
    }
}

fn refused(folder: &Path) {
    let path = folder.join(LOCK_FILE);
    let error = LogDirLock::acquire(folder).unwrap_err();
    assert!(
        matches!(&error, Error::LogLocked { path: at } if *at == path),
        "{error}"
    );
}

/// Both ways, and again after either has let go.
fn mutual(holder: fn(&Path) -> Holder) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut other = holder(folder);
    assert_eq!(other.word(), "held");
    refused(folder);
    // Having asked in vain has not taken the other's lock away.
    refused(folder);
    other.release();
    let mine = LogDirLock::acquire(folder).unwrap();
    let claim = mine.claim("t-0").unwrap();
    let mut other = holder(folder);
    assert_eq!(other.word(), "refused");
    other.process.wait().unwrap();
    // A share that goes does not end the lock.
    drop((mine, LogDirLock::acquire(folder).unwrap()));
    let mut other = holder(folder);
    assert_eq!(other.word(), "refused");
    other.process.wait().unwrap();
    drop(claim);
    assert!(!folder.join(LOCK_FILE).exists());
    let mut other = holder(folder);
    assert_eq!(other.word(), "held");
    // One that dies holds nothing.
    other.process.kill().unwrap();
    other.process.wait().unwrap();
    assert!(folder.join(LOCK_FILE).exists());
    drop(LogDirLock::acquire(folder).unwrap());
}

#[test]
fn held_by_a_child() {
    if let Some(folder) = std::env::var_os(CHILD) {
        match LogDirLock::acquire(Path::new(&folder)) {
            Ok(lock) => {
                println!("\nheld");
                std::io::stdin().read_line(&mut String::new()).unwrap();
                drop(lock);
            }
            Err(Error::LogLocked { .. }) => println!("\nrefused"),
            Err(error) => panic!("{error}"),
        }
    } else {
        mutual(Holder::ours);
    }
}

/// Takes and leaves the lock for a while; its holder is alone in there.
fn take_turns(folder: &Path) -> u32 {
    let inside = folder.join("inside");
    let begin = Instant::now();
    let mut turns = 0;
    // A busy machine may keep somebody waiting.
    while begin.elapsed() < Duration::from_secs(if turns > 0 { 2 } else { 60 }) {
        if let Ok(lock) = LogDirLock::acquire(folder) {
            // Nobody else is.
            File::create_new(&inside).unwrap();
            std::thread::yield_now();
            std::fs::remove_file(&inside).unwrap();
            drop(lock);
            turns += 1;
        }
    }
    turns
}

/// A process that leaves removes the file: one that was opened before and locked after is nobody's, though the lock
/// could be taken.
#[test]
fn processes_take_turns() {
    if let Some(folder) = std::env::var_os(CHILD) {
        assert!(take_turns(Path::new(&folder)) > 0);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let children = [0; 3].map(|_| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["locks::processes_take_turns", "--exact"]);
        command.env(CHILD, folder.path()).stdout(Stdio::null());
        command.spawn().unwrap()
    });
    let turns = take_turns(folder.path());
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert!(turns > 0);
}

#[test]
fn a_jvm_sees_it_and_is_seen() {
    let java = Command::new("java").arg("-version").output();
    if java.is_ok() {
        mutual(Holder::jvm);
    } else {
        println!("java is not installed: locks against a JVM are not tried here");
    }
}
