//! The bytes of a file in an overlay: their sources, and their number.
//!
//! Most stay where the overlay's base has them. What is not kept in memory is read, or computed again, from where the
//! file is by then ([`Origins`]).

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::io::storage::{Folder, ReadFile, read_exact_at};
use crate::types::TimestampMs;

/// Source of bytes.
#[derive(Clone, Debug)]
pub(crate) enum ByteSource {
    /// The file that had this name at the beginning, from this byte on.
    Base {
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
    Bytes(Arc<Vec<u8>>),
    /// An index of a `.log`, too long to keep: it is computed again when it is written.
    Rebuilt(Arc<dyn Rebuild>),
    /// They were written and not kept: only how many they are is known.
    Counted,
}

/// Computes bytes again that were not kept.
pub(crate) trait Rebuild: fmt::Debug + Send + Sync {
    /// The bytes of the file.
    ///
    /// # Errors
    /// `Io` where what they are computed from cannot be read.
    fn bytes(&self, origins: &Origins) -> Result<Vec<u8>>;
}

/// The files that were in the folder at the beginning, and their names by now.
#[derive(Clone, Debug)]
pub(crate) struct Origins {
    base: Folder,
    /// Names now, by the names then.
    renamed: HashMap<String, String>,
}

impl Origins {
    /// All under the names that they had at the beginning.
    #[must_use]
    pub(crate) fn new(base: Folder) -> Self {
        Self {
            base,
            renamed: HashMap::new(),
        }
    }

    /// Path of the folder.
    #[must_use]
    pub(crate) fn folder(&self) -> &Path {
        self.base.path()
    }

    /// The folder.
    pub(super) const fn base(&self) -> &Folder {
        &self.base
    }

    fn name<'a>(&'a self, name: &'a str) -> &'a str {
        self.renamed.get(name).map_or(name, String::as_str)
    }

    /// Path of the file that had this name at the beginning.
    #[must_use]
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.base.path_of(self.name(name))
    }

    /// The file that had this name at the beginning.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn open(&self, name: &str) -> Result<Arc<dyn ReadFile>> {
        self.base.open(self.name(name))
    }

    /// Modification time of the file that had this name at the beginning.
    fn modified_ms(&self, name: &str) -> Option<TimestampMs> {
        let stat = self.base.stat(self.name(name));
        stat.ok().map(|stat| stat.modified_ms)
    }

    /// Notes that the file now called `from` was renamed.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        let then = self.renamed.iter().find(|(_, now)| *now == from);
        let then = then.map_or_else(|| from.to_owned(), |(then, _)| then.clone());
        self.renamed.insert(then, to.to_owned());
    }
}

/// The bytes of a file: some from a source, followed by zeros.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    source: ByteSource,
    /// Bytes that the source gives.
    kept: u64,
    length: u64,
    /// The modification time that it was given.
    modified_ms: Option<TimestampMs>,
}

impl Content {
    const fn whole(source: ByteSource, length: u64) -> Self {
        Self {
            source,
            kept: length,
            length,
            modified_ms: None,
        }
    }

    /// No bytes.
    #[must_use]
    pub(crate) fn empty() -> Self {
        Self::bytes(Vec::new())
    }

    /// Given bytes.
    #[must_use]
    pub(crate) fn bytes(bytes: Vec<u8>) -> Self {
        let length = bytes.len() as u64;
        Self::whole(ByteSource::Bytes(Arc::new(bytes)), length)
    }

    /// Bytes that are computed again when they are written.
    #[must_use]
    pub(crate) fn rebuilt(how: Arc<dyn Rebuild>, length: u64) -> Self {
        Self::whole(ByteSource::Rebuilt(how), length)
    }

    /// Bytes that are counted, and not kept; none so far.
    #[must_use]
    pub(super) const fn counted() -> Self {
        Self::whole(ByteSource::Counted, 0)
    }

    /// Parts of a file of the base, one after the other.
    #[must_use]
    pub(crate) fn parts(name: &Arc<str>, parts: Vec<(u64, u64)>) -> Self {
        let lengths = parts.iter().map(|(_, length)| *length);
        let length = lengths.fold(0u64, u64::saturating_add);
        let name = Arc::clone(name);
        let parts = parts.into();
        Self::whole(ByteSource::Parts { name, parts }, length)
    }

    /// A file as it is in the base.
    #[must_use]
    pub(crate) fn base(name: &str, length: u64) -> Self {
        let source = ByteSource::Base {
            name: name.into(),
            from: 0,
        };
        Self::whole(source, length)
    }

    /// Its length.
    #[must_use]
    pub(crate) const fn length(&self) -> u64 {
        self.length
    }

    /// Bytes that the source gives; zeros follow up to the length.
    #[must_use]
    pub(crate) const fn kept(&self) -> u64 {
        self.kept
    }

    /// Source of its bytes.
    #[must_use]
    pub(crate) const fn source(&self) -> &ByteSource {
        &self.source
    }

    /// The same, cut or followed by zeros.
    #[must_use]
    pub(crate) fn resized(&self, length: u64) -> Self {
        Self {
            source: self.source.clone(),
            kept: self.kept.min(length),
            length,
            modified_ms: self.modified_ms,
        }
    }

    /// A part of a file of the base; `None` for bytes that are not there.
    #[must_use]
    pub(crate) fn part(&self, at: u64, length: u64) -> Option<Self> {
        let ByteSource::Base { name, from } = &self.source else {
            return None;
        };
        let source = ByteSource::Base {
            name: Arc::clone(name),
            from: from.saturating_add(at),
        };
        (at.saturating_add(length) <= self.kept).then_some(Self::whole(source, length))
    }

    /// The same in memory, so that it can be patched.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn in_memory(&self, origins: &Origins) -> Result<Self> {
        let wanted = usize::try_from(self.kept).unwrap_or(usize::MAX);
        let bytes = self.read(origins, 0, wanted)?;
        Ok(Self::bytes(bytes).resized(self.length))
    }

    /// Writes over bytes in memory, or adds some.
    pub(super) fn patch(&mut self, bytes: &[u8], position: u64) {
        if matches!(self.source, ByteSource::Counted) {
            let end = position.saturating_add(bytes.len() as u64);
            self.kept = self.kept.max(end);
            self.length = self.length.max(end);
        }
        let ByteSource::Bytes(held) = &mut self.source else {
            return;
        };
        let held = Arc::make_mut(held);
        held.truncate(usize::try_from(self.kept).unwrap_or(usize::MAX));
        let from = usize::try_from(position).unwrap_or(usize::MAX);
        let end = from.saturating_add(bytes.len());
        if held.len() < end {
            held.resize(end, 0);
        }
        if let Some(target) = held.get_mut(from..end) {
            target.copy_from_slice(bytes);
        }
        self.kept = held.len() as u64;
        self.length = self.length.max(self.kept);
    }

    /// Modification time of the file whose bytes these are, or the time that they were given; `None` if they are the
    /// plan's own.
    #[must_use]
    pub(super) fn modified_ms(&self, origins: &Origins) -> Option<TimestampMs> {
        match &self.source {
            _ if self.modified_ms.is_some() => self.modified_ms,
            ByteSource::Base { name, .. } | ByteSource::Parts { name, .. } => {
                origins.modified_ms(name)
            }
            _ => None,
        }
    }

    /// Gives a modification time.
    pub(super) const fn set_modified_ms(&mut self, ms: TimestampMs) {
        self.modified_ms = Some(ms);
    }

    /// Lets bytes in memory go that were cut off.
    pub(super) fn cut_to_kept(&mut self) {
        if let ByteSource::Bytes(held) = &mut self.source {
            let kept = usize::try_from(self.kept).unwrap_or(usize::MAX);
            if held.len() > kept {
                let held = Arc::make_mut(held);
                held.truncate(kept);
                held.shrink_to_fit();
            }
        }
    }

    /// Reads up to `wanted` bytes from `at`.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn read(&self, origins: &Origins, at: u64, wanted: usize) -> Result<Vec<u8>> {
        let room = usize::try_from(self.length.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; wanted.min(room)];
        if !bytes.is_empty() {
            read_exact_at(&*self.open(origins, PathBuf::new())?, &mut bytes, at)?;
        }
        Ok(bytes)
    }

    /// Opens it for reading, under the name of the file in the base or else under `path`.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn open(&self, origins: &Origins, path: PathBuf) -> Result<Arc<dyn ReadFile>> {
        let (bytes, path) = match &self.source {
            _ if self.kept == 0 => (OpenBytes::Held(Arc::default()), path),
            ByteSource::Base { name, from } => {
                let file = origins.open(name)?;
                let path = file.path().to_path_buf();
                (OpenBytes::Base { file, from: *from }, path)
            }
            ByteSource::Parts { name, parts } => {
                let file = origins.open(name)?;
                let path = file.path().to_path_buf();
                let parts = Arc::clone(parts);
                (OpenBytes::Parts { file, parts }, path)
            }
            ByteSource::Bytes(held) => (OpenBytes::Held(Arc::clone(held)), path),
            ByteSource::Rebuilt(how) => (OpenBytes::Held(Arc::new(how.bytes(origins)?)), path),
            ByteSource::Counted => {
                let shown = path.display();
                return Err(Error::internal(format_args!(
                    "{shown}: only its length was kept"
                )));
            }
        };
        Ok(Arc::new(OpenContent {
            bytes,
            path,
            kept: self.kept,
            length: self.length,
        }))
    }
}

/// Source of the bytes of an open file.
#[derive(Debug)]
enum OpenBytes {
    Base {
        file: Arc<dyn ReadFile>,
        from: u64,
    },
    Parts {
        file: Arc<dyn ReadFile>,
        parts: Arc<[(u64, u64)]>,
    },
    Held(Arc<Vec<u8>>),
}

/// A file of an overlay, open for reading as it was then.
#[derive(Debug)]
struct OpenContent {
    bytes: OpenBytes,
    path: PathBuf,
    kept: u64,
    length: u64,
}

impl OpenContent {
    /// Fills `target` with bytes that the source has.
    fn read_kept(&self, target: &mut [u8], at: u64) -> io::Result<usize> {
        match &self.bytes {
            OpenBytes::Base { file, from } => file.read_at(target, from.saturating_add(at)),
            OpenBytes::Parts { file, parts } => {
                let (mut rest, mut before, mut done) = (target, at, 0usize);
                for &(from, length) in parts.iter() {
                    let here = usize::try_from(length.saturating_sub(before)).unwrap_or(usize::MAX);
                    let (part, after) = rest.split_at_mut(here.min(rest.len()));
                    if !part.is_empty() {
                        let read = file.read_at(part, from.saturating_add(before))?;
                        done = done.saturating_add(read);
                        if read < part.len() {
                            break;
                        }
                    }
                    (rest, before) = (after, before.saturating_sub(length));
                }
                Ok(done)
            }
            OpenBytes::Held(held) => {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                let held = held.get(at..).unwrap_or_default();
                let read = held.len().min(target.len());
                for (to, byte) in target.iter_mut().zip(held) {
                    *to = *byte;
                }
                Ok(read)
            }
        }
    }
}

impl ReadFile for OpenContent {
    fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        Ok(self.length)
    }

    fn origin(&self, position: u64) -> u64 {
        match &self.bytes {
            OpenBytes::Base { from, .. } => from.saturating_add(position),
            OpenBytes::Parts { parts, .. } => {
                let mut before = position;
                for &(from, length) in parts.iter() {
                    if before < length {
                        return from.saturating_add(before);
                    }
                    before = before.saturating_sub(length);
                }
                position
            }
            OpenBytes::Held(_) => position,
        }
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let left = |end: u64| usize::try_from(end.saturating_sub(position)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left(self.length));
        let (target, zeros) = match buffer.split_at_mut_checked(wanted) {
            Some((all, _)) => all.split_at_mut(left(self.kept).min(wanted)),
            None => return Ok(0),
        };
        if !target.is_empty() {
            let read = self.read_kept(target, position)?;
            if read < target.len() {
                // No zeros stand in for what was cut.
                return Ok(read);
            }
        }
        zeros.fill(0);
        Ok(wanted)
    }
}
