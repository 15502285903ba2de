//! A folder in memory that may lose its power, as a [`Storage`]: it records what is written and what is synced, and gives
//! folders as a power loss can leave them.
//!
//! | since | a power loss may leave |
//! |---|---|
//! | the file's last sync | of every write any of its sectors, some of them torn, or zeros in their place; any of the lengths set |
//! | the folder's last sync | any of the creations, renames and removals, without those before them |
//!
//! A write's first bytes, up to [`HEAD`], are lost together: no checksum covers a batch's base offset and leader epoch, and a
//! batch that lost only them passes for another one, in Kafka and here.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::format::batch::ATTRIBUTES_AT;
use crate::io::storage::{
    FileStat, Folder, FolderEntries, FolderEntry, ReadFile, ReadFolder, Storage, StoredFile,
};
use crate::io::stored_index::StoredIndex;
use crate::types::TimestampMs;

const SECTOR: usize = 512;
/// A batch up to its checksum, and that.
const HEAD: usize = ATTRIBUTES_AT;

/// Numbers that look random, the same for the same seed (SplitMix64).
#[derive(Debug)]
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n as u64).unwrap()
    }
}

/// Share of unsynced data that is on the device.
#[derive(Clone, Copy)]
enum Share {
    Nothing,
    Half,
    All,
}

impl Share {
    fn pick(chance: &mut Chance) -> Self {
        [Self::Nothing, Self::Half, Self::All][chance.below(3)]
    }

    fn has_next(self, chance: &mut Chance) -> bool {
        match self {
            Self::Nothing => false,
            Self::Half => chance.below(2) == 1,
            Self::All => true,
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Length(length) => bytes.resize(*length, 0),
            Self::Write(at, new) => {
                let end = at + new.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*at..end].copy_from_slice(new);
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
struct File {
    now: Vec<u8>,
    synced: Vec<u8>,
    since: Vec<Change>,
}

impl File {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.since.push(change);
    }

    fn sync(&mut self) {
        self.synced.clone_from(&self.now);
        self.since.clear();
    }

    /// Picks what the device may have of it.
    fn left(&self, chance: &mut Chance) -> Vec<u8> {
        let mut left = self.synced.clone();
        let share = Share::pick(chance);
        for change in &self.since {
            match change {
                Change::Length(_) if share.has_next(chance) => change.apply(&mut left),
                Change::Length(_) => {}
                Change::Write(at, bytes) => self.write_left(&mut left, (*at, bytes), share, chance),
            }
        }
        left
    }

    fn write_left(
        &self,
        left: &mut Vec<u8>,
        (at, bytes): (usize, &[u8]),
        share: Share,
        chance: &mut Chance,
    ) {
        let mut from = 0;
        while from < bytes.len() {
            let mut sector = SECTOR - (at + from) % SECTOR;
            if from == 0 && sector < HEAD {
                sector += SECTOR;
            }
            let to = bytes.len().min(from + sector);
            let mut piece = bytes[from..to].to_vec();
            if matches!(share, Share::Half) {
                match chance.below(8) {
                    0 => piece.truncate(chance.below(piece.len() + 1)),
                    // A block that was allocated and not written.
                    1 if at + from >= self.synced.len() => piece.fill(0),
                    _ => {}
                }
            }
            if share.has_next(chance) && !piece.is_empty() {
                Change::Write(at + from, piece).apply(left);
            }
            from = to;
        }
    }
}

/// The numbers of the files that names are of.
type Names = BTreeMap<String, usize>;

#[derive(Clone, Debug)]
enum NameChange {
    Create(String, usize),
    Rename(String, String),
    Remove(String),
}

impl NameChange {
    /// Returns whether there was a file of that name.
    fn apply(&self, names: &mut Names) -> bool {
        match self {
            Self::Create(name, file) => names.insert(name.clone(), *file).is_some(),
            Self::Rename(from, to) => match names.remove(from) {
                Some(file) => {
                    names.insert(to.clone(), file);
                    true
                }
                None => false,
            },
            Self::Remove(name) => names.remove(name).is_some(),
        }
    }
}

#[derive(Debug, Default)]
struct Device {
    files: Vec<File>,
    now: Names,
    synced: Names,
    since: Vec<NameChange>,
    /// Chance that the power is lost before a step.
    losses: Option<Chance>,
    /// State after each of those losses.
    lost: Vec<Image>,
}

/// The power is lost before one of so many steps.
const ONE_IN: usize = 4;

impl Device {
    fn step(&mut self) {
        if let Some(mut chance) = self.losses.take() {
            if chance.below(ONE_IN) == 0 {
                let left = self.after_power_loss(&mut chance);
                self.lost.push(left);
            }
            self.losses = Some(chance);
        }
    }

    fn rename(&mut self, change: NameChange) -> bool {
        self.step();
        let is_one = change.apply(&mut self.now);
        self.since.push(change);
        is_one
    }

    fn create(&mut self, name: &str) -> usize {
        let number = self.files.len();
        self.rename(NameChange::Create(name.to_owned(), number));
        self.files.push(File::default());
        number
    }

    fn change(&mut self, file: usize, change: Change) {
        self.step();
        self.files[file].change(change);
    }

    fn sync(&mut self, file: usize) {
        self.step();
        self.files[file].sync();
    }

    fn after_power_loss(&self, chance: &mut Chance) -> Image {
        let mut names = self.synced.clone();
        let share = Share::pick(chance);
        for change in &self.since {
            if share.has_next(chance) {
                change.apply(&mut names);
            }
        }
        let left = Image::default();
        for (name, file) in names {
            let bytes = self.files[file].left(chance);
            left.put(&name, &bytes, true).unwrap();
        }
        left.sync_names().unwrap();
        left
    }
}

/// A folder on such a device.
#[derive(Clone, Debug, Default)]
pub(super) struct Image(Arc<Mutex<Device>>);

impl Image {
    fn device(&self) -> MutexGuard<'_, Device> {
        self.0.lock().unwrap()
    }

    /// Loses the power from now on, before some of the steps, at random.
    pub(super) fn lose_power(&self, chance: Chance) {
        self.device().losses = Some(chance);
    }

    /// Folders as the losses since the last time left this one.
    pub(super) fn take_lost(&self) -> Vec<Self> {
        std::mem::take(&mut self.device().lost)
    }
}

impl ReadFolder for Image {
    fn path(&self) -> &Path {
        Path::new("t-0")
    }

    fn entries(&self) -> Result<FolderEntries<'_>> {
        let names: Vec<_> = self.device().now.keys().cloned().collect();
        let names = names.into_iter();
        Ok(Box::new(
            names.map(|name| Ok(FolderEntry::new(self, name, false))),
        ))
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        let path = self.path_of(name);
        let file = self.device().now.get(name).copied();
        let Some(file) = file else {
            return Err(Error::io(path)(io::ErrorKind::NotFound.into()));
        };
        let image = self.clone();
        Ok(Arc::new(ImageFile { image, file, path }))
    }

    fn contains(&self, name: &str) -> Result<bool> {
        Ok(self.device().now.contains_key(name))
    }

    fn folder(&self, name: &str) -> Folder {
        Folder::at(self.path_of(name))
    }

    fn is_folder(&self) -> Result<bool> {
        Ok(true)
    }

    fn above(&self) -> Folder {
        Folder::at("")
    }

    fn stat(&self, name: &str) -> Result<FileStat> {
        Ok(FileStat {
            length: self.open(name)?.length()?,
            modified_ms: 0,
        })
    }
}

impl Storage for Image {
    type File = ImageFile;
    type IndexFile<const N: usize> = StoredIndex<N, ImageFile>;

    fn open_file(&self, name: &str) -> Result<ImageFile> {
        let mut device = self.device();
        let known = device.now.get(name).copied();
        Ok(ImageFile {
            file: known.unwrap_or_else(|| device.create(name)),
            image: self.clone(),
            path: self.path_of(name),
        })
    }

    fn open_index<const N: usize>(
        &self,
        name: &str,
        max_size: usize,
    ) -> Result<StoredIndex<N, ImageFile>> {
        let is_new = !self.contains(name)?;
        StoredIndex::open(self.open_file(name)?, max_size, is_new)
    }

    fn rename(&self, from: &str, to: &str) -> Result<bool> {
        let change = NameChange::Rename(from.to_owned(), to.to_owned());
        Ok(self.device().rename(change))
    }

    fn remove(&self, name: &str) -> Result<bool> {
        Ok(self.device().rename(NameChange::Remove(name.to_owned())))
    }

    fn put(&self, name: &str, bytes: &[u8], sync: bool) -> Result<()> {
        let file = self.open_file(name)?;
        file.set_length(0)?;
        file.write_at(bytes, 0)?;
        if sync { file.sync() } else { Ok(()) }
    }

    fn set_modified_ms(&self, _: &str, _: TimestampMs) -> Result<()> {
        Ok(())
    }

    fn sync_names(&self) -> Result<()> {
        let mut device = self.device();
        device.step();
        device.synced = device.now.clone();
        device.since.clear();
        Ok(())
    }
}

/// A file of an [`Image`].
#[derive(Debug)]
pub(super) struct ImageFile {
    image: Image,
    file: usize,
    path: PathBuf,
}

impl ReadFile for ImageFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        Ok(self.image.device().files[self.file].now.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let device = self.image.device();
        let bytes = &device.files[self.file].now;
        let from = usize::try_from(position).unwrap().min(bytes.len());
        let read = buffer.len().min(bytes.len() - from);
        buffer[..read].copy_from_slice(&bytes[from..from + read]);
        Ok(read)
    }
}

impl StoredFile for ImageFile {
    fn write_at(&self, bytes: &[u8], position: u64) -> Result<()> {
        let at = usize::try_from(position).unwrap();
        let change = Change::Write(at, bytes.to_vec());
        self.image.device().change(self.file, change);
        Ok(())
    }

    fn set_length(&self, length: u64) -> Result<()> {
        let change = Change::Length(usize::try_from(length).unwrap());
        self.image.device().change(self.file, change);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.image.device().sync(self.file);
        Ok(())
    }
}
