//! The bytes of one `.log` file, up to the length that was fixed at planning.
//!
//! A closed segment may be mapped. The active one, which a broker may append to, truncate or trim at any moment, is
//! copied in windows (`pread`), so that nothing a broker does can crash us; if the file is shorter than planned, it
//! ends there. A closed segment that cannot be mapped is copied too: address space may be limited (Spark's
//! `spark.executor.pyspark.memory` is an `RLIMIT_AS`, which counts maps), and some file systems have no maps. A map
//! that planning made is reused ([`crate::io::kept_map`]).

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::compress::DecodeLimit;
use crate::error::{DamagedRange, Error, FaultKind, Result};
use crate::format::batch::{BatchHeader, LOG_OVERHEAD, RECORD_BATCH_OVERHEAD, torn, wrong_length};
use crate::io::file::read_into;
use crate::io::interrupt;
use crate::io::mapping::{ClosedName, MapReader, Mapping};
use crate::io::region::{Region, spare};
use crate::io::storage::{ReadFile, ReadFolder};
use crate::io::unaligned::prefetch;
use crate::records::control::{EndTransaction, MAX_CONTROL_BATCH};
use crate::records::legacy;
use crate::types::{Offset, Position};

/// Longest `.log` Kafka opens: its positions are 32-bit (`FileRecords`).
pub(crate) const MAX_SEGMENT_SIZE: u64 = i32::MAX as u64;
/// Bytes that are read into memory at once for a checksum.
const MAX_PIECE: usize = 1 << 20;

/// Segments that are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapPolicy {
    /// Closed ones, so that columns can point into them. The active one is copied.
    ClosedOnly,
    /// None. For columns that are gathered anyway copying is as quick as a map or quicker (no page faults, and the window
    /// stays in the second-level cache), counts for no address space, and nothing a broker does can fault us.
    Never,
}

/// Window size of a file that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Everything will be read: windows that fit the second-level cache.
    Records,
    /// Only headers will be examined: small windows.
    Headers,
    /// Only headers that lie far apart: windows with room for a header and a marker.
    SparseHeaders,
}

impl Access {
    const fn window(self) -> usize {
        match self {
            Self::Records => 256 << 10,
            Self::Headers => 4 << 10,
            Self::SparseHeaders => 256,
        }
    }
}

/// Chooses the read size of a header walk from the mean size of recent batches: with large batches a call for each
/// header costs less than copying the bytes between; otherwise one call reads many.
#[derive(Debug, Default)]
pub(crate) struct WindowSize {
    /// Of about the last eight batches; markers between large ones hardly count.
    mean_size: usize,
}

impl WindowSize {
    /// Batches from which on each header is read by itself.
    const FAR: usize = 4 << 10;

    /// Chooses the access after a batch of this size.
    pub(crate) const fn observe(&mut self, size: usize) -> Access {
        self.mean_size = match self.mean_size {
            0 => size,
            mean => mean.saturating_sub(mean / 8).saturating_add(size / 8),
        };
        if self.mean_size < Self::FAR {
            Access::Records
        } else {
            Access::SparseHeaders
        }
    }
}

/// The bytes of a `.log`.
#[derive(Debug)]
pub struct SegmentSource {
    path: PathBuf,
    planned: u64,
    len: u64,
    /// The whole map, or the present window.
    region: Region,
    /// Position of the region in the file.
    start: Position,
    /// The region holds all bytes from `start` up to here.
    ready: Position,
    /// Windows end here unless more is requested.
    end: Position,
    /// True if a copy was requested.
    wants_copy: bool,
    /// True if regions may be what the file has in memory.
    may_share: bool,
    origin: Origin,
}

#[derive(Debug)]
enum Origin {
    Mapped {
        map: Arc<Mapping>,
        access: Access,
    },
    Copied {
        file: Arc<dyn ReadFile>,
        access: Access,
    },
}

impl SegmentSource {
    /// Opens a file, whose first `size` bytes are read by copy.
    ///
    /// # Errors
    /// `Io` where it cannot be opened; `CorruptRecord` for a file longer than Kafka's positions reach.
    pub fn open(folder: &dyn ReadFolder, name: &str, size: u64, access: Access) -> Result<Self> {
        check_size(|| folder.path_of(name), size)?;
        interrupt::check()?;
        Self::over(folder.open(name)?, size, access)
    }

    /// Reads the first `size` bytes of an open file by copy.
    ///
    /// # Errors
    /// `CorruptRecord` for a file longer than Kafka's positions reach.
    pub fn over(file: Arc<dyn ReadFile>, size: u64, access: Access) -> Result<Self> {
        check_size(|| file.path().to_path_buf(), size)?;
        Ok(Self {
            path: file.path().to_path_buf(),
            planned: size,
            len: size,
            region: Region::empty(),
            start: 0,
            ready: 0,
            end: size,
            wants_copy: true,
            may_share: false,
            origin: Origin::Copied { file, access },
        })
    }

    /// Opens a file of a closed segment and maps its first `size` bytes; where it cannot be mapped, they are read by
    /// copy.
    ///
    /// # Errors
    /// As [`SegmentSource::open`].
    pub fn map(name: ClosedName<'_>, size: u64, access: Access) -> Result<Self> {
        check_size(|| name.path(), size)?;
        interrupt::check()?;
        let closed = name.open()?;
        match closed.map(size) {
            Some(map) => Self::over_map(closed.file().path(), Arc::new(map), size, access),
            None => Ok(Self {
                wants_copy: false,
                ..Self::over(Arc::clone(closed.file()), size, access)?
            }),
        }
    }

    /// Reads `path` through the map that another source of it had.
    ///
    /// # Errors
    /// `CorruptRecord` for a file longer than Kafka's positions reach.
    pub(crate) fn over_map(
        path: &Path,
        map: Arc<Mapping>,
        size: u64,
        access: Access,
    ) -> Result<Self> {
        check_size(|| path.to_path_buf(), size)?;
        advise(&map, access);
        let region = Region::mapped(Arc::clone(&map));
        let len = region.len() as u64;
        Ok(Self {
            path: path.to_path_buf(),
            planned: size,
            len,
            region,
            start: 0,
            ready: len,
            end: len,
            wants_copy: false,
            may_share: false,
            origin: Origin::Mapped { map, access },
        })
    }

    /// The map, where the file is mapped.
    pub(crate) fn into_map(self) -> Option<Arc<Mapping>> {
        match self.origin {
            Origin::Mapped { map, .. } => Some(map),
            Origin::Copied { .. } => None,
        }
    }

    /// Returns whether this is `path`, opened for as much and in the same way.
    #[must_use]
    pub fn is_same(&self, path: &Path, size: u64, copied: bool) -> bool {
        self.planned == size && self.wants_copy == copied && self.path == path
    }

    /// Lets windows end at `position`, after the header of the batch that begins there.
    pub fn stop_at(&mut self, position: Option<Position>) {
        self.end = position.map_or(self.planned, |position| {
            position.saturating_add(RECORD_BATCH_OVERHEAD as u64)
        });
        if let Origin::Copied { file, .. } = &self.origin {
            file.stop_at(Some(self.end));
        }
    }

    /// Sets whether regions may be what the file has in memory ([`ReadFile::share`]): for readers that keep none of them.
    pub(crate) const fn set_sharing(&mut self, may_share: bool) {
        self.may_share = may_share;
    }

    /// Sets what will be read from here on.
    pub fn expect(&mut self, what: Access) {
        match &mut self.origin {
            Origin::Copied { access, .. } => *access = what,
            Origin::Mapped { map, access } if *access != what => {
                *access = what;
                advise(map, what);
            }
            Origin::Mapped { .. } => {}
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length: the pinned size, or less if the file became shorter.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// The size it was opened for.
    #[must_use]
    pub const fn planned_len(&self) -> u64 {
        self.planned
    }

    /// Read by copy, so that every region requested takes memory.
    #[must_use]
    pub const fn is_copied(&self) -> bool {
        matches!(self.origin, Origin::Copied { .. })
    }

    /// The open file, unless it is mapped.
    pub(crate) const fn file(&self) -> Option<&Arc<dyn ReadFile>> {
        match &self.origin {
            Origin::Copied { file, .. } => Some(file),
            Origin::Mapped { .. } => None,
        }
    }

    /// The same bytes for a second walk over them, without opening the file again.
    pub(crate) fn as_file(&self) -> Arc<dyn ReadFile> {
        match &self.origin {
            Origin::Copied { file, .. } => Arc::clone(file),
            Origin::Mapped { map, .. } => Arc::new(MapReader {
                path: self.path.clone(),
                map: Arc::clone(map),
            }),
        }
    }

    /// No bytes at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether so many bytes from `position` on can be had without reading.
    #[must_use]
    pub const fn holds(&self, position: Position, wanted: usize) -> bool {
        self.start <= position && position.saturating_add(wanted as u64) <= self.ready
    }

    /// A region that holds `wanted` bytes from `position` (fewer at the end), and where `position` lies in it.
    ///
    /// # Errors
    /// `Io` where reading fails.
    #[inline]
    pub fn region(&mut self, position: Position, wanted: usize) -> Result<(&Region, usize)> {
        if position < self.start || position.saturating_add(wanted as u64) > self.ready {
            self.make_ready(position, wanted)?;
        }
        let at = position
            .saturating_sub(self.start)
            .min(self.region.len() as u64);
        Ok((&self.region, usize::try_from(at).unwrap_or(usize::MAX)))
    }

    /// The region that was requested last.
    #[inline]
    #[must_use]
    pub(crate) const fn held(&self) -> &Region {
        &self.region
    }

    /// Prefetches up to `len` bytes of a map from `position` on, before they are read: in a walk over
    /// headers each one says where the next is, so that each would wait for memory.
    pub(crate) fn fetch(&self, position: Position, len: usize) {
        if let (Origin::Mapped { .. }, Ok(at)) = (&self.origin, usize::try_from(position)) {
            let rest = self.region.get(at..).unwrap_or_default();
            prefetch(rest.get(..len).unwrap_or(rest));
        }
    }

    #[cold]
    fn make_ready(&mut self, position: Position, wanted: usize) -> Result<()> {
        match self.origin {
            // All there is was ready from the beginning.
            Origin::Mapped { .. } => Ok(()),
            // So is the rest of the file, if the window reaches to its end.
            Origin::Copied { .. } if self.start <= position && self.ready >= self.len => Ok(()),
            Origin::Copied { .. } => self.refill(position, wanted),
        }
    }

    /// Reads up to `wanted` bytes from `position`.
    ///
    /// # Errors
    /// `Io` where reading fails.
    #[inline]
    pub fn bytes(&mut self, position: Position, wanted: usize) -> Result<&[u8]> {
        let (region, at) = self.region(position, wanted)?;
        let bytes = region.as_slice().get(at..).unwrap_or_default();
        Ok(bytes.get(..wanted).unwrap_or(bytes))
    }

    fn refill(&mut self, position: Position, wanted: usize) -> Result<()> {
        let left = usize::try_from(self.len.saturating_sub(position)).unwrap_or(usize::MAX);
        let Origin::Copied { file, access } = &self.origin else {
            return Ok(());
        };
        interrupt::check()?;
        // The last window's memory is reused, unless something points into it.
        self.region = Region::empty();
        let ahead = usize::try_from(self.end.saturating_sub(position)).unwrap_or(usize::MAX);
        let mut len = access.window().min(ahead).max(wanted).min(left);
        if self.may_share
            && let Some(mut bytes) = file.share(position, len).map_err(Error::io(&self.path))?
        {
            bytes.truncate(left);
            self.start = position;
            self.ready = position.saturating_add(bytes.len() as u64);
            self.region = Region::shared(bytes);
            return Ok(());
        }
        let mut buffer = spare(len);
        let read = |buffer: &mut Vec<u8>, len| {
            read_into(buffer, len, |buffer| file.read_at(buffer, position))
        };
        if let Err(error) = read(&mut buffer, len) {
            // Damage after what is wanted: the reader may end before it.
            let whole = DamagedRange::met(&error)
                .and_then(|met| met.range.start.checked_sub(position))
                .and_then(|whole| usize::try_from(whole).ok())
                .filter(|&whole| whole > 0 && (wanted.min(left)..len).contains(&whole));
            len = whole.ok_or(error).map_err(Error::io(&self.path))?;
            read(&mut buffer, len).map_err(Error::io(&self.path))?;
        }
        self.start = position;
        self.ready = position.saturating_add(buffer.len() as u64);
        if buffer.len() < len {
            self.len = self.ready.min(self.len);
        }
        self.region = Region::spare(buffer);
        Ok(())
    }

    /// The checksum that the bytes of the batch at `position` have, of a large batch taken in pieces; `None` where the
    /// file ends inside it.
    ///
    /// # Errors
    /// `Io` where reading fails.
    pub fn checksum(&mut self, position: Position, header: &BatchHeader) -> Result<Option<u32>> {
        if header.size <= MAX_PIECE {
            // Whole is two to three times as quick.
            let batch = self.bytes(position, header.size)?;
            return Ok((batch.len() == header.size).then(|| header.computed_crc(batch)));
        }
        let mut crc = header.begin_crc();
        let mut at = header.checksummed_from();
        while at < header.size {
            let wanted = header.size.saturating_sub(at).min(MAX_PIECE);
            let piece = self.bytes(position.saturating_add(at as u64), wanted)?;
            if piece.is_empty() {
                return Ok(None);
            }
            crc.update(piece);
            at = at.saturating_add(piece.len());
        }
        Ok(Some(crc.finish()))
    }

    /// Says where a fault of the batch at `position` is.
    #[must_use]
    pub(crate) fn locate(&self, position: Position, error: Error) -> Error {
        let origin = self.file().map_or(position, |file| file.origin(position));
        error.shift(origin).at(&self.path)
    }

    /// Compares the checksum of the batch at `position` with its bytes.
    ///
    /// # Errors
    /// `CorruptRecord` where it differs or the batch is too short for its format; `Io`.
    pub(crate) fn ensure_valid(&mut self, position: Position, header: &BatchHeader) -> Result<()> {
        let error = if header.is_too_short() {
            let expected = format!("at least {}", RECORD_BATCH_OVERHEAD - LOG_OVERHEAD);
            let found = header.size.saturating_sub(LOG_OVERHEAD);
            wrong_length(expected, found)
        } else {
            match self.checksum(position, header)? {
                Some(computed) if computed == header.crc => return Ok(()),
                Some(computed) => header.crc_fault(computed),
                None => torn("batch", format_args!("{} bytes", header.size), "an end"),
            }
        };
        Err(self.locate(position, error))
    }

    /// Reads the marker in the control batch at `position`; `None` for a batch of another kind, or without records.
    ///
    /// # Errors
    /// Those of [`EndTransaction::of`], `Io`.
    pub(crate) fn marker(
        &mut self,
        position: Position,
        header: &BatchHeader,
    ) -> Result<Option<EndTransaction>> {
        if !header.is_control() {
            return Ok(None);
        }
        let batch = self.bytes(position, header.size.min(MAX_CONTROL_BATCH))?;
        EndTransaction::of(batch, header).map_err(|error| self.locate(position, error))
    }

    /// The first offset of the batch at `position`: of a wrapper, the first inside.
    ///
    /// # Errors
    /// Those of [`legacy::first_offset`], `Io`.
    pub(crate) fn first_offset(
        &mut self,
        position: Position,
        header: &BatchHeader,
    ) -> Result<Offset> {
        if !header.is_wrapper() {
            return Ok(header.base_offset);
        }
        let batch = self.bytes(position, header.size)?;
        let first = legacy::first_offset(batch, header, DecodeLimit::default());
        first.map_err(|error| self.locate(position, error))
    }

    /// Returns whether every byte from `position` on is zero: the tail of a preallocated file.
    ///
    /// # Errors
    /// `Io` where reading fails.
    pub fn is_zero_from(&mut self, position: Position) -> Result<bool> {
        self.is_zero(position..self.len)
    }

    /// Returns whether every byte of `range` that is there is zero.
    ///
    /// # Errors
    /// `Io` where reading fails.
    pub(crate) fn is_zero(&mut self, range: Range<Position>) -> Result<bool> {
        const STEP: u64 = 64 << 10;
        let mut position = range.start;
        while position < range.end {
            let wanted = range.end.saturating_sub(position).min(STEP);
            let bytes = self.bytes(position, usize::try_from(wanted).unwrap_or_default())?;
            if bytes.is_empty() {
                break;
            }
            if bytes.iter().any(|&b| b != 0) {
                return Ok(false);
            }
            position = position.saturating_add(bytes.len() as u64);
        }
        Ok(true)
    }
}

/// Tells the kernel whether to read ahead.
fn advise(map: &Mapping, access: Access) {
    match access {
        Access::Records => map.advise_sequential(),
        Access::Headers | Access::SparseHeaders => map.advise_random(),
    }
}

/// Refuses a file longer than Kafka's positions reach.
fn check_size(path: impl FnOnce() -> PathBuf, size: u64) -> Result<()> {
    if size <= MAX_SEGMENT_SIZE {
        return Ok(());
    }
    let expected = format!("at most {MAX_SEGMENT_SIZE} bytes");
    Err(Error::corrupt_of(
        FaultKind::SegmentSize,
        "segment size",
        MAX_SEGMENT_SIZE,
        expected,
        size,
    )
    .at(&path()))
}

#[cfg(test)]
mod tests;
