//! The records of planned ranges, chunk by chunk, across segments and partitions.
//!
//! # Files that go away
//! A broker may roll, compact or delete while we read. A planned file that is gone by the time its turn comes, or that
//! has another length than the closed one that was planned, was exchanged. It is looked for under its `.deleted` name,
//! then in the folder as it is now: compaction leaves its records in a segment that begins at or below it, retention
//! leaves none. Of what stands in for a planned segment only the offsets of that segment are given, so that no record
//! is given twice, here or by another thread or task that reads the segments behind.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::io::region::Region;
use crate::log::range::{PartitionRange, SegmentRange};
use crate::segment::batches::Bounds;
use crate::segment::filter::{RecordFilter, TimestampBounds};
use crate::segment::reader::{Metrics, ReadOptions, SegmentReader, Workspace};
use crate::segment::source::{Access, Copying, SegmentSource};
use crate::types::Offset;

/// Where the records of a chunk are from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
    /// The segment's file name.
    pub segment: Arc<str>,
}

/// Reads planned ranges in order.
#[derive(Debug)]
pub struct LogReader {
    ranges: VecDeque<PartitionRange>,
    options: ReadOptions,
    /// Which of the segments to come are read by copy.
    pub copying: Copying,
    open: Option<SegmentReader>,
    /// The source that was read last: the next range is often a piece of the same file.
    last: Option<SegmentSource>,
    context: Context,
    /// What was wrong behind the chunk's records.
    failed: Option<Error>,
    /// Offsets of the partition at hand below this were given, or are not wanted.
    floor: Offset,
    /// The open segment gives nothing at or above this.
    ceiling: Offset,
    timestamps: TimestampBounds,
    /// Memory and counts; the chunk in it is what [`LogReader::fill`] filled.
    pub work: Workspace,
}

impl LogReader {
    /// Will read `ranges` one after the other.
    #[must_use]
    pub fn new(ranges: Vec<PartitionRange>, options: ReadOptions, copying: Copying) -> Self {
        let empty: Arc<str> = Arc::from("");
        Self {
            ranges: ranges.into(),
            options,
            copying,
            open: None,
            last: None,
            context: Context {
                topic: Arc::clone(&empty),
                partition: 0,
                segment: empty,
            },
            failed: None,
            floor: Offset::MIN,
            ceiling: Offset::MAX,
            timestamps: TimestampBounds::default(),
            work: Workspace::default(),
        }
    }

    /// Will read other ranges, in the memory it has; counts begin anew.
    pub fn restart(&mut self, ranges: Vec<PartitionRange>) {
        self.ranges = ranges.into();
        if let Some(reader) = self.open.take() {
            self.last = Some(reader.into_source());
        }
        self.failed = None;
        self.floor = Offset::MIN;
        self.work.chunk.clear();
        self.work.arena.clear();
        self.work.given.clear();
        self.work.metrics = Metrics::default();
    }

    /// Where the chunk's records are from.
    #[must_use]
    pub const fn context(&self) -> &Context {
        &self.context
    }

    /// Fills the (empty) chunk with records of one segment; false at the end of all ranges. It stays empty where all of
    /// them were outside the bounds of time.
    ///
    /// # Errors
    /// What reading finds, behind the records before it. Reading does not go on behind an error.
    pub fn fill(&mut self) -> Result<bool> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        loop {
            if let Some(reader) = &mut self.open {
                match reader.fill(&mut self.work) {
                    Ok(true) => {
                        self.leave_out();
                        return Ok(true);
                    }
                    Ok(false) => {
                        let behind = reader.next_offset().min(self.ceiling);
                        self.floor = self.floor.max(behind);
                        self.last = self.open.take().map(SegmentReader::into_source);
                    }
                    Err(e) => {
                        self.open = None;
                        self.ranges.clear();
                        if self.work.chunk.is_empty() {
                            return Err(e);
                        }
                        self.failed = Some(e);
                        self.leave_out();
                        return Ok(true);
                    }
                }
            }
            if !self.next_segment()? {
                return Ok(false);
            }
        }
    }

    /// Makes a region of the decompressed records so far; the chunk and the batch in progress lie in it from now on.
    pub fn freeze(&mut self) -> Region {
        let region = self.work.arena.freeze();
        self.work.chunk.frozen(&region);
        if let Some(reader) = &mut self.open {
            reader.frozen(&region);
        }
        region
    }

    /// Takes the records outside the bounds of time out of the chunk.
    #[inline]
    fn leave_out(&mut self) {
        let bounds = self.timestamps;
        if bounds.are_open() {
            return;
        }
        let chunk = &mut self.work.chunk;
        let gone = chunk.retain(|slot| bounds.contain(slot.timestamp));
        let total = &mut self.work.metrics.records_skipped;
        *total = total.saturating_add(gone as u64);
    }

    fn next_segment(&mut self) -> Result<bool> {
        while let Some(range) = self.ranges.front_mut() {
            if range.segments.is_empty() {
                self.ranges.pop_front();
                self.floor = Offset::MIN;
                self.work.given.clear();
                continue;
            }
            let segment = range.segments.remove(0);
            self.floor = self.floor.max(range.start_offset);
            if segment.ceiling().is_some_and(|next| next <= self.floor) {
                continue;
            }
            let end = range.end_offset.unwrap_or(Offset::MAX);
            let planned = open_planned(&range.folder, &segment, self.copying, &mut self.last)?;
            let (segment, source, ceiling) = if let Some(source) = planned {
                (segment, source, Offset::MAX)
            } else if let Some((found, source)) =
                replacement(&range.folder, &segment, self.floor, self.copying)?
            {
                self.floor = self.floor.max(segment.start_offset);
                let ceiling = segment.ceiling().unwrap_or(Offset::MAX);
                (found, source, ceiling)
            } else {
                let lost = &mut self.work.metrics.segments_lost;
                *lost = lost.saturating_add(1);
                continue;
            };
            self.ceiling = ceiling;
            self.timestamps = range.timestamps;
            let filter = RecordFilter {
                aborted: segment.aborted.clone(),
                timestamps: range.timestamps,
            };
            let wanted = (self.floor, end.min(ceiling));
            self.context = Context {
                topic: if *self.context.topic == *range.topic {
                    Arc::clone(&self.context.topic)
                } else {
                    range.topic.as_str().into()
                },
                partition: range.partition,
                segment: segment.file_name.as_str().into(),
            };
            let bounds = Bounds {
                base_offset: segment.base_offset,
                next_base_offset: segment.next_base_offset,
                is_active: segment.is_active,
                end: segment.end.map(|cut| cut.position),
            };
            self.work.metrics.segments = self.work.metrics.segments.saturating_add(1);
            self.open = Some(SegmentReader::new(
                source,
                bounds,
                segment.start_position,
                wanted,
                self.options,
                filter,
            ));
            return Ok(true);
        }
        Ok(false)
    }
}

/// Opens a file; the last one is given back where it is the same.
fn open(
    folder: &Path,
    segment: &SegmentRange,
    copying: Copying,
    last: &mut Option<SegmentSource>,
) -> Result<SegmentSource> {
    let copied = segment.is_active || copying == Copying::Always;
    let path = folder.join(&segment.file_name);
    if let Some(same) = last.take()
        && same.is_same(&path, segment.size, copied)
    {
        return Ok(same);
    }
    SegmentSource::open(&path, segment.size, copied, Access::Records)
}

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

/// The file that was planned; `None` where it is gone or another one has its name.
fn open_planned(
    folder: &Path,
    segment: &SegmentRange,
    copying: Copying,
    last: &mut Option<SegmentSource>,
) -> Result<Option<SegmentSource>> {
    let source = match open(folder, segment, copying, last) {
        Ok(source) => source,
        Err(e) if is_gone(&e) => return Ok(None),
        Err(e) => return Err(e),
    };
    // Asked behind the opening: whatever was exchanged before it shows.
    let same = segment.is_active
        || std::fs::metadata(folder.join(&segment.file_name))
            .is_ok_and(|now| now.len() == segment.size);
    Ok(same.then_some(source))
}

/// How often a folder is listed again while the broker exchanges segments in it, and how long it is left alone before.
const LISTINGS: usize = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// What holds an exchanged segment's records now; `None` where retention took them.
fn replacement(
    folder: &Path,
    segment: &SegmentRange,
    floor: Offset,
    copying: Copying,
) -> Result<Option<(SegmentRange, SegmentSource)>> {
    let deleted = format!("{}.deleted", segment.file_name);
    for folder in [folder.to_path_buf()]
        .into_iter()
        .chain(deleted_folder(folder))
    {
        for name in [&segment.file_name, &deleted] {
            let renamed = SegmentRange {
                file_name: name.clone(),
                ..segment.clone()
            };
            if let Some(source) = open_planned(&folder, &renamed, copying, &mut None)? {
                return Ok(Some((segment.clone(), source)));
            }
        }
    }
    let wanted = segment.start_offset.max(floor);
    let stand_in = |logs: &[_]| {
        let found = stand_in(folder, logs, wanted, copying)?;
        // Transactions stay as they were planned.
        Ok(found.map(|(mut found, source)| {
            found.aborted.clone_from(&segment.aborted);
            (found, source)
        }))
    };
    let mut now = Listing::read(folder)?;
    for _ in 0..LISTINGS {
        let found = stand_in(&now.logs);
        // Opened between two equal listings, neither in the middle of an exchange: file and neighbours belong together.
        let again = Listing::read(folder)?;
        if again.is_settled() && again.agrees(&now) && !found.as_ref().is_err_and(is_gone) {
            return found;
        }
        std::thread::sleep(PAUSE);
        now = again;
    }
    stand_in(&now.logs)
}

/// The segment among `logs` that would hold `wanted`.
fn stand_in(
    folder: &Path,
    logs: &[(Offset, String, u64)],
    wanted: Offset,
    copying: Copying,
) -> Result<Option<(SegmentRange, SegmentSource)>> {
    let Some((base, name, size)) = logs.iter().rev().find(|(base, ..)| *base <= wanted) else {
        return Ok(None);
    };
    let next_base_offset = logs.iter().map(|(base, ..)| *base).find(|next| next > base);
    let found = SegmentRange {
        base_offset: *base,
        file_name: name.clone(),
        size: *size,
        is_active: next_base_offset.is_none(),
        start_position: 0,
        next_base_offset,
        aborted: None,
        start_offset: *base,
        end: None,
    };
    let source = open(folder, &found, copying, &mut None)?;
    Ok(Some((found, source)))
}

/// The folder under the name a broker gave it when its topic was deleted.
fn deleted_folder(folder: &Path) -> Option<PathBuf> {
    if folder.exists() {
        return None;
    }
    let name = format!("{}.", folder.file_name()?.to_str()?);
    std::fs::read_dir(folder.parent()?)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            path.file_name()
                .and_then(|n| n.to_str())
                .is_some_and(|n| n.starts_with(&name) && n.ends_with("-delete"))
        })
}

/// The segments of a folder as it is now.
#[derive(Debug, Default)]
struct Listing {
    /// Base offset, name and length, in order.
    logs: Vec<(Offset, String, u64)>,
    /// Whether a `.swap` waits for its last renaming.
    exchanging: bool,
}

impl Listing {
    fn read(folder: &Path) -> Result<Self> {
        let mut found = Self::default();
        for entry in std::fs::read_dir(folder).map_err(Error::io(folder))? {
            let entry = entry.map_err(Error::io(folder))?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name.ends_with(".log.swap") {
                found.exchanging = true;
            }
            let Some(base) = name.strip_suffix(".log").and_then(|base| base.parse().ok()) else {
                continue;
            };
            match entry.metadata() {
                Ok(stat) => found.logs.push((base, name.to_owned(), stat.len())),
                // Renamed or unlinked since.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io(entry.path())(e)),
            }
        }
        found.logs.sort_unstable();
        Ok(found)
    }

    const fn is_settled(&self) -> bool {
        !self.exchanging
    }

    /// Whether nothing was exchanged between two listings; the last segment may have grown.
    fn agrees(&self, before: &Self) -> bool {
        let closed = |l: &Self| l.logs.len().saturating_sub(1);
        closed(self) == closed(before)
            && self
                .logs
                .iter()
                .take(closed(self))
                .eq(before.logs.iter().take(closed(before)))
            && self.logs.last().map(|l| l.0) == before.logs.last().map(|l| l.0)
    }
}
