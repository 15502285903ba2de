//! A log dir that has no path: planned and read by names and ranges alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::io::storage::{FileStat, FolderEntries, FolderEntry, ReadFile, ReadFolder};
use crate::records::arena::Arena;
use crate::records::chunk::Chunk;
use crate::scan::reader::LogReader;
use crate::segment::reader::{FillOutcome, ReadOptions};
use crate::segment::source::MapPolicy;

type Files = BTreeMap<PathBuf, (Arc<[u8]>, FileStat)>;

/// A folder in memory.
#[derive(Clone, Debug)]
struct MemoryFolder {
    files: Arc<Files>,
    path: PathBuf,
}

#[derive(Debug)]
struct MemoryFile {
    bytes: Arc<[u8]>,
    path: PathBuf,
}

impl MemoryFolder {
    fn file(&self, name: &str) -> Result<&(Arc<[u8]>, FileStat)> {
        let path = self.path_of(name);
        let missing = || Error::io(&path)(io::ErrorKind::NotFound.into());
        self.files.get(&path).ok_or_else(missing)
    }

    fn at(&self, path: impl AsRef<Path>) -> Folder {
        Folder::new(Self {
            path: path.as_ref().to_path_buf(),
            ..self.clone()
        })
    }
}

impl ReadFolder for MemoryFolder {
    fn path(&self) -> &Path {
        &self.path
    }

    fn entries(&self) -> Result<FolderEntries<'_>> {
        let below = self.files.keys().filter_map(|file| {
            let mut names = file.strip_prefix(&self.path).ok()?.components();
            let name = names.next()?.as_os_str().to_str()?;
            Some((name.to_owned(), names.next().is_some()))
        });
        let below: BTreeSet<_> = below.collect();
        if below.is_empty() {
            return Err(Error::io(&self.path)(io::ErrorKind::NotFound.into()));
        }
        let entry = |(name, is_folder)| Ok(FolderEntry::new(self, name, is_folder));
        Ok(Box::new(below.into_iter().map(entry)))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(MemoryFile {
            bytes: Arc::clone(&self.file(name)?.0),
            path: self.path_of(name),
        }))
    }

    fn contains(&self, name: &str) -> Result<bool> {
        Ok(self.file(name).is_ok())
    }

    fn stat(&self, name: &str) -> Result<FileStat> {
        Ok(self.file(name)?.1)
    }

    fn folder(&self, name: &str) -> Folder {
        self.at(self.path_of(name))
    }

    fn is_folder(&self) -> Result<bool> {
        Ok(!self.files.contains_key(&self.path))
    }

    fn above(&self) -> Folder {
        self.at(self.path.parent().unwrap())
    }
}

impl ReadFile for MemoryFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let from = usize::try_from(position).unwrap().min(self.bytes.len());
        io::Read::read(&mut &self.bytes[from..], buffer)
    }
}

fn load(folder: &Path, to: &Path, files: &mut Files) {
    for entry in fs::read_dir(folder).unwrap() {
        let from = entry.unwrap().path();
        let to = to.join(from.file_name().unwrap());
        if from.is_dir() {
            load(&from, &to, files);
        } else {
            let name = from.file_name().unwrap().to_str().unwrap();
            let stat = Folder::at(folder).stat(name).unwrap();
            files.insert(to, (fs::read(&from).unwrap().into(), stat));
        }
    }
}

/// Partition and offset of every record.
fn read(ranges: Vec<PartitionRange>) -> Vec<(String, Offset)> {
    let mut reader = LogReader::new(ranges, ReadOptions::default(), MapPolicy::ClosedOnly);
    let mut chunk = Chunk::new(Arena::near());
    let mut found = Vec::new();
    loop {
        match reader.fill(&mut chunk).unwrap() {
            FillOutcome::End => return found,
            FillOutcome::ArenaFull => chunk.reset(),
            FillOutcome::Records => {
                let context = reader.context();
                let name = format!("{}-{}", context.topic, context.partition);
                let offsets = chunk.slots().iter().map(|slot| slot.offset);
                found.extend(offsets.map(|offset| (name.clone(), offset)));
                chunk.clear();
            }
        }
    }
}

#[test]
fn a_log_dir_without_a_path_gives_the_same() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for log_dir in [
        "clean-restarts/data-1",
        "txn/data-0",
        "txn/data-1",
        "compact/data-1",
    ] {
        let on_disk = golden.join(log_dir);
        let root = Path::new("/no/such/place").join(log_dir);
        let mut files = Files::new();
        load(&on_disk, &root, &mut files);
        let memory = MemoryFolder {
            files: Arc::new(files),
            path: root.clone(),
        };
        for isolation_level in [
            IsolationLevel::ReadUncommitted,
            IsolationLevel::ReadCommitted,
        ] {
            let options = PlanOptions {
                isolation_level,
                starting_timestamp: Some(Timestamp::At(1)),
                ..PlanOptions::default()
            };
            let planned = ask_folders(&[memory.at(&root)], &options, range_of).unwrap();
            let expected = plan_scan(std::slice::from_ref(&on_disk), &options).unwrap();
            assert!(!expected.is_empty());
            let moved = |range: &PartitionRange| PartitionRange {
                folder: Folder::at(root.join(range.folder.path().file_name().unwrap())),
                ..range.clone()
            };
            assert_eq!(planned, expected.iter().map(moved).collect::<Vec<_>>());
            let records = read(planned);
            assert!(!records.is_empty());
            assert_eq!(records, read(expected));
        }
        let error = ListedLog::open(memory.at(root.join("no-0"))).unwrap_err();
        assert!(error.to_string().contains("/no/such/place"), "{error}");
    }
}
