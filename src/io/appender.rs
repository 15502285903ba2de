//! The writing end of a `.log` (`FileRecords`): appends at a position that is tracked here, not read from the file.
//!
//! The end counted here is the log's; the file may be longer (preallocated, or torn by a write that failed). A failed
//! append is rolled back if the disk allows, so that a full disk leaves the file unchanged; a crash leaves whatever was
//! written, and recovery cuts it.
//!
//! A log that has grown gets blocks allocated after its end, as much as its size and at most `MOST_ROOM`. They do not
//! count towards the file's length, so no reader sees them. The file system allocates them once instead of 4 KiB at a
//! time. They are given back at a roll and a clean close, and after a crash by the next writer that opens the log. If
//! the disk allocates none, writing does without.
//!
//! If the output counts only once it is on the device ([`Disk::syncing_beside`]), appended bytes are written back in
//! pieces of `WRITE_BACK` while the log grows. A sync then waits for the last piece only, not for a whole segment.
//!
//! [`Disk::syncing_beside`]: super::disk::Disk::syncing_beside

use std::path::Path;

use super::storage::StoredFile;
use crate::error::{Error, Result};
use crate::types::Position;

/// Longest `.log` Kafka opens: its positions are 32-bit.
const MAX_LENGTH: u64 = i32::MAX as u64;
/// Logs that are shorter get no room ahead.
const LEAST_ROOM: u64 = 1 << 20;
/// The most room ahead.
const MOST_ROOM: u64 = 16 << 20;
/// Bytes that are written back at a time.
const WRITE_BACK: u64 = 8 << 20;

/// Policy that says when appended bytes are synced to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Only on request, and at a clean close.
    Never,
    /// At a roll, and as soon as an append finds that so many records or milliseconds have passed since the last sync
    /// (`flush.messages`, `flush.ms`; Kafka's defaults are never).
    Every {
        /// Records appended since.
        records: i64,
        /// Milliseconds gone by since.
        ms: i64,
    },
    /// Before an append returns.
    EveryAppend,
}

impl SyncPolicy {
    /// Only when a segment is rolled: Kafka's default.
    pub const AT_ROLL: Self = Self::Every {
        records: i64::MAX,
        ms: i64::MAX,
    };

    /// Returns whether an append that leaves so much unsynced must sync.
    #[must_use]
    pub const fn is_due(self, records: i64, ms: i64) -> bool {
        match self {
            Self::Never => false,
            Self::Every {
                records: most,
                ms: longest,
            } => records >= most || ms >= longest,
            Self::EveryAppend => true,
        }
    }
}

/// Bytes of one write.
#[derive(Clone, Copy, Debug)]
pub struct AppendedBytes<'a> {
    /// All bytes of it.
    pub all: &'a [u8],
    /// Number of leading bytes that the previous write already put into the file.
    pub begun: usize,
    /// Number of bytes that count from now on. The others are the beginning of the next append.
    pub whole: usize,
}

impl<'a> From<&'a [u8]> for AppendedBytes<'a> {
    /// All of them.
    fn from(all: &'a [u8]) -> Self {
        Self {
            all,
            begun: 0,
            whole: all.len(),
        }
    }
}

/// A `.log` that is appended to.
#[derive(Debug)]
pub(crate) struct Appender<F> {
    file: F,
    /// True if the file is known to have no other name.
    is_own: bool,
    end: Position,
    /// Bytes beyond the end that are the beginning of what may be appended next.
    ahead: u64,
    /// The file's length, where it is ours alone to change.
    length: u64,
    /// Position up to which write-back to the device has begun.
    written_back: Position,
    /// Position up to which the file has allocated blocks, if beyond its end; `None` if the disk allocates none.
    room: Option<Position>,
}

impl<F: StoredFile> Appender<F> {
    /// Takes a `.log` whose bytes all count.
    ///
    /// # Errors
    /// `Io`; `CorruptRecord` for a file longer than Kafka's positions reach.
    pub(crate) fn open(file: F) -> Result<Self> {
        let length = file.length()?;
        if length > MAX_LENGTH {
            let expected = format!("at most {MAX_LENGTH} bytes");
            let error = Error::corrupt("segment size", MAX_LENGTH, expected, length);
            return Err(error.at(file.path()));
        }
        free_room(&file)?;
        Ok(Self {
            file,
            is_own: false,
            end: length,
            ahead: 0,
            length,
            written_back: length,
            room: Some(0),
        })
    }

    /// Takes a new, empty `.log` and gives it `length` bytes of zeros (`preallocate`), or none.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn create(file: F, length: u64) -> Result<Self> {
        let mut made = Self::open(file)?;
        made.is_own = true;
        if length > 0 {
            made.file.set_length(length)?;
            made.end = 0;
            made.written_back = 0;
            made.length = length;
        }
        Ok(made)
    }

    /// Sets the end: only the first `end` bytes count, zeros follow.
    pub(crate) fn ends_at(&mut self, end: Position) {
        self.end = self.end.min(end);
        self.written_back = self.written_back.min(end);
    }

    /// The file.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Position of the next append.
    #[must_use]
    pub(crate) const fn end(&self) -> Position {
        self.end
    }

    /// The end, and after it what was written ahead of the next append.
    #[must_use]
    pub(crate) const fn written(&self) -> Position {
        self.end.saturating_add(self.ahead)
    }

    /// Appends, and returns the position.
    ///
    /// # Errors
    /// `InvalidArgument` where positions would overflow; `Io`, and then the end is what it was.
    pub(crate) fn append(&mut self, bytes: AppendedBytes<'_>) -> Result<Position> {
        let position = self.end;
        let size = bytes.all.len() as u64;
        let end = position.saturating_add(size);
        if end > MAX_LENGTH {
            return Err(Error::InvalidArgument(format!(
                "{}: append of {size} bytes at {position} overflows the segment",
                self.path().display(),
            )));
        }
        let (from, new) = match bytes.all.get(bytes.begun..) {
            Some(new) if bytes.begun as u64 == self.ahead => (self.written(), new),
            _ => (position, bytes.all),
        };
        self.detach()?;
        self.make_room(from, end);
        if let Err(error) = self.file.write_at(new, from) {
            self.ahead = 0;
            // What got through is cut off if it can be; if not, it lies beyond the end and recovery will cut it.
            if let Ok(()) = self.file.set_length(position) {
                self.length = position;
                self.room = None;
            }
            return Err(error);
        }
        let whole = size.min(bytes.whole as u64);
        self.end = position.saturating_add(whole);
        self.ahead = size.saturating_sub(whole);
        self.length = self.length.max(end);
        self.write_back();
        Ok(position)
    }

    /// Starts writing back the bytes since the last call.
    fn write_back(&mut self) {
        let size = self.end.saturating_sub(self.written_back);
        if size >= WRITE_BACK {
            self.file.write_back(self.written_back, size);
            self.written_back = self.end;
        }
    }

    /// Takes the file's bytes from what other names it has: they are not the log's.
    fn detach(&mut self) -> Result<()> {
        if !self.is_own {
            self.file.detach()?;
            self.is_own = true;
        }
        Ok(())
    }

    /// Room for what is about to be written, and ahead of it.
    fn make_room(&mut self, position: Position, end: Position) {
        let Some(room) = self.room.filter(|&room| room < end) else {
            return;
        };
        if position >= LEAST_ROOM {
            let from = room.max(position);
            let to = end.saturating_add(position.min(MOST_ROOM)).min(MAX_LENGTH);
            let is_given = self.file.make_room(from, to.saturating_sub(from));
            self.room = is_given.then_some(to);
        }
    }

    /// Cuts the log at `position`; nothing where it ends before.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn truncate(&mut self, position: Position) -> Result<u64> {
        let cut = self.end.saturating_sub(position);
        let end = self.end.saturating_sub(cut);
        if self.length > end || self.room.is_some_and(|room| room > end) {
            self.detach()?;
            self.file.set_length(end)?;
            self.length = end;
            self.room = self.room.map(|_| 0);
        }
        self.end = end;
        self.written_back = self.written_back.min(end);
        self.ahead = 0;
        Ok(cut)
    }

    /// Cuts off preallocated zeros beyond the log's end, and frees the blocks there.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn trim(&mut self) -> Result<()> {
        self.truncate(self.end).map(drop)
    }

    /// Syncs the file to the disk.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync()
    }
}

/// Frees the blocks beyond the end that a crash left with a `.log`.
///
/// # Errors
/// `Io`.
pub(crate) fn free_room(file: &impl StoredFile) -> Result<bool> {
    // A file's last block and what a file system keeps of its own are less than the room that any log was given.
    file.free_room(LEAST_ROOM)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, Mutex};

    use super::super::disk::{Disk, DiskStep, Faults, InjectedFailure};
    use super::super::folder::{DiskFile, DiskFolder};
    use super::super::storage::{ReadFile, Storage as _};
    use super::*;

    fn file(disk: &Disk, path: &Path) -> DiskFile {
        let folder = DiskFolder::new(path.parent().unwrap(), disk);
        folder.open_file("a.log").unwrap()
    }

    #[derive(Debug, Default)]
    struct Full(AtomicBool);

    impl Faults for Full {
        fn before(&self, step: DiskStep, _path: &Path) -> Result<(), InjectedFailure> {
            match step {
                DiskStep::Write { .. } if self.0.load(Ordering::Relaxed) => Err(InjectedFailure {
                    written: 3,
                    error: io::ErrorKind::StorageFull.into(),
                }),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn a_full_disk_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let full = Arc::new(Full::default());
        let disk = Disk::with_faults(Arc::clone(&full) as Arc<dyn Faults>);
        let mut log = Appender::open(file(&disk, &path)).unwrap();
        assert_eq!(log.append(b"hello"[..].into()).unwrap(), 0);
        full.0.store(true, Ordering::Relaxed);
        assert!(matches!(
            log.append(b"world"[..].into()),
            Err(Error::Io { .. })
        ));
        assert_eq!(
            (log.end(), std::fs::read(&path).unwrap()),
            (5, b"hello".to_vec())
        );
        full.0.store(false, Ordering::Relaxed);
        assert_eq!(log.append(b" world"[..].into()).unwrap(), 5);
        assert_eq!(std::fs::read(&path).unwrap(), b"hello world");
        assert_eq!(log.truncate(7).unwrap(), 4);
        assert_eq!(log.truncate(9).unwrap(), 0);
        assert_eq!(std::fs::read(&path).unwrap(), b"hello w");
    }

    /// A write that ends inside a batch, and the one that continues with it; and what becomes of it if none does.
    #[test]
    fn a_batch_that_is_begun() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let full = Arc::new(Full::default());
        let disk = Disk::with_faults(Arc::clone(&full) as Arc<dyn Faults>);
        let mut log = Appender::open(file(&disk, &path)).unwrap();
        let bytes = |all: &'static [u8], begun, whole| AppendedBytes { all, begun, whole };
        let on_disk = || std::fs::read(&path).unwrap();
        assert_eq!(log.append(bytes(b"one two thr", 0, 8)).unwrap(), 0);
        assert_eq!((log.end(), log.written()), (8, 11));
        assert_eq!(on_disk(), b"one two thr");
        assert_eq!(log.append(bytes(b"thREE four fi", 3, 11)).unwrap(), 8);
        assert_eq!((log.end(), log.written()), (19, 21));
        assert_eq!(on_disk(), b"one two thrEE four fi");
        // Not begun as this says: it is written again.
        assert_eq!(log.append(bytes(b"FIVE s", 1, 5)).unwrap(), 19);
        assert_eq!(on_disk(), b"one two thrEE four FIVE s");
        full.0.store(true, Ordering::Relaxed);
        assert!(log.append(bytes(b"six sev", 1, 4)).is_err());
        assert_eq!((log.end(), log.written()), (24, 24));
        assert_eq!(on_disk(), b"one two thrEE four FIVE ");
        full.0.store(false, Ordering::Relaxed);
        assert_eq!(log.append(bytes(b"six sev", 1, 4)).unwrap(), 24);
        assert_eq!(on_disk(), b"one two thrEE four FIVE six sev");
        log.trim().unwrap();
        assert_eq!((log.end(), log.written()), (28, 28));
        assert_eq!(on_disk(), b"one two thrEE four FIVE six ");
    }

    #[test]
    fn preallocated_zeros_are_not_the_logs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let mut log = Appender::create(file(&Disk::default(), &path), 10).unwrap();
        assert_eq!(log.append(b"abc"[..].into()).unwrap(), 0);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 10);
        log.trim().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"abc");
        assert!(
            log.append(vec![0; i32::MAX as usize - 2][..].into())
                .is_err()
        );
        assert_eq!(log.end(), 3);
    }

    /// Says what was asked to go to the device.
    #[derive(Debug)]
    struct Watched {
        file: DiskFile,
        asked: Arc<Mutex<Vec<(u64, u64)>>>,
    }

    impl ReadFile for Watched {
        fn path(&self) -> &Path {
            self.file.path()
        }
        fn length(&self) -> Result<u64> {
            self.file.length()
        }
        fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
            self.file.read_at(buffer, position)
        }
    }

    impl StoredFile for Watched {
        fn write_at(&self, bytes: &[u8], position: u64) -> Result<()> {
            self.file.write_at(bytes, position)
        }
        fn set_length(&self, length: u64) -> Result<()> {
            self.file.set_length(length)
        }
        fn write_back(&self, position: u64, length: u64) {
            self.asked.lock().unwrap().push((position, length));
            self.file.write_back(position, length);
        }
        fn sync(&self) -> Result<()> {
            self.file.sync()
        }
    }

    #[test]
    fn what_is_appended_goes_to_the_device_in_pieces() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        std::fs::write(&path, [1; 10]).unwrap();
        let asked = Arc::default();
        let mut log = Appender::open(Watched {
            file: file(&Disk::default(), &path),
            asked: Arc::clone(&asked),
        })
        .unwrap();
        let piece = vec![7; 3 << 20];
        for _ in 0..5 {
            log.append(piece[..].into()).unwrap();
        }
        assert_eq!(*asked.lock().unwrap(), [(10, 9 << 20)]);
        log.truncate(100).unwrap();
        log.append(piece[..].into()).unwrap();
        log.append(vec![8; 8 << 20][..].into()).unwrap();
        assert_eq!(asked.lock().unwrap()[1..], [(100, 11 << 20)]);
        log.sync().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(
            (bytes.len(), bytes[99], bytes[100]),
            (100 + (11 << 20), 7, 7)
        );
    }

    /// Room is no part of the file's length, and is gone when the file is trimmed.
    #[cfg(target_os = "linux")]
    #[test]
    fn room_ahead() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let mut log = Appender::open(file(&Disk::default(), &path)).unwrap();
        let piece = vec![7; 600_000];
        let on_disk = |log: &Appender<DiskFile>| {
            let found = std::fs::metadata(&path).unwrap();
            assert_eq!(found.len(), log.end());
            found.blocks() * 512
        };
        for _ in 0..2 {
            log.append(piece[..].into()).unwrap();
        }
        assert!(on_disk(&log) < 1_200_000 + LEAST_ROOM / 2);
        log.append(piece[..].into()).unwrap();
        if log.room.is_none() {
            return; // Not every file system knows how.
        }
        assert!(on_disk(&log) >= 3_000_000);
        log.trim().unwrap();
        assert!(on_disk(&log) < 1_800_000 + LEAST_ROOM / 2);
        log.append(piece[..].into()).unwrap();
        assert!(on_disk(&log) >= 4_200_000);
        log.truncate(5).unwrap();
        assert!(on_disk(&log) < LEAST_ROOM);
        assert_eq!(std::fs::read(&path).unwrap(), [7; 5]);
        // A crash, and the next to open it.
        for _ in 0..3 {
            log.append(piece[..].into()).unwrap();
        }
        let (before, crashed) = (std::fs::metadata(&path).unwrap(), on_disk(&log));
        assert!(crashed >= 1_800_000 + LEAST_ROOM);
        drop(log);
        let log = Appender::open(file(&Disk::default(), &path)).unwrap();
        assert!(on_disk(&log) < 1_800_000 + LEAST_ROOM / 2);
        let after = std::fs::metadata(&path).unwrap();
        assert_eq!(after.modified().unwrap(), before.modified().unwrap());
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((bytes.len(), &bytes[..6]), (1_800_005, &[7; 6][..]));
    }

    #[test]
    fn policies() {
        assert!(!SyncPolicy::Never.is_due(i64::MAX, i64::MAX));
        assert!(!SyncPolicy::AT_ROLL.is_due(i64::MAX - 1, i64::MAX - 1));
        assert!(SyncPolicy::EveryAppend.is_due(0, 0));
        let every = SyncPolicy::Every { records: 2, ms: 10 };
        assert!(every.is_due(2, 0) && every.is_due(0, 10) && !every.is_due(1, 9));
    }
}
