//! A file of a store that may know some of its bytes to be damaged, such as a chunk whose tag does not fit.
//!
//! A read ahead or in a large window may meet damage that its reader never reaches. So the file is read in parts around
//! what is damaged, and only a reader that needs those bytes fails. One that reads past damage has [`FILL`] in
//! their place, which no batch begins with.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use crate::error::{DamagedRange, Result};
use crate::io::storage::ReadFile;
use crate::io::threads::lock;

/// Stands for a byte that cannot be read: an offset that begins with it is negative.
const FILL: u8 = 0xFF;
/// Windows that were requested before some damage was known may meet it again, each once.
const MAX_MET_AGAIN: usize = 16;

/// A file that is read around its damage.
#[derive(Debug)]
pub(super) struct AroundDamage<F> {
    file: F,
    passes: AtomicBool,
    has_damage: AtomicBool,
    known: Mutex<KnownDamage>,
}

#[derive(Debug, Default)]
struct KnownDamage {
    /// In no order; few.
    ranges: Vec<DamagedRange>,
    /// Position up to which the reader has announced to read.
    stop: Option<u64>,
}

impl KnownDamage {
    /// The damage that a position lies in.
    fn at(&self, position: u64) -> Option<&DamagedRange> {
        self.ranges
            .iter()
            .find(|each| each.range.contains(&position))
    }

    /// Position at which the next damage begins.
    fn next(&self, position: u64) -> Option<u64> {
        let starts = self.ranges.iter().map(|each| each.range.start);
        starts.filter(|&start| start > position).min()
    }

    /// Adds damage; false if it is none, or known.
    fn add(&mut self, met: &DamagedRange) -> bool {
        let is_new = !met.range.is_empty() && !self.ranges.contains(met);
        if is_new {
            self.ranges.push(met.clone());
        }
        is_new
    }
}

impl<F: ReadFile> AroundDamage<F> {
    /// Around damage that is not known yet.
    pub(super) fn new(file: F) -> Self {
        Self {
            file,
            passes: AtomicBool::new(false),
            has_damage: AtomicBool::new(false),
            known: Mutex::default(),
        }
    }

    /// Remembers damage.
    ///
    /// # Errors
    /// One that is of another kind.
    fn take_note(&self, error: io::Error) -> io::Result<()> {
        let met = DamagedRange::met(&error).cloned().ok_or(error)?;
        lock(&self.known).add(&met);
        self.has_damage.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Reads from `position` up to where damage begins or ends; [`FILL`] in it, if the reader passes damage.
    /// Returns the bytes read.
    fn read_part(
        &self,
        known: &mut KnownDamage,
        buffer: &mut [u8],
        position: u64,
    ) -> io::Result<usize> {
        let mut met_again = 0;
        loop {
            let length = |end: u64| usize::try_from(end.saturating_sub(position));
            let within = |end: u64| length(end).unwrap_or(usize::MAX).min(buffer.len());
            if let Some(damaged) = known.at(position) {
                if !self.passes.load(Ordering::Relaxed) {
                    return Err(damaged.clone().into());
                }
                let Range { end, .. } = damaged.range;
                let count = within(end);
                buffer.get_mut(..count).unwrap_or_default().fill(FILL);
                return Ok(count);
            }
            let next = known.next(position);
            let stop = next.into_iter().chain(known.stop).min();
            if !known.ranges.is_empty() {
                self.file.stop_at(stop);
            }
            let count = next.map_or(buffer.len(), within);
            let part = buffer.get_mut(..count).unwrap_or_default();
            match self.file.read_at(part, position) {
                Err(error) => match DamagedRange::met(&error) {
                    Some(met) if known.add(met) => {}
                    Some(_) if met_again < MAX_MET_AGAIN => met_again = met_again.saturating_add(1),
                    _ => return Err(error),
                },
                read => return read,
            }
        }
    }
}

impl<F: ReadFile> ReadFile for AroundDamage<F> {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn length(&self) -> Result<u64> {
        self.file.length()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        if !self.has_damage() {
            match self.file.read_at(buffer, position) {
                Err(error) => self.take_note(error)?,
                read => return read,
            }
        }
        let mut known = lock(&self.known);
        let mut done = 0usize;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let at = position.saturating_add(done as u64);
            match self.read_part(&mut known, rest, at)? {
                0 => break,
                count => done = done.saturating_add(count),
            }
        }
        Ok(done)
    }

    fn share(&self, position: u64, wanted: usize) -> io::Result<Option<Bytes>> {
        if self.has_damage() {
            return Ok(None);
        }
        match self.file.share(position, wanted) {
            Err(error) => self.take_note(error).map(|()| None),
            shared => shared,
        }
    }

    fn stop_at(&self, position: Option<u64>) {
        let mut known = lock(&self.known);
        known.stop = position;
        self.file.stop_at(position);
    }

    fn pass_damage(&self) {
        self.passes.store(true, Ordering::Relaxed);
    }

    fn has_damage(&self) -> bool {
        self.has_damage.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
