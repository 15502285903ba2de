//! Rebuilt indexes that a plan does not keep, and how they are built again.

use std::path::PathBuf;
use std::sync::Arc;

use super::segments::PlannedSegment;
use crate::error::Result;
use crate::format::file_name::{FileKind, FileState};
use crate::io::overlay::Overlay;
use crate::io::overlay::content::{ByteSource, Content, Origins, Rebuild};
use crate::segment::batches::Batches;
use crate::segment::source::Access;
use crate::segment::writer::{RecoveryFailure, SegmentSettings};
use crate::types::{NO_TIMESTAMP, Offset};

/// Rebuilt indexes of a plan that are kept; those beyond are built again when they are written.
const MAX_KEPT_INDEXES: u64 = 64 << 20;

/// An index of a `.log` whose batches are all valid.
#[derive(Debug)]
struct RebuiltIndex {
    log: Content,
    base_offset: Offset,
    settings: SegmentSettings,
    kind: FileKind,
}

impl Rebuild for RebuiltIndex {
    fn bytes(&self, origins: &Origins) -> Result<Vec<u8>> {
        let log = self.log.open(origins, PathBuf::new())?;
        let mut batches = Batches::of_file(log, 0, self.log.length(), Access::Headers)?;
        let scratch = Overlay::empty(origins.clone());
        let name = (self.base_offset, FileState::Live);
        let mut segment = PlannedSegment::open_as(&scratch, name, self.settings, NO_TIMESTAMP)?;
        let filled = segment.fill(&mut batches, |_, _| Ok(()));
        filled.map_err(RecoveryFailure::into_error)?;
        scratch.read(&segment.name(self.kind), u64::MAX)
    }
}

/// Lets the rebuilt indexes of a segment go where the plan holds too many.
pub(super) fn forget_indexes(folder: &Overlay, segment: &PlannedSegment) {
    let Some(log) = folder.get(&segment.name(FileKind::Log)) else {
        return;
    };
    // What salvage put together is gone from its old place when the indexes are written.
    let is_whole_file = matches!(log.source(), ByteSource::Base { .. });
    if folder.kept_bytes() <= MAX_KEPT_INDEXES || !is_whole_file {
        return;
    }
    for kind in [FileKind::OffsetIndex, FileKind::TimeIndex] {
        let name = segment.name(kind);
        let how = Arc::new(RebuiltIndex {
            log: log.clone(),
            base_offset: segment.base_offset(),
            settings: segment.settings(),
            kind,
        });
        folder.replace(&name, Content::rebuilt(how, folder.length(&name)));
    }
}
