//! A `.log` or a KRaft snapshot: every batch, compared with its neighbours and the files beside it.
//!
//! One thread walks from header to header; checksums and records are checked in jobs of the [`Pool`]. Other files are
//! compared during the walk ([`Beside`]), so memory does not grow with the number of batches.

use std::path::Path;
use std::sync::Arc;

use super::finding::{
    BATCH_LEVEL, Code, Finding, Findings, TORN_TAIL, ZERO_TAIL, ZERO_TAIL_CLEAN, ZERO_TAIL_CLOSED,
    code_of,
};
use super::pool::{BatchFault, BatchPlace, Ticket, VerifyPool, WindowJob};
use super::records::BatchCheck;
use super::summary::Summary;
use crate::error::{Error, Result};
use crate::format::batch::{BatchHeader, HEADER_SIZE_UP_TO_MAGIC};
use crate::io::region::Region;
use crate::segment::LogSegment;
use crate::segment::batches::{BatchCursor, Batches, Bounds};
use crate::segment::source::{Access, SegmentSource};
use crate::tools::rebuild::Level;
use crate::types::{Compression, Offset, Position};

/// Bytes of batches in a job.
const JOB: usize = 256 << 10;
/// A larger batch is summed in pieces before memory is taken for it.
const LARGE: usize = 16 << 20;

/// Purpose of a walk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// The version of Kafka that is to read the log, if that matters.
    pub level: Option<Level>,
    /// The broker stopped cleanly: it will not look for a torn tail.
    pub is_clean: bool,
    /// Batches are known by their headers: no checksums, no records.
    pub headers_only: bool,
}

/// Receiver of the batches as they pass, which compares something with them.
pub(super) trait CompanionFile {
    /// A whole batch. Its checksum may turn out wrong later.
    ///
    /// # Errors
    /// `Io`, `Interrupted`.
    fn batch(
        &mut self,
        position: Position,
        header: &BatchHeader,
        source: &mut SegmentSource,
        findings: &mut Findings,
    ) -> Result<()>;

    /// Bytes from the first to before the second position hold no batch that could be read.
    fn lost(&mut self, bytes: (Position, Position));

    /// The log ends at `position`; `summary` says what was in it.
    fn end(&mut self, position: Position, summary: &Summary, findings: &mut Findings);
}

/// Verifies a segment's `.log`.
///
/// # Errors
/// `Interrupted`, `Internal`, `OutOfMemory`. Faults in the file are findings.
pub(super) fn check(
    segment: &LogSegment,
    reading: Reading,
    beside: &mut [&mut dyn CompanionFile],
    (pool, batches): (&VerifyPool, &mut BatchCheck),
    findings: &mut Findings,
) -> Result<Summary> {
    let path = segment.path();
    let source = segment.open_by_copy(if reading.headers_only {
        Access::Headers
    } else {
        Access::Records
    });
    let source = match source {
        Ok(source) => source,
        Err(error) => {
            tell(error, &path, (0, None), segment.base_offset, findings)?;
            return Ok(Summary::unknown(segment.base_offset));
        }
    };
    let mut walk = LogCheck::new(&path, segment, reading);
    walk.run(source, beside, (pool, batches), findings)?;
    Ok(walk.summary)
}

/// A walk over a `.log`, whose batches come from the outside.
pub(super) struct LogCheck<'a> {
    path: &'a Path,
    bounds: Bounds,
    reading: Reading,
    ticket: Arc<Ticket>,
    /// Batches for the next job.
    job: Vec<(usize, Position, BatchHeader)>,
    job_size: usize,
    region: Option<Region>,
    /// The bytes were counted before.
    is_again: bool,
    /// Summary of the batches so far.
    pub summary: Summary,
}

impl<'a> LogCheck<'a> {
    /// Begins.
    #[must_use]
    pub(super) fn new(path: &'a Path, segment: &LogSegment, reading: Reading) -> Self {
        Self {
            path,
            bounds: segment.bounds(),
            reading,
            ticket: Arc::default(),
            job: Vec::new(),
            job_size: 0,
            region: None,
            is_again: false,
            summary: Summary::new(segment.base_offset),
        }
    }

    /// For the second time.
    #[must_use]
    pub(super) const fn again(mut self) -> Self {
        self.is_again = true;
        self
    }

    fn run(
        &mut self,
        source: SegmentSource,
        beside: &mut [&mut dyn CompanionFile],
        (pool, batches): (&VerifyPool, &mut BatchCheck),
        findings: &mut Findings,
    ) -> Result<()> {
        let mut walk = Batches::new(source, BatchCursor::new(self.bounds, 0));
        let ended = loop {
            match walk.next() {
                Ok(Some(batch)) => {
                    let threads = (pool, &mut *batches);
                    self.accept(batch, &mut walk.source, beside, threads, findings)?;
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.settle((pool, batches), findings)?;
        let end = walk.position();
        match ended {
            Ok(()) => self.tail(&mut walk.source, end, findings)?,
            Err(error) => {
                self.summary.is_damaged = true;
                let next = self.summary.next_offset;
                tell(error, self.path, (end, None), next, findings)?;
                let rest = (end, walk.source.len());
                for each in beside.iter_mut() {
                    each.lost(rest);
                }
            }
        }
        for each in beside.iter_mut() {
            each.end(end, &self.summary, findings);
        }
        Ok(())
    }

    /// Takes the next batch in, with where it begins.
    ///
    /// # Errors
    /// `Io`, `Interrupted`.
    pub(super) fn accept(
        &mut self,
        (position, header): (Position, BatchHeader),
        source: &mut SegmentSource,
        beside: &mut [&mut dyn CompanionFile],
        threads: (&VerifyPool, &mut BatchCheck),
        findings: &mut Findings,
    ) -> Result<()> {
        self.summary.add(position, &header);
        self.hold_against_level(position, &header, findings);
        for each in beside.iter_mut() {
            each.batch(position, &header, source, findings)?;
        }
        self.take(position, header, source, threads)
    }

    /// Waits for all checks, and returns their findings.
    ///
    /// # Errors
    /// `Interrupted`, `Internal`, `OutOfMemory`.
    pub(super) fn settle(
        &mut self,
        (pool, batches): (&VerifyPool, &mut BatchCheck),
        findings: &mut Findings,
    ) -> Result<()> {
        self.flush((pool, &mut *batches))?;
        pool.wait(&self.ticket, batches)?;
        for (place, fault) in self.ticket.faults() {
            match fault {
                BatchFault::Unreadable(error) => {
                    self.summary.is_damaged = true;
                    let BatchPlace {
                        position,
                        end,
                        base_offset,
                    } = place;
                    let bytes = (position, Some(end));
                    tell(error, self.path, bytes, base_offset, findings)?;
                }
                BatchFault::Doubtful(doubt) => findings.add(
                    Finding::new(doubt.code, self.path, doubt.message)
                        .at(place.position)
                        .to(place.end)
                        .of(doubt.offset),
                ),
            }
        }
        Ok(())
    }

    /// Puts a batch into the next job.
    fn take(
        &mut self,
        position: Position,
        header: BatchHeader,
        source: &mut SegmentSource,
        (pool, batches): (&VerifyPool, &mut BatchCheck),
    ) -> Result<()> {
        pool.note(if self.is_again { 0 } else { header.size as u64 })?;
        if self.reading.headers_only {
            return Ok(());
        }
        if header.size > LARGE
            && let Some(computed) = source.checksum(position, &header)?
            && computed != header.crc
        {
            let error = header.crc_fault(computed).shift(position);
            let place = BatchPlace::of(position, &header);
            self.ticket.note(place, BatchFault::Unreadable(error));
            return Ok(());
        }
        let (region, at) = source.region(position, header.size)?;
        let is_same = self.region.as_ref().is_some_and(|held| held.same(region));
        let size = header.size;
        if !is_same || self.job_size >= JOB {
            let region = region.clone();
            self.flush((pool, batches))?;
            self.region = Some(region);
        }
        self.job.push((at, position, header));
        self.job_size = self.job_size.saturating_add(size);
        Ok(())
    }

    fn flush(&mut self, (pool, batches): (&VerifyPool, &mut BatchCheck)) -> Result<()> {
        self.job_size = 0;
        let Some(region) = self.region.take().filter(|_| !self.job.is_empty()) else {
            return Ok(());
        };
        let job = WindowJob {
            region,
            batches: std::mem::take(&mut self.job),
            ticket: Arc::clone(&self.ticket),
        };
        pool.submit(job, batches);
        pool.note(0)
    }

    /// Checks that the version that is to read it knows the batch's format.
    fn hold_against_level(
        &self,
        position: Position,
        header: &BatchHeader,
        findings: &mut Findings,
    ) {
        let Some(level) = self.reading.level else {
            return;
        };
        let needed = match (header.magic, header.attributes.compression()) {
            (_, Some(Compression::Zstd)) => ("zstd", Level::ZSTD),
            (2, _) if header.delete_horizon_ms().is_some() => {
                ("a delete horizon", Level::DELETE_HORIZON)
            }
            (2, _) => ("magic 2", Level::TRANSACTIONS),
            (1, _) => ("magic 1", Level::MAGIC_1),
            _ => return,
        };
        if level < needed.1 {
            let message = format!("{}: Kafka {level} cannot read this", needed.0);
            let finding = Finding::new(BATCH_LEVEL, self.path, message);
            findings.add(finding.at(position).of(header.base_offset));
        }
    }

    /// Checks the bytes after the last batch.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn tail(
        &self,
        source: &mut SegmentSource,
        end: Position,
        findings: &mut Findings,
    ) -> Result<()> {
        let left = source.len().saturating_sub(end);
        if left == 0 {
            return Ok(());
        }
        // Fewer zeros may be the first bytes of a header; Kafka never looks at them (`FileLogInputStream`).
        let is_room = left > HEADER_SIZE_UP_TO_MAGIC as u64 && source.is_zero_from(end)?;
        let (code, what): (&'static Code, _) = match (is_room, self.reading.is_clean) {
            // Nothing is allocated ahead in a closed segment.
            (true, _) if !self.bounds.is_active => (ZERO_TAIL_CLOSED, "zeros"),
            (true, true) => (ZERO_TAIL_CLEAN, "zeros after a clean shutdown"),
            (true, false) => (ZERO_TAIL, "zeros"),
            (false, _) => (TORN_TAIL, "bytes of an incomplete batch"),
        };
        let message = format!("{left} {what} after the last whole batch");
        let finding = Finding::new(code, self.path, message).at(end);
        findings.add(finding.to(source.len()).of(self.summary.next_offset));
        Ok(())
    }
}

/// Makes an error of a batch a finding; hands on what is no fault of the file.
fn tell(
    error: Error,
    path: &Path,
    (position, end): (Position, Option<Position>),
    offset: Offset,
    findings: &mut Findings,
) -> Result<()> {
    if !error.is_of_the_files() {
        return Err(error);
    }
    let mut finding = Finding::of_error(code_of(&error), path, &error);
    // The exact byte stays in the message.
    if let Some(byte) = finding.position.filter(|&byte| byte != position) {
        finding.message = format!("byte {byte}: {}", finding.message);
    }
    finding.position = Some(position);
    finding.end = end;
    finding.offset.get_or_insert(offset);
    findings.add(finding);
    Ok(())
}
