//! Batches from a log's segments to the output, a window at a time: read, filtered by one of several threads
//! ([`crate::tools::threads`]), written.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::vec;

use super::drops::Dropping;
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::entry::AbortedTxn;
use crate::format::file_name::FileKind;
use crate::io::interrupt;
use crate::io::overlay::Overlay;
use crate::load::Plan;
use crate::records::filtered::{BatchFilter, Filtered};
use crate::segment::batches::Batches;
use crate::segment::neighbours::{ANY_EPOCH, Neighbours};
use crate::segment::source::Access;
use crate::segment::walk::CopyPolicy;
use crate::segment::writer::WritableSegment;
use crate::types::{Offset, Position, TimestampMs};

/// Bytes of batches that are filtered together: little enough for the second-level cache, and enough to be worth waking
/// a thread.
const WINDOW: usize = 256 << 10;

/// Facts about the beginning of a segment, for the output.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) base_offset: Offset,
    pub(super) modified_ms: Option<TimestampMs>,
    pub(super) aborted: Vec<AbortedTxn>,
}

/// A batch in a window.
#[derive(Debug)]
struct Placed {
    /// In the file.
    position: Position,
    header: BatchHeader,
    range: Range<usize>,
    /// The last one of its segment.
    is_last: bool,
}

/// Batches of one segment that follow one another, and what came of them.
#[derive(Debug, Default)]
pub(super) struct Window {
    path: PathBuf,
    /// Of the first window of a segment.
    pub(super) begins: Option<Beginning>,
    bytes: Vec<u8>,
    batches: Vec<Placed>,
    /// After the batch before.
    next_offset: Offset,
    /// Kept bytes, one batch after the other.
    pub(super) kept: Vec<u8>,
    /// The headers of that.
    pub(super) headers: Vec<BatchHeader>,
    /// Result for each batch.
    pub(super) filtered: Vec<Filtered>,
}

impl Window {
    /// Bytes of its batches.
    pub(super) const fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Without batches, in the memory of another one.
    fn begin(mut self, path: &Path, begins: Option<Beginning>, next_offset: Offset) -> Self {
        self.bytes.clear();
        self.batches.clear();
        self.kept.clear();
        self.headers.clear();
        self.filtered.clear();
        Self {
            path: path.to_path_buf(),
            begins,
            next_offset,
            ..self
        }
    }
}

/// Reads the windows of a log.
pub(super) struct LogWindows<'a> {
    plan: &'a Plan,
    segments: vec::IntoIter<&'a WritableSegment<Overlay>>,
    walk: Option<(&'a WritableSegment<Overlay>, Batches<CopyPolicy>)>,
    next_offset: Offset,
    /// Bytes of the segments so far.
    pub(super) size: u64,
}

impl<'a> LogWindows<'a> {
    /// From the beginning.
    pub(super) fn of(plan: &'a Plan) -> Self {
        Self {
            plan,
            segments: plan.segments().collect::<Vec<_>>().into_iter(),
            walk: None,
            next_offset: 0,
            size: 0,
        }
    }

    /// The next window, in the memory of another one; nothing at the end of the log.
    ///
    /// # Errors
    /// `CorruptRecord` for a batch that is not whole, or whose checksum is wrong; `Io`; `Interrupted`.
    pub(super) fn next(&mut self, spare: Option<Window>) -> Result<Option<Window>> {
        interrupt::check()?;
        let begins = if self.walk.is_some() {
            None
        } else {
            let Some(segment) = self.segments.next() else {
                return Ok(None);
            };
            let size = segment.size();
            self.size = self.size.saturating_add(size);
            let next = self.segments.as_slice().first();
            let neighbours = Neighbours {
                floor: self.next_offset.max(segment.base_offset()),
                epoch: ANY_EPOCH,
                next_base_offset: next.map(|next| next.base_offset()),
            };
            let walk = segment
                .walk(0, size, Access::Records)?
                .whole(Some(neighbours));
            self.walk = Some((segment, walk));
            Some(Beginning {
                base_offset: segment.base_offset(),
                modified_ms: self.plan.modified_ms(&segment.name(FileKind::Log)),
                aborted: segment.aborted()?,
            })
        };
        let Some((segment, mut walk)) = self.walk.take() else {
            return Ok(None);
        };
        let spare = spare.unwrap_or_default();
        let mut window = spare.begin(segment.path(), begins, self.next_offset);
        while window.bytes.len() < WINDOW {
            let Some((position, header)) = walk.next()? else {
                return Ok(Some(window));
            };
            self.next_offset = header.next_offset();
            let start = window.bytes.len();
            window
                .bytes
                .extend_from_slice(walk.source.bytes(position, header.size)?);
            window.batches.push(Placed {
                position,
                header,
                range: start..window.bytes.len(),
                is_last: walk.position() >= segment.size(),
            });
        }
        self.walk = Some((segment, walk));
        Ok(Some(window))
    }
}

/// Filters windows, one after the other.
pub(super) struct Worker<'a> {
    pub(super) filter: BatchFilter,
    pub(super) dropping: Dropping<'a>,
}

impl Worker<'_> {
    /// # Errors
    /// Faults in the records of a batch.
    pub(super) fn work(&mut self, window: &mut Window) -> Result<()> {
        self.dropping.go_on_at(window.next_offset);
        for placed in &window.batches {
            let batch = window.bytes.get(placed.range.clone()).unwrap_or_default();
            self.dropping.ends_segment = placed.is_last;
            let filtered = self
                .filter
                .filter(batch, &placed.header, &mut self.dropping, &mut window.kept)
                .map_err(|error| error.shift(placed.position).at(&window.path))?;
            let left = filtered.header_left(&placed.header);
            window.headers.extend(left.cloned());
            window.filtered.push(filtered);
        }
        Ok(())
    }
}
