#![expect(
    clippy::arithmetic_side_effects,
    reason = "tests may overflow, and then fail"
)]

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use crate::io::disk::{DiskStep, Faults, InjectedFailure};

type Which = fn(DiskStep) -> bool;

/// Notes every step; refuses those of a kind while told to.
#[derive(Debug, Default)]
struct Watch {
    seen: Mutex<Vec<DiskStep>>,
    refuses: Mutex<Option<Which>>,
    refused: AtomicBool,
}

impl Watch {
    fn refuse(&self, which: Which) {
        *self.refuses.lock().unwrap() = Some(which);
    }

    fn relent(&self) {
        assert!(self.refused.swap(false, Ordering::Relaxed));
        *self.refuses.lock().unwrap() = None;
    }

    fn count(&self, which: fn(&DiskStep) -> bool) -> usize {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .filter(|s| which(s))
            .count()
    }
}

impl Faults for Watch {
    fn before(&self, step: DiskStep, _path: &Path) -> Result<(), InjectedFailure> {
        self.seen.lock().unwrap().push(step);
        if self
            .refuses
            .lock()
            .unwrap()
            .is_some_and(|which| which(step))
        {
            self.refused.store(true, Ordering::Relaxed);
            return Err(io::Error::from(io::ErrorKind::StorageFull).into());
        }
        Ok(())
    }
}

fn open_index<const N: usize>(disk: &Disk, path: &Path, max_size: usize) -> IndexFile<N> {
    IndexFile::open(disk, path, max_size).unwrap()
}

fn entry(n: usize) -> [u8; 8] {
    let n = u64::try_from(n).unwrap();
    (((n * 3 + 1) << 32) | (n * 7919)).to_be_bytes()
}

fn fill(index: &mut IndexFile<8>, to: usize) {
    for n in index.entries()..to {
        index.push(entry(n)).unwrap();
    }
}

fn all(index: &IndexFile<8>) -> Vec<[u8; 8]> {
    (0..index.entries())
        .map(|n| index.get(n).unwrap().unwrap())
        .collect()
}

fn entries(to: usize) -> Vec<[u8; 8]> {
    (0..to).map(entry).collect()
}

fn bytes(to: usize) -> Vec<u8> {
    entries(to).concat()
}

fn is_write(step: DiskStep) -> bool {
    matches!(step, DiskStep::Write { .. })
}

struct Scene {
    _folder: tempfile::TempDir,
    watch: Arc<Watch>,
    path: PathBuf,
    index: IndexFile<8>,
}

fn scene(max_size: usize) -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("00000000000000000000.index");
    let watch = Arc::new(Watch::default());
    let disk = Disk::with_faults(Arc::clone(&watch) as Arc<dyn Faults>);
    let index = open_index(&disk, &path, max_size);
    Scene {
        _folder: folder,
        watch,
        path,
        index,
    }
}

#[test]
fn a_full_disk_is_an_error_before_it_is_a_signal() {
    let mut s = scene(10 << 20);
    s.watch.refuse(is_write);
    let error = s.index.push(entry(0)).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert_eq!(s.index.entries(), 0);
    s.watch.relent();
    fill(&mut s.index, 20_000);
    // 160 KB in strides of 64 KiB: a page is written before the map touches it, and only once.
    assert_eq!(s.watch.count(|&step| is_write(step)), 4);
    s.index.truncate(10).unwrap();
    fill(&mut s.index, 20_000);
    assert_eq!(s.watch.count(|&step| is_write(step)), 4);
    s.watch.refuse(is_write);
    let to = 3 * 65_536 / 8;
    fill(&mut s.index, to);
    assert!(s.index.push(entry(to)).is_err());
    assert_eq!(all(&s.index), entries(to));
    s.watch.relent();
    s.index.close().unwrap();
    assert_eq!(fs::read(&s.path).unwrap(), bytes(to));
}

/// Space that was cut off the file and given back is a hole again.
#[test]
fn a_file_that_grows_again_has_no_room_yet() {
    let mut s = scene(10 << 20);
    fill(&mut s.index, 1_000);
    s.index.trim_to_valid_size().unwrap();
    s.index.resize(10 << 20).unwrap();
    s.watch.refuse(is_write);
    let error = s.index.push(entry(1_000)).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    assert_eq!(all(&s.index), entries(1_000));
    s.watch.relent();
    fill(&mut s.index, 2_000);
    s.index.close().unwrap();
    assert_eq!(fs::read(&s.path).unwrap(), bytes(2_000));
}

#[test]
fn what_is_taken_back_stays_in_the_file() {
    let mut s = scene(80);
    fill(&mut s.index, 10);
    assert!(s.index.push(entry(10)).is_err());
    s.index.truncate(4).unwrap();
    s.index.flush().unwrap();
    assert_eq!(fs::read(&s.path).unwrap(), bytes(10));
    s.index.close_handler();
    assert_eq!(fs::read(&s.path).unwrap(), bytes(10));
    // The next opening finds every slot in use.
    let disk = Disk::default();
    let mut again = open_index::<8>(&disk, &s.path, 4096);
    assert_eq!((again.entries(), again.max_entries()), (10, 10));
    assert!(again.resize(4096).unwrap());
    again.truncate(0).unwrap();
    // The hole is filled with what it holds, whatever was taken back.
    again.push([5; 8]).unwrap();
    again.flush().unwrap();
    assert_eq!(fs::read(&s.path).unwrap()[8..80], bytes(10)[8..]);
}

#[test]
fn growing_beyond_the_map_exchanges_it() {
    let mut s = scene(8000);
    fill(&mut s.index, 1000);
    assert!(s.index.resize(1 << 20).unwrap());
    fill(&mut s.index, 100_000);
    assert_eq!(all(&s.index), entries(100_000));
    assert!(s.index.resize(usize::MAX).is_err());
    assert_eq!(s.index.length(), 1 << 20);
}

#[test]
fn a_closed_index_answers_nothing() {
    let mut s = scene(1 << 20);
    fill(&mut s.index, 4000);
    s.index.truncate(3000).unwrap();
    s.index.close().unwrap();
    assert!(s.index.get(0).is_err() && s.index.get(4000).is_err());
    assert!(s.index.ensure_open().is_err() && s.index.truncate(1).is_err());
    assert!(s.index.push(entry(0)).is_err() && s.index.resize(80).is_err());
    assert_eq!(fs::read(&s.path).unwrap(), bytes(3000));
}

#[test]
fn a_length_that_cannot_be_set_changes_nothing() {
    let mut s = scene(8000);
    fill(&mut s.index, 10);
    s.watch
        .refuse(|step| matches!(step, DiskStep::SetLength { .. }));
    assert!(s.index.resize(16_000).is_err() && s.index.trim_to_valid_size().is_err());
    s.watch.relent();
    assert_eq!((s.index.length(), s.index.max_entries()), (8000, 1000));
    // Too few bytes for the entries: refused, where Kafka cuts the file.
    assert!(matches!(s.index.resize(79), Err(Error::InvalidArgument(_))));
    assert_eq!(all(&s.index), entries(10));
}
