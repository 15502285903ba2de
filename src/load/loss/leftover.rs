//! A file that came in the place of another: what compaction or a split left behind.

use std::sync::Arc;

use super::walk;
use crate::compress::{DecodeLimit, Decompressor};
use crate::error::Result;
use crate::format::batch::BatchHeader;
use crate::format::file_name::{FileKind, FileName, FileState, leading_offset};
use crate::io::overlay::Overlay;
use crate::io::overlay::content::Source;
use crate::io::storage::{ReadFile, ReadFolder as _};
use crate::records::block::Payload;
use crate::records::{RecordSlot, plain};
use crate::segment::resync::{Resync, Step};
use crate::segment::source::{Access, SegmentSource};
use crate::types::{Offset, Position};

/// A record's offset, key and value.
type Row = (Offset, Option<Vec<u8>>, Option<Vec<u8>>);

/// A live `.log` of the result that has the place of a file, walked beside it.
pub(super) struct Replacement {
    /// The file that it was before.
    name: String,
    file: Arc<dyn ReadFile>,
    walk: Resync,
    /// The batch that the walk has come to.
    at: Option<(Position, BatchHeader)>,
    /// The offset after its last batch; 0 where any of its bytes is no whole batch.
    end: Offset,
}

impl Replacement {
    /// What has the place of this file in a folder after loading, where that is another file.
    pub(super) fn of(folder: &Overlay, name: &str) -> Result<Option<Self>> {
        let is_swap = |name: &str| name.ends_with(FileState::Swap.suffix());
        let base = leading_offset(name).unwrap_or_default();
        let mut found = None;
        for (live, content) in folder.files() {
            let Some(parsed) = FileName::parse(&live) else {
                continue;
            };
            let Source::Base { name: source, .. } = content.source() else {
                continue;
            };
            let is_live = (parsed.kind, parsed.state) == (FileKind::Log, FileState::Live);
            let is_exchanged = **source != *name && (is_swap(source) || is_swap(name));
            if is_live && is_exchanged && parsed.offset <= base {
                found = Some((live, source.to_string(), content.length(), parsed.offset));
            }
        }
        let Some((live, name, length, base)) = found else {
            return Ok(None);
        };
        let file = folder.open(&live)?;
        let mut end = 0;
        let mut all = walk(Arc::clone(&file), length, base)?;
        while let Some(step) = all.next_step()? {
            match step {
                Step::Batch(_, header) => end = header.next_offset(),
                Step::Lost(_) => {
                    end = 0;
                    break;
                }
            }
        }
        let walk = walk(Arc::clone(&file), length, base)?;
        Ok(Some(Self {
            name,
            file,
            walk,
            at: None,
            end,
        }))
    }

    /// The name that the file had.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the replacement may have the place of a batch of the file: it is whole, reaches behind the batch, and all
    /// records that it has of these offsets are the batch's. To be asked batch by batch, in the order of offsets.
    pub(super) fn stands_for(
        &mut self,
        original: &Arc<dyn ReadFile>,
        position: Position,
        header: &BatchHeader,
    ) -> Result<bool> {
        if header.last_offset() >= self.end {
            return Ok(false);
        }
        let mut rows = None;
        loop {
            if self.at.is_none() {
                self.at = self.next_batch()?;
            }
            let Some((at, found)) = &self.at else {
                return Ok(true);
            };
            if found.base_offset > header.last_offset() {
                return Ok(true);
            }
            let is_equal = (found.base_offset, found.last_offset(), found.crc)
                == (header.base_offset, header.last_offset(), header.crc);
            if !is_equal && found.last_offset() >= header.base_offset {
                if rows.is_none() {
                    rows = Some(rows_of(original, position, header)?);
                }
                let its = rows_of(&self.file, *at, found)?;
                let (Some(Some(mine)), Some(its)) = (&rows, its) else {
                    return Ok(false);
                };
                let offsets = header.base_offset..header.next_offset();
                let mut common = its.iter().filter(|row| offsets.contains(&row.0));
                // Offsets rise in a batch.
                let is_mine = |row: &Row| {
                    let at = mine.binary_search_by_key(&row.0, |row| row.0);
                    at.is_ok_and(|at| mine.get(at) == Some(row))
                };
                if !common.all(is_mine) {
                    return Ok(false);
                }
            }
            if found.last_offset() > header.last_offset() {
                return Ok(true);
            }
            self.at = None;
        }
    }

    fn next_batch(&mut self) -> Result<Option<(Position, BatchHeader)>> {
        while let Some(step) = self.walk.next_step()? {
            if let Step::Batch(position, header) = step {
                return Ok(Some((position, header)));
            }
        }
        Ok(None)
    }
}

/// The records of a whole batch; `None` where they cannot be decoded.
fn rows_of(
    file: &Arc<dyn ReadFile>,
    position: Position,
    header: &BatchHeader,
) -> Result<Option<Vec<Row>>> {
    let end = position.saturating_add(header.size as u64);
    let mut source = SegmentSource::over(Arc::clone(file), end, Access::Records)?;
    let batch = source.bytes(position, header.size)?;
    // The header as it lies in the file: of a wrapper, the walk's names its first offset.
    let Ok(Some(header)) = BatchHeader::parse(batch) else {
        return Ok(None);
    };
    let (mut decompressor, mut arena) = (Decompressor::default(), Vec::new());
    let (limit, mut slots) = (DecodeLimit::default(), Vec::<RecordSlot>::new());
    let payload = plain::batch(
        batch,
        0,
        &header,
        &mut decompressor,
        &mut arena,
        limit,
        &mut slots,
    );
    let bytes = match payload {
        Ok(Payload::Source) => batch,
        Ok(Payload::Arena) => arena.as_slice(),
        Err(error) if error.as_fault().is_some() => return Ok(None),
        Err(error) => return Err(error),
    };
    let row = |slot: &RecordSlot| {
        let owned = |part: Option<&[u8]>| part.map(<[u8]>::to_vec);
        (
            slot.offset,
            owned(slot.key(bytes)),
            owned(slot.value(bytes)),
        )
    };
    Ok(Some(slots.iter().map(row).collect()))
}
