//! A `.log` of the result that took the place of another one: a leftover of compaction or a split.

use super::walk_all;
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::file_name::{FileKind, FileName, FileState, leading_offset};
use crate::io::overlay::Overlay;
use crate::io::overlay::content::ByteSource;
use crate::io::storage::ReadFolder as _;
use crate::segment::resync::{Resync, ResyncItem};
use crate::types::Offset;

/// Identity of a batch: offsets and checksum.
type BatchKey = (Offset, Offset, u32);

fn identity(header: &BatchHeader) -> BatchKey {
    (header.base_offset, header.last_offset(), header.crc)
}

/// A live `.log` after loading.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) name: String,
    pub(super) base_offset: Offset,
    length: u64,
    /// The file that has its bytes, by its name before loading.
    pub(super) source: String,
}

impl Live {
    /// Those of a folder whose bytes stay where they are, by base offset.
    pub(super) fn all(folder: &Overlay) -> Vec<Self> {
        let files = folder.files().into_iter();
        let live = files.filter_map(|(name, content)| {
            let parsed = FileName::parse(&name)?;
            let ByteSource::Base { name: source, .. } = content.source() else {
                return None;
            };
            let is_live = (parsed.kind, parsed.state) == (FileKind::Log, FileState::Live);
            is_live.then(|| Self {
                base_offset: parsed.offset,
                length: content.length(),
                source: source.to_string(),
                name,
            })
        });
        live.collect()
    }

    /// Returns whether it was a leftover.
    pub(super) fn is_swap(&self) -> bool {
        is_swap(&self.source)
    }

    /// Its batches.
    pub(super) fn walk(&self, folder: &Overlay) -> Result<Resync> {
        walk_all(folder.open(&self.name)?, self.length, self.base_offset)
    }
}

fn is_swap(name: &str) -> bool {
    name.ends_with(FileState::Swap.suffix())
}

/// A live `.log` whose batches are compared with those of a file that it replaces.
pub(super) struct Replacement {
    source: String,
    walk: Resync,
    /// The batch that the walk has come to.
    at: Option<BatchKey>,
}

impl Replacement {
    /// The `.log` whose batches are compared.
    pub(super) fn by(live: &Live, folder: &Overlay) -> Result<Self> {
        Ok(Self {
            source: live.source.clone(),
            walk: live.walk(folder)?,
            at: None,
        })
    }

    /// Finds the file that takes the place of this one in a folder after loading, if one of the two is a leftover.
    pub(super) fn of(folder: &Overlay, name: &str) -> Result<Option<Self>> {
        let base = leading_offset(name).unwrap_or_default();
        let live = Live::all(folder).into_iter().rfind(|live| {
            live.source != name && (live.is_swap() || is_swap(name)) && live.base_offset <= base
        });
        live.map(|live| Self::by(&live, folder)).transpose()
    }

    /// The name that the file had.
    pub(super) fn name(&self) -> &str {
        &self.source
    }

    /// Returns whether it holds this batch, too; to be asked batch by batch, in the order of offsets.
    pub(super) fn holds(&mut self, header: &BatchHeader) -> Result<bool> {
        let wanted = identity(header);
        while self.at.is_none_or(|at| at < wanted) {
            match self.walk.next_step()? {
                Some(ResyncItem::Batch(_, header)) => self.at = Some(identity(&header)),
                Some(ResyncItem::Lost(_)) => {}
                None => return Ok(false),
            }
        }
        Ok(self.at == Some(wanted))
    }
}
