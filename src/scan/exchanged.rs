//! What became of a planned segment's file that a broker exchanged meanwhile.
//!
//! A broker may roll, compact or delete while we read. A planned file that is gone by the time its turn comes, or that
//! has another length than the closed one that was planned, was exchanged. It is looked for under its `.deleted` name,
//! then in the folder as it is now: compaction leaves its records in a segment that begins at or below it, retention
//! leaves none.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::scan::range::SegmentRange;
use crate::segment::source::{Access, Copying, SegmentSource};
use crate::types::Offset;

/// How the files of segments are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Which are read by copy.
    pub copying: Copying,
    /// What of them.
    pub access: Access,
}

impl Opening {
    /// Opens a file; the last one is given back where it is the same.
    fn open(
        self,
        folder: &Path,
        segment: &SegmentRange,
        last: &mut Option<SegmentSource>,
    ) -> Result<SegmentSource> {
        let copied = segment.is_active || self.copying == Copying::Always;
        let path = folder.join(&segment.file_name);
        if let Some(same) = last.take()
            && same.is_same(&path, segment.size, copied)
        {
            return Ok(same);
        }
        SegmentSource::open(&path, segment.size, copied, self.access)
    }
}

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

/// The file that was planned; `None` where it is gone or another one has its name.
pub(super) fn open_planned(
    folder: &Path,
    segment: &SegmentRange,
    opening: Opening,
    last: &mut Option<SegmentSource>,
) -> Result<Option<SegmentSource>> {
    let source = match opening.open(folder, segment, last) {
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
pub(super) fn replacement(
    folder: &Path,
    segment: &SegmentRange,
    floor: Offset,
    opening: Opening,
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
            if let Some(source) = open_planned(&folder, &renamed, opening, &mut None)? {
                return Ok(Some((segment.clone(), source)));
            }
        }
    }
    let wanted = segment.start_offset.max(floor);
    let stand_in = |logs: &[_]| {
        let found = stand_in(folder, logs, wanted, opening)?;
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
    opening: Opening,
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
    let source = opening.open(folder, &found, &mut None)?;
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
