//! The bytes of a file in a folder under plan: where they come from, and how many of them there are.
//!
//! Most stay on the disk. What is not kept in memory is read, or made again, where the file is then ([`Places`]).

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::io::file::read_at;

/// Where bytes come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The file that had this name at the beginning, from this byte on.
    Disk {
        /// Its name then.
        name: Arc<str>,
        /// The first byte taken.
        from: u64,
    },
    /// Parts of the file that had this name at the beginning: where each begins, and its length.
    Parts {
        /// Its name then.
        name: Arc<str>,
        /// The parts, in order.
        parts: Arc<[(u64, u64)]>,
    },
    /// These.
    Bytes(Arc<[u8]>),
    /// An index made from a `.log`, too much to keep: it is made again when it is written.
    Rebuilt(Arc<dyn Rebuild>),
}

/// Makes bytes again that were not kept.
pub trait Rebuild: std::fmt::Debug + Send + Sync {
    /// The bytes of the file.
    ///
    /// # Errors
    /// `Io` where what they are made from cannot be read.
    fn bytes(&self, places: &Places) -> Result<Vec<u8>>;
}

/// Where the files are that lay in the folder at the beginning.
#[derive(Clone, Debug)]
pub struct Places {
    folder: PathBuf,
    /// Names now, by the names then.
    moved: HashMap<String, String>,
}

impl Places {
    /// All under their names of the beginning.
    #[must_use]
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_path_buf(),
            moved: HashMap::new(),
        }
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where the file is that had this name at the beginning.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        let now = self.moved.get(name).map_or(name, String::as_str);
        self.folder.join(now)
    }

    /// The file now called `from` takes the name `to`.
    pub fn rename(&mut self, from: &str, to: &str) {
        let then = self.moved.iter().find(|(_, now)| *now == from);
        let then = then.map_or_else(|| from.to_owned(), |(then, _)| then.clone());
        self.moved.insert(then, to.to_owned());
    }
}

/// The bytes of a file: some from a source, zeros behind.
#[derive(Clone, Debug)]
pub struct Content {
    source: Source,
    /// Bytes that the source gives.
    kept: u64,
    length: u64,
}

impl Content {
    /// No bytes.
    #[must_use]
    pub fn empty() -> Self {
        Self::bytes(Vec::new())
    }

    /// Bytes at hand.
    #[must_use]
    pub fn bytes(bytes: Vec<u8>) -> Self {
        let length = bytes.len() as u64;
        Self {
            source: Source::Bytes(bytes.into()),
            kept: length,
            length,
        }
    }

    /// Bytes that will be made again.
    #[must_use]
    pub fn rebuilt(how: Arc<dyn Rebuild>, length: u64) -> Self {
        Self {
            source: Source::Rebuilt(how),
            kept: length,
            length,
        }
    }

    /// Parts of a file on the disk, one behind the other.
    #[must_use]
    pub fn parts(name: &Arc<str>, parts: Vec<(u64, u64)>) -> Self {
        let length = parts
            .iter()
            .fold(0u64, |sum, (_, length)| sum.saturating_add(*length));
        Self {
            source: Source::Parts {
                name: Arc::clone(name),
                parts: parts.into(),
            },
            kept: length,
            length,
        }
    }

    /// A file as it is on the disk.
    #[must_use]
    pub fn disk(name: &str, length: u64) -> Self {
        let source = Source::Disk {
            name: name.into(),
            from: 0,
        };
        Self {
            source,
            kept: length,
            length,
        }
    }

    /// Its length.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// Bytes that the source gives; zeros follow up to the length.
    #[must_use]
    pub const fn kept(&self) -> u64 {
        self.kept
    }

    /// Where its bytes come from.
    #[must_use]
    pub const fn source(&self) -> &Source {
        &self.source
    }

    /// The same, cut or followed by zeros.
    #[must_use]
    pub fn resized(&self, length: u64) -> Self {
        Self {
            source: self.source.clone(),
            kept: self.kept.min(length),
            length,
        }
    }

    /// A part of a file on the disk; `None` for bytes that are not there.
    #[must_use]
    pub fn part(&self, at: u64, length: u64) -> Option<Self> {
        let Source::Disk { name, from } = &self.source else {
            return None;
        };
        let source = Source::Disk {
            name: Arc::clone(name),
            from: from.saturating_add(at),
        };
        (at.saturating_add(length) <= self.kept).then_some(Self {
            source,
            kept: length,
            length,
        })
    }

    /// Up to `wanted` bytes from `at`.
    ///
    /// # Errors
    /// `Io`.
    pub fn read(&self, places: &Places, at: u64, wanted: usize) -> Result<Vec<u8>> {
        let room = usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; wanted.min(room)];
        let given = usize::try_from(self.kept.saturating_sub(at)).unwrap_or(usize::MAX);
        let given = given.min(bytes.len());
        let Some(target) = bytes.get_mut(..given) else {
            return Ok(bytes);
        };
        let copy = |target: &mut [u8], all: &[u8]| {
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            for (to, byte) in target.iter_mut().zip(all.get(at..).unwrap_or_default()) {
                *to = *byte;
            }
        };
        match &self.source {
            Source::Disk { name, from } if given > 0 => {
                let path = places.path(name);
                let file = File::open(&path).map_err(Error::io(&path))?;
                read_whole(&file, &path, target, from.saturating_add(at))?;
            }
            Source::Disk { .. } => {}
            Source::Parts { name, parts } => {
                let path = places.path(name);
                let file = File::open(&path).map_err(Error::io(&path))?;
                let (mut target, mut before) = (target, at);
                for &(from, length) in parts.iter() {
                    let here = usize::try_from(length.saturating_sub(before)).unwrap_or(usize::MAX);
                    let (part, behind) = target.split_at_mut(here.min(target.len()));
                    read_whole(&file, &path, part, from.saturating_add(before))?;
                    (target, before) = (behind, before.saturating_sub(length));
                }
            }
            Source::Bytes(all) => copy(target, all),
            Source::Rebuilt(how) => copy(target, &how.bytes(places)?),
        }
        Ok(bytes)
    }
}

/// Fills `target` from `position` on.
///
/// # Errors
/// `Io`, also where the file ends before: somebody has cut it since it was planned with.
fn read_whole(file: &File, path: &Path, target: &mut [u8], position: u64) -> Result<()> {
    match read_at(file, target, position).map_err(Error::io(path))? {
        read if read < target.len() => Err(Error::io(path)(io::ErrorKind::UnexpectedEof.into())),
        _ => Ok(()),
    }
}
