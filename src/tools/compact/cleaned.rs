//! Recomputes, for a dry run, the bytes of a segment that an earlier pass would have written, piece by piece from the
//! original log.
//!
//! The decisions of the passes about each batch are known ([`Fates`]); applying them again gives the same bytes. The
//! passes of a run have one clock, and the result of several passes for a batch is that of dropping all the records at
//! once, except for the first step of a batch of another form ([`History`]).

use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::io::interrupt;
use crate::io::overlay::content::{Content, Derive, Origins};
use crate::io::storage::ReadFile;
use crate::io::threads::lock;
use crate::records::RecordSlot;
use crate::records::filtered::{
    BatchFilter, BatchRetention, BatchVerdict, FilterRules, FilteredBatch, RecordFilter,
};
use crate::segment::offset_set::OffsetSet;
use crate::segment::source::Access;
use crate::segment::walk::LogWalk;
use crate::types::{Offset, Position};

/// Place in the original log at which to begin: a batch, or before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SourcePosition {
    /// The number of the segment.
    log: usize,
    position: Position,
    /// Lower bound of the batches that count: those up to this offset do not.
    after: Offset,
}

impl SourcePosition {
    /// The same, when batches up to this offset have been taken.
    #[must_use]
    pub(super) fn after(self, offset: Offset) -> Self {
        let after = self.after.max(offset);
        Self { after, ..self }
    }
}

/// Batches that were written together.
#[derive(Clone, Debug)]
pub(super) struct CleanedChunk {
    /// Position in the new segment at which they begin.
    pub(super) begin: Position,
    /// Their place in the original log.
    pub(super) place: SourcePosition,
}

/// Outcome of batches, by their last offsets. All others are unchanged.
#[derive(Debug, Default)]
struct Fates {
    deleted: OffsetSet,
    emptied: OffsetSet,
    rewritten: OffsetSet,
    /// Those that got a delete horizon, though what called for it may have gone in the meantime.
    dated: OffsetSet,
    /// The records that went out of batches that were rewritten.
    gone: OffsetSet,
}

impl Fates {
    fn note(&mut self, header: &BatchHeader, outcome: &FilteredBatch, gone: &[Offset]) {
        let last_offset = header.last_offset();
        match outcome {
            FilteredBatch::Unchanged => {}
            FilteredBatch::Deleted => self.deleted.insert(last_offset),
            FilteredBatch::Emptied(_) => self.emptied.insert(last_offset),
            FilteredBatch::Rewritten(new) => {
                self.rewritten.insert(last_offset);
                if header.delete_horizon_ms().is_none() && new.delete_horizon_ms().is_some() {
                    self.dated.insert(last_offset);
                }
                for &offset in gone {
                    self.gone.insert(offset);
                }
            }
        }
    }

    fn add_all(&mut self, other: Self) {
        self.deleted.add_all(other.deleted);
        self.emptied.add_all(other.emptied);
        self.rewritten.add_all(other.rewritten);
        self.dated.add_all(other.dated);
        self.gone.add_all(other.gone);
    }
}

/// Outcome of batches, in the order of their steps.
#[derive(Debug, Default)]
pub(super) struct DecisionLog {
    /// Of batches that have another form afterwards: magic 0 and 1 become magic 2, with other ends, and a delete
    /// horizon below 0 goes.
    first: Fates,
    /// Of all others.
    rest: Fates,
}

impl DecisionLog {
    /// Notes what became of a batch, and which of its records went.
    pub(super) fn note(&mut self, header: &BatchHeader, outcome: &FilteredBatch, gone: &[Offset]) {
        let fates = if takes_form(header) {
            &mut self.first
        } else {
            &mut self.rest
        };
        fates.note(header, outcome, gone);
    }
}

/// Returns whether a batch has another form once it was written again.
fn takes_form(header: &BatchHeader) -> bool {
    header.is_legacy() || header.delete_horizon_ms().is_some_and(|ms| ms < 0)
}

/// Does to a batch that changed what was done to it.
struct Again<'a> {
    fates: &'a Fates,
    is_emptied: bool,
}

impl RecordFilter for Again<'_> {
    fn batch(&mut self, _: &[u8], header: &BatchHeader) -> Result<BatchVerdict> {
        Ok(BatchVerdict {
            retention: BatchRetention::RetainEmpty,
            is_marker_of_nothing: self.fates.dated.contains(header.last_offset()),
        })
    }

    fn records(
        &mut self,
        _: &BatchHeader,
        _: &[u8],
        slots: &[RecordSlot],
        stays: &mut [bool],
    ) -> Result<()> {
        for (slot, stays) in slots.iter().zip(stays) {
            *stays = !self.is_emptied && !self.fates.gone.contains(slot.offset);
        }
        Ok(())
    }
}

/// The log as it was, and what the passes made of it.
#[derive(Debug)]
pub(super) struct CleanedHistory {
    /// Its `.log` files, by base offset.
    logs: Vec<(Offset, Content)>,
    rules: FilterRules,
    /// Of passes that are over: while one looks at a segment, that is as the passes before left it.
    steps: Mutex<DecisionLog>,
}

impl CleanedHistory {
    pub(super) fn new(logs: Vec<(Offset, Content)>, rules: FilterRules) -> Self {
        Self {
            logs,
            rules,
            steps: Mutex::default(),
        }
    }

    fn steps(&self) -> MutexGuard<'_, DecisionLog> {
        lock(&self.steps)
    }

    /// A pass is over: what it did has been done.
    pub(super) fn add_all(&self, pass: DecisionLog) {
        let mut steps = self.steps();
        steps.first.add_all(pass.first);
        steps.rest.add_all(pass.rest);
    }

    /// A position in a segment that is as it was.
    pub(super) fn place(&self, base_offset: Offset, position: Position) -> SourcePosition {
        let log = self.logs.partition_point(|(base, _)| *base < base_offset);
        SourcePosition {
            log,
            position,
            after: Offset::MIN,
        }
    }
}

/// The `.log` of a segment that passes have made.
#[derive(Debug)]
pub(super) struct CleanedLog {
    history: Arc<CleanedHistory>,
    chunks: Vec<CleanedChunk>,
    length: u64,
}

impl CleanedLog {
    pub(super) fn new(
        history: &Arc<CleanedHistory>,
        chunks: Vec<CleanedChunk>,
        length: u64,
    ) -> Self {
        Self {
            history: Arc::clone(history),
            chunks,
            length,
        }
    }

    /// The number of the chunk that holds a position.
    fn chunk_at(&self, position: Position) -> usize {
        let above = self.chunks.partition_point(|chunk| chunk.begin <= position);
        above.saturating_sub(1)
    }

    /// Finds the place in the original log from which to come to this position.
    pub(super) fn place(&self, position: Position) -> Option<SourcePosition> {
        let chunk = self.chunks.get(self.chunk_at(position));
        chunk.map(|chunk| chunk.place)
    }

    /// Bytes of a chunk.
    fn size_of(&self, number: usize) -> usize {
        let begin_of = |number: usize| self.chunks.get(number).map_or(self.length, |it| it.begin);
        let end = begin_of(number.saturating_add(1));
        usize::try_from(end.saturating_sub(begin_of(number))).unwrap_or(usize::MAX)
    }
}

impl Derive for CleanedLog {
    fn open(self: Arc<Self>, origins: &Origins, path: PathBuf) -> Result<Arc<dyn ReadFile>> {
        let making = Making {
            origins: origins.clone(),
            filter: BatchFilter::new(self.history.rules)?,
            walk: None,
            log: 0,
            next: None,
            made: None,
            bytes: Vec::new(),
            changed: Vec::new(),
            spare: Vec::new(),
        };
        Ok(Arc::new(OpenCleaned {
            log: self,
            path,
            making: Mutex::new(making),
        }))
    }
}

/// Such a `.log`, open for reading.
#[derive(Debug)]
struct OpenCleaned {
    log: Arc<CleanedLog>,
    path: PathBuf,
    making: Mutex<Making>,
}

impl ReadFile for OpenCleaned {
    fn path(&self) -> &Path {
        &self.path
    }

    fn length(&self) -> Result<u64> {
        Ok(self.log.length)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut making = lock(&self.making);
        let (mut at, mut read, mut rest) = (position, 0usize, buffer);
        while !rest.is_empty() && at < self.log.length {
            let number = self.log.chunk_at(at);
            making
                .make(&self.log, number)
                .map_err(|error| match error {
                    Error::Io { source, .. } => source,
                    error => io::Error::other(error),
                })?;
            let begin = self.log.chunks.get(number).map_or(0, |chunk| chunk.begin);
            let from = usize::try_from(at.saturating_sub(begin)).unwrap_or(usize::MAX);
            let bytes = making.bytes.get(from..).unwrap_or_default();
            let count = bytes.len().min(rest.len());
            let (target, later) = mem::take(&mut rest).split_at_mut(count);
            target.copy_from_slice(bytes.get(..count).unwrap_or_default());
            rest = later;
            read = read.saturating_add(count);
            at = at.saturating_add(count as u64);
        }
        Ok(read)
    }
}

/// The chunk that was made last, and where to continue.
#[derive(Debug)]
struct Making {
    origins: Origins,
    filter: BatchFilter,
    walk: Option<LogWalk>,
    /// The number of the log that the walk is in.
    log: usize,
    /// The chunk whose first batch comes next in the walk.
    next: Option<usize>,
    /// The chunk in `bytes`.
    made: Option<usize>,
    bytes: Vec<u8>,
    changed: Vec<u8>,
    spare: Vec<u8>,
}

impl Making {
    /// Computes the bytes of a chunk into `bytes`.
    fn make(&mut self, log: &CleanedLog, number: usize) -> Result<()> {
        if self.made == Some(number) {
            return Ok(());
        }
        let Some(chunk) = log.chunks.get(number) else {
            return Err(self.differs());
        };
        if self.next != Some(number) {
            self.log = chunk.place.log;
            self.walk = self.walk_from(&log.history, chunk.place.position)?;
        }
        (self.made, self.next) = (None, None);
        self.bytes.clear();
        let size = log.size_of(number);
        while self.bytes.len() < size {
            interrupt::check()?;
            let begun = self.bytes.len();
            if self
                .add_next(log)?
                .is_some_and(|last| last <= chunk.place.after)
            {
                self.bytes.truncate(begun);
            }
        }
        if self.bytes.len() != size {
            return Err(self.differs());
        }
        (self.made, self.next) = (Some(number), number.checked_add(1));
        Ok(())
    }

    fn walk_from(&self, history: &CleanedHistory, position: Position) -> Result<Option<LogWalk>> {
        let Some((_, content)) = history.logs.get(self.log) else {
            return Ok(None);
        };
        let file = content.open(&self.origins, self.origins.folder().to_path_buf())?;
        let walk = LogWalk::new(file, position, content.length(), Access::Records)?;
        Ok(Some(walk))
    }

    /// Error: the passes wrote something else than what the log gives now.
    fn differs(&self) -> Error {
        let why =
            "it changed while it was read; stop the broker or writer that uses it, or read a copy";
        Error::io(self.origins.folder())(io::Error::other(why))
    }

    /// Adds what is left of the next batch, and says which is its last offset.
    fn add_next(&mut self, log: &CleanedLog) -> Result<Option<Offset>> {
        loop {
            let Some(walk) = &mut self.walk else {
                return Err(self.differs());
            };
            if let Some((position, header)) = walk.next_batch()? {
                return self.add(log, position, header);
            }
            self.log = self.log.saturating_add(1);
            self.walk = self.walk_from(&log.history, 0)?;
        }
    }

    /// Adds what is left of a batch.
    fn add(
        &mut self,
        log: &CleanedLog,
        position: Position,
        mut header: BatchHeader,
    ) -> Result<Option<Offset>> {
        let Some(walk) = &mut self.walk else {
            return Ok(None);
        };
        let steps = log.history.steps();
        let first = takes_form(&header).then_some(&steps.first);
        let mut is_changed = false;
        for fates in first.into_iter().chain([&steps.rest]) {
            if fates.deleted.contains(header.last_offset()) {
                return Ok(None);
            }
            for (set, is_emptied) in [(&fates.rewritten, false), (&fates.emptied, true)] {
                if !set.contains(header.last_offset()) {
                    continue;
                }
                let batch = if is_changed {
                    self.changed.as_slice()
                } else {
                    walk.bytes(position, header.size)?
                };
                self.spare.clear();
                let mut again = Again { fates, is_emptied };
                let done = self
                    .filter
                    .filter(batch, &header, &mut again, &mut self.spare)?;
                if let FilteredBatch::Rewritten(new) | FilteredBatch::Emptied(new) = done.outcome {
                    header = new;
                }
                mem::swap(&mut self.changed, &mut self.spare);
                is_changed = true;
            }
        }
        let left = if is_changed {
            self.changed.as_slice()
        } else {
            walk.bytes(position, header.size)?
        };
        self.bytes.extend_from_slice(left);
        Ok(Some(header.last_offset()))
    }
}
