//! The records of planned ranges, chunk by chunk, across segments and partitions.
//!
//! # Files that go away
//! A broker may roll, compact or delete while we read. A planned file that is gone by the time its turn comes is looked
//! for under its `.deleted` name, then in the folder as it is now: compaction leaves its records in a segment that
//! begins at or below it, retention leaves none. No record is given twice: a partition's offsets only rise.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::io::region::Region;
use crate::log::range::{PartitionRange, SegmentRange};
use crate::segment::batches::Bounds;
use crate::segment::reader::{ReadOptions, SegmentReader, Workspace};
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
    copying: Copying,
    open: Option<SegmentReader>,
    context: Context,
    /// Offsets of the partition at hand below this were given, or are not wanted.
    floor: Offset,
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
            context: Context {
                topic: Arc::clone(&empty),
                partition: 0,
                segment: empty,
            },
            floor: Offset::MIN,
            work: Workspace::default(),
        }
    }

    /// Where the chunk's records are from.
    #[must_use]
    pub const fn context(&self) -> &Context {
        &self.context
    }

    /// Fills the (empty) chunk with records of one segment; false at the end of all ranges.
    ///
    /// # Errors
    /// What reading finds. Reading does not go on behind an error.
    pub fn fill(&mut self) -> Result<bool> {
        loop {
            if let Some(reader) = &mut self.open {
                match reader.fill(&mut self.work) {
                    Ok(true) => return Ok(true),
                    Ok(false) => {
                        self.floor = self.floor.max(reader.next_offset());
                        self.open = None;
                    }
                    Err(e) => {
                        self.open = None;
                        self.ranges.clear();
                        return Err(e);
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

    fn next_segment(&mut self) -> Result<bool> {
        while let Some(range) = self.ranges.front_mut() {
            if range.segments.is_empty() {
                self.ranges.pop_front();
                self.floor = Offset::MIN;
                continue;
            }
            let segment = range.segments.remove(0);
            self.floor = self.floor.max(range.start_offset);
            if segment
                .next_base_offset
                .is_some_and(|next| next <= self.floor)
            {
                continue;
            }
            let wanted = (self.floor, range.end_offset.unwrap_or(Offset::MAX));
            let (segment, source) = match open(&range.folder, &segment, self.copying) {
                Ok(source) => (segment, source),
                Err(Error::Io { source: e, .. }) if e.kind() == ErrorKind::NotFound => {
                    match replacement(&range.folder, &segment, self.floor, self.copying)? {
                        Some(found) => found,
                        None => continue,
                    }
                }
                Err(e) => return Err(e),
            };
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
            };
            self.work.metrics.segments = self.work.metrics.segments.saturating_add(1);
            self.open = Some(SegmentReader::new(
                source,
                bounds,
                segment.start_position,
                wanted,
                self.options,
            ));
            return Ok(true);
        }
        Ok(false)
    }
}

fn open(folder: &Path, segment: &SegmentRange, copying: Copying) -> Result<SegmentSource> {
    let copied = segment.is_active || copying == Copying::Always;
    SegmentSource::open(
        &folder.join(&segment.file_name),
        segment.size,
        copied,
        Access::Records,
    )
}

/// What holds a vanished segment's records now; `None` where retention took them.
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
            match open(&folder, &renamed, copying) {
                Ok(source) => return Ok(Some((segment.clone(), source))),
                Err(Error::Io { source: e, .. }) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
    }
    let bases = segment_bases(folder)?;
    let wanted = segment.base_offset.max(floor);
    let Some((base, name)) = bases.iter().rev().find(|(base, _)| *base <= wanted) else {
        return Ok(None);
    };
    let path = folder.join(name);
    let size = std::fs::metadata(&path).map_err(Error::io(&path))?.len();
    let next_base_offset = bases.iter().map(|(base, _)| *base).find(|next| next > base);
    let found = SegmentRange {
        base_offset: *base,
        file_name: name.clone(),
        size,
        is_active: next_base_offset.is_none(),
        start_position: 0,
        next_base_offset,
    };
    let source = open(folder, &found, copying)?;
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

/// The segments of a folder as it is now, in order.
fn segment_bases(folder: &Path) -> Result<Vec<(Offset, String)>> {
    let mut bases = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(Error::io(folder))? {
        let name = entry.map_err(Error::io(folder))?.file_name();
        let Some(name) = name.to_str() else { continue };
        if let Some(base) = name
            .strip_suffix(".log")
            .and_then(|digits| digits.parse().ok())
        {
            bases.push((base, name.to_owned()));
        }
    }
    bases.sort_unstable();
    Ok(bases)
}
