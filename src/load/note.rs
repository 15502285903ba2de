//! Notes about a loading.

use std::fmt;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::loss::Loss;
use crate::segment::resync::Lost;
use crate::types::{Offset, Position};

/// A noteworthy effect of loading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A segment was checked batch by batch, and its indexes were rebuilt.
    Recovered {
        /// Its base offset.
        base_offset: Offset,
        /// Batches that stay.
        batches: u64,
        /// Bytes cut at the end.
        truncated: u64,
        /// The reason for the cut.
        reason: Option<String>,
    },
    /// A batch has a lower offset after an index entry: Kafka drops the whole segment, including its sound batches.
    Dropped {
        /// Its base offset.
        base_offset: Offset,
        /// Bytes of it.
        size: u64,
        /// The fault and its place.
        reason: String,
    },
    /// A segment was deleted.
    Deleted {
        /// Its base offset.
        base_offset: Offset,
        /// Bytes of its `.log`.
        size: u64,
        /// The reason.
        reason: String,
    },
    /// A segment whose last batch is too far from its base was split.
    Split {
        /// Its base offset.
        base_offset: Offset,
        /// The base offsets of what it became.
        into: Vec<Offset>,
    },
    /// A finished file of compaction or a split replaced its sources.
    Swapped {
        /// The file.
        name: String,
    },
    /// Whole batches are lost.
    Lost(Loss),
    /// The indexes of a segment have no room for all the entries that its batches should have, and the next append goes
    /// to another segment. Kafka does not open such a log.
    IndexFull {
        /// Its base offset.
        base_offset: Offset,
        /// Position of the first batch without an entry; `None` if entries of the files were cut.
        position: Option<Position>,
    },
    /// A batch begins below the end of the one before it. Kafka keeps both, and refuses to read the segment.
    OutOfOrder {
        /// The segment's base offset.
        base_offset: Offset,
        /// Position of the batch.
        position: Position,
        /// Its first offset.
        offset: Offset,
        /// The offset after the batch before it.
        expected: Offset,
    },
    /// Only by salvage: a `.log` was built from the whole batches that were found.
    Salvaged {
        /// The base offset of what it was made of.
        base_offset: Offset,
        /// Batches kept.
        batches: u64,
        /// Bytes left out.
        lost: u64,
    },
    /// Only by salvage: bytes of a `.log` that give no kept batch.
    LeftOut {
        /// The file.
        name: String,
        /// Bytes and offsets that were left out, and the reason.
        lost: Lost,
    },
    /// Only by salvage: a file that keeps Kafka from loading the log was renamed or removed.
    SetAside {
        /// The file.
        name: String,
        /// The reason.
        reason: String,
    },
}

impl Note {
    const fn kind(&self) -> &'static str {
        match self {
            Self::Recovered { .. } => "recovered",
            Self::Dropped { .. } => "dropped",
            Self::Deleted { .. } => "deleted",
            Self::Split { .. } => "split",
            Self::Swapped { .. } => "swapped",
            Self::Lost(_) => "lost",
            Self::Salvaged { .. } => "salvaged",
            Self::LeftOut { .. } => "left out",
            Self::SetAside { .. } => "set aside",
            Self::IndexFull { .. } => "index full",
            Self::OutOfOrder { .. } => "out of order",
        }
    }
}

/// Its kind and its text.
impl Serialize for Note {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut note = to.serialize_struct("Note", 2)?;
        note.serialize_field("kind", self.kind())?;
        note.serialize_field("text", &self.to_string())?;
        note.end()
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recovered {
                base_offset,
                batches,
                truncated,
                reason,
            } => {
                write!(
                    f,
                    "segment {base_offset}: {batches} batches checked, indexes rebuilt"
                )?;
                match reason {
                    Some(reason) => write!(f, ", {truncated} bytes cut: {reason}"),
                    None => Ok(()),
                }
            }
            Self::Dropped {
                base_offset,
                size,
                reason,
            } => write!(
                f,
                "segment {base_offset}: all {size} bytes dropped: {reason}"
            ),
            Self::Deleted {
                base_offset,
                size,
                reason,
            } => write!(f, "segment {base_offset}: deleted, {size} bytes: {reason}"),
            Self::Split { base_offset, into } => {
                write!(
                    f,
                    "segment {base_offset}: split into {into:?}, as its offsets reach too far"
                )
            }
            Self::Swapped { name } => {
                write!(
                    f,
                    "{name}: what compaction or a split had finished took its place"
                )
            }
            Self::Lost(loss) => loss.fmt(f),
            Self::OutOfOrder {
                base_offset,
                position,
                offset,
                expected,
            } => write!(
                f,
                "segment {base_offset}: the batch at byte {position} begins at offset {offset}, below {expected}, where \
                 the one before it ends; Kafka keeps both, and reading refuses them; salvage would leave out as few \
                 batches as restore the order, and on_corrupt=\"skip\" reads the others"
            ),
            Self::IndexFull {
                base_offset,
                position,
            } => {
                write!(
                    f,
                    "segment {base_offset}: segment.index.bytes is too small for its index entries, "
                )?;
                match position {
                    Some(at) => write!(f, "batches from byte {at} on have none"),
                    None => write!(f, "the last of them were cut"),
                }
            }
            Self::Salvaged {
                base_offset,
                batches,
                lost,
            } => write!(
                f,
                "segment {base_offset}: {batches} batches kept, {lost} bytes left out that are no whole batch in order"
            ),
            Self::LeftOut { name, lost } => write!(
                f,
                "{name}: bytes {} to {} left out: {}",
                lost.position, lost.end, lost.reason
            ),
            Self::SetAside { name, reason } => write!(f, "{name}: set aside: {reason}"),
        }
    }
}
