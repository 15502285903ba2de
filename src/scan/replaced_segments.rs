//! Replacement for a planned segment's file that a broker exchanged meanwhile.
//!
//! A broker may roll, compact or delete while we read. A planned file was exchanged if it is missing when it is opened,
//! or has another length than the planned closed file. It is searched under its `.deleted` name, then in the current
//! folder: compaction leaves its records in a segment that begins at or below it, retention leaves none.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::file_name::FileState;
use crate::io::interrupt;
use crate::io::mapping::ClosedName;
use crate::io::storage::{Folder, ReadFolder};
use crate::log::listing::Listing;
use crate::scan::range::SegmentRange;
use crate::segment::source::{Access, MapPolicy, SegmentSource};
use crate::types::Offset;

/// Options for opening the files of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// Segments that are mapped.
    pub map_policy: MapPolicy,
    /// Part of the files that is read.
    pub access: Access,
}

impl Opening {
    /// Opens a file; the last one is given back where it is the same.
    fn open(
        self,
        folder: &dyn ReadFolder,
        segment: &SegmentRange,
        last: &mut Option<SegmentSource>,
    ) -> Result<SegmentSource> {
        let (name, size) = (&segment.file_name, segment.size);
        let may_map = !segment.is_active && self.map_policy != MapPolicy::Never;
        let closed = || ClosedName::of(folder, name, segment.next_base_offset);
        let closed = may_map.then(closed).flatten();
        let keeps_none = self.map_policy == MapPolicy::Never;
        if let Some(mut same) = last.take()
            && same.is_same(&folder.path_of(name), size, closed.is_none())
        {
            same.set_sharing(keeps_none);
            return Ok(same);
        }
        match (closed, segment.map.get()) {
            (None, _) => {
                interrupt::check()?;
                let file = folder.open_planned(name, size, segment.version.as_deref())?;
                let mut source = SegmentSource::over(file, size, self.access)?;
                source.set_sharing(keeps_none);
                Ok(source)
            }
            (Some(closed), Some(map)) => {
                SegmentSource::over_map(&closed.path(), Arc::clone(map), size, self.access)
            }
            (Some(closed), None) => SegmentSource::map(closed, size, self.access),
        }
    }
}

fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

/// The file that was planned; `None` where it is gone or another one has its name.
pub(super) fn open_planned(
    folder: &dyn ReadFolder,
    segment: &SegmentRange,
    opening: Opening,
    last: &mut Option<SegmentSource>,
) -> Result<Option<SegmentSource>> {
    let source = match opening.open(folder, segment, last) {
        Ok(source) => source,
        Err(e) if is_gone(&e) => return Ok(None),
        Err(e) => return Err(e),
    };
    // Asked after the opening: whatever was exchanged before it shows. Of a swap only the beginning may count.
    let is_swap = segment.file_name.ends_with(FileState::Swap.suffix());
    // An object's version is compared with each read instead.
    let same = segment.is_active
        || !folder.has_maps()
        || folder
            .stat(&segment.file_name)
            .is_ok_and(|now| now.length == segment.size || (is_swap && now.length > segment.size));
    Ok(same.then_some(source))
}

/// Finds the files that now hold an exchanged segment's records; `None` if retention deleted them.
pub(super) fn replacement(
    folder: &Folder,
    segment: &SegmentRange,
    floor: Offset,
    opening: Opening,
) -> Result<Option<(SegmentRange, SegmentSource)>> {
    let deleted = format!("{}.deleted", segment.file_name);
    for folder in [folder.clone()].into_iter().chain(deleted_folder(folder)) {
        for name in [&segment.file_name, &deleted] {
            let renamed = SegmentRange {
                file_name: name.clone(),
                ..segment.clone()
            };
            if let Some(source) = open_planned(&*folder, &renamed, opening, &mut None)? {
                return Ok(Some((segment.clone(), source)));
            }
        }
    }
    let wanted = segment.start_offset.max(floor);
    Listing::with_fresh_listing(&**folder, is_gone, |listing| {
        let found = stand_in(&**folder, listing, wanted, opening)?;
        // Transactions stay as they were planned.
        Ok(found.map(|(mut found, source)| {
            found.aborted.clone_from(&segment.aborted);
            (found, source)
        }))
    })
}

/// The listed segment that would hold `wanted`.
fn stand_in(
    folder: &dyn ReadFolder,
    listing: &Listing,
    wanted: Offset,
    opening: Opening,
) -> Result<Option<(SegmentRange, SegmentSource)>> {
    let Some((name, size)) = listing.live().rfind(|(name, _)| name.offset <= wanted) else {
        return Ok(None);
    };
    let mut offsets = listing.live().map(|(name, _)| name.offset);
    let next_base_offset = offsets.find(|&next| next > name.offset);
    let found = SegmentRange {
        file_name: name.to_string(),
        is_active: next_base_offset.is_none(),
        ..SegmentRange::whole(name.offset, size, next_base_offset)
    };
    let source = opening.open(folder, &found, &mut None)?;
    Ok(Some((found, source)))
}

/// The folder under the name a broker gave it when its topic was deleted.
fn deleted_folder(folder: &Folder) -> Option<Folder> {
    if folder.is_folder().is_ok() {
        return None;
    }
    let name = format!("{}.", folder.path().file_name()?.to_str()?);
    let above = folder.above();
    let mut entries = above.entries().ok()?.flatten();
    entries.find_map(|entry| {
        let renamed = entry.name()?;
        (renamed.starts_with(&name) && renamed.ends_with("-delete")).then(|| above.folder(renamed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Views point into maps, so that a closed segment has to be mapped; a plan that takes the last one for closed is
    /// not believed.
    #[test]
    fn only_a_segment_before_another_one_is_mapped() {
        let folder = tempfile::tempdir().unwrap();
        for base in [0, 7] {
            std::fs::write(folder.path().join(format!("{base:020}.log")), [1; 100]).unwrap();
        }
        let planned = |base_offset, next| SegmentRange::whole(base_offset, 100, next);
        let is_copied = |segment: &SegmentRange, map_policy| {
            let opening = Opening {
                map_policy,
                access: Access::Records,
            };
            let source =
                open_planned(&*Folder::at(folder.path()), segment, opening, &mut None).unwrap();
            source.unwrap().is_copied()
        };
        let first = planned(0, Some(7));
        assert!(!is_copied(&first, MapPolicy::ClosedOnly) && is_copied(&first, MapPolicy::Never));
        let active = SegmentRange {
            is_active: true,
            ..first
        };
        assert!(is_copied(&active, MapPolicy::ClosedOnly));
        assert!(is_copied(&planned(0, Some(8)), MapPolicy::ClosedOnly));
        assert!(is_copied(&planned(7, None), MapPolicy::ClosedOnly));
        assert!(is_copied(&planned(7, Some(9)), MapPolicy::ClosedOnly));
    }
}
